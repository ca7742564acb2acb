//! The flow table: buckets of one cache line that point to entries of one cache line.
//!
//! An entry holds the key and all data that is needed per packet (time, generation, reverse). Entries are
//! dense, their index is the flow's id, and all of them can be used: the table is full only when it holds
//! as many flows as its capacity. A hash selects one bucket. The bucket's line holds twelve tags of 8 bits
//! and twelve links to entries. Entries beyond twelve are on a chain through the entries themselves, which
//! has a bounded length. So nothing ever moves or is rehashed, a hit accesses two lines, and a miss one.
//!
//! Alternatives that were measured (10M flows, batches, ns per hit and per miss; `examples/flow_bench.rs`):
//! this table takes 37 and 29. A second bucket per key, which cuckoo hashing needs, takes 50 and 42, to
//! save 3 of 80 bytes per flow. Keys within the buckets would save the second line, but a five-tuple leaves
//! room for only one key per line.

mod expiry;
mod place;
#[cfg(test)]
mod tests;
mod ties;

use std::num::NonZeroU32;

use packet::{Timestamp, prefetch_line};
use zerocopy::FromZeros;

use crate::bucket::{Bucket, Link, SLOTS, position, tag};
use crate::error::{InsertError, MAX_CAPACITY, TableError};
use crate::id::FlowId;
use crate::key::{Key, Valued};
use crate::memory::Lines;

pub use self::expiry::SLACK;
use self::expiry::Turn;

/// The average fill level of the buckets' slots when the table is full, in percent.
///
/// With 60 % one bucket in thirty has an overflow chain, with 90 % one in three, and each chain costs
/// branch misses and lines of entries: at 1M flows a hit takes 23 ns instead of 30 and a miss 17 instead of
/// 52. The price is three bytes per flow.
const LOAD_PERCENT: usize = 60;

/// The number of packets whose look-ups in a batch run together.
const WINDOW: usize = 32;

/// A mark in `holds`: the entry was removed while it was held.
const REMOVED: u32 = 1 << 31;

/// A flow: one cache line for keys of five words.
#[derive(FromZeros)]
#[repr(C, align(64))]
struct Entry<K> {
    key: K,
    /// The time at which the flow was last seen, in nanoseconds.
    last: i64,
    /// The generation of the id, 0 while the entry is free.
    generation: u32,
    /// The hash, to find the bucket again; while the entry is free, the next generation.
    hash: u32,
    /// The next entry of the overflow chain, or of the free list.
    next: Link,
    /// The flow in the other direction.
    reverse: Link,
}

const _: () = assert!(size_of::<Entry<crate::key::FiveTupleKey>>() == 64);
const _: () = assert!(size_of::<Entry<crate::key::MappedKey>>() == 64);

/// A table of flows with a fixed capacity, for one worker.
pub struct FlowTable<K: Key> {
    buckets: Lines<Bucket>,
    entries: Lines<Entry<K>>,
    /// The number of holders of each id, with the mark [`REMOVED`].
    holds: Lines<u32>,
    /// The number of entries that have ever been used; all later entries were never accessed.
    used: u32,
    /// The first of the freed entries.
    free: Link,
    first_generation: NonZeroU32,
    /// The highest generation that was assigned.
    highest_generation: u32,
    last_generation: u32,
    turn: Turn,
    stats: TableStats,
}

/// The result of [`FlowTable::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The flow is new; dense arrays have to be initialised for this id.
    New(FlowId),
    /// The flow was in the table; nothing was changed.
    Present(FlowId),
}

impl Inserted {
    /// Returns the id in either case.
    #[inline]
    pub fn id(self) -> FlowId {
        match self {
            Inserted::New(id) | Inserted::Present(id) => id,
        }
    }
}

/// The counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The largest possible number of entries.
    pub capacity: usize,
    /// The number of flows that look-ups find.
    pub entries: usize,
    /// The number of removed flows whose ids are still held.
    pub held: usize,
    /// The number of refused inserts.
    pub insert_failures: u64,
    /// The number of flows that ended by time-out.
    pub expirations: u64,
}

impl<K: Key> FlowTable<K> {
    /// Makes a table for up to `capacity` flows. All memory (about 76 bytes per flow for keys of five
    /// words) is reserved now and used when it is needed.
    pub fn new(capacity: usize) -> Result<Self, TableError> {
        FlowTable::with_generations(capacity, u32::MAX)
    }

