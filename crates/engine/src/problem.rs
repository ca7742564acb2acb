//! What is wrong with a configuration beyond its syntax.

use lang::{Diagnostic, Sources, Span};

/// A finding of the engine or of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// `While configuring 'name :: Class'`, where an element speaks for itself.
    pub context: Option<String>,
    /// The place of the element that the context names; what is said may be about a part of its arguments, or about a
    /// value that stands elsewhere.
    pub context_span: Option<Span>,
    /// What and where.
    pub diagnostic: Diagnostic,
}

impl Problem {
    /// A finding without a context.
    pub fn new(diagnostic: Diagnostic) -> Problem {
        Problem { context: None, context_span: None, diagnostic }
    }

    /// One line, `file:line:column: error: message`, and further lines for hints.
    pub fn render(&self, sources: &Sources) -> String {
        let mut diagnostic = self.diagnostic.clone();
        if let Some(context) = &self.context {
            diagnostic.message = format!("{context}: {}", diagnostic.message);
        }
        diagnostic.render(sources)
    }
}
