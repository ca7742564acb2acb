//! Lists of held values: one list per flow, the rings that show which flow is due next, and the order in
//! which flows leave.
//!
//! The module handles neither packets nor flow keys. A flow is an index, and a held value has any type (`T`),
//! so that tests hold numbers.
//!
//! The first three values of a list are in the cache line of the flow, further values in blocks of four. So
//! the values of a short list need no memory but the line that the flow needs anyway. The block that was
//! freed last is used first, because it is likely to be in the cache.
//!
//! Each delay class has one ring, which is the flush list of the Reframer paper: a slot for each list of a
//! flow of the class, in the order in which the first values of the lists arrived. A flow is due when the
//! first value of its list has waited for the delay of the class. If a flow leaves early, its slot stays in
//! the ring and is skipped later, so each list costs constant time. The flows that will be due soon are known
//! from the next slots, and can be prefetched.

use std::collections::TryReserveError;

use element::Timestamp;

/// The number of delay classes that all elements have: groups of flows, each with a delay and a ring of its
/// own. Further classes follow for the rules of DELAYS.
pub const DELAY_CLASSES: usize = 3;
/// The maximum number of delay classes, a power of two.
pub const MAX_CLASSES: usize = 16;

/// The delay class of the flows that stand for all packets from one host to another (see
/// [`crate::key::FlowKind::Pair`]). Neither a large number of values of such a flow nor the length of the
/// ring releases its values early. Of all flows that leave together, flows of this class leave last. So a
/// value that arrived before a value of this class does not leave after it, provided that no other class has
/// a longer delay.
pub const UNKNOWN_FLOWS: usize = 2;

/// The rule for the order in which flows that are released together leave.
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
    /// The element is emptied: at the end of the run, by a handler, because of new arguments, or because it
    /// pauses (MIN_BURST).
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

/// The number of values of a list that are in the cache line of the flow.
const OWN: usize = 3;
/// The number of values in a block.
const BLOCK: usize = 4;
/// The number of a block that does not exist.
const NO_BLOCK: u32 = u32::MAX;

/// The list of one flow, in one cache line if a value is a packet.
#[repr(C, align(64))]
struct Flow<T> {
    /// The first values of the list.
    values: [Option<T>; OWN],
    /// The times at which the values in `values` arrived, modulo 2^32 ns.
    times: [u32; OWN],
    /// The number of the list's slot in the ring of the flow's delay class; undefined while the list is
    /// empty.
    slot: u32,
    length: u32,
    /// The number of values of the flow that were released so far; stops at the maximum of the type.
    sent: u32,
    /// The number of flows that were opened before this flow, for [`Priority::OldestFlow`].
    seen: u32,
    /// The block with the values after the first [`OWN`]; undefined if there are none.
    block: u32,
    /// The data that the element keeps for the flow. They include the delay class, and so the ring in which
    /// the list has its slot.
    note: Note,
}

const _: () = assert!(size_of::<Flow<element::Packet>>() == 64);

impl<T> Flow<T> {
    fn new(seen: u32, note: Note) -> Flow<T> {
        Flow {
            values: [const { None }; OWN],
            times: [0; OWN],
            slot: 0,
            length: 0,
            sent: 0,
            seen,
            block: NO_BLOCK,
            note,
        }
    }

    /// True if the flow's list holds values and has slot `number` in the ring of the delay class
    /// `delay_class`. False if the list to which this slot belonged has left. (A slot of another delay class
    /// may have the same number in its own ring.)
    #[inline(always)]
    fn has_slot(&self, number: u32, delay_class: usize) -> bool {
        self.slot == number && self.length > 0 && self.note.delay_class as usize == delay_class
    }

    /// Adds the number of values of the list to the number of values that the flow has sent, and returns the
    /// number of values of the list. The caller takes the values.
    #[inline(always)]
    fn count_as_sent(&mut self) -> u32 {
        let length = std::mem::take(&mut self.length);
        self.sent = self.sent.saturating_add(length);
        length
    }
}

/// Data that the element keeps for each flow. Apart from `delay_class`, the lists do not use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The hash of the flow's key. Statistics tell flows apart by it, because packets without a flow entry
    /// have a hash too.
    pub hash: u32,
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

