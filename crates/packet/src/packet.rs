//! The packet: its owned handle, and access to its bytes, offsets and annotations.

use std::mem::offset_of;
use std::num::NonZeroU64;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::annotations::Annotations;
use crate::list::{Chunks, give_back_list};
use crate::memory::{Meta, SharedPool};
use crate::slot::{Base, ETHERNET, NO_OFFSET, PacketKind, RIGHT_CHECKSUM, SLOT_STRIDE, Standing, Values};
use crate::time::Timestamp;

/// An owned packet. It can be moved between threads but not cloned; a copy must be made with
/// [`Pool::copy`](crate::Pool::copy), because it takes a slot. A handle that is dropped without
/// [`Pool::free`](crate::Pool::free) counts as leaked, and debug builds panic.
#[repr(transparent)]
pub struct Packet(pub(crate) NonNull<Meta>);

/// The offsets of a packet's data and headers in its slot, and its link type: see [`Packet::offsets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    start: u16,
    headers: [u16; 4],
}

// SAFETY: a `Packet` is the only owner of its slot, metadata and annotations, none of which refers to a
// thread.
unsafe impl Send for Packet {}

impl Packet {
    #[inline]
    pub(crate) fn meta(&self) -> &Meta {
        // SAFETY: the handle owns the slot, whose metadata lives as long as the pool's memory, and that
        // lives until every packet has been returned.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: the metadata is valid, as in `meta`; the handle is the only owner, so the borrow is
        // exclusive.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    pub(crate) fn home(&self) -> &SharedPool {
        // SAFETY: `SharedPool` outlives its packets (see `Pool::drop`). Only this field is read, because a
        // store calls this for packets on loan, whose other metadata another thread may be writing.
        unsafe { SharedPool::of((&raw const (*self.0.as_ptr()).home).read()) }
    }

    /// Returns a number of the packet's first slot that no other packet of this process has until this packet
    /// is freed.
    #[inline]
    pub fn slot(&self) -> usize {
        self.0.addr().get()
    }

