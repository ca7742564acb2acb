//! Tests the conditions of merging, and the downstream elements for which Juggler merges segments or must
//! not.

use element::Timestamp;
use testkit::TestRun;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::timed::{frame, tcp, through, through_while, udp};
use wire::build::Builder;
use wire::tcp::flags::{ACK, PSH, RST};

type Timed = Vec<(i64, Vec<u8>)>;

fn segment(number: u32) -> Builder {
    tcp(1, ACK, 1000 + 100 * number, 1).id(number as u16)
}

/// Returns four segments that form one large segment, all at the same time.
fn four() -> Timed {
    (0..4).map(|number| (0, frame(segment(number), &[number as u8; 100]))).collect()
}

fn bytes(packets: &Timed) -> Vec<Vec<u8>> {
    let mut bytes: Vec<_> = packets.iter().map(|(_, bytes)| bytes.clone()).collect();
    bytes.sort();
    bytes
}

#[test]
fn flows_that_are_not_to_be_merged_are_not() {
    let mut damaged = frame(segment(3), &[3; 100]);
    *damaged.last_mut().unwrap() ^= 1;
    let input = vec![
        (0, frame(tcp(1, ACK | PSH, 1000, 1), &[0; 100])),
        (100_000, frame(segment(2), &[2; 70])),
        (101_000, damaged),
        (102_000, frame(tcp(1, ACK | RST, 1400, 1), &[])),
        (103_000, frame(segment(1), &[1; 100])),
        (104_000, udp(9, 9)),
    ];
    let (_, output) = through("Juggler(NO_MERGE tcp, INSEQ_TIMEOUT 1ms) -> Segment", &input, &[]);
    assert_eq!(bytes(&output), bytes(&input));
}

#[test]
fn what_stands_behind_decides_whether_segments_are_merged() {
    // For each element downstream: either it handles large segments as it would handle the single segments,
    // or Juggler must not merge. `merged` returns whether Juggler merged, and the packets that left.
    let merged = |behind: &str| {
        let number = offer(Vec::new());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("in.pcap");
        testkit::timed::write_capture(&file, &four());
        let text = format!(
            "FromDump(\"{}\") -> Strip(0) -> MarkIPHeader(14) -> e :: Juggler -> {behind} -> TestSink({number}, 0)",
            file.display()
        );
        let outcome = TestRun::trace().text(&text, &["e.merged"]).unwrap_or_else(|error| panic!("{error}"));
        let seen: Vec<Vec<u8>> = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
        (outcome.values[0].clone().unwrap() == "4.000", seen)
    };
    let all: Vec<Vec<u8>> = four().into_iter().map(|(_, bytes)| bytes).collect();
    for (behind, is_merged) in [
        ("Segment", true),
        ("Counter -> Queue -> Unqueue -> Segment", true),
        ("CheckIPHeader(14) -> IPFilter(allow tcp dst port 80, deny all) -> Segment", true),
        ("DecIPTTL -> Segment", true),
        ("IPFilter(allow tcp opt psh, deny all) -> Segment", false),
        ("IPFilter(allow tcp opt fin, deny all) -> Segment", false),
        ("Classifier(54/02) -> Segment", false),
        ("Classifier(38/0000044c) -> Segment", false),
        ("Classifier(16/008c) -> Segment", false),
        ("Strip(14) -> Classifier(2/008c) -> Segment", false),
        ("StoreData(60, aaaa) -> Segment", false),
        ("IPPrint(a) -> Segment", false),
        ("IPFragmenter(1500) -> Segment", false),
        ("Null", false),
    ] {
        let (was, seen) = merged(behind);
        assert_eq!(was, is_merged, "{behind}");
        if is_merged && !behind.contains("DecIPTTL") {
            assert_eq!(seen, all, "{behind}");
        }
    }
    // Elements that translate addresses keep the checksums of large segments correct.
    let (was, seen) = merged("IPRewriter(pattern 1.2.3.4 - - - 0 0) -> Segment");
    assert!(was && seen.len() == 4);
    for bytes in seen {
        assert!(
            wire::checksum::tcp_packet_valid(&bytes[14..], 20) && wire::checksum::ipv4_valid(&bytes[14..34])
        );
    }
}

