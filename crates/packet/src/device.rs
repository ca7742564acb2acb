//! Slots that a device reads and writes itself (AF_XDP's UMEM): nothing is copied between it and packets.
//!
//! A slot is at one of three places: with the pool (free), with a [`Packet`], or with a device. The metadata says which
//! device, so that a wrong answer of a device can never make a second owner of a slot: it is refused.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use crate::pool::{Pool, STEP};
use crate::slot::{Packet, SLOT_CAPACITY, SLOT_STRIDE, owner};

/// Most devices that a pool can be the memory of at a time.
const MOST: u8 = u128::BITS as u8;
/// How many free slots are looked at for one that devices know, where the next one is none of them.
const LOOKS: usize = 256;

/// A device that a pool is the memory of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(u8);

impl DeviceId {
    /// How the metadata of a slot names the device.
    fn mark(self) -> u8 {
        owner::DEVICE + self.0
    }
}

/// A packet's bytes, as a device has to know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the slot.
    pub slot: u32,
    /// First byte, from the slot's.
    pub start: u16,
    /// How many.
    pub length: u16,
}

impl Pool {
    /// Start and length in bytes of the slots that devices may have, which lie [`SLOT_STRIDE`] apart: those of the first
    /// step of growth, because kernels keep all memory that they are told of in place. Whoever gives the area to a
    /// device sees to it that the device touches no other slots than those that it has been given.
    pub fn device_area(&self) -> (*mut u8, usize) {
        let (start, length) = self.slot_area();
        (start, length.min(STEP as usize * SLOT_STRIDE))
    }

    /// A number for a device. `None` when there are too many already.
    pub fn attach(&mut self) -> Option<DeviceId> {
        let number = (0..MOST).find(|number| self.devices >> number & 1 == 0)?;
        self.devices |= 1 << number;
        Some(DeviceId(number))
    }

    /// Takes all slots back that a device still has. It must not touch them any more.
    pub fn detach(&mut self, device: DeviceId) {
        for slot in 0..STEP {
            self.take_empty(device, slot);
        }
        self.devices &= !(1 << device.0);
    }

    /// Gives a device a slot to write to. `None` when there is none.
    #[inline]
    pub fn hand_out(&mut self, device: DeviceId) -> Option<u32> {
        let slot = match self.free.last() {
            Some(&slot) if slot < STEP => {
                self.free.pop();
                slot
            }
            _ => self.find()?,
        };
        self.mark(slot, device.mark());
        Some(slot)
    }

    /// A free slot that devices may have, when the next one is not. What was looked at without success is not looked at
    /// again soon.
    #[cold]
    fn find(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            let slot = self.refill()?;
            self.free.push(slot);
        }
        for _ in 0..LOOKS.min(self.free.len()) {
            self.looked = (self.looked + 1) % self.free.len();
            if self.free[self.looked] < STEP {
                return Some(self.free.swap_remove(self.looked));
            }
        }
        None
    }

    /// Gives a device a packet to read. A packet that does not lie in one slot of this pool that devices may have is given
    /// back; [`copy_out`](Self::copy_out) copies it.
    ///
    /// # Errors
    /// The packet.
    #[inline]
    pub fn hand_over(&mut self, device: DeviceId, packet: Packet) -> Result<Span, Packet> {
        let meta = packet.meta();
        let slot = meta.values.index;
        let is_own = meta.owner.load(Ordering::Relaxed) == owner::POOL && self.owns(&packet);
        if !is_own || meta.goes_on() || slot >= STEP {
            return Err(packet);
        }
        let span = Span { slot, start: meta.values.start, length: meta.values.head };
        meta.owner.store(device.mark(), Ordering::Relaxed);
        // The device owns the slot now, and the handle is no more.
        let _ = ManuallyDrop::new(packet);
        Ok(span)
    }

    /// Gives a device a copy of a packet to read. `None` when there is no slot, or one is not enough.
    #[cold]
    pub fn copy_out(&mut self, device: DeviceId, packet: &Packet) -> Option<Span> {
        if packet.len() > SLOT_CAPACITY {
            return None;
        }
        let slot = self.hand_out(device)?;
        let mut copy = self.take_back(device, slot, crate::HEADROOM, packet.len())?;
        packet.read_at(0, copy.data_mut());
        // A slot that devices may have, of this pool.
        self.hand_over(device, copy).map_err(|copy| self.free(copy)).ok()
    }

    /// Takes a slot back with the packet that a device has put there. `None`, and nothing done, if the device does not have
    /// the slot or the bytes do not lie in it.
    #[inline]
    pub fn take_back(&mut self, device: DeviceId, slot: u32, start: usize, length: usize) -> Option<Packet> {
        if !self.has(device, slot) || start.checked_add(length).is_none_or(|end| end > SLOT_STRIDE) {
            return None;
        }
        self.mark(slot, owner::POOL);
        let mut packet = self.fresh(slot);
        let meta = packet.meta_mut();
        meta.values.start = start as u16;
        meta.values.own = start as u16;
        meta.values.head = length as u16;
        meta.length = length as u32;
        Some(packet)
    }

    /// Takes a slot back whose contents are of no interest any more. False, and nothing done, if the device does not have
    /// it.
    #[inline]
    pub fn take_empty(&mut self, device: DeviceId, slot: u32) -> bool {
        let has = self.has(device, slot);
        if has {
            self.mark(slot, owner::POOL);
            self.free.push(slot);
        }
        has
    }

    #[inline]
    fn has(&self, device: DeviceId, slot: u32) -> bool {
        slot < STEP.min(self.grown) && {
            // SAFETY: the slot is in use, so its metadata is initialised; the owner's mark is an atomic.
            let owner = unsafe { &(*self.home.meta(slot)).owner };
            owner.load(Ordering::Relaxed) == device.mark()
        }
    }

    #[inline]
    fn mark(&self, slot: u32, mark: u8) {
        // SAFETY: as in `has`; the caller has the slot.
        unsafe { &(*self.home.meta(slot)).owner }.store(mark, Ordering::Relaxed);
    }
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
        // SAFETY: what a device does: it has the slot.
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
        // Two slots whose packet would fit into one.
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
        // One that devices may have lies below many that they may not.
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
}
