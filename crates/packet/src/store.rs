//! Packets that are lent again and again: the memory behind replaying elements.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::annotations::Annotations;
use crate::batch::Batch;
use crate::pool::Pool;
use crate::slot::{Meta, Packet, owner, prefetch_line};
use crate::time::Timestamp;

/// How much of a packet has to be put back before it is lent again. Both follow from what the elements of the
/// graph declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// Elements write within the first so many bytes.
    pub bytes: usize,
    /// Elements hold packets, so that one may be wanted again while its slot is still out.
    pub copies: bool,
}

/// Bytes are put back in pieces of this size: two wide moves.
const LINE: usize = 32;

/// Bytes of each packet that are kept aside where a full copy is not needed.
const HEADERS: usize = 128;

/// How many packets ahead metadata and data are asked for; far enough to hide the time that memory takes.
const AHEAD: usize = 24;

/// Owns packets and lends their slots. A lent packet is an ordinary [`Packet`]; when it ends anywhere, its slot
/// is the store's again. Large packets, and those whose slot is still out, are lent as copies.
pub struct Store {
    packets: Vec<Packet>,
    /// The metadata of each packet as it was stored, but marked as lent, so that one copy of a cache line makes
    /// a loan of it. Those of large packets are marked as the pool's.
    images: Vec<Meta>,
    restore: Restore,
    /// The first line or lines of each packet, as many as are put back; empty if nothing or everything is.
    headers: Vec<[u8; LINE]>,
    /// All bytes of all packets, if they have to be kept.
    bytes: Option<Vec<u8>>,
    /// Where the bytes of each packet start in `bytes`.
    starts: Vec<usize>,
    /// Empty unless somebody uses annotations.
    annotations: Vec<Annotations>,
}

// SAFETY: the pointers in the images are those of the packets, which are `Send`.
unsafe impl Send for Store {}

impl Store {
    /// An empty store.
    pub fn new(restore: Restore) -> Store {
        let full = restore.copies || restore.bytes > HEADERS;
        Store {
            packets: Vec::new(),
            images: Vec::new(),
            restore,
            headers: Vec::new(),
            bytes: full.then(Vec::new),
            starts: Vec::new(),
            annotations: Vec::new(),
        }
    }

    /// Packets in the store.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether the store has no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The time stamp of a packet as it was stored.
    pub fn time(&self, number: usize) -> Option<Timestamp> {
        self.images.get(number).map(|image| image.time)
    }

    /// Takes a packet in. A packet that is itself on loan stays its own store's: a copy of it is taken in, and
    /// false says that none could be had.
    #[must_use]
    pub fn insert(&mut self, packet: Packet, pool: &mut Pool) -> bool {
        let packet = match packet.meta().owner.load(Ordering::Relaxed) {
            owner::POOL => packet,
            _ => {
                let copy = pool.copy(&packet);
                pool.free(packet);
                let Some(copy) = copy else { return false };
                copy
            }
        };
        // Stripped bytes can be asked for again, so they are kept like the rest.
        let own = packet.own_bytes();
        if let Some(bytes) = &mut self.bytes {
            self.starts.push(bytes.len());
            bytes.extend_from_slice(own);
        }
        for line in 0..self.lines() {
            let mut header = [0; LINE];
            let part = own.get(line * LINE..).unwrap_or_default();
            header.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.headers.push(header);
        }
        if pool.uses_annotations() {
            self.annotations.push(packet.annotations().clone());
        }
        let (lent, home) = match packet.is_large() {
            true => (owner::POOL, owner::POOL),
            false => (owner::STORE_OUT, owner::STORE_HOME),
        };
        self.images.push(packet.meta().image(lent));
        packet.meta().owner.store(home, Ordering::Relaxed);
        self.packets.push(packet);
        true
    }

