//! # StaticSwitch
//! Sends all packets to one output.
//!
//! ## Usage
//! `StaticSwitch(OUTPUT)`
//!
//! ## Arguments
//! - `OUTPUT`: the number of the output; a negative number, or the number of an output that does not exist,
//!   drops all packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: StaticSwitch(1); s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! Switch, StaticPullSwitch

use element::class::ArgInfo;
use element::{Class, manual};

use super::switch::Switch;

/// The element class `StaticSwitch`.
pub static CLASS: Class = Class {
    name: "StaticSwitch",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("static_switch.rs"),
    args: &[ArgInfo::required("OUTPUT", "int")],
    samples: &["0 -> 1/1", "1 -> 1/3", "2 -> 1/2"],
    build: |args| {
        let chosen: i32 = args.required("OUTPUT");
        args.finish()?;
        let outputs = args.outputs();
        let chosen = if chosen >= outputs as i32 { -1 } else { chosen };
        Ok(Box::new(Switch { chosen, outputs, fixed: true }))
    },
    ..Class::DEFAULT
};
