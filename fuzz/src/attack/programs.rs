//! From a text to the configurations that are run: as it is, and synthesized.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use element::Registry;
use element::ports::Processing;
use engine::{ClockKind, Plan, Worker};
use lang::Graph;
use synthesizer::compose::walk::Limits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use synthesizer::model::chain::{Chain, Port};
use synthesizer::program::machine::Making;
use synthesizer::verify::example::Example;
use synthesizer::verify::run::{self, Exit, PACKETS};
use synthesizer::verify::{Companion, Options, Outcome, Verdict, verify, verify_programs};

use super::ends;

/// All classes, those of the ends among them.
pub(super) fn registry() -> Registry {
    testkit::registry().with(ends::CLASSES).with(run::CLASSES)
}

/// A configuration as the synthesizer reads it.
pub(super) struct Read {
    /// All of it.
    pub(super) whole: Graph,
    /// The part that packets pass.
    pub(super) graph: Graph,
    /// The same as a chain.
    pub(super) chain: Chain,
    /// By element of the chain and output: whether packets are pushed out of it.
    pushed: Vec<Vec<bool>>,
    /// By element: what its declaration says about runs.
    pub(super) effects: Vec<element::Effects>,
}

/// Reads a configuration.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(text: &str) -> Result<Read, String> {
    let mut sources = lang::Sources::new();
    let id = sources.add("attack", text);
    let (graph, problems) = lang::parse(&mut sources, id, &lang::Options::default());
    if !problems.is_empty() {
        return Err(problems.iter().map(|problem| problem.render(&sources)).collect());
    }
    of(graph).map_err(|problems| problems.iter().map(|problem| problem.render(&sources)).collect())
}

/// The same from a graph.
fn of(whole: Graph) -> Result<Read, Vec<engine::Problem>> {
    let plan = Plan::new(whole.clone(), &registry())?;
    let configured = plan.configure(None)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(whole.port_counts())
        .map(|(class, ports)| run::is_bystander(class, ports))
        .collect();
    let (graph, _) = run::without(&whole, &bystanders);
    let numbers = || (0..plan.len()).filter(|number| !bystanders[*number]);
    let effects: Vec<_> =
        numbers().map(|number| Some((plan.classes[number], &configured.effects[number]))).collect();
    let chain = Chain::new(&graph, &effects);
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed = numbers().map(|number| plan.outputs[number].iter().map(is_push).collect()).collect();
    Ok(Read { whole, graph, chain, pushed, effects: configured.effects })
}

/// What a proof said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// There was none.
    NotAsked,
    /// The same.
    Same,
    /// A difference, in words.
    Different(String),
    /// Neither, and why.
    Undecided(String),
}

/// A configuration with programs in it.
pub(super) struct Synthesized {
    /// The configuration.
    pub(super) graph: Graph,
    /// How many programs there are.
    pub(super) programs: usize,
    /// The outputs that they begin behind.
    pub(super) starts: Vec<Port>,
    /// Elements that packets are taken past, by their numbers in the chain.
    pub(super) passed: BTreeSet<usize>,
    /// What is known about it.
    pub(super) proof: Proof,
}

/// How long proofs may take, and how much room they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// The time.
    pub(super) time: Duration,
    /// Nodes of decision diagrams; `None` for as many as there may be.
    pub(super) nodes: Option<usize>,
}

fn compose(read: &Read, limits: &Limits) -> Synthesis {
    let is_pushed = |(node, output): (usize, usize)| {
        read.pushed.get(node).and_then(|outputs| outputs.get(output)).copied().unwrap_or_default()
    };
    synthesize(&read.chain, limits, &is_pushed)
}

fn put_in(read: &Read, synthesis: &Synthesis) -> Synthesized {
    let passed: BTreeSet<usize> =
        synthesis.stretches.iter().flat_map(|stretch| stretch.passed.iter().copied()).collect();
    Synthesized {
        graph: insert(&read.whole, &read.chain, synthesis),
        programs: synthesis.stretches.len(),
        starts: synthesis.stretches.iter().map(|stretch| stretch.from).collect(),
        passed,
        proof: Proof::NotAsked,
    }
}

