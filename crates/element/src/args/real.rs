//! Floating-point numbers as handlers show them.

use std::fmt;

/// A floating-point number for handlers. It is shown as C's `%.12g` shows it: at most twelve digits, without
/// zeros at the end, with an exponent if the number is very large or very small (C11 7.21.6.1). Click shows
/// its doubles in this way.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: i32 = 12;
        let Real(x) = *self;
        if !x.is_finite() {
            let text = if x.is_nan() { "nan" } else { "inf" };
            return write!(f, "{}{text}", if x.is_sign_negative() { "-" } else { "" });
        }
        // The exponent is determined after rounding to twelve digits: 999999999999.9 becomes 1e+12.
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

/// Removes zeros at the end of a decimal fraction, and the point if nothing follows it. Whole numbers are
/// returned unchanged.
fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Real(x).to_string(), text);
        }
    }
}
