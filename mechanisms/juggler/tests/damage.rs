//! Tests segments that were damaged on their way: their checksums stay wrong wherever they leave, and others
//! stay right, whether or not they were verified and whatever is merged.

use std::path::Path;

use element::class::ArgInfo;
use element::effects::Support;
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid, Timestamp};
use packet::{Packet, VirtioNet};
use proptest::prelude::*;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::offloads::{EXIT, PARTIAL, is_right, record, take_sent};
use testkit::timed::{frame, tcp};
use testkit::{RunResults, TestRun, found};
use wire::offload::Segments;
use wire::tcp::flags::{ACK, PSH};
use wire::{LinkType, build::Builder};

static CLASSES: &[&Class] = &[&DAMAGE, &REPORT, &EXIT, &PARTIAL, &FLAGS, &LITTLE_ROOM];

fn number_of(args: &mut Args<'_>) -> Result<u64, Invalid> {
    let number: u32 = args.required("NUMBER");
    args.finish()?;
    Ok(number.into())
}

/// The class `Damage(SEED)` changes a byte of each tenth packet, on average. The same packets are damaged for
/// the same seed.
static DAMAGE: Class = Class {
    name: "Damage",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Damage(fastrand::Rng::with_seed(number_of(args)?)))),
    ..Class::DEFAULT
};

struct Damage(fastrand::Rng);

impl Element for Damage {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("it changes anything"), ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut().filter(|packet| !packet.is_empty()) {
            if self.0.u8(..10) == 0 {
                let at = self.0.usize(..packet.data().len());
                packet.data_mut()[at] ^= self.0.u8(1..);
            }
        }
    }
}

/// The class `Report(0)` sets the bit for verified checksums as an interface does that verifies them.
/// `Report(1)` sets it in all packets.
static REPORT: Class = Class {
    name: "Report",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Report { lies: number_of(args)? == 1 })),
    ..Class::DEFAULT
};

struct Report {
    lies: bool,
}

impl Element for Report {
    fn effects(&self) -> Effects {
        let support = Support { sets_checksum_bit: true, ..Support::default() };
        Effects { support, ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let is_right = self.lies || is_right(&bytes_of(packet)) == Some(true);
            packet.set_right_checksum(is_right);
        }
    }
}

fn bytes_of(packet: &Packet) -> Vec<u8> {
    packet.chunks().collect::<Vec<_>>().concat()
}

/// The class `Flags(NUMBER)` records the virtio flags of the packets that pass, under the number.
static FLAGS: Class = Class {
    name: "Flags",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Flags(number_of(args)?))),
    ..Class::DEFAULT
};

struct Flags(u64);

impl Element for Flags {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        record(self.0, batch.iter().map(|packet| vec![packet.annotations().virtio.flags]));
    }
}

