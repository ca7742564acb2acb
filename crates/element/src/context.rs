//! The requests that an element can make to the engine while it handles packets.
//!
//! [`Core`] is the worker's hot state: pool, time, emitted batches, counters; elements reach it through
//! [`Cx`] with plain function calls. Rarer requests go through [`Host`], which the engine implements.

mod accounts;
mod chance;
mod files;
mod graph;
mod handlers;
mod host;
mod lengths;
mod messages;
mod stand_in;
mod stores;
mod workers;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use lang::Severity;
use packet::{Batch, DropReason, Packet, Pool, Timestamp};

use crate::ElementId;
use crate::args::Place;
use crate::facts::Facts;
use crate::rights::Rights;

pub use accounts::Accounts;
pub use files::Files;
pub use graph::Graph;
pub use handlers::Handlers;
pub use host::{Call, Host, Interest, Nearby, PlannedCall, Precision, Signal, Stream};
pub use lengths::Lengths;
pub use messages::Messages;
pub use stores::Stores;
pub use workers::Workers;

/// The numbers of packets that went through one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in through inputs.
    pub arrived: u64,
    /// Packets that the element made: read from a file or an interface, copied, generated.
    pub made: u64,
    /// Packets that left through outputs.
    pub emitted: u64,
    /// Packets that left the graph: written to a file or an interface.
    pub sent: u64,
    /// Packets that were dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
}

impl Counters {
    /// Returns the number of packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, n)| n).sum()
    }

    /// Returns the number of packets that the element should hold: all that came in or were made and have
    /// not left.
    pub fn balance(&self) -> i128 {
        let gone = self.emitted as i128 + self.sent as i128 + self.dropped() as i128;
        self.arrived as i128 + self.made as i128 - gone
    }

    /// Counts a packet as dropped that was emitted but reached no element.
    pub fn lose(&mut self, reason: DropReason) {
        self.emitted -= 1;
        self.drop(reason, 1);
    }

    /// Counts the first drop for a reason. If there is no memory for the entry, the packets count as
    /// dropped for the reason of the last entry.
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

/// An item that an element has handed to the engine. The engine processes items in order.
pub enum Emitted {
    /// A batch for an output of an element.
    Packets {
        /// The element that emitted it.
        element: u32,
        /// The output.
        output: u32,
        /// The packets.
        batch: Batch,
    },
    /// A batch for other workers' copies of an element.
    Over {
        /// The element that sends it.
        element: u32,
        /// The input of the other copies by which it comes in.
        input: u32,
        /// The worker. `None` sends each packet to the worker that it belongs to.
        worker: Option<usize>,
        /// The packets.
        batch: Batch,
    },
    /// A handler to call after the earlier items.
    Call {
        /// The element that asked for the call.
        element: u32,
        /// The call.
        call: Arc<Call>,
    },
    /// A request to run the element's timer function after the earlier items.
    Back {
        /// The element that asked for it.
        element: u32,
        /// The token that the timer function gets.
        token: u32,
    },
}

/// The hot state of a worker.
pub struct Core {
    /// The pool that packets come from and return to.
    pub pool: Pool,
    /// The batch time: the time of the current batch.
    pub now: Timestamp,
    /// The largest number of packets per batch that sources make.
    pub burst: usize,
    /// The items that elements have emitted since the engine last took them.
    pub emitted: Vec<Emitted>,
    /// The counters of each element.
    pub counters: Vec<Counters>,
    /// The number of outputs of each element.
    pub outputs: Vec<u32>,
    /// The summary of all declarations.
    pub facts: Facts,
    /// True if the time is the time of captures.
    pub follows_captures: bool,
    /// The random number generator. The user sets its seed; under the trace clock the seed is fixed.
    pub random: fastrand::Rng,
    /// The seed of hashes of values that others may choose: the seed of the random number generator, or a
    /// secret.
    pub hash_seed: u64,
    /// See [`Cx::is_repeatable`].
    pub is_repeatable: bool,
    /// See [`Cx::rights`].
    pub rights: Rights,
    /// The last number of [`Cx::next_series`].
    pub(crate) series: u32,
    /// Empty batches for reuse.
    spare: Vec<Batch>,
}

/// The part of a worker's hot state that belongs to its graph.
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

/// Returns a secret number, from which secret hashes and keys are made.
pub fn secret() -> u64 {
    // An ordinary random number generator is not enough: from one of its numbers the next numbers and the
    // seed can be computed.
    RandomState::new().hash_one(())
}

