//! A packet whose bytes are questions: what stands where, as far as it follows from the packet that came in.
//!
//! Places are counted from the first byte of the packet as it came in, so that stripped bytes keep their place and
//! headers put in front have negative ones. Where the packet starts and where its headers are is always a number;
//! where that depends on the packet (the length of an IP header), the cases are told apart before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use classify::IntervalSet;
use element::Base;
use element::effects::{Action, Effects, Field, Header, Number, Value};
use packet::{HEADROOM, SLOT_STRIDE};

use super::diagrams::{Bit, Byte, Diagrams, Symbol, Term};
use super::places::{IPV4_HEADER, anywhere, behind_ipv4, in_region, is_anywhere, real, region_of, start_of};
use super::sums::{Sum, SumKey};
use super::word::{Word, bits_in};

/// What comes along with a packet, as numbered bytes: Click's 48 annotation bytes, then these.
pub type Side = u8;

/// First of eight bytes of the time stamp.
pub const TIME: Side = 48;
/// The packet type.
pub const KIND: Side = 56;
/// The number of the input or device.
pub const INPUT: Side = 57;

/// Where a field stands that is no part of the bytes: the first one, and how many.
pub fn sides_of(field: &Field) -> Option<(Side, Side)> {
    Some(match *field {
        Field::Annotation { offset, length } => (offset, length),
        Field::TimeStamp => (TIME, 8),
        Field::Kind => (KIND, 1),
        Field::InputPort => (INPUT, 1),
        Field::Bytes { .. } | Field::HeaderOffset(_) | Field::Length | Field::Payload => return None,
    })
}

/// Places in a packet's first slot, where headers are marked.
const SLOT: RangeInclusive<i32> = -(HEADROOM as i32)..=(SLOT_STRIDE - HEADROOM) as i32;

/// Bits of a length.
pub const LENGTH_BITS: u8 = 18;

/// The packet at some place of a chain.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// Where it starts.
    pub start: i32,
    /// Where its link, network and transport header start.
    pub headers: [Option<i32>; 3],
    /// Where it ends.
    pub end: Word,
    /// The first byte that has ever been part of it.
    own: i32,
    /// Bytes that were written.
    bytes: BTreeMap<i32, Byte>,
    /// What was written of what comes along.
    side: BTreeMap<Side, Byte>,
    /// Checksums that somebody keeps right, or has computed.
    pub(crate) sums: BTreeMap<SumKey, Sum>,
    /// The function that all other bytes come from, if somebody has written at unknown places.
    version: Option<u32>,
    /// The function that gives this packet, if nothing else is known of it.
    pub lost: Option<u32>,
}

/// The value of a field, and where there is one.
pub struct FieldValue {
    /// Most significant bit first.
    pub bits: Vec<Bit>,
    /// Whether the packet has the field.
    pub there: Bit,
}

impl Packet {
    /// A packet as a source gives it: any bytes, any length, no annotations. `headers` are where its headers start.
    pub fn incoming(d: &Diagrams, headers: [Option<i32>; 3]) -> Packet {
        let length: Vec<Bit> = (0..LENGTH_BITS).rev().map(|bit| d.symbol(Symbol::Length(bit))).collect();
        Packet {
            start: 0,
            headers,
            end: Word::from_bits(d, &length),
            own: 0,
            bytes: BTreeMap::new(),
            side: BTreeMap::new(),
            sums: BTreeMap::new(),
            version: None,
            lost: None,
        }
    }

    /// A packet of which all is known.
    pub fn known(d: &Diagrams, bytes: &[u8], headers: [Option<i32>; 3], side: &[u8]) -> Packet {
        let bits = |byte: u8| std::array::from_fn(|i| d.constant(byte >> (7 - i) & 1 == 1));
        Packet {
            end: Word::constant(d, bytes.len() as i64),
            bytes: bytes.iter().enumerate().map(|(place, &byte)| (place as i32, bits(byte))).collect(),
            side: side.iter().enumerate().map(|(place, &byte)| (place as Side, bits(byte))).collect(),
            ..Packet::incoming(d, headers)
        }
    }

