//! What is held: one list per flow, the flush lists that say when flows are due, and who leaves in which order.
//!
//! Knows neither packets nor keys: a flow is an index, and what is held is any value, so that tests hold numbers.
//!
//! What is held lies in a ring in the order in which it came, and that is the flush list as well: a flow is due when
//! the first of its values is, and that is the first of the ring unless its flow has left already. So nothing is
//! unlinked when a flow leaves early, memory is read and written in order, and what will be due can be asked
//! for ahead of time. Places of values that have left are passed over once, so that each value costs constant time.
//! (Links through the flows and a free list of nodes took more instructions, and waited for the line of each flow.)

use std::collections::TryReserveError;

use element::Timestamp;

/// Most classes of flows with a delay of their own.
pub const LANES: usize = 3;

/// The class of flows that leave when they are due, behind all others that leave together, and not before. So nothing that came
/// in front of one of their values leaves behind it, provided that no other class has a longer delay.
pub const APART: usize = 2;

/// Which of the flows that leave together goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The one that has sent the fewest packets so far.
    ShortestFlow,
    /// The one that was seen first.
    OldestFlow,
    /// The one whose oldest packet has waited longest.
    #[default]
    LongestWait,
}

/// Why a flow's packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are MAX_BURST of them.
    Full,
    /// The first one has waited DELAY.
    Timeout,
    /// A packet of the flow that is not to be held takes them with it.
    Bypass,
    /// There is no room for more.
    Capacity,
    /// The element is emptied: the end of the run, a handler, other arguments.
    Drain,
}

impl Reason {
    /// All of them, as reports list them.
    pub const ALL: [Reason; 5] =
        [Reason::Full, Reason::Timeout, Reason::Bypass, Reason::Capacity, Reason::Drain];

    /// The word in reports.
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

/// A value, and how it is linked; the value is gone once it has left.
struct Slot<T> {
    item: Option<T>,
    came: Timestamp,
    flow: u32,
    /// Number of the next one of the flow.
    next: u32,
}

/// A flow: half a cache line.
#[derive(Clone)]
#[repr(align(32))]
struct Flow {
    /// Numbers of the oldest value and of the youngest; they mean nothing while there is none.
    head: u32,
    tail: u32,
    length: u32,
    /// What has left so far.
    sent: u32,
    /// The how manieth flow it is.
    seen: u32,
    /// The owner's, and which ring its values are in.
    note: Note,
}

/// What the owner of the lists wants to know of each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The highest acknowledgment number that left, for the compressor; means something if the next field says so.
    pub acknowledged: u32,
    /// The hash of its key, which names it among flows that have no index too.
    pub hash: u32,
    /// Whether there is an acknowledgment number.
    pub has_acknowledged: bool,
    /// What the flow is; the owner's own code.
    pub kind: u8,
    /// What it has earned so far. Where a flow that is held in vain is given up: how often in a row it was, less how
    /// often not. Under an SLO: how surely the next packet comes in time, up with each that does, down with each that
    /// does not. No element has both.
    pub score: i8,
    /// Its class, which only [`Lists::open`] and [`Lists::set_lane`] set.
    pub lane: u8,
}

const _: () = assert!(size_of::<Flow>() == 32);

/// A class of flows: what these hold, in the order in which it came, and how long it waits.
struct Lane<T> {
    /// A power of two; value number `n` has place `n` modulo that.
    slots: Vec<Slot<T>>,
    /// The first value that is still there, and the next one to come; both wrap.
    front: u32,
    back: u32,
    delay: Timestamp,
}

impl<T> Lane<T> {
    /// What a ring has room for before it grows.
    const SHORT: usize = if cfg!(test) { 4 } else { 2048 };

