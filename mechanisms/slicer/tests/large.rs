//! Tests of large segments: Slice parks each as one, and what leaves Splice equals what leaves if all are
//! cut before they are sliced.

mod around;
mod frames;
mod trick;

use std::path::Path;

use around::KNOWN;
use element::{Class, Timestamp};
use frames::{L3, around as around_function, assert_same, datagram, segment, six};
use packet::Annotations;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::offloads::{EXIT, PARTIAL, take_sent};
use testkit::{TestRun, found};
use wire::LinkType;
use wire::checksum::fill_ipv4;
use wire::tcp::flags::{ACK, FIN, PSH, SYN};

static CLASSES: &[&Class] = &[&EXIT, &PARTIAL, trick::CLASSES[0]];

/// Network functions that treat all segments of a large segment alike.
const FUNCTIONS: &[&str] = &[
    "Null",
    "EtherMirror",
    "VLANEncap(VLAN_ID 7)",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> DecIPTTL -> j :: Null; c [1] -> j",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> i :: IPClassifier(tcp, -)
        -> IPRewriter(pattern 9.8.7.6 1024-65535 - - 0 0) -> j :: Null; i [1] -> j; c [1] -> j",
    "c :: Classifier(12/0800, -) -> MarkIPHeader(14) -> IPFilter(deny src port 2003, allow all) -> j :: Null;
     c [1] -> j",
];

/// Returns frames of many kinds and lengths: segments of up to 40 kB among short ones and datagrams.
fn mixed() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 16, 17, 100, 458, 459, 999, 1000, 1001, 1400, 2000, 2001, 9000, 16_016, 40_000];
    let all = lengths.iter().enumerate().flat_map(|(number, &length)| {
        let flags = [ACK, ACK | PSH, ACK | FIN, ACK | SYN][number % 4];
        [
            segment(number, length, 3, flags),
            datagram(number, length.min(1400), 3),
            segment(number, length, 0, ACK),
            six(number, length),
        ]
    });
    all.collect()
}

/// Sends frames through a chain to an interface that takes large segments. `head` is the statements ahead of
/// the chain. Returns the frames that leave, as they are on the wire, and the values of handlers.
fn sent(frames: &[Vec<u8>], head: &str, chain: &str, handlers: &[&str]) -> (Vec<Vec<u8>>, Vec<u64>) {
    let number = offer(vec![packets(frames)]);
    let values = run(&format!("{head} TestSource({number}, 0) -> {chain} -> Exit({number})"), handlers);
    (take_sent(number), values)
}

/// Sends frames through a chain to an element that takes no large segments.
fn seen(frames: &[Vec<u8>], head: &str, chain: &str, handlers: &[&str]) -> (Vec<Vec<u8>>, Vec<u64>) {
    let number = offer(vec![packets(frames)]);
    let values =
        run(&format!("{head} TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)"), handlers);
    let bytes = |seen: Seen| {
        assert_eq!(seen.annotations[Annotations::EXTRA_LENGTH..][..4], [0; 4], "{chain}");
        seen.bytes
    };
    (collect(number).into_iter().map(bytes).collect(), values)
}

fn packets(frames: &[Vec<u8>]) -> Vec<TestPacket> {
    let packet = |(number, bytes): (usize, &Vec<u8>)| TestPacket {
        bytes: bytes.clone(),
        time: Timestamp(1_000_000_000 + number as i64 * 100_000),
        annotations: [0; 48],
        headers: [None; 3],
    };
    frames.iter().enumerate().map(packet).collect()
}

fn run(text: &str, handlers: &[&str]) -> Vec<u64> {
    let outcome = TestRun::trace().with(CLASSES).text(text, handlers);
    let outcome = outcome.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(outcome.report.balances(), "{text}: {:?}", outcome.report);
    outcome.values.into_iter().map(|value| value.unwrap().parse().unwrap()).collect()
}

const HANDLERS: [&str; 4] = ["t.sliced", "t.large", "t.spliced", "t.occupied"];

