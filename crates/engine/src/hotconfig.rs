//! Replaces a running configuration by another one (Click's hot-swapping).
//!
//! The new graph is built and initialised while the old graph still runs. The caller that wrote the handler
//! `hotconfig` gets the errors of the new graph. Before the next round of the driver, the new graph
//! replaces the old one. Elements hand their state on to elements of the same name and class. Other packets
//! that the old elements hold are drained, and the old elements are closed. Packets in which work is left
//! for a device are not handed on if elements of the new graph do not take such packets.

use std::collections::BTreeSet;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use element::args::unquote;
use element::context::{Emitted, PerGraph};
use element::{Core, ElementId, Origin, Rights, Stream};

use crate::configure::Configured;
use crate::graph_facts;
use crate::host::Inner;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::streams::Sink;
use crate::worker::{Worker, captures};

/// A function that makes a graph from a value of the handler `hotconfig`. The error text lists the errors
/// of the configuration, or says why a caller of this origin may not install it.
pub type Rebuild = Box<dyn FnMut(&str, Origin) -> Result<Rebuilt, String> + Send>;

/// A message about a problem of a graph.
pub type Tell = Box<dyn Fn(&Problem) -> String>;

/// A graph that has been made.
pub struct Rebuilt {
    /// The connected graph.
    pub plan: Arc<Plan>,
    /// The elements of the graph.
    pub configured: Configured,
    /// The text of the configuration.
    pub text: String,
    /// Returns the message about an element that cannot be initialised.
    pub tell: Tell,
}

/// A graph that replaces the running graph before the next round.
pub(crate) struct Next {
    inner: Inner,
    graph: PerGraph,
}

/// The state of an old element for a new one, and the number of packets in it.
struct SavedState {
    heir: ElementId,
    state: Box<dyn Any + Send>,
    packets: u64,
}

/// Returns the pairs of a new and an old element of the same name and class.
fn heirs(old: &Plan, new: &Plan) -> Vec<(ElementId, ElementId)> {
    let named = new.graph.elements.iter().enumerate();
    let pairs = named.filter_map(|(heir, element)| Some((heir, old.graph.find(&element.name)?)));
    pairs.filter(|&(heir, id)| std::ptr::eq(old.classes[id], new.classes[heir])).collect()
}

/// A sink that drops its text, for a graph that does not run yet.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _stream: Stream, _text: fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

impl Inner {
    /// Builds and initialises a graph that is to replace this graph.
    ///
    /// # Errors
    /// If the new graph cannot be built or initialised: its errors. This graph then stays.
    pub(crate) fn prepare(&mut self, core: &mut Core, value: &str) -> Result<(), String> {
        let Some(mut rebuild) = self.rebuild.take() else {
            return Err("another configuration is being built already".into());
        };
        let built = rebuild(value, core.rights.origin);
        self.rebuild = Some(rebuild);
        let Rebuilt { plan, configured, text, tell } = built?;
        // Calls during initialisation belong to the new configuration, whatever caller has asked for it.
        core.rights = Rights::default();
        let sink = std::mem::replace(&mut self.sink, Box::new(Nowhere));
        let (mut inner, graph) = Inner::new(plan, configured, sink, text);
        let arguments =
            |id| lang::args::split(self.config(id)).iter().map(|arg| unquote(&arg.text)).collect();
        let predecessors = heirs(&self.plan, &inner.plan).into_iter().map(|(heir, id)| (heir, arguments(id)));
        inner.predecessors = predecessors.collect();
        let mut next = Box::new(Next { inner, graph });
        core.exchange(&mut next.graph);
        let result = next.inner.initialize(core);
        if result.is_err() {
            next.inner.abandon(core);
        }
        core.exchange(&mut next.graph);
        std::mem::swap(&mut self.sink, &mut next.inner.sink);
        result.map_err(|problem| tell(&problem))?;
        // A graph that was prepared before and did not run yet is closed.
        if let Some(mut never) = self.next.replace(next) {
            core.exchange(&mut never.graph);
            never.inner.abandon(core);
            core.exchange(&mut never.graph);
        }
        Ok(())
    }

    fn initialize(&mut self, core: &mut Core) -> Result<(), Box<Problem>> {
        let mut order: Vec<ElementId> = (0..self.plan.len()).collect();
        order.sort_by_key(|&id| self.plan.classes[id].phase);
        for id in order {
            if let Some(Err(text)) = self.call(core, id, |element, cx| element.initialize(cx)) {
                return Err(Box::new(self.plan.initialization_failed(id, text)));
            }
        }
        Ok(())
    }

