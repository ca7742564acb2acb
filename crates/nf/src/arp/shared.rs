//! The table of neighbours of several elements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use element::{Call, Cx, ElementId};

use super::table::{Limits, Table};

/// A table of IPv4 neighbours that several elements use, or the copies of one ARPQuerier at several workers.
/// ARPTable publishes it as a service.
pub(crate) struct Shared {
    table: Mutex<Table>,
    /// True once another table continues with the entries of this table after a reload. Several workers hand
    /// the table on, each for its own copies of the elements, but its entries must be moved only once.
    is_continued: AtomicBool,
    /// A call of the handler [`RELEASE`] for each element that uses the table. The calls are made after
    /// changes of the table that can concern packets waiting in these elements.
    calls: Mutex<Vec<Arc<Call>>>,
}

/// The name of the handler with which an element checks its waiting packets after another element has changed
/// the table of neighbours that they share.
pub(crate) const RELEASE: &str = "release";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Shared {
        let table = Mutex::new(Table::new(limits));
        Shared { table, is_continued: AtomicBool::new(false), calls: Mutex::default() }
    }

    /// Locks the table of neighbours; elements do this once per batch.
    pub(crate) fn open(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Moves the entries of an old table, which another configuration had, to this table. Has no effect if
    /// they have been moved before.
    pub(crate) fn continue_with(&self, old: &Shared) {
        if !std::ptr::eq(self, old) && !old.is_continued.swap(true, Ordering::AcqRel) {
            let table = old.open().take();
            self.open().go_on_with(table);
        }
    }

    /// True if a copy of the element at another worker saves and loads the table for all copies: the copy at
    /// the first worker.
    pub(crate) fn is_kept_by_other_copy(&self, cx: &Cx<'_>) -> bool {
        cx.workers().copies(cx.id()) > 1 && cx.worker().0 > 0
    }

    /// Adds an element to the elements whose handler [`RELEASE`] is called after changes of the table. Adding
    /// an element again has no effect.
    pub(crate) fn join(&self, element: ElementId) {
        let mut calls = lock(&self.calls);
        if calls.iter().all(|call| call.element != Some(element)) {
            let call = Call::new(Some(element), RELEASE, "");
            calls.push(Arc::new(call));
        }
    }

    /// Calls all other elements that use the table, after the current call, to check their waiting packets.
    pub(crate) fn tell_others(&self, cx: &mut Cx<'_>) {
        let own = Some(cx.id());
        for call in lock(&self.calls).iter().filter(|call| call.element != own) {
            cx.handlers().call_later(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::MacAddr;

    use super::super::table::{ARP_PACE, NoWaiters};
    use super::*;

    #[test]
    fn the_entries_move_once_whoever_else_hands_them_over() {
        let limits = Limits {
            packets: 0,
            entries: 0,
            packets_per_entry: 1,
            slim_factor: 1,
            timeout: 1000,
            pace: ARP_PACE,
            keeps_known: false,
        };
        let (old, new) = (Shared::new(limits), Shared::new(limits));
        old.open().insert(7, MacAddr([2; 6]), 0, &mut NoWaiters);
        // Two workers hand over the same table.
        new.continue_with(&old);
        new.continue_with(&old);
        assert_eq!((old.open().len(), new.open().len()), (0, 1));
        new.continue_with(&new);
        assert_eq!(new.open().len(), 1);
    }
}
