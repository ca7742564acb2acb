//! Exchanges packets with other workers. With one worker there is no exchange.
//!
//! ```text
//!   worker 0                                                  worker 1
//!   ┌───────────┐ send ┌──────────────────┐    ring 0 ▶ 1    ┌───────────────────┐ receive ┌───────────┐
//!   │ work list │─────▶│ a worker for     │═════════════════▶│ packets that have │────────▶│ work list │
//!   │           │◀─────│ each packet      │ queue if full    │ to wait are kept  │         │           │
//!   └───────────┘ stay └──────────────────┘                  └───────────────────┘         └───────────┘
//! ```
//!
//! The work list (`worker.rs`) uses these functions:
//!
//! - [`Exchange::send`] takes a batch that goes to an input, by the [`Way`] that was decided when the graph
//!   was built ([`Placement`](crate::Placement)). It puts packets for other workers into the rings to them
//!   (`rings.rs`), rings their bells (`bell.rs`), and returns the packets that this worker processes itself.
//!   Where the packets of one flow are spread, `spreader.rs` chooses the workers.
//!   [`Exchange::send_to_copies`] does the same for packets that have already come to an element.
//! - [`Exchange::poll`] begins a round of receiving, if there is anything to do.
//! - [`Exchange::receive`] returns the packets of other workers, batch by batch. Packets that were sent home
//!   wait for packets that were handed over before them (`home.rs`). If order is kept, packets for elements
//!   that work on one worker only wait for earlier packets (`order.rs`).
//!
//! The exchange alone takes part in the order protocol: it gives tickets, has packets wait, and publishes
//! which packets this worker has processed.

mod bell;
mod displacement;
mod home;
mod order;
mod rings;
mod spreader;
mod unknown_flows;

use std::sync::Arc;

use element::steering::{Dispatch, KnownFlows, Owners, Spreading};
use element::{Batch, Core, DropReason, ElementId, Packet, Timestamp};

use crate::graph_copy::Target;
use crate::placement::{Origin, Way};
use crate::report::WorkerReport;

pub(crate) use bell::Bell;
pub(crate) use displacement::Board;
use displacement::Displacement;
use home::Home;
use order::{Order, Tickets};
use rings::{CAPACITY, Rings};
pub(crate) use spreader::Departure;
use spreader::{SPAN, SPREAD_CAPACITY, Spreader};

/// The maximum number of full batches that are taken out of each ring in one round, unless the round takes
/// all packets.
const MOST_BATCHES: usize = 16;

/// The side of one worker in the exchange of packets between all workers.
pub(crate) struct Exchange {
    me: usize,
    /// The rule that gives each flow its home worker.
    dispatch: Arc<dyn Dispatch>,
    rings: Rings,
    /// The spreading of the packets of one flow over workers, if the run asks for it.
    spreader: Option<Spreader>,
    /// The part of this worker in keeping the order of packets that are spread (`order.rs`). `None` if their
    /// order is not kept.
    order: Option<Order>,
    home: Home,
    round: Round,
    /// The largest number of packets that have waited in the rings to this worker at once.
    waited: u64,
    /// The time for which this worker has worked on tasks and packets, in nanoseconds.
    busy: u64,
}

/// A round of receiving: a pass over the rings from all other workers, each ring once.
#[derive(Default)]
struct Round {
    /// The number of rings whose turn has begun. The turn of the last of these rings may still go on.
    begun: usize,
    /// The number of packets that may still be taken, in this round, out of the ring whose turn began last.
    left: usize,
    /// True if all packets are taken out of all rings in this round, because packets that wait depend on
    /// packets in the rings.
    takes_all: bool,
    /// True if the rings, and the packets that were sent home, have no packet left for this round. Then only
    /// packets are returned that have waited for earlier packets in the window of `order.rs`, and need not
    /// wait any more.
    is_over: bool,
}

/// A batch that goes into the input `to` at this worker: packets from other workers, or packets that have
/// waited at this worker for earlier packets of their order.
pub(crate) struct Arrival {
    /// The input that the packets go to.
    pub(crate) to: Target,
    pub(crate) batch: Batch,
    /// True if the packets have waited for packets with smaller numbers in the window of `order.rs`.
    pub(crate) has_waited: bool,
}

