//! Tests of elements that number flows (aggregates) and count by these numbers. In most tests, packets come
//! from lines of text, and results are read as text.

use std::path::Path;

use testkit::{RunResults, TestRun};

/// Writes an IP summary dump with these lines: time in seconds, addresses and ports, protocol, TCP flags,
/// fragment offset, identification. Returns its path.
fn trace(folder: &Path, lines: &str) -> String {
    let path = folder.join("trace");
    let head = "!data timestamp ip_src sport ip_dst dport ip_proto tcp_flags ip_fragoff ip_id\n";
    std::fs::write(&path, format!("{head}{lines}")).unwrap();
    path.display().to_string()
}

/// Sends the packets of these lines through AggregateIPFlows with the arguments `config`. Returns time,
/// aggregate and paint of each packet that comes out.
fn numbers(lines: &str, config: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (trace(folder.path(), lines), folder.path().join("out").display().to_string());
    let text = format!(
        "FromIPSummaryDump({input}, STOP true, ZERO true) -> f :: AggregateIPFlows({config}) \
         -> ToIPSummaryDump({output}, HEADER false, FIELDS timestamp aggregate paint)"
    );
    let outcome = TestRun::trace().text(&text, &[]).unwrap();
    assert!(outcome.report.balances() && outcome.errors.is_empty(), "{outcome:?}");
    std::fs::read_to_string(output).unwrap()
}

#[test]
fn both_directions_are_one_flow() {
    let lines = "1.0 10.0.0.1 1 10.0.0.2 80 T S - 1
        1.1 10.0.0.2 80 10.0.0.1 1 T SA - 2
        1.2 10.0.0.1 1 10.0.0.2 80 U - - 3
        1.3 10.0.0.1 2 10.0.0.2 80 T S - 4
        1.4 10.0.0.1 1 10.0.0.2 80 T A - 5
        1.5 10.0.0.1 1 10.0.0.2 80 I - - 6
        1.6 10.0.0.9 7 10.0.0.9 6 U - - 6
        1.7 10.0.0.9 6 10.0.0.9 7 U - - 6
";
    let expected =
        "1.000000 1 0\n1.100000 1 1\n1.200000 2 0\n1.300000 3 0\n1.400000 1 0\n1.600000 4 0\n1.700000 4 1\n";
    assert_eq!(numbers(lines, ""), expected);
    let expected =
        "1.000000 1 0\n1.100000 2 0\n1.200000 3 0\n1.300000 4 0\n1.400000 1 0\n1.600000 5 0\n1.700000 6 0\n";
    assert_eq!(numbers(lines, "SYMETRIC false"), expected);
}

#[test]
fn pulled_packets_are_dropped_for_the_reasons_of_pushed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let lines =
        "1 1.0.0.1 1 2.0.0.2 2 U - - 1\n2 1.0.0.1 3 2.0.0.2 2 U - - 1\n3 1.0.0.1 1 2.0.0.2 2 I - - 2\n";
    let input = trace(folder.path(), lines);
    let reasons = |chain: &str| {
        let text = format!("FromIPSummaryDump({input}, STOP true, ZERO true) -> {chain} -> Discard");
        let report = TestRun::trace().text(&text, &[]).unwrap().report;
        report.elements.iter().find(|element| element.name == "f").unwrap().drops.clone()
    };
    let pushed = reasons("f :: AggregateIPFlows(CAPACITY 1)");
    assert_eq!(pushed.values().sum::<u64>(), 2);
    assert!(pushed.len() == 2, "{pushed:?}");
    assert_eq!(reasons("Queue -> f :: AggregateIPFlows(CAPACITY 1) -> Unqueue"), pushed);
}

