//! Packets that are lent again and again: the memory behind replaying elements.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::annotations::Annotations;
use crate::pool::Pool;
use crate::slot::{Meta, NO_OFFSET, Packet, PacketKind, owner, prefetch_line};
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

/// Bytes of each packet that are kept aside where a full copy is not needed.
const HEADERS: usize = 128;

/// What a packet was like when it was stored.
struct Stored {
    packet: Packet,
    values: Values,
}

/// The metadata that elements may change.
#[derive(Clone, Copy, Default)]
struct Values {
    time: Timestamp,
    length: u32,
    hash: u32,
    start: u16,
    head: u16,
    mac: u16,
    network: u16,
    transport: u16,
    link: u16,
    port: u8,
    kind: PacketKind,
}

/// Owns packets and lends their slots. A lent packet is an ordinary [`Packet`]; when it ends anywhere, its slot
/// is the store's again. Large packets, and those whose slot is still out, are lent as copies.
pub struct Store {
    stored: Vec<Stored>,
    restore: Restore,
    /// Whether all bytes are kept aside, not only the headers.
    full: bool,
    /// The kept bytes: `HEADERS` per packet, or all bytes of all packets.
    bytes: Vec<u8>,
    /// Where the bytes of each packet start in `bytes`; empty unless everything is kept.
    starts: Vec<usize>,
    /// Empty unless somebody uses annotations.
    annotations: Vec<Annotations>,
}

impl Store {
    /// An empty store.
    pub fn new(restore: Restore) -> Store {
        let full = restore.copies || restore.bytes > HEADERS;
        Store {
            stored: Vec::new(),
            restore,
            full,
            bytes: Vec::new(),
            starts: Vec::new(),
            annotations: Vec::new(),
        }
    }

    /// Packets in the store.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Whether the store has no packets.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// The packet as it was stored; its bytes are those of the last loan.
    pub fn length_and_time(&self, number: usize) -> Option<(usize, Timestamp)> {
        self.stored.get(number).map(|s| (s.values.length as usize, s.values.time))
    }

    /// Takes a packet in.
    pub fn insert(&mut self, packet: Packet, pool: &Pool) {
        if self.full {
            self.starts.push(self.bytes.len());
            self.bytes.extend_from_slice(packet.data());
        } else if self.restore.bytes > 0 {
            let kept = packet.data();
            self.bytes.extend_from_slice(&kept[..kept.len().min(HEADERS)]);
            self.bytes.resize((self.stored.len() + 1) * HEADERS, 0);
        }
        if pool.uses_annotations() {
            self.annotations.push(packet.annotations().clone());
        }
        let meta = packet.meta();
        let values = Values {
            time: meta.time,
            length: meta.length,
            hash: meta.hash,
            start: meta.start,
            head: meta.head,
            mac: meta.mac,
            network: meta.network,
            transport: meta.transport,
            link: meta.link,
            port: meta.port,
            kind: meta.kind,
        };
        if !packet.is_large() {
            meta.owner.store(owner::STORE_HOME, Ordering::Relaxed);
        }
        self.stored.push(Stored { packet, values });
    }

    /// Asks the processor for the metadata of a packet that will be lent soon.
    #[inline]
    pub fn prefetch_metadata(&self, number: usize) {
        if let Some(stored) = self.stored.get(number) {
            prefetch_line(stored.packet.0.as_ptr().cast());
        }
    }

    /// Asks the processor for the first data line of a packet that will be lent soon; its metadata should be
    /// there already.
    #[inline]
    pub fn prefetch_data(&self, number: usize) {
        if let Some(stored) = self.stored.get(number) {
            // SAFETY: `base` never changes after the pool has made the slot, so it may be read through the raw
            // pointer also while somebody else owns the packet.
            let base = unsafe { (*stored.packet.0.as_ptr()).base };
            prefetch_line(base.wrapping_add(stored.values.start as usize));
        }
    }

    /// Lends packet `number`, as it was when it was stored. `None` if there is no such packet, or a copy was
    /// needed and `pool` is empty.
    #[inline]
    pub fn lend(&mut self, number: usize, pool: &mut Pool) -> Option<Packet> {
        let stored = self.stored.get_mut(number)?;
        // Acquire: what the last user did with the slot happened before.
        if stored.owner().load(Ordering::Acquire) != owner::STORE_HOME {
            return self.lend_copy(number, pool);
        }
        let values = stored.values;
        // A second handle to the slot: the first one stays in the store, which does not touch the slot again
        // until the owner mark says that the loan has come back.
        let mut packet = Packet(stored.packet.0);
        let meta = packet.meta_mut();
        meta.set(&values);
        meta.owner.store(owner::STORE_OUT, Ordering::Relaxed);
        if self.restore.bytes > 0 {
            let data = packet.data_mut();
            let n = self.restore.bytes.min(data.len());
            let start = if self.full { self.starts[number] } else { number * HEADERS };
            data[..n].copy_from_slice(&self.bytes[start..start + n]);
        }
        if let Some(annotations) = self.annotations.get(number) {
            packet.annotations_mut().clone_from(annotations);
        }
        Some(packet)
    }