    /// Lends the packets of a range, in order, into a batch, as they were when they were stored. Stops where the
    /// batch is full, or a copy is needed that cannot be had; how many packets were lent.
    #[inline]
    pub fn lend_into(&mut self, range: Range<usize>, pool: &mut Pool, batch: &mut Batch) -> usize {
        let end = range.end.min(self.len());
        let mut next = range.start.min(end);
        while next < end && !batch.is_full() {
            next += self.lend_slots(next, end, batch);
            // Where the slots end, one copy may help over.
            if next < end && !batch.is_full() {
                let Some(copy) = self.lend_copy(next, pool) else { break };
                if let Err(copy) = batch.push(copy) {
                    pool.free(copy);
                }
                next += 1;
            }
        }
        next - range.start.min(end)
    }

    /// Lends slots up to the first one that is not at home; how many.
    #[inline]
    fn lend_slots(&self, start: usize, end: usize, batch: &mut Batch) -> usize {
        // What has to be put back is the same for all packets, so the loop is made for each case.
        match (self.annotations.is_empty(), self.restore.bytes, self.lines()) {
            (true, 0, _) => self.lend_slots_with(start, end, batch, |_, _| {}),
            (true, _, 1) => self.lend_slots_with(start, end, batch, |number, loan| {
                loan.overwrite_front(&self.headers[number]);
            }),
            (true, _, 2) => self.lend_slots_with(start, end, batch, |number, loan| {
                match self.headers[2 * number..].first_chunk::<2>() {
                    Some([first, second]) => {
                        let mut both = [0; 2 * LINE];
                        both[..LINE].copy_from_slice(first);
                        both[LINE..].copy_from_slice(second);
                        loan.overwrite_front(&both);
                    }
                    None => self.put_back(number, loan),
                }
            }),
            _ => self.lend_slots_with(start, end, batch, |number, loan| self.put_back(number, loan)),
        }
    }

    #[inline]
    fn lend_slots_with(
        &self,
        start: usize,
        end: usize,
        batch: &mut Batch,
        put_back: impl Fn(usize, &mut Packet),
    ) -> usize {
        let mut lent = 0;
        let last = self.images.len() - 1;
        let stored = self.packets[start..end].iter().zip(&self.images[start..end]);
        for (place, (packet, image)) in batch.room().iter_mut().zip(stored) {
            let number = start + lent;
            let ahead = &self.images[(number + AHEAD).min(last)];
            prefetch_line(ahead.base.wrapping_add(ahead.start as usize));
            // Acquire: what the last user did with the slot happened before.
            if owner_of(packet).load(Ordering::Acquire) != owner::STORE_HOME {
                break;
            }
            // A second handle to the slot: the first one stays in the store, which does not touch the slot
            // again until the owner mark says that the loan has come back.
            let mut loan = Packet(packet.0);
            // SAFETY: the slot is at home, so nobody else refers to its metadata, and the image is a valid one
            // of the same slot.
            unsafe { loan.0.as_ptr().copy_from_nonoverlapping(image, 1) };
            put_back(number, &mut loan);
            place.write(loan);
            lent += 1;
        }
        // SAFETY: each of the first `lent` places has just been written.
        unsafe { batch.grow(lent) };
        lent
    }

    /// Lines of each packet in `headers`.
    #[inline]
    fn lines(&self) -> usize {
        if self.restore.bytes <= HEADERS { self.restore.bytes.div_ceil(LINE) } else { 0 }
    }

    /// Puts back what elements may have changed: bytes and annotations.
    #[cold]
    fn put_back(&self, number: usize, packet: &mut Packet) {
        let lines = self.lines();
        let header =
            self.headers.get(number * lines..(number + 1) * lines).unwrap_or_default().as_flattened();
        let bytes = if self.restore.bytes > HEADERS { self.kept(number).unwrap_or_default() } else { header };
        packet.own_bytes_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        if let Some(annotations) = self.annotations.get(number) {
            packet.annotations_mut().clone_from(annotations);
        }
    }

    /// All bytes of a packet, if they are kept.
    fn kept(&self, number: usize) -> Option<&[u8]> {
        let start = *self.starts.get(number)?;
        let image = self.images.get(number)?;
        let length = image.start as usize + image.head as usize - image.own as usize;
        self.bytes.as_ref()?.get(start..start + length)
    }

