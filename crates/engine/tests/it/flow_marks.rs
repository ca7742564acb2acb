//! Tests of flow marks. Downstream of an element that marks packets with their flow, other elements use the
//! mark instead of a look-up of their own. Their results have to be the same.

use std::net::SocketAddr;

use element::Timestamp;
use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};
use wire::MacAddr;
use wire::build::Builder;

/// Makes a packet of one of a few flows. `kind` decides if it is plain (from 80 on), or a fragment, or has
/// options, a wrong length or the protocol number of ICMP.
fn packet((flow, kind, seconds): (u8, u8, u8), time: &mut i64) -> TestPacket {
    *time += i64::from(seconds);
    let end = |number: u8| -> SocketAddr { ([10, 0, 0, number % 4], 1000 + u16::from(number / 4)).into() };
    let server: SocketAddr = ([192, 168, 0, 9], [53, 80, 443][usize::from(flow % 3)]).into();
    let builder = match flow % 2 {
        0 => Builder::udp(end(flow), server),
        _ => Builder::tcp(end(flow), server, [2, 16, 17, 4][usize::from(kind % 4)]),
    };
    let builder = match kind {
        0..20 => builder.fragment(8),
        20..30 => builder.options(&[1, 1, 1, 0]),
        _ => builder,
    };
    let mut bytes = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[kind; 40]).unwrap();
    match kind {
        // The first fragment of a datagram.
        30..40 => bytes[20] |= 0x20,
        40..50 => bytes[17] = 20 + kind % 16,
        50..55 => bytes[23] = 1,
        // A packet with 8 to 19 bytes after the IP header. A TCP segment then ends before its checksum, in
        // it, or a little after it. The packet is truncated, or only its length field says so.
        55..80 => {
            let behind = 8 + kind % 12;
            bytes[17] = 20 + behind;
            if kind < 70 {
                bytes.truncate(14 + 20 + usize::from(behind));
            }
        }
        _ => {}
    }
    TestPacket { bytes, time: Timestamp::from_secs(*time), annotations: [0; 48], headers: [None; 3] }
}

/// Runs packets through a translator, a filter and two flow counters, with `between` inserted after the
/// translator. Returns the packets that come out, and the values of handlers.
fn run(packets: &[(u8, u8, u8)], between: &str) -> (Vec<Vec<u8>>, Vec<String>) {
    let mut time = 1;
    let exchange = offer(vec![packets.iter().map(|&of| packet(of, &mut time)).collect()]);
    let rules: String = (0..30)
        .map(|n| {
            format!(
                "{} src 192.0.2.1 && src port {} && dst port {}, ",
                ["allow", "1"][n % 2],
                2000 + n,
                [53, 80, 443][n % 3]
            )
        })
        .collect();
    let text = format!(
        "TestSource({exchange}, 0) -> MarkIPHeader(14)
        -> nat :: IPRewriter(pattern 192.0.2.1 2000-2040# - - 0 0, UDP_TIMEOUT 3, TCP_TIMEOUT 5, TCP_NODATA_TIMEOUT 5,
            TCP_DONE_TIMEOUT 1, GUARANTEE 0, REAP_INTERVAL 1, MAPPING_CAPACITY 12)
        {between} -> f :: IPFilter({rules} allow all) -> c :: FlowCounter(CAPACITY 10, TIMEOUT 4)
        -> d :: FlowCounter(BIDIRECTIONAL true) -> TestSink({exchange}, 0);
        f[1] -> c;"
    );
    let handlers =
        ["f.rule_counts", "c.count", "c.expired", "c.packets", "c.overflows", "c.others", "c.csv", "d.csv"];
    let outcome = TestRun::trace().text(&text, &handlers).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.report.balances());
    let seen = collect(exchange).into_iter().map(|seen| seen.bytes).collect();
    (seen, outcome.values.into_iter().map(Result::unwrap).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn marks_change_nothing_but_the_cost(packets in prop::collection::vec((0..24u8, any::<u8>(), 0..2u8), 1..200)) {
        // MarkIPHeader sets header annotations, which invalidates marks, so the elements after it look
        // flows up themselves.
        prop_assert_eq!(run(&packets, ""), run(&packets, "-> MarkIPHeader(14)"));
    }
}

/// A TCP segment ends before its checksum, so the translator cannot rewrite its ports. It must not be
/// marked with the flow, and the filter must see the original ports.
#[test]
fn a_short_segment_says_nothing_of_its_flow() {
    let segment = |at: i64, length: Option<usize>| {
        let (from, to) = (([3, 3, 3, 3], 99).into(), ([192, 0, 2, 1], 8080).into());
        let mut bytes =
            Builder::tcp(from, to, 2).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[]).unwrap();
        if let Some(length) = length {
            bytes[17] = 20 + length as u8;
            bytes.truncate(14 + 20 + length);
        }
        TestPacket { bytes, time: Timestamp::from_secs(at), annotations: [0; 48], headers: [None; 3] }
    };
    let rules: String = (1..20).map(|n| format!("deny udp dst port {n}, ")).collect();
    for length in 8..18 {
        // Each segment comes twice: the first opens the mapping, the second finds it.
        let short = (1..3).map(|at| segment(at, Some(length)));
        let exchange = offer(vec![short.chain((3..5).map(|at| segment(at, None))).collect()]);
        let text = format!(
            "TestSource({exchange}, 0) -> MarkIPHeader(14) -> IPRewriter(pattern - - 10.0.0.5 22 0 0)
            -> f :: IPFilter(deny tcp dst port 22, {rules} allow tcp dst port 8080, deny all)
            -> c :: FlowCounter -> TestSink({exchange}, 0)"
        );
        // With a burst of one, packets after the first packet of their flow can be marked. Packets in one
        // batch with the first packet would not be.
        let outcome = TestRun { burst: Some(1), ..TestRun::trace() }.text(&text, &["f.rule_counts"]).unwrap();
        let counts = outcome.values[0].as_deref().unwrap();
        assert!(counts.lines().any(|line| line.trim() == "0 2"), "{length}: {counts}");
        assert_eq!(collect(exchange).len(), 2, "the short ones, with the port that they had");
    }
}

/// 256 packets in one batch, all of different new flows: each gets its own result from the filter.
#[test]
fn a_full_batch_of_unknown_flows_is_looked_up() {
    let packets = (0..=255u8).map(|number| {
        let (from, to) = (([10, 0, 0, number], 1000).into(), ([192, 0, 2, 1], 53).into());
        let bytes = Builder::udp(from, to).ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(b"data").unwrap();
        TestPacket { bytes, time: Timestamp::from_secs(1), annotations: [0; 48], headers: [None; 3] }
    });
    let exchange = offer(vec![packets.collect()]);
    let rules: String = (0..20).map(|n| format!("deny src host 10.0.0.{n}, ")).collect();
    let text = format!(
        "TestSource({exchange}, 0) -> MarkIPHeader(14) -> IPRewriter(keep 0 0)
        -> f :: IPFilter({rules} allow all) -> TestSink({exchange}, 0)"
    );
    let outcome = TestRun { burst: Some(256), ..TestRun::trace() }.text(&text, &["f.rule_counts"]).unwrap();
    assert!(outcome.values[0].as_deref().unwrap().ends_with("20 236\n"));
    assert_eq!(collect(exchange).len(), 236);
}
