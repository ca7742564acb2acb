//! The part of each worker in a reload: initialises its copy of the new graph, and changes over to it.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use element::context::{Counters, Emitted};
use element::{Core, DropReason, ElementId, OnReload, OutputStream};

use super::{Decision, Reload, Reloads, Retiring, Seat, locked};
use crate::control::Predecessors;
use crate::exchange::Exchange;
use crate::generation::Generation;
use crate::graph_copy::GraphCopy;
use crate::graph_facts;
use crate::host::WorkerHost;
use crate::placement::ElementWorkers;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::worker::Worker;

/// The state of an old element for its heir, with the number of packets in the state.
pub(super) struct SavedState {
    heir: ElementId,
    state: Box<dyn Any + Send>,
    packets: u64,
}

/// Returns the heir of each old element: the new element of the same name and class.
fn heirs(old: &Plan, new: &Plan) -> Vec<Option<ElementId>> {
    let heir = |id: ElementId| {
        let heir = new.graph.find(&old.graph.elements[id].name)?;
        std::ptr::eq(old.classes[id], new.classes[heir]).then_some(heir)
    };
    (0..old.len()).map(heir).collect()
}

impl WorkerHost<'_> {
    /// Takes part in a reload that another worker leads: initialises the copy of this worker if it has come,
    /// and closes it if the reload is given up. The worker changes over later, before the next round of its
    /// loop.
    pub(crate) fn take_part_in_reload(&mut self, core: &mut Core) {
        let Some(team) = self.team else { return };
        let me = self.graph.worker();
        let Some(reload) = team.hear_of_reload(me).filter(|reload| reload.number > self.graph.generation)
        else {
            return;
        };
        self.reloads.reload = Some(Arc::clone(&reload));
        let copy = locked(&reload.seats[me].copy).take();
        if let Some(copy) = copy {
            let result = self.initialise_copy(core, &reload, copy);
            *locked(&reload.seats[me].result) = Some(result);
            team.bells[0].ring();
        }
        if reload.decision() == Decision::GiveUp {
            self.give_up_reload(core);
        }
    }

    /// Initialises this worker's copy of the new graph, and keeps it until the worker changes over. After a
    /// failure, the copy is closed.
    ///
    /// # Errors
    /// If an element cannot be initialised: the problem that it reports.
    pub(super) fn initialise_copy(
        &mut self,
        core: &mut Core,
        reload: &Reload,
        mut copy: Box<Generation>,
    ) -> Result<(), Box<Problem>> {
        // Calls during initialisation have the rights of the new configuration, not the rights of the caller
        // that asked for the reload.
        let rights = std::mem::take(&mut core.rights);
        copy.heirs = heirs(&self.graph.plan, &copy.graph.plan);
        let heirs = copy.heirs.iter().enumerate();
        copy.control.predecessors = Some(Predecessors {
            plan: Arc::clone(&self.graph.plan),
            configs: self.graph.changed_configs().clone(),
            replaced: heirs.filter_map(|(id, heir)| Some(((*heir)?, id))).collect(),
        });
        // While the worker changes over, it allocates as little memory as possible: the allocator may first
        // sort all the memory that other threads have freed.
        core.garbage.reserve(copy.heirs.len());
        self.reloads.saved.reserve(copy.heirs.len());
        // The seed that a configuration has given (RandomSeed) ends with the configuration.
        let random = core.random.clone();
        core.random.forget_seed();
        let result = copy.in_use(core, self.control, self.reloads, |core, host| {
            initialise(core, host).inspect_err(|_| abandon(core, host))
        });
        core.rights = rights;
        copy.control.predecessors = None;
        match result {
            Ok(()) => (self.reloads.next, self.reloads.random) = (Some(copy), Some(random)),
            Err(_) => {
                core.random = random;
                reload.dispose(copy);
            }
        }
        result
    }

    /// Closes this worker's copy of the new graph, which never runs.
    pub(super) fn give_up_reload(&mut self, core: &mut Core) {
        let (reload, never) = (self.reloads.reload.take(), self.reloads.next.take());
        if let (Some(reload), Some(mut never)) = (reload, never) {
            never.in_use(core, self.control, &Reloads::busy(self.reloads), abandon);
            reload.dispose(never);
            if let Some(random) = self.reloads.random.take() {
                core.random = random;
            }
        }
    }
}

