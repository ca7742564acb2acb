//! The context of calls to elements: everything that an element can request from the engine.
//!
//! [`Core`] is the state of a worker that every packet needs: pool, time, emitted batches, counters.
//! Elements reach it through [`Cx`] with plain function calls. Pulls, and requests that are made less often
//! than once per batch, go through the trait [`Host`], which the engine implements.

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

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use lang::Severity;
use packet::{Batch, DropReason, Packet, Pool, Timestamp};

use crate::ElementId;
use crate::args::{Scope, unquote};
use crate::chatter::Chatter;
use crate::facts::Facts;
use crate::random::Random;
use crate::rights::Rights;

pub use accounts::Accounts;
pub use files::FileEvents;
pub use graph::GraphView;
pub use handlers::Handlers;
pub use host::{Call, Host, Interest, Nearby, OutputStream, PlannedCall, Precision, Signal};
pub use lengths::WholeLengths;
pub use messages::Messages;
pub use stores::Stores;
pub use workers::PacketOwners;

/// The counts of packets that an element has received, made, emitted, sent and dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of packets that came in through inputs.
    pub arrived: u64,
    /// The number of packets that the element made: read from a file or an interface, copied, generated.
    pub made: u64,
    /// The number of packets that left through outputs.
    pub emitted: u64,
    /// The number of packets that left the graph: written to a file or an interface.
    pub sent: u64,
    /// For each drop reason for which packets were dropped, the number of these packets.
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

    /// Counts a packet as dropped that was counted as emitted: the engine had to drop it before it reached
    /// another element.
    pub fn lose(&mut self, reason: DropReason) {
        self.emitted -= 1;
        self.drop(reason, 1);
    }

    /// Adds the counts `more`, of another element or of another worker's copy.
    pub fn add(&mut self, more: &Counters) {
        self.arrived += more.arrived;
        self.made += more.made;
        self.emitted += more.emitted;
        self.sent += more.sent;
        more.drops.iter().for_each(|&(reason, n)| self.drop(reason, n));
    }

    /// Counts `n` packets as dropped for a reason for which no packet was dropped before. If there is no
    /// memory for the new reason, the packets count as dropped for the last reason in the list, if there is
    /// one.
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

/// A request of an element that the engine executes after the call to the element, in the order of the
/// requests.
pub enum Emitted {
    /// A request to pass a batch to the element that is connected to an output.
    Packets {
        /// The element that emitted the batch.
        element: u32,
        /// The output by which the batch leaves.
        output: u32,
        /// The packets of the batch.
        batch: Batch,
    },
    /// A request to hand a batch over to other workers' copies of an element.
    Over {
        /// The element that hands the batch over.
        element: u32,
        /// The input by which the packets come in at the other copies.
        input: u32,
        /// The worker that gets the whole batch. If it is `None`, each packet goes to the worker that it
        /// belongs to.
        worker: Option<usize>,
        /// The packets of the batch.
        batch: Batch,
    },
    /// A request to call a handler.
    Call {
        /// The element that requested the call.
        element: u32,
        /// The handler and the value.
        call: Arc<Call>,
    },
    /// A request to run the element's timer function ([`Element::timer`](crate::Element::timer)).
    Back {
        /// The element whose timer function runs.
        element: u32,
        /// The token that the timer function gets.
        token: u32,
    },
}

/// A watcher of the packets that elements drop.
pub trait DropWatch: Send {
    /// Looks at a packet that an element is about to drop for a reason, at the batch time `now`. Returns
    /// false if the watcher wants no more packets.
    fn dropped(&mut self, element: ElementId, packet: &Packet, reason: DropReason, now: Timestamp) -> bool;
}

