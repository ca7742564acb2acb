//! # SimplePullSwitch
//! Pulls from one input, which a handler chooses, and tells pullers nothing of it.
//!
//! Whoever pulls from it sleeps only while all inputs have nothing.
//!
//! ## Usage
//! `SimplePullSwitch([INPUT])`
//!
//! ## Arguments
//! - `INPUT`: the input; a negative one, or one that does not exist, for none.
//!
//! ## Handlers
//! - `switch`: the input.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> SimplePullSwitch(0) -> Discard
//! ```
//!
//! ## See also
//! PullSwitch, StaticPullSwitch

use element::class::{ArgInfo, HandlerInfo};
use element::{Class, manual};

use super::pull_switch::PullSwitch;

/// The class.
pub static CLASS: Class = Class {
    name: "SimplePullSwitch",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("simple_pull_switch.rs"),
    args: &[ArgInfo::positional("INPUT", "int", "0")],
    handlers: &[HandlerInfo::both("switch")],
    samples: &[" -> 1/1"],
    build: |args| {
        let chosen = args.or("INPUT", 0i32);
        args.finish()?;
        Ok(Box::new(PullSwitch::new(chosen, args.inputs(), false)))
    },
    ..Class::DEFAULT
};
