//! The sending half of a queue, as the elements of a worker share it. A FromXDP opens it with its queue, or a
//! ToXDP alone. One ToXDP of a graph sends by it, and a ToXDP of the graph that replaces this graph continues
//! with it. While the worker changes over, both may send.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use libc::c_int;
use packet::Pool;

use super::port::Transmitter;
use super::{Mode, Wanted};
use crate::handover::Registry;

/// The sending halves of all open queues in this process.
pub(super) static OUTLETS: Registry<Outlet> = Registry::new();

/// The sending half of a queue. All elements that have it are at the same worker.
pub(super) struct Outlet {
    /// The interface's index in the kernel (`index`), and the number of the queue (`queue`).
    pub(super) index: c_int,
    pub(super) queue: u32,
    /// The MODE and RING with which a ToXDP has opened the queue; `None` if a FromXDP has opened it.
    opened: Option<(Mode, u32)>,
    /// The number of ToXDP elements that send by the queue.
    senders: AtomicUsize,
    half: Mutex<Transmitter>,
}

impl Outlet {
    /// Makes the outlet of a queue of the interface with this index. `alone` has the arguments of the ToXDP
    /// that has opened the queue for sending only; `None` if a FromXDP has opened it.
    pub(super) fn new(index: c_int, half: Transmitter, alone: Option<&Wanted>) -> Arc<Outlet> {
        let opened = alone.map(|wanted| (wanted.mode, wanted.ring));
        let senders = AtomicUsize::new(0);
        Arc::new(Outlet { index, queue: half.queue, opened, senders, half: Mutex::new(half) })
    }

    /// True if a ToXDP with these arguments can send by the queue: a FromXDP has opened it, or a ToXDP with
    /// the same MODE and RING.
    pub(super) fn fits(&self, wanted: &Wanted) -> bool {
        self.opened.is_none_or(|opened| opened == (wanted.mode, wanted.ring))
    }

    /// Returns the sending half for exclusive use. As all users are at one worker, no one waits.
    pub(super) fn half(&self) -> MutexGuard<'_, Transmitter> {
        self.half.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Registers that a ToXDP sends by the outlet from now on.
    pub(super) fn begin(&self) {
        self.senders.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers that a ToXDP does not send by the outlet any more.
    pub(super) fn end(&self) {
        self.senders.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if several ToXDP elements send by the outlet: one of them replaces the other.
    pub(super) fn is_shared(&self) -> bool {
        self.senders.load(Ordering::Relaxed) > 1
    }

    /// Drops an element's reference to an outlet. With the last reference, the sending half is closed.
    pub(super) fn release(outlet: Arc<Outlet>, pool: &mut Pool) {
        if let Some(Outlet { half, .. }) = Arc::into_inner(outlet) {
            half.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).close(pool);
        }
    }
}
