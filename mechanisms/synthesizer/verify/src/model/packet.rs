//! A symbolic packet: for each byte, its bits as Boolean functions of the input packet.
//!
//! Offsets are counted from the first byte of the input packet (the frame), so that stripped bytes keep their
//! offsets and prepended headers have negative offsets. The packet's start and the offsets of its headers are
//! always known numbers. Where an offset depends on the packet (after an IP header with options), the
//! symbolic execution forks. Or the header starts a byte region with variables of its own
//! ([`offsets`](super::offsets)).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;

use classify::IntervalSet;
use element::Base;
use element::effects::{Action, Effects, Field, HeaderKind, Number, Value};
use packet::{HEADROOM, SLOT_STRIDE};

use program::metadata::{INPUT, KIND, Metadata, TIME, headers_of, metadata_of};

use super::diagrams::{Bit, Byte, Diagrams, Symbol, Term};
use super::offsets::{
    FIRST_IN_REGIONS, IPV4_HEADER, anywhere, behind_ipv4, byte_region_of, in_byte_region, is_anywhere, real,
    start_of,
};
use super::sums::{ChecksumHistory, SumKey};
use super::word::{Word, bits_in};

/// The offsets in the frame at which headers can be marked: those in the packet's first slot.
const SLOT: RangeInclusive<i32> = -(HEADROOM as i32)..=(SLOT_STRIDE - HEADROOM) as i32;

/// The number of bits that represent the length of an input packet in bytes.
pub const LENGTH_BITS: u8 = 18;

/// A symbolic packet at one point of a chain.
#[derive(Clone, PartialEq, Eq)]
pub struct PacketModel {
    /// The offset in the frame of the packet's first byte.
    pub start: i32,
    /// The offsets in the frame of the link, network and transport header; `None` for a header that is not
    /// marked.
    pub headers: [Option<i32>; 3],
    /// The offset in the frame of the byte after the packet's last byte; it may depend on the packet.
    pub end: Word,
    /// The lowest offset in the frame that has ever been part of the packet. Bytes at lower offsets are zero
    /// when the packet is extended to include them.
    pub(super) lowest_own: i32,
    /// The bytes that elements have written, by offset. Fields of maintained checksums are not included.
    /// Copies of a packet share the map until one of them is written.
    pub(super) bytes: Rc<BTreeMap<i32, Byte>>,
    /// The metadata bytes that elements have written, by index; shared by copies like `bytes`.
    pub(super) side: Rc<BTreeMap<Metadata, Byte>>,
    /// The checksums that an element has computed or updated. Their bytes are not in `bytes`.
    pub(crate) sums: BTreeMap<SumKey, ChecksumHistory>,
    /// The number of the term (uninterpreted function with arguments) that made all unwritten bytes of the
    /// packet; `None` if unwritten bytes are bytes of the input packet.
    pub(super) version: Option<u32>,
    /// The number of the term (uninterpreted function with arguments) whose value is the whole packet, if
    /// nothing else is known of the packet: for example, an opaque element may have changed anything. Then
    /// the other fields of this struct have no meaning.
    pub lost: Option<u32>,
}

/// The value of a field of a symbolic packet.
pub struct FieldValue {
    /// The bits, most significant first.
    pub bits: Vec<Bit>,
    /// The condition that the packet has the whole field: the header is marked, and the packet is long
    /// enough.
    pub there: Bit,
}

impl PacketModel {
    /// Returns the input packet: any bytes, any length, no annotations. `headers` has the offsets of link,
    /// network and transport header.
    pub fn incoming(d: &Diagrams, headers: [Option<i32>; 3]) -> PacketModel {
        let length: Vec<Bit> = (0..LENGTH_BITS).rev().map(|bit| d.symbol(Symbol::Length(bit))).collect();
        PacketModel {
            start: 0,
            headers,
            end: Word::from_bits(d, &length),
            lowest_own: 0,
            bytes: Rc::default(),
            side: Rc::default(),
            sums: BTreeMap::new(),
            version: None,
            lost: None,
        }
    }

