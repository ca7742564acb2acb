//! The hash table with the flow states of one core: that core writes, all cores read.
//!
//! All shared data are words that are read and written atomically, so nothing here is unsafe. Each entry is
//! a sequence lock (fences as in Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?",
//! MSPC 2012): it has a version, which is odd while the entry is being written. A reader compares the
//! version before and after it copies the entry. If the version is odd or has changed, the copy may be
//! inconsistent, and the reader tries again.
//!
//! A bucket is one cache line, as in a [`FlowTable`](crate::FlowTable): seven slots that point to entries,
//! and the first entry of a chain for further entries. An entry never moves to another slot or index.

use std::marker::PhantomData;
use std::num::NonZeroU32;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bucket::position;
use crate::id::FlowId;
use crate::key::{Key, MAX_WORDS};

/// A type of flow state that can be copied word by word: numbers, and structures of numbers without
/// padding, of at most 64 bytes. It is implemented for all types with the listed traits; the size is
/// checked at compile time.
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy {}

impl<V: FromBytes + IntoBytes + Immutable + Copy> Plain for V {}

/// The largest size of a state, in words of 64 bits.
const MOST_WORDS: usize = 8;
/// The largest size of a state, in bytes.
pub(super) const MOST_BYTES: usize = MOST_WORDS * 8;

/// The number of entries to which a bucket points directly.
const SLOTS: usize = 7;
/// The number of words of a bucket: seven slots, and the link to the first entry of the chain.
const BUCKET: usize = 8;
/// The average fill level of the slots when the table is full, in percent. It determines the number of
/// buckets.
const LOAD_PERCENT: usize = 60;
/// The largest number of entries on a bucket's chain; further inserts into the bucket are refused. A reader
/// follows no more entries than this. Chains are far shorter unless an attacker chooses keys with one hash.
const LONGEST_CHAIN: usize = 64;
/// The number of times that a reader tries to copy an entry that is being written; then it finds nothing.
/// The loom model uses 1, to limit the number of interleavings.
const ATTEMPTS: usize = if cfg!(loom) { 1 } else { 8 };

/// The layout of an entry, as offsets in words: the version; the generation (upper half) and the next entry
/// of the chain (lower half); the key, followed by the value.
const VERSION: usize = 0;
const LINK: usize = 1;
const KEY: usize = 2;

/// An array of 64-bit words that any core reads and one core writes. Reads past the end return 0, writes
/// past the end do nothing.
pub(super) struct Cells {
    #[cfg(not(loom))]
    words: crate::memory::Lines<AtomicU64>,
    #[cfg(loom)]
    words: Box<[AtomicU64]>,
}

impl Cells {
    pub(super) fn new(length: usize) -> std::io::Result<Cells> {
        #[cfg(not(loom))]
        let words = crate::memory::Lines::zeroed(length)?;
        #[cfg(loom)]
        let words = (0..length).map(|_| AtomicU64::new(0)).collect();
        Ok(Cells { words })
    }

