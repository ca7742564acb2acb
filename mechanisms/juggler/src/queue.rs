//! The out-of-order queue of a flow: runs of segments, sorted by sequence number.
//!
//! A run holds segments that leave together: adjacent segments that can form one large segment, or that
//! leave in this order. Adjacent runs that fit are joined as soon as they meet, so there is about one run
//! per gap. The position of a new run is found from the end or by bisection.

use std::collections::VecDeque;

use element::{Packet, Timestamp};
use packet::Chain;
use wire::checksum::Sum;
use wire::merge::Segment;
use wire::tcp::flags;

/// The maximum length of an IP packet in bytes.
const LONGEST: u32 = 65_535;
/// The maximum number of slots of a large segment, for interfaces that take about 127 pieces of memory.
const MOST_SLOTS: u32 = 120;
/// The maximum number of datagrams in a large datagram: the kernel cuts it into at most this many
/// (`UDP_MAX_SEGMENTS`, before Linux 6.9).
const MOST_DATAGRAMS: u32 = 64;

/// True if `a` is before `b`, in numbers that wrap (RFC 9293, section 3.4).
#[inline]
pub fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// A segment that has arrived.
pub struct Piece<'a> {
    /// The packet.
    pub packet: Packet,
    /// The fields of its headers.
    pub segment: &'a Segment,
    /// The checksum of the data; `None` if checksums are left to a device.
    pub data: Option<Sum>,
    /// True if the segment may be merged.
    pub merges: bool,
    /// True if the segment may also be merged if identifications do not count up.
    pub may_repeat_id: bool,
    /// A value that must be equal for merging: a hash of annotations that an element downstream reads.
    pub mark: u64,
}

/// Segments that leave together.
pub struct Run {
    /// The sequence number of the first byte.
    pub start: u32,
    /// The sequence number after the last byte.
    pub end: u32,
    /// The arrival time of the first segment that arrived.
    pub since: Timestamp,
    /// The packets.
    pub chain: Chain,
    /// The first segment.
    pub first: Segment,
    /// The length of the last segment's data in bytes.
    last_length: u16,
    /// The flags of the last segment.
    pub last_flags: u8,
    /// True if the first segment may be merged.
    pub merges: bool,
    /// The checksum of all data; `None` if checksums are left to a device.
    pub data: Option<Sum>,
    /// The length of all data in bytes.
    pub length: u32,
    mark: u64,
    may_repeat_id: bool,
    /// True if all segments have the same identification, and may have it.
    pub repeats_id: bool,
    /// True if the segments can form one large segment; false if they only leave in this order.
    pub is_one: bool,
    /// True if no further segment can follow in a large segment.
    pub is_closed: bool,
}

impl Run {
    /// Creates a run of one segment.
    #[inline]
    pub fn new(piece: Piece<'_>, now: Timestamp) -> Run {
        let Piece { packet, segment, data, merges, may_repeat_id, mark } = piece;
        let mut run = Run {
            start: segment.sequence,
            end: segment.sequence.wrapping_add(segment.sequence_length()),
            since: now,
            first: *segment,
            last_length: segment.length,
            last_flags: segment.flags,
            merges: merges && segment.is_plain,
            data,
            length: segment.length.into(),
            mark,
            may_repeat_id,
            repeats_id: false,
            is_one: true,
            is_closed: false,
            chain: Chain::new(packet),
        };
        run.is_closed = run.is_last();
        run
    }

    /// True if no further segment can follow the last segment in a large segment.
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

    /// Returns the number of bytes of data that can still be added.
    #[inline]
    fn room(&self) -> u32 {
        let headers = u32::from(self.first.start - self.first.l3);
        LONGEST.saturating_sub(headers + self.length)
    }

