//! Draws a graph in the language of Graphviz (dot(1)).

use std::collections::BTreeMap;

use crate::graph::Graph;

/// The ends of a connection: an element and its output, and an element and its input, by numbers.
pub type ConnectionEnds = ((usize, usize), (usize, usize));

/// The parts of a graph that a picture marks, in red: the way of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureMarks {
    /// The elements, by number, with lines of text that follow the class.
    pub elements: BTreeMap<usize, Vec<String>>,
    /// The connections, with numbers that stand beside them.
    pub connections: BTreeMap<ConnectionEnds, Vec<usize>>,
}

/// Returns a graph in the DOT language, with a title. An element is a box with its name and class, its
/// input ports above and its output ports below. The configuration string is the tooltip.
pub fn dot(graph: &Graph, title: &str, marks: &PictureMarks) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n  node [shape=record, fontname=\"sans-serif\", fontsize=10];\n  edge [arrowsize=0.7];\n",
        quoted(title)
    );
    for (index, (element, (inputs, outputs))) in graph.elements.iter().zip(graph.port_counts()).enumerate() {
        let mark = marks.elements.get(&index);
        let texts = [&element.name, &element.class].into_iter().chain(mark.into_iter().flatten());
        let mut rows = vec![texts.map(|text| label(text)).collect::<Vec<_>>().join("\\n")];
        if inputs > 0 {
            rows.insert(0, ports('i', inputs));
        }
        if outputs > 0 {
            rows.push(ports('o', outputs));
        }
        let tooltip = quoted(&element.config);
        let colour = if mark.is_some() { ", color=red" } else { "" };
        out.push_str(&format!(
            "  n{index} [label=\"{{{}}}\", tooltip=\"{tooltip}\"{colour}];\n",
            rows.join("|")
        ));
    }
    for connection in &graph.connections {
        let ((from, output), (to, input)) = (connection.from, connection.to);
        let numbers = marks.connections.get(&(connection.from, connection.to)).map(|numbers| {
            let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
            format!(" [label=\"{}\", color=red]", numbers.join(", "))
        });
        out.push_str(&format!("  n{from}:o{output} -> n{to}:i{input}{};\n", numbers.unwrap_or_default()));
    }
    out.push_str("}\n");
    out
}

fn ports(side: char, count: usize) -> String {
    let fields: Vec<String> = (0..count).map(|port| format!("<{side}{port}> {port}")).collect();
    format!("{{{}}}", fields.join("|"))
}

/// Escapes a text for a quoted string of the DOT language.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "")
}

/// Escapes a text for the label of a record, where braces, bars and angle brackets separate fields.
fn label(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\\"{}|<> ".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Sources, parse};

    #[test]
    fn ports_and_escapes() {
        let mut sources = Sources::new();
        let id = sources.add("t", "a :: A(\"x\\n\"); b :: B; a [1] -> b");
        let (graph, _) = parse(&mut sources, id, &Options::default());
        assert_eq!(
            dot(&graph, "my \"title\"", &PictureMarks::default()),
            "digraph \"my \\\"title\\\"\" {\n\
             \x20 node [shape=record, fontname=\"sans-serif\", fontsize=10];\n\
             \x20 edge [arrowsize=0.7];\n\
             \x20 n0 [label=\"{a\\nA|{<o0> 0|<o1> 1}}\", tooltip=\"\\\"x\\\\n\\\"\"];\n\
             \x20 n1 [label=\"{{<i0> 0}|b\\nB}\", tooltip=\"\"];\n\
             \x20 n0:o1 -> n1:i0;\n}\n"
        );
        let mut marks = PictureMarks::default();
        marks.elements.insert(1, vec!["2. sent".into()]);
        marks.connections.insert(((0, 1), (1, 0)), vec![1, 3]);
        let marked = dot(&graph, "t", &marks);
        assert!(
            marked.contains("n1 [label=\"{{<i0> 0}|b\\nB\\n2.\\ sent}\", tooltip=\"\", color=red];"),
            "{marked}"
        );
        assert!(marked.contains("n0:o1 -> n1:i0 [label=\"1, 3\", color=red];"), "{marked}");
        assert_eq!(label("a|<b>{c}"), "a\\|\\<b\\>\\{c\\}");
    }
}
