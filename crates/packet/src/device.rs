//! Slots that a device reads and writes itself, without a copy (for example in the UMEM of AF_XDP).
//!
//! Each slot has one owner: the pool (the slot is free), a [`Packet`], a store, or a device. An owner mark
//! in the slot's metadata says which device. If the driver returns a slot that the device does not own, the
//! pool refuses it, so that a slot never gets two owners.
//!
//! The pool's owner takes back the slots that a device has filled or sent. For a *shared* device other
//! threads do so, too, each with a [`Recipient`].

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::memory::SharedPool;
use crate::packet::Packet;
use crate::pool::{Pool, STEP, fresh};
use crate::slot::{LAST_START, SLOT_CAPACITY, SLOT_STRIDE, owner};

/// The smallest owner mark of a shared device. All smaller marks of devices are of devices that are not
/// shared. A slot of a shared device must be claimed in one atomic operation, because several threads may
/// claim it; a slot of another device is claimed by a load and a store.
const SHARED: u8 = 128;
/// The number of free slots that [`Pool::find`] examines in search of a slot that devices can access, if
/// the top of the free list is not one.
const LOOKS: usize = 256;

/// A device that reads and writes slots of a pool itself. The value is the owner mark in the metadata of
/// the slots that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(u8);

impl DeviceId {
    fn is_shared(self) -> bool {
        self.0 >= SHARED
    }

    /// Returns the position of the device's bit in [`Pool::devices`]: the index of the word, and a mask with
    /// the bit.
    fn place(self) -> (usize, u128) {
        (usize::from(self.0 / 128), 1 << (self.0 % 128))
    }
}

/// The position of a packet's bytes, as a device needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpan {
    /// The index of the slot in the device's area; slots are [`SLOT_STRIDE`] bytes apart.
    pub slot: u32,
    /// The offset of the packet's first byte in the slot, in bytes.
    pub start: u16,
    /// The length of the packet in bytes.
    pub length: u16,
}

impl Pool {
    /// Returns the start and the length in bytes of the memory that a device may access: the slots of the
    /// pool's first step of growth (64 MiB), [`SLOT_STRIDE`] bytes apart. Later slots are excluded, because
    /// kernels pin all registered memory.
    ///
    /// The caller who registers the memory must ensure that the device accesses only slots that it owns.
    pub fn device_area(&self) -> (*mut u8, usize) {
        let (start, length) = self.slot_area();
        (start, length.min(STEP as usize * SLOT_STRIDE))
    }

    /// Registers a device whose slots only the pool's owner takes back. Returns `None` if all owner marks
    /// for devices of this kind are in use.
    pub fn attach(&mut self) -> Option<DeviceId> {
        self.number(owner::DEVICE..SHARED)
    }

    /// Registers a device whose slots other threads take back, too, and returns the object with which they
    /// do so. Returns `None` if all owner marks for shared devices are in use.
    pub fn attach_shared(&mut self) -> Option<(DeviceId, Recipient)> {
        let device = self.number(SHARED..=u8::MAX)?;
        Some((device, Recipient { home: Arc::clone(&self.home), device }))
    }

    fn number(&mut self, mut marks: impl Iterator<Item = u8>) -> Option<DeviceId> {
        let is_free = |&mark: &u8| {
            let (word, bit) = DeviceId(mark).place();
            self.devices[word] & bit == 0
        };
        let device = DeviceId(marks.find(is_free)?);
        let (word, bit) = device.place();
        self.devices[word] |= bit;
        Some(device)
    }

    /// Takes back all slots that a device still owns, and makes its owner mark free for another device. The
    /// device must not access the slots any more.
    pub fn detach(&mut self, device: DeviceId) {
        for slot in 0..STEP {
            self.take_empty(device, slot);
        }
        let (word, bit) = device.place();
        self.devices[word] &= !bit;
    }

    /// Gives a device an empty slot to receive a packet in, and returns the slot's index. Returns `None` if
    /// no free slot that devices can access was found.
    #[inline]
    pub fn hand_out(&mut self, device: DeviceId) -> Option<u32> {
        let slot = match self.free.last() {
            Some(&slot) if slot < STEP => {
                self.free.pop();
                slot
            }
            _ => self.find()?,
        };
        self.mark(slot, device.0);
        Some(slot)
    }

