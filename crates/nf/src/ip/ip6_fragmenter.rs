//! # IP6Fragmenter
//! Splits IPv6 packets that are longer than a limit into fragments (RFC 8200, section 4.5).
//!
//! Only the source of a packet may fragment it, so this element is for sources and for the ends of tunnels.
//! Routers must not fragment: they answer packets that are too long with ICMP6Error. With HONOR_DF the
//! element only separates these packets: they leave by output 1, and nothing is split.
//!
//! Hop-by-hop options and a routing header, with the destination options that precede it, are repeated in
//! each fragment. Packets that cannot be split leave by output 1, or are dropped: fragments, jumbograms,
//! packets whose end was cut off, and packets with more than 16 extension headers or 256 bytes of them. So do
//! packets whose headers do not fit into the first fragment (RFC 7112), or whose repeated extension headers
//! leave less than a quarter of the MTU for payload. Fragments leave in order. Identifications are random; a
//! packet with a fragment header that marks it as whole (RFC 6946) keeps that header and its identification.
//! The network header annotation must be set.
//!
//! ## Usage
//! `IP6Fragmenter(MTU [, KEYWORDS])`
//!
//! ## Arguments
//! - `MTU`: the length in bytes of the longest packet that leaves by output 0, from the IPv6 header on.
//! - `HONOR_DF`: if true, all longer packets leave by output 1.
//!
//! ## Handlers
//! - `drops`: packets that were too long and left by output 1, or were dropped for lack of an output 1.
//! - `fragments`: fragments made.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> f :: IP6Fragmenter(1280) -> Discard;
//! f[1] -> ICMP6Error(2001:db8::1, 2, 0, PMTU 1280) -> Discard
//! ```
//!
//! ## See also
//! ICMP6Error, CheckLength, IPFragmenter

use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Emit, Field, Filter, HeaderKind, Number, Predicate, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};
use wire::ipv6::{self, FragmentHeader};
use wire::{FromBytes, IntoBytes, U16, U32, icmpv6, ip_protocol, tcp, udp};

use super::fragmenting::{Choice, Fragmenting, Marks};
use crate::editing::{
    annotation, aside, bytes, length_from, needs, otherwise, pure, refused, rest_from, when,
};

