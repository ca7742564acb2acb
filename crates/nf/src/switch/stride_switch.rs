//! # StrideSwitch
//! Sends packets to its outputs in proportion to their tickets.
//!
//! Output N has a handler `ticketsN` (`tickets0`, `tickets1` and so on), which reads or sets its tickets.
//! If no output has tickets, packets are dropped.
//!
//! ## Usage
//! `StrideSwitch(TICKETS, ...)`
//!
//! ## Arguments
//! - `TICKETS`: one number for each output, at most 32768; 0 for an output that gets no packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: StrideSwitch(3, 1); s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! StrideSched, RoundRobinSwitch, Switch, HashSwitch, RandomSwitch

use element::class::ArgInfo;
use element::{Class, manual};

use crate::schedule::stride::Stride;
use crate::schedule::stride_sched::{HANDLERS, Striding};
use crate::sorting::Sorter;

/// The element class `StrideSwitch`.
pub static CLASS: Class = Class {
    name: "StrideSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("stride_switch.rs"),
    args: &[ArgInfo::rest("TICKETS", "unsigned")],
    table: &HANDLERS,
    samples: &["1", "3, 1, 2 -> 1/3", "0"],
    build: |args| {
        let stride = Stride::read(args, args.outputs(), "output");
        args.finish()?;
        Ok(Box::new(Striding { stride, sorter: Some(Sorter::new(args.outputs())) }))
    },
    ..Class::DEFAULT
};
