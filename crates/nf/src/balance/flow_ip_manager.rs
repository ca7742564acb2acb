//! # FlowIPManager
//! Passes packets unchanged.
//!
//! In FastClick, the element looks up the flow of each packet, and keeps memory per flow for the elements
//! downstream, which need it. Here, an element that keeps state of flows has a flow table of its own, whose
//! size and timeout are its own arguments, and uses the flow that an element upstream has looked up where it
//! can. So the element has nothing to do, and its arguments have no effect. All variants of the element in
//! FastClick and its forks have this class.
//!
//! ## Usage
//! `FlowIPManager([CAPACITY, KEYWORDS])`
//!
//! ## Arguments
//! - `CAPACITY`, `RESERVE`, `TIMEOUT`, `RECYCLE_INTERVAL`, `CACHE`, `LF`: accepted; settings of FastClick's
//!   flow table.
//! - `GROUPS`, `DEF_THREAD`, `MARK`, `DO_MIGRATION`: accepted; settings of FlowIPManagerBucket.
//! - `VERBOSE`: accepted.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53)
//!     -> FlowIPManager(CAPACITY 65536) -> FlowCounter -> Discard
//! ```
//!
//! ## See also
//! FlowIPLoadBalancer, FlowCounter, FlowSwitch

use element::class::ArgInfo;
use element::{Class, Effects, Element, manual};

/// The element class `FlowIPManager`.
pub static CLASS: Class = Class {
    name: "FlowIPManager",
    aliases: &[
        "FlowIPManagerMP",
        "FlowIPManagerIMP",
        "FlowIPManagerHMP",
        "FlowIPManagerBucket",
        "FlowIPManager_DPDK",
        "FlowIPManager_CuckooPP",
        "FlowIPManager_CuckooPPMP",
    ],
    processing: "h",
    manual: manual!("flow_ip_manager.rs"),
    args: &[
        ArgInfo::positional("CAPACITY", "unsigned", "65536"),
        ArgInfo::keyword("RESERVE", "int", "0"),
        ArgInfo::keyword("TIMEOUT", "int", "0"),
        ArgInfo::keyword("RECYCLE_INTERVAL", "number", "1"),
        ArgInfo::keyword("CACHE", "bool", "true"),
        ArgInfo::keyword("LF", "bool", "false"),
        // FlowIPManagerBucket has two arguments by position.
        ArgInfo::positional("GROUPS", "unsigned", "512"),
        ArgInfo::keyword("DEF_THREAD", "int", "0"),
        ArgInfo::keyword("MARK", "bool", "false"),
        ArgInfo::keyword("DO_MIGRATION", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "int", "0"),
    ],
    samples: &["", "CAPACITY 65536, TIMEOUT 60, VERBOSE 1", "512, 65536"],
    build: |args| {
        args.value::<u32>("CAPACITY");
        args.value::<u32>("GROUPS");
        args.value::<f64>("RECYCLE_INTERVAL");
        for name in ["RESERVE", "TIMEOUT", "DEF_THREAD", "VERBOSE"] {
            args.value::<i32>(name);
        }
        for name in ["CACHE", "LF", "MARK", "DO_MIGRATION"] {
            args.value::<bool>(name);
        }
        args.finish()?;
        Ok(Box::new(FlowIpManager))
    },
    ..Class::DEFAULT
};

struct FlowIpManager;

impl Element for FlowIpManager {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
