//! Stores of packets that are lent repeatedly, for elements that replay packets.
//!
//! A store keeps its packets in their slots and lends the slots without a copy, except for large packets and
//! packets that are still on loan. Before a packet is lent again, its metadata are restored, and only the
//! bytes and annotations that elements can have written.
//!
//! The *own bytes* of a packet are its stripped bytes and its data, in its first slot. They are saved and
//! restored in *pieces* of 32 bytes. If elements hold packets, or can write beyond the first 128 own bytes,
//! all own bytes are saved, too. They are restored as a whole if elements can write that far and the store
//! has a packet that is that long.

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::annotations::Annotations;
use crate::batch::Batch;
use crate::memory::Slots;
use crate::packet::{Packet, prefetch_line};
use crate::pool::Pool;
use crate::slot::{HEADROOM, NO_OFFSET, SLOT_STRIDE, Standing, Values, owner};
use crate::time::Timestamp;

/// The parts of a packet that elements can change, and that must be restored before the packet is lent
/// again. The user of the store derives them from the declarations of the graph's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The number of bytes, from the packet's first own byte on (stripped bytes included), within which
    /// elements write.
    pub bytes: usize,
    /// True if elements hold packets, so that a packet may be needed while its slot is still on loan: the
    /// store then saves all bytes of its packets, and lends copies of such packets.
    pub copies: bool,
    /// True if elements write annotations that other elements read, so that annotations must be restored.
    pub annotations: bool,
    /// True if elements read annotations, so that prefetching their cache line saves time.
    pub annotations_read: bool,
    /// True if elements add headers before packets, so that prefetching the cache line before the packet's
    /// data saves time.
    pub headers_added: bool,
    /// The number of bytes within which elements write, counted from the transport header, so that fewer
    /// bytes than `bytes` have to be restored. `None` if elements change the transport header annotation,
    /// because its stored value then does not tell where they write.
    pub marked: Option<ReachFromTransport>,
}

/// The extent of the bytes that elements write, and that must be restored, if no element changes the
/// transport header annotation after the packet was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachFromTransport {
    /// The number of bytes, from the start of the packet, within which elements write; writes relative to
    /// the transport header are counted in `transport_bytes` instead.
    pub bytes: usize,
    /// The number of bytes, from the start of the transport header, within which elements write. It has no
    /// meaning for packets without a transport header annotation.
    pub transport_bytes: usize,
}

impl Restore {
    /// A value for graphs that change nothing: no bytes and no annotations are restored.
    pub const NOTHING: Restore = Restore {
        bytes: 0,
        copies: false,
        annotations: false,
        annotations_read: false,
        headers_added: false,
        marked: None,
    };
}

/// The size in bytes of the pieces in which a packet's bytes are saved and restored: two moves of 16 bytes.
const PIECE: usize = 32;

/// The largest number of bytes of each packet that are saved in pieces. If elements write further, or
/// copies are needed, all bytes of the packets are saved as well.
const HEADERS: usize = 128;

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The distance, in packets, from the packet that is lent to the packet whose data is prefetched meanwhile;
/// large enough to hide the latency of memory.
const AHEAD: usize = 24;

/// The saved state of a packet, in one cache line. If writes to all packets stay inside their first 32 own
/// bytes, lending a packet reads nothing else of the store, except annotations if they are restored.
#[repr(C, align(64))]
struct Image {
    /// The packet's values; the field `run`, which need not be saved, holds the index of the slot instead. So
    /// an image fits into one cache line.
    saved: Values,
    /// The first own bytes of the packet; filled with zeros if it has fewer.
    front: [u8; PIECE],
}

impl Image {
    fn new(packet: &Packet, front: [u8; PIECE]) -> Image {
        let meta = packet.meta();
        Image { saved: Values { run: meta.index(), ..meta.values }, front }
    }

    /// Returns the index of the slot.
    #[inline]
    fn index(&self) -> u32 {
        self.saved.run
    }

    /// Returns the address at which the data of the packet starts.
    #[inline]
    fn data(&self, slots: Slots) -> *const u8 {
        slots.slot(self.index()).as_ptr().wrapping_add(self.saved.start as usize)
    }

    /// Returns the metadata values that the packet gets when it is lent.
    #[inline]
    fn values(&self) -> Values {
        Values { run: 0, ..self.saved }
    }
}

const _: () = assert!(size_of::<Image>() == 64 && HEADROOM + HEADERS <= SLOT_STRIDE);