    /// Returns a packet with the given bytes and metadata, which do not depend on an input packet.
    /// `headers` has the offsets of link, network and transport header.
    pub fn known(d: &Diagrams, bytes: &[u8], headers: [Option<i32>; 3], side: &[u8]) -> PacketModel {
        let bits = |byte: u8| std::array::from_fn(|i| d.constant(byte >> (7 - i) & 1 == 1));
        PacketModel {
            end: Word::constant(d, bytes.len() as i64),
            bytes: Rc::new(bytes.iter().enumerate().map(|(at, &byte)| (at as i32, bits(byte))).collect()),
            side: Rc::new(side.iter().enumerate().map(|(at, &byte)| (at as Metadata, bits(byte))).collect()),
            ..PacketModel::incoming(d, headers)
        }
    }

    /// Returns this packet with annotations that may have any values.
    #[must_use]
    pub fn with_any_annotations(mut self, d: &Diagrams) -> PacketModel {
        for side in 0..TIME {
            let byte = std::array::from_fn(|bit| d.symbol(Symbol::Metadata(side, 7 - bit as u8)));
            Rc::make_mut(&mut self.side).insert(side, byte);
        }
        self
    }

    /// Returns an arbitrary packet with the layout of this packet: its headers have equal distances from its
    /// start. `None` if the layout is unknown.
    pub fn any_like(&self, d: &Diagrams) -> Option<PacketModel> {
        let is_odd = self.headers[..2].iter().flatten().any(|place| in_byte_region(*place));
        if self.lost.is_some() || in_byte_region(self.start) || is_odd {
            return None;
        }
        let mut headers = self.headers.map(|place| place.map(|place| place - self.start));
        if self.headers[2].is_some_and(in_byte_region) {
            headers[2] = Some(match headers[1] {
                Some(network) if self.is_behind_ipv4(d) => behind_ipv4(d, network),
                // The distance of the transport header differs from packet to packet.
                network => {
                    let usual = Word::constant(d, i64::from(network.unwrap_or(0) + IPV4_HEADER));
                    anywhere(d, &usual, Term { name: "where a header is".into(), ..Term::default() })
                }
            });
        }
        // Bytes before the start, which elements upstream may have stripped, may have any values, too. So all
        // of the headroom counts as having been part of the packet.
        let any = PacketModel { lowest_own: -(HEADROOM as i32), ..PacketModel::incoming(d, headers) };
        Some(any.with_any_annotations(d))
    }

    /// True if the transport header directly follows the IP header, according to the length field that the
    /// IP header has at present.
    fn is_behind_ipv4(&self, d: &Diagrams) -> bool {
        let [_, Some(network), Some(transport)] = self.headers else { return false };
        let length = Word::from_bits(d, &self.byte(d, network)[4..]).times(d, 4);
        !is_anywhere(d, transport) && length.plus(d, &real(d, network)) == real(d, transport)
    }

    /// Returns a packet of which nothing is known except that it is the value of the term with number `term`.
    pub fn lost(d: &Diagrams, term: u32) -> PacketModel {
        PacketModel { lost: Some(term), ..PacketModel::incoming(d, [None; 3]) }
    }

    /// Returns the offset in the frame from which fields of `base` are counted; `None` if that header is
    /// not marked.
    pub fn place(&self, base: Base) -> Option<i32> {
        match base {
            Base::Data => Some(self.start),
            Base::Mac => self.headers[0],
            Base::Network => self.headers[1],
            Base::Transport => self.headers[2],
        }
    }

    /// Marks a header at offset `place`, or removes the mark. A header outside of the packet's first slot
    /// counts as not marked.
    pub fn mark(&mut self, base: Base, place: Option<i32>) {
        let place = place.filter(|place| in_byte_region(*place) || SLOT.contains(place));
        match base {
            Base::Data => {}
            Base::Mac => self.headers[0] = place,
            Base::Network => self.headers[1] = place,
            Base::Transport => self.headers[2] = place,
        }
    }

    /// Returns the length in bytes.
    pub fn length(&self, d: &Diagrams) -> Word {
        self.end.minus(d, &real(d, self.start))
    }

    /// True if the headroom of the first slot suffices for the packet's start. The model does not describe
    /// what the engine does if the headroom is too small.
    pub fn has_room_in_front(&self) -> bool {
        self.start >= -(HEADROOM as i32)
    }

    /// Returns the condition that the packet ends at offset `place` of the frame or after it.
    pub fn reaches(&self, d: &Diagrams, place: i32) -> Bit {
        real(d, place).at_most(d, &self.end)
    }