#[test]
fn large_segments_are_sliced_as_one() {
    let frames = mixed();
    for (number, function) in FUNCTIONS.iter().enumerate() {
        let (head, chain) = around_function("Partial(1000) -> Segment -> ", function, "");
        let (expected, _) = sent(&frames, &head, &chain, &[]);
        let ways =
            [("", "", true), ("MARKER none", "THRESHOLD 100", true), ("ENTRIES 8, TTL 1000", "", false)];
        for (table, slice, fits) in ways {
            let name = format!("{number} {table} {slice}");
            let head = format!("t :: PayloadTable({table});");
            let (more, chain) = around_function(
                &format!("Partial(1000) -> Slice(t, {slice}) -> "),
                function,
                " -> Splice(t)",
            );
            let (left, values) = sent(&frames, &format!("{head} {more}"), &chain, &HANDLERS);
            assert_same(&name, &left, &expected);
            let [sliced, large, spliced, occupied] = values[..] else { panic!() };
            assert!(large > 0 && (large >= 15) == fits && (occupied > 0) != fits, "{name}: {values:?}");
            assert!(spliced <= sliced && spliced + 9 > sliced, "{name}: {values:?}");
            // If no large segments may leave, they are cut downstream of the network function.
            let (left, again) = seen(&frames, &format!("{head} {more}"), &chain, &HANDLERS);
            assert_same(&name, &left, &expected);
            assert_eq!(again, values, "{name}");
        }
    }
}

#[test]
fn partial_slicing_takes_no_large_segments() {
    let frames = mixed();
    let (expected, _) = seen(&frames, "", "Partial(1000) -> Segment", &[]);
    for slice in ["BYTES 200", "FRACTION 0.4"] {
        let chain = format!("Partial(1000) -> Segment -> Slice(t, {slice}) -> Splice(t)");
        let (left, values) = sent(&frames, "t :: PayloadTable;", &chain, &HANDLERS);
        assert_same(slice, &left, &expected);
        assert!(values[0] > 100 && values[1] == 0, "{values:?}");
    }
}

#[test]
fn function_sees_one_valid_packet() {
    let head = "t :: PayloadTable; s :: Tee; s [1] -> Splice(t) -> Discard;";
    let chain = "Partial(1000) -> Slice(t) -> s";
    let (crossed, values) = sent(&[segment(1, 40_000, 0, ACK)], head, chain, &HANDLERS[..2]);
    assert_eq!((values, crossed.len(), crossed[0].len()), (vec![1, 1], 1, L3 + 40 + 16));
    assert_eq!(testkit::offloads::is_right(&crossed[0]), Some(true));
}

#[test]
fn function_may_leave_work_to_devices() {
    let frames = mixed();
    let (expected, _) = sent(&frames, "", "Partial(1000) -> Segment", &[]);
    // The function leaves the checksums of its packets to a device.
    let chain = "Partial(1000) -> Slice(t) -> Partial(1000) -> Splice(t)";
    let (left, values) = sent(&frames, "t :: PayloadTable;", chain, &HANDLERS);
    assert_same("partial", &left, &expected);
    assert!(values[1] >= 15 && values[0] == values[2], "{values:?}");
}

#[test]
fn each_packet_that_crosses_counts_once() {
    let frames: Vec<_> = mixed().into_iter().cycle().take(1000).collect();
    let kinds = ["sliced", "small", "long", "unsuitable", "occupied", "no_buffer"];
    let mut handlers: Vec<String> = kinds.iter().map(|kind| format!("t.{kind}")).collect();
    handlers.extend(["t.large".into(), "crossed.count".into()]);
    let handlers: Vec<&str> = handlers.iter().map(String::as_str).collect();
    for table in ["", "ENTRIES 8, TTL 1000", "ENTRIES 1"] {
        let chain = "Partial(1000) -> Slice(t, LONGEST 1200) -> crossed :: Counter -> Splice(t)";
        let (_, values) = seen(&frames, &format!("t :: PayloadTable({table});"), chain, &handlers);
        assert_eq!(values[..6].iter().sum::<u64>(), values[7], "{table}: {values:?}");
        assert!(values[6] > 0, "{table}: {values:?}");
    }
}

