//! Splits configuration strings into arguments, and handles quotes. A configuration string is a
//! comma-separated list of arguments (click(5), "Configuration strings").
//!
//! Inside `'...'` and `"..."`, commas, white space and comments have no special meaning; inside `\<...>`,
//! commas and white space have none. Inside parentheses and brackets they have: `max(1, 2)` is two arguments.
//! A comment or a line directive counts as one space.

use std::ops::Range;

use crate::lexer::parameter_length;
use crate::scan::{self, Kind};

/// An argument of a configuration string, or a word of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The text of the argument without white space around it. Each comment or line directive in it is
    /// replaced by one space; quotes are kept.
    pub text: String,
    /// The range of bytes from which the text was taken: in the configuration string for an argument, and in
    /// the argument that was split for a word ([`split_spaces`]).
    pub range: Range<usize>,
}

/// Splits a configuration string at commas into arguments (Click: `cp_argvec`). An empty last argument is
/// left out, so an empty string has no arguments.
pub fn split(config: &str) -> Vec<Arg> {
    let mut args = Vec::new();
    let mut start = 0;
    for piece in scan::pieces(config) {
        if piece.kind == Kind::Plain && config.as_bytes().get(piece.start) == Some(&b',') {
            args.push(arg(config, start..piece.start));
            start = piece.end;
        }
    }
    let last = arg(config, start..config.len());
    if !last.text.is_empty() {
        args.push(last);
    }
    args
}

/// Joins arguments to a configuration string, from which [`split`] returns the same arguments (Click:
/// `cp_unargvec`). Commas in the arguments must be in quotes.
pub fn join<T: AsRef<str>>(args: impl IntoIterator<Item = T>) -> String {
    let args: Vec<T> = args.into_iter().collect();
    let mut out = args.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    // [`split`] leaves out an empty last argument, unless a comma follows it.
    if args.last().is_some_and(|last| last.as_ref().is_empty()) {
        out.push(',');
    }
    out
}

/// Splits an argument at white space into words (Click: `cp_spacevec`). White space inside quotes does not
/// separate words; words keep their quotes.
pub fn split_spaces(text: &str) -> Vec<Arg> {
    let mut words = Vec::new();
    let mut start = None;
    let mut end_word = |start: &mut Option<usize>, end: usize| {
        if let Some(start) = start.take() {
            words.push(Arg { text: text.get(start..end).unwrap_or("").to_owned(), range: start..end });
        }
    };
    for piece in scan::pieces(text) {
        if is_blank(text, piece) {
            end_word(&mut start, piece.start);
        } else {
            start.get_or_insert(piece.start);
        }
    }
    end_word(&mut start, text.len());
    words
}

/// Removes one level of quotes, and replaces backslash escapes in double quotes (Click: `cp_unquote`). The
/// result is bytes, because `\<ff>` and escapes can give bytes that are not UTF-8.
pub fn unquote_bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for piece in scan::pieces(text) {
        let inner = |close: usize| {
            let end = if piece.closed { piece.end - close } else { piece.end };
            text.as_bytes().get(piece.start + 1..end).unwrap_or_default()
        };
        match piece.kind {
            Kind::Single => out.extend_from_slice(inner(1)),
            Kind::Double => unescape(inner(1), &mut out),
            Kind::Data => push_data(inner(1), &mut out),
            Kind::Plain | Kind::Comment | Kind::Directive => {
                out.extend_from_slice(text.as_bytes().get(piece.start..piece.end).unwrap_or_default());
            }
        }
    }
    out
}

/// Removes quotes like [`unquote_bytes`], for arguments that are text. Bytes that are not UTF-8 become
/// U+FFFD.
pub fn unquote(text: &str) -> String {
    String::from_utf8(unquote_bytes(text))
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Quotes bytes so that [`split`] and [`split_spaces`] see one argument of one word, and [`unquote_bytes`]
/// gives the bytes again (Click: `cp_quote`). A text without special characters is returned without quotes.
pub fn quote(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    let is_text = std::str::from_utf8(bytes).is_ok();
    let plain = |byte: &u8| match byte {
        b'"' | b'\'' | b'\\' | b',' | b'$' | b'/' | b'(' | b')' | b';' => false,
        0x21..=0x7e => true,
        byte => is_text && *byte >= 0x80,
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.is_empty() && bytes.iter().all(plain) => text.to_owned(),
        _ => format!("\"{}\"", escape(bytes)),
    }
}

/// Returns the text that gives `bytes` when it is between double quotes.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' | '$' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", u32::from(c))),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\{byte:03o}")));
    }
    out
}

