//! The syntax tree: the text as written, before any name is looked up.

use crate::source::Span;

/// The statements of a file, a compound element or a group.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) statements: Vec<Statement>,
}

#[derive(Debug)]
pub(crate) enum Statement {
    Chain(Chain),
    /// `elementclass name class`
    Class {
        name: Span,
        class: ClassSyntax,
    },
    /// `define(...)`
    Define(Span),
    /// An argument of `require(...)` that is not a library: kind and value.
    Require(String, String),
    /// `provide(...)`
    Provide(Span),
}

/// Elements and the arrows between them: `lists.len() == arrows.len() + 1`.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) lists: Vec<ElementList>,
    pub(crate) arrows: Vec<Arrow>,
}

#[derive(Debug)]
pub(crate) struct Arrow {
    /// True for `=>`, false for `->`.
    pub(crate) many: bool,
    pub(crate) span: Span,
}

/// Elements with commas between them. Empty if `input` or `output` is left out.
#[derive(Debug)]
pub(crate) struct ElementList {
    pub(crate) elements: Vec<ElementSyntax>,
    pub(crate) span: Span,
}

/// An element with the ports on its left and right.
#[derive(Debug)]
pub(crate) struct ElementSyntax {
    pub(crate) left: Option<Ports>,
    pub(crate) node: Node,
    pub(crate) right: Option<Ports>,
    pub(crate) span: Span,
}

/// Port numbers as inclusive ranges, so that a short text cannot ask for much memory.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) ranges: Vec<(usize, usize)>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// Ports without an element, which mean `input` or `output`.
    Missing,
    /// An identifier, which is an element or a class, perhaps with a configuration string.
    Name { name: Span, config: Option<Span> },
    /// `name :: class(config)`, or `{ ... }(config)` without a name.
    Declaration { name: Option<Span>, class: ClassSyntax, config: Option<Span> },
    /// `( statements )`
    Group(Body),
}

#[derive(Debug)]
pub(crate) enum ClassSyntax {
    Named(Span),
    /// `{ ... || ... }`
    Compound(Vec<Alternative>),
}

#[derive(Debug)]
pub(crate) enum Alternative {
    Body {
        formals: Vec<Formal>,
        body: Body,
        span: Span,
    },
    /// `...`: the alternatives of the earlier class of this name.
    Ellipsis(Span),
}

/// A parameter of a compound element: `$name` or `KEYWORD $name`.
#[derive(Debug)]
pub(crate) struct Formal {
    pub(crate) keyword: Option<Span>,
    /// The name with its dollar sign.
    pub(crate) name: Span,
}
