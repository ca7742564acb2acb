//! The shift of a connection's sequence numbers by lines that were changed.
//!
//! An element that changes the length of data in a TCP stream shifts all data after it. An edit says which
//! bytes of the stream, by the sender's sequence numbers, are replaced by which bytes for the receiver; all
//! numbers between two edits are shifted by the same amount. So each number has a counterpart on the other
//! side, also in the middle of a changed line: a line that is retransmitted in other pieces becomes the
//! same bytes at the same positions.

use std::collections::VecDeque;
use std::ops::Range;

use wire::checksum::Delta;
use wire::tcp::flags::{ACK, SYN};

/// The flags of the answer to a SYN.
const ACCEPTS: u8 = SYN | ACK;

/// The largest number of bytes that one edit can insert.
pub(super) const ROOM: usize = 40;

/// The largest number of edits; earlier edits are assumed to be acknowledged.
const MOST: usize = 32;

/// The distance in sequence numbers at which an edit is removed, before it could be confused with a later
/// position.
const FAR: i32 = 1 << 30;

/// A range of the stream that is replaced by other bytes for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// The sender's sequence number of the first replaced byte.
    pub(super) start: u32,
    /// The number of replaced bytes.
    pub(super) length: u16,
    new_length: u16,
    new: [u8; ROOM],
    /// The number that is added to sequence numbers up to the edit.
    before: u32,
}

impl Edit {
    fn end(&self) -> u32 {
        self.start.wrapping_add(self.length.into())
    }

    /// Returns the bytes that the receiver gets.
    pub(super) fn new_bytes(&self) -> &[u8] {
        &self.new[..usize::from(self.new_length)]
    }

    /// Returns the number that is added to sequence numbers after the edit.
    fn after(&self) -> u32 {
        self.before.wrapping_add(self.new_length.into()).wrapping_sub(self.length.into())
    }
}

/// Returns the signed distance from `other` to `number`, modulo 2^32.
fn behind(number: u32, other: u32) -> i32 {
    number.wrapping_sub(other) as i32
}

/// The edits of one direction of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Shift {
    edits: VecDeque<Edit>,
    /// The number that is added to sequence numbers up to the first edit.
    base: u32,
}

impl Shift {
    /// Adds an edit that replaces `length` bytes by `new`. Returns false, and changes nothing, if the edit
    /// is not after all other edits, or too large.
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

    fn forget_first(&mut self) {
        if let Some(first) = self.edits.pop_front() {
            self.base = first.after();
        }
    }

    /// Removes the edits that are far before a sequence number.
    fn pass(&mut self, number: u32) {
        while self.edits.front().is_some_and(|first| behind(number, first.end()) >= FAR) {
            self.forget_first();
        }
    }

    /// Returns the number that is added to sequence numbers after all edits.
    pub(super) fn last(&self) -> u32 {
        self.edits.back().map_or(self.base, Edit::after)
    }

    /// Returns the receiver's sequence number for a number of the sender.
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

    /// Returns the sender's sequence number for a number of the receiver: the last whose counterpart is not
    /// after it.
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

    /// Returns the edits that overlap `length` bytes from a sequence number on: for each, the range among
    /// these bytes, and the bytes that the receiver gets instead.
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

/// The edits of both directions of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Shifts {
    /// The edits of the flow's direction, and of its reply's.
    directions: [Shift; 2],
    /// The sequence number of the last SYN that requested another connection on the same ports, and true if
    /// it came from the reply's side.
    asked: Option<(u32, bool)>,
}

/// The connection to which a segment's numbers belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// The connection that these edits belong to.
    Own,
    /// A new connection, which begins with this segment.
    NewConnection,
}

impl Shifts {
    /// Returns the edits of a direction.
    pub(super) fn of(&self, is_reply: bool) -> &Shift {
        &self.directions[usize::from(is_reply)]
    }

    /// Returns the edits of a direction, to be changed.
    pub(super) fn of_mut(&mut self, is_reply: bool) -> &mut Shift {
        &mut self.directions[usize::from(is_reply)]
    }

    /// Converts the numbers of a segment for its receiver: sequence number, acknowledgment, and the ranges
    /// of selective acknowledgments (RFC 2018). The bytes start with the TCP header; if they end within it,
    /// nothing changes.
    ///
    /// A SYN keeps its numbers, but it alone does not end the connection: any host can send a SYN, and an
    /// endpoint with a connection does not close it because of that (RFC 5961, section 4). Another
    /// connection begins when the other end accepts it.
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
        // Options need not start at even offsets, so the checksum change is computed over whole headers.
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

/// Returns the offsets of the numbers of selective acknowledgments in the options.
fn selective(options: &[u8]) -> impl Iterator<Item = usize> {
    const SACK: u8 = 5;
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let (kind, start) = (*options.get(at)?, at);
            if kind == 0 {
                return None;
            }
            let length = if kind == 1 { 1 } else { usize::from(*options.get(at + 1)?).max(2) };
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

    /// A stream with some of its bytes changed: the sender's bytes, the receiver's bytes, and the offset at
    /// the receiver of each of the sender's bytes.
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
            // All bytes are sent, in any pieces, any number of times, in any order.
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
            // An acknowledgment never covers bytes that have not arrived; at the end, it covers all bytes.
            for number in 0..=all.got.len() {
                let back = shift.back(first.wrapping_add(number as u32)).wrapping_sub(first) as usize;
                prop_assert!(all.place[back] <= number);
                let is_last = back + 1 == all.place.len() || all.place[back + 1] > number;
                // Within a line that became shorter, several numbers can match; after it, the last matches.
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
        // The edit still counts after half of the number space, and is not confused with a later edit.
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
    fn segments_get_the_receivers_numbers_and_right_checksums() {
        use wire::checksum::Sum;
        let mut shifts = Shifts::default();
        assert!(shifts.of_mut(false).add(1000, 4, b"longer"));
        // The options start at an odd offset: a no-operation, and two ranges.
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
        // Malformed segments are not changed.
        for odd in [&reply[..30], &[0; 12], &[0; 20]] {
            let mut bytes = odd.to_vec();
            shifts.apply(false, &mut bytes);
            assert_eq!(bytes, odd);
        }
    }
}