    /// Finds a free slot that devices can access, if the top of the free list is not one. Each call
    /// examines up to [`LOOKS`] free slots and continues after the slot at which the last call ended.
    #[cold]
    fn find(&mut self) -> Option<u32> {
        // The slots that other threads have returned may include slots in the device area, even if the free
        // list has none.
        self.collect();
        if self.free.is_empty() {
            let slot = self.refill()?;
            self.free.push(slot);
        }
        if let Some(slot) = self.free.pop_if(|slot| *slot < STEP) {
            return Some(slot);
        }
        for _ in 0..LOOKS.min(self.free.len()) {
            self.looked = (self.looked + 1) % self.free.len();
            if self.free[self.looked] < STEP {
                return Some(self.free.swap_remove(self.looked));
            }
        }
        None
    }

    /// Gives a device a packet to send. The packet must lie in one slot of this pool's device area, and
    /// must not be on loan from a store; for other packets see [`copy_out`](Self::copy_out).
    ///
    /// # Errors
    ///
    /// The packet itself, if it does not meet these conditions.
    #[inline]
    pub fn hand_over(&mut self, device: DeviceId, packet: Packet) -> Result<BufferSpan, Packet> {
        let meta = packet.meta();
        let slot = meta.index();
        let is_own = meta.owner.load(Ordering::Relaxed) == owner::POOL && self.owns(&packet);
        if !is_own || meta.has_next() || slot >= STEP {
            return Err(packet);
        }
        let span = BufferSpan { slot, start: meta.values.start, length: meta.values.head };
        // Release: the pool's accesses to the packet happen before the device gives the slot back.
        meta.owner.store(device.0, Ordering::Release);
        // The device owns the slot now: the handle must not return it to the pool.
        let _ = ManuallyDrop::new(packet);
        Ok(span)
    }

    /// Gives a device a copy of a packet to send; the caller keeps the packet. Returns `None` if no slot
    /// for the copy was found, or if the packet is longer than [`SLOT_CAPACITY`] bytes.
    #[cold]
    pub fn copy_out(&mut self, device: DeviceId, packet: &Packet) -> Option<BufferSpan> {
        if packet.len() > SLOT_CAPACITY {
            return None;
        }
        let slot = self.hand_out(device)?;
        let mut copy = self.take_back(device, slot, crate::HEADROOM, packet.len())?;
        packet.read_at(0, copy.data_mut());
        // The copy lies in a slot of the device area, so that the device accepts it.
        self.hand_over(device, copy).map_err(|copy| self.free(copy)).ok()
    }

    /// Takes back a slot in which a device has received a packet, and returns that packet: `length` bytes
    /// from offset `start` of the slot on. Returns `None`, and does nothing, if the device does not own the
    /// slot or the bytes do not lie inside the slot.
    #[inline]
    pub fn take_back(&mut self, device: DeviceId, slot: u32, start: usize, length: usize) -> Option<Packet> {
        take_back(&self.home, device, (slot, start, length), self.uses_annotations())
    }

    /// Takes back a slot whose contents are no longer needed, for example after sending, and makes it free.
    /// Returns false, and does nothing, if the device does not own the slot.
    #[inline]
    pub fn take_empty(&mut self, device: DeviceId, slot: u32) -> bool {
        let has = claim(&self.home, device, slot);
        if has {
            self.free.push(slot);
        }
        has
    }

    #[inline]
    fn mark(&self, slot: u32, mark: u8) {
        // SAFETY: the caller owns the slot, whose metadata is initialised, and the owner mark in it is an
        // atomic.
        let owner = unsafe { &(*self.home.meta(slot)).owner };
        // Release: accesses to the slot before this line happen before another thread takes the slot back.
        owner.store(mark, Ordering::Release);
    }
}

/// A handle with which another thread than the pool's takes back slots of a shared device. Packets made
/// from these slots belong to the device's pool, as if its owner had taken them back.
#[derive(Clone)]
pub struct Recipient {
    home: Arc<SharedPool>,
    device: DeviceId,
}

