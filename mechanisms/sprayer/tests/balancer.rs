//! Tests of a load balancer whose connections are spread over workers: each connection keeps its server as
//! long as any worker has packets of it.

use std::collections::{HashMap, HashSet};

use element::Timestamp;
use sprayer::SpreadSettings;
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use wire::build::Builder;
use wire::tcp::flags::{ACK, FIN, PSH, SYN};

fn segment(connection: u16, flags: u8, time: Timestamp) -> TestPacket {
    // Times count from a time in 2025, as in real captures.
    let time = Timestamp::from_secs(1_763_800_000) + time;
    let from = ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection);
    let builder = Builder::tcp(from.into(), ([10, 9, 0, 1], 80).into(), flags);
    let bytes = builder.build(&connection.to_be_bytes()).unwrap();
    TestPacket { bytes, time, annotations: [0; 48], headers: [Some(0), Some(0), Some(20)] }
}

const BALANCER: &str =
    "FlowIPLoadBalancer(VIP 10.9.0.1, DST 10.7.0.1, DST 10.7.0.2, DST 10.7.0.3, TIMEOUT 60)";

fn server(seen: &Seen) -> (u16, u8) {
    let end = seen.bytes.len();
    (u16::from_be_bytes([seen.bytes[end - 2], seen.bytes[end - 1]]), seen.bytes[19])
}

#[test]
fn connections_keep_their_server() {
    const CONNECTIONS: u16 = 500;
    let rounds = [SYN, ACK, ACK | PSH, ACK | PSH, ACK, ACK | PSH, FIN | ACK, ACK];
    let time = Timestamp(1_000_000_000);
    let packets: Vec<_> =
        rounds.iter().flat_map(|&flags| (0..CONNECTIONS).map(move |n| segment(n, flags, time))).collect();
    for how in [TestRun::trace().on(2), TestRun::trace().on(4), TestRun::real().on(4)] {
        let exchange = offer(vec![packets.clone()]);
        let text = format!(
            "TestSource({exchange}, 0) -> CheckIPHeader -> lb :: {BALANCER} -> TestSink({exchange}, 0)"
        );
        let names = ["lb.load_packets", "lb.overflows", "worker 1 lb.load_packets"];
        let how = how.spread(|| SpreadSettings::default().spreading());
        let outcome = how.text(&text, &names).unwrap_or_else(|error| panic!("{error}"));
        let mut servers = HashMap::new();
        for (connection, server) in collect(exchange).iter().map(server) {
            assert_eq!(*servers.entry(connection).or_insert(server), server, "connection {connection}");
        }
        assert_eq!(servers.len(), usize::from(CONNECTIONS));
        assert_eq!(servers.values().collect::<HashSet<_>>().len(), 3);
        let load = |n: usize| -> u64 {
            outcome.values[n].as_ref().unwrap().split(' ').map(|n| n.parse::<u64>().unwrap()).sum()
        };
        assert_eq!((load(0), load(1)), (packets.len() as u64, 0));
        // Each worker counts the packets that it sends, and has sent about an equal part of all packets.
        let workers = outcome.report.workers.len() as u64;
        assert!(load(2).abs_diff(load(0) / workers) < load(0) / 4, "{:?}", outcome.values);
    }
}

/// A connection sends a segment every 20 s for an hour and must keep its server. With four workers, most
/// segments arrive at workers that do not own the connection. A server is added meanwhile.
#[test]
fn connections_that_others_see_hold() {
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    // Other connections come and go meanwhile, so that a new choice would most likely select another
    // server.
    for n in 0..180 {
        let time = Timestamp::from_secs(100 + 20 * i64::from(n));
        let own = segment(0, if n == 0 { SYN } else { ACK | PSH }, time);
        for input in [own, segment(1 + n, SYN, time)] {
            writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
        }
    }
    writer.flush().unwrap();
    // Reading the number of connections must not end a connection that other workers still see.
    for (workers, asks) in [(1, false), (4, false), (4, true)] {
        let exchange = offer(vec![Vec::new()]);
        let asks = if asks { "read lb.connections" } else { "wait 0s" };
        let text = format!(
            "FromDump({}) -> CheckIPHeader -> lb :: {BALANCER} -> TestSink({exchange}, 0);
             Script(TYPE ACTIVE, label again, wait 70s, {asks}, goto again);
             Script(wait 1000s, writeq lb.config \"{}, DST 10.7.0.4\")",
            file.path().display(),
            BALANCER.trim_start_matches("FlowIPLoadBalancer(").trim_end_matches(')')
        );
        let how = TestRun::trace().on(workers).spread(|| SpreadSettings::default().spreading());
        let handlers = ["lb.connections", "lb.nb_total_servers"];
        let outcome = how.text(&text, &handlers).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.values[1].as_deref(), Ok("4"), "{}", outcome.messages);
        let seen = collect(exchange);
        let own: Vec<_> = seen.iter().map(server).filter(|(connection, _)| *connection == 0).collect();
        assert_eq!(own.len(), 180);
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), 1, "{own:?}");
        // Of the other connections, only the last few have not expired.
        let left: usize = outcome.values[0].as_ref().unwrap().parse().unwrap();
        assert!((1..=6).contains(&left), "{left} on {workers} workers");
    }
}

