//! Tests of meters, counters and information elements in whole configurations.

use testkit::{RunResults, TestRun, in_clicks_words};

fn run(text: &str, handlers: &[&str]) -> RunResults {
    let outcome = TestRun { burst: None, ..TestRun::default() }.text(text, handlers).unwrap();
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    outcome
}

fn values(text: &str, handlers: &[&str]) -> Vec<String> {
    run(text, handlers).values.into_iter().map(|value| value.unwrap_or_else(|error| error)).collect()
}

fn error(text: &str) -> String {
    TestRun::default().text(text, &[]).unwrap_err()
}

#[test]
fn time_and_cycles() {
    let text = "InfiniteSource(LIMIT 3) -> SetTimestamp(1000000000.0) -> t :: TimestampAccum -> c :: CycleCountAccum \
                -> SetCycleCount -> d :: CycleCountAccum -> Discard";
    let handlers = ["t.count", "c.count", "c.zero_count", "c.cycles_pp", "d.count", "d.zero_count"];
    assert_eq!(values(text, &handlers), ["3", "0", "3", "0", "3", "0"]);
    let average: f64 = values(text, &["t.average_time"])[0].parse().unwrap();
    assert!((0.0..0.001).contains(&average), "{average}");
    assert!(
        run(text, &[])
            .messages
            .contains("c :: CycleCountAccum: packet with zero cycle counter annotation!\n")
    );
}

#[test]
fn calls_of_counters_are_checked() {
    assert!(error("Idle -> Counter(COUNT_CALL x stop) -> Discard").contains("COUNT_CALL type mismatch"));
    let large = "Idle -> Counter(BYTE_COUNT_CALL 18446744073709551616 stop) -> Discard";
    assert!(error(large).contains("BYTE_COUNT_CALL overflow, max 18446744073709551615"));
}

#[test]
fn information() {
    assert!(error("Message(no, ERROR)").contains("no"));
    assert!(error("Message(no, SHOUT)").contains("unrecognized message type"));
    assert!(error("Idle -> Error(1 2, X) -> Discard").contains("Error"));
    assert!(error("PortInfo(a)").contains("expected 'NAME PORT/PROTO'"));
    let watcher = "c :: Message(x); QuitWatcher(d)";
    assert!(error(watcher).contains(": 'd' is not the name of an element"));
    assert!(in_clicks_words(watcher).contains("'d' does not name an element"));
    let idle = run(
        "i :: InfiniteSource(LIMIT 5) -> Discard; TimedSource(INTERVAL 1) -> Discard; QuitWatcher(i)",
        &[],
    );
    assert_eq!(idle.end, engine::End::Stopped);
}

#[test]
fn anonymous_addresses_have_right_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, "!data ip_src ip_dst ip_proto\n10.0.0.1 10.0.0.200 47\n10.0.0.1 0.0.0.0 47\n")
        .unwrap();
    let text = format!(
        "FromIPSummaryDump({}, STOP true, CHECKSUM true) -> AnonymizeIPAddr -> CheckIPHeader(VERBOSE true) \
         -> ToIPSummaryDump(-, HEADER false, FIELDS ip_src ip_dst) -> c :: Counter -> Discard",
        path.display()
    );
    let outcome = run(&text, &["c.count"]);
    assert_eq!((outcome.values, outcome.messages.as_str()), (vec![Ok("2".into())], ""));
}

/// A source of 100 packets of 100 bytes, one per millisecond.
const STEADY: &str = "TimedSource(0.001, LIMIT 100, DATA \
    pppppppppppppppppppppppppppppppppppppppppppppppppp\
    pppppppppppppppppppppppppppppppppppppppppppppppppp)";