#[test]
fn flows_end() {
    let udp =
        "1 1.0.0.1 1 2.0.0.2 2 U - - 1\n61 1.0.0.1 1 2.0.0.2 2 U - - 1\n122 1.0.0.1 1 2.0.0.2 2 U - - 1\n";
    assert_eq!(numbers(udp, ""), "1.000000 1 0\n61.000000 1 0\n122.000000 2 0\n");
    assert_eq!(numbers(udp, "UDP_TIMEOUT 30, REAP 1"), "1.000000 1 0\n61.000000 2 0\n122.000000 3 0\n");
    // A TCP connection that is closed in both directions, and then opened again.
    let tcp = "1 1.0.0.1 1 2.0.0.2 2 T S - 1
        2 1.0.0.1 1 2.0.0.2 2 T FA - 1
        3 2.0.0.2 2 1.0.0.1 1 T FA - 1
        4 1.0.0.1 1 2.0.0.2 2 T A - 1
        5 2.0.0.2 2 1.0.0.1 1 T S - 1
        6 1.0.0.1 1 2.0.0.2 2 T R - 1
        7 1.0.0.1 1 2.0.0.2 2 T S - 1
";
    let expected =
        "1.000000 1 0\n2.000000 1 0\n3.000000 1 1\n4.000000 1 0\n5.000000 2 0\n6.000000 2 1\n7.000000 3 0\n";
    assert_eq!(numbers(tcp, ""), expected);
}

#[test]
fn fragments_get_the_number_of_their_first() {
    let lines = "1 1.0.0.1 1 2.0.0.2 2 U - 0+ 7
        2 1.0.0.1 1 2.0.0.2 2 U - 8 7
        3 1.0.0.1 1 2.0.0.2 2 U - - 8
        4 1.0.0.1 1 2.0.0.2 2 U - 16 9
        40 1.0.0.1 1 2.0.0.2 2 U - - 8
        99 3.0.0.1 1 2.0.0.2 2 U - - 8
";
    // The fragment at 4 s belongs to no first fragment. It is dropped when it is more than 30 seconds old;
    // until then, later packets between the same hosts wait for it.
    let expected = "1.000000 1 0\n2.000000 1 0\n3.000000 1 0\n40.000000 1 0\n99.000000 2 0\n";
    assert_eq!(numbers(lines, ""), expected);
    let without = "1.000000 1 0\n3.000000 1 0\n40.000000 1 0\n99.000000 2 0\n";
    assert_eq!(numbers(lines, "FRAGMENTS false"), without);
}

#[test]
fn trace_info() {
    let folder = tempfile::tempdir().unwrap();
    let info = folder.path().join("info").display().to_string();
    let lines =
        "1 1.0.0.1 1 2.0.0.2 2 U - - 1\n1.5 2.0.0.2 2 1.0.0.1 1 U - - 1\n200 9.0.0.1 1 2.0.0.2 53 U - - 1\n";
    numbers(lines, &format!("TRACEINFO {info}, REAP 10"));
    let expected = "<?xml version='1.0' standalone='yes'?>\n<trace>\n\
        <flow aggregate='1' src='1.0.0.1' sport='1' dst='2.0.0.2' dport='2' begin='1.000000000' duration='0.500000000'>\n  \
        <stream dir='0' packets='1' /><stream dir='1' packets='1' />\n</flow>\n\
        <flow aggregate='2' src='9.0.0.1' sport='1' dst='2.0.0.2' dport='53' begin='200.000000000' duration='0.000000000'>\n  \
        <stream dir='0' packets='1' /><stream dir='1' packets='0' />\n</flow>\n</trace>\n";
    assert_eq!(std::fs::read_to_string(info).unwrap(), expected);
}

#[test]
fn more_flows_than_there_was_room_for() {
    let line = |i: u32| format!("1 {}.{}.{}.1 1 2.0.0.2 2 U - - 1\n", 10 + (i >> 16), i >> 8 & 255, i & 255);
    let lines: String = (0..70_000).map(line).collect();
    let out = numbers(&lines, "");
    let last = out.lines().last().unwrap().split(' ').nth(1).unwrap();
    assert_eq!((out.lines().count(), last), (70_000, "70000"));
}

fn run(text: &str, handlers: &[&str]) -> RunResults {
    let outcome = TestRun { burst: None, ..TestRun::default() }.text(text, handlers).unwrap();
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    outcome
}

