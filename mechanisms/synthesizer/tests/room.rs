//! Tests the limits of headroom and of the first slot. An element that lacks room drops the packet. With a
//! program the packet must be dropped at the same element, even if another element of the region would drop
//! it later anyway, or would make it as long as before.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::as_it_is_and_composed;
use element::Timestamp;
use packet::SLOT_CAPACITY;
use testkit::elements::TestPacket;

/// The counts of elements by name: the number of forwarded packets, and the drops by reason.
type Counts = BTreeMap<String, (u64, String)>;

/// Returns a packet of this length in bytes.
fn input(length: usize) -> TestPacket {
    TestPacket {
        bytes: (0..length).map(|place| place as u8).collect(),
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    }
}

/// Runs a chain on packets of several lengths. Returns the counts of its elements as it is, and with a
/// program.
fn counts(elements: &str) -> [Counts; 2] {
    let inputs = [60, 200, 2100, 5000].map(input);
    let [plain, composed] = as_it_is_and_composed(&format!("FromDump(in.pcap) -> {elements};"), &inputs, &[])
        .map(|outcome| outcome.report.elements);
    let named: BTreeSet<String> = plain.iter().map(|element| element.name.clone()).collect();
    [plain, composed].map(|elements| {
        let counted = elements.into_iter().filter(|element| named.contains(&element.name));
        counted.map(|element| (element.name, (element.out, format!("{:?}", element.drops)))).collect()
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

/// Elements prepend headers and move the end of packets, also to before their prepended headers. The byte
/// counts of the elements must be the same with a program.
#[test]
fn bytes_are_counted_where_the_end_is_moved() {
    for elements in [
        "VLANEncap(5) -> Truncate(0, EXTRA_LENGTH false) -> c :: AverageCounter -> Discard",
        "VLANEncap(5) -> Truncate(0, EXTRA_LENGTH false) -> c :: Counter -> Discard",
        "Strip(14) -> Truncate(4) -> Unstrip(14) -> c :: Counter -> Truncate(60) -> Strip(40) -> Discard",
        "Truncate(10) -> Unstrip(200) -> Truncate(0) -> c :: Counter -> Strip(0) -> Discard",
        "c :: Counter -> Unstrip(20) -> Truncate(0) -> Discard",
    ] {
        let text = format!("FromDump(in.pcap) -> {elements};");
        let inputs = [0, 20, 60, 2100].map(input);
        let outcomes = as_it_is_and_composed(&text, &inputs, &["c.byte_count"]);
        let [plain, composed] = outcomes.map(|outcome| outcome.values);
        assert!(plain[0].is_ok());
        assert_eq!(composed, plain, "{elements}");
    }
}

/// A long list of rules is one node of the program, and each rule's packets are counted at the element.
#[test]
fn packets_that_a_rule_of_a_list_drops_are_dropped_once() {
    let rules = |action: &str, count: u8| -> Vec<String> {
        (0..count)
            .map(|n| format!("{action} src 10.{n}.0.0/16 and udp dst port {}", 1000 + u16::from(n)))
            .collect()
    };
    let encap = "UDPIPEncap(10.7.0.1, 5, 20.0.0.1, 1007)";
    for (action, rest) in [("deny", "allow all"), ("allow", "deny all")] {
        for count in [5, 60] {
            let rules = rules(action, count).join(", ");
            for then in ["DecIPTTL -> Discard", "g :: IPFilter(deny udp, allow all) -> DecIPTTL -> Discard"] {
                is_the_same(&format!("{encap} -> f :: IPFilter({rules}, {rest}) -> {then}"));
                is_the_same(&format!("{encap} -> Null -> f :: IPFilter({rules}, {rest}) -> {then}"));
            }
            // Two lists of rules in one program: packets that the first list accepts may be dropped by the
            // second.
            is_the_same(&format!(
                "{encap} -> f :: IPFilter({rules}, {rest}) -> g :: IPFilter({rules}, deny all) -> DecIPTTL -> Discard"
            ));
        }
    }
}
