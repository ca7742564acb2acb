//! The symbolic packet of the compiler: its contents at one point of a path, as expressions over the input
//! packet.
//!
//! Offsets are counted from the first byte of the input packet. An operation in the SNF paper is the
//! difference between this packet and an unmodified packet.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use classify::IntervalSet;
use element::Base;
use element::effects::{Field, Filter, HeaderKind, Number, Predicate};

use super::formula::{AnswerTest, Formula, UNKNOWN};
use program::location::{ByteLocation, ByteValue, IPV4, IPV4_SUM};
use program::question::{AnswerSum, LeasedProperty, Question, preimage, shifted};

/// The value of consecutive bytes, as an expression over the program's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputExpression {
    /// A constant.
    Constant(Vec<u8>),
    /// A big-endian number of the input plus a constant: the location, the length in bytes, and the
    /// constant.
    Came(ByteLocation, u8, i64),
    /// An input byte with some bits changed: the location, the mask of the bits that are kept, and the bits
    /// that are set.
    Masked(ByteLocation, u8, u8),
    /// Bytes that are not known, or for which there is no single expression.
    Mixed,
}

/// The state of the checksum of an IPv4 header without options: none, or the writes that updates of the
/// checksum account for, or computed from scratch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Summed {
    /// No element has updated or computed the checksum, or an element has overwritten it since.
    #[default]
    Not,
    /// Elements have updated the checksum for writes. The first number is the offset of the header; the set
    /// has the offsets of all bytes of the header that were written with an update.
    Updated(i32, BTreeSet<i32>),
    /// An element has computed the checksum of the header at this offset from scratch.
    Recomputed(i32),
}

impl Summed {
    /// Returns the offset of the header whose checksum elements have updated or computed; `None` in the state
    /// `Not`.
    pub fn header(&self) -> Option<i32> {
        match self {
            Summed::Not => None,
            Summed::Updated(header, _) | Summed::Recomputed(header) => Some(*header),
        }
    }
}

/// A checksum of TCP or UDP that elements have updated, and the writes that it accounts for. It covers the
/// transport header, the payload and the IP addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportSummed {
    /// The transport protocol: TCP or UDP.
    pub protocol: HeaderKind,
    /// The offset of the IPv4 header from the start of the input packet.
    pub network: i32,
    /// The offset of the transport header from the start of the input packet.
    pub transport: i32,
    /// The offsets of all covered bytes that were written with an update of the checksum.
    pub places: BTreeSet<i32>,
}

impl TransportSummed {
    /// True if the checksum covers the byte at an offset: the IP addresses, and all bytes from the
    /// transport header on. The pseudo-header's protocol and length are not counted, because elements that
    /// update this checksum do not change them.
    pub fn covers(&self, place: i32) -> bool {
        let addresses = self.network + 12..self.network + 20;
        place >= self.transport || addresses.contains(&place)
    }

    /// Returns the offset of the checksum field from the start of the input packet.
    pub fn place(&self) -> i32 {
        self.transport + if self.protocol == HeaderKind::Tcp { 16 } else { 6 }
    }
}

/// A flag that becomes true if any path has depended on the offset of the link header in the input packet.
/// All symbolic packets of a walk share the flag, so comparisons of packets ignore it.
#[derive(Clone, Debug, Default)]
pub struct LinkAsked(Rc<Cell<bool>>);

impl PartialEq for LinkAsked {
    fn eq(&self, _: &LinkAsked) -> bool {
        true
    }
}

impl Eq for LinkAsked {}

impl Hash for LinkAsked {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The symbolic packet at one point of a path. Packets are equal if their contents are; `link_asked` does
/// not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolicPacket {
    /// The offset at which the packet starts, from the start of the input packet.
    pub start: i32,
    /// The offsets, from the start of the input packet, at which the link, network and transport header are
    /// marked; `None` for a header without a mark.
    pub headers: [Option<i32>; 3],
    /// True if an element on the path has marked the link header, so that its offset in the input no longer
    /// matters.
    pub link_marked: bool,
    /// The flag that is set if any path of the walk depends on the offset of the link header in the input
    /// packet.
    link_asked: LinkAsked,
    /// The offset at which the packet ends, from the start of the input packet: a sum over answers about that
    /// packet.
    pub end: AnswerSum,
    /// The values of the bytes that differ from the input, by their offset.
    pub bytes: BTreeMap<i32, ByteValue>,
    /// The values of the annotations that differ from the input, by their offset.
    pub annotations: BTreeMap<u8, ByteValue>,
    /// The offsets of annotations that a stateful element has written, even if another element has
    /// overwritten them.
    pub rewritten: BTreeSet<u8>,
    /// The packet type that elements have set; `None` if none has set it.
    pub kind: Option<u8>,
    /// The input port that elements have recorded in the packet; `None` if none has recorded any.
    pub port: Option<u8>,
    /// True if an element has made an Ethernet frame of the packet, so that its link type, which captures
    /// record, is set.
    pub framed: bool,
    /// True if the time stamp has been set to the time at which the chain processes the packet.
    pub stamped: bool,
    /// The state of the IPv4 header's checksum.
    pub summed: Summed,
    /// The state of the TCP or UDP checksum; `None` if no element has updated it.
    pub transport_summed: Option<TransportSummed>,
}

