//! # IP6Mirror
//! Swaps source and destination of IPv6 packets: addresses, and the ports of TCP and UDP.
//!
//! Checksums stay right. The network header annotation must be set; packets without it are dropped.
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

use element::effects::{Case, Filter, Header, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, ip_protocol, ipv6};

use super::ip_mirror::{set_ports, swapped, swapped_ports};
use crate::editing::{Fate, bytes, each, needs, otherwise};

/// The class.
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

/// The fixed part of the IPv6 header at the network header annotation.
pub(super) fn ipv6(packet: &mut Packet) -> Result<&mut ipv6::Header, DropReason> {
    let bytes =
        packet.header_chunk_mut::<{ ipv6::Header::LEN }>(Base::Network).ok_or(DropReason::NoHeader)?;
    ipv6::Header::mut_from_bytes(bytes).map_err(|_| DropReason::NoHeader)
}

fn mirror(packet: &mut Packet) -> Fate {
    let ports = swapped_ports(packet);
    let ip = ipv6(packet)?;
    std::mem::swap(&mut ip.source, &mut ip.destination);
    if matches!(ip.next_header, ip_protocol::TCP | ip_protocol::UDP) {
        set_ports(packet, ports);
    }
    Ok(())
}

impl Element for Ip6Mirror {
    fn effects(&self) -> Effects {
        let addresses = swapped(bytes(Base::Network, 8, 16), bytes(Base::Network, 24, 16)).to_vec();
        let mut with_ports = addresses.clone();
        with_ports.extend(swapped(wire_field::SRC_PORT, wire_field::DST_PORT));
        let next = bytes(Base::Network, 6, 1);
        let is = |protocol: u8| Filter::equals(next.clone(), protocol.into());
        let has_ports = Filter::All(vec![
            Filter::One(vec![is(ip_protocol::TCP), is(ip_protocol::UDP)]),
            Filter::Present(Header::Udp),
        ]);
        let ports = Case { actions: with_ports, ..Case::new(has_ports, Target::Output(0)) };
        Effects::cases(vec![needs(Header::Ipv6), ports, otherwise(addresses)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, mirror);
    }
}
