//! The construction of the tables of [`Products`], with limits on their size and on the time to make them.

use std::collections::HashMap;
use std::rc::Rc;

use super::{ASK_FOR_RULE, Addresses, FIELDS, INNER, NO_RULE, PORTS, Pairs, Ports, Products};
use crate::cuts::{ALL, Area, Range};

/// The largest number of classes (sets of values that are in the same boxes) into which the values of a
/// field, or of several fields together, are divided. Class numbers have 15 bits, because the highest bit
/// marks an inner table ([`INNER`]).
const MOST_CLASSES: usize = INNER as usize;
/// The largest number of entries of a table of pairs of classes, of two bytes each.
const MOST_PAIRS: usize = 1 << 23;
/// The largest amount of work to make the tables, counted as the number of 64-bit words of sets of boxes that
/// are read. It takes a fraction of a second. ClassBench's rule sets, for which tables are to be made, need
/// up to 36 million words.
const MOST_WORK: usize = 1 << 26;
/// The largest number of 64-bit words in sets of boxes that are kept while the tables are made; each word
/// takes 16 bytes with its index. ClassBench's rule sets take up to 200,000.
const MOST_WORDS: usize = 1 << 20;
/// The lowest rule number that the tables cannot store: in an entry of a table, this number means
/// [`ASK_FOR_RULE`], and the next number means [`NO_RULE`].
const MOST_RULES: u32 = ASK_FOR_RULE as u32;

impl Products {
    /// Makes the tables for a list of boxes in any order. Returns `None` if the tables, or the time or memory
    /// to make them, would be too large, or if a rule number is too large; then [`Cuts`](crate::cuts::Cuts)
    /// is used instead.
    pub fn new(areas: &[Area<FIELDS>]) -> Option<Products> {
        let mut areas = areas.to_vec();
        areas.sort_by_key(|area| area.rule);
        if areas.last().is_some_and(|area| area.rule >= MOST_RULES) {
            return None;
        }
        let ranges = |field: usize| areas.iter().map(|area| area.ranges[field]).collect::<Vec<_>>();
        // The ends of the boxes' ranges divide the values of each address field into intervals. The product
        // of the two numbers of intervals is cheap to compute. With it, most sets of boxes whose tables would
        // be too large are rejected early.
        let pieces = [0, 1].map(|field| starts(&ranges(field)).len());
        if pieces.iter().product::<usize>() > 4 * MOST_PAIRS {
            return None;
        }
        let budget = &mut Budget { work: MOST_WORK, words: MOST_WORDS };
        let mut sets = Vec::new();
        let mut addresses = Vec::new();
        for field in [0, 1] {
            let (of, classes) = classes(&ranges(field), budget)?;
            addresses.push(Addresses::new(&of)?);
            sets.push(classes);
        }
        let mut ports = Vec::new();
        for field in [2, 3] {
            let (of, classes) = classes(&ranges(field), budget)?;
            ports.push(Ports::new(&of));
            sets.push(classes);
        }
        let (protocols, of_protocols) = protocols(&areas, budget)?;
        let [sources, destinations, source_ports, destination_ports]: [Sets; 4] = sets.try_into().ok()?;
        // In the table of addresses, a box for all ports and protocols hides all boxes after it if its rule
        // holds everywhere in the box: for addresses in this box, the later boxes can never be the first.
        let is_last = |number: u32| {
            let area = &areas[number as usize];
            area.exact && area.ranges[2..].iter().all(|&range| range == ALL)
        };
        let count = areas.len();
        let (both_ports, of_ports) =
            Pairs::of_classes(&source_ports, &destination_ports, (count, |_| false), budget)?;
        let (services, of_services) =
            Pairs::of_classes(&of_ports, &of_protocols, (count, |_| false), budget)?;
        let (pairs, of_addresses) = Pairs::of_classes(&sources, &destinations, (count, is_last), budget)?;
        let rules = Pairs::of_rules(&of_addresses, &of_services, &areas, budget)?;
        Some(Products {
            addresses: addresses.try_into().ok()?,
            ports: ports.try_into().ok()?,
            protocols,
            pairs,
            both_ports,
            services,
            rules,
        })
    }
}