/// The state of a worker that is used for every packet or batch.
pub struct Core {
    /// The pool that provides the memory of the worker's packets.
    pub pool: Pool,
    /// The batch time: the time at which the current batch is processed.
    pub now: Timestamp,
    /// The burst of the run: the largest number of packets that a source emits in one batch.
    pub burst: usize,
    /// The requests that elements have made and that the engine has not taken yet, in order.
    pub emitted: Vec<Emitted>,
    /// The counters of each element, by the element's number.
    pub counters: Vec<Counters>,
    /// The number of outputs of each element, by the element's number.
    pub outputs: Vec<u32>,
    /// The facts about the graph that follow from the declarations of all elements.
    pub facts: Facts,
    /// True under the trace clock: the time follows the time stamps of captures.
    pub follows_captures: bool,
    /// The random number generator of elements. Its seed is the seed of the run plus the worker's number.
    pub random: Random,
    /// The seed of hashes whose keys come from packets. If runs are repeatable, it is the seed of the random
    /// number generator; otherwise it is secret.
    pub hash_seed: u64,
    /// True if the clock makes runs repeatable, such as the trace clock. Nothing is secret then.
    pub is_repeatable: bool,
    /// The rights of the caller of the write handler that is being executed; between handlers, those of the
    /// configuration.
    pub rights: Rights,
    /// The feeds of messages. All workers of a run have the same.
    pub chatter: Arc<Chatter>,
    /// The watcher of dropped packets, while a client captures them.
    pub drop_watch: Option<Box<dyn DropWatch>>,
    /// The values that elements have given away by [`Cx::dispose`], because they may own much memory. The
    /// engine drops them.
    pub garbage: Vec<Box<dyn Any + Send>>,
    /// The number that was given last to a run, a sequence of packets of one flow ([`Cx::find_runs`],
    /// [`Cx::new_run`]).
    pub(crate) last_run: u32,
    /// The number that [`Cx::next_series`] returned last.
    pub(crate) series: u32,
    /// Empty batches, kept so that no memory is allocated for new batches.
    spare: Vec<Batch>,
}

/// The part of [`Core`] that belongs to one graph. When a new graph replaces a running graph, the worker
/// exchanges this part for the part of the new graph.
pub struct PerGraph {
    /// The requests that elements of the graph have made and that the engine has not taken yet, in order.
    pub emitted: Vec<Emitted>,
    /// The counters of each element of the graph, by the element's number.
    pub counters: Vec<Counters>,
    /// The number of outputs of each element of the graph, by the element's number.
    pub outputs: Vec<u32>,
    /// The facts about the graph that follow from the declarations of its elements.
    pub facts: Facts,
}

/// Returns a secret random number, from which keys and seeds of hashes are made.
pub fn secret() -> u64 {
    // Numbers of the worker's generator would not be secret: from one of them the seed and all further
    // numbers can be computed.
    RandomState::new().hash_one(())
}

impl PerGraph {
    /// Makes the state of a graph that has processed no packets. `outputs` has the number of outputs of each
    /// element.
    pub fn new(outputs: Vec<u32>, facts: Facts) -> PerGraph {
        // Each element can count packets of two drop reasons without an allocation.
        let fresh = || Counters { drops: Vec::with_capacity(2), ..Counters::default() };
        let counters = outputs.iter().map(|_| fresh()).collect();
        // Room for the requests of most calls, so that nothing is allocated while packets flow.
        PerGraph { emitted: Vec::with_capacity(64), counters, outputs, facts }
    }
}

impl Core {
    /// Exchanges the state of the current graph for the state of another graph. `graph` then holds the state
    /// of the graph that was current.
    pub fn exchange(&mut self, graph: &mut PerGraph) {
        std::mem::swap(&mut self.emitted, &mut graph.emitted);
        std::mem::swap(&mut self.counters, &mut graph.counters);
        std::mem::swap(&mut self.outputs, &mut graph.outputs);
        std::mem::swap(&mut self.facts, &mut graph.facts);
    }

    /// Makes the state of a worker that has processed no packets. `outputs` has the number of outputs of
    /// each element, and `seed` is the seed of random numbers and hashes.
    pub fn new(pool: Pool, outputs: Vec<u32>, facts: Facts, burst: usize, seed: u64) -> Core {
        let PerGraph { emitted, counters, outputs, facts } = PerGraph::new(outputs, facts);
        let random = Random::new(seed);
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
            chatter: Arc::default(),
            drop_watch: None,
            garbage: Vec::new(),
            last_run: 0,
            series: 0,
            // 16 batches are enough for most graphs; other graphs allocate more batches while they warm up.
            spare: (0..16).map(|_| Batch::new()).collect(),
        }
    }

    /// Gives hashes a secret seed, so that an attacker cannot choose keys that collide. Runs are then no
    /// longer repeatable.
    pub fn hide_hash_seed(&mut self) {
        self.hash_seed = secret();
        self.is_repeatable = false;
    }

    /// Returns an empty batch, if possible one that was recycled.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps an empty batch, so that it can be used again.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        debug_assert!(batch.is_empty());
        self.spare.push(batch);
    }

    /// Drops all packets of a batch, and counts them as dropped by `element` for a reason.
    pub fn drop_batch(&mut self, element: ElementId, mut batch: Batch, reason: DropReason) {
        if !batch.is_empty() {
            if self.drop_watch.is_some() {
                batch.iter().for_each(|packet| self.show_drop(element, packet, reason));
            }
            self.counters[element].drop(reason, batch.len() as u64);
            self.pool.free_all(&mut batch);
        }
        self.recycle(batch);
    }

    /// Shows a packet that is about to be dropped to the watcher of dropped packets.
    #[cold]
    fn show_drop(&mut self, element: ElementId, packet: &Packet, reason: DropReason) {
        let now = self.now;
        self.drop_watch.take_if(|watch| !watch.dropped(element, packet, reason, now));
    }
}

