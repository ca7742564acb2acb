//! # IPMirror
//! Swaps source and destination of IPv4 packets: addresses, and the ports of TCP and UDP.
//!
//! The sequence and acknowledgment numbers of TCP are swapped too. Checksums stay valid, because the same
//! values are added up in another order. The exception is the transport checksum of a packet with an
//! unfinished source route, which covers the last address of the route: put SetTCPChecksum or SetUDPChecksum
//! downstream to correct it. Fragments other than the first have no ports. If a TCP header is cut short,
//! only the addresses and ports are swapped. If fewer than eight bytes of a TCP or UDP header are there,
//! only the addresses are swapped. The network header annotation must be set; packets without it are
//! dropped.
//!
//! ## Usage
//! `IPMirror([DST_ANNO])`
//!
//! ## Arguments
//! - `DST_ANNO`: true to set the destination address annotation to the new destination.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> IPMirror -> Discard
//! ```
//!
//! ## See also
//! IP6Mirror, EtherMirror, ICMPPingResponder

use element::class::ArgInfo;
use element::effects::{
    Action, Case, DST_IP, Field, Filter, HeaderKind, Predicate, Target, Value, wire_field,
};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use wire::{ip_protocol, tcp};

use crate::editing::{Fate, bytes, each, ipv4, needs, otherwise};

/// The element class `IPMirror`.
pub static CLASS: Class = Class {
    name: "IPMirror",
    manual: manual!("ip_mirror.rs"),
    args: &[ArgInfo::positional("DST_ANNO", "bool", "true")],
    samples: &["", "false"],
    build: |args| {
        let sets_destination = args.value::<bool>("DST_ANNO");
        args.finish()?;
        Ok(Box::new(IpMirror { sets_destination }))
    },
    ..Class::DEFAULT
};

struct IpMirror {
    sets_destination: bool,
}

/// Returns the ports in swapped order; `None` if the packet has fewer than eight bytes from the transport
/// header annotation on, or no such annotation. The ports must be read before anything is changed, because
/// the annotation can point into the IP header.
pub(super) fn swapped_ports(packet: &mut Packet) -> Option<[u8; 4]> {
    let &mut [a, b, c, d, ..] = packet.header_chunk_mut::<8>(Base::Transport)?;
    Some([c, d, a, b])
}

/// Returns the sequence and acknowledgment numbers of TCP in swapped order; `None` if the packet has no
/// whole TCP header.
fn swapped_numbers(packet: &mut Packet) -> Option<[u8; 8]> {
    let header = packet.header_chunk_mut::<{ tcp::Header::LEN }>(Base::Transport)?;
    let mut numbers = [0; 8];
    numbers[..4].copy_from_slice(&header[8..12]);
    numbers[4..].copy_from_slice(&header[4..8]);
    Some(numbers)
}

/// Writes the ports into the transport header. `None` leaves the packet unchanged.
pub(super) fn set_ports(packet: &mut Packet, ports: Option<[u8; 4]>) {
    if let (Some(header), Some(ports)) = (packet.header_chunk_mut::<8>(Base::Transport), ports) {
        header[..4].copy_from_slice(&ports);
    }
}

fn mirror(packet: &mut Packet, sets_destination: bool) -> Fate {
    let (ports, numbers) = (swapped_ports(packet), swapped_numbers(packet));
    let ip = ipv4(packet)?;
    std::mem::swap(&mut ip.source, &mut ip.destination);
    let (protocol, first) = (ip.protocol, ip.fragment_offset() == 0);
    let destination = ip.destination.to_bytes();
    if sets_destination {
        packet.set_destination(destination);
    }
    if first && matches!(protocol, ip_protocol::TCP | ip_protocol::UDP) {
        set_ports(packet, ports);
        let header = packet.header_chunk_mut::<{ tcp::Header::LEN }>(Base::Transport);
        if protocol == ip_protocol::TCP
            && let (Some(header), Some(numbers)) = (header, numbers)
        {
            header[4..12].copy_from_slice(&numbers);
        }
    }
    Ok(())
}

/// Returns two actions that swap the values of two fields.
pub(crate) fn swapped(one: Field, other: Field) -> [Action; 2] {
    [Action::Set(one.clone(), Value::Copy(other.clone())), Action::Set(other, Value::Copy(one))]
}

impl Element for IpMirror {
    fn effects(&self) -> Effects {
        let addresses = || {
            let mut actions = swapped(wire_field::IP_SRC, wire_field::IP_DST).to_vec();
            let annotation = Action::Set(DST_IP, Value::Copy(wire_field::IP_SRC));
            actions.extend(self.sets_destination.then_some(annotation));
            actions
        };
        let first = Filter::Leaf(Predicate::In {
            field: wire_field::IP_FRAGMENT,
            mask: wire::ipv4::FRAGMENT_OFFSET.into(),
            set: classify::IntervalSet::one(0, 0),
        });
        let is = |protocol: u8| Predicate::equals(wire_field::IP_PROTOCOL, protocol.into());
        let case = |protocols: Vec<Filter>, header| {
            let all = vec![Filter::Any(protocols), first.clone(), Predicate::present(header)];
            let mut case = Case::new(Filter::All(all), Target::Output(0));
            case.actions = addresses();
            case.actions.extend(swapped(wire_field::SRC_PORT, wire_field::DST_PORT));
            case
        };
        let mut tcp = case(vec![is(ip_protocol::TCP)], HeaderKind::Tcp);
        tcp.actions.extend(swapped(bytes(Base::Transport, 4, 4), bytes(Base::Transport, 8, 4)));
        // Eight bytes contain the ports of TCP and are a whole UDP header.
        let ports = case(vec![is(ip_protocol::TCP), is(ip_protocol::UDP)], HeaderKind::Udp);
        Effects::cases(vec![needs(HeaderKind::Ipv4), tcp, ports, otherwise(addresses())])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let sets_destination = self.sets_destination;
        each(cx, batch, |packet| mirror(packet, sets_destination));
    }
}
