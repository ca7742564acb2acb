//! Longest-prefix match over IPv4 addresses: a table that is quick to ask and can be changed while it is in use.
//!
//! Addresses are looked up in steps of 16, 8 and 8 bits. The first step is an array of 256 KiB, which stays in the
//! processor's caches; each address block of 16 (or 24) bits in which there are longer prefixes has a page of 256
//! entries, 1 KiB, of its own. So a look-up costs one access to main memory for prefixes of up to 24 bits and two
//! for longer ones, as in DIR-24-8 (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds,
//! INFOCOM 1998), but a small table is small, and a change touches few entries. A full table of the Internet,
//! 900,000 prefixes, takes about 70 MB with the prefixes themselves.
//!
//! Each entry says what the longest prefix of its addresses gives, and how long this prefix is: that is all that is
//! needed to paint a new prefix over shorter ones, and to paint the next shorter one over it when it goes.

use std::collections::{BTreeMap, HashMap};
use std::hint::select_unpredictable;

use packet::prefetch_line;

use crate::IntervalSet;

/// An IPv4 prefix: an address without host bits, and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: u32,
    length: u8,
}

impl Prefix {
    /// The prefix of so many bits (at most 32) that an address lies in.
    pub fn new(address: u32, length: u8) -> Prefix {
        let length = length.min(32);
        Prefix { address: address & mask(length), length }
    }

    /// Its first address.
    pub fn first(self) -> u32 {
        self.address
    }

    /// Its last address.
    pub fn last(self) -> u32 {
        self.address | !mask(self.length)
    }

    /// How many bits it has.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The next shorter prefix that it lies in.
    fn shorter(self) -> Option<Prefix> {
        Some(Prefix::new(self.address, self.length.checked_sub(1)?))
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// What a table keeps of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What looking up an address of the prefix gives; at most [`PrefixTable::MAX_VALUE`].
    pub value: u32,
    /// A number that the table only keeps.
    pub note: u32,
}

/// Prefixes, each with a number.
#[derive(Clone, Debug)]
pub struct PrefixTable {
    /// What there is, for changes.
    prefixes: HashMap<Prefix, Entry>,
    /// The first step's array, and behind it the pages.
    cells: Vec<Cell>,
    /// Per page: prefixes that need it.
    users: Vec<u32>,
    /// Pages to be used again.
    free: Vec<u32>,
    /// What the prefix of length 0 gives: to have it apart spares painting everything.
    default: Option<u32>,
}

/// Bits of the first step, and how many addresses of it there are.
const ROOT: usize = 1 << 16;
/// Entries of a page.
const PAGE: usize = 256;
/// Addresses that are looked up together: so many cache lines can be waited for at once, and no more.
const WINDOW: usize = 32;

/// Nothing (0); or the number of a page, marked by the highest bit; or the length of a prefix, at least 1, above the
/// 25 bits of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell(u32);

impl Cell {
    const NOTHING: Cell = Cell(0);
    const IS_PAGE: u32 = 1 << 31;
    const VALUE_BITS: u32 = 25;

    fn page(page: u32) -> Cell {
        Cell(Cell::IS_PAGE | page)
    }

    fn leaf(prefix: Prefix, value: u32) -> Cell {
        Cell(u32::from(prefix.length) << Cell::VALUE_BITS | value.min(PrefixTable::MAX_VALUE))
    }

    #[inline]
    fn as_page(self) -> Option<usize> {
        (self.0 & Cell::IS_PAGE != 0).then_some((self.0 & !Cell::IS_PAGE) as usize)
    }

    /// The length of the prefix that it is of; 0 where there is none.
    fn length(self) -> u8 {
        (self.0 >> Cell::VALUE_BITS) as u8
    }

    #[inline]
    fn value(self) -> u32 {
        self.0 & PrefixTable::MAX_VALUE
    }
}

impl Default for PrefixTable {
    fn default() -> PrefixTable {
        PrefixTable::new()
    }
}

impl PrefixTable {
    /// The largest number that a prefix can have.
    pub const MAX_VALUE: u32 = (1 << Cell::VALUE_BITS) - 1;

