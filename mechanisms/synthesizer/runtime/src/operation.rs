//! The operation of a class on its packets: each byte is written once, with a value computed from the input
//! packet and the leased values of its flow. Checksums follow, then start and end of the packet, metadata and
//! annotations.
//!
//! Writes to bytes are compiled to lanes of eight bytes (`lane.rs`), and to machine code for frequent
//! classes.

use element::effects::HeaderKind;
use element::{Base, Packet, Timestamp};
use packet::{Marks, PacketKind};
use wire::LinkType;
use wire::checksum::{Delta, Sum as OnesSum};

use crate::computed::Total;
use crate::flow_cache::{FlowCache, NO_ROW};
use crate::lane::{Gathered, Lanes, gather, word_mut};
use jit::{Later, ROW, Writes};
use program::location::{ByteLocation, IPV4, IPV4_SUM};
use program::machine_code::MachineCode;
use program::{ChecksumOperation, TrafficClass, TransportChecksum, Write, WrittenValue};

/// The maximum number of packets that are written in one pass: each lane to all of these packets before the
/// next lane.
const AT_ONCE: usize = 16;

/// The maximum number of annotation bytes that one class may set to values that depend on the packet.
const MOST_MOVED: usize = 64;

/// The compiled operation of a class. Offsets are relative to the start of the input packet.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    start: i32,
    front: i32,
    end: Option<Total>,
    /// The metadata that is set on each packet at once. Header marks that may lie outside of the packet are
    /// in `headers` instead.
    marks: Marks,
    /// The header marks that may lie outside of the packet, which are set one by one: offsets from the
    /// start of the output packet.
    headers: Vec<(Base, Option<i32>)>,
    stamped: bool,
    lanes: Lanes,
    annotations: Vec<Write>,
    /// True if annotations get values that depend on the packet, so that the values are computed before any
    /// write.
    moves: bool,
    checksum: Option<ChecksumOperation>,
    transport_checksum: Option<TransportChecksum>,
    /// True if `headers` or `annotations` is not empty, so that each packet needs this additional work.
    has_more: bool,
    /// True if values have to be computed from each packet before the packet is written to. Then packets
    /// are processed one by one.
    is_single: bool,
    /// True if values may come from the rows of flows, so that the flow of each packet has to be known.
    takes: bool,
    /// True if the operation changes nothing at all.
    is_nothing: bool,
    /// The machine code for lanes and checksum updates, once it has been made.
    code: Later<Writes>,
    /// The number of bytes that the packet must have in its first slot. `usize::MAX` refuses all packets.
    needs: usize,
    /// The number of bytes that the slot must have from the start of the input packet on, because lanes are
    /// read and written whole. They may extend after the packet's end.
    reach: usize,
}

impl Operation {
    /// Returns an operation that refuses all packets, so that the elements process them.
    fn none() -> Operation {
        Operation { needs: usize::MAX, ..Operation::default() }
    }

