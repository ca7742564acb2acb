//! Tests of an IPRewriter whose connections are spread over workers: each connection is translated
//! consistently, replies are translated back, no port is assigned twice, and mappings last as long as they
//! should.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use element::Timestamp;
use element::steering::Spreading;
use sprayer::{Policy, SpreadSettings};
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, PSH, RST, SYN};

const SPRAY: fn() -> Arc<dyn Spreading> = || SpreadSettings::default().spreading();
const AUTO: fn() -> Arc<dyn Spreading> =
    || SpreadSettings { policy: Policy::Auto, ..SpreadSettings::default() }.spreading();
const FLOWLETS: fn() -> Arc<dyn Spreading> = || {
    SpreadSettings { policy: Policy::Flowlets(Timestamp(500_000)), ..SpreadSettings::default() }.spreading()
};
const TWO_EACH: fn() -> Arc<dyn Spreading> =
    || SpreadSettings { workers_per_flow: 2, ..SpreadSettings::default() }.spreading();

fn client(connection: usize) -> ([u8; 4], u16) {
    ([10, 1, (connection / 250) as u8, (1 + connection % 250) as u8], 1024 + (connection * 7 % 60_000) as u16)
}

/// Returns a segment of a connection at `time` after the start of the test; its payload is the number of the
/// connection and the number of the segment.
fn segment(connection: usize, number: u32, flags: u8, time: Timestamp) -> TestPacket {
    // Times count from a time in 2025, as in real captures.
    let time = Timestamp::from_secs(1_763_800_000) + time;
    let builder = Builder::tcp(client(connection).into(), ([198, 51, 100, 7], 80).into(), flags);
    let bytes = builder.build(&[(connection as u32).to_be_bytes(), number.to_be_bytes()].concat()).unwrap();
    TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), Some(0), Some(20)] }
}

/// Returns the packets of `count` connections that open, send `segments` segments each, and close; the
/// connections take turns.
fn connections(count: usize, segments: u32) -> Vec<TestPacket> {
    let time = |round: u32| Timestamp(1_000_000_000 + i64::from(round) * 1_000_000);
    let flags = |round| match round {
        0 => SYN,
        round if round > segments => FIN | ACK,
        _ => ACK | PSH,
    };
    let rounds = (0..segments + 2).map(|round| (round, flags(round), time(round)));
    rounds.flat_map(|(round, flags, time)| (0..count).map(move |n| segment(n, round, flags, time))).collect()
}

/// Returns the number of the connection and the number of the segment from the payload.
fn told(seen: &Seen) -> (usize, u32) {
    let number = |back: usize| {
        let at = seen.bytes.len() - back;
        u32::from_be_bytes(seen.bytes[at..at + 4].try_into().unwrap())
    };
    (number(8) as usize, number(4))
}

/// Sends packets through a translator. Each translated packet (sink 0) is answered, and the answer returns
/// through the translator (sink 1).
fn translate(
    how: TestRun,
    packets: Vec<TestPacket>,
    keywords: &str,
    handlers: &[&str],
) -> (RunResults, Vec<Seen>) {
    let exchange = offer(vec![packets]);
    let text = format!(
        "TestSource({exchange}, 0) -> CheckIPHeader
        -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop{keywords});
        nat[0] -> there :: Tee -> TestSink({exchange}, 0); there[1] -> IPMirror -> [1] nat;
        nat[1] -> TestSink({exchange}, 1)"
    );
    let outcome = how.text(&text, handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    (outcome, collect(exchange))
}

#[test]
fn every_connection_is_translated_one_way_and_back() {
    const CONNECTIONS: usize = 600;
    const SEGMENTS: u32 = 6;
    let packets = CONNECTIONS * (SEGMENTS as usize + 2);
    for policy in [SPRAY, AUTO, FLOWLETS, TWO_EACH] {
        for workers in [1, 2, 4] {
            for how in [TestRun::real(), TestRun::trace()] {
                let how = how.on(workers).spread(policy);
                let sent = connections(CONNECTIONS, SEGMENTS);
                let (outcome, seen) = translate(how, sent, "", &["nat.size", "nat.mapping_failures"]);
                let (back, there): (Vec<_>, Vec<_>) = seen.iter().partition(|seen| seen.sink == 1);
                assert_eq!((there.len(), back.len()), (packets, packets), "{:?}", outcome.report.totals);
                // Each packet leaves exactly once.
                let different: HashSet<_> = there.iter().map(|seen| told(seen)).collect();
                assert_eq!(different.len(), packets);
                // No port is assigned to two connections, and each connection keeps its port.
                let mut ports = HashMap::new();
                for packet in there {
                    let port = u16::from_be_bytes([packet.bytes[20], packet.bytes[21]]);
                    assert_eq!(packet.bytes[12..16], [192, 0, 2, 1]);
                    assert_eq!(*ports.entry(port).or_insert(told(packet).0), told(packet).0, "port {port}");
                    assert!(is_whole(packet));
                }
                assert_eq!(ports.len(), CONNECTIONS);
                for packet in back {
                    let (address, port) = client(told(packet).0);
                    assert_eq!(
                        (&packet.bytes[16..20], &packet.bytes[22..24]),
                        (&address[..], &port.to_be_bytes()[..])
                    );
                    assert!(is_whole(packet));
                }
                assert_eq!(outcome.values, [CONNECTIONS, 0].map(|n| Ok(n.to_string())));
            }
        }
    }
}