    /// An empty table.
    pub fn new() -> PrefixTable {
        PrefixTable {
            prefixes: HashMap::new(),
            cells: vec![Cell::NOTHING; ROOT],
            users: Vec::new(),
            free: Vec::new(),
            default: None,
        }
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// What there is for exactly this prefix.
    pub fn get(&self, prefix: Prefix) -> Option<Entry> {
        self.prefixes.get(&prefix).copied()
    }

    /// The value of the longest prefix that an address lies in.
    #[inline]
    pub fn lookup(&self, address: u32) -> Option<u32> {
        self.resolve(self.second(address), address)
    }

    /// The same for many addresses, whose waits for memory overlap. The slices belong together element by element;
    /// what is longer than the other is ignored.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[u32], values: &mut [Option<u32>]) {
        for (addresses, values) in addresses.chunks(WINDOW).zip(values.chunks_mut(WINDOW)) {
            let mut places = [0; WINDOW];
            for (&address, place) in addresses.iter().zip(&mut places) {
                *place = self.second(address);
                prefetch_line(self.cells.as_ptr().wrapping_add(*place).cast());
            }
            for ((&address, place), value) in addresses.iter().zip(places).zip(values) {
                *value = self.resolve(place, address);
            }
        }
    }

    /// Where the second step looks: in a page, or once more where the first did. Whether there is a page cannot be
    /// foreseen, so that a branch would often be taken wrongly.
    #[inline]
    fn second(&self, address: u32) -> usize {
        let root = (address >> 16) as usize;
        let Cell(cell) = self.cell(root);
        let paged = ROOT + (cell & !Cell::IS_PAGE) as usize * PAGE + (address >> 8 & 0xff) as usize;
        select_unpredictable(cell & Cell::IS_PAGE != 0, paged, root)
    }

    /// Goes on from there.
    #[inline]
    fn resolve(&self, place: usize, address: u32) -> Option<u32> {
        let mut cell = self.cell(place);
        if let Some(page) = cell.as_page() {
            cell = self.cell(ROOT + page * PAGE + (address & 0xff) as usize);
        }
        if cell == Cell::NOTHING { self.default } else { Some(cell.value()) }
    }

    #[inline]
    fn cell(&self, at: usize) -> Cell {
        self.cells.get(at).copied().unwrap_or(Cell::NOTHING)
    }

    /// Gives a prefix a value, in the place of what it had, which is returned.
    pub fn insert(&mut self, prefix: Prefix, entry: Entry) -> Option<Entry> {
        let before = self.prefixes.insert(prefix, entry);
        if prefix.length == 0 {
            self.default = Some(entry.value);
            return before;
        }
        let pages = self.path(prefix, true);
        if before.is_none() {
            for page in pages.into_iter().flatten() {
                self.users[page] += 1;
            }
        }
        self.paint(prefix, Cell::leaf(prefix, entry.value));
        before
    }

    /// Takes a prefix out; what it had.
    pub fn remove(&mut self, prefix: Prefix) -> Option<Entry> {
        let before = self.prefixes.remove(&prefix)?;
        if prefix.length == 0 {
            self.default = None;
            return Some(before);
        }
        let shorter = std::iter::successors(prefix.shorter(), |p| p.shorter()).filter(|p| p.length > 0);
        let under = shorter.into_iter().find_map(|p| Some(Cell::leaf(p, self.get(p)?.value)));
        self.paint(prefix, under.unwrap_or(Cell::NOTHING));
        let [outer, inner] = self.path(prefix, false);
        // The inner page first: then the outer one has no page left when it goes itself.
        let parent = |outer: usize| ROOT + outer * PAGE + (prefix.address >> 8 & 0xff) as usize;
        self.leave(inner, outer.map_or(0, parent));
        self.leave(outer, (prefix.address >> 16) as usize);
        Some(before)
    }

    /// Takes all prefixes out.
    pub fn clear(&mut self) {
        *self = PrefixTable::new();
    }

    /// The values of all addresses, as intervals that do not overlap, lowest first; neighbours differ. Addresses
    /// that lie in no prefix are left out.
    pub fn intervals(&self) -> Vec<(u32, u32, u32)> {
        let mut found = Vec::new();
        self.sweep(0, ROOT, 16, 0, &mut found);
        found
    }