/// Returns piece `number` of a packet's own bytes, filled with zeros after their end.
fn piece(own: &[u8], number: usize) -> [u8; PIECE] {
    let mut piece = [0; PIECE];
    let part = own.get(number * PIECE..).unwrap_or_default();
    piece.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
    piece
}

/// A store that owns packets and lends their slots. A packet on loan is an ordinary [`Packet`]; when it
/// ends, its slot returns to the store. Large packets are lent as copies from the pool. So are packets
/// whose slot is still on loan, if the store has saved all their bytes.
pub struct Store {
    /// The stored packets, all of one pool. While a slot is on loan, the handle here is a second handle to
    /// it, which is not used.
    packets: Vec<Packet>,
    images: Vec<Image>,
    restore: Restore,
    /// The number of own bytes (stripped bytes and data) that must be restored in the packet that needs
    /// most.
    farthest: usize,
    /// The number of own bytes (stripped bytes and data) of the longest packet.
    longest: usize,
    /// The saved pieces of all packets after the piece in `front`; each packet has the same number of
    /// pieces, [`pieces_behind`](Self::pieces_behind).
    behind: Vec<[u8; PIECE]>,
    /// All own bytes of all packets, one after the other; `None` if pieces are enough.
    bytes: Option<Vec<u8>>,
    /// The offset in `bytes` of each packet's first own byte; empty if there are no `bytes`.
    starts: Vec<usize>,
    /// The saved annotations of each packet; only one entry as long as all packets have the same
    /// annotations; empty if the pool does not use annotations.
    annotations: Vec<Annotations>,
    /// The highest index of a packet that was ever lent, plus one; 0 before the first loan.
    lent: usize,
    used: Used,
}

/// The parts of a packet that its borrower has used. They are recorded for one packet: the first packet of
/// the latest call that lent packets again, in its loan before that call. Elements usually use less than
/// their declarations allow. So the store prefetches the cache line of an added header, or of written
/// annotations, only if this borrower wrote it: a useless prefetch costs as much as waiting for a cache line.
#[derive(Clone, Copy)]
struct Used {
    /// True if the borrower wrote annotations of the packet.
    annotations_written: bool,
    /// True if the borrower added a header before the packet's data.
    headers_added: bool,
}

/// The cache lines that are prefetched for each packet beside its metadata and the start of its data.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Beside {
    /// True if the cache line before the data of the packet, where elements add headers, is prefetched.
    header: bool,
    /// True if the cache line of the packet's annotations is prefetched.
    annotations: bool,
    /// The address of the saved annotations of packet 0; `None` if saved annotations are not prefetched.
    saved: Option<*const Annotations>,
}

impl Beside {
    /// Prefetches the cache lines that `self` selects, for the packet with index `number`.
    #[inline]
    fn prefetch(self, number: usize, slots: Slots, image: &Image) {
        if self.header {
            prefetch_line(image.data(slots).wrapping_sub(1));
        }
        if self.annotations {
            prefetch_line(slots.annotations(image.index()).cast());
        }
        if let Some(saved) = self.saved {
            prefetch_line(saved.wrapping_add(number).cast());
        }
    }
}

impl Used {
    const NOTHING: Used = Used { annotations_written: false, headers_added: false };
}

impl Store {
    /// Makes an empty store. `restore` says which parts of packets the elements of the graph change, so that
    /// the store restores them.
    pub fn new(restore: Restore) -> Store {
        let full = restore.copies || restore.bytes > HEADERS;
        Store {
            packets: Vec::new(),
            images: Vec::new(),
            restore,
            farthest: 0,
            longest: 0,
            behind: Vec::new(),
            bytes: full.then(Vec::new),
            starts: Vec::new(),
            annotations: Vec::new(),
            lent: 0,
            used: Used { annotations_written: true, headers_added: true },
        }
    }

    /// Returns the number of packets in the store.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if the store has no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the time stamp with which packet `number` was stored; `None` if there is no such packet.
    pub fn time(&self, number: usize) -> Option<Timestamp> {
        self.images.get(number).map(|image| image.saved.time)
    }

