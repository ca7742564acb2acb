//! The flow table: a hash table that maps keys to flow ids, with a fixed capacity, for one worker.
//!
//! A hash selects one bucket, which is one cache line with twelve tags of 8 bits and twelve links to
//! entries. An entry is one cache line with the key and the data that is needed per packet (time,
//! generation, reverse flow). Entries beyond twelve are on an overflow chain of bounded length, which links
//! the entries themselves. So no entry ever moves and nothing is rehashed. Usually a hit accesses two
//! lines, and a miss one; longer chains and equal tags of other keys add lines.
//!
//! Entries are in one array, and the index of an entry is the index of the flow's id. Each entry can be used:
//! the table is full only when it holds as many flows as its capacity, including flows that were removed but
//! are still held.
//!
//! Alternatives that were measured (10M flows, look-ups in batches, ns per hit and per miss;
//! `examples/flow_bench.rs`): this table takes 37 and 29. A second bucket per key, as in cuckoo hashing,
//! takes 50 and 42 and would save 3 of 77 bytes per flow. Keys within the buckets would save the second line,
//! but with five-tuples only one key fits into a line.

mod entries;
mod expiry;
mod relations;
#[cfg(test)]
mod tests;

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

/// The average fill level of the buckets' slots when the table is full, in percent. It determines the
/// number of buckets.
///
/// With 60 %, one bucket in thirty has an overflow chain; with 90 %, one in three. Each chain costs
/// mispredicted branches and cache lines of entries: at 1M flows, 60 % instead of 90 % makes a hit take 23
/// ns instead of 30 and a miss 17 instead of 52. The cost is three more bytes per flow.
const LOAD_PERCENT: usize = 60;

/// The number of look-ups in a batch whose memory accesses overlap, see [`FlowTable::lookup_window`].
const WINDOW: usize = 32;

/// The bit in an element of `holds` that marks a flow which was removed while it was held. The other bits
/// count the holders.
const REMOVED: u32 = 1 << 31;

/// A flow in the table. With keys of five words an entry fills one cache line.
#[derive(FromZeros)]
#[repr(C, align(64))]
struct Entry<K> {
    key: K,
    /// The time at which the flow was last seen, in nanoseconds, as in a [`Timestamp`].
    last: i64,
    /// The generation of the flow's id; 0 while the entry is free.
    generation: u32,
    /// The hash of the key, by which the bucket is found when the flow is removed. While the entry is free,
    /// the generation of its next flow.
    hash: u32,
    /// The next entry on the overflow chain; while the entry is free, the next entry on the list of free
    /// entries.
    next: Link,
    /// The flow in the other direction, if the two were paired.
    reverse: Link,
}

const _: () = assert!(size_of::<Entry<crate::key::FiveTupleKey>>() == 64);
const _: () = assert!(size_of::<Entry<crate::key::MappedKey>>() == 64);

/// A hash table of flows with a fixed capacity, for one worker. It assigns each key a [`FlowId`], whose
/// index is below the capacity, and records when each flow was last seen.
pub struct FlowTable<K: Key> {
    buckets: Lines<Bucket>,
    entries: Lines<Entry<K>>,
    /// For each entry the number of holders, plus the bit [`REMOVED`].
    holds: Lines<u32>,
    /// The number of entries that have ever been used; entries from this index on were never accessed.
    used: u32,
    /// The first entry of the list of free entries: the entry that was freed last.
    free: Link,
    first_generation: NonZeroU32,
    /// The highest generation that any id has had.
    highest_generation: u32,
    last_generation: u32,
    turn: Turn,
    stats: TableStats,
}

/// The result of [`FlowTable::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The flow was not in the table. Its id may have an index that another flow had before, so elements
    /// have to initialise their own data for this index.
    New(FlowId),
    /// The flow was in the table; nothing was changed, not even the time at which it was last seen.
    Present(FlowId),
}

impl Inserted {
    /// Returns the id of the flow, new or present.
    #[inline]
    pub fn id(self) -> FlowId {
        match self {
            Inserted::New(id) | Inserted::Present(id) => id,
        }
    }
}

/// The counts of a table, for handlers and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The largest number of flows that the table can hold.
    pub capacity: usize,
    /// The number of flows that look-ups find.
    pub entries: usize,
    /// The number of flows that were removed but whose ids are still held. They take room like flows in the
    /// table.
    pub held: usize,
    /// The number of calls of [`FlowTable::insert`] that failed.
    pub insert_failures: u64,
    /// The number of flows that [`FlowTable::expire`] and [`FlowTable::expire_paced`] ended.
    pub expirations: u64,
}

impl<K: Key> FlowTable<K> {
    /// Makes a table for up to `capacity` flows. Address space is reserved now, and memory is allocated
    /// when it is first accessed: about 77 bytes per flow for keys of five words. Fails if the capacity is
    /// 0 or above [`MAX_CAPACITY`], or if the kernel refuses the address space.
    pub fn new(capacity: usize) -> Result<Self, TableError> {
        FlowTable::with_generations(capacity, u32::MAX)
    }

    /// Makes a table like [`new`](Self::new), in which the generation after `last_generation` is 1 again.
    /// Tests use a small number, so that generations repeat soon.
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

    /// Sets the generation that each index has when it is first used, instead of 1. The table must still be
    /// empty. Used when a table replaces another, so that no id of the old table is valid in the new one.
    pub fn set_first_generation(&mut self, first: u32) {
        debug_assert_eq!(self.used, 0);
        self.first_generation = NonZeroU32::new(first).unwrap_or(NonZeroU32::MIN);
    }

