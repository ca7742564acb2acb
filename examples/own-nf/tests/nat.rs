//! Tests of SprayedNAT, the translator of the paper on Sprayer: each connection is translated to one
//! five-tuple, replies find their connection, and no port is given to two connections.

mod common;

use std::collections::{HashMap, HashSet};

use common::{capture, client, run, runs, segment, told};
use element::Timestamp;
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};

const CONNECTIONS: u32 = 300;
const SEGMENTS: u32 = 6;

/// Returns the segments of connections that open, send data, and close.
fn connections() -> Vec<TestPacket> {
    let flags = |round| match round {
        0 => SYN,
        round if round > SEGMENTS => FIN | ACK,
        _ => ACK | PSH,
    };
    let time = |round: u32| Timestamp(1_000_000_000 + i64::from(round) * 1_000_000);
    let rounds = (0..SEGMENTS + 2).map(|round| (round, flags(round), time(round)));
    rounds
        .flat_map(|(round, flags, time)| (0..CONNECTIONS).map(move |n| segment(n, round, flags, time)))
        .collect()
}

fn port(seen: &Seen) -> u16 {
    u16::from_be_bytes([seen.bytes[20], seen.bytes[21]])
}

fn is_whole(seen: &Seen) -> bool {
    wire::checksum::ipv4_valid(&seen.bytes[..20]) && wire::checksum::tcp_packet_valid(&seen.bytes, 20)
}

#[test]
fn every_connection_is_translated_one_way_and_back() {
    for how in runs() {
        let exchange = offer(vec![connections()]);
        let text = format!(
            "TestSource({exchange}, 0) -> CheckIPHeader -> nat :: SprayedNAT(192.0.2.1);
            nat[0] -> there :: Tee -> TestSink({exchange}, 0); there[1] -> IPMirror -> [1] nat;
            nat[1] -> TestSink({exchange}, 1)"
        );
        let outcome = run(how, &text, &["nat.flows"]);
        let seen = collect(exchange);
        let (back, there): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.sink == 1);
        let all = (CONNECTIONS * (SEGMENTS + 2)) as usize;
        assert_eq!((there.len(), back.len()), (all, all), "{how:?}: {:?}", outcome.report.totals);
        let different: HashSet<_> = there.iter().map(|seen| told(&seen.bytes)).collect();
        assert_eq!(different.len(), all, "each packet once");
        let mut ports = HashMap::new();
        for packet in there {
            let connection = told(&packet.bytes).0;
            assert_eq!(packet.bytes[12..16], [192, 0, 2, 1]);
            assert_eq!(*ports.entry(port(packet)).or_insert(connection), connection, "no port twice");
            assert!(is_whole(packet));
        }
        assert_eq!(ports.len(), CONNECTIONS as usize, "each connection keeps its port");
        for packet in back {
            let (address, port) = client(told(&packet.bytes).0);
            let to = (&packet.bytes[16..20], &packet.bytes[22..24]);
            assert_eq!(to, (&address[..], &port.to_be_bytes()[..]));
            assert!(is_whole(packet));
        }
        assert_eq!(outcome.values, [Ok((2 * CONNECTIONS).to_string())]);
    }
}

#[test]
fn strangers_are_dropped() {
    let time = Timestamp(1_000_000_000);
    for how in runs() {
        // Packets from inside that open no connection, and a SYN from outside.
        let inside = [ACK, SYN | ACK, FIN | ACK, RST].map(|flags| segment(1, 0, flags, time));
        let exchange = offer(vec![inside.to_vec(), vec![segment(2, 0, SYN, time)]]);
        let text = format!(
            "TestSource({exchange}, 0) -> CheckIPHeader -> nat :: SprayedNAT(192.0.2.1) -> TestSink({exchange}, 0);
            TestSource({exchange}, 1) -> CheckIPHeader -> [1] nat [1] -> TestSink({exchange}, 1)"
        );
        let outcome = run(how, &text, &["nat.flows"]);
        assert_eq!(collect(exchange).len(), 0, "{how:?}");
        assert_eq!(outcome.report.totals.drops.get("no mapping"), Some(&5));
        assert_eq!(outcome.values, [Ok("0".to_string())]);
    }
}

/// Time-outs: packets that other workers handle keep a connection open, and a closed connection is
/// translated for some seconds more.
#[test]
fn connections_last_as_long_as_anybody_sees_them() {
    let secs = |n: u32| Timestamp::from_secs(1000 + i64::from(n));
    // Connection 0 has a segment every 100 s. Connection 1 has no packet for a long time. Connection 2 is
    // reset, and later a new connection has the same addresses and ports.
    let mut packets: Vec<_> =
        (0..40).map(|n| segment(0, n, if n == 0 { SYN } else { ACK }, secs(100 * n))).collect();
    packets.push(segment(1, 0, SYN, secs(1)));
    packets.push(segment(1, 1, ACK, secs(1000)));
    let resets = [(0, SYN, 10), (1, ACK, 11), (2, RST, 12), (3, ACK, 21), (4, ACK, 2000), (5, SYN, 2001)];
    packets.extend(resets.map(|(number, flags, at)| segment(2, number, flags, secs(at))));
    packets.sort_by_key(|packet| packet.time);
    let file = capture(&packets);
    for workers in [1, 2, 4] {
        for spreading in common::WAYS {
            let how = TestRun { spreading, ..TestRun::trace().on(workers).with(own_nf::CLASSES) };
            let exchange = offer(vec![Vec::new()]);
            let text = format!(
                "FromDump({}) -> CheckIPHeader -> nat :: SprayedNAT(192.0.2.1) -> TestSink({exchange}, 0);
                Idle -> [1] nat [1] -> Discard",
                file.path().display()
            );
            run(how, &text, &[]);
            let seen = collect(exchange);
            let numbers = |connection| {
                let own = seen.iter().map(|seen| told(&seen.bytes)).filter(|told| told.0 == connection);
                let mut numbers: Vec<_> = own.map(|(_, number)| number).collect();
                numbers.sort_unstable();
                numbers
            };
            assert_eq!(numbers(0), (0..40).collect::<Vec<_>>(), "{how:?}");
            let ports = seen.iter().filter(|seen| told(&seen.bytes).0 == 0).map(port);
            assert_eq!(ports.collect::<HashSet<_>>().len(), 1);
            assert_eq!((numbers(1), numbers(2)), (vec![0], vec![0, 1, 2, 3, 5]), "{how:?}");
        }
    }
}
