//! Random configurations as graphs that can be changed before they become text. Elements are in the order
//! in which packets pass them, so there are no loops.

use std::collections::BTreeSet;

use element::ports::{self, Processing};
use fastrand::Rng;

use super::classes::{Catalogue, Context, Element, first, next, stateful};

/// The target of an output of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An element with a higher index: that index, and the number of its input.
    Element(usize, usize),
    /// The sink with this number.
    Sink(usize),
    /// A Discard element.
    Discard,
}

/// An element with its connections to other elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// The target of each output, by the number of the output.
    pub(super) to: Vec<Next>,
}

/// A random configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// The elements. Each output leads to an element with a higher index, to a sink or to a Discard.
    pub(super) nodes: Vec<Node>,
    /// For each source: the index of the element that it leads to, and the number of the input.
    pub(super) entries: Vec<(usize, usize)>,
    /// True if sinks observe all annotations, so that programs have to keep them; false if they observe only
    /// the extra length annotation.
    pub(super) annotations: bool,
}

/// The texts of a source and of a sink, with class and arguments; `#` is replaced by the number of the source
/// or sink.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    source: String,
    sink: String,
}

impl Ends {
    /// Returns the sources and sinks that take packets from, and put packets into, the exchange with this
    /// number.
    pub(super) fn of(exchange: u64, annotations: bool) -> Ends {
        Ends {
            source: format!("AttackSource({exchange}, #)"),
            sink: format!("AttackSink({exchange}, #, {annotations})"),
        }
    }

    /// Returns a source and a sink that read and write capture files, for the description of a failure.
    pub(super) fn files() -> Ends {
        Ends { source: "FromDump(in#.pcap, STOP true)".into(), sink: "ToDump(out#.pcap)".into() }
    }
}

/// The maximum number of sinks of a configuration.
pub(super) const SINKS: usize = 3;

fn end(r: &mut Rng) -> Next {
    if r.u8(..4) == 0 { Next::Discard } else { Next::Sink(r.usize(..SINKS)) }
}

impl Network {
    /// Creates a random configuration. `seed` selects the class of one element, in turn of all classes,
    /// unless an element that keeps state takes its place. If `keeps_state` is true, there is an element that
    /// keeps state of flows.
    pub(super) fn random(r: &mut Rng, catalogue: &Catalogue, seed: u64, keeps_state: bool) -> Network {
        let length = r.usize(3..14);
        let turn_at = r.usize(2..=length);
        let both = keeps_state && r.bool();
        let state_at = keeps_state.then(|| r.usize(1..length.min(5)));
        let mut c = Context::default();
        let mut elements: Vec<Element> = Vec::with_capacity(length);
        for number in 0..length {
            let element = match number {
                _ if state_at == Some(number) => stateful(r, both),
                _ if turn_at == number || turn_at == length && number == 1 => {
                    let element = catalogue.in_turn(r, seed);
                    c.follow(&element);
                    element
                }
                0 => first(r, &mut c),
                _ if keeps_state && r.u8(..12) == 0 => stateful(r, false),
                _ => next(r, catalogue, &mut c),
            };
            elements.push(element);
        }
        let last = elements.len() - 1;
        // If the stateful element has a second input, a second source leads to it in half of the cases, for
        // the other direction of flows.
        let mut entries = vec![(0, 0)];
        match state_at {
            Some(at) if elements[at].inputs > 1 => entries.push(if r.bool() { (0, 0) } else { (at, 1) }),
            _ if r.u8(..8) == 0 => entries.push((r.usize(..=last.min(2)), 0)),
            _ => {}
        }
        let mut nodes: Vec<Node> = Vec::with_capacity(elements.len());
        for (number, element) in elements.iter().enumerate() {
            let trunk = r.usize(..element.outputs.max(1));
            let to = (0..element.outputs).map(|output| {
                // The first output of most elements leads to the next element of the chain, because most
                // packets leave by it.
                let straight = if r.u8(..6) > 0 { 0 } else { trunk };
                let on = match number < last {
                    true if output == straight => number + 1,
                    true if r.u8(..4) == 0 => r.usize(number + 1..=last),
                    _ => return end(r),
                };
                let input = if r.u8(..6) == 0 { r.usize(..elements[on].inputs) } else { 0 };
                Next::Element(on, input)
            });
            let to = to.collect();
            nodes.push(Node { element: element.clone(), to });
        }
        Network { nodes, entries, annotations: r.u8(..5) < 2 }
    }

