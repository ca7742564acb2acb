//! # StripIPHeader
//! Removes the IP header and all bytes ahead of it: the packet then starts at its transport header.
//!
//! The transport header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `StripIPHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripIPHeader -> Discard
//! ```
//!
//! ## See also
//! UnstripIPHeader, StripToNetworkHeader, StripTransportHeader, CheckIPHeader

use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::each;
use crate::stripping::{effects, to_header};
use element::effects::Number;

/// The element class `StripIPHeader`.
pub static CLASS: Class = Class {
    name: "StripIPHeader",
    manual: manual!("strip_ip_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripIpHeader))
    },
    ..Class::DEFAULT
};

struct StripIpHeader;

impl Element for StripIpHeader {
    fn effects(&self) -> Effects {
        effects(Base::Transport, &Number::constant(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| to_header(packet, Base::Transport, 0));
    }
}