    /// Closes a graph that never ran.
    fn abandon(&mut self, core: &mut Core) {
        for id in 0..self.plan.len() {
            self.call(core, id, |element, cx| element.drain(cx));
            let _ = self.call(core, id, |element, cx| element.close(cx));
        }
        for emitted in std::mem::take(&mut core.emitted) {
            let (element, batch) = match emitted {
                Emitted::Packets { element, batch, .. } => {
                    core.counters[element as usize].emitted -= batch.len() as u64;
                    (element, batch)
                }
                Emitted::Over { element, batch, .. } => {
                    core.counters[element as usize].arrived += batch.len() as u64;
                    (element, batch)
                }
                Emitted::Call { .. } | Emitted::Back { .. } => continue,
            };
            core.drop_batch(element as usize, batch, element::DropReason::Stop);
        }
    }
}

impl Worker {
    /// Replaces this graph by the graph that was prepared.
    #[cold]
    pub(crate) fn switch(&mut self) {
        let Some(mut next) = self.inner.next.take() else { return };
        self.drain_unacceptable(&next.inner);
        let legacies = self.take_states(&next.inner.plan);
        for error in self.finish().err().unwrap_or_default() {
            self.inner.sink.write(Stream::Messages, format_args!("{error}\n"));
        }
        std::mem::swap(&mut self.inner, &mut next.inner);
        self.core.exchange(&mut next.graph);
        let (old, new) = (&mut next.inner, &mut self.inner);
        std::mem::swap(&mut old.sink, &mut new.sink);
        std::mem::swap(&mut old.rebuild, &mut new.rebuild);
        // Packets of the old graph may have annotations, and the new graph may need them.
        let used = self.core.pool.uses_annotations() || self.core.facts.annotations_used;
        self.core.pool.use_annotations(used);
        self.captures = captures(&self.inner.plan);
        self.manager = None;
        for SavedState { heir, state, packets } in legacies {
            self.core.counters[heir].made += packets;
            let taken = self.inner.call(&mut self.core, heir, |element, cx| element.put_state(cx, state));
            if let Some(Err(error)) = taken {
                let name = self.inner.plan.declaration(heir);
                let text = format_args!("While hot-swapping state into '{name}':\n  {error}\n");
                self.inner.sink.write(Stream::Messages, text);
            }
        }
        self.settle();
    }

    /// Drains elements that hold packets in which work may be left for a device, if elements of the new
    /// graph do not take such packets.
    fn drain_unacceptable(&mut self, new: &Inner) {
        let (old, facts) = (&self.inner, &self.core.facts);
        let starts = |passing: &[bool]| -> BTreeSet<i32> {
            let passing = passing.iter().zip(&old.effects).filter(|(passes, _)| **passes);
            passing.filter_map(|(_, effects)| effects.offloads).collect()
        };
        let (partial, large) = (starts(&facts.offloads), starts(&facts.large_segments));
        // Elements that send packets have to know that work may be left in them.
        let are_known = graph_facts::gather(&new.effects, &new.plan.forward).uses_offloads();
        let (effects, forward) = (&new.effects, &new.plan.forward);
        let minds = |heir: ElementId| {
            let takes_partial =
                |start: &i32| are_known && graph_facts::take_offloads(effects, forward, vec![heir], *start);
            let takes_large = |start: &i32| {
                are_known && graph_facts::take_large_segments(effects, forward, vec![heir], *start)
            };
            !partial.iter().all(takes_partial) || !large.iter().all(takes_large)
        };
        let mut minded: Vec<ElementId> = heirs(&old.plan, &new.plan)
            .into_iter()
            .filter(|&(heir, id)| minds(heir) && old.elements[id].as_ref().is_some_and(|e| e.held() > 0))
            .map(|(_, id)| id)
            .collect();
        // Upstream elements first: their packets may come to other elements of the list.
        let order = old.plan.order();
        minded.sort_by_key(|id| order.iter().position(|other| other == id));
        for id in minded {
            self.inner.call(&mut self.core, id, |element, cx| element.drain(cx));
            self.settle();
        }
    }

    /// Takes the state of all elements that have an heir: an element of the same name and class in the new
    /// graph.
    fn take_states(&mut self, plan: &Plan) -> Vec<SavedState> {
        self.inner.settle_stand_ins(&mut self.core);
        let mut legacies = Vec::new();
        for (heir, id) in heirs(&self.inner.plan, plan) {
            let Some(old) = &mut self.inner.elements[id] else { continue };
            let held = old.held();
            if let Some(state) = old.take_state() {
                let packets = (held - old.held()) as u64;
                // In the old graph, these packets count as sent.
                self.core.counters[id].sent += packets;
                legacies.push(SavedState { heir, state, packets });
            }
        }
        legacies
    }
}
