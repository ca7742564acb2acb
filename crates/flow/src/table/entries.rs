//! The assignment of entries to flows: the list of free entries, the buckets, and their overflow chains.

use std::num::NonZeroU32;

use packet::{Timestamp, prefetch_line};

use super::FlowTable;
use crate::bucket::{Link, position, tag};
use crate::error::InsertError;
use crate::id::FlowId;
use crate::key::Key;

/// The largest number of entries on a bucket's overflow chain, which bounds the time of a look-up. Further
/// inserts into this bucket fail with [`InsertError::Crowded`]. A bucket of a full table has 7.2 entries on
/// average. With a seeded hash, the probability that a bucket gets 45 entries is below 1e-19. Only a broken
/// hash, or an attacker who knows the seed, reaches this limit.
pub(super) const OVERFLOW_LIMIT: usize = 32;

impl<K: Key> FlowTable<K> {
    /// Adds a flow, which must not be in the table yet, and returns its id. On an error the table is
    /// unchanged.
    pub(super) fn add(&mut self, key: &K, hash: u32, now: Timestamp) -> Result<FlowId, InsertError> {
        let at = position(hash, self.buckets.len());
        if self.buckets[at].is_full() && self.chain_length(at) >= OVERFLOW_LIMIT {
            return Err(InsertError::Crowded);
        }
        let id = self.take().ok_or(InsertError::Full)?;
        let link = Link::to(id.index);
        let bucket = &mut self.buckets[at];
        let entry = &mut self.entries[id.index as usize];
        entry.key = *key;
        entry.last = now.0;
        entry.hash = hash;
        entry.next = Link::NONE;
        if !bucket.put(tag(hash), link) {
            entry.next = bucket.overflow;
            bucket.overflow = link;
        }
        self.stats.entries += 1;
        Ok(id)
    }

    /// Removes a flow from its bucket, so that look-ups no longer find it, and unpairs it. The entry keeps
    /// its key and its generation, so the flow's id stays current until [`give_back`](Self::give_back).
    #[inline]
    pub(super) fn detach(&mut self, index: u32) {
        let hash = self.entries[index as usize].hash;
        let at = position(hash, self.buckets.len());
        let bucket = &mut self.buckets[at];
        if bucket.clear(Link::to(index)) {
            // A slot is free now. The first entry of the chain moves into it, because a chain exists only
            // while all slots are taken.
            if let Some(moved) = bucket.overflow.index() {
                let entry = &mut self.entries[moved as usize];
                let link = std::mem::replace(&mut bucket.overflow, std::mem::take(&mut entry.next));
                bucket.put(tag(entry.hash), link);
            }
        } else {
            self.unchain(at, index);
        }
        self.unpair(index);
        self.stats.entries -= 1;
    }

    /// Puts an entry that is in no bucket on the list of free entries. From now on the ids of its last flow
    /// are stale.
    #[inline]
    pub(super) fn give_back(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        // A free entry has the generation 0, which no id has, so no id refers to it. Its hash field stores
        // the generation of the next flow.
        entry.hash = if entry.generation >= self.last_generation { 1 } else { entry.generation + 1 };
        entry.generation = 0;
        entry.next = std::mem::replace(&mut self.free, Link::to(index));
    }

    /// Takes an entry for a flow: the entry that was freed last, whose cache line is likely still in the
    /// cache, or an entry that was never used. Returns the id of the new flow, or `None` if all entries are
    /// taken.
    #[inline]
    fn take(&mut self) -> Option<FlowId> {
        let index = match self.free.index() {
            Some(index) => index,
            None if (self.used as usize) < self.entries.len() => {
                self.used += 1;
                self.used - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        // An entry that was never used is all zeros: its hash field holds no generation, and it links to no
        // next entry.
        let generation = NonZeroU32::new(entry.hash).unwrap_or(self.first_generation);
        entry.generation = generation.get();
        self.highest_generation = self.highest_generation.max(generation.get());
        self.free = std::mem::take(&mut entry.next);
        let upcoming = self.free.index().unwrap_or(self.used) as usize;
        prefetch_line(self.entries.as_ptr().wrapping_add(upcoming).cast());
        Some(FlowId { index, generation })
    }

    #[cold]
    fn unchain(&mut self, bucket: usize, index: u32) {
        let after = self.entries[index as usize].next;
        let mut link = self.buckets[bucket].overflow;
        if link == Link::to(index) {
            self.buckets[bucket].overflow = after;
        }
        while let Some(at) = link.index() {
            link = self.entries[at as usize].next;
            if link == Link::to(index) {
                self.entries[at as usize].next = after;
            }
        }
        self.entries[index as usize].next = Link::NONE;
    }

    #[cold]
    fn chain_length(&self, bucket: usize) -> usize {
        std::iter::successors(self.entry(self.buckets[bucket].overflow), |entry| self.entry(entry.next))
            .count()
    }
}
