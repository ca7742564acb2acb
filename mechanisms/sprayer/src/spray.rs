//! The policy that selects a worker for each packet separately.
//!
//! The worker is not selected by the packet's checksum, as an interface has to do it, but by steps of the
//! golden ratio. For any checksums, the distribution is even over all packets, and also over every second or
//! third packet. So a flow whose packets alternate with those of another flow still goes to all workers.

use element::steering::{Dispatch, Spread};
use element::{Packet, Timestamp};

use crate::classes::Classes;

/// A policy that selects a worker for each regular packet separately, so that all workers of a flow get equal
/// parts.
pub struct Spray {
    workers: usize,
    /// The number of workers that a flow is spread over.
    workers_per_flow: usize,
    classes: Classes,
    /// The value that selects the worker of the next packet among the workers of its flow, as a fraction of
    /// 2^32: 0 stands for the first of these workers. The value grows by [`STEP`] per packet.
    turn: u32,
}

/// The golden ratio minus 1 (0.618...), as a fraction of 2^32: the step of `turn` per packet.
pub(crate) const STEP: u32 = 0x9e37_79b9;

impl Spray {
    /// Creates the policy for the packets that arrive at worker `worker` of `workers`. Each flow is spread
    /// over `workers_per_flow` of them, at least one.
    pub fn new(worker: usize, workers: usize, workers_per_flow: usize, classes: Classes) -> Spray {
        let workers = workers.max(1);
        // The instances of the policy start at different workers, so that they do not all send to the same
        // worker at once.
        let turn = (((worker as u64) << 32) / workers as u64) as u32;
        Spray { workers, workers_per_flow: workers_per_flow.clamp(1, workers), classes, turn }
    }

    /// True if each flow is spread over all workers.
    #[inline]
    pub(crate) fn is_for_all(&self) -> bool {
        self.workers_per_flow == self.workers
    }

    /// True if a packet is regular, so that any worker may handle it.
    #[inline]
    pub(crate) fn is_regular(&self, packet: &Packet) -> bool {
        self.classes.is_regular(packet)
    }

    /// Returns the worker for a regular packet, and advances `turn` by [`STEP`]. `owner` says which worker
    /// owns the packet's flow.
    #[inline]
    pub(crate) fn next(&mut self, packet: &Packet, owner: &dyn Dispatch) -> usize {
        self.turn = self.turn.wrapping_add(STEP);
        let next = ((u64::from(self.turn) * self.workers_per_flow as u64) >> 32) as usize;
        if self.is_for_all() {
            return next;
        }
        // The workers of a flow are consecutive, starting with its owner.
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
