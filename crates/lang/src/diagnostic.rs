//! Diagnostics of a configuration: errors, warnings and notes, each with a place in a text and often a
//! hint.

use crate::source::{Sources, Span};

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration is wrong, and must not be run.
    Error,
    /// The configuration can be run, but something in it is probably not what the user meant.
    Warning,
    /// The diagnostic is information, and nothing is wrong.
    Note,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// The number of diagnostics of a configuration after which one more error says that there are too many.
/// Later diagnostics are not reported.
pub const MOST_FINDINGS: usize = 1000;

/// An error, warning or note about a configuration. Where Click reports the same error, either `message`
/// has Click's words, or `clicks_words` has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// The severity: error, warning or note.
    pub severity: Severity,
    /// The message without the place, and without a full stop.
    pub message: String,
    /// Click's messages, one per line, if they differ from `message`; empty if Click has no message. `None`
    /// if `message` has Click's words.
    pub clicks_words: Option<Box<str>>,
    /// Click's messages if they have places of their own: each with its place, or with `None` if Click names
    /// no place. They replace `clicks_words`; usually there are none.
    pub clicks_lines: Vec<(Option<Span>, String)>,
    /// The place in a text to which the message applies.
    pub span: Span,
    /// Advice on how to correct the error.
    pub hint: Option<String>,
    /// Further places that explain the error, such as an earlier declaration, each with a message of its own.
    pub related: Vec<(Span, String)>,
    /// True if the error is that a class does not exist. The graph is complete in spite of this error.
    pub is_unknown_class: bool,
}

impl Diagnostic {
    /// Makes an error without hint at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            clicks_words: None,
            clicks_lines: Vec::new(),
            span,
            hint: None,
            related: Vec::new(),
            is_unknown_class: false,
        }
    }

    /// Makes a warning without hint at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// Makes a note without hint at a place.
    pub fn note(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Note, ..Diagnostic::error(span, message) }
    }

    /// Returns the diagnostic with a hint, which replaces any earlier hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the diagnostic with Click's messages, one per line, instead of its own message.
    pub fn with_clicks_words(mut self, words: impl Into<Box<str>>) -> Diagnostic {
        self.clicks_words = Some(words.into());
        self
    }

    /// Returns the diagnostic with a message of Click that has a place of its own, or no place.
    pub fn with_clicks_line(mut self, place: Option<Span>, words: impl Into<String>) -> Diagnostic {
        self.clicks_lines.push((place, words.into()));
        self
    }

    /// Returns Click's messages; empty if Click has no message for the error.
    pub fn in_clicks_words(&self) -> &str {
        self.clicks_words.as_deref().unwrap_or(&self.message)
    }

    /// Returns the diagnostic with a further place and its message.
    pub fn with_related(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.related.push((span, message.into()));
        self
    }

    /// Appends the diagnostic to `others`. If `others` has [`MOST_FINDINGS`] diagnostics already, it
    /// appends an error instead, which says that no more are reported; later calls append nothing.
    pub(crate) fn add_to(self, others: &mut Vec<Diagnostic>) {
        match others.len() {
            0..MOST_FINDINGS => others.push(self),
            MOST_FINDINGS => others.push(Diagnostic::error(
                self.span,
                "too many errors; the errors after this place are not reported",
            )),
            _ => {}
        }
    }

    /// True if there were more than [`MOST_FINDINGS`] diagnostics. The caller may then stop reading the text.
    pub(crate) fn is_limit_reached(found: &[Diagnostic]) -> bool {
        found.len() > MOST_FINDINGS
    }

    /// Returns the diagnostic as plain text: a line `file:line:column: error: message`, a line for each
    /// related place, and a line for the hint. The text ends with a newline.
    pub fn render(&self, sources: &Sources) -> String {
        let mut out = format!("{}: {}: {}\n", sources.locate(self.span), self.severity, self.message);
        for (span, message) in &self.related {
            out.push_str(&format!("{}: note: {message}\n", sources.locate(*span)));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("  hint: {hint}\n"));
        }
        out
    }
}

/// Returns the candidate that is most similar to `name`, for a suggestion; `None` if none is similar enough
/// to be a typing error. About a third of the letters may differ, without regard to upper and lower case.
/// `name` itself is never returned.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).take(64).collect::<Vec<char>>();
    let wanted = letters(name);
    let limit = wanted.len().div_ceil(3).saturating_sub(usize::from(wanted.len() < 3));
    candidates
        .filter(|candidate| *candidate != name && candidate.len().abs_diff(name.len()) <= 2 * limit + 2)
        .map(|candidate| (edit_distance(&wanted, &letters(candidate)), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, candidate)| {
            let same_start = candidate.chars().next() == name.chars().next();
            (distance, !same_start, candidate)
        })
        .map(|(_, candidate)| candidate)
}

/// Returns the smallest number of edits that turn one word into the other. An edit inserts, deletes or
/// replaces a letter, or swaps two neighbouring letters.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        let names = ["counter", "queue", "q", "Classifier"];
        let find = |name| nearest(name, names.into_iter());
        assert_eq!(find("cuonter"), Some("counter"));
        assert_eq!(find("conter"), Some("counter"));
        assert_eq!(find("Queue"), Some("queue"));
        assert_eq!(find("clasifier"), Some("Classifier"));
        assert_eq!(find("discard"), None);
        assert_eq!(find("queue"), None, "the name itself is no suggestion");
        assert_eq!(find("Q"), Some("q"));
        assert_eq!(find("p"), None, "single letters resemble nothing");
    }

    #[test]
    fn render_names_every_place() {
        let mut sources = Sources::new();
        let source = sources.add("f", "a\nb");
        let span = |start| Span { source, start, end: start + 1 };
        let text = Diagnostic::error(span(2), "bad").with_related(span(0), "seen").with_hint("fix it");
        assert_eq!(text.render(&sources), "f:2:1: error: bad\nf:1:1: note: seen\n  hint: fix it\n");
    }
}
