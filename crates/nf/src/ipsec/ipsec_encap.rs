//! # IPsecEncap
//! Prepends an IPv4 header to each packet, with the destination address annotation as its destination.
//!
//! The source address is 0.0.0.0, and the "fix IP source" annotation is set, so that FixIPSrc can fill in the
//! address of the interface by which the packet leaves. Identifications are counted from 0. The header
//! annotations are set to the new header. Packets that would become longer than 65,535 bytes are dropped.
//!
//! ## Usage
//! `IPsecEncap(PROTO [, KEYWORDS])`
//!
//! ## Arguments
//! - `PROTO`: the protocol of the payload, by number or name; 50 for ESP.
//! - `TOS`: the type of service.
//! - `TTL`: the time to live.
//! - `DSCP`: the differentiated services code point, instead of `TOS`.
//! - `ECT`: if true, the ECN field is 1 (the transport supports ECN); `2` sets it to 2.
//! - `CE`: if true, the ECN field is 3 (congestion experienced).
//! - `DF`: if true, the packet must not be fragmented.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetIPAddress(10.9.0.2) -> IPsecEncap(50) -> FixIPSrc(10.9.0.1) -> Discard
//! ```
//!
//! ## See also
//! IPEncap, FixIPSrc, IPsecESPEncap, StripIPHeader

use element::class::{ArgInfo, join};
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::Annotations;

use crate::editing::{annotation, constant, each};
use crate::encap::Outer;
use crate::encap::ip_encap::{HEADER_ARGS, outer};

/// The element class `IPsecEncap`.
pub static CLASS: Class = Class {
    name: "IPsecEncap",
    manual: manual!("ipsec_encap.rs"),
    args: &join::<1, 6, 7>([ArgInfo::required("PROTO", "protocol")], HEADER_ARGS),
    samples: &["50", "ipip, DSCP 46, DF true, TTL 9"],
    reconfigures: true,
    build: |args| {
        let outer = outer(args);
        args.finish()?;
        Ok(Box::new(IpsecEncap { outer, id: 0 }))
    },
    ..Class::DEFAULT
};

struct IpsecEncap {
    outer: Outer,
    id: u16,
}

impl Element for IpsecEncap {
    fn effects(&self) -> Effects {
        let wish = constant(annotation(Annotations::FIX_IP_SRC, 1), &[1]);
        self.outer.effects(0, vec![wish], None)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let template = self.outer.template(cx);
        let wishes = cx.graph().facts().annotation_read(Annotations::FIX_IP_SRC, 1);
        let mut id = self.id;
        each(cx, batch, |packet| {
            template.prepend(packet, id, &[])?;
            if wishes {
                packet.annotations_mut().set_u8(Annotations::FIX_IP_SRC, 1);
            }
            id = id.wrapping_add(1);
            Ok(())
        });
        self.id = id;
    }
}
