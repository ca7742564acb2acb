//! Tests of RandomPath and PathSelector in whole configurations.

mod arrivals;

use std::collections::HashSet;

use arrivals::{Timed, number, numbered, tcp, through, values};
use testkit::TestRun;

/// Returns `count` packets of one flow, `gap` nanoseconds apart, numbered from 0.
fn steady(count: u64, gap: i64) -> Vec<Timed> {
    (0..count).map(|n| (n as i64 * gap, numbered(1, n, 64))).collect()
}

/// Returns (number, delay in nanoseconds) of each packet, in the order in which packets left.
fn journeys(arrivals: &[Timed], seen: &[Timed]) -> Vec<(u64, i64)> {
    let journey = |(left, frame): &Timed| {
        let number = number(frame);
        (number, left - arrivals[number as usize].0)
    };
    seen.iter().map(journey).collect()
}

#[test]
fn delays_are_exact_and_each_path_keeps_its_order() {
    let arrivals = steady(6000, 700);
    let text = "in -> e :: RandomPath(0us, 250us, 500us) -> out";
    let (outcome, seen) = through(text, 1, &arrivals, "", &["e.packets", "e.drops", "e.held"]);
    let journeys = journeys(&arrivals, &seen[0]);
    assert_eq!(journeys.len(), 6000);
    let of = |delay: i64| {
        let numbers = journeys.iter().filter(move |(_, under_way)| *under_way == delay * 1000);
        numbers.map(|&(number, _)| number).collect::<Vec<_>>()
    };
    let paths = [of(0), of(250), of(500)];
    // Each packet has had exactly one of the delays, and the packets of each path are in order.
    assert_eq!(paths.iter().map(Vec::len).sum::<usize>(), 6000);
    assert!(paths.iter().all(|numbers| numbers.is_sorted()));
    // Each path gets about a third of 6000 packets: five standard deviations of the binomial distribution
    // are 183.
    assert!(
        paths.iter().all(|numbers| numbers.len().abs_diff(2000) < 183),
        "{:?}",
        paths.each_ref().map(Vec::len)
    );
    let counts: String = paths.iter().enumerate().map(|(n, path)| format!("{n} {}\n", path.len())).collect();
    assert_eq!(values(&outcome), [counts.as_str(), "0", "0"]);
    assert!(!journeys.is_sorted());
}

#[test]
fn weights_divide_the_packets() {
    let (outcome, _) = through(
        "in -> e :: RandomPath(1us, 2us, 3us, WEIGHTS 6 0 2) -> out",
        1,
        &steady(4000, 500),
        "",
        &["e.packets"],
    );
    let counts: Vec<u64> =
        values(&outcome)[0].lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!((counts[1], counts.iter().sum()), (0, 4000));
    assert!(counts[0].abs_diff(3000) < 137, "{counts:?}");
}

#[test]
fn equal_delays_reorder_nothing() {
    // Forty packets arrive at a time, so ties occur too.
    let arrivals: Vec<Timed> = (0..600).map(|n| (n / 40 * 1000, numbered(1, n as u64, 64))).collect();
    for delay in ["0", "3us"] {
        let (_, seen) = through(&format!("in -> RandomPath({delay}, {delay}) -> out"), 1, &arrivals, "", &[]);
        let numbers: Vec<u64> = seen[0].iter().map(|(_, frame)| number(frame)).collect();
        assert!(numbers.is_sorted() && numbers.len() == 600, "{delay}");
    }
}

#[test]
fn a_full_path_drops() {
    let arrivals: Vec<Timed> = (0..10).map(|n| (n, numbered(1, n as u64, 64))).collect();
    let text = "in -> e :: RandomPath(1ms, CAPACITY 4) -> out";
    let (outcome, seen) = through(text, 1, &arrivals, "", &["e.drops", "e.packets"]);
    assert_eq!(seen[0].len(), 4);
    assert_eq!(values(&outcome), ["6", "0 4\n"]);
    let element = outcome.report.elements.iter().find(|element| element.name == "e").unwrap();
    assert_eq!(element.drops.get("queue full"), Some(&6));
}

