//! Helpers that read chains from text and run packets through them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use element::Registry;
use element::ports::Processing;
use engine::{ClockKind, Plan, Worker};
use lang::{Graph, flatten};
use testkit::Run;
use testkit::elements::{Input, offer};
use tidegate_synthesizer::compose::synthesize;
use tidegate_synthesizer::compose::walk::Limits;
use tidegate_synthesizer::insert::insert;
use tidegate_synthesizer::model::chain::Chain;
use tidegate_synthesizer::verify::example::Example;
use tidegate_synthesizer::verify::run::{self, Exit, PACKETS};
use tidegate_synthesizer::verify::{Companion, Options, Outcome, verify};

pub(crate) fn registry() -> Registry {
    testkit::registry().with(run::CLASSES)
}

/// A configuration, parsed.
pub(crate) struct Read {
    pub(crate) graph: Graph,
    pub(crate) chain: Chain,
    /// True for each output of each element out of which packets are pushed.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) pushed: Vec<Vec<bool>>,
}

pub(crate) fn read(text: &str) -> Read {
    read_with(text).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

/// Reads a configuration, if it has no errors. Elements that do not affect packets are removed.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn try_read(text: &str) -> Option<Read> {
    read_with(text).ok()
}

fn read_with(text: &str) -> Result<Read, String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("test", text);
    let (graph, problems) = lang::parse(&mut sources, id, &lang::Options::default());
    if !problems.is_empty() {
        return Err(format!("{problems:?}"));
    }
    let plan = Plan::new(graph.clone(), &registry()).map_err(|problems| format!("{problems:?}"))?;
    let configured = plan.configure(None).map_err(|problems| format!("{problems:?}"))?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(graph.port_counts())
        .map(|(class, ports)| run::is_bystander(class, ports))
        .collect();
    let (graph, _) = run::without(&graph, &bystanders);
    let stays = |number: &usize| !bystanders[*number];
    let numbers = || (0..plan.len()).filter(stays);
    let effects: Vec<_> =
        numbers().map(|number| Some((plan.classes[number], &configured.effects[number]))).collect();
    let chain = Chain::new(&graph, &effects);
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed = numbers().map(|number| plan.outputs[number].iter().map(is_push).collect()).collect();
    Ok(Read { graph, chain, pushed })
}

/// Returns the outcomes of packets that enter at the `FromDump` of a configuration: plain, and with
/// programs.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn as_it_is_and_composed(
    text: &str,
    inputs: &[Input],
    handlers: &[&str],
) -> [testkit::Outcome; 2] {
    let chain = read(text);
    let limits = Limits { least: Some(1), ..Limits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty(), "{text}");
    [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)].map(|mut graph| {
        let number = offer(vec![inputs.to_vec()]);
        let source = graph.elements.iter_mut().find(|element| element.class == "FromDump").unwrap();
        (source.class, source.config) = ("TestSource".into(), format!("{number}, 0"));
        let outcome = Run::default().text(&flatten(&graph), handlers).unwrap();
        assert!(outcome.report.balances(), "{text}");
        outcome
    })
}

/// Returns the packets that arrive at each exit, in order, by name of the exit.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn outputs(read: &Read, entry: usize, example: &Example) -> Vec<(String, Vec<String>)> {
    let [exits, _] = run::exits([&read.chain; 2]);
    outputs_at(read, entry, example, &exits)
}

/// Returns the elements that drop packets, with the reasons.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn drops(read: &Read, entry: usize, example: &Example) -> Vec<(String, String)> {
    let [exits, _] = run::exits([&read.chain; 2]);
    let mut worker = run(read, entry, example, &exits);
    let _ = worker.finish();
    let elements = worker.report().elements.into_iter();
    elements
        .flat_map(|e| e.drops.into_keys().map(move |reason| (e.name.clone(), reason.to_string())))
        .collect()
}

fn run(read: &Read, entry: usize, example: &Example, exits: &BTreeMap<usize, Exit>) -> Worker {
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
    exits: &BTreeMap<usize, Exit>,
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
    fn write(&mut self, _stream: element::Stream, _text: std::fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

/// A companion that runs examples through both chains.
pub(crate) struct Runner<'r> {
    pub(crate) reads: [&'r Read; 2],
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

#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn compare(a: &Read, b: &Read) -> Outcome {
    compare_within(1 << 22, a, b)
}

/// Compares two chains with options.
#[allow(dead_code, reason = "not every test uses it")]
pub(crate) fn compare_with(options: Options, a: &Read, b: &Read) -> Outcome {
    let mut runner = Runner { reads: [a, b] };
    verify([&a.chain, &b.chain], options, Some(1 << 22), &mut runner)
}

/// Compares two chains with at most `nodes` diagram nodes.
pub(crate) fn compare_within(nodes: usize, a: &Read, b: &Read) -> Outcome {
    let mut runner = Runner { reads: [a, b] };
    verify([&a.chain, &b.chain], Default::default(), Some(nodes), &mut runner)
}
