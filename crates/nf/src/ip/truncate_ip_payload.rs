//! # TruncateIPPayload
//! Cuts IPv4 packets whose payload is longer than a limit.
//!
//! The payload begins after the TCP, UDP or ICMP header, whose length is that of its type of message. After
//! the header of another protocol, or if TRANSPORT is false, it begins after the IP header. A packet without
//! network header annotation is cut to the limit from its start.
//!
//! ## Usage
//! `TruncateIPPayload([LENGTH, TRANSPORT, KEYWORDS])`
//!
//! ## Arguments
//! - `LENGTH`: the maximum length of the payload in bytes.
//! - `TRANSPORT`: if false, the payload begins after the IP header.
//! - `EXTRA_LENGTH`: if true, the number of removed bytes is added to the extra length annotation.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53) -> TruncateIPPayload(8) -> Discard
//! ```
//!
//! ## See also
//! Truncate, EraseIPPayload

use element::class::ArgInfo;
use element::effects::{EXTRA_LENGTH, Field, wire_field};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use packet::Annotations;
use wire::{FromBytes, ip_protocol, ipv4, tcp, udp};

use crate::editing::{bytes, otherwise, pure};

/// The element class `TruncateIPPayload`.
pub static CLASS: Class = Class {
    name: "TruncateIPPayload",
    manual: manual!("truncate_ip_payload.rs"),
    args: &[
        ArgInfo::positional("LENGTH", "0-65535", "0"),
        ArgInfo::positional("TRANSPORT", "bool", "true"),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "true"),
    ],
    samples: &["", "20", "5, false, EXTRA_LENGTH false"],
    reconfigures: true,
    build: |args| {
        let length = usize::from(args.value::<u16>("LENGTH"));
        let (transport, extra) = (args.value("TRANSPORT"), args.value("EXTRA_LENGTH"));
        args.finish()?;
        Ok(Box::new(TruncateIpPayload { length, transport, extra }))
    },
    ..Class::DEFAULT
};

struct TruncateIpPayload {
    length: usize,
    transport: bool,
    extra: bool,
}

/// Returns the length of the header of an ICMP message of this type: 20 bytes for time stamps, 12 for
/// address masks, otherwise 8.
fn icmp_length(kind: u8) -> usize {
    match kind {
        13 | 14 => 20,
        17 | 18 => 12,
        _ => 8,
    }
}

impl TruncateIpPayload {
    /// Returns the length of the headers ahead of the payload, counted from the start of the packet; 0
    /// without a network header annotation.
    fn headers(&self, packet: &Packet) -> usize {
        let Some(offset) = packet.offset(Base::Network) else { return 0 };
        let bytes = packet.header(Base::Network).unwrap_or_default();
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(bytes) else { return packet.len() };
        let length = ip.header_len();
        let inner = match ip.protocol {
            _ if length < ipv4::Header::LEN || !self.transport => 0,
            ip_protocol::TCP => {
                let words = packet.header(Base::Transport).and_then(|tcp| tcp.get(12)).map_or(0, |b| b >> 4);
                tcp::Header::LEN.max(usize::from(words) * 4)
            }
            ip_protocol::UDP => udp::Header::LEN,
            ip_protocol::ICMP => {
                let kind = packet.header(Base::Transport).and_then(|icmp| icmp.first());
                kind.map_or(0, |&kind| icmp_length(kind))
            }
            _ => 0,
        };
        usize::try_from(offset).unwrap_or(0) + length.max(ipv4::Header::LEN) + inner
    }
}

impl Element for TruncateIpPayload {
    fn effects(&self) -> Effects {
        let reads = [
            Field::Length,
            Field::HeaderOffset(Base::Network),
            Field::HeaderOffset(Base::Transport),
            bytes(Base::Network, 0, 1),
            wire_field::IP_PROTOCOL,
            bytes(Base::Transport, 0, 1),
            bytes(Base::Transport, 12, 1),
        ];
        let mut actions = vec![pure(Field::Length, "with short payload", &reads)];
        if self.extra {
            let mut reads = reads.to_vec();
            reads.push(EXTRA_LENGTH);
            actions.push(pure(EXTRA_LENGTH, "cut bytes", &reads));
        }
        Effects::cases(vec![otherwise(actions)])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let length = self.headers(packet) + self.length;
            let Some(cut) = packet.len().checked_sub(length).filter(|&cut| cut > 0) else { continue };
            packet.truncate(length);
            if self.extra {
                let annotations = packet.annotations_mut();
                let extra = annotations.u32(Annotations::EXTRA_LENGTH).wrapping_add(cut as u32);
                annotations.set_u32(Annotations::EXTRA_LENGTH, extra);
            }
        }
    }
}
