//! The function `sprintf`: C's printf conversions for integers and strings (C11 7.21.6.1).

use lang::args::{split_spaces, unquote};

use super::MOST_TEXT;
use super::number::parse_int;

/// The maximum field width and precision, in characters; more would let a short text make a very long
/// result.
const MOST_WIDTH: usize = 4096;

const SYNTAX_ERROR: &str = "syntax error";

/// Formats words like C's printf: the first word is the format, in quotes if it has spaces, and the other
/// words are the values.
///
/// # Errors
/// If the format or a value is invalid, if there are more or fewer words than conversions need, or if the
/// result is too long.
pub(super) fn sprintf(text: &str) -> Result<String, String> {
    let mut words = split_spaces(text).into_iter().map(|word| word.text);
    let format = unquote(&words.next().ok_or(SYNTAX_ERROR)?);
    let mut out = String::new();
    let mut rest = format.as_str();
    let is_long = |length| (length > MOST_TEXT).then(|| format!("result longer than {MOST_TEXT} bytes"));
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (conversion, length) = Conversion::parse(&rest[at + 1..], &mut words)?;
        out.push_str(&conversion.apply(&mut words)?);
        is_long(out.len()).map_or(Ok(()), Err)?;
        rest = &rest[at + 1 + length..];
    }
    out.push_str(rest);
    is_long(out.len()).map_or(Ok(()), Err)?;
    match words.next() {
        None => Ok(out),
        Some(_) => Err(SYNTAX_ERROR.into()),
    }
}

/// A conversion of the format, such as `%-5d`: flags, width, precision, modifier and letter.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    /// True for the modifier `h`: the value has only 16 bits.
    short: bool,
    letter: u8,
}

impl Conversion {
    /// Parses the conversion at the start of `text`, which begins after the `%`. A width or precision of
    /// `*` takes the next of `words`. Returns the conversion and its length in bytes.
    fn parse(text: &str, words: &mut dyn Iterator<Item = String>) -> Result<(Conversion, usize), String> {
        let bytes = text.as_bytes();
        let mut conversion = Conversion::default();
        let mut at = 0;
        loop {
            match bytes.get(at) {
                Some(b'-') => conversion.left = true,
                Some(b'0') => conversion.zero = true,
                Some(b'+') => conversion.plus = true,
                Some(b' ') => conversion.space = true,
                Some(b'#') => conversion.alternate = true,
                _ => break,
            }
            at += 1;
        }
        if let Some(width) = size(bytes, &mut at, words)? {
            // A negative width, which only the word for a `*` can give, means the flag `-` and the width
            // without its sign.
            conversion.left |= width < 0;
            conversion.width = bounded(width.unsigned_abs())?;
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            let precision = size(bytes, &mut at, words)?.unwrap_or(0);
            // A negative precision, which only the word for a `*` can give, means no precision.
            conversion.precision = u64::try_from(precision).ok().map(bounded).transpose()?;
        }
        match bytes.get(at..).unwrap_or_default() {
            [b'h', ..] => (conversion.short, at) = (true, at + 1),
            [b'l', b'l', ..] => at += 2,
            [b'l' | b'L' | b'q', ..] => at += 1,
            _ => {}
        }
        conversion.letter = *bytes.get(at).ok_or(SYNTAX_ERROR)?;
        if !b"diouxXs%".contains(&conversion.letter) {
            return Err(SYNTAX_ERROR.into());
        }
        Ok((conversion, at + 1))
    }

    fn apply(&self, words: &mut dyn Iterator<Item = String>) -> Result<String, String> {
        if self.letter == b'%' {
            return Ok("%".into());
        }
        let word = unquote(&words.next().ok_or(SYNTAX_ERROR)?);
        if self.letter == b's' {
            let most = self.precision.unwrap_or(usize::MAX);
            return Ok(self.pad("", &word.chars().take(most).collect::<String>(), false));
        }
        let value = self.integer(&word)?;
        let (sign, mut digits) = match self.letter {
            b'd' | b'i' => {
                let sign = match () {
                    () if value < 0 => "-",
                    () if self.plus => "+",
                    () if self.space => " ",
                    () => "",
                };
                (sign, value.unsigned_abs().to_string())
            }
            b'o' => ("", format!("{value:o}")),
            b'x' => (if self.alternate && value != 0 { "0x" } else { "" }, format!("{value:x}")),
            b'X' => (if self.alternate && value != 0 { "0X" } else { "" }, format!("{value:X}")),
            _ => ("", value.to_string()),
        };
        if let Some(precision) = self.precision {
            if precision == 0 && value == 0 {
                digits.clear();
            }
            digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
        }
        if self.letter == b'o' && self.alternate && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        Ok(self.pad(sign, &digits, self.zero && self.precision.is_none()))
    }

    /// Returns the value of a word as in C: signed for `d` and `i`, otherwise unsigned; 16 bits wide with
    /// the modifier `h`, otherwise 64.
    fn integer(&self, word: &str) -> Result<i128, String> {
        let signed = matches!(self.letter, b'd' | b'i');
        let unsigned = || element::args::parse_integer(word).ok().and_then(|n| u64::try_from(n).ok());
        // A negative number is converted to the unsigned number with the same bits. A number that is too
        // large for the signed type is parsed as an unsigned number.
        let bits = parse_int(word).map(|n| n as u64).or_else(unsigned).ok_or(SYNTAX_ERROR)?;
        Ok(match (signed, self.short) {
            (true, false) => i128::from(bits as i64),
            (true, true) => i128::from(bits as i16),
            (false, false) => i128::from(bits),
            (false, true) => i128::from(bits as u16),
        })
    }