/// Makes the exchange between all workers: one side for each worker, in the order of `bells`. `aside` are
/// the elements at which packets can be sent home, upstream elements first. `waits` is true if all sources
/// can wait; otherwise packets that find a full ring are dropped.
pub(crate) fn connect(
    bells: &Arc<[Bell]>,
    dispatch: &Arc<dyn Dispatch>,
    spreading: Option<(&Arc<dyn Spreading>, &Arc<KnownFlows>)>,
    aside: &[ElementId],
    waits: bool,
) -> Vec<Exchange> {
    let workers = bells.len();
    let keeps_order = spreading.is_some_and(|(spreading, _)| spreading.keeps_order());
    let tickets = keeps_order.then(|| Arc::new(Tickets::new(workers, aside, waits)));
    let mut spreaders =
        spreading.into_iter().flat_map(|(spreading, known)| Spreader::of_all(workers, spreading, known));
    let all = Rings::connect(bells, waits).into_iter().enumerate();
    all.map(|(me, rings)| Exchange {
        me,
        dispatch: Arc::clone(dispatch),
        rings,
        spreader: spreaders.next(),
        order: tickets.as_ref().map(|tickets| Order::new(me, Arc::clone(tickets))),
        home: Home::default(),
        round: Round::default(),
        waited: 0,
        busy: 0,
    })
    .collect()
}

impl Exchange {
    /// Hands packets of a batch over to the workers that they have to go to. Returns the packets that this
    /// worker processes now, or `None` if there are none. Packets that find no room in a ring, and cannot
    /// wait for it, are counted as dropped at the element `from`.
    #[cold]
    #[inline(never)]
    pub(crate) fn send(
        &mut self,
        core: &mut Core,
        (from, origin): (u32, Origin),
        to: Target,
        batch: Batch,
    ) -> Option<Batch> {
        let mut batch = self.hand_over_from(core, (from, origin), to, batch);
        if let (Way::To(_), Some(order)) = (to.way, &mut self.order) {
            order.wait(self.me, to, &mut batch, core.now);
        }
        if_any(core, batch)
    }

    /// Hands packets that have already arrived at an element over to the element's copies at other workers.
    /// Returns the packets that this worker processes now, or `None` if there are none.
    #[cold]
    pub(crate) fn send_to_copies(
        &mut self,
        core: &mut Core,
        origin: Origin,
        to: Target,
        batch: Batch,
    ) -> Option<Batch> {
        let count = batch.len() as u64;
        if let (Way::ToOwner, Some(spreader)) = (to.way, &self.spreader) {
            spreader.count_home(count);
        }
        // Packets that are lost on the way to other workers count as arrived and dropped at the element's
        // copy at this worker. Each other packet counts at the copy that gets the packet.
        let id = to.element as usize;
        core.counters[id].emitted += count;
        let before = core.counters[id].emitted;
        let here = self.hand_over_from(core, (to.element, origin), to, batch);
        let lost = before - core.counters[id].emitted;
        core.counters[id].emitted -= count - lost;
        core.counters[id].arrived += lost;
        if_any(core, here)
    }

    /// Hands packets over to the workers that they have to go to, and returns the packets that stay at this
    /// worker, perhaps none.
    #[inline]
    fn hand_over_from(
        &mut self,
        core: &mut Core,
        (from, origin): (u32, Origin),
        to: Target,
        mut batch: Batch,
    ) -> Batch {
        // Packets of two batches become neighbours in a ring, and must not have the same run number.
        core.renumber_runs(&mut batch);
        let Core { counters, pool, facts, now, drop_watch, .. } = core;
        if !facts.flow_marks.is_empty() {
            // A flow mark names a flow in this worker's tables only, so it has no meaning at another
            // worker.
            batch.iter_mut().for_each(|packet| packet.set_flow_mark(None));
        }
        let lost = |packet| {
            if let Some(watch) = drop_watch {
                watch.dropped(from as usize, &packet, DropReason::WorkerBusy, *now);
            }
            counters[from as usize].lose(DropReason::WorkerBusy);
            pool.free(packet);
        };
        self.hand_over(&mut batch, Departure { to, origin, now: *now }, lost);
        batch
    }

