//! # StripEtherVLANHeader
//! Removes an Ethernet header with or without a VLAN tag, and stores the tag in the VLAN annotation.
//!
//! Frames without a tag belong to the native VLAN. If there is no native VLAN, they go to output 1, or are
//! dropped, and so do packets that are too short for the header.
//!
//! ## Usage
//! `StripEtherVLANHeader([NATIVE_VLAN])`
//!
//! ## Arguments
//! - `NATIVE_VLAN`: the value of the annotation for frames without a tag; negative for none.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> StripEtherVLANHeader -> Discard
//! ```
//!
//! ## See also
//! EtherVLANEncap, VLANDecap, Strip

use element::class::ArgInfo;
use element::effects::{Action, Case, Filter, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, ether_type, ethernet, vlan};

use super::{TCI, set_tci_annotation, tci_is_read};
use crate::editing::{Fate, aside, bytes, constant, each_or_aside, otherwise};

/// The element class `StripEtherVLANHeader`.
pub static CLASS: Class = Class {
    name: "StripEtherVLANHeader",
    aliases: &["StripEtherVlanHeader"],
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("strip_ether_vlan_header.rs"),
    args: &[ArgInfo::positional("NATIVE_VLAN", "integer", "0")],
    samples: &["", "7", "-1 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let native = args.value::<i32>("NATIVE_VLAN");
        args.finish()?;
        if native > 0xfff {
            args.error("bad NATIVE_VLAN");
        }
        args.finish()?;
        Ok(Box::new(StripEtherVlanHeader { native: u16::try_from(native).ok() }))
    },
    ..Class::DEFAULT
};

struct StripEtherVlanHeader {
    native: Option<u16>,
}

const PLAIN: usize = ethernet::Header::LEN;
const TAGGED: usize = PLAIN + vlan::Tag::LEN;

fn strip(packet: &mut Packet, native: Option<u16>, annotate: bool) -> Fate {
    let header = ethernet::Header::ref_from_prefix(packet.data());
    let (header, rest) = header.map_err(|_| DropReason::TooShort)?;
    let (tci, length) = match (header.ether_type.get(), native) {
        (ether_type::VLAN, _) => {
            let (tag, _) = vlan::Tag::ref_from_prefix(rest).map_err(|_| DropReason::TooShort)?;
            (tag.control.get(), TAGGED)
        }
        (_, Some(native)) => (native, PLAIN),
        (_, None) => return Err(DropReason::NoMatch),
    };
    if annotate {
        set_tci_annotation(packet, tci);
    }
    if packet.strip(length) { Ok(()) } else { Err(DropReason::TooShort) }
}

impl Element for StripEtherVlanHeader {
    fn effects(&self) -> Effects {
        let ether_type = bytes(Base::Data, 12, 2);
        let short = |length| {
            let whole = Predicate::reaches(Base::Data, 0, length as u16);
            aside(whole.not(), DropReason::TooShort)
        };
        let is_tagged = || Predicate::equals(ether_type.clone(), ether_type::VLAN.into());
        let cut_off = Case { when: is_tagged().and([short(TAGGED).when]), ..short(TAGGED) };
        let tagged = Case::new(is_tagged(), Target::Output(0))
            .with(Action::Set(TCI, Value::Copy(bytes(Base::Data, PLAIN, 2))))
            .with(Action::Strip(TAGGED as i32));
        let plain = match self.native {
            Some(native) => {
                otherwise(vec![constant(TCI, &native.to_be_bytes()), Action::Strip(PLAIN as i32)])
            }
            None => aside(Filter::TRUE, DropReason::NoMatch),
        };
        Effects::cases(vec![short(PLAIN), cut_off, tagged, plain])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (native, annotate) = (self.native, tci_is_read(cx));
        each_or_aside(cx, batch, |packet| strip(packet, native, annotate));
    }
}
