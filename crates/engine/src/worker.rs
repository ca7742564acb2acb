//! A worker: its own copy of a graph, and the work list that moves packets through the copy.
//!
//! ```text
//!  source task ── run ──▶ emitted: [ batch for output 1, batch for output 0 ]      (Core::emitted)
//!                                      │ in the order of emission, on top of
//!                                      ▼
//!  work list (last in, first out):   [ batch ][ batch ][ batch of an element further upstream ]
//!                                      │ settle: take the first item
//!                                      ▼
//!                                    deliver: the input that the output is connected to
//!                                      │
//!                                      ▼              returns the packets for its output 0
//!                                    push_on ──▶ element ────────────┐
//!                                      ▲            │ emits the rest │ nothing was emitted before:
//!                                      │            ▼                │ go straight on
//!                                      │         emitted             │
//!                                      └─────────────────────────────┘
//! ```
//!
//! The list goes depth first: all that an element emits is delivered before anything that was waiting. No
//! element calls another element to push packets. Most batches are never put on the list, because output 0 is
//! a tail call. The loop of `push_on` pushes the packets that an element returns into the next element.
//!
//! With several workers, a connection may lead to another worker. Then [`Exchange::send`] returns the
//! packets that go on here, and [`Worker::receive`] processes the packets of other workers.

use std::sync::Arc;

use element::context::Emitted;
use element::{
    Batch, Call, Core, Cx, DropReason, Effects, Element, ElementId, OutputStream, Rights, Timestamp,
};
use packet::{Pool, PoolError};

use crate::clock::{ClockKind, RealClock};
use crate::configure::Configured;
use crate::control::Control;
use crate::exchange::{Arrival, Exchange};
use crate::former::Former;
use crate::graph_copy::{GraphCopy, Target};
use crate::handlers;
use crate::host::WorkerHost;
use crate::lateness::Lateness;
use crate::options::Options;
use crate::placement::{Origin, Way};
use crate::plan::Plan;
use crate::reload::{Reloads, Retiring};
use crate::saving::SaveProgress;
use crate::streams::Sink;
use crate::team::Team;
use crate::wakeups::Wakeups;

/// Returns the elements whose packets come from captures, in the order of the graph. The time stamps of their
/// packets set the trace clock.
pub(crate) fn captures(plan: &Plan) -> Vec<ElementId> {
    (0..plan.len()).filter(|&id| plan.classes[id].notes.follows_captures).collect()
}

/// The maximum number of work items and pushes that one call of an element by the driver may cause. Beyond
/// it, packets are assumed to go in circles, and are dropped.
pub(crate) const MOST_WORK: u64 = 4_000_000;

/// A worker: its copy of the graph, and all state that is needed to run it on one thread.
pub struct Worker {
    pub(crate) core: Core,
    pub(crate) graph: GraphCopy,
    pub(crate) wakeups: Wakeups,
    pub(crate) control: Control,
    /// The part of this worker that takes part in reloads.
    pub(crate) reloads: Reloads,
    /// The generation of the graph before the current one, until its last packet has left.
    pub(crate) retiring: Option<Retiring>,
    /// Packets of the old graph that have come to an element with an heir in the new graph, and the heir's
    /// input that they go to.
    pub(crate) crossed: Vec<(Target, Batch)>,
    /// The counts of elements of earlier generations that have no heir.
    pub(crate) former: Former,
    /// The state that all workers share. `None` with a single worker.
    pub(crate) team: Option<Arc<Team>>,
    /// The exchange of packets with other workers. `None` with a single worker.
    pub(crate) exchange: Option<Exchange>,
    /// Emitted items that are not delivered yet; the last of them is delivered next.
    work: Vec<Emitted>,
    pub(crate) options: Options,
    pub(crate) clock: RealClock,
    /// The driver script that last refused to stop the run, if there is one.
    pub(crate) manager: Option<ElementId>,
    /// The number of rounds of the driver so far, which wraps around.
    pub(crate) rounds: u64,
    /// The time at which a round of the driver last checked the files that elements wait for. Checks at the
    /// end of a sleep do not count.
    pub(crate) looked: Timestamp,
    /// The elements whose packets come from captures, in the order of the graph.
    pub(crate) captures: Vec<ElementId>,
    /// True if a task had work, or packets were received, since the last reading of the clock.
    pub(crate) has_worked: bool,
    /// The time in nanoseconds for which this worker has worked on tasks, if it is the only worker. Of
    /// several workers, the exchange has this time.
    pub(crate) busy: u64,
    /// The measured lateness of this worker's sleeps.
    pub(crate) lateness: Lateness,
    /// The progress of this worker in writing its state for a restart.
    pub(crate) saved: SaveProgress,
    /// Memory that is released when elements are drained at the end of the run. So elements can be closed and
    /// the report written even if packets have used up all memory.
    pub(crate) reserve: Vec<u8>,
}

