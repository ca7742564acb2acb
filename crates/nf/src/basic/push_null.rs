//! # PushNull
//! Passes packets unchanged; its ports are push ports.
//!
//! ## Usage
//! `PushNull`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> PushNull -> Discard
//! ```
//!
//! ## See also
//! Null, PullNull

use element::{Class, manual};

use super::null::Null;

/// The element class `PushNull`.
pub static CLASS: Class = Class {
    name: "PushNull",
    processing: "h/h",
    manual: manual!("push_null.rs"),
    build: Null::build,
    ..Class::DEFAULT
};