    /// Adds a packet, without its flow mark, at the end. If the packet is on loan from a store, or belongs to
    /// another pool than `pool`, a copy of it is added. Returns false, and frees the packet, in three cases:
    /// there is no slot for the copy, no memory for the store's data, or the packets of the store belong to
    /// another pool.
    #[must_use]
    pub fn insert(&mut self, packet: Packet, pool: &mut Pool) -> bool {
        let ours = pool.owns(&packet) && packet.meta().owner.load(Ordering::Relaxed) == owner::POOL;
        let mut packet = if ours {
            packet
        } else {
            let copy = pool.copy(&packet);
            pool.free(packet);
            let Some(copy) = copy else { return false };
            copy
        };
        if self.packets.first().is_some_and(|first| !pool.owns(first)) {
            pool.free(packet);
            return false;
        }
        let length = packet.own_bytes().len();
        let reach = self.reach(&packet.meta().values).min(length);
        if !self.has_memory_for_another(length, reach) {
            pool.free(packet);
            return false;
        }
        // A flow may end before the packet is lent, so a flow mark is not stored; nor is a run.
        packet.set_flow_mark(None);
        packet.set_run(0);
        // Own bytes include stripped bytes, which can become part of the packet again and so must be saved.
        let own = packet.own_bytes();
        if let Some(bytes) = &mut self.bytes {
            self.starts.push(bytes.len());
            bytes.extend_from_slice(own);
        }
        let pieces_before = self.pieces_behind();
        self.longest = self.longest.max(own.len());
        self.farthest = self.farthest.max(self.reach(&packet.meta().values).min(own.len()));
        self.images.push(Image::new(&packet, piece(own, 0)));
        if self.pieces_behind() == pieces_before {
            self.behind.extend((1..=pieces_before).map(|number| piece(own, number)));
        } else {
            self.cut_again();
        }
        if pool.uses_annotations() {
            self.keep_annotations(packet.annotations());
            packet.meta().annotations.set(Standing::Stored);
        }
        // A large packet has the owner mark of the pool, so that its slots are never lent themselves: only
        // copies of it are.
        let mark = if packet.is_large() { owner::POOL } else { owner::STORE_HOME };
        packet.meta().owner.store(mark, Ordering::Relaxed);
        self.packets.push(packet);
        true
    }

    /// Reserves memory for saving another packet of `length` own bytes, of which the first `reach` must be
    /// restored. Returns false if there is no memory.
    fn has_memory_for_another(&mut self, length: usize, reach: usize) -> bool {
        // As long as all packets have equal annotations, `annotations` has a single entry. The first packet
        // with different annotations makes it grow to one entry per packet.
        let annotations = if self.annotations.len() == 1 { self.images.len() + 1 } else { 1 };
        let before = (self.longest, self.farthest);
        (self.longest, self.farthest) = (self.longest.max(length), self.farthest.max(reach));
        let pieces = (self.pieces_behind() * (self.images.len() + 1)).saturating_sub(self.behind.len());
        (self.longest, self.farthest) = before;
        self.bytes.as_mut().is_none_or(|bytes| bytes.try_reserve(length).is_ok())
            && self.starts.try_reserve(1).is_ok()
            && self.images.try_reserve(1).is_ok()
            && self.packets.try_reserve(1).is_ok()
            && self.behind.try_reserve(pieces).is_ok()
            && self.annotations.try_reserve(annotations).is_ok()
    }