/// The class `LittleRoom` moves every other packet in its slot, so that there are 16 bytes in front of it.
static LITTLE_ROOM: Class = Class {
    name: "LittleRoom",
    build: |args| {
        args.finish()?;
        Ok(Box::<LittleRoom>::default())
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct LittleRoom {
    count: u64,
}

impl Element for LittleRoom {
    fn effects(&self) -> Effects {
        Effects { opaque: Some("it moves packets"), ..Effects::pass() }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            self.count += 1;
            if self.count.is_multiple_of(2) {
                let bytes = bytes_of(packet);
                assert!(packet.unstrip(packet.headroom() - 16));
                packet.data_mut()[..bytes.len()].copy_from_slice(&bytes);
                packet.truncate(bytes.len());
            }
        }
    }
}

fn sorted(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.sort_unstable();
    frames
}

fn run(text: &str, handlers: &[&str]) -> RunResults {
    let outcome = TestRun::trace().with(CLASSES).text(text, handlers);
    let outcome = outcome.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(outcome.report.balances(), "{text}");
    outcome
}

/// Returns the packets that leave a chain, in which they end at a TestSink, and the values of handlers.
fn through(chain: &str, inputs: &[TestPacket], handlers: &[&str]) -> (Vec<Vec<u8>>, Vec<String>) {
    let number = offer(vec![inputs.to_vec()]);
    let text = format!("TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)");
    let values = run(&text, handlers).values.into_iter().map(Result::unwrap).collect();
    (collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect(), values)
}

/// Returns the frames that leave a chain by an interface that takes large segments.
fn sent(chain: &str, inputs: &[TestPacket], handlers: &[&str]) -> (Vec<Vec<u8>>, Vec<String>) {
    let number = offer(vec![inputs.to_vec()]);
    let text = format!("TestSource({number}, 0) -> {chain} -> Exit({number})");
    let values = run(&text, handlers).values.into_iter().map(Result::unwrap).collect();
    let frames = take_sent(number);
    (frames, values)
}

/// Returns segments of three flows: TCP over IPv4 and over IPv6 with a VLAN tag, and UDP. Each flow has
/// `count` segments with `size` bytes of data. Neighbours change places for `swaps`.
fn segments(count: u32, size: usize, swaps: &[usize]) -> Vec<TestPacket> {
    let mut random = fastrand::Rng::with_seed(size as u64);
    let v6 = |last: u16| ([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], 80).into();
    let v4 = |port| ([10, 0, 0, 1], port).into();
    let mut all = Vec::new();
    for number in 0..count {
        let flags = if number % 9 == 8 { ACK | PSH } else { ACK };
        let sequence = number.wrapping_mul(size as u32).wrapping_add(u32::MAX - 5000);
        let data: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(size).collect();
        let options = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 1];
        all.push(frame(tcp(1, flags, sequence, 1).id(number as u16).options(&options), &data));
        all.push(frame(Builder::tcp(v6(1), v6(2), flags).sequence(sequence, 1).vlan(7), &data));
        all.push(frame(Builder::udp(v4(9), v4(10)).id(number as u16), &data));
    }
    for &at in swaps {
        let at = at % (all.len() - 3);
        all.swap(at, at + 3);
    }
    let packet = |bytes| TestPacket {
        bytes,
        time: Timestamp::from_secs(1),
        annotations: [0; 48],
        headers: [Some(0), None, None],
    };
    all.into_iter().map(packet).collect()
}

const JUGGLER: &str = "INSEQ_TIMEOUT 1s, OFO_TIMEOUT 1s, UDP true";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_is_cut_again_is_what_came(
        seed in 0u32..1_000_000, count in 2u32..60, size in 1usize..200, swaps in prop::collection::vec(any::<usize>(), 0..9),
    ) {
        let inputs = segments(count, size, &swaps);
        for (arguments, report) in
            [("", ""), ("", "Report(0) ->"), (", CHECKSUM false", ""), (", CHECKSUM true", ""), (", MERGE false", "")]
        {
            // The link header may be stripped or grow in between.
            for between in ["", "Strip(14) -> MarkIPHeader(0) ->", "VLANEncap(3) ->"] {
                let is_untagged = |input: &TestPacket| !between.contains("Strip") || input.bytes[12] == 8;
                let inputs: Vec<TestPacket> = inputs.iter().filter(|input| is_untagged(input)).cloned().collect();
                let chain = format!("Damage({seed}) -> {report} e :: Juggler({JUGGLER}{arguments}) -> {between} Segment");
                let (left, _) = through(&chain, &inputs, &["e.merged"]);
                let expected = through(&format!("Damage({seed}) -> {between} Null"), &inputs, &[]).0;
                prop_assert_eq!(sorted(left), sorted(expected), "{}", chain);
            }
        }
    }

    #[test]
    fn damage_is_not_hidden_where_a_large_segment_leaves_as_one(
        seed in 0u32..1_000_000, count in 2u32..60, size in 1usize..200, swaps in prop::collection::vec(any::<usize>(), 0..9),
    ) {
        let inputs = segments(count, size, &swaps);
        let (came, _) = through(&format!("Damage({seed})"), &inputs, &[]);
        let came = sorted(came);
        for (arguments, report) in [("", ""), ("", "Report(0) ->"), (", CHECKSUM true", "Report(1) ->")] {
            // Checksums are left to the interface, or are complete.
            for between in ["", "Strip(14) -> Unstrip(14) ->"] {
                let chain = format!("Damage({seed}) -> {report} Juggler({JUGGLER}{arguments}) -> {between} Null");
                prop_assert_eq!(&sorted(sent(&chain, &inputs, &[]).0), &came, "{}", chain);
            }
        }
    }

    #[test]
    fn translated_segments_are_as_damaged_as_they_came(
        seed in 0u32..1_000_000, count in 2u32..60, size in 1usize..200,
    ) {
        let inputs: Vec<TestPacket> = segments(count, size, &[]).into_iter().step_by(3).collect();
        let nat = "CheckIPHeader(14) -> IPRewriter(pattern 1.2.3.4 - - - 0 0)";
        let wrong = |juggler: &str| {
            let (left, values) = through(&format!("Damage({seed}) -> {juggler} {nat} -> Segment"), &inputs, &[]);
            assert!(values.is_empty());
            let wrong: Vec<Vec<u8>> = left.iter().filter(|frame| is_right(frame) == Some(false)).cloned().collect();
            (left.len(), sorted(wrong))
        };
        prop_assert_eq!(wrong(&format!("Juggler({JUGGLER}) ->")), wrong(""));
        let chain = format!("e :: Juggler({JUGGLER}) -> {nat} -> Segment");
        let merged = &through(&chain, &inputs, &["e.merged"]).1[0];
        prop_assert!(merged.parse::<f64>().unwrap() > 1.0, "{}", merged);
    }
}