    /// Adds the intervals of some entries, each of which is for so many bits of addresses, from `first` on.
    fn sweep(&self, start: usize, count: usize, bits: u32, first: u32, found: &mut Vec<(u32, u32, u32)>) {
        let mut first = first;
        for cell in self.cells.iter().skip(start).take(count) {
            let last = first | ((1 << bits) - 1);
            let value = if *cell == Cell::NOTHING { self.default } else { Some(cell.value()) };
            match (cell.as_page(), value) {
                (Some(page), _) => self.sweep(ROOT + page * PAGE, PAGE, bits - 8, first, found),
                (None, None) => {}
                (None, Some(value)) => match found.last_mut() {
                    Some((_, end, same)) if *same == value && end.checked_add(1) == Some(first) => {
                        *end = last
                    }
                    _ => found.push((first, last, value)),
                },
            }
            first = last.wrapping_add(1);
        }
    }

    /// The addresses that give each value, with the value; lowest value first.
    pub fn sets(&self) -> Vec<(u32, IntervalSet)> {
        let mut by_value: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (first, last, value) in self.intervals() {
            by_value.entry(value).or_default().push((first, last));
        }
        let wide = |(first, last)| (u128::from(first), u128::from(last));
        by_value.into_iter().map(|(value, set)| (value, set.into_iter().map(wide).collect())).collect()
    }

    /// The pages that a prefix needs: of the second step and of the third. Makes them where they are to be made.
    fn path(&mut self, prefix: Prefix, make: bool) -> [Option<usize>; 2] {
        let mut pages = [None; 2];
        let steps = [(16, prefix.address >> 16), (24, prefix.address >> 8 & 0xff)];
        let mut start = 0;
        for ((bits, index), found) in steps.into_iter().zip(&mut pages) {
            if prefix.length <= bits {
                break;
            }
            let at = start + index as usize;
            let page = match self.cell(at).as_page() {
                Some(page) => page,
                None if make => self.make_page(at),
                None => break,
            };
            *found = Some(page);
            start = ROOT + page * PAGE;
        }
        pages
    }

    /// Puts a page in the place of a cell; it says the same.
    fn make_page(&mut self, at: usize) -> usize {
        let leaf = self.cells[at];
        let page = match self.free.pop() {
            Some(page) => {
                let start = ROOT + page as usize * PAGE;
                self.cells[start..start + PAGE].fill(leaf);
                page
            }
            None => {
                self.users.push(0);
                self.cells.resize(self.cells.len() + PAGE, leaf);
                self.users.len() as u32 - 1
            }
        };
        self.cells[at] = Cell::page(page);
        page as usize
    }

    /// A prefix needs a page no longer. A page that nobody needs says the same everywhere, and so can the cell.
    fn leave(&mut self, page: Option<usize>, parent: usize) {
        let Some(page) = page else { return };
        self.users[page] -= 1;
        if self.users[page] == 0 {
            self.cells[parent] = self.cells[ROOT + page * PAGE];
            self.free.push(page as u32);
        }
    }

    /// Writes a cell everywhere in a prefix where there is not a longer one.
    fn paint(&mut self, prefix: Prefix, cell: Cell) {
        let (start, bits, index) = match (prefix.length, self.path(prefix, false)) {
            (0..=16, _) => (0, 16, prefix.address >> 16),
            (17..=24, [Some(page), _]) => (ROOT + page * PAGE, 24, prefix.address >> 8 & 0xff),
            (_, [_, Some(page)]) => (ROOT + page * PAGE, 32, prefix.address & 0xff),
            _ => return,
        };
        let count = 1usize << (bits - prefix.length);
        self.paint_cells(start + index as usize, count, prefix.length, cell);
    }