    /// The same with annotations that may be anything.
    #[must_use]
    pub fn with_any_annotations(mut self, d: &Diagrams) -> Packet {
        for side in 0..TIME {
            let byte = std::array::from_fn(|bit| d.symbol(Symbol::Side(side, 7 - bit as u8)));
            self.side.insert(side, byte);
        }
        self
    }

    /// Any packet that is laid out like this one: its headers are as far from its start. `None` if nothing is known of
    /// that.
    pub fn any_like(&self, d: &Diagrams) -> Option<Packet> {
        let is_odd = self.headers[..2].iter().flatten().any(|place| in_region(*place));
        if self.lost.is_some() || in_region(self.start) || is_odd {
            return None;
        }
        let mut headers = self.headers.map(|place| place.map(|place| place - self.start));
        if self.headers[2].is_some_and(in_region) {
            headers[2] = Some(match headers[1] {
                Some(network) if self.is_behind_ipv4(d) => behind_ipv4(d, network),
                // In each of these packets it is somewhere else.
                network => {
                    let usual = Word::constant(d, i64::from(network.unwrap_or(0) + IPV4_HEADER));
                    anywhere(d, &usual, Term { name: "where a header is".into(), ..Term::default() })
                }
            });
        }
        // What was stripped from it is in front of it, and may be anything too.
        let any = Packet { own: -(HEADROOM as i32), ..Packet::incoming(d, headers) };
        Some(any.with_any_annotations(d))
    }

    /// Whether its transport header is where its IP header says, which may say something else by now.
    fn is_behind_ipv4(&self, d: &Diagrams) -> bool {
        let [_, Some(network), Some(transport)] = self.headers else { return false };
        let length = Word::from_bits(d, &self.byte(d, network)[4..]).times(d, 4);
        !is_anywhere(d, transport) && length.plus(d, &real(d, network)) == real(d, transport)
    }

    /// A packet of which nothing is known but the function that it comes from.
    pub fn lost(d: &Diagrams, term: u32) -> Packet {
        Packet { lost: Some(term), ..Packet::incoming(d, [None; 3]) }
    }

    /// Where a header starts.
    pub fn place(&self, base: Base) -> Option<i32> {
        match base {
            Base::Data => Some(self.start),
            Base::Mac => self.headers[0],
            Base::Network => self.headers[1],
            Base::Transport => self.headers[2],
        }
    }

    /// Marks a header. Outside of the packet's first slot it counts as not marked.
    pub fn mark(&mut self, base: Base, place: Option<i32>) {
        let place = place.filter(|place| in_region(*place) || SLOT.contains(place));
        match base {
            Base::Data => {}
            Base::Mac => self.headers[0] = place,
            Base::Network => self.headers[1] = place,
            Base::Transport => self.headers[2] = place,
        }
    }

    /// Its length.
    pub fn length(&self, d: &Diagrams) -> Word {
        self.end.minus(d, &real(d, self.start))
    }

    /// Whether it starts inside of its slot, which has only so much room in front of what came in.
    pub fn has_room_in_front(&self) -> bool {
        self.start >= -(HEADROOM as i32)
    }

    /// Where the packet reaches at least to a place.
    pub fn reaches(&self, d: &Diagrams, place: i32) -> Bit {
        real(d, place).at_most(d, &self.end)
    }

    /// A byte that nobody has written.
    pub(super) fn unwritten(&self, d: &Diagrams, place: i32) -> Byte {
        match self.version {
            None => d.input(place),
            Some(version) => d.remade(version, place),
        }
    }

    /// A byte.
    pub fn byte(&self, d: &Diagrams, place: i32) -> Byte {
        self.watch(d, place, None);
        self.named(d, place)
    }

    /// A byte of an IP header that starts `at` a place, for packets whose header reaches there; for others any.
    pub(super) fn header_byte(&self, d: &Diagrams, at: i32, place: i32) -> Byte {
        self.watch(d, place, Some(&self.header_reaches(d, at, place)));
        self.named(d, place)
    }

