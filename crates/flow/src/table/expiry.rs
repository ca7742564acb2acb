//! The expiry of idle flows: each call examines a bounded number of entries.
//!
//! Touching a flow is one store, so nothing is sorted by time. Instead a hand goes round over the entries,
//! as in the clock algorithm for page replacement (Corbató, 1968), and ends flows that were idle too long.
//! Entries are adjacent in memory, so the hand reads memory in order, which takes 3 to 5 ns per entry. A
//! timer wheel would cost eight more bytes per flow, a second cache line per new flow, and a random memory
//! access for each entry that it examines.

use std::num::NonZeroU32;

use packet::{Timestamp, prefetch_line};

use super::FlowTable;
use crate::bucket::position;
use crate::id::FlowId;
use crate::key::Key;

/// The largest number of turns of the hand per time-out; a turn examines all entries once. A turn begins no
/// sooner than `timeout / SLACK` after the start of the previous turn. So the cost is bounded, however often
/// [`FlowTable::expire`] is called. The pause makes a flow expire late by at most an eighth of the time-out.
/// In [`FlowTable::expire_paced`], the pace replaces the time-out here.
pub const SLACK: i64 = 8;

/// The number of entries that are examined together: the buckets of all due flows are prefetched before the
/// first flow is ended.
const WINDOW: usize = 32;

/// The state of the hand, an index that goes round over the entries like the hand of a clock.
#[derive(Default)]
pub(super) struct Turn {
    /// The index of the next entry to examine; 0 between two turns.
    hand: u32,
    /// The time at which the last turn began; `None` before the first turn.
    began: Option<Timestamp>,
}

impl<K: Key> FlowTable<K> {
    /// Ends flows that were last seen at or before `now - timeout` and are not held. Calls `ended` with the
    /// id and the key of each ended flow, and returns the number of these flows.
    ///
    /// A call examines at most `at_most` entries, and the next call continues at the next entry. A turn of
    /// the hand covers all entries up to the highest index ever used, so it takes that number divided by
    /// `at_most` calls. A flow never expires early. It expires late by at most `timeout / `[`SLACK`] plus
    /// the time of two turns.
    ///
    /// With `timeout` 0, each flow that was last seen at or before `now` and is not held is due.
    #[inline]
    pub fn expire(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        at_most: usize,
        ended: impl FnMut(FlowId, &K),
    ) -> usize {
        self.expire_paced(now, timeout, timeout, at_most, ended)
    }

    /// Ends flows like [`expire`](Self::expire), for tables in which flows have different time-outs: an
    /// element gives a flow a shorter time-out by touching it with an earlier time. `pace` is the shortest
    /// of the time-outs. A turn begins no sooner than `pace / `[`SLACK`] after the start of the previous
    /// turn. A flow expires late by at most this time plus the time of two turns.
    #[inline]
    pub fn expire_paced(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        pace: Timestamp,
        at_most: usize,
        mut ended: impl FnMut(FlowId, &K),
    ) -> usize {
        self.expire_unless(now, timeout, pace, at_most, |id, key| {
            ended(id, key);
            None
        })
    }

    /// Ends flows like [`expire_paced`](Self::expire_paced), for elements that record the time of a flow's
    /// last packet with their own data of the flow, so that a packet does not access the flow's entry. Calls
    /// `later` with the id and the key of each flow that is due by the time in the table. If `later` returns
    /// a time, the flow was last seen then: the flow stays, and the table records this time. Otherwise, the
    /// flow ends.
    #[inline]
    pub fn expire_unless(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        pace: Timestamp,
        at_most: usize,
        mut later: impl FnMut(FlowId, &K) -> Option<Timestamp>,
    ) -> usize {
        let mut left = at_most.min(self.used as usize) as u32;
        let mut count = 0;
        while left > 0 {
            if self.turn.hand == 0 && !self.turn.begin(now, pace) {
                break;
            }
            let end = (self.turn.hand + left.min(WINDOW as u32)).min(self.used);
            count += self.expire_between(self.turn.hand, end, now - timeout, &mut later);
            left -= end - self.turn.hand;
            self.turn.hand = if end == self.used { 0 } else { end };
        }
        self.stats.expirations += count as u64;
        count
    }

    /// Ends the due flows for which `later` returns no time, among the entries from `start` up to `end`, at
    /// most [`WINDOW`] entries. Returns the number of ended flows. A flow is due if it was last seen at or
    /// before `seen_by`.
    #[inline]
    fn expire_between(
        &mut self,
        start: u32,
        end: u32,
        seen_by: Timestamp,
        later: &mut impl FnMut(FlowId, &K) -> Option<Timestamp>,
    ) -> usize {
        let mut due = [0; WINDOW];
        let mut count = 0;
        for index in start..end {
            let entry = &self.entries[index as usize];
            if entry.last <= seen_by.0 && entry.generation != 0 && self.holds[index as usize] == 0 {
                let bucket = position(entry.hash, self.buckets.len());
                prefetch_line(self.buckets.as_ptr().wrapping_add(bucket).cast());
                due[count] = index;
                count += 1;
            }
        }
        let mut ended = 0;
        for &index in &due[..count] {
            let entry = &mut self.entries[index as usize];
            let id = NonZeroU32::new(entry.generation).map(|generation| FlowId { index, generation });
            if let Some(seen) = id.and_then(|id| later(id, &entry.key)) {
                entry.last = seen.0;
                continue;
            }
            self.detach(index);
            self.give_back(index);
            ended += 1;
        }
        ended
    }
}

impl Turn {
    /// Begins a turn at `now`, unless the last turn began less than `pace / SLACK` before; returns true if
    /// it began.
    fn begin(&mut self, now: Timestamp, pace: Timestamp) -> bool {
        // If the clock was set back, `now` is before `began`, and the turn begins at once; otherwise expiry
        // would stop until the clock has caught up.
        let too_soon = |began: Timestamp| (began..began + Timestamp(pace.0 / SLACK)).contains(&now);
        if self.began.is_some_and(too_soon) {
            return false;
        }
        self.began = Some(now);
        true
    }
}
