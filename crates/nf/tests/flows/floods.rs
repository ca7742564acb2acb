//! Tests of floods: the number of wanted packets that pass while a flood comes. The figures are in the
//! tables of `docs/nat.md` and `docs/router.md`; with `-- --nocapture` the tests print them.

use testkit::TestRun;
use testkit::plain::{end, tcp, udp, write_capture};
use wire::build::Builder;
use wire::checksum;
use wire::tcp::flags::{ACK, SYN};

/// Packets, each with its time in milliseconds.
type Packets = Vec<(i64, Vec<u8>)>;

const REMOTE: [u8; 4] = [203, 0, 113, 5];
const OUTER: [u8; 4] = [192, 0, 2, 1];

/// Returns a distinct address in the /8 network `network` for each number below 2^24.
fn host(network: u8, number: u32) -> [u8; 4] {
    let [_, b, c, d] = number.to_be_bytes();
    [network, b, c, d]
}

/// Sends packets into the configuration `config`, whose source is named `in`. Returns the number of packets
/// that reach its counter `kept`.
fn kept(config: &str, packets: &Packets) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    write_capture(&path, packets);
    let text = format!("in :: FromDump({}, FORCE_IP true);\n{config}", path.display());
    let outcome =
        TestRun::trace().text(&text, &["kept.count"]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    outcome.values[0].clone().unwrap().parse().unwrap()
}

/// Formats the rows of a table: the flood, the numbers of wanted packets that passed and that were sent, and
/// the name of these packets. Checks that the document contains the table, and prints it.
fn check(document: &str, rows: &[(&str, u64, u64, &str)]) {
    let mut table = "| flood | what is kept |\n| --- | --- |\n".to_string();
    for (flood, kept, of, what) in rows {
        table += &format!("| {flood} | {kept} of {of} {what} |\n");
    }
    println!("{table}");
    assert!(document.contains(&table), "the document says something else than\n{table}");
}

/// Returns a configuration with a translator. Its counter `kept` counts the packets that the translator sends
/// to `port`.
fn translator(arguments: &str, port: u16) -> String {
    format!(
        "in -> c :: IPClassifier(dst host 192.0.2.1, -);
        c[1] -> [0] nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop, {arguments}); c[0] -> [1] nat;
        nat[0] -> k :: IPClassifier(dst port {port}, -); k[0] -> kept :: Counter -> Discard; k[1] -> Discard;
        nat[1] -> Discard;"
    )
}

#[test]
fn translators() {
    let inside = [10, 0, 0, 1];
    let server = end(REMOTE, 80);
    // A host opens an outer port by one datagram, and 12,000 strangers send to this port. Then the host opens
    // connections, which are the wanted packets.
    let mut strangers = vec![(0, udp(end(inside, 5000), end(REMOTE, 53)))];
    strangers.extend((0..12_000).map(|n| (1, udp(end(host(3, n), 9), end(OUTER, 5000)))));
    strangers.extend((0..500).map(|n| (2, tcp(end(inside, 6000 + n), server, SYN, b""))));
    let open = "INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING true, SUBSCRIBER_CAPACITY 10000";
    // 100 wanted connections exist, with a packet each second, while other hosts open 10,000 connections per
    // second.
    let mut opened: Packets = (0..100).map(|n| (0, tcp(end(inside, 6000 + n), server, SYN, b""))).collect();
    for second in 1..10i64 {
        let flood = (0..10_000)
            .map(|n| tcp(end(host(10, 70_000 + n + 10_000 * second as u32), 7), end(REMOTE, 81), SYN, b""));
        opened.extend(flood.map(|packet| (1000 * second, packet)));
        opened.extend((0..100).map(|n| (1000 * second + 1, tcp(end(inside, 6000 + n), server, ACK, b""))));
    }
    // First, one host opens as many mappings as SUBSCRIBER_CAPACITY allows. Then another host opens
    // connections, which are the wanted packets.
    let mut greedy: Packets =
        (0..50_000u16).map(|n| (0, udp(end([10, 0, 0, 2], 1024 + n), end(REMOTE, 53)))).collect();
    greedy.extend((0..500).map(|n| (1, tcp(end(inside, 6000 + n), server, SYN, b""))));
    // All ports towards a server have mappings that have expired when a host opens flows to that server.
    let mut over: Packets =
        (0..64_512u32).map(|n| (0, udp(end(host(10, 256 + n), 7), end(REMOTE, 53)))).collect();
    over.extend((0..500).map(|n| (300_000 + i64::from(n), udp(end(inside, 6000 + n), end(REMOTE, 53)))));
    let all_over = kept(&translator("MAPPING_CAPACITY 1000000", 53), &over) - 64_512;
    check(
        include_str!("../../../../docs/nat.md"),
        &[
            (
                "12,000 datagrams of as many senders to a port in use, with INDEPENDENT_FILTERING",
                kept(&translator(open, 80), &strangers),
                500,
                "connections that the host behind the port opens then",
            ),
            (
                "10,000 new connections a second for nine seconds, with MAPPING_CAPACITY 5000",
                kept(&translator("MAPPING_CAPACITY 5000", 80), &opened),
                1000,
                "packets of 100 connections that exist, one a second each",
            ),
            (
                "50,000 flows of one host, with SUBSCRIBER_CAPACITY 1000",
                kept(&translator("SUBSCRIBER_CAPACITY 1000", 80), &greedy),
                500,
                "connections that another host opens then",
            ),
            (
                "64,512 flows of other hosts to one server, which have all its ports and are over",
                all_over,
                500,
                "flows to the same server in the half second that follows",
            ),
        ],
    );
}