/// Sends through a firewall a capture in which an answer directly follows each packet that opens a
/// connection. The answer may arrive at another worker than the SYN; it must find the mapping even so.
#[test]
fn answers_find_what_was_opened_just_before() {
    const CONNECTIONS: usize = 5000;
    let time = Timestamp(1_000_000_000);
    let packets = (0..CONNECTIONS).flat_map(|n| {
        let there = segment(n, 0, SYN, time);
        let answer =
            Builder::tcp(([198, 51, 100, 7], 80).into(), client(n).into(), ACK).build(&[7; 8]).unwrap();
        [there.clone(), TestPacket { bytes: answer, ..there }]
    });
    let file = capture(&packets.collect::<Vec<_>>());
    for how in [TestRun::real(), TestRun::trace()] {
        let text = format!(
            "FromDump({}) -> CheckIPHeader -> side :: IPClassifier(src net 10.0.0.0/8, -);
             side[0] -> [0] nat :: IPRewriter(keep 0 1, drop); side[1] -> [1] nat;
             nat[0] -> there :: Counter -> Discard; nat[1] -> back :: Counter -> Discard",
            file.path().display()
        );
        let outcome = how.on(4).spread(SPRAY).text(&text, &["there.count", "back.count"]).unwrap();
        assert_eq!(
            outcome.values,
            [(); 2].map(|()| Ok(CONNECTIONS.to_string())),
            "{:?}",
            outcome.report.totals
        );
    }
}

/// True if the IP and TCP checksums of a packet are right.
fn is_whole(seen: &Seen) -> bool {
    wire::checksum::ipv4_valid(&seen.bytes[..20]) && wire::checksum::tcp_packet_valid(&seen.bytes, 20)
}

/// A translator that runs on one worker has all mappings there, even if other workers own the flows. Tests
/// two reasons why a translator runs on one worker: its configuration assigns it to a thread, or one of its
/// helpers changes payloads.
#[test]
fn a_translator_in_one_place_has_all_connections() {
    const CONNECTIONS: usize = 200;
    for (more, place) in [
        ("StaticThreadSched(nat 1)", "worker 1 nat.size"),
        ("Idle -> FTPPortMapper(nat, nat, 0) -> nat", "worker 0 nat.size"),
    ] {
        for workers in [2, 4] {
            for how in [TestRun::real(), TestRun::trace()] {
                let exchange = offer(vec![connections(CONNECTIONS, 4)]);
                let text = format!(
                    "TestSource({exchange}, 0) -> CheckIPHeader
                    -> [0] nat :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
                    nat[0] -> there :: Tee -> TestSink({exchange}, 0); there[1] -> IPMirror -> [1] nat;
                    nat[1] -> TestSink({exchange}, 1); {more}"
                );
                let how = how.on(workers).spread(SPRAY);
                let outcome = how.text(&text, &[place, "nat.size"]).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(collect(exchange).len(), 2 * 6 * CONNECTIONS, "{more}: {how:?}");
                assert_eq!(outcome.values, [CONNECTIONS; 2].map(|n| Ok(n.to_string())), "{more}: {how:?}");
            }
        }
    }
}

