//! Common parts of elements that examine or change one packet at a time: outputs for rejected packets,
//! access to headers, and shorthands for effects and handlers.

use classify::IntervalSet;
use element::args::Arg;
use element::effects::{Action, Case, Effects, Field, Filter, Header, Number, Target, Value, wire_field};
use element::{Args, Base, Batch, Cx, DropReason, Element, Invalid, Packet};
use wire::checksum::Sum;
use wire::{FromBytes, ipv4};

/// The result for a packet: `Ok` passes the packet on, an error is the reason to reject it.
pub(crate) type Fate = Result<(), DropReason>;

/// Changes each packet; drops rejected packets.
#[inline]
pub(crate) fn each(cx: &mut Cx<'_>, batch: &mut Batch, change: impl FnMut(&mut Packet) -> Fate) {
    batch.sift(change, |packet, reason| cx.drop(packet, reason));
}

/// Changes each packet; sends rejected packets to output 1, or drops them if there is no such output.
#[inline]
pub(crate) fn each_or_aside(cx: &mut Cx<'_>, batch: &mut Batch, change: impl FnMut(&mut Packet) -> Fate) {
    batch.sift(change, |packet, reason| cx.emit_one(1, packet, reason));
}

/// Appends `n` zero bytes to a packet, in further slots where needed.
pub(crate) fn append_zeros(cx: &mut Cx<'_>, mut packet: Packet, mut n: usize) -> Option<Packet> {
    static ZEROS: [u8; 1024] = [0; 1024];
    // The usual case: the bytes fit into the packet's only slot.
    let length = packet.data().len();
    if !packet.is_large() && packet.extend(n) {
        packet.data_mut()[length..].fill(0);
        return Some(packet);
    }
    while n > 0 {
        let step = n.min(ZEROS.len());
        packet = cx.append(packet, &ZEROS[..step])?;
        n -= step;
    }
    Some(packet)
}

/// Returns the fixed part of the IPv4 header at the network header annotation.
#[inline]
pub(crate) fn ipv4(packet: &mut Packet) -> Result<&mut ipv4::Header, DropReason> {
    let bytes =
        packet.header_chunk_mut::<{ ipv4::Header::LEN }>(Base::Network).ok_or(DropReason::NoHeader)?;
    ipv4::Header::mut_from_bytes(bytes).map_err(|_| DropReason::NoHeader)
}

/// Returns the IPv4 header at the network header annotation, and its options as far as they lie in the
/// packet.
#[inline]
pub(crate) fn ipv4_with_options(packet: &Packet) -> Option<(&ipv4::Header, &[u8])> {
    let (ip, rest) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let options = ip.header_len().saturating_sub(ipv4::Header::LEN);
    Some((ip, &rest[..options.min(rest.len())]))
}

/// Returns the number of bytes from a header to the end of the packet, including further slots.
pub(crate) fn length_from(packet: &Packet, base: Base) -> Option<usize> {
    usize::try_from(packet.len() as isize - packet.offset(base)?).ok()
}

/// Adds `length` bytes from the start of a header to a sum, across slots. Returns `None` if the packet ends
/// before.
#[inline]
pub(crate) fn sum_from(packet: &Packet, base: Base, length: usize, sum: Sum) -> Option<Sum> {
    let first = packet.header(base)?;
    match first.get(..length) {
        Some(bytes) => Some(sum.bytes(bytes)),
        None => sum_of_slots(packet, first, length, sum),
    }
}

/// Does the work of [`sum_from`] if `first`, the bytes in the first slot, are fewer than `length`.
#[cold]
fn sum_of_slots(packet: &Packet, first: &[u8], mut length: usize, mut sum: Sum) -> Option<Sum> {
    let rest = packet.chunks().skip(1);
    for chunk in std::iter::once(first).chain(rest) {
        let step = chunk.len().min(length);
        sum = sum.bytes(&chunk[..step]);
        length -= step;
        if length == 0 {
            return Some(sum);
        }
    }
    None
}

/// Parses a handler's value; the error is `otherwise`, in Click's words.
pub(crate) fn value<T: Arg>(cx: &Cx<'_>, text: &str, otherwise: &str) -> Result<T, String> {
    T::parse(text, &cx.place()).map_err(|_| otherwise.to_string())
}

/// Returns a field of annotation bytes.
pub(crate) fn annotation(offset: usize, length: u8) -> Field {
    Field::Annotation { offset: offset as u8, length }
}

/// Returns a field of `length` bytes that starts `offset` bytes after a base.
pub(crate) fn bytes(base: Base, offset: usize, length: u16) -> Field {
    Field::Bytes { base, offset: i32::try_from(offset).unwrap_or(i32::MAX), length }
}

/// Returns the length of an IPv4 header that starts `offset` bytes after a base.
pub(crate) fn ipv4_header_length(base: Base, offset: usize) -> Number {
    Number::constant(0).plus(4, bytes(base, offset, 1), 0x0f)
}