/// The context of one call to an element, through which the element makes its requests.
///
/// An element that forwards, changes and drops packets needs only the methods of the first block. The other
/// blocks have methods for packets and batches, for tasks, timers and signals, and for properties of the
/// element. Less common methods are in groups:
///
/// - [`graph`](Cx::graph) answers questions about other elements and the whole graph.
/// - [`workers`](Cx::workers) finds the worker that a packet belongs to.
/// - [`handlers`](Cx::handlers) calls handlers of other elements.
/// - [`files`](Cx::files) waits for files and signals of the operating system.
/// - [`stores`](Cx::stores) lends the packets of captures that are replayed.
/// - [`accounts`](Cx::accounts) counts packets that devices process.
/// - [`messages`](Cx::messages) writes messages.
pub struct Cx<'a> {
    pub(crate) core: &'a mut Core,
    host: &'a mut dyn Host,
    pub(crate) id: ElementId,
}

/// The methods that most elements use.
impl Cx<'_> {
    /// Returns the batch time: the time at which the current batch is processed.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.now
    }

    /// Passes a batch to the element that is connected to an output; the engine does it after the call. If
    /// the output does not exist, the packets are dropped ([`DropReason::NoOutput`]).
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

    /// Passes a batch that came to input `port` on to the output of the same number. The result is that of
    /// [`push`](crate::Element::push), where returned packets go to output 0.
    #[inline]
    pub fn pass_on(&mut self, port: usize, batch: Batch) -> Option<Batch> {
        if port == 0 {
            return Some(batch);
        }
        self.emit(port, batch);
        None
    }

    /// Passes one packet to the element that is connected to an output. Packets that are passed one after
    /// the other to the same output become one batch, up to the burst of the run. If the output does not
    /// exist, the packet is dropped for the reason `otherwise`.
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

    /// Drops a packet, and counts it as dropped for a reason.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        if self.core.drop_watch.is_some() {
            self.core.show_drop(self.id, &packet, reason);
        }
        self.own().drop(reason, 1);
        self.core.pool.free(packet);
    }

    /// Drops all packets of a batch, and counts them as dropped for a reason.
    #[inline]
    pub fn drop_all(&mut self, batch: Batch, reason: DropReason) {
        self.core.drop_batch(self.id, batch, reason);
    }

    /// Frees packets that the element has written to a file or an interface, and counts them as sent.
    pub fn sent(&mut self, mut batch: Batch) {
        self.own().sent += batch.len() as u64;
        self.core.pool.free_all(&mut batch);
        self.core.recycle(batch);
    }

    /// Makes a packet with these bytes and counts it as made. If it cannot be made, because the pool has no
    /// room or the bytes are more than a packet can hold, counts it also as dropped
    /// ([`DropReason::NoBuffer`]) and returns `None`.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        self.make(|core| core.pool.packet(bytes))
    }

    /// Returns an empty batch, if possible one that was recycled.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.core.batch()
    }

    /// Pulls at most `max` packets from the element that is connected to an input. The batch is empty if
    /// there are no packets now.
    #[inline]
    pub fn pull(&mut self, input: usize, max: usize) -> Batch {
        self.host.pull(self.core, self.id, input, max)
    }

    /// Schedules the element's task to run again ([`Element::run`](crate::Element::run)).
    #[inline]
    pub fn schedule(&mut self) {
        self.host.schedule(self.id, true);
    }

    /// Sets the timer `token` of the element to a time, at which [`Element::timer`](crate::Element::timer)
    /// runs. An element may have several timers, each with its own token. If the timer is already set, the
    /// new time replaces the old time.
    pub fn set_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Exact)));
    }

    /// Writes a warning, like [`Messages::tell`]: a message about something that is probably not intended,
    /// or that loses packets.
    pub fn warn(&mut self, text: fmt::Arguments<'_>) {
        self.messages().tell(Severity::Warning, text);
    }
}

