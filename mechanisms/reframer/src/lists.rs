//! The lists of held values: one list per flow, the flush lists that say when flows are due, and the order
//! in which flows leave.
//!
//! The module handles neither packets nor keys: a flow is an index and a held value has any type, so tests
//! hold numbers.
//!
//! Held values lie in a ring in order of arrival. The ring is the flush list as well: a flow is due when
//! its oldest value is due, and the first value of the ring is the oldest value of its flow unless that
//! flow has left already. So no value is unlinked when a flow leaves early, memory is read and written in
//! order, and the flows that will be due soon can be prefetched. Slots of values that have left are skipped
//! once, so that each value costs constant time. (Links through the flows and a free list of nodes took
//! more instructions, and waited for the cache line of each flow.)

use std::collections::TryReserveError;

use element::Timestamp;

/// The maximum number of classes of flows with a delay of their own.
pub const LANES: usize = 3;

/// The class of flows that never leave before they are due, and that leave last among all flows that leave
/// together. So a value that arrived before a value of this class does not leave after it, provided that no
/// other class has a longer delay.
pub const UNKNOWN_FLOWS: usize = 2;

/// The rule that orders flows which leave together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The flow that has sent the fewest packets so far is first.
    ShortestFlow,
    /// The flow that was seen first is first.
    OldestFlow,
    /// The flow whose oldest packet has waited longest is first.
    #[default]
    LongestWait,
}

/// The reason why the packets of a flow leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The flow holds MAX_BURST packets.
    Full,
    /// The oldest packet has waited for DELAY.
    Timeout,
    /// A packet of the flow bypasses and releases the packets that are held.
    Bypass,
    /// There is no room: MAX_HELD is reached, a flow found no place in the table, or the ring has become
    /// too long.
    Capacity,
    /// The element is emptied: at the end of the run, by a handler, or because of new arguments.
    Drain,
}

impl Reason {
    /// All reasons, in the order of reports.
    pub const ALL: [Reason; 5] =
        [Reason::Full, Reason::Timeout, Reason::Bypass, Reason::Capacity, Reason::Drain];

    /// Returns the name of the reason in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::Timeout => "timeout",
            Reason::Bypass => "bypass",
            Reason::Capacity => "capacity",
            Reason::Drain => "drain",
        }
    }
}

/// A slot of a ring: a value with its links. `item` is `None` once the value has left.
struct Slot<T> {
    item: Option<T>,
    came: Timestamp,
    flow: u32,
    /// The number of the next value of the flow.
    next: u32,
}

/// A flow, in half a cache line.
#[derive(Clone)]
#[repr(align(32))]
struct Flow {
    /// The numbers of the oldest and the youngest value; undefined while the flow holds no value.
    head: u32,
    tail: u32,
    length: u32,
    /// The number of values that have left so far.
    sent: u32,
    /// The number of flows that were opened before this flow.
    seen: u32,
    /// The owner's note, which includes the class and with it the ring of the flow's values.
    note: Note,
}

/// Data that the owner of the lists keeps for each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The highest acknowledgment number that left, for merging ACKs; valid if `has_acknowledged` is true.
    pub acknowledged: u32,
    /// The hash of the flow's key. It identifies flows in statistics, as flows without an index have a hash
    /// too.
    pub hash: u32,
    /// True if `acknowledged` is valid.
    pub has_acknowledged: bool,
    /// The kind of the flow, in the owner's own code.
    pub kind: u8,
    /// A score. With `bypass_after`: the number of bursts of one packet, minus the number of longer bursts.
    /// Under an SLO: a counter that predicts whether the next packet comes in time, incremented by each
    /// packet that does and decremented by each packet that does not. No element has both.
    pub score: i8,
    /// The class of the flow, set only by [`Lists::open`] and [`Lists::set_lane`].
    pub lane: u8,
}

const _: () = assert!(size_of::<Flow>() == 32);

