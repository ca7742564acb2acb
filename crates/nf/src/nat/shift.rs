//! The shift of a TCP connection's sequence numbers after an element has changed the length of its data.
//!
//! An *edit* replaces a range of bytes in the stream: it has the range in the sender's sequence numbers,
//! and the bytes that the receiver gets instead. All sequence numbers between two edits are shifted by the
//! same amount. Each number of one side has a counterpart on the other side, also within an edit. So a line
//! that is retransmitted in different segments becomes the same bytes at the same sequence numbers.

use std::collections::VecDeque;
use std::ops::Range;

use element::{Damaged, StateReader, StateWriter};
use wire::checksum::Delta;
use wire::tcp::flags::{ACK, SYN};

/// The flags of a segment that accepts a connection.
const ACCEPTS: u8 = SYN | ACK;

/// The largest number of new bytes in one edit (a range of bytes that was replaced).
pub(super) const ROOM: usize = 40;

/// The largest number of edits (replaced ranges of bytes) that are kept per direction. With another edit the
/// first is forgotten, because its bytes are assumed to be acknowledged.
const MOST: usize = 32;

/// The distance in sequence numbers from which on an edit is forgotten. Beyond 2^31 an edit could not be
/// distinguished from an edit ahead of the current position.
const FAR: i32 = 1 << 30;

/// A range of the sender's bytes, and the bytes that replace it for the receiver. `new` has them in its
/// first `new_length` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// The sender's sequence number of the first replaced byte.
    pub(super) start: u32,
    /// The number of replaced bytes.
    pub(super) length: u16,
    new_length: u16,
    new: [u8; ROOM],
    /// The number that is added (modulo 2^32) to sequence numbers between the previous edit and this edit.
    before: u32,
}

impl Edit {
    fn end(&self) -> u32 {
        self.start.wrapping_add(self.length.into())
    }

    /// Returns the bytes that replace the range for the receiver.
    pub(super) fn new_bytes(&self) -> &[u8] {
        &self.new[..usize::from(self.new_length)]
    }

    /// Returns the number that is added (modulo 2^32) to sequence numbers between this edit and the next.
    fn after(&self) -> u32 {
        self.before.wrapping_add(self.new_length.into()).wrapping_sub(self.length.into())
    }
}

/// Returns the number of bytes by which `number` is after `other` in the sequence space modulo 2^32;
/// negative if it is before.
fn behind(number: u32, other: u32) -> i32 {
    number.wrapping_sub(other) as i32
}

/// The edits (replaced ranges of bytes) of the data in one direction of a connection, ordered by sequence
/// number.
#[derive(Clone, Debug, Default)]
pub(super) struct Shift {
    edits: VecDeque<Edit>,
    /// The number that is added (modulo 2^32) to sequence numbers before the first edit that is kept: the sum
    /// of the changes in length by all forgotten edits.
    base: u32,
}

impl Shift {
    /// Adds an edit that replaces `length` bytes from sequence number `start` on by `new`. Returns false,
    /// and changes nothing, if the range does not start after all other edits, if `length` is zero or above
    /// 65535, or if `new` has more than [`ROOM`] bytes.
    pub(super) fn add(&mut self, start: u32, length: usize, new: &[u8]) -> bool {
        let is_behind = self.edits.back().is_none_or(|last| behind(start, last.end()) >= 0);
        if !is_behind || new.len() > ROOM || !(1..=usize::from(u16::MAX)).contains(&length) {
            return false;
        }
        let mut edit = Edit {
            start,
            length: length as u16,
            new_length: new.len() as u16,
            new: [0; ROOM],
            before: self.last(),
        };
        edit.new[..new.len()].copy_from_slice(new);
        if self.edits.len() == MOST {
            self.forget_first();
        }
        self.edits.push_back(edit);
        true
    }