    fn paint_cells(&mut self, start: usize, count: usize, length: u8, cell: Cell) {
        for at in start..start + count {
            match self.cells[at].as_page() {
                Some(page) => self.paint_cells(ROOT + page * PAGE, PAGE, length, cell),
                None if self.cells[at].length() <= length => self.cells[at] = cell,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow way.
    fn scan(prefixes: &[(Prefix, u32)], address: u32) -> Option<u32> {
        let fits = prefixes.iter().filter(|(p, _)| (p.first()..=p.last()).contains(&address));
        fits.max_by_key(|(p, _)| p.length()).map(|&(_, value)| value)
    }

    /// Prefixes that lie in each other often, of every length.
    fn prefix() -> impl Strategy<Value = Prefix> {
        let byte = || prop_oneof![Just(0u8), Just(10), Just(255), any::<u8>()];
        ([byte(), byte(), byte(), byte()], 0u8..=32)
            .prop_map(|(address, length)| Prefix::new(u32::from_be_bytes(address), length))
    }

    fn check(table: &PrefixTable, listed: &[(Prefix, u32)], more: &[u32]) -> Result<(), TestCaseError> {
        let edges = listed.iter().flat_map(|(p, _)| {
            let (first, last) = (p.first(), p.last());
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first / 2 + last / 2]
        });
        let addresses: Vec<u32> = edges.chain(more.iter().copied()).chain([0, u32::MAX]).collect();
        let mut values = vec![None; addresses.len()];
        table.lookup_batch(&addresses, &mut values);
        let intervals = table.intervals();
        for (&address, value) in addresses.iter().zip(values) {
            let expected = scan(listed, address);
            prop_assert_eq!(table.lookup(address), expected, "{:#x}", address);
            prop_assert_eq!(value, expected, "{:#x} in a batch", address);
            let swept = intervals.iter().find(|&&(first, last, _)| (first..=last).contains(&address));
            prop_assert_eq!(swept.map(|i| i.2), expected, "{:#x} in an interval", address);
        }
        let apart =
            intervals.windows(2).all(|w| w[0].1 < w[1].0 && (w[0].2 != w[1].2 || w[0].1 + 1 != w[1].0));
        prop_assert!(apart, "{:?}", intervals);
        Ok(())
    }

    proptest! {
        #[test]
        fn a_linear_scan_finds_the_same(
            changes in prop::collection::vec((prefix(), 0u32..5, any::<bool>()), 0..60),
            addresses in prop::collection::vec(any::<u32>(), 20),
        ) {
            let mut table = PrefixTable::new();
            let mut listed: Vec<(Prefix, u32)> = Vec::new();
            for (number, &(prefix, value, add)) in changes.iter().enumerate() {
                let place = listed.iter().position(|(p, _)| *p == prefix);
                let before = place.map(|place| listed.swap_remove(place).1);
                let found = if add {
                    listed.push((prefix, value));
                    table.insert(prefix, Entry { value, note: number as u32 })
                } else {
                    table.remove(prefix)
                };
                prop_assert_eq!(found.map(|e| e.value), before);
                prop_assert_eq!(table.len(), listed.len());
                check(&table, &listed, &addresses)?;
            }
            // What has come and gone leaves nothing behind.
            for (prefix, _) in listed {
                prop_assert!(table.remove(prefix).is_some());
            }
            prop_assert_eq!(table.free.len(), table.users.len());
            prop_assert!(table.cells[..ROOT].iter().all(|&cell| cell == Cell::NOTHING));
            prop_assert!(table.is_empty() && table.default.is_none());
        }
    }

    #[test]
    fn the_largest_value_is_kept_apart_from_lengths_and_pages() {
        let mut table = PrefixTable::new();
        for length in [0, 1, 16, 17, 24, 25, 32] {
            let entry = Entry { value: PrefixTable::MAX_VALUE - u32::from(length), note: 0 };
            table.insert(Prefix::new(0x0a01_0203, length), entry);
            assert_eq!(table.lookup(0x0a01_0203), Some(entry.value), "{length}");
        }
        assert_eq!(table.lookup(0x8000_0000), Some(PrefixTable::MAX_VALUE));
    }

    #[test]
    fn sets_of_a_value_are_whole() {
        let mut table = PrefixTable::new();
        for (address, length, value) in
            [(0, 0, 7), (0x0a00_0000, 8, 3), (0x0a80_0000, 9, 7), (0xff00_0000, 8, 3)]
        {
            table.insert(Prefix::new(address, length), Entry { value, note: 0 });
        }
        let low = IntervalSet::one(0x0a00_0000, 0x0a7f_ffff);
        let three = low.union(&IntervalSet::one(0xff00_0000, 0xffff_ffff));
        assert_eq!(table.sets(), [(3, three.clone()), (7, three.complement(32))]);
    }
}
