//! # SetVLANAnno
//! Sets the VLAN annotation.
//!
//! ## Usage
//! `SetVLANAnno([VLAN_TCI, VLAN_PCP, KEYWORDS])`
//!
//! ## Arguments
//! - `VLAN_TCI`: the tag control information.
//! - `VLAN_PCP`: the priority, 0 to 7.
//! - `VLAN_ID`: the VLAN number, if there is no `VLAN_TCI`.
//!
//! ## Handlers
//! - `vlan_tci`: the tag control information, in decimal.
//! - `vlan_id`, `vlan_pcp`: the parts of the tag control information.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetVLANAnno(VLAN_ID 7) -> VLANEncap(ANNO) -> Discard
//! ```
//!
//! ## See also
//! VLANEncap, EtherVLANEncap

use element::class::ArgInfo;
use element::effects::Depends;
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};

use super::{TCI, TagChoice, set_tci_annotation};
use crate::editing::{constant, otherwise};

/// The element class `SetVLANAnno`.
pub static CLASS: Class = Class {
    name: "SetVLANAnno",
    aliases: &["SetVlanAnno"],
    manual: manual!("set_vlan_anno.rs"),
    args: &[
        ArgInfo::positional("VLAN_TCI", "0-0xffff", ""),
        ArgInfo::positional("VLAN_PCP", "0-7", "0"),
        ArgInfo::keyword("VLAN_ID", "0-0xfff", "0"),
    ],
    table: &HANDLERS,
    samples: &["", "7, 3"],
    reconfigures: true,
    build: |args| {
        let tag = TagChoice::read(args, &CLASS)?;
        if tag.is_annotated() {
            args.error_as(NOT_ANNO, "VLAN_TCI: invalid number");
        }
        args.finish()?;
        Ok(Box::new(SetVlanAnno { tag }))
    },
    ..Class::DEFAULT
};

/// The error text for `VLAN_TCI ANNO`, which would make the element copy the annotation to itself.
const NOT_ANNO: &str = "VLAN_TCI: 'ANNO' is not a number; it is what this element sets";

struct SetVlanAnno {
    tag: TagChoice,
}

impl Element for SetVlanAnno {
    fn effects(&self) -> Effects {
        let set = constant(TCI, &self.tag.constant().to_be_bytes());
        Effects::cases(vec![otherwise(vec![set])]).depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let tci = self.tag.constant();
        batch.iter_mut().for_each(|packet| set_tci_annotation(packet, tci));
    }

    fn configuration(&self) -> Option<String> {
        Some(self.tag.configuration())
    }
}

const HANDLERS: &[Handler<SetVlanAnno>] = &[
    Handler::data("vlan_tci", |e| e.tag.handler("vlan_tci"), |e, cx, text| e.set(cx, "vlan_tci", text)),
    Handler::data("vlan_id", |e| e.tag.handler("vlan_id"), |e, cx, text| e.set(cx, "vlan_id", text)),
    Handler::data("vlan_pcp", |e| e.tag.handler("vlan_pcp"), |e, cx, text| e.set(cx, "vlan_pcp", text)),
];

impl SetVlanAnno {
    fn set(&mut self, cx: &Cx<'_>, name: &str, text: &str) -> Result<(), String> {
        if text.trim() == "ANNO" {
            return Err(NOT_ANNO.into());
        }
        self.tag.set(cx, name, text)
    }
}
