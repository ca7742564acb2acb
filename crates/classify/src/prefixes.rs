//! Longest-prefix match over IPv4 and IPv6 addresses, with a table that is quick to look up and quick to
//! change.
//!
//! The table is a trie over cells. The first step of a look-up uses 16 bits of the address as an index into
//! an array. The array has 256 KiB and stays in the processor's caches. Each further step uses 8 bits as an
//! index into a page of 256 cells, 1 KiB. An address block of 16 (or 24, 32, ...) bits has a page only if
//! there are longer prefixes in it. So a look-up in IPv4 costs at most two accesses to main memory. It costs
//! at most one if the address's block of 24 bits has no prefix of more than 24 bits. This is as in DIR-24-8
//! (Gupta, Lin, McKeown: Routing Lookups in Hardware at Memory Access Speeds, INFOCOM 1998). In contrast to
//! DIR-24-8, a small table takes little memory, and a change writes few cells. A full table of the Internet,
//! 900,000 IPv4 prefixes, takes about 70 MB including the prefixes themselves; 160,000 IPv6 prefixes take
//! about 50 MB.
//!
//! Each cell without a page has the value and the length of the longest prefix that contains its addresses,
//! apart from the prefix of length 0. So an inserted prefix overwrites no cells of longer prefixes, and a
//! removed prefix is replaced by the next shorter prefix.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::hint::select_unpredictable;

use packet::prefetch_line;

use crate::IntervalSet;

/// An IP address as a number: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Copy + Ord + Hash + Debug {
    /// The number of bits of an address: 16 or more, a multiple of 8.
    const BITS: u8;

    /// Makes an address from the lowest `BITS` bits of a number; higher bits are ignored.
    fn from_bits(bits: u128) -> Self;

    /// Returns the address as a number, in host order.
    fn to_bits(self) -> u128;

    /// Returns the eight bits of the address that follow its first `behind` bits. `behind` is at most `BITS -
    /// 8`.
    fn byte(self, behind: u8) -> usize;

    /// Returns the first 16 bits, the index into the first array of a [`PrefixTable`].
    fn root(self) -> usize;
}

macro_rules! address {
    ($kind:ty) => {
        impl Address for $kind {
            const BITS: u8 = <$kind>::BITS as u8;

            fn from_bits(bits: u128) -> $kind {
                bits as $kind
            }

            fn to_bits(self) -> u128 {
                self.into()
            }

            #[inline]
            fn byte(self, behind: u8) -> usize {
                (self >> (<$kind>::BITS - 8 - u32::from(behind)) & 0xff) as usize
            }

            #[inline]
            fn root(self) -> usize {
                (self >> (<$kind>::BITS - 16)) as usize
            }
        }
    };
}

address!(u32);
address!(u128);

/// A prefix: its first address, in which all host bits are 0, and its length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix<A = u32> {
    address: A,
    length: u8,
}

impl<A: Address> Prefix<A> {
    /// Makes the prefix of `length` bits that contains an address. A length above the number of bits of an
    /// address is taken as that number.
    pub fn new(address: A, length: u8) -> Prefix<A> {
        let length = length.min(A::BITS);
        Prefix { address: A::from_bits(address.to_bits() & !host_bits::<A>(length)), length }
    }

    /// Returns the lowest address in the prefix.
    pub fn first(self) -> A {
        self.address
    }

    /// Returns the highest address in the prefix.
    pub fn last(self) -> A {
        A::from_bits(self.address.to_bits() | host_bits::<A>(self.length))
    }

    /// Returns the length of the prefix in bits.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns the prefix that is one bit shorter and contains this prefix; `None` for length 0.
    fn shorter(self) -> Option<Prefix<A>> {
        Some(Prefix::new(self.address, self.length.checked_sub(1)?))
    }
}

/// Returns a mask of the host bits of a prefix of `length` bits, which are all bits after the prefix.
fn host_bits<A: Address>(length: u8) -> u128 {
    1u128.checked_shl(u32::from(A::BITS - length)).map_or(u128::MAX, |bit| bit - 1)
}

/// The data that a [`PrefixTable`] keeps for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixEntry {
    /// The number that a look-up of an address returns if this prefix is the longest that contains the
    /// address; at most [`MAX_VALUE`].
    pub value: u32,
    /// A number that the caller can store with the prefix; look-ups do not use it.
    pub note: u32,
}

