//! # VLANEncap
//! Inserts a VLAN tag into Ethernet frames.
//!
//! Frames of the native VLAN, by default VLAN 0, get no tag. The MAC header annotation is set to the start of
//! the frame, and the network header annotation to the first byte after its header. If a packet that needs a
//! tag is too short for the addresses of an Ethernet header, it is dropped.
//!
//! ## Usage
//! `VLANEncap([VLAN_TCI, VLAN_PCP, KEYWORDS])`
//!
//! ## Arguments
//! - `VLAN_TCI`: the tag control information, or `ANNO` for the VLAN annotation of each packet.
//! - `VLAN_PCP`: the priority, 0 to 7.
//! - `VLAN_ID`: the VLAN number, if there is no `VLAN_TCI`.
//! - `NATIVE_VLAN`: the VLAN whose frames get no tag, or -1 for none.
//! - `ETHERTYPE`: the EtherType that indicates the tag.
//!
//! ## Handlers
//! - `vlan_tci`: the tag control information, or `ANNO`.
//! - `vlan_id`, `vlan_pcp`: the parts of the tag control information; empty if the annotation has it.
//! - `native_vlan`: the VLAN whose frames get no tag; empty for the default 0.
//! - `ethertype`: the argument as configured.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> VLANEncap(VLAN_ID 7) -> Discard
//! ```
//!
//! ## See also
//! VLANDecap, EtherVLANEncap, SetVLANAnno

use element::args::{Raw, Scope, read_value};
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Filter, Predicate, Target, Value};
use element::{Base, Batch, Class, Complaint, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use wire::{ethernet, vlan};

use super::{TCI, TagChoice};
use crate::editing::{Fate, bytes, constant, each, header_at, otherwise};

/// The element class `VLANEncap`.
pub static CLASS: Class = Class {
    name: "VLANEncap",
    aliases: &["VlanEncap"],
    manual: manual!("vlan_encap.rs"),
    args: &[
        ArgInfo::positional("VLAN_TCI", "0-0xffff or ANNO", ""),
        ArgInfo::positional("VLAN_PCP", "0-7", "0"),
        ArgInfo::keyword("VLAN_ID", "0-0xfff", "0"),
        ArgInfo::keyword("NATIVE_VLAN", "-1-0xfff", "0"),
        ArgInfo::keyword("ETHERTYPE", "0-0xffff", "0x8100"),
    ],
    table: &HANDLERS,
    samples: &["", "7, 3", "ANNO, NATIVE_VLAN 514, ETHERTYPE 0x88a8"],
    build: |args| {
        let Raw(written) = args.value("ETHERTYPE");
        let ether_type = parse_type(&written, &args.place()).unwrap_or_else(|reason| {
            args.error(reason);
            0
        });
        let written = Some(written).filter(|_| args.was_given("ETHERTYPE"));
        let tag = TagChoice::read(args, &CLASS)?;
        Ok(Box::new(VlanEncap { tag, ether_type, written }))
    },
    ..Class::DEFAULT
};

fn parse_type(text: &str, place: &Scope<'_>) -> Result<u16, Complaint> {
    read_value("ETHERTYPE", text, place)
}

struct VlanEncap {
    tag: TagChoice,
    ether_type: u16,
    /// The text of the argument ETHERTYPE, which the handler shows; `None` if it was not given.
    written: Option<String>,
}

/// The length in bytes of the two addresses at the start of a frame. The tag is inserted after them.
pub(super) const ADDRESSES: usize = 12;

/// Inserts the tag after the addresses of a frame, which move four bytes towards the headroom. The error is
/// the drop reason.
fn insert(packet: &mut Packet, tag: [u8; vlan::Tag::LEN]) -> Fate {
    if !packet.unstrip(vlan::Tag::LEN) {
        return Err(DropReason::NoHeadroom);
    }
    let front: &mut [u8; ADDRESSES + vlan::Tag::LEN] =
        packet.header_chunk_mut(Base::Data).ok_or(DropReason::TooShort)?;
    front.copy_within(vlan::Tag::LEN.., 0);
    front[ADDRESSES..].copy_from_slice(&tag);
    packet.set_link_header(ethernet::Header::LEN + vlan::Tag::LEN);
    Ok(())
}

impl Element for VlanEncap {
    fn effects(&self) -> Effects {
        let untagged = if self.tag.is_annotated() {
            Case::new(self.tag.is_native(), Target::Output(0))
        } else if self.tag.tag_of_constant().is_none() {
            Case::new(Filter::TRUE, Target::Output(0))
        } else {
            Case::new(Filter::FALSE, Target::Output(0))
        };
        let untagged =
            untagged.with(header_at(Base::Mac, 0)).with(header_at(Base::Network, ethernet::Header::LEN));
        let short = Predicate::reaches(Base::Data, 0, ADDRESSES as u16).not();
        let short = Case::new(short, Target::Drop(DropReason::TooShort));
        let addresses = bytes(Base::Data, 0, ADDRESSES as u16);
        let control = match self.tag.is_annotated() {
            true => Value::Copy(TCI),
            false => Value::Constant(self.tag.constant().to_be_bytes().to_vec()),
        };
        let tagged = otherwise(vec![
            Action::Strip(-(vlan::Tag::LEN as i32)),
            Action::Set(addresses.clone(), Value::Copy(addresses)),
            constant(bytes(Base::Data, ADDRESSES, 2), &self.ether_type.to_be_bytes()),
            Action::Set(bytes(Base::Data, ADDRESSES + 2, 2), control),
            header_at(Base::Mac, 0),
            header_at(Base::Network, ethernet::Header::LEN + vlan::Tag::LEN),
        ]);
        Effects::cases(vec![untagged, short, tagged]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let Self { tag, ether_type, .. } = self;
        each(cx, batch, |packet| match tag.tag(packet) {
            None => {
                packet.set_link_header(ethernet::Header::LEN);
                Ok(())
            }
            Some(tci) => {
                let mut bytes = [0; vlan::Tag::LEN];
                bytes[..2].copy_from_slice(&ether_type.to_be_bytes());
                bytes[2..].copy_from_slice(&tci.to_be_bytes());
                insert(packet, bytes)
            }
        });
    }

    fn configuration(&self) -> Option<String> {
        let tag = self.tag.configuration();
        Some(match &self.written {
            Some(ether_type) => format!("{tag}, ETHERTYPE {ether_type}"),
            None => tag,
        })
    }
}

const HANDLERS: &[Handler<VlanEncap>] = &[
    Handler::data("vlan_tci", |e| e.tag.handler("vlan_tci"), |e, cx, text| e.tag.set(cx, "vlan_tci", text)),
    Handler::data("vlan_id", |e| e.tag.handler("vlan_id"), |e, cx, text| e.tag.set(cx, "vlan_id", text)),
    Handler::data("vlan_pcp", |e| e.tag.handler("vlan_pcp"), |e, cx, text| e.tag.set(cx, "vlan_pcp", text)),
    Handler::data(
        "native_vlan",
        |e| e.tag.handler("native_vlan"),
        |e, cx, text| e.tag.set(cx, "native_vlan", text),
    ),
    Handler::data(
        "ethertype",
        |e| e.written.clone().unwrap_or_default(),
        |e, cx, text| {
            e.ether_type = parse_type(text, &cx.place())?;
            e.written = Some(text.trim().to_string());
            Ok(())
        },
    ),
];
