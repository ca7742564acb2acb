//! # CPUQueue
//! Stores packets, first in, first out, in one queue per processor.
//!
//! Each worker has its own copy of the graph, and so its own queue. Packets that find the queue full are
//! dropped. The queue gives no signals about being empty or full.
//!
//! ## Usage
//! `CPUQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: the maximum number of packets.
//!
//! ## Handlers
//! - `capacity`: the maximum number of packets.
//! - `drops`: the number of packets that found the queue full.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100, STOP true) -> CPUQueue -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, CPUSwitch

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::fifo::{self, Policy, SignalsEmpty};

/// The element class `CPUQueue`.
pub static CLASS: Class = Class {
    name: "CPUQueue",
    ports: "1/1-",
    processing: "h/l",
    manual: manual!("cpu_queue.rs"),
    args: &[ArgInfo::positional("CAPACITY", "unsigned", "128")],
    table: &fifo::OF_CPU_QUEUE,
    state: &[StatePart::kept("packets", &[]), StatePart::kept("counts", &["drops"])],
    samples: &["", "3 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let policy = Policy {
            signals_empty: SignalsEmpty::Never,
            signals_full: false,
            spills: false,
            ..fifo::DEFAULT
        };
        fifo::build(args, policy)
    },
    ..Class::DEFAULT
};
