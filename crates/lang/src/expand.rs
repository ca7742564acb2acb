//! Expands compound elements: makes an instance of a template for each use of its compound element. This
//! gives a flat list of elements, and connections that still pass through *tunnels*, the pseudoelements
//! `input` and `output` of groups and compound elements.

use std::collections::HashMap;
use std::rc::Rc;

use crate::args;
use crate::connect::too_many_connections;
use crate::diagnostic::Diagnostic;
use crate::graph::{Graph, GraphElement};
use crate::params::{self, Environment, Mismatch, Substituted};
use crate::parser::MAX_NESTING;
use crate::program::*;
use crate::source::{Sources, Span};
use crate::tunnel::{self, Edge, NodeKind, Tunnel};

/// The number of nodes of an expanded configuration beyond which no element is added. An element is one node,
/// a compound element or group is two.
pub(crate) const MAX_ELEMENTS: usize = 1_000_000;

/// The largest length in bytes of all names and configuration strings of an expanded configuration
/// together.
const MAX_BYTES: usize = 1 << 28;

/// Expands a parsed configuration to a graph, in which no connection passes through tunnels (the
/// pseudoelements `input` and `output`). `defines` are parameters from the command line as name and value;
/// they have priority over the definitions of the file.
pub(crate) fn expand(
    program: &Program,
    sources: &Sources,
    defines: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Graph {
    let mut expander = Expander {
        program,
        sources,
        diagnostics,
        elements: Vec::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        bytes: 0,
        exhausted: false,
    };
    expander.file(defines);
    let Expander { mut elements, nodes, edges, exhausted, .. } = expander;
    make_names_unique(&mut elements, diagnostics);
    // If the expansion ended at a limit, some compound elements are empty, and errors about their ports
    // would be misleading.
    let connections = if exhausted { Vec::new() } else { tunnel::remove(&nodes, &edges, diagnostics) };
    Graph {
        elements,
        connections,
        requirements: program.requirements.clone(),
        provisions: program.provisions.clone(),
        parameters: params::of_program(program, sources),
    }
}

struct Expander<'p> {
    program: &'p Program,
    sources: &'p Sources,
    diagnostics: &'p mut Vec<Diagnostic>,
    elements: Vec<GraphElement>,
    nodes: Vec<NodeKind>,
    edges: Vec<Edge>,
    bytes: usize,
    /// True if a limit was exceeded. The error was reported, and expansion ends.
    exhausted: bool,
}

/// An instance of a template (the file, or one alternative of a compound element), with the values of its
/// parameters.
struct Instance<'p> {
    template: &'p Template,
    environment: Rc<Environment>,
    /// The name of the compound element and a slash, with which the names of its elements begin; empty for
    /// the file.
    prefix: String,
    /// The nodes of the instance's pseudoelements `input` and `output`, which also connect the instance to
    /// elements outside of it.
    ports: (usize, usize),
    depth: usize,
}

/// The class of an element, after an alternative was chosen for compound elements.
enum ChosenClass {
    Primitive(String),
    Compound(TemplateId, HashMap<String, Rc<str>>),
    /// No class fits; the error was reported.
    None,
}

impl<'p> Expander<'p> {
    fn file(&mut self, defines: &[(String, String)]) {
        let Some(template) = self.program.templates.first() else { return };
        let values = defines.iter().map(|(name, value)| (name.clone(), Rc::from(value.as_str()))).collect();
        let environment = Rc::new(Environment::new(0, values, &template.defines, None, self.diagnostics));
        let ports = (self.node(NodeKind::Lost), self.node(NodeKind::Lost));
        self.instance(Instance { template, environment, prefix: String::new(), ports, depth: 0 });
    }

    fn instance(&mut self, instance: Instance<'p>) {
        let template = instance.template;
        if self.edges.len() + template.links.len() > MAX_CONNECTIONS {
            self.exhaust(too_many_connections(template.span));
            return;
        }
        let mut inner = Vec::new();
        // For each slot of the template (an element, one side of a group, or a pseudoelement), the node of
        // the expanded graph at which connections arrive, and the node from which they leave. The two differ
        // for compound elements only.
        let mut places = Vec::with_capacity(template.slots.len());
        for (id, slot) in template.slots.iter().enumerate() {
            let place = match (id, slot.kind) {
                (INPUT, _) => (instance.ports.0, instance.ports.0),
                (OUTPUT, _) => (instance.ports.1, instance.ports.1),
                (_, SlotKind::Element { class, config }) => {
                    self.element(&instance, slot, class, config, &mut inner)
                }
                (_, SlotKind::GroupInput | SlotKind::GroupOutput) => {
                    // The input side is the slot before the output side, and has the name of the group.
                    let is_output = slot.kind == SlotKind::GroupOutput;
                    let named = template.slots.get(id - usize::from(is_output)).unwrap_or(slot);
                    let owner = format!("'{}{}'", instance.prefix, named.name);
                    both(self.tunnel(&owner, is_output, slot.span))
                }
                (_, SlotKind::Lost) => both(self.node(NodeKind::Lost)),
            };
            places.push(place);
            if self.exhausted {
                return;
            }
        }
        for link in &template.links {
            if let (Some(from), Some(to)) = (places.get(link.from.0), places.get(link.to.0)) {
                self.edges.push(Edge { from: (from.1, link.from.1), to: (to.0, link.to.1), span: link.span });
            }
        }
        for instance in inner {
            self.instance(instance);
            if self.exhausted {
                return;
            }
        }
    }

