//! The numbers of scripts: signed 64-bit integers, and doubles for all other numbers.

use std::cmp::Ordering;
use std::fmt;

use element::args::{Real, parse_integer, parse_real};

/// A number of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    /// A number with a fraction, or an integer that does not fit into 64 bits.
    Real(f64),
}

impl Number {
    /// Parses one word: an integer with Click's prefixes, or a decimal number. Returns `None` for other
    /// words.
    pub(super) fn parse(word: &str) -> Option<Number> {
        parse_int(word).map(Number::Int).or_else(|| parse_real(word).map(Number::Real))
    }

    /// Returns the number as a double; large integers are rounded.
    pub(super) fn real(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Real(x) => x,
        }
    }

    /// Combines two numbers: with `ints` if both are integers, otherwise as doubles with `reals`.
    pub(super) fn with(
        self,
        other: Number,
        ints: impl FnOnce(i64, i64) -> i64,
        reals: impl FnOnce(f64, f64) -> f64,
    ) -> Number {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Number::Int(ints(a, b)),
            (a, b) => Number::Real(reals(a.real(), b.real())),
        }
    }

    /// Returns the order of two numbers; `None` if one of them is not a number (NaN).
    pub(super) fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.real().partial_cmp(&b.real()),
        }
    }
}

/// Parses a signed 64-bit integer with Click's prefixes for bases (`0x`, `0`, `0b`). Returns `None` for
/// other words, also for larger integers.
pub(super) fn parse_int(word: &str) -> Option<i64> {
    parse_integer(word).ok().and_then(|n| i64::try_from(n).ok())
}

/// Shows integers in decimal, and doubles like C's `%.12g`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Int(n) => n.fmt(f),
            Number::Real(x) => Real(x).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_that_do_not_fit_are_doubles() {
        assert_eq!(Number::parse("0x10"), Some(Number::Int(16)));
        assert_eq!(Number::parse("-9223372036854775808"), Some(Number::Int(i64::MIN)));
        assert_eq!(Number::parse("9223372036854775808"), Some(Number::Real(9223372036854775808.0)));
        assert_eq!(Number::parse("1e3"), Some(Number::Real(1000.0)));
        assert_eq!(Number::parse("inf"), None);
        assert_eq!(Number::parse(""), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_close_to_the_number(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
            let shown = Number::Real(x).to_string();
            let back: f64 = shown.parse().unwrap();
            prop_assert!((back - x).abs() <= x.abs() * 1e-11, "{x} is shown as {shown}");
            prop_assert!(shown.len() <= 20);
        }
    }
}