impl SymbolicPacket {
    /// Returns an unmodified input packet with headers marked at these offsets.
    pub fn incoming(headers: [Option<i32>; 3]) -> SymbolicPacket {
        SymbolicPacket {
            start: 0,
            headers,
            link_marked: false,
            link_asked: LinkAsked::default(),
            end: AnswerSum::of(Question::Length),
            bytes: BTreeMap::new(),
            annotations: BTreeMap::new(),
            rewritten: BTreeSet::new(),
            kind: None,
            port: None,
            framed: false,
            stamped: false,
            summed: Summed::Not,
            transport_summed: None,
        }
    }

    /// Returns the offset, from the start of the input packet, that a base refers to: the start of the packet
    /// or of a header. Returns `None` if the header is not marked. If the base is the link header, and its
    /// offset comes from the input, this dependence is recorded.
    pub fn place(&self, base: Base) -> Option<i32> {
        match base {
            Base::Data => Some(self.start),
            Base::Mac => {
                if !self.link_marked {
                    self.link_asked.0.set(true);
                }
                self.headers[0]
            }
            Base::Network => self.headers[1],
            Base::Transport => self.headers[2],
        }
    }

    /// Marks a header at an offset from the start of the input packet, or removes the mark (`None`).
    pub fn mark(&mut self, base: Base, place: Option<i32>) {
        match base {
            Base::Data => {}
            Base::Mac => {
                self.link_marked = true;
                self.headers[0] = place;
            }
            Base::Network => self.headers[1] = place,
            Base::Transport => self.headers[2] = place,
        }
    }

    /// True if any path of the walk has depended on the offset of the link header in the input packet. Then
    /// the program has to check that offset.
    pub fn is_link_asked(&self) -> bool {
        self.link_asked.0.get()
    }

    /// Returns the condition that the packet has all bytes up to the offset `place`, which is counted from
    /// the start of the input packet.
    pub fn reaches(&self, place: i32) -> Formula {
        AnswerTest::at_least_zero(self.end.clone().plus_constant(-i64::from(place)))
    }

    /// Returns the value of the byte at a location.
    pub fn byte(&self, place: ByteLocation) -> ByteValue {
        let written = match place {
            ByteLocation::Byte(place) => self.bytes.get(&place),
            ByteLocation::Annotation(place) => self.annotations.get(&place),
            ByteLocation::Leased(..) => None,
        };
        written.cloned().unwrap_or(ByteValue::Came(place))
    }

    /// True if no sum (a number of the input plus a constant, written to several bytes) has been overwritten
    /// in part. The rest of such a sum cannot be expressed as a write.
    pub fn is_whole(&self) -> bool {
        let bytes = self.bytes.iter().map(|(place, byte)| (ByteLocation::Byte(*place), byte));
        let annotations =
            self.annotations.iter().map(|(place, byte)| (ByteLocation::Annotation(*place), byte));
        bytes.chain(annotations).all(|(at, byte)| match *byte {
            ByteValue::Plus { place, length, plus, index } => {
                let first = at.after(-i32::from(index));
                let part = |index| ByteValue::Plus { place, length, plus, index };
                (0..length).all(|index| self.byte(first.after(index.into())) == part(index))
            }
            _ => true,
        })
    }

