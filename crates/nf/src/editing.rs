//! Common parts of elements that handle one packet at a time: functions that apply a change to each packet
//! of a batch, access to headers, and shorthands for effects.

use classify::IntervalSet;
use element::args::ArgType;
use element::effects::{
    Action, Case, Effects, Field, Filter, HeaderKind, Number, Predicate, Target, Value, wire_field,
};
use element::{Args, Base, Batch, Cx, DropReason, Element, Invalid, Packet};
use wire::checksum::Sum;
use wire::{FromBytes, ipv4};

/// The outcome of a change to a packet: with `Ok` the packet is forwarded; with an error it is rejected for
/// that reason.
pub(crate) type Fate = Result<(), DropReason>;

/// Applies `change` to each packet; drops rejected packets, so that the batch has only packets to forward.
#[inline]
pub(crate) fn each(cx: &mut Cx<'_>, batch: &mut Batch, change: impl FnMut(&mut Packet) -> Fate) {
    batch.sift(change, |packet, reason| cx.drop(packet, reason));
}

/// Applies `change` to each packet; sends rejected packets to output 1, or drops them if there is no such
/// output.
#[inline]
pub(crate) fn each_or_aside(cx: &mut Cx<'_>, batch: &mut Batch, change: impl FnMut(&mut Packet) -> Fate) {
    batch.sift(change, |packet, reason| cx.emit_one(1, packet, reason));
}

