//! Lists of held values: one list for each flow that holds values, the rings that show which list is due
//! next, and the order in which lists leave.
//!
//! A list begins with the first value that its flow holds, and is found by the flow's key (`index`). It
//! ends when its values leave; what is remembered of the flow beyond that is not here (`memory`). So
//! the memory that is used grows with the number of values that are held, not with the number of flows: the
//! lists of flows that hold values stay in the caches, and the list that ended last is used first.
//!
//! A list has one cache line, with the key of an IPv4 flow and the first three values. Further values are in
//! blocks of four (`blocks`), and longer keys and what is known of remembered flows in an array beside the
//! lists (`More`).
//!
//! Each delay class has one ring (`delay_class`), which is the flush list of the Reframer paper: a slot for
//! each list of a flow of the class, in the order in which the first values of the lists arrived. A list is
//! due when its first value has waited for the delay of the class. If a list leaves early, its slot stays in
//! the ring and is skipped later, so each list costs constant time.

mod blocks;
mod delay_class;
mod index;

use std::collections::TryReserveError;

use element::Timestamp;

use crate::key::{FlowKey, FlowKind, ShortKey};
use blocks::{Blocks, NO_BLOCK, Released};
use delay_class::{DelayClass, Slot};
use index::{Index, NO_LIST};

/// The number of delay classes that all elements have: groups of flows, each with a delay and a ring of its
/// own. Further classes follow for the rules of DELAYS.
pub const DELAY_CLASSES: usize = 3;
/// The maximum number of delay classes, a power of two.
pub const MAX_CLASSES: usize = 16;

/// The delay class of the flows that stand for all packets from one host to another (see
/// [`FlowKind::Pair`]). Neither a large number of values of such a flow nor the length of the
/// ring releases its values early. Of all flows that leave together, flows of this class leave last. So a
/// value that arrived before a value of this class does not leave after it, provided that no other class has
/// a longer delay.
pub const UNKNOWN_FLOWS: usize = 2;

/// The rule for the order in which flows that are released together leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The flow of which the fewest packets were held so far leaves first.
    ShortestFlow,
    /// The flow that was seen first leaves first.
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
    /// There is no room: MAX_HELD is reached, the packets between two hosts ([`FlowKind::Pair`]) found no
    /// room for a list, or the ring is much longer than the number of held packets.
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

/// The number of values of a list that are in its cache line.
const OWN: usize = 3;

/// The list of one flow, in one cache line if a value is a packet. A list with [`own`](Self::own) 0 is free.
#[repr(C, align(64))]
struct List<T> {
    /// The key of the flow, or its first two words; the others are in [`More`].
    key: ShortKey,
    /// The first values of the list.
    values: [Option<T>; OWN],
    /// The times at which the values in `values` arrived, modulo 2^32 ns.
    times: [u32; OWN],
    /// The number of the list's slot in the ring of its delay class. In a free list: the next free list.
    slot: u32,
    /// The first block with values after those in `values`, or [`NO_BLOCK`].
    block: u32,
    /// The number of values in `values`.
    own: u8,
    delay_class: u8,
    kind: FlowKind,
    /// The traits of all values together ([`Lists::hold`]), and [`REMEMBERED`].
    traits: u8,
}

/// The bit of [`List::traits`] that is set if `flow` and `order` of [`More`] are in use.
const REMEMBERED: u8 = 0x80;

const _: () = assert!(size_of::<List<element::Packet>>() == 64);

impl<T> List<T> {
    const FREE: List<T> = List {
        key: ShortKey::NONE,
        values: [const { None }; OWN],
        times: [0; OWN],
        slot: NO_LIST,
        block: NO_BLOCK,
        own: 0,
        delay_class: 0,
        kind: FlowKind::Pair,
        traits: 0,
    };

    /// True if the list holds values and has slot `number` in the ring of the delay class `delay_class`.
    /// False if the list to which this slot belonged has left. (A slot of another delay class may have the
    /// same number in its own ring.)
    #[inline(always)]
    fn has_slot(&self, number: u32, delay_class: usize) -> bool {
        self.slot == number && self.own > 0 && usize::from(self.delay_class) == delay_class
    }
}

/// The values that few lists need: the rest of a long key, and the place of a remembered flow.
#[derive(Clone, Copy, Default)]
struct More {
    /// The words of the flow's key after the first two.
    rest: [u64; 3],
    /// The number of the flow where it is remembered.
    flow: u32,
    /// The number by which the flow is ordered ([`Priority`]).
    order: u32,
}