    /// Writes the edits, for a restart.
    fn save(&self, out: &mut StateWriter) {
        out.u32(self.base);
        out.u8(self.edits.len() as u8);
        for edit in &self.edits {
            out.u32(edit.start);
            out.u16(edit.length);
            out.u8(edit.new_length as u8);
            out.raw(edit.new_bytes());
        }
    }

    fn load(reader: &mut StateReader<'_>) -> Result<Shift, Damaged> {
        let mut shift = Shift { base: reader.u32()?, ..Shift::default() };
        for _ in 0..reader.u8()? {
            let (start, length, new_length) = (reader.u32()?, reader.u16()?, reader.u8()?);
            if !shift.add(start, length.into(), reader.raw(new_length.into())?) {
                return Err(Damaged("the edits of a connection are not in order"));
            }
        }
        Ok(shift)
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.edits.pop_front() {
            self.base = first.after();
        }
    }

    /// Forgets the edits that end [`FAR`] bytes or more before `number`, the sequence number of the current
    /// segment.
    fn pass(&mut self, number: u32) {
        while self.edits.front().is_some_and(|first| behind(number, first.end()) >= FAR) {
            self.forget_first();
        }
    }

    /// Returns the number that is added (modulo 2^32) to the sender's sequence numbers after the last edit.
    pub(super) fn last(&self) -> u32 {
        self.edits.back().map_or(self.base, Edit::after)
    }

    /// Converts a sequence number of the sender to the number that the receiver sees.
    pub(super) fn there(&self, number: u32) -> u32 {
        for edit in self.edits.iter().rev() {
            let into = behind(number, edit.start);
            if into >= i32::from(edit.length) {
                return number.wrapping_add(edit.after());
            }
            if into > 0 {
                let into = (into as u32).min(edit.new_length.into());
                return edit.start.wrapping_add(edit.before).wrapping_add(into);
            }
        }
        number.wrapping_add(self.edits.front().map_or(self.base, |first| first.before))
    }

    /// Converts a sequence number that the receiver uses, such as an acknowledgment, to the sender's number.
    /// If several of the sender's numbers correspond to it, returns the last of them. Within an edit (a
    /// replaced range of bytes), the result never acknowledges the last replaced byte before the receiver has
    /// all new bytes.
    pub(super) fn back(&self, number: u32) -> u32 {
        for edit in self.edits.iter().rev() {
            let into = behind(number, edit.start.wrapping_add(edit.before));
            if into >= i32::from(edit.new_length) {
                return number.wrapping_sub(edit.after());
            }
            if into > 0 {
                return edit.start.wrapping_add((into as u32).min(u32::from(edit.length) - 1));
            }
        }
        number.wrapping_sub(self.edits.front().map_or(self.base, |first| first.before))
    }

    /// Returns the edits that overlap the `length` bytes from sequence number `start` on. Each item has the
    /// range of offsets among these bytes, and the bytes that the receiver gets instead of this range.
    pub(super) fn within(&self, start: u32, length: usize) -> impl Iterator<Item = (Range<usize>, &[u8])> {
        let end = start.wrapping_add(length as u32);
        self.edits.iter().filter_map(move |edit| {
            if behind(edit.end(), start) <= 0 || behind(end, edit.start) <= 0 {
                return None;
            }
            let from = behind(edit.start, start).max(0) as usize;
            let to = (behind(edit.end(), start) as usize).min(length);
            let new_start = edit.start.wrapping_add(edit.before);
            let place = |at: usize| {
                let number = self.there(start.wrapping_add(at as u32));
                (behind(number, new_start).max(0) as usize).min(edit.new_bytes().len())
            };
            let (first, last) = (place(from), place(to));
            Some((from..to, edit.new_bytes().get(first..last).unwrap_or_default()))
        })
    }
}

/// The edits (replaced ranges of bytes) of both directions of a TCP connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Shifts {
    /// The edits of data in the direction of the mapping's flow, and in the direction of its replies.
    directions: [Shift; 2],
    /// The last SYN between the connection's addresses and ports: its sequence number, and true if it came in
    /// the direction of replies. If the other side accepts the SYN, a new connection begins.
    asked: Option<(u32, bool)>,
}

