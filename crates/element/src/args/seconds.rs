//! Time spans in arguments whose bare numbers are seconds.

use packet::Timestamp;

use super::{ArgType, Scope, not_a};

/// A time span in seconds, or with a unit as in [`parse_seconds`].
impl ArgType for Timestamp {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Timestamp, String> {
        read_seconds(text)
    }
}

/// Parses a time span like [`parse_seconds`], and returns a message if it is invalid.
///
/// # Errors
/// The text and what was expected.
pub fn read_seconds(text: &str) -> Result<Timestamp, String> {
    let expected = "a time; write seconds, or a number and a unit, such as 10ms";
    parse_seconds(text).ok_or_else(|| not_a(text, expected))
}

/// Parses a time span: a number of seconds, or a number and a unit (`ns`, `us`, `ms`, `s`, `m`, `h` or `d`,
/// or a longer form such as `min`). The result is rounded to the nanosecond; if the number has an exponent,
/// it is as exact as a floating-point number. `None` for other texts, and for time spans that are too long.
pub fn parse_seconds(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-._eE".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale: i64 = match unit.trim() {
        "" | "s" | "sec" => 1_000_000_000,
        "ms" | "msec" => 1_000_000,
        "us" | "usec" => 1_000,
        "ns" | "nsec" => 1,
        "m" | "min" => 60_000_000_000,
        "h" | "hr" => 3_600_000_000_000,
        "d" | "day" => 86_400_000_000_000,
        _ => return None,
    };
    parse_decimal(number, scale).map(Timestamp)
}

/// Multiplies a decimal number by `scale` and rounds the product to the nearest whole number. It is exact,
/// also where floating-point numbers would not be, unless the number has an exponent. `None` if the text is
/// not a number or the product is too large. Digits after the 20th of a fraction are ignored.
pub(super) fn parse_decimal(number: &str, scale: i64) -> Option<i64> {
    let plain = number.replace('_', "");
    if plain.contains(['e', 'E']) {
        let value = plain.parse::<f64>().ok()? * scale as f64;
        return (value.is_finite() && value.abs() < 9e18).then_some(value.round() as i64);
    }
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(20)];
    let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let ten = 10i128.pow(fraction.len() as u32);
    let value = whole.checked_mul(scale as i128)?.checked_add((parts * scale as i128 + ten / 2) / ten)?;
    i64::try_from(if negative { -value } else { value }).ok()
}
