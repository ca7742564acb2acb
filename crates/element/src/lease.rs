//! Flows that an element leases to another element.
//!
//! An element with state per flow does the same to most packets of a known flow: a translator writes the
//! same addresses, and only packets that open or close a connection change its state. An element that
//! replaces such an element ([`Effects::replaces`](crate::Effects::replaces)) may lease the flow, as
//! Linux's flow table does with connections that the connection tracker knows. It asks once how the flow's
//! packets are processed, processes them in that way from then on, and reports the time of the last packet.
//! The lease ends when the leasing element does anything else with the flow or removes it, or when the
//! lessee gives it back.
//!
//! Invariants:
//! - While a lease lasts, a packet that the element's declaration does not exclude
//!   ([`Support::leases`](crate::effects::Support::leases)) would get the same values, leave by the same
//!   output, and change nothing but the time of the flow's last packet.
//! - The element sees that time wherever it reads it: flows last as long as without leases.
//! - Both elements are on one worker: no packet passes while an element ends a lease.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::FiveTuple;
use zerocopy::FromZeros;

use crate::Timestamp;

/// The service that an element publishes if it leases flows.
pub struct Leasing(pub Arc<dyn Lessor>);

/// An element that leases flows.
pub trait Lessor: Send + Sync {
    /// Leases a flow to the caller. Returns how packets of the flow that come to `input` are processed as
    /// long as the lease lasts. Returns `None`, and the lease ends at once, if the next packet may change
    /// that or if the flow is already leased.
    fn lease(&self, input: usize, flow: &FiveTuple, lease: Lease) -> Option<Terms>;

    /// Takes back the leased flow at `place`: its packets come to this element again. Does nothing if the
    /// lease has already ended.
    fn give_back(&self, handle: u64, leases: &Arc<Leases>, place: u32);

    /// Does the work that the element does first when packets come at time `now`, such as expiry. Returns
    /// the time before which this work has nothing to do, as far as the flows are concerned that are leased
    /// now.
    fn catch_up(&self, now: Timestamp) -> Timestamp;
}

/// The way in which packets of a leased flow are processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The identifier of the flow in the element that leases it.
    pub handle: u64,
    /// The output by which packets leave.
    pub output: usize,
    /// The values that packets get: the value of each [`Value::Choose`](crate::effects::Value::Choose) in
    /// the case for packets of known flows, one after the other.
    pub values: Vec<u8>,
}

/// The times of the flows that an element has leased.
#[derive(Debug)]
pub struct Leases {
    /// By place: the time of the flow's last packet, in nanoseconds.
    seen: Box<[AtomicI64]>,
    ended: Mutex<Vec<u32>>,
    has_ended: AtomicBool,
}

/// A right to handle the packets of one flow in place of the flow's owner, such as a NAT: a program holds it
/// and applies what the owner has decided. The owner can end it at any time.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    place: u32,
}

impl Leases {
    /// Makes a table for `capacity` leases. The system provides memory for a place when the place is first
    /// used.
    pub fn new(capacity: usize) -> Leases {
        Leases {
            seen: <[AtomicI64]>::new_box_zeroed_with_elems(capacity).unwrap_or_default(),
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Begins a lease at a place, for a flow that is seen now.
    pub fn begin(self: &Arc<Leases>, place: u32, now: Timestamp) -> Lease {
        self.see(place, now);
        Lease { leases: self.clone(), place }
    }

    /// Records that a packet of the flow at a place was seen.
    #[inline]
    pub fn see(&self, place: u32, now: Timestamp) {
        if let Some(seen) = self.seen.get(place as usize) {
            seen.store(now.0, Ordering::Relaxed);
        }
    }

    /// The time at which the last packet of the flow at a place was seen.
    pub fn last_seen(&self, place: u32) -> Timestamp {
        Timestamp(self.seen.get(place as usize).map_or(i64::MIN, |seen| seen.load(Ordering::Relaxed)))
    }

    /// True if elements have ended leases since the last [`take_ended`](Self::take_ended).
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns the places of leases that elements have ended since the last call.
    pub fn take_ended(&self) -> Vec<u32> {
        self.has_ended.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lease {
    /// The time at which the last packet of the leased flow was seen.
    pub fn last_seen(&self) -> Timestamp {
        self.leases.last_seen(self.place)
    }

    /// True if this lease is the lease at `place` of `leases`.
    pub fn is_at(&self, leases: &Arc<Leases>, place: u32) -> bool {
        Arc::ptr_eq(&self.leases, leases) && self.place == place
    }

    /// Ends the lease: packets of the flow come to the element again.
    pub fn end(self) {
        self.leases.ended.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
        self.leases.has_ended.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_tell_times_and_ends() {
        let leases = Arc::new(Leases::new(2));
        let (first, second) = (leases.begin(0, Timestamp(5)), leases.begin(1, Timestamp(6)));
        leases.see(1, Timestamp(9));
        assert!(
            first.is_at(&leases, 0) && !first.is_at(&leases, 1) && !first.is_at(&Arc::new(Leases::new(2)), 0)
        );
        assert_eq!((first.last_seen(), second.last_seen()), (Timestamp(5), Timestamp(9)));
        assert!(!leases.has_ended());
        second.end();
        assert!(leases.has_ended());
        assert_eq!(leases.take_ended(), [1]);
        assert!(!leases.has_ended() && leases.take_ended().is_empty());
        // A place outside of the table belongs to no lease.
        leases.see(7, Timestamp(1));
        assert_eq!(leases.last_seen(7), Timestamp(i64::MIN));
    }
}
