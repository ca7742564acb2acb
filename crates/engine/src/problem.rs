//! Problems of a configuration that has no syntax errors.

use lang::{Diagnostic, Sources, Span};

/// A problem that the engine or an element has found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The context, such as `While configuring 'name :: Class'`, if the problem comes from an element.
    pub context: Option<String>,
    /// The span of the element that the context names. The span of the diagnostic may be a part of its
    /// arguments, or a value elsewhere.
    pub context_span: Option<Span>,
    /// The message and its span.
    pub diagnostic: Diagnostic,
}

impl Problem {
    /// Makes a problem without a context.
    pub fn new(diagnostic: Diagnostic) -> Problem {
        Problem { context: None, context_span: None, diagnostic }
    }

    /// Renders the problem: a line `file:line:column: error: message`, and further lines for hints.
    pub fn render(&self, sources: &Sources) -> String {
        let mut diagnostic = self.diagnostic.clone();
        if let Some(context) = &self.context {
            diagnostic.message = format!("{context}: {}", diagnostic.message);
        }
        diagnostic.render(sources)
    }
}
