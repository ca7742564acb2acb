//! The memory of a pool: three arrays (metadata, slots, annotations), and the stack of slots that other
//! threads return.
//!
//! Only this file computes addresses from the indices of slots. The rest of the crate uses these addresses,
//! with offsets inside a slot.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::annotations::Annotations;
use crate::slot::{NO_SLOT, SLOT_STRIDE, Standing, Values, owner};

/// A zeroed, cache-line aligned mapping, which never moves. It is only reserved: the kernel provides a page
/// when the page is accessed first.
struct Region {
    #[cfg(not(miri))]
    map: memmap2::MmapMut,
    /// The memory of the region under Miri: a vector in place of the mapping. It is not a `Box`, because
    /// moving a `Box` asserts that no other pointer leads into its memory.
    #[cfg(miri)]
    map: Vec<Annotations>,
}

impl Region {
    #[cfg(not(miri))]
    fn reserve(bytes: usize) -> std::io::Result<Self> {
        let map = memmap2::MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
        // The kernel may refuse huge pages; ordinary pages work, too.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Region { map })
    }

    /// Stands in for the mapping under Miri, which does not support mappings: a zeroed vector on the heap.
    #[cfg(miri)]
    fn reserve(bytes: usize) -> std::io::Result<Self> {
        Ok(Region { map: vec![Annotations::CLEAR; bytes.div_ceil(64)] })
    }

    fn start(&mut self) -> NonNull<u8> {
        NonNull::from(&mut *self.map).cast()
    }
}

/// The start addresses of the three arrays, and the number of slots for which they were reserved.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    metas: NonNull<Meta>,
    slots: NonNull<u8>,
    annotations: NonNull<Annotations>,
    limit: u32,
}

impl Slots {
    /// Returns the address of the metadata of slot `index`.
    #[inline]
    pub(crate) fn meta(self, index: u32) -> *mut Meta {
        debug_assert!(index < self.limit);
        // SAFETY: indices are below `limit`, for which the region was reserved.
        unsafe { self.metas.add(index as usize).as_ptr() }
    }

    /// Returns the index of the slot with this metadata, which must belong to this pool.
    #[inline]
    fn index_of(self, meta: &Meta) -> u32 {
        let distance = ptr::from_ref(meta).addr().wrapping_sub(self.metas.addr().get());
        (distance / size_of::<Meta>()) as u32
    }

    /// Returns the address of the first byte of slot `index`.
    #[inline]
    pub(crate) fn slot(self, index: u32) -> NonNull<u8> {
        debug_assert!(index < self.limit);
        // SAFETY: as in `meta`.
        unsafe { self.slots.add(index as usize * SLOT_STRIDE) }
    }

    /// Returns the address of the annotations of slot `index`.
    #[inline]
    pub(crate) fn annotations(self, index: u32) -> *mut Annotations {
        debug_assert!(index < self.limit);
        // SAFETY: as in `meta`.
        unsafe { self.annotations.add(index as usize).as_ptr() }
    }
}

/// The part of a pool that threads share, to which its packets point. It never moves, and is not freed
/// while a packet, a pool or a [`Recipient`](crate::Recipient) refers to it.
pub(crate) struct SharedPool {
    slots: Slots,
    /// The index of this pool in [`POOLS`].
    number: u16,
    /// The index of the first slot in the list of slots that other threads have returned, linked by
    /// `next_free`; `NO_SLOT` if the list is empty.
    returned: AtomicU32,
    /// The number of packets whose handle was dropped by mistake: the packet was neither sent, nor dropped
    /// with a reason, nor held.
    pub(crate) leaked: AtomicU64,
    _regions: [Region; 3],
}

/// The largest number of pools at a time. It is a power of two, so that every number can be made an index
/// without a check.
pub(crate) const MOST_POOLS: usize = 4096;
/// The addresses of pools by their number, so that the metadata of a slot can refer to a pool with two bytes.
static POOLS: [AtomicPtr<SharedPool>; MOST_POOLS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_POOLS];

