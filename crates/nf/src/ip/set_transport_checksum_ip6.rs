//! # SetTransportChecksumIP6
//! Recomputes the checksum of TCP, UDP or ICMPv6 in IPv6 packets.
//!
//! The network and transport header annotations must be set, the latter after all extension headers (see
//! CheckIP6Header and its PROCESS_EH). Packets without such a header, fragments, and packets that are
//! shorter than their header says are dropped; packets of other protocols pass unchanged. A packet with a
//! fragment header that contains the whole packet (RFC 6946) does not count as a fragment.
//!
//! The checksum covers the final destination (RFC 8200, section 8.1): while a routing header has segments
//! left, this is its last address or, in a segment routing header, the first entry of the segment list.
//! Packets with segments left in a routing header of an unknown type (known are 0, 2, 3 and 4) are dropped.
//! The source that the checksum covers is the address of a home address option (RFC 6275), if there is one.
//!
//! ## Usage
//! `SetTransportChecksumIP6`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> SetTransportChecksumIP6 -> Discard
//! ```
//!
//! ## See also
//! CheckIP6Header, SetTCPChecksum, SetUDPChecksum

use element::effects::{Field, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::checksum::PseudoHeader;
use wire::{FromBytes, ip_protocol, ipv6};

use crate::editing::{Fate, each, length_from, otherwise, pure, sum_from, when};

/// The element class `SetTransportChecksumIP6`.
pub static CLASS: Class = Class {
    name: "SetTransportChecksumIP6",
    aliases: &["SetTCPChecksumIP6", "SetUDPChecksumIP6", "SetICMPChecksumIP6"],
    manual: manual!("set_transport_checksum_ip6.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetTransportChecksumIp6))
    },
    ..Class::DEFAULT
};

struct SetTransportChecksumIp6;

fn set(packet: &mut Packet) -> Fate {
    let data = packet.header(Base::Network).ok_or(DropReason::NoHeader)?;
    let (ip, rest) = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::NoHeader)?;
    let distance = packet.offset(Base::Transport).zip(packet.offset(Base::Network));
    let distance = distance.and_then(|(transport, network)| usize::try_from(transport - network).ok());
    let upper = ipv6::upper_layer(ip.next_header, rest);
    let bad = DropReason::BadTransportHeader;
    if upper.fragment.is_some() || upper.fault.is_some() || distance != Some(ipv6::Header::LEN + upper.offset)
    {
        return Err(bad);
    }
    let (at, least) = match upper.protocol {
        ip_protocol::TCP => (16, 20),
        ip_protocol::UDP => (6, 8),
        ip_protocol::ICMPV6 => (2, 8),
        _ => return Ok(()),
    };
    let length = usize::from(ip.payload_length.get()).checked_sub(upper.offset).ok_or(bad)?;
    if length < least || length > length_from(packet, Base::Transport).unwrap_or(0) {
        return Err(bad);
    }
    let (source, destination) = ipv6::checksum_addresses(ip, rest).ok_or(bad)?;
    let pseudo = PseudoHeader::V6 { source, destination }.sum(upper.protocol, length);
    let is_udp = upper.protocol == ip_protocol::UDP;
    let header = packet.header_mut(Base::Transport).and_then(|header| header.get_mut(at..at + 2));
    header.ok_or(bad)?.fill(0);
    let sum = sum_from(packet, Base::Transport, length, pseudo).ok_or(bad)?;
    let sum = if is_udp { sum.udp_checksum() } else { sum.checksum() };
    let header = packet.header_mut(Base::Transport).and_then(|header| header.get_mut(at..at + 2));
    header.ok_or(bad)?.copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

impl Element for SetTransportChecksumIp6 {
    fn effects(&self) -> Effects {
        let headers = [Base::Network, Base::Transport].map(Field::HeaderOffset);
        let reads = [&[Field::Payload, Field::Length], &headers[..]].concat();
        let none = when("no IPv6 header", &reads, Target::Drop(DropReason::NoHeader));
        let bad = when("no sound transport header", &reads, Target::Drop(DropReason::BadTransportHeader));
        Effects::cases(vec![none, bad, otherwise(vec![pure(Field::Payload, "transport checksum", &reads)])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, set);
    }
}