    /// Returns the value of `length` consecutive bytes.
    pub fn value(&self, first: ByteLocation, length: u8) -> InputExpression {
        // Bytes before the input packet have no known value, unless the program has written them.
        if matches!(first, ByteLocation::Byte(place) if (place..place.saturating_add(length.into()).min(0)).any(|p| !self.bytes.contains_key(&p)))
        {
            return InputExpression::Mixed;
        }
        // The bytes of a checksum field that elements update have no known value here: the program updates
        // the checksum as a whole after all writes.
        if let ByteLocation::Byte(place) = first
            && self.sums().any(|sum| place < sum + 2 && sum < place.saturating_add(length.into()))
        {
            return InputExpression::Mixed;
        }
        let bytes: Vec<ByteValue> = (0..i32::from(length)).map(|more| self.byte(first.after(more))).collect();
        let constant = bytes.iter().map(|byte| match byte {
            ByteValue::Constant(byte) => Some(*byte),
            _ => None,
        });
        if let Some(constant) = constant.collect::<Option<Vec<u8>>>() {
            return InputExpression::Constant(constant);
        }
        match &bytes[0] {
            ByteValue::Came(place) => {
                let together =
                    |(more, byte): (usize, &ByteValue)| *byte == ByteValue::Came(place.after(more as i32));
                if bytes.iter().enumerate().all(together) {
                    return InputExpression::Came(*place, length, 0);
                }
            }
            ByteValue::Plus { place, length: whole, plus, .. } if *whole == length => {
                let is_part = |(index, byte): (usize, &ByteValue)| {
                    *byte == ByteValue::Plus { place: *place, length, plus: *plus, index: index as u8 }
                };
                if bytes.iter().enumerate().all(is_part) {
                    return InputExpression::Came(*place, length, *plus);
                }
            }
            ByteValue::Masked { place, and, or } if length == 1 => {
                return InputExpression::Masked(*place, *and, *or);
            }
            _ => {}
        }
        InputExpression::Mixed
    }

    /// Returns the offsets of the checksum fields that elements have updated or computed.
    fn sums(&self) -> impl Iterator<Item = i32> {
        let network = self.summed.header().map(|header| header + IPV4_SUM);
        network.into_iter().chain(self.transport_summed.as_ref().map(TransportSummed::place))
    }

    /// Returns the location and the length of a field of bytes or annotations; `None` for other fields, for
    /// fields of more than 255 bytes, and if the field's header is not marked.
    pub fn whereabouts(&self, field: &Field) -> Option<(ByteLocation, u8)> {
        match *field {
            Field::Bytes { base, offset, length } => {
                let place = self.place(base)?.checked_add(offset)?;
                Some((ByteLocation::Byte(place), u8::try_from(length).ok()?))
            }
            Field::Annotation { offset, length } => Some((ByteLocation::Annotation(offset), length)),
            _ => None,
        }
    }

    /// Writes bytes to consecutive locations from `first` on.
    pub fn write(&mut self, first: ByteLocation, bytes: impl IntoIterator<Item = ByteValue>) {
        for (more, byte) in (0..).zip(bytes) {
            let place = first.after(more);
            let is_old = byte == ByteValue::Came(place);
            match place {
                ByteLocation::Byte(place) => put(&mut self.bytes, place, byte, is_old),
                ByteLocation::Annotation(place) => put(&mut self.annotations, place, byte, is_old),
                // Leased values are read-only.
                ByteLocation::Leased(..) => {}
            }
        }
    }

    /// Returns a number of a declaration as a sum over the input, and the condition that the packet has the
    /// fields that the number reads. Returns `None` if it cannot be expressed.
    pub fn number(&self, number: &Number) -> Option<(AnswerSum, Formula)> {
        let mut sum = AnswerSum::constant(number.constant);
        let mut there = Vec::new();
        for (factor, field, mask) in &number.terms {
            let term = match field {
                Field::Length => self.end.clone().plus_constant(-i64::from(self.start)),
                Field::HeaderOffset(base) => match self.place(*base) {
                    Some(place) => AnswerSum::constant(i64::from(place) - i64::from(self.start)),
                    None => return Some((AnswerSum::constant(0), Formula::FALSE)),
                },
                field => {
                    let Some((place, length)) = self.whereabouts(field) else {
                        // A header that is not marked has no fields, so conditions on them are false.
                        let is_bytes = matches!(field, Field::Bytes { .. });
                        return is_bytes.then(|| (AnswerSum::constant(0), Formula::FALSE));
                    };
                    there.push(self.has(place, length));
                    match self.value(place, length) {
                        InputExpression::Constant(bytes) => {
                            let value =
                                classify::linear::masked(big_endian(&bytes), effective(*mask, length));
                            AnswerSum::constant(i64::try_from(value).ok()?)
                        }
                        InputExpression::Came(place, length, 0) => {
                            let mask = effective(*mask, length);
                            let mask = if mask == all_ones(length) { u128::MAX } else { mask };
                            AnswerSum { constant: 0, terms: vec![(1, asking(place, length), mask)] }
                        }
                        _ => return None,
                    }
                }
            };
            sum = sum.plus_times(*factor, &term);
        }
        Some((sum, Formula::all(there)))
    }

