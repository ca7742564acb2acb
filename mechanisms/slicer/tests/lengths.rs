//! Tests of lengths: elements that read the length of packets get the length of the whole packet, and MTU,
//! BYTES and LONGEST are observed.

mod around;
mod frames;
mod trick;

use element::Timestamp;
use frames::{L3, datagram, segment};
use testkit::TestRun;
use testkit::checker::{ChecksumResult, check, ip};
use testkit::elements::{TestPacket, collect, offer};
use wire::checksum::fill_ipv4;
use wire::tcp::flags::ACK;

fn packets(count: usize) -> Vec<TestPacket> {
    let input = |number: usize| {
        let time = Timestamp(1_000_000_000 + number as i64 * 100_000);
        let length = number * 89 % 1400;
        let mut bytes = if number.is_multiple_of(4) {
            segment(number, length, 0, ACK)
        } else {
            datagram(number, length, 0)
        };
        if number.is_multiple_of(3) {
            // Sets DF: the packet must not be fragmented.
            bytes[L3 + 6] |= 0x40;
            fill_ipv4(&mut bytes[L3..L3 + 20]).unwrap();
        }
        TestPacket { bytes, time, annotations: [0; 48], headers: [None; 3] }
    };
    (0..count).map(input).collect()
}

/// Sends 500 packets through a chain; returns the packets that reach the sink at its end, and the packets
/// that reach the sink `other`.
fn run(chain: &str) -> [Vec<Vec<u8>>; 2] {
    run_with(packets(500), chain)
}

