//! Pools of slots. Each worker has one. The worker that owns a pool takes and frees its slots by a list of
//! its own, without locks; other threads return slots by an atomic list.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::annotations::Annotations;
use crate::batch::Batch;
use crate::list::{ReturnList, give_back_list};
use crate::memory::{MOST_POOLS, Meta, SharedPool};
use crate::packet::Packet;
use crate::slot::{MAX_PACKET, NO_SLOT, SLOT_CAPACITY, SLOT_STRIDE, Standing, Values, owner};

/// The number of slots by which a pool grows: 64 MiB of slots, or 64 slots under Miri.
pub(crate) const STEP: u32 = if cfg!(miri) { 64 } else { (64 << 20) / SLOT_STRIDE as u32 };

/// The number of slots that the largest packet ([`MAX_PACKET`] bytes) can need.
const LARGEST: usize = MAX_PACKET.div_ceil(SLOT_CAPACITY) + 1;

/// An error of [`Pool::new`].
#[derive(Debug)]
pub enum PoolError {
    /// The requested memory is smaller than one step of growth (64 MiB).
    TooSmall {
        /// The number of bytes requested.
        asked: usize,
        /// The smallest number of bytes that a pool can have.
        least: usize,
    },
    /// The operating system refused to reserve the address space.
    Refused {
        /// The number of bytes requested.
        asked: usize,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// There are as many pools in the process as can have a number.
    TooMany,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::TooSmall { asked, least } => {
                write!(f, "a packet pool of {asked} bytes is too small; give it at least {least} (--memory)")
            }
            PoolError::Refused { asked, source } => {
                write!(f, "cannot reserve {asked} bytes for packets: {source}; try a smaller --memory")
            }
            PoolError::TooMany => {
                write!(
                    f,
                    "there are already {MOST_POOLS} packet pools in this process; run fewer workers or graphs"
                )
            }
        }
    }
}

impl std::error::Error for PoolError {}

/// The fill level of a pool, in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// The largest number of slots that the pool can have, for which address space is reserved.
    pub limit: usize,
    /// The number of slots taken into use so far, in use or free.
    pub grown: usize,
    /// The number of slots that are not in the free list: slots of packets, stores and devices, and
    /// returned slots that the owner has not collected yet.
    pub in_use: usize,
    /// The number of packets whose handle was dropped by mistake: the packet was neither sent, nor dropped
    /// with a reason, nor held.
    pub leaked: u64,
}

/// A worker's supply of packet slots. Only the owner allocates from it; packets may be returned from any
/// thread. A pool can be dropped before its packets: their memory then stays allocated, and the pool counts
/// among the 4096 that a process can have at a time.
pub struct Pool {
    pub(crate) home: ManuallyDrop<Arc<SharedPool>>,
    /// The indices of free slots. The slot that was freed last is on top and is used first, because its
    /// cache lines are most likely still in the cache.
    pub(crate) free: Vec<u32>,
    pub(crate) grown: u32,
    annotations: bool,
    /// The set of attached devices: bit `n` stands for the device with the owner mark `n`.
    pub(crate) devices: [u128; 2],
    /// The index in `free` at which the last search for a slot in the device area ended.
    pub(crate) looked: usize,
}

impl Pool {
    /// Reserves address space for slots of `memory` bytes in total, and takes the first step of 64 MiB into
    /// use. Pages of slots are not accessed before they are needed.
    ///
    /// # Errors
    /// If `memory` is less than one step, if the operating system refuses the address space, or if there are
    /// 4096 pools already.
    pub fn new(memory: usize) -> Result<Pool, PoolError> {
        let least = STEP as usize * SLOT_STRIDE;
        if memory < least {
            return Err(PoolError::TooSmall { asked: memory, least });
        }
        let limit = (memory / SLOT_STRIDE).min(NO_SLOT as usize - 1) as u32;
        let home =
            SharedPool::reserve(limit).map_err(|source| PoolError::Refused { asked: memory, source })?;
        let home = home.ok_or(PoolError::TooMany)?;
        let mut pool = Pool {
            home: ManuallyDrop::new(home),
            free: Vec::new(),
            grown: 0,
            annotations: true,
            devices: [0; 2],
            looked: 0,
        };
        pool.grow();
        Ok(pool)
    }