#[test]
fn delays_change_while_packets_are_under_way() {
    let arrivals = steady(4, 10_000);
    let script = "wait 15us, write e.delays 2us, wait 2us, print \"$(e.delays)\", write e.delays x";
    let (outcome, seen) = through("in -> e :: RandomPath(100us) -> out", 1, &arrivals, script, &[]);
    // After the delay is reduced, packets wait for the slower packets ahead of them.
    let times: Vec<i64> = seen[0].iter().map(|(left, _)| left / 1000).collect();
    assert_eq!(times, [100, 110, 110, 110]);
    assert_eq!(outcome.output, "2us\n");
    assert!(outcome.messages.contains("is not a time"), "{}", outcome.messages);
}

#[test]
fn packets_stay_under_way_when_there_are_other_paths() {
    let arrivals = steady(6, 10_000);
    let script = "wait 15us, writeq e.config \"5us, 5us, WEIGHTS 0 1\", wait 22us, write e.config 1us";
    let (outcome, seen) =
        through("in -> e :: RandomPath(100us) -> out", 1, &arrivals, script, &["e.packets"]);
    let order: Vec<_> = seen[0].iter().map(|(left, frame)| (left / 1000, number(frame))).collect();
    // Packets 0 and 1 keep the times of the first configuration. Packets 2 and 3 take the second path of
    // the second configuration. Packets 4 and 5 share the single path of the last configuration with 0 and
    // 1, and leave after them.
    assert_eq!(order, [(25, 2), (35, 3), (100, 0), (110, 1), (110, 4), (110, 5)]);
    assert_eq!(values(&outcome), ["0 6\n"]);
}

#[test]
fn wrong_arguments_are_explained() {
    for (element, expected) in [
        ("RandomPath()", "DELAY: required argument missing"),
        ("RandomPath(0, soon)", "DELAY: 'soon' is not a time"),
        ("RandomPath(-1us)", "DELAY: must be between 0 and 1048576s"),
        ("RandomPath(0, 1us, WEIGHTS 1)", "WEIGHTS: must be as many as there are delays"),
        ("RandomPath(0, 1us, WEIGHTS 0 0)", "WEIGHTS: must not all be 0"),
        ("RandomPath(0, 1us, WEIGHTS a b)", "WEIGHTS: must be whole numbers"),
        ("RandomPath(0, CAPACITY 0)", "CAPACITY: must be positive"),
        ("PathSelector(PER_FLOW)", "MODE: must be FLOW, TSO or PACKET"),
        ("PathSelector(TSO, FLOWS 0)", "FLOWS: "),
    ] {
        let error = TestRun::default().text(&format!("Idle -> {element} -> Discard"), &[]).unwrap_err();
        assert!(error.contains(expected), "{element}: {error}");
    }
}

/// Sends packets through a PathSelector with `count` outputs. Returns the output of each packet, in order
/// of arrival, and the values of handlers.
fn outputs(selector: &str, count: usize, arrivals: &[Timed]) -> (Vec<usize>, Vec<String>) {
    let ports: String = (0..count).map(|n| format!("; e[{n}] -> [{n}]out")).collect();
    let text = format!("in -> e :: PathSelector({selector}){ports}");
    let (outcome, seen) =
        through(&text, count, arrivals, "", &["e.packets", "e.blocks", "e.flows", "e.overflows"]);
    let mut outputs = vec![usize::MAX; arrivals.len()];
    for (output, seen) in seen.iter().enumerate() {
        for (left, _) in seen {
            // Packets are not delayed and arrive at different times, so the time identifies the packet.
            outputs[arrivals.iter().position(|(came, _)| came == left).unwrap()] = output;
        }
    }
    (outputs, values(&outcome).into_iter().map(String::from).collect())
}

