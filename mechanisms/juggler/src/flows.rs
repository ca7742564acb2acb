//! The life cycle of flows: five phases, five lists, and the conditions that flush segments (Juggler paper,
//! sections 4.1 to 4.3).
//!
//! | phase | list | state |
//! | --- | --- | --- |
//! | initial | none | none: the flow has no entry |
//! | build-up | active, or gap | an estimate of `seq_next`, which may decrease until the batch is over |
//! | active merging | active, or gap | `seq_next`; segments wait for missing segments, or to be merged |
//! | post merging | inactive | `seq_next`; no segments wait |
//! | loss recovery | loss recovery | `lost_seq`, the first missing byte; the flow is evicted last |
//!
//! Here `seq_next` is the next expected sequence number. Flows of datagrams have a list of their own. The
//! paper has one list of active flows and evicts the flow that has been in it for longest, which is the
//! flow that waits after a gap. Here flows without a gap are evicted before flows with a gap.
//!
//! Flushed segments are put into [`Flows::released`], in the order in which they are to leave. Time is a
//! parameter. No time is checked per packet: flows that may be due are collected and checked at the end of
//! a batch, and a heap orders flows by their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use element::{Packet, Timestamp};
use flow::{FlowId, FlowTable, TableError};
use wire::merge::Segment;
use wire::tcp::flags;

use crate::evicted::Evicted;
use crate::key::FlowKey;
pub use crate::phases::{List, Phase, Reason};
use crate::queue::{Piece, Queue, Run, is_before};

/// The limits, which are arguments of the element.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of flows at a time.
    pub flows: usize,
    /// The time for which segments in sequence wait for more (`inseq_timeout`), counted from the last flush
    /// of the flow or from the arrival of the first waiting segment, whichever is later.
    pub in_sequence: Timestamp,
    /// The time for which segments wait after a gap (`ofo_timeout`).
    pub out_of_order: Timestamp,
    /// The maximum number of packet slots that the waiting segments of a flow occupy.
    pub slots: u32,
    /// True if segments are merged.
    pub merges: bool,
}

/// The index of no flow.
const NONE: u32 = u32::MAX;
/// A distance in bytes ahead that no window reaches (RFC 7323, section 2.3).
const WINDOW: u32 = 1 << 30;
/// A segment that is at most this many bytes before `next` counts as a retransmission: the largest window
/// that Linux receivers open without configuration (`tcp_rmem`).
pub(crate) const RETRANSMISSION_WINDOW: u32 = 32 << 20;
/// The number of consecutive segments farther from `next` after which the flow is learned again.
const MAX_UNRELATED: u8 = 64;

/// The age after which a loss is not repaired any more: TCP retransmits after a second at the latest, once
/// it has measured a few round trips (RFC 6298, section 2).
pub(crate) const REPAIR_TIME: Timestamp = Timestamp::from_secs(1);
/// A SYN that is less than this many bytes before `next` counts as a retransmission.
const AGAIN: u32 = 1 << 16;

/// The next expected sequence numbers by which reordering is measured (RFC 4737, section 3): of the
/// segments that arrive, and of the segments that leave.
pub(crate) type Expected = [Option<u32>; 2];

/// The state of a flow.
struct Flow {
    id: Option<FlowId>,
    phase: Phase,
    is_tcp: bool,
    list: List,
    /// The indices of the previous and the next flow of the list.
    before: u32,
    behind: u32,
    /// The next expected sequence number, after the data that has been flushed (`seq_next`).
    next: u32,
    /// The first missing byte, in loss recovery (`lost_seq`).
    lost: u32,
    /// The time of the last flush.
    flushed: Timestamp,
    queue: Queue,
    slots: u32,
    /// True if the segments of the flow are merged.
    merges: bool,
    /// The number of consecutive segments that are far from `next`.
    strange: u8,
    /// True if the flow is to be checked at the end of the batch; and, for each [`Wait`], true if the heap
    /// has an entry.
    is_ready: bool,
    is_armed: [bool; 2],
    expected: Expected,
}

/// The kind of time-out that a flow waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    InSequence,
    OutOfOrder,
}

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of evicted flows, by list.
    pub evictions: [u64; List::ALL.len()],
    /// The number of time-outs that flushed segments.
    pub timeouts: u64,
    /// The number of segments that arrived, and that left, after a later segment of their flow.
    pub reordered: [u64; 2],
}