impl PerGraph {
    /// Makes the state of a graph whose elements have these numbers of outputs.
    pub fn new(outputs: Vec<u32>, facts: Facts) -> PerGraph {
        // There is always room for a drop reason.
        let fresh = || Counters { drops: Vec::with_capacity(2), ..Counters::default() };
        let counters = outputs.iter().map(|_| fresh()).collect();
        // Room for the items of one call, so that nothing is allocated while packets flow.
        PerGraph { emitted: Vec::with_capacity(64), counters, outputs, facts }
    }
}

impl Core {
    /// Changes to another graph. `graph` then holds the state of the graph so far.
    pub fn exchange(&mut self, graph: &mut PerGraph) {
        std::mem::swap(&mut self.emitted, &mut graph.emitted);
        std::mem::swap(&mut self.counters, &mut graph.counters);
        std::mem::swap(&mut self.outputs, &mut graph.outputs);
        std::mem::swap(&mut self.facts, &mut graph.facts);
    }

    /// Makes the state of a worker whose graph has elements with these numbers of outputs.
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
            // Enough for most graphs; others allocate more batches while they warm up.
            spare: (0..16).map(|_| Batch::new()).collect(),
        }
    }

    /// Makes hashes different in each run, so that no attacker can choose keys that collide.
    pub fn hide_hash_seed(&mut self) {
        self.hash_seed = secret();
        self.is_repeatable = false;
    }

    /// Returns an empty batch.
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
///
/// An element that forwards, changes and drops packets needs the methods of the first block alone. The rest
/// stands in groups: [`graph`](Cx::graph) asks about other elements, [`workers`](Cx::workers) to which
/// worker a packet belongs; [`handlers`](Cx::handlers) calls handlers of other elements;
/// [`files`](Cx::files) waits for files and signals, [`stores`](Cx::stores) lends the packets of captures,
/// [`accounts`](Cx::accounts) counts packets that devices process, and [`messages`](Cx::messages) writes
/// texts.
pub struct Cx<'a> {
    core: &'a mut Core,
    host: &'a mut dyn Host,
    id: ElementId,
}

/// The methods that most elements use.
impl Cx<'_> {
    /// Returns the batch time: the time of the current batch.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.now
    }

    /// Hands a batch to the element that is connected to an output. If there is no such output, the batch
    /// is dropped.
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

    /// Hands one packet to an output. Packets that follow each other to the same output become one batch.
    /// If there is no such output, the packet is dropped with the reason.
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

    /// Ends packets that were written to a file or an interface, and counts them as sent.
    pub fn sent(&mut self, mut batch: Batch) {
        self.own().sent += batch.len() as u64;
        self.core.pool.free_all(&mut batch);
        self.core.recycle(batch);
    }

    /// Makes a packet with these bytes. Returns `None`, and counts a drop, if the pool has no room.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        self.make(|core| core.pool.packet(bytes))
    }

    /// Returns an empty batch.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.core.batch()
    }

    /// Pulls at most `max` packets from an input.
    #[inline]
    pub fn pull(&mut self, input: usize, max: usize) -> Batch {
        self.host.pull(self.core, self.id, input, max)
    }

    /// Schedules the element's task to run again.
    #[inline]
    pub fn schedule(&mut self) {
        self.host.schedule(self.id, true);
    }

    /// Sets the element's timer `token` to run at a time. This replaces an earlier setting of the same
    /// token.
    pub fn set_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Exact)));
    }

    /// Writes a message, like [`Messages::tell`], about something that is probably not intended, or that
    /// loses packets.
    pub fn warn(&mut self, text: fmt::Arguments<'_>) {
        self.messages().tell(Severity::Warning, text);
    }
}

/// Packets and batches.
impl Cx<'_> {
    /// Makes a copy of a packet in its own slots. Returns `None`, and counts a drop, if the pool has no
    /// room.
    #[inline]
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        self.make(|core| core.pool.copy(packet))
    }

    /// Adds bytes at the end of a packet, in further slots if necessary. Returns `None`, and counts a drop,
    /// if the pool has no room.
    pub fn append(&mut self, packet: Packet, bytes: &[u8]) -> Option<Packet> {
        let packet = self.core.pool.append(packet, bytes);
        if packet.is_none() {
            self.own().drop(DropReason::NoBuffer, 1);
        }
        packet
    }

    /// Returns a batch of one packet.
    pub fn batch_of(&mut self, packet: Packet) -> Batch {
        let mut batch = self.core.batch();
        // An empty batch has room.
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

    /// Returns the pool, for devices that use its memory.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.core.pool
    }

    /// True if a packet of any size can be allocated now. Sources that read from outside check this before
    /// they read.
    pub fn has_room(&mut self) -> bool {
        self.core.pool.has_room()
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
}

