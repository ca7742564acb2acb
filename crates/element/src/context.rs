//! What an element can ask of the engine while it handles packets.
//!
//! [`Core`] is the worker's hot state: pool, time, emitted batches, counters; elements reach it through [`Cx`]
//! with plain function calls. Everything rarer goes through [`Host`], which the engine implements.

mod chance;
mod host;
mod lengths;
mod stand_in;
mod workers;

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lang::Severity;
use packet::{Batch, DropReason, Packet, Pool, Store, Timestamp};

use crate::ElementId;
use crate::args::Place;
use crate::facts::Facts;
use crate::rights::Rights;

pub use host::{Call, Host, Interest, Nearby, PlannedCall, Precision, Signal, Stream};
pub use lengths::Lengths;

/// Packets that went through one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came in through inputs.
    pub arrived: u64,
    /// Were made by the element: read from a file or an interface, copied, generated.
    pub made: u64,
    /// Left through outputs.
    pub emitted: u64,
    /// Left the graph: written to a file or an interface.
    pub sent: u64,
    /// Dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
}

impl Counters {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    /// What the element should hold: everything that came in or was made and has not gone.
    pub fn balance(&self) -> i128 {
        let gone = self.emitted as i128 + self.sent as i128 + self.dropped() as i128;
        self.arrived as i128 + self.made as i128 - gone
    }

    /// Counts a packet that was emitted but got nowhere as dropped.
    pub fn lose(&mut self, reason: DropReason) {
        self.emitted -= 1;
        self.drop(reason, 1);
    }

    /// The first drop for a reason. Without memory for it, packets count as dropped for the last one.
    #[cold]
    fn drop_first(&mut self, reason: DropReason, n: u64) {
        match self.drops.try_reserve(1) {
            Ok(()) => self.drops.push((reason, n)),
            Err(_) => self.drops.last_mut().into_iter().for_each(|(_, count)| *count += n),
        }
    }

    #[inline]
    fn drop(&mut self, reason: DropReason, n: u64) {
        match self.drops.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, count)) => *count += n,
            None => self.drop_first(reason, n),
        }
    }
}

/// What an element has handed to the engine, in order.
pub enum Emitted {
    /// A batch for an output of an element.
    Packets {
        /// Who emitted it.
        element: u32,
        /// Which output.
        output: u32,
        /// The packets.
        batch: Batch,
    },
    /// A batch for other workers' copies of an element.
    Over {
        /// Who sends it.
        element: u32,
        /// The input of the same element that it comes in by there.
        input: u32,
        /// The worker; without, each packet goes to the one that it belongs to.
        worker: Option<usize>,
        /// The packets.
        batch: Batch,
    },
    /// A handler to call, behind what was emitted before.
    Call {
        /// Who asked for it.
        element: u32,
        /// Which handler.
        call: Arc<Call>,
    },
    /// To come back to an element, behind what was emitted before.
    Back {
        /// Who asked for it.
        element: u32,
        /// What it gets.
        token: u32,
    },
}

/// A worker's hot state.
pub struct Core {
    /// Where packets come from and go back to.
    pub pool: Pool,
    /// Batch time.
    pub now: Timestamp,
    /// Most packets per batch that sources make.
    pub burst: usize,
    /// What was emitted since the engine last looked.
    pub emitted: Vec<Emitted>,
    /// Per element.
    pub counters: Vec<Counters>,
    /// Number of outputs, per element.
    pub outputs: Vec<u32>,
    /// What the declarations say together.
    pub facts: Facts,
    /// Whether time is that of captures.
    pub follows_captures: bool,
    /// Random numbers; seeded by the user, or fixed under the trace clock.
    pub random: fastrand::Rng,
    /// Seed of hashes of what others may choose: that of random numbers, or one that nobody can know.
    pub hash_seed: u64,
    /// See [`Cx::is_repeatable`].
    pub is_repeatable: bool,
    /// See [`Cx::rights`].
    pub rights: Rights,
    /// The last number of [`Cx::next_series`].
    pub(crate) series: u32,
    /// Empty batches to be used again.
    spare: Vec<Batch>,
}

