//! The out-of-order queue of a flow: runs of segments, sorted by sequence number.
//!
//! A run is what is to leave together: segments one behind the other that can be one large segment, or just leave in this
//! order. Neighbours that fit become one run when they meet, so that there is about one run per gap, and a place is found from
//! the end or by bisection.

use std::collections::VecDeque;

use element::{Packet, Timestamp};
use packet::Chain;
use wire::checksum::Sum;
use wire::merge::Segment;
use wire::tcp::flags;

/// The longest IP packet.
const LONGEST: u32 = 65_535;
/// Slots of a large segment, so that interfaces take it: they take some 127 pieces of memory.
const MOST_SLOTS: u32 = 120;
/// Datagrams of a large one, which the kernel cuts into so many at most (`UDP_MAX_SEGMENTS`, before Linux 6.9).
const MOST_DATAGRAMS: u32 = 64;

/// Whether `a` lies before `b`, in numbers that wrap (RFC 9293, section 3.4).
#[inline]
pub fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// A segment that has come.
pub struct Piece<'a> {
    /// Its packet.
    pub packet: Packet,
    /// What its headers say.
    pub segment: &'a Segment,
    /// The sum of its data; `None` if checksums are left to a device.
    pub data: Option<Sum>,
    /// Whether it may be part of a larger one.
    pub merges: bool,
    /// True if it may be part of a larger one also where identifications do not count up.
    pub may_repeat_id: bool,
    /// What has to be the same beside it: of annotations that somebody behind reads.
    pub mark: u64,
}

/// Segments that leave together.
pub struct Run {
    /// Sequence number of its first byte.
    pub start: u32,
    /// That behind its last byte.
    pub end: u32,
    /// When the first one of them came.
    pub since: Timestamp,
    /// Their packets.
    pub chain: Chain,
    /// The first one of them.
    pub first: Segment,
    /// Bytes of data of the last one.
    last_length: u16,
    /// Its flags.
    pub last_flags: u8,
    /// Whether it can be part of a larger one.
    pub merges: bool,
    /// The sum of all data; `None` where checksums are left to a device.
    pub data: Option<Sum>,
    /// Bytes of all data.
    pub length: u32,
    mark: u64,
    may_repeat_id: bool,
    /// True if all of them have the same identification, and may have it.
    pub repeats_id: bool,
    /// Whether they can be one large segment, and not only leave in this order.
    pub is_one: bool,
    /// Whether there can be no further segment behind these in a large one.
    pub is_closed: bool,
}

impl Run {
    /// A run of one segment.
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

    /// Whether there can be no further segment behind the last one in a large one.
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

    /// Bytes of data that there is room for behind these.
    #[inline]
    fn room(&self) -> u32 {
        let headers = u32::from(self.first.start - self.first.l3);
        LONGEST.saturating_sub(headers + self.length)
    }

    /// Whether a flag of the last segment asks for it to be delivered, or it opens or ends something.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.last_flags & (flags::PSH | flags::URG | flags::SYN | flags::FIN | flags::RST) != 0
    }

    /// Whether another run, which starts where this one ends, can be part of the same large segment.
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

    /// True if this run is or becomes one of segments with the same identification, where a segment comes behind it: the second
    /// one decides.
    #[inline]
    fn repeats_id_before(&self, next: &Segment) -> bool {
        self.repeats_id || self.may_repeat_id && self.chain.packets() == 1 && next.id == self.first.id
    }

    /// Whether a segment, which starts where this one ends, can be part of the same large segment.
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

    /// Puts a segment behind this run, which carries data and nothing else, and starts where the run ends.
    ///
    /// # Errors
    /// That segment, where packets cannot be chained.
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

    /// Puts another run behind this one.
    ///
    /// # Errors
    /// That run, where packets cannot be chained.
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

/// Runs in the order of their first bytes; of those that start at the same one, in the order in which they came.
#[derive(Default)]
pub struct Queue {
    runs: VecDeque<Run>,
}

impl Queue {
    /// Runs.
    #[inline]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first one.
    #[inline]
    pub fn front(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// The one behind it.
    #[inline]
    pub fn second(&self) -> Option<&Run> {
        self.runs.get(1)
    }

    /// The last one.
    #[inline]
    pub fn back(&self) -> Option<&Run> {
        self.runs.back()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// True if there is memory for another one.
    #[inline]
    pub fn has_memory_for_another(&mut self) -> bool {
        self.runs.try_reserve(1).is_ok()
    }

    /// Takes the first one out.
    #[inline]
    pub fn pop(&mut self) -> Option<Run> {
        self.runs.pop_front()
    }

    /// The last run, if a segment can be put behind it: the shortest way for what comes in order.
    #[inline]
    pub fn continued_by(&mut self, piece: &Piece<'_>, merges: bool) -> Option<&mut Run> {
        let last = self.runs.back_mut()?;
        (last.end == piece.segment.sequence && (!merges || last.takes_piece(piece))).then_some(last)
    }

    /// Puts a run in its place, and together with its neighbours where it fits: where `merges`, as parts of one large
    /// segment, and else as segments that leave in this order.
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

    /// Puts a run together with the one behind it, if they fit.
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
