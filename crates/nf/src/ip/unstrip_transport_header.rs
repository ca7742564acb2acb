//! # UnstripTransportHeader
//! Restores a stripped transport header: the packet starts at its transport header again.
//!
//! The transport header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `UnstripTransportHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripTransportHeader -> UnstripTransportHeader -> Discard
//! ```
//!
//! ## See also
//! StripTransportHeader, UnstripIPHeader

use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::each;
use crate::stripping::{effects, to_header};
use element::effects::Number;

/// The element class `UnstripTransportHeader`.
pub static CLASS: Class = Class {
    name: "UnstripTransportHeader",
    aliases: &["UnstripTCPHeader", "UnstripUDPHeader"],
    manual: manual!("unstrip_transport_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(UnstripTransportHeader))
    },
    ..Class::DEFAULT
};

struct UnstripTransportHeader;

impl Element for UnstripTransportHeader {
    fn effects(&self) -> Effects {
        effects(Base::Transport, &Number::constant(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| to_header(packet, Base::Transport, 0));
    }
}
