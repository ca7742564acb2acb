//! The life cycle of flows: their phases, the lists that decide which flow is evicted, and the conditions
//! that flush segments (Juggler paper, sections 4.1 to 4.3).
//!
//! | phase | list | state |
//! | --- | --- | --- |
//! | initial | none | none: the flow has no entry |
//! | build-up | active, or gap | an estimate of `seq_next`, which may decrease until the first flush |
//! | active merging | active, or gap | `seq_next`; segments wait for missing segments, or to be merged |
//! | post merging | inactive | `seq_next`; no segments wait |
//! | loss recovery | loss recovery | `lost_seq`, the first missing byte |
//!
//! Here `seq_next` is the next expected sequence number. Flows of datagrams have a list of their own. Flows
//! in loss recovery are evicted last, unless they have flushed nothing for `REPAIR_TIME`. The paper has a
//! single list of active flows and evicts the flow that has been in it for longest, often a flow that waits
//! after a gap. Here flows without a gap are evicted before flows with a gap.
//!
//! Flushed segments are put into [`Flows::released`], in the order in which they are to leave. Time is a
//! parameter (`now`); the module reads no clock. No time-out is checked per packet: flows that may be due
//! are collected and checked at the end of a batch, and a heap orders flows by the times of their
//! time-outs.

mod lists;
mod next;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use element::{Packet, Timestamp};
use flow::{FlowId, FlowTable, TableError};
use wire::merge::{SegmentData, WholeSegment};
use wire::tcp::flags;

use crate::evicted::Evicted;
use crate::key::SegmentFlow;
pub use crate::phases::{EvictionList, FlowPhase, FlushReason};
use crate::queue::{Piece, Queue, SegmentRun};
use crate::sequence::{Expected, REPAIR_TIME, RETRANSMISSION_WINDOW, is_before};

/// The result of giving a TCP segment to a flow.
pub enum Taken {
    /// The segment waits, or has been released.
    Held,
    /// The segment is next in a flow without merging, and is to be forwarded.
    InSequence(Packet),
    /// The flow has no memory to hold the segment, so the segment is to be forwarded.
    NoMemory(Packet),
}

/// The limits of the flow table, which follow from arguments of the element.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of flows at a time.
    pub flows: usize,
    /// The time for which segments in sequence wait for more segments (`inseq_timeout`). The time counts
    /// from the last flush of the flow or from the first arrival among these segments, whichever is later.
    pub in_sequence: Timestamp,
    /// The time for which segments wait for missing segments ahead of them (`ofo_timeout`).
    pub out_of_order: Timestamp,
    /// The maximum number of packet slots of a flow's waiting segments; beyond it, all of them are flushed.
    pub slots: u32,
    /// True if segments are merged. If false, segments in sequence do not wait; in build-up they wait for
    /// the end of the batch.
    pub merges: bool,
}

/// An index that stands for no flow; used at the ends of lists.
const NONE: u32 = u32::MAX;
/// A distance in sequence numbers that no window reaches (RFC 7323, section 2.3).
const WINDOW: u32 = 1 << 30;
/// The number of consecutive segments unrelated to the next expected sequence number after which this number
/// is learned again.
const MAX_UNRELATED: u8 = 64;

/// After build-up, a SYN that ends less than this many bytes before the next expected sequence number counts
/// as a retransmission.
const AGAIN: u32 = 1 << 16;

