//! Substitution of `$name`, `${name}` and `$(handler parameters)` in the text of an instruction.
//!
//! Single quotes, and a backslash inside double quotes, protect a dollar sign. A value that is inserted
//! inside double quotes gets backslashes where they are needed, so that it remains one word. References
//! without a value do not change.

use lang::args::quote;

/// A source of values for the references in a text. It also limits the nesting of references.
pub(super) trait Source {
    /// Returns the value of a variable; `None` if there is no such variable.
    fn variable(&mut self, name: &str) -> Option<String>;
    /// Returns the answer of a read handler. `text` is the handler with its parameters, already expanded.
    /// Returns `None` after an error, which the source reports.
    fn handler(&mut self, text: &str) -> Option<String>;
    /// Begins the expansion of the inside of a reference `$(...)`. Returns false if references are nested too
    /// deeply; the reference then stays unexpanded.
    fn enter(&mut self) -> bool;
    /// Ends the expansion of a reference `$(...)`, after its handler was called; called once for each call of
    /// `enter` that returned true.
    fn leave(&mut self);
    /// Reports that the expanded text is too long. The result of [`expand`] is then empty.
    fn too_long(&mut self);
}

/// The way in which [`expand`] inserts values into a text: as they are, or in quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Values are inserted unchanged.
    Plain,
    /// Values are put in double quotes, unless they are inside quotes already. Removing one layer of
    /// quotes from the whole text then gives the values unchanged.
    Quoted,
}

/// Returns `text` with its references replaced by the values that `source` gives. The result is empty if
/// values were inserted and it has more than `most` bytes.
pub(super) fn expand(text: &str, mode: Mode, most: usize, source: &mut dyn Source) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quotes = None;
    // Text before `copied` has already been copied to `out`.
    let (mut at, mut copied) = (0, 0);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match (byte, quotes) {
            (b'\\', Some(b'"')) => at += 2,
            (b'\'' | b'"', None) => (quotes, at) = (Some(byte), at + 1),
            (b'\'' | b'"', Some(open)) if open == byte => (quotes, at) = (None, at + 1),
            (b'$', None | Some(b'"')) => {
                let reference = match Reference::find(text, at) {
                    Found::Reference(reference) => reference,
                    Found::Nothing => {
                        at += 1;
                        continue;
                    }
                    Found::Open => break,
                };
                let end = reference.end;
                if let Some(value) = reference.value(most, source) {
                    out.push_str(text.get(copied..at).unwrap_or_default());
                    out.push_str(&placed(value, mode, quotes.is_some()));
                    copied = end;
                    if out.len() > most {
                        source.too_long();
                        return String::new();
                    }
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    // A text into which no value was inserted is as the user configured it, and may have any length.
    if copied > 0 && out.len() > most {
        source.too_long();
        return String::new();
    }
    out
}

/// Returns a value in the form in which it is inserted. `in_quotes` is true if the reference is inside
/// double quotes, where some characters of the value need a backslash.
fn placed(value: String, mode: Mode, in_quotes: bool) -> String {
    if !in_quotes && mode == Mode::Plain {
        return value;
    }
    let quoted = quote(&value);
    let inner = match quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner,
        None => &quoted,
    };
    if in_quotes { inner.to_owned() } else { format!("\"{inner}\"") }
}

/// The meaning of a dollar sign in a text.
enum Found<'a> {
    Reference(Reference<'a>),
    /// An ordinary character: no name, brace or parenthesis follows it.
    Nothing,
    /// The start of a reference that is not closed. The text after it is not searched, so that a text with
    /// many unclosed references takes no longer than other texts.
    Open,
}

/// A reference to a variable or to a handler in a text.
struct Reference<'a> {
    kind: Kind,
    /// The name of the variable, or the handler with its parameters, before expansion.
    inner: &'a str,
    /// The offset in bytes of the end of the reference in the text.
    end: usize,
}

enum Kind {
    Variable,
    Handler,
}