impl Recipient {
    /// Makes a packet from a slot that the device has filled, like [`Pool::take_back`]. `own` is the pool
    /// of the calling thread; it only tells whether annotations are used and must be cleared.
    #[inline]
    pub fn take_back(&self, own: &Pool, slot: u32, start: usize, length: usize) -> Option<Packet> {
        take_back(&self.home, self.device, (slot, start, length), own.uses_annotations())
    }

    /// Takes back a slot whose contents are no longer needed, like [`Pool::take_empty`]. The slot goes to
    /// its pool's list of returned slots.
    pub fn take_empty(&self, slot: u32) -> bool {
        let has = claim(&self.home, self.device, slot);
        if has {
            self.home.give_back(slot, slot);
        }
        has
    }

    /// Takes back all slots that the device still owns; they go to their pool's list of returned slots. The
    /// device must not access the slots any more. Its owner mark stays in use until [`Pool::detach`].
    pub fn take_all_empty(&self) {
        for slot in 0..STEP {
            self.take_empty(slot);
        }
    }
}

impl std::fmt::Debug for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipient({:?})", self.device)
    }
}

#[inline]
fn take_back(
    home: &SharedPool,
    device: DeviceId,
    (slot, start, length): (u32, usize, usize),
    clears: bool,
) -> Option<Packet> {
    let fits = start <= LAST_START && length <= SLOT_STRIDE - start;
    if !fits || !claim(home, device, slot) {
        return None;
    }
    let mut packet = fresh(home, slot, clears);
    let meta = packet.meta_mut();
    meta.values.start = start as u16;
    meta.values.own = start as u16;
    meta.values.head = length as u16;
    meta.length = length as u32;
    Some(packet)
}

