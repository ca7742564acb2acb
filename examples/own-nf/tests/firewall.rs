//! Tests of the firewall: it passes connections up to the limit and their replies, and drops all other
//! packets.

mod common;

use std::collections::HashSet;
use std::process::Command;

use common::{answer, capture, run, runs, segment, told};
use element::Timestamp;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};

const CONNECTIONS: u32 = 200;
const LIMIT: usize = 60;

/// Returns ten packets of each connection, made by `make`: first packet 0 of every connection, then packet 1
/// of every connection, and so on. The first packet of a connection has the TCP flags `first`.
fn segments(make: fn(u32, u32, u8, Timestamp) -> TestPacket, first: u8) -> Vec<TestPacket> {
    let time = Timestamp(1_000_000_000);
    let rounds = (0..10).map(|number| (number, if number == 0 { first } else { ACK | PSH }));
    rounds.flat_map(|(number, flags)| (0..CONNECTIONS).map(move |n| make(n, number, flags, time))).collect()
}

/// Returns a configuration with the firewall between the test sources and sinks of `exchange`. Each packet
/// that passes from input 0 is answered by a reply to input 1.
fn text(exchange: u64) -> String {
    format!(
        "TestSource({exchange}, 0) -> CheckIPHeader -> limit :: ConnectionLimit({LIMIT});
        limit[0] -> there :: Tee -> TestSink({exchange}, 0); there[1] -> IPMirror -> [1] limit;
        TestSource({exchange}, 1) -> CheckIPHeader -> [1] limit;
        limit[1] -> TestSink({exchange}, 1)"
    )
}

#[test]
fn connections_from_inside_pass_up_to_the_limit() {
    for how in runs() {
        let exchange = offer(vec![segments(segment, SYN)]);
        let outcome = run(how, &text(exchange), &["limit.open", "limit.refused", "limit.flows"]);
        let seen = collect(exchange);
        for sink in [0, 1] {
            let passed: Vec<_> = seen.iter().filter(|seen| seen.sink == sink).collect();
            let open: HashSet<_> = passed.iter().map(|seen| told(&seen.bytes).0).collect();
            assert_eq!((open.len(), passed.len()), (LIMIT, 10 * LIMIT), "{how:?}");
        }
        let refused = 10 * (CONNECTIONS as usize - LIMIT);
        assert_eq!(outcome.values, [LIMIT, refused, 2 * LIMIT].map(|n| Ok(n.to_string())), "{how:?}");
        assert_eq!(outcome.report.totals.drops.get("denied"), Some(&(refused as u64)));
    }
}

#[test]
fn nothing_comes_in_by_itself() {
    for how in runs() {
        let exchange = offer(vec![Vec::new(), segments(answer, SYN)]);
        let outcome = run(how, &text(exchange), &["limit.open"]);
        assert_eq!(
            (collect(exchange).len(), &outcome.values[..]),
            (0, &[Ok("0".to_string())][..]),
            "{how:?}"
        );
    }
}

/// A connection that is closed makes room for another connection ten seconds after its end.
#[test]
fn connections_end() {
    let secs = Timestamp::from_secs;
    let open = |first: u32, at| (first..first + LIMIT as u32).map(move |n| segment(n, 0, SYN, secs(at)));
    // Sixty connections open. Of these, twenty are reset, twenty are closed by both ends, and ten by one
    // end only.
    let mut packets: Vec<_> = open(0, 100).collect();
    packets.extend((0..20).map(|n| segment(n, 1, RST, secs(101))));
    packets.extend((20..50).map(|n| segment(n, 1, FIN | ACK, secs(101))));
    packets.extend((20..40).map(|n| answer(n, 2, FIN | ACK, secs(102))));
    packets.extend((0..60).map(|n| segment(n, 3, ACK, secs(110))));
    // At 105 s no connection has expired yet; at 120 s, forty have.
    packets.extend((100..120).map(|n| segment(n, 0, SYN, secs(105))));
    packets.extend(open(200, 120));
    packets.sort_by_key(|packet| packet.time);
    let file = capture(&packets);
    for workers in [1, 2, 4] {
        for spreading in common::WAYS {
            let how = TestRun { spreading, ..TestRun::trace().on(workers).with(own_nf::CLASSES) };
            let exchange = offer(vec![Vec::new()]);
            let text = format!(
                "FromDump({}) -> CheckIPHeader -> side :: IPClassifier(src net 10.0.0.0/8, -)
                -> limit :: ConnectionLimit({LIMIT}) -> sink :: TestSink({exchange}, 0); side[1] -> [1] limit [1] -> sink",
                file.path().display()
            );
            let outcome = run(how, &text, &["limit.open"]);
            let seen: HashSet<_> = collect(exchange).iter().map(|seen| told(&seen.bytes)).collect();
            let passed =
                |of: std::ops::Range<u32>, number| of.filter(|&n| seen.contains(&(n, number))).count();
            assert_eq!((passed(0..60, 0), passed(0..60, 3), passed(100..120, 0)), (60, 60, 0), "{how:?}");
            assert_eq!(passed(200..260, 0), 40, "{how:?}");
            assert_eq!(outcome.values, [Ok(LIMIT.to_string())]);
        }
    }
}

/// The configurations of this crate run with the crate's program, and its manual has a page for the
/// firewall.
#[test]
fn configurations_run() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    for (name, says) in [("firewall", "open: "), ("nat", "flows: ")] {
        let out = folder.path().join(name).with_extension("pcap");
        let output = Command::new(env!("CARGO_BIN_EXE_own-nf"))
            .args(["run", &format!("examples/own-nf/{name}.click"), &format!("OUT={}", out.display())])
            .args(["--threads", "2", "--steering", "spray", "--clock", "trace"])
            .current_dir(&root)
            .output()
            .unwrap();
        let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success() && text.contains(says), "{text}{errors}");
        assert!(std::fs::metadata(&out).unwrap().len() > 24, "packets passed: {errors}");
    }
    let page =
        Command::new(env!("CARGO_BIN_EXE_own-nf")).args(["elements", "ConnectionLimit"]).output().unwrap();
    assert!(String::from_utf8_lossy(&page.stdout).contains("connections may be open"), "{page:?}");
}
