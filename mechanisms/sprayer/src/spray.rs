//! Each packet to the next core.
//!
//! Not by the packet's checksum as an interface has to do it, but by steps of the golden ratio: that is as even as can be,
//! whatever the checksums are, over all packets and over every second or third of them, so that a flow that takes turns with
//! another one still goes to all cores.

use element::steering::{Dispatch, Spread};
use element::{Packet, Timestamp};

use crate::classes::Classes;

/// Spreads each packet for itself.
pub struct Spray {
    workers: usize,
    /// Cores that a flow is spread over.
    cores: usize,
    classes: Classes,
    /// What chooses the next core, as a part of 2^32.
    turn: u32,
}

/// The golden ratio, less one, as a part of 2^32.
pub(crate) const STEP: u32 = 0x9e37_79b9;

impl Spray {
    /// For one of so many workers; a flow is spread over so many of them.
    pub fn new(worker: usize, workers: usize, cores: usize, classes: Classes) -> Spray {
        let workers = workers.max(1);
        // Each worker begins elsewhere.
        let turn = (((worker as u64) << 32) / workers as u64) as u32;
        Spray { workers, cores: cores.clamp(1, workers), classes, turn }
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
    pub(crate) fn next(&mut self, packet: &Packet, owner: &dyn Dispatch) -> usize {
        self.turn = self.turn.wrapping_add(STEP);
        let next = ((u64::from(self.turn) * self.cores as u64) >> 32) as usize;
        if self.is_for_all() {
            return next;
        }
        // Cores of a flow follow each other, from the one that it belongs to.
        (owner.worker_of(packet) + next) % self.workers
    }
}

impl Spread for Spray {
    #[inline]
    fn worker_of(&mut self, packet: &Packet, _now: Timestamp, owner: &dyn Dispatch) -> usize {
        match self.is_regular(packet) {
            true => self.next(packet, owner),
            false => owner.worker_of(packet),
        }
    }

    #[inline]
    fn may_stay(&self, packet: &Packet) -> bool {
        self.is_regular(packet)
    }
}