// SAFETY: the raw pointers point into the regions that `SharedPool` owns. Each slot, with its metadata and
// its annotations, is reached only through its one owner: a `Packet`, a `Store`, a device, or a list of free
// or returned slots. The fields that threads may write at the same time are atomics.
unsafe impl Send for SharedPool {}
// SAFETY: each slot is reached only through its one owner, a shared `SharedPool` gives no access to a slot
// without this owner, and the fields that threads may write at the same time are atomics.
unsafe impl Sync for SharedPool {}

impl SharedPool {
    /// Reserves memory for a pool with at most `limit` slots, and gives it a number. Returns `None` if no
    /// number is free.
    pub(crate) fn reserve(limit: u32) -> std::io::Result<Option<Arc<SharedPool>>> {
        let count = limit as usize;
        let mut regions = [
            Region::reserve(count * size_of::<Meta>())?,
            Region::reserve(count * SLOT_STRIDE)?,
            Region::reserve(count * size_of::<Annotations>())?,
        ];
        let [metas, slots, annotations] = regions.each_mut().map(Region::start);
        let mut home = Arc::new(SharedPool {
            slots: Slots { metas: metas.cast(), slots, annotations: annotations.cast(), limit },
            number: 0,
            returned: AtomicU32::new(NO_SLOT),
            leaked: AtomicU64::new(0),
            _regions: regions,
        });
        let own = Arc::as_ptr(&home).cast_mut();
        let is_ours = |place: &AtomicPtr<SharedPool>| {
            let taken = place.compare_exchange(ptr::null_mut(), own, Ordering::Release, Ordering::Relaxed);
            taken.is_ok()
        };
        // No other thread has a reference to this pool yet, so that writing its number is safe.
        if let Some(home) = Arc::get_mut(&mut home) {
            let number = (0..MOST_POOLS).find(|&number| is_ours(&POOLS[number]));
            let Some(number) = number else { return Ok(None) };
            home.number = number as u16;
        }
        Ok(Some(home))
    }

    /// Returns the number by which the slots of the pool name it.
    #[inline]
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the pool that has this number.
    ///
    /// # Safety
    ///
    /// A slot of the pool is in use, so that the pool exists.
    #[inline]
    pub(crate) unsafe fn of<'a>(number: u16) -> &'a SharedPool {
        let home = POOLS[usize::from(number) % MOST_POOLS].load(Ordering::Acquire);
        // SAFETY: a pool with slots in use keeps its entry and its memory until the slots are returned.
        unsafe { &*home }
    }

    pub(crate) fn meta(&self, index: u32) -> *mut Meta {
        self.slots.meta(index)
    }

    pub(crate) fn slot(&self, index: u32) -> NonNull<u8> {
        self.slots.slot(index)
    }

    /// Returns the start addresses of the arrays, for loops over many slots.
    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    /// Returns the address of the annotations of the slot with this metadata, which must belong to this pool.
    #[inline]
    pub(crate) fn annotations(&self, meta: &Meta) -> *mut Annotations {
        self.slots.annotations(self.slots.index_of(meta))
    }

    /// Returns the index of the slot with this metadata, which must belong to this pool.
    #[inline]
    pub(crate) fn index_of(&self, meta: &Meta) -> u32 {
        self.slots.index_of(meta)
    }

    /// Returns the number of slots for which address space is reserved.
    pub(crate) fn limit(&self) -> u32 {
        self.slots.limit
    }

    /// Returns the start and the length in bytes of the array of slots, for registering it with a device.
    pub(crate) fn slot_area(&self) -> (*mut u8, usize) {
        (self.slots.slots.as_ptr(), self.limit() as usize * SLOT_STRIDE)
    }