#[test]
fn colours_choose_outputs() {
    // In the 100 ms of the run, 20 packets conform to the rate, 5 more to the first burst, and 10 to the
    // excess burst.
    let counts =
        ["m.green", "m.yellow", "m.red", "g.count", "y.count", "r.count", "m.green_bytes", "m.tokens"];
    let text = format!(
        "{STEADY} -> m :: SrTCM(20kBps, 500, 1000) -> g :: Counter -> Discard;
         m[1] -> y :: Counter -> Discard; m[2] -> r :: Counter -> Discard"
    );
    let seen = values(&text, &counts);
    let number = |at: usize| seen[at].parse::<i64>().unwrap();
    assert_eq!((number(0) + number(1) + number(2), number(1)), (100, 10));
    assert!((24..=25).contains(&number(0)), "{seen:?}");
    assert_eq!((&seen[..3], (number(0) * 100).to_string()), (&seen[3..6], seen[6].clone()));
    let text = format!(
        "{STEADY} -> m :: TrTCM(20kBps, 500, 40kBps, 1000) -> g :: Counter -> Discard; m[1] -> y :: Counter -> Discard"
    );
    let outcome = run(&text, &["m.green", "m.yellow", "m.red"]);
    let seen: Vec<i64> =
        outcome.values.iter().map(|value| value.as_ref().unwrap().parse().unwrap()).collect();
    assert!((24..=25).contains(&seen[0]) && (48..=50).contains(&(seen[0] + seen[1])), "{seen:?}");
    // The output for red packets is not connected, so they are dropped.
    assert_eq!(outcome.report.totals.drops.get("over rate"), Some(&seen[2].unsigned_abs()));
}

#[test]
fn colours_are_paint_and_only_get_worse() {
    let text = format!(
        "{STEADY} -> s :: RoundRobinSwitch; s[0] -> Paint(0) -> m :: SrTCM(0, 0, 100000, COLOR_AWARE true);
         s[1] -> Paint(1) -> m; s[2] -> Paint(2) -> m; s[3] -> Paint(7) -> m;
         m -> p :: PaintSwitch; p[0] -> g :: Counter -> Discard; p[1] -> y :: Counter -> Discard; p[2] -> r :: Counter -> Discard"
    );
    let handlers = ["m.green", "m.yellow", "m.red", "g.count", "y.count", "r.count"];
    assert_eq!(values(&text, &handlers), ["0", "50", "50", "0", "50", "50"]);
    let aware = text.replace("0, 0, 100000", "0, 100000, 0");
    assert_eq!(values(&aware, &handlers), ["25", "0", "75", "25", "0", "75"]);
    let blind = text.replace("COLOR_AWARE true", "COLOR_AWARE false");
    assert_eq!(values(&blind, &handlers), ["0", "100", "0", "0", "100", "0"]);
}

#[test]
fn parameters_of_meters_are_checked() {
    for (text, message) in [
        ("SrTCM(1kBps, 0, 0)", "CBS and EBS must not both be 0"),
        ("SrTCM(1kBps, 1)", "EBS: required argument missing"),
        ("SrTCM(1x, 1, 1)", "CIR: '1x' is not a rate"),
        ("TrTCM(2kBps, 1, 1kBps, 1)", "PIR must be equal to or greater than CIR"),
        ("TrTCM(1kBps, 1, 1kBps, 0)", "CBS and PBS must be greater than 0"),
    ] {
        let seen = error(&format!("Idle -> {text} -> Discard"));
        assert!(seen.contains(message), "{text}: {seen}");
    }
    assert!(in_clicks_words("Idle -> SrTCM(1x, 1, 1) -> Discard").contains("CIR: parse error"));
}

/// RFC 2697 and RFC 2698 count the bytes of IP packets, so the link padding of short frames does not count.
#[test]
fn colours_count_ip_packets_without_padding() {
    // A UDP datagram without data: 28 bytes of IP in a frame of 60 bytes.
    let datagram = "4500001c00000000401100000a0000010a0000020001000200080000";
    let frame = format!("{}0800{datagram}{}", "02".repeat(12), "00".repeat(18));
    for meter in ["SrTCM(1Bps, 28, 100)", "TrTCM(1Bps, 28, 1Bps, 100)"] {
        let text = format!(
            r"InfiniteSource(LIMIT 2, DATA \<{frame}>) -> MarkIPHeader(14) -> m :: {meter} -> Discard"
        );
        assert_eq!(
            values(&text, &["m.green", "m.green_bytes", "m.yellow_bytes"]),
            ["1", "28", "28"],
            "{meter}"
        );
    }
}
