//! The queues in which sessions wait to be examined for expiry.
//!
//! A *turn* is an entry of a queue: a session, and the time at which it must be examined. Each session in use
//! has one valid turn. A turn is stale if it was replaced by another turn, or its session was removed. Stale
//! turns are skipped. When another turn becomes stale, all stale turns are removed if they are more than
//! [`FEW`] and more than half of all turns, or if a queue is full.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An entry of a queue: the session at index `place` must be examined at the time `due`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) due: i64,
    pub(super) place: u32,
    /// The session's ticket at the time when the turn was made. The turn is stale if the session has another
    /// ticket now, or is free.
    pub(super) ticket: u32,
}

/// The queue in which a session waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The queue of sessions that are to be examined when their guarantee (the time of GUARANTEE after the
    /// last packet) ends, ordered by this time.
    Guaranteed,
    /// The queue of the sessions without a guarantee, or whose guarantee may be over, ordered by the expiry
    /// that was known when they were queued.
    Open,
}

/// The number of stale turns (queue entries that were replaced, or whose sessions were removed) up to which
/// they are removed together only if a queue is full.
const FEW: usize = 1024;
/// The number of turns (queue entries) for which room is reserved in each queue, in addition to nine for
/// every eight sessions.
const BESIDE: usize = 64;

#[derive(Default)]
pub(super) struct Turns {
    guaranteed: BinaryHeap<Reverse<Turn>>,
    open: BinaryHeap<Reverse<Turn>>,
    /// The number of stale turns (queue entries that were replaced, or whose sessions were removed) in both
    /// queues.
    stale: usize,
}

impl Turns {
    fn queue(&mut self, queue: Queue) -> &mut BinaryHeap<Reverse<Turn>> {
        match queue {
            Queue::Guaranteed => &mut self.guaranteed,
            Queue::Open => &mut self.open,
        }
    }

    /// Reserves room in each queue for one turn (queue entry) per session, and for some stale turns. Sessions
    /// can then be queued without allocating. Returns false if there is no memory.
    pub(super) fn try_reserve(&mut self, sessions: usize) -> bool {
        let most = sessions + sessions / 8 + BESIDE;
        let reserve =
            |queue: &mut BinaryHeap<_>| queue.try_reserve(most.saturating_sub(queue.len()).max(1)).is_ok();
        reserve(&mut self.guaranteed) && reserve(&mut self.open)
    }

    pub(super) fn push(&mut self, queue: Queue, turn: Turn) {
        self.queue(queue).push(Reverse(turn));
    }

    /// Returns the first valid turn (entry) of a queue, and removes stale turns ahead of it. `counts` returns
    /// true for valid turns. Returns `None` if there is no valid turn.
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

    /// Removes the first turn (entry) of a queue. The caller has examined its session.
    pub(super) fn pop(&mut self, queue: Queue) {
        self.queue(queue).pop();
    }

    /// Counts another stale turn (a queue entry that was replaced, or whose session was removed). If there
    /// are too many, removes all turns for which `counts` returns false.
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

    /// Returns the number of turns (entries) in both queues, including stale turns.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.open.len()
    }
}
