//! Composes programs again after an element that they replace has got other arguments (handler `config`).
//!
//! ```text
//!  any worker             first worker, between two batches       a thread of its own
//!  ──────────             ─────────────────────────────────       ───────────────────
//!  config ──────────────▶ the program is outdated: packets take
//!                         the elements; begins ──────────────────▶ composes and proves the programs
//!                         writes the handler `config` of each ◀─── the new arguments of the programs
//!                         program, at all workers
//! ```
//!
//! If arguments change meanwhile, the result is dropped, and the composition begins again. A program is put in
//! only if no change has come since its composition began, at each worker. If an element changes what it does
//! by another handler than `config`, its arguments do not say what it does, so programs stay outdated until
//! the next reload.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

/// The arguments of elements, by name.
pub type Configs = BTreeMap<String, String>;

/// A function that gets the present arguments of the elements that were given other arguments since the
/// start. Returns the new arguments of the programs, by the names of their elements.
pub type Compose = Box<dyn Fn(&Configs) -> Result<Configs, String> + Send + Sync>;

/// The function that composes the programs of a graph again, and the changes of the graph so far. All copies
/// of the graph share it.
pub struct Recomposer {
    pub(crate) compose: Compose,
    changes: Mutex<Changes>,
    /// The number of changes so far.
    pub(crate) version: AtomicU64,
    /// The version whose programs are being put in.
    pub(crate) installs: AtomicU64,
}

#[derive(Clone, Default)]
pub(crate) struct Changes {
    pub(crate) configs: Configs,
    /// True if the arguments of an element do not say any more what the element does.
    pub(crate) is_lost: bool,
}

impl Recomposer {
    /// Makes the recomposer of a graph.
    pub fn new(compose: Compose) -> Recomposer {
        let version = AtomicU64::new(0);
        Recomposer { compose, changes: Mutex::default(), version, installs: AtomicU64::new(0) }
    }

    fn change(&self, change: impl FnOnce(&mut Changes)) {
        change(&mut self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes the new arguments of an element that programs replace.
    pub(crate) fn note(&self, name: &str, config: &str) {
        self.change(|changes| _ = changes.configs.insert(name.to_string(), config.to_string()));
    }

    /// Notes that an element that programs replace has changed what it does, but not its arguments.
    pub(crate) fn note_other(&self) {
        self.change(|changes| changes.is_lost = true);
    }

    /// True if no change has come since the composition of the programs that are being put in began.
    pub(crate) fn is_current(&self) -> bool {
        let version = self.version.load(Ordering::Acquire);
        version != 0 && version == self.installs.load(Ordering::Acquire)
    }

    pub(crate) fn changes(&self) -> Changes {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The progress of the first worker in composing programs again.
#[derive(Default)]
pub(crate) struct Recomposing {
    /// The version that the worker has dealt with.
    pub(crate) done: u64,
    /// The version of the composition that is under way, and the channel that its result comes from.
    pub(crate) under_way: Option<(u64, Receiver<Result<Configs, String>>)>,
}