/// Returns the name of the first parameter in a text, without dollar sign, braces and parentheses; `None` if
/// there is none. After substitution, only parameters without a value are left in a text. Text in quotes is
/// ignored, because it may contain a literal dollar sign; so are comments, line directives and `\<...>` data.
pub fn parameter(text: &str) -> Option<&str> {
    let is_dollar =
        |piece: &scan::Piece| piece.kind == Kind::Plain && text.as_bytes().get(piece.start) == Some(&b'$');
    scan::pieces(text).filter(is_dollar).find_map(|piece| {
        let rest = text.get(piece.end..)?;
        let (name, end) = match rest.as_bytes().first()? {
            b'{' => (&rest[1..], Some(&b'}')),
            b'(' => (&rest[1..], Some(&b')')),
            _ => (rest, None),
        };
        let length = parameter_length(name.as_bytes());
        let is_closed = end.is_none() || name.as_bytes().get(length) == end;
        name.get(..length).filter(|name| !name.is_empty() && is_closed)
    })
}

fn is_blank(text: &str, piece: scan::Piece) -> bool {
    match piece.kind {
        Kind::Comment | Kind::Directive => true,
        Kind::Plain => text.as_bytes().get(piece.start).is_some_and(|&byte| is_space(byte)),
        _ => false,
    }
}

/// True for white space as C's `isspace` defines it.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// Makes the argument at `config[range]`: replaces comments and line directives by spaces, and removes white
/// space around it.
fn arg(config: &str, range: Range<usize>) -> Arg {
    let base = range.start;
    let raw = config.get(range).unwrap_or("");
    let (mut text, mut copied) = (String::new(), 0);
    let (mut first, mut last) = (None, 0);
    for piece in scan::pieces(raw) {
        if matches!(piece.kind, Kind::Comment | Kind::Directive) {
            text.push_str(raw.get(copied..piece.start).unwrap_or(""));
            text.push(' ');
            copied = piece.end;
        }
        if !is_blank(raw, piece) {
            first.get_or_insert(piece.start);
            last = piece.end;
        }
    }
    text.push_str(raw.get(copied..).unwrap_or(""));
    let first = first.unwrap_or(0);
    let text = text.trim_matches(|c: char| c.is_ascii() && is_space(c as u8)).to_owned();
    Arg { text, range: base + first..base + last }
}

/// Appends the content of a double-quoted string to `out`, with its backslash escapes replaced.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&escaped) = text.get(at) else {
            out.push(b'\\');
            return;
        };
        at += 1;
        match escaped {
            b'a' => out.push(0x07),
            b'b' => out.push(0x08),
            b't' => out.push(b'\t'),
            b'n' => out.push(b'\n'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'r' => out.push(b'\r'),
            b'\n' => {}
            b'\r' => at += usize::from(text.get(at) == Some(&b'\n')),
            b'0'..=b'7' => {
                let digits = digits(text, at - 1, 3, |byte| matches!(byte, b'0'..=b'7'));
                out.push(digits.iter().fold(0, |value: u8, digit| value.wrapping_mul(8) | (digit - b'0')));
                at = at - 1 + digits.len();
            }
            b'x' => {
                let digits = digits(text, at, usize::MAX, |byte| byte.is_ascii_hexdigit());
                if digits.is_empty() {
                    out.push(b'x');
                } else {
                    out.push(digits.iter().fold(0, |value: u8, digit| value << 4 | hex(*digit)));
                }
                at += digits.len();
            }
            b'<' => match text.get(at..).and_then(|rest| rest.iter().position(|&byte| byte == b'>')) {
                Some(length) => {
                    push_data(text.get(at - 1..at + length).unwrap_or_default(), out);
                    at += length + 1;
                }
                None => out.push(b'<'),
            },
            other => out.push(other),
        }
    }
}

fn digits(text: &[u8], from: usize, limit: usize, is_digit: impl Fn(u8) -> bool) -> &[u8] {
    let rest = text.get(from..).unwrap_or_default();
    let length = rest.iter().take(limit).take_while(|byte| is_digit(**byte)).count();
    rest.get(..length).unwrap_or_default()
}