impl<'a> Reference<'a> {
    /// Returns the meaning of the dollar sign at the offset `at` of a text.
    fn find(text: &'a str, at: usize) -> Found<'a> {
        let rest = text.get(at + 1..).unwrap_or_default();
        let (kind, inner, length) = match rest.bytes().next() {
            Some(b'{') => match rest.find('}') {
                Some(close) => (Kind::Variable, rest.get(1..close), close + 1),
                None => return Found::Open,
            },
            Some(b'(') => match closing_parenthesis(rest) {
                Some(close) => (Kind::Handler, rest.get(1..close), close + 1),
                None => return Found::Open,
            },
            Some(b'?' | b'#' | b'$') => (Kind::Variable, rest.get(..1), 1),
            _ => {
                let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                match rest.bytes().take_while(word).count() {
                    0 => return Found::Nothing,
                    length => (Kind::Variable, rest.get(..length), length),
                }
            }
        };
        Found::Reference(Reference { kind, inner: inner.unwrap_or_default(), end: at + 1 + length })
    }

    fn value(self, most: usize, source: &mut dyn Source) -> Option<String> {
        let Kind::Handler = self.kind else { return source.variable(self.inner) };
        if !source.enter() {
            return None;
        }
        let inner = expand(self.inner, Mode::Plain, most, source);
        let value = source.handler(&inner);
        source.leave();
        value
    }
}

/// Returns the offset of the closing parenthesis that matches the opening parenthesis at the start of
/// `text`; `None` if there is none. Parentheses in quotes are ignored.
fn closing_parenthesis(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at, mut quotes) = (0usize, 0, None);
    while let Some(&byte) = bytes.get(at) {
        match (byte, quotes) {
            (b'\\', Some(b'"')) => at += 1,
            (b'\'' | b'"', None) => quotes = Some(byte),
            (b'\'' | b'"', Some(open)) if open == byte => quotes = None,
            (b'(', None) => depth += 1,
            (b')', None) if depth == 1 => return Some(at),
            (b')', None) => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A source for tests, with the variables `x`, `q` and `?`. Each handler except `bad` answers with its
    /// own text in angle brackets.
    #[derive(Default)]
    struct Known {
        depth: usize,
        refused: usize,
    }

    impl Source for Known {
        fn variable(&mut self, name: &str) -> Option<String> {
            match name {
                "x" => Some("1".into()),
                "q" | "?" => Some("a \"b\" $x".into()),
                _ => None,
            }
        }
        fn handler(&mut self, text: &str) -> Option<String> {
            (text != "bad").then(|| format!("<{text}>"))
        }
        fn enter(&mut self) -> bool {
            self.depth += 1;
            let fits = self.depth <= 8;
            if !fits {
                (self.depth, self.refused) = (self.depth - 1, self.refused + 1);
            }
            fits
        }
        fn leave(&mut self) {
            self.depth -= 1;
        }
        fn too_long(&mut self) {
            self.refused += 1;
        }
    }

    fn check(mode: Mode, cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            assert_eq!(expand(text, mode, 1000, &mut Known::default()), *expected, "{text}");
        }
    }

    #[test]
    fn references_are_replaced() {
        check(
            Mode::Plain,
            &[
                ("$x", "1"),
                ("a${x}b$x.", "a1b1."),
                ("$xy $y ${y} $", "$xy $y ${y} $"),
                ("$?", "a \"b\" $x"),
                ("'$x' \"$x\" \"\\$x\" \\$x", "'$x' \"1\" \"\\$x\" \\1"),
                ("\"$q\"", "\"a \\\"b\\\" \\$x\""),
                ("$(h $x)", "<h 1>"),
                ("$(h $(g $x) ')' \")\" (y))", "<h <g 1> ')' \")\" (y)>"),
                ("$(bad) $x", "$(bad) 1"),
                ("${x $x", "${x $x"),
                ("$x $(h $x", "1 $(h $x"),
                ("é$xé", "é1é"),
            ],
        );
        check(
            Mode::Quoted,
            &[("$x", "\"1\""), ("$q", "\"a \\\"b\\\" \\$x\""), ("\"v=$x\"", "\"v=1\""), ("'$x'$y", "'$x'$y")],
        );
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let text = format!("{}x{}", "$(h ".repeat(1000), ")".repeat(1000));
        let mut known = Known::default();
        expand(&text, Mode::Plain, 1_000_000, &mut known);
        assert_eq!((known.depth, known.refused), (0, 1));
        assert_eq!(expand(&"$q".repeat(200), Mode::Plain, 1000, &mut known), "");
        assert_eq!(known.refused, 2);
        let end = "x".repeat(1000);
        assert_eq!(expand(&format!("${{q}}{end}"), Mode::Plain, 1000, &mut known), "");
        assert_eq!(expand(&format!("{end}$nothing"), Mode::Plain, 1000, &mut known).len(), 1008);
        assert_eq!(known.refused, 3);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[$(){}xq?'\"\\\\ bé<>]{0,60}", quoted: bool) {
            let mode = if quoted { Mode::Quoted } else { Mode::Plain };
            let mut known = Known::default();
            expand(&text, mode, 1000, &mut known);
            prop_assert_eq!(known.depth, 0);
        }

        #[test]
        fn text_without_references_stays(text in "[^$]{0,60}", quoted: bool) {
            let mode = if quoted { Mode::Quoted } else { Mode::Plain };
            prop_assert_eq!(expand(&text, mode, 1000, &mut Known::default()), text);
        }

        #[test]
        fn quoted_values_survive_unquoting(value in ".{0,30}") {
            struct One(String);
            impl Source for One {
                fn variable(&mut self, _: &str) -> Option<String> {
                    Some(self.0.clone())
                }
                fn handler(&mut self, _: &str) -> Option<String> {
                    None
                }
                fn enter(&mut self) -> bool {
                    false
                }
                fn leave(&mut self) {}
                fn too_long(&mut self) {}
            }
            for text in ["$v", "\"$v\""] {
                let expanded = expand(text, Mode::Quoted, 1000, &mut One(value.clone()));
                prop_assert_eq!(lang::args::unquote(&expanded), value.clone());
            }
        }
    }
}
