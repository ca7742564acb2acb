//! An interface of the host that FromHost opens and ToHost sends to.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::sys::tun::Tun;

/// A TAP interface that a FromHost has created, as ToHost elements find it.
#[derive(Default)]
pub(super) struct HostInterface {
    pub(super) name: String,
    /// The interface's file, while it is open.
    tun: Mutex<Option<Arc<Tun>>>,
    /// The number of calls of `set`, by which ToHost notices another file.
    pub(super) changes: AtomicU32,
}

impl HostInterface {
    /// Makes the value for the interface with this name, without an open file.
    pub(super) fn new(name: &str) -> HostInterface {
        HostInterface { name: name.into(), ..HostInterface::default() }
    }

    pub(super) fn set(&self, tun: Option<Arc<Tun>>) {
        *self.tun.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = tun;
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(super) fn get(&self) -> Option<Arc<Tun>> {
        self.tun.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