    /// Returns, for each element, true if packets can reach it.
    pub(super) fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        for &(entry, _) in &self.entries {
            reached[entry] = true;
        }
        for number in 0..self.nodes.len() {
            if reached[number] {
                for next in &self.nodes[number].to {
                    if let Next::Element(next, _) = next {
                        reached[*next] = true;
                    }
                }
            }
        }
        reached
    }

    /// Returns the class of each element that packets can reach.
    pub(super) fn classes(&self) -> impl Iterator<Item = &str> {
        let reached = self.reached();
        let nodes = self.nodes.iter().enumerate().filter(move |(number, _)| reached[*number]);
        nodes.map(|(_, node)| node.element.class.as_str())
    }

    /// Removes the elements that packets cannot reach, and renumbers the others.
    pub(super) fn tidy(&mut self) {
        let reached = self.reached();
        let mut new = 0;
        let numbers: Vec<usize> = reached
            .iter()
            .map(|&reached| {
                new += usize::from(reached);
                new.saturating_sub(1)
            })
            .collect();
        let mut place = 0;
        self.nodes.retain(|_| {
            place += 1;
            reached[place - 1]
        });
        for next in self.nodes.iter_mut().flat_map(|node| &mut node.to) {
            if let Next::Element(number, _) = next {
                *number = numbers[*number];
            }
        }
        for (entry, _) in &mut self.entries {
            *entry = numbers[*entry];
        }
    }

    /// Returns the configuration without the element `out`. Packets for it go to the target of its first
    /// output. `None` if a source leads to the element and that target is not an element.
    pub(super) fn bypassed(&self, out: usize) -> Option<Network> {
        let to = self.nodes[out].to.first().copied().unwrap_or(Next::Discard);
        let mut network = self.clone();
        for next in network.nodes.iter_mut().flat_map(|node| &mut node.to) {
            if matches!(next, Next::Element(number, _) if *number == out) {
                *next = to;
            }
        }
        for entry in &mut network.entries {
            if entry.0 == out {
                let Next::Element(number, input) = to else { return None };
                *entry = (number, input);
            }
        }
        network.tidy();
        Some(network)
    }

    /// Inserts an element between the output `output` of the element `at` and that output's target. Its
    /// first output leads to the target, its other outputs to Discard.
    pub(super) fn insert(&mut self, at: usize, output: usize, element: Element) {
        let behind = at + 1;
        for next in self.nodes.iter_mut().flat_map(|node| &mut node.to) {
            if let Next::Element(number, _) = next
                && *number >= behind
            {
                *number += 1;
            }
        }
        for (entry, _) in &mut self.entries {
            *entry += usize::from(*entry >= behind);
        }
        let mut to = vec![Next::Discard; element.outputs];
        to[0] = self.nodes[at].to[output];
        self.nodes[at].to[output] = Next::Element(behind, 0);
        self.nodes.insert(behind, Node { element, to });
    }

    /// Returns the text of the configuration with the sources and sinks that `ends` gives.
    pub(super) fn text(&self, catalogue: &Catalogue, ends: &Ends) -> String {
        let reached = self.reached();
        let way = |element: &Element, is_output: bool, port: usize| {
            let class = catalogue.class(&element.class);
            class.and_then(|class| ports::processing(class.processing, is_output, port))
        };
        let pulls =
            |element: &Element, is_output, port| way(element, is_output, port) == Some(Processing::Pull);
        // Pull inputs are connected through a queue, and pull outputs through an Unqueue.
        let target = |next: &Next| match next {
            Next::Element(number, input) if pulls(&self.nodes[*number].element, false, *input) => {
                format!("q{number}_{input}")
            }
            Next::Element(number, 0) => format!("e{number}"),
            Next::Element(number, input) => format!("[{input}] e{number}"),
            Next::Sink(number) => format!("out{number}"),
            Next::Discard => "Discard".into(),
        };
        let (mut declared, mut connected) = (String::new(), String::new());
        for (number, (entry, input)) in self.entries.iter().enumerate() {
            declared += &format!("in{number} :: {};\n", ends.source.replace('#', &number.to_string()));
            connected += &format!("in{number} -> {};\n", target(&Next::Element(*entry, *input)));
        }
        let mut sinks = BTreeSet::new();
        let mut fed: Vec<(usize, usize)> = self.entries.clone();
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| reached[*number]) {
            let Element { class, config, .. } = &node.element;
            // In samples, the element itself has the name `e`.
            let config = config.replace(" e.", &format!(" e{number}."));
            declared += &match config.is_empty() {
                true => format!("e{number} :: {class};\n"),
                false => format!("e{number} :: {class}({config});\n"),
            };
            for (output, next) in node.to.iter().enumerate() {
                let from = if output == 0 { String::new() } else { format!(" [{output}]") };
                // RED needs a queue that it can watch, so there is one directly downstream of it.
                let unqueue = match class.as_str() {
                    _ if pulls(&node.element, true, output) => "Unqueue -> ",
                    "RED" if output == 0 => "Queue(1000) -> Unqueue -> ",
                    _ => "",
                };
                connected += &format!("e{number}{from} -> {unqueue}{};\n", target(next));
                match next {
                    Next::Sink(sink) => drop(sinks.insert(*sink)),
                    Next::Element(number, input) => fed.push((*number, *input)),
                    Next::Discard => {}
                }
            }
        }
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| reached[*number]) {
            for input in 0..node.element.inputs {
                let port = if input == 0 { String::new() } else { format!("[{input}] ") };
                let is_fed = fed.contains(&(number, input));
                if pulls(&node.element, false, input) {
                    declared += &format!("q{number}_{input} :: Queue(1000);\n");
                    connected += &format!("q{number}_{input} -> {port}e{number};\n");
                    if !is_fed {
                        connected += &format!("Idle -> q{number}_{input};\n");
                    }
                } else if !is_fed {
                    connected += &format!("Idle -> {port}e{number};\n");
                }
            }
        }
        for number in sinks {
            declared += &format!("out{number} :: {};\n", ends.sink.replace('#', &number.to_string()));
        }
        declared + &connected
    }
}