#[test]
fn the_link_header_may_be_taken_off_or_not_be_there() {
    for chain in [
        "Juggler -> Strip(14) -> Segment -> Unstrip(14)",
        "Juggler -> Strip(14) -> MarkIPHeader(0) -> Segment -> Unstrip(14)",
    ] {
        let (_, output) = through(chain, &four(), &[]);
        assert_eq!(output.len(), 4, "{chain}");
    }
    let (outcome, output) =
        through("Strip(14) -> j :: Juggler -> Segment -> Unstrip(14)", &four(), &["j.merged"]);
    assert_eq!((bytes(&output), outcome.values[0].as_deref()), (bytes(&four()), Ok("0.000")));
    let chain = "Strip(14) -> MarkIPHeader(0) -> j :: Juggler -> Segment -> Unstrip(14)";
    let mut input = four();
    input.push((1_000_000, udp(9, 9)));
    let (outcome, output) = through(chain, &input, &["j.merged"]);
    assert_eq!(output.len(), 5);
    assert_eq!(outcome.values[0].as_deref(), Ok("4.000"));
}

#[test]
fn what_lies_in_a_tunnel_is_put_in_order_and_not_merged() {
    let end = |port| ([10, 0, 0, 1], port).into();
    let inside = |number: u32| {
        let outer = Builder::udp(end(4000), end(4789)).id(7);
        (0, frame(outer, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &four()[number as usize].1].concat()))
    };
    let input: Timed = (0..4).map(inside).collect();
    let (outcome, output) =
        through("MarkIPHeader(64) -> j :: Juggler -> Segment", &input, &["j.segments_in", "j.merged"]);
    assert_eq!(bytes(&output), bytes(&input));
    assert_eq!(outcome.values, [Ok("4".into()), Ok("1.000".into())]);
}

#[test]
fn annotations_that_somebody_reads_are_kept_apart() {
    let input = |number: usize, bytes: Vec<u8>| {
        let mut annotations = [0; 48];
        annotations[16] = (number / 2) as u8;
        TestPacket { bytes, time: Timestamp::ZERO, annotations, headers: [Some(0), Some(14), Some(34)] }
    };
    let inputs = four().into_iter().enumerate().map(|(number, (_, bytes))| input(number, bytes)).collect();
    let number = offer(vec![inputs]);
    let text = format!(
        "TestSource({number}, 0) -> Juggler -> s :: PaintSwitch; s[0] -> Segment -> TestSink({number}, 0); \
         s[1] -> Segment -> TestSink({number}, 1)"
    );
    TestRun::default().text(&text, &[]).unwrap();
    let sinks: Vec<usize> = collect(number).into_iter().map(|seen| seen.sink).collect();
    assert_eq!(sinks, [0, 0, 1, 1]);
}

#[test]
fn replayed_packets_are_what_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.pcap");
    testkit::timed::write_capture(&file, &four());
    for chain in ["Juggler(FLOWS 8) -> Segment", "Segment -> Juggler(FLOWS 8) -> Segment", "Juggler(FLOWS 8)"]
    {
        let number = offer(Vec::new());
        let text = format!(
            "FromDump(\"{}\") -> ReplayUnqueue(STOP 20) -> {chain} -> TestSink({number}, 0)",
            file.display()
        );
        TestRun::default().text(&text, &[]).unwrap();
        let seen = collect(number);
        assert_eq!(seen.len(), 80);
        let known = bytes(&four());
        assert!(seen.iter().all(|seen| known.contains(&seen.bytes)), "{chain}");
    }
}

#[test]
fn a_connection_is_known_from_the_segment_that_opens_it() {
    let mut input = vec![(0, frame(tcp(1, 2, 999, 0), &[]))];
    for (place, number) in [1, 0, 2].into_iter().enumerate() {
        input.push((1_000_000 + place as i64 * 10_000, frame(segment(number), &[number as u8; 100])));
    }
    input.push((2_000_000, udp(9, 9)));
    for arguments in ["MERGE false", "NO_MERGE tcp", "INSEQ_TIMEOUT 5us"] {
        let (outcome, _) = through(
            &format!("Juggler({arguments}) -> Segment"),
            &input,
            &["e.reordered_in", "e.reordered_out"],
        );
        assert_eq!(outcome.values, [Ok("1".into()), Ok("0".into())], "{arguments}");
    }
}

