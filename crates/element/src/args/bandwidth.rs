//! Rates in arguments.

use super::seconds::parse_decimal;
use super::{ArgType, Scope, not_a};

/// A rate in bytes per second, rounded down. It is written in bits or bytes per second with a unit, such as
/// `10Mbps` or `1.5 MBps`, or as a bare number of bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bandwidth(pub u64);

impl ArgType for Bandwidth {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Bandwidth, String> {
        let expected = "a rate; write bytes per second, or a number and a unit, such as 1Mbps or 125kB/s";
        parse_bandwidth(text).ok_or_else(|| not_a(text, expected))
    }
}

fn parse_bandwidth(text: &str) -> Option<Bandwidth> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+._".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let (prefix, unit) = match unit.chars().next() {
        Some('k' | 'K') => (1_000, &unit[1..]),
        Some('M') => (1_000_000, &unit[1..]),
        Some('G') => (1_000_000_000, &unit[1..]),
        _ => (1, unit),
    };
    let bits = match unit {
        "" if prefix == 1 => 8,
        "Bps" | "B/s" => 8,
        "bps" | "b/s" | "baud" => 1,
        _ => return None,
    };
    parse_decimal(number, prefix * bits).map(|value| Bandwidth(value as u64 / 8))
}
