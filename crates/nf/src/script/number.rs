//! Numbers as scripts calculate with them: 64-bit integers for as long as possible, then doubles.

use std::cmp::Ordering;
use std::fmt;

use element::args::{parse_integer, parse_real};

/// A number of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// An integer.
    Int(i64),
    /// Everything else; also integers that do not fit.
    Real(f64),
}

impl Number {
    /// Reads one word: an integer with Click's prefixes, or a decimal number.
    pub(super) fn parse(word: &str) -> Option<Number> {
        parse_int(word).map(Number::Int).or_else(|| parse_real(word).map(Number::Real))
    }

    /// As a double; large integers are rounded.
    pub(super) fn real(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Real(x) => x,
        }
    }

    /// Calculates with integers if both are, else with doubles.
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

    /// The order of two numbers, if they have one.
    pub(super) fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.real().partial_cmp(&b.real()),
        }
    }
}

/// An integer with Click's prefixes that fits into 64 bits with sign.
pub(super) fn parse_int(word: &str) -> Option<i64> {
    parse_integer(word).ok().and_then(|n| i64::try_from(n).ok())
}

/// Doubles appear as C's `%.12g` shows them: at most twelve digits, without zeros at the end, with an exponent
/// where the number is very large or very small (C11 7.21.6.1).
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: i32 = 12;
        let x = match *self {
            Number::Int(n) => return write!(f, "{n}"),
            Number::Real(x) => x,
        };
        if !x.is_finite() {
            let text = if x.is_nan() { "nan" } else { "inf" };
            return write!(f, "{}{text}", if x.is_sign_negative() { "-" } else { "" });
        }
        // Rounding to twelve digits decides the exponent: 999999999999.9 becomes 1e+12.
        let scientific = format!("{:.*e}", (DIGITS - 1) as usize, x);
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..DIGITS).contains(&exponent) {
            f.write_str(without_zeros(&format!("{:.*}", (DIGITS - 1 - exponent) as usize, x)))
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(f, "{}e{sign}{:02}", without_zeros(digits), exponent.abs())
        }
    }
}

/// Cuts zeros behind a decimal point, and the point if nothing follows it.
fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_look_like_c() {
        let cases: &[(f64, &str)] = &[
            (2.5, "2.5"),
            (2.0, "2"),
            (-0.0, "-0"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333"),
            (123456789012.0, "123456789012"),
            (1234567890123.0, "1.23456789012e+12"),
            (999999999999.9, "1e+12"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e300, "1e+300"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for &(x, text) in cases {
            assert_eq!(Number::Real(x).to_string(), text);
        }
    }

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
