//! Chooses the worker of each packet where the packets of one flow are spread over workers.
//!
//! The steering policy ([`Spread`]) names a worker for each packet. There are two exceptions. If the worker's
//! ring has many packets already, a packet that any worker may process goes to another worker. While many
//! packets of unknown flows come, each of these packets goes to the home worker of its flow at once
//! (`unknown_flows.rs`). If no order is kept, `displacement.rs` bounds how many packets can overtake a
//! packet.

use std::sync::Arc;

use element::steering::{Dispatch, KnownFlows, Outstanding, Spread, Spreading, Work, WorkerLoad};
use element::{Batch, Packet, Timestamp};

use super::displacement::Displacement;
use super::order::Order;
use super::rings::Rings;
use super::unknown_flows::Unknown;
use crate::graph_copy::Target;
use crate::placement::Origin;

/// The number of packets in a ring from which on the ring gets only packets that must go to its worker. If a
/// worker loses its core, the packets in its ring are late until it has the core again. So this constant
/// bounds how many packets of a flow are late.
pub(super) const SPREAD_CAPACITY: usize = 256;
/// The number of packets, per worker, that may be spread after the oldest packet that is not yet processed.
/// Beyond it, sources that can wait do so.
pub(super) const SPAN: usize = 128;

/// Facts about a batch that leaves an element by an output. They are the input that the batch goes to, the
/// facts about the packets at this element, and the current time.
#[derive(Clone, Copy)]
pub(crate) struct Departure {
    pub(crate) to: Target,
    pub(crate) origin: Origin,
    pub(crate) now: Timestamp,
}

/// The state with which one worker spreads packets over workers: its policy, its displacement and its load.
pub(super) struct Spreader {
    me: usize,
    policy: Box<dyn Spread>,
    /// Recognises packets of unknown flows before they are spread.
    unknown: Unknown,
    /// For each worker, its waiting packets when the current batch came: since when they have waited, and
    /// true if its ring counts as full.
    waiting: Vec<Outstanding>,
    /// The displacement of packets. `None` if their order is kept.
    pub(super) displacement: Option<Displacement>,
    /// The load of each worker, as the worker itself publishes it.
    loads: Arc<[WorkerLoad]>,
    /// The work that this worker has done so far. Its field `packets` counts the packets that any worker has
    /// spread to this worker.
    work: Work,
}

impl Spreader {
    /// Makes the state of each of `workers` workers, which share their loads.
    pub(super) fn of_all(
        workers: usize,
        spreading: &Arc<dyn Spreading>,
        known: &Arc<KnownFlows>,
    ) -> impl Iterator<Item = Spreader> {
        let loads: Arc<[WorkerLoad]> = (0..workers).map(|_| WorkerLoad::default()).collect();
        let mut displacement = match spreading.keeps_order() {
            true => Vec::new(),
            false => Displacement::of_all(workers, (SPAN * workers) as u64),
        }
        .into_iter();
        Unknown::of_all(known, workers).enumerate().map(move |(me, unknown)| Spreader {
            me,
            policy: spreading.spread(me, &loads),
            unknown,
            waiting: vec![Outstanding::default(); workers],
            displacement: displacement.next(),
            loads: Arc::clone(&loads),
            work: Work::default(),
        })
    }

    /// Spreads the packets of a batch: leaves in the batch the packets for this worker, and stages the
    /// other packets in the rings. Packets that cannot be staged go to `lost`.
    #[inline]
    pub(super) fn spread(
        &mut self,
        batch: &mut Batch,
        Departure { to, origin, now }: Departure,
        (dispatch, rings, mut order): (&dyn Dispatch, &mut Rings, Option<&mut Order>),
        lost: impl FnMut(Packet),
    ) {
        let Spreader { me, policy, unknown, waiting, displacement, work, .. } = self;
        // False if each packet of the batch goes to the home worker of its flow, so that none is spread.
        let is_spread = policy.look(batch, now, dispatch);
        let looks = is_spread && origin.meets_boards && unknown.looks(batch.len());
        let any_full = is_spread && mark_full(rings, waiting);
        if let Some(displacement) = displacement.as_mut().filter(|_| is_spread) {
            displacement.look();
            displacement.show(waiting);
            policy.hear(waiting);
        }
        let is_full = |worker: usize| waiting.get(worker).is_some_and(|waiting| waiting.is_full);
        let (mut number, count) = (displacement.as_ref().map_or(0, Displacement::given), batch.len());
        // The number of the last packet of the batch that stays, or 0.
        let mut stayed = 0;
        if is_spread || !origin.is_home || order.is_some() {
            let worker = |packet: &mut Packet| {
                // A packet of an unknown flow would be sent home by the next element anyway, so it goes
                // home directly.
                let goes_home = || looks && !unknown.may_know(packet);
                let worker = match is_spread && !goes_home() {
                    true => policy.worker_of(packet, now, dispatch),
                    false => dispatch.worker_of(packet),
                };
                // A packet that any worker may process does not go to a ring that counts as full.
                let worker = match any_full && is_full(worker) && policy.may_stay(packet) {
                    true => with_room(waiting, worker),
                    false => worker,
                };
                if let Some(order) = &mut order {
                    order.give(packet, worker);
                }
                number += 1;
                if worker == *me {
                    stayed = number;
                }
                (worker, number)
            };
            rings.stage(batch, to, worker, lost);
            if let Some(order) = order {
                order.show();
            }
        } else {
            // The whole batch is at its home already, and stays.
            stayed = number + count as u64;
        }
        if let Some(displacement) = displacement {
            displacement.count(count as u64, stayed);
        }
        work.packets += batch.len() as u64;
    }

