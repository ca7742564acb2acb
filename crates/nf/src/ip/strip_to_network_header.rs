//! # StripToNetworkHeader
//! Moves the start of the packet to its network header: removes bytes ahead of the header, or restores bytes
//! of a header that was stripped.
//!
//! The network header annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `StripToNetworkHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripToNetworkHeader -> Discard
//! ```
//!
//! ## See also
//! Strip, StripIPHeader

use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::each;
use crate::stripping::{effects, to_header};
use element::effects::Number;

/// The element class `StripToNetworkHeader`.
pub static CLASS: Class = Class {
    name: "StripToNetworkHeader",
    manual: manual!("strip_to_network_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(StripToNetworkHeader))
    },
    ..Class::DEFAULT
};

struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    fn effects(&self) -> Effects {
        effects(Base::Network, &Number::constant(0))
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| to_header(packet, Base::Network, 0));
    }
}