    /// Adds the packets of a range to the end of a batch, in order and in their stored state. Stops if the
    /// batch is full, or at a packet of which a copy is necessary but cannot be made. Returns the number of
    /// packets lent.
    #[inline]
    pub fn lend_into(&mut self, range: Range<usize>, pool: &mut Pool, batch: &mut Batch) -> usize {
        let end = range.end.min(self.len());
        let mut next = range.start.min(end);
        while next < end && !batch.is_full() {
            let (lent, used) = self.lend_slots(next, end, batch);
            if (1..=self.lent.saturating_sub(next)).contains(&lent) {
                self.used = used;
            }
            next += lent;
            self.lent = self.lent.max(next);
            // The slot at `next` is still on loan, or its packet is large; a copy may allow the loop to
            // continue.
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

    /// Lends slots from packet `start` on. Ends at packet `end`, when the batch is full, or at the first
    /// packet that is large or whose slot is still on loan. Returns the number of packets lent, and the parts
    /// of the first packet that its previous borrower has used.
    #[inline]
    fn lend_slots(&self, start: usize, end: usize, batch: &mut Batch) -> (usize, Used) {
        let range = (start, end, batch);
        if self.is_far() {
            let beside = self.beside();
            return self.lend_slots_with(
                range,
                |number, slots, ahead| {
                    prefetch_line(ahead.data(slots));
                    beside.prefetch(number, slots, ahead);
                },
                |number, _, _, loan| self.put_back(number, loan),
            );
        }
        // The number of pieces to restore is the same for all packets, so the loop over the packets is
        // compiled once for each number of pieces.
        match self.farthest.div_ceil(PIECE) {
            0 => self.lend_pieces::<0>(range),
            1 => self.lend_pieces::<1>(range),
            2 => self.lend_pieces::<2>(range),
            3 => self.lend_pieces::<3>(range),
            _ => self.lend_pieces::<4>(range),
        }
    }

    /// Lends slots like [`lend_slots`](Self::lend_slots), and restores `PIECES` pieces of each packet.
    #[inline]
    fn lend_pieces<const PIECES: usize>(&self, range: (usize, usize, &mut Batch)) -> (usize, Used) {
        let beside = self.beside();
        match (beside == Beside::default(), self.restore.annotations) {
            (true, false) => self.lend_headers::<PIECES, false>(range, |_, _, _| ()),
            (true, true) => self.lend_headers::<PIECES, true>(range, |_, _, _| ()),
            (false, _) => self.lend_headers::<PIECES, true>(range, |number, slots, ahead| {
                beside.prefetch(number, slots, ahead);
            }),
        }
    }

    /// Lends slots like [`lend_pieces`](Self::lend_pieces), and prefetches more lines with `beside`. If
    /// `RESTORES_ANNOTATIONS` is true, annotations are restored.
    #[inline]
    fn lend_headers<const PIECES: usize, const RESTORES_ANNOTATIONS: bool>(
        &self,
        range: (usize, usize, &mut Batch),
        beside: impl Fn(usize, Slots, &Image),
    ) -> (usize, Used) {
        let step = self.pieces_behind();
        self.lend_slots_with(
            range,
            |number, slots, ahead| {
                prefetch_line(ahead.data(slots));
                beside(number, slots, ahead);
                if PIECES > 1 {
                    prefetch_line(self.behind.as_ptr().wrapping_add(number * step).cast());
                }
                if PIECES * PIECE > LINE {
                    let last = ahead.saved.own as usize + PIECES * PIECE - 1;
                    prefetch_line(slots.slot(ahead.index()).as_ptr().wrapping_add(last));
                }
            },
            |number, image, own, loan| {
                if PIECES > 0 {
                    // SAFETY: `own` points to `HEADERS` bytes of the slot that is being lent.
                    unsafe { own.write(image.front) };
                }
                let behind = self.behind.as_ptr().wrapping_add(number * step);
                for i in 0..PIECES.saturating_sub(1) {
                    // SAFETY: `own` points to `HEADERS` bytes of the slot that is being lent, and `behind`
                    // has all pieces of each packet up to `farthest`.
                    unsafe { own.add(1 + i).write(*behind.add(i)) };
                }
                if RESTORES_ANNOTATIONS && loan.meta().annotations.get() != Standing::Stored {
                    self.put_annotations_back(number, loan);
                }
            },
        )
    }

    /// Returns the cache lines that should be prefetched for each packet in addition to its metadata and the
    /// start of its data: lines that elements use according to their declarations, and that the last
    /// borrowers did use.
    #[inline]
    fn beside(&self) -> Beside {
        let Restore { headers_added, annotations_read, annotations, .. } = self.restore;
        let are_written = self.used.annotations_written;
        Beside {
            header: headers_added && self.used.headers_added,
            // `used` only shows writes, so that annotations which are only read are always prefetched.
            annotations: annotations_read && (are_written || !annotations),
            saved: (annotations && are_written && self.annotations.len() > 1)
                .then_some(self.annotations.as_ptr()),
        }
    }

    /// Restores the annotations of packet `number`, unless they still are as stored or the store restores no
    /// annotations.
    #[inline(never)]
    fn put_annotations_back(&self, number: usize, packet: &mut Packet) {
        if self.restore.annotations
            && packet.meta().annotations.get() != Standing::Stored
            && let Some(annotations) = self.annotations_of(number)
        {
            packet.annotations_mut().clone_from(annotations);
            packet.meta().annotations.set(Standing::Stored);
        }
    }

    #[inline]
    fn annotations_of(&self, number: usize) -> Option<&Annotations> {
        self.annotations.get(number).or(self.annotations.first())
    }

    /// Saves the annotations of the packet that was added last. The first packet with different annotations
    /// makes the list grow to one entry per packet.
    fn keep_annotations(&mut self, annotations: &Annotations) {
        if let [first] = &self.annotations[..] {
            if first == annotations {
                return;
            }
            let first = first.clone();
            self.annotations.resize(self.images.len() - 1, first);
        }
        self.annotations.push(annotations.clone());
    }

    /// Lends slots like [`lend_slots`](Self::lend_slots). `prefetch` is called for the packet whose number
    /// (index) is greater by `AHEAD`, with this number and its image; beyond the last packet, with a number
    /// that no packet has and the image of the last packet. `put_back` restores the packet that is lent; it
    /// gets the packet's number and image, a pointer to its first own byte, and the packet itself.
    ///
    /// The parts that borrowers have used are taken from the first packet lent: one packet is enough for a
    /// hint.
    #[inline]
    fn lend_slots_with(
        &self,
        (start, end, batch): (usize, usize, &mut Batch),
        prefetch: impl Fn(usize, Slots, &Image),
        put_back: impl Fn(usize, &Image, *mut [u8; PIECE], &mut Packet),
    ) -> (usize, Used) {
        let mut used = Used::NOTHING;
        let Some(first) = self.packets.first() else { return (0, used) };
        let slots = first.home().slots();
        let mut lent = 0;
        let images = self.images.as_ptr();
        let last = images.wrapping_add(self.images.len() - 1);
        for (place, image) in batch.room().iter_mut().zip(&self.images[start..end]) {
            let number = start + lent;
            // The images are prefetched explicitly: while packet data streams through the caches, the
            // processor does not prefetch even arrays that are read in order.
            prefetch_line(ptr::from_ref(image).wrapping_add(2 * AHEAD).cast());
            // SAFETY: the address is that of an image of the vector: at most that of the last one.
            let next = unsafe { &*images.wrapping_add(number + AHEAD).min(last) };
            prefetch_line(slots.meta(next.index()).cast());
            prefetch(number + AHEAD, slots, next);
            let meta = slots.meta(image.index());
            // Acquire: all accesses of the last borrower to the slot have happened.
            // SAFETY: the metadata lives as long as the pool, and atomics may be shared.
            let mark = unsafe { AtomicU8::from_ptr((&raw mut (*meta).owner).cast()) };
            if mark.load(Ordering::Acquire) != owner::STORE_HOME {
                break;
            }
            mark.store(owner::STORE_OUT, Ordering::Relaxed);
            // SAFETY: the slot has been returned, so nothing else refers to its metadata; the values describe
            // the same slot. `own` starts at `HEADROOM`, or where a device put the packet, which is at most
            // `LAST_START`, and only falls, so that at least `HEADERS` bytes of the slot follow it. The
            // packet on loan is a second handle to the slot: the first handle stays in the store, which does
            // not access the slot again until the mark says that the packet has been returned.
            let (mut loan, own) = unsafe {
                if lent == 0 {
                    used.annotations_written = (*meta).annotations.get() == Standing::Any;
                    used.headers_added = (*meta).values.own < image.saved.own;
                }
                (*meta).has_destination.set(false);
                (&raw mut (*meta).values).copy_from_nonoverlapping(&raw const image.saved, 1);
                (&raw mut (*meta).values.run).write(0);
                (&raw mut (*meta).length).write(u32::from(image.saved.head));
                (Packet(NonNull::new_unchecked(meta)), (*meta).base.add(image.saved.own as usize))
            };
            put_back(number, image, own.as_ptr().cast(), &mut loan);
            place.write(loan);
            lent += 1;
        }
        // SAFETY: each of the first `lent` free places of the batch has just been written.
        unsafe { batch.grow(lent) };
        (lent, used)
    }

    /// Returns the number of bytes, from the packet's first own byte on, within which elements may write.
    #[inline]
    fn reach(&self, packet: &Values) -> usize {
        let Some(marked) = self.restore.marked else { return self.restore.bytes };
        if packet.transport == NO_OFFSET {
            return marked.bytes.min(self.restore.bytes);
        }
        // For a transport header before the first own byte, the start counts as 0: writes relative to the
        // header then end before `transport_bytes`, so that the sum is large enough.
        let start = (packet.transport as usize).saturating_sub(packet.own as usize);
        marked.bytes.max(start + marked.transport_bytes).min(self.restore.bytes)
    }

    /// True if elements write beyond the bytes that pieces can hold, and some packet is long enough for
    /// this to matter. Whole packets are restored then.
    #[inline]
    fn is_far(&self) -> bool {
        self.restore.bytes > HEADERS && self.longest > HEADERS
    }

    /// Returns the number of pieces in `behind` for each packet; 0 if the piece in `front` is enough, or if
    /// whole packets are restored from `bytes`.
    #[inline]
    fn pieces_behind(&self) -> usize {
        let end = match self.restore.bytes {
            _ if self.is_far() => 0,
            far if far > HEADERS => self.longest,
            near => near,
        };
        end.div_ceil(PIECE).saturating_sub(1)
    }

    /// Saves the pieces of all packets again after their number per packet has changed, because a longer
    /// packet was added.
    #[cold]
    fn cut_again(&mut self) {
        let pieces = self.pieces_behind();
        // `has_memory_for_another` has reserved memory for all pieces.
        let mut behind = std::mem::take(&mut self.behind);
        behind.clear();
        let of_one = |number| {
            let own = self.kept(number).unwrap_or_default();
            (1..=pieces).map(move |number| piece(own, number))
        };
        behind.extend((0..self.images.len()).flat_map(of_one));
        self.behind = behind;
    }

    /// Restores all own bytes of packet `number`, and its annotations if the store restores annotations.
    #[cold]
    fn put_back(&self, number: usize, packet: &mut Packet) {
        if let Some(bytes) = self.kept(number) {
            packet.own_bytes_mut().copy_from_slice(bytes);
        }
        self.put_annotations_back(number, packet);
    }

    /// Returns the own bytes of packet `number` as they were when the packet was put into the store.
    /// Returns `None` if there is no such packet, or if the store keeps only the first bytes of packets
    /// ([`HEADERS`]).
    fn kept(&self, number: usize) -> Option<&[u8]> {
        let start = *self.starts.get(number)?;
        let values = self.images.get(number)?.values();
        let length = values.start as usize + values.head as usize - values.own as usize;
        self.bytes.as_ref()?.get(start..start + length)
    }

    /// Makes a copy of a large packet, or of a packet whose slot is still on loan. Returns `None` if there
    /// is no such packet, if its bytes are not saved, or if the pool is empty.
    #[cold]
    fn lend_copy(&mut self, number: usize, pool: &mut Pool) -> Option<Packet> {
        let stored = self.packets.get(number)?;
        if owner_of(stored).load(Ordering::Relaxed) == owner::POOL {
            return pool.copy(stored);
        }
        // The slot belongs to the borrower, which may be writing to it on another thread: only saved bytes
        // may be read.
        let kept = self.kept(number)?;
        let mut packet = pool.allocate()?;
        // The offsets of the stored packet are valid in the copy, because all slots have the same size.
        let (meta, values) = (packet.meta_mut(), self.images.get(number)?.values());
        meta.values = values;
        meta.length = u32::from(values.head);
        packet.own_bytes_mut().copy_from_slice(kept);
        if let Some(annotations) = self.annotations_of(number) {
            packet.annotations_mut().clone_from(annotations);
        }
        Some(packet)
    }

    /// Removes all packets, and returns their number. Slots that are not on loan are freed into `pool`; a
    /// slot on loan returns to its pool when its packet ends.
    pub fn release(&mut self, pool: &mut Pool) -> usize {
        let count = self.packets.len();
        for packet in self.packets.drain(..) {
            if let Some(packet) = take_back(packet) {
                pool.free(packet);
            }
        }
        self.images.clear();
        (self.farthest, self.longest) = (0, 0);
        self.behind.clear();
        self.bytes.iter_mut().for_each(Vec::clear);
        self.starts.clear();
        self.annotations.clear();
        self.lent = 0;
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

/// Returns the owner mark of a stored packet, without borrowing the other metadata, which a borrower may be
/// writing.
#[inline]
fn owner_of(packet: &Packet) -> &AtomicU8 {
    // SAFETY: the metadata lives as long as the handle, and atomics may be shared.
    unsafe { AtomicU8::from_ptr((&raw mut (*packet.0.as_ptr()).owner).cast()) }
}

/// Turns a stored packet into an ordinary packet of its pool. If the packet is on loan, returns `None`: the
/// slot goes to the pool when the borrower's packet ends. If it ends on another thread at this very moment,
/// the slot is lost: it is never used again.
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
mod tests;
