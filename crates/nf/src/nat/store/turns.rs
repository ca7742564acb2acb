//! Who is next to go.
//!
//! A turn names a session and a time before which it need not be looked at. A session has one turn that counts; those of
//! before are out of date, are passed over, and are thrown away once they are as many as the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A place in one of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) due: i64,
    pub(super) place: u32,
    /// Goes up with each turn that a session takes.
    pub(super) ticket: u32,
}

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Sessions that hold by guarantee, by when that ends.
    Guaranteed,
    /// The others, by when they are over.
    Open,
}

/// Out-of-date turns that are borne where there is room for them.
const FEW: usize = 1024;
/// The number of them that there is always room for.
const BESIDE: usize = 64;

#[derive(Default)]
pub(super) struct Turns {
    guaranteed: BinaryHeap<Reverse<Turn>>,
    open: BinaryHeap<Reverse<Turn>>,
    /// Turns that are out of date.
    stale: usize,
}

impl Turns {
    fn queue(&mut self, queue: Queue) -> &mut BinaryHeap<Reverse<Turn>> {
        match queue {
            Queue::Guaranteed => &mut self.guaranteed,
            Queue::Open => &mut self.open,
        }
    }

    /// Makes room in each queue for a turn of each of so many sessions, and for some that are out of date beside them, if there
    /// is memory for it. Sessions can take turns without asking for memory then.
    pub(super) fn try_reserve(&mut self, sessions: usize) -> bool {
        let most = sessions + sessions / 8 + BESIDE;
        let reserve =
            |queue: &mut BinaryHeap<_>| queue.try_reserve(most.saturating_sub(queue.len()).max(1)).is_ok();
        reserve(&mut self.guaranteed) && reserve(&mut self.open)
    }

    pub(super) fn push(&mut self, queue: Queue, turn: Turn) {
        self.queue(queue).push(Reverse(turn));
    }

    /// The first turn in a queue that counts.
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

    /// Takes the first turn out: it was looked at.
    pub(super) fn pop(&mut self, queue: Queue) {
        self.queue(queue).pop();
    }

    /// A turn somewhere no longer counts.
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

    /// All of them.
    pub(super) fn len(&self) -> usize {
        self.guaranteed.len() + self.open.len()
    }
}
