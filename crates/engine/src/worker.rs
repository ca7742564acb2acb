//! One thread's copy of a graph, and the work list that moves packets through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use element::context::Emitted;
use element::{Batch, Call, Core, Cx, DropReason, Effects, ElementId, Rights, Stream, Timestamp};
use packet::{Pool, PoolError};

use crate::clock::{ClockKind, RealClock};
use crate::configure::Configured;
use crate::handover::Links;
use crate::host::{Inner, Target};
use crate::hotconfig::Rebuild;
use crate::placement::Way;
use crate::plan::Plan;
use crate::requests::Requests;
use crate::rest::Lateness;
use crate::streams::Sink;

/// The longest that workers stay awake before a timer is due, where nobody says. Most sleeps are less late than that.
const SPIN: Duration = Duration::from_micros(200);

/// How a worker runs.
pub struct Options {
    /// What drives time.
    pub clock: ClockKind,
    /// Most packets per batch that sources make.
    pub burst: usize,
    /// Address space for packets, in bytes.
    pub memory: usize,
    /// Seed of random numbers.
    pub seed: u64,
    /// Whether workers look for work without ever sleeping: quickest to answer, and a core each even when idle.
    pub busy_poll: bool,
    /// The longest that a worker stays awake before a timer is due, because sleeps end late; with zero it sleeps until then.
    pub spin: Duration,
    /// Under the captures' time: how long timers run between one packet of a capture and the next one. In a longer gap, which a
    /// damaged time stamp makes, time jumps to the next packet then.
    pub max_gap: Duration,
    /// Whether a run ends when no task is scheduled and no timer set. Click's own driver waits for ever.
    pub ends_when_idle: bool,
    /// Set from outside (by a signal handler) to end the run.
    pub interrupt: Arc<AtomicBool>,
    /// Requests by signals that do not end a run.
    pub requests: Requests,
    /// The text of the configuration, for the handler `config`; if empty, the flat configuration stands in.
    pub text: String,
    /// Makes the graph that the handler `hotconfig` asks for; without it there is no such handler.
    pub rebuild: Option<Rebuild>,
    /// Kept at the number of packets that have entered the graph, for whoever shows progress.
    pub progress: Arc<AtomicU64>,
}

impl Options {
    /// The same without what only one worker can have.
    pub(crate) fn clone_for_copy(&self) -> Options {
        Options {
            clock: self.clock,
            burst: self.burst,
            memory: self.memory,
            seed: self.seed,
            busy_poll: self.busy_poll,
            spin: self.spin,
            max_gap: self.max_gap,
            ends_when_idle: self.ends_when_idle,
            interrupt: Arc::clone(&self.interrupt),
            requests: self.requests.clone(),
            text: String::new(),
            rebuild: None,
            progress: Arc::clone(&self.progress),
        }
    }
}

/// A gap between packets of captures that is said, and the longest in which timers run where nothing else is asked for.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: ClockKind::Real,
            burst: 32,
            memory: 4 << 30,
            seed: 1,
            busy_poll: false,
            spin: SPIN,
            max_gap: DAY,
            ends_when_idle: true,
            interrupt: Arc::default(),
            requests: Requests::default(),
            text: String::new(),
            rebuild: None,
            progress: Arc::default(),
        }
    }
}

/// Elements that follow captures, in the order of the graph.
pub(crate) fn captures(plan: &Plan) -> Vec<ElementId> {
    (0..plan.len()).filter(|&id| plan.classes[id].notes.follows_captures).collect()
}

/// Work items that one call of a task or timer may lead to before packets are taken to go in circles.
pub(crate) const MOST_WORK: u64 = 4_000_000;

/// A running copy of a graph.
pub struct Worker {
    pub(crate) core: Core,
    pub(crate) inner: Inner,
    pub(crate) options: Options,
    pub(crate) clock: RealClock,
    /// The driver script that has kept the run from ending, if there is one.
    pub(crate) manager: Option<ElementId>,
    /// What has been emitted and not yet been delivered, next one last.
    work: Vec<Emitted>,
    /// Rounds of the driver so far.
    pub(crate) rounds: u64,
    /// When it has looked last at the files that elements wait for.
    pub(crate) looked: Timestamp,
    /// Elements that follow captures, in the order of the graph.
    pub(crate) captures: Vec<ElementId>,
    /// The rings to and from other workers, if there are any.
    pub(crate) links: Option<Links>,
    /// Whether there was work since the last look at the clock.
    pub(crate) has_worked: bool,
    /// The lateness of sleeps so far.
    pub(crate) lateness: Lateness,
    /// Memory that is given back when the run ends, so that it can be closed and reported also where packets have left none.
    pub(crate) reserve: Vec<u8>,
}

