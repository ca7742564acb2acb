//! The out-of-order queue of one flow: runs of segments, sorted by sequence number.
//!
//! In this crate, a *run* is a sequence of adjacent segments that leave together: they can form one large
//! segment, or (without merging) only leave in this order. Adjacent runs are joined when the gap between
//! them closes; with merging, only if they fit into one large segment. So there is about one run per gap.
//! The position of a new run is found from the end of the queue, which is where most segments belong, or by
//! bisection.

use std::collections::VecDeque;

use element::{Packet, Timestamp};
use packet::{Drain, PacketChain};
use wire::checksum::Sum;
use wire::merge::{FirstFrame, Frame, NextSegment, SegmentData, WholeSegment};
use wire::tcp::flags;

use crate::key::frame_of;
use crate::sequence::is_before;

/// The maximum length of an IP packet in bytes, which limits large segments.
const LONGEST: u32 = 65_535;
/// The number of packet slots from which on a large TCP segment takes no further segment. Interfaces take
/// about 127 pieces of memory per packet.
const MOST_SLOTS: u32 = 120;
/// The maximum number of datagrams in a large datagram; slots are counted, at least one per datagram. The
/// kernel cuts it into at most this many (`UDP_MAX_SEGMENTS`, before Linux 6.9).
const MOST_DATAGRAMS: u32 = 64;

/// A segment that has just arrived, with what is known for merging it.
pub struct Piece<'a> {
    /// The packet of the segment.
    pub packet: Packet,
    /// The header fields of the packet.
    pub segment: &'a WholeSegment,
    /// The checksum of the data; `None` if it is not known or a device computes checksums. Segments with
    /// and without it are not merged with each other.
    pub data: Option<Sum>,
    /// True if the segment may be merged into a large segment.
    pub merges: bool,
    /// True if the segment may be merged with segments of the same IPv4 identification (CONSTANT_ID);
    /// otherwise identifications must count up.
    pub may_repeat_id: bool,
    /// A hash of the annotations that any element reads. Segments are merged only if their hashes are equal.
    pub mark: u64,
}

/// A run: adjacent segments of one flow that leave together, in order. `queue.rs` explains which segments
/// are joined.
pub struct SegmentRun {
    /// The sequence number of the first byte of the run.
    pub start: u32,
    /// The sequence number after the last byte of the run; SYN and FIN count as bytes.
    pub end: u32,
    /// The earliest time at which a segment of the run arrived.
    pub since: Timestamp,
    /// The packets of the run's segments, chained in order. If they are to form a large segment, all but the
    /// first are without their headers.
    pub chain: PacketChain,
    /// The header fields of the run's first segment.
    pub first: WholeSegment,
    /// The first segment as further frames are compared with it. The outer option is `None` before the first
    /// comparison, the inner one if the frame of the segment does not have the usual layout.
    frame: Option<Option<FirstFrame>>,
    /// The number of data bytes in the run's last segment.
    last_length: u16,
    /// The TCP flags of the last segment.
    pub last_flags: u8,
    /// True if the run's first segment may be merged with others.
    pub merges: bool,
    /// The checksum of the data of all segments in the run; `None` if it is not known or a device computes
    /// checksums.
    pub data: Option<Sum>,
    /// The number of data bytes in all segments of the run.
    pub length: u32,
    /// The hash of the annotations of all segments ([`Piece::mark`]).
    pub mark: u64,
    may_repeat_id: bool,
    /// True if all segments of the run have the same IPv4 identification and may be merged nevertheless
    /// (CONSTANT_ID). False for a run of one segment.
    pub repeats_id: bool,
    /// True if the segments of the run can form one large segment; false if they only leave in this order,
    /// each as its own packet.
    pub is_one: bool,
    /// True if no segment may follow the run's last segment in a large segment.
    pub is_closed: bool,
}

impl SegmentRun {
    /// Creates a run of one segment that arrived at `now`. `flow_merges` is true if the segments of its flow
    /// are merged.
    #[inline]
    pub fn new(piece: Piece<'_>, flow_merges: bool, now: Timestamp) -> SegmentRun {
        let Piece { packet, segment, data, merges, may_repeat_id, mark } = piece;
        let merges = merges && segment.is_plain;
        let headers = if merges && flow_merges { segment.start } else { 0 };
        let mut run = SegmentRun {
            start: segment.sequence,
            end: segment.sequence.wrapping_add(segment.sequence_length()),
            since: now,
            first: *segment,
            frame: None,
            last_length: segment.length,
            last_flags: segment.flags,
            merges,
            data,
            length: segment.length.into(),
            mark,
            may_repeat_id,
            repeats_id: false,
            is_one: true,
            is_closed: false,
            chain: PacketChain::of_headers(packet, headers),
        };
        run.is_closed = run.is_last();
        run
    }

    /// Computes `is_closed`: true if no segment may follow the last segment in a large segment. Reasons are
    /// its flags or length, limits of size, or a first segment that may not be merged.
    #[inline]
    fn is_last(&self) -> bool {
        !self.merges
            || self.first.is_last_of(self.last_flags)
            || self.last_length != self.first.length
            || self.room() < self.first.length.into()
            || self.chain.slots() >= self.most_slots()
    }

