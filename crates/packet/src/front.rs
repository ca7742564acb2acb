//! Separate handling of a packet's front: [`Pool::copy_front`] copies the first bytes to another slot,
//! elements process them there, and [`Pool::join`] puts them back before the rest.

use std::ptr;

use crate::packet::Packet;
use crate::pool::Pool;
use crate::slot::{NO_OFFSET, SLOT_STRIDE};

/// The number of bytes that are copied where the front is no longer: the headers of nearly all packets. A
/// copy of a fixed length is a few instructions.
const USUAL: usize = 64;

impl Pool {
    /// Makes a packet from the first `length` bytes of another packet, or fewer if its first slot has
    /// fewer. Metadata and, if elements use them, annotations are copied. The data starts at the same
    /// offset in the new slot, and stripped bytes before the data are copied, too. Returns `None` if the
    /// pool is empty.
    ///
    /// ```
    /// use packet::Pool;
    ///
    /// let mut pool = Pool::new(64 << 20)?;
    /// let packet = pool.packet(b"header, payload").unwrap();
    /// let mut front = pool.copy_front(&packet, 6).unwrap();
    /// front.data_mut()[0] = b'H';
    /// let packet = pool.join(front, 6, packet, 6).unwrap();
    /// assert_eq!(packet.data(), b"Header, payload");
    /// pool.free(packet);
    /// # Ok::<(), packet::PoolError>(())
    /// ```
    #[inline]
    pub fn copy_front(&mut self, packet: &Packet, length: usize) -> Option<Packet> {
        let mut copy = self.allocate()?;
        let from = packet.meta();
        let length = length.min(from.values.head.into());
        let first = usize::from(from.values.own.min(from.values.start));
        let count = usize::from(from.values.start) + length - first;
        // SAFETY: both ranges lie inside their slots, which differ and are owned by the two handles. If more
        // than `count` bytes are copied, they lie inside the slots, too; what follows the data of a packet in
        // its slot is meaningless.
        unsafe {
            let (from, to) = (from.base.as_ptr().add(first), copy.meta().base.as_ptr().add(first));
            if count <= USUAL && first <= SLOT_STRIDE - USUAL {
                ptr::copy_nonoverlapping(from.cast::<[u8; USUAL]>(), to.cast(), 1);
            } else {
                ptr::copy_nonoverlapping(from, to, count);
            }
        }
        let meta = copy.meta_mut();
        meta.copy_values(from);
        (meta.values.head, meta.length) = (length as u16, length as u32);
        if self.uses_annotations() || cfg!(debug_assertions) {
            copy.copy_annotations(packet);
        }
        Some(copy)
    }