/// After new arguments of an element, the element must still know which flows other workers have seen.
#[test]
fn connections_that_others_see_hold_when_arguments_change() {
    const CONNECTIONS: u16 = 40;
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    // The segments at 150 s keep the connections alive; most of them arrive at workers that do not own
    // their connection. The segments at 165 s are of other connections, and only advance time.
    for (second, first, flags) in [(100, 0, SYN), (150, 0, ACK | PSH), (165, 1000, SYN), (200, 0, ACK | PSH)]
    {
        for n in 0..CONNECTIONS {
            let input = segment(first + n, flags, Timestamp::from_secs(second));
            writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
        }
    }
    writer.flush().unwrap();
    for workers in [1, 4] {
        let exchange = offer(vec![Vec::new()]);
        let text = format!(
            "FromDump({}) -> CheckIPHeader -> lb :: {BALANCER} -> TestSink({exchange}, 0);
             Script(wait 55s, writeq lb.config \"{}, DST 10.7.0.4\")",
            file.path().display(),
            BALANCER.trim_start_matches("FlowIPLoadBalancer(").trim_end_matches(')')
        );
        let how = TestRun::trace().on(workers).spread(|| SpreadSettings::default().spreading());
        let outcome = how.text(&text, &["lb.nb_total_servers"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.values, [Ok("4".to_string())], "{}", outcome.messages);
        let mut servers = HashMap::new();
        for (connection, server) in collect(exchange).iter().map(server) {
            assert_eq!(
                *servers.entry(connection).or_insert(server),
                server,
                "{connection} on {workers} workers"
            );
        }
        assert_eq!(servers.len(), usize::from(2 * CONNECTIONS));
    }
}

/// Connections that clients and servers have closed end soon, although answers and FINs arrive at any
/// worker.
#[test]
fn connections_that_both_sides_have_closed_are_over_soon() {
    const CONNECTIONS: u16 = 100;
    let file = tempfile::NamedTempFile::with_suffix(".pcap").unwrap();
    let options = capture::WriterOptions { link: wire::LinkType::RawIp, ..capture::WriterOptions::default() };
    let mut writer = capture::Writer::new(file.reopen().unwrap(), options);
    let mut write = |input: TestPacket| {
        writer.write(input.time.0, input.bytes.len() as u32, [&input.bytes[..]]).unwrap();
    };
    let from = |server: u8, connection: u16, time: Timestamp| {
        let to = ([10, 1, (connection >> 8) as u8, connection as u8], 1024 + connection);
        let builder = Builder::tcp(([10, 7, 0, server], 80).into(), to.into(), FIN | ACK);
        TestPacket { bytes: builder.build(b"").unwrap(), ..segment(0, FIN, time) }
    };
    let at = Timestamp::from_secs;
    (0..CONNECTIONS).for_each(|n| write(segment(n, SYN, at(100))));
    // All three servers send FIN to each client; only the FIN of the connection's own server counts.
    (0..CONNECTIONS).for_each(|n| (1..=3).for_each(|server| write(from(server, n, at(101)))));
    (0..CONNECTIONS - 1).for_each(|n| write(segment(n, FIN | ACK, at(102))));
    (0..20).for_each(|n| write(segment(CONNECTIONS - 1, ACK | PSH, at(103 + n))));
    writer.flush().unwrap();
    for workers in [1, 4] {
        let text = format!(
            "FromDump({}) -> CheckIPHeader -> side :: IPClassifier(dst host 10.9.0.1, -);
             side[0] -> lb :: {BALANCER} -> Discard; side[1] -> FlowIPLoadBalancerReverse(lb) -> Discard",
            file.path().display()
        );
        let how = TestRun::trace().on(workers).spread(|| SpreadSettings::default().spreading());
        let outcome = how.text(&text, &["lb.connections"]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.values, [Ok("1".to_string())], "{workers} workers");
    }
}