    /// True if any worker may process this packet.
    #[inline]
    pub(super) fn may_stay(&self, packet: &Packet) -> bool {
        self.policy.may_stay(packet)
    }

    /// Counts packets that this worker sends home after they were spread to it.
    pub(super) fn count_home(&self, packets: u64) {
        self.unknown.send_home(packets);
    }

    /// Notes that spread packets with these numbers were put into the ring to a worker, or wait for room in
    /// it.
    #[inline]
    pub(super) fn note_sent(&mut self, worker: usize, numbers: (u64, u64), now: Timestamp) {
        if let Some(displacement) = &mut self.displacement {
            displacement.give(worker, numbers, now);
        }
    }

    /// Notes that spread packets with these numbers were taken out of the ring from a worker.
    #[inline]
    pub(super) fn note_taken(&mut self, from: usize, packets: u64, numbers: (u64, u64)) {
        self.work.packets += packets;
        if let Some(displacement) = &mut self.displacement {
            displacement.take(from, numbers);
        }
    }

    /// Sets the number of packets that wait in the rings to this worker, as a part of this worker's load.
    #[inline]
    pub(super) fn set_waiting(&mut self, packets: u64) {
        self.work.waiting = packets;
    }

    /// Subtracts packets that were taken out of the rings from the number of packets that wait for this
    /// worker.
    #[inline]
    pub(super) fn subtract_waiting(&mut self, packets: u64) {
        self.work.waiting = self.work.waiting.saturating_sub(packets);
    }

    /// Notes that the batch that was taken last, if any, has been processed.
    #[inline]
    pub(super) fn end_batch(&mut self) {
        if let Some(displacement) = &mut self.displacement {
            displacement.end();
        }
    }

    /// Reads which of the packets that this worker has spread have been processed by other workers.
    #[inline]
    pub(super) fn look(&mut self) {
        if let Some(displacement) = self.displacement.as_mut().filter(|displacement| displacement.has_some())
        {
            displacement.look();
        }
    }

    /// Publishes the load of this worker. `more` is the time for which it has worked since the last call;
    /// `now` is the current time.
    #[inline]
    pub(super) fn worked(&mut self, more: Timestamp, now: Timestamp) {
        if let Some(load) = self.loads.get(self.me) {
            self.work.busy += more.0.max(0) as u64;
            load.say(self.work, now);
        }
    }

    /// Publishes that this worker goes to sleep, so that the time from now on does not count as its work.
    pub(super) fn rest(&self) {
        if let Some(load) = self.loads.get(self.me) {
            load.rest();
        }
    }
}

/// Marks the workers whose rings get only packets that must go there, because at least [`SPREAD_CAPACITY`]
/// packets are in them. True if any worker is marked.
fn mark_full(rings: &Rings, waiting: &mut [Outstanding]) -> bool {
    let mut any = false;
    for (waiting, filled) in waiting.iter_mut().zip(rings.filled()) {
        waiting.is_full = filled >= SPREAD_CAPACITY;
        any |= waiting.is_full;
    }
    any
}

/// Returns the next worker after `worker` whose ring does not count as full. There always is such a worker,
/// because this worker has no ring to itself.
#[cold]
fn with_room(waiting: &[Outstanding], worker: usize) -> usize {
    let mut others = (1..waiting.len()).map(|step| (worker + step) % waiting.len());
    others.find(|&worker| !waiting[worker].is_full).unwrap_or(worker)
}