/// Values of a list after the first [`OWN`], with their times as in [`Flow`], in one cache line.
#[repr(align(64))]
struct Block<T> {
    values: [Option<T>; BLOCK],
    times: [u32; BLOCK],
    /// The next block of the list, or the next free block; [`NO_BLOCK`] at the end.
    next: u32,
    /// In the first block of a list: the last block of the list.
    last: u32,
}

/// The blocks of all lists. A block that is free is used again, the one that was freed last first.
struct Blocks<T> {
    blocks: Vec<Block<T>>,
    free: u32,
}

impl<T> Blocks<T> {
    fn new() -> Blocks<T> {
        Blocks { blocks: Vec::with_capacity(1024), free: NO_BLOCK }
    }

    /// Returns the number of a block without values.
    fn take(&mut self) -> u32 {
        match self.blocks.get_mut(self.free as usize) {
            Some(block) => {
                let number = std::mem::replace(&mut self.free, block.next);
                block.next = NO_BLOCK;
                number
            }
            None => {
                self.blocks.push(Block {
                    values: [const { None }; BLOCK],
                    times: [0; BLOCK],
                    next: NO_BLOCK,
                    last: NO_BLOCK,
                });
                self.blocks.len() as u32 - 1
            }
        }
    }

    /// Appends a value to the blocks of a list that has `length` values, at least [`OWN`]. `first` is the
    /// number of the first block of the list; it is set here if the list has no blocks yet.
    #[inline(never)]
    fn push(&mut self, first: &mut u32, length: usize, value: T, time: u32) {
        let place = (length - OWN) % BLOCK;
        if place == 0 {
            let new = self.take();
            if length == OWN {
                *first = new;
            } else {
                let last = self.blocks[*first as usize].last;
                self.blocks[last as usize].next = new;
            }
            self.blocks[*first as usize].last = new;
        }
        let last = self.blocks[*first as usize].last;
        let block = &mut self.blocks[last as usize];
        (block.values[place], block.times[place]) = (Some(value), time);
    }

    /// Moves the `length` values in the blocks of a list to the end of `to`, and frees the blocks. `first` is
    /// the number of the first block.
    #[inline(never)]
    fn empty(&mut self, first: u32, length: usize, to: &mut Released<T>) {
        let (mut number, mut left) = (first, length);
        while left > 0 {
            let block = &mut self.blocks[number as usize];
            let count = left.min(BLOCK);
            to.add(&mut block.values[..count], &block.times[..count]);
            let next = std::mem::replace(&mut block.next, self.free);
            self.free = std::mem::replace(&mut number, next);
            left -= count;
        }
    }
}

/// Values that were released, with their times as in [`Flow`].
struct Released<T> {
    values: Vec<Option<T>>,
    times: Vec<u32>,
}

impl<T> Released<T> {
    fn new() -> Released<T> {
        Released { values: Vec::with_capacity(1024), times: Vec::with_capacity(1024) }
    }

    fn add(&mut self, values: &mut [Option<T>], times: &[u32]) {
        self.values.extend(values.iter_mut().map(Option::take));
        self.times.extend_from_slice(times);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.times.clear();
    }
}

/// A slot of a ring, for one list: the time at which the first value of the list arrived, and the index of
/// the list's flow.
#[derive(Clone, Copy, Default)]
struct Slot {
    came: Timestamp,
    flow: u32,
}

/// A delay class: its delay, and the ring with the lists of its flows in the order in which their first
/// values arrived.
struct DelayClass {
    /// The slots of the ring; their number is a power of two. Slot number `n` is at index `n` modulo this
    /// number.
    slots: Vec<Slot>,
    /// The number of the first slot whose flow may still hold the values of its list, and the number of the
    /// next slot to be used. Both count modulo 2^32.
    front: u32,
    back: u32,
    delay: Timestamp,
}

impl DelayClass {
    /// The initial number of slots of a ring.
    const SHORT: usize = if cfg!(test) { 4 } else { 2048 };

