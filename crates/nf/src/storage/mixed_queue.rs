//! # MixedQueue
//! Stores packets; packets of input 0 are put at the end of the queue, packets of input 1 at its front.
//!
//! A packet on input 0 that finds the queue full goes to output 1, or is dropped. A packet on input 1 that
//! finds the queue full evicts the last packet of the queue.
//!
//! ## Usage
//! `MixedQueue([CAPACITY])`
//!
//! ## Arguments
//! - `CAPACITY`: the maximum number of packets.
//! - `BLOCKING`, `NOUSELESS`: accepted for compatibility with FastClick, without effect.
//!
//! ## Handlers
//! - `length`: the number of packets in the queue.
//! - `highwater_length`: the maximum number of packets that were in the queue.
//! - `capacity`: the maximum number of packets. Writing a smaller number drops packets from the end of the
//!   queue until the others fit.
//! - `drops`: the number of packets that found no room or were evicted.
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

/// The element class `MixedQueue`.
pub static CLASS: Class = Class {
    name: "MixedQueue",
    ports: "2/1-2",
    processing: "h/lh",
    manual: manual!("mixed_queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: fifo::STATE,
    samples: &["100 -> 2/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, Policy { signals_full: false, ..fifo::DEFAULT }),
    ..Class::DEFAULT
};
