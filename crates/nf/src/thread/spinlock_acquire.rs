//! # SpinlockAcquire
//! Takes a lock, which SpinlockRelease releases, so that only one thread is between the two elements.
//!
//! Each worker has its own copy of the graph, which only this worker's thread enters. Therefore no lock is
//! needed, and all packets pass without waiting.
//!
//! ## Usage
//! `SpinlockAcquire(LOCK)`
//!
//! ## Arguments
//! - `LOCK`: the name of a lock that a SpinlockInfo declares.
//!
//! ## Example
//! ```click
//! SpinlockInfo(lock); InfiniteSource(LIMIT 3) -> SpinlockAcquire(lock) -> SpinlockRelease(lock) -> Discard
//! ```
//!
//! ## See also
//! SpinlockInfo, PathSpinlock

use element::class::ArgInfo;
use element::{Class, Effects, Element, manual};

use super::spinlock_info;

/// The element class `SpinlockAcquire`.
pub static CLASS: Class = Class {
    name: "SpinlockAcquire",
    aliases: &["SpinlockRelease"],
    manual: manual!("spinlock_acquire.rs"),
    args: &[ArgInfo::required("LOCK", "string")],
    // There are no samples for the generic tests: a sample is a single element, but another element must
    // declare the lock.
    samples: &[],
    build: |args| {
        let lock: String = args.required("LOCK");
        args.finish()?;
        spinlock_info::check(args, &lock);
        args.finish()?;
        Ok(Box::new(SpinlockAcquire))
    },
    ..Class::DEFAULT
};

struct SpinlockAcquire;

impl Element for SpinlockAcquire {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
