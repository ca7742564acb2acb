//! The look-up of the flows of a batch, and the way of its packets to their flows. A packet is first compared
//! with the packet before. Flows are looked up together from the first packet on that is of another flow.

use element::checksums::is_known_right;
use element::offload::{is_large_segment, is_partial};
use element::{Batch, Cx, Packet, Timestamp};
use flow::{FlowId, KeyHasher};
use packet::{BATCH_CAPACITY, Drain, prefetch_line};
use wire::merge::{Frame, NextSegment, WINDOW, WholeSegment};

use super::{Damaged, Juggler, Known, mark_of};
use crate::flows::FlushReason;
use crate::key::{self, SegmentFlow};
use crate::outgoing::add;

/// The length of a cache line in bytes.
const LINE: usize = 64;
/// The distance, in packets, from the packet that is processed to the packet whose data is prefetched. With a
/// larger distance, the processor would wait, because memory serves a limited number of requests at a time.
const AHEAD: usize = 3;
/// The number of entries in the small hash table that finds the distinct flows of a batch; a power of two.
const PLACES: usize = 64;

/// The segment in a packet, as far as the look-up of a batch finds it.
#[derive(Clone, Copy)]
enum Located {
    /// No segment that is put in order.
    No,
    /// A segment in a frame of the usual layout, whose headers are read when the packet is taken.
    Usual,
    /// A segment in a packet of another layout.
    Other(WholeSegment),
}

/// The result of the look-up of packets of a batch, and the distinct flows of these packets.
pub(super) struct Scratch {
    segments: [Located; BATCH_CAPACITY],
    /// For each packet with a segment, the index of the packet's flow in `keys`, `hashes` and `ids`.
    flows: [u8; BATCH_CAPACITY],
    keys: [SegmentFlow; BATCH_CAPACITY],
    hashes: [u32; BATCH_CAPACITY],
    ids: [Option<FlowId>; BATCH_CAPACITY],
    /// The number of flows in `keys`.
    count: usize,
    /// The small hash table: for each value of [`SegmentFlow::place`], the index in `keys` of the flow that
    /// was added last. An entry may be left over from an earlier batch.
    places: [u8; PLACES],
}

impl Scratch {
    fn new() -> Box<Scratch> {
        Box::new(Scratch {
            segments: [Located::No; BATCH_CAPACITY],
            flows: [0; BATCH_CAPACITY],
            keys: [SegmentFlow::NONE; BATCH_CAPACITY],
            hashes: [0; BATCH_CAPACITY],
            ids: [None; BATCH_CAPACITY],
            count: 0,
            places: [0; PLACES],
        })
    }

    /// Notes the segment of the packet at index `at`, and its flow if the flow is new in the batch. After a
    /// collision in `places`, a flow is added again.
    #[inline(always)]
    fn note(&mut self, at: usize, segment: Located, key: SegmentFlow, hasher: &KeyHasher) {
        self.segments[at] = segment;
        let place = &mut self.places[key.place(PLACES)];
        let noted = usize::from(*place);
        if noted >= self.count || !self.keys[noted].is_same(&key) {
            *place = self.count as u8;
            (self.keys[self.count], self.hashes[self.count]) = (key, hasher.hash(&key));
            self.count += 1;
        }
        self.flows[at] = *place;
    }
}

/// The flow of the packet before, if its frame had the usual layout. The next packet is probably of the same
/// flow, and is compared with it before a flow is looked up.
pub(super) struct RecentFlow {
    window: [u8; WINDOW],
    key: SegmentFlow,
    hash: u32,
    id: Option<FlowId>,
}

impl RecentFlow {
    /// No flow.
    pub(super) const NONE: RecentFlow =
        RecentFlow { window: [0; WINDOW], key: SegmentFlow::NONE, hash: 0, id: None };
}