    /// For large packets, and for slots that are out.
    #[cold]
    fn lend_copy(&mut self, number: usize, pool: &mut Pool) -> Option<Packet> {
        let image = self.images.get(number)?;
        if image.owner.load(Ordering::Relaxed) == owner::POOL {
            return pool.copy(self.packets.get(number)?);
        }
        // The slot belongs to the borrower, who may be writing to it on another thread: only what was kept
        // aside may be read.
        let kept = self.kept(number)?;
        let mut packet = pool.allocate()?;
        // The same places in a slot of the same size.
        packet.meta_mut().copy_values(image);
        packet.own_bytes_mut().copy_from_slice(kept);
        if let Some(annotations) = self.annotations.get(number) {
            packet.annotations_mut().clone_from(annotations);
        }
        Some(packet)
    }

    /// Gives every slot that is at home back to `pool`; the number of packets that ended by it. Slots that are
    /// still out go to their pool when they come back.
    pub fn release(&mut self, pool: &mut Pool) -> usize {
        let count = self.packets.len();
        for packet in self.packets.drain(..) {
            if let Some(packet) = take_back(packet) {
                pool.free(packet);
            }
        }
        self.images.clear();
        self.headers.clear();
        self.bytes.iter_mut().for_each(Vec::clear);
        self.starts.clear();
        self.annotations.clear();
        count
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for packet in self.packets.drain(..) {
            if let Some(packet) = take_back(packet) {
                packet.give_back();
            }
        }
    }
}

/// The owner mark of a stored packet, reached without borrowing the rest of the metadata, which may be a
/// borrower's.
#[inline]
fn owner_of(packet: &Packet) -> &AtomicU8 {
    // SAFETY: the metadata lives as long as the handle, and atomics may be shared.
    unsafe { AtomicU8::from_ptr((&raw mut (*packet.0.as_ptr()).owner).cast()) }
}

