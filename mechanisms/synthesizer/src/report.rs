//! The report of a synthesis, as data and as text: the questions and writes of each region before and
//! after, and the work that is left to elements.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::compose::{Region, Synthesis};
use crate::longest_path::{LongestPath, fate, name_of_question, said};
use program::chain::{Chain, Port};
use program::{self, Next, Program, TrafficClass, text};

/// The report of a synthesis; also the JSON output.
#[derive(Clone, Debug, Serialize)]
pub struct SynthesisReport {
    /// The regions that programs replace.
    pub regions: Vec<RegionReport>,
    /// The elements that process all packets of some region themselves, except packets of leased flows and
    /// packets that the program drops; with the reasons.
    pub alone: Vec<LeftElement>,
    /// The regions that are not replaced, because a program would cost more than their elements.
    pub unprofitable: Vec<Unprofitable>,
    /// The elements at which a region ends, because their forks would lead to more classes than the limit.
    pub multiplied: Vec<ForkedTooOften>,
}

/// A region that a program replaces.
#[derive(Clone, Debug, Serialize)]
pub struct RegionReport {
    /// The name of the element at whose output the region begins.
    pub from: String,
    /// The number of the output at which the region begins.
    pub output: usize,
    /// The names of the elements that packets bypass.
    pub elements: Vec<String>,
    /// The number of different questions that the program asks.
    pub questions: usize,
    /// The number of rules in all lists of the program.
    pub rules: usize,
    /// The classes of the program.
    pub classes: Vec<ClassReport>,
    /// The elements of the region that process some packets themselves, with the reasons.
    pub handed: Vec<LeftElement>,
    /// For each field that elements on the longest path or the program use, how often they read and write it.
    pub fields: Vec<FieldReport>,
}

/// A class of the program.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// The operation of the class, in the text form of programs.
    pub operation: String,
    /// The names of the elements that packets of the class bypass, in order.
    pub passes: Vec<String>,
    /// The name of the element that the packets go to, or the reason for which they are dropped.
    pub to: String,
}

/// An element that processes packets itself, and the reason.
#[derive(Clone, Debug, Serialize)]
pub struct LeftElement {
    /// The name of the element.
    pub element: String,
    /// The reason why packets cannot bypass the element.
    pub why: String,
}

/// A region that is not replaced, because its elements cost less than a program.
#[derive(Clone, Debug, Serialize)]
pub struct Unprofitable {
    /// The name of the element at whose output the region begins.
    pub from: String,
    /// The number of the output at which the region begins.
    pub output: usize,
    /// The number of elements on the longest path through the region.
    pub elements: usize,
}

/// An element at which a region ends, because it forks paths too often.
#[derive(Clone, Debug, Serialize)]
pub struct ForkedTooOften {
    /// The name of the element.
    pub element: String,
    /// The number of additional paths that the element caused until the limit of classes was reached.
    pub parts: usize,
}

/// A field: how often elements on the longest path and the program read and write it.
#[derive(Clone, Debug, Serialize)]
pub struct FieldReport {
    /// The name of the field.
    pub field: String,
    /// Two numbers: of the elements on the longest path that read the field; and 1 if any question of the
    /// program reads the field, else 0.
    pub reads: [usize; 2],
    /// Two numbers: of the writes to the field by elements on the longest path; and 1 if the program writes
    /// the field for the class of that path, else 0.
    pub writes: [usize; 2],
}

impl SynthesisReport {
    /// Makes the report of a synthesis of `chain`.
    pub fn new(chain: &Chain, synthesis: &Synthesis) -> SynthesisReport {
        let name = |node: usize| chain.nodes[node].name.clone();
        SynthesisReport {
            regions: synthesis.regions.iter().map(|region| of_region(chain, region)).collect(),
            alone: synthesis
                .alone
                .iter()
                .map(|(node, why)| LeftElement { element: name(*node), why: why.clone() })
                .collect(),
            unprofitable: synthesis
                .unprofitable
                .iter()
                .map(|&((node, output), elements)| Unprofitable { from: name(node), output, elements })
                .collect(),
            multiplied: synthesis
                .multiplied
                .iter()
                .map(|&(node, parts)| ForkedTooOften { element: name(node), parts })
                .collect(),
        }
    }