/// The state of a flow: its phase, its place in a list, and its waiting segments.
struct Flow {
    id: Option<FlowId>,
    phase: FlowPhase,
    is_tcp: bool,
    list: EvictionList,
    /// The indices of the previous and the next flow in the flow's list; `NONE` at the ends.
    before: u32,
    behind: u32,
    /// The next expected sequence number (`seq_next`): the end of the data that has been flushed; in
    /// build-up, an estimate.
    next: u32,
    /// The sequence number of the flow's first missing byte (`lost_seq`); valid in loss recovery.
    lost: u32,
    /// The time of the flow's last flush; before the first flush, the time at which the flow was opened.
    flushed: Timestamp,
    queue: Queue,
    slots: u32,
    /// True if the segments of the flow are merged; false for flows that NO_MERGE selects.
    merges: bool,
    /// The number of consecutive segments that were unrelated to the next expected sequence number.
    unrelated: u8,
    /// True if the flow is in `ready`, the list of flows that are checked at the end of the batch.
    is_ready: bool,
    /// For each [`Wait`], true if the heap `due` has that time-out of the flow.
    is_armed: [bool; 2],
    expected: Expected,
}

/// The two time-outs of a flow: for segments in sequence (`inseq_timeout`) and after a gap (`ofo_timeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    InSequence,
    OutOfOrder,
}

/// Counts that handlers report and reset.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of evicted flows, by `EvictionList as usize` of the list that they were in.
    pub evictions: [u64; EvictionList::ALL.len()],
    /// The numbers of segments that arrived (index 0) and left (index 1) after a later one of their flow.
    pub reordered: [u64; 2],
}

/// The flows of one worker, with their waiting segments.
pub struct Flows {
    /// The limits. [`set_limits`](Self::set_limits) changes them; the number of flows has to stay, because
    /// the table keeps its size.
    pub limits: Limits,
    table: FlowTable<SegmentFlow>,
    flows: Vec<Flow>,
    /// For each list, the index of its first flow, of its last flow, and the number of its flows.
    lists: [(u32, u32, usize); EvictionList::ALL.len()],
    evicted: Evicted,
    due: BinaryHeap<Reverse<(Timestamp, Wait, u32)>>,
    ready: Vec<u32>,
    held: usize,
    /// The runs that have been flushed, with reasons, in the order in which they leave. The element empties
    /// this list.
    pub released: Vec<(SegmentRun, FlushReason)>,
    /// The counts, which the element may reset.
    pub counts: Counts,
}

impl Flows {
    /// Creates a table without flows.
    ///
    /// # Errors
    /// If there is no memory for a table of `limits.flows` flows.
    pub fn new(limits: Limits) -> Result<Flows, TableError> {
        Ok(Flows {
            table: FlowTable::new(limits.flows)?,
            flows: Vec::new(),
            lists: [(NONE, NONE, 0); EvictionList::ALL.len()],
            evicted: Evicted::new(limits.flows),
            due: BinaryHeap::with_capacity(2 * limits.flows.min(1 << 16)),
            ready: Vec::new(),
            held: 0,
            released: Vec::new(),
            counts: Counts::default(),
            limits,
        })
    }

    /// Returns the number of packets that wait, without packets in `released`.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Looks up the flows of `keys` together, so that cache misses overlap. Unknown flows are `None` in
    /// `ids`.
    #[inline]
    pub fn look_up(&self, keys: &[SegmentFlow], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        self.table.lookup_batch(keys, hashes, ids);
    }

    /// Returns the index of a flow; `None` if it has no entry. `seen`, the result of an earlier look-up,
    /// saves a look-up if it is still valid.
    #[inline]
    pub fn find(&self, key: &SegmentFlow, hash: u32, seen: Option<FlowId>) -> Option<u32> {
        match seen {
            Some(id) if self.table.is_current(id) => Some(id.index()),
            _ => self.table.lookup(key, hash).map(FlowId::index),
        }
    }

