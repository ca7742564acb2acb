//! # SimpleQueue
//! Stores packets, first in, first out, and gives no signals about being empty or full.
//!
//! Pullers keep trying while the queue is empty; otherwise it is like Queue.
//!
//! ## Usage
//! `SimpleQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: the maximum number of packets.
//! - `BLOCKING`, `NOUSELESS`: accepted for compatibility with FastClick, without effect.
//!
//! ## Handlers
//! - `length`: the number of packets in the queue.
//! - `highwater_length`: the maximum number of packets that were in the queue.
//! - `capacity`: the maximum number of packets. Writing a smaller number drops the newest packets that do
//!   not fit.
//! - `drops`: the number of packets that found no room or were evicted.
//! - `reset_counts`: sets drops to zero and the high water mark to the length.
//! - `reset`: empties the queue; the packets go to output 1, if there is one.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100, STOP true) -> SimpleQueue(200) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, NotifierQueue

use element::{Class, manual};

use super::fifo::{self, Policy, SignalsEmpty};

/// The element class `SimpleQueue`.
pub static CLASS: Class = Class {
    name: "SimpleQueue",
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("simple_queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    state: fifo::STATE,
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| {
        fifo::build(args, Policy { signals_empty: SignalsEmpty::Never, signals_full: false, ..fifo::DEFAULT })
    },
    ..Class::DEFAULT
};
