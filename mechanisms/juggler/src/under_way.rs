//! Packets under way that leave at times of their own: what elements that delay them have in common.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use element::{Cx, DropReason, Packet, Timestamp};

/// Longer delays would only lead to overflows.
pub(crate) const LONGEST: Timestamp = Timestamp::from_secs(1 << 20);

/// Packets that wait for their time, and the timer (token 0) that runs then.
pub(crate) struct UnderWay {
    /// Those that leave first in front.
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
    /// When the timer will run.
    armed: Option<Timestamp>,
}

/// A packet under way.
struct Waiting {
    leaves: Timestamp,
    /// Its number among all that have come: what comes in first leaves first of those that leave at the same time.
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

impl UnderWay {
    /// Nothing, with room for as many as there may be; for more than a million it grows. Memory is not touched before it is
    /// needed.
    pub(crate) fn new(capacity: usize) -> UnderWay {
        UnderWay { waiting: BinaryHeap::with_capacity(capacity.min(1 << 20)), arrivals: 0, armed: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Each packet's path, and when it leaves, in no order.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (u32, Timestamp)> {
        self.waiting.iter().map(|Reverse(waiting)| (waiting.path, waiting.leaves))
    }

    /// True if there is memory for another packet.
    pub(crate) fn has_memory_for_another(&mut self) -> bool {
        self.waiting.try_reserve(1).is_ok()
    }

    /// Takes a packet that is to leave at a time. It is on one of several paths, if whoever takes it tells them apart.
    pub(crate) fn add(&mut self, packet: Packet, path: u32, leaves: Timestamp) {
        self.waiting.push(Reverse(Waiting { leaves, number: self.arrivals, path, packet }));
        self.arrivals += 1;
    }

    /// Lets go what leaves by then; `left` hears of which path each packet was.
    pub(crate) fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp, mut left: impl FnMut(u32)) {
        while self.next().is_some_and(|leaves| leaves <= until)
            && let Some(Reverse(first)) = self.waiting.pop()
        {
            left(first.path);
            cx.emit_one(0, first.packet, DropReason::NoOutput);
        }
    }

    /// Has the timer run when the next packet leaves. An earlier setting stays: when it comes, it sets the next one.
    pub(crate) fn arm(&mut self, cx: &mut Cx<'_>) {
        if let Some(leaves) = self.next()
            && self.armed.is_none_or(|armed| leaves < armed)
        {
            cx.set_timer(0, leaves);
            self.armed = Some(leaves);
        }
    }

    /// The timer has run, or is in nobody's way: from now on another one can be set.
    pub(crate) fn disarm(&mut self, cx: &mut Cx<'_>) {
        cx.clear_timer(0);
        self.armed = None;
    }

    /// All that is there, for a new element, which has no timer yet.
    pub(crate) fn hand_on(&mut self) -> UnderWay {
        UnderWay { waiting: std::mem::take(&mut self.waiting), arrivals: self.arrivals, armed: None }
    }

    /// Puts what is on a path behind the last one on that.
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
