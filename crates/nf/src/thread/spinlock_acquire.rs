//! # SpinlockAcquire
//! Takes a lock, which SpinlockRelease releases, so that only one thread is between the two elements.
//!
//! Each worker has its own copy of the graph, so there is never more than one thread, and all packets pass.
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

/// The class.
pub static CLASS: Class = Class {
    name: "SpinlockAcquire",
    aliases: &["SpinlockRelease"],
    manual: manual!("spinlock_acquire.rs"),
    args: &[ArgInfo::required("LOCK", "string")],
    // No samples, because another element must declare the lock.
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