/// What of a worker's hot state belongs to its graph.
pub struct PerGraph {
    /// See [`Core::emitted`].
    pub emitted: Vec<Emitted>,
    /// See [`Core::counters`].
    pub counters: Vec<Counters>,
    /// See [`Core::outputs`].
    pub outputs: Vec<u32>,
    /// See [`Core::facts`].
    pub facts: Facts,
}

/// A number that nobody can know: what secret hashes and keys are made from.
pub fn secret() -> u64 {
    // A random number generator that is not made for it tells from one number which ones follow, and when it was begun.
    RandomState::new().hash_one(())
}

impl PerGraph {
    /// The state of a graph whose elements have these numbers of outputs.
    pub fn new(outputs: Vec<u32>, facts: Facts) -> PerGraph {
        // There is always room for a reason to drop packets for.
        let fresh = || Counters { drops: Vec::with_capacity(2), ..Counters::default() };
        let counters = outputs.iter().map(|_| fresh()).collect();
        // Room for what one call emits, so that nothing grows while packets flow.
        PerGraph { emitted: Vec::with_capacity(64), counters, outputs, facts }
    }
}

impl Core {
    /// Goes on with another graph; what belongs to the one so far is given back in its place.
    pub fn exchange(&mut self, graph: &mut PerGraph) {
        std::mem::swap(&mut self.emitted, &mut graph.emitted);
        std::mem::swap(&mut self.counters, &mut graph.counters);
        std::mem::swap(&mut self.outputs, &mut graph.outputs);
        std::mem::swap(&mut self.facts, &mut graph.facts);
    }

    /// The state of a worker whose graph has elements with these numbers of outputs.
    pub fn new(pool: Pool, outputs: Vec<u32>, facts: Facts, burst: usize, seed: u64) -> Core {
        let PerGraph { emitted, counters, outputs, facts } = PerGraph::new(outputs, facts);
        let random = fastrand::Rng::with_seed(seed);
        Core {
            pool,
            now: Timestamp::ZERO,
            burst,
            emitted,
            counters,
            outputs,
            facts,
            follows_captures: false,
            random,
            hash_seed: seed,
            is_repeatable: true,
            rights: Rights::default(),
            series: 0,
            // Enough for most graphs; others make theirs while they warm up.
            spare: (0..16).map(|_| Batch::new()).collect(),
        }
    }

    /// Makes hashes different from those of every other run, so that nobody can choose keys that collide.
    pub fn hide_hash_seed(&mut self) {
        self.hash_seed = secret();
        self.is_repeatable = false;
    }

    /// An empty batch.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes an empty batch back.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        debug_assert!(batch.is_empty());
        self.spare.push(batch);
    }

    /// Drops all packets of a batch on behalf of an element.
    pub fn drop_batch(&mut self, element: ElementId, mut batch: Batch, reason: DropReason) {
        if !batch.is_empty() {
            self.counters[element].drop(reason, batch.len() as u64);
            self.pool.free_all(&mut batch);
        }
        self.recycle(batch);
    }
}

/// The context of one call to one element.
pub struct Cx<'a> {
    core: &'a mut Core,
    host: &'a mut dyn Host,
    id: ElementId,
}