#[test]
fn elements_between_have_to_treat_all_packets_of_a_segment_alike() {
    let frames: Vec<_> = (0..40).map(|number| segment(number, 9000, 0, ACK | PSH)).collect();
    for function in [
        "MarkIPHeader(14) -> SrTCM(20KBps, 4000, 4000)",
        "MarkIPHeader(14) -> IPFilter(deny tcp opt psh, allow all)",
        "c :: BandwidthMeter(50KBps) -> j :: Null; c [1] -> Discard",
    ] {
        let (head, chain) = around_function("Partial(1000) -> Segment -> ", function, "");
        let number = offer(vec![packets(&frames)]);
        run(&format!("{head} TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)"), &[]);
        let expected: Vec<_> =
            collect(number).into_iter().map(|seen| (seen.bytes, seen.annotations)).collect();
        let (head, chain) = around_function("Partial(1000) -> Slice(t) -> ", function, " -> Splice(t)");
        let number = offer(vec![packets(&frames)]);
        let text =
            format!("t :: PayloadTable; {head} TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)");
        let values = run(&text, &HANDLERS[..2]);
        let left: Vec<_> = collect(number).into_iter().map(|seen| (seen.bytes, seen.annotations)).collect();
        assert!(left == expected && values[0] > 100 && values[1] == 0, "{function}: {values:?}");
    }
}

#[test]
fn functions_that_break_headers_do_no_harm() {
    // The length field of the TCP header is made too small.
    let frames: Vec<_> = (0..9).map(|number| segment(number, 9000, 0, ACK)).collect();
    for value in [0x00, 0x40, 0xf0] {
        let place = (L3 + 32) << 8 | value;
        let chain = format!("Partial(1000) -> Slice(t) -> Trick(change, {place}) -> Splice(t)");
        sent(&frames, "t :: PayloadTable;", &chain, &[]);
        seen(&frames, "t :: PayloadTable;", &chain, &[]);
    }
}

#[test]
fn slicer_takes_large_segments_on_both_sides() {
    let frames = mixed();
    let (expected, _) = sent(&frames, "", "Partial(1000) -> Segment", &[]);
    let number = offer(vec![packets(&frames)]);
    let text = format!(
        "TestSource({number}, 0) -> Partial(1000) -> t :: Slicer; t [1] -> Partial(1000) -> [1] t; t -> Exit({number})"
    );
    let values = run(&text, &HANDLERS);
    assert_same("Slicer", &take_sent(number), &expected);
    assert!(values[1] >= 15, "{values:?}");
}

#[test]
fn mtu_counts_for_the_segments_on_the_wire() {
    let frames: Vec<_> = (0..9).map(|number| segment(number, 9000, 0, ACK)).collect();
    for (mtu, fits) in [(1040, true), (1039, false)] {
        let number = offer(vec![packets(&frames)]);
        let text = format!(
            "t :: PayloadTable; s :: Splice(t, MTU {mtu}); Idle -> long :: Exit({});
             TestSource({number}, 0) -> Partial(1000) -> Slice(t) -> s -> Exit({number}); s [1] -> long",
            number + 1_000_000
        );
        let values = run(&text, &HANDLERS[..2]);
        assert_eq!(values, [9, 9], "{mtu}");
        let (short, long) = (take_sent(number).len(), take_sent(number + 1_000_000).len());
        assert_eq!((short, long), if fits { (81, 0) } else { (0, 81) }, "{mtu}");
    }
    // LONGEST counts likewise: segments that are too long for the function's network pass whole.
    for (longest, large) in [(1040, 9), (1039, 0)] {
        let chain = format!("Partial(1000) -> Slice(t, LONGEST {longest}) -> Splice(t)");
        let (left, values) = sent(&frames, "t :: PayloadTable;", &chain, &HANDLERS);
        assert_eq!((left.len(), values[1]), (81, large));
    }
}

/// Sets the identification of the outer IPv4 headers to 0, because each copy of a tunnel has its own.
fn without_id(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let mut places = Vec::new();
    let mut walk = slicer::tunnel::Walk::frame(&frame, frame.len(), LinkType::Ethernet).unwrap();
    while let Some(place) = walk.next_ip() {
        places.push(place);
    }
    places.pop();
    places.retain(|&place| frame[place] >> 4 == 4);
    for place in places {
        frame[place + 4..place + 6].fill(0);
        fill_ipv4(&mut frame[place..place + 20]).unwrap();
    }
    frame
}