/// A table of prefixes that finds the value of the longest prefix containing an address.
#[derive(Clone, Debug)]
pub struct PrefixTable<A = u32> {
    /// All prefixes with their entries, from which changes are computed; look-ups do not use this map.
    prefixes: HashMap<Prefix<A>, PrefixEntry>,
    /// The cells of the trie: the array of the first step ([`ROOT`] cells), followed by the pages ([`PAGE`]
    /// cells each).
    cells: Vec<Cell>,
    /// For each page, the number of prefixes with cells in it or in pages below it. A page that no prefix
    /// uses (0) is free.
    users: Vec<u32>,
    /// The numbers of free pages, which are used again before the table grows.
    free: Vec<u32>,
    /// The value of the prefix of length 0 if it is in the table. It is stored separately, so that it need
    /// not be written into all cells.
    default: Option<u32>,
}

/// The number of cells of the first step's array.
const ROOT: usize = 1 << 16;
/// The number of cells of a page.
const PAGE: usize = 256;
/// The largest number of steps of a look-up after the first step: with addresses of 128 bits, 8 bits per
/// step.
const STEPS: usize = (128 - 16) / 8;
/// The number of addresses whose first memory accesses overlap in a batch. The processor can wait for about
/// this many cache lines at the same time.
const WINDOW: usize = 32;

/// A cell of the trie. It is 0 if no prefix contains its addresses, apart from the prefix of length 0. With
/// the highest bit set, the lower bits are the number of the page for the next step. Otherwise the lowest 23
/// bits are the value of the longest prefix, and the bits above are the length of this prefix, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell(u32);

impl Cell {
    const NOTHING: Cell = Cell(0);
    const IS_PAGE: u32 = 1 << 31;
    const VALUE_BITS: u32 = 23;

    fn page(page: u32) -> Cell {
        Cell(Cell::IS_PAGE | page)
    }

    fn leaf<A>(prefix: Prefix<A>, value: u32) -> Cell {
        Cell(u32::from(prefix.length) << Cell::VALUE_BITS | value.min(MAX_VALUE))
    }

    #[inline]
    fn as_page(self) -> Option<usize> {
        (self.0 & Cell::IS_PAGE != 0).then_some((self.0 & !Cell::IS_PAGE) as usize)
    }

    /// Returns the length in bits of the longest prefix that contains the cell's addresses; 0 if there is
    /// none. The cell must not lead to a page.
    fn length(self) -> u8 {
        (self.0 >> Cell::VALUE_BITS) as u8
    }

    #[inline]
    fn value(self) -> u32 {
        self.0 & MAX_VALUE
    }
}

/// The largest value that a prefix can have.
pub const MAX_VALUE: u32 = (1 << Cell::VALUE_BITS) - 1;

impl<A: Address> Default for PrefixTable<A> {
    fn default() -> PrefixTable<A> {
        PrefixTable::new()
    }
}

impl<A: Address> PrefixTable<A> {
    /// Makes a table without prefixes.
    pub fn new() -> PrefixTable<A> {
        PrefixTable {
            prefixes: HashMap::new(),
            cells: vec![Cell::NOTHING; ROOT],
            users: Vec::new(),
            free: Vec::new(),
            default: None,
        }
    }

    /// Returns the number of prefixes in the table.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// True if no prefix is in the table.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Returns the entry of exactly this prefix; `None` if it is not in the table, even if the table has
    /// shorter prefixes that contain it.
    pub fn get(&self, prefix: Prefix<A>) -> Option<PrefixEntry> {
        self.prefixes.get(&prefix).copied()
    }

    /// Returns the value of the longest prefix that contains an address; `None` if no prefix does.
    #[inline]
    pub fn lookup(&self, address: A) -> Option<u32> {
        self.resolve(self.second(address), address)
    }

    /// Looks up many addresses as [`lookup`](Self::lookup) does, and writes the results to `values`, at the
    /// indexes of the addresses. If one slice is longer, its surplus elements are ignored. A batch is faster
    /// than single look-ups, because memory accesses overlap.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[A], values: &mut [Option<u32>]) {
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