/// Tasks, timers and signals.
impl Cx<'_> {
    /// Stops the element's task until it is scheduled again.
    pub fn unschedule(&mut self) {
        self.host.schedule(self.id, false);
    }

    /// Sets a timer that may be late by the delay with which sleeps of the machine end; no worker stays
    /// awake for it.
    pub fn set_coarse_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Coarse)));
    }

    /// Clears a timer.
    pub fn clear_timer(&mut self, token: u32) {
        self.host.set_timer(self.id, token, None);
    }

    /// Returns the time of the next of many timers at a fixed interval, given the time of the last timer;
    /// delays do not accumulate. If that time is more than a second ago (the program was stopped, or time
    /// has jumped), the missed timers are left out, as in Click, and the next timer is due one interval
    /// from now.
    pub fn due_again(&self, due: Timestamp, interval: Timestamp) -> Timestamp {
        let (next, now) = (due + interval, self.now());
        if next + Timestamp::from_secs(1) < now { now + interval } else { next }
    }

    /// Runs the element's timer function with this token after everything that the element has emitted so
    /// far, packets and handler calls, has been processed.
    pub fn come_back(&mut self, token: u32) {
        self.core.emitted.push(Emitted::Back { element: self.id as u32, token });
    }

    /// Signals that the element has packets to pull, or room to push to.
    pub fn set_signal(&mut self, signal: Signal, on: bool) {
        self.host.set_signal(self.id, signal, on);
    }

    /// True if pulling from an input may return packets.
    pub fn may_pull(&self, input: usize) -> bool {
        self.host.signal(self.id, Signal::Packets, input)
    }

    /// True if there is room downstream of an output.
    pub fn may_push(&self, output: usize) -> bool {
        self.host.signal(self.id, Signal::Room, output)
    }

    /// True if the time is the time of captures. Sources then make batches of one time stamp, when it is
    /// due.
    pub fn follows_captures(&self) -> bool {
        self.core.follows_captures
    }

    /// Returns a count of processor cycles, for meters; it is not reproducible.
    pub fn cycles(&self) -> u64 {
        self.host.cycles()
    }

    /// Asks the driver to stop.
    pub fn stop(&mut self) {
        self.host.stop();
    }
}

/// The element itself.
impl Cx<'_> {
    /// Returns the number of the element.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Returns the element's name.
    pub fn name(&self) -> &str {
        self.host.name(self.id).0
    }

    /// Returns `name :: Class`, as messages show it.
    pub fn declaration(&self) -> String {
        let (name, class) = self.host.name(self.id);
        format!("{name} :: {class}")
    }

    /// Writes a message, like [`Messages::tell`], about something that is useful to know.
    pub fn note(&mut self, text: fmt::Arguments<'_>) {
        self.messages().tell(Severity::Note, text);
    }

    /// Returns the number of the element's outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.core.outputs[self.id] as usize
    }

    /// Returns the largest number of packets per batch that sources make.
    pub fn burst(&self) -> usize {
        self.core.burst
    }

    /// Returns the place at which names in values are looked up.
    pub fn place(&self) -> Place<'_> {
        self.host.place(self.id)
    }

    /// Returns the counts of packets that have gone through the element so far.
    pub fn counters(&self) -> &Counters {
        &self.core.counters[self.id]
    }

    fn own(&mut self) -> &mut Counters {
        &mut self.core.counters[self.id]
    }

    /// Returns the rights of the caller of the current write handler. A handler creates its files by
    /// [`Rights::files`](crate::Rights).
    pub fn rights(&self) -> &Rights {
        &self.core.rights
    }

    /// True if this element is to take the place and state of a running element of the same name and class;
    /// for [`Element::initialize`](crate::Element::initialize). It need not open again what the running
    /// element has open.
    pub fn is_heir(&self) -> bool {
        self.predecessor().is_some()
    }

    /// Returns the arguments, without quotes, of the running element whose place this element is to take; for
    /// [`Element::initialize`](crate::Element::initialize).
    pub fn predecessor(&self) -> Option<&[String]> {
        self.host.predecessor(self.id)
    }

    /// Returns a number that this worker has given to no other caller. Callers use it to make their flow
    /// ids unique.
    pub fn next_series(&mut self) -> u32 {
        self.core.series = self.core.series.wrapping_add(1);
        self.core.series
    }
}

/// For the engine.
impl<'a> Cx<'a> {
    /// Makes the context of a call to element `id`, for the engine.
    #[inline]
    pub fn new(core: &'a mut Core, host: &'a mut dyn Host, id: ElementId) -> Cx<'a> {
        Cx { core, host, id }
    }
}
