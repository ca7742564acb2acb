//! Tests of FlowDelay in whole configurations.

mod arrivals;

use std::collections::{BTreeMap, BTreeSet};

use arrivals::{Timed, number, numbered, through, values};

/// Returns `count` packets of `flows` flows in rotation, one per microsecond, numbered from 0.
fn turns(count: u64, flows: u64) -> Vec<Timed> {
    (0..count).map(|n| (n as i64 * 1000, numbered((n % flows) as u16, n, 64))).collect()
}

/// Returns, by flow, (number, delay in nanoseconds) of each packet, in the order in which packets left.
fn journeys(arrivals: &[Timed], seen: &[Timed], flows: u64) -> BTreeMap<u64, Vec<(u64, i64)>> {
    let mut all: BTreeMap<u64, Vec<(u64, i64)>> = BTreeMap::new();
    for (left, frame) in seen {
        let number = number(frame);
        all.entry(number % flows).or_default().push((number, left - arrivals[number as usize].0));
    }
    all
}

#[test]
fn each_flow_has_a_delay_of_its_own_and_keeps_its_order() {
    let arrivals = turns(20_000, 500);
    let (outcome, seen) = through(
        "in -> e :: FlowDelay(10ms, 2ms) -> out",
        1,
        &arrivals,
        "",
        &["e.drops", "e.held", "e.delay"],
    );
    assert_eq!(values(&outcome), ["0", "0", "10ms"]);
    let all = journeys(&arrivals, &seen[0], 500);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 20_000);
    let mut delays = Vec::new();
    for flow in all.values() {
        assert!(flow.is_sorted());
        let each: BTreeSet<i64> = flow.iter().map(|(_, delay)| *delay).collect();
        assert_eq!(each.len(), 1, "{each:?}");
        delays.extend(each);
    }
    assert!(delays.iter().all(|delay| (8_000_000..=12_000_000).contains(delay)));
    // Delays are uniform in 8 to 12 ms: five standard deviations of the mean of 500 delays are 258 us.
    let mean = delays.iter().sum::<i64>() / delays.len() as i64;
    assert!((mean - 10_000_000).abs() < 258_000, "{mean}");
    let in_each_quarter: Vec<usize> = (0..4)
        .map(|n| delays.iter().filter(|delay| (**delay - 8_000_000) / 1_000_001 == n).count())
        .collect();
    assert!(in_each_quarter.iter().all(|count| (77..174).contains(count)), "{in_each_quarter:?}");
    let numbers: Vec<u64> = seen[0].iter().map(|(_, frame)| number(frame)).collect();
    assert!(!numbers.is_sorted(), "flows overtake each other");
}

#[test]
fn without_a_spread_nothing_is_reordered() {
    let arrivals = turns(3_000, 30);
    let (_, seen) = through("in -> FlowDelay(5us) -> out", 1, &arrivals, "", &[]);
    let numbers: Vec<u64> = seen[0].iter().map(|(_, frame)| number(frame)).collect();
    assert!(numbers.is_sorted() && numbers.len() == 3_000);
    assert!(journeys(&arrivals, &seen[0], 30).values().flatten().all(|(_, delay)| *delay == 5_000));
}

#[test]
fn another_seed_gives_other_delays() {
    let arrivals = turns(100, 100);
    let delays = |seed: u32| {
        let text = format!("in -> FlowDelay(10ms, 2ms, SEED {seed}) -> out");
        journeys(&arrivals, &through(&text, 1, &arrivals, "", &[]).1[0], 100)
    };
    assert_eq!(delays(3), delays(3));
    let same = delays(3).iter().zip(&delays(4)).filter(|(a, b)| a == b).count();
    assert!(same < 5, "{same}");
}

#[test]
fn what_finds_no_room_is_dropped() {
    let arrivals = turns(10, 10);
    let (outcome, seen) =
        through("in -> e :: FlowDelay(1ms, 500us, CAPACITY 4) -> out", 1, &arrivals, "", &["e.drops"]);
    assert_eq!((values(&outcome)[0], seen[0].len()), ("6", 4));
}

#[test]
fn a_new_element_lets_nobody_overtake_what_is_under_way() {
    let arrivals = turns(8_000, 20);
    let script = "wait 2ms, write e.config 100us";
    let text = "in -> e :: FlowDelay(3ms, 1ms) -> out";
    let (_, seen) = through(text, 1, &arrivals, script, &[]);
    let all = journeys(&arrivals, &seen[0], 20);
    assert_eq!(all.values().map(Vec::len).sum::<usize>(), 8_000);
    assert!(all.values().all(|flow| flow.is_sorted_by_key(|(number, _)| *number)));
    let last: Vec<_> = all.values().map(|flow| flow[flow.len() - 1].1).collect();
    assert!(last.iter().all(|delay| *delay == 100_000), "the new delay counts in the end: {last:?}");
}
