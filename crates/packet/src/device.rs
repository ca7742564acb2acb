//! Slots that a device reads and writes itself (AF_XDP's UMEM): no bytes are copied between the device and
//! packets.
//!
//! A slot has one of three owners: the pool (the slot is free), a [`Packet`], or a device. The metadata
//! says which device, so that a wrong answer of a device can never make a second owner of a slot: such an
//! answer is refused.
//!
//! The slots in which a device has received packets are taken back by the pool's owner, or by several
//! threads if the device is *shared*: then each of the other threads has a [`Recipient`].

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::memory::Home;
use crate::pool::{Pool, STEP, fresh};
use crate::slot::{Packet, SLOT_CAPACITY, SLOT_STRIDE, owner};

/// The first mark of shared devices. Shared and other devices never have the same mark: a slot of a shared
/// device has to be claimed in one atomic operation, and code that claims a slot otherwise must not claim
/// such a slot.
const SHARED: u8 = 128;
/// The number of free slots that are searched for a slot that devices may have, if the next slot is not
/// one.
const LOOKS: usize = 256;

/// A device that uses the memory of a pool: the mark of this device in the metadata of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(u8);

impl DeviceId {
    fn is_shared(self) -> bool {
        self.0 >= SHARED
    }

    /// Returns the place of the device in [`Pool::devices`]: the index of the word, and the bit.
    fn place(self) -> (usize, u128) {
        (usize::from(self.0 / 128), 1 << (self.0 % 128))
    }
}

/// The position of a packet's bytes, for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the slot.
    pub slot: u32,
    /// The offset of the first byte in the slot.
    pub start: u16,
    /// The number of bytes.
    pub length: u16,
}

impl Pool {
    /// Returns the start and length in bytes of the area of slots that devices may have, which are
    /// [`SLOT_STRIDE`] apart. It covers the slots of the first step of growth, because kernels keep all
    /// registered memory in place. The caller who gives the area to a device must ensure that the device
    /// accesses only slots that it has been given.
    pub fn device_area(&self) -> (*mut u8, usize) {
        let (start, length) = self.slot_area();
        (start, length.min(STEP as usize * SLOT_STRIDE))
    }

    /// Returns a number for a device whose slots only this pool's owner takes back. Returns `None` if there
    /// are too many devices already.
    pub fn attach(&mut self) -> Option<DeviceId> {
        self.number(owner::DEVICE..SHARED)
    }

    /// Returns a number for a device whose slots other threads take back too, and the object with which
    /// they do so.
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

    /// Takes back all slots that a device still has. The device must not access them any more.
    pub fn detach(&mut self, device: DeviceId) {
        for slot in 0..STEP {
            self.take_empty(device, slot);
        }
        let (word, bit) = device.place();
        self.devices[word] &= !bit;
    }

    /// Gives a device a slot to write to. Returns `None` if there is none.
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