impl Juggler {
    /// Finds the segments of packets and looks up their distinct flows. All look-ups are made together, so
    /// that cache misses overlap.
    #[inline]
    fn look_up(&self, packets: &[Packet], scratch: &mut Scratch) {
        scratch.count = 0;
        for (at, packet) in packets.iter().enumerate() {
            if let Some(key) = key::usual_key(packet) {
                scratch.note(at, Located::Usual, key, &self.hasher);
                continue;
            }
            let found = key::locate_any(packet, self.merges);
            match found.filter(|(segment, _)| segment.is_tcp || self.settings.udp) {
                Some((segment, key)) => scratch.note(at, Located::Other(segment), key, &self.hasher),
                None => scratch.segments[at] = Located::No,
            }
        }
        let Scratch { keys, hashes, ids, count, .. } = scratch;
        self.flows.look_up(&keys[..*count], &hashes[..*count], &mut ids[..*count]);
    }

    /// Takes all packets of a batch in order; the batch is empty afterwards. Flows are looked up from the
    /// first packet on that is not of the same flow as the packet before.
    #[inline]
    pub(super) fn take_all(&mut self, cx: &mut Cx<'_>, batch: &mut Batch, out: &mut Batch) {
        batch.iter().take(AHEAD + 1).for_each(|packet| self.ask_for_data(packet));
        let now = cx.now();
        let mut packets = batch.drain();
        while !packets.as_slice().is_empty() {
            let recent = self.recent.id.and_then(|id| self.flows.index_of(id));
            if recent.is_some_and(|flow| self.take_next(cx, flow, &mut packets, now) > 0) {
                continue;
            }
            if recent.is_none() || !packets.as_slice().first().is_some_and(|packet| self.is_recent(packet)) {
                self.take_looked_up(cx, &mut packets, out, now);
                break;
            }
            let Some(packet) = self.next_of(&mut packets) else { break };
            self.take_known(cx, out, packet, now);
        }
        drop(packets);
        self.statistics.pass(FlushReason::InSequence, std::mem::take(&mut self.in_sequence));
    }

    /// Returns the next of the packets of a batch, and prefetches the data of a later one if it has to be
    /// read.
    #[inline(always)]
    fn next_of(&self, packets: &mut Drain<'_>) -> Option<Packet> {
        let packet = packets.next();
        if let Some(ahead) = packets.as_slice().get(AHEAD) {
            self.ask_for_data(ahead);
        }
        packet
    }

    /// Prefetches a packet's data if it has to be read.
    #[inline(always)]
    fn ask_for_data(&self, packet: &Packet) {
        if self.reads && !(self.trusts && packet.has_right_checksum()) {
            ask_for_data(packet);
        }
    }

    /// True if a packet belongs to the same flow as the packet before, and its frame has the usual layout.
    #[inline(always)]
    fn is_recent(&self, packet: &Packet) -> bool {
        key::frame_of(packet).is_some_and(|frame| frame.continues(&self.recent.window))
    }

    /// Takes packets from the front of a batch as long as their segments are next in a run of the flow and
    /// can be merged with it. Returns their number.
    #[inline]
    fn take_next(&mut self, cx: &Cx<'_>, flow: u32, packets: &mut Drain<'_>, now: Timestamp) -> usize {
        if !self.merges {
            return 0;
        }
        let (is_asked, compares, keeps) = (self.is_asked, self.compares, !self.leaves_checksums);
        let (reads, trusts) = (self.reads, self.trusts);
        let sum = |packets: &[Packet], next: &NextSegment, start: u16, mark: u64| {
            let Some(packet) = packets.first() else { return Err(Damaged) };
            let is_left = is_asked && (is_large_segment(packet) || is_partial(packet));
            if is_left || compares && mark_of(cx, packet) != mark {
                return Err(Damaged);
            }
            if !reads || trusts && is_known_right(packet, key::L3) {
                return Ok(keeps.then(|| next.trust()));
            }
            if let Some(ahead) = packets.get(AHEAD + 1) {
                ask_for_data(ahead);
            }
            let sum = next.verify(packet.chunks(), start).ok_or(Damaged)?;
            Ok(keeps.then_some(sum))
        };
        let taken = self.flows.take_next(flow, packets, sum, now);
        self.statistics.segments[0] += taken as u64;
        taken
    }

