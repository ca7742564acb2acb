//! The packets that a delaying element holds, each with its own time to leave.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use element::{Cx, DropReason, Packet, Timestamp};

/// The maximum delay; longer delays would only lead to overflows.
pub(crate) const LONGEST: Timestamp = Timestamp::from_secs(1 << 20);

/// Packets that wait for their times, and the timer (token 0) that releases them.
pub(crate) struct DelayQueue {
    /// The packets, ordered by the time at which they leave.
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
    /// The time for which the timer is set.
    armed: Option<Timestamp>,
}

/// A packet that waits.
struct Waiting {
    leaves: Timestamp,
    /// The number of the packet among all arrivals. Packets that leave at the same time leave in order of
    /// arrival.
    number: u64,
    path: u32,
    packet: Packet,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (self.leaves, self.number).cmp(&(other.leaves, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl DelayQueue {
    /// Creates an empty set with room for `capacity` packets; beyond about a million it grows. Memory is
    /// not touched before it is needed.
    pub(crate) fn new(capacity: usize) -> DelayQueue {
        DelayQueue { waiting: BinaryHeap::with_capacity(capacity.min(1 << 20)), arrivals: 0, armed: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the path of each packet, and the time at which it leaves, in no particular order.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (u32, Timestamp)> {
        self.waiting.iter().map(|Reverse(waiting)| (waiting.path, waiting.leaves))
    }

    /// True if there is memory for another packet.
    pub(crate) fn has_memory_for_another(&mut self) -> bool {
        self.waiting.try_reserve(1).is_ok()
    }

    /// Adds a packet that is to leave at `leaves`. `path` is the number of its path, for elements with
    /// several paths.
    pub(crate) fn add(&mut self, packet: Packet, path: u32, leaves: Timestamp) {
        self.waiting.push(Reverse(Waiting { leaves, number: self.arrivals, path, packet }));
        self.arrivals += 1;
    }

    /// Emits the packets that leave at `until` or before; `left` is called with the path of each packet.
    pub(crate) fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp, mut left: impl FnMut(u32)) {
        while self.next().is_some_and(|leaves| leaves <= until)
            && let Some(Reverse(first)) = self.waiting.pop()
        {
            left(first.path);
            cx.emit_one(0, first.packet, DropReason::NoOutput);
        }
    }

    /// Sets the timer for the time at which the next packet leaves. A timer that is set for an earlier time
    /// stays: when it runs, it sets the next timer.
    pub(crate) fn arm(&mut self, cx: &mut Cx<'_>) {
        if let Some(leaves) = self.next()
            && self.armed.is_none_or(|armed| leaves < armed)
        {
            cx.set_timer(0, leaves);
            self.armed = Some(leaves);
        }
    }

    /// Clears the timer, so that another one can be set.
    pub(crate) fn disarm(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(0);
        self.armed = None;
    }

    /// Returns all packets for a successor, without a timer.
    pub(crate) fn hand_on(&mut self) -> DelayQueue {
        DelayQueue { waiting: std::mem::take(&mut self.waiting), arrivals: self.arrivals, armed: None }
    }

    /// Moves packets of paths after `last` to the path `last`.
    pub(crate) fn on_paths(&mut self, last: u32) {
        let all = std::mem::take(&mut self.waiting).into_iter();
        self.waiting = all
            .map(|Reverse(waiting)| Reverse(Waiting { path: waiting.path.min(last), ..waiting }))
            .collect();
    }

    fn next(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|Reverse(first)| first.leaves)
    }
}