/// Returns `count` segments of one flow in order, with 100 bytes of data each.
fn in_order(count: u32) -> Vec<TestPacket> {
    segments(count, 100, &[]).into_iter().step_by(3).collect()
}

/// Returns packets of which one has damaged data.
fn one_damaged(inputs: &[TestPacket]) -> Vec<TestPacket> {
    let mut damaged = inputs.to_vec();
    *damaged[4].bytes.last_mut().unwrap() ^= 1;
    damaged
}

fn frames_of(inputs: &[TestPacket]) -> Vec<Vec<u8>> {
    inputs.iter().map(|input| input.bytes.clone()).collect()
}

#[test]
fn without_verification_damage_is_hidden_or_all_segments_are_lost() {
    let damaged = one_damaged(&in_order(9));
    // The interface completes the checksum.
    let (hidden, values) = sent(&format!("e :: Juggler({JUGGLER}, CHECKSUM false)"), &damaged, &["e.merged"]);
    assert_eq!((values, hidden.len()), (vec!["9.000".to_string()], 9));
    assert!(hidden.iter().all(|frame| is_right(frame) == Some(true)) && hidden != frames_of(&damaged));
    // The large segment has a complete checksum, which is wrong.
    let chain = format!("Juggler({JUGGLER}, CHECKSUM false) -> Strip(14) -> Unstrip(14)");
    assert_eq!(sent(&chain, &damaged, &[]).0, Vec::<Vec<u8>>::new());
}

/// Segment cannot tell damage from a change that is not carried into the checksum, so it computes checksums.
#[test]
fn segments_of_changed_headers_get_right_checksums() {
    let inputs = in_order(9);
    for juggler in ["", ", CHECKSUM true"] {
        let chain = format!("e :: Juggler({JUGGLER}{juggler}) -> StoreData(26, \\<0a000007>) -> Segment");
        let (left, values) = through(&chain, &inputs, &["e.merged"]);
        assert_eq!(values, ["9.000"], "{chain}");
        assert_eq!(left.len(), 9);
        assert!(left.iter().all(|frame| frame[26..30] == [10, 0, 0, 7] && is_right(frame) == Some(true)));
    }
}

