//! Tests of expiry: payloads whose headers do not return expire, with and without further packets.

mod around;
mod frames;
mod trick;

use frames::datagram;
use testkit::TestRun;
use testkit::elements::{collect, offer};

/// Sends packets, as (time in milliseconds, payload bytes), through Slice, a network function and Splice.
/// Returns the values of the table's handlers, and the number of packets that left.
fn after(table: &str, function: &str, packets: &[(i64, usize)], handlers: [&str; 4]) -> (Vec<u64>, usize) {
    let frame = |(number, &(time, length)): (usize, &(i64, usize))| {
        (1_000_000_000 + time * 1_000_000, datagram(number, length, 0))
    };
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    testkit::timed::write_capture(&capture, &packets.iter().enumerate().map(frame).collect::<Vec<_>>());
    let number = offer(Vec::new());
    let text = format!(
        "t :: PayloadTable({table}); FromDump({}) -> Slice(t) -> {function} -> Splice(t) -> TestSink({number}, 0)",
        capture.display()
    );
    let handlers = handlers.map(|name| format!("t.{name}"));
    let handlers: Vec<&str> = handlers.iter().map(String::as_str).collect();
    let outcome =
        TestRun::trace().with(trick::CLASSES).text(&text, &handlers).unwrap_or_else(|text| panic!("{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome.values.into_iter().map(|value| value.unwrap().parse().unwrap()).collect(), collect(number).len())
}

const HANDLERS: [&str; 4] = ["waiting", "expired", "missing", "late"];

#[test]
fn payloads_go_after_their_time() {
    // The network function drops all packets. The last packet is too short to be sliced; it only advances the
    // trace clock.
    let drops = "Trick(drop, 1)";
    for (table, last, expected) in [
        ("TIMEOUT 100ms", 90, [3, 0, 0, 0]),
        ("TIMEOUT 100ms", 140, [0, 3, 3, 0]),
        ("", 4_900, [3, 0, 0, 0]),
        ("", 6_700, [0, 3, 3, 0]),
        ("TIMEOUT 0", 3_600_000, [3, 0, 0, 0]),
    ] {
        let (values, left) = after(table, drops, &[(0, 900), (1, 901), (2, 902), (last, 10)], HANDLERS);
        assert_eq!((&values[..], left), (&expected[..], 0), "{table} {last}");
    }
}

#[test]
fn what_comes_back_after_its_time_is_dropped_and_no_longer_missing() {
    // The network function returns all packets, in reverse order, when the fourth has arrived.
    let packets = |last| [(0, 900), (1, 901), (2, 902), (last, 903)];
    let (values, left) = after("TIMEOUT 100ms", "Trick(reverse, 4)", &packets(200), HANDLERS);
    assert_eq!((values, left), (vec![0, 3, 0, 3], 1));
    let (values, left) = after("TIMEOUT 100ms", "Trick(reverse, 4)", &packets(99), HANDLERS);
    assert_eq!((values, left), (vec![0, 0, 0, 0], 4));
}

#[test]
fn nobody_has_to_come_for_that() {
    // No further packets arrive, so a timer must make the payloads expire. The run ends when no payloads
    // wait.
    let text = "t :: PayloadTable(TIMEOUT 20ms, ENTRIES 9000);
        InfiniteSource(LENGTH 1000, LIMIT 5) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> Slice(t)
            -> Trick(drop, 1) -> Splice(t) -> Discard";
    let handlers = ["t.sliced", "t.waiting", "t.expired", "t.missing"];
    for run in [TestRun::default(), TestRun::real(), TestRun::real().on(2)] {
        let outcome = run.with(trick::CLASSES).text(text, &handlers).unwrap_or_else(|text| panic!("{text}"));
        let values: Vec<String> = outcome.values.into_iter().map(Result::unwrap).collect();
        assert_eq!(values, ["5", "0", "5", "5"]);
    }
}

#[test]
fn a_table_of_its_own_forgets_too() {
    let text = "s :: Slicer(TIMEOUT 20ms);
        InfiniteSource(LENGTH 1000, LIMIT 5) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2) -> s; s[1] -> Discard;
        Idle -> [1] s; s -> Discard";
    let outcome =
        TestRun::default().text(text, &["s.sliced", "s.waiting", "s.missing", "s.timeout"]).unwrap();
    let values: Vec<String> = outcome.values.into_iter().map(Result::unwrap).collect();
    assert_eq!(values[..3], ["5", "0", "5"]);
    assert!(values[3].starts_with("0.02") || values[3].starts_with("20"), "{}", values[3]);
}
