//! Lists of held values: one list per flow, the rings that show which flow is due next, and the order in
//! which flows leave.
//!
//! The module handles neither packets nor flow keys. A flow is an index, and a held value has any type
//! (`T`), so that tests hold numbers.
//!
//! Each delay class has one ring, which holds the values of all flows of the class in order of arrival. The
//! ring is the flush list of the Reframer paper as well: a flow is due when its oldest value has waited for
//! the delay of the class. The first value of the ring is the oldest value of its flow, unless that flow
//! has already left. So no value is unlinked when a flow leaves early, memory is read and written in order,
//! and the flows that will be due soon can be prefetched. A slot whose value has left is skipped once, so
//! each value costs constant time.
//!
//! (A list of nodes from a free list, linked through the flows, took more instructions and waited for the
//! cache line of each flow.)

use std::collections::TryReserveError;

use element::Timestamp;

/// The number of delay classes: groups of flows, each with a delay and a ring of its own.
pub const DELAY_CLASSES: usize = 3;

/// The delay class of the flows that stand for all packets from one host to another (see
/// [`crate::key::FlowKind::Pair`]). Neither a large number of values of such a flow nor the length of the
/// ring releases its values early. Of all flows that leave together, flows of this class leave last. So a
/// value that arrived before a value of this class does not leave after it, provided that no other class has
/// a longer delay.
pub const UNKNOWN_FLOWS: usize = 2;

/// The rule that orders the flows which leave in the same round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The flow that has sent the fewest packets so far leaves first.
    ShortestFlow,
    /// The flow whose entry was opened first leaves first.
    OldestFlow,
    /// The flow whose oldest held packet arrived first leaves first.
    #[default]
    LongestWait,
}

/// The reason for which the packets that a flow holds leave as a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The flow holds at least MAX_BURST packets.
    Full,
    /// The oldest packet of the flow has waited for DELAY.
    Timeout,
    /// A packet that must not be held has arrived, and leaves together with the packets that its flow
    /// holds.
    Bypass,
    /// There is no room: MAX_HELD is reached, the packets between two hosts ([`crate::key::FlowKind::Pair`])
    /// found no free entry in the flow table, or the ring is much longer than the number of held packets.
    Capacity,
    /// The element is emptied: at the end of the run, by a handler, or because of new arguments.
    Drain,
}

impl ReleaseReason {
    /// All reasons, in the order in which the handler `releases` lists them. `reason as usize` is the index
    /// of a reason in this array.
    pub const ALL: [ReleaseReason; 5] = [
        ReleaseReason::Full,
        ReleaseReason::Timeout,
        ReleaseReason::Bypass,
        ReleaseReason::Capacity,
        ReleaseReason::Drain,
    ];

    /// Returns the name of the reason in the handler `releases`.
    pub fn as_str(self) -> &'static str {
        match self {
            ReleaseReason::Full => "full",
            ReleaseReason::Timeout => "timeout",
            ReleaseReason::Bypass => "bypass",
            ReleaseReason::Capacity => "capacity",
            ReleaseReason::Drain => "drain",
        }
    }
}

/// A slot of a ring: a value, its time of arrival and the index of its flow. `item` is `None` once the
/// value has left.
struct Slot<T> {
    item: Option<T>,
    came: Timestamp,
    flow: u32,
    /// The ring number of the next value of the flow; undefined for the last value.
    next: u32,
}

/// The list of one flow, in half a cache line. Values are named by their numbers in the ring of the flow's
/// delay class.
#[derive(Clone)]
#[repr(align(32))]
struct Flow {
    /// The ring numbers of the oldest and the youngest value; undefined while the flow holds no value.
    head: u32,
    tail: u32,
    length: u32,
    /// The number of values of the flow that were released so far; stops at the maximum of the type.
    sent: u32,
    /// The number of flows that were opened before this flow, for [`Priority::OldestFlow`].
    seen: u32,
    /// The data that the element keeps for the flow. They include the delay class, and so the ring that holds
    /// the flow's values.
    note: Note,
}