/// Packets that this machine has made are summed once, where they are cut.
#[test]
fn partial_checksums_of_large_segments_are_left_to_segment() {
    let size = |data| {
        [Builder::tcp(([10, 0, 0, 1], 5).into(), ([10, 0, 0, 2], 6).into(), ACK).id(7)]
            .map(|builder| frame(builder.sequence(1000, 1), &vec![data as u8; data]))
            .map(|bytes| TestPacket { bytes, ..in_order(1)[0].clone() })
    };
    for (data, flags) in [(1400, VirtioNet::NEEDS_CHECKSUM), (300, 0)] {
        let inputs = size(data);
        let number = offer(vec![inputs.to_vec()]);
        let text = format!(
            "TestSource({number}, 0) -> Partial(500) -> Juggler({JUGGLER}) -> Flags({number}) -> Segment \
             -> TestSink({number}, 0)"
        );
        run(&text, &[]);
        let seen = take_sent(number);
        assert_eq!(seen, [[flags]], "{data}");
        let left: Vec<Vec<u8>> = collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect();
        let whole = Segments::of(&inputs[0].bytes, LinkType::Ethernet, inputs[0].bytes.len(), 500).unwrap();
        let mut expected = vec![Vec::new(); whole.count()];
        for (number, frame) in expected.iter_mut().enumerate() {
            whole.write(&inputs[0].bytes, number, frame);
        }
        assert_eq!(left, expected, "{data}");
    }
}

/// Headers that grow by more than the room in front of a packet: the large segment is copied, and verified
/// first.
#[test]
fn packets_without_room_for_longer_headers_are_cut() {
    let tags = ["VLANEncap(3)"; 8].join(" -> ");
    let chain = format!("LittleRoom -> e :: Juggler({JUGGLER}) -> {tags} -> Segment");
    let (left, values) = through(&chain, &in_order(9), &["e.merged"]);
    let expected = through(&tags, &in_order(9), &[]).0;
    assert_eq!((left, values), (expected, vec!["9.000".to_string()]));
    let (left, _) = through(&chain, &one_damaged(&in_order(9)), &[]);
    assert_eq!(left, Vec::<Vec<u8>>::new());
}

/// Only what is merged or would move a flow's numbers is read.
#[test]
fn auto_reads_what_is_merged_or_not_next() {
    let handlers = ["e.damaged"];
    let late = |at: usize| {
        let mut inputs = in_order(9);
        // The sequence number is damaged.
        inputs[at].bytes[38] ^= 0x10;
        inputs
    };
    let data = one_damaged(&in_order(9));
    for (chain, inputs, expected) in [
        ("e :: Juggler", &data, "1"),
        ("e :: Juggler(NO_MERGE tcp)", &data, "0"),
        ("e :: Juggler(NO_MERGE tcp)", &late(4), "1"),
        ("e :: Juggler(MERGE false)", &data, "0"),
        ("e :: Juggler(MERGE false)", &late(4), "1"),
        ("e :: Juggler -> Segment", &data, "0"),
        ("e :: Juggler -> Segment", &late(4), "1"),
        ("e :: Juggler(MERGE false, CHECKSUM false)", &late(4), "0"),
    ] {
        // Nothing is merged in front of a TestSink, which reads payloads.
        let run = if chain.ends_with("Segment") { through } else { sent };
        assert_eq!(run(chain, inputs, &handlers).1, [expected], "{chain}");
    }
}

/// Damaged segments are merged where they are cut again, and where an interface has verified them.
#[test]
fn segments_that_are_cut_again_or_verified_are_not_read() {
    let inputs = in_order(90);
    let damaged = one_damaged(&inputs);
    let handlers = ["e.merged", "e.damaged"];
    let as_one = |values: &[String]| values == ["9.000".to_string(), "0".to_string()];
    let merged = |chain: &str, inputs| through(chain, inputs, &handlers).1;
    let juggler = |arguments: &str| format!("e :: Juggler({JUGGLER}{arguments})");
    for (chain, is_merged) in [
        (format!("{} -> Segment", juggler("")), true),
        // Copies of large segments cannot be taken apart.
        (format!("{} -> t :: Tee(2); t[1] -> Discard; t[0] -> Segment", juggler("")), false),
        (format!("{} -> Segment", juggler(", CHECKSUM true")), false),
    ] {
        let values = merged(&chain, &damaged);
        assert_eq!(as_one(&values), is_merged, "{chain} {values:?}");
        assert!(as_one(&merged(&chain, &inputs)), "{chain}");
    }
    for (report, arguments, is_merged) in [
        ("", "", false),
        ("Report(0) ->", "", false),
        ("Report(1) ->", "", true),
        ("Report(1) ->", ", CHECKSUM true", false),
        ("Report(1) -> Paint(3) -> CheckIPHeader(14) -> DecIPTTL ->", "", true),
        // An element may have made the checksum wrong, or packets may come from another graph.
        ("Report(1) -> StoreData(60, aa) ->", "", false),
        ("Report(1) -> Queue -> Unqueue ->", "", false),
        ("", ", CHECKSUM false", true),
    ] {
        let (_, values) = sent(&format!("{report} {}", juggler(arguments)), &damaged, &handlers);
        assert_eq!(as_one(&values), is_merged, "{report} {arguments} {values:?}");
    }
}

