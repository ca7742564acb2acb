//! Buckets of the hash table in [`table`](crate::table): each is one cache line that points to up to twelve
//! entries.

use std::num::NonZeroU32;

use zerocopy::FromZeros;

/// The number of entries to which a bucket points directly; further entries are on its overflow chain.
pub(crate) const SLOTS: usize = 12;

/// A link to an entry: its index plus one, or 0 for no entry. So zeroed memory contains no links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub(crate) struct Link(Option<NonZeroU32>);

impl Link {
    pub(crate) const NONE: Link = Link(None);

    #[inline(always)]
    pub(crate) fn to(index: u32) -> Link {
        // The sum is never 0: tables hold at most 2^30 entries.
        Link(NonZeroU32::new(index.wrapping_add(1)))
    }

    #[inline(always)]
    pub(crate) fn index(self) -> Option<u32> {
        self.0.map(|n| n.get() - 1)
    }
}

/// The tag of a slot that points to no entry; no hash has this tag.
const FREE: u8 = 0;

/// A bucket of the hash table. Each slot has an 8-bit tag, taken from the hash of its entry. Of the entries
/// in slots, a look-up reads only those whose tag is equal. A slot with another key has an equal tag by
/// chance in about one of 255 cases.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u8; SLOTS],
    /// The first entry of the overflow chain, which holds entries beyond the slots. The chain is empty
    /// unless all slots are taken.
    pub(crate) overflow: Link,
    entries: [Link; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// Returns the tag of a hash: its lowest 8 bits, with 0 replaced by 1, because 0 marks a free slot. The upper
/// bits choose the bucket, so that the tags within a bucket differ.
#[inline(always)]
pub(crate) fn tag(hash: u32) -> u8 {
    (hash as u8).max(1)
}

/// Returns the index of the bucket for a hash, below `buckets`. It uses the upper bits of the hash, with a
/// multiplication in place of a division (Lemire, "Fast random integer generation in an interval", 2019).
#[inline(always)]
pub(crate) fn position(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

impl Bucket {
    /// Returns the entries in slots with this tag, from the lowest slot on. Entries on the overflow chain
    /// are not among them.
    #[inline(always)]
    pub(crate) fn candidates(&self, tag: u8) -> impl Iterator<Item = Link> + '_ {
        let mut left = self.matches(tag);
        std::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.entries.get(slot).copied()
        })
    }

    /// Returns the first entry that a look-up compares: the lowest slot with this tag, otherwise the first
    /// entry of the overflow chain, otherwise no entry.
    #[inline(always)]
    pub(crate) fn first(&self, tag: u8) -> Link {
        self.candidates(tag).next().unwrap_or(self.overflow)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.matches(FREE) == 0
    }

    /// Points a free slot to an entry with this tag. Returns `false`, and changes nothing, if no slot is
    /// free.
    #[inline]
    pub(crate) fn put(&mut self, tag: u8, link: Link) -> bool {
        let slot = self.matches(FREE).trailing_zeros() as usize;
        let free = self.tags.get_mut(slot).zip(self.entries.get_mut(slot));
        let found = free.is_some();
        if let Some((free, entry)) = free {
            (*free, *entry) = (tag, link);
        }
        found
    }

    /// Frees the slot that points to the entry `link`. Returns `false` if no slot does, so that the entry
    /// is on the overflow chain.
    #[inline]
    pub(crate) fn clear(&mut self, link: Link) -> bool {
        let mut slots = self.tags.iter_mut().zip(&mut self.entries);
        let found = slots.find(|(_, entry)| **entry == link);
        let was_there = found.is_some();
        if let Some((taken, entry)) = found {
            (*taken, *entry) = (FREE, Link::NONE);
        }
        was_there
    }

    /// Returns a mask in which bit N is set if slot N has this tag. This is the core of a look-up: SSE2
    /// makes look-ups a quarter to a third faster than the loop of `matches_portable`.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn matches(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: every x86-64 processor has SSE2, and a bucket is 64 bytes that start at a multiple of 64.
        let equal = unsafe {
            let start = _mm_load_si128(std::ptr::from_ref(self).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(start, _mm_set1_epi8(tag as i8)))
        };
        // The load covers 16 bytes: twelve tags, and four bytes of the overflow link, whose bits are
        // cleared.
        equal as u32 & ((1 << SLOTS) - 1)
    }

    /// Returns a mask in which bit N is set if slot N has this tag.
    #[inline(always)]
    #[cfg(not(target_arch = "x86_64"))]
    fn matches(&self, tag: u8) -> u32 {
        self.matches_portable(tag)
    }

    #[inline(always)]
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn matches_portable(&self, tag: u8) -> u32 {
        self.tags.iter().zip(0..).fold(0, |found, (&t, slot)| found | u32::from(t == tag) << slot)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn matching_agrees_with_the_portable_loop(tags: [u8; SLOTS], wanted: u8, at in 0..SLOTS, overflow: u32) {
            let mut tags = tags;
            tags[at] = wanted;
            let bucket = Bucket { tags, overflow: Link::to(overflow), entries: [Link::NONE; SLOTS] };
            prop_assert_eq!(bucket.matches(wanted), bucket.matches_portable(wanted));
            prop_assert_ne!(bucket.matches(wanted) & 1 << at, 0);
            prop_assert_eq!(bucket.matches(FREE), bucket.matches_portable(FREE));
        }

        #[test]
        fn positions_are_in_range_and_even(hash: u32, buckets in 1usize..100_000) {
            prop_assert!(position(hash, buckets) < buckets);
            prop_assert_eq!(position(u32::MAX, buckets), buckets - 1);
            prop_assert_ne!(tag(hash), FREE);
        }
    }

    #[test]
    fn slots_are_found_and_given_back() {
        let mut bucket = Bucket::new_zeroed();
        for n in 0..SLOTS as u32 {
            assert!(bucket.put(7, Link::to(n)));
        }
        assert!(bucket.is_full() && !bucket.put(7, Link::to(99)));
        assert!(bucket.clear(Link::to(5)) && !bucket.clear(Link::to(5)));
        assert_eq!(bucket.candidates(7).count(), SLOTS - 1);
        assert!(bucket.put(9, Link::to(50)));
        assert_eq!(bucket.first(9), Link::to(50));
        assert_eq!(bucket.first(8), Link::NONE);
        bucket.overflow = Link::to(3);
        assert_eq!(bucket.first(8), Link::to(3));
    }
}