    /// Compiles the operation of a class. `is_seen` returns true if any element downstream reads an
    /// annotation byte. `leased` returns the index, in the row of a flow, of a byte of a step's values. An
    /// operation that cannot be compiled refuses all packets: for example, it needs more values than there is
    /// room for. The program has to be valid ([`program::validate`]).
    pub(super) fn new(
        class: &TrafficClass,
        is_seen: &dyn Fn(u8) -> bool,
        leased: &dyn Fn(u16, u8) -> Option<u8>,
    ) -> Operation {
        let mut operation = Operation {
            start: class.start,
            front: class.front(),
            stamped: class.stamped,
            ..Operation::default()
        };
        operation.end = class.end.as_ref().map(Total::new);
        operation.checksum.clone_from(&class.checksum);
        operation.transport_checksum.clone_from(&class.transport_checksum);
        let reach = |place: ByteLocation, length: usize| match place {
            ByteLocation::Byte(place) => i64::from(place) + length as i64,
            ByteLocation::Annotation(_) | ByteLocation::Leased(..) => 0,
        };
        // Elements only strip bytes that are in the first slot, so packets that are too short there are
        // refused.
        let starts = class.path.iter().map(|passed| passed.start).chain([class.start]);
        let mut needs = i64::from(starts.max().unwrap_or_default());
        let mut moved = 0;
        let mut writes = Vec::new();
        for write in &class.writes {
            let Some(write) = found(write, leased) else { return Operation::none() };
            needs = needs.max(reach(write.place, write.value.length()));
            if let Some((from, length)) = write.value.from() {
                needs = needs.max(reach(from, length));
            }
            match write.place {
                ByteLocation::Byte(_) => writes.push(write),
                ByteLocation::Annotation(place) => {
                    let places = place..place.saturating_add(write.value.length() as u8);
                    match &write.value {
                        // Annotations that no element downstream reads are not written.
                        WrittenValue::Constant(bytes) => {
                            let read = places.zip(bytes).filter(|(place, _)| is_seen(*place));
                            for (place, byte) in read {
                                add_byte(&mut operation.annotations, place, *byte);
                            }
                        }
                        _ if places.into_iter().any(is_seen) => {
                            moved += write.value.length();
                            operation.annotations.push(write);
                        }
                        _ => {}
                    }
                }
                ByteLocation::Leased(..) => return Operation::none(),
            }
        }
        operation.moves = moved > 0;
        if moved > MOST_MOVED {
            return Operation::none();
        }
        if let Some(ChecksumOperation::Updated { header, .. } | ChecksumOperation::Recomputed { header }) =
            &class.checksum
        {
            needs = needs.max(i64::from(header + IPV4));
        }
        let mut words: [&[i32]; 2] = [&[], &[]];
        if let Some(ChecksumOperation::Updated { words: of_header, .. }) = &class.checksum {
            words[0] = of_header;
        }
        if let Some(sum) = &class.transport_checksum {
            let last = sum.words.iter().copied().chain([sum.place()]).max().unwrap_or_default();
            needs = needs.max(i64::from(last) + 2);
            words[1] = &sum.words;
        }
        let Some(lanes) = Lanes::new(&writes, words, class.front()) else {
            return Operation::none();
        };
        operation.mark(class, needs - i64::from(class.start));
        operation.has_more = !operation.headers.is_empty() || !operation.annotations.is_empty();
        operation.is_single = operation.end.is_some() || operation.moves || lanes.gathers();
        operation.takes = operation.is_single || lanes.takes();
        operation.is_nothing = lanes.is_empty()
            && (operation.start, operation.front) == (0, 0)
            && !(operation.is_single || operation.has_more || operation.stamped)
            && class.checksum.is_none()
            && class.transport_checksum.is_none()
            && operation.marks == Marks::default();
        operation.reach = lanes.reach().saturating_sub(class.front().unsigned_abs() as usize);
        operation.lanes = lanes;
        operation.needs = usize::try_from(needs).unwrap_or(0);
        operation
    }

    /// Counts `packets` packets that need the operation, and has its machine code made if that is due by
    /// `machine_code`.
    #[inline]
    pub(super) fn count(&mut self, packets: usize, machine_code: MachineCode) {
        let Operation { code, lanes, checksum, transport_checksum, front, .. } = self;
        // No machine code is made for values that are computed packet by packet, and for checksums that are
        // computed from scratch. Operations that change nothing or refuse all packets need none.
        let is_computed = matches!(checksum, Some(ChecksumOperation::Recomputed { .. }));
        if self.is_single || self.is_nothing || is_computed || self.needs == usize::MAX {
            return;
        }
        code.count(packets, machine_code, || {
            let place = |place: i32| (place - *front) as usize;
            let network = checksum.as_ref().map(|sum| (place(sum.header() + IPV4_SUM), false));
            let transport = transport_checksum.as_ref();
            let transport = transport.map(|sum| (place(sum.place()), sum.protocol == HeaderKind::Udp));
            lanes.recipe([network, transport])
        });
    }