    /// Sets whether elements use annotations; true by default. If not, the annotations of new packets are
    /// not cleared, which saves an access to a cache line per packet. Debug builds always clear them.
    pub fn use_annotations(&mut self, used: bool) {
        self.annotations = used;
    }

    /// True if elements use annotations, so that the annotations of new packets are cleared.
    pub fn uses_annotations(&self) -> bool {
        self.annotations
    }

    /// Returns the fill level of the pool.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            limit: self.home.limit() as usize,
            grown: self.grown as usize,
            in_use: self.grown as usize - self.free.len(),
            leaked: self.home.leaked.load(Ordering::Relaxed),
        }
    }

    /// True if fewer than an eighth of all slots up to the limit are free; slots that were never in use count
    /// as free. Slots that other threads have returned count as used until the pool collects them. Elements
    /// that hold packets should hold no more packets if the result is true, so that other packets still find
    /// slots.
    #[inline]
    pub fn is_scarce(&self) -> bool {
        let (limit, used) = (self.home.limit() as usize, self.grown as usize - self.free.len());
        limit - used.min(limit) < limit / 8
    }

    /// Returns the start and the length in bytes of the array of all slots, which are [`SLOT_STRIDE`] bytes
    /// apart. The array can be registered with a device (AF_XDP's UMEM, DPDK's external memory).
    pub fn slot_area(&self) -> (*mut u8, usize) {
        self.home.slot_area()
    }

    /// Makes an empty packet whose data starts [`HEADROOM`](crate::HEADROOM) bytes after the start of its
    /// slot. Returns `None` if the pool is empty: all slots up to the limit are in use.
    #[inline]
    pub fn allocate(&mut self) -> Option<Packet> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.refill()?,
        };
        Some(self.fresh(index))
    }

    /// Makes an empty packet in slot `index`, which the caller has taken from the free list.
    #[inline]
    pub(crate) fn fresh(&mut self, index: u32) -> Packet {
        fresh(&self.home, index, self.annotations)
    }

    /// True if there are enough free slots for a packet of [`MAX_PACKET`] bytes. The call may collect
    /// returned slots and let the pool grow.
    pub fn has_room(&mut self) -> bool {
        if self.free.len() < LARGEST
            && let Some(index) = self.refill()
        {
            self.free.push(index);
        }
        self.free.len() >= LARGEST
    }

    /// Moves the slots that other threads have returned to the free list. The owner need not call this
    /// function: the pool does so when its free list is empty. An earlier call gets the slots while they
    /// are still in the cache.
    pub fn collect(&mut self) {
        let mut index = self.home.take_returned();
        while index != NO_SLOT {
            self.free.push(index);
            // SAFETY: `take_returned` made this pool the owner of every slot of the list.
            index = unsafe { (*self.home.meta(index)).next_free };
        }
    }

    /// Collects returned slots, lets the pool grow if there are too few for a large packet, and takes one
    /// slot from the free list. Returns `None` if no slot is free.
    #[cold]
    pub(crate) fn refill(&mut self) -> Option<u32> {
        self.collect();
        if self.free.len() < LARGEST {
            self.grow();
        }
        self.free.pop()
    }

    #[cold]
    fn grow(&mut self) {
        let end = self.grown.saturating_add(STEP).min(self.home.limit());
        self.free.reserve_exact(end as usize - self.free.len().min(end as usize));
        // The indices are put on the free list in reverse order, so that slots are popped in the order of
        // their addresses.
        for index in (self.grown..end).rev() {
            let meta = Meta::new(self.home.slot(index), &self.home);
            // SAFETY: the metadata of slot `index` lies in the reserved region and has not been used before.
            unsafe { self.home.meta(index).write(meta) };
            self.free.push(index);
        }
        self.grown = end;
    }

    /// Makes a packet with a copy of these bytes, in several slots if one is too small. Returns `None` if the
    /// pool has too few free slots or there are more than [`MAX_PACKET`] bytes.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.allocate()?;
        if bytes.len() <= SLOT_CAPACITY {
            let meta = packet.meta_mut();
            meta.values.head = bytes.len() as u16;
            meta.length = bytes.len() as u32;
            packet.data_mut().copy_from_slice(bytes);
            return Some(packet);
        }
        self.append(packet, bytes)
    }

    /// Adds a copy of these bytes at the end of a packet, in further slots if its last slot is full. If the
    /// packet belongs to another pool or is on loan from a store, it is replaced by a copy in this pool.
    /// Returns `None`, and frees the packet, if the pool has too few free slots or the packet would exceed
    /// [`MAX_PACKET`].
    #[cold]
    pub fn append(&mut self, mut packet: Packet, mut bytes: &[u8]) -> Option<Packet> {
        if packet.len() + bytes.len() > MAX_PACKET {
            self.free(packet);
            return None;
        }
        // Slots of another pool are not changed, and a slot on loan must stay a single slot.
        if !self.owns(&packet) || packet.meta().owner.load(Ordering::Relaxed) != owner::POOL {
            let copy = self.copy(&packet);
            self.free(packet);
            packet = copy?;
        }
        let total = packet.len() + bytes.len();
        let mut at = packet.0;
        // SAFETY: `at` walks along the slots that `packet` owns, new slots being linked in before they are
        // written; each copy stays inside its slot's tail room.
        unsafe {
            while let Some(next) = at.as_ref().next() {
                at = next;
            }
            loop {
                let last = at.as_mut();
                let end = last.values.start as usize + last.values.head as usize;
                let n = bytes.len().min(SLOT_STRIDE - end);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), last.base.as_ptr().add(end), n);
                last.values.head += n as u16;
                bytes = &bytes[n..];
                if bytes.is_empty() {
                    break;
                }
                let Some(more) = self.allocate() else {
                    self.free(packet);
                    return None;
                };
                last.link_to(more.meta());
                at = ManuallyDrop::new(more).0;
            }
        }
        packet.meta_mut().length = total as u32;
        Some(packet)
    }

    /// Makes a packet with the same bytes, metadata and, if elements use them, annotations in slots of this
    /// pool. The data starts at the same offset in the new slot, and stripped bytes before the data are
    /// copied, too. Returns `None` if the pool has too few free slots or the packet is longer than
    /// [`MAX_PACKET`]; the original packet is unchanged in any case.
    pub fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        if packet.is_large() {
            return self.copy_large(packet);
        }
        let mut copy = self.allocate()?;
        let from = packet.meta();
        // Stripped headers can become part of the packet again ([`Packet::unstrip`]), so they are copied,
        // too.
        let first = from.values.own as usize;
        let end = from.values.start as usize + from.values.head as usize;
        // SAFETY: both ranges lie inside their slots, which differ and are owned by the two handles.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.base.as_ptr().add(first),
                copy.meta().base.as_ptr().add(first),
                end.saturating_sub(first),
            );
        }
        copy.meta_mut().copy_values(from);
        if self.annotations || cfg!(debug_assertions) {
            copy.copy_annotations(packet);
        }
        Some(copy)
    }

    #[cold]
    fn copy_large(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.allocate()?;
        let from = packet.meta();
        let head = packet.data();
        // SAFETY: the bytes lie at the same offset in a slot of the same size, which `copy` owns.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.base.as_ptr(),
                copy.meta().base.as_ptr(),
                from.values.start as usize + head.len(),
            );
        }
        copy.meta_mut().copy_values(from);
        copy.meta_mut().length = from.values.head as u32;
        copy.annotations_mut().clone_from(packet.annotations());
        for chunk in packet.chunks().skip(1) {
            copy = self.append(copy, chunk)?;
        }
        Some(copy)
    }

    /// True if the packet's first slot belongs to this pool.
    #[inline]
    pub(crate) fn owns(&self, packet: &Packet) -> bool {
        packet.meta().home == self.home.number()
    }

    /// Frees the slots of a packet whose fate has been decided (sent, dropped with a reason). Slots of
    /// another pool or of a store return there.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let meta = packet.meta();
        if meta.has_next() {
            return self.free_large(packet);
        }
        if meta.owner.load(Ordering::Relaxed) != owner::POOL {
            // Release: all accesses to the packet happen before its store lends the slot again.
            meta.owner.store(owner::STORE_HOME, Ordering::Release);
        } else if self.owns(&packet) {
            self.free.push(self.home.index_of(meta));
        } else {
            return packet.give_back();
        }
        std::mem::forget(packet);
    }

    /// Frees the slots of a large packet, which may belong to several pools and stores.
    #[cold]
    fn free_large(&mut self, packet: Packet) {
        let first = ManuallyDrop::new(packet).0;
        // SAFETY: the handle owned the slots of its list.
        unsafe { give_back_list(Some(first), Some((&raw const **self.home, &mut self.free))) };
    }

    /// Frees all packets of a batch, and leaves the batch empty. Slots of another pool are returned
    /// together, in one atomic operation; packets of further pools between them, and large packets, need
    /// more operations.
    #[inline]
    pub fn free_all(&mut self, batch: &mut Batch) {
        let mut returning = ReturnList::new();
        for packet in batch.drain() {
            if packet.is_large() {
                self.free_large(packet);
                continue;
            }
            let packet = ManuallyDrop::new(packet);
            let meta = packet.meta();
            if meta.owner.load(Ordering::Relaxed) != owner::POOL {
                // Release: all accesses to the packet happen before its store lends the slot again.
                meta.owner.store(owner::STORE_HOME, Ordering::Release);
            } else if self.owns(&packet) {
                self.free.push(self.home.index_of(meta));
            } else {
                // SAFETY: the handle owned its one slot.
                unsafe { returning.add(packet.0) };
            }
        }
        returning.flush();
    }
}

