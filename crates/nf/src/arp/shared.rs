//! The table of neighbours of several elements.

use std::sync::{Arc, Mutex, MutexGuard};

use element::{Call, Cx, ElementId};

use super::table::{Limits, Table};

/// A table of IPv4 neighbours that several elements use: the service that ARPTable publishes.
pub(crate) struct Shared {
    table: Mutex<Table>,
    /// A call of handler [`RELEASE`] for each element, made after changes that can concern waiting packets.
    calls: Mutex<Vec<Arc<Call>>>,
}

/// The name of the handler with which an element checks its waiting packets after a change of its table.
pub(crate) const RELEASE: &str = "release";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Shared {
        Shared { table: Mutex::new(Table::new(limits)), calls: Mutex::default() }
    }

    /// Locks the table; elements do this once per batch.
    pub(crate) fn open(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Adds an element to those that are called after changes. Adding it again has no effect.
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
