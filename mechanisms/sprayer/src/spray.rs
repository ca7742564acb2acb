//! The policy that sends each packet to the next core.
//!
//! The next core is not selected by the packet's checksum, as an interface has to do it, but by steps of
//! the golden ratio. These are as even as possible for any checksums, over all packets and over every
//! second or third packet, so that a flow whose packets alternate with another flow's still goes to all
//! cores.

use element::steering::{Dispatch, Spread};
use element::{Packet, Timestamp};

use crate::classes::Classes;

/// A policy that spreads each packet independently.
pub struct Spray {
    workers: usize,
    /// The number of cores that a flow is spread over.
    cores: usize,
    classes: Classes,
    /// The value that selects the next core, as a fraction of 2^32.
    turn: u32,
}

/// The golden ratio minus 1, as a fraction of 2^32.
pub(crate) const STEP: u32 = 0x9e37_79b9;

impl Spray {
    /// Creates the policy for one of `workers` workers; a flow is spread over `cores` workers.
    pub fn new(worker: usize, workers: usize, cores: usize, classes: Classes) -> Spray {
        let workers = workers.max(1);
        // Each worker starts with another core.
        let turn = (((worker as u64) << 32) / workers as u64) as u32;
        Spray { workers, cores: cores.clamp(1, workers), classes, turn }
    }

    /// True if each flow goes to all cores.
    #[inline]
    pub(crate) fn is_for_all(&self) -> bool {
        self.cores == self.workers
    }

    /// True if a packet is regular.
    #[inline]
    pub(crate) fn is_regular(&self, packet: &Packet) -> bool {
        self.classes.is_regular(packet)
    }

    /// Returns the next core for a regular packet.
    #[inline]
    pub(crate) fn next(&mut self, packet: &Packet, owner: &dyn Dispatch) -> usize {
        self.turn = self.turn.wrapping_add(STEP);
        let next = ((u64::from(self.turn) * self.cores as u64) >> 32) as usize;
        if self.is_for_all() {
            return next;
        }
        // The cores of a flow are consecutive, from its owner on.
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
