//! Batches: arrays of up to 256 packets, which sources and elements pass on in one call.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::{ptr, slice};

use crate::packet::Packet;

/// The largest number of packets in a batch.
pub const BATCH_CAPACITY: usize = 256;

/// A list of up to [`BATCH_CAPACITY`] packets, in order. The handles lie in one array of fixed size on the
/// heap, so that moving a batch copies two words.
pub struct Batch {
    items: Box<[MaybeUninit<Packet>; BATCH_CAPACITY]>,
    length: usize,
}

impl Batch {
    /// Makes an empty batch. This allocates memory: elements get their batches from the engine, which
    /// reuses them.
    pub fn new() -> Batch {
        Batch { items: Box::new([const { MaybeUninit::uninit() }; BATCH_CAPACITY]), length: 0 }
    }

    /// True if the batch holds [`BATCH_CAPACITY`] packets, so that no other packet fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.length == BATCH_CAPACITY
    }

    /// Adds a packet at the end.
    ///
    /// # Errors
    ///
    /// The packet itself, if the batch is full.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        match self.items.get_mut(self.length) {
            Some(place) => {
                place.write(packet);
                self.length += 1;
                Ok(())
            }
            None => Err(packet),
        }
    }

    /// Removes the last packet and returns it; `None` if the batch is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the elements of `items` below the old length are initialised, and this element lies beyond
        // the new length.
        Some(unsafe { self.items[self.length].assume_init_read() })
    }

    /// Returns an iterator that removes all packets, first to last. If the iterator is dropped early, the
    /// packets that it has not yielded stay in the batch, at its front.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let length = std::mem::take(&mut self.length);
        Drain { next: 0, length, batch: self }
    }

    /// Keeps the packets for which `check` returns `Ok`, in their order, and passes the others to `reject`
    /// with the reason that `check` gave. `check` is called once per packet, in order, and may change the
    /// packet.
    #[inline]
    pub fn sift<R>(
        &mut self,
        mut check: impl FnMut(&mut Packet) -> Result<(), R>,
        mut reject: impl FnMut(Packet, R),
    ) {
        // The length is zero during the call: if a closure panics, packets are leaked, but none is ever
        // owned twice.
        let length = std::mem::take(&mut self.length);
        // The usual case, in which all packets are accepted and none has to move, has its own loop.
        for (i, place) in self.items[..length].iter_mut().enumerate() {
            // SAFETY: `place` is an element of `items` below the old length, so it is initialised.
            if let Err(reason) = check(unsafe { place.assume_init_mut() }) {
                // SAFETY: places (elements of `items`) below the old length are initialised, and this place
                // is not read again.
                reject(unsafe { place.assume_init_read() }, reason);
                return self.sift_rest(i, length, check, reject);
            }
        }
        self.length = length;
    }

    /// Continues `sift` after the first rejected packet. All `kept` packets before it were accepted, so the
    /// rejected packet was at index `kept`.
    #[inline(never)]
    fn sift_rest<R>(
        &mut self,
        mut kept: usize,
        length: usize,
        mut check: impl FnMut(&mut Packet) -> Result<(), R>,
        mut reject: impl FnMut(Packet, R),
    ) {
        for i in kept + 1..length {
            // SAFETY: the elements of `items` below the old length are initialised, and this element is not
            // read again.
            let mut packet = unsafe { self.items[i].assume_init_read() };
            match check(&mut packet) {
                Ok(()) => {
                    self.items[kept].write(packet);
                    kept += 1;
                }
                Err(reason) => reject(packet, reason),
            }
        }
        self.length = kept;
    }

    /// Moves each packet for whose index in this batch `goes` returns true to the end of the batch `to`.
    /// Both batches keep their order. Returns false, and moves nothing, if `to` has less free room than
    /// this batch has packets, even if few of them would move.
    ///
    /// The loop has no branch on the result of `goes`, because the processor could not predict it.
    #[inline]
    pub fn part(&mut self, to: &mut Batch, mut goes: impl FnMut(usize) -> bool) -> bool {
        if self.length > BATCH_CAPACITY - to.length {
            return false;
        }
        // The lengths are zero during the loop: if `goes` panics, packets are leaked, but none is ever
        // owned twice.
        let (length, begin) = (std::mem::take(&mut self.length), std::mem::take(&mut to.length));
        let (mut kept, mut gone) = (0, begin);
        let (items, others) = (self.items.as_mut_ptr(), to.items.as_mut_ptr());
        for i in 0..length {
            let goes = goes(i);
            // SAFETY: `kept <= i < length`, and `gone <= begin + i`, which is less than BATCH_CAPACITY, as
            // this function has checked. Both batches get the packet, but only one of them counts it: the
            // other overwrites or ignores its place.
            unsafe {
                ptr::copy_nonoverlapping(items.add(i), others.add(gone), 1);
                ptr::copy(items.add(i), items.add(kept), 1);
            }
            kept += usize::from(!goes);
            gone += usize::from(goes);
        }
        (self.length, to.length) = (kept, gone);
        true
    }

    /// Replaces each packet, in order, by the packet that `replace` returns for it. If `replace` returns
    /// `None`, no packet takes its place, and the batch becomes shorter.
    #[inline]
    pub fn replace_each(&mut self, mut replace: impl FnMut(Packet) -> Option<Packet>) {
        // The length is zero during the call: if `replace` panics, packets are leaked, but none is ever
        // owned twice.
        let length = std::mem::take(&mut self.length);
        let mut kept = 0;
        for i in 0..length {
            // SAFETY: the elements of `items` below the old length are initialised, and this element is not
            // read again.
            let packet = unsafe { self.items[i].assume_init_read() };
            if let Some(packet) = replace(packet) {
                // `kept <= i`, so that this never overwrites a packet that has not been read yet.
                self.items[kept].write(packet);
                kept += 1;
            }
        }
        self.length = kept;
    }

    /// Returns the free places after the last packet, for code of this crate that fills a batch directly.
    /// The code writes packets to the first `n` places and then calls [`grow`](Self::grow) with `n`.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [MaybeUninit<Packet>] {
        &mut self.items[self.length..]
    }

    /// Increases the length by `n` packets.
    ///
    /// # Safety
    ///
    /// The caller has written packets to the first `n` places of [`room`](Self::room).
    #[inline]
    pub(crate) unsafe fn grow(&mut self, n: usize) {
        self.length += n;
    }

    /// Moves packets from the front of `other` to the end of this batch until this batch is full. The other
    /// packets stay in `other`.
    pub fn append(&mut self, other: &mut Batch) {
        let room = BATCH_CAPACITY - self.length;
        for packet in other.drain().take(room) {
            // `take(room)` guarantees that there is a place for each packet.
            self.items[self.length].write(packet);
            self.length += 1;
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Deref for Batch {
    type Target = [Packet];
    #[inline]
    fn deref(&self) -> &[Packet] {
        // SAFETY: the first `length` elements of `items` are initialised.
        unsafe { slice::from_raw_parts(self.items.as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Packet] {
        // SAFETY: the first `length` places are initialised, as in `deref`, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.length) }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Packets that are still in a batch when it is dropped are leaked: the `Drop` of each handle counts
        // its packet as leaked and returns its slot.
        let packets: *mut [Packet] = &mut **self;
        self.length = 0;
        // SAFETY: the first `length` elements of `items` were initialised, and are not reached again.
        unsafe { ptr::drop_in_place(packets) };
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An iterator that removes the packets of a batch, first to last; made by [`Batch::drain`].
pub struct Drain<'a> {
    /// The batch that is drained. Its length is zero during the iteration: if the iterator is leaked
    /// (`mem::forget`), its packets are leaked too, but none is owned twice.
    batch: &'a mut Batch,
    next: usize,
    length: usize,
}

impl Drain<'_> {
    /// Returns the packets that the iterator has not yielded yet.
    #[inline]
    pub fn as_slice(&self) -> &[Packet] {
        let rest = &self.batch.items[self.next..self.length];
        // SAFETY: the elements of `items` from index `next` to the length are initialised and owned by the
        // iterator.
        unsafe { slice::from_raw_parts(rest.as_ptr().cast(), rest.len()) }
    }
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.length {
            return None;
        }
        // SAFETY: the elements of `items` from index `next` to the length are initialised and owned by the
        // iterator.
        let packet = unsafe { self.batch.items[self.next].assume_init_read() };
        self.next += 1;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.length - self.next;
        (left, Some(left))
    }

    /// Implements `fold`, and thus `for_each`, like repeated calls of `next`, but without storing the
    /// position each time. If the closure panics, packets are leaked, but none is ever owned twice.
    #[inline]
    fn fold<B, F: FnMut(B, Packet) -> B>(mut self, init: B, mut f: F) -> B {
        let range = self.next..self.length;
        self.next = self.length;
        self.batch.items[range].iter().fold(init, |value, place| {
            // SAFETY: the places from `next` to the length are initialised, as in `next`; the iterator no
            // longer counts them as its own, and each is read once.
            f(value, unsafe { place.assume_init_read() })
        })
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline]
    fn drop(&mut self) {
        let left = self.length - self.next;
        if left > 0 && self.next > 0 {
            // SAFETY: moves the packets that were not taken to the front; both ranges lie in the array.
            unsafe {
                let items = self.batch.items.as_mut_ptr();
                ptr::copy(items.add(self.next), items, left);
            }
        }
        self.batch.length = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    /// An operation in a random test, which does the same to a batch and to a vector of numbers, then
    /// compares both.
    #[derive(Clone, Debug)]
    enum Op {
        Push,
        Pop,
        Drain(usize),
        Sift(u8),
        Replace(u8),
        Append(usize),
        Part(u8, usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => Just(Op::Push),
            1 => Just(Op::Pop),
            1 => (0usize..300).prop_map(Op::Drain),
            1 => any::<u8>().prop_map(Op::Sift),
            1 => any::<u8>().prop_map(Op::Replace),
            1 => (0usize..300).prop_map(Op::Append),
            1 => (any::<u8>(), 0usize..300).prop_map(|(bits, room)| Op::Part(bits, room)),
        ]
    }

    fn number(packet: &Packet) -> u32 {
        packet.time().0 as u32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 200 }))]
        #[test]
        fn agrees_with_a_vector(ops in prop::collection::vec(op(), 0..400)) {
            let mut pool = Pool::new(if cfg!(miri) { 400_000 } else { 64 << 20 }).unwrap();
            let (mut batch, mut model) = (Batch::new(), Vec::new());
            let mut count = 0;
            let mut fresh = |pool: &mut Pool| {
                let mut packet = pool.allocate().unwrap();
                count += 1;
                packet.set_time(Timestamp(count.into()));
                packet
            };
            for op in ops {
                match op {
                    Op::Push => {
                        let packet = fresh(&mut pool);
                        let n = number(&packet);
                        match batch.push(packet) {
                            Ok(()) => model.push(n),
                            Err(packet) => {
                                prop_assert_eq!(model.len(), BATCH_CAPACITY);
                                pool.free(packet);
                            }
                        }
                    }
                    Op::Pop => {
                        let packet = batch.pop();
                        prop_assert_eq!(packet.as_ref().map(number), model.pop());
                        packet.into_iter().for_each(|p| pool.free(p));
                    }
                    Op::Drain(n) => {
                        let mut drain = batch.drain();
                        let taken: Vec<_> = drain.by_ref().take(n).collect();
                        let numbers: Vec<_> = taken.iter().map(number).collect();
                        prop_assert_eq!(numbers, model.drain(..n.min(model.len())).collect::<Vec<_>>());
                        let rest: Vec<_> = drain.as_slice().iter().map(number).collect();
                        drop(drain);
                        prop_assert_eq!(&rest, &model);
                        taken.into_iter().for_each(|p| pool.free(p));
                    }
                    Op::Sift(modulus) => {
                        let keep = |n: u32| !n.is_multiple_of(modulus as u32 + 1);
                        batch.sift(
                            |p| if keep(number(p)) { Ok(()) } else { Err(number(p)) },
                            |p, n| {
                                assert_eq!(number(&p), n);
                                pool.free(p);
                            },
                        );
                        model.retain(|&n| keep(n));
                    }
                    Op::Replace(modulus) => {
                        let new = |n: u32| (!n.is_multiple_of(modulus as u32 + 1)).then_some(n ^ 1 << 20);
                        batch.replace_each(|mut packet| match new(number(&packet)) {
                            Some(n) => {
                                packet.set_time(Timestamp(n.into()));
                                Some(packet)
                            }
                            None => {
                                pool.free(packet);
                                None
                            }
                        });
                        model = model.into_iter().filter_map(new).collect();
                    }
                    Op::Append(n) => {
                        let mut other = Batch::new();
                        for _ in 0..n.min(BATCH_CAPACITY) {
                            let packet = fresh(&mut pool);
                            model.push(number(&packet));
                            prop_assert!(other.push(packet).is_ok());
                        }
                        batch.append(&mut other);
                        model.truncate(BATCH_CAPACITY);
                        pool.free_all(&mut other);
                    }
                    Op::Part(bits, n) => {
                        let mut other = Batch::new();
                        let mut expected = Vec::new();
                        for _ in 0..n.min(BATCH_CAPACITY) {
                            let packet = fresh(&mut pool);
                            expected.push(number(&packet));
                            prop_assert!(other.push(packet).is_ok());
                        }
                        let goes = |place: usize| bits >> (place % 8) & 1 == 1;
                        if other.len() + batch.len() <= BATCH_CAPACITY {
                            let (gone, kept): (Vec<_>, Vec<_>) =
                                model.into_iter().enumerate().partition(|(place, _)| goes(*place));
                            expected.extend(gone.into_iter().map(|(_, number)| number));
                            model = kept.into_iter().map(|(_, number)| number).collect();
                            prop_assert!(batch.part(&mut other, goes));
                        } else {
                            prop_assert!(!batch.part(&mut other, goes));
                        }
                        prop_assert_eq!(other.iter().map(number).collect::<Vec<_>>(), expected);
                        pool.free_all(&mut other);
                    }
                }
                prop_assert_eq!(batch.iter().map(number).collect::<Vec<_>>(), model.clone());
            }
            pool.free_all(&mut batch);
            prop_assert_eq!(pool.stats().in_use, 0);
        }
    }
}
