//! The flat graph of elements, which is the result of parsing a configuration.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::source::Span;

/// A configuration with all compound elements expanded, so that it has elements and connections only.
///
/// Elements are in Click's order. The elements of the file are first. Then, for each compound element in
/// turn, come the elements of its body, followed by the elements of the compound elements inside that body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The elements. Connections name them by index; their names are unique.
    pub elements: Vec<GraphElement>,
    /// The connections, each once. Their order has no meaning.
    pub connections: Vec<Connection>,
    /// The arguments of `require(...)` as kind and value, for example `("package", "fastclassifier")`, except
    /// for libraries: the text of a library is parsed as a part of the configuration.
    pub requirements: Vec<(String, String)>,
    /// The arguments of `provide(...)`: the features that the configuration provides.
    pub provisions: Vec<String>,
    /// The parameters whose values can be set from outside of the configuration.
    pub parameters: Parameters,
}

/// The parameters of a configuration on which a value from outside, such as from the command line, has an
/// effect. Names are without dollar sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The parameters that a `define` in the outermost scope defines, in the order of definition.
    pub defined: Vec<String>,
    /// The parameters that occur in configuration strings and definitions, and that no inner scope defines.
    pub mentioned: BTreeSet<String>,
}

impl Parameters {
    /// True if a value from outside for this parameter has an effect.
    pub fn has(&self, name: &str) -> bool {
        self.mentioned.contains(name) || self.defined.iter().any(|defined| defined == name)
    }

    /// Adds the parameters of another configuration, for which the same values from outside are used.
    pub fn extend(&mut self, other: &Parameters) {
        let new = other.defined.iter().filter(|name| !self.defined.contains(name)).cloned();
        let new: Vec<String> = new.collect();
        self.defined.extend(new);
        self.mentioned.extend(other.mentioned.iter().cloned());
    }
}

/// An element of a flat graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphElement {
    /// The full name, with the names of the compound elements around it, for example `router/q` or
    /// `Counter@3`.
    pub name: String,
    /// The name of the class, which the configuration does not define itself. Another name that
    /// `elementclass` gives to the class is replaced.
    pub class: String,
    /// The configuration string, with parameters replaced by their values. It is not split into arguments
    /// yet.
    pub config: String,
    /// The place of the declaration in a text.
    pub span: Span,
    /// The place of the configuration string in a text; `None` if the element has none.
    pub config_span: Option<Span>,
    /// For each part of `config`, the place in a text from which it was taken, in the order of offsets.
    pub(crate) origins: Vec<Origin>,
}

/// The place from which a part of a configuration string was taken. The part ends at the start of the next
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The offset in the configuration string at which the part starts.
    pub(crate) at: usize,
    pub(crate) span: Span,
    /// True if the part is a copy of the text at `span`. False if it is the value or the default of the
    /// parameter to which the text at `span` refers.
    pub(crate) verbatim: bool,
}

/// A connection from an output port to an input port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The index of the element from which packets come, and the number of its output port.
    pub from: (usize, usize),
    /// The index of the element to which packets go, and the number of its input port.
    pub to: (usize, usize),
    /// The place of the connection in a text.
    pub span: Span,
}

impl GraphElement {
    /// Returns the place in a text from which a range of the configuration string was taken, for error
    /// messages. If the range is from the value of a parameter, it is the place of the parameter.
    pub fn config_place(&self, range: Range<usize>) -> Span {
        let passed = self.origins.partition_point(|origin| origin.at <= range.start);
        let origin = passed.checked_sub(1).and_then(|index| self.origins.get(index));
        match origin {
            Some(origin) if origin.verbatim => {
                let start = (origin.span.start + range.start - origin.at).min(origin.span.end);
                let end = (start + range.end.saturating_sub(range.start)).min(origin.span.end);
                Span { start, end, ..origin.span }
            }
            Some(origin) => origin.span,
            None => self.config_span.unwrap_or(self.span),
        }
    }
}

