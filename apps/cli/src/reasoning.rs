//! From a configuration to the chain that the synthesizer reasons about.

use element::ports::Processing;
use element::{Args, Class, Effects, Element, Invalid, Registry};
use engine::Plan;
use lang::Graph;
use synthesizer::model::chain::Chain;
use synthesizer::verify::run;

use crate::load::{Input, Loaded, registry};

/// A configuration and what its elements declare.
pub(crate) struct Reasoned {
    pub(crate) loaded: Loaded,
    /// Its graph without elements that have no part in what becomes of packets.
    pub(crate) graph: Graph,
    pub(crate) chain: Chain,
    /// Classes that it uses and that do not exist here, each once.
    pub(crate) unknown: Vec<String>,
    /// Outputs of elements, by number in the chain, out of which packets are pushed.
    pub(crate) pushed: Vec<Vec<bool>>,
}

/// Why a configuration cannot be reasoned about.
pub(crate) enum Unread {
    /// There is none to read.
    Input(String),
    /// What is wrong with it is among its problems.
    Problems(Box<Loaded>),
}

impl Unread {
    /// Says so.
    pub(crate) fn show(&self) {
        match self {
            Unread::Input(text) => crate::tell(format_args!("{text}")),
            Unread::Problems(loaded) => loaded.show(),
        }
    }
}

/// An element of a class that does not exist here.
struct Stranger;

impl Element for Stranger {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("its class is not known"), ..Effects::default() }
    }
}

/// A class that takes any arguments and ports, for one that does not exist here. Its elements never run.
fn stranger(name: &str) -> &'static Class {
    fn build(_args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        Ok(Box::new(Stranger))
    }
    // A few bytes for each name, once per program.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let class = Class { name, ports: "-/-", processing: "a/a", flow: "x/y", build, ..Class::DEFAULT };
    Box::leak(Box::new(class))
}

/// All classes, those for running examples, and strangers for the rest of a graph.
pub(crate) fn registry_for(graph: &Graph) -> (Registry, Vec<String>) {
    let registry = registry().with(run::CLASSES);
    let mut unknown: Vec<String> = graph
        .elements
        .iter()
        .map(|element| element.class.clone())
        .filter(|class| registry.get(class).is_none())
        .collect();
    unknown.sort();
    unknown.dedup();
    let strangers: Vec<&'static Class> = unknown.iter().map(|name| stranger(name)).collect();
    (registry.with(Box::leak(strangers.into_boxed_slice())), unknown)
}

/// Reads a configuration for reasoning: no capture and no interface is opened.
///
/// # Errors
/// If it cannot be read, or has errors beside classes that do not exist.
pub(crate) fn read(input: &Input) -> Result<Reasoned, Unread> {
    of(input.load(false).map_err(Unread::Input)?)
}

/// The same for a configuration that has been loaded.
///
/// # Errors
/// As for [`read`].
pub(crate) fn of(mut loaded: Loaded) -> Result<Reasoned, Unread> {
    if loaded.has_errors() {
        return Err(Unread::Problems(Box::new(loaded)));
    }
    match chain(&loaded.graph) {
        Ok(Parts { graph, chain, unknown, warnings, pushed }) => {
            loaded.problems.extend(warnings);
            Ok(Reasoned { loaded, graph, chain, unknown, pushed })
        }
        Err(problems) => {
            loaded.problems.extend(problems);
            Err(Unread::Problems(Box::new(loaded)))
        }
    }
}

struct Parts {
    graph: Graph,
    chain: Chain,
    unknown: Vec<String>,
    warnings: Vec<engine::Problem>,
    pushed: Vec<Vec<bool>>,
}

/// The chain of a graph.
fn chain(graph: &Graph) -> Result<Parts, Vec<engine::Problem>> {
    let (registry, unknown) = registry_for(graph);
    let plan = Plan::new(graph.clone(), &registry)?;
    let configured = plan.configure(None)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(graph.port_counts())
        .map(|(class, ports)| run::is_bystander(class, ports))
        .collect();
    let (graph, _) = run::without(graph, &bystanders);
    let stays = |id: &usize| !bystanders[*id];
    let effects: Vec<Option<(&Class, &Effects)>> =
        (0..plan.len()).filter(stays).map(|id| Some((plan.classes[id], &configured.effects[id]))).collect();
    let mut chain = Chain::new(&graph, &effects);
    let beside = (0..plan.len()).filter(|id| bystanders[*id]);
    chain.add_scripts(beside.map(|id| (plan.classes[id], plan.graph.elements[id].config.as_str())));
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed =
        (0..plan.len()).filter(stays).map(|id| plan.outputs[id].iter().map(is_push).collect()).collect();
    Ok(Parts { graph, chain, unknown, warnings: configured.warnings, pushed })
}
