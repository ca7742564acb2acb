//! Histograms and their summaries, in an amount of memory that does not depend on the number of values.

use serde::Serialize;

/// The number of counters per power of two. Values below twice this number have a counter of their own.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 11;

/// A histogram of integers. Values below 4096 are counted exactly; larger values are rounded down by less
/// than 1/2000 of the value. Has at most 54 x 2048 counters for any number of values.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

#[inline]
fn place(value: u64) -> usize {
    let shift = (u64::BITS - STEP_BITS - 1).saturating_sub(value.leading_zeros());
    // The shifted value is below 2 * STEPS, so the index fits into usize.
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// Returns the smallest value that is counted at index `place` of the counters.
fn value_at(place: usize) -> u64 {
    let place = place as u64;
    match (place / STEPS).checked_sub(1) {
        None | Some(0) => place,
        Some(shift) => (place - shift * STEPS) << shift,
    }
}

impl Histogram {
    /// Counts a value once.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Counts a value `times` times.
    #[inline]
    pub fn add_many(&mut self, value: u64, times: u64) {
        let place = place(value);
        if place >= self.counts.len() {
            self.grow(place);
        }
        self.counts[place] += times;
        self.total += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        self.counts.resize(place + 1, 0);
    }

    /// Returns the number of counted values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the exact mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        ratio(self.sum as f64, self.total as f64)
    }

    /// Returns the largest counted value, which is exact; 0 if there are no values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the smallest counted value `v` for which at least `percent` percent of all values are at
    /// most `v` (nearest rank). Values from 4096 on are rounded down. 0 if there are no values.
    pub fn percentile(&self, percent: u32) -> u64 {
        let rank = (u128::from(self.total) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (place, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                return value_at(place);
            }
        }
        self.max
    }

    /// Returns mean, percentiles and bins of the counted values.
    pub fn summary(&self) -> Distribution {
        let first = self.counts.iter().position(|&count| count > 0);
        let mut bins: Vec<Bin> = Vec::new();
        for (place, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = value_at(place);
            match bins.last_mut() {
                Some(bin) if start_of_bin(bin.from) == start_of_bin(value) => {
                    (bin.to, bin.count) = (value, bin.count + count);
                }
                _ => bins.push(Bin { from: value, to: value, count }),
            }
        }
        Distribution {
            count: self.total,
            mean: self.mean(),
            min: first.map_or(0, value_at),
            p25: self.percentile(25),
            p50: self.percentile(50),
            p75: self.percentile(75),
            p90: self.percentile(90),
            p99: self.percentile(99),
            max: self.max,
            bins,
        }
    }
}

/// Returns the smallest value of the bin that `value` belongs to. Below 16, each value is a bin; from 16 on,
/// each power of two has eight bins of equal width.
fn start_of_bin(value: u64) -> u64 {
    let shift = 60u32.saturating_sub(value.leading_zeros());
    value >> shift << shift
}

/// Returns `part` divided by `all`; 0 if `all` is 0.
pub(crate) fn ratio(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

/// The summary of a histogram. Percentiles are by nearest rank: values that occur, without interpolation.
/// Values from 4096 on are rounded down by less than 1/2000, except `mean` and `max`, which are exact.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The number of values; if it is 0, all other fields are 0.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The smallest value.
    pub min: u64,
    /// The first quartile.
    pub p25: u64,
    /// The median.
    pub p50: u64,
    /// The third quartile.
    pub p75: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
    /// The bins with at least one value, by rising value. Below 16, each value has a bin of its own; from 16
    /// on, each power of two has eight bins.
    pub bins: Vec<Bin>,
}

/// A range of values of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The smallest counted value in the bin.
    pub from: u64,
    /// The largest counted value in the bin.
    pub to: u64,
    /// The number of values in the bin.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_value_is_exact() {
        let mut histogram = Histogram::default();
        histogram.add(5001);
        assert_eq!((histogram.max(), histogram.percentile(100)), (5001, 5000));
    }

    #[test]
    fn by_hand() {
        let mut histogram = Histogram::default();
        for value in [1, 1, 2, 3, 10] {
            histogram.add(value);
        }
        let summary = histogram.summary();
        assert_eq!((summary.p25, summary.p50, summary.p75, summary.p99), (1, 2, 3, 10));
        assert_eq!((summary.count, summary.mean, summary.min, summary.max), (5, 3.4, 1, 10));
        assert_eq!(Histogram::default().summary(), Distribution::default());
    }

    #[test]
    fn bins_by_hand() {
        let mut histogram = Histogram::default();
        [0, 15, 16, 17, 33, 34, 590, 590].into_iter().for_each(|value| histogram.add(value));
        let bins = histogram.summary().bins;
        let bins: Vec<_> = bins.iter().map(|bin| (bin.from, bin.to, bin.count)).collect();
        assert_eq!(bins, [(0, 0, 1), (15, 15, 1), (16, 17, 2), (33, 34, 2), (590, 590, 2)]);
        // Each power of two has eight bins.
        let starts: std::collections::BTreeSet<u64> = (1024..2048).map(start_of_bin).collect();
        assert_eq!((starts.len(), starts.first()), (8, Some(&1024)));
        assert_eq!(start_of_bin(u64::MAX), 0xf << 60);
    }

    proptest! {
        #[test]
        fn places_hold_what_is_nearly_equal(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let low = value_at(place(value));
            prop_assert!(low <= value && value - low <= value / STEPS);
            prop_assert_eq!(place(low), place(value));
            prop_assert!(place(value) < 53 * 2048 + 2048);
            prop_assert!(value >= 2 * STEPS || low == value);
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_values(mut values in proptest::collection::vec(0u64..4000, 1..200), percent in 1u32..101) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(value));
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100);
            prop_assert_eq!(histogram.percentile(percent), values[rank - 1]);
            prop_assert_eq!(histogram.summary().bins.iter().map(|bin| bin.count).sum::<u64>(), values.len() as u64);
        }
    }
}
