//! Hands packets over from one worker to another, through rings with one producer and one consumer
//! each.
//!
//! The way of a packet ([`Way`](crate::placement::Way)) is decided when the graph is built
//! ([`Placement`](crate::Placement)). [`Links::sort`] applies it to a batch:
//!
//! 1. Each packet of the batch gets a worker. Packets for this worker stay in the batch; the others are
//!    staged in the lane of their worker.
//! 2. `Links::hand_over` moves staged packets into the rings and rings the bell of each worker that gets
//!    some.
//! 3. The other worker takes them out with [`Links::take`], in batches that go to one input.
//!
//! A ring keeps the order of its packets, so packets of a flow that take the same way stay in order.
//! Captures and generators wait while a ring is half full ([`Links::is_clear`]). If a ring is full, packets
//! that are already on their way wait in a queue next to it. In a graph with interfaces, whose packets
//! cannot wait, such packets are dropped and counted instead.
//!
//! Packets that a worker has sent home (to the worker that owns the state of their flow) wait until all
//! packets that were handed over before are processed. So the packet that opens a connection is processed
//! before an answer that came by way of a third worker.

pub(crate) mod displacement;
pub(crate) mod order;
mod unknown_flows;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use element::steering::{Dispatch, Known, Load, Spread, Spreading, Waiting, Work};
use element::{Batch, ElementId, Packet, Timestamp};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::exchange::displacement::{Board, Displacement};
use crate::exchange::order::{Order, Tickets};
use crate::exchange::unknown_flows::Unknown;
use crate::host::Target;
use crate::placement::Way;

/// The number of packets that a ring can hold.
const CAPACITY: usize = 4096;
/// The number of packets in a ring from which on the ring gets only packets that must go to its worker.
/// Packets in the ring of a worker that has lost its core are late for as long as that lasts, so this
/// constant bounds how many packets of a flow are late.
const SPREAD_CAPACITY: usize = 256;
/// The number of packets, per worker, that may be spread after the oldest packet that is not yet
/// processed. Beyond it, sources that can wait do so.
const SPAN: usize = 128;
/// The number of batches that are taken out of each ring before other work has its turn.
const MOST_BATCHES: usize = 16;

/// Facts about the packets that an element passes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// True if the packets are at the home of their flow.
    pub(crate) is_home: bool,
    /// True if the packets come to elements that look flows up by the addresses and ports that the
    /// packets have now.
    pub(crate) meets_boards: bool,
}

/// A packet on its way to another worker.
struct Handed {
    packet: Packet,
    to: Target,
    /// The number of packets that the giving worker has spread up to this packet. 0 if packets are not
    /// spread.
    number: u64,
}

/// The ends of the rings between one worker and all others.
pub(crate) struct Links {
    pub(crate) me: usize,
    /// The way to each other worker. `None` for this worker.
    lanes: Vec<Option<Lane>>,
    /// The ring from each other worker. `None` for this worker.
    arrivals: Vec<Option<rtrb::Consumer<Handed>>>,
    /// The bell of each worker.
    bells: Arc<[Bell]>,
    /// The rule that gives each flow its home.
    dispatch: Arc<dyn Dispatch>,
    /// The rule that spreads packets of one flow over workers, if there is one.
    spread: Option<Box<dyn Spread>>,
    /// Finds packets of unknown flows before they are spread.
    unknown: Option<Unknown>,
    /// For each worker, the packets that waited for it when the current batch came.
    waiting: Vec<Waiting>,
    /// The displacement of packets, if packets are spread and their order is not kept.
    displacement: Option<Displacement>,
    /// The load of each worker, if packets are spread by it.
    loads: Option<Arc<[Load]>>,
    /// The work that this worker has done. Its `packets` are those that were spread to it.
    work: Work,
    /// Keeps the order of packets that are spread, if it is to be kept.
    pub(crate) order: Option<Order>,
    /// True if packets wait that a ring has no room for. Otherwise they are dropped.
    waits: bool,
    /// For each worker, a counter that shows if packets that it hands over are still outside of the
    /// rings.
    unfinished: Arc<[Unfinished]>,
    home: Home,
    /// The number of packets handed over to others, and the number taken from others, so far.
    pub(crate) handed: u64,
    pub(crate) taken: u64,
    /// The largest number of packets that have waited for this worker at once.
    pub(crate) waited: u64,
}