#[test]
fn counting() {
    let source = "i :: InfiniteSource(DATA \\<0101020301>, LIMIT 5, BURST 5) -> Paint(1) -> AggregatePaint -> \
                  c :: AggregateCounter";
    let values = |config: &str, handlers: &[&str]| -> Vec<String> {
        let outcome = run(&format!("{source}({config}) -> Discard"), handlers);
        outcome.values.into_iter().map(|value| value.unwrap()).collect()
    };
    assert_eq!(values("", &["c.count", "c.nagg", "c.banner", "c.active"]), ["5", "1", "", "true"]);
    assert_eq!(values("BYTES true", &["c.count"]), ["25"]);
    assert_eq!(values("COUNT_STOP 3", &["c.count", "c.active"]), ["3", "false"]);
    assert_eq!(
        values("COUNT_FREEZE 9", &["c.count", "c.freeze", "c.count_call"]),
        ["5", "false", "9 c.freeze true"]
    );
    assert_eq!(values("AGGREGATE_CALL 0 i.active false", &["c.aggregate_call", "i.active"]), ["", "false"]);
    // With AGGREGATE_FREEZE 0 the counter is frozen before its first aggregate, and counts nothing.
    assert_eq!(values("AGGREGATE_FREEZE 0", &["c.count", "c.freeze"]), ["0", "true"]);
    let outcome =
        run(&format!("{source} -> Discard; Script(TYPE DRIVER, pause, write c.write_text_file -)"), &[]);
    assert_eq!(outcome.output, "!IPAggregate 1.0\n!num_nonzero 1\n1 5\n");
    for (config, error) in [
        ("AGGREGATE_STOP 1, AGGREGATE_FREEZE 2", "are mutually exclusive"),
        ("COUNT_CALL x stop", "COUNT_CALL first word should be unsigned (count)"),
    ] {
        let text = format!("{source}({config}) -> Discard");
        assert!(TestRun::default().text(&text, &[]).unwrap_err().contains(error), "{config}");
    }
}

#[test]
fn a_flow_that_ended_has_a_first_packet_again() {
    let folder = tempfile::tempdir().unwrap();
    let lines =
        "1 1.0.0.1 1 2.0.0.2 2 U - - 1\n2 1.0.0.1 1 2.0.0.2 2 U - - 1\n99 1.0.0.1 1 2.0.0.2 2 U - - 1\n";
    let input = trace(folder.path(), lines);
    let text = format!(
        "FromIPSummaryDump({input}, STOP true) -> f :: AggregateIPFlows -> AggregateFirst(NOTIFIER f) -> c :: Counter \
         -> l :: AggregateLast(NOTIFIER f) -> Discard"
    );
    assert_eq!(TestRun::trace().text(&text, &["c.count"]).unwrap().values, [Ok("2".into())]);
    let wrong = text.replace("NOTIFIER f)", "NOTIFIER c)");
    assert!(TestRun::trace().text(&wrong, &[]).unwrap_err().contains("c is not an AggregateNotifier"));
}

/// Makes a UDP packet from port 5 to port 53, from 10.0.0.`host` to 10.9.9.9; the first fragment of a
/// datagram if `more` is true.
fn datagram(host: u8, more: bool) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 28, 0, 1, u8::from(more) << 5, 0, 64, 17, 0, 0, 10, 0, 0, host, 10, 9, 9, 9];
    wire::checksum::fill_ipv4(&mut packet).unwrap();
    packet.extend([0, 5, 0, 53, 0, 8, 0, 0]);
    [&[2; 12], &[8, 0][..], &packet].concat()
}

/// A fragment, and later packets between the same hosts, wait until the fragment is more than 30 seconds old.
/// They leave then even if only packets between other hosts come.
#[test]
fn fragments_leave_when_their_time_has_passed() {
    let second = 1_000_000_000;
    let mut packets =
        vec![(0, datagram(1, true)), (second, datagram(2, true)), (2 * second, datagram(2, false))];
    packets.extend((0..40).map(|n| (n * second + 5, datagram(3, false))));
    packets.sort_by_key(|(at, _)| *at);
    let chain = "CheckIPHeader(14) -> AggregateIPFlows -> c :: IPClassifier(src host 10.0.0.3, -); c[0] -> Discard; c[1]";
    let (_, seen) = testkit::timed::through(chain, &packets, &[]);
    let left: Vec<_> = seen.iter().map(|(at, frame)| (at / second, frame[29])).collect();
    assert_eq!(left, [(31, 1), (32, 2), (32, 2)]);
}