    /// Compiles the metadata that a class sets. `length` is the minimum length of the output packets in
    /// bytes: a header mark up to this offset lies inside of every packet.
    fn mark(&mut self, class: &TrafficClass, length: i64) {
        let bases = [Base::Mac, Base::Network, Base::Transport];
        for (base, header) in bases.into_iter().zip(class.headers) {
            let Some(header) = header else { continue };
            let place = header.map(|place| place - class.start);
            let is_inside = |place: i32| (0..=length).contains(&place.into());
            match place.map(u16::try_from) {
                None => self.marks = self.marks.header(base, None),
                Some(Ok(inside)) if is_inside(inside.into()) && class.end.is_none() => {
                    self.marks = self.marks.header(base, Some(inside));
                }
                Some(_) => self.headers.push((base, place)),
            }
        }
        if let Some(kind) = class.kind {
            self.marks = self.marks.kind(PacketKind::from_number(kind));
        }
        if let Some(port) = class.port {
            self.marks = self.marks.port(port);
        }
        if class.framed {
            self.marks = self.marks.link(LinkType::Ethernet.number());
        }
    }

    /// Applies the operation to the packets with the indices `places`, with the values of leased flows from
    /// `flows`. A packet is refused if its first slot lacks bytes or headroom: it remains unchanged, and
    /// its index moves from `places` to `refused`. Returns the total length in bytes of the other packets
    /// after the operation.
    pub fn carry_out(
        &self,
        packets: &mut [Packet],
        places: &mut Vec<u8>,
        flows: Option<&FlowCache>,
        now: Timestamp,
        refused: &mut Vec<u8>,
    ) -> u64 {
        if self.is_nothing {
            refused.clear();
            return places.iter().map(|place| packets[usize::from(*place)].len() as u64).sum();
        }
        let flows = flows.filter(|_| self.takes);
        let row = |place: u8| flows.map_or(NO_ROW, |flows| flows.row(place.into()));
        self.carry_out_with(packets, places, row, now, refused)
    }