/// The size of [`Worker::reserve`] in bytes, and the bytes that are added to it for each element.
const RESERVE: usize = 64 << 10;
const RESERVE_EACH: usize = 256;

impl Worker {
    /// Makes a worker from configured elements. Adds a packet pool, a clock, and `sink`, the output for the
    /// text of the run.
    ///
    /// # Errors
    /// If the memory is too small for a packet pool, or the system refuses it.
    pub fn new(
        plan: Arc<Plan>,
        configured: Configured,
        sink: Box<dyn Sink>,
        mut options: Options,
    ) -> Result<Worker, PoolError> {
        let mut pool = Pool::new(options.memory)?;
        pool.use_annotations(configured.facts.annotations_used);
        let captures = captures(&plan);
        let reserve = Vec::with_capacity(RESERVE + RESERVE_EACH * plan.len());
        let worker = configured.setup.worker;
        let text = std::mem::take(&mut options.text);
        let (mut graph, per_graph) = GraphCopy::new(plan, configured);
        if let Some(traces) = options.traces.as_ref().filter(|traces| traces.is_active()) {
            graph.trace(traces);
        }
        let wakeups = Wakeups::new(&graph.plan, &graph.setup);
        let mut control = Control::new(sink, text);
        control.clicks_words = options.clicks_words;
        control.is_simulated = options.clock != ClockKind::Real;
        control.traces = options.traces.clone();
        control.captures = options.captures.clone();
        control.recomposer = options.recomposer.take();
        let reloads = Reloads::new(options.rebuild.take());
        let mut core = Core::new(
            pool,
            per_graph.outputs,
            per_graph.facts,
            options.burst,
            options.seed.wrapping_add(worker as u64),
        );
        core.follows_captures = options.clock == ClockKind::Trace;
        if options.clock == ClockKind::Real {
            core.hide_hash_seed();
        }
        let clock = RealClock::new();
        let mut worker = Worker {
            core,
            graph,
            wakeups,
            control,
            reloads,
            retiring: None,
            crossed: Vec::new(),
            former: Former::default(),
            team: None,
            exchange: None,
            work: Vec::with_capacity(64),
            options,
            clock,
            manager: None,
            rounds: 0,
            looked: Timestamp::ZERO,
            captures,
            has_worked: false,
            busy: 0,
            lateness: Lateness::default(),
            saved: SaveProgress::default(),
            reserve,
        };
        worker.core.now = match worker.options.clock {
            ClockKind::Real => worker.clock.now(),
            ClockKind::Trace => element::Timestamp::ZERO,
            ClockKind::Simulated { start, .. } => start,
        };
        Ok(worker)
    }

    /// Returns the plan of the graph.
    pub fn plan(&self) -> &Plan {
        &self.graph.plan
    }

    /// Returns the declared effects of the elements, indexed by element number.
    pub fn effects(&self) -> &[Effects] {
        &self.graph.effects
    }

    /// Returns the worker's [`Core`], the state that is used for every packet or batch, for tests and
    /// benchmarks.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the worker's [`Core`], and the other parts of the worker that are in use while an element is
    /// called.
    #[inline]
    pub(crate) fn host(&mut self) -> (&mut Core, WorkerHost<'_>) {
        let Worker { core, graph, wakeups, control, team, reloads, exchange, former, busy, .. } = self;
        (core, WorkerHost { graph, wakeups, control, team, reloads, exchange, former, busy: *busy })
    }

    /// Calls an element. Returns `None`, without a call, if the element is being called already.
    #[inline]
    pub(crate) fn call<R>(
        &mut self,
        id: ElementId,
        call: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let (core, mut host) = self.host();
        host.call(core, id, call)
    }

