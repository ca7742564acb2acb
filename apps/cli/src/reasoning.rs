//! The step from a configuration to the chain that the synthesizer analyses.

use std::collections::HashSet;

use element::ports::Processing;
use element::{Args, Class, Effects, Element, Invalid, Registry};
use engine::{Plan, Problem};
use lang::Graph;
use program::chain::Chain;
use verify::run;

use crate::load::{Input, Loaded, registry};
use crate::status::Failure;

/// A configuration with the declarations of its elements.
pub(crate) struct Reasoned {
    pub(crate) loaded: Loaded,
    /// The graph without elements that do not affect the fate of packets.
    pub(crate) graph: Graph,
    pub(crate) chain: Chain,
    /// The classes of the configuration that do not exist here, each once.
    pub(crate) unknown: Vec<String>,
    /// True for each output, by element in the chain, that pushes packets.
    pub(crate) pushed: Vec<Vec<bool>>,
}

/// An element of a class that does not exist here.
struct Stranger;

impl Element for Stranger {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("its class is not known"), ..Effects::default() }
    }
}

/// Returns a class that takes any arguments and ports, in place of one that does not exist here. Its
/// elements never run.
fn stranger(name: &str) -> &'static Class {
    fn build(_args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        Ok(Box::new(Stranger))
    }
    // The leak is a few bytes for each name, once per program.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let class = Class { name, ports: "-/-", processing: "a/a", flow: "x/y", build, ..Class::DEFAULT };
    Box::leak(Box::new(class))
}

/// Returns all classes, the classes for running examples, and substitutes for the unknown classes of a
/// graph; and the names of these.
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

/// Reads a configuration for analysis: no capture and no interface is opened.
///
/// # Errors
/// If the configuration cannot be read, or has errors other than unknown classes, which are shown.
pub(crate) fn read(input: &Input) -> Result<Reasoned, Failure> {
    of(input.load(false)?).map_err(Loaded::into_failure)
}

/// Analyses a configuration that has been loaded. Errors and warnings that the configuration does not have
/// yet are added to its problems.
///
/// # Errors
/// The configuration, if it has errors other than unknown classes.
pub(crate) fn of(mut loaded: Loaded) -> Result<Reasoned, Box<Loaded>> {
    let parts = if loaded.has_other_errors() { Err(Vec::new()) } else { chain(&loaded.graph) };
    let add = |loaded: &mut Loaded, problems: Vec<Problem>| {
        let known: HashSet<Problem> = loaded.problems.iter().cloned().collect();
        loaded.problems.extend(problems.into_iter().filter(|problem| !known.contains(problem)));
    };
    match parts {
        Ok(Parts { graph, chain, unknown, warnings, pushed }) => {
            add(&mut loaded, warnings);
            Ok(Reasoned { loaded, graph, chain, unknown, pushed })
        }
        Err(problems) => {
            add(&mut loaded, problems);
            Err(Box::new(loaded))
        }
    }
}

struct Parts {
    graph: Graph,
    chain: Chain,
    unknown: Vec<String>,
    warnings: Vec<Problem>,
    pushed: Vec<Vec<bool>>,
}

/// Builds the chain of a graph.
fn chain(graph: &Graph) -> Result<Parts, Vec<Problem>> {
    let (registry, unknown) = registry_for(graph);
    let plan = Plan::new(graph.clone(), &registry)?;
    let configured = plan.configure(None)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(graph.port_counts())
        .map(|(class, ports)| class.is_bystander(ports))
        .collect();
    let (graph, _) = graph.without(&bystanders);
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