    /// Takes a packet of the same flow as the packet before.
    #[inline(always)]
    fn take_known(&mut self, cx: &mut Cx<'_>, out: &mut Batch, packet: Packet, now: Timestamp) {
        let RecentFlow { key, hash, id, .. } = self.recent;
        let Some(segment) = key::usual_segment(&packet, self.merges) else {
            return self.take_other(cx, out, packet);
        };
        self.take(cx, out, packet, Known { segment: &segment, key: &key, hash, seen: id, now });
    }

    /// Takes a packet that has no segment.
    #[inline]
    pub(super) fn take_other(&mut self, cx: &mut Cx<'_>, out: &mut Batch, packet: Packet) {
        self.statistics.passed += 1;
        add(cx, out, packet);
    }

    /// Takes packets, whose flows are looked up together.
    fn take_looked_up(&mut self, cx: &mut Cx<'_>, packets: &mut Drain<'_>, out: &mut Batch, now: Timestamp) {
        let mut scratch = self.scratch.take().unwrap_or_else(Scratch::new);
        self.look_up(packets.as_slice(), &mut scratch);
        let Scratch { segments, flows, keys, hashes, ids, .. } = &*scratch;
        // The next packets probably belong to the flow of the last one.
        let last = packets.as_slice().len().wrapping_sub(1);
        let recent = packets.as_slice().last().and_then(key::frame_of).filter(|frame| frame.is_usual());
        let recent = recent
            .map(|frame| (*frame.window, keys[usize::from(flows[last])], hashes[usize::from(flows[last])]));
        let count = packets.as_slice().len();
        while !packets.as_slice().is_empty() {
            let at = count - packets.as_slice().len();
            let flow = usize::from(flows[at]);
            let (key, hash, seen) = (&keys[flow], hashes[flow], ids[flow]);
            let segment = &segments[at];
            if let (Located::Usual, Some(flow)) = (segment, seen.and_then(|id| self.flows.index_of(id)))
                && self.take_next(cx, flow, packets, now) > 0
            {
                continue;
            }
            let Some(packet) = self.next_of(packets) else { break };
            let segment = match *segment {
                Located::No => None,
                Located::Other(segment) => Some(segment),
                Located::Usual => key::usual_segment(&packet, self.merges),
            };
            match &segment {
                Some(segment) => self.take(cx, out, packet, Known { segment, key, hash, seen, now }),
                None => self.take_other(cx, out, packet),
            }
        }
        if let Some((window, key, hash)) = recent {
            let id = self.flows.find(&key, hash, None).and_then(|flow| self.flows.id_of(flow));
            self.recent = RecentFlow { window, key, hash, id };
        }
        self.scratch = Some(scratch);
    }

    /// Takes packets from the front of a batch that need not be held, in flows without merging, and leaves
    /// them in the batch. Returns their number.
    #[inline]
    pub(super) fn pass_in_place(&mut self, batch: &Batch, now: Timestamp) -> usize {
        let Some(flow) = self.recent.id.and_then(|id| self.flows.index_of(id)) else { return 0 };
        let mut passes = |packet: &Packet| {
            let frame = key::frame_of(packet).filter(|frame| frame.continues(&self.recent.window));
            let segment = frame.and_then(Frame::data);
            segment.is_some_and(|segment| self.flows.pass_next(flow, segment, now))
        };
        let count = batch.iter().take_while(|packet| passes(packet)).count();
        self.statistics.segments[0] += count as u64;
        self.in_sequence += count as u64;
        count
    }
}

/// Prefetches a packet's bytes in its first slot, except the first 64, which come with the headers.
#[inline]
fn ask_for_data(packet: &Packet) {
    let (lines, rest) = packet.data().as_chunks::<LINE>();
    lines.iter().skip(1).for_each(|line| prefetch_line(line.as_ptr()));
    prefetch_line(rest.as_ptr());
}
