//! # GTPDecap
//! Removes the GTP-U header (3GPP TS 29.281) with which each packet starts.
//!
//! The aggregate annotation is set to the tunnel endpoint identifier. If one of the optional fields is there,
//! all four bytes of them are removed, too. Extension headers stay. Packets that end inside the header are
//! dropped.
//!
//! ## Usage
//! `GTPDecap`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GTPEncap(7) -> GTPDecap -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! GTPEncap, Strip

use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::Annotations;

use super::gtp_encap::LEN;
use crate::aggregate::AGGREGATE;
use crate::editing::{Fate, bytes, each, otherwise, pure};
use crate::stripping::move_start;

/// The element class `GTPDecap`.
pub static CLASS: Class = Class {
    name: "GTPDecap",
    manual: manual!("gtp_decap.rs"),
    reconfigures: true,
    build: |args| {
        args.finish()?;
        Ok(Box::new(GtpDecap))
    },
    ..Class::DEFAULT
};

/// The bits of the first byte of which each says that one of the optional fields is used.
const OPTIONS: u8 = 0x07;

struct GtpDecap;

fn decapsulate(packet: &mut Packet) -> Fate {
    let header: [u8; LEN] = *packet.data().first_chunk().ok_or(DropReason::TooShort)?;
    let [flags, _, _, _, endpoint @ ..] = header;
    move_start(packet, if flags & OPTIONS == 0 { LEN } else { LEN + 4 } as isize)?;
    packet.annotations_mut().set_u32(Annotations::AGGREGATE, u32::from_be_bytes(endpoint));
    Ok(())
}

impl Element for GtpDecap {
    fn effects(&self) -> Effects {
        let reads = [Field::Length, bytes(Base::Data, 0, 1)];
        let whole = Filter::Leaf(Predicate::Opaque { about: "all of the header", reads: reads.to_vec() });
        Effects::cases(vec![
            Case::new(whole.not(), Target::Drop(DropReason::TooShort)),
            otherwise(vec![
                pure(AGGREGATE, "endpoint", &[bytes(Base::Data, 4, 4)]),
                pure(Field::HeaderOffset(Base::Data), "after the header", &reads),
                pure(Field::Length, "without the header", &reads),
            ]),
        ])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, decapsulate);
    }
}