    #[inline]
    fn most_slots(&self) -> u32 {
        if self.first.is_tcp { MOST_SLOTS } else { MOST_DATAGRAMS }
    }

    /// Returns the number of data bytes that can be added before the IP packet exceeds its maximum length.
    #[inline]
    fn room(&self) -> u32 {
        let headers = u32::from(self.first.start - self.first.l3);
        LONGEST.saturating_sub(headers + self.length)
    }

    /// True if the last segment must not wait: a flag requests delivery (PSH, URG), or the segment opens or
    /// ends a connection.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.last_flags & (flags::PSH | flags::URG | flags::SYN | flags::FIN | flags::RST) != 0
    }

    /// True if the run `next`, which starts at the end of this run, can be part of the same large segment.
    #[inline(never)]
    fn takes(&self, next: &SegmentRun) -> bool {
        let is_uniform = next.chain.packets() == 1 || next.first.length == self.first.length;
        next.merges
            && is_uniform
            && self.data.is_some() == next.data.is_some()
            && self.mark == next.mark
            && next.length <= self.room()
            && self.chain.slots() + next.chain.slots() <= self.most_slots()
            && (next.chain.packets() == 1 || next.repeats_id == self.repeats_id_before(next.first.id))
            && self.takes_first(&next.first, next.chain.first().data())
    }

    /// True if, with a segment of identification `next` appended, all segments have the same identification
    /// and may have it. In a run of one segment, `next` decides; a longer run has decided already.
    #[inline]
    fn repeats_id_before(&self, next: u16) -> bool {
        self.repeats_id || self.may_repeat_id && self.chain.packets() == 1 && next == self.first.id
    }

    /// Returns the expected difference between the identifications of the first segment and of a segment of
    /// identification `next` that is appended.
    #[inline]
    fn id_ahead(&self, next: u16) -> u16 {
        if self.repeats_id_before(next) { 0 } else { self.chain.packets() as u16 }
    }

    /// True if the new segment `next`, which starts at the end of this run, can be part of the same large
    /// segment.
    #[inline(always)]
    fn takes_piece(&self, next: &Piece<'_>) -> bool {
        next.merges
            && self.data.is_some() == next.data.is_some()
            && self.mark == next.mark
            && self.takes_first(next.segment, next.packet.data())
    }

    #[inline(always)]
    fn takes_first(&self, next: &WholeSegment, head: &[u8]) -> bool {
        !self.is_closed
            && next.length <= self.first.length
            && self.first.goes_before(self.chain.first().data(), next, head, self.id_ahead(next.id))
    }

    /// Appends packets from the front of a batch as long as their segments can be part of the same large
    /// segment, and until the run has `slots` slots. Compares frames of the usual layout only, for which it
    /// is faster than `takes_piece`, and no segments with FIN. `sum` returns the sum of the data of the first
    /// of the given packets, in which it starts at the given offset, as in [`Piece`]; an error if the packet
    /// cannot be merged after this run, although its headers allow it.
    #[inline(always)]
    pub fn extend_by<E>(
        &mut self,
        packets: &mut Drain<'_>,
        slots: u32,
        sum: impl Fn(&[Packet], &NextSegment, u16) -> Result<Option<Sum>, E>,
    ) {
        // The headers of the first packet stay as they are while the run grows.
        let first = self.chain.first();
        let frame = self
            .frame
            .get_or_insert_with(|| frame_of(first).and_then(|own| FirstFrame::of(&self.first, own)));
        let Some(frame) = *frame else { return };
        while !self.is_closed
            && self.chain.slots() < slots
            && let Some(packet) = packets.as_slice().first()
            && let Some(next) = frame_of(packet)
        {
            let first = self.chain.first();
            let Some(window) = first.slot_bytes(0) else { break };
            let own = Frame { window, head: first.data(), length: 0 };
            let Some(next) = frame.next(own, next, self.end) else { break };
            let repeats_id = self.repeats_id_before(next.id);
            let ahead = if repeats_id { 0 } else { self.chain.packets() as u16 };
            if next.data.length > self.first.length || next.id != self.first.id.wrapping_add(ahead) {
                break;
            }
            let Ok(sum) = sum(packets.as_slice(), &next, self.first.start) else { break };
            if self.data.is_some() != sum.is_some() {
                break;
            }
            let Some(packet) = packets.next() else { break };
            self.extend(packet, next.data, repeats_id, sum, true);
        }
    }

    /// Appends a packet with a segment without SYN, FIN and RST that starts at the end of the run.
    /// `repeats_id` is the result of [`repeats_id_before`](Self::repeats_id_before), `data` the sum of its
    /// data. If `merges` is false, the run's segments can no longer form one large segment.
    #[inline(always)]
    fn extend(
        &mut self,
        packet: Packet,
        segment: SegmentData,
        repeats_id: bool,
        data: Option<Sum>,
        merges: bool,
    ) {
        self.chain.push(packet);
        self.repeats_id = repeats_id;
        self.end = self.end.wrapping_add(segment.length.into());
        (self.last_length, self.last_flags) = (segment.length, segment.flags);
        self.data = self.data.zip(data).map(|(own, other)| own.followed_by(other));
        self.length += u32::from(segment.length);
        self.is_one &= merges;
        self.is_closed = self.is_last();
    }

    /// Appends a segment without SYN, FIN and RST that starts at the end of the run. If `merges` is false,
    /// the run's segments can no longer form one large segment.
    #[inline(always)]
    pub fn extend_by_piece(&mut self, piece: Piece<'_>, merges: bool) {
        let Piece { packet, segment, data, .. } = piece;
        let repeats_id = self.repeats_id_before(segment.id);
        let WholeSegment { sequence, length, flags, .. } = *segment;
        self.extend(packet, SegmentData { sequence, length, flags }, repeats_id, data, merges);
    }

    /// Appends a run that starts at the end of this run. If `merges` is false, the segments can no longer
    /// form one large segment.
    #[inline]
    fn append(&mut self, next: SegmentRun, merges: bool) {
        let repeats_id = self.repeats_id_before(next.first.id);
        let SegmentRun { chain, .. } = next;
        self.chain.append(chain);
        self.repeats_id = repeats_id;
        self.end = next.end;
        self.since = self.since.min(next.since);
        (self.last_length, self.last_flags) = (next.last_length, next.last_flags);
        self.data = self.data.zip(next.data).map(|(own, other)| own.followed_by(other));
        self.length += next.length;
        self.is_one &= merges && next.is_one;
        self.is_closed = self.is_last();
    }
}

