//! Replaces a running configuration by another one (Click's hot-swapping).
//!
//! The new graph is built and initialised while the old graph still runs. The caller that wrote the handler
//! `hotconfig` gets the errors of the new graph. Before the driver's next round, the new graph replaces the
//! old one. Elements hand their state, including packets that they hold, on to elements of the same name and
//! class. All other packets that the old elements hold are drained, and the old elements are closed. Held
//! packets may have work left for a device. Then the old element is drained first if its heir, or an element
//! downstream of the heir, cannot handle such packets.

use std::collections::BTreeSet;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use element::args::unquote;
use element::context::Emitted;
use element::{Core, ElementId, OutputStream, Rights};

use crate::control::{Control, Next, Rebuilder};
use crate::graph_copy::GraphCopy;
use crate::graph_facts;
use crate::host::WorkerHost;
use crate::options::Rebuilt;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::streams::Sink;
use crate::wakeups::Wakeups;
use crate::worker::{Worker, captures};

impl Next {
    /// Calls `work` while this graph's part of the hot state is in `core`, and takes that part back
    /// afterwards.
    fn in_use<T>(&mut self, core: &mut Core, work: impl FnOnce(&mut Core, &mut WorkerHost<'_>) -> T) -> T {
        let Next { graph, wakeups, control, hot } = self;
        core.exchange(hot);
        let result = work(core, &mut WorkerHost { graph, wakeups, control, team: &None });
        core.exchange(hot);
        result
    }
}

/// The state of an old element for the new element that gets it, and the number of packets in the state.
struct SavedState {
    heir: ElementId,
    state: Box<dyn Any + Send>,
    packets: u64,
}

/// Returns the pairs of a new element and the old element of the same name and class.
fn heirs(old: &Plan, new: &Plan) -> Vec<(ElementId, ElementId)> {
    let named = new.graph.elements.iter().enumerate();
    let pairs = named.filter_map(|(heir, element)| Some((heir, old.graph.find(&element.name)?)));
    pairs.filter(|&(heir, id)| std::ptr::eq(old.classes[id], new.classes[heir])).collect()
}

/// A sink that drops its text, for a graph that has lent its sink to another graph.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _stream: OutputStream, _text: fmt::Arguments<'_>) {}
    fn flush(&mut self) {}
}

impl WorkerHost<'_> {
    /// Builds and initialises the graph that is to replace this graph before the next round. `value` is the
    /// text written to `hotconfig`.
    ///
    /// # Errors
    /// If the new graph cannot be built or initialised: its errors. Also if another graph is being built.
    /// This graph then continues to run.
    pub(crate) fn prepare(&mut self, core: &mut Core, value: &str) -> Result<(), String> {
        let Rebuilder::Ready(rebuild) = &mut self.control.rebuild else {
            return Err("another configuration is being built already".into());
        };
        let built = rebuild(value, core.rights.origin);
        let Rebuilt { plan, configured, text, tell } = built?;
        // Calls during initialisation have the rights of the new configuration, not the rights of the caller
        // that wrote the handler.
        core.rights = Rights::default();
        let (graph, hot) = GraphCopy::new(plan, configured);
        let wakeups = Wakeups::new(&graph.plan, &graph.setup);
        // The new graph borrows the sink until it is initialised, so that its messages appear.
        let sink = std::mem::replace(&mut self.control.sink, Box::new(Nowhere));
        let mut control = Control::new(sink, text);
        // Elements that are initialized find the handler `hotconfig`, but cannot write it yet.
        control.rebuild = Rebuilder::Busy;
        let arguments =
            |id| lang::args::split(self.graph.config(id)).iter().map(|arg| unquote(&arg.text)).collect();
        let predecessors = heirs(&self.graph.plan, &graph.plan).into_iter();
        control.predecessors = predecessors.map(|(heir, id)| (heir, arguments(id))).collect();
        let mut next = Box::new(Next { graph, wakeups, control, hot });
        let result =
            next.in_use(core, |core, host| initialize(core, host).inspect_err(|_| abandon(core, host)));
        std::mem::swap(&mut self.control.sink, &mut next.control.sink);
        result.map_err(|problem| tell(&problem))?;
        // If another graph was prepared before and has not run yet, it is closed.
        if let Some(mut never) = self.control.next.replace(next) {
            never.in_use(core, abandon);
        }
        Ok(())
    }
}