    /// Returns the value that the byte at offset `place` has if no element has written it: the byte of the
    /// input packet, or a value of the function that rewrote the packet.
    pub(super) fn unwritten(&self, d: &Diagrams, place: i32) -> Byte {
        match self.version {
            None => d.input(place),
            Some(version) => d.rewritten(version, place),
        }
    }

    /// Returns the byte at offset `place`. A byte may have two offsets, in a byte region and in the frame;
    /// records an overlap if the byte may have been written by its other offset.
    pub fn byte(&self, d: &Diagrams, place: i32) -> Byte {
        self.watch(d, place, None);
        self.named(d, place)
    }

    /// Returns the byte at offset `place` as a number; `None` if it is not the same for all packets. Records
    /// an overlap as [`byte`](Self::byte) does.
    pub fn known_byte(&self, d: &Diagrams, place: i32) -> Option<u8> {
        self.watch(d, place, None);
        // A byte that a function has rewritten has no known number. The check comes first, so that no diagram
        // is made for the byte.
        let is_rewritten = self.version.is_some() && !self.bytes.contains_key(&place);
        if is_rewritten && (place >= self.lowest_own || in_byte_region(self.lowest_own)) {
            let is_kept = self.sums.keys().any(|key| key.field().contains(&place));
            if !is_kept {
                return None;
            }
        }
        let bits = self.named(d, place);
        bits.iter().try_fold(0, |value, bit| Some(value << 1 | u8::from(d.known(bit)?)))
    }

    /// Returns the byte at offset `place` of an IP header that starts at offset `at`. The value is right
    /// for packets whose header reaches to that byte; for other packets it is arbitrary.
    pub(super) fn header_byte(&self, d: &Diagrams, at: i32, place: i32) -> Byte {
        self.watch(d, place, Some(&self.header_reaches(d, at, place)));
        self.named(d, place)
    }

    /// Returns the condition that the IP header that starts at offset `at` reaches to the byte at offset
    /// `place` or beyond it, according to the header's length field. The condition is always true for bytes
    /// before the header and for the header's first 20 bytes, whatever the length field says.
    pub(super) fn header_reaches(&self, d: &Diagrams, at: i32, place: i32) -> Bit {
        let behind = place - at;
        if behind < IPV4_HEADER {
            return d.yes();
        }
        let least = behind as u128 / 4 + 1;
        bits_in(d, &self.byte(d, at)[4..], &IntervalSet::one(least, 15))
    }

    /// Returns the byte at offset `place` in a form for the comparison or merging of two packets. The packets
    /// have to be compared at all offsets that an element has written in either of them.
    pub fn compared(&self, d: &Diagrams, place: i32) -> Byte {
        // An unwritten byte of a byte region equals the byte of the frame at that place, which may have been
        // written. `byte` records this case as an overlap, so that the analysis runs again without byte
        // regions.
        if in_byte_region(place) { self.byte(d, place) } else { self.named(d, place) }
    }

    /// Returns the byte at exactly this offset, without regard to writes at its other offset (in a byte
    /// region or in the frame). The result may differ from the byte's value. It suffices for comparisons:
    /// packets that are equal at all offsets are equal, because in both of them writes in a byte region
    /// override writes in the frame.
    fn named(&self, d: &Diagrams, place: i32) -> Byte {
        if let Some((key, sum)) = self.sums.iter().find(|(key, _)| key.field().contains(&place)) {
            let bits = sum.bits(d, *key);
            let half = (place - key.field().start) as usize * 8;
            return to_byte(&bits[half..half + 8], d);
        }
        match self.bytes.get(&place) {
            Some(byte) => byte.clone(),
            None if place < self.lowest_own && !in_byte_region(self.lowest_own) => {
                std::array::from_fn(|_| d.no())
            }
            None => self.unwritten(d, place),
        }
    }

    /// Returns the bits of `length` consecutive bytes from offset `place` on, most significant first.
    pub fn bits(&self, d: &Diagrams, place: i32, length: usize) -> Vec<Bit> {
        (0..length as i32).flat_map(|i| self.byte(d, place + i)).collect()
    }