    /// Where an IP header that starts `at` a place reaches beyond another place, as far as it says.
    pub(super) fn header_reaches(&self, d: &Diagrams, at: i32, place: i32) -> Bit {
        let behind = place - at;
        if behind < IPV4_HEADER {
            return d.yes();
        }
        let least = behind as u128 / 4 + 1;
        bits_in(d, &self.byte(d, at)[4..], &IntervalSet::one(least, 15))
    }

    /// A byte of one of two packets of which all names are compared, or all merged.
    pub fn compared(&self, d: &Diagrams, place: i32) -> Byte {
        // What nobody has written in a region has to be what the frame has there.
        if in_region(place) { self.byte(d, place) } else { self.named(d, place) }
    }

    /// A byte under one of its names. Where it may have another one, this is what that says for equal packets only: packets
    /// that are equal under all names are equal, because what was written in a region stands above the frame in each.
    fn named(&self, d: &Diagrams, place: i32) -> Byte {
        if let Some((key, sum)) = self.sums.iter().find(|(key, _)| key.field().contains(&place)) {
            let bits = sum.bits(d, *key);
            let half = (place - key.field().start) as usize * 8;
            return to_byte(&bits[half..half + 8], d);
        }
        match self.bytes.get(&place) {
            Some(byte) => byte.clone(),
            None if place < self.own && !in_region(self.own) => std::array::from_fn(|_| d.no()),
            None => self.unwritten(d, place),
        }
    }

    /// Bytes one behind the other, most significant bit first.
    pub fn bits(&self, d: &Diagrams, place: i32, length: usize) -> Vec<Bit> {
        (0..length as i32).flat_map(|i| self.byte(d, place + i)).collect()
    }

    /// Writes a byte.
    pub fn set_byte(&mut self, d: &Diagrams, place: i32, byte: Byte) {
        self.watch(d, place, None);
        self.write(d, place, byte);
    }

    /// Writes a byte of an IP header that starts `at` a place, for packets whose header reaches there.
    fn set_header_byte(&mut self, d: &Diagrams, at: i32, place: i32, byte: &Byte) {
        let reaches = self.header_reaches(d, at, place);
        let old = self.header_byte(d, at, place);
        self.write(d, place, std::array::from_fn(|i| d.choose(&reaches, &byte[i], &old[i])));
    }

    fn write(&mut self, d: &Diagrams, place: i32, byte: Byte) {
        // A checksum that is written like any other byte is nobody's any more.
        let keys: Vec<SumKey> =
            self.sums.keys().filter(|key| key.field().contains(&place)).copied().collect();
        for key in keys {
            self.release(d, key);
        }
        self.bytes.insert(place, byte);
    }

    /// Makes a kept checksum two bytes like others.
    pub(super) fn release(&mut self, d: &Diagrams, key: SumKey) {
        if let Some(sum) = self.sums.remove(&key) {
            let bits = sum.bits(d, key);
            for (place, byte) in key.field().zip(bits.chunks(8)) {
                self.bytes.insert(place, to_byte(byte, d));
            }
        }
    }

    /// Forgets what was written into a checksum's place, because it is kept from now on. Others that overlap with it are
    /// bytes like others then.
    pub(super) fn keep(&mut self, d: &Diagrams, key: SumKey, sum: Sum) {
        let overlaps = |other: &SumKey| *other != key && other.field().any(|p| key.field().contains(&p));
        let others: Vec<SumKey> = self.sums.keys().filter(|other| overlaps(other)).copied().collect();
        others.into_iter().for_each(|other| self.release(d, other));
        for place in key.field() {
            self.bytes.remove(&place);
        }
        self.sums.insert(key, sum);
    }

    /// Whether somebody has written there.
    pub(super) fn is_written(&self, place: i32) -> bool {
        self.bytes.contains_key(&place)
    }

    /// Places that were written, other checksums that are kept among them.
    pub(super) fn written_beside(&self, key: SumKey) -> impl Iterator<Item = i32> {
        let others = self.sums.keys().filter(move |other| **other != key);
        self.written().chain(others.flat_map(|other| other.field()))
    }

    /// The function that all bytes come from that nobody wrote, if they did not come in.
    pub(super) fn version(&self) -> Option<u32> {
        self.version
    }