    /// Makes one packet of the first `taken` bytes of `front`, followed by `rest` without its first
    /// `left_out` bytes. The bytes of `front` are copied into the slot of `rest`, so that the other bytes
    /// of `rest` do not move. Metadata, stripped bytes and, if elements use them, annotations come from
    /// `front`. The slots of `front` are freed.
    ///
    /// # Errors
    ///
    /// Both packets, unchanged, in three cases: the first slot of `front` has fewer than `taken` bytes; the
    /// first slot of `rest` has fewer than `left_out` bytes; or the slot of `rest` has too little room before
    /// its remaining data for the taken bytes and the stripped bytes of `front`.
    #[inline]
    pub fn join(
        &mut self,
        front: Packet,
        taken: usize,
        mut rest: Packet,
        left_out: usize,
    ) -> Result<Packet, [Packet; 2]> {
        let from = front.meta();
        let stripped = front.stripped();
        let behind = usize::from(rest.meta().values.start) + left_out;
        let fits = taken <= from.values.head.into() && left_out <= rest.meta().values.head.into();
        let Some(first) = behind.checked_sub(taken + stripped).filter(|_| fits) else {
            return Err([front, rest]);
        };
        let (start, first_of_front) = (first + stripped, usize::from(from.values.start) - stripped);
        let (end_of_front, count) = (first_of_front + stripped + taken, taken + stripped);
        // More bytes than needed are only copied where they overwrite none that are part of `rest`.
        let is_short = count <= USUAL && usize::from(rest.meta().values.own) >= first;
        // SAFETY: the range read ends with the taken bytes of `front`, and begins inside its slot, as was
        // checked. The range written ends at `behind` and begins inside the slot of `rest`, which belongs
        // to another packet and is thus a different slot.
        unsafe {
            let (from, to) = (from.base.as_ptr(), rest.meta().base.as_ptr());
            if is_short && behind.min(end_of_front) >= USUAL {
                let (from, to) = (from.add(end_of_front - USUAL), to.add(behind - USUAL));
                ptr::copy_nonoverlapping(from.cast::<[u8; USUAL]>(), to.cast(), 1);
            } else {
                ptr::copy_nonoverlapping(from.add(first_of_front), to.add(first), count);
            }
        }
        let meta = rest.meta_mut();
        let mut values = from.values;
        // Header offsets keep their distance from the packet's first byte; an offset that would lie outside
        // the slot is unset.
        if start != usize::from(values.start) {
            let moved = |mark: u16| match (usize::from(mark) + start).checked_sub(values.start.into()) {
                Some(place) if mark != NO_OFFSET && place <= SLOT_STRIDE => place as u16,
                _ => NO_OFFSET,
            };
            (values.mac, values.network, values.transport) =
                (moved(values.mac), moved(values.network), moved(values.transport));
        }
        values.start = start as u16;
        values.head = meta.values.head + taken as u16 - left_out as u16;
        values.own = meta.values.own.min(first as u16);
        // A run number is valid only within one turn of the driver, and the two packets may come from
        // different turns. So the joined packet has no run.
        values.run = 0;
        meta.values = values;
        meta.length = meta.length + taken as u32 - left_out as u32;
        meta.next_free = from.next_free;
        if self.uses_annotations() || cfg!(debug_assertions) {
            rest.annotations_mut().clone_from(front.annotations());
        }
        self.free(front);
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use crate::{Base, Pool, Restore, Store, Timestamp};

    fn bytes(packet: &crate::Packet) -> Vec<u8> {
        packet.chunks().collect::<Vec<_>>().concat()
    }

    #[test]
    fn what_describes_the_front_describes_the_whole() {
        let mut pool = Pool::new(64 << 20).unwrap();
        for size in [20, 1_500, 9_000] {
            let whole: Vec<u8> = (0..size as u32).map(|i| i as u8).collect();
            let mut packet = pool.packet(&whole).unwrap();
            packet.set_offset(Base::Network, Some(4));
            packet.set_time(Timestamp(5));
            assert!(packet.strip(4));
            let mut front = pool.copy_front(&packet, 8).unwrap();
            assert_eq!((front.data(), front.stripped(), front.time()), (&whole[4..12], 4, Timestamp(5)));
            assert_eq!(front.header(Base::Network), Some(&whole[4..12]));
            // Unstrips four bytes and prepends four others: the stripped bytes are part of the packet
            // again.
            assert!(front.unstrip(4) && front.prepend(&[9; 4]));
            front.set_offset(Base::Mac, Some(0));
            front.set_offset(Base::Transport, Some(14));
            front.set_flow_mark(NonZeroU64::new(7 << 32 | 8));
            front.annotations_mut().set_u8(3, 77);
            let taken = front.len();
            let joined = pool.join(front, taken, packet, 8).unwrap();
            assert_eq!(bytes(&joined), [&[9; 4][..], &whole].concat());
            assert_eq!(joined.len(), size + 4);
            let marks = [Base::Mac, Base::Network, Base::Transport].map(|base| joined.offset(base));
            assert_eq!(marks, [Some(0), Some(8), Some(14)]);
            assert_eq!(joined.flow_mark(), NonZeroU64::new(7 << 32 | 8));
            assert_eq!(joined.annotations().u8(3), 77);
            pool.free(joined);
        }
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn what_does_not_fit_comes_back() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let (front, rest) = (pool.packet(&[1; 600]).unwrap(), pool.packet(&[2; 10]).unwrap());
        // `join` refuses to take more bytes than the front has, to leave out more bytes than the rest has,
        // and to take more bytes than fit before the data of the rest.
        let [front, rest] = pool.join(front, 601, rest, 0).unwrap_err();
        let [front, rest] = pool.join(front, 10, rest, 11).unwrap_err();
        let [front, rest] = pool.join(front, 300, rest, 10).unwrap_err();
        assert_eq!((front.data(), rest.data()), (&[1; 600][..], &[2; 10][..]));
        let joined = pool.join(front, 3, rest, 9).unwrap();
        assert_eq!(joined.data(), [1, 1, 1, 2]);
        pool.free(joined);
        assert_eq!(pool.stats().in_use, 0);
    }

    #[test]
    fn packets_on_loan_are_lent_again_as_they_were() {
        let (mut pool, mut other) = (Pool::new(64 << 20).unwrap(), Pool::new(64 << 20).unwrap());
        let mut store = Store::new(Restore { bytes: 128, ..Restore::NOTHING });
        let whole = [5; 700];
        let packet = pool.packet(&whole).unwrap();
        assert!(store.insert(packet, &mut pool));
        for _ in 0..2 {
            let mut batch = crate::Batch::new();
            store.lend_into(0..1, &mut pool, &mut batch);
            let lent = batch.pop().unwrap();
            assert_eq!(lent.data(), whole);
            // The front comes from the pool of another worker, the rest is on loan from a store.
            let mut front = other.copy_front(&lent, 60).unwrap();
            front.data_mut().fill(6);
            assert!(front.strip(8));
            let joined = pool.join(front, 52, lent, 60).unwrap();
            assert_eq!(joined.data(), [&[6; 52][..], &[5; 640]].concat());
            pool.free(joined);
        }
        store.release(&mut pool);
        other.collect();
        assert_eq!((pool.stats().in_use, other.stats().in_use), (0, 0));
    }
}
