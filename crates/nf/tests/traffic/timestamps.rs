//! Tests of elements that read or set time stamps, and of elements that write numbers into packets.

use element::Timestamp;
use testkit::elements::{Input, Seen, collect, offer};
use testkit::{Outcome, Run};

/// Makes packets with these time stamps in seconds. The only byte of each is its index.
fn at(times: &[f64]) -> Vec<Input> {
    let input = |(i, &time): (usize, &f64)| Input {
        bytes: vec![i as u8],
        time: Timestamp::from_secs_f64(time),
        annotations: [0; 48],
        headers: [None; 3],
    };
    times.iter().enumerate().map(input).collect()
}

/// Sends packets through a configuration in which `IN`, `OUT0` and `OUT1` are replaced by a source and
/// sinks. Returns the outcome, and the packets that come out.
fn through(
    burst: Option<usize>,
    element: &str,
    inputs: Vec<Input>,
    handlers: &[&str],
) -> (Outcome, Vec<Seen>) {
    let number = offer(vec![inputs]);
    let text = element
        .replace("IN ->", &format!("TestSource({number}, 0) ->"))
        .replace("-> OUT0", &format!("-> TestSink({number}, 0)"))
        .replace("-> OUT1", &format!("-> TestSink({number}, 1)"));
    let outcome = Run { burst, ..Run::default() }.text(&text, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(number))
}

fn times(element: &str, inputs: &[f64]) -> Vec<String> {
    let text = format!("IN -> e :: {element} -> OUT0");
    through(Some(32), &text, at(inputs), &[]).1.iter().map(|seen| seen.time.to_string()).collect()
}

fn numbers(seen: &[Seen], sink: usize) -> Vec<u8> {
    seen.iter().filter(|s| s.sink == sink).map(|s| s.bytes[0]).collect()
}

#[test]
fn time_stamps_are_moved_and_compared() {
    assert_eq!(times("AdjustTimestamp(-1.5)", &[0.0, 1.0, 5.0]), ["0.000000", "-0.500000", "3.500000"]);
    assert_eq!(times("AdjustTimestamp(2, ALL true)", &[0.0, 1.0]), ["2.000000", "3.000000"]);
    assert_eq!(
        times("SetTimestampDelta", &[0.0, 3.0, 2.5, 7.25]),
        ["0.000000", "0.000000", "-0.500000", "4.250000"]
    );
    let first = "IN -> SetTimestamp(2, FIRST true) -> AdjustTimestamp(1, FIRST true) -> SetTimestampDelta(TYPE FIRST) -> OUT0";
    assert_eq!(through(None, first, at(&[10.0]), &[]).1[0].time, Timestamp::from_secs(7));
    let range = "IN -> e :: TimeRange -> OUT0";
    let handlers = ["e.first", "e.last", "e.range", "e.interval"];
    let (outcome, _) = through(None, range, at(&[3.0, 1.5, 9.0]), &handlers);
    assert_eq!(
        outcome.values,
        ["1.500000", "9.000000", "1.500000 9.000000", "7.500000"].map(|v| Ok(v.to_string()))
    );
}

#[test]
fn time_filters_know_their_range() {
    let inputs = [10.0, 11.0, 12.0, 13.0, 14.0];
    for (config, inside) in [
        ("11, 13", &[1u8, 2][..]),
        ("START_AFTER 2", &[2, 3, 4]),
        ("END_AFTER 1.5", &[0, 1]),
        ("START 11, INTERVAL 2", &[1, 2]),
        ("START_AFTER 1, INTERVAL 1", &[1]),
        ("", &[0, 1, 2, 3, 4]),
    ] {
        for burst in [None, Some(32)] {
            let text = format!("IN -> e :: TimeFilter({config}); e[0] -> OUT0; e[1] -> OUT1");
            let (_, seen) = through(burst, &text, at(&inputs), &[]);
            assert_eq!(numbers(&seen, 0), inside, "{config}");
            let outside: Vec<u8> = (0..5).filter(|n| !inside.contains(n)).collect();
            assert_eq!(numbers(&seen, 1), outside, "{config}");
        }
    }
}

