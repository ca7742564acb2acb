//! Conversions between numbers and the texts of Click's handlers: binary fixed-point numbers, and
//! bandwidths.

/// Returns a number in fixed point with `bits` fractional bits, rounded to the nearest; a negative number
/// becomes 0.
pub(crate) fn quantize(value: f64, bits: u32) -> u64 {
    (value * (1u64 << bits) as f64).round().max(0.0) as u64
}

/// Returns the decimal text of a fixed-point number with `bits` fractional bits. The text is the shortest
/// text from which [`quantize`] makes the same number.
pub(crate) fn show(value: u64, bits: u32) -> String {
    let exact = value as f64 / (1u64 << bits) as f64;
    let digits = (0..12).map(|digits| format!("{exact:.digits$}"));
    let mut digits = digits.filter(|text| text.parse().is_ok_and(|v| quantize(v, bits) == value));
    digits.next().unwrap_or_else(|| exact.to_string())
}

/// Returns a number with at most twelve significant digits, as C++ programs show numbers by default.
pub(crate) fn twelve_digits(value: f64) -> String {
    format!("{value:.11e}").parse::<f64>().unwrap_or(value).to_string()
}

/// Returns a quotient with at most twelve significant digits; 0 if the divisor is 0.
pub(crate) fn quotient(dividend: u64, divisor: u64) -> String {
    if divisor == 0 { "0".into() } else { twelve_digits(dividend as f64 / divisor as f64) }
}

/// Returns a bandwidth in bytes per second as text: a number of kbps, Mbps or Gbps, or, from 2^29 bytes per
/// second on, of MBps.
pub(crate) fn show_bandwidth(bytes: u64) -> String {
    let (number, digits, unit) = match bytes {
        0x2000_0000.. => (bytes, 6, "MBps"),
        125_000_000.. => (bytes * 8, 9, "Gbps"),
        125_000.. => (bytes * 8, 6, "Mbps"),
        _ => (bytes * 8, 3, "kbps"),
    };
    let one = 10u64.pow(digits);
    let whole = format!("{}.{:0width$}", number / one, number % one, width = digits as usize);
    format!("{}{unit}", whole.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_mean_the_same() {
        for (value, bits, text) in
            [(0.1, 28, "0.1"), (0.25, 28, "0.25"), (1.0, 28, "1"), (0.02, 16, "0.02"), (3.5, 10, "3.5")]
        {
            assert_eq!(show(quantize(value, bits), bits), text);
        }
        for value in [1, 12345, 0x0fff_ffff] {
            assert_eq!(quantize(show(value, 28).parse().unwrap(), 28), value);
        }
    }

    #[test]
    fn bandwidths_have_the_unit_that_fits() {
        assert_eq!(show_bandwidth(48_000), "384kbps");
        assert_eq!(show_bandwidth(1_250_000), "10Mbps");
        assert_eq!(show_bandwidth(187_500_000), "1.5Gbps");
        assert_eq!(show_bandwidth(1_000_000_000), "1000MBps");
        assert_eq!(show_bandwidth(0), "0kbps");
    }
}