/// Returns the total length field of an IPv4 header that starts `offset` bytes after a base.
pub(crate) fn ipv4_total(base: Base, offset: usize) -> Number {
    Number::of(bytes(base, offset + 2, 2))
}

/// Returns the number of bytes from a header to the packet's end.
pub(crate) fn rest_from(base: Base) -> Number {
    Number::of(Field::Length).plus(-1, Field::HeaderOffset(base), u128::MAX)
}

/// Returns a filter: the bits of a field lie between two numbers, both included.
pub(crate) fn within(field: Field, mask: u128, low: u128, high: u128) -> Filter {
    Filter::In { field, mask, set: IntervalSet::one(low, high) }
}

/// Returns a filter: the IPv4 header is marked and has this protocol, and the transport header is marked.
pub(crate) fn ipv4_of_protocol(protocol: u8) -> Filter {
    let protocol = Filter::equals(wire_field::IP_PROTOCOL, protocol.into());
    Filter::Present(Header::Ipv4).and([protocol, is_marked(Base::Transport)])
}

/// Returns a filter: a header is marked.
pub(crate) fn is_marked(base: Base) -> Filter {
    // The number is 0 if the header is marked; if not, the comparison with it fails.
    let marked = Number::constant(0).plus(0, Field::HeaderOffset(base), u128::MAX);
    Filter::AtMost(marked, Number::constant(0))
}

/// Returns the action that sets a header annotation to an offset from the start of the packet, which is a
/// number of the packet.
pub(crate) fn header_behind(base: Base, number: Number) -> Action {
    Action::Set(Field::HeaderOffset(base), Value::Number(number))
}

/// Returns the action that sets a field to constant bytes.
pub(crate) fn constant(field: Field, value: &[u8]) -> Action {
    Action::Set(field, Value::Constant(value.to_vec()))
}

/// Returns the action that sets a field to a function of other fields only.
pub(crate) fn pure(field: Field, name: &'static str, reads: &[Field]) -> Action {
    Action::Set(field, Value::Pure { name, reads: reads.to_vec() })
}

/// Returns the action that sets a header annotation to a constant offset from the start of the packet.
pub(crate) fn header_at(base: Base, offset: usize) -> Action {
    constant(Field::HeaderOffset(base), &(offset as u32).to_be_bytes())
}

/// Returns the case that drops packets without the header.
pub(crate) fn needs(header: Header) -> Case {
    Case::new(Filter::Not(Box::new(Filter::Present(header))), Target::Drop(DropReason::NoHeader))
}

/// Returns the case of packets that the element selects by a test of its own, which depends only on the
/// fields it reads.
pub(crate) fn when(about: &'static str, reads: &[Field], to: Target) -> Case {
    Case::new(Filter::Opaque { about, reads: reads.to_vec() }, to)
}

/// Returns the case that sends all other packets to output 0 with these changes.
pub(crate) fn otherwise(actions: Vec<Action>) -> Case {
    Case { actions, ..Case::new(Filter::Any, Target::Output(0)) }
}

/// Returns the case of packets that go to output 1, or are dropped for this reason if there is no such
/// output.
pub(crate) fn aside(when: Filter, reason: DropReason) -> Case {
    Case::new(when, Target::Output(1)).or_drop(reason)
}

/// Returns the case of packets that the element rejects by a test of its own, which depends only on the
/// fields it reads: they go to output 1, or are dropped if there is no such output.
pub(crate) fn refused(about: &'static str, reads: &[Field], reason: DropReason) -> Case {
    aside(Filter::Opaque { about, reads: reads.to_vec() }, reason)
}

/// Returns effects: packets for which the filter holds pass with these changes; other packets go to output
/// 1, or are dropped for this reason.
pub(crate) fn or_aside(good: Filter, reason: DropReason, actions: Vec<Action>) -> Effects {
    let pass = Case { actions, ..Case::new(good, Target::Output(0)) };
    Effects::cases(vec![pass, aside(Filter::Any, reason)])
}

/// Returns effects: packets for which all of these filters hold pass with these changes. Other packets go
/// to output 1, or are dropped for the reason of the first filter that does not hold.
pub(crate) fn checked(sound: Vec<(Filter, DropReason)>, actions: Vec<Action>) -> Effects {
    let mut cases: Vec<Case> = sound.into_iter().map(|(good, reason)| aside(good.not(), reason)).collect();
    cases.push(otherwise(actions));
    Effects::cases(cases)
}

/// Reports that a mandatory argument is missing, unless another error has been reported.
pub(crate) fn missing(args: &mut Args<'_>, name: &str) -> Result<Box<dyn Element>, Invalid> {
    if args.finish().is_ok() {
        args.error(format!("{name}: required argument missing"));
    }
    Err(Invalid)
}
