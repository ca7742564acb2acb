//! Buckets: one cache line that says where twelve entries are.

use std::num::NonZeroU32;

use zerocopy::FromZeros;

/// Entries that a bucket points to by itself; the others hang on its overflow chain.
pub(crate) const SLOTS: usize = 12;

/// Points to an entry, or to none. Zeroed memory points to none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub(crate) struct Link(Option<NonZeroU32>);

impl Link {
    pub(crate) const NONE: Link = Link(None);

    #[inline(always)]
    pub(crate) fn to(index: u32) -> Link {
        // Tables hold less than u32::MAX entries, so nothing is lost.
        Link(NonZeroU32::new(index.wrapping_add(1)))
    }

    #[inline(always)]
    pub(crate) fn index(self) -> Option<u32> {
        self.0.map(|n| n.get() - 1)
    }
}

/// Tags are 8 bits of the entries' hashes; 0 marks a free slot.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    tags: [u8; SLOTS],
    /// First of the entries beyond the slots; set only while all slots are taken.
    pub(crate) overflow: Link,
    entries: [Link; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The tag of a hash. The bucket comes from the upper bits, so this takes the lowest ones.
#[inline(always)]
pub(crate) fn tag(hash: u32) -> u8 {
    (hash as u8).max(1)
}

/// The position of a hash among `buckets` buckets: multiply instead of divide (Lemire, "Fast random integer
/// generation in an interval", 2019).
#[inline(always)]
pub(crate) fn position(hash: u32, buckets: usize) -> usize {
    ((u64::from(hash) * buckets as u64) >> 32) as usize
}

impl Bucket {
    /// The entries whose tag is `tag`, as (slot, link) pairs, lowest slot first.
    #[inline(always)]
    pub(crate) fn candidates(&self, tag: u8) -> impl Iterator<Item = Link> + '_ {
        let mut left = self.matches(tag);
        std::iter::from_fn(move || {
            let slot = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.entries.get(slot).copied()
        })
    }

    /// The entry to look at first: one with this tag, else the overflow chain, else none.
    #[inline(always)]
    pub(crate) fn first(&self, tag: u8) -> Link {
        self.entries.get(self.matches(tag).trailing_zeros() as usize).copied().unwrap_or(self.overflow)
    }

    /// Whether all slots are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.matches(0) == 0
    }

    /// Points a free slot to an entry; `false` if there is none.
    #[inline]
    pub(crate) fn put(&mut self, tag: u8, link: Link) -> bool {
        let slot = self.matches(0).trailing_zeros() as usize;
        let (Some(t), Some(entry)) = (self.tags.get_mut(slot), self.entries.get_mut(slot)) else {
            return false;
        };
        (*t, *entry) = (tag, link);
        true
    }

    /// Frees the slot that points to `link`; `false` if none does.
    #[inline]
    pub(crate) fn clear(&mut self, tag: u8, link: Link) -> bool {
        for ((t, entry), bit) in self.tags.iter_mut().zip(&self.entries).zip(0..) {
            let _: u32 = bit;
            if *t == tag && *entry == link {
                *t = 0;
                return true;
            }
        }
        false
    }

    /// A bit per slot with this tag.
    #[inline(always)]
    fn matches(&self, tag: u8) -> u32 {
        let mut found = 0;
        for (slot, &t) in self.tags.iter().enumerate() {
            found |= u32::from(t == tag) << slot;
        }
        found
    }
}