/// The flows of one worker.
pub struct Flows {
    /// The limits. All of them may be changed at any time, except the number of flows.
    pub limits: Limits,
    table: FlowTable<FlowKey>,
    flows: Vec<Flow>,
    /// The first flow, the last flow and the number of flows of each list.
    lists: [(u32, u32, usize); List::ALL.len()],
    evicted: Evicted,
    due: BinaryHeap<Reverse<(Timestamp, Wait, u32)>>,
    ready: Vec<u32>,
    held: usize,
    /// The runs that have been flushed, with reasons.
    pub released: Vec<(Run, Reason)>,
    /// The counts.
    pub counts: Counts,
}

impl Flows {
    /// Creates a table without flows.
    ///
    /// # Errors
    /// If there is no memory for `limits.flows` flows.
    pub fn new(limits: Limits) -> Result<Flows, TableError> {
        Ok(Flows {
            table: FlowTable::new(limits.flows)?,
            flows: Vec::new(),
            lists: [(NONE, NONE, 0); List::ALL.len()],
            evicted: Evicted::new(limits.flows),
            due: BinaryHeap::with_capacity(2 * limits.flows.min(1 << 16)),
            ready: Vec::new(),
            held: 0,
            released: Vec::new(),
            counts: Counts::default(),
            limits,
        })
    }

    /// Returns the number of packets that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of flows in a list.
    pub fn length(&self, list: List) -> usize {
        self.lists[list as usize].2
    }

    /// Looks up the flows of all packets of a batch together, so that cache misses overlap.
    #[inline]
    pub fn look_up(&self, keys: &[FlowKey], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        self.table.lookup_batch(keys, hashes, ids);
    }

