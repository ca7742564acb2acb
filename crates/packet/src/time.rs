//! Time stamps: signed nanoseconds since 1970-01-01 UTC.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time, in nanoseconds since 1970, or a span of time, in nanoseconds. As the time of a packet,
/// zero means *not set*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Zero, the time stamp of a packet whose time is not set.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The latest time stamp, in the year 2262.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Converts whole seconds. A value out of range becomes the earliest or latest time stamp.
    pub const fn from_secs(secs: i64) -> Self {
        Timestamp(secs.saturating_mul(1_000_000_000))
    }

    /// Converts seconds with a fraction. A value out of range becomes the earliest or latest time stamp;
    /// NaN becomes zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Timestamp((secs * 1e9).round() as i64)
    }

    /// Returns the time in seconds, rounded to the precision of a double.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time as whole seconds, rounded towards minus infinity, and the remaining 0 to
    /// 999,999,999 nanoseconds.
    pub const fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }

    /// Formats a span like Click. A span from zero to less than a second is shown in the largest unit of
    /// which it is a whole number (`5ms`, `20us`, `7ns`). Any other span is shown in seconds (`1.500000s`).
    pub fn as_interval(self) -> String {
        let (secs, nanos) = self.parts();
        match nanos {
            _ if secs != 0 => format!("{self}s"),
            n if n.is_multiple_of(1_000_000) => format!("{}ms", n / 1_000_000),
            n if n.is_multiple_of(1_000) => format!("{}us", n / 1_000),
            n => format!("{n}ns"),
        }
    }

    /// Formats the time stamp with nine digits after the point, also where fewer digits say the same.
    pub fn with_nanoseconds(self) -> String {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        format!("{sign}{}.{:09}", magnitude / 1_000_000_000, magnitude % 1_000_000_000)
    }

    /// True if the time stamp is not zero.
    pub const fn is_set(self) -> bool {
        self.0 != 0
    }
}

impl Add for Timestamp {
    type Output = Timestamp;
    fn add(self, other: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_add(other.0))
    }
}

impl Sub for Timestamp {
    type Output = Timestamp;
    fn sub(self, other: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_sub(other.0))
    }
}

/// Formats `seconds.fraction` like Click: six digits, or nine if the time is not a whole number of
/// microseconds. Negative values start with a minus sign.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (secs, nanos) = (magnitude / 1_000_000_000, magnitude % 1_000_000_000);
        if nanos.is_multiple_of(1000) {
            write!(f, "{sign}{secs}.{:06}", nanos / 1000)
        } else {
            write!(f, "{sign}{secs}.{nanos:09}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_times_split_towards_minus_infinity() {
        assert_eq!(Timestamp(-1).parts(), (-1, 999_999_999));
        assert_eq!(Timestamp(-1).to_string(), "-0.000000001");
        assert_eq!(Timestamp(1_500_000_000).to_string(), "1.500000");
        assert_eq!(Timestamp(-1_500_000_000).with_nanoseconds(), "-1.500000000");
        assert_eq!(Timestamp::MAX + Timestamp(1), Timestamp::MAX);
    }
}