/// The properties of a flow when its list begins.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The kind of the flow.
    pub kind: FlowKind,
    /// The traits of the first value, as for [`Lists::hold`].
    pub traits: u8,
    /// The delay class in which the values wait; class 0 if there is no such class.
    pub delay_class: u8,
    /// If the flow is remembered: its number there, and the number by which it is ordered
    /// ([`Priority::ShortestFlow`], [`Priority::OldestFlow`]), which must not decrease from list to list.
    pub remembered: Option<(u32, u32)>,
}

/// A list of values of one flow that is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The first sort key, which depends on the priority. Ties are broken by `first`, the arrival time of
    /// the oldest value, and then by `turn`, the order of release.
    key: i64,
    /// The time at which the oldest value arrived.
    pub first: Timestamp,
    turn: u32,
    /// The hash of the flow.
    pub hash: u32,
    /// The number of values in the list; at least 1.
    pub length: u32,
    /// The number of the flow where it is remembered.
    pub flow: Option<u32>,
    /// The reason for which the values leave.
    pub reason: ReleaseReason,
    /// The delay class in which the values waited.
    pub delay_class: u8,
    /// The kind of the flow.
    pub kind: FlowKind,
    /// The traits of all values together, as they were given to [`Lists::hold`].
    pub traits: u8,
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
    /// Takes the values of a list, in order of arrival; none of them is `None`. `times` has the times of
    /// arrival of the values, modulo 2^32 ns, and possibly more numbers.
    fn list(&mut self, leaving: Leaving, values: &mut [Option<T>], times: &[u32]);

    /// Does what [`list`](Self::list) does, for a short list that is due and not remembered. Returns false if
    /// `list` is to be called in its place.
    #[inline(always)]
    fn short_list(&mut self, list: ShortList, values: &mut [Option<T>]) -> bool {
        let _ = (list, values);
        false
    }
}

/// A list that leaves and has its values in its own cache line.
#[derive(Clone, Copy, Debug)]
pub struct ShortList {
    /// The time at which the oldest value arrived.
    pub first: Timestamp,
    /// The time at which the youngest value arrived, modulo 2^32 ns.
    pub last: u32,
    /// The hash of the flow.
    pub hash: u32,
    /// The kind of the flow.
    pub kind: FlowKind,
    /// The traits of all values together.
    pub traits: u8,
}

