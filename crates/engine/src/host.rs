//! The engine's side of the contract with elements: everything that an element asks for other than
//! packets and batches.
//!
//! [`Inner`] holds the elements of one worker and their connections, tasks and timers. It implements
//! [`Host`], through which an element sets timers, schedules tasks, reads and writes handlers, and asks
//! about the graph.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use element::args::Place;
use element::context::{Nearby, PerGraph};
use element::ports::Processing;
use element::steering::{Dispatch, LinkType, STEERING_KEY, SteeringKey};
use element::{
    Batch, Call, Core, Cx, Effects, Element, ElementId, Host, Interest, Precision, Setup, Signal, Stream,
    Timestamp,
};

use crate::clock;
use crate::configure::Configured;
use crate::hotconfig::{Next, Rebuild};
use crate::placement::{self, Placement, Way};
use crate::plan::Plan;
use crate::stand_ins::StandIns;
use crate::streams::Sink;
use crate::team::Team;
use crate::wakeups::files::Watches;
use crate::wakeups::os_signals::OsSignals;
use crate::wakeups::signals::Signals;
use crate::wakeups::tasks::{MOST_TICKETS, Tasks};
use crate::wakeups::timers::Timers;

/// The state of a worker without its hot state (`Core`), so that an element can be called with both.
pub(crate) struct Inner {
    pub(crate) plan: Arc<Plan>,
    /// The index in `targets` of the first output of each element.
    pub(crate) first_target: Vec<u32>,
    /// The element and input that each push output is connected to.
    pub(crate) targets: Vec<Target>,
    /// The elements, by number. An element is `None` while it is being called.
    pub(crate) elements: Vec<Option<Box<dyn Element>>>,
    /// The declared effects of the elements.
    pub(crate) effects: Vec<Effects>,
    /// The arguments of elements that were configured again since the start.
    pub(crate) configs: BTreeMap<ElementId, String>,
    pub(crate) setup: Setup,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    /// True while a timer that is due runs. Tasks that it schedules run ahead of other tasks.
    pub(crate) runs_timer: bool,
    pub(crate) signals: Signals,
    pub(crate) watches: Watches,
    pub(crate) os_signals: OsSignals,
    /// Click's run count: the driver runs while it is positive.
    pub(crate) runcount: i64,
    pub(crate) sink: Box<dyn Sink>,
    /// The configuration as it was written.
    pub(crate) text: String,
    /// The depth of handler calls within handler calls.
    pub(crate) depth: u32,
    /// A function that makes graphs for `hotconfig`.
    pub(crate) rebuild: Option<Rebuild>,
    /// The graph that replaces this graph before the next round.
    pub(crate) next: Option<Box<Next>>,
    /// Elements that replace elements of the same name and class in the previous graph, with the arguments of
    /// the replaced elements.
    pub(crate) predecessors: BTreeMap<ElementId, Vec<String>>,
    /// The workers that do the work of each element.
    pub(crate) placement: Placement,
    /// The other workers, if there are any.
    pub(crate) team: Option<Arc<Team>>,
    /// The elements that act in place of other elements.
    pub(crate) stand_ins: StandIns,
}

/// The input that a push output is connected to, and the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) element: u32,
    pub(crate) input: u32,
    pub(crate) way: Way,
}

impl Target {
    /// The target of an output without a connection.
    pub(crate) const NOWHERE: Target = Target { element: u32::MAX, input: 0, way: Way::Here };
}

/// Returns the targets of all push outputs in one array, and the index of the first output of each
/// element. A push output has exactly one connection (`Plan::check_use`). Other outputs get
/// [`Target::NOWHERE`].
fn targets(plan: &Plan, placement: &Placement) -> (Vec<u32>, Vec<Target>) {
    let (mut starts, mut targets) = (Vec::new(), Vec::new());
    for (from, outputs) in plan.forward.iter().enumerate() {
        starts.push(targets.len() as u32);
        let first = |ends: &Vec<(ElementId, usize)>| match ends.first() {
            Some(&(to, at)) => Target { element: to as u32, input: at as u32, way: placement.way(from, to) },
            None => Target::NOWHERE,
        };
        targets.extend(outputs.iter().map(first));
        // Output 0 may be looked up even if the element has no output.
        if outputs.is_empty() {
            targets.push(Target::NOWHERE);
        }
    }
    (starts, targets)
}

/// Returns the tasks of a graph, with the tickets that the configuration gives them.
fn tasks(plan: &Plan, setup: &Setup) -> Tasks {
    let mut tasks = Tasks::new(plan.len());
    for id in (0..plan.len()).filter(|&id| plan.has_task(id)) {
        tasks.set_tickets(id, setup.tickets(&plan.graph.elements[id].name).min(MOST_TICKETS));
    }
    tasks
}