/// The element class `IP6Fragmenter`.
pub static CLASS: Class = Class {
    name: "IP6Fragmenter",
    ports: "1/1-2",
    processing: "h",
    manual: manual!("ip6_fragmenter.rs"),
    args: &[ArgInfo::required("MTU", "unsigned"), ArgInfo::keyword("HONOR_DF", "bool", "false")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops", "fragments"])],
    samples: &["1280", "64 -> 1/2", "50, HONOR_DF true", "56, HONOR_DF true -> 1/2"],
    build: |args| {
        let mtu: u32 = args.required("MTU");
        let honors = args.value::<bool>("HONOR_DF");
        args.finish()?;
        let [payload, fragment] = [(); 2].map(|()| Vec::with_capacity(u16::MAX.into()));
        Ok(Box::new(Ip6Fragmenter { mtu: mtu as usize, honors, drops: 0, fragments: 0, payload, fragment }))
    },
    ..Class::DEFAULT
};

struct Ip6Fragmenter {
    mtu: usize,
    honors: bool,
    drops: u64,
    fragments: u64,
    /// A buffer for the bytes of a packet that are distributed over its fragments.
    payload: Vec<u8>,
    /// A buffer for the fragment that is being written.
    fragment: Vec<u8>,
}

/// The numbers that are needed to split a packet. Lengths are in bytes, and offsets count from the IPv6
/// header.
#[derive(Debug, PartialEq)]
struct Plan {
    /// The length of the IPv6 header and the extension headers that every fragment repeats.
    repeated: usize,
    /// The offset of the next header field in the last repeated header, and the value of that field
    /// (`next_header`).
    next_header_at: usize,
    next_header: u8,
    /// The identification in the packet's fragment header, if it has one after the repeated headers; `None`
    /// if a fragment header must be added.
    id: Option<u32>,
    /// The offset of the packet's end.
    total: usize,
    /// The number of payload bytes in each fragment but the last; a multiple of 8.
    room: usize,
}

/// The headers of a packet, as far as they determine how it is split. Offsets count from the IPv6 header.
#[derive(Debug, PartialEq)]
struct Headers {
    /// The offset of the end of the headers that every fragment repeats.
    repeated: usize,
    /// The offset of the next header field in the last repeated header, and the value of that field
    /// (`next_header`).
    next_header_at: usize,
    next_header: u8,
    /// The identification in the packet's fragment header, if it has one after the repeated headers.
    id: Option<u32>,
    /// The offset of the end of the headers that must be in the first fragment: all extension headers and the
    /// transport header (RFC 7112), of TCP without its options.
    first_end: usize,
}

/// Finds the headers of a packet. `None` if its extension headers cannot be parsed, or if the packet is a
/// fragment.
fn headers(ip: &ipv6::Header, rest: &[u8]) -> Option<Headers> {
    let mut at = ipv6::Header::LEN;
    let (mut repeated, mut next_header_at, mut next_header) = (at, 6, ip.next_header);
    let (mut protocol, mut named_at, mut id) = (ip.next_header, 6, None);
    for extension in ipv6::extensions(ip.next_header, rest) {
        let extension = extension.ok()?;
        match extension.fragment() {
            Some(fragment) if !fragment.is_atomic() => return None,
            // The first fragment header ends the repeated headers; it is replaced by the header of each
            // fragment.
            Some(fragment) if id.is_none() => {
                (next_header_at, next_header) = (named_at, extension.next_header);
                (repeated, id) = (at, Some(fragment.id.get()));
            }
            None if id.is_none()
                && matches!(extension.kind, ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING) =>
            {
                (next_header_at, next_header) = (at, extension.next_header);
                repeated = at + extension.bytes.len();
            }
            _ => {}
        }
        named_at = at;
        at += extension.bytes.len();
        protocol = extension.next_header;
    }
    let upper = match protocol {
        ip_protocol::TCP => tcp::Header::LEN,
        ip_protocol::UDP => udp::Header::LEN,
        ip_protocol::ICMPV6 => icmpv6::Header::LEN,
        _ => 0,
    };
    Some(Headers { repeated, next_header_at, next_header, id, first_end: at + upper })
}

impl Fragmenting for Ip6Fragmenter {
    type Plan = Plan;

    fn choose(&self, packet: &Packet) -> Result<Choice<Plan>, DropReason> {
        let data = packet.header(Base::Network).ok_or(DropReason::NoHeader)?;
        let (ip, rest) = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::NoHeader)?;
        let available = length_from(packet, Base::Network).ok_or(DropReason::NoHeader)?;
        // Bytes after the payload length are padding. For a jumbogram the field is zero; its length is in an
        // option.
        let told = match usize::from(ip.payload_length.get()) {
            0 => available,
            length => ipv6::Header::LEN + length,
        };
        let total = available.min(told);
        if total <= self.mtu {
            return Ok(Choice::Pass);
        }
        // A packet of which the end was cut off is refused. Otherwise its fragments would form a packet that
        // seems complete.
        if self.honors || ip.payload_length.get() == 0 || told > available {
            return Ok(Choice::Refuse);
        }
        let Some(Headers { repeated, next_header_at, next_header, id, first_end }) = headers(ip, rest) else {
            return Ok(Choice::Refuse);
        };
        let room = self.mtu.saturating_sub(repeated + FragmentHeader::LEN) & !7;
        let start = repeated + present(id);
        if room < 8 || first_end > start + room || start >= total {
            return Ok(Choice::Refuse);
        }
        // Packets whose repeated headers leave less than a quarter of the MTU for payload are refused,
        // because many fragments with long headers would multiply the traffic.
        if repeated > ipv6::Header::LEN && room < self.mtu / 4 {
            return Ok(Choice::Refuse);
        }
        Ok(Choice::Split(Plan { repeated, next_header_at, next_header, id, total, room }))
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.drops += 1;
        cx.emit_one(1, packet, DropReason::TooLong);
    }

    fn split(&mut self, cx: &mut Cx<'_>, mut packet: Packet, plan: &Plan) {
        let Plan { repeated, room, .. } = *plan;
        // The offset is negative if the IPv6 header has been stripped.
        let network = packet.offset(Base::Network).map(usize::try_from);
        let Some(Ok(network)) = network else { return cx.drop(packet, DropReason::NoHeader) };
        let start = repeated + present(plan.id);
        self.payload.resize(plan.total - start, 0);
        packet.read_at(network + start, &mut self.payload);
        let id = cx.random().u32();
        let mac = packet.offset(Base::Mac);
        if !make_first(&mut packet, network, plan, id) {
            return cx.drop(packet, DropReason::NoHeadroom);
        }
        packet.set_offset(Base::Mac, mac);
        packet.set_headers(network, network + repeated + FragmentHeader::LEN);
        let headers = network..network + repeated + FragmentHeader::LEN;
        let marks = Marks::of(&packet);
        self.fragment.clear();
        self.fragment.extend_from_slice(packet.data().get(headers.clone()).unwrap_or_default());
        self.fragments += 1;
        cx.emit_one(0, packet, DropReason::NoOutput);
        let mut offset = room;
        for part in self.payload[room.min(self.payload.len())..].chunks(room) {
            self.fragment.truncate(headers.len());
            self.fragment.extend_from_slice(part);
            let is_last = offset + part.len() == self.payload.len();
            write_lengths(&mut self.fragment, repeated, part.len(), offset, is_last);
            offset += part.len();
            self.fragments += u64::from(marks.send(cx, &self.fragment, headers.len()));
        }
    }
}

