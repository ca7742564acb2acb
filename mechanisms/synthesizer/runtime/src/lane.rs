//! The writes of a class to the bytes of its packets, eight bytes at a time.
//!
//! A lane is eight bytes of the packet, treated as one big-endian number. All writes of a class to these
//! bytes are done at once: bits that are kept, bits of a sum, constants, and values from elsewhere, such as
//! leased values. The difference of the number before and after the writes gives the change of the checksums.
//!
//! Invariants:
//! - Each written byte is written by one lane, which leaves all other bytes unchanged.
//! - A 16-bit word that a checksum accounts for lies whole, at an even offset, in each lane that writes a
//!   byte of it.

use std::collections::BTreeMap;

use element::Packet;
use wire::checksum::Delta;

use jit::{Constant, Lane, ROW, Updates, Writes};
use program::location::ByteLocation;
use program::{Write, WrittenValue};

/// The maximum number of lanes of a class whose values are gathered, that is, computed from each packet
/// before the writes.
const MOST_GATHERED: usize = 16;

/// The maximum length in bytes of a number to which a constant is added in place, within its lane. A longer
/// sum is computed before the writes.
const LONGEST_SUM: usize = 4;

/// The values of a packet that are gathered before the writes, eight bytes for each lane that needs them.
pub(super) type Gathered = [u8; 8 * MOST_GATHERED];

/// Consecutive bytes of a value that a lane needs, and the index among the gathered values at which they are
/// stored.
#[derive(Clone, Debug)]
struct Part {
    value: WrittenValue,
    /// The index, within the value, of the part's first byte.
    first: usize,
    /// The index, within the value, after the part's last byte.
    last: usize,
    /// The index, among the gathered values, that the part's first byte is stored at.
    to: usize,
}

/// All writes of a traffic class to the bytes of its packets, as tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    constants: Vec<Constant>,
    lanes: Vec<Lane>,
    parts: Vec<Part>,
}

impl Lanes {
    /// Compiles writes that do not overlap. `front` is the offset at which packets start while they are
    /// written to ([`front`](program::TrafficClass::front)). `words` has the offsets of the 16-bit words
    /// that the IPv4 and the transport checksum account for. Returns `None` if some of these words are at
    /// even and others at odd offsets, or if more than [`MOST_GATHERED`] lanes need gathered values.
    pub(super) fn new(writes: &[Write], words: [&[i32]; 2], front: i32) -> Option<Lanes> {
        let mut bytes = BTreeMap::new();
        for (number, write) in writes.iter().enumerate() {
            if let ByteLocation::Byte(place) = write.place {
                let length = write.value.length() as i32;
                bytes.extend((place..place.saturating_add(length)).map(|byte| (byte, number)));
            }
        }
        // A lane begins at an even distance from the first word of a checksum, so that it contains whole
        // words.
        let even = words.iter().flat_map(|words| words.first()).next().copied().unwrap_or(front);
        if words.iter().copied().flatten().any(|word| (word - even) % 2 != 0) {
            return None;
        }
        let mut lanes = Lanes::default();
        while let Some((&first, _)) = bytes.first_key_value() {
            let start = (first - (first - even).rem_euclid(2)).max(front);
            // A lane cannot begin before `front`. If `front` is at an odd distance from the words of the
            // checksums, the first lane has the first byte only, which lies in no such word.
            let stop = if (start - even).rem_euclid(2) == 0 { start + 8 } else { start + 1 };
            let rest = bytes.split_off(&stop);
            let mut here = std::mem::replace(&mut bytes, rest);
            let cut = cut(&here, writes, stop);
            bytes.append(&mut here.split_off(&cut));
            lanes.add(start - front, &here, writes, words, start)?;
        }
        Some(lanes)
    }

