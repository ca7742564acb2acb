//! Tests of TimeFilter, which passes packets by their time stamps.

use element::Timestamp;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};

/// Makes packets with these time stamps in seconds. The only byte of each is its index.
fn at(times: &[f64]) -> Vec<TestPacket> {
    let input = |(i, &time): (usize, &f64)| TestPacket {
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
    inputs: Vec<TestPacket>,
    handlers: &[&str],
) -> (RunResults, Vec<Seen>) {
    let number = offer(vec![inputs]);
    let text = element
        .replace("IN ->", &format!("TestSource({number}, 0) ->"))
        .replace("-> OUT0", &format!("-> TestSink({number}, 0)"))
        .replace("-> OUT1", &format!("-> TestSink({number}, 1)"));
    let outcome =
        TestRun { burst, ..TestRun::default() }.text(&text, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(number))
}

fn numbers(seen: &[Seen], sink: usize) -> Vec<u8> {
    seen.iter().filter(|s| s.sink == sink).map(|s| s.bytes[0]).collect()
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
            // Each call of `extend_interval` moves the end of the range by a second, and it is called until
            // the packet is in the range. So every packet passes.
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