/// Makes an empty packet in slot `index`, which the caller has to own. The annotations are cleared if
/// `clears` is true, and always in debug builds.
#[inline]
pub(crate) fn fresh(home: &SharedPool, index: u32, clears: bool) -> Packet {
    // SAFETY: the caller has the slot, and its metadata was initialised by `grow`. The handle keeps the
    // pool's raw pointer, not a borrow: a store keeps the handle of a packet that it lends, while the
    // borrower has a second handle with the same pointer.
    let mut packet = Packet(unsafe { NonNull::new_unchecked(home.meta(index)) });
    let meta = packet.meta_mut();
    meta.values = Values::fresh();
    meta.length = 0;
    meta.end();
    meta.has_destination.set(false);
    let is_clear = meta.annotations.get() == Standing::Clear;
    if !is_clear && (clears || cfg!(debug_assertions)) {
        *packet.annotations_mut() = Annotations::CLEAR;
        packet.meta().annotations.set(Standing::Clear);
    }
    packet
}

impl Meta {
    /// Copies all metadata that describes the packet, and keeps the fields that describe the slot (its
    /// pool, base and owner).
    #[inline]
    pub(crate) fn copy_values(&mut self, from: &Meta) {
        self.values = from.values;
        self.next_free = from.next_free;
        self.length = from.length;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.collect();
        if self.free.len() == self.grown as usize {
            // SAFETY: every slot has been returned, so no packet points to it any more; dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.home) };
        }
        // Otherwise slots are still in use. The pool's memory must outlive them, so it is never returned to
        // the system.
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Base, HEADROOM};

