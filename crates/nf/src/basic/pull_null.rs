//! # PullNull
//! Passes packets unchanged; its ports are pull ports.
//!
//! ## Usage
//! `PullNull`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Queue -> PullNull -> Discard
//! ```
//!
//! ## See also
//! Null, PushNull

use element::{Class, manual};

use super::null::Null;

/// The element class `PullNull`.
pub static CLASS: Class = Class {
    name: "PullNull",
    processing: "l/l",
    manual: manual!("pull_null.rs"),
    build: Null::build,
    ..Class::DEFAULT
};
