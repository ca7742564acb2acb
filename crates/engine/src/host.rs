//! The engine's side of the contract with elements: the calls of elements, and the requests that elements
//! make through the trait [`Host`].
//!
//! [`WorkerHost`] calls elements, and implements [`Host`], through which an element pulls packets, sets
//! timers, schedules tasks, reads and writes handlers, and asks about the graph.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use element::args::Scope;
use element::context::Nearby;
use element::ports::Processing;
use element::steering::{Dispatch, LinkType, STEERING_KEY, SteeringKey};
use element::{
    Batch, Call, Core, Cx, Element, ElementId, Host, Interest, OutputStream, Precision, Signal, Timestamp,
};

use crate::clock;
use crate::control::Control;
use crate::exchange::Exchange;
use crate::former::Former;
use crate::graph_copy::GraphCopy;
use crate::handlers;
use crate::placement;
use crate::reload::{Caller, Reloads};
use crate::team::Team;
use crate::tracing::Other;
use crate::wakeups::Wakeups;

/// The parts of a worker that are in use while an element is called, borrowed from the worker for the call.
/// The hot state ([`Core`]) is passed next to it, as an argument.
pub(crate) struct WorkerHost<'a> {
    pub(crate) graph: &'a mut GraphCopy,
    pub(crate) wakeups: &'a mut Wakeups,
    pub(crate) control: &'a mut Control,
    /// The state that this worker shares with other workers; `None` with a single worker.
    pub(crate) team: &'a Option<Arc<Team>>,
    pub(crate) reloads: &'a mut Reloads,
    /// The exchange of packets with other workers; `None` with a single worker.
    pub(crate) exchange: &'a mut Option<Exchange>,
    /// The packet counts of earlier generations of the graph.
    pub(crate) former: &'a Former,
    /// The working time of a single worker, in nanoseconds.
    pub(crate) busy: u64,
}

impl WorkerHost<'_> {
    /// Calls an element: takes it out of the list of elements, passes it to `call`, and puts it back. Returns
    /// `None`, without a call, if the element is being called already.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        core: &mut Core,
        id: ElementId,
        call: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        if self.graph.watch.is_some() {
            let call = |host: &mut Self, core: &mut Core, element: &mut dyn Element| {
                let result = call(element, &mut Cx::new(core, host, id));
                host.check_balance(core, id, element, 0);
                (Other(result), 0)
            };
            return self.call_watched(core, id, call).map(|Other(result)| result);
        }
        let mut element = self.graph.elements[id].take()?;
        let result = call(&mut *element, &mut Cx::new(core, self, id));
        self.check_balance(core, id, &*element, 0);
        self.graph.put_back(id, element);
        Some(result)
    }

    /// Pushes a batch into an input of an element. Returns the packets for its output 0, which are not yet
    /// counted as emitted. If there are none, returns `None` or an empty batch.
    #[inline]
    pub(crate) fn push(
        &mut self,
        core: &mut Core,
        id: ElementId,
        input: usize,
        batch: Batch,
    ) -> Option<Batch> {
        if self.graph.watch.is_some() {
            return self.push_watched(core, id, input, batch);
        }
        // The element is always in the list here. Only an element that is being called is not in it, and the
        // engine pushes into one element at a time.
        let mut element = self.graph.elements[id].take()?;
        let rest = element.push(&mut Cx::new(core, self, id), input, batch);
        self.check_balance(core, id, &*element, rest.as_ref().map_or(0, |batch| batch.len()));
        self.graph.put_back(id, element);
        rest
    }

    /// In debug builds, panics if an element has lost or duplicated a packet. After each call, every packet
    /// that has come in or was made must have gone out, be held, or have been dropped. `passed_on` is the
    /// number of returned packets, which are not yet counted as emitted.
    #[inline]
    pub(crate) fn check_balance(&self, core: &Core, id: ElementId, element: &dyn Element, passed_on: usize) {
        if cfg!(debug_assertions) {
            let (balance, kept) = (core.counters[id].balance(), element.held() + passed_on);
            assert_eq!(balance, kept as i128, "{} lost count of packets", self.graph.plan.declaration(id));
        }
    }

    /// Returns the rule that gives packets to the workers' copies of an element. Returns `None` if the
    /// element works on one worker only, or if there is one worker.
    #[inline]
    fn dispatch_of(&self, element: ElementId) -> Option<&dyn Dispatch> {
        let has_copies = !matches!(self.graph.placement.places[element], placement::ElementWorkers::One(_));
        self.team.as_ref().filter(|_| has_copies).map(|team| &*team.dispatch)
    }
}

