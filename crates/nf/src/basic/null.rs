//! # Null
//! Passes packets unchanged.
//!
//! ## Usage
//! `Null`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Null -> Discard
//! ```
//!
//! ## See also
//! Idle, Discard, PushNull, PullNull

use element::{Args, Class, Effects, Element, Invalid, manual};

/// The element class `Null`.
pub static CLASS: Class = Class {
    name: "Null",
    manual: manual!("null.rs"),
    aliases: &["Null1", "Null2", "Null3", "Null4", "Null5", "Null6", "Null7", "Null8"],
    build: Null::build,
    ..Class::DEFAULT
};

pub(super) struct Null;

impl Null {
    pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
        args.finish()?;
        Ok(Box::new(Null))
    }
}

impl Element for Null {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