    /// Leaves in the batch the packets that this worker processes, and hands the other packets over. Passes
    /// packets that find no room in a ring, and cannot wait for it, to `lost`.
    pub(crate) fn hand_over(
        &mut self,
        batch: &mut Batch,
        departure: Departure,
        mut lost: impl FnMut(Packet),
    ) {
        let Exchange { me, dispatch, rings, spreader, order, .. } = self;
        let (dispatch, Departure { to, now, origin }) = (&**dispatch, departure);
        match (to.way, &mut *spreader) {
            (Way::Here | Way::Heir, _) => {}
            (Way::To(worker), _) => rings.stage(batch, to, |_| (worker, 0), &mut lost),
            // Each packet gets a worker from the spreading policy, or goes home.
            (Way::Spread, Some(spreader)) => {
                spreader.spread(batch, departure, (dispatch, rings, order.as_mut()), &mut lost);
            }
            // A packet that any worker may process stays. Any other packet goes home.
            (Way::Stay, Some(spreader)) => {
                let worker = |packet: &mut Packet| match spreader.may_stay(packet) {
                    true => (*me, 0),
                    false => (dispatch.worker_of(packet), 0),
                };
                rings.stage(batch, to, worker, &mut lost);
            }
            (Way::ToOwner | Way::Spread | Way::Stay, _) => {
                let mut owners = Owners::new(dispatch);
                let here = origin.is_framed.then_some(*me);
                let worker = |packet: &mut Packet| (owners.worker_of(packet, here), 0);
                rings.stage(batch, to, worker, &mut lost);
            }
        }
        let is_spread = to.way == Way::Spread;
        let sends = |worker, staged: &[rings::Handed], kept: usize| {
            let sent = &staged[..kept];
            if let Some(order) = order {
                order.hand_over(worker, to, kept, sent.last().map(|handed| &handed.packet));
                if kept < staged.len() && is_spread {
                    order.lose(worker);
                }
            }
            if let (true, Some(spreader), Some(first), Some(last)) =
                (is_spread, &mut *spreader, sent.first(), sent.last())
            {
                spreader.note_sent(worker, (first.number, last.number), now);
            }
        };
        rings.push_staged(sends, lost);
    }

    /// Moves packets that wait for room into rings that have room again, and begins a round of receiving if
    /// there is work ([`has_work`](Self::has_work)). True if a round has begun: then
    /// [`receive`](Self::receive) has to be called until it returns `None`.
    #[inline]
    pub(crate) fn poll(&mut self) -> bool {
        self.rings.push_waiting();
        if let Some(spreader) = &mut self.spreader {
            spreader.look();
        }
        self.has_work() && self.begin_round()
    }

    fn begin_round(&mut self) -> bool {
        self.count_arrivals();
        self.publish();
        if let Some(order) = &mut self.order {
            order.look();
        }
        self.home.look(self.me, &self.rings.unfinished);
        // Packets that were sent home, or that wait in the window for their order, depend on packets that are
        // still in the rings.
        let takes_all = self.home.has_ready() || self.order.is_some();
        self.round = Round { begun: 0, left: 0, takes_all, is_over: false };
        true
    }

    /// Returns the next batch from other workers or from the window where packets wait for their order, or
    /// `None` at the end of the round. The batch that was returned before must have been processed. If
    /// `hurries`, a timer is due, and at most one more batch is taken from each worker, unless the round
    /// takes all packets. If the run `ends`, packets in the window no longer wait for earlier packets.
    pub(crate) fn receive(&mut self, core: &mut Core, hurries: bool, ends: bool) -> Option<Arrival> {
        if hurries && !self.round.takes_all {
            self.round.left = 0;
        }
        while !self.round.is_over {
            let Some((from, to, mut batch)) = self.next_batch(core) else {
                self.publish();
                self.round.is_over = true;
                break;
            };
            if let Some(order) = &mut self.order {
                order.take(from, to, &batch);
                if let Way::To(_) = to.way {
                    order.wait(from, to, &mut batch, core.now);
                }
            }
            if let Some(mut batch) = if_any(core, batch) {
                core.renumber_runs(&mut batch);
                return Some(Arrival { to, batch, has_waited: false });
            }
        }
        let order = self.order.as_mut()?;
        let mut batch = core.batch();
        let to = order.release(core.now, ends, &mut batch);
        let batch = if_any(core, batch)?;
        Some(Arrival { to: to?, batch: without_runs(core, batch), has_waited: true })
    }