    /// Writes the byte at offset `place`. A byte may have two offsets, in a byte region and in the frame;
    /// records an overlap if the byte may have been written by its other offset.
    pub fn set_byte(&mut self, d: &Diagrams, place: i32, byte: Byte) {
        self.watch(d, place, None);
        self.write(d, place, byte);
    }

    /// Writes the byte at offset `place` of an IP header that starts at offset `at`. The byte stays
    /// unchanged in packets whose header does not reach to it.
    fn set_header_byte(&mut self, d: &Diagrams, at: i32, place: i32, byte: &Byte) {
        let reaches = self.header_reaches(d, at, place);
        let old = self.header_byte(d, at, place);
        self.write(d, place, std::array::from_fn(|i| d.choose(&reaches, &byte[i], &old[i])));
    }

    fn write(&mut self, d: &Diagrams, place: i32, byte: Byte) {
        // A checksum over which ordinary data is written is no longer maintained.
        let keys: Vec<SumKey> =
            self.sums.keys().filter(|key| key.field().contains(&place)).copied().collect();
        for key in keys {
            self.release(d, key);
        }
        Rc::make_mut(&mut self.bytes).insert(place, byte);
    }

    /// Stops maintaining a checksum: its two bytes become ordinary bytes with the present value.
    pub(super) fn release(&mut self, d: &Diagrams, key: SumKey) {
        if let Some(sum) = self.sums.remove(&key) {
            let bits = sum.bits(d, key);
            for (place, byte) in key.field().zip(bits.chunks(8)) {
                Rc::make_mut(&mut self.bytes).insert(place, to_byte(byte, d));
            }
        }
    }

    /// Starts to maintain the checksum `sum`, and discards the bytes that were written into its field.
    /// Other checksums whose fields overlap with this field become ordinary bytes.
    pub(super) fn keep(&mut self, d: &Diagrams, key: SumKey, sum: ChecksumHistory) {
        let overlaps = |other: &SumKey| *other != key && other.field().any(|p| key.field().contains(&p));
        let others: Vec<SumKey> = self.sums.keys().filter(|other| overlaps(other)).copied().collect();
        others.into_iter().for_each(|other| self.release(d, other));
        let bytes = Rc::make_mut(&mut self.bytes);
        for place in key.field() {
            bytes.remove(&place);
        }
        self.sums.insert(key, sum);
    }

    /// True if an element has written the byte at offset `place`, and it is not part of a maintained
    /// checksum.
    pub(super) fn is_written(&self, place: i32) -> bool {
        self.bytes.contains_key(&place)
    }

    /// Returns the offsets that were written, including the fields of maintained checksums other than
    /// `key`.
    pub(super) fn written_beside(&self, key: SumKey) -> impl Iterator<Item = i32> {
        let others = self.sums.keys().filter(move |other| **other != key);
        self.written().chain(others.flat_map(|other| other.field()))
    }

    /// Returns the number of the term that makes all unwritten bytes; `None` if they are bytes of the input
    /// packet.
    pub(super) fn version(&self) -> Option<u32> {
        self.version
    }

    /// Returns the offsets that were written, lowest first, without the fields of maintained checksums.
    pub fn written(&self) -> impl DoubleEndedIterator<Item = i32> {
        self.bytes.keys().copied()
    }

    /// True if unwritten bytes are bytes of the input packet.
    pub fn is_original(&self) -> bool {
        self.version.is_none() && self.lost.is_none()
    }

    /// Returns the metadata byte with index `side`.
    pub fn side(&self, d: &Diagrams, side: Metadata) -> Byte {
        match self.side.get(&side) {
            Some(byte) => byte.clone(),
            None if side < TIME => std::array::from_fn(|_| d.no()),
            None => std::array::from_fn(|bit| d.symbol(Symbol::Metadata(side, 7 - bit as u8))),
        }
    }

    fn sides(&self, d: &Diagrams, first: Metadata, length: usize) -> Vec<Bit> {
        (0..length).flat_map(|i| self.side(d, first.saturating_add(i as Metadata))).collect()
    }