    /// Adds the lane whose first byte has offset `start`, counted like the offsets of the program from the
    /// start of the input packet. `place` is the offset of the same byte from the packet's start at the time
    /// of the writes (`front`). `bytes` has, for each offset that the lane writes, the index of the write in
    /// `writes`. Returns `None` if too many lanes need gathered values.
    fn add(
        &mut self,
        place: i32,
        bytes: &BTreeMap<i32, usize>,
        writes: &[Write],
        words: [&[i32]; 2],
        start: i32,
    ) -> Option<()> {
        let mut lane =
            Lane { place: usize::try_from(place).unwrap_or_default(), keep: u64::MAX, ..Lane::default() };
        let shift = |byte: i32| 8 * (7 - (byte - start).clamp(0, 7)) as u32;
        // The bytes whose values the lane takes ([`take`](Self::take)): the offset of the byte, the index
        // of its write, and the index of the byte within the write's value.
        let mut values = Vec::new();
        for (&byte, &number) in bytes {
            let Write { place: ByteLocation::Byte(first), value } = &writes[number] else { continue };
            let within = (byte - first) as usize;
            let bits = 0xff << shift(byte);
            lane.keep &= !bits;
            match value {
                WrittenValue::Constant(constant) => lane.put |= u64::from(constant[within]) << shift(byte),
                WrittenValue::Masked(from, and, or) if *from == ByteLocation::Byte(*first) => {
                    lane.keep |= u64::from(and & !or) << shift(byte);
                    lane.put |= u64::from(*or) << shift(byte);
                }
                value if is_sum_in_place(&writes[number]) => {
                    lane.sum |= bits;
                    if let WrittenValue::Plus(_, length, plus) = value {
                        let last = first + i32::from(*length) - 1;
                        lane.add = (*plus as u64) << shift(last);
                    }
                }
                _ => values.push((byte, number, within)),
            }
        }
        self.take(&mut lane, &values, writes, start)?;
        for (cover, words) in lane.covers.iter_mut().zip(words) {
            let is_written = |word: &&i32| bytes.contains_key(word) || bytes.contains_key(&(**word + 1));
            for word in words.iter().filter(is_written) {
                *cover |= 0xffff << shift(word + 1);
            }
        }
        if lane.keep == u64::MAX {
            // The lane keeps all of its bits, so it is left out.
        } else if lane.sum == 0 && lane.take == 0 && lane.covers == [0; 2] {
            let native = |number: u64| u64::from_ne_bytes(number.to_be_bytes());
            let (keep, put) = (native(lane.keep), native(lane.put));
            self.constants.push(Constant { place: lane.place, keep, put });
        } else {
            self.lanes.push(lane);
        }
        Some(())
    }

    /// Makes a lane take values from elsewhere: copies of other bytes of the packet, of annotations or of
    /// leased values, and sums of more than [`LONGEST_SUM`] bytes. They are read from the row of the flow if
    /// all are copies of leased bytes that are consecutive there; otherwise they are gathered before the
    /// writes. Returns `None` if too many lanes need gathered values.
    fn take(
        &mut self,
        lane: &mut Lane,
        values: &[(i32, usize, usize)],
        writes: &[Write],
        start: i32,
    ) -> Option<()> {
        let Some(&(first, number, within)) = values.first() else { return Some(()) };
        lane.take = values.iter().fold(0, |bits, (byte, ..)| bits | 0xff << (8 * (7 - (byte - start))));
        // Returns the row index of the eight bytes that the lane takes: the row index of the leased byte,
        // minus the byte's index in the lane. `None` if the value is not a copy of leased bytes.
        let origin = |byte: i32, number: usize, within: usize| match writes[number].value {
            WrittenValue::Copy(ByteLocation::Leased(_, from), _) => {
                Some(i32::from(from) + within as i32 - (byte - start))
            }
            _ => None,
        };
        let at = origin(first, number, within);
        if let Some(at) = at.filter(|_| values.iter().all(|&(b, n, w)| origin(b, n, w) == at)) {
            let from = at.clamp(0, ROW as i32 - 8);
            (lane.from, lane.turn) = (from as usize, (8 * (at - from)).rem_euclid(64) as u32);
            return Some(());
        }
        let used = self.lanes.iter().filter(|lane| lane.is_gathered).count();
        if used >= MOST_GATHERED {
            return None;
        }
        (lane.is_gathered, lane.from) = (true, 8 * used);
        for &(byte, number, within) in values {
            let to = lane.from + (byte - start) as usize;
            let follows = |part: &Part| part.last == within && part.to + part.last - part.first == to;
            match self.parts.last_mut().filter(|part| part.value == writes[number].value && follows(part)) {
                Some(part) => part.last += 1,
                None => {
                    let value = writes[number].value.clone();
                    self.parts.push(Part { value, first: within, last: within + 1, to });
                }
            }
        }
        Some(())
    }

