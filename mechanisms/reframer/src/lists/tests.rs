//! Tests of the lists: figure 10 of the Reframer paper, single properties, and a comparison with a simple
//! model.

use proptest::prelude::*;

use super::*;
use crate::key::Addresses;

/// An output that collects the lists that have left: for each list the flow and its values.
#[derive(Default)]
struct Gone(Vec<(u32, Vec<u32>)>);

impl Output<u32> for Gone {
    fn list(&mut self, leaving: Leaving, values: &mut [Option<u32>], times: &[u32]) {
        assert_eq!(values.len(), leaving.length as usize);
        let traits = values.iter().flatten().fold(0, |traits, &value| traits | traits_of(value));
        assert_eq!(leaving.traits, traits);
        let arrivals: Vec<_> = leaving.arrivals(times).take(values.len()).collect();
        assert!(arrivals.is_sorted() && arrivals[0] == leaving.first);
        let flow = leaving.flow.unwrap();
        assert_eq!((leaving.hash, leaving.kind), (hash_of(flow), FlowKind::Udp));
        self.0.push((flow, values.iter_mut().map(|value| value.take().unwrap()).collect()));
    }
}

/// Returns the key of a flow: of two words for even numbers, of five for others, which are equal in the first
/// two.
fn key_of(flow: u32) -> FlowKey {
    let word = u64::from(flow);
    match flow % 2 {
        0 => FlowKey::new(Addresses::V4(word), 0, FlowKind::Udp, 0),
        _ => FlowKey::new(Addresses::V6([0, 0, 0, word]), 0, FlowKind::Udp, 0),
    }
}

/// Returns the traits of a value.
fn traits_of(value: u32) -> u8 {
    1 << (value % 7)
}

/// Returns the hash of a flow; several flows have the same one.
fn hash_of(flow: u32) -> u32 {
    flow % 2
}

/// Holds a value in the list of a flow, which begins in delay class `delay_class` and is ordered by `order`.
/// Returns the number of values in the list.
fn hold(
    lists: &mut Lists<u32>,
    flow: u32,
    (delay_class, order): (usize, u32),
    value: u32,
    now: Timestamp,
) -> usize {
    let (key, hash) = (key_of(flow), hash_of(flow));
    match lists.find(&key, hash) {
        Some(list) => lists.hold(list, value, traits_of(value), now),
        None => {
            let remembered = Some((flow, order));
            let (delay_class, traits) = (delay_class as u8, traits_of(value));
            let flow = Flow { kind: FlowKind::Udp, traits, delay_class, remembered };
            assert!(lists.has_room_for_any());
            lists.begin(&key, hash, flow, value, now);
            1
        }
    }
}

/// Holds a value in the first delay class.
fn hold_plain(lists: &mut Lists<u32>, flow: u32, value: u32, now: i64) -> usize {
    hold(lists, flow, (0, 0), value, Timestamp(now))
}

fn release(lists: &mut Lists<u32>, flow: u32, priority: Priority) {
    if let Some(list) = lists.find(&key_of(flow), hash_of(flow)) {
        lists.release(list, ReleaseReason::Full, priority);
    }
}

fn gone(lists: &mut Lists<u32>) -> Vec<(u32, Vec<u32>)> {
    let mut out = Gone::default();
    lists.let_go(&mut out);
    out.0
}

const GREEN: u32 = 0;
const BLUE: u32 = 1;
const BROWN: u32 = 2;

/// The arrivals of figure 10 of the Reframer paper, as (time, flow).
const ARRIVALS: [(i64, u32); 7] =
    [(0, GREEN), (1, GREEN), (2, BLUE), (3, BLUE), (4, BROWN), (5, BLUE), (7, BLUE)];