    /// Returns the number of bytes of the whole packet, in all its slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.meta().length as usize
    }

    /// True if the packet has no bytes at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.meta().length == 0
    }

    /// True if the packet is a list of several slots; [`data`](Self::data) then shows only the bytes in the
    /// first slot.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.meta().has_next()
    }

    /// Returns the packet's bytes in its first slot: the whole packet, or the first part of a large packet.
    /// This part usually contains all headers
    /// ([`DropReason::HeadersSplit`](crate::DropReason::HeadersSplit) if not).
    #[inline]
    pub fn data(&self) -> &[u8] {
        let meta = self.meta();
        // SAFETY: `start + head` never exceeds the slot (kept by every method that changes them), slots are
        // initialised memory, and the handle owns the slot.
        unsafe {
            slice::from_raw_parts(
                meta.base.as_ptr().add(meta.values.start as usize),
                meta.values.head as usize,
            )
        }
    }

    /// Returns the packet's bytes in its first slot, writable; see [`data`](Self::data).
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let meta = self.meta();
        // SAFETY: the data lies inside the slot, which the handle owns (as in `data`), and the borrow is
        // exclusive.
        unsafe {
            slice::from_raw_parts_mut(
                meta.base.as_ptr().add(meta.values.start as usize),
                meta.values.head as usize,
            )
        }
    }

    /// Returns the `N` bytes from offset `place` of the packet's data on, if they lie inside the first
    /// slot; otherwise `None`.
    ///
    /// Bytes after the packet's end are meaningless. The function is meant for reads of a fixed number of
    /// bytes, if the bytes that matter are known to exist: it checks against the slot's end only.
    #[inline(always)]
    pub fn slot_bytes<const N: usize>(&self, place: usize) -> Option<&[u8; N]> {
        let at = self.slot_place::<N>(place)?;
        // SAFETY: the bytes lie inside the slot, which is initialised memory that the handle owns.
        Some(unsafe { &*self.meta().base.as_ptr().add(at).cast() })
    }

    /// Returns the bytes that [`slot_bytes`](Self::slot_bytes) returns, writable. Bytes after the packet's
    /// end must not be changed.
    #[inline(always)]
    pub fn slot_bytes_mut<const N: usize>(&mut self, place: usize) -> Option<&mut [u8; N]> {
        let at = self.slot_place::<N>(place)?;
        // SAFETY: the bytes lie inside the slot, which the handle owns (as in `slot_bytes`), and the borrow
        // is exclusive.
        Some(unsafe { &mut *self.meta().base.as_ptr().add(at).cast() })
    }

    /// Returns `length` bytes of the first slot, from the packet's first byte on; `None` if the slot has
    /// fewer. Bytes after the packet's end are meaningless.
    #[inline]
    pub fn slot_window(&self, length: usize) -> Option<&[u8]> {
        let start = self.meta().values.start as usize;
        // SAFETY: as in `slot_bytes`.
        (length <= SLOT_STRIDE - start)
            .then(|| unsafe { slice::from_raw_parts(self.meta().base.as_ptr().add(start), length) })
    }

    /// Returns the bytes that [`slot_window`](Self::slot_window) returns, writable. Bytes after the
    /// packet's end must not be changed.
    #[inline]
    pub fn slot_window_mut(&mut self, length: usize) -> Option<&mut [u8]> {
        let start = self.meta().values.start as usize;
        // SAFETY: the bytes lie inside the slot, which the handle owns (as in `slot_bytes`), and the borrow
        // is exclusive.
        (length <= SLOT_STRIDE - start)
            .then(|| unsafe { slice::from_raw_parts_mut(self.meta().base.as_ptr().add(start), length) })
    }

    /// Returns the offset in the slot of the `N` bytes that start at offset `place` of the packet's data;
    /// `None` if they extend beyond the slot's end.
    #[inline(always)]
    fn slot_place<const N: usize>(&self, place: usize) -> Option<usize> {
        let at = place.checked_add(self.meta().values.start as usize)?;
        (at <= const { SLOT_STRIDE - N }).then_some(at)
    }

    /// Returns the number of bytes from the packet's first byte to the end of its first slot, including
    /// bytes after the packet's end.
    #[inline]
    pub fn slot_rest(&self) -> usize {
        SLOT_STRIDE - self.meta().values.start as usize
    }

    /// Returns the stripped bytes and the data after them, in the first slot: all bytes that have ever been
    /// part of the packet and not been cut off at its end.
    #[inline]
    pub(crate) fn own_bytes(&self) -> &[u8] {
        let meta = self.meta();
        let end = meta.values.start as usize + meta.values.head as usize;
        // SAFETY: `own <= start`, and the data ends inside the slot, which the handle owns (as in `data`).
        unsafe {
            slice::from_raw_parts(
                meta.base.as_ptr().add(meta.values.own as usize),
                end - meta.values.own as usize,
            )
        }
    }

    /// Returns the stripped bytes and the data after them, writable; see [`own_bytes`](Self::own_bytes).
    #[inline]
    pub(crate) fn own_bytes_mut(&mut self) -> &mut [u8] {
        let meta = self.meta();
        let end = meta.values.start as usize + meta.values.head as usize;
        // SAFETY: the bytes lie inside the slot, which the handle owns (as in `own_bytes`), and the borrow is
        // exclusive.
        unsafe {
            slice::from_raw_parts_mut(
                meta.base.as_ptr().add(meta.values.own as usize),
                end - meta.values.own as usize,
            )
        }
    }

    /// Returns an iterator over the packet's bytes: one slice per slot, in order.
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks::new(self.meta())
    }

    /// Copies bytes from `offset` in the packet on into `to`, across slot borders. Returns the number of
    /// bytes copied: fewer than the length of `to` if the packet ends before.
    pub fn read_at(&self, mut offset: usize, to: &mut [u8]) -> usize {
        let mut done = 0;
        for chunk in self.chunks() {
            if offset >= chunk.len() {
                offset -= chunk.len();
                continue;
            }
            let n = (chunk.len() - offset).min(to.len() - done);
            to[done..done + n].copy_from_slice(&chunk[offset..offset + n]);
            (done, offset) = (done + n, 0);
            if done == to.len() {
                break;
            }
        }
        done
    }

    /// Overwrites bytes from `offset` in the packet on with `from`, across slot borders. Returns the number
    /// of bytes written: bytes of `from` that would lie beyond the packet's end are ignored.
    pub fn write_at(&mut self, mut offset: usize, from: &[u8]) -> usize {
        let (mut done, mut at) = (0, Some(self.0));
        while let Some(slot) = at.filter(|_| done < from.len()) {
            // SAFETY: the handle owns the slots of its list.
            let meta = unsafe { slot.as_ref() };
            at = meta.next();
            let length = usize::from(meta.values.head);
            if offset >= length {
                offset -= length;
                continue;
            }
            let n = (length - offset).min(from.len() - done);
            // SAFETY: the range lies inside the slot's data, and nothing else refers to the data while the
            // handle is borrowed.
            unsafe {
                let to = meta.base.as_ptr().add(usize::from(meta.values.start) + offset);
                ptr::copy_nonoverlapping(from.as_ptr().add(done), to, n);
            }
            (done, offset) = (done + n, 0);
        }
        done
    }

    /// Returns the number of bytes in the first slot before the data, to which the packet can grow at its
    /// front.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.meta().values.start as usize
    }

    /// Returns the number of bytes after the data in the first slot, to which the packet can grow at its
    /// end; 0 for a large packet.
    pub fn tailroom(&self) -> usize {
        let meta = self.meta();
        if meta.has_next() { 0 } else { SLOT_STRIDE - meta.values.start as usize - meta.values.head as usize }
    }

    /// Removes `n` bytes from the front of the packet. Returns false, and does nothing, if the first slot
    /// has fewer bytes.
    #[inline]
    #[must_use]
    pub fn strip(&mut self, n: usize) -> bool {
        let meta = self.meta_mut();
        if n > meta.values.head as usize {
            return false;
        }
        meta.values.start += n as u16;
        meta.values.head -= n as u16;
        meta.length -= n as u32;
        true
    }

    /// Adds the `n` bytes that lie before the data in the slot to the packet, with their present values.
    /// Stripped bytes become part of the packet again; bytes before them are meaningless. Returns false,
    /// and does nothing, if there are fewer than `n` bytes before the data.
    #[inline]
    #[must_use]
    pub fn unstrip(&mut self, n: usize) -> bool {
        let meta = self.meta_mut();
        if n > meta.values.start as usize {
            return false;
        }
        meta.values.start -= n as u16;
        meta.values.own = meta.values.own.min(meta.values.start);
        meta.values.head += n as u16;
        meta.length += n as u32;
        true
    }

    /// Adds a header before the data. Returns false, and does nothing, if the headroom is too small.
    #[inline]
    #[must_use]
    pub fn prepend<const N: usize>(&mut self, header: &[u8; N]) -> bool {
        if !self.unstrip(N) {
            return false;
        }
        let meta = self.meta();
        // SAFETY: the data has just grown by `N` bytes at its start, inside the slot that the handle owns.
        unsafe { meta.base.add(meta.values.start as usize).cast::<[u8; N]>().write(*header) };
        true
    }

    /// Returns the number of stripped bytes: bytes right before the data that have been part of the packet.
    pub fn stripped(&self) -> usize {
        let meta = self.meta();
        meta.values.start.saturating_sub(meta.values.own) as usize
    }

    /// Adds the `n` bytes that lie after the data in the slot to the packet, with their present values.
    /// Returns false, and does nothing, if the first slot has fewer bytes after the data or the packet is
    /// large.
    #[must_use]
    pub fn extend(&mut self, n: usize) -> bool {
        if n > self.tailroom() {
            return false;
        }
        let meta = self.meta_mut();
        meta.values.head += n as u16;
        meta.length += n as u32;
        true
    }

    /// Cuts the packet to its first `length` bytes; does nothing if it is not longer. Slots that are no
    /// longer needed are returned to their pools or stores.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.cut(length);
        }
    }

    /// Cuts the packet to `length` bytes, which must be less than its length.
    #[cold]
    fn cut(&mut self, length: usize) {
        if self.is_large() {
            return self.truncate_large(length);
        }
        let meta = self.meta_mut();
        meta.values.head = length as u16;
        meta.length = length as u32;
    }

    #[cold]
    fn truncate_large(&mut self, length: usize) {
        let mut left = length;
        let mut at = self.0;
        // SAFETY: the handle owns every slot of its list, so their metadata may be read and written.
        unsafe {
            while left > at.as_ref().values.head as usize
                && let Some(next) = at.as_ref().next()
            {
                left -= at.as_ref().values.head as usize;
                at = next;
            }
            let rest = at.as_ref().next();
            let last = at.as_mut();
            last.values.head = left as u16;
            last.end();
            give_back_list(rest, None);
        }
        self.meta_mut().length = length as u32;
    }

    /// Returns the packet's time stamp; zero if it has none.
    #[inline]
    pub fn time(&self) -> Timestamp {
        self.meta().values.time
    }

    /// Sets the packet's time stamp; zero means that it has none.
    #[inline]
    pub fn set_time(&mut self, time: Timestamp) {
        self.meta_mut().values.time = time;
    }

    /// Returns the number of the device or input that the packet came from; 0 by default.
    pub fn port(&self) -> u8 {
        self.meta().values.port
    }

    /// Sets the number of the device or input that the packet came from.
    pub fn set_port(&mut self, port: u8) {
        self.meta_mut().values.port = port;
    }

    /// Returns the link type number of pcap for the header with which the packet started when it was received
    /// or made, or when an element last added an Ethernet header; 1 (Ethernet) by default. Stripping bytes
    /// does not change the number.
    pub fn link(&self) -> u16 {
        self.meta().values.link
    }

    /// Sets the pcap link type number of the header with which the packet starts now.
    pub fn set_link(&mut self, link: u16) {
        self.meta_mut().values.link = link;
    }

    /// Returns Click's packet type annotation: the kind of destination or origin on the link layer.
    pub fn kind(&self) -> PacketKind {
        PacketKind::from_number(self.meta().values.kind & !RIGHT_CHECKSUM)
    }

    /// Sets Click's packet type annotation.
    pub fn set_kind(&mut self, kind: PacketKind) {
        let values = &mut self.meta_mut().values;
        values.kind = kind as u8 | values.kind & RIGHT_CHECKSUM;
    }

    /// True if the transport checksum of the packet, after its first network header, was found right by the
    /// interface that received the packet, or was computed there. False by default. An element may have
    /// changed the packet since then: elements ask `GraphView::trusts_checksums` if they can rely on the bit.
    #[inline]
    pub fn has_right_checksum(&self) -> bool {
        self.meta().values.kind & RIGHT_CHECKSUM != 0
    }

    /// Marks the transport checksum after the first network header as right (true) or unknown (false).
    #[inline]
    pub fn set_right_checksum(&mut self, is_right: bool) {
        let values = &mut self.meta_mut().values;
        values.kind = values.kind & !RIGHT_CHECKSUM | if is_right { RIGHT_CHECKSUM } else { 0 };
    }

    /// Returns the flow mark: a number by which elements downstream find the packet's flow without a
    /// look-up. `None` if it is not set.
    #[inline]
    pub fn flow_mark(&self) -> Option<NonZeroU64> {
        let meta = self.meta();
        match meta.values.flow {
            0 => None,
            upper => NonZeroU64::new(u64::from(upper) << 32 | u64::from(meta.next_free)),
        }
    }

    /// Sets the flow mark, by which elements downstream find the packet's flow. `None`, or a mark whose
    /// upper 32 bits are zero, unsets it.
    #[inline]
    pub fn set_flow_mark(&mut self, mark: Option<NonZeroU64>) {
        let mark = mark.map_or(0, NonZeroU64::get);
        let meta = self.meta_mut();
        (meta.values.flow, meta.next_free) = ((mark >> 32) as u32, mark as u32);
    }

    /// Returns the packet's run: packets of one batch with the same run belong to the same flow. 0 if the run
    /// is not known.
    #[inline]
    pub fn run(&self) -> u32 {
        self.meta().values.run
    }

    /// Sets the packet's run; 0 unsets it.
    #[inline]
    pub fn set_run(&mut self, run: u32) {
        self.meta_mut().values.run = run;
    }

    /// Returns the offsets of the packet's data and headers in its slot, and its link type, to be compared
    /// with those of another packet.
    #[inline]
    pub fn offsets(&self) -> Offsets {
        let values = &self.meta().values;
        let first = ptr::from_ref(values).wrapping_byte_add(const { offset_of!(Values, mac) });
        // SAFETY: `Values` has the layout of C, so the offsets of the headers and the link type are four
        // adjacent numbers in it; they are read as one.
        Offsets { start: values.start, headers: unsafe { first.cast::<[u16; 4]>().read() } }
    }

    /// Returns the `N` bytes of the slot from offset `place` of the network header on; `None` if the offset
    /// of the network header is not set, or the slot ends before. As in [`slot_bytes`](Self::slot_bytes),
    /// bytes after the packet's end are meaningless.
    #[inline(always)]
    pub fn network_bytes<const N: usize>(&self, place: usize) -> Option<&[u8; N]> {
        let meta = self.meta();
        // An unset offset is greater than every offset in a slot.
        let at = usize::from(meta.values.network) + place;
        // SAFETY: as in `slot_bytes`.
        (at <= const { SLOT_STRIDE - N }).then(|| unsafe { &*meta.base.as_ptr().add(at).cast() })
    }

    /// True if the packet's network header is marked directly after an Ethernet header without tags, whose
    /// type is IPv4 and which is at the start of the bytes that the packet had when it was received or made.
    /// So the frame and the mark name the same header.
    #[inline]
    pub fn is_marked_in_frame(&self) -> bool {
        const TYPE: usize = 12;
        const LENGTH: u16 = 14;
        let meta = self.meta();
        let (own, network) = (meta.values.own, meta.values.network);
        // An unset offset is greater than every offset in a slot.
        if network != own.wrapping_add(LENGTH) || meta.values.link != ETHERNET || network == NO_OFFSET {
            return false;
        }
        // SAFETY: as in `slot_bytes`. The type ends at the network header, which lies inside the slot.
        let kind: [u8; 2] =
            unsafe { meta.base.as_ptr().add(usize::from(own) + TYPE).cast::<[u8; 2]>().read() };
        kind == [0x08, 0x00]
    }

    /// Returns the offset in bytes of the header of `base` from the first byte of the data; negative if the
    /// header was stripped. Returns `None` if the header annotation is not set.
    #[inline]
    pub fn offset(&self, base: Base) -> Option<isize> {
        let meta = self.meta();
        let offset = match base {
            Base::Data => return Some(0),
            Base::Mac => meta.values.mac,
            Base::Network => meta.values.network,
            Base::Transport => meta.values.transport,
        };
        (offset != NO_OFFSET).then(|| offset as isize - meta.values.start as isize)
    }

    /// Sets the offset in bytes of the header of `base` from the first byte of the data; the offset may be
    /// negative. `None`, or an offset outside the first slot, unsets it. `Base::Data` is ignored, because
    /// its offset is always 0.
    #[inline]
    pub fn set_offset(&mut self, base: Base, offset: Option<isize>) {
        let meta = self.meta_mut();
        let value = match offset {
            Some(offset) => {
                let place = offset.checked_add(meta.values.start as isize);
                match place.filter(|place| (0..=SLOT_STRIDE as isize).contains(place)) {
                    Some(place) => place as u16,
                    None => NO_OFFSET,
                }
            }
            None => NO_OFFSET,
        };
        match base {
            Base::Data => {}
            Base::Mac => meta.values.mac = value,
            Base::Network => meta.values.network = value,
            Base::Transport => meta.values.transport = value,
        }
    }

    /// Sets the offsets in bytes of the network and transport headers from the first byte of the data.
    /// Unlike [`set_offset`](Self::set_offset), it checks nothing in release builds: both headers must
    /// start inside the data in the first slot, or at its end.
    #[inline]
    pub fn set_headers(&mut self, network: usize, transport: usize) {
        let meta = self.meta_mut();
        debug_assert!(network.max(transport) <= meta.values.head as usize);
        meta.values.network = meta.values.start.wrapping_add(network as u16);
        meta.values.transport = meta.values.start.wrapping_add(transport as u16);
    }

    /// Sets the link header annotation to the first byte of the data, and the network header annotation to
    /// `length` bytes after it. The network header is unset if it would start beyond the slot.
    #[inline]
    pub fn set_link_header(&mut self, length: usize) {
        let meta = self.meta_mut();
        meta.values.mac = meta.values.start;
        let network = length.saturating_add(meta.values.start as usize);
        meta.values.network = if network <= SLOT_STRIDE { network as u16 } else { NO_OFFSET };
    }

    /// Returns the bytes from the start of the header of `base` to the end of the data in the first slot.
    /// Stripped headers are included. Returns `None` if the header annotation is not set or lies after the
    /// end of the data.
    #[inline]
    pub fn header(&self, base: Base) -> Option<&[u8]> {
        let (start, end) = self.header_range(base)?;
        // SAFETY: `start <= end`, both inside the slot, as in `data`.
        Some(unsafe { slice::from_raw_parts(self.meta().base.as_ptr().add(start), end - start) })
    }

    /// Returns the bytes that [`header`](Self::header) returns, writable.
    #[inline]
    pub fn header_mut(&mut self, base: Base) -> Option<&mut [u8]> {
        let (start, end) = self.header_range(base)?;
        // SAFETY: `start <= end`, both inside the slot, as in `header`, and the borrow is exclusive.
        Some(unsafe { slice::from_raw_parts_mut(self.meta().base.as_ptr().add(start), end - start) })
    }

    /// Returns the first `N` bytes of the header of `base`, writable. Returns `None` if the header
    /// annotation is not set or fewer than `N` bytes follow; one comparison checks both.
    #[inline]
    pub fn header_chunk_mut<const N: usize>(&mut self, base: Base) -> Option<&mut [u8; N]> {
        let meta = self.meta();
        let start = meta.values.place(base);
        let (start, end) = (start as usize, meta.values.start as usize + meta.values.head as usize);
        // `NO_OFFSET` is greater than the end of any data, so that an unset header is refused, too.
        if start + N > end {
            return None;
        }
        // SAFETY: `start + N <= end`, inside the slot as in `data`, and the borrow is exclusive.
        Some(unsafe { meta.base.add(start).cast::<[u8; N]>().as_mut() })
    }

    /// True if the annotation of the header of `base` is set, and at least `length` bytes of the data in the
    /// first slot follow from there on.
    #[inline]
    pub fn reaches(&self, base: Base, length: usize) -> bool {
        let values = &self.meta().values;
        // `NO_OFFSET` is greater than the end of any data, so that the result is false for an unset header.
        usize::from(values.place(base)) + length <= usize::from(values.start) + usize::from(values.head)
    }

    /// True if both header annotations are set, and the transport header lies `length` bytes after the
    /// network header. `length` is the length of a network header, at least 1 and less than 256.
    #[inline]
    pub fn transport_follows_network(&self, length: usize) -> bool {
        debug_assert!((1..256).contains(&length));
        let Values { network, transport, .. } = self.meta().values;
        // An unset offset is greater than every sum of an offset in a slot and a length of a header.
        network as usize + length == transport as usize
    }

    /// True if the network header annotation is set, and lies at most `length` bytes after the link header
    /// annotation or, without that annotation, after the start of the data.
    #[inline]
    pub fn link_header_ends_within(&self, length: usize) -> bool {
        let Values { start, mac, network, .. } = self.meta().values;
        let link = if mac == NO_OFFSET { start } else { mac };
        usize::from(network) <= usize::from(link) + length && network != NO_OFFSET
    }

    #[inline]
    fn header_range(&self, base: Base) -> Option<(usize, usize)> {
        let meta = self.meta();
        let start = meta.values.place(base);
        let end = meta.values.start + meta.values.head;
        // `NO_OFFSET` is greater than the end of any data, so that an unset header is refused, too.
        (start <= end).then_some((start as usize, end as usize))
    }

    /// Returns Click's annotations of the packet. In a new packet they are certain to be zero only if the
    /// pool clears them ([`Pool::use_annotations`](crate::Pool::use_annotations)).
    #[inline]
    pub fn annotations(&self) -> &Annotations {
        if self.meta().has_destination.get() {
            self.write_destination();
        }
        // SAFETY: the handle owns the annotations of its slot; they are initialised (zeroed) memory.
        unsafe { &*self.home().annotations(self.meta()) }
    }

    /// Returns Click's annotations of the packet, writable.
    #[inline]
    pub fn annotations_mut(&mut self) -> &mut Annotations {
        if self.meta().has_destination.get() {
            self.write_destination();
        }
        self.meta().annotations.set(Standing::Any);
        // SAFETY: the handle owns the annotations of its slot, which are initialised memory, and the borrow
        // is exclusive.
        unsafe { &mut *self.home().annotations(self.meta()) }
    }

    /// Returns the four bytes of the destination annotation ([`Annotations::DST_IP`]): the IPv4 address to
    /// which the packet is sent next, in network order.
    #[inline]
    pub fn destination(&self) -> [u8; 4] {
        match self.meta().has_destination.get() {
            true => self.meta().destination,
            false => self.annotations().array4(Annotations::DST_IP),
        }
    }

    /// Sets the four bytes of the destination annotation ([`Annotations::DST_IP`]). Elements should use this
    /// function and [`destination`](Self::destination), because these two functions need not access the cache
    /// line of the other annotations.
    #[inline]
    pub fn set_destination(&mut self, address: [u8; 4]) {
        let meta = self.meta_mut();
        meta.destination = address;
        meta.has_destination.set(true);
    }

    /// Copies all annotations from another packet to this new packet. If all annotations of the other packet
    /// except the destination are clear, as those of a new packet are, the two cache lines of annotations are
    /// not accessed.
    #[inline]
    pub(crate) fn copy_annotations(&mut self, from: &Packet) {
        let clear = |packet: &Packet| packet.meta().annotations.get() == Standing::Clear;
        if !(clear(self) && clear(from)) {
            self.annotations_mut().clone_from(from.annotations());
        } else if from.meta().has_destination.get() {
            self.set_destination(from.meta().destination);
        }
    }

    /// Writes the destination annotation, which lies in the metadata, to its place in the packet's
    /// annotations.
    #[cold]
    #[inline(never)]
    fn write_destination(&self) {
        let meta = self.meta();
        // SAFETY: the handle owns the annotations of its slot, and threads cannot share a handle. No
        // reference to the annotations exists. A reference borrows the packet. When it was made,
        // `has_destination` became false, and only `set_destination`, which needs the packet unborrowed,
        // makes it true again.
        unsafe { (*self.home().annotations(meta)).set_array4(Annotations::DST_IP, meta.destination) };
        meta.annotations.set(Standing::Any);
        meta.has_destination.set(false);
    }

    /// Asks the processor to load the cache line with the packet's first byte of data.
    #[inline]
    pub fn prefetch(&self) {
        let meta = self.meta();
        prefetch_line(meta.base.as_ptr().wrapping_add(meta.values.start as usize));
    }

    /// Returns every slot of the packet to its pool or store, without access to the pool: atomic operations
    /// put the slots on their pools' lists of returned slots.
    pub(crate) fn give_back(self) {
        let first = self.0;
        std::mem::forget(self);
        // SAFETY: the handle owned the slots of its list.
        unsafe { give_back_list(Some(first), None) };
    }
}

/// Asks the processor to load the cache line at `address`. The address may be invalid: a prefetch never
/// faults.
#[inline]
pub fn prefetch_line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing architecturally and may name any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Runs for a handle that is dropped by mistake: counts its packet as leaked, returns its slots, and panics
/// in debug builds.
impl Drop for Packet {
    #[cold]
    fn drop(&mut self) {
        let home = self.home();
        home.leaked.fetch_add(1, Ordering::Relaxed);
        Packet(self.0).give_back();
        if cfg!(debug_assertions) && !std::thread::panicking() {
            panic!("a packet was neither sent, dropped with a reason, nor held");
        }
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} bytes)", self.len())
    }
}
