//! # VLANDecap
//! Removes the VLAN tag of Ethernet frames, and stores it in the VLAN annotation.
//!
//! Frames without a tag pass. The MAC and network header annotations are set as for a frame without a tag.
//!
//! ## Usage
//! `VLANDecap([ANNO, KEYWORDS])`
//!
//! ## Arguments
//! - `ANNO`: if true, the annotation is set to the tag control information, or to zero without a tag.
//! - `ETHERTYPE`: the EtherType that indicates the tag.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> VLANDecap -> Discard
//! ```
//!
//! ## See also
//! VLANEncap, StripEtherVLANHeader, SetVLANAnno

use element::class::ArgInfo;
use element::effects::{Action, Case, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, Effects, Element, Packet, manual};
use wire::{ethernet, vlan};

use super::vlan_encap::ADDRESSES;
use super::{TCI, set_tci_annotation, tci_is_read};
use crate::editing::{bytes, constant, header_at, otherwise};

/// The element class `VLANDecap`.
pub static CLASS: Class = Class {
    name: "VLANDecap",
    aliases: &["VlanDecap"],
    manual: manual!("vlan_decap.rs"),
    args: &[ArgInfo::positional("ANNO", "bool", "true"), ArgInfo::keyword("ETHERTYPE", "0-0xffff", "0x8100")],
    samples: &["", "false", "ETHERTYPE 0x0800"],
    build: |args| {
        let annotate = args.value::<bool>("ANNO");
        let ether_type = args.value::<u16>("ETHERTYPE");
        args.finish()?;
        Ok(Box::new(VlanDecap { annotate, ether_type }))
    },
    ..Class::DEFAULT
};

struct VlanDecap {
    annotate: bool,
    ether_type: u16,
}

/// The number of bytes from the start of the frame to the end of the VLAN tag.
const FRONT: usize = ADDRESSES + vlan::Tag::LEN;

/// Removes the VLAN tag from a frame, and returns its tag control information. Returns `None`, and leaves
/// the frame unchanged, if the frame has no tag of this EtherType or is too short.
fn take_tag(packet: &mut Packet, ether_type: u16) -> Option<u16> {
    let front: &mut [u8; FRONT] = packet.header_chunk_mut(Base::Data)?;
    let [.., t0, t1, c0, c1] = *front;
    if [t0, t1] != ether_type.to_be_bytes() {
        return None;
    }
    front.copy_within(..ADDRESSES, vlan::Tag::LEN);
    // This cannot fail: the packet has at least the bytes of `front`.
    packet.strip(vlan::Tag::LEN).then_some(u16::from_be_bytes([c0, c1]))
}

impl Element for VlanDecap {
    fn effects(&self) -> Effects {
        let announces = bytes(Base::Data, ADDRESSES, 2);
        let control = bytes(Base::Data, ADDRESSES + 2, 2);
        let whole = Predicate::reaches(Base::Data, ADDRESSES as i32 + 2, 2);
        let tagged = Predicate::equals(announces, self.ether_type.into()).and([whole]);
        let addresses = Value::Copy(bytes(Base::Data, 0, ADDRESSES as u16));
        let mut tagged = Case::new(tagged, Target::Output(0))
            .with(Action::Set(bytes(Base::Data, vlan::Tag::LEN, ADDRESSES as u16), addresses))
            .with(Action::Strip(vlan::Tag::LEN as i32));
        let mut plain = otherwise(Vec::new());
        if self.annotate {
            tagged = tagged.with(Action::Set(TCI, Value::Copy(control)));
            plain = plain.with(constant(TCI, &[0, 0]));
        }
        let marked = |case: Case| {
            case.with(header_at(Base::Mac, 0)).with(header_at(Base::Network, ethernet::Header::LEN))
        };
        Effects::cases(vec![marked(tagged), marked(plain)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let annotate = self.annotate && tci_is_read(cx);
        for packet in batch.iter_mut() {
            let tci = take_tag(packet, self.ether_type).unwrap_or(0);
            packet.set_link_header(ethernet::Header::LEN);
            if annotate {
                set_tci_annotation(packet, tci);
            }
        }
    }
}