    /// Makes a class without lists. A class that is not used takes no memory for a ring.
    fn new(delay: Timestamp, is_used: bool) -> DelayClass {
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
    fn slot(&self, number: u32) -> Slot {
        self.slots[self.place(number)]
    }

    /// Returns the number of slots in use, including slots whose list has left already.
    #[inline]
    fn length(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// Appends a slot, and returns its number. A full ring grows to twice its size.
    #[inline(always)]
    fn push(&mut self, came: Timestamp, flow: u32) -> u32 {
        if self.length() == self.slots.len() {
            self.grow();
        }
        let number = self.back;
        self.back = number.wrapping_add(1);
        let place = self.place(number);
        self.slots[place] = Slot { came, flow };
        number
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = vec![Slot::default(); 2 * self.slots.len()];
        for offset in 0..self.length() as u32 {
            let number = self.front.wrapping_add(offset);
            let place = number as usize & (larger.len() - 1);
            larger[place] = self.slot(number);
        }
        self.slots = larger;
    }
}

/// The number of slots between a list that is examined and the list whose flow is prefetched meanwhile.
const AHEAD: u32 = 8;

/// A list of values of one flow that is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The first sort key, which depends on the priority. Ties are broken by `first`, the arrival time of
    /// the oldest value, and then by `turn`, the order of release.
    key: i64,
    /// The time at which the oldest value arrived.
    pub first: Timestamp,
    turn: u32,
    /// The index of the flow.
    pub flow: u32,
    /// The number of values in the list; at least 1.
    pub length: u32,
    /// The reason for which the values leave.
    pub reason: ReleaseReason,
    /// The delay class in which the values waited. The flow may be in another one by the time they leave.
    pub delay_class: u8,
}

impl Leaving {
    /// Returns the times at which the values of the list arrived, from the times that [`Output::list`] gets.
    /// The times are exact if the values followed each other within 2^32 ns.
    #[inline(always)]
    pub fn arrivals(&self, times: &[u32]) -> impl Iterator<Item = Timestamp> {
        times.iter().scan(self.first, |came, time| {
            *came = Timestamp(came.0 + i64::from(time.wrapping_sub(came.0 as u32)));
            Some(*came)
        })
    }

    fn order(&self) -> (i64, Timestamp, u32) {
        (self.key, self.first, self.turn)
    }
}

/// A receiver of the lists that leave [`Lists`].
pub trait Output<T> {
    /// Takes the values of a list, in order of arrival; none of them is `None`. `note` belongs to the flow of
    /// the list. `times` has the times of arrival of the values, modulo 2^32 ns, and possibly more numbers.
    fn list(&mut self, leaving: Leaving, note: &mut Note, values: &mut [Option<T>], times: &[u32]);
}

/// The lists of all flows of one element, with the delay classes.
pub struct Lists<T> {
    flows: Vec<Flow<T>>,
    blocks: Blocks<T>,
    /// The delay classes. Those with an index of `count` or more are not used.
    delay_classes: [DelayClass; MAX_CLASSES],
    /// The number of delay classes in use, from [`DELAY_CLASSES`] to [`MAX_CLASSES`].
    count: usize,
    /// The number of values that are held; values that were released and have not left yet do not count.
    held: usize,
    /// The number of flows that hold values; flows whose values were released and have not left yet do not
    /// count.
    active: usize,
    /// The number of flows that were opened so far, modulo 2^32.
    opened: u32,
    /// The number of slots up to which a ring may grow however few values are held. Beyond it, a ring may
    /// have four slots per held value.
    longest: usize,
    /// The lists that were released, each with the index in `released` of its first value.
    leaving: Vec<(Leaving, usize)>,
    /// The values of the lists in `leaving`, in the order of their release.
    released: Released<T>,
    /// True if `leaving` is in the order in which its lists must leave, so that it need not be sorted.
    in_order: bool,
}

impl<T> Lists<T> {
    /// Creates lists for flows with indices below `capacity`, with one delay class for each delay in
    /// `delays`, but at least [`DELAY_CLASSES`] classes; the last delay is repeated for missing ones. Memory
    /// for the flows is reserved at once, but pages are touched only as flows are opened.
    ///
    /// # Errors If the memory cannot be allocated.
    pub fn new(capacity: usize, delays: &[Timestamp]) -> Result<Lists<T>, TryReserveError> {
        let count = delays.len().clamp(DELAY_CLASSES, MAX_CLASSES);
        let delay_class = |number: usize| {
            let delay = delays.get(number).or(delays.last()).copied().unwrap_or_default();
            DelayClass::new(delay, number < count)
        };
        let mut flows = Vec::new();
        flows.try_reserve_exact(capacity)?;
        Ok(Lists {
            flows,
            blocks: Blocks::new(),
            delay_classes: std::array::from_fn(delay_class),
            count,
            held: 0,
            active: 0,
            opened: 0,
            longest: 1 << 16,
            leaving: Vec::with_capacity(1024),
            released: Released::new(),
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
        let delay_class = self.existing(delay_class);
        let note = Note { delay_class, ..note };
        let new = Flow::new(self.opened, note);
        self.opened = self.opened.wrapping_add(1);
        match self.flows.get_mut(flow as usize) {
            Some(flow) => *flow = new,
            // The flow table assigns consecutive indices, so at most one flow is appended.
            None => {
                self.flows.resize_with(flow as usize, || Flow::new(0, Note::default()));
                self.flows.push(new);
            }
        }
    }

    /// Returns `delay_class` if there is such a class, otherwise the first class.
    fn existing(&self, delay_class: u8) -> u8 {
        if usize::from(delay_class) < self.count { delay_class } else { 0 }
    }

    /// Returns the indices of all delay classes in use. The first [`DELAY_CLASSES`] come from a range of
    /// their own, so that the compiler sees a loop of fixed length for them.
    #[inline(always)]
    fn numbers(&self) -> impl Iterator<Item = usize> + use<T> {
        (0..DELAY_CLASSES).chain(DELAY_CLASSES..self.count)
    }

    /// True if a flow holds values.
    #[inline]
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| flow.length > 0)
    }

