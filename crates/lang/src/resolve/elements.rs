//! Looks up the elements of a chain: declarations, names, anonymous elements and groups.

use std::collections::BTreeSet;

use super::{Resolver, Scope};
use crate::diagnostic::Diagnostic;
use crate::program::*;
use crate::source::Span;
use crate::syntax::Body;

/// The result of looking up an element of a chain: the slot at which connections arrive and the slot from
/// which they leave. The two differ for groups only.
#[derive(Clone, Copy)]
pub(super) struct Resolved {
    pub(super) input: SlotId,
    pub(super) output: SlotId,
    /// The numbers of input and output ports of a group; `None` for other elements.
    pub(super) group: Option<(usize, usize)>,
}

impl<'s> Resolver<'s, '_> {
    /// Declares the element `name :: class(config)`, and returns its slot. If the name is already used, this
    /// is an error, and the slot of the first element is returned. The names `input` and `output` are errors
    /// in compound elements and groups; the returned slot then has no connections.
    pub(super) fn declare(
        &mut self,
        scope: &mut Scope<'s>,
        name: Span,
        class: ClassId,
        config: Option<Span>,
        span: Span,
    ) -> SlotId {
        let text = self.text(name);
        self.check_identifier(name);
        if !scope.pseudo.is_empty() && (text == "input" || text == "output") {
            self.error(
                Diagnostic::error(name, format!("redeclaration of element '{text}'"))
                    .with_hint(format!("'{text}' is the name of the ports of the compound element or group")),
            );
            return scope.slot(text, SlotKind::Lost, span);
        }
        if let Some(&slot) = scope.names.get(text) {
            let first = scope.template.slots.get(slot).map_or(name, |slot| slot.span);
            self.error(
                Diagnostic::error(name, format!("redeclaration of element '{text}'"))
                    .with_related(first, format!("element '{text}' previously declared here"))
                    .with_clicks_line(Some(name), format!("redeclaration of element '{text}'"))
                    .with_clicks_line(Some(first), format!("element '{text}' previously declared here"))
                    .with_hint("give one of the two another name"),
            );
            return slot;
        }
        if self.find_class(text).is_some() || self.is_primitive(text) == Some(true) {
            self.error(
                Diagnostic::error(name, format!("class '{text}' used as element name"))
                    .with_hint("give the element another name"),
            );
        }
        let slot = scope.slot(text, SlotKind::Element { class, config }, span);
        scope.names.insert(text.to_owned(), slot);
        slot
    }

    /// Adds an anonymous element, and returns its slot. At the end of the scope it gets the name `base@N`.
    pub(super) fn anonymous(
        &mut self,
        scope: &mut Scope<'s>,
        base: &str,
        class: ClassId,
        config: Option<Span>,
        span: Span,
    ) -> SlotId {
        let slot = scope.slot(base, SlotKind::Element { class, config }, span);
        scope.anonymous.push(slot);
        slot
    }

    /// Looks up an identifier without `::`. It is the element with this name, if there is one, otherwise an
    /// anonymous element of the class with this name. If there is neither, reports an error and returns a
    /// slot whose connections are dropped.
    pub(super) fn name(
        &mut self,
        scope: &mut Scope<'s>,
        name: Span,
        config: Option<Span>,
        span: Span,
    ) -> Resolved {
        let text = self.text(name);
        if let Some(&(input, output)) = scope.pseudo.last() {
            match text {
                "input" => return Resolved::of(input),
                "output" => return Resolved::of(output),
                _ => {}
            }
        }
        if let Some(&slot) = scope.names.get(text) {
            if let Some(config) = config {
                self.error(
                    Diagnostic::error(
                        config,
                        format!("configuration string for element '{text}' outside its declaration"),
                    )
                    .with_clicks_words("configuration string ignored on element reference")
                    .with_hint(format!("give it where '{text}' is declared")),
                );
            }
            return Resolved::of(slot);
        }
        if let Some(class) = self.find_class(text) {
            return Resolved::of(self.anonymous(scope, text, class, config, span));
        }
        let is_class = match self.is_primitive(text) {
            Some(known) => known || config.is_some(),
            // If the existing classes are not known, an identifier that starts with a lower-case letter is
            // taken for an element. By convention, class names start with a capital letter.
            None => config.is_some() || !text.starts_with(|c: char| c.is_lowercase()),
        };
        // As in Click, an undeclared element is reported at its first use only.
        if scope.undeclared.contains(text) {
            return Resolved::of(scope.slot(text, SlotKind::Lost, span));
        }
        let later = scope.declared.get(text).copied().filter(|_| config.is_none());
        if is_class && later.is_none() {
            let class = self.named_class(scope, name);
            return Resolved::of(self.anonymous(scope, text, class, config, span));
        }
        let message = format!("undeclared element '{text}'");
        let not_yet = self.not_yet(name, &message).filter(|_| later.is_none());
        let mut error = Diagnostic::error(name, message);
        if let Some(not_yet) = not_yet {
            error = not_yet;
        } else if let Some(later) = later {
            error = error
                .with_related(later, format!("element '{text}' is declared here, later"))
                .with_hint("move the declaration before the first use");
        } else {
            let declare = format!("declare it first: {text} :: CLASS");
            error.hint = Some(self.suggest(scope, text, true).unwrap_or(declare));
        }
        self.error(error);
        scope.undeclared.insert(text);
        Resolved::of(scope.slot(text, SlotKind::Lost, span))
    }

    /// Adds the group `( ... )`. Names in its body belong to the enclosing scope.
    pub(super) fn group(&mut self, scope: &mut Scope<'s>, body: &Body, span: Span) -> Resolved {
        // Click's numbers of anonymous elements count a group as three, and name the group itself.
        let input = scope.slot("", SlotKind::GroupInput, span);
        let output = scope.slot("", SlotKind::GroupOutput, span);
        scope.slot("", SlotKind::Lost, span);
        scope.anonymous.push(input);
        let first_link = scope.template.links.len();
        scope.pseudo.push((input, output));
        self.statements(scope, body);
        scope.pseudo.pop();
        let ports = self.group_ports(scope, (input, output), first_link, None, span);
        Resolved { input, output, group: Some(ports) }
    }

    /// Returns the numbers of input and output ports of a group or, if `compound` is its name, of a compound
    /// element. The numbers are one more than the highest ports of `input` and `output` that links use, or 0;
    /// only links from index `first_link` on are examined. Gaps between used ports, and links in the wrong
    /// direction, are errors. `span` is the place of the group or compound element.
    pub(super) fn group_ports(
        &mut self,
        scope: &Scope<'s>,
        (input, output): (SlotId, SlotId),
        first_link: usize,
        compound: Option<&str>,
        span: Span,
    ) -> (usize, usize) {
        let (subject, clicks_subject) = match compound {
            Some(name) => (format!("'{name}'"), format!("'{name}'")),
            None => ("group".to_owned(), "'<anonymous group>'".to_owned()),
        };
        // Click names the start of a compound element, and the end of a group.
        let place = if compound.is_some() { span } else { Span { start: span.end, ..span } };
        let links = scope.template.links.get(first_link..).unwrap_or_default();
        let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
        let (mut into_input, mut out_of_output) = (None, None);
        for link in links {
            if link.from.0 == input {
                inputs.insert(link.from.1);
            }
            if link.to.0 == output {
                outputs.insert(link.to.1);
            }
            if link.to.0 == input {
                into_input.get_or_insert(link.span);
            }
            if link.from.0 == output {
                out_of_output.get_or_insert(link.span);
            }
        }
        let sides = [("input", "output", into_input, &inputs), ("output", "input", out_of_output, &outputs)];
        for (side, other, misused, ports) in sides {
            if let Some(misused) = misused {
                let what = format!("pseudoelement '{side}' may only be used as {other}");
                let error = Diagnostic::error(misused, format!("{subject} {what}"));
                self.error(error.with_clicks_line(Some(place), format!("{clicks_subject} {what}")));
            }
            let highest = ports.last().copied().unwrap_or(0);
            let mut missing = (0..highest).filter(|port| !ports.contains(port)).peekable();
            if let Some(&first) = missing.peek() {
                // Click has a message for each port.
                let line = |port| (Some(place), format!("{clicks_subject} {side} {port} missing"));
                let clicks_lines: Vec<(Option<Span>, String)> = missing.map(line).collect();
                let more = match clicks_lines.len() - 1 {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let message = format!("{subject} {side} {first} missing{more}");
                let error = Diagnostic::error(span, message)
                    .with_hint(format!("{side} {highest} is used, so all below it must be too"));
                self.error(Diagnostic { clicks_lines, ..error });
            }
        }
        (inputs.last().map_or(0, |port| port + 1), outputs.last().map_or(0, |port| port + 1))
    }
}

impl Resolved {
    pub(super) fn of(slot: SlotId) -> Resolved {
        Resolved { input: slot, output: slot, group: None }
    }
}