/// The connection to which a segment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// The connection whose data were edited.
    Own,
    /// A new connection on the same ports, which this segment (a SYN with ACK) accepts. The edits (replaced
    /// ranges of bytes) no longer apply.
    NewConnection,
}

impl Shifts {
    /// Writes the edits (replaced ranges of bytes) of both directions, so that they survive a restart. A SYN
    /// that has not been answered is not written.
    pub(super) fn save(&self, out: &mut StateWriter) {
        self.directions.iter().for_each(|shift| shift.save(out));
    }

    /// Reads the edits (replaced ranges of bytes) that [`save`](Self::save) has written.
    ///
    /// # Errors
    /// If the bytes are not edits.
    pub(super) fn load(reader: &mut StateReader<'_>) -> Result<Shifts, Damaged> {
        let directions = [Shift::load(reader)?, Shift::load(reader)?];
        Ok(Shifts { directions, ..Shifts::default() })
    }

    /// Returns the edits of one direction: the direction of replies if `is_reply` is true, otherwise the
    /// direction of the flow.
    pub(super) fn of(&self, is_reply: bool) -> &Shift {
        &self.directions[usize::from(is_reply)]
    }

    /// Returns the edits (replaced ranges of bytes) of one direction, to be changed: the direction of replies
    /// if `is_reply` is true, otherwise the direction of the flow.
    pub(super) fn of_mut(&mut self, is_reply: bool) -> &mut Shift {
        &mut self.directions[usize::from(is_reply)]
    }

    /// Converts a segment's sequence number, acknowledgment and selective acknowledgments (RFC 2018) for its
    /// receiver, and updates the checksum. `segment` starts with the TCP header; if the header is cut off or
    /// shorter than 20 bytes, nothing changes.
    ///
    /// A SYN keeps its numbers, but does not end the connection by itself. Any host can send a SYN, and an
    /// endpoint with a connection does not close it because of that (RFC 5961, section 4). A new connection
    /// begins when the other side accepts the SYN; only then is the result [`Numbers::NewConnection`].
    pub(super) fn apply(&mut self, is_reply: bool, segment: &mut [u8]) -> Numbers {
        let Some(length) = segment.get(12).map(|byte| usize::from(byte >> 4) * 4) else {
            return Numbers::Own;
        };
        let Some(header) = segment.get_mut(..length).filter(|header| header.len() >= 20) else {
            return Numbers::Own;
        };
        let number = read(header, 4);
        match header[13] & (SYN | ACK) {
            SYN => {
                self.asked = Some((number, is_reply));
                return Numbers::Own;
            }
            ACCEPTS if self.asked == Some((read(header, 8).wrapping_sub(1), !is_reply)) => {
                return Numbers::NewConnection;
            }
            _ => {}
        }
        let mut old = [0; 60];
        old[..length].copy_from_slice(header);
        let [forward, reply] = &mut self.directions;
        let (own, other) = if is_reply { (reply, forward) } else { (forward, reply) };
        own.pass(number);
        write(header, 4, own.there(number));
        if header[13] & ACK != 0 {
            write(header, 8, other.back(read(header, 8)));
        }
        for at in selective(&old[20..length]) {
            write(header, 20 + at, other.back(read(header, 20 + at)));
        }
        // The checksum change is computed over whole headers, because options can start at odd offsets.
        let sum = u16::from_be_bytes([old[16], old[17]]);
        let change = Delta::bytes(&old[..length], header);
        header[16..18].copy_from_slice(&change.apply(sum).to_be_bytes());
        Numbers::Own
    }
}