    /// Takes the next batch of the round, and returns the worker that it came from and its destination. The
    /// rings come first, then packets that were sent home in earlier rounds and need not wait any more.
    fn next_batch(&mut self, core: &mut Core) -> Option<(usize, Target, Batch)> {
        loop {
            if self.round.left == 0 {
                if self.round.begun == self.rings.workers() {
                    return self.home.take_ready();
                }
                let arrived = self.rings.arrived_from(self.round.begun);
                self.round.left = match self.round.takes_all {
                    true => arrived,
                    false => arrived.min(MOST_BATCHES * core.burst),
                };
                self.round.begun += 1;
                continue;
            }
            let (from, mut batch) = (self.round.begun - 1, core.batch());
            let Some(to) = self.take(from, core.burst.min(self.round.left), &mut batch) else {
                core.recycle(batch);
                self.round.left = 0;
                continue;
            };
            self.round.left -= batch.len();
            // If packets of one flow come from several workers, packets that were sent home are set aside
            // to wait.
            if to.way != Way::ToOwner || self.spreader.is_none() {
                return Some((from, to, batch));
            }
            self.home.keep(from, to, batch);
        }
    }

    /// Takes at most `most` packets that came from one worker and go to one input into an empty batch.
    /// Returns their destination, or `None` if there are no packets. The batch that was taken before counts
    /// as processed.
    #[inline]
    pub(crate) fn take(&mut self, from: usize, most: usize, batch: &mut Batch) -> Option<Target> {
        self.end_batch();
        let taken = self.rings.take(from, most, batch)?;
        if let Some(spreader) = &mut self.spreader {
            spreader.subtract_waiting(batch.len() as u64);
            if taken.to.way == Way::Spread {
                spreader.note_taken(from, batch.len() as u64, taken.numbers);
            }
        }
        Some(taken.to)
    }

    /// True if packets at this worker wait for packets of other workers. Unless the run `ends`, also true
    /// if this worker has not yet published all packets that it has processed.
    #[inline]
    pub(crate) fn has_waiting(&self, ends: bool) -> bool {
        let order = self.order.as_ref();
        self.home.has_waiting()
            || order.is_some_and(|order| order.has_waiting() || !ends && order.has_to_tell())
    }

    /// Takes nothing out of the rings until [`open`](Self::open) allows it. Before packets for this
    /// generation of the graph are taken from a worker, all packets that the worker has handed over to the
    /// old generation have to be processed.
    pub(crate) fn await_others(&mut self) {
        self.rings.shut_all();
    }

    /// Takes packets out of the rings from these workers from now on, or, if `all` is true, from all workers.
    pub(crate) fn open(&mut self, workers: &[usize], all: bool) {
        self.rings.open(workers, all);
    }

    /// True if packets that this worker hands over are not in the rings yet.
    pub(crate) fn has_packets_out(&self) -> bool {
        self.rings.have_waiting()
    }

    /// True if packets have come, or wait to be handed over or to be processed. Also true if this worker has
    /// counts to publish, or has spread too many packets since its oldest unprocessed packet.
    pub(crate) fn has_work(&self) -> bool {
        self.has_waiting(false)
            || self.rings.have_arrivals()
            || self.rings.have_waiting()
            // A worker that has spread too many packets since its oldest unprocessed packet has to look again
            // by itself, because the other workers ring no bell when they have processed its packets.
            || self.displacement().is_some_and(Displacement::is_stuck)
    }

    /// True if sources that can wait may go on. Each ring from or to this worker must be less than half full,
    /// and no giver may have spread too many packets since its oldest unprocessed packet. The size of a ring
    /// counts as [`SPREAD_CAPACITY`] if packets are spread and their order is not kept.
    pub(crate) fn is_clear(&self) -> bool {
        let capacity = match self.spreader.is_some() && self.order.is_none() {
            true => SPREAD_CAPACITY,
            false => CAPACITY,
        };
        !self.displacement().is_some_and(Displacement::holds_sources) && self.rings.are_below(capacity / 2)
    }

    fn displacement(&self) -> Option<&Displacement> {
        self.spreader.as_ref()?.displacement.as_ref()
    }

