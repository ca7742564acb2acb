//! Flows that were evicted recently, with the sequence numbers by which their reordering is measured. A
//! flow that is opened again soon continues with these numbers. Without them, the counts would miss
//! reordering exactly when evictions are frequent, where reordering is worst.

use element::Timestamp;

use crate::key::SegmentFlow;
use crate::sequence::{Expected, REPAIR_TIME, RETRANSMISSION_WINDOW};

/// The number of flows per bucket of the table.
const WAYS: usize = 4;
/// The minimum and the maximum number of buckets, which take 16 KiB and 4 MiB.
const FEWEST: usize = 1 << 6;
const MOST: usize = 1 << 14;

/// A flow that was evicted: its key, its next expected sequence numbers (of arriving and of leaving segments)
/// and the time of eviction.
#[derive(Clone, Copy)]
struct EvictedFlow {
    key: SegmentFlow,
    expected: Expected,
    evicted_at: Timestamp,
}

/// A table of evicted flows, of fixed size. In a full bucket, a new flow replaces the flow that was evicted
/// first.
pub(crate) struct Evicted {
    places: Vec<[EvictedFlow; WAYS]>,
}

impl Evicted {
    /// Creates a table with room for at least 16 (`WAYS`²) times as many flows as the flow table has, within
    /// the limits `FEWEST` and `MOST` on the number of buckets.
    pub(crate) fn new(flows: usize) -> Evicted {
        let none = EvictedFlow {
            key: SegmentFlow::NONE,
            expected: Expected::default(),
            evicted_at: Timestamp::ZERO,
        };
        let places = flows.saturating_mul(WAYS).clamp(FEWEST, MOST).next_power_of_two();
        Evicted { places: vec![[none; WAYS]; places] }
    }

    fn place(&mut self, key: &SegmentFlow) -> Option<&mut [EvictedFlow; WAYS]> {
        let place = key.place(self.places.len());
        self.places.get_mut(place)
    }

    /// Saves the next expected sequence numbers of a flow that is evicted at `now`.
    pub(crate) fn add(&mut self, key: SegmentFlow, expected: Expected, now: Timestamp) {
        let Some(place) = self.place(&key) else { return };
        if let Some(oldest) = place.iter_mut().min_by_key(|former| former.evicted_at) {
            *oldest = EvictedFlow { key, expected, evicted_at: now };
        }
    }

    /// Removes and returns the saved sequence numbers of a flow that is opened again with a segment of
    /// sequence number `start`. Both are `None` if the flow has no entry or was evicted `REPAIR_TIME` ago or
    /// longer. A saved number that is more than `RETRANSMISSION_WINDOW` from `start` belongs to another
    /// connection and is `None`, too.
    pub(crate) fn take(&mut self, key: &SegmentFlow, start: u32, now: Timestamp) -> Expected {
        let former =
            self.place(key).and_then(|place| place.iter_mut().find(|former| former.key.is_same(key)));
        let Some(former) = former else { return Expected::default() };
        former.key = SegmentFlow::NONE;
        let is_recent = former.evicted_at + REPAIR_TIME > now;
        former.evicted_at = Timestamp::ZERO;
        let is_near = |number: &u32| {
            start.wrapping_sub(*number).min(number.wrapping_sub(start)) <= RETRANSMISSION_WINDOW
        };
        former.expected.map(|number| number.filter(|number| is_recent && is_near(number)))
    }

    /// Removes all flows.
    pub(crate) fn clear(&mut self) {
        for former in self.places.iter_mut().flatten() {
            former.key = SegmentFlow::NONE;
        }
    }
}
