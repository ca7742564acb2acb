//! Splits configuration strings into pieces: quoted strings, comments, data and plain bytes.
//!
//! All readers of configuration strings (the lexer, argument splitting, parameter substitution) use these
//! pieces, so that they agree on what is quoted.

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A byte outside all other pieces.
    Plain,
    /// `// ...` without its end of line, or `/* ... */`.
    Comment,
    /// `'...'`.
    Single,
    /// `"..."`, in which a backslash protects the next byte.
    Double,
    /// `\<...>` outside quotes.
    Data,
}

/// A piece of a text, `start..end` in bytes. Pieces that are not plain start and end on ASCII bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// False if the text ended inside the piece.
    pub(crate) closed: bool,
}

/// Returns the pieces of `text`, one after the other.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = piece_at(text.as_bytes(), at)?;
        at = piece.end;
        Some(piece)
    })
}

/// Returns the piece that starts at `at`, which must not lie inside another piece. `None` at the end.
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

/// Returns the end of data, which has hexadecimal digits and white space, and parameters before
/// substitution. Any other character means that this is not data. Then a later `>`, perhaps of an arrow,
/// must not close it.
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
