//! The objects in JSON that the server returns; `docs/http.md` describes them.

use std::collections::BTreeMap;

use element::Class;
use element::class::Access;
use engine::{Plan, Snapshot, SnapshotObject};
use serde::Serialize;

use crate::About;

/// The object of `/api/report`.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    version: &'a str,
    commit: &'a str,
    configuration: &'a str,
    /// True if handlers can be written with a token.
    writable: bool,
    /// The time from the start of the run to the moment of the figures.
    seconds: f64,
    #[serde(flatten)]
    run: SnapshotObject<'a>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(about: &'a About, snapshot: &'a Snapshot, writable: bool, seconds: f64) -> Report<'a> {
        Report {
            version: &about.version,
            commit: &about.commit,
            configuration: &about.configuration,
            writable,
            seconds,
            run: snapshot.object(),
        }
    }
}

/// The object of `/api/drops`: the drops of the graph and of each element that has dropped packets.
#[derive(Serialize)]
pub(crate) struct Drops<'a> {
    drops: &'a BTreeMap<&'static str, u64>,
    elements: BTreeMap<&'a str, &'a BTreeMap<&'static str, u64>>,
}

impl<'a> Drops<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Drops<'a> {
        let elements = snapshot.report.elements.iter().filter(|element| !element.drops.is_empty());
        Drops {
            drops: &snapshot.report.totals.drops,
            elements: elements.map(|element| (&*element.name, &element.drops)).collect(),
        }
    }
}

/// The object of `/api/graph`.
#[derive(Serialize)]
pub(crate) struct Graph<'a> {
    generation: u64,
    elements: Vec<Node<'a>>,
    connections: Vec<Link>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    class: &'a str,
    config: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// `push` or `pull`, for each port.
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// A connection, by the indices of elements in the list of elements.
#[derive(Serialize)]
struct Link {
    from: usize,
    output: usize,
    to: usize,
    input: usize,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Graph<'a> {
        let plan: &Plan = &snapshot.plan;
        let node = |(id, element): (usize, &'a lang::GraphElement)| {
            let place = plan.places.get(id);
            Node {
                name: &element.name,
                class: plan.classes[id].name,
                config: &element.config,
                file: place.map(|place| &*place.file),
                line: place.map(|place| place.line),
                column: place.map(|place| place.column),
                inputs: plan.inputs[id].iter().map(ToString::to_string).collect(),
                outputs: plan.outputs[id].iter().map(ToString::to_string).collect(),
            }
        };
        let link = |connection: &lang::Connection| {
            let ((from, output), (to, input)) = (connection.from, connection.to);
            Link { from, output, to, input }
        };
        Graph {
            generation: snapshot.generation,
            elements: plan.graph.elements.iter().enumerate().map(node).collect(),
            connections: plan.graph.connections.iter().map(link).collect(),
        }
    }
}

/// A handler, as the objects of an element and of the graph list it.
#[derive(Serialize)]
pub(crate) struct HandlerLine<'a> {
    name: &'a str,
    read: bool,
    write: bool,
    /// True if a read takes a parameter.
    parameter: bool,
}

/// Parses the list that the handler `handlers` returns: in each line the name, a tab, and letters for access.
pub(crate) fn handlers(list: &str) -> Vec<HandlerLine<'_>> {
    let mut handlers: Vec<HandlerLine<'_>> = Vec::new();
    for text in list.lines() {
        let Some((name, access)) = text.rsplit_once('\t') else { continue };
        let has = |letter: char| access.contains(letter);
        if !handlers.iter().any(|known| known.name == name) {
            handlers.push(HandlerLine { name, read: has('r'), write: has('w'), parameter: has('+') });
        }
    }
    handlers
}

/// The object of `/api/elements/NAME`.
#[derive(Serialize)]
pub(crate) struct ElementPage<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    /// The present arguments.
    pub(crate) config: &'a str,
    pub(crate) handlers: Vec<HandlerLine<'a>>,
}

/// The object of `/api/classes/NAME`.
#[derive(Serialize)]
pub(crate) struct ClassPage<'a> {
    name: &'a str,
    manual: String,
    handlers: Vec<HandlerLine<'static>>,
}

impl<'a> ClassPage<'a> {
    pub(crate) fn new(about: &About, class: &'a Class) -> ClassPage<'a> {
        let line = |info: element::HandlerInfo| {
            let Access { read, write, param, .. } = info.access;
            HandlerLine { name: info.name, read, write, parameter: param }
        };
        ClassPage {
            name: class.name,
            manual: (about.manual)(class),
            handlers: class.each_handler().map(line).collect(),
        }
    }
}

/// The value of a handler.
#[derive(Serialize)]
pub(crate) struct Value<'a> {
    pub(crate) value: &'a str,
}

/// An error.
#[derive(Serialize)]
pub(crate) struct Error<'a> {
    pub(crate) error: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_handlers_is_parsed() {
        let list = handlers("count\tr\nlookup\tr+\nreset\tw\nconfig\trw.\ncount\tr\nno tab\n");
        let shown: Vec<_> = list.iter().map(|h| (h.name, h.read, h.write, h.parameter)).collect();
        let expected = [
            ("count", true, false, false),
            ("lookup", true, false, true),
            ("reset", false, true, false),
            ("config", true, true, false),
        ];
        assert_eq!(shown, expected);
    }
}
