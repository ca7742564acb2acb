//! Tests the checksums of programs. Each chain writes bytes with or without an update of a checksum, or
//! overwrites checksums. It is run as it is and synthesized, one packet per run, and must send the same
//! packets; the program must be proven. In the last test, the synthesized chain only has to run.

use std::net::SocketAddr;

use element::Timestamp;
use lang::{Graph, flatten};
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::insert::insert;
use testkit::TestRun;
use testkit::chains::{compare_within, read};
use testkit::elements::{TestPacket, collect, offer};
use verify::equivalence::Conclusion;
use wire::build::Builder;
use wire::ethernet::MacAddr;

/// Returns Ethernet frames of UDP, TCP, ICMP, and IPv4 in IPv4, with several times to live. Their ECN bits
/// permit routers to mark congestion.
fn frames() -> Vec<Vec<u8>> {
    let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let [from, to]: [SocketAddr; 2] = ["10.0.0.1:1234", "192.0.2.7:80"].map(|end| end.parse().unwrap());
    let mut frames = Vec::new();
    for ttl in [1, 2, 9, 64, 255] {
        let inner = Builder::udp(to, from).ttl(ttl).build(b"inside").unwrap();
        for (builder, payload) in [
            (Builder::udp(from, to), &b"payload of ten"[..]),
            (Builder::tcp(from, to, 2), &[7; 31]),
            (Builder::icmp(from.ip(), to.ip(), 8, 0, [1, 2]), &[3; 40]),
            (Builder::ip(from.ip(), to.ip(), 4), &inner),
        ] {
            let frame = builder.ttl(ttl).tos(2).ethernet(a, b).build(payload).unwrap();
            // Adds variants with both zeros of one's complement (0000 and ffff) at the offsets of the IPv4
            // checksum and of the TCP checksum.
            for (sum, zero) in [(24, [0xff; 2]), (24, [0; 2]), (50, [0xff; 2]), (50, [0; 2])] {
                let mut other = frame.clone();
                other[sum..sum + 2].copy_from_slice(&zero);
                frames.push(other);
            }
            frames.push(frame);
        }
    }
    frames
}

/// Returns, for each frame, the packets that leave with the index of their exit. Each frame has a run of
/// its own.
fn run(graph: &Graph) -> Vec<Vec<(usize, Vec<u8>)>> {
    let runs = frames().into_iter().map(|bytes| {
        let input = TestPacket {
            bytes,
            time: Timestamp::from_secs(1),
            annotations: [0; 48],
            headers: [Some(0), None, None],
        };
        let number = offer(vec![vec![input]]);
        let mut graph = graph.clone();
        for (class, test) in [("FromDump", "TestSource"), ("ToDump", "TestSink")] {
            let ends = graph.elements.iter_mut().filter(|element| element.class == class);
            for (place, end) in ends.enumerate() {
                (end.class, end.config) = (test.into(), format!("{number}, {place}"));
            }
        }
        let outcome = TestRun::default().text(&flatten(&graph), &[]).unwrap();
        assert!(outcome.report.balances());
        collect(number).into_iter().map(|packet| (packet.sink, packet.bytes)).collect()
    });
    runs.collect()
}

/// Synthesizes a chain, regions of any length included. Expects the same packets as from the elements, and
/// a proof.
#[track_caller]
fn is_the_same(elements: &str) {
    let text = format!("FromDump(in.pcap, STOP true) -> {elements} -> Counter -> ToDump(out.pcap);");
    let chain = read(&text);
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty(), "{text}");
    let graph = insert(&chain.graph, &chain.chain, &synthesis);
    let (before, after) = (run(&chain.graph), run(&graph));
    assert!(before.iter().any(|packets| !packets.is_empty()), "{text}");
    assert_eq!(before, after, "{text}");
    let verdict = compare_within(1 << 20, &chain, &read(&flatten(&graph))).verdict;
    assert!(matches!(verdict, Conclusion::Equivalent), "{text}: {verdict:?}");
}

const LEAVE: &str = "EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> Null";

/// Updates a checksum for no change, or for changes that cancel out, which turns the checksum ffff into 0000.
/// The program has to do the same as the elements.
#[test]
fn updates_by_nothing_leave_one_zero() {
    for elements in [
        "SetIPECN(2)",
        "SetIPDSCP(0)",
        "SetIPECN(1) -> SetIPECN(2)",
        "StoreIPAddress(10.0.0.1, src)",
        "StoreIPAddress(5.6.7.8, src) -> StoreIPAddress(10.0.0.1, src)",
        "SetIPECN(2) -> SetIPChecksum",
        "SetIPECN(2) -> StoreData(24, \\<ffff>)",
        "StoreData(24, \\<ffff>) -> SetIPECN(2)",
    ] {
        is_the_same(&format!("MarkIPHeader(14) -> {elements} -> {LEAVE}"));
    }
}