    /// Makes a table in which ids of one index come back after `last_generation` reuses. Tests use a small
    /// number.
    fn with_generations(capacity: usize, last_generation: u32) -> Result<Self, TableError> {
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(TableError::Capacity(capacity));
        }
        let buckets = (capacity * 100).div_ceil(SLOTS * LOAD_PERCENT);
        let refused = |source| TableError::Refused { capacity, source };
        Ok(FlowTable {
            buckets: Lines::zeroed(buckets).map_err(refused)?,
            entries: Lines::zeroed(capacity).map_err(refused)?,
            holds: Lines::zeroed(capacity).map_err(refused)?,
            used: 0,
            free: Link::NONE,
            first_generation: NonZeroU32::MIN,
            highest_generation: 0,
            last_generation,
            turn: Turn::default(),
            stats: TableStats { capacity, ..TableStats::default() },
        })
    }

    /// Sets the first generation of ids, for a table that is still empty.
    #[must_use]
    pub fn with_generations_from(mut self, first: u32) -> Self {
        debug_assert_eq!(self.used, 0);
        self.first_generation = NonZeroU32::new(first).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// Returns a generation that no id has had so far. A new table that starts with this generation has ids
    /// that differ from all ids of this table.
    pub fn next_generation(&self) -> u32 {
        self.highest_generation.max(self.first_generation.get() - 1).wrapping_add(1)
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> TableStats {
        self.stats
    }

    /// Returns the id of a flow. `hash` is the hash of `key` with which the flow was inserted. The key may
    /// be of another kind, as long as its words are the same.
    #[inline]
    pub fn lookup<Q: Key>(&self, key: &Q, hash: u32) -> Option<FlowId> {
        let bucket = self.buckets.get(position(hash, self.buckets.len()))?;
        for link in bucket.candidates(tag(hash)) {
            if let Some(id) = self.compare(link, key) {
                return Some(id);
            }
        }
        let mut link = bucket.overflow;
        while link != Link::NONE {
            if let Some(id) = self.compare(link, key) {
                return Some(id);
            }
            link = self.entry(link)?.next;
        }
        None
    }

    /// Looks up many flows and writes their ids, or `None` for flows that are not in the table. The three
    /// slices belong together element by element; elements beyond the shortest slice are ignored.
    #[inline]
    pub fn lookup_batch<Q: Key>(&self, keys: &[Q], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        let windows = keys.chunks(WINDOW).zip(hashes.chunks(WINDOW)).zip(ids.chunks_mut(WINDOW));
        for ((keys, hashes), ids) in windows {
            self.lookup_window(keys, hashes, ids);
        }
    }

    /// Looks up at most [`WINDOW`] flows. First the lines of all buckets are prefetched, then the lines of
    /// all entries, so that the waits overlap.
    #[inline]
    fn lookup_window<Q: Key>(&self, keys: &[Q], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        let buckets = &self.buckets[..];
        let entries = &self.entries[..];
        for &hash in hashes {
            prefetch_line(buckets.as_ptr().wrapping_add(position(hash, buckets.len())).cast());
        }
        let mut first = [Link::NONE; WINDOW];
        for (&hash, first) in hashes.iter().zip(&mut first) {
            if let Some(bucket) = buckets.get(position(hash, buckets.len())) {
                *first = bucket.first(tag(hash));
                if let Some(index) = first.index() {
                    prefetch_line(entries.as_ptr().wrapping_add(index as usize).cast());
                }
            }
        }
        for (((key, &hash), first), id) in keys.iter().zip(hashes).zip(first).zip(ids) {
            *id = match self.compare(first, key) {
                None if first != Link::NONE => self.lookup(key, hash),
                found => found,
            };
        }
    }

    /// Adds a flow seen at `now`, unless it is in the table already.
    ///
    /// Fails, and counts the failure, if the table is full or too many flows have nearly the same hash.
    #[inline]
    pub fn insert(&mut self, key: &K, hash: u32, now: Timestamp) -> Result<Inserted, InsertError> {
        if let Some(id) = self.lookup(key, hash) {
            return Ok(Inserted::Present(id));
        }
        let inserted = self.add(key, hash, now);
        if inserted.is_err() {
            self.stats.insert_failures += 1;
        }
        inserted.map(Inserted::New)
    }

    /// Ends a flow: look-ups no longer find it. Its id can be assigned to another flow as soon as it is not
    /// held. Returns the key, or `None` if the id is stale or the flow was removed before.
    pub fn remove(&mut self, id: FlowId) -> Option<K> {
        if !self.is_current(id) || self.holds[id.index as usize] & REMOVED != 0 {
            return None;
        }
        self.detach(id.index);
        let key = self.entries[id.index as usize].key;
        if self.holds[id.index as usize] == 0 {
            self.give_back(id.index);
        } else {
            self.holds[id.index as usize] |= REMOVED;
            self.stats.held += 1;
        }
        Some(key)
    }

    /// True if the id still belongs to the flow to which it was assigned: the flow is in the table, or was
    /// removed and is held.
    #[inline]
    pub fn is_current(&self, id: FlowId) -> bool {
        self.current(id).is_some()
    }

    /// Prefetches the flow's entry.
    #[inline]
    pub fn prefetch(&self, id: FlowId) {
        prefetch_line(self.entries.as_ptr().wrapping_add(id.index as usize).cast());
    }

    /// Returns the flow's key; `None` if the id is stale.
    #[inline]
    pub fn key(&self, id: FlowId) -> Option<&K> {
        self.current(id).map(|entry| &entry.key)
    }

    /// Returns the time at which the flow was last seen; `None` if the id is stale.
    #[inline]
    pub fn last_seen(&self, id: FlowId) -> Option<Timestamp> {
        self.current(id).map(|entry| Timestamp(entry.last))
    }

    /// Records that the flow was seen at `now`: one store, for every packet. Returns `false` if the id is
    /// stale.
    ///
    /// To keep a flow longer than the table's time-out, touch it with a time in the future.
    #[inline]
    pub fn touch(&mut self, id: FlowId, now: Timestamp) -> bool {
        let entry = self.current_mut(id);
        let current = entry.is_some();
        if let Some(entry) = entry {
            entry.last = now.0;
        }
        current
    }

    /// Records a time like [`touch`](Self::touch), but keeps a later time that is already recorded. So a
    /// flow that is to outlast the time-out does so even if it is seen again.
    #[inline]
    pub fn touch_later(&mut self, id: FlowId, now: Timestamp) -> bool {
        let entry = self.current_mut(id);
        let current = entry.is_some();
        if let Some(entry) = entry {
            entry.last = entry.last.max(now.0);
        }
        current
    }

    /// Returns the flows that look-ups find, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &K)> {
        let entries = self.entries.iter().zip(self.holds.iter()).take(self.used as usize).zip(0..);
        entries.filter_map(|((entry, holds), index)| {
            let generation = NonZeroU32::new(entry.generation).filter(|_| holds & REMOVED == 0)?;
            Some((FlowId { index, generation }, &entry.key))
        })
    }

    /// Returns the id of an entry in use, if it has this key.
    #[inline(always)]
    fn compare<Q: Key>(&self, link: Link, key: &Q) -> Option<FlowId> {
        let entry = self.entry(link)?;
        let generation = NonZeroU32::new(entry.generation)?;
        same(&entry.key, key).then_some(FlowId { index: link.index()?, generation })
    }

    #[inline(always)]
    fn entry(&self, link: Link) -> Option<&Entry<K>> {
        self.entries.get(link.index()? as usize)
    }

    #[inline(always)]
    fn current(&self, id: FlowId) -> Option<&Entry<K>> {
        self.entries.get(id.index as usize).filter(|entry| entry.generation == id.generation.get())
    }

    #[inline(always)]
    fn current_mut(&mut self, id: FlowId) -> Option<&mut Entry<K>> {
        self.entries.get_mut(id.index as usize).filter(|entry| entry.generation == id.generation.get())
    }
}

impl<K: Valued> FlowTable<K> {
    /// Returns the value of a flow for changes; `None` if the id is stale.
    #[inline]
    pub fn value_mut(&mut self, id: FlowId) -> Option<&mut K::Value> {
        self.current_mut(id).map(|entry| entry.key.value_mut())
    }

    /// Records that the flow was seen at `now`, and returns its value for changes.
    #[inline]
    pub fn see(&mut self, id: FlowId, now: Timestamp) -> Option<&mut K::Value> {
        self.current_mut(id).map(|entry| {
            entry.last = now.0;
            entry.key.value_mut()
        })
    }
}

/// True if two keys are equal. It works without a branch per word, and without the function call of a
/// comparison of slices.
#[inline(always)]
fn same<K: Key, Q: Key>(a: &K, b: &Q) -> bool {
    a.words().iter().zip(b.words()).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
