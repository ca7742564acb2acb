//! Converts a configuration into the chain of declarations that the synthesizer and the verifier analyse.

use std::collections::HashSet;
use std::sync::Arc;

use element::ports::Processing;
use element::{Args, Class, Effects, Element, Invalid, Registry};
use engine::{Declarations, Plan, Problem};
use lang::Graph;
use program::chain::Chain;
use verify::run;

use crate::load::{Input, Loaded, registry};
use crate::status::Failure;

/// A configuration together with the chain of its elements' declarations.
pub(crate) struct Reasoned {
    pub(crate) loaded: Loaded,
    /// The graph without elements that do not affect the fate of packets. Its elements are the nodes of
    /// `chain`, in the same order.
    pub(crate) graph: Graph,
    pub(crate) chain: Chain,
    /// The classes of the configuration that this program does not have, each once.
    pub(crate) unknown: Vec<String>,
    /// By node of the chain and output, true if the output pushes packets.
    pub(crate) pushed: Vec<Vec<bool>>,
}

/// An element whose class this program does not have. It is opaque.
struct Stranger;

impl Element for Stranger {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("its class is not known"), ..Effects::default() }
    }
}

/// Returns a class with this name that accepts any arguments and ports, in place of a class that does not
/// exist here. Its elements never run.
fn stranger(name: &str) -> &'static Class {
    fn build(_args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        Ok(Box::new(Stranger))
    }
    // The memory of the name is leaked on purpose: a few bytes per name, in a program that ends soon.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let class = Class { name, ports: "-/-", processing: "a/a", flow: "x/y", build, ..Class::DEFAULT };
    Box::leak(Box::new(class))
}

/// Returns a registry of all classes, with the classes for running examples, and with substitutes for the
/// classes of a graph that do not exist. Also returns the names of the substituted classes.
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

/// Reads a configuration for analysis. No capture and no interface is opened.
///
/// # Errors
/// If the configuration cannot be read, or has errors other than unknown classes. Errors in the configuration
/// have been shown to the user before.
pub(crate) fn read(input: &Input) -> Result<Reasoned, Failure> {
    of(input.load(false)?).map_err(Loaded::into_failure)
}

/// Converts a loaded configuration into its chain. Errors and warnings that the conversion finds are added to
/// the problems of the configuration, without those that it already has.
///
/// # Errors
/// If the configuration has errors other than unknown classes: the configuration, with its problems.
pub(crate) fn of(mut loaded: Loaded) -> Result<Reasoned, Box<Loaded>> {
    let parts =
        if loaded.has_other_errors() { Err(Vec::new()) } else { chain(&loaded.graph, &loaded.declared) };
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

/// Builds the chain of a graph, without bystanders ([`Class::is_bystander`](element::Class::is_bystander)),
/// such as scripts. The chain records those bystanders that may write handlers. `declared` are the current
/// declarations of elements, by name. An element without an entry is configured, and its declaration follows
/// from its arguments. The error is the list of problems.
fn chain(graph: &Graph, declared: &Declarations) -> Result<Parts, Vec<Problem>> {
    let (registry, unknown) = registry_for(graph);
    let plan = Plan::new(graph.clone(), &registry)?;
    let bystanders: Vec<bool> = plan
        .classes
        .iter()
        .zip(graph.port_counts())
        .map(|(class, ports)| class.is_bystander(ports))
        .collect();
    let (graph, _) = graph.without(&bystanders);
    let stays = |id: &usize| !bystanders[*id];
    // In the chain, the stages of a synthesized program stand in place of the element that runs the program,
    // so that the declaration of this element is not needed.
    let program = Effects { opaque: Some("it runs a program"), ..Effects::default() };
    let known = |id: usize| {
        let is_program = plan.classes[id].name == program::CLASS_NAME && !declared.is_empty();
        let declared = declared.get(&plan.graph.elements[id].name).map(Arc::as_ref);
        declared.or(is_program.then_some(&program))
    };
    // If the declarations of all elements are known, no element is configured, so that elements do not read
    // their files again.
    let needs_elements = (0..plan.len()).filter(stays).any(|id| known(id).is_none());
    let configured = if needs_elements { Some(plan.configure(None)?) } else { None };
    let declared = configured.as_ref().map_or(&[][..], |configured| &configured.effects);
    let effects = |id: usize| Some((plan.classes[id], known(id).or(declared.get(id))?));
    let effects: Vec<Option<(&Class, &Effects)>> = (0..plan.len()).filter(stays).map(effects).collect();
    let mut chain = Chain::new(&graph, &effects);
    if !declared.is_empty() {
        chain.tell_apart();
    }
    let beside = (0..plan.len()).filter(|id| bystanders[*id]);
    chain.add_scripts(beside.map(|id| (plan.classes[id], plan.graph.elements[id].config.as_str())));
    let warnings = configured.map(|configured| configured.warnings).unwrap_or_default();
    let is_push = |output: &Processing| *output == Processing::Push;
    let pushed =
        (0..plan.len()).filter(stays).map(|id| plan.outputs[id].iter().map(is_push).collect()).collect();
    Ok(Parts { graph, chain, unknown, warnings, pushed })
}
