//! # StripTCPHeader
//! Removes a TCP header from the front of the packet.
//!
//! Where the transport header annotation is set, everything up to the end of that header goes; otherwise the packet
//! is taken to start with one. Packets that end inside the header are dropped.
//!
//! ## Usage
//! `StripTCPHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripIPHeader -> StripTCPHeader -> Discard
//! ```
//!
//! ## See also
//! StripTransportHeader, UnstripTransportHeader, StripIPHeader

use element::effects::Field;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, tcp};

use crate::editing::{Fate, bytes, each};
use crate::stripping::{effects, to_header};

/// The class.
pub static CLASS: Class = Class {
    name: "StripTCPHeader",
    manual: manual!("strip_tcp_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripTcpHeader))
    },
    ..Class::DEFAULT
};

struct StripTcpHeader;

fn strip(packet: &mut Packet) -> Fate {
    let base = if packet.offset(Base::Transport).is_some() { Base::Transport } else { Base::Data };
    let header = packet.header(base).ok_or(DropReason::TooShort)?;
    let (tcp, _) = tcp::Header::ref_from_prefix(header).map_err(|_| DropReason::TooShort)?;
    let length = tcp.header_len();
    to_header(packet, base, length)
}

impl Element for StripTcpHeader {
    fn effects(&self) -> Effects {
        let transport = Field::HeaderOffset(Base::Transport);
        effects(Base::Data, &[transport, bytes(Base::Transport, 12, 1), bytes(Base::Data, 12, 1)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, strip);
    }
}