/// The way to one other worker.
struct Lane {
    ring: rtrb::Producer<Handed>,
    /// Packets of the current batch.
    staged: Vec<Handed>,
    /// Packets that the ring had no room for, in order.
    waiting: VecDeque<Handed>,
}

/// A counter that is odd while its worker has packets to hand over that are not all in rings yet. Each
/// such period has another number.
#[derive(Default)]
#[repr(align(64))]
struct Unfinished(AtomicU64);

impl Unfinished {
    /// Begins or ends a period in which packets are still outside of the rings. Only the worker itself may
    /// call this.
    #[inline]
    fn set(&self, unfinished: bool) {
        let number = self.0.load(Ordering::Relaxed);
        if (number % 2 == 1) != unfinished {
            // Release: a worker that sees the end of the period also sees the packets in the rings.
            self.0.store(number + 1, Ordering::Release);
        }
    }
}

/// Batches of packets that another worker has sent home, each with the number of that worker.
pub(crate) type SentHome = Vec<(usize, Target, Batch)>;

/// Packets that were sent home and wait.
#[derive(Default)]
struct Home {
    /// The counter of each worker ([`Unfinished`]) at the time when the last batch of `older` had come.
    numbers: Vec<u64>,
    older: SentHome,
    newer: SentHome,
}

/// Wakes a worker that sleeps.
#[repr(align(64))]
pub(crate) struct Bell {
    asleep: AtomicBool,
    /// True if the bell has rung since the worker began to listen.
    rang: AtomicBool,
    event: EventFd,
}

impl Bell {
    /// Makes a bell that no worker listens to yet.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub(crate) fn new() -> nix::Result<Bell> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Bell { asleep: AtomicBool::new(false), rang: AtomicBool::new(false), event })
    }

    /// Wakes the worker if it sleeps. The worker sees all that was done before.
    #[inline]
    pub(crate) fn ring(&self) {
        // Release: a thread that loads this value, or swaps it for false, sees what was done before.
        self.rang.store(true, Ordering::Release);
        // Pairs with the fence in `may_sleep`: either this thread sees that the worker sleeps, or the
        // worker sees that the bell has rung.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // A write fails if the counter is full. Then the event has woken the worker already.
            let _ = self.event.write(1);
        }
    }

    /// Begins to listen. What was done before an earlier ring is visible from here on.
    pub(crate) fn listen(&self) {
        self.rang.swap(false, Ordering::AcqRel);
    }

    /// True if the bell has rung since [`listen`](Self::listen).
    pub(crate) fn has_rung(&self) -> bool {
        self.rang.load(Ordering::Acquire)
    }

    /// Announces that the worker is about to sleep. False if the bell has rung since: then the worker
    /// must not sleep.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let sleeps = !self.has_rung();
        self.asleep.store(sleeps, Ordering::Relaxed);
        sleeps
    }

    /// Announces that the worker is awake.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        let _ = self.event.read();
    }

    /// Returns the event to wait for.
    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}

/// Makes the links of all workers. `aside` are the elements at which packets can be sent home, upstream
/// elements first.
pub(crate) fn connect(
    bells: &Arc<[Bell]>,
    dispatch: &Arc<dyn Dispatch>,
    spreading: Option<(&Arc<dyn Spreading>, &Arc<Known>)>,
    aside: &[ElementId],
    waits: bool,
) -> Vec<Links> {
    let (spreading, known) = spreading.unzip();
    let workers = bells.len();
    let keeps_order = spreading.is_some_and(|spreading| spreading.keeps_order());
    let tickets = keeps_order.then(|| Arc::new(Tickets::new(workers, aside, waits)));
    let unfinished: Arc<[Unfinished]> = (0..workers).map(|_| Unfinished::default()).collect();
    let loads: Option<Arc<[Load]>> = spreading.map(|_| (0..workers).map(|_| Load::default()).collect());
    let spread = |me| spreading.zip(loads.as_ref()).map(|(spreading, loads)| spreading.spread(me, loads));
    let is_loose = spreading.is_some() && !keeps_order;
    let mut displacement =
        is_loose.then(|| Displacement::of_all(workers, (SPAN * workers) as u64)).into_iter().flatten();
    let mut unknown = known.map(|known| Unknown::of_all(known, workers));
    let mut links: Vec<_> = (0..workers)
        .map(|me| Links {
            me,
            lanes: (0..workers).map(|_| None).collect(),
            arrivals: (0..workers).map(|_| None).collect(),
            bells: Arc::clone(bells),
            dispatch: Arc::clone(dispatch),
            spread: spread(me),
            unknown: unknown.as_mut().and_then(Iterator::next),
            waiting: vec![Waiting::default(); workers],
            displacement: displacement.next(),
            loads: loads.clone(),
            work: Work::default(),
            order: tickets.as_ref().map(|tickets| Order::new(me, Arc::clone(tickets))),
            waits,
            unfinished: Arc::clone(&unfinished),
            home: Home::default(),
            handed: 0,
            taken: 0,
            waited: 0,
        })
        .collect();
    for from in 0..workers {
        for to in (0..workers).filter(|&to| to != from) {
            let (producer, consumer) = rtrb::RingBuffer::new(CAPACITY);
            let staged = Vec::with_capacity(packet::BATCH_CAPACITY);
            links[from].lanes[to] = Some(Lane { ring: producer, staged, waiting: VecDeque::new() });
            links[to].arrivals[from] = Some(consumer);
        }
    }
    links
}