    fn new(delay: Timestamp) -> Lane<T> {
        Lane { slots: Lane::empty(Lane::<T>::SHORT), front: 0, back: 0, delay }
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

    /// How many places there are between the first and the last value.
    #[inline]
    fn length(&self) -> usize {
        self.back.wrapping_sub(self.front) as usize
    }

    /// Adds a value; its number.
    #[inline(always)]
    fn push(&mut self, item: T, came: Timestamp, flow: u32) -> u32 {
        if self.length() == self.slots.len() {
            self.grow();
        }
        let number = self.back;
        self.back = number.wrapping_add(1);
        // One by one: put together elsewhere first, they would be read in larger pieces than they were written, and
        // that makes the processor wait.
        let slot = self.slot_mut(number);
        slot.item = Some(item);
        (slot.came, slot.flow) = (came, flow);
        number
    }

    /// Gives up the places in front of the first value that is still there.
    #[inline]
    fn advance(&mut self) {
        while self.front != self.back && self.slot(self.front).item.is_none() {
            self.front = self.front.wrapping_add(1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Lane::empty(2 * self.slots.len());
        for offset in 0..self.length() as u32 {
            let number = self.front.wrapping_add(offset);
            let place = number as usize & (larger.len() - 1);
            std::mem::swap(&mut larger[place], self.slot_mut(number));
        }
        self.slots = larger;
    }
}

/// Values in front of the one that is due whose flows are asked for.
const AHEAD: u32 = 8;

/// A list on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// What it is ordered by, and then by the time of its oldest and its turn.
    key: i64,
    first: Timestamp,
    turn: u32,
    head: u32,
    /// The flow.
    pub flow: u32,
    /// How many values.
    pub length: u32,
    lane: u8,
    /// Why.
    pub reason: Reason,
}

impl Leaving {
    fn order(&self) -> (i64, Timestamp, u32) {
        (self.key, self.first, self.turn)
    }
}

/// Takes what leaves.
pub trait Output<T> {
    /// A list begins.
    fn begin(&mut self, leaving: Leaving, note: &mut Note);
    /// One of its values, and when it came.
    fn value(&mut self, item: T, came: Timestamp);
    /// The list is over; when its last value came.
    fn end(&mut self, leaving: Leaving, note: &mut Note, last: Timestamp);
}

/// All lists of an element.
pub struct Lists<T> {
    flows: Vec<Flow>,
    lanes: [Lane<T>; LANES],
    /// Values that wait in flows.
    held: usize,
    /// Flows that hold some.
    active: usize,
    /// Flows that were opened so far.
    opened: u32,
    /// How long a ring may become however little is held.
    longest: usize,
    leaving: Vec<Leaving>,
    /// Whether those that leave are in order as they are.
    in_order: bool,
}

impl<T> Lists<T> {
    /// For flows with indices below `capacity`, which take up memory as they come.
    ///
    /// # Errors
    /// If there is not that much memory.
    pub fn new(capacity: usize, delay: Timestamp) -> Result<Lists<T>, TryReserveError> {
        let mut flows = Vec::new();
        flows.try_reserve_exact(capacity)?;
        Ok(Lists {
            flows,
            lanes: std::array::from_fn(|_| Lane::new(delay)),
            held: 0,
            active: 0,
            opened: 0,
            longest: 1 << 16,
            leaving: Vec::with_capacity(1024),
            in_order: true,
        })
    }

    /// Values that wait in flows.
    #[inline]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Flows that hold some.
    pub fn active(&self) -> usize {
        self.active
    }

    /// A new flow gets an index; it counts as seen behind all others.
    #[inline]
    pub fn open(&mut self, flow: u32, note: Note, lane: u8) {
        let note = Note { lane, ..note };
        let new = Flow { head: 0, tail: 0, length: 0, sent: 0, seen: self.opened, note };
        self.opened = self.opened.wrapping_add(1);
        match self.flows.get_mut(flow as usize) {
            Some(flow) => *flow = new,
            // Indices are given out one after the other.
            None => self.flows.resize(flow as usize + 1, new),
        }
    }

    /// Whether a flow holds something.
    #[inline]
    pub fn holds(&self, flow: u32) -> bool {
        self.flows.get(flow as usize).is_some_and(|flow| flow.length > 0)
    }

    /// Whether any flow of [`APART`] holds something.
    #[inline(always)]
    pub fn waits_apart(&self) -> bool {
        self.lanes[APART].length() > 0
    }

    /// The owner's notes of a flow.
    #[inline]
    pub fn note(&mut self, flow: u32) -> &mut Note {
        &mut self.flows[flow as usize].note
    }

    /// The owner's notes of all flows.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.flows.iter_mut().map(|flow| &mut flow.note)
    }

    /// Asks the processor for a flow's line.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        packet::prefetch_line(self.flows.as_ptr().wrapping_add(flow as usize).cast());
    }

    /// How long values of a class wait.
    pub fn delay(&self, lane: usize) -> Timestamp {
        self.lanes[lane].delay
    }

    /// Changes how long values of a class wait, those that do so already too.
    pub fn set_delay(&mut self, lane: usize, delay: Timestamp) {
        self.lanes[lane].delay = delay;
    }

