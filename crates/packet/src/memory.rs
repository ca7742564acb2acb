//! The three arrays of a pool (metadata, slots, annotations) and the stack of slots that other threads
//! return. Everything `unsafe` about addresses is here; the rest of the crate works with indices.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::annotations::Annotations;
use crate::slot::{Meta, NO_SLOT, SLOT_STRIDE};

/// A zeroed, cache-line aligned region of memory, which never moves. It is reserved, but its pages are not
/// accessed.
struct Region {
    #[cfg(not(miri))]
    map: memmap2::MmapMut,
    /// A `Vec` and not a `Box`, because moving a `Box` asserts that nothing else has an address within it.
    #[cfg(miri)]
    map: Vec<Annotations>,
}

impl Region {
    #[cfg(not(miri))]
    fn reserve(bytes: usize) -> std::io::Result<Self> {
        let map = memmap2::MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
        // Huge pages are used if the kernel provides them; everything works without them too.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Region { map })
    }

    /// Miri has no reserved mappings, so a small zeroed vector on the heap is used in their place.
    #[cfg(miri)]
    fn reserve(bytes: usize) -> std::io::Result<Self> {
        Ok(Region { map: vec![Annotations::CLEAR; bytes.div_ceil(64)] })
    }

    fn start(&mut self) -> NonNull<u8> {
        NonNull::from(&mut *self.map).cast()
    }
}

/// The addresses of metadata, slots and annotations.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    metas: NonNull<Meta>,
    slots: NonNull<u8>,
    annotations: NonNull<Annotations>,
    limit: u32,
}

impl Slots {
    /// Returns the metadata of slot `index`.
    #[inline]
    pub(crate) fn meta(self, index: u32) -> *mut Meta {
        debug_assert!(index < self.limit);
        // SAFETY: indices are below `limit`, for which the region was reserved.
        unsafe { self.metas.add(index as usize).as_ptr() }
    }

    /// Returns the first byte of slot `index`.
    #[inline]
    pub(crate) fn slot(self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.limit);
        // SAFETY: as in `meta`.
        unsafe { self.slots.add(index as usize * SLOT_STRIDE) }
    }

    /// Returns the annotations of slot `index`.
    #[inline]
    pub(crate) fn annotations(self, index: u32) -> *mut Annotations {
        debug_assert!(index < self.limit);
        // SAFETY: as in `meta`.
        unsafe { self.annotations.add(index as usize).as_ptr() }
    }
}

/// The shared part of a pool, to which its packets point. It stays at one address until the last packet has
/// been returned.
pub(crate) struct Home {
    slots: Slots,
    /// The index of this pool in [`HOMES`]; 0 if it has none.
    pub(crate) number: u16,
    /// The head of the list (linked by `next_free`) of slots that were returned without access to the pool.
    returned: AtomicU32,
    /// The number of packets whose handle was dropped, without being sent, dropped with a reason or held.
    pub(crate) leaked: AtomicU64,
    _regions: [Region; 3],
}

/// The largest number of pools whose slots can be joined with slots of other pools. Index 0 stays empty.
const MOST_HOMES: usize = 4096;
/// The addresses of pools, so that a list of slots can continue in another pool.
static HOMES: [AtomicPtr<Home>; MOST_HOMES] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_HOMES];

// SAFETY: the raw pointers point into the regions that `Home` owns. Each slot, with its metadata and its
// annotations, is reached only through the one `Packet`, `Store` entry or free-list entry that owns its
// index; the two fields that other threads may access without owning the slot are atomics.
unsafe impl Send for Home {}
// SAFETY: as above; a shared `Home` gives no access to a slot without its owner.
unsafe impl Sync for Home {}

impl Home {
    pub(crate) fn reserve(limit: u32) -> std::io::Result<Arc<Home>> {
        let count = limit as usize;
        let mut regions = [
            Region::reserve(count * size_of::<Meta>())?,
            Region::reserve(count * SLOT_STRIDE)?,
            Region::reserve(count * size_of::<Annotations>())?,
        ];
        let [metas, slots, annotations] = regions.each_mut().map(Region::start);
        let mut home = Arc::new(Home {
            slots: Slots { metas: metas.cast(), slots, annotations: annotations.cast(), limit },
            number: 0,
            returned: AtomicU32::new(NO_SLOT),
            leaked: AtomicU64::new(0),
            _regions: regions,
        });
        let own = Arc::as_ptr(&home).cast_mut();
        let is_ours = |place: &AtomicPtr<Home>| {
            let taken = place.compare_exchange(ptr::null_mut(), own, Ordering::Release, Ordering::Relaxed);
            taken.is_ok()
        };
        // No other thread reads this entry before a slot of this pool is in use.
        if let Some(home) = Arc::get_mut(&mut home) {
            home.number = (1..MOST_HOMES).find(|&number| is_ours(&HOMES[number])).unwrap_or(0) as u16;
        }
        Ok(home)
    }

    /// Returns the metadata of slot `index` of the pool with this number.
    ///
    /// # Safety
    /// The caller owns the slot, or a list that contains it, so that the pool's memory exists.
    pub(crate) unsafe fn meta_of(number: u16, index: u32) -> *mut Meta {
        let home = HOMES[usize::from(number)].load(Ordering::Acquire);
        // SAFETY: a pool with slots in use keeps its entry and its memory until they are returned.
        unsafe { &*home }.meta(index)
    }

    /// Returns the metadata of slot `index`.
    pub(crate) fn meta(&self, index: u32) -> *mut Meta {
        self.slots.meta(index)
    }

    /// Returns the first byte of slot `index`.
    pub(crate) fn slot(&self, index: u32) -> NonNull<u8> {
        self.slots.slot(index)
    }

    /// Returns the addresses of all slots, for loops over many slots.
    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    /// Returns the annotations of slot `index`.
    pub(crate) fn annotations(&self, index: u32) -> *mut Annotations {
        self.slots.annotations(index)
    }

    /// Returns the number of slots that the reserved address space can hold.
    pub(crate) fn limit(&self) -> u32 {
        self.slots.limit
    }

    /// Returns the start and length in bytes of the slots' area, for registering it with a device.
    pub(crate) fn slot_area(&self) -> (*mut u8, usize) {
        (self.slots.slots.as_ptr(), self.limit() as usize * SLOT_STRIDE)
    }

    /// Returns a list of slots, already linked by `next_free` from `first` to `last`, to the pool, from any
    /// thread.
    pub(crate) fn give_back(&self, first: u32, last: u32) {
        let mut head = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns the slots of the list, and may write their `next_free`.
            unsafe { (*self.meta(last)).next_free = head };
            // Release: writes into the slots happen before their next use.
            match self.returned.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the whole list of returned slots; `NO_SLOT` if it is empty.
    pub(crate) fn take_returned(&self) -> u32 {
        if self.returned.load(Ordering::Relaxed) == NO_SLOT {
            return NO_SLOT;
        }
        self.returned.swap(NO_SLOT, Ordering::Acquire)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.number != 0 {
            HOMES[usize::from(self.number)].store(ptr::null_mut(), Ordering::Release);
        }
    }
}
