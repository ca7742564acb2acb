//! The last step of linking: the graphs of all functions become one graph, with cables between them.

use std::collections::HashSet;

use element::Registry;
use element::ports::{Processing, flows, processing};
use lang::{Connection, Graph, GraphElement, Span};

use super::function::Function;
use super::wiring::{ElementOfFunction, Wiring};

/// The instructions of scripts that only print, read and save values, wait or stop. A script with no other
/// instructions is removed, because it is meant for a function that runs alone.
const HARMLESS: [&str; 17] = [
    "print",
    "printq",
    "printn",
    "printnq",
    "read",
    "readq",
    "save",
    "append",
    "wait",
    "wait_time",
    "wait_for",
    "wait_step",
    "wait_stop",
    "pause",
    "stop",
    "end",
    "exit",
];

/// A linked chain, and the elements that linking removed or replaced, for notes to the user. All names are
/// names in the joined graph.
#[derive(Default)]
pub(super) struct Joined {
    pub(super) graph: Graph,
    /// The queues that were removed between functions.
    pub(super) queues: Removed,
    /// The scripts that were removed.
    pub(super) scripts: Removed,
    /// The receivers that became Idle, because no packets enter at their interfaces.
    pub(super) silent: Removed,
}

/// The elements that were removed or replaced for one reason.
#[derive(Default)]
pub(super) struct Removed {
    pub(super) names: Vec<String>,
    /// The position of the first of these elements in its configuration.
    pub(super) place: Option<Span>,
}

impl Removed {
    fn add(&mut self, element: &GraphElement) {
        self.names.push(element.name.clone());
        self.place.get_or_insert(element.span);
    }
}

/// Combines the graphs of all functions, and replaces the elements at linked interfaces by cables.
pub(super) fn join(functions: &[Function], wiring: &Wiring, registry: &Registry) -> Joined {
    let mut starts = Vec::new();
    let mut graph = Graph::default();
    for function in functions {
        starts.push(graph.elements.len());
        append(&mut graph, function);
    }
    let place = |(function, element): ElementOfFunction| starts[function] + element;
    let count = graph.elements.len();
    let mut joiner =
        Joiner { graph, registry, gone: vec![false; count], starts: &starts, joined: Joined::default() };
    for &silent in &wiring.silent {
        joiner.become_idle(place(silent));
    }
    joiner.leave_scripts_out();
    for cable in &wiring.cables {
        for &sender in &cable.senders {
            joiner.connect(place(sender), place(cable.receiver), &cable.names);
        }
    }
    for cable in &wiring.cables {
        joiner.gone[place(cable.receiver)] = true;
    }
    joiner.finish()
}

/// Appends the graph of a function. The names of its elements get the function's name as a prefix.
fn append(graph: &mut Graph, function: &Function) {
    let start = graph.elements.len();
    graph.elements.extend(function.graph.elements.iter().cloned().map(|mut element| {
        element.name = format!("{}/{}", function.name.text, element.name);
        element
    }));
    graph.connections.extend(function.graph.connections.iter().map(|connection| {
        let shifted = |(element, port): (usize, usize)| (element + start, port);
        Connection { from: shifted(connection.from), to: shifted(connection.to), span: connection.span }
    }));
    add_new(&mut graph.requirements, &function.graph.requirements);
    add_new(&mut graph.provisions, &function.graph.provisions);
    graph.parameters.extend(&function.graph.parameters);
}

fn add_new<T: Clone + PartialEq>(all: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

struct Joiner<'a> {
    graph: Graph,
    registry: &'a Registry,
    /// For each element, true if it is removed after all interfaces have been linked.
    gone: Vec<bool>,
    /// For each function, the index of its first element.
    starts: &'a [usize],
    joined: Joined,
}

