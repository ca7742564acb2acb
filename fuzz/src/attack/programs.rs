//! The forms of a configuration that are run: as it is, with the programs that `run --synthesize` would
//! insert, and with every program that can be made; and the proofs of the latter two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use element::Registry;
use element::ports::Processing;
use engine::{ClockKind, Plan, Worker};
use lang::Graph;
use program::chain::{Chain, Port};
use program::machine_code::MachineCode;
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use verify::equivalence::{Companion, Comparison, Conclusion, Options, verify, verify_programs};
use verify::example::Example;
use verify::run::{self, ChainExit, PACKETS};

use super::ends;

/// Returns all classes of the product, with the sources and sinks of the attack and of the verifier's runs.
pub(super) fn registry() -> Registry {
    testkit::registry().with(ends::CLASSES).with(run::CLASSES)
}

/// A configuration with all that the synthesizer and the verifier need to know of it.
pub(super) struct Read {
    /// The configuration with all elements.
    pub(super) whole: Graph,
    /// The configuration without its bystanders, such as scripts and sockets (`Class::is_bystander`).
    pub(super) graph: Graph,
    /// The configuration `graph` with the declarations of its elements.
    pub(super) chain: Chain,
    /// For each element of the chain and each of its outputs: true if the output is push.
    pushed: Vec<Vec<bool>>,
    /// The declared effects of each element in `whole`.
    pub(super) effects: Vec<element::Effects>,
}

/// Parses a configuration and configures its elements.
///
/// # Errors
/// If the text is not a valid configuration: all errors.
pub(super) fn read(text: &str) -> Result<Read, String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("attack", text);
    let (graph, problems) = lang::parse(&mut sources, id, &lang::Options::default());
    if !problems.is_empty() {
        return Err(problems.iter().map(|problem| problem.render(&sources)).collect());
    }
    of(graph).map_err(|problems| problems.iter().map(|problem| problem.render(&sources)).collect())
}

/// Configures the elements of a graph.
fn of(whole: Graph) -> Result<Read, Vec<engine::Problem>> {
    let plan = Plan::new(whole.clone(), &registry())?;
    let configured = plan.configure(None)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(whole.port_counts())
        .map(|(class, ports)| class.is_bystander(ports))
        .collect();
    let (graph, _) = whole.without(&bystanders);
    let numbers = || (0..plan.len()).filter(|number| !bystanders[*number]);
    let effects: Vec<_> =
        numbers().map(|number| Some((plan.classes[number], &configured.effects[number]))).collect();
    let chain = Chain::new(&graph, &effects);
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed = numbers().map(|number| plan.outputs[number].iter().map(is_push).collect()).collect();
    Ok(Read { whole, graph, chain, pushed, effects: configured.effects })
}

/// The result of the proof that a configuration with programs does the same as the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// No proof was tried.
    NotAsked,
    /// The configurations are proven equivalent.
    Same,
    /// The configurations differ; the difference as text.
    Different(String),
    /// Neither equivalence nor a difference was proven; the element at which the proof failed and the reason,
    /// as text.
    Undecided(String),
}

/// A configuration with programs inserted.
pub(super) struct Synthesized {
    pub(super) graph: Graph,
    /// The number of inserted programs.
    pub(super) programs: usize,
    /// For each program, the element of the chain and its output that lead to the program.
    pub(super) starts: Vec<Port>,
    /// The numbers of the chain's elements that programs bypass.
    pub(super) passed: BTreeSet<usize>,
    /// The result of the proof that the configuration does the same as the original.
    pub(super) proof: Proof,
}

/// The limits of one proof.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// The time after which the proof ends as undecided.
    pub(super) time: Duration,
    /// The maximum number of decision diagram nodes; `None` for the largest possible number.
    pub(super) nodes: Option<usize>,
}

fn compose(read: &Read, limits: &PathLimits) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        read.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&read.chain, limits, &is_pushed)
}

fn insert_programs(read: &Read, synthesis: &Synthesis) -> Synthesized {
    let passed: BTreeSet<usize> =
        synthesis.regions.iter().flat_map(|region| region.passed.iter().copied()).collect();
    Synthesized {
        graph: insert(&read.whole, &read.chain, synthesis),
        programs: synthesis.regions.len(),
        starts: synthesis.regions.iter().map(|region| region.from).collect(),
        passed,
        proof: Proof::NotAsked,
    }
}

/// Returns the configuration that `run --synthesize=all` would run: with all programs that are proven, each
/// separately and within its share of the time. If no program is proven, the result has the reason for the
/// last program. In configurations with an odd number of elements, programs measure at run time if they pay
/// off, as with `run --synthesize`.
pub(super) fn would_run(read: &Read, effort: Effort) -> Synthesized {
    let mut all = compose(read, &PathLimits { least: Some(1), ..PathLimits::default() });
    for region in &mut all.regions {
        region.program.always = read.whole.elements.len().is_multiple_of(2);
    }
    let end = Instant::now() + effort.time;
    let mut proven = Synthesis { regions: Vec::new(), ..all.clone() };
    let mut undecided = None;
    for (number, region) in all.regions.iter().enumerate() {
        let left = (all.regions.len() - number) as u32;
        let share = end.saturating_duration_since(Instant::now()) / left;
        let alone = Synthesis { regions: vec![region.clone()], ..all.clone() };
        match prove_alone(read, &insert_programs(read, &alone).graph, Effort { time: share, ..effort }) {
            Proof::Same => proven.regions.push(region.clone()),
            other => undecided = Some(other),
        }
    }
    let proof = undecided.filter(|_| proven.regions.is_empty()).unwrap_or(Proof::Same);
    Synthesized { proof, ..insert_programs(read, &proven) }
}

