//! # IPIn
//! Passes packets unchanged.
//!
//! In FastClick, the element begins a path whose elements see the payload of IP packets. Elements here find
//! the payload by the header annotations, which CheckIPHeader or MarkIPHeader upstream sets.
//!
//! ## Usage
//! `IPIn`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> IPIn -> IPOut -> Discard
//! ```
//!
//! ## See also
//! IPOut, CTXManager, CheckIPHeader

use element::{Class, Effects, Element, manual};

/// The element class `IPIn`.
pub static CLASS: Class = Class {
    name: "IPIn",
    processing: "a/ah",
    manual: manual!("ip_in.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(IpIn))
    },
    ..Class::DEFAULT
};

struct IpIn;

impl Element for IpIn {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