/// Runs the arrivals of figure 10 of the Reframer paper, with at most four values per list and a delay of
/// 6. Returns (time, flow, number of values) of each list that leaves. Without `timers`, due lists leave
/// only when a value arrives.
fn figure_10(timers: bool, priority: Priority) -> Vec<(i64, u32, usize)> {
    let mut lists = Lists::new(3, &[Timestamp(6)]).unwrap();
    // For OLDEST_FLOW, flow BROWN is the oldest and flow GREEN the youngest. No flow has sent packets so far.
    let order = |flow: u32| if priority == Priority::OldestFlow { 2 - flow } else { 0 };
    let mut events = Vec::new();
    for (time, flow) in ARRIVALS {
        if timers {
            while let Some(due) = lists.next_due().filter(|due| due.0 <= time) {
                lists.release_due(due, priority);
                events.extend(gone(&mut lists).iter().map(|(flow, all)| (due.0, *flow, all.len())));
            }
        }
        let now = Timestamp(time);
        if hold(&mut lists, flow, (0, order(flow)), time as u32, now) == 4 {
            release(&mut lists, flow, priority);
        }
        lists.release_due(now, priority);
        events.extend(gone(&mut lists).iter().map(|(flow, all)| (time, *flow, all.len())));
    }
    assert_eq!(
        (lists.held(), lists.find(&key_of(BROWN), hash_of(BROWN)).is_some()),
        (1, true),
        "brown stays"
    );
    events
}

#[test]
fn figure_10_with_arrivals_alone() {
    let (green, blue) = ((7, GREEN, 2), (7, BLUE, 4));
    assert_eq!(figure_10(false, Priority::LongestWait), [green, blue]);
    assert_eq!(figure_10(false, Priority::OldestFlow), [blue, green]);
    // Neither flow has sent packets so far, so the tie is broken by waiting time.
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
        let mut lists = Lists::new(3, &[Timestamp(100)]).unwrap();
        // The number by which each flow is ordered: how many packets it has sent, or how old it is.
        let orders = if priority == Priority::ShortestFlow { [0, 5, 3] } else { [2, 0, 1] };
        for (time, flow) in [(10, 2), (11, 0), (12, 1), (13, 2)] {
            hold(&mut lists, flow, (0, orders[flow as usize]), 0, Timestamp(time));
        }
        lists.release_all(ReleaseReason::Drain, priority);
        gone(&mut lists).iter().map(|(flow, _)| *flow).collect::<Vec<_>>()
    };
    assert_eq!(order(Priority::ShortestFlow), [0, 2, 1]);
    assert_eq!(order(Priority::OldestFlow), [1, 2, 0]);
    assert_eq!(order(Priority::LongestWait), [2, 0, 1]);
}

#[test]
fn one_that_waits_does_not_keep_the_places_of_all_that_have_left() {
    let mut lists = Lists::new(2, &[Timestamp(1_000_000)]).unwrap();
    lists.longest = 20;
    hold_plain(&mut lists, 0, 0, 0);
    for time in 1..20 {
        hold_plain(&mut lists, 1, 1, time);
        release(&mut lists, 1, Priority::LongestWait);
        lists.release_due(Timestamp(time), Priority::LongestWait);
        assert_eq!(gone(&mut lists), [(1, vec![1])]);
    }
    hold_plain(&mut lists, 1, 2, 20);
    lists.release_due(Timestamp(20), Priority::LongestWait);
    assert_eq!(gone(&mut lists), [(0, vec![0])]);
    assert_eq!(lists.next_due(), Some(Timestamp(1_000_020)));
    assert_eq!(lists.delay_classes[0].length(), 1);
}

#[test]
fn those_apart_leave_last_and_never_early() {
    for priority in [Priority::ShortestFlow, Priority::OldestFlow, Priority::LongestWait] {
        let mut lists = Lists::new(3, &[Timestamp(10)]).unwrap();
        lists.longest = 4;
        let unknown = (UNKNOWN_FLOWS, 0);
        // Flow 1 has sent more values than the others; even so it leaves before flow 0 of class
        // UNKNOWN_FLOWS.
        hold(&mut lists, 1, (0, 3), 3, Timestamp(1));
        (10..20).for_each(|value| _ = hold(&mut lists, 0, unknown, value, Timestamp(1)));
        let holds = |flow| lists.find(&key_of(flow), hash_of(flow)).is_some();
        assert!(lists.holds_unknown() && holds(0) && !holds(2));
        // A flow of class UNKNOWN_FLOWS is released neither because of its number of values nor because of
        // the length of its ring.
        lists.release_long(2, ReleaseReason::Full, priority);
        lists.release_due(Timestamp(2), priority);
        assert_eq!(gone(&mut lists), []);
        hold_plain(&mut lists, 2, 4, 2);
        release(&mut lists, 2, priority);
        lists.release_due(Timestamp(11), priority);
        let mut left = gone(&mut lists);
        assert_eq!(left.pop(), Some((0, (10..20).collect())), "{priority:?}");
        assert_eq!((left.len(), lists.holds_unknown()), (2, false));
        // Of flows whose values arrived at the same time, the flow of class UNKNOWN_FLOWS is released last.
        hold(&mut lists, 0, unknown, 1, Timestamp(12));
        hold_plain(&mut lists, 2, 2, 12);
        lists.release_oldest(ReleaseReason::Capacity, priority);
        assert_eq!(gone(&mut lists), [(2, vec![2])]);
    }
}

