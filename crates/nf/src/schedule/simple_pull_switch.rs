//! # SimplePullSwitch
//! Pulls from one input, which a handler chooses, and has no signal that follows the choice.
//!
//! Elements that pull from SimplePullSwitch sleep only while no input has packets. While only inputs that
//! are not chosen have packets, they pull in a loop without getting any.
//!
//! ## Usage
//! `SimplePullSwitch([INPUT])`
//!
//! ## Arguments
//! - `INPUT`: the input; a negative number, or an input that does not exist, for no input.
//!
//! ## Handlers
//! - `switch`: the input, or -1 for no input.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> SimplePullSwitch(0) -> Discard
//! ```
//!
//! ## See also
//! PullSwitch, StaticPullSwitch

use element::class::ArgInfo;
use element::{Class, manual};

use super::pull_switch::PullSwitch;

/// The element class `SimplePullSwitch`.
pub static CLASS: Class = Class {
    name: "SimplePullSwitch",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("simple_pull_switch.rs"),
    args: &[ArgInfo::positional("INPUT", "int", "0")],
    table: &super::pull_switch::HANDLERS,
    samples: &[" -> 1/1"],
    reconfigures: true,
    build: |args| {
        let chosen = args.value::<i32>("INPUT");
        args.finish()?;
        Ok(Box::new(PullSwitch::new(chosen, args.inputs(), false)))
    },
    ..Class::DEFAULT
};
