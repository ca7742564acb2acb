//! # NotifierQueue
//! Stores packets, first in, first out, and signals to pullers when it is empty.
//!
//! Sources that push into the queue cannot see when it is full; otherwise it is like Queue.
//!
//! ## Usage
//! `NotifierQueue([CAPACITY])`
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
//! InfiniteSource(LIMIT 100) -> NotifierQueue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, SimpleQueue

use element::class::Notes;
use element::{Class, manual};

use super::fifo::{self, Policy};

/// The element class `NotifierQueue`.
pub static CLASS: Class = Class {
    name: "NotifierQueue",
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("notifier_queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: fifo::STATE,
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, Policy { signals_full: false, ..fifo::DEFAULT }),
    ..Class::DEFAULT
};
