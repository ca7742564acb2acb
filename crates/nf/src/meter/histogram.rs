//! How often each of a bounded range of numbers was seen.

use std::fmt::Write;

/// Counts by value.
pub(super) struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// For values up to `most`; larger ones count as that.
    pub(super) fn new(most: usize) -> Histogram {
        Histogram { counts: vec![0; most + 1] }
    }

    pub(super) fn add(&mut self, value: usize) {
        let last = self.counts.len() - 1;
        self.counts[value.min(last)] += 1;
    }

    /// Values that were seen, and how often.
    fn seen(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// How many values were seen, each as often as it was.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values seen.
    pub(super) fn sum(&self) -> u64 {
        self.seen().map(|(value, count)| value as u64 * count).sum()
    }

    /// How many different values were seen.
    pub(super) fn different(&self) -> usize {
        self.seen().count()
    }

    pub(super) fn max(&self) -> Option<usize> {
        self.seen().last().map(|(value, _)| value)
    }

    /// The value seen most often, the least of several, and how often.
    pub(super) fn mode(&self) -> (usize, u64) {
        self.seen().fold((0, 0), |best, next| if next.1 > best.1 { next } else { best })
    }

    /// The least value up to which there is more than half of everything.
    pub(super) fn median(&self) -> usize {
        let half = self.total() / 2;
        let mut below = 0;
        let mut above = self.seen().filter(|(_, count)| {
            below += count;
            below > half
        });
        above.next().map_or(0, |(value, _)| value)
    }

    /// A line for each value seen.
    pub(super) fn dump(&self) -> String {
        self.seen().fold(String::new(), |mut text, (value, count)| {
            // Writing to a string cannot fail.
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
