//! # DevirtualizeInfo
//! Holds settings for click-devirtualize, a tool of Click that makes C++ classes for the elements of one
//! configuration; accepted, without effect.
//!
//! Here, `tidegate synthesize` makes one program of a chain of elements, and needs no settings.
//!
//! ## Usage
//! `DevirtualizeInfo(SETTING, ...)`
//!
//! ## Arguments
//! - `SETTING`: a setting; any text is accepted.
//!
//! ## Example
//! ```click
//! DevirtualizeInfo(a b); a :: Idle -> b :: Discard
//! ```
//!
//! ## See also
//! AlignmentInfo, ClickyInfo

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, manual};

use super::clicky_info;

/// The element class `DevirtualizeInfo`.
pub static CLASS: Class = Class {
    name: "DevirtualizeInfo",
    ports: "0/0",
    manual: manual!("devirtualize_info.rs"),
    args: &[ArgInfo::rest("SETTING", "any text")],
    phase: ConfigurePhase::Information,
    samples: &["", "a b"],
    build: clicky_info::CLASS.build,
    ..Class::DEFAULT
};
