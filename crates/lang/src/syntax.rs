//! The syntax tree of a configuration: the statements as they are written, before any name is looked up.
//! Names and configuration strings are spans in the text.

use crate::source::Span;

/// The statements of a file, of an alternative of a compound element, or of a group.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) statements: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Chain(Chain),
    /// The definition of a class: `elementclass name class`.
    Class {
        name: Span,
        class: ClassSyntax,
    },
    /// The place of the arguments of `define(...)`, which define parameters.
    Define(Span),
    /// An argument of `require(...)` that is not a library: its kind, such as `package`, and its value.
    Require(String, String),
    /// The place of the arguments of `provide(...)`.
    Provide(Span),
}

/// A chain: lists of elements with an arrow between each two, so `lists.len() == arrows.len() + 1`. A
/// declaration that is a statement of its own is a chain without arrows.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) lists: Vec<ElementList>,
    pub(crate) arrows: Vec<Arrow>,
}

#[derive(Debug)]
pub(crate) struct Arrow {
    /// True for `=>`, which connects many ports pair by pair; false for other arrows.
    pub(crate) many: bool,
    /// True for the arrow to the elements of a context, such as `~>`.
    pub(crate) is_context: bool,
    pub(crate) span: Span,
}

/// The elements ahead of, between or after arrows, separated by commas. The list is empty where `input` or
/// `output` is left out, as in `-> x`.
#[derive(Debug)]
pub(crate) struct ElementList {
    pub(crate) elements: Vec<ElementSyntax>,
    pub(crate) span: Span,
    /// The place of the token after the list.
    pub(crate) next: Span,
}

/// An element in a chain, with the port lists written on its left and on its right.
#[derive(Debug)]
pub(crate) struct ElementSyntax {
    pub(crate) left: Option<Ports>,
    pub(crate) node: Node,
    pub(crate) right: Option<Ports>,
    pub(crate) span: Span,
}

/// A port list, such as `[1, 3-5]`, as ranges with both ends included. Ranges keep a short text from taking
/// much memory.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) ranges: Vec<(usize, usize)>,
    /// True if further ports follow the last range, as many as the connection needs: `[1-]` or `[]`.
    pub(crate) expands: bool,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// A port list without an element, which means `input` or `output`.
    Missing,
    /// An identifier, which names an element or a class, with its configuration string if there is one.
    Name { name: Span, config: Option<Span> },
    /// `name :: class(config)`, or a compound element without a name, `{ ... }(config)`.
    Declaration { name: Option<Span>, class: ClassSyntax, config: Option<Span> },
    /// An anonymous element of a class that the text does not name, but an arrow such as `~ip>` does.
    Implied { class: String },
    /// A group: `( statements )`.
    Group(Body),
}

#[derive(Debug)]
pub(crate) enum ClassSyntax {
    Named(Span),
    /// A compound element with its alternatives: `{ ... || ... }`.
    Compound(Vec<Alternative>),
}

#[derive(Debug)]
pub(crate) enum Alternative {
    Body {
        formals: Vec<Formal>,
        body: Body,
        span: Span,
    },
    /// `...`, which stands for the earlier class with this name, with all its alternatives.
    Ellipsis(Span),
}

/// A parameter of a compound element: `$name`, `KEYWORD $name`, or `__REST__ $name`.
#[derive(Debug)]
pub(crate) struct Formal {
    pub(crate) keyword: Option<Span>,
    /// The place of the name, which includes the dollar sign.
    pub(crate) name: Span,
}
