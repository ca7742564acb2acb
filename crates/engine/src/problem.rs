//! The problems that the engine and elements find in a configuration without syntax errors.

use lang::{Diagnostic, Sources, Span};

/// A problem of a configuration: an error, a warning or a note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The context of the message, such as `While configuring 'name :: Class'`. `None` if the problem was not
    /// found by an element or in an element's handler calls.
    pub context: Option<String>,
    /// The span of the element that the context names. The span of the diagnostic may be narrower, such as
    /// one argument, or elsewhere.
    pub context_span: Option<Span>,
    /// The message, its severity and its span.
    pub diagnostic: Diagnostic,
}

impl Problem {
    /// Makes a problem without a context.
    pub fn new(diagnostic: Diagnostic) -> Problem {
        Problem { context: None, context_span: None, diagnostic }
    }

    /// Renders the problem as text: a line `file:line:column: error: message`, and further lines for hints.
    pub fn render(&self, sources: &Sources) -> String {
        let mut diagnostic = self.diagnostic.clone();
        if let Some(context) = &self.context {
            diagnostic.message = format!("{context}: {}", diagnostic.message);
        }
        diagnostic.render(sources)
    }
}