#[test]
fn each_segment_gets_a_tunnel_of_its_own() {
    let frames = mixed();
    let many: Vec<_> = frames.iter().cycle().take(20 * frames.len()).cloned().collect();
    for (number, (name, _)) in KNOWN.iter().enumerate() {
        // A VLAN tag is no tunnel. The length field of 802.3 also counts what the slicer does not see.
        if matches!(*name, "a tag" | "802.3") {
            continue;
        }
        let chain = format!("Partial(1000) -> Segment -> Trick(wrap, {number})");
        let (expected, _) = seen(&frames, "", &chain, &[]);
        let chain = format!("Partial(1000) -> Slice(t) -> Trick(wrap, {number}) -> Splice(t)");
        let handlers = ["t.large", "t.tunnelled", "t.hidden", "t.missing"];
        let (left, values) = seen(&frames, "t :: PayloadTable;", &chain, &handlers);
        let [large, tunnelled, hidden, missing] = values[..] else { panic!() };
        let anonymous = |frames: &[Vec<u8>]| frames.iter().map(|frame| without_id(frame)).collect::<Vec<_>>();
        assert_same(name, &anonymous(&left), &anonymous(&expected));
        assert!(large >= 15 && tunnelled > large && (hidden, missing) == (0, 0), "{name}: {values:?}");
        // Once the slicer has seen a tunnel, large segments are cut first.
        let (_, values) = seen(&many, "t :: PayloadTable;", &chain, &handlers);
        assert!(values[0] < 10 * large && (values[2], values[3]) == (0, 0), "{name}: {values:?}");
    }
}

#[test]
fn errors_quote_the_first_segment() {
    let frames: Vec<_> = (0..5).map(|number| segment(number, 9000, 0, ACK)).collect();
    let (expected, _) = seen(&frames, "", "Partial(1000) -> Segment -> Trick(error)", &[]);
    let chain = "Partial(1000) -> Slice(t) -> Trick(error) -> Splice(t)";
    let (left, values) = seen(&frames, "t :: PayloadTable;", chain, &["t.large", "t.quoted", "t.waiting"]);
    assert_eq!(values, [5, 5, 0]);
    assert_eq!(left.len(), 5);
    let quoted = L3 + 20 + 8;
    for (left, expected) in left.iter().zip(expected.chunks(9).map(|segments| &segments[0])) {
        // The checksum of the quoted segment is that of the large one, which the sender has not finished.
        let checksum = quoted + 20 + 16..quoted + 20 + 18;
        let without = |frame: &Vec<u8>| [&frame[quoted..checksum.start], &frame[checksum.end..]].concat();
        assert_eq!(without(left), without(expected));
    }
}

#[test]
fn merged_captures_leave_as_they_came() {
    let Some(folder) = found::path("traces") else { return };
    let (mut captures, mut large) = (0, 0);
    for file in found::files(&folder).into_iter().filter(|file| !file.iter().any(|part| part == "odd")) {
        for function in &FUNCTIONS[..4] {
            let (head, chain) = around_function("", function, "");
            let chain = format!("Segment -> {chain}");
            let Some((expected, _)) = merged(&file, &head, &chain, &[]) else { break };
            let (more, chain) = around_function("Slice(t) -> ", function, " -> Splice(t)");
            let head = format!("t :: PayloadTable; {more}");
            let (left, values) = merged(&file, &head, &chain, &["t.large", "t.missing"]).unwrap();
            assert_same(&format!("{} {function}", file.display()), &left, &expected);
            large += values[0];
            captures += 1;
        }
    }
    assert!(captures > 20 && large > 500, "{captures} {large}");
}

/// Merges the segments of a capture and sends them through a chain, and cuts them again. Returns the frames
/// that leave and the values of handlers; `None` if the capture cannot be read.
fn merged(capture: &Path, head: &str, chain: &str, handlers: &[&str]) -> Option<(Vec<Vec<u8>>, Vec<u64>)> {
    let number = offer(Vec::new());
    let text = format!(
        "{head} FromDump(\"{}\") -> Juggler(INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s, CHECKSUM true) -> {chain} -> Segment
            -> TestSink({number}, 0)",
        capture.display()
    );
    let outcome = TestRun::trace().text(&text, handlers).ok()?;
    assert!(outcome.report.balances(), "{text}");
    let frames = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
    Some((frames, outcome.values.into_iter().map(|value| value.unwrap().parse().unwrap()).collect()))
}