impl Inner {
    /// Makes the state of a graph that has not been initialised.
    pub(crate) fn new(
        plan: Arc<Plan>,
        configured: Configured,
        sink: Box<dyn Sink>,
        text: String,
    ) -> (Inner, PerGraph) {
        let outputs = plan.outputs.iter().map(|side| side.len() as u32).collect();
        let placement =
            Placement::new(&plan, &configured.effects, &configured.setup, configured.setup.workers);
        let (first_target, targets) = targets(&plan, &placement);
        let inner = Inner {
            first_target,
            targets,
            signals: Signals::new(&plan),
            watches: Watches::default(),
            os_signals: OsSignals::default(),
            tasks: tasks(&plan, &configured.setup),
            elements: configured.elements.into_iter().map(Some).collect(),
            stand_ins: StandIns::new(&configured.effects),
            effects: configured.effects,
            configs: BTreeMap::new(),
            setup: configured.setup,
            timers: Timers::default(),
            runs_timer: false,
            runcount: 1,
            sink,
            depth: 0,
            text,
            rebuild: None,
            next: None,
            predecessors: BTreeMap::new(),
            placement,
            team: None,
            plan,
        };
        (inner, PerGraph::new(outputs, configured.facts))
    }

    /// Returns the number of this worker.
    #[inline]
    pub(crate) fn worker(&self) -> usize {
        self.setup.worker
    }

    /// Returns the elements whose work is done by this worker.
    pub(crate) fn placed(&self) -> impl Iterator<Item = ElementId> + use<'_> {
        (0..self.plan.len()).filter(|&id| self.placement.is_at(id, self.worker()))
    }

    /// Returns the input that an output is connected to. `None` if there is no connection.
    #[inline]
    pub(crate) fn target(&self, element: u32, output: u32) -> Option<Target> {
        let target = self.targets[(self.first_target[element as usize] + output) as usize];
        (target.element != Target::NOWHERE.element).then_some(target)
    }

    /// Puts an element back into the slot that it was taken from.
    #[inline]
    fn put_back(&mut self, id: ElementId, element: Box<dyn Element>) {
        // The slot is `None`. `forget` saves the check for an old element that would have to be dropped.
        std::mem::forget(self.elements[id].replace(element));
    }

    /// Takes an element out of its slot, calls it, and puts it back. Returns `None` if the element is
    /// being called already.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        core: &mut Core,
        id: ElementId,
        call: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut element = self.elements[id].take()?;
        let result = call(&mut *element, &mut Cx::new(core, self, id));
        if cfg!(debug_assertions) {
            let (balance, held) = (core.counters[id].balance(), element.held());
            assert_eq!(balance, held as i128, "{} lost count of packets", self.plan.declaration(id));
        }
        self.put_back(id, element);
        Some(result)
    }
}

impl Inner {
    /// Returns the rule that gives packets to the workers' copies of an element. `None` if the element
    /// has only one copy.
    #[inline]
    fn dispatch_of(&self, element: ElementId) -> Option<&dyn Dispatch> {
        let has_copies = !matches!(self.placement.places[element], placement::Place::One(_));
        self.team.as_ref().filter(|_| has_copies).map(|team| &*team.dispatch)
    }

    /// Pushes a batch into an element. Returns the packets for its output 0, which are not yet counted
    /// as emitted.
    #[inline]
    pub(crate) fn push(
        &mut self,
        core: &mut Core,
        id: ElementId,
        input: usize,
        batch: Batch,
    ) -> Option<Batch> {
        // Only the element that is being called is out of its slot, and the engine calls one element at
        // a time.
        let mut element = self.elements[id].take()?;
        let rest = element.push(&mut Cx::new(core, self, id), input, batch);
        if cfg!(debug_assertions) {
            let passed_on = rest.as_ref().map_or(0, |batch| batch.len()) as i128;
            let (balance, held) = (core.counters[id].balance(), element.held());
            assert_eq!(
                balance,
                held as i128 + passed_on,
                "{} lost count of packets",
                self.plan.declaration(id)
            );
        }
        self.put_back(id, element);
        rest
    }
}

impl Host for Inner {
    #[inline]
    fn pull(&mut self, core: &mut Core, element: ElementId, input: usize, max: usize) -> Batch {
        let Some(&(from, output)) = self.plan.backward[element].get(input).and_then(|ends| ends.first())
        else {
            return core.batch();
        };
        let Some(mut giver) = self.elements[from].take() else { return core.batch() };
        let batch = giver.pull(&mut Cx::new(core, self, from), output, max);
        core.counters[from].emitted += batch.len() as u64;
        core.counters[element].arrived += batch.len() as u64;
        if cfg!(debug_assertions) {
            let (balance, held) = (core.counters[from].balance(), giver.held());
            assert_eq!(balance, held as i128, "{} lost count of packets", self.plan.declaration(from));
        }
        self.put_back(from, giver);
        batch
    }