    /// A pool with one step of 64 MiB and ten more slots.
    fn pool() -> Pool {
        Pool::new((STEP as usize + 10) * SLOT_STRIDE).unwrap()
    }

    #[test]
    fn a_packet_keeps_its_bytes_and_goes_home() {
        let mut pool = pool();
        let packet = pool.packet(b"hello").unwrap();
        assert_eq!(packet.data(), b"hello");
        assert_eq!((packet.len(), packet.headroom(), packet.is_large()), (5, HEADROOM, false));
        assert_eq!(pool.stats().in_use, 1);
        pool.free(packet);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn an_empty_pool_says_so_and_recovers() {
        let mut pool = pool();
        let mut all = Vec::new();
        while let Some(packet) = pool.allocate() {
            all.push(packet);
        }
        assert_eq!(all.len(), STEP as usize + 10);
        assert!(pool.packet(b"x").is_none());
        pool.free(all.pop().unwrap());
        assert!(pool.packet(&[0; SLOT_CAPACITY + 1]).is_none(), "one slot is not enough");
        let packet = pool.packet(b"x").expect("the slot of the failed large packet is back");
        pool.free(packet);
        all.into_iter().for_each(|p| pool.free(p));
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn large_packets_are_lists() {
        let mut pool = pool();
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7) as u8).collect();
        let mut packet = pool.packet(&bytes).unwrap();
        assert!(packet.is_large());
        assert_eq!(packet.chunks().collect::<Vec<_>>().concat(), bytes);
        let copy = pool.copy(&packet).unwrap();
        let mut middle = [0; 100];
        assert_eq!(copy.read_at(2_100, &mut middle), 100);
        assert_eq!(middle[..], bytes[2_100..2_200]);
        // The first range crosses the border between two slots, the second the end of the packet. Bytes
        // outside of the ranges must not change.
        let mut changed = bytes.clone();
        changed[2_000..2_300].fill(9);
        changed[19_990..].fill(8);
        assert_eq!((packet.write_at(2_000, &[9; 300]), packet.write_at(19_990, &[8; 50])), (300, 10));
        assert_eq!(packet.write_at(20_000, &[7]), 0);
        assert_eq!(packet.chunks().collect::<Vec<_>>().concat(), changed);
        assert_eq!(packet.write_at(0, &bytes), bytes.len());
        packet.truncate(3_000);
        assert_eq!(packet.chunks().collect::<Vec<_>>().concat(), bytes[..3_000]);
        packet.truncate(100);
        assert_eq!((packet.data(), packet.is_large()), (&bytes[..100], false));
        assert_eq!(copy.len(), 20_000);
        pool.free(packet);
        pool.free(copy);
        let index = pool.refill().unwrap();
        pool.free.push(index);
        assert_eq!(pool.stats().in_use, 0, "truncated slots came home too");
        assert!(pool.packet(&vec![0; MAX_PACKET + 1]).is_none());
    }