/// Proves that the only program inserted in `graph` does the same as the elements that it replaces.
fn prove_alone(read: &Read, graph: &Graph, effort: Effort) -> Proof {
    let other = match self::read(&lang::flatten(graph)) {
        Ok(other) => other,
        Err(why) => return Proof::Different(format!("the synthesized configuration cannot be read: {why}")),
    };
    let pair = [read, &other];
    let options = Options { reasons: true, deadline: Some(Instant::now() + effort.time) };
    let chains = pair.map(|read| &read.chain);
    proof_of(verify_programs(chains, options, effort.nodes, &mut Examples { pair }))
}

fn proof_of(outcome: Comparison) -> Proof {
    match outcome.verdict {
        Conclusion::Equivalent => Proof::Same,
        Conclusion::Different(difference) => Proof::Different(format!("{difference:?}")),
        Conclusion::Undecided { element, reason } => {
            Proof::Undecided(format!("{}: {reason}", element.unwrap_or_default()))
        }
    }
}

/// Returns the configuration with every program that can be made, even if it saves little, and without a
/// proof. Machine code is used from the first packet on.
pub(super) fn every_program(read: &Read) -> Synthesized {
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    insert_programs(read, &compose(read, &limits).with_machine_code(MachineCode::Now))
}

/// Proves that the configuration `graph` with programs does the same as the original, including drop
/// reasons.
pub(super) fn prove(read: &Read, graph: &Graph, effort: Effort) -> Proof {
    let other = match self::read(&lang::flatten(graph)) {
        Ok(other) => other,
        Err(why) => return Proof::Different(format!("the synthesized configuration cannot be read: {why}")),
    };
    proof_of(compare([read, &other], true, effort))
}

/// Compares two configurations as the command `verify` does; with `reasons`, drop reasons have to be equal,
/// too.
pub(super) fn compare(pair: [&Read; 2], reasons: bool, effort: Effort) -> Comparison {
    let options = Options { reasons, deadline: Some(Instant::now() + effort.time) };
    verify(pair.map(|read| &read.chain), options, effort.nodes, &mut Examples { pair })
}

/// The verifier's callbacks: runs the packets that it gives as examples of a difference through both
/// configurations.
struct Examples<'e> {
    pair: [&'e Read; 2],
}

impl Companion for Examples<'_> {
    fn differs(&mut self, entry: [usize; 2], example: &Example, reasons: bool) -> Option<bool> {
        let exits = run::exits(self.pair.map(|read| &read.chain));
        let a = through(self.pair[0], entry[0], example, &exits[0])?;
        let b = through(self.pair[1], entry[1], example, &exits[1])?;
        Some(a.0 != b.0 || reasons && a.1 != b.1)
    }
}

/// The packets that left a configuration, by name of the exit, and the reasons of dropped packets.
type Through = (BTreeMap<String, Vec<String>>, BTreeSet<String>);

fn through(
    read: &Read,
    entry: usize,
    example: &Example,
    exits: &BTreeMap<usize, ChainExit>,
) -> Option<Through> {
    let graph = run::prepare(&read.graph, &read.chain, entry, example, exits);
    let mut worker = worker(&graph, 1).ok()?;
    worker.initialize().ok()?;
    worker.run();
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (&node, exit) in exits {
        let text = worker.read(Some(node), PACKETS, "").ok()?;
        if !text.is_empty() {
            out.entry(exit.name.clone()).or_default().extend(text.lines().map(String::from));
        }
    }
    out.values_mut().for_each(|packets| packets.sort());
    // Elements release the packets that they still hold. These packets are not in `out`, but if they are
    // dropped, their reasons count.
    let _ = worker.finish();
    let drops = worker.report().totals.drops.into_keys().map(String::from).collect();
    Some((out, drops))
}

/// Creates a worker for a configuration, under the trace clock, with at most `burst` packets in a burst.
///
/// # Errors
/// If the configuration is invalid, or the worker cannot be created: the errors.
pub(super) fn worker(graph: &Graph, burst: usize) -> Result<Worker, String> {
    let all = |problems: Vec<engine::Problem>| format!("{problems:?}");
    let plan = Arc::new(Plan::new(graph.clone(), &registry()).map_err(all)?);
    let configured = plan.configure(Some(burst)).map_err(all)?;
    let options =
        engine::Options { clock: ClockKind::Trace, burst, memory: 64 << 20, ..engine::Options::default() };
    Worker::new(plan, configured, Box::new(Quiet), options).map_err(|problem| problem.to_string())
}

struct Quiet;

impl engine::Sink for Quiet {
    fn write(&mut self, _stream: element::OutputStream, _text: std::fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}