#[test]
fn handlers_act_on_what_waits_already() {
    let gap = vec![
        (0, frame(segment(0), &[0; 100])),
        (1_000_000, frame(segment(2), &[2; 100])),
        (1_000_000_000, udp(9, 9)),
    ];
    let script = "wait 10ms, write e.ofo_timeout 50, write e.reset, wait 100ms";
    let handlers = ["e.held", "e.merged", "e.ofo_timeout", "e.loss_recovery"];
    let (outcome, _) = through_while("Juggler(OFO_TIMEOUT 1000s) -> Segment", &gap, script, &handlers);
    let values: Vec<_> = outcome.values.into_iter().map(Result::unwrap).collect();
    assert_eq!((&values[0][..], &values[2][..], &values[3][..]), ("0", "50us", "1"), "{values:?}");
    // Counts can be reset while packets are held.
    let script = "wait 1500us, write e.reset, read e.merged";
    through_while("Juggler(OFO_TIMEOUT 100ms) -> Segment", &gap, script, &["e.merged"]);
}

/// Returns ten bursts of `frames` full frames with `data` bytes each, at a line rate in Gb/s. The last
/// frame of each burst has PSH, and a pause of `pause` microseconds follows each burst.
fn bursts(frames: u32, data: u32, gigabits: i64, pause: i64) -> Timed {
    let options: Vec<u8> = if data < 1460 { vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 1] } else { Vec::new() };
    let segment = |number: u32| {
        let flags = if number % frames == frames - 1 { ACK | PSH } else { ACK };
        let builder = tcp(1, flags, number * data, 1).id(number as u16).options(&options);
        // A full frame of 1514 bytes takes 24 more byte times on the line, 1538 in all.
        let time = i64::from(number) * 1538 * 8 / gigabits + i64::from(number / frames) * pause * 1000;
        (time, frame(builder, &vec![number as u8; data as usize]))
    };
    (0..10 * frames).map(segment).collect()
}

#[test]
fn whole_bursts_become_one_segment_each() {
    for (gigabits, frames, data) in [(10, 44, 1460), (40, 44, 1460), (100, 44, 1460), (10, 45, 1448)] {
        for pause in [0, 20, 60, 1000] {
            let input = bursts(frames, data, gigabits, pause);
            let element = format!("Juggler(LINE_RATE {gigabits}Gbps) -> Segment");
            let (outcome, output) = through(&element, &input, &["e.merged", "e.sizes"]);
            let values: Vec<_> = outcome.values.into_iter().map(Result::unwrap).collect();
            assert_eq!(values[0], format!("{frames}.000"), "{gigabits} Gb/s, {pause} us: {}", values[1]);
            assert_eq!(bytes(&output), bytes(&input));
        }
    }
}

/// Sends segment 0, and after a millisecond the segments of `order`, a microsecond apart. Asserts that all
/// of them leave. Returns the packets in order of leaving, and the values of handlers.
fn in_this_order(
    arguments: &str,
    order: &[u32],
    frame_of: impl Fn(u32) -> Vec<u8>,
) -> (Vec<Vec<u8>>, Vec<String>) {
    let mut input = vec![(0, frame_of(0))];
    input.extend(order.iter().enumerate().map(|(at, &n)| (1_000_000 + at as i64 * 1000, frame_of(n))));
    input.push((1_000_000_000, udp(9, 9)));
    let handlers = ["e.passed", "e.damaged", "e.sizes"];
    let (outcome, mut output) = through(&format!("Juggler({arguments}) -> Segment"), &input, &handlers);
    assert_eq!(bytes(&output), bytes(&input));
    output.pop();
    let left = output.into_iter().map(|(_, bytes)| bytes).collect();
    (left, outcome.values.into_iter().map(Result::unwrap).collect())
}

const ORDER: [u32; 6] = [2, 1, 4, 3, 6, 5];

