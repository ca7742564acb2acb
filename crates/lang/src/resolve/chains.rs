//! Looks up the names in chains (elements with arrows between them), and makes their connections.

use super::elements::Resolved;
use super::{Resolver, Scope};
use crate::connect::{self, End, EndPorts};
use crate::diagnostic::Diagnostic;
use crate::program::*;
use crate::source::Span;
use crate::syntax::{Arrow, Chain, ElementList, ElementSyntax, Node};

impl<'s> Resolver<'s, '_> {
    /// Looks up the elements of a chain and adds the links (connections) between them to the template of the
    /// scope.
    pub(super) fn chain(&mut self, scope: &mut Scope<'s>, chain: &Chain) {
        if chain.arrows.is_empty() {
            self.share_declaration(scope, chain);
        }
        let last = chain.lists.len().saturating_sub(1);
        let mut before: Option<(Vec<Resolved>, &ElementList)> = None;
        for (index, list) in chain.lists.iter().enumerate() {
            if Diagnostic::is_limit_reached(self.diagnostics) {
                return;
            }
            let resolved = self.list(
                scope,
                list,
                index == 0,
                index == last,
                chain.arrows.get(index.min(last.saturating_sub(1))),
            );
            if let Some((from, from_list)) = before
                && let Some(arrow) = chain.arrows.get(index - 1)
            {
                let from = ends(&from, from_list, Side::Right, index == 1);
                let to = ends(&resolved, list, Side::Left, false);
                let span = from_list.span.to(list.span);
                let span = if from_list.elements.is_empty() { arrow.span.to(list.span) } else { span };
                let span = if list.elements.is_empty() { span.to(arrow.span) } else { span };
                let links = &mut scope.template.links;
                let (links_before, room) = (links.len(), MAX_CONNECTIONS.saturating_sub(self.link_count));
                for error in connect::connect(&from, &to, arrow, span, room, links) {
                    error.add_to(self.diagnostics);
                }
                self.link_count += links.len() - links_before;
                if arrow.is_context {
                    let mut added = scope.template.links.iter().skip(links_before);
                    if !added.all(|link| scope.contexts.insert(link.from)) {
                        self.error(
                            Diagnostic::error(arrow.span, "one output has several links '~>'").with_hint(
                                "elements downstream do not choose their packets here: use CTXDispatcher",
                            ),
                        );
                    }
                }
            }
            before = Some((resolved, list));
        }
    }

    /// In a statement `a, b :: Class` without arrow, declares `a` with the class of `b`, too. The language
    /// gives this meaning only to statements without arrows and ports, of which the last element alone is
    /// declared.
    fn share_declaration(&mut self, scope: &mut Scope<'s>, chain: &Chain) {
        let Some((last, others)) = chain.lists.first().and_then(|list| list.elements.split_last()) else {
            return;
        };
        let Node::Declaration { name: Some(_), class, config } = &last.node else { return };
        let bare = |element: &ElementSyntax| match &element.node {
            Node::Name { name, config: None } => Some((*name, element.span)),
            _ => None,
        };
        let has_ports = |element: &ElementSyntax| element.left.is_some() || element.right.is_some();
        let Some(names) = others.iter().map(bare).collect::<Option<Vec<_>>>() else { return };
        if !others.iter().chain([last]).any(has_ports) {
            for (name, span) in names {
                let class = self.class(scope, class);
                self.declare(scope, name, class, *config, span);
            }
        }
    }

    fn list(
        &mut self,
        scope: &mut Scope<'s>,
        list: &ElementList,
        is_first: bool,
        is_last: bool,
        arrow: Option<&Arrow>,
    ) -> Vec<Resolved> {
        if list.elements.is_empty() {
            let span = arrow.map_or(list.span, |arrow| arrow.span);
            return vec![self.missing(scope, span, list.next, is_first, is_last)];
        }
        let mut out = Vec::with_capacity(list.elements.len());
        for element in &list.elements {
            let resolved = match &element.node {
                Node::Missing => self.missing(scope, element.span, list.next, is_first, is_last),
                Node::Name { name, config } => self.name(scope, *name, *config, element.span),
                Node::Declaration { name, class, config } => {
                    let class = self.class(scope, class);
                    Resolved::of(match name {
                        Some(name) => self.declare(scope, *name, class, *config, element.span),
                        None => self.anonymous(scope, "", class, *config, element.span),
                    })
                }
                Node::Implied { class } => {
                    let id = self.find_class(class);
                    let id = id.unwrap_or_else(|| self.global_class(scope, class, element.span));
                    Resolved::of(self.anonymous(scope, class, id, None, element.span))
                }
                Node::Group(body) => self.group(scope, body, element.span),
            };
            out.push(resolved);
        }
        let is_there = |element: &&ElementSyntax| !matches!(element.node, Node::Missing);
        let mut present = list.elements.iter().filter(is_there);
        if is_first && let Some(ports) = present.clone().find_map(|element| element.left.as_ref()) {
            self.error(
                Diagnostic::error(ports.span, "input ports ignored at start of chain")
                    .with_hint("write output ports after the element"),
            );
        }
        if is_last && let Some(ports) = present.find_map(|element| element.right.as_ref()) {
            self.error(
                Diagnostic::error(ports.span, "output ports ignored at end of chain")
                    .with_hint("write input ports before the element"),
            );
        }
        out
    }

    /// Returns the pseudoelement where no element is written: `input` at the start of a chain, or `output`
    /// at its end. At any other place, and outside of compound elements and groups, this is an error.
    /// `next` is the place of the token after the list of elements.
    fn missing(
        &mut self,
        scope: &mut Scope<'s>,
        span: Span,
        next: Span,
        is_first: bool,
        is_last: bool,
    ) -> Resolved {
        match scope.pseudo.last() {
            Some(&(input, _)) if is_first && !is_last => Resolved::of(input),
            Some(&(_, output)) if is_last && !is_first => Resolved::of(output),
            inside => {
                let hint = match inside {
                    Some(_) => "an element may be left out only at the start and the end of a chain",
                    None => "an element must stand on both sides of an arrow",
                };
                let (near, next) = (self.text(span), self.text(next));
                let stranded = if near.starts_with('[') { "stranded port ignored\n" } else { "" };
                self.error(
                    Diagnostic::error(span, format!("syntax error near '{near}'"))
                        .with_clicks_words(format!("{stranded}syntax error near '{next}'"))
                        .with_hint(hint),
                );
                Resolved::of(scope.slot("", SlotKind::Lost, span))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Returns the ends of a list of elements for an arrow. With [`Side::Right`] they are the output ports for
/// the arrow after the list, with [`Side::Left`] the input ports for the arrow ahead of it. Ports that are
/// written without an element at the start of a chain (`[1] -> x`) are output ports of `input`.
fn ends<'a>(resolved: &[Resolved], list: &'a ElementList, side: Side, is_first: bool) -> Vec<End<'a>> {
    let end = |(index, resolved): (usize, &Resolved)| {
        let element = list.elements.get(index);
        let is_missing = element.is_some_and(|element| matches!(element.node, Node::Missing));
        let (slot, listed, group) = match side {
            Side::Left => {
                (resolved.input, element.and_then(|e| e.left.as_ref()), resolved.group.map(|g| g.0))
            }
            Side::Right if is_first && is_missing => {
                (resolved.output, element.and_then(|e| e.left.as_ref()), None)
            }
            Side::Right => {
                (resolved.output, element.and_then(|e| e.right.as_ref()), resolved.group.map(|g| g.1))
            }
        };
        let ports = match (listed, group) {
            (Some(ports), _) => EndPorts::Listed(ports),
            (None, Some(count)) if count > 0 => EndPorts::Group(count),
            (None, _) => EndPorts::Unlisted,
        };
        End { slot, ports }
    };
    resolved.iter().enumerate().map(end).collect()
}