    /// Puts a value behind those that a flow holds; how many these then are. `now` never goes back.
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

    /// The flow whose oldest value has this number, if it has not left yet.
    #[inline(always)]
    fn heads(&self, lane: usize, number: u32) -> Option<u32> {
        let index = self.lanes[lane].slot(number).flow;
        let flow = self.flows.get(index as usize)?;
        // The same number may stand for a value of the other class.
        (flow.head == number && flow.length > 0 && flow.note.lane as usize == lane).then_some(index)
    }

    /// The first flow of a class, and since when it holds something.
    #[inline]
    fn front(&self, lane: usize) -> Option<(Timestamp, u32)> {
        let Lane { front, back, .. } = self.lanes[lane];
        let mut number = front;
        while number != back {
            if let Some(flow) = self.heads(lane, number) {
                return Some((self.lanes[lane].slot(number).came, flow));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Takes what a flow holds; it leaves with the next [`let_go`](Self::let_go).
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

    /// Takes what a flow holds that has waited since `first`.
    #[inline(always)]
    fn take(&mut self, index: u32, first: Timestamp, reason: Reason, priority: Priority) -> Leaving {
        let flow = &mut self.flows[index as usize];
        let key = match priority {
            _ if flow.note.lane as usize == APART => i64::MAX,
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

    /// Moves a flow that holds nothing to another class.
    pub fn set_lane(&mut self, flow: u32, lane: u8) {
        let flow = &mut self.flows[flow as usize];
        if flow.length == 0 {
            flow.note.lane = lane;
        }
    }

    /// When the next flow is due.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |lane: usize| Some(self.front(lane)?.0 + self.lanes[lane].delay);
        (0..LANES).filter_map(due).min()
    }

    /// Lets the flows go that are due, and those for which a ring would become long although little is held.
    #[inline]
    pub fn release_due(&mut self, now: Timestamp, priority: Priority) {
        for lane in 0..LANES {
            let latest = now - self.lanes[lane].delay;
            let longest = if lane == APART { usize::MAX } else { self.longest.max(4 * self.held) };
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

    /// Lets the flows go that hold so many values or more, but for those that do not leave before they are due.
    pub fn release_long(&mut self, length: usize, reason: Reason, priority: Priority) {
        for lane in 0..if length == 0 { LANES } else { APART } {
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

    /// Lets all flows go.
    pub fn release_all(&mut self, reason: Reason, priority: Priority) {
        self.release_long(0, reason, priority);
    }

    /// Lets that flow go whose oldest value has waited longest.
    pub fn release_oldest(&mut self, reason: Reason, priority: Priority) {
        let front = |lane| self.front(lane).map(|(came, flow)| (came, lane == APART, flow));
        if let Some((.., flow)) = (0..LANES).filter_map(front).min() {
            self.release(flow, reason, priority);
        }
    }

    /// Hands out what was released and what is due by now: list by list in the order of priority, equal ones as they
    /// have waited, longest first. Lists of one flow keep their order, because no priority ever decreases for it.
    #[inline]
    pub fn let_go_due(&mut self, now: Timestamp, priority: Priority, out: &mut impl Output<T>) {
        // Most lists leave like this: all because they are due, and one ring has them in order already.
        let is_plain = self.lanes[1..].iter().all(|lane| lane.length() == 0);
        if self.leaving.is_empty() && priority == Priority::LongestWait && is_plain {
            let latest = now - self.lanes[0].delay;
            while self.lanes[0].front != self.lanes[0].back {
                let number = self.lanes[0].front;
                let slot = self.lanes[0].slot(number);
                // Places that are empty are given up here whatever their time: whoever asks next for the first one
                // would pass over them again and again.
                if slot.came > latest && slot.item.is_some() {
                    break;
                }
                self.prefetch(self.lanes[0].slot(number.wrapping_add(AHEAD)).flow);
                if slot.item.is_some() {
                    // Nothing in front of it is left, so it is the first of its flow.
                    let leaving = self.take(slot.flow, slot.came, Reason::Timeout, priority);
                    self.hand_out(Leaving { head: number, lane: 0, ..leaving }, out);
                }
                self.lanes[0].front = number.wrapping_add(1);
            }
        }
        self.release_due(now, priority);
        self.let_go(out);
    }

    /// The same without what is due.
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
        self.lanes.iter_mut().for_each(Lane::advance);
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
