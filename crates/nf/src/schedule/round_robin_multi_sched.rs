//! # RoundRobinMultiSched
//! Pulls from its inputs in turn, up to N packets from each.
//!
//! If an input has fewer packets, its turn ends early.
//!
//! ## Usage
//! `RoundRobinMultiSched([N, MAX])`
//!
//! ## Arguments
//! - `N`: the maximum number of packets per turn.
//! - `MAX`: the number of inputs to use, counted from the first.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> rr :: RoundRobinMultiSched(4) -> Discard;
//! InfiniteSource(LIMIT 5) -> Queue -> [1] rr
//! ```
//!
//! ## See also
//! RoundRobinSched

use element::class::ArgInfo;
use element::{Class, manual};

use super::round_robin_sched;

/// The element class `RoundRobinMultiSched`.
pub static CLASS: Class = Class {
    name: "RoundRobinMultiSched",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("round_robin_multi_sched.rs"),
    args: &[ArgInfo::positional("N", "unsigned", "1"), ArgInfo::positional("MAX", "unsigned", "")],
    samples: &["3 -> 2/1"],
    build: |args| {
        let turn = args.value::<u32>("N");
        round_robin_sched::build(args, turn)
    },
    ..Class::DEFAULT
};
