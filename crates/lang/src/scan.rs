//! Splits configuration strings into pieces: quoted strings, comments, line directives, `\<...>` data, and
//! single bytes.
//!
//! The lexer, the splitting of arguments and the substitution of parameters all use these pieces, so that
//! they agree on what is quoted.

/// The kinds of pieces of a configuration string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A single byte that is not part of another piece.
    Plain,
    /// A comment: `// ...` without its end of line, or `/* ... */`.
    Comment,
    /// A line directive: a line that starts with `#`, without its end of line. The first line of a text is
    /// not one, because a configuration string may be cut out of a line.
    Directive,
    /// A single-quoted string: `'...'`.
    Single,
    /// A double-quoted string: `"..."`. A backslash protects the next byte.
    Double,
    /// Bytes in hexadecimal: `\<...>` outside of quotes. As in Click, it ends at the first `>` outside of
    /// comments, and may contain any other character.
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

/// Returns the offset of the line break after `at`, or the length of the text.
pub(crate) fn line_end(text: &[u8], at: usize) -> usize {
    find(text, at, |byte| byte == b'\n' || byte == b'\r').unwrap_or(text.len())
}

/// Returns the piece that starts at offset `at`, which must be the start of a piece; `None` at the end of
/// the text.
pub(crate) fn piece_at(text: &[u8], at: usize) -> Option<Piece> {
    let first = *text.get(at)?;
    let (kind, end) = match (first, text.get(at + 1)) {
        (b'/', Some(b'/' | b'*')) => (Kind::Comment, comment_end(text, at).flatten()),
        (b'\'', _) => (Kind::Single, find(text, at + 1, |byte| byte == b'\'').map(|end| end + 1)),
        (b'"', _) => (Kind::Double, double_end(text, at + 1)),
        (b'\\', Some(b'<')) => (Kind::Data, data_end(text, at + 2)),
        (b'#', _) if at > 0 && matches!(text.get(at - 1), Some(b'\n' | b'\r')) => {
            (Kind::Directive, Some(line_end(text, at)))
        }
        _ => (Kind::Plain, Some(at + 1)),
    };
    Some(Piece { kind, start: at, end: end.unwrap_or(text.len()), closed: end.is_some() })
}

/// Returns the bytes of `\<...>` data that are not in comments.
pub(crate) fn outside_comments(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(end) = comment_end(text, at) {
            at = end.unwrap_or(text.len());
        }
        at += 1;
        text.get(at - 1).copied()
    })
}

/// Returns the offset after the comment that starts at offset `at`: `None` if none starts there, and
/// `Some(None)` if it is not closed.
fn comment_end(text: &[u8], at: usize) -> Option<Option<usize>> {
    match (text.get(at)?, text.get(at + 1)?) {
        (b'/', b'/') => Some(Some(line_end(text, at))),
        (b'/', b'*') => Some(block_end(text, at + 2)),
        _ => None,
    }
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

/// Returns the offset after the `>` of `\<...>` data whose content starts at `at`; `None` if there is no `>`.
fn data_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find(text, at, |byte| byte == b'>' || byte == b'/')?;
        match comment_end(text, at) {
            Some(end) => at = end?,
            None if text.get(at) == Some(&b'>') => return Some(at + 1),
            None => at += 1,
        }
    }
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
    fn data_ends_at_the_first_angle_bracket_outside_of_comments() {
        assert_eq!(
            kinds(r"\<0a:0b, 'c> '>'"),
            [(Kind::Data, r"\<0a:0b, 'c>", true), (Kind::Single, "'>'", true)]
        );
        assert_eq!(kinds("\\</*>*/0a // >\n/>"), [(Kind::Data, "\\</*>*/0a // >\n/>", true)]);
    }

    #[test]
    fn a_line_directive_starts_a_line() {
        let text = "# a\n# 9 \"y\n '#\n#'\r\n#b /*\n c # d";
        assert_eq!(
            kinds(text),
            [
                (Kind::Directive, "# 9 \"y", true),
                (Kind::Single, "'#\n#'", true),
                (Kind::Directive, "#b /*", true)
            ]
        );
    }

    #[test]
    fn open_pieces_reach_the_end() {
        assert_eq!(kinds("a 'b"), [(Kind::Single, "'b", false)]);
        assert_eq!(kinds("\"\\"), [(Kind::Double, "\"\\", false)]);
        assert_eq!(kinds("/*/"), [(Kind::Comment, "/*/", false)]);
        assert_eq!(kinds(r"\<12, 'x"), [(Kind::Data, r"\<12, 'x", false)]);
    }
}