    #[inline(always)]
    fn get(&self, at: usize, order: Ordering) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(order))
    }

    #[inline(always)]
    fn set(&self, at: usize, value: u64, order: Ordering) {
        if let Some(word) = self.words.get(at) {
            word.store(value, order);
        }
    }

    #[inline(always)]
    pub(super) fn get_relaxed(&self, at: usize) -> u64 {
        self.get(at, Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn set_relaxed(&self, at: usize, value: u64) {
        self.set(at, value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        packet::prefetch_line(self.words.as_ptr().wrapping_add(at).cast());
    }
}

pub(super) struct Table<K, V> {
    buckets: Cells,
    /// The number of buckets, each of [`BUCKET`] words.
    width: usize,
    entries: Cells,
    capacity: usize,
    of: PhantomData<fn(K) -> V>,
}

/// Returns the content of a slot that points to an entry: the entry's hash in the upper half, its index
/// plus one in the lower half. A free slot is 0.
fn slot(hash: u32, index: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(index + 1)
}

/// Returns the index of the entry to which a slot or a link points, from the lower half of the word; `None`
/// if it points to no entry.
#[inline(always)]
fn pointed(word: u64) -> Option<u32> {
    (word as u32).checked_sub(1)
}

impl<K: Key, V: Plain> Table<K, V> {
    pub(super) fn new(capacity: usize) -> std::io::Result<Self> {
        const { assert!(size_of::<V>() <= MOST_BYTES, "a state has at most 64 bytes") };
        let width = (capacity * 100).div_ceil(SLOTS * LOAD_PERCENT);
        let (buckets, entries) = (Cells::new(width * BUCKET)?, Cells::new(capacity * Self::stride())?);
        Ok(Table { buckets, width, entries, capacity, of: PhantomData })
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    fn key_words() -> usize {
        K::new_zeroed().words().len().min(MAX_WORDS)
    }

    /// Returns the distance from one entry to the next in words: a multiple of 8, so that entries begin at
    /// cache lines.
    #[inline(always)]
    fn stride() -> usize {
        (KEY + Self::key_words() + size_of::<V>().div_ceil(8)).next_multiple_of(8)
    }

    fn bucket(&self, hash: u32) -> usize {
        position(hash, self.width) * BUCKET
    }

    // Reading, by any core.

    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u32) {
        self.buckets.prefetch(self.bucket(hash));
    }

    /// Prefetches the entry of the first slot with this hash. Entries on the chain are not prefetched.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u32) {
        let bucket = self.bucket(hash);
        let slots = (bucket..bucket + SLOTS).map(|at| self.buckets.get_relaxed(at));
        let first = slots.filter(|slot| (slot >> 32) as u32 == hash).find_map(pointed);
        if let Some(index) = first {
            self.entries.prefetch(index as usize * Self::stride());
        }
    }

    /// Returns the id and the state of the flow with this key; `None` if it is not in the table, or cannot
    /// be read at this moment because the writer is changing its entry or chain.
    #[inline]
    pub(super) fn get(&self, key: &K, hash: u32) -> Option<(FlowId, V)> {
        let bucket = self.bucket(hash);
        for at in bucket..bucket + SLOTS {
            // Acquire: if the slot points to the entry, everything that was written to the entry before is
            // visible.
            let slot = self.buckets.get(at, Ordering::Acquire);
            if (slot >> 32) as u32 == hash
                && let Some(index) = pointed(slot)
                && let Some(entry) = self.read(index)
                && let Some(found) = entry.of(index, key)
            {
                return Some(found);
            }
        }
        let mut next = pointed(self.buckets.get(bucket + SLOTS, Ordering::Acquire));
        // The writer may reuse an entry of the chain during the search and so lead the reader to another
        // chain, even in a circle. The limit ends the search.
        for _ in 0..LONGEST_CHAIN {
            let entry = self.read(next?)?;
            if let Some(found) = entry.of(next?, key) {
                return Some(found);
            }
            next = pointed(entry.link);
        }
        None
    }

    /// Returns a copy of an entry as it was at one moment; `None` if the entry was being written or changed
    /// during each of [`ATTEMPTS`] attempts.
    #[inline]
    fn read(&self, index: u32) -> Option<Entry> {
        let start = index as usize * Self::stride();
        for _ in 0..ATTEMPTS {
            let version = self.entries.get(start + VERSION, Ordering::Acquire);
            if version % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let mut entry =
                Entry { link: self.entries.get_relaxed(start + LINK), words: [0; MAX_WORDS + MOST_WORDS] };
            let length = Self::key_words() + size_of::<V>().div_ceil(8);
            for (word, at) in entry.words.iter_mut().zip(start + KEY..).take(length) {
                *word = self.entries.get_relaxed(at);
            }
            // The fence orders the loads of the words before the second load of the version.
            fence(Ordering::Acquire);
            if self.entries.get_relaxed(start + VERSION) == version {
                return Some(entry);
            }
        }
        None
    }

    // Writing, by the designated core only.

    /// Writes a flow to the free entry `index`, and then makes it visible to look-ups. Returns false, and
    /// changes nothing, if the bucket's slots are taken and its chain has the length [`LONGEST_CHAIN`].
    pub(super) fn put(&self, index: u32, generation: u32, key: &K, hash: u32, value: &V) -> bool {
        let bucket = self.bucket(hash);
        let free = (bucket..bucket + SLOTS).find(|&at| self.buckets.get_relaxed(at) == 0);
        let overflow = self.buckets.get_relaxed(bucket + SLOTS);
        if free.is_none() && self.chain(bucket).count() >= LONGEST_CHAIN {
            return false;
        }
        let next = if free.is_some() { 0 } else { overflow };
        self.write(index, |start| {
            self.entries.set_relaxed(start + LINK, u64::from(generation) << 32 | next);
            for (at, &word) in (start + KEY..).zip(key.words()) {
                self.entries.set_relaxed(at, word);
            }
            self.set_value(start, value);
        });
        // Release: a reader that finds the link to the entry also sees the entry's contents.
        match free {
            Some(at) => self.buckets.set(at, slot(hash, index), Ordering::Release),
            None => self.buckets.set(bucket + SLOTS, u64::from(index + 1), Ordering::Release),
        }
        true
    }

    /// Replaces the state in an entry; the flow stays the same.
    pub(super) fn change(&self, index: u32, value: &V) {
        self.write(index, |start| self.set_value(start, value));
    }

    /// Removes the flow in entry `index` from its bucket, so that look-ups no longer find it, and returns
    /// its last state. The entry is then free.
    pub(super) fn take(&self, index: u32, hash: u32) -> V {
        let bucket = self.bucket(hash);
        match (bucket..bucket + SLOTS).find(|&at| self.buckets.get_relaxed(at) == slot(hash, index)) {
            // The chain stays where it is, although a slot is free now. So readers that are following the
            // chain are not misled, and a later flow can take the slot.
            Some(at) => self.buckets.set(at, 0, Ordering::Release),
            None => self.unlink(bucket, index),
        }
        let start = index as usize * Self::stride();
        let mut words = [0; MOST_WORDS];
        for (word, at) in
            words.iter_mut().zip(start + KEY + Self::key_words()..).take(size_of::<V>().div_ceil(8))
        {
            *word = self.entries.get_relaxed(at);
        }
        self.write(index, |start| self.entries.set_relaxed(start + LINK, 0));
        value(&words)
    }

    /// Returns the entries of a bucket's chain, each with its predecessor: the entry that links to it, or
    /// `None` if the bucket does.
    fn chain(&self, bucket: usize) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
        let first = pointed(self.buckets.get_relaxed(bucket + SLOTS)).map(|first| (None, first));
        std::iter::successors(first, |&(_, index)| {
            let link = self.entries.get_relaxed(index as usize * Self::stride() + LINK);
            pointed(link).map(|next| (Some(index), next))
        })
    }

    fn unlink(&self, bucket: usize, index: u32) {
        let before = self.chain(bucket).find(|&(_, entry)| entry == index);
        let next = self.entries.get_relaxed(index as usize * Self::stride() + LINK) & 0xffff_ffff;
        match before {
            Some((None, _)) => self.buckets.set(bucket + SLOTS, next, Ordering::Release),
            Some((Some(before), _)) => {
                let at = before as usize * Self::stride() + LINK;
                let generation = self.entries.get_relaxed(at) >> 32 << 32;
                self.entries.set(at, generation | next, Ordering::Release);
            }
            None => debug_assert!(false, "an entry in use is in its bucket"),
        }
    }

    fn set_value(&self, start: usize, value: &V) {
        let mut words = [0u64; MOST_WORDS];
        words.as_mut_bytes()[..size_of::<V>()].copy_from_slice(value.as_bytes());
        let start = start + KEY + Self::key_words();
        for (at, &word) in (start..).zip(&words[..size_of::<V>().div_ceil(8)]) {
            self.entries.set_relaxed(at, word);
        }
    }

    /// Writes an entry through `change`, which gets the offset of the entry in words. The version is odd
    /// during the write, so readers at that time try again.
    fn write(&self, index: u32, change: impl FnOnce(usize)) {
        let start = index as usize * Self::stride();
        let version = self.entries.get_relaxed(start + VERSION);
        self.entries.set_relaxed(start + VERSION, version.wrapping_add(1));
        // The fence orders the odd version before all stores of `change`. A reader that sees any of these
        // stores thus sees the odd version, or a later one, when it reads the version again.
        fence(Ordering::Release);
        change(start);
        self.entries.set(start + VERSION, version.wrapping_add(2), Ordering::Release);
    }
}

/// A reader's copy of an entry, without the version: the word with generation and link, and the words of
/// key and value.
struct Entry {
    link: u64,
    words: [u64; MAX_WORDS + MOST_WORDS],
}

impl Entry {
    /// Returns the id and the state of the copied entry, if the entry is in use and has this key.
    #[inline]
    fn of<K: Key, V: Plain>(&self, index: u32, key: &K) -> Option<(FlowId, V)> {
        let generation = NonZeroU32::new((self.link >> 32) as u32)?;
        let (own, rest) = self.words.split_at_checked(key.words().len())?;
        (own == key.words()).then(|| (FlowId { index, generation }, value(rest)))
    }
}

/// Converts words to a state. The slice has at least as many words as the state.
#[inline]
fn value<V: Plain>(words: &[u64]) -> V {
    V::read_from_prefix(words.as_bytes()).map_or_else(|_| V::new_zeroed(), |(value, _)| value)
}
