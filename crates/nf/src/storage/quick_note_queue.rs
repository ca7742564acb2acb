//! # QuickNoteQueue
//! Stores packets like Queue, and signals to pullers immediately when it is empty.
//!
//! Queue waits for some empty pulls before it puts pullers to sleep; QuickNoteQueue does so when its last
//! packet is pulled.
//!
//! ## Usage
//! `QuickNoteQueue([CAPACITY])`
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
//! InfiniteSource(LIMIT 100) -> QuickNoteQueue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue

use element::class::Notes;
use element::{Class, manual};

use super::fifo::{self, Policy, SignalsEmpty};

/// The element class `QuickNoteQueue`.
pub static CLASS: Class = Class {
    name: "QuickNoteQueue",
    ports: "1/1-2",
    processing: "h/lh",
    manual: manual!("quick_note_queue.rs"),
    args: fifo::ARGS,
    table: &fifo::HANDLERS,
    notes: Notes { signals_packets: true, signals_room: true, ..Notes::NONE },
    state: fifo::STATE,
    samples: &["", "3 -> 1/2", "0"],
    reconfigures: true,
    build: |args| fifo::build(args, Policy { signals_empty: SignalsEmpty::AtOnce, ..fifo::DEFAULT }),
    ..Class::DEFAULT
};