    /// Opens a flow and returns its index; evicts another flow if the table is full. `start` is the next
    /// sequence number: if `learns`, an estimate that may decrease until the first flush, otherwise final.
    /// Returns `None` if there is no memory, or if the table is full and a datagram may evict none of its
    /// flows.
    pub fn open(
        &mut self,
        key: &SegmentFlow,
        hash: u32,
        start: u32,
        learns: bool,
        merges: bool,
        now: Timestamp,
    ) -> Option<u32> {
        let is_tcp = key.is_tcp();
        if self.table.stats().entries >= self.limits.flows {
            let list = self.list_to_evict_from(is_tcp, now)?;
            self.counts.evictions[list as usize] += 1;
            self.evict(self.lists[list as usize].0, now);
        }
        if !self.has_memory_for_another() {
            return None;
        }
        let id = self.table.insert(key, hash, now).ok()?.id();
        let index = id.index();
        if self.flows.len() <= index as usize {
            self.flows.resize_with(index as usize + 1, Flow::default);
        }
        let flow = &mut self.flows[index as usize];
        let queue = std::mem::take(&mut flow.queue);
        let (phase, expected) = match learns {
            true => (FlowPhase::BuildUp, self.evicted.take(key, start, now)),
            false => (FlowPhase::ActiveMerging, Expected::default()),
        };
        // `due` and `ready` may still have entries of the previous flow of this index; they do no harm.
        let (is_armed, is_ready) = (flow.is_armed, flow.is_ready);
        *flow = Flow {
            id: Some(id),
            phase,
            is_tcp,
            expected,
            next: start,
            flushed: now,
            queue,
            merges,
            is_armed,
            is_ready,
            ..Flow::default()
        };
        self.link(index, if is_tcp { EvictionList::Active } else { EvictionList::Datagrams });
        Some(index)
    }

    /// Reserves memory for another flow, and for the entries of all flows in the heap of time-outs (`due`)
    /// and in the list of flows to check (`ready`); true on success.
    fn has_memory_for_another(&mut self) -> bool {
        let most = self.flows.len() + 1;
        self.flows.try_reserve(1).is_ok()
            && self.due.try_reserve((2 * most).saturating_sub(self.due.len())).is_ok()
            && self.ready.try_reserve(most.saturating_sub(self.ready.len())).is_ok()
    }

    /// Reserves memory for a run in the flow's queue and for releasing all segments; true on success.
    #[inline]
    fn has_memory_for_run(&mut self, index: u32) -> bool {
        self.released.try_reserve(self.held + 2).is_ok()
            && self.flows[index as usize].queue.has_memory_for_another()
    }

    /// Returns the list whose first flow is to be evicted: loss recovery or inactive, if the first flow of
    /// that list has flushed nothing for [`REPAIR_TIME`], so that a loss is not repaired any more; otherwise
    /// the first list with flows. For a datagram, only `Datagrams` and `Inactive` are tried then; `None` if
    /// both are empty.
    fn list_to_evict_from(&self, is_tcp: bool, now: Timestamp) -> Option<EvictionList> {
        let is_old = |list: &EvictionList| {
            let first = self.flows.get(self.lists[*list as usize].0 as usize);
            first.is_some_and(|flow| flow.flushed + REPAIR_TIME <= now)
        };
        let lists =
            if is_tcp { &EvictionList::ALL[..] } else { &[EvictionList::Datagrams, EvictionList::Inactive] };
        let has_flows = |list: &&EvictionList| self.length(**list) > 0;
        [EvictionList::LossRecovery, EvictionList::Inactive]
            .into_iter()
            .find(is_old)
            .or_else(|| lists.iter().find(has_flows).copied())
    }

    /// Evicts a flow: flushes its segments and, for TCP, saves the sequence numbers by which its reordering
    /// is measured.
    fn evict(&mut self, index: u32, now: Timestamp) {
        let key = self.close(index, FlushReason::Evicted);
        let flow = &self.flows[index as usize];
        if let Some(key) = key.filter(|_| flow.is_tcp) {
            self.evicted.add(key, flow.expected, now);
        }
    }

    /// True if a flow can be opened without an eviction.
    pub fn has_room(&self) -> bool {
        self.table.stats().entries < self.limits.flows
    }

