//! # Null
//! Passes packets on unchanged.
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
//! Idle, Discard

use element::{Class, Effects, Element, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "Null",
    aliases: &["PushNull", "PullNull"],
    manual: manual!("null.rs"),
    build: |args| {
        args.finish()?;
        Ok(Box::new(Null))
    },
    ..Class::DEFAULT
};

struct Null;

impl Element for Null {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