    /// Notes that the batch that was taken last, if any, has been processed.
    #[inline]
    fn end_batch(&mut self) {
        if let Some(spreader) = &mut self.spreader {
            spreader.end_batch();
        }
    }

    /// Counts the packets that wait in the rings to this worker, for the report and for spreading policies.
    fn count_arrivals(&mut self) {
        self.end_batch();
        let arrived = self.rings.arrived();
        self.waited = self.waited.max(arrived);
        if let Some(spreader) = &mut self.spreader {
            spreader.set_waiting(arrived);
        }
    }

    /// Publishes to the other workers which of their packets this worker has processed.
    fn publish(&mut self) {
        self.end_batch();
        if let Some(order) = &mut self.order {
            order.tell(self.rings.have_waiting());
        }
    }

    /// Counts the time for which this worker has worked, and publishes it if packets are spread. `more` is
    /// the working time since the last call; `now` is the current time.
    #[inline]
    pub(crate) fn worked(&mut self, more: Timestamp, now: Timestamp) {
        self.busy += more.0.max(0) as u64;
        if let Some(spreader) = &mut self.spreader {
            spreader.worked(more, now);
        }
    }

    /// Publishes that this worker goes to sleep, so that the time from now on does not count as its work.
    pub(crate) fn rest(&self) {
        if let Some(spreader) = &self.spreader {
            spreader.rest();
        }
    }

    /// Returns the number of packets that this worker has handed over, and the number that it has taken.
    pub(crate) fn moved(&self) -> (u64, u64) {
        (self.rings.handed, self.rings.taken)
    }

    /// Returns the largest number of packets by which a packet processed at this worker was overtaken. With
    /// it, returns the limit of this number for bursts of `burst` packets. The limit is `None` if packets
    /// come from interfaces, which cannot wait. The result is `None` if packets are not spread, or their
    /// order is kept.
    fn displaced(&self, burst: usize) -> Option<(u64, Option<u64>)> {
        let displacement = self.displacement()?;
        let most = SPAN * self.rings.workers() + burst;
        Some((displacement.largest, self.rings.waits.then_some(most as u64)))
    }

    /// Returns the shared state from which the largest displacement at any worker can be read. With it,
    /// returns the limit of the displacement for bursts of `burst` packets. Returns `None` if packets are not
    /// spread, or their order is kept.
    pub(crate) fn board(&self, burst: usize) -> Option<(Arc<Board>, Option<u64>)> {
        let (displacement, (_, most)) = self.displacement().zip(self.displaced(burst))?;
        Some((Arc::clone(&displacement.board), most))
    }

    /// Returns the number of packets that wait in the rings from other workers.
    pub(crate) fn arrived(&self) -> u64 {
        self.rings.arrived()
    }

    /// Returns this worker's report with the numbers about the exchange. Its other numbers are 0.
    pub(crate) fn report(&self, burst: usize) -> WorkerReport {
        let (displaced, displaced_most) = self.displaced(burst).unzip();
        WorkerReport {
            handed: self.rings.handed,
            taken: self.rings.taken,
            waited: self.waited,
            busy_ns: self.busy,
            late: self.order.as_ref().map_or(0, Order::late),
            displaced,
            displaced_most: displaced_most.flatten(),
            ..WorkerReport::default()
        }
    }
}

/// Returns the batch with the runs of its packets unset. The packets have waited for each other, and come
/// from several workers, each of which numbers runs of its own.
fn without_runs(core: &Core, mut batch: Batch) -> Batch {
    if !core.facts.runs.is_empty() {
        batch.iter_mut().for_each(|packet| packet.set_run(0));
    }
    batch
}

