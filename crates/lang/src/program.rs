//! A configuration with all names looked up, in which the file and each alternative of a compound element
//! is a template.
//!
//! The module `resolve` makes a program, and `expand` makes instances of its templates.

use crate::source::Span;

/// The index of a template in [`Program::templates`].
pub(crate) type TemplateId = usize;
/// The index of a class in [`Program::classes`].
pub(crate) type ClassId = usize;
/// The index of a slot in [`Template::slots`]. A slot is an element of a template, or the input or output
/// side of a group or of the template itself.
pub(crate) type SlotId = usize;

/// The slot of the pseudoelement `input`, which each template has.
pub(crate) const INPUT: SlotId = 0;
/// The slot of the pseudoelement `output`, which each template has.
pub(crate) const OUTPUT: SlotId = 1;

/// The largest number of connections of a configuration, both in templates and after expansion.
pub(crate) const MAX_CONNECTIONS: usize = 2_000_000;

#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The templates: the file is the first, followed by all alternatives of compound elements.
    pub(crate) templates: Vec<Template>,
    pub(crate) classes: Vec<Class>,
    pub(crate) requirements: Vec<(String, String)>,
    pub(crate) provisions: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Class {
    /// A class that the configuration does not define, by its name.
    Primitive(String),
    /// A class that the configuration defines. Of its alternatives, the first whose ports and parameters fit
    /// is chosen. A single alternative with a body is always chosen.
    Compound { name: String, choices: Vec<Choice> },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Template(TemplateId),
    /// `...`: the class that had this name before, with all its alternatives if it is a compound element.
    Earlier(ClassId),
}

/// The content of the file or of one alternative of a compound element, with the names in it looked up.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) span: Span,
    /// The template in whose text this template is defined, whose parameters it can use; `None` for the
    /// file.
    pub(crate) parent: Option<TemplateId>,
    pub(crate) formals: Vec<Formal>,
    pub(crate) defines: Vec<Define>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) links: Vec<Link>,
    /// The number of input ports, for an alternative of a compound element.
    pub(crate) inputs: usize,
    /// The number of output ports, for an alternative of a compound element.
    pub(crate) outputs: usize,
}

#[derive(Debug)]
pub(crate) struct Formal {
    /// The name of the parameter, without dollar sign.
    pub(crate) name: String,
    pub(crate) kind: FormalKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormalKind {
    Positional,
    Keyword(String),
    /// `__REST__`: all arguments that no other parameter takes.
    Rest,
}

#[derive(Debug)]
pub(crate) struct Define {
    /// The name of the parameter, without dollar sign.
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) kind: SlotKind,
    pub(crate) span: Span,
    /// The number of the slot's input ports: one more than the slot's highest port to which a link (a
    /// connection in the template) leads, or 0.
    pub(crate) inputs: usize,
    /// The number of the slot's output ports: one more than the slot's highest port from which a link (a
    /// connection in the template) comes, or 0.
    pub(crate) outputs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Element {
        class: ClassId,
        config: Option<Span>,
    },
    /// The input side of a group, or the pseudoelement `input`. A connection that arrives at one of its
    /// ports continues from the output of the same number.
    GroupInput,
    /// The output side of a group, or the pseudoelement `output`, which passes connections on like
    /// `GroupInput`.
    GroupOutput,
    /// An element whose name could not be looked up or that is missing. The error was reported, and
    /// connections with the slot are dropped.
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) from: (SlotId, usize),
    pub(crate) to: (SlotId, usize),
    pub(crate) span: Span,
}

impl Template {
    /// Returns the parameters of the template as they are written, for messages.
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