/// Initialises the elements of a graph whose work this worker does, in the order of the phases of their
/// classes. Stops at the first failure.
fn initialise(core: &mut Core, host: &mut WorkerHost<'_>) -> Result<(), Box<Problem>> {
    let plan = Arc::clone(&host.graph.plan);
    let mut order = host.graph.placed.to_vec();
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
    for &id in &*Arc::clone(&host.graph.placed) {
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
        core.drop_batch(element as usize, batch, DropReason::Stop);
    }
}

impl Worker {
    /// Changes over to the next generation of the graph.
    #[cold]
    pub(crate) fn switch(&mut self) {
        let start = Instant::now();
        // No packet of the generation before this one is left at any worker, because the first worker waits
        // for that. But this worker may not have closed it yet.
        self.serve_retiring();
        debug_assert!(self.retiring.is_none(), "an earlier generation has not ended");
        // The counts of packets that an idle worker has noted are counts of the old exchange, so this worker
        // no longer counts as idle.
        self.set_idle(false);
        let (Some(mut next), Some(reload)) = (self.reloads.next.take(), self.reloads.reload.take()) else {
            return;
        };
        let heirs = std::mem::take(&mut next.heirs);
        self.move_states(&heirs, &mut next, &reload);
        let unfit = self.drain_unacceptable(&next.graph, &heirs);
        self.take_states(&heirs, &mut next, false);
        self.tell_ended(&heirs, &next.graph);
        // Returns the heir at which packets of the old graph that come to the element `id` go on in the new
        // graph. The heirs of elements in `unfit` cannot handle packets with work left for a device.
        let crossing = |id: ElementId| heirs[id].filter(|_| !unfit.contains(&id));
        self.graph.lead_to_heirs((0..heirs.len()).map(crossing), &next.graph.plan);
        self.drain_all();
        self.close_old(|graph, id| crossing(id).is_some() || graph.plan.inputs[id].is_empty());
        // Traces and captures are of the old graph, whose elements have other numbers.
        (self.graph.watch, self.core.drop_watch) = (None, None);
        if let Some(traces) = &self.control.traces {
            traces.end();
        }
        if let Some(captures) = &self.control.captures {
            captures.end("another configuration has replaced the graph");
        }
        self.exchange_generation(&mut next);
        // Packets from the old graph may have annotations, so the pool continues to use them even if the
        // new graph does not need them.
        let used = self.core.pool.uses_annotations() || self.core.facts.annotations_used;
        self.core.pool.use_annotations(used);
        if let (Some(team), Some(exchange)) = (&self.team, &mut self.exchange) {
            exchange.await_others();
            team.set_displacement(exchange.board(self.core.burst));
        }
        self.reloads.set_heirs(heirs);
        let mut saved = std::mem::take(&mut self.reloads.saved);
        saved.drain(..).for_each(|saved| self.put_state(saved));
        self.reloads.saved = saved;
        self.put_sent_states(&reload);
        next.garbage = std::mem::take(&mut self.core.garbage);
        self.settle();
        self.retiring = Some(Retiring::new(reload, next));
        self.serve_retiring();
        let silence = match &self.team {
            Some(team) => team.silence(self.graph.worker()),
            None => &self.reloads.silence,
        };
        silence.set(self.graph.generation, start.elapsed());
    }

