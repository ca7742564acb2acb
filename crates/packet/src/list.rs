//! Lists of slots, linked by their metadata: the slots of a large packet or of a
//! [`PacketChain`](crate::PacketChain), and slots on their way back to their pools.
//!
//! The slots of one list may belong to several pools, or be on loan from stores. When the list ends, each
//! slot returns to its own pool or store.

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::memory::{Meta, SharedPool};
use crate::slot::{NO_SLOT, owner};

/// A list of slots of one pool that are about to be returned, so that one atomic operation returns all of
/// them.
pub(crate) struct ReturnList {
    home: *const SharedPool,
    first: u32,
    last: u32,
}

impl ReturnList {
    pub(crate) fn new() -> ReturnList {
        ReturnList { home: ptr::null(), first: NO_SLOT, last: NO_SLOT }
    }

    /// Adds a slot. If the slots in the list belong to another pool, they are returned to that pool first.
    ///
    /// # Safety
    ///
    /// The caller owns the slot, and passes its ownership on to the list.
    pub(crate) unsafe fn add(&mut self, slot: NonNull<Meta>) {
        // SAFETY: see above.
        let meta = unsafe { &mut *slot.as_ptr() };
        if !ptr::eq(meta.home(), self.home) {
            self.flush();
            (self.home, self.last) = (meta.home(), meta.index());
        }
        meta.next_free = self.first;
        self.first = meta.index();
    }

    /// Returns the slots in the list to their pool, and empties the list. Every list needs this call at its
    /// end: a list that is dropped loses its slots.
    pub(crate) fn flush(&mut self) {
        if self.first != NO_SLOT {
            // SAFETY: a pool's shared part outlives its packets (see `Pool::drop`), and the list has some.
            unsafe { &*self.home }.give_back(self.first, self.last);
            (self.home, self.first) = (ptr::null(), NO_SLOT);
        }
    }
}

/// Returns each slot of a list to its pool or store. `own` is a pool of the caller, if any, and its free
/// list: slots of this pool go there directly, without an atomic operation.
///
/// # Safety
///
/// The caller owns the slots of the list, and passes their ownership on.
pub(crate) unsafe fn give_back_list(
    first: Option<NonNull<Meta>>,
    mut own: Option<(*const SharedPool, &mut Vec<u32>)>,
) {
    let mut returning = ReturnList::new();
    let mut at = first;
    while let Some(slot) = at {
        // SAFETY: the caller owns the slot. Everything is read before the slot is returned.
        let meta = unsafe { &mut *slot.as_ptr() };
        at = meta.next();
        if meta.owner.load(Ordering::Relaxed) != owner::POOL {
            // The slot leaves the list, because its store lends it again as a packet of one slot.
            meta.end();
            // Release: all accesses to the packet happen before its store lends the slot again.
            meta.owner.store(owner::STORE_HOME, Ordering::Release);
            continue;
        }
        match &mut own {
            Some((home, free)) if ptr::eq(*home, meta.home()) => free.push(meta.index()),
            // SAFETY: as above.
            _ => unsafe { returning.add(slot) },
        }
    }
    returning.flush();
}

/// An iterator over the bytes of a packet: one slice per slot, in order.
pub struct Chunks<'a> {
    next: Option<&'a Meta>,
}

impl<'a> Chunks<'a> {
    /// Makes the iterator from the packet's first slot. The borrow of the first slot covers all slots of
    /// the packet.
    pub(crate) fn new(first: &'a Meta) -> Chunks<'a> {
        Chunks { next: Some(first) }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let meta = self.next?;
        // SAFETY: the borrowed packet owns every slot of its list.
        self.next = meta.next().map(|next| unsafe { next.as_ref() });
        // SAFETY: as in `Packet::data`.
        Some(unsafe {
            slice::from_raw_parts(
                meta.base.as_ptr().add(meta.values.start as usize),
                meta.values.head as usize,
            )
        })
    }
}