    /// Places that were written, lowest first.
    pub fn written(&self) -> impl DoubleEndedIterator<Item = i32> {
        self.bytes.keys().copied()
    }

    /// Whether bytes that nobody wrote are those of the packet that came in.
    pub fn is_original(&self) -> bool {
        self.version.is_none() && self.lost.is_none()
    }

    /// A byte of what comes along.
    pub fn side(&self, d: &Diagrams, side: Side) -> Byte {
        match self.side.get(&side) {
            Some(byte) => byte.clone(),
            None if side < TIME => std::array::from_fn(|_| d.no()),
            None => std::array::from_fn(|bit| d.symbol(Symbol::Side(side, 7 - bit as u8))),
        }
    }

    fn sides(&self, d: &Diagrams, first: Side, length: usize) -> Vec<Bit> {
        (0..length).flat_map(|i| self.side(d, first.saturating_add(i as Side))).collect()
    }

    /// The value of a field.
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

    /// How far behind the start a header is, and where it is marked.
    fn header_offset(&self, d: &Diagrams, base: Base) -> (Word, Bit) {
        match self.place(base) {
            Some(place) => {
                let at = real(d, place);
                // Outside of the slot it is not marked.
                let is_set = match is_anywhere(d, place) {
                    true => at.within(d, i64::from(*SLOT.start()), i64::from(*SLOT.end())),
                    false => d.yes(),
                };
                (at.minus(d, &real(d, self.start)), is_set)
            }
            None => (Word::constant(d, 0), d.no()),
        }
    }

    /// Notes where a byte may have been written under another name: in a region and in the frame, or in two regions. Where
    /// only packets of some condition count, others may.
    fn watch(&self, d: &Diagrams, place: i32, within: Option<&Bit>) {
        let mut written = self.bytes.keys().copied().chain(self.sums.keys().map(|key| key.field().start));
        // Bytes in front of where a region may start do not lie in it.
        let overlaps = match region_of(place) {
            None => written.any(|other| match region_of(other) {
                Some((region, offset)) => {
                    let meets = |within| d.overlap(within, &starts_by(d, region, place));
                    offset < 0 || place >= d.least_start(region) && within.is_none_or(meets)
                }
                None => false,
            }),
            // In front of a region is the frame as it is; behind its start only what may be there counts.
            Some((region, offset)) => written.any(|other| match region_of(other) {
                Some((other, _)) => other != region,
                None => {
                    let changed = || self.is_changed(d, other, &starts_by(d, region, other));
                    offset < 0 || other >= d.least_start(region) && changed()
                }
            }),
        };
        if overlaps {
            d.note_overlap();
        }
    }

    /// Whether a place that was written holds something else than before, for packets of a condition.
    fn is_changed(&self, d: &Diagrams, place: i32, condition: &Bit) -> bool {
        let Some(byte) = self.bytes.get(&place) else { return true };
        d.differences(byte, &self.unwritten(d, place)).any(|bit| d.overlap(condition, &bit))
    }

    /// The first place of the frame that may be behind an IP header.
    pub(super) fn frontier(&self) -> i32 {
        self.headers[1].filter(|place| !in_region(*place)).map_or(0, |network| network + IPV4_HEADER)
    }

    /// A number made of fields, and where there is one.
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

    /// Writes a field of bytes or of what comes along; says which places of the packet were written.
    pub fn set_field(&mut self, d: &Diagrams, field: &Field, bits: &[Bit]) -> std::ops::Range<i32> {
        if let Field::Bytes { base, offset, length } = *field {
            let Some(place) = self.place(base) else { return 0..0 };
            let places = place + offset..place + offset + i32::from(length);
            for (place, byte) in places.clone().zip(bits.chunks(8)) {
                self.set_byte(d, place, to_byte(byte, d));
            }
            return places;
        }
        let Some((first, length)) = sides_of(field) else { return 0..0 };
        // What nobody looks at need not be kept: packets that differ in nothing else are the same.
        let sides = (first..first.saturating_add(length)).zip(bits.chunks(8));
        for (side, byte) in sides.filter(|(side, _)| d.is_looked_at(*side)) {
            self.side.insert(side, to_byte(byte, d));
        }
        0..0
    }