/// Appends the bytes of a `\<...>` string to `out`. `text` starts with `<` and ends ahead of `>`. Two
/// hexadecimal digits make a byte, as does a last single digit; comments and other characters are ignored.
fn push_data(text: &[u8], out: &mut Vec<u8>) {
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    let digits: Vec<u8> = scan::outside_comments(text).filter(is_digit).map(hex).collect();
    out.extend(digits.chunks(2).map(|pair| pair.iter().fold(0, |value: u8, digit| value << 4 | digit)));
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(args: Vec<Arg>) -> Vec<String> {
        args.into_iter().map(|arg| arg.text).collect()
    }

    #[test]
    fn split_at_commas_outside_quotes() {
        assert_eq!(
            texts(split("a, b c ,'d, e', \"f,\\\",\" , \\<2c>")),
            ["a", "b c", "'d, e'", "\"f,\\\",\"", "\\<2c>"]
        );
        assert_eq!(texts(split("max(1, 2)")), ["max(1", "2)"], "parentheses protect nothing");
    }

    #[test]
    fn an_empty_last_argument_is_left_out() {
        assert_eq!(texts(split("")), [""; 0]);
        assert_eq!(texts(split("1, ")), ["1"]);
        assert_eq!(texts(split("1, /* c */")), ["1"]);
        assert_eq!(texts(split("1, // c\n")), ["1"]);
        assert_eq!(texts(split(",")), [""]);
        assert_eq!(texts(split("1,,")), ["1", ""]);
    }

    #[test]
    fn comments_are_spaces() {
        assert_eq!(texts(split("a/* , */b // c, d\n, e")), ["a b", "e"]);
        assert_eq!(texts(split("\"a // b\"")), ["\"a // b\""]);
    }

    #[test]
    fn line_directives_are_spaces() {
        assert_eq!(texts(split("a\n# 9 \"y, h\"\n b,\n# 12\nc, #d")), ["a\n \n b", "c", "#d"]);
        assert_eq!(texts(split_spaces("a\n#b c\nd")), ["a", "d"]);
        assert_eq!(texts(split("a\n'\n# b'")), ["a\n'\n# b'"]);
        assert_eq!(parameter("a\n# $b\n"), None);
    }

    #[test]
    fn ranges_point_at_the_argument() {
        let config = " /* x */ a b // y\n , 'c' ";
        let found: Vec<_> = split(config).into_iter().map(|arg| &config[arg.range]).collect();
        assert_eq!(found, ["a b", "'c'"]);
    }

    #[test]
    fn words() {
        assert_eq!(texts(split_spaces(" a  'b c'd\t\"e f\"/*x*/ g ")), ["a", "'b c'd", "\"e f\"", "g"]);
        assert_eq!(split_spaces("ab c")[1].range, 3..4);
        assert_eq!(texts(split_spaces("  ")), [""; 0]);
    }

    #[test]
    fn unquoting() {
        for (text, expected) in [
            ("a\"b\"c", "abc"),
            ("'a\\n'", "a\\n"),
            (r#""\a\b\t\n\v\f\r\\\"\$""#, "\x07\x08\t\n\x0b\x0c\r\\\"$"),
            (r#""\101\x0041\1018""#, "AAA8"),
            ("\"a\\\nb\\\r\nc\"", "abc"),
            (r"\< 54 69  6D 65 72 >", "Timer"),
            (r#""x\<48 45>y""#, "xHEy"),
            (r"'\<48>'", r"\<48>"),
            (r#"\<54:69, '6D' "65" /* 00 */ g>"#, "Time"),
            (r"a\nb", r"a\nb"),
            ("\"open", "open"),
            ("ü'é'", "üé"),
        ] {
            assert_eq!(unquote(text), expected, "{text}");
        }
        assert_eq!(unquote_bytes(r"\<00ff 1>"), [0, 0xff, 1]);
    }

    #[test]
    fn parameters() {
        for (text, name) in [
            ("$IN", Some("IN")),
            ("${IN}", Some("IN")),
            ("dir/$IN.pcap", Some("IN")),
            ("${IN", None),
            ("$", None),
            ("'$IN'", None),
            ("\"$IN\"", None),
            ("a $(b) $c", Some("b")),
            ("a $(b c) $d", Some("d")),
        ] {
            assert_eq!(parameter(text), name, "{text}");
        }
    }

    #[test]
    fn quoting_only_where_needed() {
        assert_eq!(quote("eth0"), "eth0");
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote("a b"), "\"a b\"");
        assert_eq!(quote("a\"\\$\n\x01"), "\"a\\\"\\\\\\$\\n\\001\"");
        assert_eq!(quote([0xff, b'7']), "\"\\3777\"");
    }

    proptest! {
        #[test]
        fn any_text_splits(text in "\\PC*|[a',\"/*\\\\<>0 \n]*") {
            for arg in split(&text) {
                prop_assert!(text.get(arg.range).is_some());
            }
            split_spaces(&text);
            unquote(&text);
        }

        #[test]
        fn quoted_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let quoted = quote(&bytes);
            prop_assert_eq!(unquote_bytes(&quoted), bytes);
            prop_assert_eq!(texts(split(&quoted)), [quoted.clone()]);
            prop_assert_eq!(texts(split_spaces(&quoted)), [quoted]);
        }

        #[test]
        fn joined_arguments_come_back(args in prop::collection::vec("[a-z]{0,3}|'[a-z, ]*'", 0..6)) {
            prop_assert_eq!(texts(split(&join(&args))), args);
        }
    }
}
