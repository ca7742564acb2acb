//! # SetUDPChecksum
//! Recomputes the checksum of the UDP datagram.
//!
//! The network and transport header annotations must be set. Fragments, packets shorter than their UDP
//! length, packets with a UDP length below 8, and packets without these annotations leave by output 1;
//! without output 1 they are dropped, and a message reports the first of them. The protocol is not checked:
//! the checksum of a packet of another protocol covers that protocol's number, and is at the same offset.
//!
//! ## Usage
//! `SetUDPChecksum`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> SetUDPChecksum -> Discard
//! ```
//!
//! ## See also
//! CheckUDPHeader, SetIPChecksum, SetTCPChecksum

use element::effects::{Checksum, Filter, HeaderKind, Number, Predicate, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::checksum::PseudoHeader;
use wire::{FromBytes, udp};

use crate::editing::{bytes, ipv4_with_options, length_from, or_aside, rest_from, sum_from, within};

/// The element class `SetUDPChecksum`.
pub static CLASS: Class = Class {
    name: "SetUDPChecksum",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("set_udp_checksum.rs"),
    samples: &["", " -> 1/2"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetUdpChecksum { warned: false }))
    },
    ..Class::DEFAULT
};

struct SetUdpChecksum {
    warned: bool,
}

/// Sets the checksum of a packet. Returns `None` for fragments, for packets that are shorter than their UDP
/// length, for a UDP length below 8, and if a header annotation is not set.
pub(super) fn set(packet: &mut Packet) -> Option<()> {
    let (ip, options) = ipv4_with_options(packet)?;
    let available = length_from(packet, Base::Transport)?;
    let (udp, _) = udp::Header::ref_from_prefix(packet.header(Base::Transport)?).ok()?;
    let length = usize::from(udp.length.get());
    if ip.is_fragment() || length > available || length < udp::Header::LEN {
        return None;
    }
    // The sum over the datagram includes the checksum field with the old checksum. Adding the complement of
    // the old checksum cancels it.
    let sum = PseudoHeader::routed(ip, options).sum(ip.protocol, length).word(!udp.checksum.get());
    let checksum = sum_from(packet, Base::Transport, length, sum)?.udp_checksum();
    let header = packet.header_chunk_mut::<{ udp::Header::LEN }>(Base::Transport)?;
    udp::Header::mut_from_bytes(header).ok()?.checksum.set(checksum);
    Some(())
}

/// Returns the condition under which [`set`] sets the checksum.
pub(super) fn sound() -> Filter {
    let length = bytes(Base::Transport, 4, 2);
    Predicate::present(HeaderKind::Ipv4).and([
        Predicate::present(HeaderKind::Udp),
        within(wire_field::IP_FRAGMENT, 0x3fff, 0, 0),
        within(length.clone(), u128::MAX, udp::Header::LEN as u128, 0xffff),
        Predicate::at_most(Number::of(length), rest_from(Base::Transport)),
    ])
}

impl Element for SetUdpChecksum {
    fn effects(&self) -> Effects {
        let mut effects = or_aside(sound(), DropReason::BadTransportHeader, Vec::new());
        effects.cases[0].checksum = Checksum::Recomputed(vec![HeaderKind::Udp]);
        effects
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let warned = &mut self.warned;
        batch.sift(
            |packet| set(packet).ok_or(DropReason::BadTransportHeader),
            |packet, reason| {
                if cx.outputs() == 1 && !std::mem::replace(warned, true) {
                    cx.warn(format_args!("fragment or short packet"));
                }
                cx.emit_one(1, packet, reason);
            },
        );
    }
}