#[test]
fn slots_of_lists_that_have_left_are_passed_over_once() {
    let mut lists = Lists::new(3, &[Timestamp(100)]).unwrap();
    hold_plain(&mut lists, 1, 0, 0);
    // Flow 0 leaves early each time, so that its slots are those of lists that have left. Their lists would
    // not be due when flow 1 leaves.
    for time in 1..50 {
        hold_plain(&mut lists, 0, 0, time);
        release(&mut lists, 0, Priority::LongestWait);
        lists.let_go(&mut Gone::default());
    }
    hold_plain(&mut lists, 2, 0, 60);
    assert_eq!(lists.delay_classes[0].length(), 51);
    lists.send_due(Timestamp(100), Priority::LongestWait, &mut Gone::default());
    let delay_class = &lists.delay_classes[0];
    assert_eq!((lists.held(), delay_class.length()), (1, 1));
    assert_eq!(lists.list_at(0, delay_class.front), lists.find(&key_of(2), hash_of(2)));
    lists.send_due(Timestamp(160), Priority::LongestWait, &mut Gone::default());
    assert_eq!(lists.delay_classes[0].length(), 0);
}

#[test]
fn long_lists_keep_their_order() {
    let mut lists = Lists::new(2, &[Timestamp(5)]).unwrap();
    for round in 0..3 {
        let now = Timestamp(10 * round);
        // Values are added to the two lists in turn, so that blocks of both lists alternate in memory.
        for value in 0..40 {
            hold(&mut lists, value % 2, (0, 0), value, now);
        }
        let mut out = Gone::default();
        lists.send_due(now + Timestamp(5), Priority::LongestWait, &mut out);
        let values = |first: u32| (first..40).step_by(2).collect::<Vec<_>>();
        assert_eq!(out.0, [(0, values(0)), (1, values(1))]);
    }
    // Each list has twenty values: three in the cache line of the flow and 17 in five blocks. The blocks of
    // the two lists are used again in each round.
    assert_eq!(lists.blocks.count(), 10);
}

/// A model of the lists: vectors that are searched from front to back.
#[derive(Default)]
struct Slow {
    /// A list per flow that holds values: (flow, arrival time of the first value, values).
    lists: Vec<(u32, i64, Vec<u32>)>,
    /// The number of values that each flow had sent when its last list began, and has sent by now.
    sent_before: [u32; 6],
    sent: [u32; 6],
    leaving: Vec<((i64, i64), u32, Vec<u32>)>,
}

/// Returns the delay class of a flow: 0 for flows 0 to 2, 1 for flows 3 to 5.
fn delay_class(flow: u32) -> usize {
    flow as usize / 3
}

const DELAYS: [i64; DELAY_CLASSES] = [5, 9, 9];

impl Slow {
    fn release(&mut self, place: usize, priority: Priority) {
        let (flow, first, values) = self.lists.remove(place);
        let key = match priority {
            Priority::ShortestFlow => self.sent_before[flow as usize].into(),
            Priority::OldestFlow => flow.into(),
            Priority::LongestWait => first,
        };
        self.leaving.push(((key, first), flow, values));
    }

    /// Releases the lists that `choose` selects, one delay class after the other, as [`Lists`] does.
    fn release_those(&mut self, priority: Priority, choose: impl Fn(&(u32, i64, Vec<u32>)) -> bool) {
        for class in 0..DELAY_CLASSES {
            while let Some(place) =
                self.lists.iter().position(|list| delay_class(list.0) == class && choose(list))
            {
                self.release(place, priority);
            }
        }
    }

