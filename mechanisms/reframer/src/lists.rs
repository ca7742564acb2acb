//! What is held: one list per flow, the flush lists through the flows, and who leaves in which order.
//!
//! Knows neither packets nor keys: a flow is an index, and what is held is any value, so that tests hold numbers.

use std::collections::TryReserveError;

use element::Timestamp;

/// No node, no flow.
const NONE: u32 = u32::MAX;

/// Most classes of flows with a delay of their own.
pub const LANES: usize = 2;

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

/// A value in a list, or a free place.
struct Node<T> {
    item: Option<T>,
    next: u32,
    /// Nanoseconds behind the first of its list; those that do not fit count as the most that does.
    since: u32,
}

/// A flow: one cache line.
#[derive(Clone)]
#[repr(align(64))]
struct Flow {
    /// When the oldest held value came.
    first: Timestamp,
    /// When the flow was seen first.
    seen: Timestamp,
    /// The list, oldest first.
    head: u32,
    tail: u32,
    length: u32,
    /// Neighbours in the flush list.
    before: u32,
    behind: u32,
    /// What has left so far.
    sent: u32,
    /// Nanoseconds between the oldest and the youngest.
    last: u32,
    lane: u8,
    /// The owner's.
    note: Note,
}

/// What the owner of the lists wants to know of each flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Names the flow for whoever counts runs.
    pub hash: u32,
    /// The highest acknowledgment number that left, for the compressor.
    pub acknowledged: Option<u32>,
    /// What the flow is; the owner's own code.
    pub kind: u8,
    /// How often in a row it was held in vain, less how often not.
    pub fails: i8,
    /// How surely the next packet comes in time: up with each that does, down with each that does not.
    pub hope: i8,
}

const _: () = assert!(size_of::<Flow>() == 64);

impl Flow {
    fn new(note: Note, seen: Timestamp, lane: u8) -> Flow {
        Flow {
            first: Timestamp::ZERO,
            seen,
            head: NONE,
            tail: NONE,
            length: 0,
            before: NONE,
            behind: NONE,
            sent: 0,
            last: 0,
            lane,
            note,
        }
    }
}

/// A class of flows: those that hold something, in the order of their first value, and how long these wait.
#[derive(Clone, Copy)]
struct Lane {
    head: u32,
    tail: u32,
    delay: Timestamp,
}

/// A list on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The flow.
    pub flow: u32,
    /// How many values.
    pub length: u32,
    /// Why.
    pub reason: Reason,
    /// When the oldest came.
    pub first: Timestamp,
    /// When the youngest came.
    pub last: Timestamp,
    /// The class of the flow.
    pub lane: u8,
    head: u32,
    tail: u32,
    /// What it is ordered by, and then its turn.
    key: i64,
    turn: u32,
}

/// All lists of an element.
pub struct Lists<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    flows: Vec<Flow>,
    lanes: Vec<Lane>,
    /// Values that wait in flows.
    held: usize,
    /// Flows that hold some.
    active: usize,
    leaving: Vec<Leaving>,
}

impl<T> Lists<T> {
    /// For flows with indices below `capacity`, which take up memory as they come, and room for `room` values before
    /// anything grows.
    ///
    /// # Errors
    /// If there is not that much memory.
    pub fn new(capacity: usize, room: usize, delay: Timestamp) -> Result<Lists<T>, TryReserveError> {
        let mut flows = Vec::new();
        flows.try_reserve_exact(capacity)?;
        Ok(Lists {
            nodes: Vec::with_capacity(room),
            free: NONE,
            flows,
            lanes: vec![Lane { head: NONE, tail: NONE, delay }; LANES],
            held: 0,
            active: 0,
            leaving: Vec::with_capacity(1024),
        })
    }

    /// Values that wait in flows.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Flows that hold some.
    pub fn active(&self) -> usize {
        self.active
    }