/// The work and the memory that construction may still use; see [`MOST_WORK`] and [`MOST_WORDS`].
struct Budget {
    work: usize,
    words: usize,
}

impl Budget {
    /// Charges the budget for reading `words` words; `None` if the budget is exceeded.
    fn look(&mut self, words: usize) -> Option<()> {
        self.work = self.work.checked_sub(words)?;
        Some(())
    }

    /// Charges the budget for keeping `words` words; `None` if the budget is exceeded.
    fn keep(&mut self, words: usize) -> Option<()> {
        self.words = self.words.checked_sub(words)?;
        Some(())
    }
}

/// A set of boxes as a sparse bit set: its words that are not zero, each with its index. Bit N is the box
/// with number N; boxes are numbered in the order of their rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Set(Vec<(u32, u64)>);

impl Set {
    /// Makes a set of box numbers, which must be in ascending order.
    fn of(numbers: impl Iterator<Item = u32>) -> Set {
        let mut set = Set::default();
        for number in numbers {
            let (word, bit) = (number / 64, 1 << (number % 64));
            match set.0.last_mut().filter(|(last, _)| *last == word) {
                Some((_, bits)) => *bits |= bit,
                None => set.0.push((word, bit)),
            }
        }
        set
    }

    /// Returns the set as a dense bit set with room for `count` boxes, including the words that are zero.
    fn words(&self, count: usize) -> Vec<u64> {
        let mut words = vec![0; count.div_ceil(64)];
        for &(word, bits) in &self.0 {
            words[word as usize] = bits;
        }
        words
    }

    /// Writes the intersection of two sets to `met`, but only up to and including the first box that is also
    /// in `last`, because that box hides all boxes after it.
    fn intersect(&self, other: &[u64], last: &[u64], met: &mut Set) {
        met.0.clear();
        for &(word, bits) in &self.0 {
            let both = bits & other[word as usize];
            let ends = both & last[word as usize];
            // The bits up to and including the lowest bit that is also in `last`; all bits if no bit is.
            let counts = both & (ends ^ ends.wrapping_sub(1));
            if counts != 0 {
                met.0.push((word, counts));
            }
            if ends != 0 {
                return;
            }
        }
    }

    /// Returns the lowest number of a box that is in both sets, if there is one.
    fn first(&self, other: &[u64]) -> Option<u32> {
        self.0.iter().find_map(|&(word, bits)| {
            let both = bits & other[word as usize];
            (both != 0).then(|| word * 64 + both.trailing_zeros())
        })
    }
}

/// For each class of values, by the number of the class, the set of boxes (the regions in which rules may
/// hold) whose ranges contain these values.
type Sets = Vec<Rc<Set>>;

/// The different sets of boxes that have been found, numbered in the order in which they were found. All
/// values that are in the same set of boxes form a class, whose number is the number of the set.
#[derive(Default)]
struct Classes {
    numbers: HashMap<Rc<Set>, u16>,
    sets: Sets,
}

impl Classes {
    fn number(&mut self, set: &Set, budget: &mut Budget) -> Option<u16> {
        if let Some(&number) = self.numbers.get(set) {
            return Some(number);
        }
        let number =
            u16::try_from(self.sets.len()).ok().filter(|&number| usize::from(number) < MOST_CLASSES)?;
        budget.keep(set.0.len())?;
        let set = Rc::new(set.clone());
        self.numbers.insert(Rc::clone(&set), number);
        self.sets.push(set);
        Some(number)
    }
}

/// The lowest value of an interval of a field's values, and the class of all values from there up to the
/// next start.
type Start = (u32, u16);

