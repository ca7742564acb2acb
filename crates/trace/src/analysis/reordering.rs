//! Counts of TCP segments that arrive later than their position in the order of sequence numbers (RFC
//! 4737).
//!
//! A segment is reordered if its sequence number is smaller than the next expected number and its first
//! byte has not been seen. If its first byte has been seen, the segment is a retransmission. Ranges of
//! sequence numbers that have not been seen are stored as holes.
//!
//! A segment that was lost before the capture point and sent again also fills a hole. Only the time
//! distinguishes it from a reordered segment. So the report gives the time from the appearance of a hole to
//! the segment that fills it, and the number of segments that took longer than [`LATE_NS`].

use serde::Serialize;
use wire::tcp::flags;

use super::Accumulator;
use crate::flows::{entry, prefetch};
use crate::histogram::{Distribution, Histogram, ratio};
use crate::packet::{Member, TracePacket};

/// The time in nanoseconds after which a segment that fills a hole was probably lost and sent again.
pub const LATE_NS: i64 = 3_000_000;

/// The largest number of holes stored per flow. If there are more, the holes with the lowest sequence
/// numbers are removed, and segments that fill them count as retransmissions.
pub const HOLES: usize = 64;

/// Counts of reordered and retransmitted segments, over all TCP flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Reordering {
    /// The number of segments that occupy sequence numbers: segments with payload, SYN or FIN, except
    /// resets.
    pub segments: u64,
    /// The number of reordered segments: the sequence number is smaller than expected, and the first byte
    /// was not seen before.
    pub reordered: u64,
    /// The number of reordered segments that arrived more than 3 ms ([`LATE_NS`]) after their hole
    /// appeared. They were probably lost before the capture point and sent again.
    pub late: u64,
    /// The number of retransmissions: the sequence number is smaller than expected, and the first byte was
    /// seen before.
    pub retransmitted: u64,
    /// The time in nanoseconds from the appearance of a hole to the reordered segment that begins in it.
    pub delay_ns: Distribution,
}

impl Reordering {
    /// Returns the number of reordered segments divided by the number of segments.
    pub fn ratio(&self) -> f64 {
        ratio(self.reordered as f64, self.segments as f64)
    }
}

/// A range of sequence numbers that have not been seen: from `from` up to but excluding `to`. `since` is
/// the time at which a segment after the range arrived, in nanoseconds.
#[derive(Clone, Copy)]
struct Hole {
    from: u32,
    to: u32,
    since: i64,
}

/// The sequence numbers of a flow that count as seen: all from `first` up to but excluding `next`, except the
/// holes.
#[derive(Clone, Default)]
struct State {
    started: bool,
    /// The lowest sequence number seen. A lower number belongs to a segment before the first captured one;
    /// it counts as a hole that appeared at `start`, the time of the first segment.
    first: u32,
    next: u32,
    start: i64,
    /// The holes, by rising sequence number.
    holes: Vec<Hole>,
}

/// True if sequence number `a` precedes `b`, modulo 2^32.
#[inline]
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

enum Verdict {
    InOrder,
    Retransmitted,
    /// The segment is reordered. Its hole appeared at this time, in nanoseconds.
    Reordered(i64),
}

impl State {
    fn restart(&mut self, sequence: u32, end: u32, time: i64) {
        *self = State { started: true, first: sequence, next: end, start: time, holes: Vec::new() };
    }

    #[inline]
    fn take(&mut self, sequence: u32, length: u32, is_syn: bool, time: i64) -> Verdict {
        let end = sequence.wrapping_add(length);
        if !self.started {
            self.restart(sequence, end, time);
            return Verdict::InOrder;
        }
        if sequence == self.next && !is_syn {
            self.next = end;
            return Verdict::InOrder;
        }
        self.out_of_line(sequence, end, is_syn, time)
    }

    #[cold]
    fn out_of_line(&mut self, sequence: u32, end: u32, is_syn: bool, time: i64) -> Verdict {
        let below = before(sequence, self.first);
        let hole = self.holes.iter().find(|h| !before(sequence, h.from) && before(sequence, h.to));
        let unseen = hole.map(|hole| hole.since).or(below.then_some(self.start));
        let ahead = !before(sequence, self.next);
        if is_syn && (ahead || unseen.is_some()) {
            // A SYN with an unseen number starts another connection with the same five-tuple.
            self.restart(sequence, end, time);
            return Verdict::InOrder;
        }
        if ahead {
            if sequence != self.next {
                self.holes.push(Hole { from: self.next, to: sequence, since: time });
            }
            self.next = end;
            self.forget();
            return Verdict::InOrder;
        }
        let Some(since) = unseen else {
            self.fill(sequence, end);
            return Verdict::Retransmitted;
        };
        if below {
            if before(end, self.first) {
                self.holes.insert(0, Hole { from: end, to: self.first, since: self.start });
            }
            self.first = sequence;
        }
        self.fill(sequence, end);
        self.forget();
        Verdict::Reordered(since)
    }

    /// Marks the sequence numbers from `from` up to but excluding `to` as seen: removes, shortens or splits
    /// the holes that they overlap, and raises `next` to `to` if it is lower.
    fn fill(&mut self, from: u32, to: u32) {
        if before(self.next, to) {
            self.next = to;
        }
        let holes = std::mem::take(&mut self.holes);
        for hole in holes {
            if !before(from, hole.to) || !before(hole.from, to) {
                self.holes.push(hole);
                continue;
            }
            if before(hole.from, from) {
                self.holes.push(Hole { to: from, ..hole });
            }
            if before(to, hole.to) {
                self.holes.push(Hole { from: to, ..hole });
            }
        }
    }

    fn forget(&mut self) {
        let excess = self.holes.len().saturating_sub(HOLES);
        self.holes.drain(..excess);
    }
}

/// The accumulator that follows the sequence numbers of each TCP flow.
#[derive(Default)]
pub struct SequenceTracker {
    flows: Vec<State>,
    result: Reordering,
    delays: Histogram,
}

impl Accumulator for SequenceTracker {
    type Result = Reordering;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        if flow.is_tcp() {
            prefetch(&self.flows, flow.ordinal);
        }
    }

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        let Some(flow) = packet.flow else { return };
        let Some(segment) = flow.segment().filter(|segment| segment.flags & flags::RST == 0) else { return };
        let is_syn = segment.flags & flags::SYN != 0;
        let has = |flag| u32::from(segment.flags & flag != 0);
        let length = flow.payload.saturating_add(has(flags::SYN) + has(flags::FIN));
        if length == 0 {
            return;
        }
        self.result.segments += 1;
        let state = entry(&mut self.flows, flow.ordinal);
        match state.take(segment.sequence, length, is_syn, packet.time) {
            Verdict::InOrder => {}
            Verdict::Retransmitted => self.result.retransmitted += 1,
            Verdict::Reordered(since) => {
                self.result.reordered += 1;
                let delay = packet.time.saturating_sub(since).max(0);
                self.result.late += u64::from(delay > LATE_NS);
                self.delays.add(delay as u64);
            }
        }
    }

    fn finish(self) -> Reordering {
        Reordering { delay_ns: self.delays.summary(), ..self.result }
    }
}
