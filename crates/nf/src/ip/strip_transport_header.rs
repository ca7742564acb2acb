//! # StripTransportHeader
//! Removes all bytes ahead of the payload of TCP and UDP packets.
//!
//! The network and transport header annotations must be set; packets without them are dropped. In packets of
//! other protocols, all bytes ahead of the transport header are removed.
//!
//! ## Usage
//! `StripTransportHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripTransportHeader -> Discard
//! ```
//!
//! ## See also
//! StripIPHeader, StripTCPHeader, UnstripTransportHeader

use element::effects::wire_field;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, ip_protocol, tcp, udp};

use crate::editing::{Fate, bytes, each, ipv4};
use crate::stripping::{to_header, vague_effects};

/// The element class `StripTransportHeader`.
pub static CLASS: Class = Class {
    name: "StripTransportHeader",
    aliases: &["StripUDPHeader"],
    manual: manual!("strip_transport_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripTransportHeader))
    },
    ..Class::DEFAULT
};

struct StripTransportHeader;

fn strip(packet: &mut Packet) -> Fate {
    let length = match ipv4(packet)?.protocol {
        ip_protocol::TCP => {
            let header = packet.header(Base::Transport).ok_or(DropReason::NoHeader)?;
            tcp::Header::ref_from_prefix(header).map_err(|_| DropReason::TooShort)?.0.header_len()
        }
        ip_protocol::UDP => udp::Header::LEN,
        _ => 0,
    };
    to_header(packet, Base::Transport, length)
}

impl Element for StripTransportHeader {
    fn effects(&self) -> Effects {
        vague_effects(Base::Transport, &[wire_field::IP_PROTOCOL, bytes(Base::Transport, 12, 1)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, strip);
    }
}
