//! Room in front of packets and bytes in their first slot: an element that lacks one of them drops the packet, also where the packet
//! would end in the program, or get back the length that it had.

mod common;

use std::collections::BTreeMap;

use common::read;
use element::Timestamp;
use lang::flatten;
use packet::SLOT_CAPACITY;
use testkit::Run;
use testkit::elements::{Input, offer};
use tidegate_synthesizer::compose::synthesize;
use tidegate_synthesizer::compose::walk::Limits;
use tidegate_synthesizer::insert::insert;

/// Counts of elements by name: packets that they have passed on, and drops by reason.
type Counts = BTreeMap<String, (u64, String)>;

/// The counts of some elements as they are, and as a program.
fn counts(elements: &str) -> [Counts; 2] {
    let chain = read(&format!("in :: FromDump(in.pcap) -> {elements};"));
    let limits = Limits { least: Some(1), ..Limits::default() };
    let synthesis = synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output]);
    assert!(!synthesis.stretches.is_empty(), "{elements}");
    [chain.graph.clone(), insert(&chain.graph, &chain.chain, &synthesis)].map(|mut graph| {
        let input = |length: usize| Input {
            bytes: (0..length).map(|place| place as u8).collect(),
            time: Timestamp::from_secs(1),
            annotations: [0; 48],
            headers: [Some(0), None, None],
        };
        let number = offer(vec![[60, 200, 2100, 5000].map(input).to_vec()]);
        let source = graph.elements.iter_mut().find(|element| element.name == "in").unwrap();
        (source.class, source.config) = ("TestSource".into(), format!("{number}, 0"));
        let outcome = Run::default().text(&flatten(&graph), &[]).unwrap();
        assert!(outcome.report.balances());
        let counted =
            outcome.report.elements.iter().filter(|element| chain.graph.find(&element.name).is_some());
        counted.map(|element| (element.name.clone(), (element.out, format!("{:?}", element.drops)))).collect()
    })
}

#[track_caller]
fn is_the_same(elements: &str) {
    let [before, after] = counts(elements);
    assert_eq!(after, before, "{elements}");
}

#[test]
fn headers_need_room_in_front() {
    let encap = "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)";
    for end in ["Discard", "Strip(14) -> Discard", "Counter -> Null -> Null -> Discard"] {
        for front in [242, 243, 256] {
            is_the_same(&format!("Unstrip({front}) -> e :: {encap} -> {end}"));
        }
        let [before, _] = counts(&format!("Unstrip(243) -> e :: {encap} -> {end}"));
        assert!(before["e"].1.contains("headroom"), "{before:?}");
    }
    is_the_same(&format!("Unstrip(229) -> {encap} -> {encap} -> Strip(20) -> Discard"));
    is_the_same(&format!("Unstrip(229) -> {encap} -> {encap} -> Strip(28) -> Unstrip(27) -> Discard"));
}

#[test]
fn bytes_are_taken_off_where_the_first_slot_has_them() {
    for first in [SLOT_CAPACITY - 100, SLOT_CAPACITY - 20, SLOT_CAPACITY - 1] {
        for then in [20, 100, 200] {
            is_the_same(&format!("Strip({first}) -> Strip({then}) -> Discard"));
            is_the_same(&format!("Strip({first}) -> Null -> Strip({then}) -> Null -> Null -> Discard"));
            is_the_same(&format!("Strip({first}) -> Strip({then}) -> Unstrip({then}) -> Discard"));
        }
    }
}
