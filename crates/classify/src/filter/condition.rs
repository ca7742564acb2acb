//! Translates [`Primitive`]s into tests of header bytes, from which the matcher, the declarations of
//! elements and the listings are made.

use super::{HeaderSlices, Primitive, Protocol, Relation, Sides, Sign, Version};
use crate::{Tree, decision};

/// The header whose bytes a test compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeaderLayer {
    /// The link-layer header.
    Mac,
    /// The IP header.
    Network,
    /// The transport header.
    Transport,
}

/// A test of one to four bytes of a header. As a big-endian number under `mask`, the bytes must be in the
/// range from `low` to `high`, or outside of it. The test fails if the packet lacks any of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The header whose bytes are tested.
    pub header: HeaderLayer,
    /// The offset of the first byte from the start of the header.
    pub offset: u16,
    /// The number of bytes, one to four.
    pub length: u8,
    /// The mask that is applied to the number before it is compared with the range.
    pub mask: u32,
    /// The lowest number of the range, after the mask.
    pub low: u32,
    /// The highest number of the range, after the mask.
    pub high: u32,
    /// True if numbers outside of the range pass and numbers inside fail.
    pub outside: bool,
}

impl Test {
    /// True if the packet has the tested bytes and they pass the test.
    #[inline]
    pub fn holds(&self, headers: &HeaderSlices<'_>) -> bool {
        let header = headers.of(self.header);
        let Some(number) = number(header, self.offset, self.length) else { return false };
        let number = number & self.mask;
        (self.low <= number && number <= self.high) != self.outside
    }

    fn equal(header: HeaderLayer, offset: u16, length: u8, mask: u32, value: u32) -> Test {
        let value = value & mask;
        Test { header, offset, length, mask, low: value, high: value, outside: false }
    }

    /// Returns the ranges of masked numbers for which the test holds; the lowest and the highest number are
    /// included.
    fn numbers(self) -> impl Iterator<Item = (u32, u32)> {
        let (low, high) = (self.low, self.high);
        let ranges = match (self.outside, low <= high) {
            (false, true) => [Some((low, high)), None],
            (false, false) => [None, None],
            (true, true) => [low.checked_sub(1).map(|n| (0, n)), high.checked_add(1).map(|n| (n, u32::MAX))],
            (true, false) => [Some((0, u32::MAX)), None],
        };
        ranges.into_iter().flatten().filter_map(move |(from, to)| {
            let to = to.min(self.mask);
            (from <= to).then_some((from, to))
        })
    }

    /// Returns the test that passes where this test fails. Packets that lack the bytes fail both.
    fn opposite(self) -> Test {
        Test { outside: !self.outside, ..self }
    }
}

impl decision::Test for Test {
    fn implied_by(self, fact: Test, held: bool) -> Option<bool> {
        let bytes = |test: Test| (test.header, test.offset, test.length, test.mask);
        if bytes(self) != bytes(fact) {
            return None;
        }
        let is_within = |inner: Test, outer: Test| {
            inner.numbers().all(|(low, high)| outer.numbers().any(|(from, to)| from <= low && high <= to))
        };
        let meets = |(low, high): (u32, u32)| self.numbers().any(|(from, to)| from <= high && low <= to);
        match held {
            true if is_within(fact, self) => Some(true),
            true if !fact.numbers().any(meets) => Some(false),
            // The test `fact` failed because the packet lacks the bytes, or because their number is not one
            // of those for which `fact` holds. In both cases this test, which holds only for some of those
            // numbers, fails, too.
            false if is_within(self, fact) => Some(false),
            _ => None,
        }
    }
}