    #[test]
    fn strip_and_headers() {
        let mut pool = pool();
        let mut packet = pool.packet(&[1, 2, 3, 4, 5, 6]).unwrap();
        packet.set_offset(Base::Mac, Some(0));
        packet.set_offset(Base::Network, Some(4));
        assert!(packet.strip(4) && !packet.strip(3));
        assert_eq!(packet.offset(Base::Mac), Some(-4));
        assert_eq!(packet.header(Base::Mac), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(packet.header(Base::Network), Some(&[5, 6][..]));
        assert_eq!(packet.header(Base::Transport), None);
        let copy = pool.copy(&packet).unwrap();
        assert_eq!(copy.header(Base::Mac), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert!(packet.unstrip(4) && !packet.unstrip(HEADROOM + 1));
        assert_eq!(packet.data(), &[1, 2, 3, 4, 5, 6]);
        packet.set_offset(Base::Transport, Some(100_000));
        assert_eq!(packet.offset(Base::Transport), None);
        packet.set_offset(Base::Transport, Some(60));
        assert_eq!(packet.header(Base::Transport), None, "behind the data");
        assert!(!packet.extend(SLOT_CAPACITY));
        assert!(packet.extend(2));
        assert_eq!(packet.len(), 8);
        pool.free(packet);
        pool.free(copy);
    }

    #[test]
    fn packets_of_another_pool_can_be_continued() {
        let (mut a, mut b) = (pool(), pool());
        let packet = a.packet(&[1; 2_000]).unwrap();
        let packet = b.append(packet, &[2; 3_000]).unwrap();
        assert_eq!(packet.len(), 5_000);
        let bytes = packet.chunks().collect::<Vec<_>>().concat();
        assert!(bytes[..2_000].iter().all(|&b| b == 1) && bytes[2_000..].iter().all(|&b| b == 2));
        b.free(packet);
    }

    #[test]
    fn packets_come_home_from_other_threads() {
        let mut pool = pool();
        let mut other = Pool::new(STEP as usize * SLOT_STRIDE).unwrap();
        let packets: Vec<_> = (0..40).map(|_| pool.packet(&[7; 5_000]).unwrap()).collect();
        let some: Vec<_> = (0..50).map(|_| pool.packet(&[7; 50]).unwrap()).collect();
        std::thread::spawn(move || {
            packets.into_iter().for_each(|p| other.free(p));
            // Packets of another pool, with one packet of this pool among them.
            let mut batch = Batch::new();
            let own = other.packet(b"own").unwrap();
            for packet in some.into_iter().chain([own]) {
                batch.push(packet).unwrap();
            }
            other.free_all(&mut batch);
            assert_eq!(other.stats().in_use, 0);
        })
        .join()
        .unwrap();
        let before = pool.stats();
        assert_eq!(before.in_use, 170);
        let mut all = Vec::new();
        while let Some(packet) = pool.allocate() {
            all.push(packet);
        }
        assert_eq!(all.len(), STEP as usize + 10, "all slots can be had again");
        all.into_iter().for_each(|p| pool.free(p));
    }

    #[test]
    fn memory_outlives_the_pool_while_packets_are_out() {
        let mut pool = pool();
        let packet = pool.packet(b"still here").unwrap();
        drop(pool);
        assert_eq!(packet.data(), b"still here");
        let mut other = self::pool();
        other.free(packet);
    }

    #[test]
    fn a_forgotten_packet_is_counted() {
        let mut pool = pool();
        let packet = pool.packet(b"x").unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(packet)));
        assert_eq!(result.is_err(), cfg!(debug_assertions));
        assert_eq!(pool.stats().leaked, 1);
    }

