//! The place of a copy of FromXDP at its interface, which passes from element to element when a graph
//! replaces another one.
//!
//! An element of a new graph takes the seat of the running element at the same worker, if both receive from
//! the same queues in the same way. It does not open the queues again. When the worker changes over, the
//! running element is closed: it leaves everything that it has open at the seat ([`Seat::leave`]), and the
//! new element takes it in its first turn ([`Seat::take`]). The sockets, their rings and the XDP program stay
//! as they are, so that no packet is lost.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use libc::c_int;
use nix::sys::eventfd::EventFd;

use super::interface::Interface;
use super::outlet::Outlet;
use super::receiver::{Counts, Receiver};
use super::{Mode, Wanted};
use crate::handover::Registry;
use crate::interface::Presence;
use crate::interface::awaited::Awaited;
use crate::interface::claim::Claim;
use crate::interface::steering::Steering;

/// The seats of all copies of FromXDP elements in this process. By a seat, a copy passes everything that it
/// has open to the element that replaces it.
pub(super) static SEATS: Registry<Seat> = Registry::new();

/// The settings of a FromXDP that cannot change while its queues are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    queue: Option<u32>,
    mode: Mode,
    ring: u32,
    keeps_key: bool,
    steering: Steering,
    /// The index of the copy, and the number of copies.
    copy: (usize, usize),
}

impl Layout {
    /// Returns the layout of a copy of an element; `copy` is its index and the number of copies.
    pub(super) fn new(wanted: &Wanted, steering: Steering, copy: (usize, usize)) -> Layout {
        let Wanted { queue, mode, ring, keeps_key, .. } = *wanted;
        Layout { queue, mode, ring, keeps_key, steering, copy }
    }
}

/// The object by which a copy of FromXDP passes everything that it has open at its interface to the element
/// that replaces it. Both elements have the same seat, and are at one worker.
pub(super) struct Seat {
    pub(super) interface: Arc<Interface>,
    /// The index of the element in the interface's list of elements that receive from it.
    pub(super) number: usize,
    pub(super) layout: Layout,
    left: Mutex<Option<Open>>,
}

/// Everything that a copy of FromXDP has open at its interface. The fields have the same meaning as in
/// `FromXdp`.
pub(super) struct Open {
    pub(super) device: String,
    pub(super) index: c_int,
    pub(super) receivers: Vec<Receiver>,
    pub(super) outlets: Vec<Arc<Outlet>>,
    pub(super) bell: Option<Arc<EventFd>>,
    pub(super) membership: Option<OwnedFd>,
    pub(super) promiscuous: bool,
    pub(super) claim: Option<Arc<Claim>>,
    pub(super) state: Presence,
    pub(super) awaited: Option<Awaited>,
    pub(super) stage: Stage,
    pub(super) told: Option<String>,
    pub(super) counts: Counts,
}

/// The progress of a copy from the removal of its interface to the opening of another interface of the same
/// name. A copy may have guest sockets at the queues of other copies. Therefore all copies finish a stage
/// before any copy begins the next one. The number is the round, which counts the removals of the interface
/// and the failed attempts to open it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The copy's queues are open.
    Open,
    /// The copy has closed its guest sockets at the queues of other copies.
    Left(u32),
    /// The copy has closed its own queues.
    Closed(u32),
}

impl Seat {
    /// Makes the seat of a copy that opens its queues itself.
    pub(super) fn new(interface: &Arc<Interface>, number: usize, layout: Layout) -> Arc<Seat> {
        interface.begin(number);
        Arc::new(Seat { interface: Arc::clone(interface), number, layout, left: Mutex::new(None) })
    }

    /// Stores everything that an element had open, for its successor. The element calls this when it is
    /// closed.
    pub(super) fn leave(&self, open: Open) {
        *self.left() = Some(open);
    }

    /// Takes everything that the predecessor has stored; `None` if the predecessor is not closed yet, or if
    /// everything has been taken already.
    pub(super) fn take(&self) -> Option<Open> {
        self.left().take()
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
