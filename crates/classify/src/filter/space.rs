//! Translates conditions into boxes over addresses, ports and protocol: the input of [`cuts`](crate::cuts)
//! and [`products`](crate::products).

use crate::Tree;
use crate::cuts::{ALL, Area, Range};

use super::condition::number;
use super::{Condition, HeaderLayer, HeaderSlices, Test};

/// The value of a port field in packets that are too short to have the port. It is larger than any port, so
/// no range of ports contains it.
const MISSING: u32 = 1 << 16;

/// The largest number of boxes of one condition. If there would be more, a single box that contains them all
/// replaces them; the condition then need not hold everywhere in that box.
const MOST_BOXES: usize = 16;

/// A space: the header fields of the packets of one IP version, over which conditions are translated into
/// boxes. `D` is the number of fields.
pub(super) trait Space<const D: usize> {
    /// Returns the values of the fields in a packet; `None` if its IP header is too short.
    fn point(headers: &HeaderSlices<'_>) -> Option<[u32; D]>;

    /// Returns the part of a packet that a test compares, as a field of this space if it is one.
    fn subject(test: &Test) -> Subject;
}

/// The part of a packet that a test compares, as seen from a space of header fields.
pub(super) enum Subject {
    /// The field of the space with this number, which is compared under the test's mask. `top` is the largest
    /// value of the field in a packet that has the field.
    Field { number: usize, top: u32 },
    /// Nothing: the test has this result for all packets of the space.
    Constant(bool),
    /// Bytes that are no field of the space, so that the test cannot be translated into boxes.
    Other,
}

/// The space of header fields for all packets except IPv6 packets, or for all packets if no condition tests
/// for version 6. Its fields are source address, destination address, both ports, protocol, and a field that
/// is 1 for fragments other than the first.
pub(super) struct V4;

/// The space of header fields for IPv6 packets. Its fields are the four words of the source address, the four
/// words of the destination address, both ports, and the next header.
pub(super) struct V6;

/// True if the test is for IP version 6. The condition of each question about IPv6 contains this test.
fn is_version(test: &Test) -> bool {
    (test.header, test.offset, test.length, test.mask) == (HeaderLayer::Network, 0, 1, 0xf0)
        && (test.low, test.high, test.outside) == (0x60, 0x60, false)
}

/// True if a packet is an IPv6 packet, and so in the space [`V6`].
#[inline]
pub(super) fn is_six(headers: &HeaderSlices<'_>) -> bool {
    headers.network.first().is_some_and(|first| first >> 4 == 6)
}

/// Returns source and destination port, with [`MISSING`] in place of a port if the packet is too short to
/// have it.
#[inline]
fn ports(headers: &HeaderSlices<'_>) -> [u32; 2] {
    match headers.transport.first_chunk() {
        Some(&[a, b, c, d]) => [u16::from_be_bytes([a, b]).into(), u16::from_be_bytes([c, d]).into()],
        None => [number(headers.transport, 0, 2).unwrap_or(MISSING), MISSING],
    }
}

impl Space<6> for V4 {
    #[inline]
    fn point(headers: &HeaderSlices<'_>) -> Option<[u32; 6]> {
        let ip: &[u8; 20] = headers.network.first_chunk()?;
        let [source_port, destination_port] = ports(headers);
        Some([
            u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]),
            u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]),
            source_port,
            destination_port,
            ip[9].into(),
            (u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff != 0).into(),
        ])
    }

    fn subject(test: &Test) -> Subject {
        let field = |number, top| Subject::Field { number, top };
        match (test.header, test.offset, test.length) {
            _ if is_version(test) => Subject::Constant(false),
            (HeaderLayer::Network, 12, 4) => field(0, u32::MAX),
            (HeaderLayer::Network, 16, 4) => field(1, u32::MAX),
            (HeaderLayer::Transport, 0, 2) => field(2, 0xffff),
            (HeaderLayer::Transport, 2, 2) => field(3, 0xffff),
            (HeaderLayer::Network, 9, 1) => field(4, 0xff),
            // The field of the space says only if the fragment offset is above 0. So other tests of the
            // offset cannot be translated into a box.
            (HeaderLayer::Network, 6, 2) if (test.mask, test.low, test.high) == (0x1fff, 0, 0) => field(5, 1),
            _ => Subject::Other,
        }
    }
}