    /// Adds an element, and returns the nodes at which its connections arrive and leave. A compound element
    /// becomes two tunnels (its pseudoelements `input` and `output`), and its instance is added to `inner`,
    /// to be expanded after all elements of this template.
    fn element(
        &mut self,
        instance: &Instance<'p>,
        slot: &Slot,
        class: ClassId,
        config_span: Option<Span>,
        inner: &mut Vec<Instance<'p>>,
    ) -> (usize, usize) {
        let Substituted { text: config, origins } = self.config(instance, config_span);
        let name = format!("{}{}", instance.prefix, slot.name);
        self.bytes += name.len() + config.len();
        if self.nodes.len() >= MAX_ELEMENTS || self.bytes > MAX_BYTES {
            self.exhaust(
                Diagnostic::error(
                    slot.span,
                    format!("configuration too large (limit {MAX_ELEMENTS} elements)"),
                )
                .with_hint("compound elements inside compound elements multiply"),
            );
            return (0, 0);
        }
        match self.choose(class, slot, &config, config_span.unwrap_or(slot.span)) {
            ChosenClass::Primitive(class) => {
                self.elements.push(GraphElement {
                    name,
                    class,
                    config,
                    span: slot.span,
                    config_span,
                    origins,
                });
                both(self.node(NodeKind::Element(self.elements.len() - 1)))
            }
            ChosenClass::None => both(self.node(NodeKind::Lost)),
            ChosenClass::Compound(id, values) => {
                let Some(template) = self.program.templates.get(id) else { return (0, 0) };
                if instance.depth >= MAX_NESTING {
                    let message = format!("compound elements nested more than {MAX_NESTING} levels deep");
                    self.exhaust(Diagnostic::error(slot.span, message));
                    return (0, 0);
                }
                let parent = instance.environment.of_template(template.parent);
                let environment =
                    Rc::new(Environment::new(id, values, &template.defines, parent, self.diagnostics));
                let owner = format!("'{name}'");
                let ports = (self.tunnel(&owner, false, slot.span), self.tunnel(&owner, true, slot.span));
                let prefix = format!("{name}/");
                inner.push(Instance { template, environment, prefix, ports, depth: instance.depth + 1 });
                ports
            }
        }
    }

    fn config(&mut self, instance: &Instance<'p>, span: Option<Span>) -> Substituted {
        let Some(span) = span else { return Substituted::default() };
        let mut lookup = |name: &str| instance.environment.get(name);
        params::substitute(self.sources.slice(span), span, &mut lookup).unwrap_or_else(|params::TooLong| {
            params::too_long(span).add_to(self.diagnostics);
            Substituted::default()
        })
    }

    /// Chooses the alternative of a compound element: the first that has as many ports as the use connects,
    /// and whose parameters fit the arguments. A class that the configuration does not define, which `...`
    /// may add, always fits. If a single alternative with a body is given, it is chosen even if it does not
    /// fit, because its errors say more than that nothing fits.
    fn choose(&mut self, class: ClassId, slot: &Slot, config: &str, span: Span) -> ChosenClass {
        let program = self.program;
        let (class_name, choices) = match program.classes.get(class) {
            Some(Class::Primitive(name)) => return ChosenClass::Primitive(name.clone()),
            Some(Class::Compound { name, choices }) => (name, choices),
            None => return ChosenClass::None,
        };
        let args: Vec<String> = args::split(config).into_iter().map(|arg| arg.text).collect();
        if let [Choice::Template(id)] = choices.as_slice() {
            return self.only_choice(*id, class_name, &args, slot, span);
        }
        let mut candidates = Vec::new();
        let mut open: Vec<_> = choices.iter().rev().copied().collect();
        while let Some(choice) = open.pop() {
            match choice {
                Choice::Template(id) => {
                    let Some(template) = program.templates.get(id) else { continue };
                    let ports_fit = (template.inputs, template.outputs) == (slot.inputs, slot.outputs);
                    match params::bind(template, &args) {
                        (values, None) if ports_fit => return ChosenClass::Compound(id, values),
                        _ => candidates.push(template),
                    }
                }
                Choice::Earlier(class) => match program.classes.get(class) {
                    Some(Class::Primitive(name)) => return ChosenClass::Primitive(name.clone()),
                    Some(Class::Compound { choices, .. }) => open.extend(choices.iter().rev()),
                    None => {}
                },
            }
        }
        let wanted = format!("{class_name}({})", counted(args.len(), "argument"));
        let wanted = format!("no match for '{wanted} [{}]'", ports_text(slot.inputs, slot.outputs));
        let mut error =
            Diagnostic::error(span, wanted).with_hint("ports and arguments must fit one definition exactly");
        for template in candidates.iter().take(8) {
            let ports = ports_text(template.inputs, template.outputs);
            let text = format!("candidate: {class_name}({}) [{ports}]", template.formals_text());
            error = error.with_related(template.span, text);
        }
        self.in_clicks_form(error, class_name, args.len(), slot, &candidates).add_to(self.diagnostics);
        ChosenClass::None
    }

