//! # SetPacketType
//! Sets the packet type annotation.
//!
//! ## Usage
//! `SetPacketType(TYPE)`
//!
//! ## Arguments
//! - `TYPE`: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING` or `LOOPBACK`, in any case.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetPacketType(BROADCAST) -> Discard
//! ```
//!
//! ## See also
//! DropBroadcasts, HostEtherFilter

use element::class::ArgInfo;
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::PacketKind;

use crate::editing::{constant, otherwise};

/// The element class `SetPacketType`.
pub static CLASS: Class = Class {
    name: "SetPacketType",
    manual: manual!("set_packet_type.rs"),
    args: &[ArgInfo::required("TYPE", "word")],
    samples: &["BROADCAST", "loopback"],
    reconfigures: true,
    build: |args| {
        let word: String = args.required("TYPE");
        args.finish()?;
        let kind = match word.to_ascii_uppercase().as_str() {
            "HOST" => Some(PacketKind::Host),
            "BROADCAST" => Some(PacketKind::Broadcast),
            "MULTICAST" => Some(PacketKind::Multicast),
            "OTHERHOST" => Some(PacketKind::OtherHost),
            "OUTGOING" => Some(PacketKind::Outgoing),
            "LOOPBACK" => Some(PacketKind::Loopback),
            _ => None,
        };
        if kind.is_none() {
            args.error(format!("unrecognized packet type '{word}'"));
        }
        args.finish()?;
        Ok(Box::new(SetPacketType { kind: kind.unwrap_or_default() }))
    },
    ..Class::DEFAULT
};

struct SetPacketType {
    kind: PacketKind,
}

impl Element for SetPacketType {
    fn effects(&self) -> Effects {
        Effects::cases(vec![otherwise(vec![constant(Field::Kind, &[self.kind as u8])])])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_kind(self.kind));
    }
}
