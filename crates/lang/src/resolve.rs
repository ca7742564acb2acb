//! Looks up all names: turns the syntax tree into a [`Program`], in which compound elements are templates.
//!
//! A class is known from the end of its definition to the end of the scope in which it is defined. So
//! statements are processed in their order, with a stack of tables of classes. Compound elements cannot
//! contain themselves.
//!
//! This file handles scopes, parameters and classes. The module `chains` handles connections, `elements`
//! handles elements and groups, and `later` makes the errors about compound elements that are used before
//! their definition.

mod chains;
mod elements;
mod later;

use std::collections::{HashMap, HashSet};

use crate::args;
use crate::diagnostic::{Diagnostic, nearest};
use crate::lexer::parameter_length;
use crate::program::*;
use crate::source::{Sources, Span};
use crate::syntax::{self, Alternative, Body, ClassSyntax, Node, Statement};

use later::LaterClass;

/// The maximum number of searches for a similar name or a later definition, which errors mention. Each search
/// looks at all names, so the limit bounds the time.
const MAX_SUGGESTIONS: usize = 100;

/// Looks up all names of a configuration, whose statements are `body`. `primitives` are the classes that
/// exist without a definition; with `None` any class may exist, so unknown classes are no errors. `span` is
/// the place for errors that concern the whole file.
pub(crate) fn resolve(
    body: &Body,
    sources: &Sources,
    span: Span,
    primitives: Option<&[&str]>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Program {
    let mut resolver = Resolver {
        sources,
        diagnostics,
        primitives: primitives.map(|names| names.iter().copied().collect()),
        program: Program::default(),
        interned: HashMap::new(),
        scopes: vec![HashMap::new()],
        later: Vec::new(),
        open: Vec::new(),
        link_count: 0,
        suggestions: 0,
    };
    resolver.template("", None, &[], body, span);
    resolver.program
}

struct Resolver<'s, 'd> {
    sources: &'s Sources,
    diagnostics: &'d mut Vec<Diagnostic>,
    primitives: Option<HashSet<&'s str>>,
    program: Program,
    /// The id of each class that the configuration uses but does not define.
    interned: HashMap<String, ClassId>,
    /// The classes that the configuration defines, one table for each open scope, the innermost scope last.
    scopes: Vec<HashMap<&'s str, ClassId>>,
    /// For each open body, the compound elements that it defines at any place, the innermost body last.
    /// They explain errors about classes that are defined later.
    later: Vec<HashMap<&'s str, LaterClass<'s>>>,
    /// The names of the compound elements inside whose definitions the resolver is, outermost first, with
    /// the places of these names.
    open: Vec<(&'s str, Span)>,
    /// The number of links (connections) in all templates so far, limited to [`MAX_CONNECTIONS`].
    link_count: usize,
    suggestions: usize,
}

/// The state of the template (the file, or one alternative of a compound element) that is being built.
struct Scope<'s> {
    id: TemplateId,
    template: Template,
    names: HashMap<String, SlotId>,
    /// The elements that are declared anywhere in this scope, each with the place of its first declaration.
    declared: HashMap<&'s str, Span>,
    /// The names of undeclared elements that have been reported.
    undeclared: HashSet<&'s str>,
    /// The anonymous elements. They get their names at the end of the scope, when all other names are
    /// known.
    anonymous: Vec<SlotId>,
    /// For each open compound element or group, the slots that the names `input` and `output` mean there,
    /// the innermost last.
    pseudo: Vec<(SlotId, SlotId)>,
    /// The outputs, as slots with ports, from which an arrow to the elements of a context leads.
    contexts: HashSet<(SlotId, usize)>,
}

impl<'s> Resolver<'s, '_> {
    fn error(&mut self, diagnostic: Diagnostic) {
        diagnostic.add_to(self.diagnostics);
    }

    fn text(&self, span: Span) -> &'s str {
        self.sources.slice(span)
    }

    /// Builds the template of a compound element (or of the file, without `parent`) and returns its id.
    /// `formals` are its parameters. After the call the stack of class scopes is as before.
    fn template(
        &mut self,
        name: &str,
        parent: Option<TemplateId>,
        formals: &[syntax::Formal],
        body: &Body,
        span: Span,
    ) -> TemplateId {
        let id = self.program.templates.len();
        self.program.templates.push(Template::default());
        let template = Template { span, parent, ..Template::default() };
        let mut scope = Scope {
            id,
            template,
            names: HashMap::new(),
            declared: HashMap::new(),
            undeclared: HashSet::new(),
            anonymous: Vec::new(),
            pseudo: Vec::new(),
            contexts: HashSet::new(),
        };
        collect_declared(self.sources, body, &mut scope.declared);
        self.later.push(later::collect(self.sources, body));
        let pseudo = (
            scope.slot("input", SlotKind::GroupInput, span),
            scope.slot("output", SlotKind::GroupOutput, span),
        );
        if parent.is_some() {
            scope.pseudo.push(pseudo);
        }
        self.formals(&mut scope, formals);
        self.statements(&mut scope, body);
        self.later.pop();
        scope.name_anonymous();
        if parent.is_some() {
            let (inputs, outputs) = self.group_ports(&scope, pseudo, 0, Some(name), span);
            scope.template.inputs = inputs;
            scope.template.outputs = outputs;
        }
        scope.count_ports();
        if let Some(place) = self.program.templates.get_mut(id) {
            *place = scope.template;
        }
        id
    }

    fn statements(&mut self, scope: &mut Scope<'s>, body: &Body) {
        for statement in &body.statements {
            if Diagnostic::is_limit_reached(self.diagnostics) {
                return;
            }
            match statement {
                Statement::Chain(chain) => self.chain(scope, chain),
                Statement::Class { name, class } => self.class_statement(scope, *name, class),
                Statement::Define(config) => self.define(scope, *config),
                Statement::Require(kind, value) => {
                    let requirement = (kind.clone(), value.clone());
                    if !self.program.requirements.contains(&requirement) {
                        self.program.requirements.push(requirement);
                    }
                }
                Statement::Provide(config) => {
                    let args = args::split(self.text(*config));
                    self.program.provisions.extend(args.iter().map(|arg| args::unquote(&arg.text)));
                }
            }
        }
    }

    // Functions for parameters.

    fn formals(&mut self, scope: &mut Scope<'s>, formals: &[syntax::Formal]) {
        const ORDER: &str = "The correct order is '[positional], [keywords], [__REST__]'.";
        let mut names = HashSet::new();
        let mut keywords = HashSet::new();
        let mut rank = 0;
        let mut ordered = true;
        for formal in formals {
            let name = self.text(formal.name).trim_start_matches('$');
            if !names.insert(name) {
                self.multiply_defined(formal.name, name);
                continue;
            }
            let kind = match formal.keyword.map(|span| self.text(span)) {
                None => FormalKind::Positional,
                Some("__REST__") => FormalKind::Rest,
                Some(keyword) => FormalKind::Keyword(keyword.to_owned()),
            };
            if let FormalKind::Keyword(keyword) = &kind
                && !keywords.insert(keyword.clone())
            {
                let message = format!("repeated keyword parameter '{keyword}' in compound element");
                self.error(
                    Diagnostic::error(formal.name, message).with_hint("give each keyword one parameter"),
                );
            }
            // `rank` says what may follow the parameters so far: with 0 any parameter, with 1 keywords and
            // `__REST__`, with 2 none.
            let (needed, next) = match kind {
                FormalKind::Positional => (0, 0),
                FormalKind::Keyword(_) => (1, 1),
                FormalKind::Rest => (1, 2),
            };
            if needed < rank && ordered {
                ordered = false;
                self.error(
                    Diagnostic::error(formal.name, "compound element parameters out of order")
                        .with_clicks_words(format!("compound element parameters out of order\n({ORDER})"))
                        .with_hint(ORDER),
                );
            }
            rank = rank.max(next);
            scope.template.formals.push(Formal { name: name.to_owned(), kind });
        }
    }

    fn multiply_defined(&mut self, span: Span, name: &str) {
        self.error(
            Diagnostic::error(span, format!("parameter '${name}' multiply defined"))
                .with_hint("a parameter has one definition in each scope"),
        );
    }

    fn define(&mut self, scope: &mut Scope<'s>, config: Span) {
        for arg in args::split(self.text(config)) {
            let span =
                Span { start: config.start + arg.range.start, end: config.start + arg.range.end, ..config };
            let Some(text) = arg.text.strip_prefix('$') else {
                self.bad_define(span);
                continue;
            };
            let (name, value) = text.split_at(parameter_length(text.as_bytes()));
            if name.is_empty() || !(value.is_empty() || value.starts_with(|c: char| c.is_ascii_whitespace()))
            {
                self.bad_define(span);
                continue;
            }
            let taken = scope.template.formals.iter().any(|formal| formal.name == name)
                || scope.template.defines.iter().any(|define| define.name == name);
            if taken {
                self.multiply_defined(span, name);
                continue;
            }
            let value = value.trim().to_owned();
            scope.template.defines.push(Define { name: name.to_owned(), value, span });
        }
    }

    fn bad_define(&mut self, span: Span) {
        self.error(
            Diagnostic::error(span, "bad 'define' declaration: not a variable")
                .with_hint("write: define($NAME VALUE, $NAME VALUE)"),
        );
    }

    // Functions for classes.

    fn class_statement(&mut self, scope: &mut Scope<'s>, name: Span, class: &ClassSyntax) {
        let text = self.text(name);
        self.check_identifier(name);
        let earlier = self.find_class(text);
        let class = match class {
            ClassSyntax::Named(span) => self.named_class(scope, *span),
            ClassSyntax::Compound(alternatives) => {
                let extends = |alternative: &Alternative| matches!(alternative, Alternative::Ellipsis(_));
                if earlier.is_none()
                    && self.is_primitive(text) == Some(false)
                    && alternatives.iter().any(extends)
                {
                    let message = format!("cannot extend unknown element class '{text}'");
                    self.error(Diagnostic { is_unknown_class: true, ..Diagnostic::error(name, message) });
                }
                let earlier = earlier.unwrap_or_else(|| self.intern(text));
                self.open.push((text, name));
                let class = self.compound(scope, text, Some(earlier), alternatives);
                self.open.pop();
                class
            }
        };
        if let Some(innermost) = self.scopes.last_mut() {
            innermost.insert(text, class);
        }
    }

    fn class(&mut self, scope: &mut Scope<'s>, class: &ClassSyntax) -> ClassId {
        match class {
            ClassSyntax::Named(span) => self.named_class(scope, *span),
            ClassSyntax::Compound(alternatives) => self.compound(scope, "<anonymous>", None, alternatives),
        }
    }

    fn compound(
        &mut self,
        scope: &mut Scope<'s>,
        name: &str,
        earlier: Option<ClassId>,
        alternatives: &[Alternative],
    ) -> ClassId {
        let mut choices = Vec::new();
        let mut extended = false;
        for alternative in alternatives {
            match alternative {
                Alternative::Body { formals, body, span } => {
                    self.scopes.push(HashMap::new());
                    let template = self.template(name, Some(scope.id), formals, body, *span);
                    self.scopes.pop();
                    choices.push(Choice::Template(template));
                }
                Alternative::Ellipsis(span) => match earlier {
                    Some(earlier) if !extended => {
                        extended = true;
                        choices.push(Choice::Earlier(earlier));
                    }
                    Some(_) => self.error(Diagnostic::error(*span, "'...' given twice")),
                    None => self.error(
                        Diagnostic::error(*span, "'...' in an anonymous compound element")
                            .with_hint("'...' extends the earlier class of an 'elementclass' statement"),
                    ),
                },
            }
        }
        self.program.classes.push(Class::Compound { name: name.to_owned(), choices });
        self.program.classes.len() - 1
    }

    fn find_class(&self, name: &str) -> Option<ClassId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn intern(&mut self, name: &str) -> ClassId {
        if let Some(&id) = self.interned.get(name) {
            return id;
        }
        self.program.classes.push(Class::Primitive(name.to_owned()));
        let id = self.program.classes.len() - 1;
        self.interned.insert(name.to_owned(), id);
        id
    }

    /// True if a class exists without being defined in the configuration. `None` if the existing classes
    /// are not known.
    fn is_primitive(&self, name: &str) -> Option<bool> {
        self.primitives.as_ref().map(|primitives| primitives.contains(name))
    }

    /// Returns the id of the class that an identifier names, if the identifier cannot be an element. A class
    /// that certainly does not exist is an error, and gets an id nevertheless.
    fn named_class(&mut self, scope: &Scope<'s>, span: Span) -> ClassId {
        let name = self.text(span);
        if let Some(id) = self.find_class(name) {
            return id;
        }
        self.check_identifier(span);
        self.global_class(scope, name, span)
    }

    /// Returns the id of the class `name` outside of the configuration, as [`named_class`](Self::named_class)
    /// does. `span` is the place for errors.
    fn global_class(&mut self, scope: &Scope<'s>, name: &str, span: Span) -> ClassId {
        // As in Click, an unknown class is reported at its first use only.
        if self.is_primitive(name) == Some(false) && !self.interned.contains_key(name) {
            let text = format!("unknown element class '{name}'");
            let error = self.not_yet(span, &text).unwrap_or_else(|| Diagnostic {
                hint: self.suggest(scope, name, false),
                ..Diagnostic::error(span, text)
            });
            self.error(Diagnostic { is_unknown_class: true, ..error });
        }
        self.intern(name)
    }

    /// Returns the hint "did you mean 'NAME'?" with the most similar class or, if `elements` is true,
    /// element; `None` if none is similar or the limit [`MAX_SUGGESTIONS`] is reached.
    fn suggest(&mut self, scope: &Scope<'s>, name: &str, elements: bool) -> Option<String> {
        self.suggestions += 1;
        if self.suggestions > MAX_SUGGESTIONS {
            return None;
        }
        let classes =
            self.scopes.iter().flat_map(HashMap::keys).chain(self.primitives.iter().flatten()).copied();
        let elements = scope.declared.keys().copied().filter(|_| elements);
        nearest(name, classes.chain(elements)).map(|found| format!("did you mean '{found}'?"))
    }

    /// Reports an error if a part of an identifier between slashes is a number (click(5)).
    fn check_identifier(&mut self, span: Span) {
        let name = self.text(span);
        if name.split('/').any(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
            self.error(
                Diagnostic::error(span, format!("element name '{name}' has all-digit component"))
                    .with_hint("no part of a name between slashes may be a number"),
            );
        }
    }
}

