//! # Burster
//! Pulls up to BURST packets once per INTERVAL, and pushes them.
//!
//! Burster is a TimedUnqueue that pulls more than one packet unless configured otherwise.
//!
//! ## Usage
//! `Burster(INTERVAL [, BURST])`
//!
//! ## Arguments
//! - `INTERVAL`: the time from one burst to the next.
//! - `BURST`: the maximum number of packets in a burst.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> Burster(10ms) -> Discard
//! ```
//!
//! ## See also
//! TimedUnqueue

use element::class::{ArgInfo, Notes};
use element::{Class, StatePart, manual};

use super::timed_unqueue::build;

/// The element class `Burster`.
pub static CLASS: Class = Class {
    name: "Burster",
    processing: "l/h",
    manual: manual!("burster.rs"),
    notes: Notes::TASK,
    args: &[ArgInfo::required("INTERVAL", "seconds"), ArgInfo::positional("BURST", "int", "8")],
    state: &[StatePart::kept("rate", &[])],
    samples: &["1ms"],
    build,
    ..Class::DEFAULT
};