/// Header bytes are overwritten without an update of the checksum, in the first chain the TTL by MoveData.
/// The following update must account for its own change only.
#[test]
fn an_update_accounts_for_its_own_change_alone() {
    is_the_same(&format!("CheckIPHeader(14) -> MoveData(22, 33, 1) -> DecIPTTL -> {LEAVE}"));
    is_the_same(&format!(
        "CheckIPHeader(14) -> GetIPAddress(16) -> StoreIPAddress(26) -> StoreIPAddress(9.9.9.9, src) -> {LEAVE}"
    ));
    is_the_same(&format!("CheckIPHeader(14) -> StoreData(22, \\<40>) -> DecIPTTL -> {LEAVE}"));
}

#[test]
fn bytes_are_written_without_their_checksum_and_then_with_it() {
    for elements in [
        "StoreData(15, \\<01>) -> SetIPDSCP(10)",
        "StoreData(15, \\<01>, MASK \\<03>) -> SetIPDSCP(10)",
        "SetIP6ECN(1) -> SetIPDSCP(10)",
        "StoreIPAddress(1.2.3.4, 26) -> StoreIPAddress(5.6.7.8, src)",
        "SetIPDSCP(10) -> StoreData(15, \\<01>) -> SetIPDSCP(11)",
        "SetIPDSCP(10) -> StoreData(24, \\<0000>) -> SetIPDSCP(11)",
        "SetIPDSCP(10) -> StoreData(24, \\<0000>)",
        "SetIPDSCP(10) -> StoreData(24, \\<00>)",
    ] {
        is_the_same(&format!("CheckIPHeader(14) -> {elements} -> {LEAVE}"));
    }
}

/// The checksum of UDP and TCP covers addresses, ports and payload. Each update must account for its own
/// changes only.
#[test]
fn transport_checksums_account_for_their_own_changes_alone() {
    for elements in [
        "StoreIPAddress(1.2.3.4, 26) -> StoreIPAddress(5.6.7.8, src)",
        "StoreData(34, \\<0102>) -> StoreIPAddress(5.6.7.8, dst) -> StoreIPAddress(5.6.7.9, src)",
        "StoreIPAddress(5.6.7.8, dst) -> StoreData(34, \\<0102>) -> StoreIPAddress(5.6.7.9, src)",
        "StoreIPAddress(5.6.7.8, dst) -> StoreIPAddress(1.2.3.4, 30) -> StoreIPAddress(5.6.7.9, dst)",
        "StoreIPAddress(5.6.7.8, dst) -> StoreData(40, \\<0000>) -> StoreIPAddress(5.6.7.9, dst)",
    ] {
        is_the_same(&format!("CheckIPHeader(14) -> {elements} -> {LEAVE}"));
    }
}

#[test]
fn a_new_header_over_an_old_checksum_stays() {
    let encap = "EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:3)";
    is_the_same(&format!("Strip(14) -> CheckIPHeader(0) -> SetIPDSCP(5) -> StripIPHeader -> {encap}"));
    is_the_same(&format!("CheckIPHeader(14) -> DecIPTTL -> Strip(34) -> MarkIPHeader(0) -> {encap}"));
    is_the_same(
        "CheckIPHeader(14) -> SetIPChecksum -> Strip(12) -> EtherVLANEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:3, 5)",
    );
    is_the_same(&format!("CheckIPHeader(14) -> DecIPTTL -> Strip(25) -> {encap}"));
    is_the_same(&format!(
        "CheckIPHeader(14) -> StoreIPAddress(5.6.7.8, src) -> Strip(14) -> StripIPHeader -> {encap}"
    ));
}

/// Elements may read a header that is marked before the start of the packet. A program cannot, so these
/// packets must be left to the elements.
#[test]
fn headers_in_front_of_packets_are_left_to_elements() {
    is_the_same(
        "Strip(14) -> CheckIPHeader(0) -> Strip(1) -> CheckICMPHeader -> Paint(1) -> Strip(12) -> MarkIPCE",
    );
    is_the_same(
        "Strip(14) -> CheckIPHeader(0) -> Strip(1) -> Print(x, ACTIVE false) -> SetIPDSCP(3) -> Null",
    );
    is_the_same("CheckIPHeader(14) -> Strip(30) -> Print(x, ACTIVE false) -> StoreIPAddress(5.6.7.8, src)");
}

/// Elements may be configured to strip more than any packet has. Synthesis must give a configuration that
/// runs.
#[test]
fn what_no_program_can_say_is_left_to_elements() {
    for elements in [
        "Null -> Null -> Strip(100000)",
        "MarkIPHeader(100000) -> Null -> Paint(1)",
        "StoreData(100000, x) -> Null",
        "Strip(100000) -> Unstrip(256) -> Null -> Paint(1)",
        "Strip(14) -> MarkIPHeader(262144) -> Null -> Paint(1)",
        "CheckIPHeader(100000) -> Null -> Paint(1)",
        "CheckIPHeader(262144) -> Null -> Paint(1)",
        "c :: Classifier(100000/01, -) -> Null -> Paint(1) -> d :: Null; c[1] -> Paint(2) -> d",
    ] {
        let chain = read(&format!("FromDump(in.pcap, STOP true) -> {elements} -> ToDump(out.pcap);"));
        let limits = PathLimits { least: Some(1), ..PathLimits::default() };
        let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
        run(&insert(&chain.graph, &chain.chain, &synthesis));
    }
}
