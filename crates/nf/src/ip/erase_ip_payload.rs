//! # EraseIPPayload
//! Sets the payload of TCP and UDP packets to zero.
//!
//! Packets keep their length. The checksum of the TCP or UDP header becomes zero. ICMP packets pass
//! unchanged. Packets of other protocols, and packets without network and transport header annotations, are
//! dropped.
//!
//! ## Usage
//! `EraseIPPayload`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> EraseIPPayload -> Discard
//! ```
//!
//! ## See also
//! AnonymizeIPAddr, TruncateIPPayload

use element::effects::{Case, Field, Filter, Predicate, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{ip_protocol, udp};

use crate::editing::{Fate, bytes, constant, each, ipv4, otherwise, pure};

/// The element class `EraseIPPayload`.
pub static CLASS: Class = Class {
    name: "EraseIPPayload",
    manual: manual!("erase_ip_payload.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(EraseIpPayload))
    },
    ..Class::DEFAULT
};

struct EraseIpPayload;

/// Sets the bytes of a packet from an offset on to zero, in all its slots.
fn clear(packet: &mut Packet, mut offset: usize) {
    static ZEROS: [u8; 256] = [0; 256];
    while offset < packet.len() {
        let step = ZEROS.len().min(packet.len() - offset);
        offset += packet.write_at(offset, &ZEROS[..step]).max(1);
    }
}

fn erase(packet: &mut Packet) -> Fate {
    let protocol = ipv4(packet)?.protocol;
    let offset = packet.offset(Base::Transport).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.ok_or(DropReason::NoHeader)?;
    let (length, checksum) = match protocol {
        ip_protocol::TCP => {
            let words = packet.header(Base::Transport).and_then(|tcp| tcp.get(12));
            (usize::from(words.ok_or(DropReason::NoHeader)? >> 4) * 4, 16)
        }
        ip_protocol::UDP => (udp::Header::LEN, 6),
        ip_protocol::ICMP => return Ok(()),
        _ => return Err(DropReason::Unsuitable),
    };
    clear(packet, offset + length);
    if offset + checksum + 2 <= packet.len() {
        packet.write_at(offset + checksum, &[0; 2]);
    }
    Ok(())
}

impl Element for EraseIpPayload {
    fn effects(&self) -> Effects {
        let is = |protocol: u8| Predicate::equals(wire_field::IP_PROTOCOL, protocol.into());
        let length = bytes(Base::Transport, 12, 1);
        let mut reads = vec![wire_field::IP_PROTOCOL, length.clone(), Field::Length];
        reads.extend([Base::Network, Base::Transport].map(Field::HeaderOffset));
        let refused = Filter::Leaf(Predicate::Opaque { about: "complete headers", reads: reads.clone() });
        let erased = |checksum| {
            let payload = pure(Field::Payload, "erased", &reads);
            vec![payload, constant(bytes(Base::Transport, checksum, 2), &[0; 2])]
        };
        Effects::cases(vec![
            Case::new(refused.not(), Target::Drop(DropReason::NoHeader)),
            Case { actions: erased(16), ..Case::new(is(ip_protocol::TCP), Target::Output(0)) },
            Case { actions: erased(6), ..Case::new(is(ip_protocol::UDP), Target::Output(0)) },
            Case::new(is(ip_protocol::ICMP), Target::Output(0)),
            Case { to: Target::Drop(DropReason::Unsuitable), ..otherwise(Vec::new()) },
        ])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, erase);
    }
}