/// Returns the batch if it has packets. Otherwise returns `None`, and gives the memory of the batch back to
/// the worker.
fn if_any(core: &mut Core, batch: Batch) -> Option<Batch> {
    if batch.is_empty() {
        core.recycle(batch);
        return None;
    }
    Some(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::steering::{Rss, Spread, WorkerLoad};
    use packet::Pool;

    /// A policy that sends each packet to the next worker in turn.
    struct InTurn;

    struct Next(usize, usize);

    impl Spreading for InTurn {
        fn spread(&self, worker: usize, loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread> {
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

    fn sides(workers: usize) -> Vec<Exchange> {
        sides_by(workers, Arc::new(InTurn))
    }

    fn sides_by(workers: usize, spreading: Arc<dyn Spreading>) -> Vec<Exchange> {
        let bells: Arc<[Bell]> = (0..workers).map(|_| Bell::new().unwrap()).collect();
        let dispatch: Arc<dyn Dispatch> = Arc::new(Rss::new(workers));
        connect(&bells, &dispatch, Some((&spreading, &Arc::default())), &[], true)
    }

    fn give(side: &mut Exchange, pool: &mut Pool, bytes: &[u8]) -> usize {
        let mut batch = Batch::new();
        for _ in 0..32 {
            batch.push(pool.packet(bytes).unwrap()).unwrap();
        }
        let departure = Departure { to: TO, origin: Origin::default(), now: Timestamp::ZERO };
        side.hand_over(&mut batch, departure, |_| panic!("nothing is lost"));
        let stayed = batch.len();
        batch.drain().for_each(|packet| pool.free(packet));
        stayed
    }

    fn drain(side: &mut Exchange, from: usize, pool: &mut Pool) -> usize {
        let mut batch = Batch::new();
        let mut count = 0;
        while side.take(from, 32, &mut batch).is_some() {
            count += batch.len();
            batch.drain().for_each(|packet| pool.free(packet));
        }
        count
    }

    #[test]
    fn a_worker_that_has_stopped_keeps_few_packets_that_could_go_elsewhere() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut sides = sides(3);
        let (mut given, mut elsewhere) = (0, 0);
        // The second worker has lost its core and takes nothing out of its ring; the third worker works.
        for _ in 0..1_000 {
            given += 32;
            elsewhere += give(&mut sides[0], &mut pool, b"packet");
            elsewhere += drain(&mut sides[2], 0, &mut pool);
        }
        sides[1].count_arrivals();
        let waited = sides[1].waited as usize;
        assert!((SPREAD_CAPACITY..SPREAD_CAPACITY + 32).contains(&waited), "{waited}");
        assert_eq!(elsewhere + waited, given);
        // Packets that must go to the second worker still go into its ring.
        give(&mut sides[0], &mut pool, b"stay");
        sides[1].count_arrivals();
        assert!(sides[1].waited as usize > waited);
        sides.iter_mut().skip(1).for_each(|other| _ = drain(other, 0, &mut pool));
    }

    /// A policy that sends one packet to the second worker, and lets all other packets stay.
    struct Once(bool);

    impl Spreading for Once {
        fn spread(&self, _worker: usize, _loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread> {
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
            let mut sides = sides_by(workers, Arc::new(Once(false)));
            let mut overtake = 0;
            while sides[0].is_clear() && overtake < 100_000 {
                overtake += give(&mut sides[0], &mut pool, b"packet");
            }
            assert!(overtake <= SPAN * workers + 32, "{workers}: {overtake}");
            // The taken packet still counts as unprocessed until the second worker uses its side of the
            // exchange again.
            let mut batch = Batch::new();
            sides[1].take(0, 32, &mut batch).unwrap();
            sides[0].poll();
            assert!(sides.iter().all(|side| !side.is_clear()) && sides[0].has_work());
            batch.drain().for_each(|packet| pool.free(packet));
            sides[1].count_arrivals();
            sides[0].poll();
            assert!(sides[0].is_clear());
            assert_eq!(
                sides[1].displaced(32),
                Some((overtake as u64, Some(SPAN as u64 * workers as u64 + 32)))
            );
        }
    }

    #[test]
    fn sources_that_can_wait_bound_how_far_packets_are_displaced() {
        let mut pool = Pool::new(64 << 20).unwrap();
        for workers in [2, 4, 8] {
            let mut sides = sides(workers);
            // The packets for the second worker stay in the ring while all others are processed.
            let mut overtake = 0;
            while sides[0].is_clear() {
                overtake += give(&mut sides[0], &mut pool, b"packet");
                overtake += sides.iter_mut().skip(2).map(|other| drain(other, 0, &mut pool)).sum::<usize>();
            }
            assert!(overtake <= SPAN * workers + 32, "{workers}: {overtake}");
            drain(&mut sides[1], 0, &mut pool);
        }
    }
}