impl Links {
    /// Keeps the packets of a batch that belong to this worker, and hands the others over. Passes
    /// packets that cannot be handed over to `lost`.
    pub(crate) fn sort(
        &mut self,
        batch: &mut Batch,
        to: Target,
        from: Origin,
        now: Timestamp,
        mut lost: impl FnMut(Packet),
    ) {
        let Links { me, dispatch, lanes, spread, order, work, unknown, waiting, displacement, .. } = self;
        let (me, lanes) = (*me, &mut lanes[..]);
        match (to.way, spread) {
            (Way::Here, _) => {}
            (Way::To(worker), _) => sift(me, lanes, batch, to, |_| (worker, 0), &mut lost),
            // Each packet gets a worker from the spreading policy, or goes home.
            (Way::Spread, Some(spread)) => {
                // False if the policy sends the whole batch home.
                let is_spread = spread.look(batch, now, &**dispatch);
                let unknown = unknown.as_mut().filter(|_| is_spread && from.meets_boards);
                let unknown = unknown.and_then(|unknown| unknown.looks(batch.len()).then_some(&*unknown));
                let any_full = is_spread && mark_full(lanes, waiting);
                if let Some(displacement) = displacement.as_mut().filter(|_| is_spread) {
                    displacement.look();
                    displacement.show(waiting);
                    spread.hear(waiting);
                }
                let is_full = |worker: usize| waiting.get(worker).is_some_and(|waiting| waiting.is_full);
                let (mut number, count) = (displacement.as_ref().map_or(0, Displacement::given), batch.len());
                let mut stayed = 0;
                if is_spread || !from.is_home || order.is_some() {
                    let worker = |packet: &mut Packet| {
                        // Packets of unknown flows would be sent home anyway.
                        let goes_home = || unknown.is_some_and(|unknown| !unknown.may_know(packet));
                        let worker = match is_spread && !goes_home() {
                            true => spread.worker_of(packet, now, &**dispatch),
                            false => dispatch.worker_of(packet),
                        };
                        // A packet that any worker may process does not go to a full ring.
                        let worker = match any_full && is_full(worker) && spread.may_stay(packet) {
                            true => with_room(waiting, worker),
                            false => worker,
                        };
                        if let Some(order) = order {
                            order.give(packet, worker);
                        }
                        number += 1;
                        if worker == me {
                            stayed = number;
                        }
                        (worker, number)
                    };
                    sift(me, lanes, batch, to, worker, &mut lost);
                    if let Some(order) = order {
                        order.show();
                    }
                } else {
                    // All packets stay.
                    stayed = number + count as u64;
                }
                if let Some(displacement) = displacement {
                    displacement.count(count as u64, stayed);
                }
                work.packets += batch.len() as u64;
            }
            // Packets that any worker may process stay; the others go home.
            (Way::Stay, Some(spread)) => {
                let worker = |packet: &mut Packet| match spread.may_stay(packet) {
                    true => (me, 0),
                    false => (dispatch.worker_of(packet), 0),
                };
                sift(me, lanes, batch, to, worker, &mut lost);
            }
            (Way::ToOwner | Way::Spread | Way::Stay, _) => {
                sift(me, lanes, batch, to, |packet| (dispatch.worker_of(packet), 0), &mut lost);
            }
        }
        self.hand_over(to, now, lost);
    }