impl<'a> Cx<'a> {
    /// For the engine: the context of a call to element `id`.
    #[inline]
    pub fn new(core: &'a mut Core, host: &'a mut dyn Host, id: ElementId) -> Cx<'a> {
        Cx { core, host, id }
    }

    /// Batch time.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.now
    }

    /// Number of the element.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Most packets per batch that sources make.
    pub fn burst(&self) -> usize {
        self.core.burst
    }

    /// What the declarations of the whole graph say together.
    pub fn facts(&self) -> &Facts {
        &self.core.facts
    }

    /// Whether anybody looks at an annotation byte of packets that leave by an output. What nobody looks at need not be written.
    pub fn annotation_seen(&self, output: usize, byte: u8) -> bool {
        let seen = self.core.facts.annotations_seen.get(self.id).and_then(|outputs| outputs.get(output));
        seen.is_none_or(|seen| seen.checked_shr(byte.into()).is_none_or(|seen| seen & 1 == 1))
    }

    /// Number of the element's outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.core.outputs[self.id] as usize
    }

    /// What has gone through the element so far.
    pub fn counters(&self) -> &Counters {
        &self.core.counters[self.id]
    }

    fn own(&mut self) -> &mut Counters {
        &mut self.core.counters[self.id]
    }

    /// Whether frames that the element emits may have something left for a device to do.
    pub fn may_offload(&self) -> bool {
        self.core.facts.offloads.get(self.id).copied().unwrap_or(false)
    }

    /// Whether packets that the element emits may stand for many segments: valid packets, but for being longer than any
    /// interface takes, whose annotations say how to cut them.
    pub fn may_merge(&self) -> bool {
        self.core.facts.large_segments.get(self.id).copied().unwrap_or(false)
    }

    /// Whether packets may come to the element in which something is left for a device to do.
    pub fn work_comes(&self) -> bool {
        self.core.facts.work_comes.get(self.id).copied().unwrap_or(false)
    }

    /// Whether the element shall mark the flows of packets, or may rely on the marks that packets come with; according to
    /// what it declares.
    pub fn uses_flow_marks(&self) -> bool {
        self.core.facts.flow_marks.get(self.id).copied().unwrap_or(false)
    }

    /// A number that the worker has given to nobody else: where ids of flows are to differ from those of others.
    pub fn next_series(&mut self) -> u32 {
        self.core.series = self.core.series.wrapping_add(1);
        self.core.series
    }

    // Packets out.

    /// Hands a batch to whoever is connected to an output. An output that does not exist drops it.
    #[inline]
    pub fn emit(&mut self, output: usize, batch: Batch) {
        if batch.is_empty() {
            return self.core.recycle(batch);
        }
        if output >= self.outputs() {
            return self.drop_all(batch, DropReason::NoOutput);
        }
        self.own().emitted += batch.len() as u64;
        self.core.emitted.push(Emitted::Packets { element: self.id as u32, output: output as u32, batch });
    }

    /// Hands one packet to an output; packets that follow each other to the same output become one batch. An
    /// output that does not exist drops it with the reason.
    pub fn emit_one(&mut self, output: usize, packet: Packet, otherwise: DropReason) {
        if output >= self.outputs() {
            return self.drop(packet, otherwise);
        }
        self.own().emitted += 1;
        let mut packet = packet;
        let burst = self.core.burst;
        if let Some(Emitted::Packets { element, output: last, batch }) = self.core.emitted.last_mut()
            && (*element as usize, *last as usize) == (self.id, output)
            && batch.len() < burst
        {
            match batch.push(packet) {
                Ok(()) => return,
                Err(back) => packet = back,
            }
        }
        let batch = self.batch_of(packet);
        self.core.emitted.push(Emitted::Packets { element: self.id as u32, output: output as u32, batch });
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.own().drop(reason, 1);
        self.core.pool.free(packet);
    }

    /// Drops all packets of a batch.
    #[inline]
    pub fn drop_all(&mut self, batch: Batch, reason: DropReason) {
        self.core.drop_batch(self.id, batch, reason);
    }

    /// Ends packets that were written to a file or an interface.
    pub fn sent(&mut self, mut batch: Batch) {
        self.own().sent += batch.len() as u64;
        self.core.pool.free_all(&mut batch);
        self.core.recycle(batch);
    }

    /// The pool, for devices that it is the memory of.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.core.pool
    }

    /// Counts packets that a device has put into the pool's slots: they were made here.
    #[inline]
    pub fn count_made(&mut self, n: usize) {
        self.own().made += n as u64;
    }

    /// Counts packets whose slots a device has taken: they were sent.
    #[inline]
    pub fn count_sent(&mut self, n: usize) {
        self.own().sent += n as u64;
    }

    /// Counts packets as dropped whose slots a device had and has given back.
    pub fn count_dropped(&mut self, n: usize, reason: DropReason) {
        if n > 0 {
            self.own().drop(reason, n as u64);
        }
    }

    // Packets in.

    /// Pulls at most `max` packets from an input.
    #[inline]
    pub fn pull(&mut self, input: usize, max: usize) -> Batch {
        self.host.pull(self.core, self.id, input, max)
    }

    /// An empty batch.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.core.batch()
    }

    /// A batch of one packet.
    pub fn batch_of(&mut self, packet: Packet) -> Batch {
        let mut batch = self.core.batch();
        // A fresh batch has room.
        if let Err(packet) = batch.push(packet) {
            self.drop(packet, DropReason::NoBuffer);
        }
        batch
    }

    /// Takes an empty batch back.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        self.core.recycle(batch);
    }

    /// Whether a packet of any size could be had now. Sources that read from outside look before they read.
    pub fn has_room(&mut self) -> bool {
        self.core.pool.has_room()
    }

    /// For [`Element::initialize`](crate::Element::initialize): whether an element of the same name and class is at work,
    /// whose place this one is to take, with its state. What it has need not be opened again.
    pub fn is_heir(&self) -> bool {
        self.predecessor().is_some()
    }

    /// For [`Element::initialize`](crate::Element::initialize): the arguments of the element whose place this one is to
    /// take, without their quotes.
    pub fn predecessor(&self) -> Option<&[String]> {
        self.host.predecessor(self.id)
    }

    /// Whether time is that of captures: sources then make batches of one time stamp, when it is due.
    pub fn follows_captures(&self) -> bool {
        self.core.follows_captures
    }

    /// A new packet with these bytes. `None`, with a drop counted, when the pool has no room.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        self.make(|core| core.pool.packet(bytes))
    }

    /// A copy of a packet in slots of its own. `None`, with a drop counted, when the pool has no room.
    #[inline]
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        self.make(|core| core.pool.copy(packet))
    }

    /// Packets on loan from a store, into a batch; how many. Fewer than asked for when one cannot be had now;
    /// nothing is counted for those, because a source can wait.
    #[inline]
    pub fn lend_into(&mut self, store: &mut Store, range: Range<usize>, batch: &mut Batch) -> usize {
        let lent = store.lend_into(range, &mut self.core.pool, batch);
        self.own().made += lent as u64;
        lent
    }

    /// Adds bytes behind a packet, in further slots where needed. `None`, with a drop counted, when the pool
    /// has no room.
    pub fn append(&mut self, packet: Packet, bytes: &[u8]) -> Option<Packet> {
        let packet = self.core.pool.append(packet, bytes);
        if packet.is_none() {
            self.own().drop(DropReason::NoBuffer, 1);
        }
        packet
    }

    fn make(&mut self, make: impl FnOnce(&mut Core) -> Option<Packet>) -> Option<Packet> {
        let packet = make(self.core);
        let own = self.own();
        own.made += 1;
        if packet.is_none() {
            own.drop(DropReason::NoBuffer, 1);
        }
        packet
    }

    /// A store for packets that are lent again and again, as the graph needs it.
    pub fn store(&self) -> Store {
        Store::new(self.core.facts.restore)
    }

    /// Puts a packet into a store; it counts as held. A packet on loan is copied, or dropped where it cannot be.
    pub fn keep(&mut self, store: &mut Store, packet: Packet) {
        if !store.insert(packet, &mut self.core.pool) {
            self.own().drop(DropReason::NoBuffer, 1);
        }
    }

    /// Gives all packets of a store back.
    pub fn release(&mut self, store: &mut Store, reason: DropReason) {
        let n = store.release(&mut self.core.pool);
        if n > 0 {
            self.own().drop(reason, n as u64);
        }
    }

    // Time, tasks, signals.

    /// Lets the element's task run again.
    #[inline]
    pub fn schedule(&mut self) {
        self.host.schedule(self.id, true);
    }

    /// Stops the element's task until somebody schedules it.
    pub fn unschedule(&mut self) {
        self.host.schedule(self.id, false);
    }

    /// The time of the next of many timers that are one interval apart, given the time of the last one: late timers do not add up.
    /// If that time lies more than a second back (the program was stopped, or time has jumped), the timers that were missed are
    /// left out, as in Click, and the next one is due one interval from now.
    pub fn due_again(&self, due: Timestamp, interval: Timestamp) -> Timestamp {
        let (next, now) = (due + interval, self.now());
        if next + Timestamp::from_secs(1) < now { now + interval } else { next }
    }

    /// Sets the element's timer `token` to run at a time; an earlier setting of the same token is replaced.
    pub fn set_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Exact)));
    }

    /// Sets a timer that may be late by what a sleep of the machine adds: no worker stays awake for it.
    pub fn set_coarse_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Coarse)));
    }

    /// Clears a timer.
    pub fn clear_timer(&mut self, token: u32) {
        self.host.set_timer(self.id, token, None);
    }

    /// Lets [`Element::ready`](crate::Element::ready) run whenever a file can be read or written; an earlier
    /// file of the same token is replaced.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn watch(&mut self, token: u32, file: BorrowedFd<'_>, interest: Interest) -> io::Result<()> {
        let file = file.try_clone_to_owned()?;
        self.host.watch(self.id, token, Some((file, interest)));
        Ok(())
    }

    /// Lets [`Element::os_signal`](crate::Element::os_signal) run when the process gets a signal, instead of what
    /// the signal does otherwise; or not any more.
    ///
    /// # Errors
    /// For a signal that cannot be waited for.
    pub fn on_os_signal(&mut self, number: i32, on: bool) -> io::Result<()> {
        self.host.on_os_signal(self.id, number, on)
    }

    /// Waits no longer for a file.
    pub fn unwatch(&mut self, token: u32) {
        self.host.watch(self.id, token, None);
    }

    /// Says whether the element has packets to pull, or room to push to.
    pub fn set_signal(&mut self, signal: Signal, on: bool) {
        self.host.set_signal(self.id, signal, on);
    }

    /// Whether pulling from an input may give packets.
    pub fn may_pull(&self, input: usize) -> bool {
        self.host.signal(self.id, Signal::Packets, input)
    }

    /// Whether there is room downstream of an output.
    pub fn may_push(&self, output: usize) -> bool {
        self.host.signal(self.id, Signal::Room, output)
    }

    /// Processor cycles, for meters; not reproducible.
    pub fn cycles(&self) -> u64 {
        self.host.cycles()
    }

    // Handlers and messages.

    /// Reads a handler now.
    ///
    /// # Errors
    /// What the user should know.
    pub fn read_handler(&mut self, call: &Call) -> Result<String, String> {
        self.host.read(self.core, self.id, call)
    }

    /// Writes a handler now.
    ///
    /// # Errors
    /// What the user should know.
    pub fn write_handler(&mut self, call: &Call) -> Result<(), String> {
        self.host.write(self.core, self.id, call)
    }

    /// What whoever has called the write handler at hand may have done. A file that a handler is told to write is
    /// created by its `files`.
    pub fn rights(&self) -> &Rights {
        &self.core.rights
    }

    /// Has an element write a handler of its own, as a call says.
    pub fn on_behalf<R>(&mut self, call: &Call, write: impl FnOnce(&mut Cx<'a>) -> R) -> R {
        let before = std::mem::replace(&mut self.core.rights, call.rights.clone());
        let result = write(self);
        self.core.rights = before;
        result
    }

    /// Writes a handler as soon as what the element has emitted so far has been dealt with.
    pub fn call_later(&mut self, call: &Arc<Call>) {
        self.core.emitted.push(Emitted::Call { element: self.id as u32, call: Arc::clone(call) });
    }

    /// Runs the element's timer function with this token as soon as what it has emitted so far, packets and handler
    /// calls, has been dealt with.
    pub fn come_back(&mut self, token: u32) {
        self.core.emitted.push(Emitted::Back { element: self.id as u32, token });
    }

    /// Whether a handler exists.
    pub fn has_handler(&self, call: &Call, write: bool) -> bool {
        self.host.has_handler(call, write)
    }

    /// Asks the driver to stop.
    pub fn stop(&mut self) {
        self.host.stop();
    }

    /// Writes text where users expect values.
    pub fn print(&mut self, text: fmt::Arguments<'_>) {
        self.host.print(Stream::Output, text);
    }

    /// Tells whoever runs the graph something about the element, in one line that begins with its name and class. On interfaces, its
    /// time and severity come first.
    pub fn tell(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        let name = self.declaration();
        self.host.print(Stream::Log(severity), format_args!("{name}: {text}\n"));
    }

    /// The same of something that is likely not to be meant, or that loses packets.
    pub fn warn(&mut self, text: fmt::Arguments<'_>) {
        self.tell(Severity::Warning, text);
    }

    /// The same of something that is good to know.
    pub fn note(&mut self, text: fmt::Arguments<'_>) {
        self.tell(Severity::Note, text);
    }

    /// The same in words that name the element themselves, as some of Click's do.
    pub fn remark(&mut self, severity: Severity, text: fmt::Arguments<'_>) {
        self.host.print(Stream::Log(severity), format_args!("{text}\n"));
    }

    /// Writes text as it stands where messages go: what users have asked for, such as printed packets.
    pub fn message(&mut self, text: fmt::Arguments<'_>) {
        self.host.print(Stream::Messages, text);
    }

    /// Where names in values are looked up.
    pub fn place(&self) -> Place<'_> {
        self.host.place(self.id)
    }

    /// The element's name.
    pub fn name(&self) -> &str {
        self.host.name(self.id).0
    }

    /// Another element's name.
    pub fn name_of(&self, element: ElementId) -> &str {
        self.host.name(element).0
    }

    /// `name :: Class`, as messages show it.
    pub fn declaration(&self) -> String {
        let (name, class) = self.host.name(self.id);
        format!("{name} :: {class}")
    }

    /// Whether an output is a push output.
    pub fn output_is_push(&self, output: usize) -> bool {
        self.host.is_push(self.id, true, output)
    }

    /// Whether an input is a push input.
    pub fn input_is_push(&self, input: usize) -> bool {
        self.host.is_push(self.id, false, input)
    }

    /// The service of type `T` that an element has published.
    pub fn service<T: Any + Send + Sync>(&self, element: ElementId) -> Option<Arc<T>> {
        self.host.service(element, std::any::TypeId::of::<T>()).and_then(|s| s.downcast().ok())
    }

    /// The services of type `T` of the nearest elements downstream (or upstream) that have published one.
    pub fn nearest_services<T: Any + Send + Sync>(&self, downstream: bool) -> Vec<(ElementId, Arc<T>)> {
        let found = self.host.nearest(self.id, downstream, std::any::TypeId::of::<T>());
        found.into_iter().filter_map(|(id, service)| Some((id, service.downcast().ok()?))).collect()
    }

    /// All elements that packets may come to that leave by an output. This follows the whole graph: for initialization.
    pub fn reached(&self, output: usize) -> std::collections::BTreeSet<ElementId> {
        self.host.reached(self.id, output)
    }

    /// What a port hears of a signal, for people: see [`Host::givers`].
    pub fn givers(&self, signal: Signal, port: usize) -> Option<Vec<(usize, bool)>> {
        self.host.givers(self.id, signal, port)
    }
}