/// Appends `n` zero bytes to a packet, in further slots where needed. Returns `None` if the pool has no
/// free slot; the packet has then been dropped.
pub(crate) fn append_zeros(cx: &mut Cx<'_>, mut packet: Packet, mut n: usize) -> Option<Packet> {
    static ZEROS: [u8; 1024] = [0; 1024];
    // Fast path: the bytes fit into the packet's only slot.
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

/// Returns the first 20 bytes of the IPv4 header, without options, at the network header annotation.
///
/// # Errors
/// [`DropReason::NoHeader`] if the annotation is not set or the packet's first slot ends before byte 20 of
/// the header.
#[inline]
pub(crate) fn ipv4(packet: &mut Packet) -> Result<&mut ipv4::Header, DropReason> {
    let bytes =
        packet.header_chunk_mut::<{ ipv4::Header::LEN }>(Base::Network).ok_or(DropReason::NoHeader)?;
    ipv4::Header::mut_from_bytes(bytes).map_err(|_| DropReason::NoHeader)
}

/// Returns the IPv4 header at the network header annotation, and its options as far as they lie in the
/// packet's first slot. Returns `None` if the annotation is not set or that slot ends before byte 20 of the
/// header.
#[inline]
pub(crate) fn ipv4_with_options(packet: &Packet) -> Option<(&ipv4::Header, &[u8])> {
    let (ip, rest) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let options = ip.header_len().saturating_sub(ipv4::Header::LEN);
    Some((ip, &rest[..options.min(rest.len())]))
}

/// Returns the number of bytes from a header to the end of the packet, including further slots. `None` if the
/// header annotation is not set or lies after the end.
pub(crate) fn length_from(packet: &Packet, base: Base) -> Option<usize> {
    usize::try_from(packet.len() as isize - packet.offset(base)?).ok()
}

/// Adds the `length` bytes from the start of a header to a checksum's sum, across slots. Returns `None` if
/// the header annotation is not set or the packet has fewer bytes.
#[inline]
pub(crate) fn sum_from(packet: &Packet, base: Base, length: usize, sum: Sum) -> Option<Sum> {
    let first = packet.header(base)?;
    match first.get(..length) {
        Some(bytes) => Some(sum.bytes(bytes)),
        None => sum_of_slots(packet, first, length, sum),
    }
}

/// Does the work of [`sum_from`] for bytes in several slots: `first`, the bytes in the first slot, are
/// fewer than `length`.
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

/// Parses the text that a user wrote to a handler. If it is invalid, the error is `otherwise`, Click's
/// words for this handler.
pub(crate) fn value<T: ArgType>(cx: &Cx<'_>, text: &str, otherwise: &str) -> Result<T, String> {
    T::parse(text, &cx.place()).map_err(|_| otherwise.to_string())
}

/// Returns the field of `length` annotation bytes from byte `offset` of the annotation area.
pub(crate) fn annotation(offset: usize, length: u8) -> Field {
    Field::Annotation { offset: offset as u8, length }
}

/// Returns the field of `length` bytes that starts `offset` bytes after the start of a header, or of the
/// packet ([`Base::Data`]).
pub(crate) fn bytes(base: Base, offset: usize, length: u16) -> Field {
    Field::Bytes { base, offset: i32::try_from(offset).unwrap_or(i32::MAX), length }
}

/// Returns the header length in bytes of an IPv4 header that starts `offset` bytes after `base`: 4 times
/// the low 4 bits of its first byte.
pub(crate) fn ipv4_header_length(base: Base, offset: usize) -> Number {
    Number::constant(0).plus(4, bytes(base, offset, 1), 0x0f)
}

/// Returns the value of the total length field of an IPv4 header that starts `offset` bytes after `base`.
pub(crate) fn ipv4_total(base: Base, offset: usize) -> Number {
    Number::of(bytes(base, offset + 2, 2))
}

/// Returns the number of bytes from a header to the end of the packet.
pub(crate) fn rest_from(base: Base) -> Number {
    Number::of(Field::Length).plus(-1, Field::HeaderOffset(base), u128::MAX)
}

/// Returns a filter that holds if a field's bits in `mask` form a number from `low` to `high`, both
/// included.
pub(crate) fn within(field: Field, mask: u128, low: u128, high: u128) -> Filter {
    Filter::Leaf(Predicate::In { field, mask, set: IntervalSet::one(low, high) })
}

/// Returns a filter for packets whose network and transport header annotations are set. The protocol field of
/// the IPv4 header at the network header annotation must have this value. The version is not tested.
pub(crate) fn ipv4_of_protocol(protocol: u8) -> Filter {
    let protocol = Predicate::equals(wire_field::IP_PROTOCOL, protocol.into());
    Predicate::present(HeaderKind::Ipv4).and([protocol, is_marked(Base::Transport)])
}

/// Returns a filter that holds if a header annotation is set.
pub(crate) fn is_marked(base: Base) -> Filter {
    // `marked` is always 0, but it has a value only if the annotation is set; without a value, the comparison
    // fails.
    let marked = Number::constant(0).plus(0, Field::HeaderOffset(base), u128::MAX);
    Predicate::at_most(marked, Number::constant(0))
}

/// Returns the action that sets a header annotation to an offset from the start of the packet, which is
/// computed from fields of the packet.
pub(crate) fn header_behind(base: Base, number: Number) -> Action {
    Action::Set(Field::HeaderOffset(base), Value::Number(number))
}

/// Returns the action that sets a field to constant bytes.
pub(crate) fn constant(field: Field, value: &[u8]) -> Action {
    Action::Set(field, Value::Constant(value.to_vec()))
}

/// Returns the action that sets a field to a value computed from the fields `reads` alone; `name`
/// distinguishes the computation from others with the same fields.
pub(crate) fn pure(field: Field, name: &'static str, reads: &[Field]) -> Action {
    Action::Set(field, Value::Pure { name, reads: reads.to_vec() })
}

/// Returns the action that sets a header annotation to a constant offset from the start of the packet.
pub(crate) fn header_at(base: Base, offset: usize) -> Action {
    constant(Field::HeaderOffset(base), &(offset as u32).to_be_bytes())
}

/// Returns the case of declared effects that drops packets without this header, with
/// [`DropReason::NoHeader`].
pub(crate) fn needs(header: HeaderKind) -> Case {
    Case::new(Filter::Not(Box::new(Predicate::present(header))), Target::Drop(DropReason::NoHeader))
}

/// Returns the case of declared effects for packets that the element selects by a test that it does not
/// declare. The test depends only on the fields `reads`; `about` describes it to people.
pub(crate) fn when(about: &'static str, reads: &[Field], to: Target) -> Case {
    Case::new(Filter::Leaf(Predicate::Opaque { about, reads: reads.to_vec() }), to)
}

/// Returns the last case of a declaration: it sends packets that no earlier case has matched to output 0,
/// with these changes.
pub(crate) fn otherwise(actions: Vec<Action>) -> Case {
    Case { actions, ..Case::new(Filter::TRUE, Target::Output(0)) }
}

/// Returns the case of declared effects for packets that go to output 1, or are dropped for this reason if
/// there is no such output.
pub(crate) fn aside(when: Filter, reason: DropReason) -> Case {
    Case::new(when, Target::Output(1)).or_drop(reason)
}

/// Returns the case of declared effects for packets that the element rejects by a test that it does not
/// declare, and that depends only on the fields `reads`. The packets go to output 1, or are dropped if there
/// is no such output. `about` describes the test to people.
pub(crate) fn refused(about: &'static str, reads: &[Field], reason: DropReason) -> Case {
    aside(Filter::Leaf(Predicate::Opaque { about, reads: reads.to_vec() }), reason)
}

/// Returns effects with two cases. Packets for which `good` holds go to output 0 with these changes. Other
/// packets go to output 1, or are dropped for this reason if there is no such output.
pub(crate) fn or_aside(good: Filter, reason: DropReason, actions: Vec<Action>) -> Effects {
    let pass = Case { actions, ..Case::new(good, Target::Output(0)) };
    Effects::cases(vec![pass, aside(Filter::TRUE, reason)])
}

/// Returns the effects of an element with several tests. Packets for which all filters hold go to output 0
/// with these changes. Other packets go to output 1, or, without such an output, are dropped for the reason
/// of the first filter that does not hold.
pub(crate) fn checked(sound: Vec<(Filter, DropReason)>, actions: Vec<Action>) -> Effects {
    let mut cases: Vec<Case> = sound.into_iter().map(|(good, reason)| aside(good.not(), reason)).collect();
    cases.push(otherwise(actions));
    Effects::cases(cases)
}

/// Reports that a mandatory argument is missing, unless another error has been reported. Always returns an
/// error, so that a class can return it as the result of `build`.
pub(crate) fn missing(args: &mut Args<'_>, name: &str) -> Result<Box<dyn Element>, Invalid> {
    if args.finish().is_ok() {
        args.error(format!("{name}: required argument missing"));
    }
    Err(Invalid)
}