/// Methods that make packets and batches.
impl Cx<'_> {
    /// Makes a copy of a packet in slots of its own, and counts it as made. If the pool has no room, it also
    /// counts a drop and returns `None`.
    #[inline]
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        self.make(|core| core.pool.copy(packet))
    }

    /// Adds bytes at the end of a packet, in further slots if the bytes do not fit. If the pool has no
    /// room, or the packet would become too long, it is dropped ([`DropReason::NoBuffer`]), and the result
    /// is `None`.
    pub fn append(&mut self, packet: Packet, bytes: &[u8]) -> Option<Packet> {
        let packet = self.core.pool.append(packet, bytes);
        if packet.is_none() {
            self.own().drop(DropReason::NoBuffer, 1);
        }
        packet
    }

    /// Returns a batch that contains one packet.
    pub fn batch_of(&mut self, packet: Packet) -> Batch {
        let mut batch = self.core.batch();
        // This never fails: an empty batch has room.
        if let Err(packet) = batch.push(packet) {
            self.drop(packet, DropReason::NoBuffer);
        }
        batch
    }

    /// Gives an empty batch back to the worker, so that it can be used again.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        self.core.recycle(batch);
    }

    /// Returns the worker's pool, for devices that read and write packets in its memory themselves.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.core.pool
    }

    /// True if the pool has memory for a packet of any size now. Sources check this before they read a
    /// packet from outside, which would otherwise be lost.
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

/// Methods for tasks, timers and signals.
impl Cx<'_> {
    /// Unschedules the element's task: it does not run until it is scheduled again.
    pub fn unschedule(&mut self) {
        self.host.schedule(self.id, false);
    }

    /// Sets a timer like [`set_timer`](Self::set_timer), but the timer may expire late, by the delay with
    /// which a sleep of the machine ends. No worker stays awake for it.
    pub fn set_coarse_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Coarse)));
    }

    /// Sets a timer like [`set_coarse_timer`](Self::set_coarse_timer), for work that is done at the end of
    /// the run in any case. A run that ends when nothing is left to do does not go on for this timer.
    pub fn set_background_timer(&mut self, token: u32, at: Timestamp) {
        self.host.set_timer(self.id, token, Some((at, Precision::Background)));
    }

    /// Clears the timer `token` of the element; nothing happens if it is not set.
    pub fn clear_timer(&mut self, token: u32) {
        self.host.set_timer(self.id, token, None);
    }

    /// Returns the time for which a periodic timer is to be set again. `due` is the time for which it was
    /// last set, and `interval` is its period. The result is `due + interval`, so that delays do not
    /// accumulate. If this is more than a second ago (the program was stopped, or the time has jumped), it
    /// is one interval from now: the missed timers are left out, as in Click.
    pub fn due_again(&self, due: Timestamp, interval: Timestamp) -> Timestamp {
        let (next, now) = (due + interval, self.now());
        if next + Timestamp::from_secs(1) < now { now + interval } else { next }
    }

    /// Runs the element's timer function with `token` after all packets and handler calls that the element
    /// has emitted so far have been processed.
    pub fn come_back(&mut self, token: u32) {
        self.core.emitted.push(Emitted::Back { element: self.id as u32, token });
    }

    /// Switches a signal of this element on or off: that it has packets to pull, or that it has room for
    /// packets that are pushed.
    pub fn set_signal(&mut self, signal: Signal, on: bool) {
        self.host.set_signal(self.id, signal, on);
    }

    /// True if a pull from an input may return packets: an element upstream signals that it has packets, or
    /// gives no signals.
    pub fn may_pull(&self, input: usize) -> bool {
        self.host.signal(self.id, Signal::Packets, input)
    }

    /// True if packets may be emitted to an output without being dropped for lack of room: an element
    /// downstream signals that it has room, or gives no signals.
    pub fn may_push(&self, output: usize) -> bool {
        self.host.signal(self.id, Signal::Room, output)
    }

    /// True under the trace clock: the time follows the time stamps of captures. A source must then emit its
    /// packets when they are due, and only packets with the same time stamp in one batch.
    pub fn follows_captures(&self) -> bool {
        self.core.follows_captures
    }

    /// Returns a count of processor cycles, for meters. It differs from run to run.
    pub fn cycles(&self) -> u64 {
        self.host.cycles()
    }

    /// Asks the driver to stop. Elements that manage the driver may prevent it
    /// ([`Element::stop_requested`](crate::Element::stop_requested)).
    pub fn stop(&mut self) {
        self.host.stop();
    }
}

