//! Queues, schedulers, switches and shapers in whole configurations.

use element::Timestamp;
use tidegate_testkit::elements::{Input, Seen, collect, offer};
use tidegate_testkit::{Outcome, Run, worker};

/// Packets whose only byte is their number.
fn numbered(bytes: &[u8]) -> Vec<Input> {
    bytes.iter().map(|&b| stamped(b, Timestamp::from_secs(i64::from(b)))).collect()
}

fn stamped(byte: u8, time: Timestamp) -> Input {
    Input { bytes: vec![byte], time, annotations: [0; 48], headers: [None; 3] }
}

/// Runs a text in which `A`, `B` and `C` stand for sources of the inputs, and `OUT0`, `OUT1` for sinks.
fn run(run: Run, text: &str, inputs: Vec<Vec<Input>>, handlers: &[&str]) -> (Outcome, Vec<Seen>) {
    let number = offer(inputs);
    let mut text = text.to_string();
    for (i, letter) in ["A;", "B;", "C;"].iter().enumerate() {
        text = text.replace(&format!("${letter}"), &format!("TestSource({number}, {i})"));
    }
    for sink in 0..3 {
        text = text.replace(&format!("$PULL{sink}"), &format!("TestPullSink({number}, {sink})"));
        text = text.replace(&format!("$OUT{sink}"), &format!("TestSink({number}, {sink})"));
    }
    let outcome = run.text(&text, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(number))
}

fn one_by_one() -> Run {
    Run { burst: None, ..Run::default() }
}

/// The packets of a sink.
fn bytes(seen: &[Seen], sink: usize) -> Vec<u8> {
    seen.iter().filter(|s| s.sink == sink).map(|s| s.bytes[0]).collect()
}

/// What leaves a scheduler whose queues have been filled before anybody pulls.
fn scheduled(scheduler: &str) -> Vec<u8> {
    let text = format!(
        "s :: {scheduler}; $A; -> q :: Queue -> s; $B; -> Queue -> [1] s; $C; -> Queue -> [2] s;
         s -> u :: Unqueue(ACTIVE false) -> $OUT0;
         Script(wait 1s, write u.active true, wait 1s, stop)"
    );
    let inputs = vec![numbered(&[10, 11, 12]), numbered(&[20]), numbered(&[30, 31, 32, 33])];
    bytes(&run(one_by_one(), &text, inputs, &[]).1, 0)
}

#[test]
fn schedulers_choose_in_their_order() {
    assert_eq!(scheduled("RoundRobinSched"), [10, 20, 30, 11, 31, 12, 32, 33]);
    assert_eq!(scheduled("RoundRobinMultiSched(2)"), [10, 11, 20, 30, 31, 12, 32, 33]);
    assert_eq!(scheduled("PrioSched"), [10, 11, 12, 20, 30, 31, 32, 33]);
    // Passes 1/2, 1, 1: the first input has two turns for each of the others.
    assert_eq!(scheduled("StrideSched(2, 1, 1)"), [10, 11, 20, 30, 12, 31, 32, 33]);
    // Each packet is one byte long, so that a quantum of two is two packets per turn. The first round's credit
    // goes to the second input.
    assert_eq!(scheduled("DRRSched(2)"), [20, 30, 31, 10, 11, 32, 33, 12]);
    assert_eq!(scheduled("TimeSortedSched"), [10, 11, 12, 20, 30, 31, 32, 33]);
    assert_eq!(scheduled("StaticPullSwitch(2)"), [30, 31, 32, 33]);
}

#[test]
fn batches_are_scheduled_as_single_packets_are() {
    for scheduler in ["RoundRobinSched", "PrioSched", "StrideSched(3, 1, 2)", "TimeSortedSched(BUFFER 2)"] {
        let text = format!(
            "s :: {scheduler}; $A; -> Queue -> s; $B; -> Queue -> [1] s; $C; -> Queue -> [2] s;
             s -> u :: Unqueue(ACTIVE false) -> $OUT0; Script(wait 1s, write u.active true, wait 1s, stop)"
        );
        let inputs = || vec![numbered(&[1, 4, 9]), numbered(&[2]), numbered(&[3, 5, 6, 7, 8])];
        let single = run(one_by_one(), &text, inputs(), &[]).1;
        let batch = run(Run::default(), &text, inputs(), &[]).1;
        assert_eq!(bytes(&single, 0), bytes(&batch, 0), "{scheduler}");
    }
}

#[test]
fn the_order_of_time_stamps_is_watched() {
    let text = "t :: TimeSortedSched(STOP true, BUFFER $n) -> Unqueue -> $OUT0;
                $A; -> Queue -> Unqueue(ACTIVE false) -> Discard; $B; -> a :: Queue -> t; $C; -> Queue -> [1] t;";
    let inputs = || vec![Vec::new(), numbered(&[1, 5, 4, 8]), numbered(&[2, 3, 9])];
    for (buffer, order, well) in [("1", [1, 2, 3, 5, 4, 8, 9], "false"), ("2", [1, 2, 3, 4, 5, 8, 9], "true")]
    {
        let text = text.replace("$n", buffer);
        let (outcome, seen) = run(one_by_one(), &text, inputs(), &["t.well_ordered"]);
        assert_eq!((bytes(&seen, 0).as_slice(), &outcome.values[0]), (&order[..], &Ok(well.to_string())));
    }
}