/// Returns the length of the fragment header that a packet already has, 0 if it has none.
fn present(id: Option<u32>) -> usize {
    id.map_or(0, |_| FragmentHeader::LEN)
}

/// Turns a packet into its first fragment, with the identification `id` unless it already has one. Returns
/// false, and leaves the packet unchanged, if there is no headroom for a fragment header.
fn make_first(packet: &mut Packet, network: usize, plan: &Plan, id: u32) -> bool {
    let Plan { repeated, room, .. } = *plan;
    let end = network + repeated;
    if plan.id.is_none() {
        if !packet.prepend(&[0; FragmentHeader::LEN]) {
            return false;
        }
        packet.data_mut().copy_within(FragmentHeader::LEN..end + FragmentHeader::LEN, 0);
    }
    let data = packet.data_mut();
    data[network + plan.next_header_at] = ip_protocol::FRAGMENT;
    let (next_header, id) = (plan.next_header, plan.id.unwrap_or(id));
    let header = FragmentHeader { next_header, reserved: 0, offset_more: U16::new(0), id: U32::new(id) };
    data[end..end + FragmentHeader::LEN].copy_from_slice(header.as_bytes());
    write_lengths(&mut data[network..], repeated, room, 0, false);
    packet.truncate(end + FragmentHeader::LEN + room);
    true
}

/// Writes the fields that differ between the fragments of a packet: payload length, fragment offset and
/// "more fragments". `part` is the number of payload bytes in the fragment, and `offset` is their offset in
/// the payload of the whole packet.
fn write_lengths(fragment: &mut [u8], repeated: usize, part: usize, offset: usize, is_last: bool) {
    // The length fits, because all fragments are shorter than the packet was.
    let length = (repeated - ipv6::Header::LEN + FragmentHeader::LEN + part) as u16;
    fragment[4..6].copy_from_slice(&length.to_be_bytes());
    let place = offset as u16 | u16::from(!is_last);
    fragment[repeated + 2..repeated + 4].copy_from_slice(&place.to_be_bytes());
}