    /// Computes the gathered values from an input packet, and from the row of its flow.
    pub(super) fn gather(&self, packet: &Packet, leased: &[u8; ROW]) -> Gathered {
        let mut gathered = [0; 8 * MOST_GATHERED];
        for Part { value, first, last, to } in &self.parts {
            let to = &mut gathered[*to..to + last - first];
            match value {
                WrittenValue::Copy(from, _) => copy(packet, leased, from.after(*first as i32), to),
                value => {
                    let mut whole = [0; 8];
                    gather(value, packet, leased, &mut whole);
                    to.copy_from_slice(&whole[*first..*last]);
                }
            }
        }
        gathered
    }

    /// Writes all lanes to the packets with the indices `places`: each lane to all packets, then the next
    /// lane. The packets have been extended to start at `front`. `row` returns the row of a packet's flow;
    /// `gathered` has the gathered values, and is `None` if the writes need none. Adds the changes of the
    /// IPv4 and the transport checksum of each packet to `changes`.
    #[inline]
    pub(super) fn write<'r>(
        &self,
        packets: &mut [Packet],
        places: &[u8],
        row: impl Fn(u8) -> &'r [u8; ROW],
        gathered: Option<&Gathered>,
        changes: &mut [[Delta; 2]],
    ) {
        for &Constant { place, keep, put } in &self.constants {
            for &packet in places {
                if let Some(bytes) = packets[usize::from(packet)].slot_bytes_mut(place) {
                    *bytes = (u64::from_ne_bytes(*bytes) & keep | put).to_ne_bytes();
                }
            }
        }
        for lane in &self.lanes {
            let [network, transport] = lane.covers;
            for (&packet, changes) in places.iter().zip(&mut *changes) {
                let values = match (lane.take, gathered) {
                    (0, _) => 0,
                    (_, Some(gathered)) if lane.is_gathered => lane.values(gathered),
                    _ => lane.values(row(packet)),
                };
                let Some(bytes) = packets[usize::from(packet)].slot_bytes_mut(lane.place) else { continue };
                let old = u64::from_be_bytes(*bytes);
                let new = lane.written(old, values);
                *bytes = new.to_be_bytes();
                if network != 0 {
                    changes[0] = changes[0] + Delta::u64(old & network, new & network);
                }
                if transport != 0 {
                    changes[1] = changes[1] + Delta::u64(old & transport, new & transport);
                }
            }
        }
    }

    /// Returns a function that makes machine code for these writes and for the given checksum updates. The
    /// function gives `None` if any lane needs gathered values, or if machine code cannot be made.
    pub(super) fn recipe(&self, updates: Updates) -> impl FnOnce() -> Option<Writes> + use<> {
        let Lanes { constants, lanes, .. } = self.clone();
        let sums = updates.iter().flatten().map(|(place, _)| place + 2).max().unwrap_or_default();
        let window = self.reach().max(sums);
        move || Writes::new(&constants, &lanes, updates, window)
    }

    /// Returns the number of bytes that the lanes read and write, counted from the packet's start at the time
    /// of the writes. Bytes of the slot after the packet's end may be among them.
    pub(super) fn reach(&self) -> usize {
        let places = self.constants.iter().map(|lane| lane.place);
        places.chain(self.lanes.iter().map(|lane| lane.place)).max().map_or(0, |place| place + 8)
    }

    /// True if no byte is written.
    pub(super) fn is_empty(&self) -> bool {
        self.constants.is_empty() && self.lanes.is_empty() && self.parts.is_empty()
    }

    /// True if any value comes from the row of a flow or is gathered.
    pub(super) fn takes(&self) -> bool {
        self.lanes.iter().any(|lane| lane.take != 0)
    }

    /// True if any values are gathered, so that packets have to be processed one by one.
    pub(super) fn gathers(&self) -> bool {
        !self.parts.is_empty()
    }
}

