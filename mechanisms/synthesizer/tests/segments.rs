//! Tests large segments upstream of programs. A Juggler must merge segments exactly if the elements that
//! the program replaces accept large segments.

mod common;

use std::net::SocketAddr;

use common::as_it_is_and_composed;
use element::Timestamp;
use testkit::elements::TestPacket;
use wire::build::Builder;
use wire::ethernet::MacAddr;
use wire::tcp::flags::ACK;

/// Returns eight consecutive TCP segments of one connection.
fn segments() -> Vec<TestPacket> {
    let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let [from, to]: [SocketAddr; 2] = ["10.0.0.1:1234", "192.0.2.7:80"].map(|end| end.parse().unwrap());
    let segment = |number: u32| {
        let builder = Builder::tcp(from, to, ACK).sequence(1000 * number, 1);
        builder.id(number as u16).ethernet(a, b).build(&[7; 1000]).unwrap()
    };
    let input = |number| TestPacket {
        bytes: segment(number),
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    };
    (1..=8).map(input).collect()
}

/// Returns the number of packets that leave some elements with a Juggler upstream: as they are, and as a
/// program.
fn counts(elements: &str) -> [u64; 2] {
    values(elements, "c.count").map(|count| count.trim().parse().unwrap())
}

/// Returns the value of a handler of some elements with a Juggler `j` upstream: as they are, and replaced by
/// a synthesized program.
fn values(elements: &str, handler: &str) -> [String; 2] {
    let text = format!("FromDump(in.pcap) -> j :: Juggler -> {elements} -> c :: Counter -> Discard;");
    as_it_is_and_composed(&text, &segments(), &[handler]).map(|outcome| outcome.values[0].clone().unwrap())
}

#[test]
fn segments_are_merged_in_front_of_programs_as_in_front_of_elements() {
    assert_eq!(counts("CheckIPHeader(14) -> DecIPTTL -> IPFilter(allow tcp, deny all)"), [1, 1]);
    assert_eq!(counts("Strip(14) -> CheckIPHeader(0) -> SetIPDSCP(3)"), [1, 1]);
    // CheckLength distinguishes packets by their length, so segments must not be merged.
    assert_eq!(counts("CheckIPHeader(14) -> CheckLength(1500)"), [8, 8]);
}

#[test]
fn segments_are_merged_in_front_of_what_cuts_them() {
    let [plain, composed] = values("Segment -> CheckIPHeader(14) -> DecIPTTL", "j.merged");
    assert!(!plain.trim().is_empty() && plain.trim() != "0", "{plain}");
    assert_eq!(composed, plain);
}
