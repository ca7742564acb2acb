//! Removes the pseudoelements `input` and `output` of groups and compound elements: each path of
//! connections through them becomes a connection between two elements.

use std::collections::{HashMap, HashSet};

use crate::connect::too_many_connections;
use crate::diagnostic::Diagnostic;
use crate::graph::Connection;
use crate::program::MAX_CONNECTIONS;
use crate::source::Span;

/// The largest number of ports that the search through tunnels (pseudoelements) visits in a whole
/// configuration; more are an error, because hostile configurations can make the number grow exponentially.
const MAX_STEPS: usize = 20_000_000;

/// A node of the expanded graph, before tunnels (the pseudoelements `input` and `output`) are removed.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// An element, by its index in the list of elements.
    Element(usize),
    /// A pseudoelement. A connection that arrives at an input port continues from the output port of the
    /// same number.
    Tunnel(Tunnel),
    /// A node for an element whose name caused an error; the node's connections are dropped.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    /// The name of the group or compound element to which the pseudoelement belongs, in quotes.
    pub(crate) owner: String,
    /// True for the pseudoelement `output`, false for `input`.
    pub(crate) is_output: bool,
    pub(crate) span: Span,
}

/// A connection between two nodes. `from` and `to` are the index of a node and the number of its port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: (usize, usize),
    pub(crate) to: (usize, usize),
    pub(crate) span: Span,
}

/// Returns the connections between elements that result when all tunnels (pseudoelements) are removed. Each
/// occurs once, in the order of `edges`. Ports that are connected on one side of a tunnel only, and too many
/// connections, are errors.
pub(crate) fn remove(
    nodes: &[NodeKind],
    edges: &[Edge],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Connection> {
    let mut onward: HashMap<(usize, usize), Vec<(usize, usize)>> = HashMap::new();
    for edge in edges {
        if let Some(NodeKind::Tunnel(_)) = nodes.get(edge.from.0) {
            onward.entry(edge.from).or_default().push(edge.to);
        }
    }
    check_ends(nodes, edges, diagnostics);
    let mut walk = Walk { nodes, onward, targets: HashMap::new(), steps: 0 };
    let mut connections = Vec::with_capacity(edges.len());
    let mut seen = HashSet::new();
    for edge in edges {
        let Some(NodeKind::Element(from)) = nodes.get(edge.from.0) else { continue };
        let from = (*from, edge.from.1);
        for &to in walk.targets(edge.to) {
            if seen.insert((from, to)) {
                connections.push(Connection { from, to, span: edge.span });
            }
        }
        if connections.len() > MAX_CONNECTIONS || walk.steps > MAX_STEPS {
            diagnostics.push(too_many_connections(edge.span));
            break;
        }
    }
    connections
}

struct Walk<'a> {
    nodes: &'a [NodeKind],
    onward: HashMap<(usize, usize), Vec<(usize, usize)>>,
    /// For each input port that was searched, the input ports of elements to which it leads through tunnels
    /// (pseudoelements).
    targets: HashMap<(usize, usize), Vec<(usize, usize)>>,
    steps: usize,
}

impl Walk<'_> {
    fn targets(&mut self, port: (usize, usize)) -> &[(usize, usize)] {
        if !self.targets.contains_key(&port) {
            let found = self.search(port);
            self.targets.insert(port, found);
        }
        self.targets.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Returns the input ports of elements to which an input port leads through tunnels (pseudoelements). The
    /// search goes depth first, in the order of the connections. A circle of tunnels leads to no element.
    fn search(&mut self, port: (usize, usize)) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut seen = HashSet::from([port]);
        let mut open = vec![port];
        while let Some(at) = open.pop() {
            self.steps += 1;
            match self.nodes.get(at.0) {
                Some(NodeKind::Element(element)) => found.push((*element, at.1)),
                Some(NodeKind::Tunnel(_)) if self.steps <= MAX_STEPS => {
                    let next = self.onward.get(&at).map_or(&[][..], Vec::as_slice);
                    let first = open.len();
                    open.extend(next.iter().filter(|next| seen.insert(**next)));
                    open[first..].reverse();
                }
                _ => {}
            }
        }
        found
    }
}