/// The lists of one element, with the delay classes.
pub struct Lists<T> {
    lists: Vec<List<T>>,
    /// By the number of a list; lists with numbers from the length on need none.
    more: Vec<More>,
    /// The list that ended last and is free, or [`NO_LIST`].
    free: u32,
    index: Index,
    blocks: Blocks<T>,
    /// The delay classes. Those with an index of `count` or more are not used.
    delay_classes: [DelayClass; MAX_CLASSES],
    /// The number of delay classes in use, from [`DELAY_CLASSES`] to [`MAX_CLASSES`].
    count: usize,
    /// The maximum number of lists.
    capacity: usize,
    /// The number of values that are held; values that were released and have not left yet do not count.
    held: usize,
    /// The number of lists that hold values.
    active: usize,
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
    /// Creates room for up to `capacity` lists, with one delay class for each delay in `delays`, but at least
    /// [`DELAY_CLASSES`] classes; the last delay is repeated for missing ones. Memory for the lists is
    /// reserved at once, but pages are touched only as lists begin.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn new(capacity: usize, delays: &[Timestamp]) -> Result<Lists<T>, TryReserveError> {
        let count = delays.len().clamp(DELAY_CLASSES, MAX_CLASSES);
        let delay_class = |number: usize| {
            let delay = delays.get(number).or(delays.last()).copied().unwrap_or_default();
            DelayClass::new(delay, number < count)
        };
        let mut lists = Vec::new();
        lists.try_reserve_exact(capacity)?;
        Ok(Lists {
            lists,
            more: Vec::new(),
            free: NO_LIST,
            index: Index::new(),
            blocks: Blocks::new(),
            delay_classes: std::array::from_fn(delay_class),
            count,
            capacity,
            held: 0,
            active: 0,
            longest: 1 << 16,
            leaving: Vec::with_capacity(1024),
            released: Released::new(),
            in_order: true,
        })
    }

    /// Returns the number of values that are held, without values that were released and have not left yet.
    #[inline(always)]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of flows that hold values, without flows that were released.
    #[inline(always)]
    pub fn active(&self) -> usize {
        self.active
    }

    /// True if there is room for `more` further lists that [`begin_short`](Self::begin_short) begins. Makes
    /// rings larger for them. If memory for that cannot be allocated, there is no room.
    #[inline]
    pub fn has_room(&mut self, more: usize) -> bool {
        self.active + more <= self.capacity
            && self.index.has_room(more)
            && self.delay_classes[..self.count].iter_mut().all(|delay_class| delay_class.has_room(more))
    }

    /// True if there is room for a further list that [`begin`](Self::begin) begins. If memory for it cannot
    /// be allocated, there is no room.
    #[inline]
    pub fn has_room_for_any(&mut self) -> bool {
        let number = if self.free == NO_LIST { self.lists.len() } else { self.free as usize };
        let missing = (number + 1).saturating_sub(self.more.len());
        self.has_room(1) && self.more.try_reserve(missing).is_ok()
    }

    /// True if values were released that have not left yet.
    #[inline]
    pub fn has_released(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns the list of a flow that holds values. `hash` is the hash of the key.
    #[inline]
    pub fn find(&self, key: &FlowKey, hash: u32) -> Option<u32> {
        let (start, rest) = key.split();
        self.index.find(hash, |number| {
            self.lists[number as usize].key == start
                && (!start.has_rest() || self.more.get(number as usize).is_some_and(|more| more.rest == rest))
        })
    }

    /// Does what [`find`](Self::find) does, for a flow with a key of two words.
    #[inline(always)]
    pub fn find_short(&self, key: ShortKey, hash: u32) -> Option<u32> {
        self.index.find(hash, |number| self.lists[number as usize].key == key)
    }

    /// Begins the list of a flow that holds no values, with its first value, and returns its number. There
    /// must be room for it ([`has_room_for_any`](Self::has_room_for_any)). `now` must not decrease from call
    /// to call, so that the rings stay in order of arrival.
    pub fn begin(&mut self, key: &FlowKey, hash: u32, flow: Flow, value: T, now: Timestamp) -> u32 {
        let (start, rest) = key.split();
        let delay_class = self.existing(flow.delay_class);
        let number = self.begin_short(start, hash, Flow { delay_class, ..flow }, value, now);
        if start.has_rest() || flow.remembered.is_some() {
            let missing = (number as usize + 1).saturating_sub(self.more.len());
            if missing > 0 {
                self.more.resize(number as usize + 1, More::default());
            }
            let (flow, order) = flow.remembered.unwrap_or_default();
            self.more[number as usize] = More { rest, flow, order };
        }
        number
    }

    /// Does what [`begin`](Self::begin) does, for a flow with a key of two words that is not remembered.
    /// There must be room for it ([`has_room`](Self::has_room)).
    #[inline(always)]
    pub fn begin_short(&mut self, key: ShortKey, hash: u32, flow: Flow, value: T, now: Timestamp) -> u32 {
        let number = match self.free {
            NO_LIST => {
                self.lists.push(List::FREE);
                self.lists.len() as u32 - 1
            }
            number => number,
        };
        let list = &mut self.lists[number as usize];
        self.free = list.slot;
        let slot = Slot { came: now, list: number, hash };
        list.slot = self.delay_classes[usize::from(flow.delay_class) % MAX_CLASSES].push(slot);
        (list.key, list.kind, list.delay_class) = (key, flow.kind, flow.delay_class);
        let remembered = if flow.remembered.is_some() { REMEMBERED } else { 0 };
        (list.block, list.traits) = (NO_BLOCK, flow.traits | remembered);
        (list.values[0], list.times[0], list.own) = (Some(value), now.0 as u32, 1);
        self.index.insert(hash, number);
        self.active += 1;
        self.held += 1;
        number
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

    /// Returns the number of the flow of a list where the flow is remembered.
    #[inline]
    pub fn flow(&self, number: u32) -> Option<u32> {
        let is_remembered = self.lists.get(number as usize)?.traits & REMEMBERED != 0;
        self.more.get(number as usize).filter(|_| is_remembered).map(|more| more.flow)
    }

    /// True if flows of the delay class [`UNKNOWN_FLOWS`] hold values. Values that were released and have not
    /// left yet count.
    #[inline(always)]
    pub fn holds_unknown(&self) -> bool {
        self.delay_classes[UNKNOWN_FLOWS].length() > 0
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

    /// Appends a value to a list, and returns the number of values in the list. `now` must not decrease from
    /// call to call. `traits` is a set of bits below 0x80. The receiver of the list learns
    /// which of them its values have ([`Leaving::traits`]).
    #[inline(always)]
    pub fn hold(&mut self, number: u32, value: T, traits: u8, now: Timestamp) -> usize {
        let list = &mut self.lists[number as usize];
        let (own, time) = (usize::from(list.own), now.0 as u32);
        list.traits |= traits;
        self.held += 1;
        if own < OWN {
            (list.values[own], list.times[own]) = (Some(value), time);
            list.own += 1;
            own + 1
        } else {
            OWN + self.blocks.push(&mut list.block, value, time)
        }
    }

    /// Returns the number of values in a list.
    #[inline(always)]
    fn length(&self, number: u32) -> usize {
        let list = &self.lists[number as usize];
        usize::from(list.own) + self.blocks.length(list.block)
    }

    /// Returns the list that has this slot in the ring of the delay class; `None` if the list has left or was
    /// released.
    #[inline(always)]
    fn list_at(&self, delay_class: usize, number: u32) -> Option<u32> {
        let list = self.delay_classes[delay_class % MAX_CLASSES].slot(number).list;
        self.lists.get(list as usize)?.has_slot(number, delay_class).then_some(list)
    }

    /// Returns the arrival time of the oldest held value of a delay class, and the list that holds it; `None`
    /// if the class holds no values.
    #[inline]
    fn front(&self, delay_class: usize) -> Option<(Timestamp, u32)> {
        let DelayClass { front, back, .. } = self.delay_classes[delay_class % MAX_CLASSES];
        let mut number = front;
        while number != back {
            if let Some(list) = self.list_at(delay_class, number) {
                return Some((self.delay_classes[delay_class % MAX_CLASSES].slot(number).came, list));
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Frees the slots of a ring ahead of the first list that is still held.
    #[inline]
    fn advance(&mut self, delay_class: usize) {
        let DelayClass { mut front, back, .. } = self.delay_classes[delay_class % MAX_CLASSES];
        while front != back && self.list_at(delay_class, front).is_none() {
            front = front.wrapping_add(1);
        }
        self.delay_classes[delay_class % MAX_CLASSES].front = front;
    }

    /// Ends a list and releases its values: they leave with the next [`let_go`](Self::let_go). Does nothing
    /// if the list is free.
    #[inline]
    pub fn release(&mut self, number: u32, reason: ReleaseReason, priority: Priority) {
        let Some(list) = self.lists.get(number as usize).filter(|list| list.own > 0) else { return };
        let class = usize::from(list.delay_class) % MAX_CLASSES;
        let Slot { came: first, hash, .. } = self.delay_classes[class].slot(list.slot);
        let more = self.more.get(number as usize).filter(|_| list.traits & REMEMBERED != 0);
        let order = more.map_or(0, |more| more.order);
        let key = match priority {
            _ if class == UNKNOWN_FLOWS => i64::MAX,
            Priority::ShortestFlow | Priority::OldestFlow => i64::from(order),
            Priority::LongestWait => first.0,
        };
        let leaving = Leaving {
            key,
            first,
            turn: self.leaving.len() as u32,
            hash,
            length: self.length(number) as u32,
            flow: more.map(|more| more.flow),
            reason,
            delay_class: list.delay_class,
            kind: list.kind,
            traits: list.traits & !REMEMBERED,
        };
        self.in_order &= self.leaving.last().is_none_or(|(before, _)| before.order() < leaving.order());
        self.leaving.push((leaving, self.released.values.len()));
        self.held -= leaving.length as usize;
        self.active -= 1;
        let Lists { lists, blocks, released, index, free, .. } = self;
        let list = &mut lists[number as usize];
        move_values(list, blocks, released);
        end(list, number, hash, index, free);
    }

    /// Returns the earliest time at which a list is due; `None` if no values are held.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |delay_class: usize| {
            Some(self.front(delay_class)?.0 + self.delay_classes[delay_class % MAX_CLASSES].delay)
        };
        self.numbers().filter_map(due).min()
    }

    /// Releases the lists that are due at `now`, with [`ReleaseReason::Timeout`]. Where a ring is much longer
    /// than the number of held values, also releases the lists of its oldest slots, with
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
            if let Some(list) = self.list_at(delay_class, number) {
                let reason = if is_due { ReleaseReason::Timeout } else { ReleaseReason::Capacity };
                self.release(list, reason, priority);
            }
            number = number.wrapping_add(1);
        }
    }

    /// Releases the lists that hold at least `length` values. Lists of [`UNKNOWN_FLOWS`] are released only if
    /// `length` is 0.
    pub fn release_long(&mut self, length: usize, reason: ReleaseReason, priority: Priority) {
        for delay_class in self.numbers() {
            if delay_class == UNKNOWN_FLOWS && length > 0 {
                continue;
            }
            let DelayClass { front, back, .. } = self.delay_classes[delay_class % MAX_CLASSES];
            for offset in 0..back.wrapping_sub(front) {
                if let Some(list) = self.list_at(delay_class, front.wrapping_add(offset))
                    && self.length(list) >= length
                {
                    self.release(list, reason, priority);
                }
            }
        }
    }

    /// Releases all lists.
    pub fn release_all(&mut self, reason: ReleaseReason, priority: Priority) {
        self.release_long(0, reason, priority);
    }

    /// Releases the list whose oldest value has waited longest, if there are lists. At equal times, lists of
    /// [`UNKNOWN_FLOWS`] come last.
    pub fn release_oldest(&mut self, reason: ReleaseReason, priority: Priority) {
        let front = |delay_class| {
            let (came, list) = self.front(delay_class)?;
            Some((came, delay_class == UNKNOWN_FLOWS, delay_class, list))
        };
        if let Some((.., list)) = self.numbers().filter_map(front).min() {
            self.release(list, reason, priority);
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
        let Lists { lists, more, index, free, blocks, delay_classes, released, .. } = self;
        let [delay_class, ..] = delay_classes;
        let (mut front, back) = (delay_class.front, delay_class.back);
        let (mut values, mut count) = (0, 0);
        while front != back {
            let Slot { came: first, list: number, hash } = delay_class.slot(front);
            let list = lists.get_mut(number as usize).filter(|list| list.has_slot(front, 0));
            // Slots of lists that have left are freed here even if their lists would not be due. Otherwise
            // each later search for the first list would skip them again.
            if first > latest && list.is_some() {
                break;
            }
            front = front.wrapping_add(1);
            let Some(list) = list else { continue };
            count += 1;
            let own = OWN.min(list.own.into());
            if list.block == NO_BLOCK && list.traits & REMEMBERED == 0 {
                let last = list.times[own.wrapping_sub(1) % OWN];
                let List { kind, traits, .. } = *list;
                let short = ShortList { first, last, hash, kind, traits };
                if out.short_list(short, &mut list.values[..own]) {
                    values += own;
                    end(list, number, hash, index, free);
                    continue;
                }
            }
            let length = own + blocks.length(list.block);
            values += length;
            let leaving = Leaving {
                key: first.0,
                first,
                turn: 0,
                hash,
                length: length as u32,
                flow: match list.traits & REMEMBERED {
                    0 => None,
                    _ => more.get(number as usize).map(|more| more.flow),
                },
                reason: ReleaseReason::Timeout,
                delay_class: 0,
                kind: list.kind,
                traits: list.traits & !REMEMBERED,
            };
            if let Some(values) = list.values.get_mut(..length) {
                out.list(leaving, values, &list.times);
            } else {
                move_values(list, blocks, released);
                out.list(leaving, &mut released.values, &released.times);
                released.clear();
            }
            end(list, number, hash, index, free);
        }
        delay_class.front = front;
        self.held -= values;
        self.active -= count;
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
            let range = start..start + leaving.length as usize;
            let Released { values, times } = &mut self.released;
            out.list(leaving, &mut values[range.clone()], &times[range]);
        }
        self.released.clear();
        self.in_order = true;
        self.numbers().for_each(|delay_class| self.advance(delay_class));
    }
}

/// Moves the values of a list to the end of `to`.
#[inline(always)]
fn move_values<T>(list: &mut List<T>, blocks: &mut Blocks<T>, to: &mut Released<T>) {
    let own = OWN.min(list.own.into());
    to.add(&mut list.values[..own], &list.times[..own]);
    if list.block != NO_BLOCK {
        blocks.empty(list.block, to);
    }
}

/// Ends a list without values: takes it out of the index and puts it first among the free lists.
#[inline(always)]
fn end<T>(list: &mut List<T>, number: u32, hash: u32, index: &mut Index, free: &mut u32) {
    index.remove(hash, number);
    list.own = 0;
    list.slot = std::mem::replace(free, number);
}

#[cfg(test)]
mod tests;