    /// True if a flag of the last segment requests delivery, or the segment opens or ends a connection.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.last_flags & (flags::PSH | flags::URG | flags::SYN | flags::FIN | flags::RST) != 0
    }

    /// True if `next`, which starts at the end of this run, can be part of the same large segment.
    #[inline(never)]
    fn takes(&self, next: &Run) -> bool {
        let is_uniform = next.chain.packets() == 1 || next.first.length == self.first.length;
        next.merges
            && is_uniform
            && self.data.is_some() == next.data.is_some()
            && self.mark == next.mark
            && next.length <= self.room()
            && self.chain.slots() + next.chain.slots() <= self.most_slots()
            && (next.chain.packets() == 1 || next.repeats_id == self.repeats_id_before(&next.first))
            && self.takes_first(&next.first, next.chain.head())
    }

    /// True if this run has, or with `next` gets, segments of the same identification: the second segment
    /// decides.
    #[inline]
    fn repeats_id_before(&self, next: &Segment) -> bool {
        self.repeats_id || self.may_repeat_id && self.chain.packets() == 1 && next.id == self.first.id
    }

    /// True if `next`, a segment that starts at the end of this run, can be part of the same large segment.
    #[inline(always)]
    fn takes_piece(&self, next: &Piece<'_>) -> bool {
        next.merges
            && self.data.is_some() == next.data.is_some()
            && self.mark == next.mark
            && self.takes_first(next.segment, next.packet.data())
    }

    #[inline(always)]
    fn takes_first(&self, next: &Segment, head: &[u8]) -> bool {
        let id_ahead = if self.repeats_id_before(next) { 0 } else { self.chain.packets() as u16 };
        !self.is_closed
            && next.length <= self.first.length
            && self.first.goes_before(self.chain.head(), next, head, id_ahead)
    }

    /// Appends a segment that carries only data and starts at the end of the run.
    ///
    /// # Errors
    /// The segment, if packets cannot be chained.
    #[inline(always)]
    pub fn extend<'a>(&mut self, piece: Piece<'a>, merges: bool) -> Result<(), Piece<'a>> {
        let Piece { packet, segment, data, .. } = piece;
        let repeats_id = self.repeats_id_before(segment);
        if let Err(packet) = self.chain.push(packet) {
            return Err(Piece { packet, ..piece });
        }
        self.repeats_id = repeats_id;
        self.end = self.end.wrapping_add(segment.length.into());
        (self.last_length, self.last_flags) = (segment.length, segment.flags);
        self.data = self.data.zip(data).map(|(own, other)| own.followed_by(other));
        self.length += u32::from(segment.length);
        self.is_one &= merges;
        self.is_closed = self.is_last();
        Ok(())
    }

    /// Appends another run.
    ///
    /// # Errors
    /// The other run, if packets cannot be chained.
    #[inline]
    fn append(&mut self, next: Run, merges: bool) -> Result<(), Run> {
        let repeats_id = self.repeats_id_before(&next.first);
        let Run { chain, .. } = next;
        if let Err(chain) = self.chain.append(chain) {
            return Err(Run { chain, ..next });
        }
        self.repeats_id = repeats_id;
        self.end = next.end;
        self.since = self.since.min(next.since);
        (self.last_length, self.last_flags) = (next.last_length, next.last_flags);
        self.data = self.data.zip(next.data).map(|(own, other)| own.followed_by(other));
        self.length += next.length;
        self.is_one &= merges && next.is_one;
        self.is_closed = self.is_last();
        Ok(())
    }
}

/// Runs in the order of their first bytes; runs that start at the same byte are in order of arrival.
#[derive(Default)]
pub struct Queue {
    runs: VecDeque<Run>,
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

    /// Returns the first run.
    #[inline]
    pub fn front(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// Returns the second run.
    #[inline]
    pub fn second(&self) -> Option<&Run> {
        self.runs.get(1)
    }

    /// Returns the last run.
    #[inline]
    pub fn back(&self) -> Option<&Run> {
        self.runs.back()
    }

    /// Iterates over all runs.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// True if there is memory for another run.
    #[inline]
    pub fn has_memory_for_another(&mut self) -> bool {
        self.runs.try_reserve(1).is_ok()
    }

    /// Removes and returns the first run.
    #[inline]
    pub fn pop(&mut self) -> Option<Run> {
        self.runs.pop_front()
    }

    /// Returns the last run, if a segment can be appended to it: the fast path for segments in order.
    #[inline]
    pub fn continued_by(&mut self, piece: &Piece<'_>, merges: bool) -> Option<&mut Run> {
        let last = self.runs.back_mut()?;
        (last.end == piece.segment.sequence && (!merges || last.takes_piece(piece))).then_some(last)
    }

    /// Inserts a run, and joins it with adjacent runs that fit: if `merges`, as parts of one large segment,
    /// otherwise as segments that leave in this order.
    #[inline]
    pub fn insert(&mut self, run: Run, merges: bool) {
        match self.runs.back() {
            Some(last) if is_before(run.start, last.start) => {
                let place = self.runs.partition_point(|other| !is_before(run.start, other.start));
                self.insert_at(place, run, merges);
            }
            _ => self.insert_at(self.runs.len(), run, merges),
        }
    }

    #[inline]
    fn insert_at(&mut self, place: usize, run: Run, merges: bool) {
        let fits = |own: &Run, next: &Run| own.end == next.start && (!merges || own.takes(next));
        let mut run = run;
        if let Some(before) = place.checked_sub(1).and_then(|place| self.runs.get_mut(place))
            && fits(before, &run)
        {
            match before.append(run, merges) {
                Ok(()) => return self.close(place - 1, merges),
                Err(refused) => run = refused,
            }
        }
        self.runs.insert(place, run);
        self.close(place, merges);
    }

    /// Joins a run with the next one, if they fit.
    #[inline]
    fn close(&mut self, place: usize, merges: bool) {
        let Some(behind) = self.runs.get(place + 1) else { return };
        let Some(own) = self.runs.get(place) else { return };
        if own.end != behind.start || merges && !own.takes(behind) {
            return;
        }
        let Some(next) = self.runs.remove(place + 1) else { return };
        let refused = match self.runs.get_mut(place) {
            Some(own) => own.append(next, merges).err(),
            None => Some(next),
        };
        if let Some(next) = refused {
            self.runs.insert(place + 1, next);
        }
    }
}