    /// Waits for the other workers if the reload asks for that ([`Reload::gathers`]), and sends the state of
    /// elements that move to other workers. All workers take part, and wait for each other twice. First they
    /// process the packets between them, so that no packet of the old graph comes to an element after its
    /// state has left, or later than a packet of the new graph. Then they send the state, so that no packet
    /// of the new graph comes to an element before its state.
    fn move_states(&mut self, heirs: &[Option<ElementId>], next: &mut Generation, reload: &Reload) {
        let Some(team) = self.team.clone().filter(|_| reload.gathers) else { return };
        let me = self.graph.worker();
        while !reload.gathered.is_quiet() && !team.is_over() {
            if self.exchange.as_ref().is_some_and(Exchange::has_work) {
                reload.gathered.end_idle(me);
                self.receive_current(false);
            } else {
                let moved = self.exchange.as_ref().map_or((0, 0), Exchange::moved);
                reload.gathered.begin_idle(me, moved);
            }
            self.answer_while_waiting();
        }
        self.take_states(heirs, next, true);
        for saved in self.reloads.saved.drain(..) {
            let ElementWorkers::One(there) = next.graph.placement.places[saved.heir] else { continue };
            next.hot.counters[saved.heir].sent += saved.packets;
            locked(&reload.seats[there].sent).push(saved);
        }
        reload.seats[me].has_sent.store(true, Ordering::Release);
        let is_sent = |seat: &Seat| seat.has_sent.load(Ordering::Acquire);
        while !reload.seats.iter().all(is_sent) && !team.is_over() {
            self.answer_while_waiting();
        }
    }

    /// Answers handler calls of other workers, while this worker waits for them.
    fn answer_while_waiting(&mut self) {
        let (core, mut host) = self.host();
        host.answer(core);
        std::hint::spin_loop();
    }

    /// Tells the user which elements lose their state, because several workers do their work before the
    /// reload and one worker does it afterwards, or the other way round. One worker tells it.
    fn tell_ended(&mut self, heirs: &[Option<ElementId>], new: &GraphCopy) {
        let tells = |id: ElementId| match self.graph.placement.places[id] {
            ElementWorkers::One(worker) => worker == self.graph.worker(),
            _ => self.graph.worker() == 0,
        };
        let keeps = |id: ElementId| {
            self.graph.plan.classes[id].state.iter().any(|part| !matches!(part.fate, OnReload::Lost(_)))
        };
        let ends = |&(id, heir): &(ElementId, ElementId)| {
            fate(&self.graph, new, id, heir) == Fate::Ends && keeps(id) && tells(id)
        };
        let pairs = heirs.iter().enumerate().filter_map(|(id, heir)| Some((id, (*heir)?)));
        for (id, _) in pairs.filter(ends) {
            let name = self.graph.plan.declaration(id);
            let text = format_args!(
                "While hot-swapping state into '{name}':\n  the state has ended: either several workers or one \
                 worker must have the element before and after a reload\n"
            );
            self.control.sink.write(OutputStream::Messages, text);
        }
    }

    /// Gives state to its new element.
    fn put_state(&mut self, SavedState { heir, state, .. }: SavedState) {
        let taken = self.call(heir, |element, cx| element.put_state(cx, state));
        if let Some(Err(error)) = taken {
            let name = self.graph.plan.declaration(heir);
            let text = format_args!("While hot-swapping state into '{name}':\n  {error}\n");
            self.control.sink.write(OutputStream::Messages, text);
        }
    }

    /// Gives state that has come from other workers to its elements.
    fn put_sent_states(&mut self, reload: &Reload) {
        for saved in std::mem::take(&mut *locked(&reload.seats[self.graph.worker()].sent)) {
            self.core.counters[saved.heir].made += saved.packets;
            self.put_state(saved);
        }
    }