    /// A new flow gets an index.
    #[inline]
    pub fn open(&mut self, flow: u32, note: Note, now: Timestamp, lane: u8) {
        let new = Flow::new(note, now, lane);
        match self.flows.get_mut(flow as usize) {
            Some(flow) => *flow = new,
            // Indices are given out one after the other.
            None => self.flows.resize(flow as usize + 1, new),
        }
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
    #[inline]
    pub fn hold(&mut self, flow: u32, item: T, now: Timestamp) -> usize {
        let index = flow;
        let node = self.node(item);
        let flow = &mut self.flows[index as usize];
        if flow.head == NONE {
            (flow.head, flow.first, flow.last) = (node, now, 0);
            self.nodes[node as usize].since = 0;
            let lane = &mut self.lanes[flow.lane as usize];
            (flow.before, flow.behind) = (lane.tail, NONE);
            let before = std::mem::replace(&mut lane.tail, index);
            match self.flows.get_mut(before as usize) {
                Some(before) => before.behind = index,
                None => lane.head = index,
            }
            self.active += 1;
        } else {
            let since = u32::try_from((now - flow.first).0).unwrap_or(u32::MAX);
            flow.last = since;
            self.nodes[node as usize].since = since;
            self.nodes[flow.tail as usize].next = node;
        }
        let flow = &mut self.flows[index as usize];
        flow.tail = node;
        flow.length += 1;
        self.held += 1;
        flow.length as usize
    }

    /// A node for a value.
    #[inline]
    fn node(&mut self, item: T) -> u32 {
        match self.nodes.get_mut(self.free as usize) {
            Some(node) => {
                let index = std::mem::replace(&mut self.free, node.next);
                (node.item, node.next) = (Some(item), NONE);
                index
            }
            None => {
                self.nodes.push(Node { item: Some(item), next: NONE, since: 0 });
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Takes what a flow holds out of the flush list; it leaves with the next [`let_go`](Self::let_go).
    #[inline]
    pub fn release(&mut self, flow: u32, reason: Reason, priority: Priority) {
        let index = flow;
        let flow = &mut self.flows[index as usize];
        if flow.head == NONE {
            return;
        }
        let key = match priority {
            Priority::ShortestFlow => i64::from(flow.sent),
            Priority::OldestFlow => flow.seen.0,
            Priority::LongestWait => flow.first.0,
        };
        self.leaving.push(Leaving {
            flow: index,
            length: flow.length,
            reason,
            first: flow.first,
            last: flow.first + Timestamp(flow.last.into()),
            lane: flow.lane,
            head: flow.head,
            tail: flow.tail,
            key,
            turn: self.leaving.len() as u32,
        });
        self.held -= flow.length as usize;
        self.active -= 1;
        flow.sent = flow.sent.saturating_add(flow.length);
        (flow.head, flow.tail, flow.length) = (NONE, NONE, 0);
        let (before, behind, lane) = (flow.before, flow.behind, flow.lane as usize);
        match self.flows.get_mut(before as usize) {
            Some(flow) => flow.behind = behind,
            None => self.lanes[lane].head = behind,
        }
        match self.flows.get_mut(behind as usize) {
            Some(flow) => flow.before = before,
            None => self.lanes[lane].tail = before,
        }
    }

    /// Moves a flow that holds nothing to another class.
    pub fn set_lane(&mut self, flow: u32, lane: u8) {
        let flow = &mut self.flows[flow as usize];
        if flow.head == NONE {
            flow.lane = lane;
        }
    }

    /// When the next flow is due.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = |lane: &Lane| Some(self.flows.get(lane.head as usize)?.first + lane.delay);
        self.lanes.iter().filter_map(due).min()
    }

    /// Lets the flows go that are due.
    #[inline]
    pub fn release_due(&mut self, now: Timestamp, priority: Priority) {
        for lane in 0..LANES {
            while let Some(flow) = self.flows.get(self.lanes[lane].head as usize)
                && flow.first + self.lanes[lane].delay <= now
            {
                self.release(self.lanes[lane].head, Reason::Timeout, priority);
            }
        }
    }

    /// Lets the flows go that hold so many values or more.
    pub fn release_long(&mut self, length: usize, priority: Priority) {
        for lane in 0..LANES {
            let mut next = self.lanes[lane].head;
            while let Some(flow) = self.flows.get(next as usize) {
                let (this, is_long) = (next, flow.length as usize >= length);
                next = flow.behind;
                if is_long {
                    self.release(this, Reason::Full, priority);
                }
            }
        }
    }

    /// Lets all flows go.
    pub fn release_all(&mut self, reason: Reason, priority: Priority) {
        for lane in 0..LANES {
            while self.lanes[lane].head != NONE {
                self.release(self.lanes[lane].head, reason, priority);
            }
        }
    }

    /// Lets that flow go whose oldest value has waited longest.
    pub fn release_oldest(&mut self, reason: Reason, priority: Priority) {
        let heads = self.lanes.iter().filter_map(|lane| {
            let flow = self.flows.get(lane.head as usize)?;
            Some((flow.first, lane.head))
        });
        if let Some((_, flow)) = heads.min() {
            self.release(flow, reason, priority);
        }
    }

    /// Whether anything was released.
    #[inline]
    pub fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Hands out what was released: list by list in the order of priority, equal ones as they have waited, longest
    /// first; of each list first `begin`, then each value with the time at which it came. Lists of one flow keep their order,
    /// because no priority ever decreases for it.
    #[inline]
    pub fn let_go<O>(
        &mut self,
        out: &mut O,
        mut begin: impl FnMut(&mut O, &Leaving, &mut Note),
        mut value: impl FnMut(&mut O, T, Timestamp),
        mut end: impl FnMut(&mut O, &Leaving, &mut Note),
    ) {
        if self.leaving.len() > 1 {
            self.leaving.sort_unstable_by_key(|leaving| (leaving.key, leaving.first, leaving.turn));
        }
        for leaving in &self.leaving {
            let note = &mut self.flows[leaving.flow as usize].note;
            begin(out, leaving, note);
            let mut next = leaving.head;
            for _ in 0..leaving.length {
                let node = &mut self.nodes[next as usize];
                let came = leaving.first + Timestamp(node.since.into());
                if let Some(item) = node.item.take() {
                    value(out, item, came);
                }
                next = node.next;
            }
            // The whole list becomes free at once.
            self.nodes[leaving.tail as usize].next = std::mem::replace(&mut self.free, leaving.head);
            end(out, leaving, note);
        }
        self.leaving.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What leaves, as (flow, values).
    fn gone(lists: &mut Lists<u32>) -> Vec<(u32, Vec<u32>)> {
        let mut out = Vec::new();
        lists.let_go(
            &mut out,
            |out: &mut Vec<(u32, Vec<u32>)>, leaving, _| out.push((leaving.flow, Vec::new())),
            |out, item, _| out.last_mut().unwrap().1.push(item),
            |_, _, _| (),
        );
        out
    }

    const GREEN: u32 = 0;
    const BLUE: u32 = 1;
    const BROWN: u32 = 2;

    /// Arrivals as in the paper's figure 10: green's first packet comes at 0, blue's fourth at 7.
    const ARRIVALS: [(i64, u32); 7] =
        [(0, GREEN), (1, GREEN), (2, BLUE), (3, BLUE), (4, BROWN), (5, BLUE), (7, BLUE)];

    /// Time, flow and number of values of each list that leaves, with up to four values and a delay of 6.
    fn figure_10(timers: bool, priority: Priority) -> Vec<(i64, u32, usize)> {
        let mut lists = Lists::new(3, 16, Timestamp(6)).unwrap();
        // Brown was seen before blue, and blue before green.
        for flow in [GREEN, BLUE, BROWN] {
            lists.open(flow, Note::default(), Timestamp(-i64::from(flow)), 0);
        }
        let mut events = Vec::new();
        for (time, flow) in ARRIVALS {
            if timers {
                while let Some(due) = lists.next_due().filter(|due| due.0 <= time) {
                    lists.release_due(due, priority);
                    events.extend(gone(&mut lists).iter().map(|(flow, all)| (due.0, *flow, all.len())));
                }
            }
            let now = Timestamp(time);
            if lists.hold(flow, time as u32, now) == 4 {
                lists.release(flow, Reason::Full, priority);
            }
            lists.release_due(now, priority);
            events.extend(gone(&mut lists).iter().map(|(flow, all)| (time, *flow, all.len())));
        }
        assert_eq!((lists.held(), lists.flows[BROWN as usize].length), (1, 1), "brown stays");
        events
    }

    #[test]
    fn figure_10_with_arrivals_alone() {
        let (green, blue) = ((7, GREEN, 2), (7, BLUE, 4));
        assert_eq!(figure_10(false, Priority::LongestWait), [green, blue]);
        assert_eq!(figure_10(false, Priority::OldestFlow), [blue, green]);
        // Neither has sent anything so far: the one that has waited longer is first.
        assert_eq!(figure_10(false, Priority::ShortestFlow), [green, blue]);
    }

    #[test]
    fn figure_10_with_timers() {
        for priority in [Priority::LongestWait, Priority::OldestFlow, Priority::ShortestFlow] {
            assert_eq!(figure_10(true, priority), [(6, GREEN, 2), (7, BLUE, 4)]);
        }
    }

    #[test]
    fn priorities() {
        let order = |priority| {
            let mut lists = Lists::new(3, 16, Timestamp(100)).unwrap();
            // Flow 0 was seen last and has sent nothing, flow 1 first, flow 2 has waited longest.
            for (flow, seen) in [(0, 9), (1, 1), (2, 5)] {
                lists.open(flow, Note::default(), Timestamp(seen), 0);
            }
            for (flow, n) in [(1, 5), (2, 3)] {
                for _ in 0..n {
                    lists.hold(flow, 0, Timestamp(9));
                }
                lists.release(flow, Reason::Full, priority);
                gone(&mut lists);
            }
            for (time, flow) in [(10, 2), (11, 0), (12, 1), (13, 2)] {
                lists.hold(flow, 0, Timestamp(time));
            }
            lists.release_all(Reason::Drain, priority);
            gone(&mut lists).iter().map(|(flow, _)| *flow).collect::<Vec<_>>()
        };
        assert_eq!(order(Priority::ShortestFlow), [0, 2, 1]);
        assert_eq!(order(Priority::OldestFlow), [1, 2, 0]);
        assert_eq!(order(Priority::LongestWait), [2, 0, 1]);
    }

    /// The same with vectors, searched from front to back.
    #[derive(Default)]
    struct Slow {
        /// Flow, time of the first, values.
        lists: Vec<(u32, i64, Vec<u32>)>,
        sent: [u32; 6],
        leaving: Vec<((i64, i64), u32, Vec<u32>)>,
    }

    impl Slow {
        fn release(&mut self, place: usize, priority: Priority) {
            let (flow, first, values) = self.lists.remove(place);
            let key = match priority {
                Priority::ShortestFlow => self.sent[flow as usize].into(),
                Priority::OldestFlow => flow.into(),
                Priority::LongestWait => first,
            };
            self.sent[flow as usize] += values.len() as u32;
            self.leaving.push(((key, first), flow, values));
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Hold(u32),
        Release(u32),
        Due,
        Oldest,
        LetGo,
        All,
    }

    fn any_op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (0u32..6).prop_map(Op::Hold),
            2 => (0u32..6).prop_map(Op::Release),
            2 => Just(Op::Due),
            1 => Just(Op::Oldest),
            3 => Just(Op::LetGo),
            1 => Just(Op::All),
        ]
    }

    proptest! {
        #[test]
        fn lists_do_what_vectors_do(
            ops in proptest::collection::vec((any_op(), 0i64..4), 0..200), which in 0usize..3,
        ) {
            let priority = [Priority::ShortestFlow, Priority::OldestFlow, Priority::LongestWait][which];
            let (mut lists, mut slow) = (Lists::new(6, 4, Timestamp(5)).unwrap(), Slow::default());
            for flow in 0..6 {
                lists.open(flow, Note::default(), Timestamp(flow.into()), 0);
            }
            let mut now = 100;
            for (number, (op, passes)) in ops.into_iter().enumerate() {
                now += passes;
                match op {
                    Op::Hold(flow) => {
                        let value = number as u32;
                        let length = lists.hold(flow, value, Timestamp(now));
                        let place = slow.lists.iter().position(|list| list.0 == flow);
                        let place = place.unwrap_or_else(|| {
                            slow.lists.push((flow, now, Vec::new()));
                            slow.lists.len() - 1
                        });
                        slow.lists[place].2.push(value);
                        prop_assert_eq!(length, slow.lists[place].2.len());
                    }
                    Op::Release(flow) => {
                        lists.release(flow, Reason::Full, priority);
                        if let Some(place) = slow.lists.iter().position(|list| list.0 == flow) {
                            slow.release(place, priority);
                        }
                    }
                    Op::Due => {
                        lists.release_due(Timestamp(now), priority);
                        while slow.lists.first().is_some_and(|list| list.1 + 5 <= now) {
                            slow.release(0, priority);
                        }
                    }
                    Op::Oldest => {
                        lists.release_oldest(Reason::Capacity, priority);
                        if !slow.lists.is_empty() {
                            slow.release(0, priority);
                        }
                    }
                    Op::All => {
                        lists.release_all(Reason::Drain, priority);
                        while !slow.lists.is_empty() {
                            slow.release(0, priority);
                        }
                    }
                    Op::LetGo => {
                        slow.leaving.sort_by_key(|leaving| leaving.0);
                        let expected: Vec<_> = slow.leaving.drain(..).map(|(_, f, v)| (f, v)).collect();
                        prop_assert_eq!(gone(&mut lists), expected);
                    }
                }
                let held: usize = slow.lists.iter().map(|list| list.2.len()).sum();
                prop_assert_eq!((lists.held(), lists.active()), (held, slow.lists.len()));
                prop_assert_eq!(lists.next_due().map(|due| due.0), slow.lists.first().map(|list| list.1 + 5));
            }
        }
    }
}