#[test]
fn the_end_of_a_range_can_be_moved_by_whoever_is_told_of_it() {
    let inputs = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 10.0];
    let direct = "IN -> e :: TimeFilter(END 2.5, END_CALL extend_interval 1); e[0] -> OUT0; e[1] -> OUT1";
    let script = "IN -> e :: TimeFilter(END 2.5, END_CALL s.run); e[0] -> OUT0; e[1] -> OUT1;
                  s :: Script(TYPE PASSIVE, write e.extend_interval 1)";
    for text in [direct, script] {
        for burst in [None, Some(32)] {
            let (outcome, seen) = through(burst, text, at(&inputs), &["e.end"]);
            // Each call moves the end of the range by a second, until the packet is in the range. So every
            // packet passes.
            assert_eq!((numbers(&seen, 0), numbers(&seen, 1)), ((0..7).collect(), vec![]), "{text}");
            assert_eq!(outcome.values[0], Ok("10.500000".into()));
        }
    }
    let stop = "IN -> e :: TimeFilter(END 2.5, STOP true); e[0] -> OUT0; e[1] -> OUT1";
    let (outcome, seen) = through(None, stop, at(&inputs), &[]);
    assert_eq!(
        (outcome.end, numbers(&seen, 0), numbers(&seen, 1)),
        (engine::End::Stopped, vec![0, 1], vec![2])
    );
    let said = "IN -> e :: TimeFilter(END 2.5, END_CALL s.run $t) -> OUT0; s :: Script(TYPE PASSIVE, print \"at $args\")";
    let (outcome, seen) = through(None, said, at(&inputs), &[]);
    assert_eq!(
        (outcome.output + &outcome.messages, numbers(&seen, 0)),
        ("at 3.000000\n".to_string(), vec![0, 1])
    );
}

#[test]
fn pulled_packets_are_filtered_too() {
    let text = "IN -> Queue -> e :: TimeFilter(END 2.5, END_CALL extend_interval 1); e[0] -> Unqueue -> OUT0;
                e[1] -> OUT1";
    let (_, seen) = through(None, text, at(&[1.0, 2.0, 4.0, 5.0]), &[]);
    assert_eq!((numbers(&seen, 0), numbers(&seen, 1)), (vec![0, 1, 2, 3], vec![]));
}

#[test]
fn numbers_are_written_checked_and_timed() {
    let text = "IN -> n :: NumberPacket(2, NET_ORDER true) -> r :: RecordTimestamp(OFFSET 2, NET_ORDER true)
                -> c :: CheckNumberPacket(2, 2, NET_ORDER true); c[0] -> OUT0; c[1] -> OUT1";
    let handlers = ["n.count", "c.max", "c.min", "c.dump"];
    let (outcome, seen) = through(None, text, at(&[1.0, 2.0, 3.0]), &handlers);
    assert_eq!(seen[1].bytes, [1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!((numbers(&seen, 0), numbers(&seen, 1)), (vec![0, 1], vec![2]));
    assert_eq!(outcome.messages, "c :: CheckNumberPacket: 2 out of scope (count is 2) !\n");
    assert_eq!(outcome.values, ["3", "[0] : 1", "[0] : 1", "0: 1\n1: 1\n"].map(|v| Ok(v.to_string())));
}

#[test]
fn delays_are_measured_from_recorder_to_meter() {
    let text =
        "InfiniteSource(LIMIT 4, LENGTH 60) -> NumberPacket -> r :: RecordTimestamp(OFFSET 40) -> Queue
                -> RatedUnqueue(10) -> d :: TimestampDiff(r) -> c :: Counter -> Discard";
    let handlers = ["d.min", "d.max", "d.average", "d.median", "d.perc75", "d.dump", "c.count"];
    let outcome = Run::trace().text(text, &handlers).unwrap();
    let dump = "0: 0\n1: 100000\n2: 200000\n3: 300000\n";
    let expected = ["0", "300000", "150000", "200000", "300000", dump, "4"];
    assert_eq!(outcome.values, expected.map(|v| Ok(v.to_string())));
    let error =
        Run::default().text("Idle -> q :: Queue -> Unqueue -> TimestampDiff(q) -> Discard", &[]).unwrap_err();
    assert!(error.contains("RECORDER must be a valid RecordTimestamp element"), "{error}");
}

#[test]
fn signals_can_be_seen_and_seeds_set() {
    let text = "IN -> q :: Queue(1) -> n :: NotifierDebug -> u :: Unqueue(ACTIVE false) -> OUT0;
                IN2 :: InfiniteSource(LIMIT 2) -> m :: NotifierDebug -> q;
                RandomSeed(7); SpinlockInfo(l); Idle -> PathSpinlock(l) -> Pipeliner -> CPUSwitch -> Discard;
                Idle -> o :: NotifierDebug -> Discard; ScheduleInfo(u 2)";
    let (outcome, _) = through(None, text, at(&[1.0]), &["n.signal", "m.signal", "o.signal"]);
    // The queue is full: its signal for packets is on, its signal for room is off.
    assert_eq!(outcome.values[..], ["empty.0/1:1*", "full.0/1:0", "busy*"].map(|v| Ok(v.to_string())));
    let error = Run::default().text("Idle -> PathSpinlock(nobody) -> Discard", &[]).unwrap_err();
    assert!(error.contains("no spinlock named 'nobody'"), "{error}");
}
