//! A configuration with all names looked up: compound elements are templates, ready to be instantiated.
//!
//! The module `resolve` makes it, and `expand` reads it.

use crate::source::Span;

/// An index into [`Program::templates`].
pub(crate) type TemplateId = usize;
/// An index into [`Program::classes`].
pub(crate) type ClassId = usize;
/// An index into [`Template::slots`].
pub(crate) type SlotId = usize;

/// The slot of the pseudoelement `input` of each template.
pub(crate) const INPUT: SlotId = 0;
/// The slot of the pseudoelement `output` of each template.
pub(crate) const OUTPUT: SlotId = 1;

/// The largest number of connections of a configuration, before and after expansion.
pub(crate) const MAX_CONNECTIONS: usize = 2_000_000;

#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The templates. The file itself is the first.
    pub(crate) templates: Vec<Template>,
    pub(crate) classes: Vec<Class>,
    pub(crate) requirements: Vec<(String, String)>,
    pub(crate) provisions: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Class {
    /// A class that the configuration does not define.
    Primitive(String),
    /// A class that the configuration defines. The first alternative that matches is chosen.
    Compound { name: String, choices: Vec<Choice> },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Template(TemplateId),
    /// `...`: the choices of the earlier class.
    Earlier(ClassId),
}

/// The file, or one alternative of a compound element.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) span: Span,
    /// The template in whose text this template is.
    pub(crate) parent: Option<TemplateId>,
    pub(crate) formals: Vec<Formal>,
    pub(crate) defines: Vec<Define>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) links: Vec<Link>,
    /// The number of input ports, for a compound element.
    pub(crate) inputs: usize,
    /// The number of output ports, for a compound element.
    pub(crate) outputs: usize,
}

#[derive(Debug)]
pub(crate) struct Formal {
    /// The name without dollar sign.
    pub(crate) name: String,
    pub(crate) kind: FormalKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormalKind {
    Positional,
    Keyword(String),
    /// `__REST__`
    Rest,
}

#[derive(Debug)]
pub(crate) struct Define {
    /// The name without dollar sign.
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) kind: SlotKind,
    pub(crate) span: Span,
    /// The number of input ports used inside this template.
    pub(crate) inputs: usize,
    /// The number of output ports used inside this template.
    pub(crate) outputs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Element {
        class: ClassId,
        config: Option<Span>,
    },
    /// The input side of a group, or the pseudoelement `input`. A connection to one of its ports continues
    /// from the output of the same number.
    GroupInput,
    /// The output side of a group, or the pseudoelement `output`.
    GroupOutput,
    /// A name that could not be resolved. The error was reported, and connections with the slot are
    /// dropped.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) from: (SlotId, usize),
    pub(crate) to: (SlotId, usize),
    pub(crate) span: Span,
}

impl Template {
    /// Returns the parameters as they are written, for messages.
    pub(crate) fn formals_text(&self) -> String {
        let formals: Vec<String> = self
            .formals
            .iter()
            .map(|formal| match &formal.kind {
                FormalKind::Positional => format!("${}", formal.name),
                FormalKind::Keyword(keyword) => format!("{keyword} ${}", formal.name),
                FormalKind::Rest => format!("__REST__ ${}", formal.name),
            })
            .collect();
        formals.join(", ")
    }
}
