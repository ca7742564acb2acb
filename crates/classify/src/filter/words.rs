//! Splits the text of an expression into words.

use std::ops::Range;

/// A word of a text, with the offset of its first byte in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
}

impl Word<'_> {
    pub(super) fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// Splits a text into words. An operator or a bracket is a word. So is a sequence of ASCII letters, digits
/// and `-./@_:`, such as a name, an address or a prefix. Therefore the colon of `?:` must be separated from
/// such words by spaces. White space separates words. Any other character is a word.
pub(super) fn split(text: &str) -> Vec<Word<'_>> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let next = bytes.get(start + 1).copied();
        let length = match bytes[start] {
            b @ (b'&' | b'|') if next == Some(b) => 2,
            b'<' | b'>' | b'!' | b'=' if next == Some(b'=') => 2,
            _ => bytes[start..].iter().take_while(|&&b| is_plain(b)).count().max(first.len_utf8()),
        };
        words.push(Word { text: &text[start..start + length], start });
        start += length;
    }
    words
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-./@_:".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_stand_for_themselves() {
        let texts: Vec<&str> = split("tcp[2:2]>=80&&!(a||1.2/16 ? b : é)").iter().map(|w| w.text).collect();
        let expected = [
            "tcp", "[", "2:2", "]", ">=", "80", "&&", "!", "(", "a", "||", "1.2/16", "?", "b", ":", "é", ")",
        ];
        assert_eq!(texts, expected);
        assert_eq!(split(" x  =y").iter().map(Word::span).collect::<Vec<_>>(), [1..2, 4..5, 5..6]);
    }
}
