//! Bytes as hexadecimal digits, as in the text form of programs.

/// Returns two lower-case hexadecimal digits per byte.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses two hexadecimal digits per byte; `None` if a character is no digit or the number of digits is
/// odd.
pub fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::try_from(number(digits.get(at..at + 2)?)?).ok()).collect()
}

/// Parses a hexadecimal number; `None` if a character is no hexadecimal digit, if there is no digit, or if
/// the number has more than 128 bits.
pub fn number(digits: &str) -> Option<u128> {
    // `from_str_radix` would also accept a sign.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_the_same() {
        assert_eq!(bytes(&digits(&[0, 1, 0xfe])), Some(vec![0, 1, 0xfe]));
        assert_eq!(bytes("1"), None);
        assert_eq!(bytes("zz"), None);
        assert_eq!(bytes("+f"), None);
        assert_eq!(bytes("ä"), None);
    }
}
