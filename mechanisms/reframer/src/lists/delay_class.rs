//! A delay class, with its ring: a slot for each list, in the order in which the lists began.

use element::Timestamp;

/// A slot of a ring, for one list.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// The time at which the first value of the list arrived.
    pub(super) came: Timestamp,
    /// The number of the list.
    pub(super) list: u32,
    /// The hash of the list's flow.
    pub(super) hash: u32,
}

/// A delay class: its delay, and the ring with the lists of its flows in the order in which their first
/// values arrived.
pub(super) struct DelayClass {
    /// The slots of the ring; their number is a power of two. Slot number `n` is at index `n` modulo this
    /// number.
    slots: Vec<Slot>,
    /// The number of the first slot whose list may still hold its values, and the number of the next slot to
    /// be used. Both count modulo 2^32.
    pub(super) front: u32,
    pub(super) back: u32,
    pub(super) delay: Timestamp,
}

impl DelayClass {
    /// The initial number of slots of a ring.
    const SHORT: usize = if cfg!(test) { 4 } else { 2048 };

    /// Makes a class without lists. A class that is not used takes no memory for a ring.
    pub(super) fn new(delay: Timestamp, is_used: bool) -> DelayClass {
        // In tests, the numbers begin again soon after the start.
        let first = if cfg!(test) { u32::MAX - 5 } else { 0 };
        let length = if is_used { DelayClass::SHORT } else { 1 };
        DelayClass { slots: vec![Slot::default(); length], front: first, back: first, delay }
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    pub(super) fn slot(&self, number: u32) -> Slot {
        self.slots[self.place(number)]
    }

    /// Returns the number of slots in use, including slots whose list has left already.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// True if there is room for `more` further slots. Makes the ring larger if that is necessary and memory
    /// for it can be allocated.
    #[inline(always)]
    pub(super) fn has_room(&mut self, more: usize) -> bool {
        let length = self.length() + more;
        length <= self.slots.len() || self.grow(length)
    }

    /// Appends a slot, and returns its number. There must be room for it ([`has_room`](Self::has_room)).
    #[inline(always)]
    pub(super) fn push(&mut self, slot: Slot) -> u32 {
        debug_assert!(self.length() < self.slots.len());
        let number = self.back;
        self.back = number.wrapping_add(1);
        let place = self.place(number);
        self.slots[place] = slot;
        number
    }

    /// Makes the ring larger, for `length` slots. Returns false, and changes nothing, if memory for them
    /// cannot be allocated.
    #[cold]
    fn grow(&mut self, length: usize) -> bool {
        let (mut larger, length) = (Vec::new(), length.next_power_of_two());
        if larger.try_reserve_exact(length).is_err() {
            return false;
        }
        larger.resize(length, Slot::default());
        for offset in 0..self.length() as u32 {
            let number = self.front.wrapping_add(offset);
            let place = number as usize & (larger.len() - 1);
            larger[place] = self.slot(number);
        }
        self.slots = larger;
        true
    }
}