/// A class of flows: the ring of their values, in order of arrival, and their delay.
struct DelayClass<T> {
    /// The ring, of a length that is a power of two; value number `n` is at index `n` modulo the length.
    slots: Vec<Slot<T>>,
    /// The number of the first value that is still present, and the number of the next value to come; both
    /// wrap.
    front: u32,
    back: u32,
    delay: Timestamp,
}

impl<T> DelayClass<T> {
    /// The initial length of a ring.
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

    /// Returns the number of slots from the first value to the last.
    #[inline]
    fn length(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// Adds a value and returns its number.
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

    /// Frees the slots ahead of the first value that is still present.
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

/// The distance, in values, at which the flow of a later value is prefetched.
const AHEAD: u32 = 8;

/// A list of values that is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The first sort key; ties are broken by the arrival time of the oldest value, then by the turn.
    key: i64,
    first: Timestamp,
    turn: u32,
    head: u32,
    /// The index of the flow.
    pub flow: u32,
    /// The number of values.
    pub length: u32,
    lane: u8,
    /// The reason for which the values leave.
    pub reason: Reason,
}

impl Leaving {
    fn order(&self) -> (i64, Timestamp, u32) {
        (self.key, self.first, self.turn)
    }
}

/// A receiver of the values that leave.
pub trait Output<T> {
    /// Begins a list.
    fn begin(&mut self, leaving: Leaving, note: &mut Note);
    /// Takes one value of the list, with its time of arrival.
    fn value(&mut self, item: T, came: Timestamp);
    /// Ends the list; `last` is the time of arrival of its last value.
    fn end(&mut self, leaving: Leaving, note: &mut Note, last: Timestamp);
}

/// All lists of an element.
pub struct Lists<T> {
    flows: Vec<Flow>,
    lanes: [DelayClass<T>; LANES],
    /// The number of values that are held.
    held: usize,
    /// The number of flows that hold values.
    active: usize,
    /// The number of flows that were opened so far, modulo 2^32.
    opened: u32,
    /// The length up to which a ring may grow however few values are held.
    longest: usize,
    leaving: Vec<Leaving>,
    /// True if `leaving` is sorted already.
    in_order: bool,
}

impl<T> Lists<T> {
    /// Creates lists for flows with indices below `capacity`. Memory for the flows is reserved, and touched
    /// as flows are opened.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn new(capacity: usize, delay: Timestamp) -> Result<Lists<T>, TryReserveError> {
        let mut flows = Vec::new();
        flows.try_reserve_exact(capacity)?;
        Ok(Lists {
            flows,
            lanes: std::array::from_fn(|_| DelayClass::new(delay)),
            held: 0,
            active: 0,
            opened: 0,
            longest: 1 << 16,
            leaving: Vec::with_capacity(1024),
            in_order: true,
        })
    }

    /// Returns the number of values that are held.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of flows that hold values.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Opens a flow under an index; it counts as seen after all flows that were opened before.
    #[inline]
    pub fn open(&mut self, flow: u32, note: Note, lane: u8) {
        let note = Note { lane, ..note };
        let new = Flow { head: 0, tail: 0, length: 0, sent: 0, seen: self.opened, note };
        self.opened = self.opened.wrapping_add(1);
        match self.flows.get_mut(flow as usize) {
            Some(flow) => *flow = new,
            // Indices are assigned consecutively.
            None => self.flows.resize(flow as usize + 1, new),
        }
    }