    fn has(&self, place: ByteLocation, length: u8) -> Formula {
        match place {
            ByteLocation::Byte(first) => self.reaches(first.saturating_add(length.into())),
            ByteLocation::Annotation(_) | ByteLocation::Leased(..) => Formula::TRUE,
        }
    }

    /// Returns a filter of a declaration as a condition on the input packet. This is Algorithm 2 of the SNF
    /// paper, with earlier writes substituted. If an element has set the filter's field to a constant, the
    /// filter becomes true or false. If the field is a function of its value in the input packet, the set of
    /// allowed values is replaced by its pre-image.
    pub fn condition(&self, filter: &Filter) -> Formula {
        filter.replace(&mut |predicate| match predicate {
            Predicate::In { field, mask, set } => self.lies_in(field, *mask, set),
            Predicate::Present(header) => match self.place(header.base()) {
                Some(place) => self.reaches(place.saturating_add(header.least_length().into())),
                None => Formula::FALSE,
            },
            Predicate::RightChecksum { header: HeaderKind::Ipv4, base, offset } => {
                self.right_checksum(*base, *offset)
            }
            Predicate::AtMost(a, b) => match (self.number(a), self.number(b)) {
                (Some((a, a_there)), Some((b, b_there))) => {
                    Formula::all([a_there, b_there, AnswerTest::at_least_zero(b.plus_times(-1, &a))])
                }
                _ => UNKNOWN,
            },
            Predicate::RightChecksum { .. } | Predicate::State { .. } | Predicate::Opaque { .. } => UNKNOWN,
        })
    }

    fn lies_in(&self, field: &Field, mask: u128, set: &IntervalSet) -> Formula {
        match field {
            Field::Kind => match self.kind {
                Some(kind) => Formula::Constant(set.contains(u128::from(kind) & mask)),
                None => AnswerTest::is(Question::Kind, preimage_of(mask, set, 8)),
            },
            Field::Length => {
                let length = self.end.clone().plus_constant(-i64::from(self.start));
                if mask & 0xff_ffff != 0xff_ffff {
                    return UNKNOWN;
                }
                in_any(&length, set)
            }
            Field::HeaderOffset(base) => match self.place(*base) {
                Some(place) => {
                    // Declarations give the offset of a header relative to the packet's start, as a number of
                    // 24 bits.
                    let offset = (i64::from(place) - i64::from(self.start)) as u128 & 0xff_ffff;
                    Formula::Constant(set.contains(offset & mask))
                }
                None => Formula::FALSE,
            },
            Field::Bytes { .. } | Field::Annotation { .. } => {
                let Some((place, length)) = self.whereabouts(field) else { return Formula::FALSE };
                let there = self.has(place, length);
                if mask & all_ones(length) == 0 {
                    return Formula::all([there, Formula::Constant(set.contains(0))]);
                }
                if length > 16 {
                    return UNKNOWN;
                }
                // If possible, only the bytes of the field that have bits in the mask are tested.
                let runs = runs(mask & all_ones(length), length);
                let inside = match (&runs[..], set.intervals()) {
                    (&[(first, width)], _) => {
                        let below = 8 * u32::from(length - first - width);
                        let mask = mask >> below & all_ones(width);
                        let set = scaled(set, below);
                        self.value_lies_in(place.after(first.into()), width, mask, &set)
                    }
                    (_, &[(only, last)]) if only == last => {
                        Formula::all(runs.iter().map(|&(first, width)| {
                            let below = 8 * u32::from(length - first - width);
                            let ones = all_ones(width);
                            let (mask, value) = (mask >> below & ones, only >> below & ones);
                            self.value_lies_in(
                                place.after(first.into()),
                                width,
                                mask,
                                &IntervalSet::one(value, value),
                            )
                        }))
                    }
                    _ => self.value_lies_in(place, length, mask, set),
                };
                Formula::all([there, inside])
            }
            Field::InputPort => match self.port {
                Some(port) => Formula::Constant(set.contains(u128::from(port) & mask)),
                None => UNKNOWN,
            },
            Field::Payload | Field::TimeStamp => UNKNOWN,
        }
    }

