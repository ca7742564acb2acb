//! Sets of field values, stored as disjoint closed intervals.

use std::fmt;

/// A set of numbers of up to 128 bits, as intervals with both ends included. The intervals are sorted, and
/// between two of them at least one number is missing. So equal sets have equal representations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntervalSet {
    intervals: Vec<(u128, u128)>,
}

impl IntervalSet {
    /// Returns the empty set.
    pub const fn empty() -> IntervalSet {
        IntervalSet { intervals: Vec::new() }
    }

    /// Returns the set of all numbers from `low` to `high`, both included; the empty set if `low > high`.
    pub fn one(low: u128, high: u128) -> IntervalSet {
        IntervalSet { intervals: if low <= high { vec![(low, high)] } else { Vec::new() } }
    }

    /// Returns the set of all numbers of `bits` bits: 0 to 2^`bits` - 1. More than 128 bits count as 128.
    pub fn full(bits: u32) -> IntervalSet {
        IntervalSet::one(0, top(bits))
    }

    /// Returns the intervals as pairs of lowest and highest number, in ascending order.
    pub fn intervals(&self) -> &[(u128, u128)] {
        &self.intervals
    }

    /// True if no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// True if `value` is in the set.
    pub fn contains(&self, value: u128) -> bool {
        let after = self.intervals.partition_point(|&(low, _)| low <= value);
        after > 0 && value <= self.intervals[after - 1].1
    }

    /// Returns the numbers that are in at least one of the two sets.
    #[must_use]
    pub fn union(&self, other: &IntervalSet) -> IntervalSet {
        self.intervals.iter().chain(&other.intervals).copied().collect()
    }

    /// Returns the numbers that are in both this set and `other`.
    #[must_use]
    pub fn intersection(&self, other: &IntervalSet) -> IntervalSet {
        let (mut i, mut j) = (0, 0);
        let mut both = Vec::new();
        while let (Some(&(a, b)), Some(&(c, d))) = (self.intervals.get(i), other.intervals.get(j)) {
            let (low, high) = (a.max(c), b.min(d));
            if low <= high {
                both.push((low, high));
            }
            if b < d { i += 1 } else { j += 1 }
        }
        IntervalSet { intervals: both }
    }

    /// Returns the numbers of `bits` bits that are not in the set. The set may contain numbers of more bits,
    /// which make no difference.
    #[must_use]
    pub fn complement(&self, bits: u32) -> IntervalSet {
        let top = top(bits);
        let mut gaps = Vec::with_capacity(self.intervals.len() + 1);
        let mut next = Some(0);
        for &(low, high) in &self.intervals {
            let Some(start) = next.filter(|start| *start <= top) else { break };
            if start < low {
                gaps.push((start, (low - 1).min(top)));
            }
            next = high.checked_add(1);
        }
        if let Some(start) = next.filter(|start| *start <= top) {
            gaps.push((start, top));
        }
        IntervalSet { intervals: gaps }
    }
}

/// Makes a set from closed intervals, given as pairs of lowest and highest number. They may come in any
/// order, overlap and touch; a pair whose first number is larger is empty.
impl FromIterator<(u128, u128)> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = (u128, u128)>>(intervals: I) -> IntervalSet {
        let mut all: Vec<_> = intervals.into_iter().filter(|(low, high)| low <= high).collect();
        all.sort_unstable();
        // Intervals are merged in place, because a set may have a million of them.
        all.dedup_by(|next, last| {
            // Intervals that overlap or touch become one interval.
            let together = next.0 <= last.1.saturating_add(1);
            if together {
                last.1 = last.1.max(next.1);
            }
            together
        });
        IntervalSet { intervals: all }
    }
}

/// Returns the largest number of `bits` bits; more than 128 bits count as 128.
fn top(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

impl fmt::Display for IntervalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("{}");
        }
        for (i, (low, high)) in self.intervals.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}-{high}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates a set of numbers below 32, with the same set as a bit mask.
    fn small() -> impl Strategy<Value = (IntervalSet, u32)> {
        any::<u32>().prop_map(|mask| {
            let ones = (0..32).filter(|i| mask >> i & 1 == 1);
            (ones.fold(IntervalSet::empty(), |set, i| set.union(&IntervalSet::one(i, i))), mask)
        })
    }

    /// Generates a set of numbers below 576, from a few intervals that may overlap.
    fn large() -> impl Strategy<Value = IntervalSet> {
        prop::collection::vec((0u128..512, 0u128..64), 0..8)
            .prop_map(|pairs| pairs.into_iter().map(|(low, length)| (low, low + length)).collect())
    }

    fn mask(set: &IntervalSet) -> u32 {
        (0..32).filter(|&i| set.contains(i)).fold(0, |m, i| m | 1 << i)
    }

    proptest! {
        #[test]
        fn is_a_boolean_algebra((a, ma) in small(), (b, mb) in small()) {
            prop_assert_eq!(mask(&a), ma);
            prop_assert_eq!(mask(&a.union(&b)), ma | mb);
            prop_assert_eq!(mask(&a.intersection(&b)), ma & mb);
            prop_assert_eq!(mask(&a.complement(5)), !ma);
            prop_assert_eq!(a.complement(5).complement(5), a.clone());
            let gaps = a.intervals().windows(2).all(|w| w[0].1 + 1 < w[1].0);
            prop_assert!(gaps, "{} has touching intervals", a);
        }

        #[test]
        fn a_complement_has_exactly_the_other_numbers(set in large(), bits in 0u32..10) {
            let others: Vec<u128> = (0..1 << bits).filter(|number| !set.contains(*number)).collect();
            let complement = set.complement(bits);
            let found: Vec<u128> = complement.intervals().iter().flat_map(|&(low, high)| low..=high).collect();
            prop_assert_eq!(found, others);
            // Equal sets have equal representations.
            prop_assert_eq!(&complement, &complement.intervals().iter().copied().collect::<IntervalSet>());
        }
    }

    #[test]
    fn a_complement_ignores_numbers_of_more_bits() {
        let set: IntervalSet = [(7, 9), (300, 310), (400, 400)].into_iter().collect();
        assert_eq!(set.complement(8).to_string(), "0-6, 10-255");
        assert_eq!(set.complement(9).to_string(), "0-6, 10-299, 311-399, 401-511");
    }

    #[test]
    fn the_ends_of_the_range_hold() {
        assert_eq!(IntervalSet::full(128).complement(128), IntervalSet::empty());
        assert_eq!(IntervalSet::empty().complement(128), IntervalSet::full(128));
        assert!(IntervalSet::one(3, 2).is_empty());
        let all = IntervalSet::one(0, 5).union(&IntervalSet::one(6, u128::MAX));
        assert_eq!(all, IntervalSet::full(128));
        assert_eq!(IntervalSet::one(1, 1).union(&IntervalSet::one(4, 6)).to_string(), "1, 4-6");
    }
}
