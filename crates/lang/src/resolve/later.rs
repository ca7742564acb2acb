//! Errors about compound elements that are used before their definition, or inside themselves.

use std::collections::{HashMap, HashSet};

use super::{MAX_SUGGESTIONS, Resolver};
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};
use crate::syntax::{Alternative, Body, ClassSyntax, Node, Statement};

/// A compound element that is defined somewhere in a scope, perhaps after its use.
pub(super) struct LaterClass<'s> {
    name: Span,
    /// The names in the compound element's definition that may name a class.
    uses: HashSet<&'s str>,
}

/// Returns the compound elements that a body and its groups define, by name.
pub(super) fn collect<'s>(sources: &'s Sources, body: &Body) -> HashMap<&'s str, LaterClass<'s>> {
    let mut found = HashMap::new();
    for statement in &body.statements {
        if let Statement::Class { name, class: class @ ClassSyntax::Compound(_) } = statement {
            let mut uses = HashSet::new();
            names_of_class(sources, class, &mut uses);
            found.entry(sources.slice(*name)).or_insert(LaterClass { name: *name, uses });
        }
        for body in groups(statement) {
            found.extend(collect(sources, body));
        }
    }
    found
}

/// Returns the bodies of the groups in a statement.
fn groups(statement: &Statement) -> impl Iterator<Item = &Body> {
    let lists = match statement {
        Statement::Chain(chain) => &chain.lists[..],
        _ => &[],
    };
    lists.iter().flat_map(|list| &list.elements).filter_map(|element| match &element.node {
        Node::Group(body) => Some(body),
        _ => None,
    })
}

fn names_of_class<'s>(sources: &'s Sources, class: &ClassSyntax, names: &mut HashSet<&'s str>) {
    match class {
        ClassSyntax::Named(name) => drop(names.insert(sources.slice(*name))),
        ClassSyntax::Compound(alternatives) => {
            for alternative in alternatives {
                if let Alternative::Body { body, .. } = alternative {
                    names_of_body(sources, body, names);
                }
            }
        }
    }
}

fn names_of_body<'s>(sources: &'s Sources, body: &Body, names: &mut HashSet<&'s str>) {
    for statement in &body.statements {
        match statement {
            Statement::Class { class, .. } => names_of_class(sources, class, names),
            Statement::Chain(chain) => {
                for element in chain.lists.iter().flat_map(|list| &list.elements) {
                    match &element.node {
                        Node::Name { name, .. } => drop(names.insert(sources.slice(*name))),
                        Node::Declaration { class, .. } => names_of_class(sources, class, names),
                        Node::Group(body) => names_of_body(sources, body, names),
                        Node::Implied { .. } | Node::Missing => {}
                    }
                }
            }
            _ => {}
        }
    }
}

impl<'s> Resolver<'s, '_> {
    /// Returns the error about a class that is not known at `span`, but is being defined around it or is
    /// defined later. `None` if the class is defined nowhere, or after too many errors. `clicks_words` is
    /// Click's message, which does not explain the reason.
    pub(super) fn not_yet(&mut self, span: Span, clicks_words: &str) -> Option<Diagnostic> {
        const ITSELF: &str = "a compound element cannot contain itself, nor through another one";
        let name = self.text(span);
        // The search for circles of definitions may visit the names in all definitions, so it is made for the
        // first errors only, like the search for similar names.
        self.suggestions += 1;
        if self.suggestions > MAX_SUGGESTIONS {
            return None;
        }
        let error = |text: String| Diagnostic {
            clicks_words: Some(clicks_words.into()),
            ..Diagnostic::error(span, text)
        };
        if let Some((_, defined)) = self.open.iter().rev().find(|(open, _)| *open == name) {
            return Some(
                error(format!("'{name}' contains itself"))
                    .with_related(*defined, format!("'{name}' is defined here"))
                    .with_hint(ITSELF),
            );
        }
        let defined = self.find_later(name)?.name;
        let circle = self.open.iter().rev().find(|(open, _)| self.leads_to(name, open));
        let error = match circle {
            Some((open, _)) => error(format!("'{open}' and '{name}' contain each other")).with_hint(ITSELF),
            None => error(format!("'{name}' is used before its definition"))
                .with_hint("move the definition before the first use"),
        };
        Some(error.with_related(defined, format!("'{name}' is defined here, later")))
    }

    fn find_later(&self, name: &str) -> Option<&LaterClass<'s>> {
        self.later.iter().rev().find_map(|scope| scope.get(name))
    }

    /// True if the definition of `from` uses `to`, directly or through other compound elements.
    fn leads_to(&self, from: &'s str, to: &str) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![from]);
        while let Some(name) = open.pop() {
            if name == to {
                return true;
            }
            if seen.insert(name) {
                open.extend(self.find_later(name).iter().flat_map(|later| later.uses.iter()));
            }
        }
        false
    }
}