    /// True if flows of the delay class [`UNKNOWN_FLOWS`] hold values. Values that were released and have not
    /// left yet count.
    #[inline(always)]
    pub fn holds_unknown(&self) -> bool {
        self.delay_classes[UNKNOWN_FLOWS].length() > 0
    }

    /// Returns the data that the element keeps for a flow. Panics if the flow was never opened.
    #[inline]
    pub fn note(&mut self, flow: u32) -> &mut Note {
        &mut self.flows[flow as usize].note
    }

    /// Prefetches the cache line of a flow. Any index is allowed.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        packet::prefetch_line(self.flows.as_ptr().wrapping_add(flow as usize).cast());
    }

    /// Returns the number of delay classes.
    pub fn delay_classes(&self) -> usize {
        self.count
    }

    /// Returns the delay of a delay class.
    pub fn delay(&self, delay_class: usize) -> Timestamp {
        self.delay_classes[delay_class % MAX_CLASSES].delay
    }

    /// Changes the delay of a delay class, also for values that are already held.
    pub fn set_delay(&mut self, delay_class: usize, delay: Timestamp) {
        self.delay_classes[delay_class % MAX_CLASSES].delay = delay;
    }

    /// Appends a value to the list of an open flow, and returns the number of values in the list. `now`
    /// must not decrease from call to call, so that the rings stay in order of arrival.
    #[inline(always)]
    pub fn hold(&mut self, index: u32, value: T, now: Timestamp) -> usize {
        let flow = &mut self.flows[index as usize];
        let length = flow.length as usize;
        if length == 0 {
            let delay_class = &mut self.delay_classes[flow.note.delay_class as usize % MAX_CLASSES];
            flow.slot = delay_class.push(now, index);
            self.active += 1;
        }
        let time = now.0 as u32;
        if length < OWN {
            (flow.values[length], flow.times[length]) = (Some(value), time);
        } else {
            self.blocks.push(&mut flow.block, length, value, time);
        }
        flow.length += 1;
        self.held += 1;
        length + 1
    }

    /// Returns the flow whose list has this slot in the ring of the delay class; `None` if the list has left
    /// or was released.
    #[inline(always)]
    fn flow_at(&self, delay_class: usize, number: u32) -> Option<u32> {
        let index = self.delay_classes[delay_class % MAX_CLASSES].slot(number).flow;
        self.flows.get(index as usize)?.has_slot(number, delay_class).then_some(index)
    }

