//! # StripGREHeader
//! Removes the GRE header (RFC 2784, RFC 2890) with which each packet starts.
//!
//! The length of the header follows from the flags of checksum, key and sequence number; nothing else of it
//! is examined. CheckGREHeader upstream refuses headers that may have further fields. Packets that end inside
//! the header are dropped.
//!
//! ## Usage
//! `StripGREHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GREEncap(0x0800, KEY 7) -> StripGREHeader -> Discard
//! ```
//!
//! ## See also
//! CheckGREHeader, GREEncap

use element::effects::{Action, Case, Field, Number, Predicate, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};

use super::gre;
use crate::editing::{Fate, bytes, each, otherwise};
use crate::stripping::move_start;

/// The element class `StripGREHeader`.
pub static CLASS: Class = Class {
    name: "StripGREHeader",
    manual: manual!("strip_gre_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripGreHeader))
    },
    ..Class::DEFAULT
};

struct StripGreHeader;

fn strip(packet: &mut Packet) -> Fate {
    let flags = *packet.data().first().ok_or(DropReason::TooShort)?;
    move_start(packet, gre::length(flags) as isize)
}

impl Element for StripGreHeader {
    fn effects(&self) -> Effects {
        let flag = |flag: u8| (bytes(Base::Data, 0, 1), u128::from(flag));
        // A masked bit counts as 0 or 1, as the mask selects bits that are then shifted down.
        let length = [gre::CHECKSUM, gre::KEY, gre::SEQUENCE]
            .into_iter()
            .map(flag)
            .fold(Number::constant(gre::LEN as i64), |length, (field, mask)| {
                length.plus(gre::OPTION as i64, field, mask)
            });
        let first = Predicate::reaches(Base::Data, 0, 1);
        let fits = Predicate::at_most(length.clone(), Number::of(Field::Length));
        Effects::cases(vec![
            Case::new(first.not(), Target::Drop(DropReason::TooShort)),
            Case::new(fits.not(), Target::Drop(DropReason::TooShort)),
            otherwise(vec![Action::Start(length)]),
        ])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, strip);
    }
}
