//! The life of flows: five phases, five lists, and what lets segments go (Juggler paper, sections 4.1 to 4.3).
//!
//! | phase | list | what is known |
//! | --- | --- | --- |
//! | initial | none | nothing: the flow has no entry |
//! | build-up | active, or gap | a guess of the next sequence number, which may go back until the batch is over |
//! | active merging | active, or gap | what has gone; segments wait for those in front of them or for more to be merged with |
//! | post merging | inactive | what has gone; nothing waits |
//! | loss recovery | loss recovery | the first byte that was waited for in vain; until it comes, the flow is not given up |
//!
//! Flows of datagrams have a list of their own. The paper has one list of active flows and evicts the one that has been in it
//! for longest, which is the one that waits behind a gap: here flows without a gap are evicted before those with one.
//!
//! What leaves is put into [`Flows::released`], in the order in which it is to leave. Time is a parameter. Nobody looks at
//! clocks per packet: flows that may be due are noted at the end of a batch, and in a heap in the order of their times.

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

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Flows at a time.
    pub flows: usize,
    /// The time for which segments in sequence wait for more: from when the flow last let some go, or from when the first
    /// that waits came, if that was later.
    pub in_sequence: Timestamp,
    /// How long segments behind a gap wait.
    pub out_of_order: Timestamp,
    /// Slots of a flow that wait.
    pub slots: u32,
    /// Whether segments become large ones.
    pub merges: bool,
}

/// No flow.
const NONE: u32 = u32::MAX;
/// Farther ahead than any window reaches (RFC 7323, section 2.3).
const WINDOW: u32 = 1 << 30;
/// A segment that lies no farther before what has gone was sent again: the largest window that Linux's receivers open by
/// themselves (`tcp_rmem`).
pub(crate) const SENT_AGAIN: u32 = 32 << 20;
/// Segments in a row that lie farther from what has gone, after which the flow starts anew.
const STRANGE: u8 = 64;

/// A loss that is older than this is not mended any more: TCP sends again after a second at the latest, if it has seen a
/// few round trips (RFC 6298, section 2).
pub(crate) const MENDED: Timestamp = Timestamp::from_secs(1);
/// A SYN that lies closer than this before what has gone was sent again.
const AGAIN: u32 = 1 << 16;

/// Numbers that reordering is measured by (RFC 4737, section 3): the one behind what came, and the one behind what left.
pub(crate) type Expected = [Option<u32>; 2];

/// A flow.
struct Flow {
    id: Option<FlowId>,
    phase: Phase,
    is_tcp: bool,
    list: List,
    /// Neighbours in its list.
    before: u32,
    behind: u32,
    /// The number behind what has gone.
    next: u32,
    /// The first byte that is missing, in loss recovery.
    lost: u32,
    /// When it last let something go.
    flushed: Timestamp,
    queue: Queue,
    slots: u32,
    /// Whether its segments become large ones.
    merges: bool,
    /// Segments in a row that lie far from what has gone.
    strange: u8,
    /// Whether it is to be looked at when the batch is over, and whether the heap has each of its times.
    is_ready: bool,
    is_armed: [bool; 2],
    expected: Expected,
}

/// What a flow is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    InSequence,
    OutOfOrder,
}

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Flows evicted, by list.
    pub evictions: [u64; List::ALL.len()],
    /// How often a time-out let something go.
    pub timeouts: u64,
    /// Segments that came, and that left, behind a later one of their flow.
    pub reordered: [u64; 2],
}

/// The flows of one worker.
pub struct Flows {
    /// What can be set; may be changed at any time but for the number of flows.
    pub limits: Limits,
    table: FlowTable<FlowKey>,
    flows: Vec<Flow>,
    /// First, last and number of flows of each list.
    lists: [(u32, u32, usize); List::ALL.len()],
    evicted: Evicted,
    due: BinaryHeap<Reverse<(Timestamp, Wait, u32)>>,
    ready: Vec<u32>,
    held: usize,
    /// What leaves.
    pub released: Vec<(Run, Reason)>,
    /// Counts.
    pub counts: Counts,
}

