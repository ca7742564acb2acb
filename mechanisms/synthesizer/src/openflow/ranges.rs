//! The ranges of ports that rules test: as prefixes, or as bits of metadata that two tables before the
//! rules set (SNF paper, "Hardware-accelerated SNF").
//!
//! A range that is a single prefix, such as a single port, is matched directly. Each other range may get a
//! bit in the metadata. For source and for destination ports, a table divides the port numbers into parts at
//! the borders of all ranges. It finds the part that contains the packet's port, and sets the bits of all
//! ranges that contain this part. So a rule matches any range with one flow entry. If the metadata had the
//! number of the part instead, a rule would need a flow entry for each part of its range, and a rule about
//! both ports would need a flow entry for each pair of parts.
//!
//! There are [`MOST_RANGES`] bits for source ports and as many for destination ports. The ranges that save
//! the most flow entries get a bit; other ranges are expanded to prefixes.

use std::collections::BTreeMap;

use classify::IntervalSet;

/// The maximum number of ranges of source ports, and of destination ports, that get a bit.
pub const MOST_RANGES: usize = 16;

/// Returns the smallest list of prefixes that contains exactly the `bits`-bit numbers of a set. Each prefix
/// is a value and a mask; the lowest value comes first.
pub fn prefixes(set: &IntervalSet, bits: u32) -> Vec<(u128, u128)> {
    let ones = |count: u32| 1u128.checked_shl(count).map_or(u128::MAX, |next| next - 1);
    let all = ones(bits);
    let mut prefixes = Vec::new();
    for &(low, high) in set.intervals() {
        let (mut next, high) = (Some(low), high.min(all));
        while let Some(low) = next.filter(|low| *low <= high) {
            let aligned = low.trailing_zeros().min(bits);
            let size = (0..=aligned).rev().find(|size| ones(*size) <= high - low).unwrap_or(0);
            prefixes.push((low, all & !ones(size)));
            next = low.checked_add(ones(size)).and_then(|last| last.checked_add(1));
        }
    }
    prefixes
}

/// The ranges of source or of destination ports that have bits in the metadata. The index of a range is its
/// bit.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    sets: Vec<IntervalSet>,
}

impl Ranges {
    /// Chooses the ranges that get bits in the metadata: those that save the most flow entries. `asked` has,
    /// for each range of ports, the number of cubes of rules that test it.
    pub fn choose(asked: &BTreeMap<IntervalSet, usize>) -> Ranges {
        let saved = |(set, times): &(&IntervalSet, &usize)| (prefixes(set, 16).len() - 1) * **times;
        let mut worth: Vec<_> = asked.iter().filter(|one| saved(one) > 0).collect();
        worth.sort_by_key(|one| std::cmp::Reverse(saved(one)));
        Ranges { sets: worth.into_iter().take(MOST_RANGES).map(|(set, _)| set.clone()).collect() }
    }

    /// Returns the bit of a range; `None` if it has none, so that it has to be expanded.
    pub fn bit(&self, set: &IntervalSet) -> Option<usize> {
        self.sets.iter().position(|other| other == set)
    }

    /// True if no range has a bit.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Divides the port numbers at the borders of all ranges into parts. Returns each part that lies in a
    /// range, as prefixes (value and mask), with the bits of all ranges that contain it.
    pub fn parts(&self) -> Vec<((u32, u32), u64)> {
        let mut borders: Vec<u128> = vec![0, 1 << 16];
        borders.extend(
            self.sets.iter().flat_map(|set| set.intervals()).flat_map(|&(low, high)| [low, high + 1]),
        );
        borders.sort_unstable();
        borders.dedup();
        let mut by_bits: BTreeMap<u64, Vec<(u128, u128)>> = BTreeMap::new();
        for pair in borders.windows(2) {
            let bits = self.sets.iter().enumerate().filter(|(_, set)| set.contains(pair[0]));
            let bits = bits.fold(0, |bits, (bit, _)| bits | 1 << bit);
            if bits != 0 {
                by_bits.entry(bits).or_default().push((pair[0], pair[1] - 1));
            }
        }
        let parts = by_bits.into_iter().flat_map(|(bits, parts)| {
            let prefixes = prefixes(&parts.into_iter().collect(), 16).into_iter();
            prefixes.map(move |(value, mask)| ((value as u32, mask as u32), bits))
        });
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds(prefixes: &[(u128, u128)], port: u128) -> bool {
        prefixes.iter().any(|(value, mask)| port & mask == *value)
    }

    proptest! {
        #[test]
        fn prefixes_are_the_numbers_of_a_set(bounds in prop::collection::vec(any::<u16>(), 2..6), ports: [u16; 40]) {
            let set: IntervalSet = bounds.chunks_exact(2).map(|b| (b[0].min(b[1]).into(), b[0].max(b[1]).into())).collect();
            let found = prefixes(&set, 16);
            for port in ports.into_iter().chain(bounds.iter().flat_map(|b| [*b, b.wrapping_add(1), b.wrapping_sub(1)])) {
                prop_assert_eq!(holds(&found, port.into()), set.contains(port.into()));
            }
        }

        #[test]
        fn bits_are_those_of_the_ranges(bounds in prop::collection::vec(any::<u16>(), 2..50), ports: [u16; 40]) {
            let sets: Vec<IntervalSet> =
                bounds.chunks_exact(2).map(|b| IntervalSet::one(b[0].min(b[1]).into(), b[0].max(b[1]).into())).collect();
            let ranges = Ranges::choose(&sets.iter().map(|set| (set.clone(), 1)).collect());
            prop_assert!(ranges.sets.len() <= MOST_RANGES);
            let parts = ranges.parts();
            for port in ports.into_iter().chain(bounds.iter().flat_map(|b| [*b, b.wrapping_add(1), b.wrapping_sub(1)])) {
                let there: Vec<u64> =
                    parts.iter().filter(|((value, mask), _)| u32::from(port) & mask == *value).map(|part| part.1).collect();
                prop_assert!(there.len() < 2);
                for set in &sets {
                    if let Some(bit) = ranges.bit(set) {
                        let is_set = there.iter().any(|bits| bits & 1 << bit != 0);
                        prop_assert_eq!(is_set, set.contains(port.into()));
                    }
                }
            }
        }
    }

    #[test]
    fn usual_ranges_are_few_prefixes() {
        assert_eq!(prefixes(&IntervalSet::full(16), 16), [(0, 0)]);
        assert_eq!(prefixes(&IntervalSet::one(80, 80), 16), [(80, 0xffff)]);
        assert_eq!(prefixes(&IntervalSet::one(1024, 65535), 16).len(), 6);
        assert_eq!(prefixes(&IntervalSet::one(1, 0xffff_ffff), 32).len(), 32);
        assert_eq!(prefixes(&IntervalSet::full(128), 128), [(0, 0)]);
        assert_eq!(prefixes(&IntervalSet::one(1, u128::MAX), 128).len(), 128);
    }
}