impl Space<11> for V6 {
    #[inline]
    fn point(headers: &HeaderSlices<'_>) -> Option<[u32; 11]> {
        let ip: &[u8; 40] = headers.network.first_chunk()?;
        let [source_port, destination_port] = ports(headers);
        let mut point = [0; 11];
        let (words, _) = ip[8..].as_chunks();
        for (field, &word) in point.iter_mut().zip(words) {
            *field = u32::from_be_bytes(word);
        }
        [point[8], point[9], point[10]] = [source_port, destination_port, ip[6].into()];
        Some(point)
    }

    fn subject(test: &Test) -> Subject {
        let field = |number, top| Subject::Field { number, top };
        match (test.header, test.offset, test.length) {
            _ if is_version(test) => Subject::Constant(true),
            // The offsets 12 and 16, at which IPv4 has its addresses, are words of addresses in an IPv6
            // header. A test for IPv4 addresses compares the same bytes in an IPv6 packet.
            (HeaderLayer::Network, offset @ 8..40, 4) if offset % 4 == 0 => {
                field(usize::from(offset) / 4 - 2, u32::MAX)
            }
            (HeaderLayer::Transport, 0, 2) => field(8, 0xffff),
            (HeaderLayer::Transport, 2, 2) => field(9, 0xffff),
            (HeaderLayer::Network, 6, 1) => field(10, 0xff),
            _ => Subject::Other,
        }
    }
}

/// True if a condition contains a test for IP version 6.
pub(super) fn asks_for_version(condition: &Condition) -> bool {
    match condition {
        Tree::Constant(_) => false,
        Tree::Leaf(test) => is_version(test),
        Tree::Not(inner) => asks_for_version(inner),
        Tree::All(parts) | Tree::Any(parts) => parts.iter().any(asks_for_version),
        Tree::Choose(parts) => parts.iter().any(asks_for_version),
    }
}

/// A box in which a condition holds (`exact` is true), or in which it may hold at some points (`exact` is
/// false).
#[derive(Clone, Copy)]
struct Part<const D: usize> {
    ranges: [Range; D],
    exact: bool,
}

impl<const D: usize> Part<D> {
    const EVERYWHERE: Part<D> = Part { ranges: [ALL; D], exact: true };
    /// The whole space as a box in which the condition may hold.
    const SOMEWHERE: Part<D> = Part { ranges: [ALL; D], exact: false };
}

/// Returns the boxes in which a condition holds or may hold. Outside of these boxes, the condition does not
/// hold.
pub(super) fn areas<S: Space<D>, const D: usize>(condition: &Condition, rule: u32) -> Vec<Area<D>> {
    let area = |part: Part<D>| Area { rule, exact: part.exact, ranges: part.ranges };
    parts::<S, D>(condition, false).into_iter().map(area).collect()
}

/// Returns at most [`MOST_BOXES`] boxes that contain all points at which the condition may hold or, if
/// `negated`, may not hold.
fn parts<S: Space<D>, const D: usize>(condition: &Condition, negated: bool) -> Vec<Part<D>> {
    match (condition, negated) {
        (Tree::Constant(value), _) if *value == negated => Vec::new(),
        (Tree::Constant(_), _) => vec![Part::EVERYWHERE],
        (Tree::Leaf(test), _) => parts_of_test::<S, D>(test, negated),
        (Tree::Not(inner), _) => parts::<S, D>(inner, !negated),
        (Tree::All(all), false) | (Tree::Any(all), true) => {
            all.iter().fold(vec![Part::EVERYWHERE], |met, one| meet(&met, &parts::<S, D>(one, negated)))
        }
        (Tree::Any(all), false) | (Tree::All(all), true) => {
            bounded(all.iter().flat_map(|one| parts::<S, D>(one, negated)).collect())
        }
        (Tree::Choose(choice), _) => {
            let [condition, then, otherwise] = &**choice;
            let mut all = meet(&parts::<S, D>(condition, false), &parts::<S, D>(then, negated));
            all.extend(meet(&parts::<S, D>(condition, true), &parts::<S, D>(otherwise, negated)));
            bounded(all)
        }
    }
}

