//! Leases of flows: the right of an element to process packets of one flow in place of the element that has
//! the flow's state.
//!
//! An element with state per flow does the same to most packets of a known flow: a translator writes the
//! same addresses, and only packets that open or close a connection change its state. An element that
//! replaces such an element ([`Effects::replaces`](crate::Effects::replaces)) may lease the flow, as
//! Linux's flow table does with connections that the connection tracker knows. This lessee asks once how
//! the flow's packets are processed. From then on it processes them in that way, and records the time of
//! the flow's last packet. The lease ends when the owner of the state would do anything else with packets
//! of the flow, or removes the flow. It also ends when the lessee gives it back.
//!
//! Invariants:
//! - While a lease lasts, all packets of the flow would get the same values and leave by the same output.
//!   They would change nothing but the time of the flow's last packet. Packets that the owner's declaration
//!   excludes ([`Support::leases`](crate::effects::Support::leases)) are exceptions.
//! - The owner reads the time of the last packet from the lease, so that a flow expires exactly when it
//!   would expire without the lease.
//! - Owner and lessee are on one worker, so no packet is processed by a lease while the owner ends it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::FiveTuple;
use zerocopy::FromZeros;

use crate::Timestamp;

/// The service that an element publishes if it leases flows; the lessee finds it by this type.
pub struct Leasing(pub Arc<dyn Lessor>);

/// An element that leases its flows to elements which replace it.
pub trait Lessor: Send + Sync {
    /// Leases the flow of packets that come to `input`, and have the five-tuple `flow`, to the caller.
    /// `lease` is the caller's record of the lease; this element keeps it and ends it when it has to.
    /// Returns how the packets are processed as long as the lease lasts. Returns `None`, and drops `lease`,
    /// if the flow is unknown or already leased, or if the next packet may change how packets are processed.
    fn lease(&self, input: usize, flow: &FiveTuple, lease: Lease) -> Option<Terms>;

    /// Takes a leased flow back, so that its packets come to this element again. `handle` is from the
    /// [`Terms`], and `place` is the index of the lease in `leases`. Does nothing if the lease has already
    /// ended.
    fn give_back(&self, handle: u64, leases: &Arc<Leases>, place: u32);

    /// Does the work that the element would do first if packets came at time `now`, such as removing expired
    /// flows. Returns the time before which there is no such work for the flows that are leased now, so that
    /// the caller need not call again before.
    fn catch_up(&self, now: Timestamp) -> Timestamp;
}

/// The processing of the packets of a leased flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The identifier of the flow in the element that leases it.
    pub handle: u64,
    /// The output by which packets of the leased flow leave.
    pub output: usize,
    /// The values that packets get: the bytes of the value of each
    /// [`Value::Choose`](crate::effects::Value::Choose) in the case for packets of known flows, one after
    /// the other.
    pub values: Vec<u8>,
}

/// The leases of one lessee: for each lease, the time of the flow's last packet, and a list of the leases
/// that owners have ended. A lease is identified by its index in this table, its `place`.
#[derive(Debug)]
pub struct Leases {
    /// For each lease, the time of the flow's last packet, in nanoseconds.
    seen: Box<[AtomicI64]>,
    ended: Mutex<Vec<u32>>,
    has_ended: AtomicBool,
}

/// The lease of one flow. The lessee, such as a synthesized program, makes it ([`Leases::begin`]) and passes
/// it to the owner of the flow's state, such as a NAT ([`Lessor::lease`]). The owner keeps it, reads the time
/// of the flow's last packet from it, and can end it at any time.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    place: u32,
}

impl Leases {
    /// Makes a table for at most `capacity` leases. Memory is used only for indexes that were in use.
    pub fn new(capacity: usize) -> Leases {
        Leases {
            seen: <[AtomicI64]>::new_box_zeroed_with_elems(capacity).unwrap_or_default(),
            ended: Mutex::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Begins a lease at the index `place` of the table; `now` becomes the time of the flow's last packet.
    pub fn begin(self: &Arc<Leases>, place: u32, now: Timestamp) -> Lease {
        self.see(place, now);
        Lease { leases: self.clone(), place }
    }

    /// Records `now` as the time of the last packet of the flow that is leased at the index `place`.
    #[inline]
    pub fn see(&self, place: u32, now: Timestamp) {
        if let Some(seen) = self.seen.get(place as usize) {
            seen.store(now.0, Ordering::Relaxed);
        }
    }

    /// The time of the last packet of the flow that is leased at the index `place`. It is the earliest
    /// possible time if the table has no such index.
    pub fn last_seen(&self, place: u32) -> Timestamp {
        Timestamp(self.seen.get(place as usize).map_or(i64::MIN, |seen| seen.load(Ordering::Relaxed)))
    }

    /// True if owners have ended leases since the last call of [`take_ended`](Self::take_ended).
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Returns the indexes of the leases that owners have ended since the last call.
    pub fn take_ended(&self) -> Vec<u32> {
        self.has_ended.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lease {
    /// The time of the last packet of the leased flow.
    pub fn last_seen(&self) -> Timestamp {
        self.leases.last_seen(self.place)
    }

    /// True if this is the lease at the index `place` of `leases`.
    pub fn is_at(&self, leases: &Arc<Leases>, place: u32) -> bool {
        Arc::ptr_eq(&self.leases, leases) && self.place == place
    }

    /// Ends the lease, so that packets of the flow come to the owner again.
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
        // An index outside of the table belongs to no lease: its time cannot be set.
        leases.see(7, Timestamp(1));
        assert_eq!(leases.last_seen(7), Timestamp(i64::MIN));
    }
}