    /// Writes bytes of the network header, as far as that reaches.
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

    /// Moves the start to a place. A packet that ends before becomes empty.
    pub fn start_at(&mut self, d: &Diagrams, place: i32) {
        if in_region(place) == in_region(self.start) {
            return self.strip(d, place - self.start);
        }
        let start = real(d, place);
        self.end = Word::choose(d, &self.reaches(d, place), &self.end, &start);
        self.start = place;
    }

    /// Moves the start by so many bytes. A packet with fewer becomes empty; what was never part of it is zero.
    pub fn strip(&mut self, d: &Diagrams, n: i32) {
        let start = self.start.saturating_add(n);
        if n > 0 {
            let empty = real(d, start);
            self.end = Word::choose(d, &self.reaches(d, start), &self.end, &empty);
        }
        if !in_region(start) {
            for place in start..self.own {
                let zero = std::array::from_fn(|_| d.no());
                self.set_byte(d, place, zero);
            }
            self.own = self.own.min(start);
        }
        self.start = start;
    }

    /// From now on bytes come from a function, wherever they stand.
    pub fn rewrite(&mut self, term: u32) {
        self.bytes.clear();
        self.sums.clear();
        self.version = Some(term);
    }

    /// All there is to know of it.
    pub fn digest(&self, d: &Diagrams) -> Term {
        let mark = |place: Option<i32>| place.map_or(i64::MIN, i64::from);
        let term = |term: Option<u32>| term.map_or(-1, i64::from);
        let mut numbers = vec![self.start.into(), self.own.into(), term(self.version), term(self.lost)];
        numbers.extend(self.headers.map(mark));
        let mut bits = self.end.bits().to_vec();
        // Who writes what stands there anyway has not changed anything.
        for (&place, byte) in self.bytes.iter().filter(|(place, byte)| **byte != self.unwritten(d, **place)) {
            numbers.push(place.into());
            bits.extend(byte.iter().cloned());
        }
        for key in self.sums.keys() {
            numbers.push(key.field().start.into());
            bits.extend(key.field().flat_map(|place| self.byte(d, place)));
        }
        for (&side, byte) in &self.side {
            numbers.push(i64::from(side) - 1000);
            bits.extend(byte.iter().cloned());
        }
        Term { name: String::new(), numbers, bits }
    }