/// Returns the values at which the set of ranges that contain a value can change, in ascending order. They
/// are 0, the first value of each range, and the value after each range.
fn starts(ranges: &[Range]) -> Vec<u32> {
    let ends = ranges.iter().flat_map(|&(low, high)| [Some(low), high.checked_add(1)]);
    let mut starts: Vec<u32> = ends.flatten().chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Divides the values of a field into classes. Returns the starts of intervals of values with their
/// classes, and the set of boxes of each class; `None` if the budget is exceeded or there are too many
/// classes.
fn classes(ranges: &[Range], budget: &mut Budget) -> Option<(Vec<Start>, Sets)> {
    // `changes` has, for each start, the ranges that begin there and the ranges that end just before it.
    let starts = starts(ranges);
    budget.look(starts.len() * ranges.len().div_ceil(64))?;
    let mut changes: Vec<Vec<u32>> = vec![Vec::new(); starts.len() + 1];
    for (number, &(low, high)) in (0..).zip(ranges) {
        let place = |value: u32| starts.partition_point(|&start| start < value);
        changes[place(low)].push(number);
        changes[high.checked_add(1).map_or(starts.len(), place)].push(number);
    }
    let mut words = vec![0u64; ranges.len().div_ceil(64)];
    let mut classes = Classes::default();
    let mut of = Vec::with_capacity(starts.len());
    for (&start, changes) in starts.iter().zip(&changes) {
        for &number in changes {
            words[number as usize / 64] ^= 1 << (number % 64);
        }
        let set = Set((0..).zip(words.iter().copied()).filter(|&(_, bits)| bits != 0).collect());
        of.push((start, classes.number(&set, budget)?));
    }
    Some((of, classes.sets))
}

/// Returns the class of each of the 256 protocols first in packets that are no fragments other than the
/// first, and then in fragments other than the first. Also returns the set of boxes of each class. `None` if
/// the budget is exceeded or there are too many classes.
fn protocols(areas: &[Area<FIELDS>], budget: &mut Budget) -> Option<(Box<[u16; 512]>, Sets)> {
    let mut classes = Classes::default();
    let mut of = Box::new([0; 512]);
    budget.look(of.len() * areas.len())?;
    for (value, class) in (0..).zip(of.iter_mut()) {
        let within = |(low, high): Range, value| low <= value && value <= high;
        let holds =
            |area: &Area<FIELDS>| within(area.ranges[4], value & 255) && within(area.ranges[5], value >> 8);
        let set = Set::of((0..).zip(areas).filter(|(_, area)| holds(area)).map(|(number, _)| number));
        *class = classes.number(&set, budget)?;
    }
    Some((of, classes.sets))
}

/// Makes a table of zeros on the heap, without a copy on the stack, which it might overflow.
fn filled<const N: usize>() -> Box<[u16; N]> {
    let table: Box<[u16]> = vec![0; N].into();
    // The length is N, so the conversion never fails.
    table.try_into().unwrap_or_else(|_| Box::new([0; N]))
}

impl Addresses {
    /// Makes the table that maps an address to its class, from the starts of the intervals of addresses that
    /// have the same class; `None` if the table needs too many inner tables.
    fn new(of: &[Start]) -> Option<Addresses> {
        let mut addresses = Addresses { outer: filled(), inner: Vec::new() };
        let mut of = of;
        for (upper, start) in (0..1u32 << 16).map(|upper| (upper as usize, upper << 16)) {
            of = from(of, start);
            addresses.outer[upper] = addresses.entry(of, start, 1 << 16)?;
        }
        // [`Addresses::within`] reads from the first inner table even if the entry is a class, so that
        // table must exist.
        addresses.inner.resize(addresses.inner.len().max(256), 0);
        Some(addresses)
    }

    /// Returns the entry for the `size` addresses from `start` on: their class, or an inner table if they
    /// have several classes. The first element of `of` must be the interval that contains `start`.
    fn entry(&mut self, of: &[Start], start: u32, size: u32) -> Option<u16> {
        if of.get(1).is_none_or(|&(next, _)| next > start + (size - 1)) {
            return of.first().map(|&(_, class)| class);
        }
        let mut of = of;
        let mut table = [0; 256];
        for (byte, entry) in (0..).zip(&mut table) {
            let start = start + byte * (size / 256);
            of = from(of, start);
            *entry = self.entry(of, start, size / 256)?;
        }
        let number = u16::try_from(self.inner.len() / 256).ok().filter(|number| number & INNER == 0)?;
        self.inner.extend(table);
        Some(INNER | number)
    }
}

/// Returns the rest of a list of starts, from the interval that contains an address on.
fn from(of: &[Start], address: u32) -> &[Start] {
    let gone = of.iter().skip(1).take_while(|&&(start, _)| start <= address).count();
    &of[gone..]
}

impl Ports {
    fn new(of: &[Start]) -> Ports {
        let mut ports = filled::<PORTS>();
        for &(start, class) in of {
            if let Some(behind) = ports.get_mut(start as usize..) {
                behind.fill(class);
            }
        }
        Ports(ports)
    }
}

impl Pairs {
    /// Makes a table for pairs of a left class and a right class, without entries so far. Also returns the
    /// sets of boxes of the right classes, as dense bit sets for `count` boxes. `None` if the table, or the
    /// work to fill it, would be too large.
    fn new(
        left: &[Rc<Set>],
        right: &[Rc<Set>],
        count: usize,
        budget: &mut Budget,
    ) -> Option<(Pairs, Vec<Vec<u64>>)> {
        let entries = left.len() * right.len();
        if entries > MOST_PAIRS {
            return None;
        }
        let words: usize = left.iter().map(|set| set.0.len()).sum();
        budget.look((words + count.div_ceil(64)) * right.len())?;
        let right: Vec<_> = right.iter().map(|set| set.words(count)).collect();
        Some((Pairs { width: right.len() as u32, of: Vec::with_capacity(entries) }, right))
    }

    /// Makes the table that maps a left class and a right class to their common class: the class of the
    /// intersection of their sets. Returns it with the set of each new class. `count` is the number of boxes;
    /// `is_last` is true for a box that hides all boxes after it. Returns `None` if the table would be too
    /// large, the budget is exceeded, or there are too many classes.
    fn of_classes(
        left: &[Rc<Set>],
        right: &[Rc<Set>],
        (count, is_last): (usize, impl Fn(u32) -> bool),
        budget: &mut Budget,
    ) -> Option<(Pairs, Sets)> {
        let (mut pairs, right) = Pairs::new(left, right, count, budget)?;
        // Each intersection is looked up among the intersections found so far. This look-up takes as much
        // work as computing the intersection, so the budget is charged for it, too.
        budget.look(left.iter().map(|set| set.0.len()).sum::<usize>() * right.len())?;
        let last = Set::of((0..count as u32).filter(|&number| is_last(number))).words(count);
        let mut classes = Classes::default();
        let (mut met, mut before) = (Set::default(), None);
        for left in left {
            for right in &right {
                left.intersect(right, &last, &mut met);
                // Neighbouring right classes often have equal intersections with a left class. If an
                // intersection equals the preceding one, its class is known without a look-up.
                let class = match before {
                    Some((ref set, class)) if *set == met => class,
                    _ => {
                        let class = classes.number(&met, budget)?;
                        before = Some((met.clone(), class));
                        class
                    }
                };
                pairs.of.push(class);
            }
        }
        Some((pairs, classes.sets))
    }

    /// Makes the table of the last step of a look-up ([`Products::rules`]), which maps a left class and a
    /// right class to the first rule in the intersection of their sets. The entry is [`ASK_FOR_RULE`] if that
    /// rule need not hold everywhere in its box. Returns `None` if the table would be too large or the budget
    /// is exceeded.
    fn of_rules(
        left: &[Rc<Set>],
        right: &[Rc<Set>],
        areas: &[Area<FIELDS>],
        budget: &mut Budget,
    ) -> Option<Pairs> {
        let (mut pairs, right) = Pairs::new(left, right, areas.len(), budget)?;
        for left in left {
            for right in &right {
                let first = left.first(right).and_then(|number| areas.get(number as usize));
                pairs.of.push(match first {
                    Some(area) if area.exact => area.rule as u16,
                    Some(_) => ASK_FOR_RULE,
                    None => NO_RULE,
                });
            }
        }
        Some(pairs)
    }
}