    /// Applies the operation like [`carry_out`](Self::carry_out). `row` returns the row of the flow of the
    /// packet with an index.
    fn carry_out_with<'r>(
        &self,
        packets: &mut [Packet],
        places: &mut Vec<u8>,
        row: impl Fn(u8) -> &'r [u8; ROW] + Copy,
        now: Timestamp,
        refused: &mut Vec<u8>,
    ) -> u64 {
        refused.clear();
        if let Some(code) = self.code.get() {
            let mut bytes = 0;
            for &place in places.iter() {
                let packet = &mut packets[usize::from(place)];
                if !self.fits(packet) {
                    refused.push(place);
                    continue;
                }
                self.begin(packet);
                let is_written =
                    packet.slot_window_mut(code.window()).is_some_and(|bytes| code.write(bytes, row(place)));
                debug_assert!(is_written, "an earlier question has checked the length");
                self.finish(packet, None, now);
                bytes += packet.len() as u64;
            }
            if !refused.is_empty() {
                places.retain(|place| !refused.contains(place));
            }
            return bytes;
        }
        places.retain(|&place| {
            let fits = self.fits(&packets[usize::from(place)]);
            if !fits {
                refused.push(place);
            }
            fits
        });
        let few = places.chunks(if self.is_single { 1 } else { AT_ONCE });
        few.map(|places| self.carry_out_by_tables(packets, places, row, now)).sum()
    }

    /// True if the packet has the bytes and the headroom that the operation needs; otherwise it is refused.
    #[inline(always)]
    fn fits(&self, packet: &Packet) -> bool {
        (packet.data().len() >= self.needs)
            & (packet.slot_rest() >= self.reach)
            & (packet.headroom() >= self.front.unsigned_abs() as usize)
    }

    /// Extends the packet by the bytes before the start of the input packet that the operation needs. Bytes
    /// that precede the output packet are written, too, and are stripped by [`finish`](Self::finish).
    #[inline(always)]
    fn begin(&self, packet: &mut Packet) {
        if self.front != 0 {
            let is_longer = packet.unstrip(self.front.unsigned_abs() as usize);
            debug_assert!(is_longer, "an earlier question has checked the room");
        }
    }

    /// Applies the parts of the operation that come after the writes to bytes: the start and end of the
    /// packet, its metadata, and its annotations. `single` has the values that were computed before the
    /// writes.
    #[inline(always)]
    fn finish(&self, packet: &mut Packet, single: Option<&Single>, now: Timestamp) {
        if self.start != self.front {
            let is_shorter = packet.strip((self.start - self.front) as usize);
            debug_assert!(is_shorter, "an earlier question has checked the length");
        }
        if let Some(end) = single.and_then(|single| single.end) {
            let length = end.saturating_sub(i64::from(self.start));
            packet.truncate(usize::try_from(length).unwrap_or(0));
        }
        packet.mark(&self.marks);
        if self.stamped {
            packet.set_time(now);
        }
        if self.has_more {
            for (base, place) in &self.headers {
                packet.set_offset(*base, place.map(|place| place as isize));
            }
            self.annotate(packet, single.and_then(|single| single.noted.as_ref()));
        }
    }

    /// Applies the operation, without machine code, to at most [`AT_ONCE`] packets that are not refused. Each
    /// step of the operation is done for all packets before the next step. Returns the total length in bytes
    /// of the packets afterwards.
    fn carry_out_by_tables<'r>(
        &self,
        packets: &mut [Packet],
        places: &[u8],
        row: impl Fn(u8) -> &'r [u8; ROW],
        now: Timestamp,
    ) -> u64 {
        // Values that come from other bytes of the input packet are read before any byte is written.
        let single = match places {
            [place] if self.is_single => Some(Single::of(self, &packets[usize::from(*place)], row(*place))),
            _ => None,
        };
        for &place in places {
            self.begin(&mut packets[usize::from(place)]);
        }
        self.write_by_tables(packets, places, row, single.as_ref());
        let mut bytes = 0;
        for &place in places {
            let packet = &mut packets[usize::from(place)];
            self.finish(packet, single.as_ref(), now);
            bytes += packet.len() as u64;
        }
        bytes
    }

    /// Writes the lanes, and updates or computes the checksums.
    fn write_by_tables<'r>(
        &self,
        packets: &mut [Packet],
        places: &[u8],
        row: impl Fn(u8) -> &'r [u8; ROW],
        single: Option<&Single>,
    ) {
        let Operation { front, checksum, transport_checksum, .. } = self;
        let mut changes = [[Delta::default(); 2]; AT_ONCE];
        let gathered = single.and_then(|single| single.gathered.as_ref());
        self.lanes.write(packets, places, row, gathered, &mut changes);
        match checksum {
            Some(ChecksumOperation::Updated { header, .. }) => {
                for (&place, [change, _]) in places.iter().zip(&changes) {
                    if let Some(sum) = word_mut(&mut packets[usize::from(place)], header + IPV4_SUM - front) {
                        *sum = change.apply(u16::from_be_bytes(*sum)).to_be_bytes();
                    }
                }
            }
            Some(ChecksumOperation::Recomputed { header }) => {
                for &place in places {
                    let first = (header - front) as usize;
                    let Some(header) =
                        packets[usize::from(place)].data_mut().get_mut(first..first + IPV4 as usize)
                    else {
                        continue;
                    };
                    let place = IPV4_SUM as usize;
                    header[place..place + 2].fill(0);
                    let sum = OnesSum::new().bytes(header).checksum().to_be_bytes();
                    header[place..place + 2].copy_from_slice(&sum);
                }
            }
            None => {}
        }
        if let Some(sum) = transport_checksum {
            for (&place, [_, change]) in places.iter().zip(&changes) {
                let Some(bytes) = word_mut(&mut packets[usize::from(place)], sum.place() - front) else {
                    continue;
                };
                let old = u16::from_be_bytes(*bytes);
                let is_udp = sum.protocol == HeaderKind::Udp;
                let new = if is_udp { change.apply_udp(old) } else { change.apply(old) };
                *bytes = new.to_be_bytes();
            }
        }
    }

    /// Writes the annotations of a packet. `noted` has the bytes of those annotations that depend on the
    /// packet, one after the other.
    fn annotate(&self, packet: &mut Packet, noted: Option<&[u8; MOST_MOVED]>) {
        let mut used = 0;
        for Write { place, value } in &self.annotations {
            let ByteLocation::Annotation(place) = place else { continue };
            let place = usize::from(*place);
            let to = &mut packet.annotations_mut().bytes_mut()[place..place + value.length()];
            match value {
                WrittenValue::Constant(bytes) => to.copy_from_slice(bytes),
                value => {
                    if let Some(noted) = noted {
                        to.copy_from_slice(&noted[used..used + value.length()]);
                    }
                    used += value.length();
                }
            }
        }
    }

    /// True if the operation sets the end of packets, so that their length changes.
    pub fn cuts(&self) -> bool {
        self.end.is_some()
    }

    /// Computes, from the input packet and the row of its flow, the annotation bytes that depend on the
    /// packet, and returns them one after the other.
    fn note(&self, packet: &Packet, leased: &[u8; ROW]) -> [u8; MOST_MOVED] {
        let mut noted = [0; MOST_MOVED];
        let mut used = 0;
        for Write { value, .. } in &self.annotations {
            used += gather(value, packet, leased, &mut noted[used..]);
        }
        noted
    }
}