    /// Moves staged packets into the rings, or into the queues of full rings, and wakes their workers.
    /// Passes packets that find no room to `lost`, if packets do not wait.
    fn hand_over(&mut self, to: Target, now: Timestamp, mut lost: impl FnMut(Packet)) {
        let unfinished = &self.unfinished[self.me];
        unfinished.set(true);
        let mut waits = false;
        for (worker, (lane, bell)) in self.lanes.iter_mut().zip(&*self.bells).enumerate() {
            let Some(lane) = lane.as_mut() else { continue };
            if lane.staged.is_empty() {
                waits |= !lane.waiting.is_empty();
                continue;
            }
            lane.push_waiting();
            let room = match lane.waiting.is_empty() {
                true => lane.ring.slots().min(lane.staged.len()),
                false => 0,
            };
            // If no memory can be allocated for waiting packets, they are dropped.
            let may_wait = self.waits && lane.waiting.try_reserve(lane.staged.len()).is_ok();
            let kept = if may_wait { lane.staged.len() } else { room };
            self.handed += kept as u64;
            if let Some(order) = &mut self.order {
                let last = kept.checked_sub(1).map(|last| &lane.staged[last].packet);
                order.hand_over(worker, to, kept, last);
                if kept < lane.staged.len() && to.way == Way::Spread {
                    order.lose(worker);
                }
            }
            if let (Way::Spread, Some(displacement)) = (to.way, &mut self.displacement)
                && let (Some(first), Some(last)) = (lane.staged[..kept].first(), lane.staged[..kept].last())
            {
                displacement.give(worker, (first.number, last.number), now);
            }
            if let Ok(places) = lane.ring.write_chunk_uninit(room) {
                places.fill_from_iter(lane.staged.drain(..room));
            }
            match may_wait {
                true => lane.waiting.extend(lane.staged.drain(..)),
                false => lane.staged.drain(..).for_each(|handed| lost(handed.packet)),
            }
            waits |= !lane.waiting.is_empty();
            bell.ring();
        }
        unfinished.set(waits);
    }

    /// Moves waiting packets into rings that have room again. True if any packet was moved.
    pub(crate) fn push_waiting(&mut self) -> bool {
        let mut moved = false;
        for (lane, bell) in self.lanes.iter_mut().zip(&*self.bells) {
            if let Some(lane) = lane
                && lane.push_waiting()
            {
                moved = true;
                bell.ring();
            }
        }
        if moved && self.lanes.iter().flatten().all(|lane| lane.waiting.is_empty()) {
            self.unfinished[self.me].set(false);
        }
        moved
    }

    /// Counts packets that this worker sends home.
    pub(crate) fn count_home(&self, packets: u64) {
        if let Some(unknown) = &self.unknown {
            unknown.send_home(packets);
        }
    }

    /// True if packets of one flow are spread over workers.
    pub(crate) fn spreads(&self) -> bool {
        self.spread.is_some()
    }

    /// Keeps packets that a worker has sent home, until they are [`ripe`](Self::ripe).
    pub(crate) fn keep(&mut self, from: usize, to: Target, batch: Batch) {
        self.home.newer.push((from, to, batch));
    }

    /// Returns the packets that were sent home, once everything that was handed over before them is in
    /// the rings. Must be called before packets are taken out of the rings; the returned packets are to be
    /// processed after those.
    pub(crate) fn ripe(&mut self) -> SentHome {
        let Home { numbers, older, newer } = &mut self.home;
        if older.is_empty() && !newer.is_empty() {
            std::mem::swap(older, newer);
            numbers.clear();
            numbers.extend(self.unfinished.iter().map(|unfinished| unfinished.0.load(Ordering::Acquire)));
        }
        let mut others =
            numbers.iter().zip(&*self.unfinished).enumerate().filter(|&(worker, _)| worker != self.me);
        let is_over = |(number, unfinished): (&u64, &Unfinished)| {
            number % 2 == 0 || unfinished.0.load(Ordering::Acquire) != *number
        };
        match others.all(|(_, both)| is_over(both)) {
            true => std::mem::take(older),
            false => Vec::new(),
        }
    }

    /// True if packets that were sent home wait.
    pub(crate) fn keeps_some(&self) -> bool {
        !self.home.older.is_empty() || !self.home.newer.is_empty()
    }