impl Scope<'_> {
    fn slot(&mut self, name: &str, kind: SlotKind, span: Span) -> SlotId {
        self.template.slots.push(Slot { name: name.to_owned(), kind, span, inputs: 0, outputs: 0 });
        self.template.slots.len() - 1
    }

    /// Gives anonymous elements their names `Class@N`. N is the number of the element's slot in its scope,
    /// counted from 1; if that name is taken, N is the next free number.
    fn name_anonymous(&mut self) {
        let mut next_free: HashMap<String, usize> = HashMap::new();
        for id in std::mem::take(&mut self.anonymous) {
            let Some(slot) = self.template.slots.get_mut(id) else { continue };
            let mut number = id.saturating_sub(OUTPUT);
            let mut name = format!("{}@{number}", slot.name);
            if self.names.contains_key(&name) {
                let next = next_free.entry(slot.name.clone()).or_insert(number + 1);
                number = number.max(*next);
                loop {
                    name = format!("{}@{number}", slot.name);
                    number += 1;
                    if !self.names.contains_key(&name) {
                        break;
                    }
                }
                *next = number;
            }
            self.names.insert(name.clone(), id);
            slot.name = name;
        }
    }

    fn count_ports(&mut self) {
        let Template { slots, links, .. } = &mut self.template;
        for link in links {
            if let Some(slot) = slots.get_mut(link.to.0) {
                slot.inputs = slot.inputs.max(link.to.1 + 1);
            }
            if let Some(slot) = slots.get_mut(link.from.0) {
                slot.outputs = slot.outputs.max(link.from.1 + 1);
            }
        }
    }
}

/// Adds the elements that are declared in a body and in its groups to `declared`, each with the place of
/// its first declaration.
fn collect_declared<'s>(sources: &'s Sources, body: &Body, declared: &mut HashMap<&'s str, Span>) {
    for statement in &body.statements {
        let Statement::Chain(chain) = statement else { continue };
        for element in chain.lists.iter().flat_map(|list| &list.elements) {
            match &element.node {
                Node::Declaration { name: Some(name), .. } => {
                    declared.entry(sources.slice(*name)).or_insert(*name);
                }
                Node::Group(body) => collect_declared(sources, body, declared),
                _ => {}
            }
        }
    }
}