impl Host for WorkerHost<'_> {
    #[inline]
    fn pull(&mut self, core: &mut Core, element: ElementId, input: usize, max: usize) -> Batch {
        let Some(&(from, output)) =
            self.graph.plan.backward[element].get(input).and_then(|ends| ends.first())
        else {
            return core.batch();
        };
        if self.graph.watch.is_some() {
            return self.pull_watched(core, (from, output), (element, input), max);
        }
        let Some(mut giver) = self.graph.elements[from].take() else { return core.batch() };
        let batch = giver.pull(&mut Cx::new(core, self, from), output, max);
        core.counters[from].emitted += batch.len() as u64;
        core.counters[element].arrived += batch.len() as u64;
        self.check_balance(core, from, &*giver, 0);
        self.graph.put_back(from, giver);
        batch
    }

    fn schedule(&mut self, element: ElementId, on: bool) {
        let plan = &self.graph.plan;
        debug_assert!(plan.has_task(element), "{} declares no task", plan.declaration(element));
        self.wakeups.schedule(element, on);
    }

    fn is_scheduled(&self, element: ElementId) -> bool {
        self.wakeups.is_scheduled(element)
    }

    fn set_timer(&mut self, element: ElementId, token: u32, at: Option<(Timestamp, Precision)>) {
        self.wakeups.timers.set((element, token), at);
    }

    fn watch(&mut self, element: ElementId, token: u32, file: Option<(OwnedFd, Interest)>) {
        self.wakeups.files.set(element, token, file);
    }

    fn on_os_signal(&mut self, element: ElementId, number: i32, on: bool) -> io::Result<()> {
        self.wakeups.os_signals.set(element, number, on)
    }

    fn set_signal(&mut self, element: ElementId, signal: Signal, on: bool) {
        self.wakeups.set_signal(element, signal, on);
    }

    fn signal(&self, element: ElementId, signal: Signal, port: usize) -> bool {
        self.wakeups.signals.heard(element, signal, port)
    }

    fn read(&mut self, core: &mut Core, _caller: ElementId, call: &Call) -> Result<String, String> {
        self.read_handler(core, call.element, &call.handler, &call.value)
    }

    fn write(&mut self, core: &mut Core, _caller: ElementId, call: &Call) -> Result<(), String> {
        self.write_handler(core, call.element, &call.handler, &call.value, &call.rights)
    }

    fn write_later(
        &mut self,
        core: &mut Core,
        caller: ElementId,
        call: &Call,
        token: u32,
    ) -> Option<Result<(), String>> {
        // If the run is to be repeatable, the caller waits for the result: a graph that a thread makes in the
        // background would be ready at another moment in each run.
        if core.is_repeatable {
            return Some(self.write(core, caller, call));
        }
        match self.reload_request(call.element, &call.handler, &call.value, &call.rights) {
            Some(request) => {
                let begun = self.begin_reload_for(core, Caller::Element(caller, token), request);
                begun.map(|(_, error)| Err(error))
            }
            None => Some(self.write(core, caller, call)),
        }
    }

    fn stop(&mut self) {
        self.control.stop(1);
    }

    fn print(&mut self, stream: OutputStream, text: fmt::Arguments<'_>) {
        self.control.sink.write(stream, text);
    }

    fn worker(&self) -> (usize, usize) {
        (self.graph.setup.worker, self.graph.setup.workers)
    }

    fn copies(&self, element: ElementId) -> usize {
        (0..self.graph.setup.workers).filter(|&worker| self.graph.placement.is_at(element, worker)).count()
    }

    fn predecessor(&self, element: ElementId) -> Option<&str> {
        self.control.predecessors.as_ref()?.config(element)
    }

    fn is_of_reload(&self) -> bool {
        self.graph.generation > 0
    }

    fn steering_key(&self) -> SteeringKey {
        self.team.as_ref().map_or(STEERING_KEY, |team| *team.dispatch.key())
    }

    fn worker_of(&self, frame: &[u8], link: LinkType) -> usize {
        self.team.as_ref().map_or(0, |team| team.dispatch.worker_of_frame(frame, link))
    }

    fn owner_of(&self, element: ElementId, packet: &element::Packet) -> usize {
        self.dispatch_of(element).map_or(self.graph.setup.worker, |dispatch| dispatch.worker_of(packet))
    }

    fn worker_between(&self, element: ElementId, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        match self.graph.placement.places[element] {
            placement::ElementWorkers::One(worker) => worker,
            _ => self
                .dispatch_of(element)
                .map_or(self.graph.setup.worker, |dispatch| dispatch.worker_between(a, b)),
        }
    }

    fn place(&self, element: ElementId) -> Scope<'_> {
        Scope::new(&self.graph.setup, element)
    }

    fn name(&self, element: ElementId) -> (&str, &'static str) {
        (&self.graph.plan.graph.elements[element].name, self.graph.plan.classes[element].name)
    }

    fn is_push(&self, element: ElementId, output: bool, port: usize) -> bool {
        let side = if output { &self.graph.plan.outputs[element] } else { &self.graph.plan.inputs[element] };
        side.get(port) != Some(&Processing::Pull)
    }

    fn service(&self, element: ElementId, of: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.graph.setup.service_of(element, of)
    }

    fn nearest(&self, element: ElementId, downstream: bool, of: TypeId) -> Vec<Nearby> {
        self.graph
            .plan
            .nearest(element, downstream, |id| self.graph.setup.service_of(id, of).map(|found| (id, found)))
    }

    fn reached(&self, element: ElementId, output: usize) -> BTreeSet<ElementId> {
        self.graph.plan.reached(element, output)
    }

    fn signal_sources(&self, element: ElementId, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>> {
        let gives = |id: &ElementId| match signal {
            Signal::Packets => self.graph.plan.classes[*id].notes.signals_packets,
            Signal::Room => self.graph.plan.classes[*id].notes.signals_room,
        };
        let number = |id| (0..id).filter(gives).count();
        Some(
            self.wakeups
                .signals
                .signal_sources(element, signal, port)?
                .map(|(id, on)| (number(id), on))
                .collect(),
        )
    }

    fn cycles(&self) -> u64 {
        clock::cycles()
    }

    fn runs_script(&self, call: &Call) -> bool {
        // The variables that a script exports are handlers of its own, and reading them runs nothing.
        let is_variable = |id: ElementId| self.graph.own_handler(id, &call.handler).is_some();
        handlers::runs_script(&self.graph.plan, call.element, &call.handler, &call.value)
            && !call.element.is_some_and(is_variable)
    }

    fn has_handler(&self, call: &Call, write: bool) -> bool {
        self.find_handler(call.element, &call.handler).is_some_and(|a| if write { a.write } else { a.read })
    }
}