    /// Takes back the memory of a vector that [`ripe`](Self::ripe) returned.
    pub(crate) fn reuse(&mut self, empty: SentHome) {
        if self.home.older.capacity() == 0 {
            self.home.older = empty;
        }
    }

    /// Takes packets that came from one worker and go to one input, at most `most`, into an empty
    /// batch. Returns their target.
    #[inline]
    pub(crate) fn take(&mut self, from: usize, most: usize, batch: &mut Batch) -> Option<Target> {
        self.end_batch();
        let ring = self.arrivals.get_mut(from)?.as_mut()?;
        let chunk = ring.read_chunk(ring.slots().min(most)).ok()?;
        let (front, back) = chunk.as_slices();
        let to = front.first()?.to;
        let same = front.iter().chain(back).take_while(|handed| handed.to == to).count();
        self.taken += same as u64;
        self.work.waiting = self.work.waiting.saturating_sub(same as u64);
        if to.way == Way::Spread {
            self.work.packets += same as u64;
            if let Some(displacement) = &mut self.displacement {
                let last = front.iter().chain(back).nth(same - 1).map_or(0, |last| last.number);
                displacement.take(from, (front.first()?.number, last));
            }
        }
        for handed in chunk.into_iter().take(same) {
            handed.packet.prefetch();
            // A batch has room for more packets than `most`.
            if let Err(packet) = batch.push(handed.packet) {
                debug_assert!(false, "a batch has room for what is asked for");
                drop(packet);
            }
        }
        Some(to)
    }

    /// Publishes the time for which this worker has worked, if packets are spread by load. `more` is the time
    /// that it has worked since the last call; `now` is the end of that time.
    #[inline]
    pub(crate) fn worked(&mut self, more: Timestamp, now: Timestamp) {
        if let Some(load) = self.loads.as_ref().and_then(|loads| loads.get(self.me)) {
            self.work.busy += more.0.max(0) as u64;
            load.say(self.work, now);
        }
    }

    /// Notes that the batch that was taken last has been processed, if there is one.
    #[inline]
    fn end_batch(&mut self) {
        if let Some(displacement) = &mut self.displacement {
            displacement.end();
        }
    }

    /// Finds out which of the packets that were spread here other workers have processed.
    #[inline]
    pub(crate) fn look(&mut self) {
        if let Some(displacement) = self.displacement.as_mut().filter(|displacement| displacement.has_some())
        {
            displacement.look();
        }
    }

    /// Returns the largest number of packets by which a packet processed here was overtaken, and the
    /// limit of that number for bursts of `burst` packets. There is no limit where packets come from
    /// interfaces, which cannot wait. Returns `None` if packets are not spread, or their order is kept.
    pub(crate) fn displaced(&self, burst: usize) -> Option<(u64, Option<u64>)> {
        let displacement = self.displacement.as_ref()?;
        let most = SPAN * self.workers() + burst;
        Some((displacement.largest, self.waits.then_some(most as u64)))
    }

    /// Returns the displacement of packets at all workers, which all of them share.
    pub(crate) fn board(&self) -> Option<&Arc<Board>> {
        self.displacement.as_ref().map(|displacement| &displacement.board)
    }

    /// Counts the packets that wait in the rings.
    pub(crate) fn count_arrivals(&mut self) {
        self.end_batch();
        self.work.waiting = self.arrivals.iter().flatten().map(|ring| ring.slots() as u64).sum();
        self.waited = self.waited.max(self.work.waiting);
    }

    /// Publishes that this worker sleeps.
    pub(crate) fn rest(&self) {
        if let Some(load) = self.loads.as_ref().and_then(|loads| loads.get(self.me)) {
            load.rest();
        }
    }

    /// Publishes to the other workers which packets this worker has processed.
    pub(crate) fn tell(&mut self) {
        self.end_batch();
        let has_waiting = self.lanes.iter().flatten().any(|lane| !lane.waiting.is_empty());
        if let Some(order) = &mut self.order {
            order.tell(has_waiting);
        }
    }

    /// Returns the number of packets to take out of the ring from a worker before other work has its
    /// turn: `all` that are there now, or at most [`MOST_BATCHES`] bursts.
    pub(crate) fn most(&self, from: usize, all: bool, burst: usize) -> usize {
        let ring = self.arrivals.get(from).and_then(Option::as_ref);
        let there = ring.map_or(0, |ring| ring.slots());
        if all { there } else { there.min(MOST_BATCHES * burst) }
    }

