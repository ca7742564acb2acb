//! Splits configuration strings into pieces: quoted strings, comments, `\<...>` data, and single bytes.
//!
//! The lexer, the splitting of arguments and the substitution of parameters all use these pieces, so that
//! they agree on what is quoted.

use std::ops::Range;

/// The kinds of pieces of a configuration string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A single byte that is not part of another piece.
    Plain,
    /// A comment: `// ...` without its end of line, or `/* ... */`.
    Comment,
    /// A single-quoted string: `'...'`.
    Single,
    /// A double-quoted string: `"..."`. A backslash protects the next byte.
    Double,
    /// Bytes in hexadecimal: `\<...>` outside of quotes.
    Data,
}

/// A piece of a configuration string, the bytes `start..end`. A piece of another kind than `Plain` starts and
/// ends between two characters, so it can be cut out of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// False if the end of the text was reached before the piece was closed.
    pub(crate) closed: bool,
}

/// Returns the pieces of a configuration string one after the other; together they are the whole text.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = piece_at(text.as_bytes(), at)?;
        at = piece.end;
        Some(piece)
    })
}

/// Returns the line directives of a configuration string, each without its end of line. A directive is a line
/// that starts with `#`, outside of quotes and comments.
pub(crate) fn directives(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if !text.contains('#') {
        return found;
    }
    let mut at = 0;
    while let Some(piece) = piece_at(text.as_bytes(), at) {
        at = piece.end;
        if piece.kind == Kind::Plain && starts_directive(text.as_bytes(), piece.start) {
            at = line_end(text, piece.start);
            found.push(piece.start..at);
        }
    }
    found
}

/// True if the byte at offset `at` is a `#` at the start of a line.
pub(crate) fn starts_directive(text: &[u8], at: usize) -> bool {
    text.get(at) == Some(&b'#') && at > 0 && matches!(text.get(at - 1), Some(b'\n' | b'\r'))
}

/// Returns the offset of the line break after `at`, or the length of the text.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    find(text.as_bytes(), at, |byte| byte == b'\n' || byte == b'\r').unwrap_or(text.len())
}

/// Returns the piece that starts at offset `at`, which must be the start of a piece; `None` at the end of
/// the text.
pub(crate) fn piece_at(text: &[u8], at: usize) -> Option<Piece> {
    let first = *text.get(at)?;
    let (kind, end) = match (first, text.get(at + 1)) {
        (b'\'', _) => (Kind::Single, find(text, at + 1, |byte| byte == b'\'').map(|end| end + 1)),
        (b'"', _) => (Kind::Double, double_end(text, at + 1)),
        (b'/', Some(b'/')) => {
            (Kind::Comment, Some(find(text, at, |byte| byte == b'\n' || byte == b'\r').unwrap_or(text.len())))
        }
        (b'/', Some(b'*')) => (Kind::Comment, block_end(text, at + 2)),
        (b'\\', Some(b'<')) => match data_end(text, at + 2) {
            None => (Kind::Plain, Some(at + 1)),
            end => (Kind::Data, end),
        },
        _ => (Kind::Plain, Some(at + 1)),
    };
    Some(Piece { kind, start: at, end: end.unwrap_or(text.len()), closed: end.is_some() })
}

fn find(text: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> Option<usize> {
    text.get(from..)?.iter().position(|&byte| wanted(byte)).map(|offset| from + offset)
}

fn double_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find(text, at, |byte| byte == b'"' || byte == b'\\')?;
        if text.get(at) == Some(&b'"') {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn block_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find(text, at, |byte| byte == b'*')? + 1;
        if text.get(at) == Some(&b'/') {
            return Some(at + 1);
        }
    }
}

/// Returns the offset after the `>` of `\<...>` data whose content starts at `from`. `None` if another
/// character than letters, digits, white space and the characters of parameters comes first, or the text
/// ends. Then this is not data, and a later `>`, perhaps of an arrow, must not close it.
fn data_end(text: &[u8], from: usize) -> Option<usize> {
    let data =
        |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"$_{}-".contains(&byte);
    let end = find(text, from, |byte| !data(byte))?;
    (text.get(end) == Some(&b'>')).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str, bool)> {
        pieces(text)
            .filter(|piece| piece.kind != Kind::Plain)
            .map(|piece| (piece.kind, &text[piece.start..piece.end], piece.closed))
            .collect()
    }

    #[test]
    fn pieces_of_each_kind() {
        assert_eq!(
            kinds(r#"a 'b"' "c\"d" /* e' */ \<0a> // f"#),
            [
                (Kind::Single, "'b\"'", true),
                (Kind::Double, r#""c\"d""#, true),
                (Kind::Comment, "/* e' */", true),
                (Kind::Data, r"\<0a>", true),
                (Kind::Comment, "// f", true),
            ]
        );
    }

    #[test]
    fn open_pieces_reach_the_end() {
        assert_eq!(kinds("a 'b"), [(Kind::Single, "'b", false)]);
        assert_eq!(kinds("\"\\"), [(Kind::Double, "\"\\", false)]);
        assert_eq!(kinds("/*/"), [(Kind::Comment, "/*/", false)]);
        assert_eq!(kinds(r"\<12) -> x"), [], "no data without its end");
    }
}
