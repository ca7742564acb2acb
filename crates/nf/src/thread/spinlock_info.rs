//! # SpinlockInfo
//! Declares the names of locks for PathSpinlock, SpinlockAcquire and SpinlockRelease.
//!
//! ## Usage
//! `SpinlockInfo(NAME, ...)`
//!
//! ## Arguments
//! - `NAME`: the name of a lock, known in the compound that contains the SpinlockInfo, including nested
//!   compounds.
//!
//! ## Example
//! ```click
//! SpinlockInfo(lock); InfiniteSource(LIMIT 3) -> PathSpinlock(lock) -> Discard
//! ```
//!
//! ## See also
//! PathSpinlock, SpinlockAcquire

use element::class::{ArgInfo, ConfigurePhase};
use element::setup::scope_of;
use element::{Args, Class, Effects, Element, manual};

/// The element class `SpinlockInfo`.
pub static CLASS: Class = Class {
    name: "SpinlockInfo",
    ports: "0/0",
    manual: manual!("spinlock_info.rs"),
    args: &[ArgInfo::rest("NAME", "string")],
    phase: ConfigurePhase::Information,
    samples: &["a, b"],
    build: |args| {
        let mut names = Vec::new();
        args.each_of_rest(|args, _, name| {
            if name.split_whitespace().count() != 1 {
                args.error("bad NAME");
            }
            names.push(name.to_string());
        });
        args.finish()?;
        let scope = scope_of(&args.name()).to_string();
        let locks = names.iter().map(|name| format!("{scope}{name}")).collect();
        args.setup.publish(args.id(), std::sync::Arc::new(Locks(locks)));
        Ok(Box::new(SpinlockInfo))
    },
    ..Class::DEFAULT
};

/// The names of the locks that a SpinlockInfo declares, each prefixed with the name of the SpinlockInfo's
/// compound.
struct Locks(Vec<String>);

/// Reports an error unless a SpinlockInfo has declared `lock` in the compound of the element, or in a
/// compound around it.
pub(super) fn check(args: &mut Args<'_>, lock: &str) {
    let own = args.name();
    let declared =
        (0..args.setup.elements.len()).filter_map(|id| args.setup.service::<Locks>(id)).any(|locks| {
            let names = |name: &String| name.ends_with(lock) && own.starts_with(scope_of(name));
            locks.0.iter().any(|name| names(name) && name.len() == scope_of(name).len() + lock.len())
        });
    if !declared {
        args.error(format!("no spinlock named '{lock}'"));
    }
}

struct SpinlockInfo;

impl Element for SpinlockInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
