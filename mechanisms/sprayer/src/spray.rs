//! Each packet to the next core.
//!
//! In turn, and not by the packet's checksum as an interface has to do it: where software spreads packets, taking turns is
//! as even as can be, whatever the checksums are.

use element::steering::{Dispatch, Spread, hash};
use element::{Packet, Timestamp};

use crate::classes::Classes;

/// Spreads each packet for itself.
pub struct Spray {
    workers: usize,
    /// Cores that a flow is spread over.
    cores: usize,
    classes: Classes,
    /// The next core in turn.
    next: usize,
}

impl Spray {
    /// For one of so many workers; a flow is spread over so many of them.
    pub fn new(worker: usize, workers: usize, cores: usize, classes: Classes) -> Spray {
        // Each worker begins with another one.
        Spray { workers: workers.max(1), cores: cores.clamp(1, workers.max(1)), classes, next: worker }
    }

    /// Whether each flow goes to all cores.
    #[inline]
    pub(crate) fn is_for_all(&self) -> bool {
        self.cores == self.workers
    }

    /// Whether a packet is of a kind that is spread.
    #[inline]
    pub(crate) fn is_regular(&self, packet: &Packet) -> bool {
        self.classes.is_regular(packet)
    }

    /// The next core for a regular packet.
    #[inline]
    pub(crate) fn next(&mut self, packet: &Packet) -> usize {
        self.next = if self.next + 1 >= self.cores { 0 } else { self.next + 1 };
        if self.is_for_all() {
            return self.next;
        }
        // Cores of a flow follow each other, from one that its hash says.
        let first = flow::rss::queue(hash(packet).unwrap_or(0), self.workers);
        (first + self.next) % self.workers
    }
}

impl Spread for Spray {
    #[inline]
    fn worker_of(&mut self, packet: &Packet, _now: Timestamp, owner: &dyn Dispatch) -> usize {
        match self.is_regular(packet) {
            true => self.next(packet),
            false => owner.worker_of(packet),
        }
    }

    #[inline]
    fn may_stay(&self, packet: &Packet) -> bool {
        self.is_regular(packet)
    }
}