    /// Pads a sign and a text to the width: with spaces on the left, or on the right for the flag `-`, or
    /// with zeros after the sign if `zeros` is true.
    fn pad(&self, sign: &str, text: &str, zeros: bool) -> String {
        let missing = self.width.saturating_sub(sign.len() + text.chars().count());
        match (self.left, zeros) {
            (true, _) => format!("{sign}{text}{}", " ".repeat(missing)),
            (false, true) => format!("{sign}{}{text}", "0".repeat(missing)),
            (false, false) => format!("{}{sign}{text}", " ".repeat(missing)),
        }
    }
}

/// Parses a width or precision at the offset `at`, and moves `at` to its end: digits, or `*` for the value of
/// the next word. Returns `None` if there is neither.
fn size(
    bytes: &[u8],
    at: &mut usize,
    words: &mut dyn Iterator<Item = String>,
) -> Result<Option<i64>, String> {
    if bytes.get(*at) == Some(&b'*') {
        *at += 1;
        let word = words.next().ok_or(SYNTAX_ERROR)?;
        return Ok(Some(parse_int(&unquote(&word)).ok_or(SYNTAX_ERROR)?));
    }
    let mut value: Option<i64> = None;
    while let Some(digit) = bytes.get(*at).filter(|b| b.is_ascii_digit()) {
        value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(i64::from(digit - b'0')));
        *at += 1;
    }
    Ok(value)
}

fn bounded(size: u64) -> Result<usize, String> {
    let small = usize::try_from(size).ok().filter(|&size| size <= MOST_WIDTH);
    small.ok_or_else(|| format!("width or precision greater than {MOST_WIDTH}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn conversions() {
        let cases: &[(&str, &str)] = &[
            (r#""%05x" 127"#, "0007f"),
            (r#""%d and %s" -5 "a b""#, "-5 and a b"),
            (r#""%5d|%-5d|%05d" 42 42 -42"#, "   42|42   |-0042"),
            (r#""%+d % d" 1 2"#, "+1  2"),
            (r#""%#x %#X %#o %#x" 255 255 8 0"#, "0xff 0XFF 010 0"),
            (r#""%.3d|%5.3d|%05.3d|%.0d" 7 7 7 0"#, "007|  007|  007|"),
            (r#""%*d|%-*d|%.*s" 4 7 4 7 2 abc"#, "   7|7   |ab"),
            (r#""%*d" -4 7"#, "7   "),
            (r#""%hd %hu %hx" 70000 -1 -1"#, "4464 65535 ffff"),
            (r#""%ld %lld %Ld %qd" 1 2 3 4"#, "1 2 3 4"),
            (r#""%x" -1"#, "ffffffffffffffff"),
            (r#""%d" 18446744073709551615"#, "-1"),
            (r#""%5s|%-5s|%.2s" ab ab abc"#, "   ab|ab   |ab"),
            (r#""100%%""#, "100%"),
            ("plain", "plain"),
            (r#""%d" 0x1f"#, "31"),
        ];
        for (text, expected) in cases {
            assert_eq!(sprintf(text).as_deref(), Ok(*expected), "{text}");
        }
    }

    #[test]
    fn mistakes() {
        for text in ["", "%d", "%d x", "%d 1 2", "%f 1", "%", "%5", "%*d 1", "%lhd 1", "%d 1.5"] {
            assert_eq!(sprintf(text), Err("syntax error".into()), "{text}");
        }
        let wide = sprintf("%99999999999999999999d 1").unwrap_err();
        assert_eq!(wide, "width or precision greater than 4096");
        assert!(sprintf("%*d 5000 1").is_err());
        let long = format!("\"{}\"{}", "%4096d".repeat(5000), " 1".repeat(5000));
        assert!(sprintf(&long).unwrap_err().starts_with("result longer"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[%\\-0 +#*.0-9hlLqdiouxXs\"a\u{e9}]{0,40}") {
            let _ = sprintf(&text);
        }

        #[test]
        fn integers_look_like_rust_formats_them(value: i64, width in 0usize..30) {
            let with = |format: &str| sprintf(&format!("\"{format}\" {width} {value}")).unwrap();
            prop_assert_eq!(with("%*d"), format!("{value:width$}"));
            prop_assert_eq!(with("%-*d"), format!("{value:<width$}"));
            prop_assert_eq!(with("%0*d"), format!("{value:0width$}"));
            prop_assert_eq!(with("%+*d"), format!("{value:+width$}"));
            prop_assert_eq!(with("%*u"), format!("{:width$}", value as u64));
            prop_assert_eq!(with("%0*x"), format!("{value:0width$x}"));
            prop_assert_eq!(with("%*X"), format!("{value:width$X}"));
            prop_assert_eq!(with("%*o"), format!("{value:width$o}"));
            prop_assert_eq!(with("%*hd"), format!("{:width$}", value as i16));
            if value != 0 {
                prop_assert_eq!(with("%#0*x"), format!("{value:#0width$x}"));
            }
            let digits = value.unsigned_abs().to_string();
            let sign = if value < 0 { "-" } else { "" };
            prop_assert_eq!(with("%.*d"), format!("{sign}{digits:0>width$}"));
        }
    }
}