    /// Returns the index of the cell that the second step of a look-up reads. If the first step's cell leads
    /// to no page, this is the index of the first step's cell. The choice has no branch, because the
    /// processor could not predict it.
    #[inline]
    fn second(&self, address: A) -> usize {
        let root = address.root();
        let Cell(cell) = self.cell(root);
        let paged = ROOT + (cell & !Cell::IS_PAGE) as usize * PAGE + address.byte(16);
        select_unpredictable(cell & Cell::IS_PAGE != 0, paged, root)
    }

    /// Ends a look-up whose second step reads the cell at index `place`: follows pages to a cell that leads
    /// to no page. Returns the value of this cell. If the cell is empty, returns the value of the prefix of
    /// length 0, or `None` if the table does not have that prefix.
    #[inline]
    fn resolve(&self, place: usize, address: A) -> Option<u32> {
        let mut cell = self.cell(place);
        let mut behind = 24;
        while let Some(page) = cell.as_page()
            && behind < A::BITS
        {
            cell = self.cell(ROOT + page * PAGE + address.byte(behind));
            behind += 8;
        }
        if cell == Cell::NOTHING { self.default } else { Some(cell.value()) }
    }

    #[inline]
    fn cell(&self, at: usize) -> Cell {
        self.cells.get(at).copied().unwrap_or(Cell::NOTHING)
    }

    /// Adds a prefix, or replaces its entry. Returns the previous entry, or `None` if the prefix is new. A
    /// value above [`MAX_VALUE`] must not be used: look-ups would return [`MAX_VALUE`].
    pub fn insert(&mut self, prefix: Prefix<A>, entry: PrefixEntry) -> Option<PrefixEntry> {
        let before = self.prefixes.insert(prefix, entry);
        if prefix.length == 0 {
            self.default = Some(entry.value.min(MAX_VALUE));
            return before;
        }
        let pages = self.path(prefix, true);
        if before.is_none() {
            for at in pages.into_iter().flatten() {
                if let Some(page) = self.cell(at).as_page() {
                    self.users[page] += 1;
                }
            }
        }
        self.paint(prefix, Cell::leaf(prefix, entry.value));
        before
    }