/// Makes one of the two fragments of a datagram: the first, or the last.
fn fragment(from: [u8; 4], identification: u16, is_first: bool) -> Vec<u8> {
    let mut packet = Builder::udp(end(from, 7), end(REMOTE, 53)).build(&[1; 16]).unwrap();
    packet[4..6].copy_from_slice(&identification.to_be_bytes());
    packet[6..8].copy_from_slice(&if is_first { [0x20, 0] } else { [0, 3] });
    let _ = checksum::fill_ipv4(&mut packet[..20]);
    packet
}

#[test]
fn routers() {
    // Each datagram of the wanted source arrives in two fragments. Between these, 1,000 other sources each
    // send a first fragment of a datagram that is never completed.
    let mut halves = Vec::new();
    for n in 0..100u16 {
        halves.push((0, fragment([10, 0, 0, 1], n, true)));
        let flood = (0..1000).map(|k| fragment(host(3, u32::from(n) * 1000 + k), n, true));
        halves.extend(flood.map(|packet| (0, packet)));
        halves.push((0, fragment([10, 0, 0, 1], n, false)));
    }
    let reassembler = "in -> CheckIPHeader -> IPReassembler -> k :: IPClassifier(src host 10.0.0.1, -);
        k[0] -> kept :: Counter -> Discard; k[1] -> Discard;";
    // The Ethernet address of one neighbour is known. The flood consists of packets for 50,000 neighbours
    // that do not answer ARP queries.
    let mut unanswered = Vec::new();
    for n in 0..1000u32 {
        let to = |address| Builder::udp(end([3, 0, 0, 1], 7), end(address, 53)).build(b"data").unwrap();
        unanswered.extend((0..50).map(|k| (1 + i64::from(n), to(host(10, 256 + 50 * n + k)))));
        unanswered.push((1 + i64::from(n), to([10, 0, 0, 1])));
    }
    let querier = "in -> GetIPAddress(16) -> aq :: ARPQuerier(10.255.255.254, 2:0:0:0:0:1) -> k :: Classifier(30/0a000001, -);
        Idle -> [1] aq; k[0] -> kept :: Counter -> Discard; k[1] -> Discard;
        DriverManager(write aq.insert 10.0.0.1 2:0:0:0:0:2, pause, stop);";
    check(
        include_str!("../../../../docs/router.md"),
        &[
            (
                "IPReassembler: 100,000 first fragments of as many sources, 1,000 between the two of each datagram",
                kept(reassembler, &halves),
                100,
                "datagrams of another source",
            ),
            (
                "ARPQuerier: 50 packets a millisecond for hosts that do not answer, 50,000 hosts in all",
                kept(querier, &unanswered),
                1000,
                "packets for a neighbour that is known",
            ),
        ],
    );
}
