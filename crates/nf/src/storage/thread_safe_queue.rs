//! # ThreadSafeQueue
//! Stores packets like Queue; in Click, several threads may push into it and pull from it.
//!
//! Each worker has its own copy of the graph, so there is nothing to lock, and ThreadSafeQueue does the
//! same as Queue.
//!
//! ## Usage
//! `ThreadSafeQueue([CAPACITY])`
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
//! InfiniteSource(LIMIT 100) -> ThreadSafeQueue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, SimpleQueue

use element::{Class, manual};

use super::queue;

/// The element class `ThreadSafeQueue`.
pub static CLASS: Class = Class {
    name: "ThreadSafeQueue",
    aliases: &["MSQueue"],
    manual: manual!("thread_safe_queue.rs"),
    ..queue::CLASS
};