    fn schedule(&mut self, element: ElementId, on: bool) {
        debug_assert!(self.plan.has_task(element), "{} declares no task", self.plan.declaration(element));
        match (on, self.runs_timer) {
            (true, false) => self.tasks.schedule(element),
            (true, true) => self.tasks.schedule_first(element),
            (false, _) => self.tasks.unschedule(element),
        }
    }

    fn is_scheduled(&self, element: ElementId) -> bool {
        self.tasks.is_scheduled(element)
    }

    fn set_timer(&mut self, element: ElementId, token: u32, at: Option<(Timestamp, Precision)>) {
        self.timers.set((element, token), at);
    }

    fn watch(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>) {
        self.watches.set(element, token, file);
    }

    fn on_os_signal(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()> {
        self.os_signals.set(element, number, on)
    }

    fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool) {
        for &listener in self.signals.set(element, signal, on) {
            match self.runs_timer {
                true => self.tasks.schedule_first(listener),
                false => self.tasks.schedule(listener),
            }
        }
    }

    fn signal(&self, element: ElementId, signal: Signal, port: usize) -> bool {
        self.signals.heard(element, signal, port)
    }

    fn read(&mut self, core: &mut Core, _caller: ElementId, call: &Call) -> Result<String, String> {
        self.read_handler(core, call.element, &call.handler, &call.value)
    }

    fn write(&mut self, core: &mut Core, _caller: ElementId, call: &Call) -> Result<(), String> {
        self.write_handler(core, call.element, &call.handler, &call.value, &call.rights)
    }

    fn stop(&mut self) {
        self.runcount -= 1;
    }

    fn print(&mut self, stream: Stream, text: fmt::Arguments<'_>) {
        self.sink.write(stream, text);
    }

    fn worker(&self) -> (usize, usize) {
        (self.setup.worker, self.setup.workers)
    }

    fn copies(&self, element: ElementId) -> usize {
        (0..self.setup.workers).filter(|&worker| self.placement.is_at(element, worker)).count()
    }

    fn predecessor(&self, element: ElementId) -> Option<&[String]> {
        self.predecessors.get(&element).map(Vec::as_slice)
    }

    fn steering_key(&self) -> SteeringKey {
        self.team.as_ref().map_or(STEERING_KEY, |team| *team.dispatch.key())
    }

    fn worker_of(&self, frame: &[u8], link: LinkType) -> usize {
        self.team.as_ref().map_or(0, |team| team.dispatch.worker_of_frame(frame, link))
    }

    fn owner_of(&self, element: ElementId, packet: &element::Packet) -> usize {
        self.dispatch_of(element).map_or(self.setup.worker, |dispatch| dispatch.worker_of(packet))
    }

    fn worker_between(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        match self.placement.places[element] {
            placement::Place::One(worker) => worker,
            _ => {
                self.dispatch_of(element).map_or(self.setup.worker, |dispatch| dispatch.worker_between(a, b))
            }
        }
    }

    fn place(&self, element: ElementId) -> Place<'_> {
        Place::new(&self.setup, element)
    }

    fn name(&self, element: ElementId) -> (&str, &'static str) {
        (&self.plan.graph.elements[element].name, self.plan.classes[element].name)
    }

    fn is_push(&self, element: ElementId, output: bool, port: usize) -> bool {
        let side = if output { &self.plan.outputs[element] } else { &self.plan.inputs[element] };
        side.get(port) != Some(&Processing::Pull)
    }

    fn service(&self, element: ElementId, of: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.setup.service_of(element, of)
    }

    fn nearest(&self, element: ElementId, downstream: bool, of: TypeId) -> Vec<Nearby> {
        self.plan.nearest(element, downstream, |id| self.setup.service_of(id, of).map(|found| (id, found)))
    }

    fn reached(&self, element: ElementId, output: usize) -> BTreeSet<ElementId> {
        self.plan.reached(element, output)
    }

    fn signal_sources(&self, element: ElementId, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>> {
        let gives = |id: &ElementId| match signal {
            Signal::Packets => self.plan.classes[*id].notes.signals_packets,
            Signal::Room => self.plan.classes[*id].notes.signals_room,
        };
        let number = |id| (0..id).filter(gives).count();
        Some(self.signals.signal_sources(element, signal, port)?.map(|(id, on)| (number(id), on)).collect())
    }

    fn cycles(&self) -> u64 {
        clock::cycles()
    }

    fn has_handler(&self, call: &Call, write: bool) -> bool {
        self.find_handler(call.element, &call.handler).is_some_and(|a| if write { a.write } else { a.read })
    }
}