#[test]
fn checkers_trust_interfaces_as_long_as_declarations_allow() {
    let mut damaged: Vec<TestPacket> = segments(1, 100, &[]);
    damaged.iter_mut().for_each(|input| *input.bytes.last_mut().unwrap() ^= 1);
    for (check, at) in [("CheckTCPHeader", 0), ("CheckUDPHeader", 2)] {
        for (chain, is_trusted) in [
            ("Report(0) -> CheckIPHeader(14)", false),
            ("Report(1) -> CheckIPHeader(14)", true),
            ("Report(1) -> Strip(14) -> CheckIPHeader(0) -> DecIPTTL", true),
            ("Report(1) -> CheckIPHeader(14) -> StoreData(60, aa)", false),
            ("Report(1) -> CheckIPHeader(14) -> IPRewriter(pattern 1.2.3.4 - - - 0 0)", false),
            ("Report(1) -> IPEncap(4, 1.1.1.1, 2.2.2.2) -> StripIPHeader -> MarkIPHeader(14)", false),
        ] {
            let (left, _) = through(&format!("{chain} -> {check}"), &damaged[at..=at], &[]);
            assert_eq!(left.len(), usize::from(is_trusted), "{chain} {check}");
        }
        // What is in a tunnel was not verified.
        let inner = &damaged[at].bytes;
        let end = |port| ([10, 0, 0, 1], port).into();
        let outer = TestPacket { bytes: frame(Builder::udp(end(1), end(2)), inner), ..damaged[at].clone() };
        for mark in ["MarkIPHeader(56)", "Strip(42) -> CheckIPHeader(14)"] {
            let (left, _) =
                through(&format!("Report(1) -> {mark} -> {check}"), std::slice::from_ref(&outer), &[]);
            assert_eq!(left.len(), 0, "{mark}");
        }
        // Nor were fragments.
        let mut part = damaged[at].clone();
        part.bytes[20] |= 0x20;
        let (left, _) =
            through(&format!("Report(1) -> MarkIPHeader(14) -> {check}"), std::slice::from_ref(&part), &[]);
        assert_eq!(left.len(), 0);
    }
}

/// Returns the packets of a capture that leave a chain; `None` if the capture cannot be read.
fn of_capture(capture: &Path, chain: &str) -> Option<Vec<Vec<u8>>> {
    let number = offer(Vec::new());
    let text = format!("FromDump(\"{}\") -> {chain} -> TestSink({number}, 0)", capture.display());
    let outcome = TestRun::trace().with(CLASSES).text(&text, &[]).ok()?;
    assert!(outcome.report.balances(), "{}", capture.display());
    Some(sorted(collect(number).into_iter().map(|Seen { bytes, .. }| bytes).collect()))
}

#[test]
fn damaged_captures_come_out_as_they_went_in() {
    let Some(folder) = found::path("traces") else { return };
    let mut captures = 0;
    for file in found::files(&folder) {
        for seed in 0..3 {
            let Some(came) = of_capture(&file, &format!("Damage({seed})")) else { continue };
            captures += 1;
            let chain = format!(
                "Damage({seed}) -> Juggler(UDP true, OFO_TIMEOUT 10ms, INSEQ_TIMEOUT 10ms) -> Segment"
            );
            assert!(of_capture(&file, &chain).unwrap() == came, "{} {seed}", file.display());
        }
    }
    assert!(captures > 20, "{captures}");
}