    /// Which of some bytes, behind a place, are not those of the packet that came in, and what they are.
    pub(super) fn changes(&self, d: &Diagrams, from: i32, is_part: &dyn Fn(i32) -> bool) -> Term {
        let version = self.version.map_or(-1, i64::from);
        let never_there = self.own.saturating_sub(from).max(0);
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

    /// What must be equal for packets to be comparable byte by byte.
    fn layout(&self) -> (i32, [Option<i32>; 3], i32, Option<u32>, Option<u32>) {
        (self.start, self.headers, self.own, self.version, self.lost)
    }

    /// Whether two packets are equal for all packets that came in of a condition, in all that an element could look at.
    pub fn are_same(d: &Diagrams, condition: &Bit, a: &Packet, b: &Packet) -> bool {
        if a == b {
            return true;
        }
        let same =
            |x: &[Bit], y: &[Bit]| x == y || d.differences(x, y).all(|bit| !d.overlap(condition, &bit));
        if a.layout() != b.layout() || !same(a.end.bits(), b.end.bits()) {
            return false;
        }
        let sides: BTreeSet<Side> = a.side.keys().chain(b.side.keys()).copied().collect();
        let sums: BTreeSet<SumKey> = a.sums.keys().chain(b.sums.keys()).copied().collect();
        // Checksums have their own comparison.
        let is_plain = |place: &i32| !sums.iter().any(|key| key.field().contains(place));
        let places: BTreeSet<i32> = a.written().chain(b.written()).filter(is_plain).collect();
        let equal_sum = |key: &SumKey| {
            Sum::differences(d, *key, a, b).iter().all(|different| !d.overlap(condition, different))
        };
        sides.into_iter().all(|side| same(&a.side(d, side), &b.side(d, side)))
            && places.into_iter().all(|place| same(&a.compared(d, place), &b.compared(d, place)))
            && sums.iter().all(equal_sum)
    }

    /// Whether a function of these fields sees the same of two packets, for all packets that came in of a condition.
    pub fn look_the_same(
        d: &Diagrams,
        condition: &Bit,
        [a, b]: [&Packet; 2],
        reads: &[Field],
        in_header: bool,
    ) -> bool {
        if a == b {
            return true;
        }
        if a.lost.is_some() || b.lost.is_some() || reads.contains(&Field::Payload) {
            return Packet::are_same(d, condition, a, b);
        }
        reads.iter().all(|field| match *field {
            // Where the packet ends in the middle, those before the end are seen.
            Field::Bytes { base, offset, length } => (0..i32::from(length)).all(|more| {
                let place = |packet: &Packet| Some(packet.place(base)?.saturating_add(offset + more));
                let options = in_header && base == Base::Network && offset + more >= IPV4_HEADER;
                match (place(a), place(b)) {
                    (Some(x), Some(y)) if options => {
                        Packet::show_the_same_option(d, condition, [(a, x), (b, y)])
                    }
                    (x, y) => Packet::show_the_same_byte(d, condition, [(a, x), (b, y)]),
                }
            }),
            _ => {
                let (x, y) = (a.field(d, field), b.field(d, field));
                let same = |x: &Bit, y: &Bit| x == y || !d.overlap(condition, &d.xor(x, y));
                same(&x.there, &y.there) && x.bits.iter().zip(&y.bits).all(|(x, y)| same(x, y))
            }
        })
    }

    /// Whether both are the same byte of the IP header, where that reaches there.
    fn show_the_same_option(d: &Diagrams, condition: &Bit, seen: [(&Packet, i32); 2]) -> bool {
        let [(a, x), (b, y)] = seen;
        let [Some(left), Some(right)] = [a.headers[1], b.headers[1]] else { return false };
        let [reaches, other] = [a.header_reaches(d, left, x), b.header_reaches(d, right, y)];
        let within = d.and(condition, &reaches);
        if d.overlap(condition, &d.xor(&reaches, &other)) {
            return false;
        }
        let [bits, others] = [a.header_byte(d, left, x), b.header_byte(d, right, y)];
        let [ends, ends_too] = [a.reaches(d, x + 1), b.reaches(d, y + 1)];
        bits == others && ends == ends_too
            || !d.overlap(&within, &d.xor(&ends, &ends_too))
                && d.differences(&bits, &others).all(|bit| !d.overlap(&d.and(&within, &ends), &bit))
    }

    fn show_the_same_byte(d: &Diagrams, condition: &Bit, seen: [(&Packet, Option<i32>); 2]) -> bool {
        let there = |(packet, place): (&Packet, Option<i32>)| match place {
            Some(place) => packet.reaches(d, place.saturating_add(1)),
            None => d.no(),
        };
        let (x, y) = (there(seen[0]), there(seen[1]));
        if x != y && d.overlap(condition, &d.xor(&x, &y)) {
            return false;
        }
        let [(a, Some(left)), (b, Some(right))] = seen else { return true };
        let within = d.and(condition, &x);
        let mut sums = a.sums.keys().chain(b.sums.keys());
        let differences = match sums.find(|key| left == right && key.field().contains(&left)) {
            _ if d.is_never(&within) => Vec::new(),
            // Checksums have their own comparison.
            Some(key) => Sum::differences(d, *key, a, b),
            None => d.differences(&a.byte(d, left), &b.byte(d, right)).collect(),
        };
        differences.iter().all(|different| !d.overlap(&within, different))
    }

    /// One packet for two conditions, which exclude each other; `None` if they are laid out differently. Checksums that
    /// came about in different ways, or are kept in one of them only, become harder to know; if that is not to be
    /// (`releases`), there is no such packet either.
    pub fn merge(
        d: &Diagrams,
        [condition, other]: [&Bit; 2],
        a: &Packet,
        b: &Packet,
        releases: bool,
    ) -> Option<Packet> {
        if a == b {
            return Some(a.clone());
        }
        let same_sums = || a.sums.keys().eq(b.sums.keys());
        if a.layout() != b.layout() || !releases && !same_sums() {
            return None;
        }
        // Other packets than these are not there, so that what both conditions say need not be asked for each bit.
        let condition = &d.within(condition, &d.or(condition, other));
        let (mut a, mut b) = (a.clone(), b.clone());
        let mut merged = Packet { end: Word::choose(d, condition, &a.end, &b.end), ..a.clone() };
        let keys: Vec<SumKey> = a.sums.keys().chain(b.sums.keys()).copied().collect();
        merged.sums.clear();
        for key in keys {
            match Sum::merge(d, condition, key, &a, &b) {
                Some(sum) => {
                    merged.sums.insert(key, sum);
                }
                None if !releases => return None,
                None => {
                    a.release(d, key);
                    b.release(d, key);
                }
            }
        }
        let choose =
            |a: Byte, b: Byte| -> Byte { std::array::from_fn(|i| d.choose(condition, &a[i], &b[i])) };
        merged.bytes.clear();
        for place in a.written().chain(b.written()) {
            if !merged.bytes.contains_key(&place) && !merged.sums.keys().any(|k| k.field().contains(&place)) {
                merged.bytes.insert(place, choose(a.compared(d, place), b.compared(d, place)));
            }
        }
        let sides: Vec<Side> = a.side.keys().chain(b.side.keys()).copied().collect();
        for side in sides {
            merged.side.insert(side, choose(a.side(d, side), b.side(d, side)));
        }
        Some(merged)
    }

    /// Where a checksum of a marked header is.
    pub(super) fn sum_key(&self, header: Header, base: Base, offset: i32) -> Option<SumKey> {
        let at = self.place(base)? + offset;
        Some(SumKey::new(header, at, self.headers[1].unwrap_or(at)))
    }
}

/// Where the headers are of packets that an element makes, and of which the first one is known.
pub fn headers_of(starts: Option<Header>) -> [Option<i32>; 3] {
    match starts {
        Some(Header::Ethernet) | None => [Some(0), None, None],
        Some(Header::Ipv4) => [None, Some(0), Some(20)],
        Some(Header::Ipv6) => [None, Some(0), Some(40)],
        Some(_) => [None; 3],
    }
}

/// A packet as a source gives it: marked, and with what comes along, as its declaration says.
pub fn incoming(d: &Diagrams, source: &Effects) -> Packet {
    let starts = source.emits.first().and_then(|emit| emit.starts);
    let mut packet = Packet::incoming(d, headers_of(starts));
    for action in source.cases.iter().flat_map(|case| &case.actions) {
        match action {
            Action::Set(Field::HeaderOffset(base), Value::Constant(bytes)) => {
                let offset = bytes.iter().fold(0, |n, &byte| n << 8 | i32::from(byte));
                packet.mark(*base, (!bytes.is_empty()).then_some(offset));
            }
            // Where the header is, only the source knows.
            Action::Set(Field::HeaderOffset(_), _) => {
                let term = Term { name: "whatever the source gives".into(), ..Term::default() };
                return Packet::lost(d, d.term(term));
            }
            Action::Set(field @ Field::Annotation { offset, length }, value) => {
                let bits: Vec<Bit> = match value {
                    Value::Constant(bytes) => bytes
                        .iter()
                        .flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1))
                        .map(|bit| d.constant(bit))
                        .collect(),
                    _ => (*offset..offset.saturating_add(*length))
                        .flat_map(|side| (0..8).rev().map(move |bit| Symbol::Side(side, bit)))
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

/// Where a region starts at a place of the frame or in front of it.
fn starts_by(d: &Diagrams, region: usize, place: i32) -> Bit {
    real(d, start_of(region)).at_most(d, &Word::constant(d, place.into()))
}

/// Eight bits as a byte.
pub(super) fn to_byte(bits: &[Bit], d: &Diagrams) -> Byte {
    std::array::from_fn(|i| bits.get(i).cloned().unwrap_or_else(|| d.no()))
}