/// Bytes of that memory, and more for each element.
const RESERVE: usize = 64 << 10;
const RESERVE_EACH: usize = 256;

impl Worker {
    /// Gives configured elements a pool, a clock and a place to write to.
    ///
    /// # Errors
    /// If the pool cannot be had.
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
        let (mut inner, graph) = Inner::new(plan, configured, sink, text);
        inner.rebuild = options.rebuild.take();
        let mut core = Core::new(
            pool,
            graph.outputs,
            graph.facts,
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
            inner,
            options,
            clock,
            manager: None,
            work: Vec::with_capacity(64),
            rounds: 0,
            looked: Timestamp::ZERO,
            captures,
            links: None,
            has_worked: false,
            lateness: Lateness::default(),
            reserve,
        };
        worker.core.now = match worker.options.clock {
            ClockKind::Real => worker.clock.now(),
            ClockKind::Trace => element::Timestamp::ZERO,
            ClockKind::Simulated { start, .. } => start,
        };
        Ok(worker)
    }

    /// The graph.
    pub fn plan(&self) -> &Plan {
        &self.inner.plan
    }

    /// What the elements declare.
    pub fn effects(&self) -> &[Effects] {
        &self.inner.effects
    }

    /// The hot state, for tests and benchmarks.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Delivers everything that was emitted, depth first: what an element emits is delivered, in the order of
    /// emission, before anything that was waiting.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.settle_within(MOST_WORK);
    }

    /// The same with another bound on the work that it may be; beyond it packets are dropped where they come to.
    #[inline]
    pub(crate) fn settle_within(&mut self, most: u64) {
        let mut done = 0u64;
        loop {
            let next = match self.core.emitted.pop() {
                None => self.work.pop(),
                // The usual case: one batch goes straight on.
                Some(only) if self.core.emitted.is_empty() => Some(only),
                Some(last) => {
                    // Taken from the end, so that what was emitted first lies on top.
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
                    done += self.send_over(Target { element, input, way }, batch, done > most);
                }
                Emitted::Back { element, token } => {
                    let back = |element: &mut dyn element::Element, cx: &mut element::Cx<'_>| {
                        element.timer(cx, token);
                    };
                    self.inner.call(&mut self.core, element as usize, back);
                }
                Emitted::Call { element, call } => {
                    let Call { element: to, handler, value, rights } = &*call;
                    let result = self.inner.write_handler(&mut self.core, *to, handler, value, rights);
                    if let Err(reason) = result {
                        let name = &self.inner.plan.graph.elements[element as usize].name;
                        let text = format_args!("{name}: {}: {reason}\n", call.handler);
                        self.inner.sink.write(Stream::Messages, text);
                    }
                }
            }
        }
    }

    /// Hands a batch to what is connected, and what comes back to what is connected to that, until it is used
    /// up or something else was emitted before it. How many elements it went through.
    #[inline]
    fn deliver(&mut self, element: u32, output: u32, batch: Batch, endless: bool) -> u64 {
        let Some(at) = self.inner.target(element, output) else {
            // It was counted as emitted, and now ends as dropped.
            self.core.counters[element as usize].emitted -= batch.len() as u64;
            self.core.drop_batch(element as usize, batch, DropReason::NoOutput);
            return 0;
        };
        self.go(element, at, batch, endless)
    }

    /// The same behind the element `from`, once it is known what is connected.
    #[inline]
    fn go(&mut self, mut from: u32, mut at: Target, mut batch: Batch, endless: bool) -> u64 {
        let mut hops = 0;
        loop {
            let id = at.element as usize;
            if at.way != Way::Here {
                match self.hand_over(from, at, batch) {
                    Some(rest) => batch = rest,
                    None => return hops,
                }
                if let (Way::To(_), Some(links)) = (at.way, &mut self.links)
                    && let (me, Some(order)) = (links.me, &mut links.order)
                {
                    order.wait(me, at, &mut batch, self.core.now);
                }
            }
            self.core.counters[id].arrived += batch.len() as u64;
            if endless || hops > MOST_WORK {
                self.core.drop_batch(id, batch, DropReason::Loop);
                return hops;
            }
            hops += 1;
            let Some(rest) = self.inner.push(&mut self.core, id, at.input as usize, batch) else {
                return hops;
            };
            if self.core.emitted.is_empty()
                && !rest.is_empty()
                && let Some(next) = self.inner.target(at.element, 0)
            {
                self.core.counters[id].emitted += rest.len() as u64;
                (from, at, batch) = (at.element, next, rest);
                continue;
            }
            // It waits behind what was emitted before it, if it goes anywhere at all.
            Cx::new(&mut self.core, &mut self.inner, id).emit(0, rest);
            return hops;
        }
    }

    /// Hands packets over to the workers that they have to go to; gives back those that stay.
    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, from: u32, at: Target, mut batch: Batch) -> Option<Batch> {
        let Some(links) = &mut self.links else { return Some(batch) };
        let Core { counters, pool, facts, now, .. } = &mut self.core;
        if !facts.flow_marks.is_empty() {
            // What this worker calls a flow means nothing to another one.
            batch.iter_mut().for_each(|packet| packet.set_flow_mark(None));
        }
        let lost = |packet| {
            counters[from as usize].lose(DropReason::WorkerBusy);
            pool.free(packet);
        };
        let origin = self.inner.placement.origin(from as usize);
        links.sort(&mut batch, at, origin, *now, lost);
        if batch.is_empty() {
            self.core.recycle(batch);
            return None;
        }
        Some(batch)
    }

    /// Hands packets that an element was given to its copies at other workers.
    #[cold]
    fn send_over(&mut self, at: Target, batch: Batch, endless: bool) -> u64 {
        let element = at.element;
        let count = batch.len() as u64;
        // Those that get lost have come in here, and nowhere else.
        let counters = &mut self.core.counters[element as usize];
        (counters.arrived, counters.emitted) = (counters.arrived + count, counters.emitted + count);
        let before = counters.emitted;
        if let (Way::ToOwner, Some(links)) = (at.way, &self.links) {
            links.count_home(count);
        }
        let here = self.hand_over(element, at, batch);
        let counters = &mut self.core.counters[element as usize];
        let lost = before - counters.emitted;
        (counters.arrived, counters.emitted) =
            (counters.arrived - (count - lost), counters.emitted - (count - lost));
        here.map_or(0, |batch| self.go(element, Target { way: Way::Here, ..at }, batch, endless))
    }

    /// Takes in what other workers have handed over, and goes on with it; whether there was anything.
    #[inline]
    pub(crate) fn import(&mut self) -> bool {
        match &mut self.links {
            None => false,
            Some(links) => {
                links.push_waiting();
                links.look();
                links.has_work() && self.import_all(false)
            }
        }
    }

    /// Where order is kept: lets packets out of windows that nobody has to wait for any more, or all; whether there were any.
    fn let_out(&mut self, all: bool) -> bool {
        let mut has_left = false;
        loop {
            let mut batch = self.core.batch();
            let now = self.core.now;
            let order = self.links.as_mut().and_then(|links| links.order.as_mut());
            let to = order.and_then(|order| order.release(now, all, &mut batch));
            let Some(to) = to else {
                self.core.recycle(batch);
                return has_left;
            };
            has_left = true;
            self.go(to.element, Target { way: Way::Here, ..to }, batch, false);
            self.settle();
        }
    }

    /// The same at the end of a run: packets that go in circles are dropped where they come to, if this is to end.
    pub(crate) fn import_last(&mut self, ends: bool) -> bool {
        if let Some(links) = &mut self.links {
            links.push_waiting();
        }
        self.import_all(ends)
    }

    fn import_all(&mut self, ends: bool) -> bool {
        let Some(links) = &mut self.links else { return false };
        links.count_arrivals();
        links.tell();
        if let Some(order) = &mut links.order {
            order.look();
        }
        let workers = links.workers();
        let mut sent_home = links.ripe();
        self.set_idle(false);
        let mut came = !sent_home.is_empty();
        for from in 0..workers {
            let burst = self.core.burst;
            let links = self.links.as_ref();
            let all = !sent_home.is_empty() || links.is_some_and(|links| links.order.is_some());
            let mut most = links.map_or(0, |links| links.most(from, all, burst));
            while most > 0 {
                let mut batch = self.core.batch();
                let Some(links) = &mut self.links else { break };
                let Some(to) = links.take(from, burst.min(most), &mut batch) else {
                    self.core.recycle(batch);
                    break;
                };
                came = true;
                most -= batch.len();
                self.has_worked = true;
                match to.way {
                    Way::ToOwner if links.spreads() => links.keep(from, to, batch),
                    _ => self.take_in(from, to, batch, ends),
                }
                if !all {
                    self.look_at_clock();
                    // A timer waits for one batch of each worker.
                    most = if self.has_timer_due() { 0 } else { most };
                }
            }
        }
        for (from, to, batch) in sent_home.drain(..) {
            self.take_in(from, to, batch, ends);
        }
        if let Some(links) = &mut self.links {
            links.reuse(sent_home);
            came |= links.keeps_some();
        }
        self.links.iter_mut().for_each(Links::tell);
        if let Some(order) = self.links.as_mut().and_then(|links| links.order.as_mut()) {
            // At the end nobody waits any more.
            came |= order.has_waiting() || !ends && order.has_to_tell();
            came |= self.let_out(ends);
        }
        came
    }

    /// Goes on with packets that another worker has handed over; they are where they have to be.
    fn take_in(&mut self, from: usize, to: Target, mut batch: Batch, ends: bool) {
        if let Some(order) = self.links.as_mut().and_then(|links| links.order.as_mut()) {
            order.take(from, to, &batch);
            if let Way::To(_) = to.way {
                order.wait(from, to, &mut batch, self.core.now);
            }
        }
        self.go(to.element, Target { way: Way::Here, ..to }, batch, ends);
        self.settle_within(if ends { 0 } else { MOST_WORK });
        self.look_at_clock();
    }

    /// Tells the team whether there is anything to do here.
    pub(crate) fn set_idle(&self, idle: bool) {
        if let (Some(team), Some(links)) = (&self.inner.team, &self.links) {
            match idle {
                true => team.begin_idle(links.me, links.handed, links.taken),
                false => team.end_idle(links.me),
            }
        }
    }

    /// Runs one task.
    #[inline]
    pub(crate) fn fire(&mut self, id: ElementId) -> bool {
        let worked = self.inner.call(&mut self.core, id, |element, cx| element.run(cx));
        self.settle();
        self.has_worked |= worked.unwrap_or(false);
        worked.unwrap_or(false)
    }

    /// Reads a handler from outside the graph.
    ///
    /// # Errors
    /// What the user should know.
    pub fn read(&mut self, element: Option<ElementId>, handler: &str, param: &str) -> Result<String, String> {
        let result = self.inner.read_handler(&mut self.core, element, handler, param);
        self.settle();
        result
    }

    /// Reads a handler of this worker's copy.
    pub(crate) fn read_here(
        &mut self,
        element: Option<ElementId>,
        handler: &str,
        param: &str,
    ) -> Result<String, String> {
        let result = self.inner.read_here(&mut self.core, element, handler, param);
        self.settle();
        result
    }

    /// Writes a handler of this worker's copy.
    pub(crate) fn write_here(
        &mut self,
        element: Option<ElementId>,
        handler: &str,
        value: &str,
        rights: &Rights,
    ) -> Result<(), String> {
        let result = self.inner.write_here(&mut self.core, element, handler, value, rights);
        self.settle();
        result
    }

    /// Writes a handler from outside the graph.
    ///
    /// # Errors
    /// What the user should know.
    pub fn write(&mut self, element: Option<ElementId>, handler: &str, value: &str) -> Result<(), String> {
        let result = self.inner.write_handler(&mut self.core, element, handler, value, &Rights::default());
        self.settle();
        result
    }

    /// Whether a handler can be read.
    pub fn can_read(&self, element: Option<ElementId>, handler: &str) -> Option<bool> {
        self.inner.find_handler(element, handler).map(|access| access.read)
    }

    /// Lets all text out.
    pub fn flush(&mut self) {
        self.inner.sink.flush();
    }
}
