//! The policy that sends each burst of a flow to the next core.
//!
//! Packets that follow each other closely stay on one core, so they stay in order. After a pause longer
//! than the difference between the delays of cores, the flow may change its core (Kandula et al., "Dynamic
//! Load Balancing Without Packet Reordering", 2007). This difference has no bound, because a core may
//! stall. So the flow stays, after a pause of any length, while its core has not processed its last packet,
//! and leaves earlier only if the queue of the core is full.

use element::steering::{Dispatch, Spread, Waiting};
use element::{Packet, Timestamp};

use crate::spray::Spray;

/// The number of entries by which flows are distinguished; flows that share an entry share its core.
const PLACES: usize = 1 << 14;

/// The core of a flow's last packet, and its time.
#[derive(Clone, Copy)]
struct Last {
    core: u16,
    at: Timestamp,
}

/// A policy that spreads bursts.
pub struct Flowlets {
    spray: Spray,
    gap: Timestamp,
    places: Vec<Option<Last>>,
    /// The state of each core's queue.
    waiting: Vec<Waiting>,
}

impl Flowlets {
    /// Creates the policy; a flow may change its core after a pause longer than `gap`.
    pub fn new(spray: Spray, gap: Timestamp) -> Flowlets {
        Flowlets { spray, gap, places: vec![None; PLACES], waiting: Vec::new() }
    }

    /// True if the next packet of a flow must follow the last one.
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

    fn hear(&mut self, waiting: &[Waiting]) {
        self.waiting.clear();
        self.waiting.extend_from_slice(waiting);
    }

    fn may_stay(&self, packet: &Packet) -> bool {
        self.spray.is_regular(packet)
    }
}