/// Data that the element keeps for each flow. Apart from `delay_class`, the lists do not use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The highest acknowledgment number of the flow that left, for merging ACKs; valid if
    /// `has_acknowledged` is true.
    pub acknowledged: u32,
    /// The hash of the flow's key. Statistics tell flows apart by it, because packets without a flow entry
    /// have a hash too.
    pub hash: u32,
    /// True if `acknowledged` is valid: false before the first ACK, and after COMPRESS was changed.
    pub has_acknowledged: bool,
    /// The kind of the flow as a number: [`crate::key::FlowKind`] `as u8`.
    pub kind: u8,
    /// A score, which each element uses for one of two purposes. With `bypass_after` set: the number of
    /// bursts of one packet minus the number of longer bursts. Under an SLO: a saturating counter that
    /// predicts whether the next packet arrives in time; a packet that arrives in time adds 1, a late
    /// packet subtracts 1.
    pub score: i8,
    /// The index of the flow's delay class, set only by [`Lists::open`] and [`Lists::set_delay_class`].
    pub delay_class: u8,
}

const _: () = assert!(size_of::<Flow>() == 32);

/// A delay class: the ring that holds the values of its flows in order of arrival, and the time that they
/// wait.
struct DelayClass<T> {
    /// The slots of the ring; their number is a power of two. Value number `n` is at index `n` modulo this
    /// number.
    slots: Vec<Slot<T>>,
    /// The numbers of the first value that is still present, and of the next value to come. Both count
    /// modulo 2^32.
    front: u32,
    back: u32,
    delay: Timestamp,
}

impl<T> DelayClass<T> {
    /// The initial number of slots of a ring.
    const SHORT: usize = if cfg!(test) { 4 } else { 2048 };

    fn new(delay: Timestamp) -> DelayClass<T> {
        DelayClass { slots: DelayClass::empty(DelayClass::<T>::SHORT), front: 0, back: 0, delay }
    }

    fn empty(length: usize) -> Vec<Slot<T>> {
        (0..length).map(|_| Slot { item: None, came: Timestamp::ZERO, flow: 0, next: 0 }).collect()
    }

    #[inline(always)]
    fn place(&self, number: u32) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn slot(&self, number: u32) -> &Slot<T> {
        &self.slots[self.place(number)]
    }

    #[inline(always)]
    fn slot_mut(&mut self, number: u32) -> &mut Slot<T> {
        let place = self.place(number);
        &mut self.slots[place]
    }