#[test]
fn queues_drop_and_order_as_they_say() {
    let held = |queue: &str| {
        let text = format!(
            "$A; -> q :: {queue}; $B; -> Discard; q -> u :: Unqueue(ACTIVE false) -> $OUT0; q[1] -> $OUT1;
             Script(wait 1s, write u.active true, wait 1s, stop)"
        );
        let inputs = vec![numbered(&[1, 2, 3, 4, 5])];
        let (outcome, seen) =
            run(one_by_one(), &text, inputs, &["q.drops", "q.highwater_length", "q.length"]);
        assert_eq!(outcome.values, ["2", "3", "0"].map(|v| Ok(v.to_string())), "{queue}");
        let class = queue.split('(').next().unwrap();
        assert_eq!(outcome.messages, format!("q :: {class}: overflow\n"));
        (bytes(&seen, 0), bytes(&seen, 1))
    };
    for class in ["Queue", "SimpleQueue", "NotifierQueue", "QuickNoteQueue", "ThreadSafeQueue"] {
        assert_eq!(held(&format!("{class}(3)")), (vec![1, 2, 3], vec![4, 5]), "{class}");
    }
    assert_eq!(held("FrontDropQueue(3)"), (vec![3, 4, 5], vec![1, 2]));
}

#[test]
fn packets_of_input_1_of_a_mixed_queue_jump_it() {
    // A and C on input 0, B on input 1, as the manual's picture has it.
    let text = "c :: StaticSwitch(0) -> q :: MixedQueue(3); $A; -> s :: Switch(0); s[0] -> c; s[1] -> [1] q;
                q -> u :: Unqueue(ACTIVE false) -> $OUT0; q[1] -> $OUT1;
                Script(wait 1s, write u.active true, wait 1s, stop)";
    let text = text.replace("s :: Switch(0)", "s :: RoundRobinSwitch");
    // 1 is first in line, 2 jumps, 3 is behind, 4 jumps and drives 3 out, 5 finds it full.
    let (_, seen) = run(one_by_one(), &text, vec![numbered(&[1, 2, 3, 4, 5])], &[]);
    assert_eq!((bytes(&seen, 0), bytes(&seen, 1)), (vec![4, 2, 1], vec![3, 5]));
}

#[test]
fn pullers_sleep_through_schedulers_and_are_woken() {
    for between in [
        "RoundRobinSched",
        "PrioSched",
        "StrideSched(1, 1)",
        "DRRSched(100)",
        "TimeSortedSched",
        "PullSwitch(1)",
    ] {
        let text = format!(
            "s :: {between}; Idle -> Queue -> s; src :: TimedSource(1s, LIMIT 2) -> q :: Queue -> [1] s;
             s -> Null -> u :: Unqueue -> d :: Discard"
        );
        let mut worker = worker(&text, one_by_one()).unwrap_or_else(|e| panic!("{e}"));
        let [unqueue, discard] = ["u", "d"].map(|name| worker.plan().graph.find(name));
        // Nothing comes for a second of simulated time, in which nobody may keep the driver busy.
        let mut steps = 0;
        while worker.step(1) {
            steps += 1;
            assert!(steps < 100, "{between}: does not sleep");
        }
        assert_eq!(worker.read(unqueue, "scheduled", "").unwrap(), "false", "{between}");
        worker.run();
        assert_eq!(worker.read(discard, "count", "").unwrap(), "2", "{between}");
        worker.finish().unwrap();
    }
}

#[test]
fn a_pull_switch_can_be_turned_while_its_puller_sleeps() {
    let text = "s :: PullSwitch(0); Idle -> Queue -> s; $A; -> Queue -> [1] s; s -> Unqueue -> $OUT0;
                Script(wait 1s, write s.switch 1, wait 1s, print s.switch, write s.switch 7, print s.switch, stop)";
    let (outcome, seen) = run(one_by_one(), text, vec![numbered(&[1, 2])], &[]);
    assert_eq!((bytes(&seen, 0), outcome.output + &outcome.messages), (vec![1, 2], "1\n-1\n".to_string()));
}

#[test]
fn switches_choose_and_hubs_copy() {
    let out = |text: &str, n| {
        let text = format!("$A; -> s :: {text}; s[0] -> $OUT0; s[1] -> $OUT1");
        let (outcome, seen) = run(one_by_one(), &text, vec![numbered(&(0..n).collect::<Vec<u8>>())], &[]);
        let dropped: u64 = outcome.report.elements.iter().flat_map(|e| &e.drops).map(|(_, n)| n).sum();
        (bytes(&seen, 0), bytes(&seen, 1), dropped)
    };
    assert_eq!(out("Switch(1)", 3), (vec![], vec![0, 1, 2], 0));
    assert_eq!(out("Switch(-1)", 3), (vec![], vec![], 3));
    assert_eq!(out("StaticSwitch(0)", 2), (vec![0, 1], vec![], 0));
    assert_eq!(out("StaticSwitch(2)", 2), (vec![], vec![], 2));
    assert_eq!(out("RoundRobinSwitch", 5), (vec![0, 2, 4], vec![1, 3], 0));
    assert_eq!(out("StrideSwitch(1, 2)", 6), (vec![2, 5], vec![0, 1, 3, 4], 0));
    assert_eq!(out("HashSwitch(0, 1)", 4), (vec![0, 2], vec![1, 3], 0));
    let hub = "$A; -> h :: Hub -> $OUT0; $B; -> [1] h [1] -> $OUT1; Idle -> [2] h [2] -> $OUT2";
    let (_, seen) = run(one_by_one(), hub, vec![numbered(&[1]), numbered(&[2])], &[]);
    assert_eq!([0, 1, 2].map(|sink| bytes(&seen, sink)), [vec![2], vec![1], vec![1, 2]]);
}