impl Joiner<'_> {
    /// Replaces an element by an element of another class. A generated name (`Class@number`) contains the
    /// class, so the name changes as well.
    fn become_another(&mut self, element: usize, class: &str, config: String) {
        let element = &mut self.graph.elements[element];
        let (scope, name) = element.name.rsplit_once('/').unwrap_or_default();
        if let Some((_, number)) = name.split_once('@') {
            element.name = format!("{scope}/{class}@{number}");
        }
        element.class = class.to_string();
        element.config = config;
        element.config_span = None;
    }

    /// Replaces a receiver by an Idle, which emits nothing. The elements downstream of it stay, because
    /// packets may reach them on other paths.
    fn become_idle(&mut self, receiver: usize) {
        self.joined.silent.add(&self.graph.elements[receiver]);
        self.become_another(receiver, "Idle", String::new());
    }

    /// Removes scripts that only print, read and save values, wait or stop.
    fn leave_scripts_out(&mut self) {
        let counts = self.graph.port_counts();
        for (number, (element, ports)) in self.graph.elements.iter().zip(counts).enumerate() {
            let Some(class) = self.registry.get(&element.class) else { continue };
            let args = lang::args::split(&element.config);
            let is_harmless =
                |text: &str| text.split_whitespace().next().is_some_and(|word| HARMLESS.contains(&word));
            let is_script = class.is_bystander(ports) && !args.is_empty();
            if is_script && args.iter().all(|arg| is_harmless(&arg.text)) {
                self.joined.scripts.add(element);
                self.gone[number] = true;
            }
        }
    }

    /// Makes a sender a cable that leads to the elements downstream of the receiver. `names` are the
    /// interfaces, as arguments of the cable.
    fn connect(&mut self, sender: usize, receiver: usize, names: &[String; 2]) {
        self.push_into(sender);
        self.become_another(sender, "Cable", lang::args::join(names.iter().map(lang::args::quote)));
        let behind: Vec<Connection> = self
            .graph
            .connections
            .iter()
            .filter(|connection| connection.from == (receiver, 0))
            .map(|connection| Connection { from: (sender, 0), ..*connection })
            .collect();
        self.graph.connections.extend(behind);
    }

    /// Ensures that packets are pushed into the element `sender`, which becomes a cable. A queue from which
    /// only this element pulls, and which no element mentions by name, is removed. For any other output that
    /// packets are pulled from, an Unqueue is inserted, which pulls them and pushes them on.
    fn push_into(&mut self, sender: usize) {
        let sources: Vec<(usize, usize)> = self.before((sender, 0)).collect();
        for source in sources {
            if !self.is_pulled(source) {
                continue;
            }
            if self.is_needless(source) {
                self.joined.queues.add(&self.graph.elements[source.0]);
                self.gone[source.0] = true;
                // The connection from the queue to the sender is removed, so that later links do not take the
                // sender's packets for pulled packets.
                self.graph.connections.retain(|connection| connection.from.0 != source.0);
                for connection in &mut self.graph.connections {
                    if connection.to.0 == source.0 {
                        connection.to = (sender, 0);
                    }
                }
                continue;
            }
            let element = &self.graph.elements[sender];
            let (scope, _) = element.name.rsplit_once('/').unwrap_or_default();
            let (name, span) = (format!("{scope}/Unqueue"), element.span);
            self.graph.add(&name, "Unqueue", "", span);
            let unqueue = self.graph.elements.len() - 1;
            self.gone.push(false);
            for connection in &mut self.graph.connections {
                if connection.from == source && connection.to == (sender, 0) {
                    connection.to = (unqueue, 0);
                }
            }
            self.graph.connections.push(Connection { from: (unqueue, 0), to: (sender, 0), span });
        }
    }

    /// Returns the outputs that are connected to an input.
    fn before(&self, input: (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
        let connections = self.graph.connections.iter().filter(move |connection| connection.to == input);
        connections.map(|connection| connection.from)
    }

    /// True if packets are pulled from an output: its class declares the output as pull, or the output is
    /// agnostic and packets are pulled from an output upstream of it.
    fn is_pulled(&self, output: (usize, usize)) -> bool {
        let mut seen = HashSet::from([output]);
        let mut open = vec![output];
        while let Some((element, port)) = open.pop() {
            let Some(class) = self.registry.get(&self.graph.elements[element].class) else { continue };
            match processing(class.processing, true, port) {
                Some(Processing::Pull) => return true,
                Some(Processing::Agnostic) => {
                    let leads = |to: (usize, usize)| to.0 == element && flows(class.flow, to.1, port);
                    let inputs = self.graph.connections.iter().filter(|connection| leads(connection.to));
                    open.extend(inputs.map(|connection| connection.from).filter(|from| seen.insert(*from)));
                }
                _ => {}
            }
        }
        false
    }

    /// True if an output belongs to a queue that may be removed: it has no other connected output, and no
    /// element refers to it by name.
    fn is_needless(&self, (queue, port): (usize, usize)) -> bool {
        let element = &self.graph.elements[queue];
        let Some(class) = self.registry.get(&element.class) else { return false };
        let is = |output, wanted| processing(class.processing, output, 0) == Some(wanted);
        let is_queue = is(false, Processing::Push) && is(true, Processing::Pull) && port == 0;
        let outputs = self.graph.connections.iter().filter(|connection| connection.from.0 == queue).count();
        is_queue && class.notes.signals_packets && outputs == 1 && !self.is_mentioned(queue)
    }

    /// True if the name of an element occurs in the arguments of another element of the same function.
    fn is_mentioned(&self, element: usize) -> bool {
        let function = self.starts.partition_point(|&start| start <= element).saturating_sub(1);
        let end = self.starts.get(function + 1).copied().unwrap_or(self.gone.len());
        let name = self.graph.elements[element].name.rsplit('/').next().unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        let others = (self.starts[function]..end.min(self.graph.elements.len()))
            .filter(|&other| other != element && !self.gone[other]);
        let mut configs = others.map(|other| &self.graph.elements[other].config);
        configs.any(|config| config.split(|c| !is_part(c)).any(|word| word == name))
    }

    fn finish(mut self) -> Joined {
        self.joined.graph = self.graph.without(&self.gone).0;
        self.joined
    }
}