impl Element for Ip6Fragmenter {
    fn effects(&self) -> Effects {
        let mtu = || Number::constant(self.mtu as i64);
        let length = bytes(Base::Network, 4, 2);
        let total = Number::of(length.clone()).plus_constant(ipv6::Header::LEN as i64);
        let told = Predicate::equals(length, 0).not().and([Predicate::at_most(total, mtu())]);
        let short = Filter::Any(vec![Predicate::at_most(rest_from(Base::Network), mtu()), told]);
        let mut cases = vec![needs(HeaderKind::Ipv6), Case::new(short, Target::Output(0))];
        if self.honors {
            cases.push(aside(Filter::TRUE, DropReason::TooLong).shown());
            return Effects::cases(cases);
        }
        let reads = [Field::Payload, Field::Length, Field::HeaderOffset(Base::Network)];
        cases.push(refused("cannot be fragmented", &reads, DropReason::TooLong));
        let stripped =
            Predicate::at_most(Number::constant(0), Number::of(Field::HeaderOffset(Base::Network)));
        cases.push(Case::new(stripped.not(), Target::Drop(DropReason::NoHeader)));
        let later = Emit {
            name: "later fragment",
            input: None,
            reads: vec![Field::Payload, Field::TimeStamp, Field::Kind, annotation(0, 48)],
            output: Some(0),
            starts: Some(HeaderKind::Ipv6),
            when: Filter::Any(cases.iter().map(|case| case.when.clone()).collect()).not(),
        };
        let at = |base| pure(Field::HeaderOffset(base), "before the fragment header", &reads);
        let first = [
            pure(Field::Payload, "first fragment", &reads),
            pure(Field::HeaderOffset(Base::Mac), "as before", &[Field::HeaderOffset(Base::Mac)]),
            at(Base::Network),
            at(Base::Transport),
            Action::Resize(reads.to_vec()),
        ];
        let longer = Action::Strip(-(FragmentHeader::LEN as i32));
        cases.push(
            first.iter().cloned().fold(when("has a fragment header", &reads, Target::Output(0)), Case::with),
        );
        cases.push(otherwise([longer].into_iter().chain(first).collect()));
        let effects = Effects { emits: vec![later], ..Effects::cases(cases) };
        effects.depending_on(Depends::Random)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.fragment(cx, batch)
    }

    element::keeps!(drops, fragments);
}

const HANDLERS: &[Handler<Ip6Fragmenter>] =
    &[Handler::count("drops", |e| e.drops), Handler::count("fragments", |e| e.fragments)];

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a packet of UDP after extension headers of these kinds, each 8 bytes long, and finds its
    /// headers. Returns the end of the repeated headers, offset and value of the last repeated next header
    /// field, and the end of the headers of the first fragment.
    fn found(kinds: &[u8]) -> Option<(usize, usize, u8, usize)> {
        let follows = |i: usize| kinds.get(i).copied().unwrap_or(ip_protocol::UDP);
        let mut bytes = vec![0; 40];
        bytes[6] = follows(0);
        (1..=kinds.len()).for_each(|i| bytes.extend_from_slice(&[follows(i), 0, 0, 0, 0, 0, 0, 0]));
        let (ip, rest) = ipv6::Header::ref_from_prefix(&bytes).unwrap();
        let Headers { repeated, next_header_at, next_header, first_end, .. } = headers(ip, rest)?;
        Some((repeated, next_header_at, next_header, first_end))
    }

    #[test]
    fn headers_for_routers_are_repeated() {
        assert_eq!(found(&[]), Some((40, 6, 17, 48)));
        assert_eq!(
            found(&[60]),
            Some((40, 6, 60, 56)),
            "options for the destination go into the first fragment"
        );
        assert_eq!(found(&[0]), Some((48, 40, 17, 56)));
        assert_eq!(found(&[0, 60]), Some((48, 40, 60, 64)));
        assert_eq!(
            found(&[0, 60, 43, 60]),
            Some((64, 56, 60, 80)),
            "and those in front of a route are for each hop"
        );
        assert_eq!(found(&[0, 60, 44, 43]), Some((56, 48, 43, 80)), "a fragment header ends them");
        assert_eq!(found(&[60; 17]), None, "too many headers");
    }
}
