//! What a synthesis has gained: questions and writes before and after, and what is left to elements.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::compose::{Stretch, Synthesis};
use crate::model::chain::{Chain, Port};
use crate::program::{self, Class, Next, Program, text};
use crate::way::{Way, fate, name_of_question, said};

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// By stretch.
    pub stretches: Vec<StretchReport>,
    /// Elements that packets are handed over to whatever they are, and why.
    pub alone: Vec<Left>,
    /// Stretches that stay as they are because a program would cost more than the elements.
    pub dear: Vec<Dear>,
    /// Elements that were left alone because with them there were too many classes.
    pub multiplied: Vec<Multiplied>,
}

/// One stretch.
#[derive(Clone, Debug, Serialize)]
pub struct StretchReport {
    /// The element that it begins behind.
    pub from: String,
    /// Its output.
    pub output: usize,
    /// Elements that packets are taken past.
    pub elements: Vec<String>,
    /// How many different questions there are.
    pub questions: usize,
    /// How many rules stand in lists.
    pub rules: usize,
    /// The classes.
    pub classes: Vec<ClassReport>,
    /// Where packets are handed over to elements in the middle of the stretch, and why.
    pub handed: Vec<Left>,
    /// Along the longest way: how often each field is read and written by elements, and by the program.
    pub fields: Vec<FieldReport>,
}

/// One class.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// What is done.
    pub operation: String,
    /// The elements that packets are taken past.
    pub passes: Vec<String>,
    /// Where they go: an element, or the reason for which they end.
    pub to: String,
}

/// An element that does its work itself.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// Its name.
    pub element: String,
    /// Why.
    pub why: String,
}

/// A stretch of elements that cost less than a program.
#[derive(Clone, Debug, Serialize)]
pub struct Dear {
    /// The element that it begins behind.
    pub from: String,
    /// Its output.
    pub output: usize,
    /// Elements that a packet passes at most.
    pub elements: usize,
}

/// An element that parts packets often.
#[derive(Clone, Debug, Serialize)]
pub struct Multiplied {
    /// Its name.
    pub element: String,
    /// How often.
    pub parts: usize,
}

/// A field along the longest way.
#[derive(Clone, Debug, Serialize)]
pub struct FieldReport {
    /// Its name.
    pub field: String,
    /// How many elements read it, and how often the program does.
    pub reads: [usize; 2],
    /// How many elements write it, and how often the program does.
    pub writes: [usize; 2],
}