fn parts_of_test<S: Space<D>, const D: usize>(test: &Test, negated: bool) -> Vec<Part<D>> {
    let (number, top) = match S::subject(test) {
        Subject::Field { number, top } => (number, top),
        Subject::Constant(value) if value == negated => return Vec::new(),
        Subject::Constant(_) => return vec![Part::EVERYWHERE],
        Subject::Other => return vec![Part::SOMEWHERE],
    };
    let Some((low, high)) = range_of(test, top) else { return vec![Part::SOMEWHERE] };
    // Values above `top` mean that the packet lacks the field. Then the test fails, even if it is for numbers
    // outside of a range. So the negation of a test always includes the values above `top`.
    let below = low.checked_sub(1).map(|end| (0, end));
    let above = |top| (high < top).then(|| (high + 1, top));
    let ranges = match (test.outside, negated) {
        (false, false) => [Some((low, high)), None],
        (true, false) => [below, above(top)],
        (false, true) => [below, above(u32::MAX)],
        (true, true) => [Some((low, high)), (top < u32::MAX).then(|| (top + 1, u32::MAX))],
    };
    let part = |range| {
        let mut part = Part::EVERYWHERE;
        part.ranges[number] = range;
        part
    };
    ranges.into_iter().flatten().map(part).collect()
}

/// Returns the range of a field's values that are in the test's range after the test's mask has been applied;
/// `None` if these values are not consecutive, or may not be. `top` is the largest value of the field.
fn range_of(test: &Test, top: u32) -> Option<Range> {
    if top == 1 {
        return Some((0, 0));
    }
    let free = !test.mask & top;
    // The values need not be consecutive unless the bits outside of the mask are the lowest bits.
    let is_prefix = free & (free.wrapping_add(1)) == 0;
    let whole = test.low & free == 0 && test.high & free == 0 && test.high | free <= top;
    (is_prefix && whole && test.low <= test.high).then_some((test.low, test.high | free))
}

/// Returns the intersections of each box of one list with each box of the other, without empty boxes. If
/// there are more than [`MOST_BOXES`], returns one box that contains them all.
fn meet<const D: usize>(left: &[Part<D>], right: &[Part<D>]) -> Vec<Part<D>> {
    let both = left.iter().flat_map(|l| right.iter().map(move |r| intersection(l, r)));
    bounded(both.filter(|part| part.ranges.iter().all(|&(low, high)| low <= high)).collect())
}

fn intersection<const D: usize>(left: &Part<D>, right: &Part<D>) -> Part<D> {
    let range = |i: usize| {
        let (l, r) = (left.ranges[i], right.ranges[i]);
        (l.0.max(r.0), l.1.min(r.1))
    };
    Part { ranges: std::array::from_fn(range), exact: left.exact && right.exact }
}

fn bounded<const D: usize>(parts: Vec<Part<D>>) -> Vec<Part<D>> {
    let Some((&first, rest)) = parts.split_first().filter(|_| parts.len() > MOST_BOXES) else {
        return parts;
    };
    let cover = |all: Part<D>, one: &Part<D>| {
        let range = |i: usize| (all.ranges[i].0.min(one.ranges[i].0), all.ranges[i].1.max(one.ranges[i].1));
        Part { ranges: std::array::from_fn(range), exact: false }
    };
    vec![rest.iter().fold(first, cover)]
}
