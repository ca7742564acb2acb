//! A histogram: counts of values from 0 to a maximum.

use std::fmt::Write;

/// The number of times that each value has been added; the value is the index.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Returns an empty histogram for values up to `most`; larger values are counted as `most`.
    pub(crate) fn new(most: usize) -> Histogram {
        Histogram { counts: vec![0; most + 1] }
    }

    pub(crate) fn add(&mut self, value: usize) {
        let last = self.counts.len() - 1;
        self.counts[value.min(last)] += 1;
    }

    /// Returns the values that have been added, in ascending order, each with its count.
    fn seen(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// Returns the number of values that have been added.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the values that have been added, as they were counted.
    pub(crate) fn sum(&self) -> u64 {
        self.seen().map(|(value, count)| value as u64 * count).sum()
    }

    /// Returns the number of different values that have been added.
    pub(crate) fn different(&self) -> usize {
        self.seen().count()
    }

    pub(crate) fn max(&self) -> Option<usize> {
        self.seen().last().map(|(value, _)| value)
    }

    /// Returns the most frequent value and its count; the smallest of several equally frequent values; (0,
    /// 0) if no value has been added.
    pub(crate) fn mode(&self) -> (usize, u64) {
        self.seen().fold((0, 0), |best, next| if next.1 > best.1 { next } else { best })
    }

    /// Returns the median: the smallest value such that more than half of the added values are at most as
    /// large. Returns 0 if no value has been added.
    pub(crate) fn median(&self) -> usize {
        let half = self.total() / 2;
        let mut below = 0;
        let mut above = self.seen().filter(|(_, count)| {
            below += count;
            below > half
        });
        above.next().map_or(0, |(value, _)| value)
    }

    /// Returns a line `VALUE: COUNT` for each value that has been added, in ascending order.
    pub(crate) fn dump(&self) -> String {
        self.seen().fold(String::new(), |mut text, (value, count)| {
            // Writing to a string never fails.
            let _ = writeln!(text, "{value}: {count}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen() {
        let mut histogram = Histogram::new(9);
        assert_eq!((histogram.mode(), histogram.median(), histogram.max()), ((0, 0), 0, None));
        [3, 5, 5, 3, 70, 1].into_iter().for_each(|value| histogram.add(value));
        assert_eq!((histogram.mode(), histogram.median(), histogram.max()), ((3, 2), 5, Some(9)));
        assert_eq!((histogram.total(), histogram.sum(), histogram.different()), (6, 26, 4));
        assert_eq!(histogram.dump(), "1: 1\n3: 2\n5: 2\n9: 1\n");
    }
}
