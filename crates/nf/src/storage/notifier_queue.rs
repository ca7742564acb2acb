//! # NotifierQueue
//! Stores packets, first in, first out, and tells pullers when it is empty.
//!
//! Sources that push into it cannot see when it is full; in all else it is a Queue.
//!
//! ## Usage
//! `NotifierQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: most packets.
//! - `BLOCKING`, `NOUSELESS`: accepted for FastClick's sake, without effect.
//!
//! ## Handlers
//! - `length`: packets in the queue.
//! - `highwater_length`: most packets that were ever in it.
//! - `capacity`: most packets. Writing a smaller number drops the youngest packets that do not fit.
//! - `drops`: packets that found no room, or had to make room.
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

/// The class.
pub static CLASS: Class = Class {
    name: "NotifierQueue",
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("notifier_queue.rs"),
    args: fifo::ARGS,
    handlers: fifo::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, Policy { says_full: false, ..fifo::DEFAULT }, 1000),
    ..Class::DEFAULT
};