/// Makes a stored packet an ordinary one again. One that is still out becomes the pool's when it ends; should it
/// end on another thread at this very moment, its slot stays unused.
fn take_back(packet: Packet) -> Option<Packet> {
    let mark = owner_of(&packet);
    if mark.compare_exchange(owner::STORE_OUT, owner::POOL, Ordering::Acquire, Ordering::Acquire).is_ok() {
        std::mem::forget(packet);
        return None;
    }
    mark.store(owner::POOL, Ordering::Relaxed);
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Base, SLOT_STRIDE};

    fn pool() -> Pool {
        Pool::new(if cfg!(miri) { 64 * SLOT_STRIDE } else { 64 << 20 }).unwrap()
    }

    fn lend(store: &mut Store, number: usize, pool: &mut Pool) -> Option<Packet> {
        let mut batch = Batch::new();
        assert!(store.lend_into(number..number + 1, pool, &mut batch) == batch.len());
        batch.pop()
    }

    #[test]
    fn a_loan_is_put_back_as_it_was() {
        for restore in [Restore { bytes: 64, copies: false }, Restore { bytes: usize::MAX, copies: false }] {
            let mut pool = pool();
            let mut store = Store::new(restore);
            let mut packet = pool.packet(&[1; 100]).unwrap();
            packet.set_offset(Base::Network, Some(14));
            packet.annotations_mut().set_u32(20, 5);
            assert!(store.insert(packet, &mut pool));
            for _ in 0..3 {
                let mut loan = lend(&mut store, 0, &mut pool).unwrap();
                assert_eq!(loan.data(), &[1; 100]);
                assert_eq!(loan.annotations().u32(20), 5);
                assert_eq!(loan.offset(Base::Network), Some(14));
                loan.data_mut()[3] = 9;
                loan.annotations_mut().set_u32(20, 6);
                assert!(loan.strip(10));
                loan.truncate(20);
                pool.free(loan);
            }
            assert_eq!(store.release(&mut pool), 1);
            assert_eq!(pool.stats().in_use, 0);
        }
    }

    #[test]
    fn what_is_out_is_lent_as_a_copy_or_not_at_all() {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 0, copies: true });
        let mut packet = pool.packet(&[1, 2, 3, 4]).unwrap();
        packet.set_offset(Base::Mac, Some(0));
        assert!(packet.strip(2));
        assert!(store.insert(packet, &mut pool));
        let first = lend(&mut store, 0, &mut pool).unwrap();
        let second = lend(&mut store, 0, &mut pool).unwrap();
        assert_eq!(first.data(), second.data());
        assert_eq!(first.offset(Base::Mac), second.offset(Base::Mac));
        pool.free(first);
        pool.free(second);

        let mut lean = Store::new(Restore { bytes: 64, copies: false });
        let packet = pool.packet(&[5; 10]).unwrap();
        assert!(lean.insert(packet, &mut pool));
        let out = lend(&mut lean, 0, &mut pool).unwrap();
        assert!(lend(&mut lean, 0, &mut pool).is_none());
        drop(lean);
        pool.free(out);
        drop(store);
    }

    #[test]
    fn large_packets_are_copied() {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 0, copies: false });
        let packet = pool.packet(&[3; 9_000]).unwrap();
        assert!(store.insert(packet, &mut pool));
        let loan = lend(&mut store, 0, &mut pool).unwrap();
        assert_eq!(loan.len(), 9_000);
        pool.free(loan);
        assert_eq!(store.release(&mut pool), 1);
        let packet = pool.packet(&[0; 9_000]).unwrap();
        pool.free(packet);
        assert!(lend(&mut store, 0, &mut pool).is_none());
    }

    #[test]
    fn long_packets_with_little_headroom_are_copied_whole() {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 0, copies: true });
        let mut packet = pool.packet(&[7; crate::slot::SLOT_CAPACITY]).unwrap();
        assert!(packet.unstrip(14));
        packet.data_mut().fill(8);
        assert!(store.insert(packet, &mut pool));
        let first = lend(&mut store, 0, &mut pool).unwrap();
        let second = lend(&mut store, 0, &mut pool).unwrap();
        assert_eq!((second.len(), second.is_large()), (crate::slot::SLOT_CAPACITY + 14, false));
        assert_eq!(first.data(), second.data());
        pool.free(first);
        pool.free(second);
    }

    #[test]
    fn stripped_bytes_are_put_back_too() {
        for copies in [false, true] {
            let mut pool = pool();
            let mut store = Store::new(Restore { bytes: 64, copies });
            let mut packet = pool.packet(&[1; 30]).unwrap();
            assert!(packet.strip(14));
            assert!(store.insert(packet, &mut pool));
            let mut out = Vec::new();
            for _ in 0..if copies { 3 } else { 1 } {
                let mut loan = lend(&mut store, 0, &mut pool).unwrap();
                assert!(loan.unstrip(14));
                assert_eq!(loan.data(), &[1; 30]);
                loan.data_mut().fill(9);
                out.push(loan);
            }
            out.into_iter().for_each(|loan| pool.free(loan));
            let mut again = lend(&mut store, 0, &mut pool).unwrap();
            assert!(again.unstrip(14));
            assert_eq!(again.data(), &[1; 30]);
            pool.free(again);
        }
    }

    #[test]
    fn a_loan_is_not_stored_twice() {
        let mut pool = pool();
        let (mut a, mut b) = (
            Store::new(Restore { bytes: 0, copies: false }),
            Store::new(Restore { bytes: 0, copies: false }),
        );
        let packet = pool.packet(&[1; 10]).unwrap();
        assert!(a.insert(packet, &mut pool));
        let loan = lend(&mut a, 0, &mut pool).unwrap();
        assert!(b.insert(loan, &mut pool));
        assert_eq!((a.release(&mut pool), b.release(&mut pool)), (1, 1));
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn slots_that_are_out_at_the_end_come_home() {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 0, copies: false });
        let packet = pool.packet(&[1; 10]).unwrap();
        assert!(store.insert(packet, &mut pool));
        let loan = lend(&mut store, 0, &mut pool).unwrap();
        assert_eq!(store.release(&mut pool), 1);
        pool.free(loan);
        assert_eq!(pool.stats().in_use, 0);
    }
}