/// Reports an error for each port of a tunnel (a pseudoelement) that has connections on the outside only or
/// on the inside only.
fn check_ends(nodes: &[NodeKind], edges: &[Edge], diagnostics: &mut Vec<Diagnostic>) {
    /// For each port of a tunnel (a pseudoelement), the place of the first connection that arrives at it, and
    /// of the first that leaves it.
    type Uses = HashMap<(usize, usize), (Option<Span>, Option<Span>)>;
    let mut uses: Uses = HashMap::new();
    let mut order = Vec::new();
    let mut note = |port: (usize, usize), arriving: bool, span: Span| {
        if let Some(NodeKind::Tunnel(_)) = nodes.get(port.0) {
            let entry = uses.entry(port).or_insert_with(|| {
                order.push(port);
                (None, None)
            });
            let side = if arriving { &mut entry.0 } else { &mut entry.1 };
            side.get_or_insert(span);
        }
    };
    for edge in edges {
        note(edge.to, true, edge.span);
        note(edge.from, false, edge.span);
    }
    for port in order {
        let (Some(NodeKind::Tunnel(tunnel)), Some(sides)) = (nodes.get(port.0), uses.get(&port)) else {
            continue;
        };
        let Tunnel { owner, is_output, span } = tunnel;
        let (side, number) = (if *is_output { "output" } else { "input" }, port.1);
        // At an `input`, connections arrive from outside and leave to the inside; at an `output`, the other
        // way round.
        let (outside, inside) = if *is_output { (sides.1, sides.0) } else { *sides };
        // The user has not written the name of a group.
        let name = if owner.contains("'@") { "group" } else { owner };
        let finding = match (outside, inside) {
            (Some(used), None) => Diagnostic::error(used, format!("{name} has no {side} {number}"))
                .with_clicks_line(Some(*span), format!("{owner} has no {side} {number}"))
                .with_related(*span, format!("{name} is here"))
                .with_hint(format!("connect '{side} [{number}]' inside it, or use another port")),
            (None, Some(_)) => Diagnostic::error(*span, format!("{name} {side} {number} unused"))
                .with_clicks_words(format!("{owner} {side} {number} unused"))
                .with_hint(format!("connect its {side} {number}")),
            _ => continue,
        };
        finding.add_to(diagnostics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(owner: &str, is_output: bool) -> NodeKind {
        NodeKind::Tunnel(Tunnel { owner: owner.into(), is_output, span: Span::default() })
    }

    fn edge(from: (usize, usize), to: (usize, usize)) -> Edge {
        Edge { from, to, span: Span::default() }
    }

    type Pair = ((usize, usize), (usize, usize));

    fn run(nodes: &[NodeKind], edges: &[Edge]) -> (Vec<Pair>, Vec<String>) {
        let mut diagnostics = Vec::new();
        let connections = remove(nodes, edges, &mut diagnostics);
        (
            connections.iter().map(|connection| (connection.from, connection.to)).collect(),
            diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect(),
        )
    }

    #[test]
    fn tunnels_join_and_fan_out() {
        let nodes = [NodeKind::Element(0), NodeKind::Element(1), tunnel("t", false)];
        let edges = [
            edge((0, 0), (2, 1)),
            edge((1, 3), (2, 1)),
            edge((2, 1), (1, 0)),
            edge((2, 1), (0, 0)),
            edge((2, 1), (1, 0)),
        ];
        assert_eq!(
            run(&nodes, &edges),
            (vec![((0, 0), (1, 0)), ((0, 0), (0, 0)), ((1, 3), (1, 0)), ((1, 3), (0, 0))], vec![])
        );
    }

    #[test]
    fn circles_lead_nowhere() {
        let nodes = [NodeKind::Element(0), tunnel("t", false), tunnel("u", false)];
        let edges = [edge((0, 0), (1, 0)), edge((1, 0), (2, 0)), edge((2, 0), (1, 0))];
        assert_eq!(run(&nodes, &edges), (vec![], vec![]));
    }

    #[test]
    fn open_ends_are_reported_from_the_side_that_is_there() {
        let nodes = [NodeKind::Element(0), tunnel("'i'", false), tunnel("'o'", true)];
        let edges = [edge((0, 0), (1, 2)), edge((1, 3), (0, 0)), edge((0, 0), (2, 4)), edge((2, 5), (0, 0))];
        assert_eq!(
            run(&nodes, &edges).1,
            ["'i' has no input 2", "'i' input 3 unused", "'o' output 4 unused", "'o' has no output 5"]
        );
    }

    #[test]
    fn long_rows_of_tunnels_need_no_stack() {
        let count = 200_000;
        let mut nodes = vec![NodeKind::Element(0)];
        nodes.extend((0..count).map(|_| tunnel("t", false)));
        let mut edges: Vec<_> = (0..count).map(|n| edge((n, 0), (n + 1, 0))).collect();
        edges.push(edge((count, 0), (0, 0)));
        assert_eq!(run(&nodes, &edges), (vec![((0, 0), (0, 0))], vec![]));
    }
}