    fn due(&self) -> Option<i64> {
        self.lists.iter().map(|&(flow, first, _)| first + DELAYS[delay_class(flow)]).min()
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Hold(u32),
    Release(u32),
    Due,
    LetGoDue,
    Long(usize),
    Oldest,
    LetGo,
    All,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0u32..6).prop_map(Op::Hold),
        4 => (0u32..6).prop_map(Op::Release),
        2 => Just(Op::Due),
        2 => Just(Op::LetGoDue),
        1 => (1usize..4).prop_map(Op::Long),
        1 => Just(Op::Oldest),
        3 => Just(Op::LetGo),
        1 => Just(Op::All),
    ]
}

proptest! {
    #[test]
    fn lists_do_what_vectors_do(
        ops in proptest::collection::vec((any_op(), 0i64..3), 0..300), which in 0usize..3, one_class: bool,
    ) {
        let priority = [Priority::ShortestFlow, Priority::OldestFlow, Priority::LongestWait][which];
        let (mut lists, mut slow) = (Lists::new(6, &[Timestamp(0)]).unwrap(), Slow::default());
        (0..DELAY_CLASSES).for_each(|delay_class| lists.set_delay(delay_class, Timestamp(DELAYS[delay_class])));
        let mut now = 100;
        for (number, (op, passes)) in ops.into_iter().enumerate() {
            now += passes;
            // If `one_class` is true, all values are of one delay class, so that the short path of
            // [`Lists::send_due`] is tested, too.
            let op = match op {
                Op::Hold(flow) if one_class => Op::Hold(flow % 3),
                op => op,
            };
            match op {
                Op::Hold(flow) => {
                    let value = number as u32;
                    if !slow.lists.iter().any(|list| list.0 == flow) {
                        slow.sent_before[flow as usize] = slow.sent[flow as usize];
                    }
                    let sent = slow.sent_before[flow as usize];
                    let order = if priority == Priority::ShortestFlow { sent } else { flow };
                    let class = (delay_class(flow), order);
                    let length = hold(&mut lists, flow, class, value, Timestamp(now));
                    let place = slow.lists.iter().position(|list| list.0 == flow);
                    let place = place.unwrap_or_else(|| {
                        slow.lists.push((flow, now, Vec::new()));
                        slow.lists.len() - 1
                    });
                    slow.lists[place].2.push(value);
                    prop_assert_eq!(length, slow.lists[place].2.len());
                }
                Op::Release(flow) => {
                    release(&mut lists, flow, priority);
                    slow.release_those(priority, |list| list.0 == flow);
                }
                Op::Due => {
                    lists.release_due(Timestamp(now), priority);
                    slow.release_those(priority, |list| list.1 + DELAYS[delay_class(list.0)] <= now);
                }
                Op::Long(length) => {
                    lists.release_long(length, ReleaseReason::Full, priority);
                    slow.release_those(priority, |list| list.2.len() >= length);
                }
                Op::Oldest => {
                    lists.release_oldest(ReleaseReason::Capacity, priority);
                    // The oldest list of each delay class; at equal times, the flow with the lower index,
                    // as in [`Lists`].
                    let front = |class| slow.lists.iter().find(|list| delay_class(list.0) == class);
                    let oldest = (0..DELAY_CLASSES).filter_map(front).map(|list| (list.1, list.0)).min();
                    slow.release_those(priority, |list| Some((list.1, list.0)) == oldest);
                }
                Op::All => {
                    lists.release_all(ReleaseReason::Drain, priority);
                    slow.release_those(priority, |_| true);
                }
                Op::LetGo | Op::LetGoDue => {
                    let mut out = Gone::default();
                    if matches!(op, Op::LetGoDue) {
                        slow.release_those(priority, |list| list.1 + DELAYS[delay_class(list.0)] <= now);
                        lists.send_due(Timestamp(now), priority, &mut out);
                    } else {
                        lists.let_go(&mut out);
                    }
                    slow.leaving.sort_by_key(|leaving| leaving.0);
                    slow.leaving.iter().for_each(|(_, flow, all)| slow.sent[*flow as usize] += all.len() as u32);
                    let expected: Vec<_> = slow.leaving.drain(..).map(|(_, f, v)| (f, v)).collect();
                    prop_assert_eq!(out.0, expected);
                }
            }
            let held: usize = slow.lists.iter().map(|list| list.2.len()).sum();
            prop_assert_eq!((lists.held(), lists.active()), (held, slow.lists.len()));
            prop_assert_eq!(lists.next_due().map(|due| due.0), slow.due());
        }
    }
}
