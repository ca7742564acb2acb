//! A histogram of times or of other numbers, which elements show in read handlers.

use packet::Timestamp;

/// A histogram of times in nanoseconds, or of other numbers. The bounds of its classes are powers of two:
/// class 0 counts the number 0, and class n counts the numbers from 2^(n-1) to 2^n - 1. Numbers from 2^63
/// on, such as negative times, count in class 0.
#[derive(Clone, Debug)]
pub struct Log2Histogram([u64; 64]);

impl Default for Log2Histogram {
    fn default() -> Self {
        Log2Histogram([0; 64])
    }
}

impl Log2Histogram {
    /// Counts a time in its class.
    #[inline]
    pub fn see(&mut self, time: Timestamp) {
        self.add(time.0 as u64, 1);
    }

    /// Counts a number in its class of the histogram, as if the number had occurred `times` times.
    #[inline]
    pub fn add(&mut self, number: u64, times: u64) {
        self.0[class(number)] += times;
    }

    /// True if all numbers from `a` to `b` count in the same class.
    #[inline]
    pub fn is_one_class(a: u64, b: u64) -> bool {
        class(a) == class(b)
    }

    /// Returns a line for each class of the histogram that is not empty: the bound in nanoseconds below which
    /// its times lie, and the number of times. The lines are in the order of the bounds.
    pub fn show(&self) -> String {
        self.show_with("ns")
    }

    /// Returns the lines of [`show`](Self::show) for numbers in the unit `unit` instead of `ns`.
    pub fn show_with(&self, unit: &str) -> String {
        let filled = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(class, count)| format!("<{}{unit} {count}\n", 1u64 << class)).collect()
    }
}

/// Returns the index of a number's class.
#[inline(always)]
fn class(number: u64) -> usize {
    // A number from 2^63 on, such as a negative time, has class 64, which the mask turns into class 0.
    (64 - number.leading_zeros()) as usize & 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_below_their_bound() {
        let mut histogram = Log2Histogram::default();
        for time in [0, 1, 63_999, 64_000, 65_536, i64::MAX, -5] {
            histogram.see(Timestamp(time));
        }
        let expected = "<1ns 2\n<2ns 1\n<65536ns 2\n<131072ns 1\n<9223372036854775808ns 1\n";
        assert_eq!(histogram.show(), expected);
    }
}