/// The waiting runs of one flow, in the order of their first bytes. Runs that start at the same byte are in
/// order of arrival.
#[derive(Default)]
pub struct Queue {
    runs: VecDeque<SegmentRun>,
}

impl Queue {
    /// Returns the number of runs.
    #[inline]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True if there are no runs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the first run, with the lowest sequence numbers.
    #[inline]
    pub fn front(&self) -> Option<&SegmentRun> {
        self.runs.front()
    }

    /// Returns the second run.
    #[inline]
    pub fn second(&self) -> Option<&SegmentRun> {
        self.runs.get(1)
    }

    /// Returns the last run, with the highest first sequence number.
    #[inline]
    pub fn back(&self) -> Option<&SegmentRun> {
        self.runs.back()
    }

    /// Iterates over the runs in order.
    pub fn iter(&self) -> impl Iterator<Item = &SegmentRun> {
        self.runs.iter()
    }

    /// Reserves memory for another run; true if this succeeds, so that the next insertion does not
    /// allocate.
    #[inline]
    pub fn has_memory_for_another(&mut self) -> bool {
        self.runs.try_reserve(1).is_ok()
    }

    /// Removes and returns the first run.
    #[inline]
    pub fn pop(&mut self) -> Option<SegmentRun> {
        self.runs.pop_front()
    }

    /// Returns the last run, if it ends where the segment starts and, if `merges`, can form one large
    /// segment with it. This is the fast path for segments in order.
    #[inline]
    pub fn continued_by(&mut self, piece: &Piece<'_>, merges: bool) -> Option<&mut SegmentRun> {
        let last = self.runs.back_mut()?;
        (last.end == piece.segment.sequence && (!merges || last.takes_piece(piece))).then_some(last)
    }

    /// Returns the last run.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut SegmentRun> {
        self.runs.back_mut()
    }

    /// Inserts a run, and joins it with the runs directly before and after it if they are adjacent. If
    /// `merges`, only runs that can form one large segment are joined.
    #[inline]
    pub fn insert(&mut self, run: SegmentRun, merges: bool) {
        match self.runs.back() {
            Some(last) if is_before(run.start, last.start) => {
                let place = self.runs.partition_point(|other| !is_before(run.start, other.start));
                self.insert_at(place, run, merges);
            }
            _ => self.insert_at(self.runs.len(), run, merges),
        }
    }

    #[inline]
    fn insert_at(&mut self, place: usize, run: SegmentRun, merges: bool) {
        let fits =
            |own: &SegmentRun, next: &SegmentRun| own.end == next.start && (!merges || own.takes(next));
        if let Some(before) = place.checked_sub(1).and_then(|place| self.runs.get_mut(place))
            && fits(before, &run)
        {
            before.append(run, merges);
            return self.close(place - 1, merges);
        }
        self.runs.insert(place, run);
        self.close(place, merges);
    }

    /// Joins the run at index `place` with the next run, if they are adjacent and, if `merges`, can form
    /// one large segment.
    #[inline]
    fn close(&mut self, place: usize, merges: bool) {
        let Some(behind) = self.runs.get(place + 1) else { return };
        let Some(own) = self.runs.get(place) else { return };
        if own.end != behind.start || merges && !own.takes(behind) {
            return;
        }
        let Some(next) = self.runs.remove(place + 1) else { return };
        if let Some(own) = self.runs.get_mut(place) {
            own.append(next, merges);
        }
    }
}
