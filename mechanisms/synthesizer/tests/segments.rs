//! Large segments in front of programs: whoever makes some does so where the elements of the program take them.

mod common;

use std::net::SocketAddr;

use common::read;
use element::Timestamp;
use lang::flatten;
use testkit::Run;
use testkit::elements::{Input, offer};
use tidegate_synthesizer::compose::synthesize;
use tidegate_synthesizer::compose::walk::Limits;
use tidegate_synthesizer::insert::insert;
use wire::build::Builder;
use wire::ethernet::MacAddr;
use wire::tcp::flags::ACK;

/// Segments of one connection, one behind the other.
fn segments() -> Vec<Input> {
    let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let [from, to]: [SocketAddr; 2] = ["10.0.0.1:1234", "192.0.2.7:80"].map(|end| end.parse().unwrap());
    let segment = |number: u32| {
        let builder = Builder::tcp(from, to, ACK).sequence(1000 * number, 1);
        builder.id(number as u16).ethernet(a, b).build(&[7; 1000]).unwrap()
    };
    let input = |number| Input {
        bytes: segment(number),
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    };
    (1..=8).map(input).collect()
}

/// How many packets come behind some elements that a juggler stands in front of: as they are, and as a program.
fn counts(elements: &str) -> [u64; 2] {
    let chain = read(&format!("FromDump(in.pcap) -> Juggler -> {elements} -> c :: Counter -> Discard;"));
    let limits = Limits { least: Some(1), ..Limits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.stretches.is_empty(), "{elements}");
    [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)].map(|mut graph| {
        let number = offer(vec![segments()]);
        let source = graph.elements.iter_mut().find(|element| element.class == "FromDump").unwrap();
        (source.class, source.config) = ("TestSource".into(), format!("{number}, 0"));
        let outcome = Run::default().text(&flatten(&graph), &["c.count"]).unwrap();
        outcome.values[0].as_ref().unwrap().trim().parse().unwrap()
    })
}

#[test]
fn segments_are_merged_in_front_of_programs_as_in_front_of_elements() {
    assert_eq!(counts("CheckIPHeader(14) -> DecIPTTL -> IPFilter(allow tcp, deny all)"), [1, 1]);
    assert_eq!(counts("Strip(14) -> CheckIPHeader(0) -> SetIPDSCP(3)"), [1, 1]);
    // It tells segments apart.
    assert_eq!(counts("CheckIPHeader(14) -> CheckLength(1500)"), [8, 8]);
}
