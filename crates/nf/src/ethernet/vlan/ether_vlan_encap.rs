//! # EtherVLANEncap
//! Prepends an Ethernet header with a VLAN tag to each packet.
//!
//! Packets of the native VLAN, by default VLAN 0, get a header without a tag. The MAC header annotation is
//! set to the new header, and the network header annotation to the first byte after it.
//!
//! ## Usage
//! `EtherVLANEncap(ETHERTYPE, SRC, DST [, VLAN_TCI, VLAN_PCP, KEYWORDS])`
//!
//! ## Arguments
//! - `ETHERTYPE`: the EtherType of the payload, such as 0x0800.
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `VLAN_TCI`: the tag control information, or `ANNO` for the VLAN annotation of each packet.
//! - `VLAN_PCP`: the priority, 0 to 7.
//! - `VLAN_ID`: the VLAN number, if there is no `VLAN_TCI`.
//! - `NATIVE_VLAN`: the VLAN whose packets get no tag, or -1 for none.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses.
//! - `ethertype`: the EtherType, in decimal.
//! - `vlan_tci`: the tag control information, or `ANNO`.
//! - `vlan_id`, `vlan_pcp`: the parts of the tag control information; empty if the annotation has it.
//! - `native_vlan`: the VLAN whose packets get no tag; empty for the default 0.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> EtherVLANEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 7) -> Discard
//! ```
//!
//! ## See also
//! EtherEncap, VLANEncap, StripEtherVLANHeader, SetVLANAnno

use element::class::ArgInfo;
use element::effects::{Action, Depends, Field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};
use wire::{IntoBytes, LinkType, ether_type, ethernet, vlan};

use super::{TCI, TagChoice};
use crate::editing::{bytes, constant, each, header_at, otherwise, pure, value};

/// The element class `EtherVLANEncap`.
pub static CLASS: Class = Class {
    name: "EtherVLANEncap",
    aliases: &["EtherVlanEncap"],
    manual: manual!("ether_vlan_encap.rs"),
    args: &[
        ArgInfo::required("ETHERTYPE", "0-0xffff"),
        ArgInfo::required("SRC", "Ethernet address"),
        ArgInfo::required("DST", "Ethernet address"),
        ArgInfo::positional("VLAN_TCI", "0-0xffff or ANNO", ""),
        ArgInfo::positional("VLAN_PCP", "0-7", "0"),
        ArgInfo::keyword("VLAN_ID", "0-0xfff", "0"),
        ArgInfo::keyword("NATIVE_VLAN", "-1-0xfff", "0"),
    ],
    table: &HANDLERS,
    samples: &[
        "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2",
        "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, VLAN_ID 7, VLAN_PCP 3",
        "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO, NATIVE_VLAN 514",
    ],
    reconfigures: true,
    build: |args| {
        let ether_type: u16 = args.required("ETHERTYPE");
        let (source, destination) = (args.required("SRC"), args.required("DST"));
        let tag = TagChoice::read(args, &CLASS)?;
        let header = ethernet::Header { destination, source, ether_type: ether_type.into() };
        Ok(Box::new(EtherVlanEncap { header, tag }))
    },
    ..Class::DEFAULT
};

struct EtherVlanEncap {
    /// The addresses and the EtherType of the payload. In a frame with a tag, this EtherType is after the
    /// tag.
    header: ethernet::Header,
    tag: TagChoice,
}

const PLAIN: usize = ethernet::Header::LEN;
const TAGGED: usize = PLAIN + vlan::Tag::LEN;

impl EtherVlanEncap {
    /// Returns the bytes of a header with a tag. The tag control information in it is replaced per packet
    /// if it comes from the annotation.
    fn template(&self) -> [u8; TAGGED] {
        let mut header = [0; TAGGED];
        let tagged = ethernet::Header { ether_type: ether_type::VLAN.into(), ..self.header };
        let tag = vlan::Tag { control: self.tag.constant().into(), ether_type: self.header.ether_type };
        header[..PLAIN].copy_from_slice(tagged.as_bytes());
        header[PLAIN..].copy_from_slice(tag.as_bytes());
        header
    }
}

impl Element for EtherVlanEncap {
    fn effects(&self) -> Effects {
        if self.tag.is_annotated() {
            // The annotation decides per packet if there is a tag, so the length of the header is declared
            // as computed from the annotation.
            let actions = vec![
                pure(Field::HeaderOffset(Base::Data), "start of the header", &[TCI]),
                pure(Field::Length, "with the header", &[TCI, Field::Length]),
                header_at(Base::Mac, 0),
                pure(Field::HeaderOffset(Base::Network), "end of the header", &[TCI]),
                pure(bytes(Base::Mac, 0, TAGGED as u16), "Ethernet header with a tag", &[TCI]),
            ];
            return Effects::cases(vec![otherwise(actions)]).depending_on(Depends::Handler);
        }
        let template = self.template();
        let untagged = self.tag.tag_of_constant().is_none();
        let length = if untagged { PLAIN } else { TAGGED };
        let header = if untagged { self.header.as_bytes() } else { &template[..] };
        Effects::cases(vec![otherwise(vec![
            Action::Strip(-(length as i32)),
            header_at(Base::Mac, 0),
            header_at(Base::Network, length),
            constant(bytes(Base::Mac, 0, length as u16), header),
        ])])
        .depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut plain = [0; PLAIN];
        plain.copy_from_slice(self.header.as_bytes());
        let mut tagged = self.template();
        let tag = &self.tag;
        each(cx, batch, |packet| {
            let (done, length) = match tag.tag(packet) {
                None => (packet.prepend(&plain), PLAIN),
                Some(tci) => {
                    tagged[PLAIN..PLAIN + 2].copy_from_slice(&tci.to_be_bytes());
                    (packet.prepend(&tagged), TAGGED)
                }
            };
            if !done {
                return Err(DropReason::NoHeadroom);
            }
            packet.set_link_header(length);
            packet.set_link(LinkType::Ethernet.number());
            Ok(())
        });
    }

    fn configuration(&self) -> Option<String> {
        let ethernet::Header { source, destination, ether_type } = &self.header;
        Some(format!("{ether_type}, {source:#}, {destination:#}, {}", self.tag.configuration()))
    }
}

const HANDLERS: &[Handler<EtherVlanEncap>] = &[
    Handler::data(
        "src",
        |e| format!("{:#}", e.header.source),
        |e, cx, text| {
            e.header.source = value(cx, text, "expected Ethernet address")?;
            Ok(())
        },
    ),
    Handler::data(
        "dst",
        |e| format!("{:#}", e.header.destination),
        |e, cx, text| {
            e.header.destination = value(cx, text, "expected Ethernet address")?;
            Ok(())
        },
    ),
    Handler::data(
        "ethertype",
        |e| e.header.ether_type.get().to_string(),
        |e, cx, text| {
            e.header.ether_type = value::<u16>(cx, text, "expected uint16_t")?.into();
            Ok(())
        },
    ),
    Handler::data("vlan_tci", |e| e.tag.handler("vlan_tci"), |e, cx, text| e.tag.set(cx, "vlan_tci", text)),
    Handler::data("vlan_id", |e| e.tag.handler("vlan_id"), |e, cx, text| e.tag.set(cx, "vlan_id", text)),
    Handler::data("vlan_pcp", |e| e.tag.handler("vlan_pcp"), |e, cx, text| e.tag.set(cx, "vlan_pcp", text)),
    Handler::data(
        "native_vlan",
        |e| e.tag.handler("native_vlan"),
        |e, cx, text| e.tag.set(cx, "native_vlan", text),
    ),
];