#[test]
fn flows_stay_on_their_path() {
    let arrivals: Vec<Timed> = (0..4000).map(|n| (n, numbered(1 + n as u16 % 1000, n as u64, 64))).collect();
    let (paths, _) = outputs("FLOW", 3, &arrivals);
    let flows: HashSet<_> = arrivals.iter().zip(&paths).map(|((n, _), &path)| (n % 1000, path)).collect();
    assert_eq!(flows.len(), 1000);
    let share = |paths: &[usize], output| paths[..1000].iter().filter(|&&path| path == output).count();
    // Each output gets about a third of 1000 flows: four standard deviations of the binomial distribution
    // are 60.
    for output in 0..3 {
        assert!(share(&paths, output).abs_diff(333) < 60, "{output}: {}", share(&paths, output));
    }
    // Another seed distributes the flows of one output again: a third of a third of all flows has output 0
    // twice.
    let (others, _) = outputs("FLOW, SEED 1", 3, &arrivals);
    let both = (0..1000).filter(|&n| paths[n] == 0 && others[n] == 0).count();
    assert!(both.abs_diff(111) < 40, "{both}");
}

#[test]
fn packets_go_in_turn_or_at_random() {
    let arrivals = steady(900, 10);
    let (paths, _) = outputs("PACKET, CHOICE ROUND_ROBIN", 3, &arrivals);
    assert!(paths.iter().enumerate().all(|(n, &path)| path == n % 3));
    let (paths, counts) = outputs("PACKET", 3, &arrivals);
    let share = |output| paths.iter().filter(|&&path| path == output).count();
    assert!((0..3).all(|output| share(output).abs_diff(300) < 71), "{}", counts[0]);
    let same = paths.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(same.abs_diff(300) < 71, "{same}");
}

#[test]
fn blocks_end_where_a_large_send_does() {
    const PSH: u8 = 8 | 16;
    const ACK: u8 = 16;
    let segments = [
        // Three segments of 100 bytes fill a block, which is at most 300 consecutive bytes of a flow that
        // take the same path.
        (0, tcp(1, ACK, 0, 100)),
        (1, tcp(1, ACK, 100, 100)),
        (2, tcp(1, ACK, 200, 100)),
        (3, tcp(1, ACK, 300, 100)),
        // A packet of another flow does not end the block.
        (4, tcp(2, ACK, 0, 300)),
        // A segment with PSH is the last of its block.
        (5, tcp(1, PSH, 400, 100)),
        (6, tcp(1, ACK, 500, 100)),
        // The sequence numbers jump because of a retransmission, which begins a block.
        (7, tcp(1, ACK, 300, 100)),
        (8, tcp(1, ACK, 400, 100)),
        // A pause of 2 ms begins a block.
        (2008, tcp(1, ACK, 500, 100)),
        (2009, tcp(1, ACK, 600, 100)),
    ];
    let segments: Vec<Timed> = segments.into_iter().map(|(time, frame)| (1000 * time, frame)).collect();
    let (paths, counts) = outputs("TSO, CHOICE ROUND_ROBIN, BLOCK 300, GAP 1ms", 9, &segments);
    assert_eq!(paths, [0, 0, 0, 1, 2, 1, 3, 4, 4, 5, 5]);
    assert_eq!(counts[1..], ["6", "2", "0"]);
}

#[test]
fn flows_without_room_go_by_the_hash() {
    let arrivals: Vec<Timed> = (0..200).map(|n| (n, numbered(1 + n as u16 % 10, n as u64, 64))).collect();
    let (paths, counts) = outputs("TSO, FLOWS 4", 2, &arrivals);
    assert_eq!(counts[2..], ["4", "120"]);
    let flows: HashSet<_> =
        paths.iter().enumerate().filter(|(n, _)| n % 10 >= 4).map(|(n, path)| (n % 10, path)).collect();
    assert_eq!(flows.len(), 6);
}