fn read(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

fn write(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// Returns the offsets in the TCP options of all sequence numbers of selective acknowledgments. Ends at the
/// end of the options, at the first option that is cut off, or at the first option with a length below 2.
fn selective(options: &[u8]) -> impl Iterator<Item = usize> {
    const SACK: u8 = 5;
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let (kind, start) = (*options.get(at)?, at);
            if kind == 0 {
                return None;
            }
            let length = if kind == 1 { 1 } else { usize::from(*options.get(at + 1)?) };
            if kind != 1 && length < 2 {
                return None;
            }
            at += length;
            if at > options.len() {
                return None;
            }
            if kind == SACK {
                return Some((start + 2..at).step_by(4).take_while(move |number| number + 4 <= at));
            }
        }
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The expected result of random edits, computed in a simple way. `sent` has the sender's bytes, `got`
    /// the receiver's bytes, and `place`, for each of the sender's bytes, its offset at the receiver.
    struct Straight {
        sent: Vec<u8>,
        got: Vec<u8>,
        place: Vec<usize>,
    }

    fn straight(lines: &[(usize, usize, usize)]) -> (Straight, Vec<(usize, usize, Vec<u8>)>) {
        let (mut all, mut edits) =
            (Straight { sent: Vec::new(), got: Vec::new(), place: Vec::new() }, Vec::new());
        for (number, &(before, old, new)) in lines.iter().enumerate() {
            for n in 0..before {
                all.place.push(all.got.len());
                all.sent.push(n as u8);
                all.got.push(n as u8);
            }
            let text: Vec<u8> = (0..new).map(|n| 100 + (number * 7 + n) as u8 % 100).collect();
            edits.push((all.sent.len(), old, text.clone()));
            for n in 0..old {
                all.place.push(all.got.len() + n.min(new));
                all.sent.push(b'x');
            }
            all.got.extend(text);
        }
        all.place.push(all.got.len());
        (all, edits)
    }

    proptest! {
        #[test]
        fn streams_arrive_as_they_are_meant_however_they_are_cut(
            lines in proptest::collection::vec((0usize..30, 1usize..30, 0usize..ROOM), 1..12),
            first in prop_oneof![any::<u32>(), Just(u32::MAX - 20)],
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..40),
        ) {
            let (all, edits) = straight(&lines);
            let mut shift = Shift::default();
            for (at, length, new) in &edits {
                prop_assert!(shift.add(first.wrapping_add(*at as u32), *length, new));
            }
            // All bytes are sent in random pieces, repeatedly and out of order. The receiver must get the
            // expected bytes.
            let mut got = vec![None; all.got.len()];
            let whole = (0, all.sent.len());
            let pieces = cuts.iter().map(|(a, b)| (a.index(all.sent.len() + 1), b.index(all.sent.len() + 1)));
            for (a, b) in pieces.chain([whole]) {
                let (a, b) = (a.min(b), a.max(b));
                let start = first.wrapping_add(a as u32);
                prop_assert_eq!(shift.there(start), first.wrapping_add(all.place[a] as u32));
                let mut bytes = Vec::new();
                let mut done = 0;
                for (range, new) in shift.within(start, b - a) {
                    bytes.extend_from_slice(&all.sent[a + done..a + range.start]);
                    bytes.extend_from_slice(new);
                    done = range.end;
                }
                bytes.extend_from_slice(&all.sent[a + done..b]);
                prop_assert_eq!(bytes.len(), all.place[b] - all.place[a]);
                for (n, byte) in bytes.into_iter().enumerate() {
                    let at = all.place[a] + n;
                    prop_assert!(got[at].is_none_or(|old| old == byte));
                    got[at] = Some(byte);
                }
            }
            prop_assert_eq!(got.into_iter().flatten().collect::<Vec<_>>(), all.got.clone());
            // If the receiver acknowledges any number of its bytes, the converted acknowledgment must not
            // cover a sender's byte that has not arrived. If the receiver acknowledges all its bytes, all of
            // the sender's bytes must be covered.
            for number in 0..=all.got.len() {
                let back = shift.back(first.wrapping_add(number as u32)).wrapping_sub(first) as usize;
                prop_assert!(all.place[back] <= number);
                let is_last = back + 1 == all.place.len() || all.place[back + 1] > number;
                // Within an edit that shortened the data, several sender's numbers correspond to one
                // receiver's number. After the edit the last of them must be returned.
                prop_assert!(is_last, "{} {} {:?}", number, back, all.place);
            }
        }
    }

    #[test]
    fn edits_come_in_order_and_are_forgotten_in_the_end() {
        let mut shift = Shift::default();
        assert!(shift.add(100, 10, b"0123456789ab"));
        assert!(!shift.add(105, 10, b""), "it is in the middle of another one");
        assert!(!shift.add(90, 5, b"") && !shift.add(200, 0, b"") && !shift.add(200, 5, &[0; ROOM + 1]));
        assert_eq!((shift.there(100), shift.there(110), shift.back(112)), (100, 112, 110));
        // The edit at 100 makes the data longer by 2. It must still apply to sequence numbers half of the
        // sequence space later, and numbers that have wrapped must not be taken for numbers before the edit.
        for number in [1u32 << 29, 1 << 30, 5 << 28, 3 << 30, 99] {
            shift.pass(number);
            assert_eq!(shift.there(number), number.wrapping_add(2));
        }
        for n in 0..100 {
            assert!(shift.add(1000 + n * 10, 5, b"x"));
        }
        assert_eq!((shift.edits.len(), shift.last()), (MOST, 2u32.wrapping_sub(400)));
    }

    #[test]
    fn a_malformed_option_ends_the_search() {
        let sack = [5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let found = |before: &[u8]| selective(&[before, &sack].concat()).collect::<Vec<_>>();
        assert_eq!(found(&[8, 2]), [4, 8]);
        for length in [0, 1] {
            assert_eq!(found(&[8, length]), [0; 0]);
        }
    }

    #[test]
    fn segments_get_the_receivers_numbers_and_right_checksums() {
        use wire::checksum::Sum;
        let mut shifts = Shifts::default();
        assert!(shifts.of_mut(false).add(1000, 4, b"longer"));
        // Two selective acknowledgments at an odd offset, after a no-operation option.
        let mut options = vec![1, 5, 18];
        for number in [1004u32, 1006, 1010, 1020] {
            options.extend(number.to_be_bytes());
        }
        options.resize(24, 0);
        let segment = |sequence: u32, acknowledgment: u32, options: &[u8]| {
            let mut bytes = vec![0, 21, 0, 80];
            bytes.extend(sequence.to_be_bytes());
            bytes.extend(acknowledgment.to_be_bytes());
            bytes.extend([(20 + options.len() as u8) << 2, ACK, 0, 9, 0, 0, 0, 0]);
            bytes.extend(options);
            let sum = Sum::new().bytes(&bytes).checksum();
            bytes[16..18].copy_from_slice(&sum.to_be_bytes());
            bytes
        };
        let mut reply = segment(7, 1006, &options);
        shifts.apply(true, &mut reply);
        let numbers = |bytes: &[u8]| -> Vec<u32> {
            [4, 8, 23, 27, 31, 35].into_iter().map(|at| read(bytes, at)).collect()
        };
        assert_eq!(numbers(&reply), [7, 1004, 1003, 1004, 1008, 1018]);
        assert!(Sum::new().bytes(&reply).is_valid());
        let mut flow = segment(1004, 7, &[]);
        shifts.apply(false, &mut flow);
        assert_eq!((read(&flow, 4), read(&flow, 8)), (1006, 7));
        assert!(Sum::new().bytes(&flow).is_valid());
        // Segments without a whole TCP header must not change.
        for odd in [&reply[..30], &[0; 12], &[0; 20]] {
            let mut bytes = odd.to_vec();
            shifts.apply(false, &mut bytes);
            assert_eq!(bytes, odd);
        }
    }
}