    /// Returns slots to the pool, from any thread. The slots are already linked by `next_free`, from
    /// `first` to `last`.
    pub(crate) fn give_back(&self, first: u32, last: u32) {
        let mut head = self.returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns the slots of the list, and may write their `next_free`.
            unsafe { (*self.meta(last)).next_free = head };
            // Release: writes into the returned slots happen before their pool takes them for new packets.
            match self.returned.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Empties the list of returned slots, and returns the index of its first slot; `NO_SLOT` if there is
    /// none.
    pub(crate) fn take_returned(&self) -> u32 {
        if self.returned.load(Ordering::Relaxed) == NO_SLOT {
            return NO_SLOT;
        }
        self.returned.swap(NO_SLOT, Ordering::Acquire)
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let place = &POOLS[usize::from(self.number) % MOST_POOLS];
        // A pool for which no number was free has the number 0, too. The entry of that number belongs to
        // another pool and stays.
        let own = ptr::from_mut(self);
        _ = place.compare_exchange(own, ptr::null_mut(), Ordering::Release, Ordering::Relaxed);
    }
}

/// The metadata of one slot, in exactly one cache line. The slot's [`Annotations`] lie in another array. The
/// destination annotation, which routers write and read for each packet, can lie here, so that they need not
/// access the cache line of the other annotations.
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// The address of the first byte of the slot; never changes.
    pub(crate) base: NonNull<u8>,
    pub(crate) values: Values,
    /// The destination annotation, if `has_destination` is true.
    pub(crate) destination: [u8; 4],
    /// The number of bytes of the whole packet that starts at this slot.
    pub(crate) length: u32,
    /// The index of the next slot of a large packet or of a chain; `NO_SLOT` at the end of the list.
    next: u32,
    /// While the slot is in the list of returned slots: the index of the next slot in that list. While a
    /// packet is in use: the lower half of its flow mark.
    pub(crate) next_free: u32,
    /// The number of the slot's pool; never changes.
    pub(crate) home: u16,
    /// The number of the pool to which the next slot of the list belongs.
    next_home: u16,
    pub(crate) owner: AtomicU8,
    pub(crate) annotations: Cell<Standing>,
    /// True if `destination` is newer than the destination in the annotations. The destination is then
    /// written to the annotations at the next access to them.
    pub(crate) has_destination: Cell<bool>,
}

impl Meta {
    /// Makes the metadata of a slot at `base` with an empty packet.
    pub(crate) fn new(base: NonNull<u8>, home: &SharedPool) -> Meta {
        Meta {
            base,
            values: Values::fresh(),
            destination: [0; 4],
            length: 0,
            next: NO_SLOT,
            next_free: NO_SLOT,
            home: home.number,
            next_home: 0,
            owner: AtomicU8::new(owner::POOL),
            annotations: Cell::new(Standing::Any),
            has_destination: Cell::new(false),
        }
    }

    /// Returns the shared part of the slot's pool.
    #[inline]
    pub(crate) fn home(&self) -> &SharedPool {
        // SAFETY: a pool's shared part outlives its slots.
        unsafe { SharedPool::of(self.home) }
    }

    /// Returns the index of the slot in its pool.
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.home().index_of(self)
    }

    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.next != NO_SLOT
    }

    /// Ends the list at this slot, without freeing the slots that followed.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.next = NO_SLOT;
    }

    /// Returns the metadata of the next slot of the list, which the owner of this slot owns, too; `None` at
    /// the end of the list.
    #[inline]
    pub(crate) fn next(&self) -> Option<NonNull<Meta>> {
        if self.next == NO_SLOT {
            return None;
        }
        // SAFETY: the next slot is part of the same list, so its pool exists.
        NonNull::new(unsafe { SharedPool::of(self.next_home) }.meta(self.next))
    }

    /// Makes `next` the slot that follows this slot in the list.
    #[inline]
    pub(crate) fn link_to(&mut self, next: &Meta) {
        (self.next, self.next_home) = (next.index(), next.home);
    }
}

const _: () = assert!(size_of::<Meta>() == 64 && size_of::<Values>() == 32 && SLOT_STRIDE / 64 % 2 == 1);
