//! The Click language (click(5) of Click and FastClick): [`parse()`] turns the text of a configuration into
//! a flat graph of elements and a list of diagnostics, without I/O.
//!
//! ```
//! use lang::{Options, Sources, flatten, parse};
//!
//! let mut sources = Sources::new();
//! let text = "src :: InfiniteSource -> { input -> Counter -> output } -> Discard";
//! let id = sources.add("example.click", text);
//! let (graph, diagnostics) = parse(&mut sources, id, &Options::default());
//! assert!(diagnostics.is_empty());
//! assert_eq!(graph.elements[2].name, "@2/Counter@1");
//! print!("{}", flatten(&graph));
//! ```
//!
//! Each stage is a module. `lexer` and `parser` make a syntax tree; `resolve` looks up names and turns
//! compound elements into templates; `expand` makes instances of the templates; `tunnel` removes the
//! pseudoelements `input` and `output`. Each stage continues after an error, so that one call can report many
//! errors.

pub mod args;

mod connect;
mod diagnostic;
mod dot;
mod expand;
mod flatten;
mod graph;
mod lexer;
mod params;
mod parser;
mod program;
mod resolve;
mod scan;
mod source;
mod syntax;
mod tunnel;

use std::collections::HashSet;

pub use diagnostic::{Diagnostic, MOST_FINDINGS, Severity, nearest};
pub use dot::{ConnectionEnds, PictureMarks, dot};
pub use flatten::flatten;
pub use graph::{Connection, Graph, GraphElement, Parameters};
pub use parser::{Library, LibraryText};
pub use source::{Location, SourceId, Sources, Span};

/// Settings for [`parse()`].
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Parameters from the command line, as name (without dollar sign) and value. A value has priority over
    /// a `define()` of this name in the outermost scope.
    pub defines: &'a [(String, String)],
    /// The function that finds a library by its name. Without it, each `require(library ...)` is an error.
    pub library: Option<Library<'a>>,
    /// The file of the main text, in the form of [`LibraryText::file`]. It is passed to `library`, and
    /// reveals that a library requires the main text.
    pub file: Option<&'a str>,
    /// True if libraries may require each other in a circle, as in Click, where each library is read once.
    /// The circle then gives a warning; otherwise it is an error. A circle that includes the main text is
    /// always an error.
    pub allows_circles: bool,
    /// Further texts that are appended to the main text (Click's option `-e`).
    pub expressions: &'a [SourceId],
    /// The names of the element classes that exist. An unknown class is then an error. An undeclared name is
    /// an anonymous element only if it is a class or has a configuration string. With `None`, any class may
    /// exist. An undeclared name is then a class if it has a configuration string or does not start with a
    /// lower-case letter.
    pub classes: Option<&'a [&'a str]>,
}

/// Parses a configuration whose main text is `source`, and adds the libraries that it requires to `sources`.
/// Returns the graph, which is as complete as the errors allow, and the diagnostics: first those of parsing
/// and the look-up of names, then those of compound elements and their ports, each in the order of their
/// places. If parsing and the look-up of names give more than [`MOST_FINDINGS`] diagnostics, the graph is
/// empty. If a diagnostic is an error, the graph must not be run.
pub fn parse(sources: &mut Sources, source: SourceId, options: &Options<'_>) -> (Graph, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let texts: Vec<SourceId> = std::iter::once(source).chain(options.expressions.iter().copied()).collect();
    let body = parser::parse(sources, &texts, options, &mut diagnostics);
    let start = Span { source, start: 0, end: 0 };
    let defines = check_defines(options.defines, start, &mut diagnostics);
    let program = resolve::resolve(&body, sources, start, options.classes, &mut diagnostics);
    let of_text = diagnostics.len();
    let graph = match Diagnostic::is_limit_reached(&diagnostics) {
        true => Graph::default(),
        false => expand::expand(&program, sources, &defines, &mut diagnostics),
    };
    // Errors inside a compound element are found in each of its instances, but reported once.
    let mut seen = HashSet::new();
    let mut of_graph = diagnostics.split_off(of_text.min(diagnostics.len()));
    for found in [&mut diagnostics, &mut of_graph] {
        found.retain(|diagnostic| seen.insert((diagnostic.span, diagnostic.message.clone())));
        found.sort_by_cached_key(|diagnostic| sources.reading_order(diagnostic.span));
    }
    diagnostics.append(&mut of_graph);
    (graph, diagnostics)
}

/// Returns the definitions from the command line whose quotes are all closed. Definitions with an open quote
/// are reported as errors, because the quote would include the text after the parameter.
fn check_defines(
    defines: &[(String, String)],
    span: Span,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(String, String)> {
    let closed = |(name, value): &&(String, String)| {
        let closed = scan::pieces(value).all(|piece| piece.closed);
        if !closed {
            let message = format!("unterminated string in the value of parameter '${name}'");
            diagnostics
                .push(Diagnostic::error(span, message).with_hint("close the quote on the command line"));
        }
        closed
    };
    defines.iter().filter(closed).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_belong_to_the_configuration() {
        let mut sources = Sources::new();
        let main = sources.add("main", "a :: A; define($x 1)");
        let more = [sources.add("more", "a -> B($x)")];
        let options = Options { expressions: &more, ..Options::default() };
        let (graph, diagnostics) = parse(&mut sources, main, &options);
        assert_eq!(diagnostics, []);
        assert_eq!(flatten(&graph), "a :: A;\nB@2 :: B(1);\n\na -> B@2;\n");
    }

    #[test]
    fn values_with_open_quotes_are_refused() {
        let mut sources = Sources::new();
        let main = sources.add("main", "A($x)");
        let defines = [("x".to_owned(), "\"open".to_owned())];
        let options = Options { defines: &defines, ..Options::default() };
        let (graph, diagnostics) = parse(&mut sources, main, &options);
        assert_eq!(diagnostics.len(), 1);
        assert_eq!(graph.elements[0].config, "$x");
    }

    #[test]
    fn errors_of_a_compound_element_come_once_and_in_order() {
        let text = "a -> elementclass C { x :: {-> X; $; } } C; C; $";
        let mut sources = Sources::new();
        let main = sources.add("main", text);
        let (_, diagnostics) = parse(&mut sources, main, &Options::default());
        let mut unique = diagnostics.clone();
        unique.dedup();
        assert_eq!(unique, diagnostics);
        assert!(diagnostics.len() >= 3);
    }
}
