//! Tests the order of packets if some packets of a batch bypass elements that other packets of the batch have
//! to go through. At each output, the order must be the same as without a program.

use std::net::SocketAddr;

use element::Timestamp;
use lang::{Graph, flatten};
use synthesizer::compose::synthesize;
use synthesizer::compose::walk::PathLimits;
use synthesizer::insert::insert;
use testkit::TestRun;
use testkit::chains::read;
use testkit::elements::{TestPacket, collect, offer};
use wire::build::Builder;
use wire::ethernet::MacAddr;

const ENDS: [&str; 3] = ["10.0.0.1:1000", "10.0.0.2:2000", "192.0.2.7:80"];

fn frame(builder: &Builder, payload: usize, number: u8) -> Vec<u8> {
    let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    builder.clone().id(number.into()).ethernet(a, b).build(&vec![number; payload]).unwrap()
}

/// Returns one batch with packets of three flows, and of the replies of one of them: long and short, with
/// options, fragments, and with a time to live that ends.
fn batch() -> Vec<Vec<u8>> {
    let [one, two, server]: [SocketAddr; 3] = ENDS.map(|end| end.parse().unwrap());
    let of = |number: u8| match number % 4 {
        0 => Builder::udp(one, server),
        1 => Builder::tcp(two, server, 0x10),
        2 => Builder::udp(server, one),
        _ => Builder::udp(two, server),
    };
    let packets = (0..30u8).map(|number| {
        let builder = match number % 7 {
            1 => of(number).options(&[1, 1, 1, 0]),
            3 => of(number).fragment(0x2000),
            5 => of(number).ttl(1),
            _ => of(number),
        };
        frame(&builder, if number % 3 == 0 { 200 } else { 16 }, number)
    });
    packets.collect()
}

fn run(graph: &Graph, burst: usize) -> Vec<(usize, Vec<u8>)> {
    let input = |bytes: Vec<u8>| TestPacket {
        bytes,
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    };
    let number = offer(vec![batch().into_iter().map(input).collect()]);
    let mut graph = graph.clone();
    for (class, test) in [("FromDump", "TestSource"), ("ToDump", "TestSink")] {
        let ends = graph.elements.iter_mut().filter(|element| element.class == class);
        for (place, end) in ends.enumerate() {
            (end.class, end.config) = (test.into(), format!("{number}, {place}"));
        }
    }
    let outcome = TestRun { burst: Some(burst), ..TestRun::default() }.text(&flatten(&graph), &[]).unwrap();
    assert!(outcome.report.balances());
    collect(number).into_iter().map(|packet| (packet.sink, packet.bytes)).collect()
}

#[track_caller]
fn stay_in_order(elements: &str) {
    let text = format!("FromDump(in.pcap, STOP true) -> {elements}");
    let chain = read(&text);
    let limits = PathLimits { least: Some(1), ..PathLimits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.regions.is_empty(), "{text}");
    let graph = insert(&chain.graph, &chain.chain, &synthesis);
    for burst in [1, 32] {
        let [plain, composed] = [&chain.graph, &graph].map(|graph| run(graph, burst));
        assert!(plain.len() > 5, "{text}");
        for sink in 0..2 {
            let at = |all: &[(usize, Vec<u8>)]| -> Vec<Vec<u8>> {
                all.iter().filter(|(other, _)| *other == sink).map(|(_, bytes)| bytes.clone()).collect()
            };
            assert!(at(&plain) == at(&composed), "{text}, bursts of {burst}, output {sink}");
        }
    }
}

const OUT: &str = "EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> Counter -> ToDump(out.pcap)";

#[test]
fn packets_that_only_an_element_can_deal_with_stay_in_their_place() {
    stay_in_order(&format!("CheckIPHeader(14) -> Truncate(60) -> {OUT};"));
    stay_in_order(&format!(
        "VLANDecap -> CheckIPHeader(14) -> SetIPDSCP(3) -> IPGWOptions(10.0.0.9) -> {OUT};"
    ));
    stay_in_order(&format!(
        "CheckIPHeader(14) -> IPGWOptions(10.0.0.9) -> FixIPSrc(10.0.0.9) -> DecIPTTL -> SetIPDSCP(3) -> {OUT};"
    ));
}

/// At a translator, the first packet of a connection determines the direction of the reply, and the first
/// packet of a flow determines its port. So the packets that leave are the same only if the translator sees
/// new flows in the same order. In the last chain, an element numbers the packets instead.
#[test]
fn translators_see_packets_as_they_came() {
    for input in
        ["IPRewriter(keep 0 1)", "IPRewriter(pattern 1.1.1.1 4000-5000# - - 0 1)", "TCPRewriter(pass 0)"]
    {
        stay_in_order(&format!(
            "VLANDecap -> CheckIPHeader(14) -> IPGWOptions(10.0.0.9) -> t :: {input}; t[0] -> {OUT}; \
             Idle -> t; t[1] -> Counter -> ToDump(back.pcap);"
        ));
    }
    stay_in_order(&format!(
        "Strip(14) -> CheckIPHeader -> DecIPTTL -> UDPIPEncap(9.9.9.9, 1, 8.8.8.8, 2) -> {OUT};"
    ));
}

/// Sends packets by two paths that do not meet again. Each output must keep the order of its own packets.
#[test]
fn packets_that_part_and_meet_again_stay_in_order() {
    stay_in_order(&format!(
        "CheckIPHeader(14) -> c :: IPClassifier(tcp, -); c[0] -> Paint(1) -> SetIPDSCP(1) -> ToDump(a.pcap);
         c[1] -> Paint(2) -> DecIPTTL -> {OUT};"
    ));
}