    /// Returns the report as text for the terminal.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for region in &self.regions {
            let _ = write!(text, "{}", region.describe());
        }
        if self.regions.is_empty() && self.unprofitable.is_empty() {
            text.push_str("Nothing can be composed.\n");
        }
        if !self.unprofitable.is_empty() {
            text.push_str(
                "Not replaced, because a program would cost more (--all replaces those with four elements or more):\n",
            );
            for Unprofitable { from, output, elements } in &self.unprofitable {
                let _ = writeln!(text, "  after {from} [{output}]: up to {elements} elements in sequence");
            }
        }
        if !self.alone.is_empty() {
            text.push_str("\nNot composed:\n");
            for LeftElement { element, why } in &self.alone {
                let _ = writeln!(text, "  {element}: {why}");
            }
        }
        for ForkedTooOften { element, parts } in &self.multiplied {
            let _ = writeln!(
                text,
                "\n'{element}' parts packets {parts} times, which makes too many classes: a region ends there."
            );
        }
        text
    }
}

/// The width in columns of the first column of the table, which has the names of fields.
const FIRST_COLUMN: usize = 24;

impl RegionReport {
    fn describe(&self) -> String {
        let mut text = String::new();
        let longest = self.classes.iter().map(|class| class.passes.len()).max().unwrap_or_default();
        let _ = writeln!(
            text,
            "After {} [{}]: {} elements, up to {longest} of them in sequence, become one classification and one \
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
            for LeftElement { element, why } in &self.handed {
                let _ = writeln!(text, "    to {element}: {why}");
            }
        }
        text.push('\n');
        text
    }
}

fn of_region(chain: &Chain, region: &Region) -> RegionReport {
    let Region { from, program, outputs, handed, passed, .. } = region;
    let name = |node: usize| chain.nodes[node].name.clone();
    let class = |class: &TrafficClass| ClassReport {
        operation: text::of_class(&TrafficClass { path: Vec::new(), ..class.clone() }),
        passes: class.path.iter().map(|passed| program.elements[passed.element as usize].clone()).collect(),
        to: fate(class, outputs, chain).unwrap_or_else(|reason| reason).to_string(),
    };
    let left = |(&(node, _), (why, always)): (&Port, &(String, bool))| {
        (!always).then(|| LeftElement { element: name(node), why: why.clone() })
    };
    RegionReport {
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

/// Returns, for each field that elements on the longest path or the program use, how often they read and
/// write it.
fn fields(chain: &Chain, program: &Program) -> Vec<FieldReport> {
    let Some(path) = LongestPath::new(chain, program) else { return Vec::new() };
    let mut counts: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    for step in &path.steps {
        step.reads.iter().for_each(|name| counts.entry(name.clone()).or_default()[0] += 1);
        step.writes.iter().for_each(|name| counts.entry(name.clone()).or_default()[2] += 1);
    }
    for question in program.questions().into_keys() {
        if let Some(name) = name_of_question(question, path.network) {
            counts.entry(name).or_default()[1] = 1;
        }
    }
    path.writes().into_iter().for_each(|name| counts.entry(name).or_default()[3] = 1);
    let report = |(field, [reads, reads_now, writes, writes_now]): (String, [usize; 4])| FieldReport {
        field,
        reads: [reads, reads_now],
        writes: [writes, writes_now],
    };
    counts.into_iter().map(report).collect()
}

/// Returns the programs of all regions as a drawing for Graphviz (dot(1)): questions as ellipses, and
/// classes with their operations as boxes.
pub fn dot(chain: &Chain, synthesis: &Synthesis, title: &str) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n  edge \
         [fontname=\"sans-serif\", fontsize=9, arrowsize=0.7];\n",
        quoted(title)
    );
    for (number, region) in synthesis.regions.iter().enumerate() {
        let program = &region.program;
        let from = quoted(&chain.nodes[region.from.0].name);
        let _ =
            writeln!(out, "  subgraph cluster{number} {{\n    label=\"after {from} [{}]\";", region.from.1);
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
            let operation = text::of_class(&TrafficClass { path: Vec::new(), ..class.clone() });
            let to = fate(class, &region.outputs, chain).unwrap_or_else(|reason| reason);
            let label = quoted(&format!("{}\n{to}", operation.replace("; ", "\n")));
            let _ = writeln!(out, "    s{number}c{place} [label=\"{label}\"];");
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

/// The maximum number of ranges of answers in the label of an arrow.
const MOST_RANGES: usize = 4;

/// Returns the successors of a question, each with the first [`MOST_RANGES`] ranges of its answers as text.
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

/// Escapes a text for a string in double quotes; each line break becomes `\l`, which Graphviz left-aligns.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l").replace('\r', "")
}
