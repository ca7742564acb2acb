//! Tests segments that were damaged on their way: their checksums stay wrong wherever they leave, and others
//! stay right, whether or not somebody has verified them and whatever is merged.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use element::class::ArgInfo;
use element::effects::{Case, Filter, Support, Target};
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid, Timestamp};
use packet::{Packet, VirtioNet};
use proptest::prelude::*;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::timed::{frame, tcp};
use testkit::{RunResults, TestRun, found};
use wire::merge::WholeSegment;
use wire::offload::{Segments, complete};
use wire::tcp::flags::{ACK, PSH};
use wire::{LinkType, build::Builder};

static CLASSES: &[&Class] = &[&DAMAGE, &VOUCH, &EXIT];

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

/// The class `Vouch(0)` says of packets what an interface says that verifies checksums. `Vouch(1)` says that
/// all checksums are right.
static VOUCH: Class = Class {
    name: "Vouch",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Vouch { lies: number_of(args)? == 1 })),
    ..Class::DEFAULT
};

struct Vouch {
    lies: bool,
}

impl Element for Vouch {
    fn effects(&self) -> Effects {
        let support = Support { tells_checksums: true, ..Support::default() };
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

/// True if the transport checksum of an Ethernet frame is right; `None` if it contains no whole segment.
fn is_right(frame: &[u8]) -> Option<bool> {
    let l3 = if frame.get(12..14)? == [0x81, 0] { 18 } else { 14 };
    let segment = WholeSegment::of(frame, l3, frame.len())?;
    Some(segment.verify([frame]).is_some())
}

/// The class `Exit(NUMBER)` does what an interface does that takes large segments: it completes checksums
/// that are left to it, and cuts large segments into frames with new checksums. A large segment whose
/// checksum is complete and wrong is lost, as for a receiver that gets it as one. The frames are recorded
/// under the number.
static EXIT: Class = Class {
    name: "Exit",
    ports: "1/0",
    processing: "h",
    args: &[ArgInfo::required("NUMBER", "unsigned")],
    build: |args| Ok(Box::new(Exit(number_of(args)?))),
    ..Class::DEFAULT
};

struct Exit(u64);

static SENT: Mutex<Option<HashMap<u64, Vec<Vec<u8>>>>> = Mutex::new(None);

impl Element for Exit {
    fn effects(&self) -> Effects {
        let support = Support { offloads: Some(-14), ..Support::default() };
        Effects { support, ..Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let mut sent = SENT.lock().unwrap();
        let frames = sent.get_or_insert_default().entry(self.0).or_default();
        for packet in batch.iter() {
            let (mut bytes, virtio) = (bytes_of(packet), packet.annotations().virtio);
            let is_large = virtio.gso_type & !VirtioNet::ECN != 0;
            if virtio.flags & VirtioNet::NEEDS_CHECKSUM != 0 {
                complete(&mut bytes, virtio.checksum_start.into(), virtio.checksum_offset.into()).unwrap();
            } else if is_large && is_right(&bytes) == Some(false) {
                continue;
            }
            if !is_large {
                frames.push(bytes);
                continue;
            }
            let segments =
                Segments::of(&bytes, LinkType::Ethernet, bytes.len(), virtio.gso_size.into()).unwrap();
            let segments = segments.constant_id(virtio.flags & VirtioNet::CONSTANT_ID != 0);
            for number in 0..segments.count() {
                let mut frame = Vec::new();
                segments.write(&bytes, number, &mut frame);
                frames.push(frame);
            }
        }
        cx.sent(batch);
        None
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
    let frames = SENT.lock().unwrap().get_or_insert_default().remove(&number).unwrap_or_default();
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
        for (arguments, vouch) in
            [("", ""), ("", "Vouch(0) ->"), (", CHECKSUM false", ""), (", CHECKSUM true", ""), (", MERGE false", "")]
        {
            // The link header may be stripped or grow in between.
            for between in ["", "Strip(14) -> MarkIPHeader(0) ->", "VLANEncap(3) ->"] {
                let is_untagged = |input: &TestPacket| !between.contains("Strip") || input.bytes[12] == 8;
                let inputs: Vec<TestPacket> = inputs.iter().filter(|input| is_untagged(input)).cloned().collect();
                let chain = format!("Damage({seed}) -> {vouch} e :: Juggler({JUGGLER}{arguments}) -> {between} Segment");
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
        for (arguments, vouch) in [("", ""), ("", "Vouch(0) ->"), (", CHECKSUM true", "Vouch(1) ->")] {
            // Checksums are left to the interface, or are complete.
            for between in ["", "Strip(14) -> Unstrip(14) ->"] {
                let chain = format!("Damage({seed}) -> {vouch} Juggler({JUGGLER}{arguments}) -> {between} Null");
                prop_assert_eq!(&sorted(sent(&chain, &inputs, &[]).0), &came, "{}", chain);
            }
        }
        // Without verification, an interface that completes checksums hides damage, and all segments of a
        // large one are lost if its checksum is complete.
        let (hidden, _) = sent(&format!("Damage({seed}) -> Juggler({JUGGLER}, CHECKSUM false)"), &inputs, &[]);
        prop_assert_eq!(hidden.len(), came.len());
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
    }
}

/// Damaged segments are merged where they are cut again, and where an interface vouches for them.
#[test]
fn nobody_reads_what_is_cut_again_or_verified() {
    let inputs: Vec<TestPacket> = segments(90, 100, &[]).into_iter().step_by(3).collect();
    let mut damaged = inputs.clone();
    // The data of one segment is damaged.
    *damaged[4].bytes.last_mut().unwrap() ^= 1;
    let handlers = ["e.merged", "e.damaged"];
    let as_one = |values: &[String]| values == ["9.000".to_string(), "0".to_string()];
    let merged = |chain: &str, inputs| through(chain, inputs, &handlers).1;
    let juggler = |arguments: &str| format!("e :: Juggler({JUGGLER}{arguments})");
    for (chain, is_merged) in [
        (format!("{} -> Segment", juggler("")), true),
        (format!("{} -> Tee -> Segment", juggler("")), true),
        (format!("{} -> Segment", juggler(", CHECKSUM true")), false),
    ] {
        let values = merged(&chain, &damaged);
        assert_eq!(as_one(&values), is_merged, "{chain} {values:?}");
        assert!(as_one(&merged(&chain, &inputs)), "{chain}");
    }
    for (vouch, arguments, is_merged) in [
        ("", "", false),
        ("Vouch(0) ->", "", false),
        ("Vouch(1) ->", "", true),
        ("Vouch(1) ->", ", CHECKSUM true", false),
        ("Vouch(1) -> Paint(3) -> CheckIPHeader(14) -> DecIPTTL ->", "", true),
        // An element may have made the checksum wrong, or packets may come from another graph.
        ("Vouch(1) -> StoreData(60, aa) ->", "", false),
        ("Vouch(1) -> Queue -> Unqueue ->", "", false),
        ("", ", CHECKSUM false", true),
    ] {
        let (_, values) = sent(&format!("{vouch} {}", juggler(arguments)), &damaged, &handlers);
        assert_eq!(as_one(&values), is_merged, "{vouch} {arguments} {values:?}");
    }
}

#[test]
fn checkers_trust_interfaces_as_long_as_declarations_allow() {
    let mut damaged: Vec<TestPacket> = segments(1, 100, &[]);
    damaged.iter_mut().for_each(|input| *input.bytes.last_mut().unwrap() ^= 1);
    for (check, at) in [("CheckTCPHeader", 0), ("CheckUDPHeader", 2)] {
        for (chain, is_trusted) in [
            ("Vouch(0) -> CheckIPHeader(14)", false),
            ("Vouch(1) -> CheckIPHeader(14)", true),
            ("Vouch(1) -> Strip(14) -> CheckIPHeader(0) -> DecIPTTL", true),
            ("Vouch(1) -> CheckIPHeader(14) -> StoreData(60, aa)", false),
            ("Vouch(1) -> IPEncap(4, 1.1.1.1, 2.2.2.2) -> StripIPHeader -> MarkIPHeader(14)", false),
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
                through(&format!("Vouch(1) -> {mark} -> {check}"), std::slice::from_ref(&outer), &[]);
            assert_eq!(left.len(), 0, "{mark}");
        }
        // Nor were fragments.
        let mut part = damaged[at].clone();
        part.bytes[20] |= 0x20;
        let (left, _) =
            through(&format!("Vouch(1) -> MarkIPHeader(14) -> {check}"), std::slice::from_ref(&part), &[]);
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