    /// Returns a generation above the generations of all ids so far, or 0 if one of them has the highest
    /// generation, `u32::MAX`. A new table that starts with it (see
    /// [`set_first_generation`](Self::set_first_generation)) assigns no id that this table has assigned,
    /// until generations repeat. A start at 0 counts as 1.
    pub fn next_generation(&self) -> u32 {
        self.highest_generation.max(self.first_generation.get() - 1).wrapping_add(1)
    }

    /// Returns the counts of this table.
    pub fn stats(&self) -> TableStats {
        self.stats
    }

    /// Returns the id of the flow with this key; `None` if it is not in the table. `hash` must be the hash
    /// with which the flow was inserted. The key may be of another type than the table's, as long as its
    /// words are equal: an [`Ipv4FlowKey`](crate::Ipv4FlowKey) finds a [`MappedKey`](crate::MappedKey).
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

    /// Looks up many flows and writes their ids to `ids`, `None` for flows that are not in the table. The
    /// elements of the three slices with one index belong to one look-up; elements beyond the shortest
    /// slice are ignored. A batch is faster than single look-ups, because memory accesses overlap.
    #[inline]
    pub fn lookup_batch<Q: Key>(&self, keys: &[Q], hashes: &[u32], ids: &mut [Option<FlowId>]) {
        let windows = keys.chunks(WINDOW).zip(hashes.chunks(WINDOW)).zip(ids.chunks_mut(WINDOW));
        for ((keys, hashes), ids) in windows {
            self.lookup_window(keys, hashes, ids);
        }
    }

    /// Looks up at most [`WINDOW`] flows. The cache lines of all buckets are prefetched first, then the
    /// first candidate entry of each. So the processor waits for many lines at the same time.
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

    /// Adds a flow that was seen at `now` and returns its id. If the flow is in the table already, nothing
    /// changes.
    ///
    /// Fails, and counts the failure, if the table is full or if too many flows have nearly the same hash.
    /// Nothing is evicted.
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

    /// Removes a flow, so that look-ups no longer find it. If no holder of its id is left, the id becomes
    /// stale and its index can be assigned to another flow; otherwise this happens when the last holder
    /// releases it. Returns the key, or `None` if the id is stale or the flow was removed before.
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
    /// removed but its id is held.
    #[inline]
    pub fn is_current(&self, id: FlowId) -> bool {
        self.current(id).is_some()
    }

    /// Prefetches the cache line of the flow's entry, for an access to its key, value or time soon
    /// afterwards.
    #[inline]
    pub fn prefetch(&self, id: FlowId) {
        prefetch_line(self.entries.as_ptr().wrapping_add(id.index as usize).cast());
    }

    /// Returns the flow's key, also of a removed flow that is held; `None` if the id is stale.
    #[inline]
    pub fn key(&self, id: FlowId) -> Option<&K> {
        self.current(id).map(|entry| &entry.key)
    }

    /// Returns the time at which the flow was last seen, or with which it was last touched; `None` if the
    /// id is stale.
    #[inline]
    pub fn last_seen(&self, id: FlowId) -> Option<Timestamp> {
        self.current(id).map(|entry| Timestamp(entry.last))
    }

    /// Records that the flow was seen at `now`. The record is one store, cheap enough for each packet.
    /// Returns `false` if the id is stale.
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

    /// Records a time like [`touch`](Self::touch), but only if it is later than the recorded time. So a
    /// flow that was touched with a time in the future keeps this time when its packets are seen. Returns
    /// `false` if the id is stale.
    #[inline]
    pub fn touch_later(&mut self, id: FlowId, now: Timestamp) -> bool {
        let entry = self.current_mut(id);
        let current = entry.is_some();
        if let Some(entry) = entry {
            entry.last = entry.last.max(now.0);
        }
        current
    }

    /// Iterates over the flows in the table, each with its id and its key, in the order of their indices.
    /// Flows that were removed but are still held are left out.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &K)> {
        self.iter_from(0)
    }

    /// Iterates like [`iter`](Self::iter) over the flows whose index is at least `first`.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = (FlowId, &K)> {
        let range = first.min(self.used as usize)..self.used as usize;
        let entries = self.entries[range.clone()].iter().zip(&self.holds[range.clone()]);
        let entries = entries.zip(range.start as u32..);
        entries.filter_map(|((entry, holds), index)| {
            let generation = NonZeroU32::new(entry.generation).filter(|_| holds & REMOVED == 0)?;
            Some((FlowId { index, generation }, &entry.key))
        })
    }

    /// Returns the id of the flow in the entry, if the entry is in use and has this key.
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
    /// Returns the value in a flow's key by mutable reference; `None` if the id is stale.
    #[inline]
    pub fn value_mut(&mut self, id: FlowId) -> Option<&mut K::Value> {
        self.current_mut(id).map(|entry| entry.key.value_mut())
    }

    /// Records that the flow was seen at `now`, like [`touch`](Self::touch), and returns the value in its
    /// key by mutable reference; `None` if the id is stale.
    #[inline]
    pub fn see(&mut self, id: FlowId, now: Timestamp) -> Option<&mut K::Value> {
        self.current_mut(id).map(|entry| {
            entry.last = now.0;
            entry.key.value_mut()
        })
    }
}

/// True if the words of two keys are equal; of keys of different lengths, as many words as the shorter key
/// has. Unlike a comparison of slices, the loop has no branch per word and calls no function.
#[inline(always)]
fn same<K: Key, Q: Key>(a: &K, b: &Q) -> bool {
    a.words().iter().zip(b.words()).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
