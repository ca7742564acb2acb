//! # ExactCPUSwitch
//! Distributes the threads on which packets arrive evenly over the outputs.
//!
//! Threads are workers, and packets may arrive on each worker. Therefore ExactCPUSwitch does the same as
//! CPUSwitch.
//!
//! ## Usage
//! `ExactCPUSwitch`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: ExactCPUSwitch -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! CPUSwitch

use element::{Class, manual};

use super::cpu_switch;

/// The element class `ExactCPUSwitch`.
pub static CLASS: Class = Class {
    name: "ExactCPUSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("exact_cpu_switch.rs"),
    samples: &["", " -> 1/3"],
    build: |args| cpu_switch::build(args),
    ..Class::DEFAULT
};