impl Graph {
    /// Appends an element that is in no text. If the name is taken, the element gets the name `NAME@N` with
    /// a free number N.
    pub fn add(&mut self, name: &str, class: &str, config: &str, span: Span) {
        let numbered = |n: usize| if n == 0 { name.to_string() } else { format!("{name}@{n}") };
        let free = (0..).map(numbered).find(|name| self.find(name).is_none());
        self.elements.push(GraphElement {
            name: free.unwrap_or_default(),
            class: class.to_string(),
            config: config.to_string(),
            span,
            config_span: None,
            origins: Vec::new(),
        });
    }

    /// Returns the graph without some elements and their connections, and for each element its new index,
    /// `None` if it was removed. `removed` has a flag for each element.
    pub fn without(&self, removed: &[bool]) -> (Graph, Vec<Option<usize>>) {
        let mut graph = self.clone();
        let mut next = 0;
        let indices: Vec<Option<usize>> = removed
            .iter()
            .map(|&removed| {
                let index = (!removed).then_some(next);
                next += usize::from(!removed);
                index
            })
            .collect();
        let mut keeps = removed.iter().map(|removed| !removed);
        graph.elements.retain(|_| keeps.next().unwrap_or(true));
        graph.connections.retain_mut(|connection| {
            match (indices[connection.from.0], indices[connection.to.0]) {
                (Some(from), Some(to)) => {
                    (connection.from.0, connection.to.0) = (from, to);
                    true
                }
                _ => false,
            }
        });
        (graph, indices)
    }

    /// Returns the index of the element with this name; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }

    /// Returns, for each element, the number of input ports and of output ports: one more than the highest
    /// port that a connection uses, or 0.
    pub fn port_counts(&self) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); self.elements.len()];
        for connection in &self.connections {
            if let Some(count) = counts.get_mut(connection.to.0) {
                count.0 = count.0.max(connection.to.1 + 1);
            }
            if let Some(count) = counts.get_mut(connection.from.0) {
                count.1 = count.1.max(connection.from.1 + 1);
            }
        }
        counts
    }

    /// True if both graphs have the same elements, connections, requirements and provisions. Places in texts,
    /// the order of connections, and the parameters may differ.
    pub fn is_equivalent(&self, other: &Graph) -> bool {
        fn key(element: &GraphElement) -> (&str, &str, &str) {
            (&element.name, &element.class, &element.config)
        }
        fn ends(graph: &Graph) -> BTreeSet<((usize, usize), (usize, usize))> {
            graph.connections.iter().map(|connection| (connection.from, connection.to)).collect()
        }
        self.elements.iter().map(key).eq(other.elements.iter().map(key))
            && ends(self) == ends(other)
            && self.requirements == other.requirements
            && self.provisions == other.provisions
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, Sources, parse};

    #[test]
    fn config_places_are_text_or_parameters() {
        let text = "elementclass C { $a | -> x :: X(one $a, two) -> } Idle -> C(some words) -> Discard";
        let mut sources = Sources::new();
        let id = sources.add("t", text);
        let (graph, _) = parse(&mut sources, id, &Options::default());
        let element = &graph.elements[graph.find("C@2/x").unwrap()];
        assert_eq!(element.config, "one some words, two");
        let place = |part: &str| {
            let start = element.config.find(part).unwrap();
            sources.slice(element.config_place(start..start + part.len()))
        };
        assert_eq!(place("one"), "one");
        assert_eq!(place("words"), "$a");
        assert_eq!(place("two"), "two");
        assert_eq!(sources.slice(element.config_place(900..901)), "");
    }

    #[test]
    fn port_counts_are_one_more_than_the_highest_port() {
        let mut sources = Sources::new();
        let id = sources.add("t", "a :: A; b :: B; a [2] -> [1] b; c :: C");
        let (graph, _) = parse(&mut sources, id, &Options::default());
        assert_eq!(graph.port_counts(), [(0, 3), (2, 0), (0, 0)]);
    }
}
