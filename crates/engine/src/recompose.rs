//! Recomposition: composes the programs of a running graph again after a handler has changed an element that
//! a program replaces.
//!
//! ```text
//!  any worker             first worker, between two batches       a thread of its own
//!  ──────────             ─────────────────────────────────       ───────────────────
//!  handler ─────────────▶ the program is outdated, so packets
//!                         pass the elements
//!                         starts the composition ───────────────▶ composes and proves the programs
//!                         replaces the outdated programs, ◀────── the arguments of the programs
//!                         at all workers
//! ```
//!
//! The composition reads the declarations ([`Effects`]) that the elements have after the change, so each
//! handler that changes what an element does is covered: `config`, `active`, `add` for a route. It starts
//! when no change has come for as long as the composition before took, and for [`PAUSE`] at least, so that a
//! stream of changes costs little. If an element changes during a composition, the result is dropped, and the
//! composition starts again.
//!
//! Changes of all elements count, also of elements that no program replaces at present: packets may have
//! been kept away from an element when its program was composed, and the next program may replace it.
//!
//! A worker accepts a program only if its own copies of all elements have the declarations that the program
//! was composed from. So a program that comes late does not undo a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use element::{Effects, Timestamp};

/// The least time without a change of any element after which a composition starts: 10 ms.
pub(crate) const PAUSE: Timestamp = Timestamp(10_000_000);

/// The present declarations ([`Effects`]) of elements, by the names of the elements. A declaration with many
/// cases is large, so copies of the map share the declarations.
pub type Declarations = BTreeMap<String, Arc<Effects>>;

/// The new arguments of each synthesized program, or the reason why the program could not be composed again,
/// by the names of the elements that are the programs.
pub type Programs = BTreeMap<String, Result<String, String>>;

/// A function that composes the synthesized programs of a graph. It gets the declarations of the elements
/// that have changed since the start.
pub type Compose = Box<dyn Fn(&Declarations) -> Programs + Send + Sync>;

/// The function that composes the synthesized programs of a graph again, and the changes of the graph's
/// elements since the start. All copies of the graph share it.
pub struct Recomposer {
    pub(crate) compose: Compose,
    changes: Mutex<Changes>,
    /// The number of changes so far.
    pub(crate) version: AtomicU64,
    /// The result of a composition, while the first worker gives its programs to the workers' copies of the
    /// graph; `None` at other times.
    composed: Mutex<Option<Arc<Composed>>>,
}

/// The result of a composition.
pub(crate) struct Composed {
    /// The declarations of all changed elements, from which the programs were composed.
    pub(crate) declarations: Arc<Declarations>,
    pub(crate) programs: Programs,
}

/// The changes of a graph since its start.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    /// The declarations of the elements that have changed.
    pub(crate) declarations: Declarations,
    /// The names of elements whose declarations are not known, because they were being called when they
    /// changed. Their workers ask them for their declarations in the next round of the driver's loop.
    pub(crate) unknown: BTreeSet<String>,
    /// The names of programs that have to be composed again, because an element has changed. With each, true
    /// if the program itself replaces the element: packets then pass through the elements, and the program
    /// must be replaced. False if only an earlier program of the same name replaced the element: the program
    /// still acts.
    pub(crate) outdated: BTreeMap<String, bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recomposer {
    /// Makes the recomposer of a graph without changes.
    pub fn new(compose: Compose) -> Recomposer {
        Recomposer {
            compose,
            changes: Mutex::default(),
            version: AtomicU64::new(0),
            composed: Mutex::default(),
        }
    }

    /// Records that an element has changed. `effects` is its declaration, or `None` if the element is being
    /// called. `outdated` are programs that have to be composed again: see [`Changes::outdated`].
    pub(crate) fn note<'n>(
        &self,
        name: &str,
        effects: Option<&Effects>,
        outdated: impl Iterator<Item = (&'n str, bool)>,
    ) {
        let mut changes = lock(&self.changes);
        match effects {
            Some(effects) => {
                changes.unknown.remove(name);
                changes.declarations.insert(name.to_string(), Arc::new(effects.clone()));
            }
            None => _ = changes.unknown.insert(name.to_string()),
        }
        for (program, must_be_replaced) in outdated {
            *changes.outdated.entry(program.to_string()).or_default() |= must_be_replaced;
        }
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that all workers have a new program in place of an outdated one. Has no effect if a further
    /// element has changed since the change with the number `version`, which the new program includes.
    pub(crate) fn renewed(&self, program: &str, version: u64) {
        let mut changes = lock(&self.changes);
        if self.version.load(Ordering::Acquire) == version {
            changes.outdated.remove(program);
        }
    }

    /// Returns the names of the programs that have to be composed again: see [`Changes::outdated`].
    pub(crate) fn outdated(&self) -> BTreeMap<String, bool> {
        lock(&self.changes).outdated.clone()
    }

    pub(crate) fn changes(&self) -> Changes {
        lock(&self.changes).clone()
    }

    /// Stores a composition before the first worker puts its programs in at the workers, so that the workers
    /// accept them; `None` afterwards.
    pub(crate) fn put_in(&self, composed: Option<Arc<Composed>>) {
        *lock(&self.composed) = composed;
    }

    /// Returns the composition whose programs are being put in, if `config` is the text of the program of
    /// the element `name` in it.
    pub(crate) fn composed(&self, name: &str, config: &str) -> Option<Arc<Composed>> {
        lock(&self.composed)
            .clone()
            .filter(|composed| matches!(composed.programs.get(name), Some(Ok(own)) if own == config))
    }
}

/// The progress of the first worker in composing synthesized programs again after elements have changed.
#[derive(Default)]
pub(crate) struct Recomposing {
    /// The number of the last change of an element after which programs were put in, or could not be
    /// composed.
    pub(crate) done: u64,
    /// The number of the last change of an element that the first worker has seen, and the time at which it
    /// saw the change.
    pub(crate) seen: (u64, Timestamp),
    /// The time that the last composition took.
    pub(crate) cost: Timestamp,
    /// The composition that is under way.
    pub(crate) under_way: Option<Composition>,
}

/// A composition that a thread makes.
pub(crate) struct Composition {
    /// The number of the last change of an element that the composition includes.
    pub(crate) version: u64,
    pub(crate) start: Timestamp,
    pub(crate) declarations: Arc<Declarations>,
    pub(crate) result: Receiver<Programs>,
}
