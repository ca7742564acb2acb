//! # SetTCPChecksum
//! Recomputes the checksum of the TCP segment.
//!
//! The network and transport header annotations must be set. Packets that are shorter than their IP header
//! says, or too short for a TCP header, are dropped, each with a message. The protocol is not checked: the
//! checksum of a packet of another protocol covers that protocol's number, and is at the same offset.
//!
//! ## Usage
//! `SetTCPChecksum([FIXOFF])`
//!
//! ## Arguments
//! - `FIXOFF`: if true, a data offset (the length of the TCP header) that is smaller than 20 bytes, or,
//!   except in fragments, larger than the segment, is corrected.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> SetTCPChecksum -> Discard
//! ```
//!
//! ## See also
//! CheckTCPHeader, SetIPChecksum, SetUDPChecksum

use element::class::ArgInfo;
use element::effects::{Case, Checksum, Filter, HeaderKind, Predicate, Target, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, Severity, manual};
use wire::checksum::PseudoHeader;
use wire::{FromBytes, tcp};

use crate::editing::{
    bytes, ipv4_header_length, ipv4_total, ipv4_with_options, length_from, pure, rest_from, sum_from,
};

/// The element class `SetTCPChecksum`.
pub static CLASS: Class = Class {
    name: "SetTCPChecksum",
    manual: manual!("set_tcp_checksum.rs"),
    args: &[ArgInfo::positional("FIXOFF", "bool", "false")],
    samples: &["", "true"],
    build: |args| {
        let fix_offset = args.value::<bool>("FIXOFF");
        args.finish()?;
        Ok(Box::new(SetTcpChecksum { fix_offset }))
    },
    ..Class::DEFAULT
};

struct SetTcpChecksum {
    fix_offset: bool,
}

/// Returns the fixed part of a packet's TCP header; `None` if the packet is too short or the transport
/// header annotation is not set.
fn header_mut(packet: &mut Packet) -> Option<&mut tcp::Header> {
    let bytes = packet.header_chunk_mut::<{ tcp::Header::LEN }>(Base::Transport)?;
    tcp::Header::mut_from_bytes(bytes).ok()
}

/// Sets the checksum of a packet, and corrects the data offset if `fix_offset` is true. Returns `None` if
/// lengths are invalid or a header annotation is not set.
pub(super) fn set(packet: &mut Packet, fix_offset: bool) -> Option<()> {
    let (ip, _) = ipv4_with_options(packet)?;
    let length = usize::from(ip.total_length.get()).checked_sub(ip.header_len())?;
    let fragment = ip.is_fragment();
    if length < tcp::Header::LEN || length > length_from(packet, Base::Transport)? {
        return None;
    }
    let header = header_mut(packet)?;
    if fix_offset {
        let words = match header.header_len() {
            n if n < tcp::Header::LEN => tcp::Header::LEN / 4,
            // The segment is shorter than the header length, which is at most 15 words, so the result is at
            // most 14.
            n if n > length && !fragment => length / 4,
            n => n / 4,
        };
        header.data_offset = (words as u8) << 4 | header.data_offset & 0x0f;
    }
    // The sum over the segment includes the checksum field with the old checksum. Adding the complement of
    // the old checksum cancels it.
    let old = header.checksum.get();
    let (ip, options) = ipv4_with_options(packet)?;
    let sum = PseudoHeader::routed(ip, options).sum(ip.protocol, length).word(!old);
    let checksum = sum_from(packet, Base::Transport, length, sum)?.checksum();
    header_mut(packet)?.checksum.set(checksum);
    Some(())
}

/// Returns the condition under which [`set`] sets the checksum.
pub(super) fn sound() -> Filter {
    let total = ipv4_total(Base::Network, 0);
    let length = total.clone().plus(-4, wire_field::IP_VERSION_IHL, 0x0f);
    let least = ipv4_header_length(Base::Network, 0).plus_constant(tcp::Header::LEN as i64);
    Predicate::present(HeaderKind::Ipv4).and([
        Predicate::present(HeaderKind::Tcp),
        Predicate::at_most(least, total),
        Predicate::at_most(length, rest_from(Base::Transport)),
    ])
}

impl Element for SetTcpChecksum {
    fn effects(&self) -> Effects {
        let mut good = Case {
            checksum: Checksum::Recomputed(vec![HeaderKind::Tcp]),
            ..Case::new(sound(), Target::Output(0))
        };
        if self.fix_offset {
            let reads = [bytes(Base::Transport, 12, 1), wire_field::IP_HEADER];
            good = good.with(pure(bytes(Base::Transport, 12, 1), "TCP data offset in range", &reads));
        }
        Effects::cases(vec![good, Case::new(Filter::TRUE, Target::Drop(DropReason::BadTransportHeader))])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let fix_offset = self.fix_offset;
        batch.sift(
            |packet| set(packet, fix_offset).ok_or(()),
            |packet, ()| {
                cx.messages().remark(Severity::Warning, format_args!("SetTCPChecksum: bad lengths"));
                cx.drop(packet, DropReason::BadTransportHeader);
            },
        );
    }
}