impl Report {
    /// On what came of a chain.
    pub fn new(chain: &Chain, synthesis: &Synthesis) -> Report {
        let name = |node: usize| chain.nodes[node].name.clone();
        Report {
            stretches: synthesis.stretches.iter().map(|stretch| of_stretch(chain, stretch)).collect(),
            alone: synthesis
                .alone
                .iter()
                .map(|(node, why)| Left { element: name(*node), why: why.clone() })
                .collect(),
            dear: synthesis
                .dear
                .iter()
                .map(|&((node, output), elements)| Dear { from: name(node), output, elements })
                .collect(),
            multiplied: synthesis
                .multiplied
                .iter()
                .map(|&(node, parts)| Multiplied { element: name(node), parts })
                .collect(),
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        // A string takes all that is written to it.
        for stretch in &self.stretches {
            let _ = write!(text, "{}", stretch.describe());
        }
        if self.stretches.is_empty() && self.dear.is_empty() {
            text.push_str("Nothing can be composed.\n");
        }
        if !self.dear.is_empty() {
            text.push_str(
                "Left as they are, because a program would cost more (--all makes programs of those with four elements and more):\n",
            );
            for Dear { from, output, elements } in &self.dear {
                let _ = writeln!(
                    text,
                    "  behind {from} [{output}]: up to {elements} elements one behind the other"
                );
            }
        }
        if !self.alone.is_empty() {
            text.push_str("\nLeft to themselves:\n");
            for Left { element, why } in &self.alone {
                let _ = writeln!(text, "  {element}: {why}");
            }
        }
        for Multiplied { element, parts } in &self.multiplied {
            let _ = writeln!(
                text,
                "\n'{element}' parts packets {parts} times, which makes too many classes: a stretch ends there."
            );
        }
        text
    }
}

/// Field names and numbers, right-aligned.
const FIRST_COLUMN: usize = 24;

impl StretchReport {
    fn describe(&self) -> String {
        let mut text = String::new();
        let longest = self.classes.iter().map(|class| class.passes.len()).max().unwrap_or_default();
        let _ = writeln!(
            text,
            "Behind {} [{}]: {} elements, up to {longest} of them one behind the other, become one classification and one \
             operation",
            self.from,
            self.output,
            self.elements.len()
        );
        let rules = if self.rules > 0 { format!(", {} rules", self.rules) } else { String::new() };
        let _ = writeln!(text, "  {} questions{rules}, {} classes", self.questions, self.classes.len());
        if !self.fields.is_empty() {
            let _ = writeln!(
                text,
                "\n  {:FIRST_COLUMN$} {:>7} {:>7} {:>8} {:>7}",
                "on the longest way", "read", "now", "written", "now"
            );
            for field in &self.fields {
                let [reads, reads_now] = field.reads;
                let [writes, writes_now] = field.writes;
                let _ = writeln!(
                    text,
                    "  {:FIRST_COLUMN$} {reads:>7} {reads_now:>7} {writes:>8} {writes_now:>7}",
                    field.field
                );
            }
        }
        if !self.handed.is_empty() {
            text.push_str("\n  handed over:\n");
            for Left { element, why } in &self.handed {
                let _ = writeln!(text, "    to {element}: {why}");
            }
        }
        text.push('\n');
        text
    }
}

fn of_stretch(chain: &Chain, stretch: &Stretch) -> StretchReport {
    let Stretch { from, program, outputs, handed, passed, .. } = stretch;
    let name = |node: usize| chain.nodes[node].name.clone();
    let class = |class: &Class| ClassReport {
        operation: text::of_class(&Class { path: Vec::new(), ..class.clone() }),
        passes: class.path.iter().map(|passed| program.elements[passed.element as usize].clone()).collect(),
        to: fate(class, outputs, chain).unwrap_or_else(|reason| reason).to_string(),
    };
    let left = |(&(node, _), (why, always)): (&Port, &(String, bool))| {
        (!always).then(|| Left { element: name(node), why: why.clone() })
    };
    StretchReport {
        from: name(from.0),
        output: from.1,
        elements: passed.iter().map(|&node| name(node)).collect(),
        questions: program.questions().len(),
        rules: program.lists.iter().map(|list| list.rules.len()).sum(),
        classes: program.classes.iter().map(class).collect(),
        handed: handed.iter().filter_map(left).collect(),
        fields: fields(chain, program),
    }
}

/// Reads and writes along the longest way.
fn fields(chain: &Chain, program: &Program) -> Vec<FieldReport> {
    let Some(way) = Way::new(chain, program) else { return Vec::new() };
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for step in &way.steps {
        step.reads.iter().for_each(|name| counts.entry(name.clone()).or_default()[0] += 1);
        step.writes.iter().for_each(|name| counts.entry(name.clone()).or_default()[2] += 1);
    }
    for question in program.questions().into_keys() {
        if let Some(name) = name_of_question(question, way.network) {
            counts.entry(name).or_default()[1] = 1;
        }
    }
    way.writes().into_iter().for_each(|name| counts.entry(name).or_default()[3] = 1);
    let report = |(field, [reads, reads_now, writes, writes_now]): (String, [usize; 4])| FieldReport {
        field,
        reads: [reads, reads_now],
        writes: [writes, writes_now],
    };
    counts.into_iter().map(report).collect()
}

/// The programs of all stretches as a drawing for Graphviz (dot(1)): questions, and classes with what they do.
pub fn dot(chain: &Chain, synthesis: &Synthesis, title: &str) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n  edge \
         [fontname=\"sans-serif\", fontsize=9, arrowsize=0.7];\n",
        quoted(title)
    );
    for (number, stretch) in synthesis.stretches.iter().enumerate() {
        let program = &stretch.program;
        let from = quoted(&chain.nodes[stretch.from.0].name);
        let _ =
            writeln!(out, "  subgraph cluster{number} {{\n    label=\"behind {from} [{}]\";", stretch.from.1);
        let id = |next: Next| match next {
            Next::Node(node) => format!("s{number}n{node}"),
            Next::Class(class) => format!("s{number}c{class}"),
        };
        let _ = writeln!(out, "    s{number} [shape=point];\n    s{number} -> {};", id(program.start));
        for (place, node) in program.nodes.iter().enumerate() {
            let network = program.classes.iter().find_map(|class| class.headers[1].flatten());
            let network = program.layout[1].or(network).unwrap_or_default();
            let question = said(&node.question, chain, program, network);
            let _ = writeln!(out, "    s{number}n{place} [shape=ellipse, label=\"{}\"];", quoted(&question));
            for (next, ranges) in ranges(node) {
                let _ = writeln!(out, "    s{number}n{place} -> {} [label=\"{ranges}\"];", id(next));
            }
        }
        for (place, class) in program.classes.iter().enumerate() {
            let operation = text::of_class(&Class { path: Vec::new(), ..class.clone() });
            let to = fate(class, &stretch.outputs, chain).unwrap_or_else(|reason| reason);
            let label = quoted(&format!("{}\n{to}", operation.replace("; ", "\n")));
            let _ = writeln!(out, "    s{number}c{place} [label=\"{label}\"];");
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

/// Ranges written on one arrow.
const MOST_RANGES: usize = 4;

/// Where a question leads, with the answers, a few of them.
fn ranges(node: &program::Node) -> Vec<(Next, String)> {
    let mut nexts: Vec<(Next, Vec<String>)> = Vec::new();
    let mut low = 0;
    for &(last, next) in &node.parts {
        let range = if low == last { low.to_string() } else { format!("{low}-{last}") };
        match nexts.iter_mut().find(|(other, _)| *other == next) {
            Some((_, ranges)) => ranges.push(range),
            None => nexts.push((next, vec![range])),
        }
        low = last.saturating_add(1);
    }
    let text = |mut ranges: Vec<String>| {
        let more = ranges.len() > MOST_RANGES;
        ranges.truncate(MOST_RANGES);
        let dots = if more { ", ..." } else { "" };
        format!("{}{dots}", ranges.join(", "))
    };
    nexts.into_iter().map(|(next, ranges)| (next, text(ranges))).collect()
}

/// Text inside a quoted string.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l").replace('\r', "")
}
