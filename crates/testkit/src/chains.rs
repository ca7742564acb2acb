//! Chains for tests of the verifier: configurations read from text, runs of one packet through a chain, and
//! comparisons of two chains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use element::Registry;
use element::ports::Processing;
use engine::{ClockKind, Plan, Worker};
use lang::Graph;
use program::chain::Chain;
use verify::equivalence::{Companion, Comparison, Options, verify};
use verify::example::Example;
use verify::run::{self, ChainExit, PACKETS};

/// Returns a registry of Tidegate's element classes and of the classes for tests, including the classes that
/// replace the entries and exits of a chain while one packet runs through it.
pub fn registry() -> Registry {
    crate::registry().with(run::CLASSES)
}

/// A configuration that was read from text and configured, so that the declarations of its elements are
/// known.
pub struct Read {
    /// The graph, without bystanders: elements that have no ports and give no information or service to other
    /// elements.
    pub graph: Graph,
    /// The graph with the declarations of its elements. Numbers of elements are the same as in `graph`.
    pub chain: Chain,
    /// For each element and each of its outputs: true if the output is push, false if it is pull.
    pub pushed: Vec<Vec<bool>>,
}

/// Reads a configuration. Panics if it has errors.
pub fn read(text: &str) -> Read {
    try_read(text).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

/// Reads a configuration. Bystanders, which have no ports and give no information or service to other
/// elements, are removed.
///
/// # Errors
/// The errors of the configuration, as text.
pub fn try_read(text: &str) -> Result<Read, String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, problems) = lang::parse(&mut sources, id, &lang::Options::default());
    if !problems.is_empty() {
        return Err(problems.iter().map(|problem| problem.render(&sources)).collect());
    }
    let all = |problems: Vec<engine::Problem>| -> String {
        problems.iter().map(|problem| problem.render(&sources)).collect()
    };
    let plan = Plan::new(graph.clone(), &registry()).map_err(all)?;
    let configured = plan.configure(None).map_err(all)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(graph.port_counts())
        .map(|(class, ports)| class.is_bystander(ports))
        .collect();
    let (graph, _) = graph.without(&bystanders);
    let stays = |number: &usize| !bystanders[*number];
    let numbers = || (0..plan.len()).filter(stays);
    let effects: Vec<_> =
        numbers().map(|number| Some((plan.classes[number], &configured.effects[number]))).collect();
    let chain = Chain::new(&graph, &effects);
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed = numbers().map(|number| plan.outputs[number].iter().map(is_push).collect()).collect();
    Ok(Read { graph, chain, pushed })
}

/// Runs `example` through a chain, from the element with the number `entry`. Returns, for each exit, its
/// name and the packets that arrive there, in order. A packet is a line that [`run::Came::read`] parses.
pub fn outputs(read: &Read, entry: usize, example: &Example) -> Vec<(String, Vec<String>)> {
    let [exits, _] = run::exits([&read.chain; 2]);
    outputs_at(read, entry, example, &exits)
}

/// Runs `example` through a chain, from the element with the number `entry`. Returns each element that
/// drops packets, by name, with each of its drop reasons.
pub fn drops(read: &Read, entry: usize, example: &Example) -> Vec<(String, String)> {
    let [exits, _] = run::exits([&read.chain; 2]);
    let mut worker = run(read, entry, example, &exits);
    let _ = worker.finish();
    let elements = worker.report().elements.into_iter();
    elements
        .flat_map(|e| e.drops.into_keys().map(move |reason| (e.name.clone(), reason.to_string())))
        .collect()
}

fn run(read: &Read, entry: usize, example: &Example, exits: &BTreeMap<usize, ChainExit>) -> Worker {
    let graph = run::prepare(&read.graph, &read.chain, entry, example, exits);
    let plan = Arc::new(Plan::new(graph, &registry()).unwrap());
    let configured = plan.configure(Some(1)).unwrap();
    let options = engine::Options { clock: ClockKind::Trace, burst: 1, ..engine::Options::default() };
    let mut worker = Worker::new(plan, configured, Box::new(Quiet), options).unwrap();
    worker.initialize().map_err(|problem| format!("{problem:?}")).unwrap();
    worker.run();
    worker
}

fn outputs_at(
    read: &Read,
    entry: usize,
    example: &Example,
    exits: &BTreeMap<usize, ChainExit>,
) -> Vec<(String, Vec<String>)> {
    let mut worker = run(read, entry, example, exits);
    let mut all = Vec::new();
    for (&node, exit) in exits {
        let text = worker.read(Some(node), PACKETS, "").unwrap();
        all.push((exit.name.clone(), text.lines().map(String::from).collect()));
    }
    let _ = worker.finish();
    all
}

struct Quiet;

impl engine::Sink for Quiet {
    fn write(&mut self, _stream: element::OutputStream, _text: std::fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

/// The callbacks of a comparison: runs example packets through both chains, and does not report progress.
pub struct Runner<'r> {
    /// The two chains, in the order in which the verifier gets them.
    pub reads: [&'r Read; 2],
}

impl Companion for Runner<'_> {
    fn differs(&mut self, entry: [usize; 2], example: &Example, reasons: bool) -> Option<bool> {
        if reasons {
            let [a, b]: [BTreeSet<String>; 2] = std::array::from_fn(|i| {
                drops(self.reads[i], entry[i], example).into_iter().map(|(_, reason)| reason).collect()
            });
            if a != b {
                return Some(true);
            }
        }
        let exits = run::exits(self.reads.map(|read| &read.chain));
        let [a, b]: [Vec<_>; 2] = std::array::from_fn(|i| {
            let mut all = outputs_at(self.reads[i], entry[i], example, &exits[i]);
            all.retain(|(_, packets)| !packets.is_empty());
            all.sort();
            all
        });
        Some(a != b)
    }
}

/// Compares two chains with the verifier, with default options and at most 2^22 diagram nodes.
pub fn compare(a: &Read, b: &Read) -> Comparison {
    compare_within(1 << 22, a, b)
}

/// Compares two chains with these options and at most 2^22 diagram nodes.
pub fn compare_with(options: Options, a: &Read, b: &Read) -> Comparison {
    let mut runner = Runner { reads: [a, b] };
    verify([&a.chain, &b.chain], options, Some(1 << 22), &mut runner)
}

/// Compares two chains with default options and at most `nodes` diagram nodes.
pub fn compare_within(nodes: usize, a: &Read, b: &Read) -> Comparison {
    let mut runner = Runner { reads: [a, b] };
    verify([&a.chain, &b.chain], Default::default(), Some(nodes), &mut runner)
}
