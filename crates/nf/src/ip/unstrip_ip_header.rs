//! # UnstripIPHeader
//! Restores a stripped IP header: the packet starts at its network header again.
//!
//! Packets whose network header was not stripped pass unchanged; packets without a network header
//! annotation are dropped.
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
use crate::stripping::{cases, to_header};
use element::effects::{Case, Field, Number, Predicate, Target};

/// The element class `UnstripIPHeader`.
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
        let there = Predicate::at_most(Number::constant(0), Number::of(Field::HeaderOffset(Base::Network)));
        let there = Case::new(there, Target::Output(0));
        Effects::cases(std::iter::once(there).chain(cases(Base::Network, &Number::constant(0))).collect())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| match packet.offset(Base::Network) {
            Some(0..) => Ok(()),
            _ => to_header(packet, Base::Network, 0),
        });
    }
}