    /// Returns the number of slots in use: from the first value that is still present to the last, with
    /// empty slots between them.
    #[inline]
    fn length(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// Appends a value, and returns its number in the ring. A full ring grows to twice its size.
    #[inline(always)]
    fn push(&mut self, item: T, came: Timestamp, flow: u32) -> u32 {
        if self.length() == self.slots.len() {
            self.grow();
        }
        let number = self.back;
        self.back = number.wrapping_add(1);
        // The fields are written one by one: a slot assembled elsewhere would be read in larger pieces than
        // it was written in, and the processor would stall (failed store forwarding).
        let slot = self.slot_mut(number);
        slot.item = Some(item);
        (slot.came, slot.flow) = (came, flow);
        number
    }

    /// Frees the empty slots ahead of the first value that is still present.
    #[inline]
    fn advance(&mut self) {
        while self.front != self.back && self.slot(self.front).item.is_none() {
            self.front = self.front.wrapping_add(1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = DelayClass::empty(2 * self.slots.len());
        for offset in 0..self.length() as u32 {
            let number = self.front.wrapping_add(offset);
            let place = number as usize & (larger.len() - 1);
            std::mem::swap(&mut larger[place], self.slot_mut(number));
        }
        self.slots = larger;
    }
}

/// The number of slots between a value that is examined and the value whose flow is prefetched meanwhile.
const AHEAD: u32 = 8;

/// A list of values of one flow that is about to leave, unlinked from the flow.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The first sort key, which depends on the priority. Ties are broken by `first`, the arrival time of
    /// the oldest value, and then by `turn`, the order of release.
    key: i64,
    first: Timestamp,
    turn: u32,
    head: u32,
    /// The index of the flow.
    pub flow: u32,
    /// The number of values in the list; at least 1.
    pub length: u32,
    delay_class: u8,
    /// The reason for which the values leave.
    pub reason: ReleaseReason,
}

impl Leaving {
    fn order(&self) -> (i64, Timestamp, u32) {
        (self.key, self.first, self.turn)
    }
}

/// A receiver of the lists that leave [`Lists`]. For each list `begin` is called once, `value` once per value
/// in order of arrival, and `end` once.
pub trait Output<T> {
    /// Begins a list of the flow to which `note` belongs.
    fn begin(&mut self, leaving: Leaving, note: &mut Note);
    /// Takes ownership of one value of the list; `came` is its time of arrival.
    fn value(&mut self, item: T, came: Timestamp);
    /// Ends the list; `last` is the time of arrival of its last value.
    fn end(&mut self, leaving: Leaving, note: &mut Note, last: Timestamp);
}

/// The lists of all flows of one element, with the delay classes.
pub struct Lists<T> {
    flows: Vec<Flow>,
    delay_classes: [DelayClass<T>; DELAY_CLASSES],
    /// The number of values that are held; values that were released and have not left yet do not count.
    held: usize,
    /// The number of flows that hold values, counted as `held` is.
    active: usize,
    /// The number of flows that were opened so far, modulo 2^32.
    opened: u32,
    /// The number of slots up to which a ring may grow however few values are held. Beyond it, a ring may
    /// have four slots per held value.
    longest: usize,
    leaving: Vec<Leaving>,
    /// True if `leaving` is in the order in which its lists must leave, so that it need not be sorted.
    in_order: bool,
}

impl<T> Lists<T> {
    /// Creates lists for flows with indices below `capacity`, with `delay` for all delay classes. Memory
    /// for the flows is reserved at once, but pages are touched only as flows are opened.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn new(capacity: usize, delay: Timestamp) -> Result<Lists<T>, TryReserveError> {
        let mut flows = Vec::new();
        flows.try_reserve_exact(capacity)?;
        Ok(Lists {
            flows,
            delay_classes: std::array::from_fn(|_| DelayClass::new(delay)),
            held: 0,
            active: 0,
            opened: 0,
            longest: 1 << 16,
            leaving: Vec::with_capacity(1024),
            in_order: true,
        })
    }

    /// Returns the number of values that are held, without values that were released and have not left yet.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of flows that hold values, without flows that were released.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Opens a flow under an index, in delay class `delay_class`; a previous flow with this index must hold
    /// no values. For [`Priority::OldestFlow`], the flow counts as the youngest.
    #[inline]
    pub fn open(&mut self, flow: u32, note: Note, delay_class: u8) {
        let note = Note { delay_class, ..note };
        let new = Flow { head: 0, tail: 0, length: 0, sent: 0, seen: self.opened, note };
        self.opened = self.opened.wrapping_add(1);
        match self.flows.get_mut(flow as usize) {
            Some(flow) => *flow = new,
            // The flow table assigns consecutive indices, so at most one flow is appended.
            None => self.flows.resize(flow as usize + 1, new),
        }
    }

    /// True if a flow holds values.
    #[inline]
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| flow.length > 0)
    }

    /// True if the ring of the delay class [`UNKNOWN_FLOWS`] has values. Values that were released and have
    /// not left yet count.
    #[inline(always)]
    pub fn holds_unknown(&self) -> bool {
        self.delay_classes[UNKNOWN_FLOWS].length() > 0
    }

    /// Returns the data that the element keeps for a flow. Panics if the flow was never opened.
    #[inline]
    pub fn note(&mut self, flow: u32) -> &mut Note {
        &mut self.flows[flow as usize].note
    }

    /// Returns the data that the element keeps for each flow.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.flows.iter_mut().map(|flow| &mut flow.note)
    }

    /// Prefetches the cache line of a flow. Any index is allowed.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        packet::prefetch_line(self.flows.as_ptr().wrapping_add(flow as usize).cast());
    }

    /// Returns the delay of a delay class.
    pub fn delay(&self, delay_class: usize) -> Timestamp {
        self.delay_classes[delay_class].delay
    }

    /// Changes the delay of a delay class, also for values that are already held.
    pub fn set_delay(&mut self, delay_class: usize, delay: Timestamp) {
        self.delay_classes[delay_class].delay = delay;
    }

    /// Appends a value to the list of an open flow, and returns the number of values in the list. `now`
    /// must not decrease from call to call, so that the rings stay in order of arrival.
    #[inline(always)]
    pub fn hold(&mut self, index: u32, item: T, now: Timestamp) -> usize {
        let flow = &mut self.flows[index as usize];
        let delay_class = &mut self.delay_classes[flow.note.delay_class as usize % DELAY_CLASSES];
        let number = delay_class.push(item, now, index);
        if flow.length == 0 {
            flow.head = number;
            self.active += 1;
        } else {
            delay_class.slot_mut(flow.tail).next = number;
        }
        flow.tail = number;
        flow.length += 1;
        self.held += 1;
        flow.length as usize
    }

    /// Returns the flow whose oldest held value has this number in the ring of the delay class. `None` if
    /// the value has left or was released, or is not the oldest of its flow.
    #[inline(always)]
    fn heads(&self, delay_class: usize, number: u32) -> Option<u32> {
        let index = self.delay_classes[delay_class].slot(number).flow;
        let flow = self.flows.get(index as usize)?;
        // A value of another delay class may have the same number in its own ring.
        (flow.head == number && flow.length > 0 && flow.note.delay_class as usize == delay_class)
            .then_some(index)
    }

    /// Returns the arrival time of the oldest held value of a delay class, and the flow that holds it;
    /// `None` if the class holds no values.
    #[inline]
    fn front(&self, delay_class: usize) -> Option<(Timestamp, u32)> {
        let DelayClass { front, back, .. } = self.delay_classes[delay_class];
        let mut number = front;
        while number != back {
            if let Some(flow) = self.heads(delay_class, number) {
                return Some((self.delay_classes[delay_class].slot(number).came, flow));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Releases the values of a flow, if it holds any: they leave with the next [`let_go`](Self::let_go).
    #[inline]
    pub fn release(&mut self, flow: u32, reason: ReleaseReason, priority: Priority) {
        let Flow { head, length, note: Note { delay_class, .. }, .. } = self.flows[flow as usize];
        if length > 0 {
            let first = self.delay_classes[delay_class as usize % DELAY_CLASSES].slot(head).came;
            let leaving = self.take(flow, first, reason, priority);
            self.in_order &= self.leaving.last().is_none_or(|before| before.order() < leaving.order());
            self.leaving.push(leaving);
        }
    }

    /// Takes all values from a flow that holds some; its oldest value arrived at `first`. The values stay
    /// in the ring until [`hand_out`](Self::hand_out).
    #[inline(always)]
    fn take(&mut self, index: u32, first: Timestamp, reason: ReleaseReason, priority: Priority) -> Leaving {
        let flow = &mut self.flows[index as usize];
        let key = match priority {
            _ if flow.note.delay_class as usize == UNKNOWN_FLOWS => i64::MAX,
            Priority::ShortestFlow => i64::from(flow.sent),
            Priority::OldestFlow => i64::from(flow.seen),
            Priority::LongestWait => first.0,
        };
        let Flow { head, length, note: Note { delay_class, .. }, .. } = *flow;
        self.held -= length as usize;
        self.active -= 1;
        flow.sent = flow.sent.saturating_add(length);
        flow.length = 0;
        Leaving {
            key,
            first,
            turn: self.leaving.len() as u32,
            head,
            flow: index,
            length,
            delay_class,
            reason,
        }
    }

    /// Moves a flow to another delay class. A flow that holds values stays where it is, because its values
    /// lie in the ring of its class.
    pub fn set_delay_class(&mut self, flow: u32, delay_class: u8) {
        let flow = &mut self.flows[flow as usize];
        if flow.length == 0 {
            flow.note.delay_class = delay_class;
        }
    }

    /// Returns the earliest time at which a flow is due; `None` if no values are held.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due =
            |delay_class: usize| Some(self.front(delay_class)?.0 + self.delay_classes[delay_class].delay);
        (0..DELAY_CLASSES).filter_map(due).min()
    }

    /// Releases the flows that are due at `now`, with [`ReleaseReason::Timeout`]. Where a ring is much
    /// longer than the number of held values, also releases the flows of its oldest values, with
    /// [`ReleaseReason::Capacity`]. The ring of [`UNKNOWN_FLOWS`] is exempt from this limit.
    #[inline]
    pub fn release_due(&mut self, now: Timestamp, priority: Priority) {
        for delay_class in 0..DELAY_CLASSES {
            let latest = now - self.delay_classes[delay_class].delay;
            let longest =
                if delay_class == UNKNOWN_FLOWS { usize::MAX } else { self.longest.max(4 * self.held) };
            let end = self.delay_classes[delay_class].back;
            let mut number = self.delay_classes[delay_class].front;
            while number != end {
                let is_due = self.delay_classes[delay_class].slot(number).came <= latest;
                if !is_due && end.wrapping_sub(number) as usize <= longest {
                    break;
                }
                let ahead = self.delay_classes[delay_class].slot(number.wrapping_add(AHEAD)).flow;
                self.prefetch(ahead);
                if let Some(flow) = self.heads(delay_class, number) {
                    let reason = if is_due { ReleaseReason::Timeout } else { ReleaseReason::Capacity };
                    self.release(flow, reason, priority);
                }
                number = number.wrapping_add(1);
            }
        }
    }

    /// Releases the flows that hold at least `length` values. Flows of [`UNKNOWN_FLOWS`] are released only
    /// if `length` is 0.
    pub fn release_long(&mut self, length: usize, reason: ReleaseReason, priority: Priority) {
        for delay_class in 0..if length == 0 { DELAY_CLASSES } else { UNKNOWN_FLOWS } {
            let (front, length_of_ring) =
                (self.delay_classes[delay_class].front, self.delay_classes[delay_class].length() as u32);
            for offset in 0..length_of_ring {
                if let Some(flow) = self.heads(delay_class, front.wrapping_add(offset))
                    && self.flows[flow as usize].length as usize >= length
                {
                    self.release(flow, reason, priority);
                }
            }
        }
    }

    /// Releases all flows that hold values.
    pub fn release_all(&mut self, reason: ReleaseReason, priority: Priority) {
        self.release_long(0, reason, priority);
    }

    /// Releases the flow whose oldest value has waited longest, if any flow holds values. At equal times,
    /// flows of [`UNKNOWN_FLOWS`] come last.
    pub fn release_oldest(&mut self, reason: ReleaseReason, priority: Priority) {
        let front = |delay_class| {
            self.front(delay_class).map(|(came, flow)| (came, delay_class == UNKNOWN_FLOWS, flow))
        };
        if let Some((.., flow)) = (0..DELAY_CLASSES).filter_map(front).min() {
            self.release(flow, reason, priority);
        }
    }

    /// Passes to `out` all lists that were released, and all lists that are due at `now`, in the order of
    /// `priority`. Lists of equal priority leave in the order of their waiting times, longest first. Two
    /// lists of one flow keep their order, because the sort key of a flow never decreases.
    #[inline]
    pub fn send_due(&mut self, now: Timestamp, priority: Priority, out: &mut impl Output<T>) {
        // Short path for the most frequent case: nothing was released before, and only the first delay
        // class has values. Its ring already has the lists in order.
        let is_plain = self.delay_classes[1..].iter().all(|delay_class| delay_class.length() == 0);
        if self.leaving.is_empty() && priority == Priority::LongestWait && is_plain {
            let latest = now - self.delay_classes[0].delay;
            while self.delay_classes[0].front != self.delay_classes[0].back {
                let number = self.delay_classes[0].front;
                let slot = self.delay_classes[0].slot(number);
                // Empty slots are freed here even if their values would not be due. Otherwise each later
                // search for the first value would skip them again.
                if slot.came > latest && slot.item.is_some() {
                    break;
                }
                self.prefetch(self.delay_classes[0].slot(number.wrapping_add(AHEAD)).flow);
                if slot.item.is_some() {
                    // All slots ahead of this slot are empty, so its value is the oldest of its flow.
                    let leaving = self.take(slot.flow, slot.came, ReleaseReason::Timeout, priority);
                    self.hand_out(Leaving { head: number, delay_class: 0, ..leaving }, out);
                }
                self.delay_classes[0].front = number.wrapping_add(1);
            }
        }
        self.release_due(now, priority);
        self.let_go(out);
    }

    /// Passes to `out` the lists that were released. Lists that are only due stay.
    #[inline]
    pub fn let_go(&mut self, out: &mut impl Output<T>) {
        if self.leaving.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.leaving);
        if !self.in_order {
            all.sort_unstable_by_key(Leaving::order);
        }
        for leaving in all.drain(..) {
            self.hand_out(leaving, out);
        }
        self.leaving = all;
        self.in_order = true;
        self.delay_classes.iter_mut().for_each(DelayClass::advance);
    }

    #[inline(always)]
    fn hand_out(&mut self, leaving: Leaving, out: &mut impl Output<T>) {
        let note = &mut self.flows[leaving.flow as usize].note;
        out.begin(leaving, note);
        let delay_class = &mut self.delay_classes[leaving.delay_class as usize % DELAY_CLASSES];
        let (mut next, mut last) = (leaving.head, leaving.first);
        for _ in 0..leaving.length {
            let slot = delay_class.slot_mut(next);
            (next, last) = (slot.next, slot.came);
            if let Some(item) = slot.item.take() {
                out.value(item, last);
            }
        }
        out.end(leaving, note, last);
    }
}

#[cfg(test)]
mod tests;