    /// Returns the arrival time of the oldest held value of a delay class, and the flow that holds it;
    /// `None` if the class holds no values.
    #[inline]
    fn front(&self, delay_class: usize) -> Option<(Timestamp, u32)> {
        let DelayClass { front, back, .. } = self.delay_classes[delay_class % MAX_CLASSES];
        let mut number = front;
        while number != back {
            if let Some(flow) = self.flow_at(delay_class, number) {
                return Some((self.delay_classes[delay_class % MAX_CLASSES].slot(number).came, flow));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Frees the slots of a ring ahead of the first list that is still held.
    #[inline]
    fn advance(&mut self, delay_class: usize) {
        let DelayClass { mut front, back, .. } = self.delay_classes[delay_class % MAX_CLASSES];
        while front != back && self.flow_at(delay_class, front).is_none() {
            front = front.wrapping_add(1);
        }
        self.delay_classes[delay_class % MAX_CLASSES].front = front;
    }

    /// Releases the values of a flow, if it holds any: they leave with the next [`let_go`](Self::let_go).
    #[inline]
    pub fn release(&mut self, index: u32, reason: ReleaseReason, priority: Priority) {
        let flow = &self.flows[index as usize];
        if flow.length == 0 {
            return;
        }
        let first = self.delay_classes[flow.note.delay_class as usize % MAX_CLASSES].slot(flow.slot).came;
        let leaving = self.leave(index, first, reason, priority);
        self.in_order &= self.leaving.last().is_none_or(|(before, _)| before.order() < leaving.order());
        self.leaving.push((leaving, self.released.values.len()));
        let flow = &mut self.flows[index as usize];
        move_values(flow, leaving.length, &mut self.blocks, &mut self.released);
    }

    /// Removes the list of a flow that holds values from the counts of held values. The first value of the
    /// list arrived at `first`. The caller takes the values.
    #[inline(always)]
    fn leave(&mut self, index: u32, first: Timestamp, reason: ReleaseReason, priority: Priority) -> Leaving {
        let flow = &mut self.flows[index as usize];
        let key = match priority {
            _ if flow.note.delay_class as usize == UNKNOWN_FLOWS => i64::MAX,
            Priority::ShortestFlow => i64::from(flow.sent),
            Priority::OldestFlow => i64::from(flow.seen),
            Priority::LongestWait => first.0,
        };
        let length = flow.count_as_sent();
        let delay_class = flow.note.delay_class;
        self.held -= length as usize;
        self.active -= 1;
        Leaving { key, first, turn: self.leaving.len() as u32, flow: index, length, reason, delay_class }
    }

    /// Moves a flow to another delay class. A flow that holds values stays where it is, because its list
    /// has a slot in the ring of its class.
    pub fn set_delay_class(&mut self, flow: u32, delay_class: u8) {
        let delay_class = self.existing(delay_class);
        let flow = &mut self.flows[flow as usize];
        if flow.length == 0 {
            flow.note.delay_class = delay_class;
        }
    }

    /// Returns the earliest time at which a flow is due; `None` if no values are held.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |delay_class: usize| {
            Some(self.front(delay_class)?.0 + self.delay_classes[delay_class % MAX_CLASSES].delay)
        };
        self.numbers().filter_map(due).min()
    }

    /// Releases the flows that are due at `now`, with [`ReleaseReason::Timeout`]. Where a ring is much
    /// longer than the number of held values, also releases the flows of its oldest slots, with
    /// [`ReleaseReason::Capacity`]. The ring of [`UNKNOWN_FLOWS`] is exempt from this limit.
    #[inline]
    pub fn release_due(&mut self, now: Timestamp, priority: Priority) {
        for delay_class in 0..DELAY_CLASSES {
            self.release_due_in(delay_class, now, priority);
        }
        if self.count > DELAY_CLASSES {
            self.release_due_by_rules(now, priority);
        }
    }

    /// Does what [`release_due`](Self::release_due) does, for the delay classes that belong to rules of
    /// DELAYS.
    #[inline(never)]
    fn release_due_by_rules(&mut self, now: Timestamp, priority: Priority) {
        (DELAY_CLASSES..self.count).for_each(|delay_class| self.release_due_in(delay_class, now, priority));
    }

    /// Does what [`release_due`](Self::release_due) does, for one delay class.
    #[inline(always)]
    fn release_due_in(&mut self, delay_class: usize, now: Timestamp, priority: Priority) {
        let latest = now - self.delay_classes[delay_class % MAX_CLASSES].delay;
        let longest = if delay_class == UNKNOWN_FLOWS { usize::MAX } else { self.longest.max(4 * self.held) };
        let end = self.delay_classes[delay_class % MAX_CLASSES].back;
        let mut number = self.delay_classes[delay_class % MAX_CLASSES].front;
        while number != end {
            let is_due = self.delay_classes[delay_class % MAX_CLASSES].slot(number).came <= latest;
            if !is_due && end.wrapping_sub(number) as usize <= longest {
                break;
            }
            let ahead = self.delay_classes[delay_class % MAX_CLASSES].slot(number.wrapping_add(AHEAD)).flow;
            self.prefetch(ahead);
            if let Some(flow) = self.flow_at(delay_class, number) {
                let reason = if is_due { ReleaseReason::Timeout } else { ReleaseReason::Capacity };
                self.release(flow, reason, priority);
            }
            number = number.wrapping_add(1);
        }
    }

    /// Releases the flows that hold at least `length` values. Flows of [`UNKNOWN_FLOWS`] are released only
    /// if `length` is 0.
    pub fn release_long(&mut self, length: usize, reason: ReleaseReason, priority: Priority) {
        for delay_class in self.numbers() {
            if delay_class == UNKNOWN_FLOWS && length > 0 {
                continue;
            }
            let (front, length_of_ring) = (
                self.delay_classes[delay_class % MAX_CLASSES].front,
                self.delay_classes[delay_class % MAX_CLASSES].length() as u32,
            );
            for offset in 0..length_of_ring {
                if let Some(flow) = self.flow_at(delay_class, front.wrapping_add(offset))
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
        if let Some((.., flow)) = self.numbers().filter_map(front).min() {
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
        let is_empty = |delay_class: &DelayClass| delay_class.length() == 0;
        let is_plain = self.delay_classes[1..DELAY_CLASSES].iter().all(is_empty)
            && self.delay_classes[DELAY_CLASSES..self.count].iter().all(is_empty);
        if self.leaving.is_empty() && priority == Priority::LongestWait && is_plain {
            self.send_front(now - self.delay_classes[0].delay, out);
        }
        self.release_due(now, priority);
        self.let_go(out);
    }

    /// Passes to `out` the lists of the first delay class whose first value arrived at `latest` or before.
    #[inline(always)]
    fn send_front(&mut self, latest: Timestamp, out: &mut impl Output<T>) {
        let Lists { flows, blocks, delay_classes: [delay_class, ..], released, .. } = self;
        let (mut front, back) = (delay_class.front, delay_class.back);
        let (mut values, mut lists) = (0, 0);
        while front != back {
            let Slot { came, flow: index } = delay_class.slot(front);
            let ahead = delay_class.slot(front.wrapping_add(AHEAD)).flow;
            packet::prefetch_line(flows.as_ptr().wrapping_add(ahead as usize).cast());
            let flow = flows.get_mut(index as usize).filter(|flow| flow.has_slot(front, 0));
            // Slots of lists that have left are freed here even if their lists would not be due. Otherwise
            // each later search for the first list would skip them again.
            if came > latest && flow.is_some() {
                break;
            }
            front = front.wrapping_add(1);
            let Some(flow) = flow else { continue };
            let length = flow.count_as_sent();
            (values, lists) = (values + length as usize, lists + 1);
            let reason = ReleaseReason::Timeout;
            let leaving =
                Leaving { key: came.0, first: came, turn: 0, flow: index, length, reason, delay_class: 0 };
            if let Some(values) = flow.values.get_mut(..length as usize) {
                out.list(leaving, &mut flow.note, values, &flow.times);
            } else {
                move_values(flow, length, blocks, released);
                out.list(leaving, &mut flow.note, &mut released.values, &released.times);
                released.clear();
            }
        }
        delay_class.front = front;
        self.held -= values;
        self.active -= lists;
    }

    /// Passes to `out` the lists that were released. Lists that are only due stay.
    #[inline]
    pub fn let_go(&mut self, out: &mut impl Output<T>) {
        if self.leaving.is_empty() {
            return;
        }
        if !self.in_order {
            self.leaving.sort_unstable_by_key(|(leaving, _)| leaving.order());
        }
        for (leaving, start) in self.leaving.drain(..) {
            let note = &mut self.flows[leaving.flow as usize].note;
            let range = start..start + leaving.length as usize;
            let Released { values, times } = &mut self.released;
            out.list(leaving, note, &mut values[range.clone()], &times[range]);
        }
        self.released.clear();
        self.in_order = true;
        self.numbers().for_each(|delay_class| self.advance(delay_class));
    }
}

/// Moves the `length` values of a flow's list to the end of `to`.
#[inline(always)]
fn move_values<T>(flow: &mut Flow<T>, length: u32, blocks: &mut Blocks<T>, to: &mut Released<T>) {
    let own = OWN.min(length as usize);
    to.add(&mut flow.values[..own], &flow.times[..own]);
    if length as usize > OWN {
        blocks.empty(flow.block, length as usize - OWN, to);
    }
}

#[cfg(test)]
mod tests;