/// The packets of a single connection are spread over all workers, and each worker translates its part.
#[test]
fn one_connection_has_all_workers() {
    const SEGMENTS: u32 = 4000;
    for workers in [2, 4] {
        let exchange = offer(vec![connections(1, SEGMENTS)]);
        let text = format!(
            "TestSource({exchange}, 0) -> CheckIPHeader
            -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
            nat[0] -> there :: Counter -> TestSink({exchange}, 0); Idle -> [1] nat[1] -> Discard"
        );
        let names: Vec<_> = (0..workers).map(|n| format!("worker {n} there.count")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let outcome = TestRun::trace().on(workers).spread(SPRAY).text(&text, &names).unwrap();
        let parts = outcome.values.iter().map(|value| value.as_ref().unwrap().parse().unwrap());
        let parts: Vec<u32> = parts.collect();
        let even = SEGMENTS / workers as u32;
        assert!(parts.iter().all(|part| part.abs_diff(even) < even / 10), "{parts:?}");
        assert_eq!(collect(exchange).len(), SEGMENTS as usize + 2);
    }
}

/// A connection must keep its mapping even if most of its packets arrive at workers that do not own the
/// connection.
#[test]
fn a_connection_that_others_see_holds() {
    // A segment every 20 s for an hour, where mappings expire after 60 s without packets.
    let all = (0..180).map(|n| {
        let flags = if n == 0 { SYN } else { ACK | PSH };
        segment(0, n, flags, Timestamp::from_secs(100 + 20 * i64::from(n)))
    });
    // The SYN of a connection that sends nothing more, so that its mapping must expire.
    let silent = segment(1, 0, SYN, Timestamp::from_secs(101));
    let mut packets: Vec<_> = all.chain([silent]).collect();
    packets.sort_by_key(|packet| packet.time);
    let file = capture(&packets);
    let text = |exchange| {
        format!(
            "FromDump({}) -> CheckIPHeader
            -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop,
                TCP_TIMEOUT 60, TCP_NODATA_TIMEOUT 60, REAP_INTERVAL 10);
            nat[0] -> TestSink({exchange}, 0); Idle -> [1] nat[1] -> Discard",
            file.path().display()
        )
    };
    for how in
        [TestRun::trace(), TestRun::trace().on(4).spread(SPRAY), TestRun::trace().on(4).spread(FLOWLETS)]
    {
        let exchange = offer(vec![Vec::new()]);
        let outcome = how.text(&text(exchange), &["nat.size"]).unwrap_or_else(|error| panic!("{error}"));
        let seen = collect(exchange);
        assert_eq!(seen.len(), 181);
        let ports = seen.iter().filter(|seen| told(seen).0 == 0).map(|seen| &seen.bytes[20..22]);
        assert_eq!(ports.collect::<HashSet<_>>().len(), 1, "one mapping all the time");
        assert_eq!(outcome.values, [Ok("1".to_string())], "and the other is over");
    }
}

/// Replies that arrive after the time-out find no mapping, at any worker; replies that arrive before find
/// it.
#[test]
fn a_connection_that_nobody_sees_ends() {
    let all = (0..40).map(|n| {
        let flags = if n == 0 { SYN } else { ACK | PSH };
        segment(0, n, flags, Timestamp::from_secs(100 + i64::from(n / 4)))
    });
    let file = capture(&all.collect::<Vec<_>>());
    for how in
        [TestRun::trace(), TestRun::trace().on(4).spread(SPRAY), TestRun::trace().on(4).spread(FLOWLETS)]
    {
        for (seconds, replies) in [(49, 40), (71, 0)] {
            let exchange = offer(vec![Vec::new()]);
            let text = format!(
                "FromDump({}) -> CheckIPHeader
                -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop,
                    TCP_TIMEOUT 60, TCP_NODATA_TIMEOUT 60);
                nat[0] -> there :: Tee -> TestSink({exchange}, 0);
                there[1] -> Queue -> DelayUnqueue({seconds}) -> IPMirror -> [1] nat[1] -> TestSink({exchange}, 1)",
                file.path().display()
            );
            let outcome = how.text(&text, &["nat.size"]).unwrap_or_else(|error| panic!("{error}"));
            let seen = collect(exchange);
            assert_eq!(
                seen.iter().filter(|seen| seen.sink == 1).count(),
                replies,
                "{how:?} after {seconds} s"
            );
            assert_eq!(outcome.values, [Ok(usize::from(replies > 0).to_string())]);
        }
    }
}

/// Writes packets to a capture without link headers.
fn capture(packets: &[TestPacket]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    for input in packets {
        writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
    file
}

/// Packets that are in flight when their connection closes must still be translated, in both directions.
#[test]
fn no_packet_of_a_closing_connection_is_lost() {
    let close = |flags| {
        let mut packets = connections(50, 3);
        let time = |n: i64| Timestamp(1_100_000_000 + n);
        packets.extend((0..50).map(|n| segment(n, 90, flags, time(0))));
        packets.extend((0..50).flat_map(|n| (0..8).map(move |k| segment(n, 100 + k, ACK | PSH, time(1)))));
        packets
    };
    for flags in [FIN | ACK, RST] {
        for how in [TestRun::real(), TestRun::trace()] {
            let packets = close(flags);
            let expected = packets.len();
            let (_, seen) = translate(how.on(4).spread(SPRAY), packets, "", &[]);
            assert_eq!(seen.iter().filter(|seen| seen.sink == 0).count(), expected);
            assert_eq!(seen.iter().filter(|seen| seen.sink == 1).count(), expected);
        }
    }
}