/// Initialises the elements of a graph, in the order of the phases of their classes. Stops at the first
/// failure.
fn initialize(core: &mut Core, host: &mut WorkerHost<'_>) -> Result<(), Box<Problem>> {
    let plan = Arc::clone(&host.graph.plan);
    let mut order: Vec<ElementId> = (0..plan.len()).collect();
    order.sort_by_key(|&id| plan.classes[id].phase);
    for id in order {
        if let Some(Err(text)) = host.call(core, id, |element, cx| element.initialize(cx)) {
            return Err(Box::new(plan.initialization_failed(id, text)));
        }
    }
    Ok(())
}

/// Drains and closes a graph that never ran, and drops the packets that its elements have emitted.
fn abandon(core: &mut Core, host: &mut WorkerHost<'_>) {
    for id in 0..host.graph.plan.len() {
        host.call(core, id, |element, cx| element.drain(cx));
        let _ = host.call(core, id, |element, cx| element.close(cx));
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

impl Worker {
    /// Replaces this graph by the graph that was prepared, if there is one.
    #[cold]
    pub(crate) fn switch(&mut self) {
        let Some(mut next) = self.control.next.take() else { return };
        self.drain_unacceptable(&next.graph);
        let legacies = self.take_states(&next.graph.plan);
        for error in self.finish().err().unwrap_or_default() {
            self.control.sink.write(OutputStream::Messages, format_args!("{error}\n"));
        }
        std::mem::swap(&mut self.graph, &mut next.graph);
        std::mem::swap(&mut self.wakeups, &mut next.wakeups);
        std::mem::swap(&mut self.control, &mut next.control);
        self.core.exchange(&mut next.hot);
        let (old, new) = (&mut next.control, &mut self.control);
        std::mem::swap(&mut old.sink, &mut new.sink);
        std::mem::swap(&mut old.rebuild, &mut new.rebuild);
        // Packets from the old graph may have annotations, so the pool continues to use them even if the
        // new graph does not need them.
        let used = self.core.pool.uses_annotations() || self.core.facts.annotations_used;
        self.core.pool.use_annotations(used);
        self.captures = captures(&self.graph.plan);
        self.manager = None;
        for SavedState { heir, state, packets } in legacies {
            self.core.counters[heir].made += packets;
            let taken = self.call(heir, |element, cx| element.put_state(cx, state));
            if let Some(Err(error)) = taken {
                let name = self.graph.plan.declaration(heir);
                let text = format_args!("While hot-swapping state into '{name}':\n  {error}\n");
                self.control.sink.write(OutputStream::Messages, text);
            }
        }
        self.settle();
    }

    /// Drains old elements that hold packets in which work may be left for a device. It does so only if the
    /// element of the new graph that would get these packets, or an element downstream of it, cannot handle
    /// such packets.
    fn drain_unacceptable(&mut self, new: &GraphCopy) {
        let (old, facts) = (&self.graph, &self.core.facts);
        let starts = |passing: &[bool]| -> BTreeSet<i32> {
            let passing = passing.iter().zip(&old.effects).filter(|(passes, _)| **passes);
            passing.filter_map(|(_, effects)| effects.support.offloads).collect()
        };
        let (partial, large) = (starts(&facts.offloads), starts(&facts.large_segments));
        // Without any use of offloads in the new graph, its elements that send packets do not look for work
        // left in them.
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
            .filter(|&(heir, id)| minds(heir) && old.held(id) > 0)
            .map(|(_, id)| id)
            .collect();
        // Upstream elements are drained first, because their packets may come to other elements of the
        // list.
        let order = old.plan.order();
        minded.sort_by_key(|id| order.iter().position(|other| other == id));
        for id in minded {
            self.call(id, |element, cx| element.drain(cx));
            self.settle();
        }
    }

    /// Takes the state of each old element that has an heir: an element of the same name and class in the
    /// new graph.
    fn take_states(&mut self, plan: &Plan) -> Vec<SavedState> {
        self.graph.settle_stand_ins(&mut self.core);
        let mut legacies = Vec::new();
        for (heir, id) in heirs(&self.graph.plan, plan) {
            let Some(old) = &mut self.graph.elements[id] else { continue };
            let held = old.held();
            if let Some(state) = old.take_state() {
                let packets = (held - old.held()) as u64;
                // The packets leave the old graph, so they count as sent there. In the new graph they count
                // as made.
                self.core.counters[id].sent += packets;
                legacies.push(SavedState { heir, state, packets });
            }
        }
        legacies
    }
}