    /// Finds a free slot that devices may have, if the next slot is not one. Slots that were searched
    /// without success are not searched again soon.
    #[cold]
    fn find(&mut self) -> Option<u32> {
        // Slots that have been returned meanwhile may all be unfit for devices, and hide fit slots.
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

    /// Gives a device a packet to read. The packet must lie in one slot of this pool that devices may have;
    /// otherwise [`copy_out`](Self::copy_out) copies it.
    ///
    /// # Errors
    /// The packet, if it lies elsewhere.
    #[inline]
    pub fn hand_over(&mut self, device: DeviceId, packet: Packet) -> Result<Span, Packet> {
        let meta = packet.meta();
        let slot = meta.values.index;
        let is_own = meta.owner.load(Ordering::Relaxed) == owner::POOL && self.owns(&packet);
        if !is_own || meta.goes_on() || slot >= STEP {
            return Err(packet);
        }
        let span = Span { slot, start: meta.values.start, length: meta.values.head };
        // Release: as in `mark`.
        meta.owner.store(device.0, Ordering::Release);
        // The device owns the slot now, and the handle no longer exists.
        let _ = ManuallyDrop::new(packet);
        Ok(span)
    }

    /// Gives a device a copy of a packet to read. Returns `None` if there is no slot, or if one slot is not
    /// enough.
    #[cold]
    pub fn copy_out(&mut self, device: DeviceId, packet: &Packet) -> Option<Span> {
        if packet.len() > SLOT_CAPACITY {
            return None;
        }
        let slot = self.hand_out(device)?;
        let mut copy = self.take_back(device, slot, crate::HEADROOM, packet.len())?;
        packet.read_at(0, copy.data_mut());
        // A slot of this pool that devices may have.
        self.hand_over(device, copy).map_err(|copy| self.free(copy)).ok()
    }

    /// Takes back a slot with the packet that a device has put there. Returns `None`, and does nothing, if
    /// the device does not have the slot or the bytes do not lie in it.
    #[inline]
    pub fn take_back(&mut self, device: DeviceId, slot: u32, start: usize, length: usize) -> Option<Packet> {
        take_back(&self.home, device, (slot, start, length), self.uses_annotations())
    }

    /// Takes back a slot whose contents are no longer needed. Returns false, and does nothing, if the
    /// device does not have it.
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
        // SAFETY: the caller has the slot, whose metadata is initialised; the owner's mark is an atomic.
        let owner = unsafe { &(*self.home.meta(slot)).owner };
        // Release: all accesses to the slot here happen before another thread takes it back.
        owner.store(mark, Ordering::Release);
    }
}

/// An object that takes back slots of a shared device on a thread other than the thread of their pool. The
/// packets belong to the pool, as if the pool had taken them back.
#[derive(Clone)]
pub struct Recipient {
    home: Arc<Home>,
    device: DeviceId,
}

impl Recipient {
    /// Takes back a slot like [`Pool::take_back`]; `own` is the caller's pool, which knows whether
    /// annotations are used.
    #[inline]
    pub fn take_back(&self, own: &Pool, slot: u32, start: usize, length: usize) -> Option<Packet> {
        take_back(&self.home, self.device, (slot, start, length), own.uses_annotations())
    }

    /// Takes back a slot like [`Pool::take_empty`]; the slot returns to its pool.
    pub fn take_empty(&self, slot: u32) -> bool {
        let has = claim(&self.home, self.device, slot);
        if has {
            self.home.give_back(slot, slot);
        }
        has
    }
}

impl std::fmt::Debug for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipient({:?})", self.device)
    }
}

#[inline]
fn take_back(
    home: &Home,
    device: DeviceId,
    (slot, start, length): (u32, usize, usize),
    clears: bool,
) -> Option<Packet> {
    let fits = start.checked_add(length).is_some_and(|end| end <= SLOT_STRIDE);
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

/// Makes the caller the owner of a slot, if the device has it. Of several callers at the same time, one
/// gets it. For a device that is not shared, only the pool's owner calls it.
#[inline]
fn claim(home: &Home, device: DeviceId, slot: u32) -> bool {
    if slot >= STEP {
        return false;
    }
    // SAFETY: the metadata of the first step's slots is initialised as long as there are numbers of
    // devices; the owner's mark is an atomic, and nothing else is accessed before the slot is the caller's.
    let owner = unsafe { &(*home.meta(slot)).owner };
    if device.is_shared() {
        // Acquire: all accesses of the previous owner to the slot have happened.
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
        assert_eq!(span, Span { slot, start: HEADROOM as u16 + 2, length: 3 });
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
        // Two slots whose packet would fit into one slot.
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
        // A slot that devices may have lies below many slots that they may not have.
        let first = packets.iter().position(|packet| packet.meta().values.index < STEP).unwrap();
        let last = packets.swap_remove(first);
        let expected = last.meta().values.index;
        let (own, further): (Vec<_>, Vec<_>) =
            packets.into_iter().partition(|packet| packet.meta().values.index < STEP);
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

    /// A device gives each slot back three times at the same time, to the pool's owner and to two others:
    /// one of them gets it. Packets of the two others return by the list of returned slots.
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