    /// True if sources that can wait may go on. Each ring must be less than half full (measured by
    /// [`SPREAD_CAPACITY`] if packets are spread and their order is not kept), and not too many packets may
    /// have been spread after the oldest unprocessed packet.
    pub(crate) fn is_clear(&self) -> bool {
        let most = match self.spread.is_some() && self.order.is_none() {
            true => SPREAD_CAPACITY / 2,
            false => CAPACITY / 2,
        };
        let mut lanes = self.lanes.iter().flatten();
        let mut arrivals = self.arrivals.iter().flatten();
        !self.displacement.as_ref().is_some_and(Displacement::holds_sources)
            && lanes.all(|lane| lane.filled() < most)
            && arrivals.all(|ring| ring.slots() < most)
    }

    /// True if packets have come or wait to be handed over.
    pub(crate) fn has_work(&self) -> bool {
        self.keeps_some()
            || self.arrivals.iter().flatten().any(|ring| !ring.is_empty())
            || self.lanes.iter().flatten().any(|lane| !lane.waiting.is_empty())
            || self.order.as_ref().is_some_and(|order| order.has_waiting() || order.has_to_tell())
            // No bell rings when the other workers have caught up.
            || self.displacement.as_ref().is_some_and(Displacement::is_stuck)
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.arrivals.len()
    }
}

/// Keeps the packets of a batch that are for this worker, and stages the others with their numbers.
#[inline]
fn sift(
    me: usize,
    lanes: &mut [Option<Lane>],
    batch: &mut Batch,
    to: Target,
    mut worker_of: impl FnMut(&mut Packet) -> (usize, u64),
    lost: &mut impl FnMut(Packet),
) {
    batch.sift(
        |packet| match worker_of(packet) {
            (worker, _) if worker == me => Ok(()),
            elsewhere => Err(elsewhere),
        },
        |packet, (worker, number)| match lanes.get_mut(worker).and_then(Option::as_mut) {
            Some(lane) => lane.staged.push(Handed { packet, to, number }),
            None => lost(packet),
        },
    );
}

/// Marks the workers whose rings get only packets that must go there. True if there are any.
fn mark_full(lanes: &[Option<Lane>], waiting: &mut [Waiting]) -> bool {
    let mut any = false;
    for (waiting, lane) in waiting.iter_mut().zip(lanes) {
        waiting.is_full = lane.as_ref().is_some_and(|lane| lane.filled() >= SPREAD_CAPACITY);
        any |= waiting.is_full;
    }
    any
}

/// Returns the next worker after `worker` whose ring has room. There is always one: a worker has no
/// ring to itself.
#[cold]
fn with_room(waiting: &[Waiting], worker: usize) -> usize {
    let mut others = (1..waiting.len()).map(|step| (worker + step) % waiting.len());
    others.find(|&worker| !waiting[worker].is_full).unwrap_or(worker)
}

impl Lane {
    /// Returns the number of packets that have been handed over and not been taken yet.
    fn filled(&self) -> usize {
        self.waiting.len() + CAPACITY - self.ring.slots()
    }