    fn value_lies_in(&self, place: ByteLocation, length: u8, mask: u128, set: &IntervalSet) -> Formula {
        let bits = 8 * u32::from(length);
        match self.value(place, length) {
            InputExpression::Constant(bytes) => Formula::Constant(set.contains(big_endian(&bytes) & mask)),
            InputExpression::Came(place, length, plus) => match preimage(mask, set, bits) {
                Some(set) => AnswerTest::is(asking(place, length), shifted(&set, plus, bits)),
                None => UNKNOWN,
            },
            InputExpression::Masked(place, and, or) => {
                let is_in = |byte: &u8| set.contains(u128::from(byte & and | or) & mask);
                let bytes = (0..=u8::MAX).filter(is_in).map(|byte| (u128::from(byte), u128::from(byte)));
                AnswerTest::is(asking(place, 1), bytes.collect())
            }
            InputExpression::Mixed => UNKNOWN,
        }
    }

    /// Returns the condition that the checksum of an IPv4 header is correct. An incremental update keeps a
    /// correct checksum correct, and an incorrect one incorrect, so the condition is that the input packet's
    /// checksum is correct. A checksum that an element has computed is correct. After other writes to the
    /// header, the condition is unknown.
    fn right_checksum(&self, base: Base, offset: i32) -> Formula {
        let Some(place) = self.place(base).and_then(|place| place.checked_add(offset)) else {
            return Formula::FALSE;
        };
        let is_touched = self.bytes.range(place..place + IPV4).next().is_some();
        match &self.summed {
            Summed::Not if !is_touched => {
                AnswerTest::is(Question::RightChecksum { offset: place }, IntervalSet::one(1, 1))
            }
            Summed::Updated(header, _) if *header == place => {
                AnswerTest::is(Question::RightChecksum { offset: place }, IntervalSet::one(1, 1))
            }
            Summed::Recomputed(header) if *header == place => Formula::TRUE,
            _ => UNKNOWN,
        }
    }
}

/// Stores the value of a byte, or removes the entry if the byte has its input value (`is_old`), so that
/// equal packets have equal maps.
fn put<K: Ord>(bytes: &mut BTreeMap<K, ByteValue>, place: K, byte: ByteValue, is_old: bool) {
    match is_old {
        true => bytes.remove(&place),
        false => bytes.insert(place, byte),
    };
}

/// Returns the groups of consecutive bytes that have bits in a mask, each as the index of its first byte
/// and its length. `length` is the number of bytes of the field.
fn runs(mask: u128, length: u8) -> Vec<(u8, u8)> {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for byte in 0..length {
        if mask >> (8 * u32::from(length - 1 - byte)) & 0xff == 0 {
            continue;
        }
        match runs.last_mut() {
            Some((first, width)) if *first + *width == byte => *width += 1,
            _ => runs.push((byte, 1)),
        }
    }
    runs
}

/// Returns the numbers of a set whose lowest `bits` bits are zero, shifted right by `bits`.
fn scaled(set: &IntervalSet, bits: u32) -> IntervalSet {
    let rest = (1u128 << bits) - 1;
    let up = |low: u128| low.checked_add(rest).map_or(u128::MAX >> bits, |low| low >> bits);
    set.intervals()
        .iter()
        .map(|&(low, high)| (up(low), high >> bits))
        .filter(|(low, high)| low <= high)
        .collect()
}

fn preimage_of(mask: u128, set: &IntervalSet, bits: u32) -> IntervalSet {
    // Sets of eight-bit numbers always have a pre-image of few intervals.
    preimage(mask, set, bits).unwrap_or_else(IntervalSet::empty)
}

/// Returns the condition that a sum is in a set of 24-bit numbers.
fn in_any(sum: &AnswerSum, set: &IntervalSet) -> Formula {
    let bound = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
    Formula::any(set.intervals().iter().map(|&(low, high)| {
        let above = AnswerTest::at_least_zero(sum.clone().plus_constant(-bound(low)));
        let below = match high >= 0xff_ffff {
            true => Formula::TRUE,
            false => AnswerTest::at_least_zero(AnswerSum::constant(bound(high)).plus_times(-1, sum)),
        };
        Formula::all([above, below])
    }))
}

/// Returns the question for `length` consecutive bytes of the input.
pub fn asking(place: ByteLocation, length: u8) -> Question {
    match place {
        ByteLocation::Byte(offset) => Question::Bytes { offset, length },
        ByteLocation::Annotation(offset) => Question::Annotation { offset, length },
        ByteLocation::Leased(step, offset) => {
            Question::Leased { step, what: LeasedProperty::Bytes { offset, length } }
        }
    }
}

/// Returns bytes as a big-endian number.
pub fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Returns the number with the lowest `length` bytes set to all ones.
pub fn all_ones(length: u8) -> u128 {
    if length >= 16 { u128::MAX } else { (1 << (8 * u32::from(length))) - 1 }
}

fn effective(mask: u128, length: u8) -> u128 {
    mask & all_ones(length)
}