    /// Returns the value of a field, and the condition that the packet has it. Without the header or the
    /// bytes, all bits are false or arbitrary.
    pub fn field(&self, d: &Diagrams, field: &Field) -> FieldValue {
        let along = |bits| FieldValue { bits, there: d.yes() };
        match *field {
            Field::Bytes { base, offset, length } => match self.place(base) {
                None => FieldValue { bits: vec![d.no(); length as usize * 8], there: d.no() },
                Some(place) => {
                    let place = place.saturating_add(offset);
                    let there = self.reaches(d, place.saturating_add(length.into()));
                    if d.is_never(&there) {
                        return FieldValue { bits: vec![d.no(); length as usize * 8], there };
                    }
                    FieldValue { bits: self.bits(d, place, length.into()), there }
                }
            },
            Field::Annotation { offset, length } => along(self.sides(d, offset, length.into())),
            Field::HeaderOffset(base) => {
                let (number, there) = self.header_offset(d, base);
                FieldValue { bits: number.to_bits(d, 24), there }
            }
            Field::Length => along(self.length(d).to_bits(d, 24)),
            Field::Payload => along(self.digest(d).bits),
            Field::TimeStamp => along(self.sides(d, TIME, 8)),
            Field::Kind => along(self.sides(d, KIND, 1)),
            Field::InputPort => along(self.sides(d, INPUT, 1)),
        }
    }

    /// Returns the offset of a header from the packet's start, and the condition that the header is marked.
    fn header_offset(&self, d: &Diagrams, base: Base) -> (Word, Bit) {
        match self.place(base) {
            Some(place) => {
                let at = real(d, place);
                // If only an element knows the offset of a header, the header may lie outside of the packet's
                // first slot, and then is not marked.
                let is_set = match is_anywhere(d, place) {
                    true => at.within(d, i64::from(*SLOT.start()), i64::from(*SLOT.end())),
                    false => d.yes(),
                };
                (at.minus(d, &real(d, self.start)), is_set)
            }
            None => (Word::constant(d, 0), d.no()),
        }
    }

    /// Records an overlap if the byte at offset `place` may also have been written by another offset: in the
    /// frame instead of a byte region, or in another byte region. With `within`, only packets that satisfy
    /// this condition count.
    fn watch(&self, d: &Diagrams, place: i32, within: Option<&Bit>) {
        let sums = self.sums.keys().map(|key| key.field().start);
        // A byte before the lowest start of a region cannot be in the region.
        let overlaps = match byte_region_of(place) {
            // In the map, all bytes of byte regions come after the bytes of the frame.
            None => {
                let regions = self.bytes.range(FIRST_IN_REGIONS..).map(|(other, _)| *other);
                regions.chain(sums).any(|other| match byte_region_of(other) {
                    Some((region, offset)) => {
                        let meets = |within| d.overlap(within, &starts_by(d, region, place));
                        offset < 0 || place >= d.least_start(region) && within.is_none_or(meets)
                    }
                    None => false,
                })
            }
            // A negative offset in a byte region is a byte of the frame ahead of the region, which must not
            // have been written. At other offsets, only writes in the frame that may lie in the region count.
            Some((region, offset)) => {
                self.bytes.keys().copied().chain(sums).any(|other| match byte_region_of(other) {
                    Some((other, _)) => other != region,
                    None => {
                        let changed = || self.is_changed(d, other, &starts_by(d, region, other));
                        offset < 0 || other >= d.least_start(region) && changed()
                    }
                })
            }
        };
        if overlaps {
            d.note_overlap();
        }
    }

    /// True if the byte written at offset `place` may differ from the unwritten byte there, for packets of
    /// the condition.
    fn is_changed(&self, d: &Diagrams, place: i32, condition: &Bit) -> bool {
        let Some(byte) = self.bytes.get(&place) else { return true };
        d.differences(byte, &self.unwritten(d, place)).any(|bit| d.overlap(condition, &bit))
    }

    /// Returns the lowest offset of the frame that may be after the IP header; 0 if no IP header is marked
    /// at a known offset.
    pub(super) fn frontier(&self) -> i32 {
        self.headers[1].filter(|place| !in_byte_region(*place)).map_or(0, |network| network + IPV4_HEADER)
    }

