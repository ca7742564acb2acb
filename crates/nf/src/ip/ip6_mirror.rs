//! # IP6Mirror
//! Swaps source and destination of IPv6 packets: addresses, and the ports of TCP and UDP.
//!
//! Transport checksums stay valid: swapping the two addresses does not change a checksum. A checksum that
//! covers other addresses (with a routing header that has segments left, or a home address option) is
//! updated. After a routing header of an unknown type the checksum is not updated, because it is unknown
//! which addresses it covers. The network header annotation must be set; packets without it are dropped.
//!
//! Extension headers are not changed, so that a mirrored packet follows the rest of its route; the ports
//! after them are not swapped.
//!
//! ## Usage
//! `IP6Mirror`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> IP6Mirror -> Discard
//! ```
//!
//! ## See also
//! IPMirror

use element::effects::{Case, Field, Filter, HeaderKind, Predicate, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::checksum::Delta;
use wire::ipv6::Extension;
use wire::{FromBytes, ip_protocol, ipv6};

use super::ip_mirror::{set_ports, swapped, swapped_ports};
use crate::editing::{Fate, bytes, each, needs, otherwise, pure};

/// The element class `IP6Mirror`.
pub static CLASS: Class = Class {
    name: "IP6Mirror",
    manual: manual!("ip6_mirror.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(Ip6Mirror))
    },
    ..Class::DEFAULT
};

struct Ip6Mirror;

/// Returns the fixed part of the IPv6 header at the network header annotation. The error is
/// [`DropReason::NoHeader`] if the annotation is not set or the packet is too short.
pub(super) fn ipv6(packet: &mut Packet) -> Result<&mut ipv6::Header, DropReason> {
    let bytes =
        packet.header_chunk_mut::<{ ipv6::Header::LEN }>(Base::Network).ok_or(DropReason::NoHeader)?;
    ipv6::Header::mut_from_bytes(bytes).map_err(|_| DropReason::NoHeader)
}

fn mirror(packet: &mut Packet) -> Fate {
    let ports = swapped_ports(packet);
    let ip = ipv6(packet)?;
    if Extension::is(ip.next_header) {
        return mirror_extended(packet);
    }
    std::mem::swap(&mut ip.source, &mut ip.destination);
    if matches!(ip.next_header, ip_protocol::TCP | ip_protocol::UDP) {
        set_ports(packet, ports);
    }
    Ok(())
}

/// Swaps the addresses of a packet with extension headers. The packet's transport checksum may cover other
/// addresses than the IPv6 header has, and is then updated.
#[cold]
fn mirror_extended(packet: &mut Packet) -> Fate {
    let before = checksum_addresses(packet);
    let ip = ipv6(packet)?;
    std::mem::swap(&mut ip.source, &mut ip.destination);
    if let (Some(before), Some(after)) = (before, checksum_addresses(packet)) {
        let delta = Delta::bytes(&before, &after);
        if !delta.is_nothing() {
            update(packet, delta);
        }
    }
    Ok(())
}

/// Returns source and destination as the transport checksum covers them. `None` if they are unknown.
fn checksum_addresses(packet: &Packet) -> Option<[u8; 32]> {
    let (ip, rest) = ipv6::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let (source, destination) = ipv6::checksum_addresses(ip, rest)?;
    let mut both = [0; 32];
    both[..16].copy_from_slice(&source.octets());
    both[16..].copy_from_slice(&destination.octets());
    Some(both)
}

/// Updates the transport checksum after the extension headers by a difference. Nothing happens if the packet
/// has no header of TCP, UDP or ICMPv6; of a datagram's fragments, the first has one.
fn update(packet: &mut Packet, delta: Delta) {
    let Some(data) = packet.header_mut(Base::Network) else { return };
    let Ok((ip, rest)) = ipv6::Header::mut_from_prefix(data) else { return };
    let upper = ipv6::upper_layer(ip.next_header, rest);
    if upper.fault.is_some() || upper.fragment.is_some_and(|fragment| fragment.offset() != 0) {
        return;
    }
    let at = match upper.protocol {
        ip_protocol::TCP => 16,
        ip_protocol::UDP => 6,
        ip_protocol::ICMPV6 => 2,
        _ => return,
    };
    let (protocol, at) = (upper.protocol, upper.offset + at);
    if let Some(place) = rest.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        let old = u16::from_be_bytes(*place);
        let new = if protocol == ip_protocol::UDP { delta.apply_udp(old) } else { delta.apply(old) };
        *place = new.to_be_bytes();
    }
}

impl Element for Ip6Mirror {
    fn effects(&self) -> Effects {
        let addresses = swapped(bytes(Base::Network, 8, 16), bytes(Base::Network, 24, 16)).to_vec();
        let mut with_ports = addresses.clone();
        with_ports.extend(swapped(wire_field::SRC_PORT, wire_field::DST_PORT));
        let next = bytes(Base::Network, 6, 1);
        let is = |protocol: u8| Predicate::equals(next.clone(), protocol.into());
        let has_ports = Filter::All(vec![
            Filter::Any(vec![is(ip_protocol::TCP), is(ip_protocol::UDP)]),
            Predicate::present(HeaderKind::Udp),
        ]);
        let ports = Case { actions: with_ports, ..Case::new(has_ports, Target::Output(0)) };
        let extensions = (0..=u8::MAX).filter(|&kind| Extension::is(kind)).map(is).collect();
        let reads = [Field::Payload, Field::Length, bytes(Base::Network, 0, 40)];
        let mut with_checksum = addresses.clone();
        with_checksum.push(pure(Field::Payload, "transport checksum", &reads));
        let extended =
            Case { actions: with_checksum, ..Case::new(Filter::Any(extensions), Target::Output(0)) };
        Effects::cases(vec![needs(HeaderKind::Ipv6), ports, extended, otherwise(addresses)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, mirror);
    }
}
