//! Flows that an element lets another one deal with.
//!
//! An element that keeps state of flows does the same to most packets of a flow that it knows: a translator writes the same
//! addresses, and only packets that open or close a connection change what it keeps. Whoever stands for such an element
//! ([`Effects::stands_for`](crate::Effects::stands_for)) may take such a flow on lease, as Linux's flow table does with
//! connections that its tracker knows: it asks once what becomes of the flow's packets, does that from then on, and tells when
//! the last one came by. The lease ends when the element does anything else with the flow, or forgets it, or when whoever has
//! it gives it back.
//!
//! Invariants:
//! - While a lease lasts, a packet that the element's declaration does not exclude ([`Effects::leases`](crate::Effects::leases))
//!   would get the same values, leave by the same output, and change nothing but the time of the flow's last packet.
//! - The element sees that time wherever it asks for it: flows last as long as without leases.
//! - Both are on one worker: no packet passes while an element ends a lease.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::FiveTuple;
use zerocopy::FromZeros;

use crate::Timestamp;

/// What an element that leases flows publishes as a service.
pub struct Leasing(pub Arc<dyn Lessor>);

/// An element that leases flows.
pub trait Lessor: Send + Sync {
    /// What becomes of packets of a flow that come to an input, for as long as the lease lasts. `None`, and the lease ends at
    /// once, where the next packet may change that, or where the flow is on lease already.
    fn lease(&self, input: usize, flow: &FiveTuple, lease: Lease) -> Option<Terms>;

    /// A flow comes by again that was on lease at this place. Nothing happens if that lease had ended.
    fn give_back(&self, handle: u64, leases: &Arc<Leases>, place: u32);

    /// Does what the element does first when packets come at a time, and says before which time it has nothing to do
    /// then, as far as flows count that are on lease now.
    fn catch_up(&self, now: Timestamp) -> Timestamp;
}

/// What becomes of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the element knows the flow by.
    pub handle: u64,
    /// The output by which packets leave.
    pub output: usize,
    /// The values that they get: those of each [`Value::Choose`](crate::effects::Value::Choose) of the case that is for packets
    /// of known flows, one behind the other.
    pub values: Vec<u8>,
}

/// Times of flows that somebody has on lease.
#[derive(Debug)]
pub struct Leases {
    /// By place: when the last packet was seen, in nanoseconds.
    seen: Box<[AtomicI64]>,
    ended: Mutex<Vec<u32>>,
    has_ended: AtomicBool,
}

/// A flow on lease, for the element that it is from.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    place: u32,
}

impl Leases {
    /// Room for so many. Memory is taken from the system when a place is used.
    pub fn new(capacity: usize) -> Leases {
        Leases {
            seen: <[AtomicI64]>::new_box_zeroed_with_elems(capacity).unwrap_or_default(),
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// A lease at a place, of a flow that is seen now.
    pub fn begin(self: &Arc<Leases>, place: u32, now: Timestamp) -> Lease {
        self.see(place, now);
        Lease { leases: self.clone(), place }
    }

    /// A packet has come by.
    #[inline]
    pub fn see(&self, place: u32, now: Timestamp) {
        if let Some(seen) = self.seen.get(place as usize) {
            seen.store(now.0, Ordering::Relaxed);
        }
    }

    /// When the last one did.
    pub fn last_seen(&self, place: u32) -> Timestamp {
        Timestamp(self.seen.get(place as usize).map_or(i64::MIN, |seen| seen.load(Ordering::Relaxed)))
    }

    /// Whether elements have ended leases.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The places of leases that elements have ended since the last call.
    pub fn take_ended(&self) -> Vec<u32> {
        self.has_ended.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lease {
    /// When the flow's last packet on lease was seen.
    pub fn last_seen(&self) -> Timestamp {
        self.leases.last_seen(self.place)
    }

    /// Whether it is the one at a place.
    pub fn is_at(&self, leases: &Arc<Leases>, place: u32) -> bool {
        Arc::ptr_eq(&self.leases, leases) && self.place == place
    }

    /// Ends it: packets of the flow come to the element again.
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
        // A place that there is not is nobody's.
        leases.see(7, Timestamp(1));
        assert_eq!(leases.last_seen(7), Timestamp(i64::MIN));
    }
}
