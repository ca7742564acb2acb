//! # Queue
//! Stores packets between a push path and a pull path, first in, first out.
//!
//! A packet that finds the queue full goes to output 1, or is dropped. Elements that pull from the queue
//! sleep while it is empty, and sources that push into it can see when it is full.
//!
//! ## Usage
//! `Queue([CAPACITY])`
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
//! InfiniteSource(LIMIT 100) -> q :: Queue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Unqueue, NotifierQueue, SimpleQueue, QuickNoteQueue, FrontDropQueue, MixedQueue, ThreadSafeQueue

use element::class::Notes;
use element::{Class, manual};

use super::fifo;

/// The element class `Queue`.
pub static CLASS: Class = Class {
    name: "Queue",
    aliases: &["FullNoteQueue"],
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    notes: Notes { signals_packets: true, signals_room: true, ..Notes::NONE },
    state: fifo::STATE,
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, fifo::DEFAULT),
    ..Class::DEFAULT
};
