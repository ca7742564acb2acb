//! The policy that selects a worker for each burst of a flow.
//!
//! Packets of a flow that follow each other closely stay on one worker, so they stay in order. After a pause
//! longer than the difference between the delays of workers, the flow may change its worker (Kandula et al.,
//! "Dynamic Load Balancing Without Packet Reordering", 2007). This difference has no bound, because a worker
//! may stall. So the flow also stays, after a pause of any length, while its worker has not processed its
//! last packet. The flow leaves earlier only if the queue of the worker is full. Packets that are not regular
//! always go to the owner of their flow.

use element::steering::{Dispatch, Outstanding, Spread};
use element::{Packet, Timestamp};

use crate::spray::Spray;

/// The number of entries in the table of flows, which is indexed by the flow's hash. Flows that share an
/// entry share its worker.
const PLACES: usize = 1 << 14;

/// An entry of the table: the worker of a flow's last packet, and the time at which that packet arrived.
#[derive(Clone, Copy)]
struct Last {
    core: u16,
    at: Timestamp,
}

/// A policy that selects a worker for each burst of a flow.
pub struct Flowlets {
    spray: Spray,
    gap: Timestamp,
    places: Vec<Option<Last>>,
    /// For each worker, the state of the queue to it, as last reported by [`hear`](Spread::hear).
    waiting: Vec<Outstanding>,
}

impl Flowlets {
    /// Creates the policy. A flow may change its worker after a pause longer than `gap`; `spray` then
    /// selects the next worker.
    pub fn new(spray: Spray, gap: Timestamp) -> Flowlets {
        Flowlets { spray, gap, places: vec![None; PLACES], waiting: Vec::new() }
    }

    /// True if the next packet of a flow must go to the worker of the flow's last packet, `last`: the queue
    /// to that worker is not full, and either the pause since that packet was short, or that packet may still
    /// wait in the queue.
    #[inline]
    fn stays(&self, last: Last, now: Timestamp) -> bool {
        let waiting = self.waiting.get(usize::from(last.core)).copied().unwrap_or_default();
        !waiting.is_full && (now - last.at <= self.gap || waiting.since.is_some_and(|since| since <= last.at))
    }
}

impl Spread for Flowlets {
    fn worker_of(&mut self, packet: &Packet, now: Timestamp, owner: &dyn Dispatch) -> usize {
        if !self.spray.is_regular(packet) {
            return owner.worker_of(packet);
        }
        let place = owner.hash(packet).unwrap_or(0) as usize % PLACES;
        let core = match self.places[place] {
            Some(last) if self.stays(last, now) => usize::from(last.core),
            _ => self.spray.next(packet, owner),
        };
        self.places[place] = Some(Last { core: core as u16, at: now });
        core
    }

    fn hear(&mut self, waiting: &[Outstanding]) {
        self.waiting.clear();
        self.waiting.extend_from_slice(waiting);
    }

    fn may_stay(&self, packet: &Packet) -> bool {
        self.spray.is_regular(packet)
    }
}