/// The values that are computed from one input packet before it is written to; `None` for a kind of value
/// that the operation does not need.
struct Single {
    end: Option<i64>,
    noted: Option<[u8; MOST_MOVED]>,
    gathered: Option<Gathered>,
}

impl Single {
    fn of(operation: &Operation, packet: &Packet, leased: &[u8; ROW]) -> Single {
        Single {
            end: operation.end.as_ref().map(|end| end.value(packet.data(), packet)),
            noted: operation.moves.then(|| operation.note(packet, leased)),
            gathered: operation.lanes.gathers().then(|| operation.lanes.gather(packet, leased)),
        }
    }
}

/// Returns a copy of a write in which leased values are located by their index in the row of the flow.
/// Returns `None` if the row does not have all bytes of the values, or not as consecutive bytes.
fn found(write: &Write, leased: &dyn Fn(u16, u8) -> Option<u8>) -> Option<Write> {
    let find = |place: ByteLocation, length: u8| match place {
        ByteLocation::Leased(step, offset) => {
            let first = leased(step, offset)?;
            let mut more = 1..length;
            // The bytes of a value must be consecutive in the row, because they are copied together.
            let next =
                |more: u8| leased(step, offset.checked_add(more)?).filter(|next| *next == first + more);
            more.all(|more| next(more).is_some()).then_some(ByteLocation::Leased(0, first))
        }
        other => Some(other),
    };
    let value = match &write.value {
        WrittenValue::Constant(bytes) => WrittenValue::Constant(bytes.clone()),
        WrittenValue::Copy(from, length) => WrittenValue::Copy(find(*from, *length)?, *length),
        WrittenValue::Plus(from, length, plus) => WrittenValue::Plus(find(*from, *length)?, *length, *plus),
        WrittenValue::Masked(from, and, or) => WrittenValue::Masked(find(*from, 1)?, *and, *or),
    };
    Some(Write { place: write.place, value })
}

/// Adds the constant byte `byte` at the annotation offset `place` to `writes`. If the byte directly follows
/// the last write, it extends that write.
fn add_byte(writes: &mut Vec<Write>, place: u8, byte: u8) {
    if let Some(Write { place: ByteLocation::Annotation(first), value: WrittenValue::Constant(bytes) }) =
        writes.last_mut()
        && usize::from(*first) + bytes.len() == usize::from(place)
    {
        return bytes.push(byte);
    }
    writes.push(Write { place: ByteLocation::Annotation(place), value: WrittenValue::Constant(vec![byte]) });
}

#[cfg(test)]
mod tests {
    use packet::Pool;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use program::{Exit, WrittenValue};

    /// The locations of test writes, by offset and length in bytes. Some are short enough for a sum that is
    /// added in place, others are longer.
    const PLACES: [(i32, u8); 13] = [
        (-6, 5),
        (-1, 1),
        (1, 1),
        (2, 10),
        (13, 1),
        (15, 1),
        (17, 1),
        (22, 1),
        (26, 4),
        (30, 4),
        (34, 2),
        (36, 2),
        (41, 5),
    ];