/// Returns the offset at which a lane must end, at most `stop`. The lane ends earlier where it would split a
/// sum that is stored in place ([`is_sum_in_place`]), or contain a second such sum.
fn cut(bytes: &BTreeMap<i32, usize>, writes: &[Write], stop: i32) -> i32 {
    let mut sums = 0;
    let mut last = None;
    for (&byte, &number) in bytes {
        if last == Some(number) || !is_sum_in_place(&writes[number]) {
            continue;
        }
        last = Some(number);
        sums += 1;
        if sums > 1 || byte + writes[number].value.length() as i32 > stop {
            return byte;
        }
    }
    stop
}

/// True if a write adds a constant to a number and stores the sum where the number was, and the number is
/// short enough for a lane.
fn is_sum_in_place(write: &Write) -> bool {
    matches!(write.value, WrittenValue::Plus(from, length, _) if from == write.place && usize::from(length) <= LONGEST_SUM)
}

/// Returns the 16-bit word at an offset from the packet's start; `None` if the packet's first slot does not
/// have it.
#[inline]
pub(super) fn word_mut(packet: &mut Packet, place: i32) -> Option<&mut [u8; 2]> {
    packet.data_mut().get_mut(usize::try_from(place).ok()?..)?.first_chunk_mut()
}

/// Computes a value into `to`, and returns the number of its bytes. For a constant, writes nothing and
/// returns zero. `leased` is the row of the flow.
pub(super) fn gather(value: &WrittenValue, packet: &Packet, leased: &[u8; ROW], to: &mut [u8]) -> usize {
    match value {
        WrittenValue::Constant(_) => 0,
        WrittenValue::Copy(from, length) => {
            let length = usize::from(*length);
            copy(packet, leased, *from, &mut to[..length]);
            length
        }
        WrittenValue::Plus(from, length, plus) => {
            let length = usize::from(*length).min(8);
            let mut number = [0; 8];
            copy(packet, leased, *from, &mut number[8 - length..]);
            let sum = u64::from_be_bytes(number).wrapping_add(*plus as u64).to_be_bytes();
            to[..length].copy_from_slice(&sum[8 - length..]);
            length
        }
        WrittenValue::Masked(from, and, or) => {
            copy(packet, leased, *from, &mut to[..1]);
            to[0] = to[0] & and | or;
            1
        }
    }
}

/// Copies bytes from the packet, its annotations, or the row of its flow. Leaves `to` unchanged if the
/// source does not have all of the bytes.
fn copy(packet: &Packet, leased: &[u8; ROW], place: ByteLocation, to: &mut [u8]) {
    let (from, place) = match place {
        ByteLocation::Byte(place) => (packet.data(), usize::try_from(place).unwrap_or(usize::MAX)),
        ByteLocation::Annotation(place) => (&packet.annotations().bytes()[..], place.into()),
        ByteLocation::Leased(_, place) => (&leased[..], place.into()),
    };
    if let Some(from) = from.get(place..).and_then(|from| from.get(..to.len())) {
        to.copy_from_slice(from);
    }
}