    /// Returns the value of a linear expression over fields, and the condition that the packet has all
    /// these fields.
    pub fn number(&self, d: &Diagrams, number: &Number) -> (Word, Bit) {
        let mut sum = Word::constant(d, number.constant);
        let mut there = d.yes();
        for (factor, field, mask) in &number.terms {
            let word = match field {
                Field::Length => self.length(d),
                Field::HeaderOffset(base) => {
                    let (number, is_set) = self.header_offset(d, *base);
                    there = d.and(&there, &is_set);
                    number
                }
                field => {
                    let value = self.field(d, field);
                    there = d.and(&there, &value.there);
                    let width = value.bits.len();
                    let counts = |&(i, _): &(usize, &Bit)| mask >> (width - 1 - i).min(127) & 1 == 1;
                    let bits: Vec<Bit> =
                        value.bits.iter().enumerate().filter(counts).map(|(_, bit)| bit.clone()).collect();
                    Word::from_bits(d, &bits)
                }
            };
            sum = sum.plus(d, &word.times(d, *factor));
        }
        (sum, there)
    }

    /// Writes a field of bytes or of metadata. Returns the offsets that were written; an empty range for
    /// metadata, or if the header is not marked.
    pub fn set_field(&mut self, d: &Diagrams, field: &Field, bits: &[Bit]) -> std::ops::Range<i32> {
        if let Field::Bytes { base, offset, length } = *field {
            let Some(place) = self.place(base) else { return 0..0 };
            let places = place + offset..place + offset + i32::from(length);
            for (place, byte) in places.clone().zip(bits.chunks(8)) {
                self.set_byte(d, place, to_byte(byte, d));
            }
            return places;
        }
        let Some((first, length)) = metadata_of(field) else { return 0..0 };
        // Metadata that no element reads is not stored, so that packets that differ only in it are equal.
        let sides = (first..first.saturating_add(length)).zip(bits.chunks(8));
        for (side, byte) in sides.filter(|(side, _)| d.is_looked_at(*side)) {
            Rc::make_mut(&mut self.side).insert(side, to_byte(byte, d));
        }
        0..0
    }

    /// Writes a field as [`set_field`](Self::set_field) does, but bytes of the network header only in
    /// packets whose header reaches to them.
    pub fn set_header(&mut self, d: &Diagrams, field: &Field, bits: &[Bit]) -> std::ops::Range<i32> {
        let (Field::Bytes { base: Base::Network, offset, length }, Some(at)) = (field, self.headers[1])
        else {
            return self.set_field(d, field, bits);
        };
        let places = at + offset..at + offset + i32::from(*length);
        for (place, byte) in places.clone().zip(bits.chunks(8)) {
            self.set_header_byte(d, at, place, &to_byte(byte, d));
        }
        places
    }

    /// Moves the start of the packet to offset `place`. A packet that ends before it becomes empty.
    pub fn start_at(&mut self, d: &Diagrams, place: i32) {
        if in_byte_region(place) == in_byte_region(self.start) {
            return self.strip(d, place - self.start);
        }
        let start = real(d, place);
        self.end = Word::choose(d, &self.reaches(d, place), &self.end, &start);
        self.start = place;
    }

    /// Moves the start of the packet by `n` bytes; a negative number prepends bytes. A packet with fewer
    /// bytes becomes empty. Prepended bytes that were never part of the packet are zero.
    pub fn strip(&mut self, d: &Diagrams, n: i32) {
        let start = self.start.saturating_add(n);
        if n > 0 {
            let empty = real(d, start);
            self.end = Word::choose(d, &self.reaches(d, start), &self.end, &empty);
        }
        if !in_byte_region(start) {
            for place in start..self.lowest_own {
                let zero = std::array::from_fn(|_| d.no());
                self.set_byte(d, place, zero);
            }
            self.lowest_own = self.lowest_own.min(start);
        }
        self.start = start;
    }

    /// Replaces all bytes by values of the uninterpreted function with this term number.
    pub fn rewrite(&mut self, term: u32) {
        self.bytes = Rc::default();
        self.sums.clear();
        self.version = Some(term);
    }