impl Flows {
    /// Without flows.
    ///
    /// # Errors
    /// Where there is no memory for so many.
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

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Flows in a list.
    pub fn length(&self, list: List) -> usize {
        self.lists[list as usize].2
    }

    /// The flows of all packets of a batch, so that waits for memory overlap.
    #[inline]
    pub fn look_up(&self, keys: &[FlowKey], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        self.table.lookup_batch(keys, hashes, ids);
    }

    /// A flow that was looked up before, if it is still there, or one that has been opened since.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u32, seen: Option<FlowId>) -> Option<u32> {
        match seen {
            Some(id) if self.table.is_current(id) => Some(id.index()),
            _ => self.table.lookup(key, hash).map(FlowId::index),
        }
    }

    /// Gives a flow an entry, with a segment of it as the first guess; where there is no room, another one is evicted. TCP's
    /// next number is to be learnt; of others there is none. `None` for a datagram where only flows could give way of
    /// which segments wait.
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
        // Times that the heap has of the place's last flow find nothing due.
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

    /// True if there is memory for another flow, and for the times and looks of all.
    fn has_memory_for_another(&mut self) -> bool {
        let most = self.flows.len() + 1;
        self.flows.try_reserve(1).is_ok()
            && self.due.try_reserve((2 * most).saturating_sub(self.due.len())).is_ok()
            && self.ready.try_reserve(most.saturating_sub(self.ready.len())).is_ok()
    }

    /// True if there is memory for a run in a flow's queue, and for all that waits to be released together.
    #[inline]
    fn has_memory_for_run(&mut self, index: u32) -> bool {
        self.released.try_reserve(self.held + 2).is_ok()
            && self.flows[index as usize].queue.has_memory_for_another()
    }

    /// The list whose first flow gives way: one of which nothing has been seen for so long that no loss is mended any more,
    /// else the lists in their order. No datagram makes a flow give way of which segments of TCP wait.
    fn list_to_evict_from(&self, is_tcp: bool, now: Timestamp) -> Option<List> {
        let is_old = |list: &List| {
            let first = self.flows.get(self.lists[*list as usize].0 as usize);
            first.is_some_and(|flow| flow.flushed + MENDED <= now)
        };
        let lists = if is_tcp { &List::ALL[..] } else { &[List::Datagrams, List::Inactive] };
        let has_flows = |list: &&List| self.length(**list) > 0;
        [List::LossRecovery, List::Inactive]
            .into_iter()
            .find(is_old)
            .or_else(|| lists.iter().find(has_flows).copied())
    }

    /// Takes a flow's entry away, and remembers what reordering is measured by.
    fn evict(&mut self, index: u32, now: Timestamp) {
        let key = self.close(index, Reason::Evicted);
        let flow = &self.flows[index as usize];
        if let Some(key) = key.filter(|_| flow.is_tcp) {
            self.evicted.add(key, flow.expected, now);
        }
    }

    /// Whether a flow can be opened without another one giving way.
    pub fn has_room(&self) -> bool {
        self.table.stats().entries < self.limits.flows
    }

    /// Changes what is waited for, also by flows that wait already.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.due.clear();
        for index in 0..self.flows.len() {
            self.flows[index].is_armed = [false; 2];
            self.rest_later(index as u32);
        }
    }

    /// Gives a flow an entry whose next number a segment has told that opens its connection.
    pub fn open_connection(&mut self, key: &FlowKey, hash: u32, next: u32, merges: bool, now: Timestamp) {
        if let Some(index) = self.open(key, hash, next, false, merges, now) {
            self.flows[index as usize].expected[0] = Some(next);
            self.turn(index, Phase::PostMerging);
        }
    }

    /// A segment of TCP. What is given back goes on at once, behind what is released; so does what there is no memory for.
    #[inline]
    pub fn take(&mut self, index: u32, mut piece: Piece<'_>, now: Timestamp) -> Option<Packet> {
        let flow = &mut self.flows[index as usize];
        let segment = piece.segment;
        let is_plain = segment.length > 0 && segment.flags & (flags::SYN | flags::FIN | flags::RST) == 0;
        if is_plain && flow.phase != Phase::BuildUp && flow.expected[0] == Some(segment.sequence) {
            // It comes right behind the last one, as nearly all do.
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
                            self.give_up_waiting(index, Reason::QueueFull, now);
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

    /// A segment of TCP that needs to be looked at.
    fn take_closely(&mut self, index: u32, run: Run, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        let has = |flag: u8| run.last_flags & flag != 0;
        if run.start == run.end && !has(flags::RST) {
            // What it acknowledges is news at once, also behind a gap; but it passes nothing that is in sequence.
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
            return self.take_strange(index, run, Reason::Before, now);
        }
        let expected = flow.expected[0].get_or_insert(run.start);
        self.counts.reordered[0] += u64::from(is_before(run.start, *expected));
        if !is_before(run.end, *expected) {
            *expected = run.end;
        }
        if is_before(run.start, flow.next) {
            if flow.phase != Phase::BuildUp {
                return self.take_early(index, run, now);
            }
            flow.next = run.start;
        }
        flow.strange = 0;
        self.add(index, run, now);
    }

    /// Lets go what is in sequence, for something of the flow that passes.
    pub fn give_way(&mut self, index: u32, now: Timestamp) {
        self.release_in_sequence(index, Reason::Acknowledgment, now);
        self.settle(index, now);
    }

    /// A segment has passed by: if it was the next one, the flow goes on behind it.
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

    /// A datagram: behind those that came before. One that there is no memory for is given back, and goes on at once.
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

    /// Puts a run into the queue and lets go what is complete by that.
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
            self.give_up_waiting(index, Reason::QueueFull, now);
        }
        self.settle(index, now);
    }

    /// A segment before what has gone. Segments that were sent again, however many, do not start the flow anew: what comes
    /// behind them would be held as if something were missing.
    #[cold]
    fn take_early(&mut self, index: u32, run: Run, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        if flow.next.wrapping_sub(run.start) <= SENT_AGAIN {
            flow.strange = 0;
        } else if flow.strange >= STRANGE {
            return self.take_strange(index, run, Reason::Before, now);
        } else {
            flow.strange += 1;
        }
        if is_before(flow.next, run.end) {
            // Some of it is new.
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

    /// A segment that has nothing to do with what has gone: a connection that was opened out of our sight, or somebody's
    /// guess. It passes, and after some of them the flow is learnt anew.
    #[cold]
    fn take_strange(&mut self, index: u32, run: Run, reason: Reason, now: Timestamp) {
        let flow = &mut self.flows[index as usize];
        flow.strange = flow.strange.saturating_add(1);
        if flow.strange <= STRANGE {
            return self.release(index, run, reason);
        }
        self.release_all(index, Reason::Restarted);
        let flow = &mut self.flows[index as usize];
        (flow.next, flow.flushed, flow.strange, flow.expected) = (run.start, now, 0, [None; 2]);
        self.turn(index, Phase::BuildUp);
        self.add(index, run, now);
    }

    /// A segment that opens a connection: from here on, the numbers are known.
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

    /// Lets go what is complete, and sees to it that the rest is looked at in time.
    #[inline]
    fn settle(&mut self, index: u32, now: Timestamp) {
        // What a flow builds up with may yet get something in front of it.
        if self.flows[index as usize].phase != Phase::BuildUp {
            self.release_complete(index, now);
        }
        self.rest(index, now);
    }

    /// Lets go what is in sequence and can become no larger.
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
                // All of it has gone already, as parts of others.
                () if !is_before(flow.next, front.end) => Reason::Before,
                () if !front.merges => Reason::Differs,
                () if front.is_closed => Reason::Full,
                // What adjoins would be one run with it if it could.
                () if flow.queue.second().is_some_and(|next| !is_before(front.end, next.start)) => {
                    Reason::Differs
                }
                () => return,
            };
            self.release_front(index, reason, now);
        }
    }

    /// Lets go what is in sequence.
    fn release_in_sequence(&mut self, index: u32, reason: Reason, now: Timestamp) {
        loop {
            let flow = &self.flows[index as usize];
            if flow.queue.front().is_none_or(|front| is_before(flow.next, front.start)) {
                return;
            }
            self.release_front(index, reason, now);
        }
    }

    /// Lets the first run go, which is in sequence.
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

    /// Waits no longer for what is missing: everything goes, and the flow is in loss recovery.
    #[cold]
    fn give_up_waiting(&mut self, index: u32, reason: Reason, now: Timestamp) {
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

    /// Everything that waits goes.
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

    /// Puts the flow into the right list, and what waits of it on the clock.
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

    /// The batch is over: lets go what is due.
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

    /// The same without asking for another look when the batch is over: that is now.
    fn rest_later(&mut self, index: u32) {
        let was = std::mem::replace(&mut self.flows[index as usize].is_ready, true);
        self.rest(index, Timestamp(i64::MIN));
        self.flows[index as usize].is_ready = was;
    }

    /// What is in sequence has waited long enough.
    fn let_in_sequence_go(&mut self, index: u32, now: Timestamp) {
        let before = self.released.len();
        self.release_in_sequence(index, Reason::InSequenceTimeout, now);
        self.counts.timeouts += u64::from(self.released.len() > before);
    }

    /// A time has come: lets go what has waited so long.
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
                self.give_up_waiting(index, Reason::OutOfOrderTimeout, now);
            }
            _ => {}
        }
        self.rest_later(index);
    }

    /// When to look next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Lets everything go and forgets all flows.
    pub fn clear(&mut self, reason: Reason) {
        for list in List::ALL {
            while self.lists[list as usize].2 > 0 {
                self.close(self.lists[list as usize].0, reason);
            }
        }
        self.evicted.clear();
    }

    /// Forgets a flow; its key.
    fn close(&mut self, index: u32, reason: Reason) -> Option<FlowKey> {
        self.release_all(index, reason);
        self.unlink(index);
        let flow = &mut self.flows[index as usize];
        // The heap may still have its times: nothing is due of a flow without segments.
        flow.phase = Phase::PostMerging;
        self.table.remove(flow.id.take()?)
    }

    #[inline]
    fn turn(&mut self, index: u32, phase: Phase) {
        let flow = &mut self.flows[index as usize];
        let was = std::mem::replace(&mut flow.phase, phase);
        // What has a gap is seen when the flow comes to rest.
        let list = if flow.is_tcp { phase.list(flow.list == List::Gap) } else { List::Datagrams };
        // Of datagrams, the flow gives way first that had some longest ago.
        if list != flow.list || !flow.is_tcp && was == Phase::PostMerging {
            self.move_to(index, list);
        }
    }

    /// Puts a flow at the end of a list.
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

    /// Where a flow is in its life, and what is known of its numbers: next, lost.
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
    /// Whether something waits for what is missing.
    fn has_gap(&self) -> bool {
        self.queue.len() > 1 || self.queue.front().is_some_and(|front| is_before(self.next, front.start))
    }

    /// The time from which a run waits that is the first one, and in sequence.
    #[inline]
    fn waits_from(&self, front: &Run) -> Timestamp {
        self.flushed.max(front.since)
    }

    /// True if what is in sequence has waited for so long.
    #[inline]
    fn is_due(&self, in_sequence: Timestamp, now: Timestamp) -> bool {
        self.queue.front().is_some_and(|front| self.waits_from(front) + in_sequence <= now)
    }

    /// When the first of those came that wait behind a gap.
    fn oldest(&self) -> Timestamp {
        let behind = self.queue.iter().filter(|run| is_before(self.next, run.start));
        behind.map(|run| run.since).min().unwrap_or(self.flushed)
    }
}