    /// Drains old elements that hold packets in which work may be left for a device. It does so only if the
    /// heir, or an element downstream of it, cannot handle such packets. Returns the old elements whose heirs
    /// cannot handle them.
    fn drain_unacceptable(&mut self, new: &GraphCopy, heirs: &[Option<ElementId>]) -> BTreeSet<ElementId> {
        let (old, facts) = (&self.graph, &self.core.facts);
        let starts = |passing: &[bool]| -> BTreeSet<i32> {
            let passing = passing.iter().zip(&old.effects).filter(|(passes, _)| **passes);
            passing.filter_map(|(_, effects)| effects.support.offloads).collect()
        };
        let (partial, large) = (starts(&facts.offloads), starts(&facts.large_segments));
        if partial.is_empty() && large.is_empty() {
            return BTreeSet::new();
        }
        // If no element of the new graph uses offloads, its elements that send packets do not check for
        // checksums or segmentation that were left to a device. Then the new graph can take no such packets.
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
        // Upstream elements are drained first, because their packets may come to other elements that are
        // drained here.
        let minded = |id: &ElementId| heirs[*id].is_some_and(minds);
        let minded: Vec<ElementId> = old.plan.order().iter().copied().filter(minded).collect();
        for &id in &minded {
            if self.graph.held(id) > 0 {
                self.call(id, |element, cx| element.drain(cx));
                self.settle();
            }
        }
        minded.into_iter().collect()
    }

    /// Takes the state of each old element that has an heir at this worker, or if `moves`, at another worker,
    /// and adds it to the state that is being handed on (`Reloads::saved`). Moves the element's counts to the
    /// heir's.
    fn take_states(&mut self, heirs: &[Option<ElementId>], next: &mut Generation, moves: bool) {
        self.graph.settle_stand_ins(&mut self.core);
        for (id, heir) in heirs.iter().enumerate().filter_map(|(id, heir)| Some((id, (*heir)?))) {
            let fate = fate(&self.graph, &next.graph, id, heir);
            if (fate == Fate::Moves) != moves {
                continue;
            }
            let is_here = self.graph.placement.is_at(id, self.graph.worker());
            let Some(old) = &mut self.graph.elements[id] else { continue };
            let held = old.held();
            let state = if is_here && fate != Fate::Ends { old.take_state() } else { None };
            let left = old.held();
            let packets = (held - left) as u64;
            move_counters(&mut self.core.counters[id], &mut next.hot.counters[heir], left as u64);
            self.reloads.saved.extend(state.map(|state| SavedState { heir, state, packets }));
        }
    }
}

/// The fate of an old element's state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The heir at the same worker gets it.
    Stays,
    /// The heir at another worker gets it.
    Moves,
    /// The state is dropped, because one worker has the old element and several have the heir, or the other
    /// way round. State is neither split nor merged.
    Ends,
}

fn fate(old: &GraphCopy, new: &GraphCopy, id: ElementId, heir: ElementId) -> Fate {
    match (old.placement.places[id], new.placement.places[heir]) {
        (ElementWorkers::One(a), ElementWorkers::One(b)) if a != b => Fate::Moves,
        (ElementWorkers::One(_), ElementWorkers::One(_)) => Fate::Stays,
        (ElementWorkers::One(_), _) | (_, ElementWorkers::One(_)) => Fate::Ends,
        _ => Fate::Stays,
    }
}

/// Returns an old element that moves to another worker, if there is one.
pub(super) fn moved(old: &GraphCopy, new: &GraphCopy) -> Option<ElementId> {
    let heirs = heirs(&old.plan, &new.plan).into_iter().enumerate();
    let mut pairs = heirs.filter_map(|(id, heir)| Some((id, heir?)));
    pairs.find(|&(id, heir)| fate(old, new, id, heir) == Fate::Moves).map(|(id, _)| id)
}

/// Adds the counts of an old element to the counts of its heir. The old element keeps `left` packets, which
/// it holds still.
fn move_counters(old: &mut Counters, heir: &mut Counters, left: u64) {
    let arrived = left.min(old.arrived);
    let keeps = Counters { arrived, made: left - arrived, ..Counters::default() };
    heir.add(&std::mem::replace(old, keeps));
    heir.arrived -= arrived;
    heir.made -= left - arrived;
}
