//! # UnstripIPHeader
//! Gives an IP header back that was stripped: the packet starts at its network header again.
//!
//! Packets whose network header was not stripped pass unchanged; packets without one are dropped.
//!
//! ## Usage
//! `UnstripIPHeader`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> StripIPHeader -> UnstripIPHeader -> Discard
//! ```
//!
//! ## See also
//! StripIPHeader, Unstrip

use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::each;
use crate::stripping::{effects, to_header};

/// The class.
pub static CLASS: Class = Class {
    name: "UnstripIPHeader",
    manual: manual!("unstrip_ip_header.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(UnstripIpHeader))
    },
    ..Class::DEFAULT
};

struct UnstripIpHeader;

impl Element for UnstripIpHeader {
    fn effects(&self) -> Effects {
        effects(Base::Network, &[])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| match packet.offset(Base::Network) {
            Some(0..) => Ok(()),
            _ => to_header(packet, Base::Network, 0),
        });
    }
}