    fn value(place: i32, length: u8) -> impl Strategy<Value = WrittenValue> {
        let elsewhere = (0i32..32).prop_map(ByteLocation::Byte);
        let leased = (0..ROW as u8 - length).prop_map(|at| ByteLocation::Leased(0, at));
        let annotation = (0..48 - length).prop_map(ByteLocation::Annotation);
        let here = Just(ByteLocation::Byte(place.max(0)));
        let in_place = match length {
            1..=4 => WrittenValue::Plus(ByteLocation::Byte(place.max(0)), length, -1),
            _ => WrittenValue::Copy(ByteLocation::Byte(place.max(0)), length),
        };
        let from = prop_oneof![here, elsewhere, leased, annotation].boxed();
        prop_oneof![
            vec(any::<u8>(), usize::from(length)).prop_map(WrittenValue::Constant),
            from.clone().prop_map(move |from| WrittenValue::Copy(from, length)),
            (from, -300i64..300, any::<u8>(), any::<u8>()).prop_map(
                move |(from, plus, and, or)| match length {
                    1 => WrittenValue::Masked(from, and, or),
                    length if length <= 8 => WrittenValue::Plus(from, length, plus),
                    _ => WrittenValue::Copy(from, length),
                }
            ),
            Just(in_place),
        ]
    }

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let one = |(place, length)| {
            proptest::option::of(value(place, length))
                .prop_map(move |value| value.map(|value| Write { place: ByteLocation::Byte(place), value }))
        };
        Vec::from(PLACES.map(one))
            .prop_map(|writes: Vec<Option<Write>>| writes.into_iter().flatten().collect())
    }

    /// Computes the packet that the operation must produce, byte by byte and word by word, without lanes.
    /// `came` is the input packet; the result includes the prepended bytes.
    fn expected(class: &TrafficClass, came: &[u8], annotations: &[u8], leased: &[u8]) -> Vec<u8> {
        let front = class.front();
        let mut bytes = [vec![0; front.unsigned_abs() as usize], came.to_vec()].concat();
        let at = |place: ByteLocation, length: usize| -> Vec<u8> {
            match place {
                ByteLocation::Byte(place) => came[place as usize..place as usize + length].to_vec(),
                ByteLocation::Annotation(place) => {
                    annotations[place.into()..usize::from(place) + length].to_vec()
                }
                ByteLocation::Leased(_, place) => leased[place.into()..usize::from(place) + length].to_vec(),
            }
        };
        let before = bytes.clone();
        for Write { place, value } in &class.writes {
            let ByteLocation::Byte(place) = *place else { continue };
            let made = match value {
                WrittenValue::Constant(bytes) => bytes.clone(),
                WrittenValue::Copy(from, length) => at(*from, (*length).into()),
                WrittenValue::Plus(from, length, plus) => {
                    let old = at(*from, (*length).into())
                        .iter()
                        .fold(0u64, |old, byte| old << 8 | u64::from(*byte));
                    let new = old.wrapping_add(*plus as u64).to_be_bytes();
                    new[8 - usize::from(*length)..].to_vec()
                }
                WrittenValue::Masked(from, and, or) => vec![at(*from, 1)[0] & and | or],
            };
            let place = (place - front) as usize;
            bytes[place..place + made.len()].copy_from_slice(&made);
        }
        let word = |bytes: &[u8], place: i32| {
            let place = (place - front) as usize;
            u16::from_be_bytes([bytes[place], bytes[place + 1]])
        };
        let change = |words: &[i32], bytes: &[u8]| {
            words.iter().fold(Delta::default(), |sum, &place| {
                sum + Delta::u16(word(&before, place), word(bytes, place))
            })
        };
        if let Some(ChecksumOperation::Updated { header, words }) = &class.checksum {
            let (change, place) = (change(words, &bytes), header + IPV4_SUM);
            let old = word(&bytes, place);
            let new = change.apply(old);
            bytes[(place - front) as usize..][..2].copy_from_slice(&new.to_be_bytes());
        }
        if let Some(sum) = &class.transport_checksum {
            let change = change(&sum.words, &bytes);
            let old = word(&bytes, sum.place());
            let is_udp = sum.protocol == HeaderKind::Udp;
            let new = if is_udp { change.apply_udp(old) } else { change.apply(old) };
            bytes[(sum.place() - front) as usize..][..2].copy_from_slice(&new.to_be_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn lanes_write_what_is_to_be_written(
            writes in writes(),
            frames in vec(vec(any::<u8>(), 56..90), 1..40),
            (leased, annotations, sums) in (any::<[u8; ROW]>(), vec(any::<u8>(), 48), any::<[bool; 2]>()),
            // The offset of the IPv4 header, and true for TCP, false for UDP.
            (ip, protocol) in (prop_oneof![Just(14), Just(0), Just(1), Just(18)], any::<bool>()),
        ) {
            let protocol = if protocol { HeaderKind::Tcp } else { HeaderKind::Udp };
            let words = |from: std::ops::Range<i32>| {
                let is_written = |word: &i32| writes.iter().any(|write| {
                    let ByteLocation::Byte(first) = write.place else { return false };
                    (first..first + write.value.length() as i32).contains(word)
                });
                from.step_by(2).filter(|word| is_written(word) || is_written(&(word + 1))).collect::<Vec<_>>()
            };
            let transport = TransportChecksum { protocol, header: ip + 20, words: words(ip + 12..ip + 24) };
            let class = TrafficClass {
                start: 0,
                end: None,
                headers: [None; 3],
                kind: None,
                port: None,
                framed: false,
                stamped: false,
                checksum: sums[0].then(|| ChecksumOperation::Updated { header: ip, words: words(ip..ip + 10) }),
                transport_checksum: sums[1].then_some(transport),
                exit: Exit::Output(0),
                path: Vec::new(),
                writes,
            };
            let mut operation = Operation::new(&class, &|_| true, &|_, offset| Some(offset));
            // An operation that needs too many gathered lanes refuses all packets; such a case is skipped.
            prop_assume!(operation.needs != usize::MAX);
            // The test runs by tables, then by machine code if this build has it.
            for machine_code in [MachineCode::Never, MachineCode::Now] {
                operation.count(frames.len(), machine_code);
                let is_code =
                    jit::EXISTS && machine_code == MachineCode::Now && !operation.is_single && !operation.is_nothing;
                prop_assert_eq!(operation.code.get().is_some(), is_code);
                let mut pool = Pool::new(64 << 20).unwrap();
                let mut batch = packet::Batch::new();
                for frame in &frames {
                    let mut packet = pool.packet(frame).unwrap();
                    packet.annotations_mut().bytes_mut().copy_from_slice(&annotations);
                    prop_assert!(batch.push(packet).is_ok());
                }
                let mut places: Vec<u8> = (0..frames.len() as u8).collect();
                let mut refused = Vec::new();
                operation.carry_out_with(&mut batch, &mut places, |_| &leased, Timestamp(0), &mut refused);
                let front = class.front().unsigned_abs() as usize;
                let data = |packet: &mut Packet| packet.unstrip(front).then(|| packet.data().to_vec());
                let made: Vec<Option<Vec<u8>>> = batch.iter_mut().map(data).collect();
                pool.free_all(&mut batch);
                prop_assert!(refused.is_empty(), "{:?}", refused);
                // Prepended bytes that the class does not write have arbitrary values, so they are not
                // compared.
                let is_in_front = class.writes.iter().any(|write| write.place == ByteLocation::Byte(class.front()));
                let first = if is_in_front { 0 } else { front };
                for (made, came) in made.iter().zip(&frames) {
                    let expected = expected(&class, came, &annotations, &leased);
                    let made = made.as_ref().map(|made| &made[first..]);
                    prop_assert_eq!(made, Some(&expected[first..]), "{:?} {:?}", machine_code, class);
                }
            }
        }
    }
}