    /// For large packets, and for slots that are out.
    #[cold]
    fn lend_copy(&mut self, number: usize, pool: &mut Pool) -> Option<Packet> {
        let stored = self.stored.get(number)?;
        if stored.owner().load(Ordering::Relaxed) == owner::POOL {
            return pool.copy(&stored.packet);
        }
        // The slot belongs to the borrower, who may be writing to it on another thread: only what was kept
        // aside may be read.
        if !self.full {
            return None;
        }
        let start = self.starts[number];
        let mut packet = pool.packet(&self.bytes[start..start + stored.values.head as usize])?;
        let shift = packet.meta().start;
        packet.meta_mut().set(&stored.values);
        let meta = packet.meta_mut();
        for offset in [&mut meta.mac, &mut meta.network, &mut meta.transport] {
            // Header offsets count from the slot's start, where the copy's data may begin elsewhere.
            if *offset != NO_OFFSET {
                *offset = (*offset + shift).checked_sub(stored.values.start).unwrap_or(NO_OFFSET);
            }
        }
        meta.start = shift;
        if let Some(annotations) = self.annotations.get(number) {
            packet.annotations_mut().clone_from(annotations);
        }
        Some(packet)
    }

    /// Gives every slot that is at home back to `pool`; the number of packets that ended by it. Slots that are
    /// still out are given up when they come back: they stay unused until the pool ends.
    pub fn release(&mut self, pool: &mut Pool) -> usize {
        let count = self.stored.len();
        for Stored { packet, .. } in self.stored.drain(..) {
            match take_back(packet) {
                Some(packet) => pool.free(packet),
                None => continue,
            }
        }
        self.bytes.clear();
        self.starts.clear();
        self.annotations.clear();
        count
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for Stored { packet, .. } in self.stored.drain(..) {
            if let Some(packet) = take_back(packet) {
                packet.give_back();
            }
        }
    }
}

impl Stored {
    /// The owner mark, reached without borrowing the rest of the metadata, which is the borrower's.
    fn owner(&self) -> &AtomicU8 {
        // SAFETY: the metadata lives as long as the handle, and atomics may be shared.
        unsafe { AtomicU8::from_ptr((&raw mut (*self.packet.0.as_ptr()).owner).cast()) }
    }
}

/// Makes a stored packet an ordinary one again; gives its slot up when it is still out.
fn take_back(packet: Packet) -> Option<Packet> {
    let stored = Stored { packet, values: Values::default() };
    if stored.owner().load(Ordering::Acquire) == owner::STORE_OUT {
        std::mem::forget(stored);
        return None;
    }
    stored.owner().store(owner::POOL, Ordering::Relaxed);
    Some(stored.packet)
}

impl Meta {
    #[inline]
    fn set(&mut self, values: &Values) {
        self.time = values.time;
        self.length = values.length;
        self.hash = values.hash;
        self.start = values.start;
        self.head = values.head;
        self.mac = values.mac;
        self.network = values.network;
        self.transport = values.transport;
        self.link = values.link;
        self.port = values.port;
        self.kind = values.kind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{Base, SLOT_STRIDE};

    fn pool() -> Pool {
        Pool::new(if cfg!(miri) { 64 * SLOT_STRIDE } else { 64 << 20 }).unwrap()
    }

    #[test]
    fn a_loan_is_put_back_as_it_was() {
        for restore in [Restore { bytes: 64, copies: false }, Restore { bytes: usize::MAX, copies: false }] {
            let mut pool = pool();
            let mut store = Store::new(restore);
            let mut packet = pool.packet(&[1; 100]).unwrap();
            packet.set_offset(Base::Network, Some(14));
            packet.annotations_mut().set_u32(20, 5);
            store.insert(packet, &pool);
            for _ in 0..3 {
                let mut loan = store.lend(0, &mut pool).unwrap();
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
        store.insert(packet, &pool);
        let first = store.lend(0, &mut pool).unwrap();
        let second = store.lend(0, &mut pool).unwrap();
        assert_eq!(first.data(), second.data());
        assert_eq!(first.offset(Base::Mac), second.offset(Base::Mac));
        pool.free(first);
        pool.free(second);

        let mut lean = Store::new(Restore { bytes: 64, copies: false });
        lean.insert(pool.packet(&[5; 10]).unwrap(), &pool);
        let out = lean.lend(0, &mut pool).unwrap();
        assert!(lean.lend(0, &mut pool).is_none());
        drop(lean);
        pool.free(out);
        drop(store);
    }

    #[test]
    fn large_packets_are_copied() {
        let mut pool = pool();
        let mut store = Store::new(Restore { bytes: 0, copies: false });
        store.insert(pool.packet(&[3; 9_000]).unwrap(), &pool);
        let loan = store.lend(0, &mut pool).unwrap();
        assert_eq!(loan.len(), 9_000);
        pool.free(loan);
        assert_eq!(store.release(&mut pool), 1);
        let packet = pool.packet(&[0; 9_000]).unwrap();
        pool.free(packet);
        assert!(store.lend(0, &mut pool).is_none());
    }
}