fn run_with(packets: Vec<TestPacket>, chain: &str) -> [Vec<Vec<u8>>; 2] {
    let number = offer(vec![packets]);
    let text = format!(
        "t :: PayloadTable(ENTRIES 4000); other :: TestSink({number}, 1); Idle -> other;
         TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)"
    );
    let outcome =
        TestRun::trace().with(trick::CLASSES).text(&text, &[]).unwrap_or_else(|text| panic!("{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let seen = collect(number);
    [0, 1].map(|sink| seen.iter().filter(|seen| seen.sink == sink).map(|seen| seen.bytes.clone()).collect())
}

#[test]
fn packets_longer_than_the_mtu_leave_by_the_other_output() {
    let [short, long] = run("Slice(t) -> s :: Splice(t, MTU 700); s[1] -> other; s");
    let length = |frame: &Vec<u8>| frame.len() - L3;
    assert!(long.iter().all(|frame| length(frame) > 700) && short.iter().all(|frame| length(frame) <= 700));
    let all = packets(500);
    let which =
        |is_long: bool| all.iter().map(|p| p.bytes.clone()).filter(move |f| (length(f) > 700) == is_long);
    assert!(short.iter().cloned().eq(which(false)) && long.iter().cloned().eq(which(true)));
    assert!(long.len() > 100 && short.len() > 100);
}

#[test]
fn what_is_longer_than_the_mtu_is_fragmented_or_answered_as_a_router_would() {
    let router = "Strip(14) -> CheckIPHeader(CHECKSUM false) -> f :: IPFragmenter(700); f[1]
        -> ICMPError(10.9.9.9, unreachable, needfrag) -> EtherEncap(0x0800, 2:2:2:2:2:2, 4:4:4:4:4:4) -> other; f";
    let whole = run(&format!("{router} -> EtherEncap(0x0800, 2:2:2:2:2:2, 4:4:4:4:4:4)"));
    let sliced = run(&format!(
        "Slice(t) -> s :: Splice(t, MTU 700) -> e :: Null; s[1] -> {router}
            -> EtherEncap(0x0800, 2:2:2:2:2:2, 4:4:4:4:4:4) -> e; e"
    ));
    let sorted = |[left, answers]: &[Vec<Vec<u8>>; 2]| {
        let mut left: Vec<_> = left.iter().map(|frame| frame[L3..].to_vec()).collect();
        left.sort_unstable();
        (left, answers.clone())
    };
    assert!(whole[0].len() > 500 && whole[1].len() > 30, "{:?}", whole.each_ref().map(Vec::len));
    assert!(sorted(&whole) == sorted(&sliced), "{:?}", sliced.each_ref().map(Vec::len));
}

#[test]
fn rates_are_those_of_whole_packets() {
    // The source emits all 500 packets, of about 700 bytes on average, at one time of the clock. The
    // elements must count whole lengths.
    for elements in [
        "m :: BandwidthRatedSplitter(100KBps); m[1] -> {} other; m",
        "MarkIPHeader(14) -> m :: SrTCM(20KBps, 40000, 40000); m[1] -> {} other; m[2] -> Discard; m",
    ] {
        let whole = run(&elements.replace("{}", ""));
        let chain = format!("Slice(t) -> {} -> Splice(t)", elements.replace("{}", "Splice(t) ->"));
        let sliced = run(&chain);
        assert!(whole == sliced, "{elements}: {:?}", [&whole, &sliced].map(|[a, b]| [a.len(), b.len()]));
        assert!(
            whole.iter().all(|packets| packets.len() > 5),
            "{elements}: {:?}",
            whole.each_ref().map(Vec::len)
        );
    }
    let whole = run("Queue(1000) -> BandwidthRatedUnqueue(1MBps)");
    assert!(whole == run("Slice(t) -> Queue(1000) -> BandwidthRatedUnqueue(1MBps) -> Splice(t)"));
}

/// Returns packets with these lengths of payload, alternately datagrams and segments. `is_whole` sets DF,
/// so that they must not be fragmented.
fn of(lengths: &[usize], is_whole: bool) -> Vec<TestPacket> {
    let input = |(number, &length): (usize, &usize)| {
        let mut bytes = match number % 2 {
            0 => datagram(number, length, 0),
            _ => segment(number, length, 0, ACK),
        };
        if is_whole {
            bytes[L3 + 6] |= 0x40;
            fill_ipv4(&mut bytes[L3..L3 + 20]).unwrap();
        }
        TestPacket { bytes, time: Timestamp(1_000_000_000), annotations: [0; 48], headers: [None; 3] }
    };
    lengths.iter().enumerate().map(input).collect()
}

#[test]
fn no_more_is_parked_than_bytes_says() {
    let lengths = [1000, 1000, 2000, 2100, 2200, 3000, 3001, 8958, 9001, 40_000, 40_001, 65_400, 65_401];
    let given = of(&lengths, false);
    let whole: Vec<_> = given.iter().map(|input| input.bytes.clone()).collect();
    type Parked = fn(usize) -> usize;
    let parked_by: [(&str, Parked); 3] =
        [("BYTES 17", |_| 17), ("BYTES 900", |_| 900), ("FRACTION 0.25", |length| length / 4)];
    for (arguments, parked) in parked_by {
        let [joined, crossed] = run_with(
            of(&lengths, false),
            &format!("Slice(t, {arguments}) -> c :: Tee; c[1] -> other; c -> Splice(t)"),
        );
        assert!(joined == whole, "{arguments}");
        for ((crossed, whole), &length) in crossed.iter().zip(&whole).zip(&lengths) {
            assert_eq!(crossed.len(), whole.len() - parked(length) + 16, "{arguments}");
            let sums = check(ip(1, crossed).unwrap()).unwrap();
            assert!(
                sums.header == ChecksumResult::Right && sums.transport == ChecksumResult::Right,
                "{arguments}, {length}"
            );
        }
    }
}

#[test]
fn the_kept_part_of_a_payload_may_be_changed() {
    // The trick changes the last byte, which is in the kept part of the payload.
    let trick = "Trick(damage, 0)";
    let [whole, _] = run_with(of(&[1000], false), trick);
    let [joined, _] = run_with(of(&[1000], false), &format!("Slice(t, BYTES 100) -> {trick} -> Splice(t)"));
    assert_eq!(whole.len(), 1);
    assert!(whole == joined);
}

#[test]
fn packets_longer_than_longest_pass_whole() {
    let lengths = [600, 900, 1372, 1360, 1373, 1361, 3000];
    let whole: Vec<_> = of(&lengths, false).into_iter().map(|input| input.bytes).collect();
    let [joined, crossed] =
        run_with(of(&lengths, false), "Slice(t, LONGEST 1400) -> c :: Tee; c[1] -> other; c -> Splice(t)");
    assert!(joined == whole);
    for (crossed, whole) in crossed.iter().zip(&whole) {
        assert_eq!(crossed.len() == whole.len(), whole.len() - L3 > 1400);
    }
}

/// Sends packets through tunnel `number` and a Splice with this MTU. Returns the frames that leave by the
/// normal output, and the frames that leave by `output` (1 or 2) because they are too long.
fn in_tunnel(number: usize, mtu: usize, given: Vec<TestPacket>, output: usize) -> [Vec<Vec<u8>>; 2] {
    let rest = if output == 1 { "s[2] -> Discard" } else { "s[1] -> Discard" };
    run_with(
        given,
        &format!(
            "Slice(t) -> Trick(wrap, {number}) -> s :: Splice(t, MTU {mtu}); s[{output}] -> other; {rest}; s"
        ),
    )
}

#[test]
fn the_mtu_is_for_the_frame_that_leaves() {
    // Packets that are too long for the MTU leave by output 1 if they are in no tunnel, or in a tunnel that
    // may be fragmented. Others leave by output 2 if they have DF, so that their sender must shorten them,
    // and are dropped if not.
    for (number, (name, tunnel)) in around::KNOWN.iter().enumerate() {
        let lengths = [600, 900, 1100, 1110, 1120, 1130, 1140, 1150, 1160, 1170, 1180, 1190, 1200, 1400];
        for is_whole in [false, true] {
            let whole: Vec<_> = of(&lengths, is_whole).into_iter().map(|input| input.bytes).collect();
            let wrapped: Vec<_> = whole.iter().map(|frame| tunnel(frame)).collect();
            let header = if *name == "a tag" { 18 } else { 14 };
            let fits = |frame: &Vec<u8>| frame.len() - header <= 1200;
            let [out, long] = in_tunnel(number, 1200, of(&lengths, is_whole), 1);
            let [_, back] = in_tunnel(number, 1200, of(&lengths, is_whole), 2);
            assert!(out.iter().eq(wrapped.iter().filter(|frame| fits(frame))), "{name}");
            let too_long = whole.iter().zip(&wrapped).filter(|(_, wrapped)| !fits(wrapped));
            let is_plain = wrapped[0][12..14] == [8, 0] || *name == "a tag";
            match (is_plain, is_whole) {
                (true, _) => {
                    assert!(long.iter().eq(too_long.map(|(_, wrapped)| wrapped)) && back.is_empty(), "{name}")
                }
                (false, true) => {
                    assert!(back.iter().eq(too_long.map(|(whole, _)| whole)) && long.is_empty(), "{name}")
                }
                (false, false) => assert!(long.is_empty() && back.is_empty(), "{name}"),
            }
        }
    }
}