    fn push_waiting(&mut self) -> bool {
        let room = self.ring.slots().min(self.waiting.len());
        match self.ring.write_chunk_uninit(room) {
            Ok(places) if room > 0 => places.fill_from_iter(self.waiting.drain(..room)) > 0,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::steering::Rss;
    use packet::Pool;

    /// Sends each packet to the next worker.
    struct InTurn;

    struct Next(usize, usize);

    impl Spreading for InTurn {
        fn spread(&self, worker: usize, loads: &Arc<[Load]>) -> Box<dyn Spread> {
            Box::new(Next(worker, loads.len()))
        }
    }

    impl Spread for Next {
        fn worker_of(&mut self, _packet: &Packet, _now: Timestamp, _owner: &dyn Dispatch) -> usize {
            self.0 = (self.0 + 1) % self.1;
            self.0
        }

        fn may_stay(&self, packet: &Packet) -> bool {
            packet.data() != b"stay"
        }
    }

    const TO: Target = Target { element: 0, input: 0, way: Way::Spread };

    fn links(workers: usize) -> Vec<Links> {
        links_by(workers, Arc::new(InTurn))
    }

    fn links_by(workers: usize, spreading: Arc<dyn Spreading>) -> Vec<Links> {
        let bells: Arc<[Bell]> = (0..workers).map(|_| Bell::new().unwrap()).collect();
        let dispatch: Arc<dyn Dispatch> = Arc::new(Rss::new(workers));
        connect(&bells, &dispatch, Some((&spreading, &Arc::default())), &[], true)
    }

    fn give(links: &mut Links, pool: &mut Pool, bytes: &[u8]) -> usize {
        let mut batch = Batch::new();
        for _ in 0..32 {
            batch.push(pool.packet(bytes).unwrap()).unwrap();
        }
        links.sort(&mut batch, TO, Origin::default(), Timestamp::ZERO, |_| panic!("nothing is lost"));
        let stayed = batch.len();
        batch.drain().for_each(|packet| pool.free(packet));
        stayed
    }

    fn drain(links: &mut Links, from: usize, pool: &mut Pool) -> usize {
        let mut batch = Batch::new();
        let mut count = 0;
        while links.take(from, 32, &mut batch).is_some() {
            count += batch.len();
            batch.drain().for_each(|packet| pool.free(packet));
        }
        count
    }

    #[test]
    fn a_worker_that_has_stopped_keeps_few_packets_that_could_go_elsewhere() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut links = links(3);
        let (mut given, mut elsewhere) = (0, 0);
        // The second worker has lost its core; the third one works.
        for _ in 0..1_000 {
            given += 32;
            elsewhere += give(&mut links[0], &mut pool, b"packet");
            elsewhere += drain(&mut links[2], 0, &mut pool);
        }
        links[1].count_arrivals();
        let waited = links[1].waited as usize;
        assert!((SPREAD_CAPACITY..SPREAD_CAPACITY + 32).contains(&waited), "{waited}");
        assert_eq!(elsewhere + waited, given);
        // Packets that have to go to the second worker still do.
        give(&mut links[0], &mut pool, b"stay");
        links[1].count_arrivals();
        assert!(links[1].waited as usize > waited);
        links.iter_mut().skip(1).for_each(|other| _ = drain(other, 0, &mut pool));
    }

    /// Sends one packet to the second worker, and lets all others stay.
    struct Once(bool);

    impl Spreading for Once {
        fn spread(&self, _worker: usize, _loads: &Arc<[Load]>) -> Box<dyn Spread> {
            Box::new(Once(false))
        }
    }

    impl Spread for Once {
        fn worker_of(&mut self, _packet: &Packet, _now: Timestamp, _owner: &dyn Dispatch) -> usize {
            usize::from(!std::mem::replace(&mut self.0, true))
        }

        fn may_stay(&self, _packet: &Packet) -> bool {
            true
        }
    }

    #[test]
    fn a_packet_that_no_other_one_follows_bounds_them_too() {
        let mut pool = Pool::new(64 << 20).unwrap();
        for workers in [2, 8] {
            let mut links = links_by(workers, Arc::new(Once(false)));
            let mut overtake = 0;
            while links[0].is_clear() && overtake < 100_000 {
                overtake += give(&mut links[0], &mut pool, b"packet");
            }
            assert!(overtake <= SPAN * workers + 32, "{workers}: {overtake}");
            // The packet counts until it has been processed.
            let mut batch = Batch::new();
            links[1].take(0, 32, &mut batch).unwrap();
            links[0].look();
            assert!(links.iter().all(|links| !links.is_clear()) && links[0].has_work());
            batch.drain().for_each(|packet| pool.free(packet));
            links[1].count_arrivals();
            links[0].look();
            assert!(links[0].is_clear());
            assert_eq!(
                links[1].displaced(32),
                Some((overtake as u64, Some(SPAN as u64 * workers as u64 + 32)))
            );
        }
    }

    #[test]
    fn sources_that_can_wait_bound_how_far_packets_are_displaced() {
        let mut pool = Pool::new(64 << 20).unwrap();
        for workers in [2, 4, 8] {
            let mut links = links(workers);
            // The first packet for the second worker stays in the ring while all others are processed.
            let mut overtake = 0;
            while links[0].is_clear() {
                overtake += give(&mut links[0], &mut pool, b"packet");
                overtake += links.iter_mut().skip(2).map(|other| drain(other, 0, &mut pool)).sum::<usize>();
            }
            assert!(overtake <= SPAN * workers + 32, "{workers}: {overtake}");
            drain(&mut links[1], 0, &mut pool);
        }
    }
}
