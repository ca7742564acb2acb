//! # PathSpinlock
//! Allows one thread at a time into the downstream path.
//!
//! Each worker has its own copy of the graph, which only this worker's thread enters. Therefore no lock is
//! needed, and all packets pass without waiting.
//!
//! ## Usage
//! `PathSpinlock([LOCK])`
//!
//! ## Arguments
//! - `LOCK`: the name of a lock that a SpinlockInfo declares.
//!
//! ## Example
//! ```click
//! SpinlockInfo(lock); InfiniteSource(LIMIT 3) -> PathSpinlock(lock) -> Discard
//! ```
//!
//! ## See also
//! SpinlockInfo, SpinlockAcquire

use element::class::ArgInfo;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::spinlock_info;

/// The element class `PathSpinlock`.
pub static CLASS: Class = Class {
    name: "PathSpinlock",
    ports: "1-/=",
    flow: "#/#",
    manual: manual!("path_spinlock.rs"),
    args: &[ArgInfo::positional("LOCK", "string", "")],
    samples: &["", " -> 2/2"],
    build: |args| {
        let lock: Option<String> = args.get("LOCK");
        args.finish()?;
        if let Some(lock) = lock {
            spinlock_info::check(args, &lock);
        }
        args.finish()?;
        Ok(Box::new(PathSpinlock { ports: args.inputs() }))
    },
    ..Class::DEFAULT
};

struct PathSpinlock {
    ports: usize,
}

impl Element for PathSpinlock {
    fn effects(&self) -> Effects {
        Effects::port_by_port(self.ports)
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        cx.pass_on(port, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        cx.pull(port, max)
    }
}
