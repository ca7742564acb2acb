//! The place of a copy of FromDevice at its interface, which passes from element to element when a graph
//! replaces another one.
//!
//! An element of a new graph takes the seat of the running element at the same worker, if both receive from
//! the interface in the same way. It opens no ring. When the worker changes over, the running element is
//! closed and leaves its ring at the seat, with the packets in it. The new element takes the ring in its
//! first turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

use super::Presence;
use super::steering::Steering;
use super::sys::ring::Ring;
use crate::handover::Registry;

/// The seats of all copies of FromDevice elements in this process. By a seat, a copy passes its ring to the
/// element that replaces it.
pub(super) static SEATS: Registry<Seat> = Registry::new();

/// The settings of a socket that cannot be changed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The interface's index in the kernel.
    pub(super) index: c_int,
    pub(super) offloads: bool,
    pub(super) promiscuous: bool,
    pub(super) outbound: bool,
    pub(super) steering: Steering,
    /// The number of copies of the element.
    pub(super) copies: usize,
}

/// The object by which a copy of FromDevice passes its ring to the element that replaces it, which has the
/// same seat.
pub(super) struct Seat {
    pub(super) settings: Settings,
    left: Mutex<Option<Open>>,
}

/// The ring that an element leaves to its successor, the number of packets that were lost in earlier rings,
/// and the state of the interface.
pub(super) struct Open {
    pub(super) ring: Ring,
    pub(super) earlier_drops: u64,
    pub(super) state: Presence,
}

impl Seat {
    /// Makes the seat of a copy that has opened its ring itself.
    pub(super) fn new(settings: Settings) -> Seat {
        Seat { settings, left: Mutex::new(None) }
    }

    /// Leaves a ring to the successor.
    pub(super) fn leave(&self, open: Open) {
        *self.left() = Some(open);
    }

    /// Takes the ring that the predecessor has left; `None` if the predecessor had no ring or is not closed
    /// yet, or if the ring has been taken already.
    pub(super) fn take(&self) -> Option<Open> {
        self.left().take()
    }

    fn left(&self) -> MutexGuard<'_, Option<Open>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