    /// Adds Click's messages to the error that no alternative of a compound element fits: the use with its
    /// numbers of arguments and ports, at the end of the file, and then the alternatives.
    fn in_clicks_form(
        &self,
        error: Diagnostic,
        class: &str,
        args: usize,
        slot: &Slot,
        candidates: &[&Template],
    ) -> Diagnostic {
        let source = self.program.templates.first().map_or(error.span.source, |file| file.span.source);
        let end = self.sources.text(source).len();
        let end = Some(Span { source, start: end, end });
        let given = if args > 0 { format!("{}, ", counted(args, "argument")) } else { String::new() };
        let ports = ports_text(slot.inputs, slot.outputs);
        let error = error
            .with_clicks_line(end, format!("no match for '{class}[{given}{ports}]'"))
            .with_clicks_line(candidates.first().map(|template| template.span), "candidates are:");
        candidates.iter().fold(error, |error, template| {
            let kinds = template.formals.iter().map(|formal| match &formal.kind {
                FormalKind::Positional => "<arg>",
                FormalKind::Keyword(keyword) => keyword,
                FormalKind::Rest => "...",
            });
            let kinds = args::join(kinds);
            let kinds = if kinds.is_empty() { kinds } else { format!("({kinds})") };
            let ports = ports_text(template.inputs, template.outputs);
            error.with_clicks_line(Some(template.span), format!("  {class}{kinds}[{ports}]"))
        })
    }

    fn only_choice(
        &mut self,
        id: TemplateId,
        class: &str,
        args: &[String],
        slot: &Slot,
        span: Span,
    ) -> ChosenClass {
        let Some(template) = self.program.templates.get(id) else { return ChosenClass::None };
        let (values, mismatch) = params::bind(template, args);
        if let Some(mismatch) = mismatch {
            let what = match mismatch {
                Mismatch::TooFew => "too few arguments".to_owned(),
                Mismatch::TooMany => "too many arguments".to_owned(),
                Mismatch::Missing(keyword) => format!("missing '{keyword}' parameter"),
            };
            let signature = format!("{class}({})", template.formals_text());
            let error = Diagnostic::error(span, format!("{what} to compound element '{signature}'"))
                .with_related(template.span, format!("'{class}' is defined here"))
                .with_hint(format!("{} given", counted(args.len(), "argument")));
            self.in_clicks_form(error, class, args.len(), slot, &[template]).add_to(self.diagnostics);
        }
        ChosenClass::Compound(id, values)
    }

    fn node(&mut self, node: NodeKind) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn tunnel(&mut self, owner: &str, is_output: bool, span: Span) -> usize {
        self.node(NodeKind::Tunnel(Tunnel { owner: owner.to_owned(), is_output, span }))
    }

    fn exhaust(&mut self, diagnostic: Diagnostic) {
        self.exhausted = true;
        self.diagnostics.push(diagnostic);
    }
}

fn both(node: usize) -> (usize, usize) {
    (node, node)
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn ports_text(inputs: usize, outputs: usize) -> String {
    format!("{}, {}", counted(inputs, "input"), counted(outputs, "output"))
}

/// Makes the names of elements unique. A declared name with slashes may be equal to the name of an element
/// inside a compound element. The later of the two elements is an error, and gets a name that no earlier
/// element has.
fn make_names_unique(elements: &mut [GraphElement], diagnostics: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<String, Span> = HashMap::with_capacity(elements.len());
    for (index, element) in elements.iter_mut().enumerate() {
        let name = element.name.clone();
        if let Some(&first) = seen.get(&name) {
            Diagnostic::error(element.span, format!("redeclaration of element '{name}'"))
                .with_related(first, format!("element '{name}' previously declared here"))
                .with_clicks_line(Some(element.span), format!("redeclaration of element '{name}'"))
                .with_clicks_line(Some(first), format!("'{name}' previously declared here"))
                .with_hint("names with slashes belong to the insides of compound elements")
                .add_to(diagnostics);
            while seen.contains_key(&element.name) {
                element.name = format!("{}@{index}", element.name);
            }
        }
        seen.insert(element.name.clone(), element.span);
    }
}
