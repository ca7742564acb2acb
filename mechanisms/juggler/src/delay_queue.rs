//! A queue of packets that each leave at a time of their own, for elements that delay packets.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use element::{Cx, DropReason, Packet, Timestamp};

/// The maximum delay, about 12 days, as for other times in arguments; longer delays would only lead to
/// overflows.
pub(crate) const LONGEST: Timestamp = Timestamp::from_secs(1 << 20);

/// The packets that an element delays, and the element's timer (token 0), which releases them.
pub(crate) struct DelayQueue {
    /// The packets; the first is the packet that leaves next.
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
    /// The time for which the timer is set; `None` if it is not set.
    armed: Option<Timestamp>,
}

/// A delayed packet, with the time at which it leaves and the index of its path (one of the simulated network
/// paths of RandomPath).
struct Waiting {
    leaves: Timestamp,
    /// The number of packets that arrived before this packet. It breaks ties, so that packets that leave at
    /// the same time leave in order of arrival.
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
    /// Creates an empty queue with room for `capacity` packets; beyond about a million it grows when
    /// needed. Memory is reserved, but pages are not touched before they are used.
    pub(crate) fn new(capacity: usize) -> DelayQueue {
        DelayQueue { waiting: BinaryHeap::with_capacity(capacity.min(1 << 20)), arrivals: 0, armed: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns, for each packet, the index of its simulated path and the time at which it leaves, in no
    /// particular order.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (u32, Timestamp)> {
        self.waiting.iter().map(|Reverse(waiting)| (waiting.path, waiting.leaves))
    }

    /// Reserves memory for another packet; true if this succeeds, so that the next [`add`](Self::add) does
    /// not allocate.
    pub(crate) fn has_memory_for_another(&mut self) -> bool {
        self.waiting.try_reserve(1).is_ok()
    }

    /// Adds a packet that is to leave at time `leaves`. `path` is the index of the simulated network path
    /// that the packet takes; 0 for elements without paths.
    pub(crate) fn add(&mut self, packet: Packet, path: u32, leaves: Timestamp) {
        self.waiting.push(Reverse(Waiting { leaves, number: self.arrivals, path, packet }));
        self.arrivals += 1;
    }

    /// Emits at output 0 the packets that leave at `until` or before, in order of their times. Calls `left`
    /// with the path of each packet.
    pub(crate) fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp, mut left: impl FnMut(u32)) {
        while self.next().is_some_and(|leaves| leaves <= until)
            && let Some(Reverse(first)) = self.waiting.pop()
        {
            left(first.path);
            cx.emit_one(0, first.packet, DropReason::NoOutput);
        }
    }

    /// Sets the timer for the time at which the next packet leaves, if any. A timer that is set for an
    /// earlier time stays: when it runs, the element calls this function again.
    pub(crate) fn arm(&mut self, cx: &mut Cx<'_>) {
        if let Some(leaves) = self.next()
            && self.armed.is_none_or(|armed| leaves < armed)
        {
            cx.set_timer(0, leaves);
            self.armed = Some(leaves);
        }
    }

    /// Clears the timer. Must also be called when the timer has run, so that [`arm`](Self::arm) sets it
    /// again.
    pub(crate) fn disarm(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(0);
        self.armed = None;
    }

    /// Moves all packets to a new queue, without a timer, for a new instance of the element.
    pub(crate) fn hand_on(&mut self) -> DelayQueue {
        DelayQueue { waiting: std::mem::take(&mut self.waiting), arrivals: self.arrivals, armed: None }
    }

    /// Moves the packets of all simulated paths with an index above `last` to path `last`; the times at which
    /// the packets leave do not change.
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
