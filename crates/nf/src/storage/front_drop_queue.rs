//! # FrontDropQueue
//! Stores packets, first in, first out, and drops the oldest packets when it is full.
//!
//! The evicted packet goes to output 1, or is dropped.
//!
//! ## Usage
//! `FrontDropQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: the maximum number of packets.
//! - `BLOCKING`, `NOUSELESS`: accepted for compatibility with FastClick, without effect.
//!
//! ## Handlers
//! - `length`: the number of packets in the queue.
//! - `highwater_length`: the maximum number of packets that were in the queue.
//! - `capacity`: the maximum number of packets. Writing a smaller number drops the oldest packets that do
//!   not fit.
//! - `drops`: the number of packets that found no room or were evicted.
//! - `reset_counts`: sets drops to zero and the high water mark to the length.
//! - `reset`: empties the queue; the packets go to output 1, if there is one.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> FrontDropQueue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, MixedQueue

use element::class::Notes;
use element::{Class, manual};

use super::fifo::{self, Policy, WhenFull};

/// The element class `FrontDropQueue`.
pub static CLASS: Class = Class {
    name: "FrontDropQueue",
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("front_drop_queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: fifo::STATE,
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| {
        fifo::build(args, Policy { signals_full: false, when_full: WhenFull::DropsOldest, ..fifo::DEFAULT })
    },
    ..Class::DEFAULT
};
