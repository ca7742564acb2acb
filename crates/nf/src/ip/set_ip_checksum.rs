//! # SetIPChecksum
//! Recomputes the checksum of the IPv4 header.
//!
//! The header is at the network header annotation, or at the start of the packet without this annotation.
//! Packets that are too short for the header, or whose header length is below 20 bytes, are dropped, and a
//! message reports the first of them.
//!
//! ## Usage
//! `SetIPChecksum`
//!
//! ## Handlers
//! - `drops`: packets that are too short for a header or for their header length, or whose header length is
//!   below 20 bytes.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> SetIPChecksum -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, SetTCPChecksum, SetUDPChecksum, ResetIPChecksum

use element::effects::{Case, Checksum, Field, Filter, HeaderKind, Number, Predicate, Target};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, Severity, StatePart, manual,
};
use wire::{FromBytes, checksum, ipv4};

use crate::editing::{bytes, ipv4_header_length, is_marked, pure, rest_from, within};

/// The element class `SetIPChecksum`.
pub static CLASS: Class = Class {
    name: "SetIPChecksum",
    manual: manual!("set_ip_checksum.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetIpChecksum { drops: 0 }))
    },
    ..Class::DEFAULT
};

struct SetIpChecksum {
    drops: u64,
}

/// Sets the checksum of a packet. `None` if the packet is too short for the header, or the header length is
/// below 20 bytes.
pub(crate) fn set(packet: &mut Packet) -> Option<()> {
    let base = if packet.offset(Base::Network).is_some() { Base::Network } else { Base::Data };
    // Fast path for a header without options.
    if let Some(bytes) = packet.header_chunk_mut::<{ ipv4::Header::LEN }>(base)
        && let Ok(ip) = ipv4::Header::mut_from_bytes(bytes)
        && ip.version_ihl == 0x45
    {
        checksum::fill_ipv4_plain(ip);
        return Some(());
    }
    // The packet leaves its run (consecutive packets of one flow). In an IPv6 packet, the bytes that are
    // written belong to the source address, so packets of one run may get different addresses. For IPv4
    // packets with options nothing is lost, because each is a run by itself.
    packet.set_run(0);
    let header = packet.header_mut(base)?;
    let length = ipv4::Header::ref_from_prefix(header).ok()?.0.header_len();
    checksum::fill_ipv4(header.get_mut(..length)?).ok()
}

/// Returns the cases of the declaration for [`set`]: packets with the network header annotation, packets
/// without it, and packets that are dropped.
pub(crate) fn cases() -> Vec<Case> {
    let whole = |base, rest| {
        let header_length = ipv4_header_length(base, 0);
        Predicate::reaches(base, 0, ipv4::Header::LEN as u16)
            .and([within(bytes(base, 0, 1), 0x0f, 5, 15), Predicate::at_most(header_length, rest)])
    };
    let marked = Case {
        checksum: Checksum::Recomputed(vec![HeaderKind::Ipv4]),
        ..Case::new(whole(Base::Network, rest_from(Base::Network)), Target::Output(0))
    };
    let at_data = bytes(Base::Data, 0, 60);
    let plain = is_marked(Base::Network).not().and([whole(Base::Data, Number::of(Field::Length))]);
    let unmarked = Case::new(plain, Target::Output(0));
    let unmarked = unmarked.with(pure(bytes(Base::Data, 10, 2), "IPv4 checksum", &[at_data]));
    vec![marked, unmarked, Case::new(Filter::TRUE, Target::Drop(DropReason::BadIpHeader))]
}

impl Element for SetIpChecksum {
    fn effects(&self) -> Effects {
        Effects::cases(cases())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let drops = &mut self.drops;
        batch.sift(
            |packet| set(packet).ok_or(()),
            |packet, ()| {
                *drops += 1;
                if *drops == 1 {
                    cx.messages().remark(Severity::Warning, format_args!("SetIPChecksum: bad input packet"));
                }
                cx.drop(packet, DropReason::BadIpHeader);
            },
        );
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<SetIpChecksum>] = &[Handler::count("drops", |e| e.drops)];
