//! Time spans in arguments whose bare numbers are microseconds.

use packet::Timestamp;

use super::{ArgType, Scope, not_a, parse_real, parse_seconds};

/// A time span from 0 to 2^20 seconds. It is written with a unit, or as a bare number of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Micros(pub Timestamp);

impl Micros {
    /// Makes a time span of `micros` microseconds.
    pub const fn from_micros(micros: i64) -> Micros {
        Micros(Timestamp(micros * 1000))
    }
}

impl ArgType for Micros {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Micros, String> {
        let span = match parse_real(text) {
            Some(micros) => Timestamp((micros * 1000.0).round() as i64),
            None => parse_seconds(text).ok_or_else(|| {
                not_a(text, "a time; write microseconds, or a number and a unit, such as 64us")
            })?,
        };
        // The bound keeps sums of spans and times from overflowing.
        let bounds = Timestamp(0)..=Timestamp::from_secs(1 << 20);
        if bounds.contains(&span) { Ok(Micros(span)) } else { Err(not_a(text, "a time from 0 to 1048576s")) }
    }

    fn clicks_words(_text: &str) -> Option<String> {
        None
    }
}