/// Methods that return properties of the element itself.
impl Cx<'_> {
    /// Returns the number of the element in its graph.
    pub fn id(&self) -> ElementId {
        self.id
    }

    /// Returns the element's name in the configuration, with the names of the compounds around it.
    pub fn name(&self) -> &str {
        self.host.name(self.id).0
    }

    /// Returns `name :: Class`, with which messages about the element begin.
    pub fn declaration(&self) -> String {
        let (name, class) = self.host.name(self.id);
        format!("{name} :: {class}")
    }

    /// Writes a note, like [`Messages::tell`]: a message about something that is useful to know.
    pub fn note(&mut self, text: fmt::Arguments<'_>) {
        self.messages().tell(Severity::Note, text);
    }

    /// Returns the number of the element's outputs.
    #[inline]
    pub fn outputs(&self) -> usize {
        self.core.outputs[self.id] as usize
    }

    /// Returns the burst of the run: the largest number of packets that a source emits in one batch.
    pub fn burst(&self) -> usize {
        self.core.burst
    }

    /// Returns the element's place in the configuration, by which names in values of its handlers are
    /// resolved.
    pub fn place(&self) -> Scope<'_> {
        self.host.place(self.id)
    }

    /// Returns the counts of packets that the element has received, made, emitted, sent and dropped so far.
    pub fn counters(&self) -> &Counters {
        &self.core.counters[self.id]
    }

    fn own(&mut self) -> &mut Counters {
        &mut self.core.counters[self.id]
    }

    /// Returns the rights of the caller of the write handler that is being executed. A handler that creates
    /// files uses [`Rights::files`](crate::Rights) for it.
    pub fn rights(&self) -> &Rights {
        &self.core.rights
    }

    /// True if this element will replace a running element of the same name and class, and continue with its
    /// state. In [`Element::initialize`](crate::Element::initialize) it need not open what the running
    /// element has open already.
    pub fn is_heir(&self) -> bool {
        self.host.predecessor(self.id).is_some()
    }

    /// Returns the arguments, without quotes, of the running element that this element will replace, for
    /// [`Element::initialize`](crate::Element::initialize). `None` if it replaces no element.
    pub fn predecessor(&self) -> Option<Vec<String>> {
        let arguments = lang::args::split(self.host.predecessor(self.id)?);
        Some(arguments.iter().map(|argument| unquote(&argument.text)).collect())
    }

    /// Drops a value that may own much memory, so that no packet waits until the memory is released: when the
    /// worker has nothing to do, or by another thread after the next reload.
    pub fn dispose(&mut self, value: impl Any + Send) {
        self.core.garbage.push(Box::new(value));
    }

    /// Checks that an element that is initialised may create the file at `path`, which would empty it.
    ///
    /// # Errors
    /// If the graph replaces another one, whose elements write the file. The old graph runs on if the reload
    /// fails, so its file must not change.
    pub fn check_unwritten(&self, path: &str) -> Result<(), String> {
        match self.is_of_reload() && crate::files::is_written(path) {
            true => Err(format!(
                "{path}: the running configuration writes this file; a reload continues a file only at an \
                 element of the same name and class"
            )),
            false => Ok(()),
        }
    }

    /// True if this element belongs to a graph that replaces or has replaced another one. While such an
    /// element is initialised, its worker processes no packets, so that the element must not wait for long.
    pub fn is_of_reload(&self) -> bool {
        self.host.is_of_reload()
    }

    /// Returns a number that this worker has returned to no other caller, until the numbers repeat after
    /// 2^32 calls. Elements use it to make the identifiers of their flows unique.
    pub fn next_series(&mut self) -> u32 {
        self.core.series = self.core.series.wrapping_add(1);
        self.core.series
    }
}

/// The constructor, for the engine.
impl<'a> Cx<'a> {
    /// Makes the context of a call to the element with the number `id`.
    #[inline]
    pub fn new(core: &'a mut Core, host: &'a mut dyn Host, id: ElementId) -> Cx<'a> {
        Cx { core, host, id }
    }
}