#[test]
fn constant_identifications_are_merged_where_they_mean_nothing() {
    let with = |id: u16, fragment: u16| {
        move |number: u32| {
            frame(tcp(1, ACK, 1000 + 100 * number, 1).id(id).fragment(fragment), &[number as u8; 100])
        }
    };
    for id in [0, 7] {
        for (arguments, fragment, sizes) in [
            ("CONSTANT_ID true", 0x4000, ">=1 1\n>=4 1\n"),
            ("CONSTANT_ID true, CHECKSUM false", 0x4000, ">=1 1\n>=4 1\n"),
            ("", 0x4000, ">=1 7\n"),
            ("CONSTANT_ID true", 0, ">=1 7\n"),
        ] {
            let (left, values) = in_this_order(arguments, &ORDER, with(id, fragment));
            assert_eq!(left, (0..7).map(with(id, fragment)).collect::<Vec<_>>(), "{arguments}");
            assert_eq!(values[2], sizes, "{arguments}");
        }
    }
    // Segments whose identifications count up are merged as usual, but never with segments of constant
    // identification.
    let frame_of = |number: u32| {
        let id = [0, 7, 7, 7, 8, 9, 9][number as usize];
        with(id, 0x4000)(number)
    };
    let (left, values) = in_this_order("CONSTANT_ID true", &ORDER, frame_of);
    assert_eq!(left, (0..7).map(frame_of).collect::<Vec<_>>());
    assert!(!values[2].contains(">=4"), "{}", values[2]);
}

/// Returns an IPv6 segment with extension headers of the types `kinds` and `tags` VLAN tags. `left` is the
/// number of segments left in a routing header, or the low byte of offset and flags in a fragment header.
fn extended(number: u32, kinds: &[u8], tags: usize, left: u8) -> Vec<u8> {
    let end = |host| ([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], 80).into();
    let builder = Builder::tcp(end(1), end(2), ACK).sequence(1000 + 100 * number, 1);
    let mut bytes = frame((0..tags).fold(builder, |builder, _| builder.vlan(7)), &[number as u8; 100]);
    let l3 = 14 + 4 * tags;
    for &kind in kinds.iter().rev() {
        let next = std::mem::replace(&mut bytes[l3 + 6], kind);
        let header = match kind {
            43 => [next, 0, 4, left, 0, 0, 0, 0],
            44 => [next, 0, 0, left, 0, 0, 0, 9],
            _ => [next, 0, 1, 4, 0, 0, 0, 0],
        };
        bytes.splice(l3 + 40..l3 + 40, header);
    }
    let length = (bytes.len() - l3 - 40) as u16;
    bytes[l3 + 4..l3 + 6].copy_from_slice(&length.to_be_bytes());
    bytes
}

#[test]
fn extension_headers_do_not_hide_order() {
    const ALL: &str = ">=1 1\n>=4 1\n";
    const NONE: &str = ">=1 7\n";
    for (kinds, tags, sizes) in [
        (&[][..], 0, ALL),
        (&[0], 0, ALL),
        (&[43], 0, ALL),
        // With these extension headers and VLAN tags, the headers end beyond `key::WRITTEN`, the bytes that
        // merging may change, so the segments are not merged.
        (&[0], 1, NONE),
        (&[0, 43], 0, NONE),
        // Destination options may contain a home address, which would be part of the checksum.
        (&[60], 0, NONE),
        // A fragment header that holds the whole packet (offset 0), and a long chain of headers, are parsed
        // but not merged.
        (&[44], 0, NONE),
        (&[60; 16], 0, NONE),
        (&[0, 60, 43, 60, 60, 60], 0, NONE),
    ] {
        let frame_of = |number| extended(number, kinds, tags, 0);
        for arguments in ["", "MERGE false", "CHECKSUM false"] {
            let (left, values) = in_this_order(arguments, &ORDER, frame_of);
            assert_eq!(left, (0..7).map(frame_of).collect::<Vec<_>>(), "{kinds:?} {arguments}");
            let sizes = if arguments == "MERGE false" { NONE } else { sizes };
            assert_eq!((&values[0][..], &values[1][..], &values[2][..]), ("1", "0", sizes), "{kinds:?}");
        }
    }
    // Fragments, authenticated packets, unfinished routes, and packets with more headers than are parsed
    // are not recognized as segments, and pass.
    for (kinds, left) in [(&[44][..], 1), (&[51], 0), (&[43], 1), (&[60; 17], 0)] {
        let frame_of = |number| extended(number, kinds, 0, left);
        let (left, values) = in_this_order("", &ORDER, frame_of);
        assert_eq!((left[1] == frame_of(2), &values[0][..]), (true, "8"), "{kinds:?}");
    }
}