    #[test]
    fn too_small_a_pool_is_refused() {
        assert!(Pool::new(1000).unwrap_err().to_string().contains("at least"));
    }

    #[test]
    fn the_destination_is_part_of_the_annotations() {
        let mut pool = pool();
        let mut packet = pool.packet(&[7; 40]).unwrap();
        packet.annotations_mut().set_array(Annotations::DST_IP, [1u8; 16]);
        packet.set_destination([9, 8, 7, 6]);
        assert_eq!(packet.destination(), [9, 8, 7, 6]);
        let copies = [pool.copy(&packet).unwrap(), pool.copy_front(&packet, 20).unwrap()];
        let expected = [9, 8, 7, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
        for read in copies.iter().chain([&packet]) {
            assert_eq!(read.annotations().array::<16>(Annotations::DST_IP), expected);
            assert_eq!(read.destination(), [9, 8, 7, 6]);
        }
        packet.annotations_mut().set_array4(Annotations::DST_IP, [5; 4]);
        assert_eq!(packet.destination(), [5; 4]);
        let [mut copy, front] = copies;
        copy.set_destination([4; 4]);
        let joined = pool.join(front, 20, copy, 20).unwrap();
        assert_eq!(joined.destination(), [9, 8, 7, 6]);
        pool.free(joined);
        pool.free(packet);
        // Only the destination is set; the packet and its copies must have no other annotations.
        let mut packet = pool.packet(&[7; 5000]).unwrap();
        assert_eq!(packet.destination(), [0; 4]);
        packet.set_destination([3; 4]);
        for copy in [pool.copy(&packet).unwrap(), pool.copy_front(&packet, 9).unwrap()] {
            assert_eq!((copy.destination(), copy.annotations().u8(4)), ([3; 4], 0));
            pool.free(copy);
        }
        pool.free(packet);
    }
}
