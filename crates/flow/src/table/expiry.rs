//! Expiry in constant time.
//!
//! Touching a flow is one store, so nothing is sorted by time. Instead a hand goes round over the entries,
//! as in the clock algorithm for page replacement (Corbató, 1968), and ends flows that were idle too long.
//! The entries are adjacent, so the hand reads memory in order, 3-5 ns per entry. A timer wheel would cost
//! each flow eight more bytes, each new flow a second line and each visit a random access.

use std::num::NonZeroU32;

use packet::{Timestamp, prefetch_line};

use super::FlowTable;
use crate::bucket::position;
use crate::id::FlowId;
use crate::key::Key;

/// The number of turns per time-out. A new turn begins no sooner than `timeout / SLACK` after the start of
/// the previous turn, so that each entry is examined at most `SLACK` times per time-out, regardless of the
/// number of calls of [`FlowTable::expire`].
pub const SLACK: i64 = 8;

/// The number of flows that are ended together: the lines of their buckets are prefetched first.
const WINDOW: usize = 32;

/// The position of the hand.
#[derive(Default)]
pub(super) struct Turn {
    /// The next entry to examine.
    hand: u32,
    /// The time at which this turn began.
    began: Option<Timestamp>,
}

impl<K: Key> FlowTable<K> {
    /// Ends flows that were idle for `timeout` or longer at `now`, calls `ended` for each and returns their
    /// number. Flows that are held stay.
    ///
    /// Examines at most `at_most` entries and continues from there in the next call. A turn covers all
    /// entries up to the highest index ever used, so it takes their number divided by `at_most` calls. A
    /// flow never ends early, and at most `timeout / `[`SLACK`] plus the time of two turns late.
    ///
    /// With `timeout` 0, every flow seen until `now` that is not held is due.
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

    /// Ends flows like [`expire`](Self::expire), if some flows are due sooner because they were touched
    /// with an earlier time. `pace` is the shortest of the time-outs: a new turn begins no sooner than
    /// `pace / `[`SLACK`] after the previous turn, and flows end that much late, plus the time of two
    /// turns.
    #[inline]
    pub fn expire_paced(
        &mut self,
        now: Timestamp,
        timeout: Timestamp,
        pace: Timestamp,
        at_most: usize,
        mut ended: impl FnMut(FlowId, &K),
    ) -> usize {
        let mut left = at_most.min(self.used as usize) as u32;
        let mut count = 0;
        while left > 0 {
            if self.turn.hand == 0 && !self.turn.begin(now, pace) {
                break;
            }
            let end = (self.turn.hand + left.min(WINDOW as u32)).min(self.used);
            count += self.expire_between(self.turn.hand, end, now - timeout, &mut ended);
            left -= end - self.turn.hand;
            self.turn.hand = if end == self.used { 0 } else { end };
        }
        self.stats.expirations += count as u64;
        count
    }

    /// Examines at most [`WINDOW`] entries.
    #[inline]
    fn expire_between(
        &mut self,
        start: u32,
        end: u32,
        seen_by: Timestamp,
        ended: &mut impl FnMut(FlowId, &K),
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
        for &index in &due[..count] {
            self.detach(index);
            let entry = &self.entries[index as usize];
            if let Some(generation) = NonZeroU32::new(entry.generation) {
                ended(FlowId { index, generation }, &entry.key);
            }
            self.give_back(index);
        }
        count
    }
}

impl Turn {
    /// Begins a turn, if the last turn began long enough ago.
    fn begin(&mut self, now: Timestamp, pace: Timestamp) -> bool {
        // A clock that was set back must not stop expiry, hence the lower bound.
        let too_soon = |began: Timestamp| (began..began + Timestamp(pace.0 / SLACK)).contains(&now);
        if self.began.is_some_and(too_soon) {
            return false;
        }
        self.began = Some(now);
        true
    }
}