    /// Returns the index of a flow. `seen` is the result of an earlier look-up, which is used if the flow
    /// still exists; a flow that was opened since is found, too.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u32, seen: Option<FlowId>) -> Option<u32> {
        match seen {
            Some(id) if self.table.is_current(id) => Some(id.index()),
            _ => self.table.lookup(key, hash).map(FlowId::index),
        }
    }

    /// Opens a flow with `start` as the first estimate of its next sequence number. If there is no room,
    /// another flow is evicted. TCP flows learn their next number (`learns`), other flows have none.
    /// Returns `None` for a datagram if only flows with waiting TCP segments could be evicted, and for any
    /// packet if memory cannot be allocated.
    pub fn open(
        &mut self,
        key: &FlowKey,
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
            true => (Phase::BuildUp, self.evicted.take(key, start, now)),
            false => (Phase::ActiveMerging, Expected::default()),
        };
        // Heap entries of the flow that had this index before find nothing due.
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
        self.link(index, if is_tcp { List::Active } else { List::Datagrams });
        Some(index)
    }

    /// True if there is memory for another flow, and for the heap and ready entries of all flows.
    fn has_memory_for_another(&mut self) -> bool {
        let most = self.flows.len() + 1;
        self.flows.try_reserve(1).is_ok()
            && self.due.try_reserve((2 * most).saturating_sub(self.due.len())).is_ok()
            && self.ready.try_reserve(most.saturating_sub(self.ready.len())).is_ok()
    }

    /// True if there is memory for a run in a flow's queue, and for releasing all waiting segments.
    #[inline]
    fn has_memory_for_run(&mut self, index: u32) -> bool {
        self.released.try_reserve(self.held + 2).is_ok()
            && self.flows[index as usize].queue.has_memory_for_another()
    }

    /// Returns the list whose first flow is evicted: the list of loss recovery or of inactive flows, if its
    /// first flow has been silent for so long that no loss is repaired any more; otherwise the first list
    /// that has flows. A datagram evicts no flow with waiting TCP segments.
    fn list_to_evict_from(&self, is_tcp: bool, now: Timestamp) -> Option<List> {
        let is_old = |list: &List| {
            let first = self.flows.get(self.lists[*list as usize].0 as usize);
            first.is_some_and(|flow| flow.flushed + REPAIR_TIME <= now)
        };
        let lists = if is_tcp { &List::ALL[..] } else { &[List::Datagrams, List::Inactive] };
        let has_flows = |list: &&List| self.length(**list) > 0;
        [List::LossRecovery, List::Inactive]
            .into_iter()
            .find(is_old)
            .or_else(|| lists.iter().find(has_flows).copied())
    }

    /// Evicts a flow, and saves the numbers by which its reordering is measured.
    fn evict(&mut self, index: u32, now: Timestamp) {
        let key = self.close(index, Reason::Evicted);
        let flow = &self.flows[index as usize];
        if let Some(key) = key.filter(|_| flow.is_tcp) {
            self.evicted.add(key, flow.expected, now);
        }
    }

    /// True if a flow can be opened without an eviction.
    pub fn has_room(&self) -> bool {
        self.table.stats().entries < self.limits.flows
    }

    /// Changes the limits, also for segments that wait already.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.due.clear();
        for index in 0..self.flows.len() {
            self.flows[index].is_armed = [false; 2];
            self.rest_later(index as u32);
        }
    }

    /// Opens a flow whose next sequence number is known from the segment that opens its connection.
    pub fn open_connection(&mut self, key: &FlowKey, hash: u32, next: u32, merges: bool, now: Timestamp) {
        if let Some(index) = self.open(key, hash, next, false, merges, now) {
            self.flows[index as usize].expected[0] = Some(next);
            self.turn(index, Phase::PostMerging);
        }
    }

    /// Takes a TCP segment. A returned packet is to be forwarded at once, after the released segments; this
    /// includes packets for which there is no memory.
    #[inline]
    pub fn take(&mut self, index: u32, mut piece: Piece<'_>, now: Timestamp) -> Option<Packet> {
        let flow = &mut self.flows[index as usize];
        let segment = piece.segment;
        let is_plain = segment.length > 0 && segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0;
        if is_plain && flow.phase != Phase::BuildUp && flow.expected[0] == Some(segment.sequence) {
            // The segment follows the last one directly, as nearly all segments do.
            let end = segment.sequence.wrapping_add(segment.length.into());
            let merges = self.limits.merges && flow.merges;
            if flow.queue.is_empty() && !merges && segment.sequence == flow.next {
                (flow.next, flow.flushed, flow.expected, flow.strange) = (end, now, [Some(end); 2], 0);
                return Some(piece.packet);
            }
            if let Some(last) = flow.queue.continued_by(&piece, merges) {
                let before = last.chain.slots();
                match last.extend(piece, merges) {
                    Ok(()) => {
                        let is_complete = merges && last.is_closed || last.is_urgent();
                        flow.slots += last.chain.slots() - before;
                        flow.strange = 0;
                        flow.expected[0] = Some(end);
                        self.held += 1;
                        if flow.slots > self.limits.slots {
                            self.enter_loss_recovery(index, Reason::QueueFull, now);
                            self.rest(index, now);
                        } else if is_complete {
                            self.settle(index, now);
                        }
                        return None;
                    }
                    Err(refused) => piece = refused,
                }
            }
        }
        if !self.has_memory_for_run(index) {
            return Some(piece.packet);
        }
        self.take_closely(index, Run::new(piece, now), now);
        None
    }

    /// Takes a TCP segment that is not simply the next one.
    fn take_closely(&mut self, index: u32, run: Run, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let has = |flag: u8| run.last_flags & flag != 0;
        if run.start == run.end && !has(flags::RST) {
            // Acknowledgments are forwarded at once, even after a gap, but they do not overtake segments in
            // sequence.
            if !is_before(run.start, flow.next) {
                self.give_way(index, now);
            }
            return self.released.push((run, Reason::Acknowledgment));
        }
        if has(flags::SYN) {
            return self.restart(index, run, now);
        }
        let ahead = run.start.wrapping_sub(flow.next);
        if !is_before(run.start, flow.next) && ahead > WINDOW {
            return self.take_unrelated(index, run, Reason::Before, now);
        }
        let expected = flow.expected[0].get_or_insert(run.start);
        self.counts.reordered[0] += u64::from(is_before(run.start, *expected));
        if !is_before(run.end, *expected) {
            *expected = run.end;
        }
        if is_before(run.start, flow.next) {
            if flow.phase != Phase::BuildUp {
                return self.take_retransmission(index, run, now);
            }
            flow.next = run.start;
        }
        flow.strange = 0;
        self.add(index, run, now);
    }

    /// Flushes segments in sequence ahead of a packet of the flow that passes.
    pub fn give_way(&mut self, index: u32, now: Timestamp) {
        self.release_in_sequence(index, Reason::Acknowledgment, now);
        self.settle(index, now);
    }

    /// Accounts for a segment that has passed: if it was the next one, the next expected number moves to
    /// its end.
    pub fn pass_by(&mut self, index: u32, segment: &Segment, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if segment.is_tcp && segment.sequence == flow.next {
            let end = segment.sequence.wrapping_add(segment.sequence_length());
            (flow.next, flow.flushed) = (end, now);
            flow.expected =
                flow.expected.map(|expected| Some(expected.filter(|&e| is_before(end, e)).unwrap_or(end)));
            self.settle(index, now);
        }
    }

    /// Takes a datagram and appends it to the datagrams that arrived before. Returns the packet if there is
    /// no memory for it; it is then to be forwarded at once.
    #[inline]
    pub fn take_unordered(&mut self, index: u32, piece: Piece<'_>, now: Timestamp) -> Option<Packet> {
        if !self.has_memory_for_run(index) {
            return Some(piece.packet);
        }
        let mut run = Run::new(piece, now);
        let flow = &self.flows[index as usize];
        run.start = flow.queue.back().map_or(flow.next, |last| last.end);
        run.end = run.start.wrapping_add(run.length);
        self.add(index, run, now);
        None
    }

    /// Inserts a run into the queue, and flushes segments that are complete.
    #[inline]
    fn add(&mut self, index: u32, run: Run, now: Timestamp) {
        self.held += run.chain.packets();
        let merges = self.limits.merges;
        let flow = &mut self.flows[index as usize];
        flow.slots += run.chain.slots();
        flow.queue.insert(run, merges && flow.merges);
        if flow.phase == Phase::PostMerging {
            self.turn(index, Phase::ActiveMerging);
        }
        if self.flows[index as usize].slots > self.limits.slots {
            self.enter_loss_recovery(index, Reason::QueueFull, now);
        }
        self.settle(index, now);
    }

    /// Takes a segment before `next`. Retransmissions, however many, do not restart the flow: segments
    /// after them would be held as if data were missing.
    #[cold]
    fn take_retransmission(&mut self, index: u32, run: Run, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if flow.next.wrapping_sub(run.start) <= RETRANSMISSION_WINDOW {
            flow.strange = 0;
        } else if flow.strange >= MAX_UNRELATED {
            return self.take_unrelated(index, run, Reason::Before, now);
        } else {
            flow.strange += 1;
        }
        if is_before(flow.next, run.end) {
            // Part of the segment is new.
            flow.next = run.end;
        }
        let fills = flow.phase == Phase::LossRecovery
            && flow.lost.wrapping_sub(run.start) < run.end.wrapping_sub(run.start);
        self.release(index, run, Reason::Before);
        if fills {
            self.turn(index, Phase::ActiveMerging);
        }
        self.settle(index, now);
    }

    /// Takes a segment that is unrelated to the flushed data: the flow belongs to a connection whose
    /// opening was not seen, or the segment is forged. The segment passes. After `MAX_UNRELATED` such segments
    /// the flow is learned again.
    #[cold]
    fn take_unrelated(&mut self, index: u32, run: Run, reason: Reason, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        flow.strange = flow.strange.saturating_add(1);
        if flow.strange <= MAX_UNRELATED {
            return self.release(index, run, reason);
        }
        self.release_all(index, Reason::Restarted);
        let flow = &mut self.flows[index as usize];
        (flow.next, flow.flushed, flow.strange, flow.expected) = (run.start, now, 0, [None; 2]);
        self.turn(index, Phase::BuildUp);
        self.add(index, run, now);
    }

    /// Takes a segment that opens a connection, from which the numbers are known.
    #[cold]
    fn restart(&mut self, index: u32, run: Run, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if flow.next.wrapping_sub(run.end) < AGAIN && flow.phase != Phase::BuildUp {
            return self.release(index, run, Reason::Before);
        }
        let is_first = flow.phase == Phase::BuildUp
            && flow.queue.front().is_some_and(|front| front.start.wrapping_sub(run.end) < WINDOW);
        let mut expected = [Some(run.end), None];
        match is_first {
            true => {
                self.counts.reordered[0] += 1;
                expected[0] = flow.expected[0];
            }
            false => self.release_all(index, Reason::Restarted),
        }
        let flow = &mut self.flows[index as usize];
        (flow.next, flow.flushed, flow.strange, flow.expected) = (run.end, now, 0, expected);
        self.release(index, run, Reason::Flags);
        self.turn(index, if is_first { Phase::ActiveMerging } else { Phase::PostMerging });
        self.settle(index, now);
    }

    /// Flushes segments that are complete, and schedules the checks of the remaining segments.
    #[inline]
    fn settle(&mut self, index: u32, now: Timestamp) {
        // During build-up, segments may still arrive that belong ahead of the queue.
        if self.flows[index as usize].phase != Phase::BuildUp {
            self.release_complete(index, now);
        }
        self.rest(index, now);
    }

    /// Flushes runs that are in sequence and cannot grow.
    #[inline]
    fn release_complete(&mut self, index: u32, now: Timestamp) {
        loop {
            let flow = &self.flows[index as usize];
            let Some(front) = flow.queue.front().filter(|front| !is_before(flow.next, front.start)) else {
                return;
            };
            let reason = match () {
                () if !(self.limits.merges && flow.merges) => Reason::InSequence,
                () if front.is_urgent() => Reason::Flags,
                // All of its data has been flushed already, as parts of other segments.
                () if !is_before(flow.next, front.end) => Reason::Before,
                () if !front.merges => Reason::Differs,
                () if front.is_closed => Reason::Full,
                // The next run is adjacent. It would be part of this run if it could be merged.
                () if flow.queue.second().is_some_and(|next| !is_before(front.end, next.start)) => {
                    Reason::Differs
                }
                () => return,
            };
            self.release_front(index, reason, now);
        }
    }

    /// Flushes all runs in sequence.
    fn release_in_sequence(&mut self, index: u32, reason: Reason, now: Timestamp) {
        loop {
            let flow = &self.flows[index as usize];
            if flow.queue.front().is_none_or(|front| is_before(flow.next, front.start)) {
                return;
            }
            self.release_front(index, reason, now);
        }
    }

    /// Flushes the first run, which is in sequence.
    #[inline]
    fn release_front(&mut self, index: u32, reason: Reason, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let Some(run) = flow.queue.pop() else { return };
        flow.flushed = now;
        if is_before(flow.next, run.end) {
            flow.next = run.end;
        }
        if flow.phase == Phase::BuildUp {
            flow.phase = Phase::ActiveMerging;
        }
        self.held -= run.chain.packets();
        flow.slots -= run.chain.slots();
        self.release(index, run, reason);
    }

    /// Stops waiting for missing segments: flushes all runs and enters loss recovery.
    #[cold]
    fn enter_loss_recovery(&mut self, index: u32, reason: Reason, now: Timestamp) {
        self.release_in_sequence(index, reason, now);
        let flow = &mut self.flows[index as usize];
        if flow.queue.is_empty() {
            return;
        }
        flow.lost = flow.next;
        while !self.flows[index as usize].queue.is_empty() {
            self.release_front(index, reason, now);
        }
        self.turn(index, Phase::LossRecovery);
    }

    /// Flushes all runs.
    fn release_all(&mut self, index: u32, reason: Reason) {
        while !self.flows[index as usize].queue.is_empty() {
            let now = self.flows[index as usize].flushed;
            self.release_front(index, reason, now);
        }
    }

    #[inline]
    fn release(&mut self, index: u32, run: Run, reason: Reason) {
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

    /// Moves the flow to the right list, and schedules its time-outs.
    #[inline]
    fn rest(&mut self, index: u32, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let Some(front) = flow.queue.front() else {
            if flow.phase == Phase::ActiveMerging {
                self.turn(index, Phase::PostMerging);
            }
            return;
        };
        let is_in_sequence = !is_before(flow.next, front.start);
        let has_gap = !is_in_sequence || flow.queue.len() > 1;
        let is_misplaced = flow.is_tcp && flow.list != flow.phase.list(has_gap);
        let at = flow.waits_from(front) + self.limits.in_sequence;
        if is_in_sequence && (at <= now || flow.phase == Phase::BuildUp) && !flow.is_ready {
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

    /// Flushes segments that are due at the end of a batch.
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

    /// Does what [`rest`](Self::rest) does, but requests no check at the end of the batch, which is over.
    fn rest_later(&mut self, index: u32) {
        let was = std::mem::replace(&mut self.flows[index as usize].is_ready, true);
        self.rest(index, Timestamp(i64::MIN));
        self.flows[index as usize].is_ready = was;
    }

    /// Flushes segments in sequence that have waited for `inseq_timeout`.
    fn let_in_sequence_go(&mut self, index: u32, now: Timestamp) {
        let before = self.released.len();
        self.release_in_sequence(index, Reason::InSequenceTimeout, now);
        self.counts.timeouts += u64::from(self.released.len() > before);
    }

    /// Handles an entry of the heap: flushes segments whose time-out has expired.
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
                self.counts.timeouts += 1;
                self.enter_loss_recovery(index, Reason::OutOfOrderTimeout, now);
            }
            _ => {}
        }
        self.rest_later(index);
    }

    /// Returns the time of the next check.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Flushes all segments and removes all flows.
    pub fn clear(&mut self, reason: Reason) {
        for list in List::ALL {
            while self.lists[list as usize].2 > 0 {
                self.close(self.lists[list as usize].0, reason);
            }
        }
        self.evicted.clear();
    }

    /// Flushes and removes a flow; returns its key.
    fn close(&mut self, index: u32, reason: Reason) -> Option<FlowKey> {
        self.release_all(index, reason);
        self.unlink(index);
        let flow = &mut self.flows[index as usize];
        // The heap may still have entries of this flow. Nothing is due in a flow without segments.
        flow.phase = Phase::PostMerging;
        self.table.remove(flow.id.take()?)
    }

    #[inline]
    fn turn(&mut self, index: u32, phase: Phase) {
        let flow = &mut self.flows[index as usize];
        let was = std::mem::replace(&mut flow.phase, phase);
        // Gaps are detected in `rest`.
        let list = if flow.is_tcp { phase.list(flow.list == List::Gap) } else { List::Datagrams };
        // Of the flows of datagrams, the flow whose datagrams last waited longest ago is evicted first.
        if list != flow.list || !flow.is_tcp && was == Phase::PostMerging {
            self.move_to(index, list);
        }
    }

    /// Moves a flow to the end of a list.
    #[inline]
    fn move_to(&mut self, index: u32, list: List) {
        self.unlink(index);
        self.link(index, list);
    }

    #[inline]
    fn link(&mut self, index: u32, list: List) {
        let (first, last, length) = &mut self.lists[list as usize];
        let flow = &mut self.flows[index as usize];
        (flow.before, flow.behind, flow.list) = (*last, NONE, list);
        let last_was = std::mem::replace(last, index);
        *length += 1;
        match self.flows.get_mut(last_was as usize) {
            Some(before) => before.behind = index,
            None => *first = index,
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let flow = &self.flows[index as usize];
        let (before, behind) = (flow.before, flow.behind);
        let (first, last, length) = &mut self.lists[flow.list as usize];
        *length -= 1;
        match self.flows.get_mut(before as usize) {
            Some(other) => other.behind = behind,
            None => *first = behind,
        }
        match self.flows.get_mut(behind as usize) {
            Some(other) => other.before = before,
            None => *last = before,
        }
    }

    /// Returns the phase of a flow, its next expected number and its first missing byte.
    pub fn state(&self, index: u32) -> (Phase, u32, u32) {
        let flow = &self.flows[index as usize];
        (flow.phase, flow.next, flow.lost)
    }
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            id: None,
            phase: Phase::PostMerging,
            is_tcp: true,
            list: List::Inactive,
            before: NONE,
            behind: NONE,
            next: 0,
            lost: 0,
            flushed: Timestamp::ZERO,
            queue: Queue::default(),
            slots: 0,
            merges: true,
            strange: 0,
            is_ready: false,
            is_armed: [false; 2],
            expected: [None; 2],
        }
    }
}

impl Flow {
    /// True if segments wait for a missing segment.
    fn has_gap(&self) -> bool {
        self.queue.len() > 1 || self.queue.front().is_some_and(|front| is_before(self.next, front.start))
    }

    /// Returns the time from which the wait of the first run, which is in sequence, counts.
    #[inline]
    fn waits_from(&self, front: &Run) -> Timestamp {
        self.flushed.max(front.since)
    }

    /// True if segments in sequence have waited for `in_sequence`.
    #[inline]
    fn is_due(&self, in_sequence: Timestamp, now: Timestamp) -> bool {
        self.queue.front().is_some_and(|front| self.waits_from(front) + in_sequence <= now)
    }

    /// Returns the arrival time of the oldest run that waits after a gap.
    fn oldest(&self) -> Timestamp {
        let behind = self.queue.iter().filter(|run| is_before(self.next, run.start));
        behind.map(|run| run.since).min().unwrap_or(self.flushed)
    }
}