    /// Delivers everything that was emitted, depth first: what an element emits is delivered, in the
    /// order of emission, before anything that was already waiting.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.settle_within(MOST_WORK);
    }

    /// Like [`settle`](Self::settle), for at most `most` work items and pushes. Beyond that, packets are
    /// dropped at the element that they come to next.
    #[inline]
    pub(crate) fn settle_within(&mut self, most: u64) {
        let mut done = 0u64;
        loop {
            let next = match self.core.emitted.pop() {
                None => self.work.pop(),
                // The usual case: a single item, which is delivered without being put on the work list.
                Some(only) if self.core.emitted.is_empty() => Some(only),
                Some(last) => {
                    // The emitted items are moved from the end of `emitted` to the end of the work list, so
                    // that the item that was emitted first is delivered first.
                    self.work.push(last);
                    while let Some(emitted) = self.core.emitted.pop() {
                        self.work.push(emitted);
                    }
                    self.work.pop()
                }
            };
            let Some(next) = next else { return };
            done += 1;
            match next {
                Emitted::Packets { element, output, batch } => {
                    done += self.deliver(element, output, batch, done > most);
                }
                Emitted::Over { element, input, worker, batch } => {
                    let way = worker.map_or(Way::ToOwner, Way::To);
                    done += self.send_to_copies(Target { element, input, way }, batch, done > most);
                }
                Emitted::Back { element, token } => {
                    self.call(element as usize, |element, cx| element.timer(cx, token));
                }
                Emitted::Call { element, call } => {
                    self.write_emitted(element, &call);
                }
            }
        }
    }

    /// Writes the handler of a call that the element `caller` has emitted. An error is written as a
    /// message.
    fn write_emitted(&mut self, caller: u32, call: &Call) {
        let (core, mut host) = self.host();
        let Call { element, handler, value, rights } = call;
        if let Err(reason) = host.write_handler(core, *element, handler, value, rights) {
            let name = &self.graph.plan.graph.elements[caller as usize].name;
            self.control.sink.write(OutputStream::Messages, format_args!("{name}: {handler}: {reason}\n"));
        }
    }

    /// Delivers a batch that an element has emitted at an output. Returns the number of elements that were
    /// called. If `endless`, packets go in circles, and the batch is dropped at the next element. Without a
    /// connection, it is dropped at the emitting element.
    #[inline]
    fn deliver(&mut self, element: u32, output: u32, batch: Batch, endless: bool) -> u64 {
        let Some(at) = self.graph.target(element, output) else {
            // The batch was counted as emitted, and now counts as dropped.
            self.core.counters[element as usize].emitted -= batch.len() as u64;
            self.core.drop_batch(element as usize, batch, DropReason::NoOutput);
            return 0;
        };
        self.push_on(element, at, batch, endless)
    }

    /// Pushes a batch into its target, then the packets that this element returns along the connection of its
    /// output 0, and so on. Ends when no packet is left at this worker, or when an element has emitted other
    /// items. `from` is the element that has emitted the batch; it matters only if the batch may go to other
    /// workers. If `endless`, the batch is dropped at its target, because packets go in circles. Returns the
    /// number of elements that were called.
    #[inline]
    fn push_on(&mut self, mut from: u32, mut at: Target, mut batch: Batch, endless: bool) -> u64 {
        let Worker { core, graph, wakeups, control, team, reloads, exchange, former, busy, crossed, .. } =
            self;
        let mut host = WorkerHost { graph, wakeups, control, team, reloads, exchange, former, busy: *busy };
        let mut hops = 0;
        loop {
            let id = at.element as usize;
            if at.way != Way::Here {
                if at.way == Way::Heir {
                    crossed.push((at, batch));
                    return hops;
                }
                if let Some(exchange) = host.exchange {
                    let origin = host.graph.placement.origin(from as usize);
                    match exchange.send(core, (from, origin), at, batch) {
                        Some(rest) => batch = rest,
                        None => return hops,
                    }
                }
            }
            core.counters[id].arrived += batch.len() as u64;
            if endless || hops > MOST_WORK {
                core.drop_batch(id, batch, DropReason::Loop);
                return hops;
            }
            hops += 1;
            let Some(rest) = host.push(core, id, at.input as usize, batch) else {
                return hops;
            };
            if core.emitted.is_empty()
                && !rest.is_empty()
                && let Some(next) = host.graph.target(at.element, 0)
            {
                core.counters[id].emitted += rest.len() as u64;
                (from, at, batch) = (at.element, next, rest);
                continue;
            }
            // If the element has emitted anything in this call, the rest of the batch has to be delivered
            // after that, so the rest is emitted, too. It is dropped if output 0 has no connection, and
            // recycled if it is empty.
            Cx::new(core, &mut host, id).emit(0, rest);
            return hops;
        }
    }

    /// Sends packets that have arrived at an element to the element's copies at other workers. Pushes the
    /// packets that stay into the copy at this worker. Returns the number of elements that were called.
    #[cold]
    pub(crate) fn send_to_copies(&mut self, to: Target, batch: Batch, endless: bool) -> u64 {
        // Packets that come from another graph may be anywhere, although the element's own packets are at
        // their home.
        let origin = Origin { is_framed: false, ..self.graph.placement.origin(to.element as usize) };
        let here = match &mut self.exchange {
            Some(exchange) => exchange.send_to_copies(&mut self.core, origin, to, batch),
            None => Some(batch),
        };
        here.map_or(0, |batch| self.push_on(to.element, Target { way: Way::Here, ..to }, batch, endless))
    }

    /// Processes packets that other workers have handed over. True if there were any, or if packets still
    /// wait. With `ends`, the run is at its end, and the packets that are left go in circles between workers.
    /// Then packets do not wait for packets that precede them in order, and packets from the rings are
    /// dropped at the element that they come to.
    #[inline]
    pub(crate) fn receive(&mut self, ends: bool) -> bool {
        if self.retiring.is_some() {
            self.serve_retiring();
        }
        self.receive_current(ends)
    }

    /// Like [`receive`](Self::receive), for packets of the current generation of the graph alone.
    #[inline]
    pub(crate) fn receive_current(&mut self, ends: bool) -> bool {
        self.exchange.as_mut().is_some_and(Exchange::poll) && self.receive_all(ends)
    }

    fn receive_all(&mut self, ends: bool) -> bool {
        self.set_idle(false);
        let mut came = false;
        loop {
            let hurries = self.has_timer_due();
            let Some(exchange) = &mut self.exchange else { return came };
            let Some(arrival) = exchange.receive(&mut self.core, hurries, ends) else {
                return came | exchange.has_waiting(ends);
            };
            let Arrival { to, batch, has_waited } = arrival;
            let ends = ends && !has_waited;
            came = true;
            self.has_worked = true;
            self.push_on(to.element, self.graph.arrival(to), batch, ends);
            self.settle_within(if ends { 0 } else { MOST_WORK });
            self.look_at_clock();
        }
    }

    /// Tells the team, if there is one, that this worker is idle or is not idle any more.
    pub(crate) fn set_idle(&self, idle: bool) {
        if let (Some(team), Some(exchange)) = (&self.team, &self.exchange) {
            match idle {
                true => team.begin_idle(self.graph.worker(), exchange.moved()),
                false => team.quiet.end_idle(self.graph.worker()),
            }
        }
    }

    /// Runs the task of an element, and delivers what it emits. True if the task had work.
    #[inline]
    pub(crate) fn run_task(&mut self, id: ElementId) -> bool {
        self.wakeups.begin_task(id);
        let worked = self.call(id, |element, cx| element.run(cx));
        self.settle();
        self.wakeups.end_task();
        self.has_worked |= worked.unwrap_or(false);
        worked.unwrap_or(false)
    }

    /// Reads a handler for a caller outside of the graph. `element` is `None` for a handler of the graph.
    ///
    /// # Errors
    /// If the handler does not exist, cannot be read, or reports an error: a message for the user.
    pub fn read(&mut self, element: Option<ElementId>, handler: &str, param: &str) -> Result<String, String> {
        let (core, mut host) = self.host();
        let result = host.read_handler(core, element, handler, param);
        self.settle();
        result
    }

    /// Reads a handler at this worker only, as [`read`](Self::read) does for all workers.
    pub(crate) fn read_here(
        &mut self,
        element: Option<ElementId>,
        handler: &str,
        param: &str,
    ) -> Result<String, String> {
        let (core, mut host) = self.host();
        let result = host.read_here(core, element, handler, param);
        self.settle();
        result
    }

    /// Writes a handler at this worker only, with the rights of the caller, as [`write`](Self::write) does
    /// for all workers.
    pub(crate) fn write_here(
        &mut self,
        element: Option<ElementId>,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        let (core, mut host) = self.host();
        let result = host.write_here(core, element, handler, value, rights);
        self.settle();
        result
    }

    /// Writes a handler for a caller outside of the graph. `element` is `None` for a handler of the graph.
    ///
    /// # Errors
    /// If the handler does not exist, cannot be written, or reports an error: a message for the user.
    pub fn write(&mut self, element: Option<ElementId>, handler: &str, value: &str) -> Result<(), String> {
        let (core, mut host) = self.host();
        let result = host.write_handler(core, element, handler, value, &Rights::default());
        self.settle();
        result
    }

    /// Returns true if a handler can be read, false if it can only be written, and `None` if it does not
    /// exist.
    pub fn can_read(&self, element: Option<ElementId>, handler: &str) -> Option<bool> {
        let watchers = handlers::Watchers::of(&self.control);
        handlers::access(&self.graph, &self.reloads, self.team.as_deref(), watchers, element, handler)
            .map(|access| access.read)
    }

    /// Writes out the text of messages, handlers and `Print` that the run's [`Sink`] still buffers.
    pub fn flush(&mut self) {
        self.control.sink.flush();
    }
}
