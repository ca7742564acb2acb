//! # MixedQueue
//! Stores packets; those of input 0 line up at the end, those of input 1 jump the queue.
//!
//! A packet on input 0 that finds the queue full goes to output 1, or is dropped. For one on input 1 the last
//! packet in the queue makes room.
//!
//! ## Usage
//! `MixedQueue([CAPACITY])`
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
//! q :: MixedQueue(50) -> Unqueue -> Discard; InfiniteSource(LIMIT 9) -> q; InfiniteSource(LIMIT 9) -> [1] q
//! ```
//!
//! ## See also
//! Queue, FrontDropQueue

use element::class::Notes;
use element::{Class, manual};

use super::fifo::{self, Policy};

/// The class.
pub static CLASS: Class = Class {
    name: "MixedQueue",
    ports: "2/1-2",
    processing: "h/lh",
    manual: manual!("mixed_queue.rs"),
    args: fifo::ARGS,
    handlers: fifo::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &["100 -> 2/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, Policy { says_full: false, ..fifo::DEFAULT }, 1000),
    ..Class::DEFAULT
};