    /// Changes the limits, and recomputes the time-outs of waiting segments.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.due.clear();
        for index in 0..self.flows.len() {
            self.flows[index].is_armed = [false; 2];
            self.rest_later(index as u32);
        }
    }

    /// Opens a flow from a SYN, which says that the next sequence number is `next`. Does nothing if there is
    /// no memory.
    pub fn open_connection(&mut self, key: &SegmentFlow, hash: u32, next: u32, merges: bool, now: Timestamp) {
        if let Some(index) = self.open(key, hash, next, false, merges, now) {
            self.flows[index as usize].expected[0] = Some(next);
            self.turn(index, FlowPhase::PostMerging);
        }
    }

    /// Takes a TCP segment. Segments that leave because of it are put into `released`. A returned packet is
    /// to be forwarded after them.
    #[inline]
    pub fn take(&mut self, index: u32, piece: Piece<'_>, now: Timestamp) -> Taken {
        let flow = &mut self.flows[index as usize];
        let segment = piece.segment;
        let is_plain = segment.length > 0 && segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0;
        if is_plain && flow.phase != FlowPhase::BuildUp && flow.expected[0] == Some(segment.sequence) {
            // Fast path: the segment follows the last arrival in sequence, as nearly all segments do.
            let merges = self.limits.merges && flow.merges;
            let data =
                SegmentData { sequence: segment.sequence, length: segment.length, flags: segment.flags };
            if self.pass_next(index, data, now) {
                return Taken::InSequence(piece.packet);
            }
            let flow = &mut self.flows[index as usize];
            if let Some(last) = flow.queue.continued_by(&piece, merges) {
                let before = last.chain.slots();
                last.extend_by_piece(piece, merges);
                let slots = last.chain.slots() - before;
                self.extended(index, 1, slots, now);
                return Taken::Held;
            }
        }
        if !self.has_memory_for_run(index) {
            return Taken::NoMemory(piece.packet);
        }
        let run = self.run_of(index, piece, now);
        self.take_closely(index, run, now);
        Taken::Held
    }

    /// Makes a run of a segment of a flow.
    #[inline(always)]
    fn run_of(&self, index: u32, piece: Piece<'_>, now: Timestamp) -> SegmentRun {
        SegmentRun::new(piece, self.merges(index), now)
    }

    /// True if the segments of a flow are merged.
    #[inline(always)]
    pub fn merges(&self, index: u32) -> bool {
        self.limits.merges && self.flows[index as usize].merges
    }

    /// Returns the id of the flow with this index, by which it is found again as long as it has its entry.
    #[inline]
    pub fn id_of(&self, index: u32) -> Option<FlowId> {
        self.flows[index as usize].id
    }

    /// Returns the index of the flow with this id; `None` if the flow has no entry any more.
    #[inline]
    pub fn index_of(&self, id: FlowId) -> Option<u32> {
        self.table.is_current(id).then(|| id.index())
    }

    /// Takes a TCP segment that the fast path of [`take`](Self::take) does not handle.
    fn take_closely(&mut self, index: u32, run: SegmentRun, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let has = |flag: u8| run.last_flags & flag != 0;
        if run.start == run.end && !has(flags::RST) {
            // A segment without data leaves at once, even after a gap. It leaves after the waiting segments
            // in sequence, unless it starts before the next expected sequence number.
            if !is_before(run.start, flow.next) {
                self.give_way(index, now);
            }
            return self.released.push((run, FlushReason::Acknowledgment));
        }
        if has(flags::SYN) {
            return self.restart(index, run, now);
        }
        let ahead = run.start.wrapping_sub(flow.next);
        if !is_before(run.start, flow.next) && ahead > WINDOW {
            return self.take_unrelated(index, run, FlushReason::Before, now);
        }
        let expected = flow.expected[0].get_or_insert(run.start);
        self.counts.reordered[0] += u64::from(is_before(run.start, *expected));
        if !is_before(run.end, *expected) {
            *expected = run.end;
        }
        if is_before(run.start, flow.next) {
            if flow.phase != FlowPhase::BuildUp {
                return self.take_retransmission(index, run, now);
            }
            flow.next = run.start;
        }
        flow.unrelated = 0;
        self.add(index, run, now);
    }

    /// Flushes the segments in sequence ahead of a packet of the flow that is about to be forwarded.
    pub fn give_way(&mut self, index: u32, now: Timestamp) {
        self.release_in_sequence(index, FlushReason::Acknowledgment, now);
        self.settle(index, now);
    }

    /// Accounts for a segment that was forwarded: if it was the next segment, the next expected sequence
    /// number (`next`) moves to its end.
    pub fn pass_by(&mut self, index: u32, segment: &WholeSegment, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if segment.is_tcp && segment.sequence == flow.next {
            let end = segment.sequence.wrapping_add(segment.sequence_length());
            (flow.next, flow.flushed) = (end, now);
            flow.expected =
                flow.expected.map(|expected| Some(expected.filter(|&e| is_before(end, e)).unwrap_or(end)));
            self.settle(index, now);
        }
    }

    /// Takes a datagram, which follows the datagrams that arrived before. Returns the packet if there is no
    /// memory for it; it is then to be forwarded at once.
    #[inline]
    pub fn take_unordered(&mut self, index: u32, piece: Piece<'_>, now: Timestamp) -> Option<Packet> {
        if !self.has_memory_for_run(index) {
            return Some(piece.packet);
        }
        let mut run = self.run_of(index, piece, now);
        let flow = &self.flows[index as usize];
        run.start = flow.queue.back().map_or(flow.next, |last| last.end);
        run.end = run.start.wrapping_add(run.length);
        self.add(index, run, now);
        None
    }

    /// Inserts a run into the queue, and flushes segments that need not wait (in build-up, none), or all if
    /// their slots exceed the limit.
    #[inline]
    fn add(&mut self, index: u32, run: SegmentRun, now: Timestamp) {
        self.held += run.chain.packets();
        let merges = self.limits.merges;
        let flow = &mut self.flows[index as usize];
        flow.slots += run.chain.slots();
        flow.queue.insert(run, merges && flow.merges);
        if flow.phase == FlowPhase::PostMerging {
            self.turn(index, FlowPhase::ActiveMerging);
        }
        if self.flows[index as usize].slots > self.limits.slots {
            self.enter_loss_recovery(index, FlushReason::QueueFull, now);
        }
        self.settle(index, now);
    }

    /// Takes a segment that starts before the next expected sequence number (`next`), and releases it at
    /// once. Retransmissions, however many, do not restart the flow: otherwise later segments would be held
    /// as if data were missing. In loss recovery, the segment with the first missing byte ends the recovery.
    /// Segments more than `RETRANSMISSION_WINDOW` before `next` are unrelated: after `MAX_UNRELATED` of them
    /// in a row, `next` is learned again.
    #[cold]
    fn take_retransmission(&mut self, index: u32, run: SegmentRun, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if flow.next.wrapping_sub(run.start) <= RETRANSMISSION_WINDOW {
            flow.unrelated = 0;
        } else if flow.unrelated >= MAX_UNRELATED {
            return self.take_unrelated(index, run, FlushReason::Before, now);
        } else {
            flow.unrelated += 1;
        }
        if is_before(flow.next, run.end) {
            // The segment also contains bytes that have not been flushed before, so the next expected
            // sequence number moves to its end.
            flow.next = run.end;
        }
        let fills = flow.phase == FlowPhase::LossRecovery
            && flow.lost.wrapping_sub(run.start) < run.end.wrapping_sub(run.start);
        self.release(index, run, FlushReason::Before);
        if fills {
            self.turn(index, FlowPhase::ActiveMerging);
        }
        self.settle(index, now);
    }

    /// Takes a segment that is unrelated to the flushed data: it is forged, or of a connection whose opening
    /// was not seen. Releases the segment at once; after `MAX_UNRELATED` such segments in a row, the next
    /// expected sequence number is learned again.
    #[cold]
    fn take_unrelated(&mut self, index: u32, run: SegmentRun, reason: FlushReason, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        flow.unrelated = flow.unrelated.saturating_add(1);
        if flow.unrelated <= MAX_UNRELATED {
            return self.release(index, run, reason);
        }
        self.release_all(index, FlushReason::Restarted);
        let flow = &mut self.flows[index as usize];
        (flow.next, flow.flushed, flow.unrelated, flow.expected) = (run.start, now, 0, [None; 2]);
        self.turn(index, FlowPhase::BuildUp);
        self.add(index, run, now);
    }

    /// Takes a SYN, whose sequence number restarts the flow, unless the SYN is a retransmission: it then
    /// only leaves. Waiting segments of the new connection (in build-up, after the SYN) stay; others are
    /// flushed.
    #[cold]
    fn restart(&mut self, index: u32, run: SegmentRun, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if flow.next.wrapping_sub(run.end) < AGAIN && flow.phase != FlowPhase::BuildUp {
            return self.release(index, run, FlushReason::Before);
        }
        let is_first = flow.phase == FlowPhase::BuildUp
            && flow.queue.front().is_some_and(|front| front.start.wrapping_sub(run.end) < WINDOW);
        let mut expected = [Some(run.end), None];
        match is_first {
            true => {
                self.counts.reordered[0] += 1;
                expected[0] = flow.expected[0];
            }
            false => self.release_all(index, FlushReason::Restarted),
        }
        let flow = &mut self.flows[index as usize];
        (flow.next, flow.flushed, flow.unrelated, flow.expected) = (run.end, now, 0, expected);
        self.release(index, run, FlushReason::Flags);
        self.turn(index, if is_first { FlowPhase::ActiveMerging } else { FlowPhase::PostMerging });
        self.settle(index, now);
    }

    /// Flushes segments that need not wait, except in build-up, and schedules the time-outs of the remaining
    /// segments.
    #[inline]
    fn settle(&mut self, index: u32, now: Timestamp) {
        // During build-up, a segment may still arrive that belongs ahead of all waiting segments, so nothing
        // is flushed.
        if self.flows[index as usize].phase != FlowPhase::BuildUp {
            self.release_complete(index, now);
        }
        self.rest(index, now);
    }

    /// Flushes runs at the front that are in sequence and need not wait: they are urgent, cannot grow, or
    /// are not merged.
    #[inline]
    fn release_complete(&mut self, index: u32, now: Timestamp) {
        loop {
            let flow = &self.flows[index as usize];
            let Some(front) = flow.queue.front().filter(|front| !is_before(flow.next, front.start)) else {
                return;
            };
            let reason = match () {
                () if !(self.limits.merges && flow.merges) => FlushReason::InSequence,
                () if front.is_urgent() => FlushReason::Flags,
                // All data of the run has already been flushed, as part of other segments.
                () if !is_before(flow.next, front.end) => FlushReason::Before,
                () if !front.merges => FlushReason::Differs,
                () if front.is_closed => FlushReason::Full,
                // The next run is adjacent, but the two were not joined, so they cannot be merged.
                () if flow.queue.second().is_some_and(|next| !is_before(front.end, next.start)) => {
                    FlushReason::Differs
                }
                () => return,
            };
            self.release_front(index, reason, now);
        }
    }

    /// Flushes all runs in sequence: from the front of the queue up to the first gap.
    fn release_in_sequence(&mut self, index: u32, reason: FlushReason, now: Timestamp) {
        loop {
            let flow = &self.flows[index as usize];
            if flow.queue.front().is_none_or(|front| is_before(flow.next, front.start)) {
                return;
            }
            self.release_front(index, reason, now);
        }
    }

    /// Flushes the first run of the queue, and moves the next expected sequence number (`next`) to its end.
    /// Build-up ends with the first flush.
    #[inline]
    fn release_front(&mut self, index: u32, reason: FlushReason, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let Some(run) = flow.queue.pop() else { return };
        flow.flushed = now;
        if is_before(flow.next, run.end) {
            flow.next = run.end;
        }
        if flow.phase == FlowPhase::BuildUp {
            flow.phase = FlowPhase::ActiveMerging;
        }
        self.held -= run.chain.packets();
        flow.slots -= run.chain.slots();
        self.release(index, run, reason);
    }

    /// Stops waiting: flushes all runs. If there was a gap, the flow enters loss recovery.
    #[cold]
    fn enter_loss_recovery(&mut self, index: u32, reason: FlushReason, now: Timestamp) {
        self.release_in_sequence(index, reason, now);
        let flow = &mut self.flows[index as usize];
        if flow.queue.is_empty() {
            return;
        }
        flow.lost = flow.next;
        while !self.flows[index as usize].queue.is_empty() {
            self.release_front(index, reason, now);
        }
        self.turn(index, FlowPhase::LossRecovery);
    }

    /// Flushes all runs, across gaps. The time of the last flush does not change.
    fn release_all(&mut self, index: u32, reason: FlushReason) {
        while !self.flows[index as usize].queue.is_empty() {
            let now = self.flows[index as usize].flushed;
            self.release_front(index, reason, now);
        }
    }

    #[inline]
    fn release(&mut self, index: u32, run: SegmentRun, reason: FlushReason) {
        let expected = &mut self.flows[index as usize].expected[1];
        let expected = expected.get_or_insert(run.start);
        if is_before(run.start, *expected) {
            self.counts.reordered[1] += run.chain.packets() as u64;
        }
        if !is_before(run.end, *expected) {
            *expected = run.end;
        }
        self.released.push((run, reason));
    }

    /// Schedules the time-outs of waiting segments, and moves the flow to the list of its phase and gap. A
    /// flow in active merging without waiting segments turns to post merging.
    #[inline]
    fn rest(&mut self, index: u32, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let Some(front) = flow.queue.front() else {
            if flow.phase == FlowPhase::ActiveMerging {
                self.turn(index, FlowPhase::PostMerging);
            }
            return;
        };
        let is_in_sequence = !is_before(flow.next, front.start);
        let has_gap = !is_in_sequence || flow.queue.len() > 1;
        let is_misplaced = flow.is_tcp && flow.list != flow.phase.list(has_gap);
        let at = flow.waits_from(front) + self.limits.in_sequence;
        if is_in_sequence && (at <= now || flow.phase == FlowPhase::BuildUp) && !flow.is_ready {
            flow.is_ready = true;
            self.ready.push(index);
        }
        if is_in_sequence && at > now && !flow.is_armed[0] {
            flow.is_armed[0] = true;
            self.due.push(Reverse((at, Wait::InSequence, index)));
        }
        if has_gap && !flow.is_armed[1] {
            flow.is_armed[1] = true;
            self.due.push(Reverse((flow.oldest() + self.limits.out_of_order, Wait::OutOfOrder, index)));
        }
        if is_misplaced {
            let list = flow.phase.list(has_gap);
            self.move_to(index, list);
        }
    }

    /// Flushes segments that are due at the end of a batch, in `ready` flows and by expired time-outs.
    pub fn finish(&mut self, now: Timestamp) {
        for at in 0..self.ready.len() {
            let index = self.ready[at];
            self.flows[index as usize].is_ready = false;
            self.release_complete(index, now);
            if self.flows[index as usize].is_due(self.limits.in_sequence, now) {
                self.let_in_sequence_go(index, now);
            }
            self.rest_later(index);
        }
        self.ready.clear();
        while let Some(&Reverse((at, wait, index))) = self.due.peek() {
            if at > now {
                break;
            }
            self.due.pop();
            self.look(index, wait, now);
        }
    }

    /// Does what [`rest`](Self::rest) does, but puts all time-outs into `due` and none into `ready`, because
    /// the batch is over.
    fn rest_later(&mut self, index: u32) {
        let was = std::mem::replace(&mut self.flows[index as usize].is_ready, true);
        self.rest(index, Timestamp(i64::MIN));
        self.flows[index as usize].is_ready = was;
    }

    fn let_in_sequence_go(&mut self, index: u32, now: Timestamp) {
        self.release_in_sequence(index, FlushReason::InSequenceTimeout, now);
    }

    /// Handles a time-out of a flow whose time in `due` has come: flushes segments if they have really waited
    /// for that long, and schedules the next time-outs of the flow.
    fn look(&mut self, index: u32, wait: Wait, now: Timestamp) {
        let limits = self.limits;
        let flow = &mut self.flows[index as usize];
        flow.is_armed[wait as usize] = false;
        match wait {
            Wait::InSequence if flow.is_due(limits.in_sequence, now) => {
                self.let_in_sequence_go(index, now);
            }
            Wait::OutOfOrder
                if !flow.queue.is_empty() && flow.has_gap() && flow.oldest() + limits.out_of_order <= now =>
            {
                self.enter_loss_recovery(index, FlushReason::OutOfOrderTimeout, now);
            }
            _ => {}
        }
        self.rest_later(index);
    }

    /// Returns the earliest time in `due`, at which [`finish`](Self::finish) must be called; `None` if `due`
    /// is empty. The segments of that time may have left already.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Flushes all segments with this reason, and removes all flows and the saved numbers of evicted flows.
    pub fn clear(&mut self, reason: FlushReason) {
        for list in EvictionList::ALL {
            while self.lists[list as usize].2 > 0 {
                self.close(self.lists[list as usize].0, reason);
            }
        }
        self.evicted.clear();
    }

    /// Flushes and removes a flow; returns its key, or `None` if it had no entry.
    fn close(&mut self, index: u32, reason: FlushReason) -> Option<SegmentFlow> {
        self.release_all(index, reason);
        self.unlink(index);
        let flow = &mut self.flows[index as usize];
        // `due` may still have entries of this flow. They find nothing due in a flow without segments.
        flow.phase = FlowPhase::PostMerging;
        self.table.remove(flow.id.take()?)
    }

    /// Returns a flow's phase, next expected sequence number and first missing byte (valid in loss recovery).
    pub fn state(&self, index: u32) -> (FlowPhase, u32, u32) {
        let flow = &self.flows[index as usize];
        (flow.phase, flow.next, flow.lost)
    }
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            id: None,
            phase: FlowPhase::PostMerging,
            is_tcp: true,
            list: EvictionList::Inactive,
            before: NONE,
            behind: NONE,
            next: 0,
            lost: 0,
            flushed: Timestamp::ZERO,
            queue: Queue::default(),
            slots: 0,
            merges: true,
            unrelated: 0,
            is_ready: false,
            is_armed: [false; 2],
            expected: [None; 2],
        }
    }
}

impl Flow {
    /// True if segments wait for a missing segment ahead of them, or wait as two or more runs of contiguous
    /// segments, whether or not a segment is missing between them.
    fn has_gap(&self) -> bool {
        self.queue.len() > 1 || self.queue.front().is_some_and(|front| is_before(self.next, front.start))
    }

    /// Returns the time from which the wait of the run `front` counts, if that run is in sequence.
    #[inline]
    fn waits_from(&self, front: &SegmentRun) -> Timestamp {
        self.flushed.max(front.since)
    }

    /// True if the first run has waited for the time-out `in_sequence`, whether it is in sequence or not.
    #[inline]
    fn is_due(&self, in_sequence: Timestamp, now: Timestamp) -> bool {
        self.queue.front().is_some_and(|front| self.waits_from(front) + in_sequence <= now)
    }

    /// Returns the arrival time of the oldest run after a gap; without one, the time of the last flush.
    fn oldest(&self) -> Timestamp {
        let behind = self.queue.iter().filter(|run| is_before(self.next, run.start));
        behind.map(|run| run.since).min().unwrap_or(self.flushed)
    }
}