/// The configuration that `run --synthesize=all` would run, with what it knows about it: stretches that are proven, each by itself
/// within its share of the time. Half of them weigh what they cost, as with `run --synthesize`.
pub(super) fn would_run(read: &Read, effort: Effort) -> Synthesized {
    let mut all = compose(read, &Limits { least: Some(1), ..Limits::default() });
    for stretch in &mut all.stretches {
        stretch.program.always = read.whole.elements.len().is_multiple_of(2);
    }
    let end = Instant::now() + effort.time;
    let mut proven = Synthesis { stretches: Vec::new(), ..all.clone() };
    let mut undecided = None;
    for (number, stretch) in all.stretches.iter().enumerate() {
        let left = (all.stretches.len() - number) as u32;
        let share = end.saturating_duration_since(Instant::now()) / left;
        let alone = Synthesis { stretches: vec![stretch.clone()], ..all.clone() };
        match prove_alone(read, &put_in(read, &alone).graph, Effort { time: share, ..effort }) {
            Proof::Same => proven.stretches.push(stretch.clone()),
            other => undecided = Some(other),
        }
    }
    let proof = undecided.filter(|_| proven.stretches.is_empty()).unwrap_or(Proof::Same);
    Synthesized { proof, ..put_in(read, &proven) }
}

/// Proves that the one program in a configuration does what its elements do.
fn prove_alone(read: &Read, graph: &Graph, effort: Effort) -> Proof {
    let other = match self::read(&lang::flatten(graph)) {
        Ok(other) => other,
        Err(why) => return Proof::Different(format!("what was made of it cannot be read: {why}")),
    };
    let pair = [read, &other];
    let options = Options { reasons: true, deadline: Some(Instant::now() + effort.time) };
    let chains = pair.map(|read| &read.chain);
    proof_of(verify_programs(chains, options, effort.nodes, &mut Examples { pair }))
}

fn proof_of(outcome: Outcome) -> Proof {
    match outcome.verdict {
        Verdict::Equivalent => Proof::Same,
        Verdict::Different(difference) => Proof::Different(format!("{difference:?}")),
        Verdict::Undecided { element, reason } => {
            Proof::Undecided(format!("{}: {reason}", element.unwrap_or_default()))
        }
    }
}

/// The configuration with all programs that can be made, also where they save little, whether they are proven or not.
pub(super) fn every_program(read: &Read) -> Synthesized {
    let limits = Limits { least: Some(1), ..Limits::default() };
    put_in(read, &compose(read, &limits).with_machine_code(Making::Now))
}

/// Proves that a configuration does the same with programs in it.
pub(super) fn prove(read: &Read, graph: &Graph, effort: Effort) -> Proof {
    let other = match self::read(&lang::flatten(graph)) {
        Ok(other) => other,
        Err(why) => return Proof::Different(format!("what was made of it cannot be read: {why}")),
    };
    proof_of(compare([read, &other], true, effort))
}

/// Compares two configurations, as `verify` does.
pub(super) fn compare(pair: [&Read; 2], reasons: bool, effort: Effort) -> Outcome {
    let options = Options { reasons, deadline: Some(Instant::now() + effort.time) };
    verify(pair.map(|read| &read.chain), options, effort.nodes, &mut Examples { pair })
}

/// Runs examples of the verifier.
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

/// What comes out by name of the exit, and the reasons for which packets are dropped.
type Through = (BTreeMap<String, Vec<String>>, BTreeSet<String>);

fn through(read: &Read, entry: usize, example: &Example, exits: &BTreeMap<usize, Exit>) -> Option<Through> {
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
    // What is held ends here.
    let _ = worker.finish();
    let drops = worker.report().totals.drops.into_keys().map(String::from).collect();
    Some((out, drops))
}

/// A worker for a configuration, under the trace clock, with so many packets in a burst.
///
/// # Errors
/// What is wrong with it.
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
    fn write(&mut self, _stream: element::Stream, _text: std::fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}