/// Returns the big-endian number of `length` bytes (one to four) at `offset`; `None` if the header is too
/// short.
#[inline]
pub(super) fn number(header: &[u8], offset: u16, length: u8) -> Option<u32> {
    let bytes = header.get(offset.into()..)?;
    // The lengths 1, 2 and 4 compile to a single load.
    match length {
        1 => bytes.first().map(|&byte| byte.into()),
        2 => bytes.first_chunk().map(|&bytes| u16::from_be_bytes(bytes).into()),
        4 => bytes.first_chunk().map(|&bytes| u32::from_be_bytes(bytes)),
        _ => {
            let bytes = bytes.get(..length.into())?;
            Some(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
        }
    }
}

/// The condition of a rule as a Boolean expression of tests of header bytes.
pub type Condition = Tree<Test>;

impl Primitive {
    /// Translates the primitive into tests of header bytes. The condition holds for the same packets as the
    /// primitive.
    pub fn condition(&self) -> Condition {
        match *self {
            Primitive::Host { version, ends, address, mask, opposite } => {
                let (first, words) = if version == Version::V4 { (12, 1) } else { (8, 4) };
                let at = |first: u16| {
                    (0..words).map(move |i| {
                        let shift = 32 * (words - 1 - i);
                        let (mask, value) = ((mask >> shift) as u32, (address >> shift) as u32);
                        Test::equal(HeaderLayer::Network, first + 4 * i, 4, mask, value)
                    })
                };
                let [source, destination] = [at(first), at(first + 4 * words)].map(Iterator::collect);
                Tree::All(vec![of_version(version), at_ends(ends, opposite, source, destination)])
            }
            Primitive::Ether { ends, address, mask, opposite } => {
                let part = |offset: u16, bytes: std::ops::Range<usize>| {
                    let number = |b: &[u8; 6]| b[bytes.clone()].iter().fold(0, |n, &b| n << 8 | u32::from(b));
                    let length = bytes.len() as u8;
                    Test::equal(HeaderLayer::Mac, offset, length, number(&mask), number(&address))
                };
                // Ethernet addresses are divided at the borders of the words in Click's listings, which begin
                // two bytes before the header.
                let source = vec![part(6, 0..4), part(10, 4..6)];
                at_ends(ends, opposite, source, vec![part(0, 0..2), part(2, 2..6)])
            }
            Primitive::ProtocolNumber { version, relation } => {
                Tree::All(vec![of_version(version), compare(protocol_field(version), 0xff, 0, relation)])
            }
            Primitive::ProtocolSet { version, protocol, opposite } => {
                let member = match (protocol, opposite) {
                    (Protocol::TcpOrUdp, true) => {
                        Tree::All([6, 17].map(|n| Tree::Leaf(protocol_is(version, n).opposite())).to_vec())
                    }
                    (Protocol::Any, true) => Tree::Constant(false),
                    _ => of_protocol(protocol, version),
                };
                Tree::All(vec![of_version(version), member])
            }
            Primitive::Fragment { fragment } => {
                let whole = Test::equal(HeaderLayer::Network, 6, 2, 0x3fff, 0);
                Tree::Leaf(if fragment { whole.opposite() } else { whole })
            }
            Primitive::Port { version, protocol, ends, relation } => {
                let ports = match relation {
                    Relation::Always(value) => Tree::Constant(value),
                    Relation::Compare { mask, sign, value } => {
                        let plain = match sign {
                            Sign::NotEqual => Sign::Equal,
                            Sign::Less => Sign::GreaterOrEqual,
                            Sign::LessOrEqual => Sign::Greater,
                            sign => sign,
                        };
                        let port = |offset| {
                            let field = Test::equal(HeaderLayer::Transport, offset, 2, 0, 0);
                            vec![range(field, 0xffff, 0, mask, plain, value)]
                        };
                        at_ends(ends, sign.is_opposite(), port(0), port(2))
                    }
                };
                starting_with(protocol, version, ports)
            }
            Primitive::TcpFlags { version, flags } => {
                let test = Test::equal(HeaderLayer::Transport, 13, 1, flags.into(), flags.into());
                starting_with(Protocol::TCP, version, unless_empty(test))
            }
            Primitive::Field { version, place, relation } => {
                let (first, end) = (place.bit, place.bit + u32::from(place.bits));
                let header =
                    if place.protocol.is_some() { HeaderLayer::Transport } else { HeaderLayer::Network };
                let length = end.div_ceil(8) - first / 8;
                let field = Test::equal(header, (first / 8) as u16, length as u8, 0, 0);
                let test = compare(field, place.largest(), end.div_ceil(8) * 8 - end, relation);
                match place.protocol {
                    Some(protocol) => starting_with(protocol, version, test),
                    None => Tree::All(vec![of_version(version), test]),
                }
            }
        }
    }
}

/// Returns the test as a condition. A test with mask 0 compares nothing and becomes a constant, so packets
/// need not have the bytes that it names.
fn unless_empty(test: Test) -> Condition {
    if test.mask == 0 { Tree::Constant(!test.outside) } else { Tree::Leaf(test) }
}

/// Combines the tests of the source and of the destination (such as their addresses), as `ends` requires:
/// either, both, or one of them. An end fits if all of its tests hold. `opposite` negates the combination:
/// for example, `host != A` requires that both the source and the destination differ from A.
fn at_ends(ends: Sides, opposite: bool, source: Vec<Test>, destination: Vec<Test>) -> Condition {
    let one = |tests: Vec<Test>| {
        let telling: Vec<Test> = tests.iter().filter(|t| t.mask != 0).copied().collect();
        let last = tests[tests.len() - 1];
        match (telling.is_empty(), opposite) {
            (true, opposite) => Tree::Constant(!opposite),
            (false, false) if last.mask != 0 => Tree::all(telling.into_iter().map(Tree::Leaf)),
            // An address of several words can equal or differ from the value only if the packet has all of
            // these words. So a test of the last word with mask 0 is added: it compares no bits, but fails if
            // the packet does not have the word.
            (false, opposite) => {
                let there = Tree::Leaf(Test { mask: 0, low: 0, high: 0, ..last });
                let unequal = || telling.iter().map(|t| Tree::Leaf(t.opposite()));
                match (opposite, tests.len()) {
                    (true, 1) => Tree::any(unequal()),
                    (true, _) => Tree::All(vec![there, Tree::any(unequal())]),
                    (false, _) => Tree::All(telling.iter().map(|&t| Tree::Leaf(t)).chain([there]).collect()),
                }
            }
        }
    };
    match (ends, opposite) {
        (Sides::Source, _) => one(source),
        (Sides::Destination, _) => one(destination),
        (Sides::Either, false) | (Sides::Both, true) => Tree::Any(vec![one(source), one(destination)]),
        (Sides::Both, false) | (Sides::Either, true) => Tree::All(vec![one(source), one(destination)]),
    }
}

fn of_version(version: Version) -> Condition {
    match version {
        Version::V4 => Tree::Constant(true),
        Version::V6 => Tree::Leaf(Test::equal(HeaderLayer::Network, 0, 1, 0xf0, 0x60)),
    }
}

fn protocol_field(version: Version) -> Test {
    Test::equal(HeaderLayer::Network, if version == Version::V4 { 9 } else { 6 }, 1, 0xff, 0)
}

fn protocol_is(version: Version, number: u32) -> Test {
    Test { low: number, high: number, ..protocol_field(version) }
}

fn of_protocol(protocol: Protocol, version: Version) -> Condition {
    match protocol {
        Protocol::Number(number) => Tree::Leaf(protocol_is(version, number.into())),
        Protocol::TcpOrUdp => Tree::Any([6, 17].map(|n| Tree::Leaf(protocol_is(version, n))).to_vec()),
        Protocol::Any => Tree::Constant(true),
    }
}

/// Restricts a condition on the transport header to packets that have this header. The protocol field must
/// have the value for `protocol`, and an IPv4 packet must not be a fragment other than the first. Fragments
/// of IPv6 need no test, because their protocol field has the number of the fragment header.
fn starting_with(protocol: Protocol, version: Version, inner: Condition) -> Condition {
    let first = match version {
        Version::V4 => Tree::Leaf(Test::equal(HeaderLayer::Network, 6, 2, 0x1fff, 0)),
        Version::V6 => Tree::Constant(true),
    };
    Tree::All(vec![of_version(version), of_protocol(protocol, version), first, inner])
}

/// Returns the condition that a field is in a relation. `largest` is the field's largest number. `shift` is
/// the number of bits of the tested bytes to the right of the field.
fn compare(field: Test, largest: u32, shift: u32, relation: Relation) -> Condition {
    match relation {
        Relation::Always(value) => Tree::Constant(value),
        Relation::Compare { mask, sign, value } => {
            unless_empty(range(field, largest, shift, mask, sign, value))
        }
    }
}

fn range(field: Test, largest: u32, shift: u32, mask: u32, sign: Sign, value: u32) -> Test {
    let mask = mask & largest;
    let (low, high, outside) = match sign {
        Sign::Equal => (value & mask, value & mask, false),
        Sign::NotEqual => (value & mask, value & mask, true),
        // The additions do not exceed the largest number of the field: comparisons that hold for all numbers
        // or for none are [`Relation::Always`] by now.
        Sign::Greater => (value.saturating_add(1), mask, false),
        Sign::GreaterOrEqual => (value, mask, false),
        Sign::Less => (value, mask, true),
        Sign::LessOrEqual => (value.saturating_add(1), mask, true),
    };
    Test { mask: mask << shift, low: low << shift, high: high << shift, outside, ..field }
}
