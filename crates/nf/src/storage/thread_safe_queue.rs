//! # ThreadSafeQueue
//! A Queue that several threads may push into and pull from.
//!
//! Each worker has its own copy of the graph, so that there is nothing to lock: it does what Queue does.
//!
//! ## Usage
//! `ThreadSafeQueue([CAPACITY])`
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
//! InfiniteSource(LIMIT 100) -> ThreadSafeQueue(50) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, SimpleQueue

use element::{Class, manual};

use super::queue;

/// The class.
pub static CLASS: Class =
    Class { name: "ThreadSafeQueue", aliases: &[], manual: manual!("thread_safe_queue.rs"), ..queue::CLASS };
