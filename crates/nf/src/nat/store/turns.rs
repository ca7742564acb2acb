//! The order in which sessions are examined.
//!
//! A turn names a session and a time before which the session need not be examined. Each session has one
//! turn that counts; its earlier turns are stale. Stale turns are skipped, and are removed once there are
//! as many of them as of the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An entry of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) due: i64,
    pub(super) place: u32,
    /// A number that increases with each turn of a session.
    pub(super) ticket: u32,
}

/// A queue of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Sessions that are guaranteed, by the end of the guarantee.
    Guaranteed,
    /// All other sessions, by the time when they expire.
    Open,
}

/// The number of stale turns that are tolerated if there is room for them.
const FEW: usize = 1024;
/// The number of stale turns for which there is always room.
const BESIDE: usize = 64;

#[derive(Default)]
pub(super) struct Turns {
    guaranteed: BinaryHeap<Reverse<Turn>>,
    open: BinaryHeap<Reverse<Turn>>,
    /// The number of stale turns.
    stale: usize,
}

impl Turns {
    fn queue(&mut self, queue: Queue) -> &mut BinaryHeap<Reverse<Turn>> {
        match queue {
            Queue::Guaranteed => &mut self.guaranteed,
            Queue::Open => &mut self.open,
        }
    }

    /// Reserves room in each queue for a turn of each session, and for some stale turns. Returns false if
    /// there is no memory for it. Sessions can then take turns without allocating.
    pub(super) fn try_reserve(&mut self, sessions: usize) -> bool {
        let most = sessions + sessions / 8 + BESIDE;
        let reserve =
            |queue: &mut BinaryHeap<_>| queue.try_reserve(most.saturating_sub(queue.len()).max(1)).is_ok();
        reserve(&mut self.guaranteed) && reserve(&mut self.open)
    }

    pub(super) fn push(&mut self, queue: Queue, turn: Turn) {
        self.queue(queue).push(Reverse(turn));
    }

    /// Returns the first turn of a queue that counts.
    pub(super) fn first(&mut self, queue: Queue, counts: impl Fn(&Turn) -> bool) -> Option<Turn> {
        loop {
            let Reverse(turn) = *self.queue(queue).peek()?;
            if counts(&turn) {
                return Some(turn);
            }
            self.queue(queue).pop();
            self.stale = self.stale.saturating_sub(1);
        }
    }

    /// Removes the first turn of a queue, whose session has been examined.
    pub(super) fn pop(&mut self, queue: Queue) {
        self.queue(queue).pop();
    }

    /// Notes that a turn no longer counts.
    pub(super) fn forget(&mut self, counts: impl Fn(&Turn) -> bool) {
        self.stale += 1;
        let is_full = |queue: &BinaryHeap<_>| queue.len() >= queue.capacity();
        let has_no_room = is_full(&self.guaranteed) || is_full(&self.open);
        if has_no_room || self.stale > FEW && self.stale > self.len() / 2 {
            self.guaranteed.retain(|Reverse(turn)| counts(turn));
            self.open.retain(|Reverse(turn)| counts(turn));
            self.stale = 0;
        }
    }

    /// Returns the number of turns, including stale turns.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.open.len()
    }
}