    /// True if a flow holds values.
    #[inline]
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| flow.length > 0)
    }

    /// True if any flow of the class [`UNKNOWN_FLOWS`] holds values.
    #[inline(always)]
    pub fn holds_unknown(&self) -> bool {
        self.lanes[UNKNOWN_FLOWS].length() > 0
    }

    /// Returns the owner's note of a flow.
    #[inline]
    pub fn note(&mut self, flow: u32) -> &mut Note {
        &mut self.flows[flow as usize].note
    }

    /// Returns the owner's notes of all flows.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.flows.iter_mut().map(|flow| &mut flow.note)
    }

    /// Prefetches the cache line of a flow.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        packet::prefetch_line(self.flows.as_ptr().wrapping_add(flow as usize).cast());
    }

    /// Returns the delay of a class.
    pub fn delay(&self, lane: usize) -> Timestamp {
        self.lanes[lane].delay
    }

    /// Changes the delay of a class, also for values that are held already.
    pub fn set_delay(&mut self, lane: usize, delay: Timestamp) {
        self.lanes[lane].delay = delay;
    }

    /// Appends a value to the list of a flow, and returns the length of the list. `now` must not decrease
    /// from call to call.
    #[inline(always)]
    pub fn hold(&mut self, index: u32, item: T, now: Timestamp) -> usize {
        let flow = &mut self.flows[index as usize];
        let lane = &mut self.lanes[flow.note.lane as usize % LANES];
        let number = lane.push(item, now, index);
        if flow.length == 0 {
            flow.head = number;
            self.active += 1;
        } else {
            lane.slot_mut(flow.tail).next = number;
        }
        flow.tail = number;
        flow.length += 1;
        self.held += 1;
        flow.length as usize
    }

    /// Returns the flow whose oldest value has this number, if the value has not left yet.
    #[inline(always)]
    fn heads(&self, lane: usize, number: u32) -> Option<u32> {
        let index = self.lanes[lane].slot(number).flow;
        let flow = self.flows.get(index as usize)?;
        // A value of another class may have the same number.
        (flow.head == number && flow.length > 0 && flow.note.lane as usize == lane).then_some(index)
    }

    /// Returns the arrival time of the oldest value of a class, and the flow that holds it.
    #[inline]
    fn front(&self, lane: usize) -> Option<(Timestamp, u32)> {
        let DelayClass { front, back, .. } = self.lanes[lane];
        let mut number = front;
        while number != back {
            if let Some(flow) = self.heads(lane, number) {
                return Some((self.lanes[lane].slot(number).came, flow));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Releases the values of a flow: they leave with the next [`let_go`](Self::let_go).
    #[inline]
    pub fn release(&mut self, flow: u32, reason: Reason, priority: Priority) {
        let Flow { head, length, note: Note { lane, .. }, .. } = self.flows[flow as usize];
        if length > 0 {
            let first = self.lanes[lane as usize % LANES].slot(head).came;
            let leaving = self.take(flow, first, reason, priority);
            self.in_order &= self.leaving.last().is_none_or(|before| before.order() < leaving.order());
            self.leaving.push(leaving);
        }
    }

    /// Takes the values of a flow whose oldest value arrived at `first`.
    #[inline(always)]
    fn take(&mut self, index: u32, first: Timestamp, reason: Reason, priority: Priority) -> Leaving {
        let flow = &mut self.flows[index as usize];
        let key = match priority {
            _ if flow.note.lane as usize == UNKNOWN_FLOWS => i64::MAX,
            Priority::ShortestFlow => i64::from(flow.sent),
            Priority::OldestFlow => i64::from(flow.seen),
            Priority::LongestWait => first.0,
        };
        let Flow { head, length, note: Note { lane, .. }, .. } = *flow;
        self.held -= length as usize;
        self.active -= 1;
        flow.sent = flow.sent.saturating_add(length);
        flow.length = 0;
        Leaving { key, first, turn: self.leaving.len() as u32, head, flow: index, length, lane, reason }
    }

    /// Moves a flow that holds no values to another class.
    pub fn set_lane(&mut self, flow: u32, lane: u8) {
        let flow = &mut self.flows[flow as usize];
        if flow.length == 0 {
            flow.note.lane = lane;
        }
    }

    /// Returns the time at which the next flow is due.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |lane: usize| Some(self.front(lane)?.0 + self.lanes[lane].delay);
        (0..LANES).filter_map(due).min()
    }

    /// Releases the flows that are due, and flows whose values would make a ring long although few values
    /// are held.
    #[inline]
    pub fn release_due(&mut self, now: Timestamp, priority: Priority) {
        for lane in 0..LANES {
            let latest = now - self.lanes[lane].delay;
            let longest = if lane == UNKNOWN_FLOWS { usize::MAX } else { self.longest.max(4 * self.held) };
            let end = self.lanes[lane].back;
            let mut number = self.lanes[lane].front;
            while number != end {
                let is_due = self.lanes[lane].slot(number).came <= latest;
                if !is_due && end.wrapping_sub(number) as usize <= longest {
                    break;
                }
                let ahead = self.lanes[lane].slot(number.wrapping_add(AHEAD)).flow;
                self.prefetch(ahead);
                if let Some(flow) = self.heads(lane, number) {
                    let reason = if is_due { Reason::Timeout } else { Reason::Capacity };
                    self.release(flow, reason, priority);
                }
                number = number.wrapping_add(1);
            }
        }
    }

    /// Releases the flows that hold `length` values or more. Flows of [`UNKNOWN_FLOWS`] are released only if
    /// `length` is 0.
    pub fn release_long(&mut self, length: usize, reason: Reason, priority: Priority) {
        for lane in 0..if length == 0 { LANES } else { UNKNOWN_FLOWS } {
            let (front, length_of_ring) = (self.lanes[lane].front, self.lanes[lane].length() as u32);
            for offset in 0..length_of_ring {
                if let Some(flow) = self.heads(lane, front.wrapping_add(offset))
                    && self.flows[flow as usize].length as usize >= length
                {
                    self.release(flow, reason, priority);
                }
            }
        }
    }

    /// Releases all flows.
    pub fn release_all(&mut self, reason: Reason, priority: Priority) {
        self.release_long(0, reason, priority);
    }

    /// Releases the flow whose oldest value has waited longest.
    pub fn release_oldest(&mut self, reason: Reason, priority: Priority) {
        let front = |lane| self.front(lane).map(|(came, flow)| (came, lane == UNKNOWN_FLOWS, flow));
        if let Some((.., flow)) = (0..LANES).filter_map(front).min() {
            self.release(flow, reason, priority);
        }
    }

    /// Hands out the values that were released and the values that are due, list by list in the order of
    /// `priority`; lists of equal priority leave in the order of their waiting times, longest first. Lists
    /// of one flow keep their order, because the sort key of a flow never decreases.
    #[inline]
    pub fn send_due(&mut self, now: Timestamp, priority: Priority, out: &mut impl Output<T>) {
        // The most frequent case: all lists leave because they are due, and one ring has them in order
        // already.
        let is_plain = self.lanes[1..].iter().all(|lane| lane.length() == 0);
        if self.leaving.is_empty() && priority == Priority::LongestWait && is_plain {
            let latest = now - self.lanes[0].delay;
            while self.lanes[0].front != self.lanes[0].back {
                let number = self.lanes[0].front;
                let slot = self.lanes[0].slot(number);
                // Empty slots are freed here whatever their time. Otherwise each later search for the first
                // value would skip them again.
                if slot.came > latest && slot.item.is_some() {
                    break;
                }
                self.prefetch(self.lanes[0].slot(number.wrapping_add(AHEAD)).flow);
                if slot.item.is_some() {
                    // All slots ahead of it are empty, so this value is the oldest of its flow.
                    let leaving = self.take(slot.flow, slot.came, Reason::Timeout, priority);
                    self.hand_out(Leaving { head: number, lane: 0, ..leaving }, out);
                }
                self.lanes[0].front = number.wrapping_add(1);
            }
        }
        self.release_due(now, priority);
        self.let_go(out);
    }

    /// Hands out the values that were released, without the values that are only due.
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
        self.lanes.iter_mut().for_each(DelayClass::advance);
    }

    #[inline(always)]
    fn hand_out(&mut self, leaving: Leaving, out: &mut impl Output<T>) {
        let note = &mut self.flows[leaving.flow as usize].note;
        out.begin(leaving, note);
        let lane = &mut self.lanes[leaving.lane as usize % LANES];
        let (mut next, mut last) = (leaving.head, leaving.first);
        for _ in 0..leaving.length {
            let slot = lane.slot_mut(next);
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
