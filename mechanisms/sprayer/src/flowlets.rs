//! Each burst of a flow to the next core.
//!
//! Packets that follow each other closely stay on one core, so that they stay in order; behind a pause that is longer than what
//! cores differ by, the flow may go on elsewhere (Kandula et al., "Dynamic Load Balancing Without Packet Reordering", 2007). What
//! cores differ by has no bound, since one may stand still: so the flow stays, whatever the pause, while its core has not dealt with
//! its last packet, and goes elsewhere only when no more may wait there.

use element::steering::{Dispatch, Spread, Waiting};
use element::{Packet, Timestamp};

use crate::spray::Spray;

/// Flows are told apart by so many places; those that share one share its core.
const PLACES: usize = 1 << 14;

/// Where a flow's last packet went, and when.
#[derive(Clone, Copy)]
struct Last {
    core: u16,
    at: Timestamp,
}

/// Spreads bursts.
pub struct Flowlets {
    spray: Spray,
    gap: Timestamp,
    places: Vec<Option<Last>>,
    /// What waits for each core.
    waiting: Vec<Waiting>,
}

impl Flowlets {
    /// A flow may change core after a pause longer than `gap`.
    pub fn new(spray: Spray, gap: Timestamp) -> Flowlets {
        Flowlets { spray, gap, places: vec![None; PLACES], waiting: Vec::new() }
    }

    /// Whether the next packet of a flow is to follow the last one.
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
