//! Numbers on the command line: parsers whose errors say what is wrong, common limits, and shares as text.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// The most seconds that the options for proofs take: a hundred years, which is practically no limit.
pub(crate) const MOST_SECONDS: u64 = 3_200_000_000;

/// Returns a share in percent, with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a parser of whole numbers in a range. Its errors name the limit that a number exceeds.
pub(crate) fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<i128> + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number: i128 = text.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
        let (least, most) = (range.start(), range.end());
        match T::try_from(number) {
            Ok(value) if range.contains(&value) => Ok(value),
            Ok(value) if value < *least => Err(format!("the least is {least}")),
            Err(_) if number < 0 => Err(format!("the least is {least}")),
            _ => Err(format!("the most is {most}")),
        }
    }
}

/// Parses a finite number of 0 or more, with or without a fraction.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number < 0.0 => Err("it has to be 0 or more".into()),
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("'{text}' is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_told_what_is_wrong() {
        let port = whole(1..=u16::MAX);
        assert_eq!(port("80"), Ok(80));
        assert_eq!(port("abc"), Err("'abc' is not a whole number".into()));
        assert_eq!(port("1.5"), Err("'1.5' is not a whole number".into()));
        assert_eq!(port("0"), Err("the least is 1".into()));
        assert_eq!(port("-1"), Err("the least is 1".into()));
        assert_eq!(port("65536"), Err("the most is 65535".into()));
        assert_eq!(not_negative("0.5"), Ok(0.5));
        assert_eq!(not_negative("-1"), Err("it has to be 0 or more".into()));
        assert_eq!(not_negative("inf"), Err("'inf' is not a number".into()));
        assert_eq!(not_negative("x"), Err("'x' is not a number".into()));
    }
}