    /// Returns everything that is known of the packet as one term: packets with equal terms are equal.
    pub fn digest(&self, d: &Diagrams) -> Term {
        let mark = |place: Option<i32>| place.map_or(i64::MIN, i64::from);
        let term = |term: Option<u32>| term.map_or(-1, i64::from);
        let mut numbers =
            vec![self.start.into(), self.lowest_own.into(), term(self.version), term(self.lost)];
        numbers.extend(self.headers.map(mark));
        let mut bits = self.end.bits().to_vec();
        // Writing the value that is already there changes nothing, so such bytes are left out.
        for (&place, byte) in self.bytes.iter().filter(|(place, byte)| **byte != self.unwritten(d, **place)) {
            numbers.push(place.into());
            bits.extend(byte.iter().cloned());
        }
        for key in self.sums.keys() {
            numbers.push(key.field().start.into());
            bits.extend(key.field().flat_map(|place| self.byte(d, place)));
        }
        for (&side, byte) in self.side.iter() {
            numbers.push(i64::from(side) - 1000);
            bits.extend(byte.iter().cloned());
        }
        Term { name: String::new(), numbers, bits }
    }

    /// Returns a term that describes the changes of the packet: at the offsets that `is_part` selects, the
    /// bytes that differ from the unwritten packet, with their values. The term also has the number of bytes,
    /// from offset `from` on, that were never part of the packet.
    pub(super) fn changes(&self, d: &Diagrams, from: i32, is_part: &dyn Fn(i32) -> bool) -> Term {
        let version = self.version.map_or(-1, i64::from);
        let never_there = self.lowest_own.saturating_sub(from).max(0);
        let mut term =
            Term { name: String::new(), numbers: vec![version, never_there.into()], bits: Vec::new() };
        let kept = self.sums.keys().flat_map(|key| key.field());
        let places: BTreeSet<i32> = self.written().chain(kept).filter(|place| is_part(*place)).collect();
        for place in places {
            let byte = self.byte(d, place);
            if byte != self.unwritten(d, place) {
                term.numbers.push(place.into());
                term.bits.extend(byte);
            }
        }
        term
    }

    /// Returns the key of the checksum of a header that starts `offset` bytes after `base`; `None` if
    /// `base` is not marked.
    pub(super) fn sum_key(&self, header: HeaderKind, base: Base, offset: i32) -> Option<SumKey> {
        let at = self.place(base)? + offset;
        Some(SumKey::new(header, at, self.headers[1].unwrap_or(at)))
    }
}

/// Returns the symbolic packet that a source emits, with the header marks and annotations of the source's
/// declaration. If only the source knows the offset of a header, nothing is known of the packet.
pub fn incoming(d: &Diagrams, source: &Effects) -> PacketModel {
    let starts = source.emits.first().and_then(|emit| emit.starts);
    let mut packet = PacketModel::incoming(d, headers_of(starts));
    for action in source.cases.iter().flat_map(|case| &case.actions) {
        match action {
            Action::Set(Field::HeaderOffset(base), Value::Constant(bytes)) => {
                let offset = bytes.iter().fold(0, |n, &byte| n << 8 | i32::from(byte));
                packet.mark(*base, (!bytes.is_empty()).then_some(offset));
            }
            // Only the source of the packets knows the offset that it sets for this header, so the model
            // knows nothing of the packet.
            Action::Set(Field::HeaderOffset(_), _) => {
                let term = Term { name: "whatever the source gives".into(), ..Term::default() };
                return PacketModel::lost(d, d.term(term));
            }
            Action::Set(field @ Field::Annotation { offset, length }, value) => {
                let bits: Vec<Bit> = match value {
                    Value::Constant(bytes) => bytes
                        .iter()
                        .flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1))
                        .map(|bit| d.constant(bit))
                        .collect(),
                    _ => (*offset..offset.saturating_add(*length))
                        .flat_map(|side| (0..8).rev().map(move |bit| Symbol::Metadata(side, bit)))
                        .map(|symbol| d.symbol(symbol))
                        .collect(),
                };
                packet.set_field(d, field, &bits);
            }
            _ => {}
        }
    }
    packet
}

/// Returns the condition that the byte region starts at offset `place` of the frame or before it.
fn starts_by(d: &Diagrams, region: usize, place: i32) -> Bit {
    real(d, start_of(region)).at_most(d, &Word::constant(d, place.into()))
}

/// Returns the first eight bits as a byte; missing bits are false.
pub(super) fn to_byte(bits: &[Bit], d: &Diagrams) -> Byte {
    std::array::from_fn(|i| bits.get(i).cloned().unwrap_or_else(|| d.no()))
}