    /// Removes a prefix, and returns its entry; `None` if it is not in the table. Addresses for which the
    /// removed prefix was the longest one then get the value of the next shorter prefix that contains them.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<PrefixEntry> {
        let before = self.prefixes.remove(&prefix)?;
        if prefix.length == 0 {
            self.default = None;
            return Some(before);
        }
        let shorter = std::iter::successors(prefix.shorter(), |p| p.shorter()).filter(|p| p.length > 0);
        let under = shorter.into_iter().find_map(|p| Some(Cell::leaf(p, self.get(p)?.value)));
        self.paint(prefix, under.unwrap_or(Cell::NOTHING));
        // Inner pages are released first. An outer page then has no inner page left when it is released
        // itself.
        for at in self.path(prefix, false).into_iter().rev().flatten() {
            self.leave(at);
        }
        Some(before)
    }

    /// Removes all prefixes and their pages.
    pub fn clear(&mut self) {
        *self = PrefixTable::new();
    }

    /// Returns the result of [`lookup`](Self::lookup) for all addresses, as intervals (first address, last
    /// address, value) in ascending order. They do not overlap, and adjacent intervals have different
    /// values. Addresses for which no prefix is found are left out.
    pub fn intervals(&self) -> Vec<(A, A, u32)> {
        let mut found = Vec::new();
        self.sweep(0, ROOT, A::BITS - 16, 0, &mut found);
        found
            .into_iter()
            .map(|(first, last, value)| (A::from_bits(first), A::from_bits(last), value))
            .collect()
    }

    /// Appends the intervals of `count` cells from index `start` on to `found`. The first cell begins at
    /// the address `first`, and each cell covers 2^`bits` addresses.
    fn sweep(&self, start: usize, count: usize, bits: u8, first: u128, found: &mut Vec<(u128, u128, u32)>) {
        let mut first = first;
        for cell in self.cells.iter().skip(start).take(count) {
            let last = first | ((1u128 << bits) - 1);
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

    /// Returns each value with the set of addresses for which look-ups return it, in ascending order of
    /// values.
    pub fn sets(&self) -> Vec<(u32, IntervalSet)> {
        let mut by_value: BTreeMap<u32, Vec<(u128, u128)>> = BTreeMap::new();
        for (first, last, value) in self.intervals() {
            by_value.entry(value).or_default().push((first.to_bits(), last.to_bits()));
        }
        by_value.into_iter().map(|(value, set)| (value, set.into_iter().collect())).collect()
    }

    /// Returns the indexes of the cells that lead to the pages of a prefix, from the first step on; `None`
    /// for steps that the prefix does not need. If `make`, missing pages are made; otherwise the path ends
    /// at the first missing page.
    fn path(&mut self, prefix: Prefix<A>, make: bool) -> [Option<usize>; STEPS] {
        let mut cells = [None; STEPS];
        let mut at = prefix.address.root();
        for (behind, found) in (16..A::BITS).step_by(8).zip(&mut cells) {
            if prefix.length <= behind {
                break;
            }
            let page = match self.cell(at).as_page() {
                Some(page) => page,
                None if make => self.make_page(at),
                None => break,
            };
            *found = Some(at);
            at = ROOT + page * PAGE + prefix.address.byte(behind);
        }
        cells
    }

    /// Makes a page whose cells are all copies of the cell at index `at`, and replaces that cell by a link to
    /// the page. Returns the page's number. Look-ups find the same as before.
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

    /// Records that a prefix no longer needs the page of the cell at index `at`. If no other prefix needs the
    /// page, all its cells are equal: the cell at index `at` gets the content of the page's cells, and the
    /// page is freed.
    fn leave(&mut self, at: usize) {
        let Some(page) = self.cell(at).as_page() else { return };
        self.users[page] -= 1;
        if self.users[page] == 0 {
            self.cells[at] = self.cells[ROOT + page * PAGE];
            self.free.push(page as u32);
        }
    }

    /// Writes a cell into all cells of a prefix, also in pages below, except cells that belong to a longer
    /// prefix.
    fn paint(&mut self, prefix: Prefix<A>, cell: Cell) {
        let last = self.path(prefix, false).into_iter().flatten().last();
        let inner = last.and_then(|at| self.cell(at).as_page());
        // The number of bits of an address that a look-up has used after the step that reads the cells of
        // this prefix.
        let bits = prefix.length.max(16).next_multiple_of(8);
        let start = match inner {
            None => prefix.address.root(),
            Some(page) => ROOT + page * PAGE + prefix.address.byte(bits - 8),
        };
        self.paint_cells(start, 1 << (bits - prefix.length), prefix.length, cell);
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

    /// Returns the value of the longest prefix that contains an address, by a linear search, with which
    /// results of the table are compared.
    fn scan<A: Address>(prefixes: &[(Prefix<A>, u32)], address: A) -> Option<u32> {
        let fits = prefixes.iter().filter(|(p, _)| (p.first()..=p.last()).contains(&address));
        fits.max_by_key(|(p, _)| p.length()).map(|&(_, value)| value)
    }

    /// Generates prefixes of all lengths with few different bytes, so that they often contain each other.
    fn prefix<A: Address>() -> impl Strategy<Value = Prefix<A>> {
        let byte = prop_oneof![3 => Just(0u8), 2 => Just(10), 2 => Just(255), 1 => any::<u8>()];
        (prop::collection::vec(byte, usize::from(A::BITS) / 8), 0..=A::BITS).prop_map(|(bytes, length)| {
            let address = bytes.iter().fold(0u128, |address, &byte| address << 8 | u128::from(byte));
            Prefix::new(A::from_bits(address), length)
        })
    }

    fn check<A: Address>(
        table: &PrefixTable<A>,
        listed: &[(Prefix<A>, u32)],
        more: &[A],
    ) -> Result<(), TestCaseError> {
        let shifted = |address: A, by: u128| A::from_bits(address.to_bits().wrapping_add(by));
        let edges = listed.iter().flat_map(|(p, _)| {
            let (first, last) = (p.first(), p.last());
            let middle = A::from_bits(first.to_bits() / 2 + last.to_bits() / 2);
            [first, last, shifted(first, u128::MAX), shifted(last, 1), middle]
        });
        let whole = [0, u128::MAX].map(A::from_bits);
        let addresses: Vec<A> = edges.chain(more.iter().copied()).chain(whole).collect();
        let mut values = vec![None; addresses.len()];
        table.lookup_batch(&addresses, &mut values);
        let intervals = table.intervals();
        for (&address, value) in addresses.iter().zip(values) {
            let expected = scan(listed, address);
            prop_assert_eq!(table.lookup(address), expected, "{:?}", address);
            prop_assert_eq!(value, expected, "{:?} in a batch", address);
            let swept = intervals.iter().find(|&&(first, last, _)| (first..=last).contains(&address));
            prop_assert_eq!(swept.map(|i| i.2), expected, "{:?} in an interval", address);
        }
        let apart = intervals
            .windows(2)
            .all(|w| w[0].1 < w[1].0 && (w[0].2 != w[1].2 || shifted(w[0].1, 1) != w[1].0));
        prop_assert!(apart, "{:?}", intervals);
        Ok(())
    }

    /// Makes changes (true: insert, false: remove) one after the other, and compares the table with a
    /// linear search after each change.
    fn follow<A: Address>(changes: &[(Prefix<A>, u32, bool)], addresses: &[A]) -> Result<(), TestCaseError> {
        let mut table = PrefixTable::new();
        let mut listed: Vec<(Prefix<A>, u32)> = Vec::new();
        for (number, &(prefix, value, add)) in changes.iter().enumerate() {
            let place = listed.iter().position(|(p, _)| *p == prefix);
            let before = place.map(|place| listed.swap_remove(place).1);
            let found = if add {
                listed.push((prefix, value));
                table.insert(prefix, PrefixEntry { value, note: number as u32 })
            } else {
                table.remove(prefix)
            };
            prop_assert_eq!(found.map(|e| e.value), before);
            prop_assert_eq!(table.len(), listed.len());
            check(&table, &listed, addresses)?;
        }
        // After all prefixes are removed, all pages are free and all cells of the first step are empty.
        for (prefix, _) in listed {
            prop_assert!(table.remove(prefix).is_some());
        }
        prop_assert_eq!(table.free.len(), table.users.len());
        prop_assert!(table.cells[..ROOT].iter().all(|&cell| cell == Cell::NOTHING));
        prop_assert!(table.is_empty() && table.default.is_none());
        Ok(())
    }

    proptest! {
        #[test]
        fn a_linear_scan_finds_the_same(
            changes in prop::collection::vec((prefix(), 0u32..5, any::<bool>()), 0..60),
            addresses in prop::collection::vec(any::<u32>(), 20),
        ) {
            follow(&changes, &addresses)?;
        }

        #[test]
        fn a_linear_scan_finds_the_same_in_ipv6(
            changes in prop::collection::vec((prefix(), 0u32..5, any::<bool>()), 0..60),
            addresses in prop::collection::vec(any::<u128>(), 20),
        ) {
            follow(&changes, &addresses)?;
        }
    }

    #[test]
    fn the_largest_value_is_kept_apart_from_lengths_and_pages() {
        let mut table = PrefixTable::<u32>::new();
        for length in [0, 1, 16, 17, 24, 25, 32] {
            let entry = PrefixEntry { value: MAX_VALUE - u32::from(length), note: 0 };
            table.insert(Prefix::new(0x0a01_0203, length), entry);
            assert_eq!(table.lookup(0x0a01_0203), Some(entry.value), "{length}");
        }
        assert_eq!(table.lookup(0x8000_0000), Some(MAX_VALUE));
    }

    #[test]
    fn sets_of_a_value_are_whole() {
        let mut table = PrefixTable::<u32>::new();
        for (address, length, value) in
            [(0, 0, 7), (0x0a00_0000, 8, 3), (0x0a80_0000, 9, 7), (0xff00_0000, 8, 3)]
        {
            table.insert(Prefix::new(address, length), PrefixEntry { value, note: 0 });
        }
        let low = IntervalSet::one(0x0a00_0000, 0x0a7f_ffff);
        let three = low.union(&IntervalSet::one(0xff00_0000, 0xffff_ffff));
        assert_eq!(table.sets(), [(3, three.clone()), (7, three.complement(32))]);
    }
}