/// Makes the caller the owner of a slot, if the device owns it now; otherwise returns false. If several
/// threads claim a slot of a shared device, exactly one succeeds. Slots of other devices may be claimed by
/// the pool's owner only.
#[inline]
fn claim(home: &SharedPool, device: DeviceId, slot: u32) -> bool {
    if slot >= STEP {
        return false;
    }
    // SAFETY: the metadata of the first step's slots is initialised when the pool is made, before any device
    // gets an owner mark; the owner's mark is an atomic, and nothing else is accessed before the slot is the
    // caller's.
    let owner = unsafe { &(*home.meta(slot)).owner };
    if device.is_shared() {
        // Acquire: the previous owner's accesses to the slot happened before the caller's.
        return owner.compare_exchange(device.0, owner::POOL, Ordering::Acquire, Ordering::Relaxed).is_ok();
    }
    let has = owner.load(Ordering::Relaxed) == device.0;
    if has {
        owner.store(owner::POOL, Ordering::Relaxed);
    }
    has
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEADROOM;

    fn pool(further: usize) -> Pool {
        Pool::new((STEP as usize + further) * SLOT_STRIDE).unwrap()
    }

    #[test]
    fn a_slot_goes_out_and_comes_back_as_a_packet() {
        let mut pool = pool(0);
        let device = pool.attach().unwrap();
        let slot = pool.hand_out(device).unwrap();
        assert_eq!(pool.stats().in_use, 1);
        let (start, _) = pool.device_area();
        // SAFETY: the access of a device, which has the slot.
        unsafe { start.add(slot as usize * SLOT_STRIDE + HEADROOM).copy_from(b"frame".as_ptr(), 5) };
        let mut packet = pool.take_back(device, slot, HEADROOM, 5).unwrap();
        assert_eq!((packet.data(), packet.headroom()), (&b"frame"[..], HEADROOM));
        assert!(pool.take_back(device, slot, HEADROOM, 5).is_none(), "it has gone back once");
        assert!(packet.strip(2));
        let span = pool.hand_over(device, packet).unwrap();
        assert_eq!(span, BufferSpan { slot, start: HEADROOM as u16 + 2, length: 3 });
        assert!(pool.take_empty(device, slot) && !pool.take_empty(device, slot));
        assert_eq!((pool.stats().in_use, pool.stats().leaked), (0, 0));
    }

    #[test]
    fn what_a_device_does_not_have_it_cannot_give_back() {
        let mut pool = pool(0);
        let (one, other) = (pool.attach().unwrap(), pool.attach().unwrap());
        let slot = pool.hand_out(one).unwrap();
        for (device, slot, start, length) in [
            (other, slot, HEADROOM, 5),
            (one, slot + 1, HEADROOM, 5),
            (one, u32::MAX, HEADROOM, 5),
            (one, slot, SLOT_STRIDE, 1),
            (one, slot, LAST_START + 1, 1),
            (one, slot, 0, SLOT_STRIDE + 1),
            (one, slot, usize::MAX, 2),
        ] {
            assert!(pool.take_back(device, slot, start, length).is_none());
        }
        assert!(!pool.take_empty(other, slot));
        pool.detach(other);
        assert_eq!(pool.stats().in_use, 1);
        pool.detach(one);
        assert_eq!(pool.stats().in_use, 0);
        assert_eq!(pool.attach(), Some(one), "numbers are used again");
    }

    #[test]
    fn packets_that_cannot_go_are_copied_or_refused() {
        let (mut pool, mut foreign) = (pool(10), pool(0));
        let device = pool.attach().unwrap();
        let packet = pool.hand_over(device, foreign.packet(b"guest").unwrap()).unwrap_err();
        let span = pool.copy_out(device, &packet).unwrap();
        assert_eq!((span.start, span.length), (HEADROOM as u16, 5));
        let copy = pool.take_back(device, span.slot, span.start.into(), span.length.into()).unwrap();
        assert_eq!(copy.data(), b"guest");
        pool.free(copy);
        foreign.free(packet);
        let large = pool.packet(&[1; 3000]).unwrap();
        let large = pool.hand_over(device, large).unwrap_err();
        assert!(pool.copy_out(device, &large).is_none());
        pool.free(large);
        // A packet of 1000 bytes that still lies in two slots cannot be handed over.
        let mut list = pool.packet(&[7; 3000]).unwrap();
        assert!(list.strip(2000));
        let list = pool.hand_over(device, list).unwrap_err();
        let span = pool.copy_out(device, &list).unwrap();
        let copy = pool.take_back(device, span.slot, span.start.into(), span.length.into()).unwrap();
        assert_eq!(copy.data(), [7; 1000]);
        pool.free(copy);
        pool.free(list);
        let index = pool.refill().unwrap();
        pool.free.push(index);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn devices_get_slots_of_the_first_step_only() {
        let mut pool = pool(1000);
        let device = pool.attach().unwrap();
        let mut packets: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
        assert_eq!(packets.len(), STEP as usize + 1000);
        assert_eq!(pool.hand_out(device), None);
        // A slot in the device area lies in the free list below many slots outside of the area.
        let first = packets.iter().position(|packet| packet.meta().index() < STEP).unwrap();
        let last = packets.swap_remove(first);
        let expected = last.meta().index();
        let (own, further): (Vec<_>, Vec<_>) =
            packets.into_iter().partition(|packet| packet.meta().index() < STEP);
        pool.free(last);
        for packet in further {
            let packet = pool.hand_over(device, packet).unwrap_err();
            pool.free(packet);
        }
        let found = (0..10).find_map(|_| pool.hand_out(device));
        assert_eq!(found, Some(expected));
        assert!((0..10).all(|_| pool.hand_out(device).is_none()));
        own.into_iter().for_each(|packet| pool.free(packet));
        assert!(pool.hand_out(device).is_some());
        pool.detach(device);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn slots_of_shared_devices_are_taken_back_elsewhere() {
        let (mut pool, mut own) = (pool(0), pool(0));
        let (device, recipient) = pool.attach_shared().unwrap();
        let exclusive = pool.attach().unwrap();
        assert!(device.is_shared() && !exclusive.is_shared());
        let [slot, empty] = [(); 2].map(|()| pool.hand_out(device).unwrap());
        let other = pool.hand_out(exclusive).unwrap();
        assert!(recipient.take_back(&own, other, HEADROOM, 5).is_none(), "another device's");
        assert!(recipient.take_back(&own, slot, SLOT_STRIDE, 1).is_none());
        assert!(recipient.take_back(&own, u32::MAX, HEADROOM, 5).is_none());
        let packet = recipient.take_back(&own, slot, HEADROOM, 5).unwrap();
        assert_eq!((packet.len(), packet.headroom()), (5, HEADROOM));
        assert!(pool.take_back(device, slot, HEADROOM, 5).is_none() && !recipient.take_empty(slot));
        assert!(recipient.take_empty(empty) && !pool.take_empty(device, empty));
        own.free(packet);
        pool.detach(exclusive);
        pool.detach(device);
        pool.collect();
        assert_eq!((pool.stats().in_use, own.stats().in_use), (0, 0));
        assert_eq!(pool.attach_shared().map(|(device, _)| device), Some(device), "numbers are used again");
    }

    #[test]
    fn a_recipient_may_outlive_the_pool() {
        let own = pool(0);
        let mut pool = pool(0);
        let (device, recipient) = pool.attach_shared().unwrap();
        let slot = pool.hand_out(device).unwrap();
        drop(pool);
        let packet = recipient.take_back(&own, slot, HEADROOM, 0).unwrap();
        packet.give_back();
        assert!(!recipient.take_empty(slot));
    }

    #[test]
    fn there_are_so_many_numbers() {
        let mut pool = pool(0);
        let exclusive = std::iter::from_fn(|| pool.attach()).count();
        let shared = std::iter::from_fn(|| pool.attach_shared()).count();
        assert_eq!((exclusive, shared), (125, 128));
    }

    #[test]
    fn slots_that_have_come_home_are_found_below_others() {
        let mut pool = pool(1000);
        let mut other = self::pool(0);
        let device = pool.attach().unwrap();
        let of_devices: Vec<_> = (0..STEP).map(|_| pool.allocate().unwrap()).collect();
        let further = pool.allocate().unwrap();
        assert!(pool.stats().grown > STEP as usize, "the next ones are of no use");
        pool.free(further);
        assert_eq!(pool.hand_out(device), None);
        of_devices.into_iter().for_each(|packet| other.free(packet));
        assert!((0..STEP).all(|_| pool.hand_out(device).is_some()));
        pool.detach(device);
        assert_eq!(pool.stats().in_use, 0);
    }

    /// A device gives each slot back three times at once: to the pool's owner and to two recipients.
    /// Exactly one of them gets each slot. Packets of the recipients come back by the pool's list of
    /// returned slots.
    #[test]
    fn of_several_who_take_a_slot_back_one_gets_it() {
        use std::sync::Barrier;
        use std::sync::atomic::{AtomicU32, AtomicUsize};

        let (rounds, slots) = if cfg!(miri) { (20, 8) } else { (2000, 64) };
        let mut pool = pool(0);
        let (device, recipient) = pool.attach_shared().unwrap();
        let given: Vec<AtomicU32> = (0..slots).map(|_| AtomicU32::new(u32::MAX)).collect();
        let (barrier, got) = (Barrier::new(3), AtomicUsize::new(0));
        let number = |place: &AtomicU32| place.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let mut own = self::pool(0);
                let (recipient, given, barrier, got) = (recipient.clone(), &given, &barrier, &got);
                scope.spawn(move || {
                    for round in 0..rounds {
                        barrier.wait();
                        for place in given {
                            if let Some(mut packet) = recipient.take_back(&own, number(place), HEADROOM, 4) {
                                packet.data_mut().copy_from_slice(&number(place).to_ne_bytes());
                                got.fetch_add(1, Ordering::Relaxed);
                                assert_eq!(packet.data(), number(place).to_ne_bytes(), "{round}");
                                own.free(packet);
                            }
                        }
                        barrier.wait();
                    }
                });
            }
            for _ in 0..rounds {
                for place in &given {
                    place.store(pool.hand_out(device).unwrap(), Ordering::Relaxed);
                }
                barrier.wait();
                for place in &given {
                    if let Some(mut packet) = pool.take_back(device, number(place), HEADROOM, 4) {
                        packet.data_mut().copy_from_slice(b"mine");
                        got.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(packet.data(), b"mine");
                        pool.free(packet);
                    }
                }
                barrier.wait();
            }
        });
        assert_eq!(got.into_inner(), rounds * slots);
        pool.detach(device);
        pool.collect();
        assert_eq!(pool.stats().in_use, 0);
    }
}
