//! Who asks how long packets are gets the answer for whole ones.

mod frames;

use element::Timestamp;
use frames::{L3, datagram, segment};
use testkit::Run;
use testkit::elements::{Input, collect, offer};
use wire::checksum::fill_ipv4;
use wire::tcp::flags::ACK;

fn packets(count: usize) -> Vec<Input> {
    let input = |number: usize| {
        let time = Timestamp(1_000_000_000 + number as i64 * 100_000);
        let length = number * 89 % 1400;
        let mut bytes = if number.is_multiple_of(4) {
            segment(number, length, 0, ACK)
        } else {
            datagram(number, length, 0)
        };
        if number.is_multiple_of(3) {
            // Not to be fragmented.
            bytes[L3 + 6] |= 0x40;
            fill_ipv4(&mut bytes[L3..L3 + 20]).unwrap();
        }
        Input { bytes, time, annotations: [0; 48], headers: [None; 3] }
    };
    (0..count).map(input).collect()
}

/// What leaves each of two sinks.
fn run(chain: &str) -> [Vec<Vec<u8>>; 2] {
    let number = offer(vec![packets(500)]);
    let text = format!(
        "t :: PayloadTable(ENTRIES 4000); other :: TestSink({number}, 1); Idle -> other;
         TestSource({number}, 0) -> {chain} -> TestSink({number}, 0)"
    );
    let outcome = Run::trace().text(&text, &[]).unwrap_or_else(|text| panic!("{text}"));
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
    // 500 packets of some 700 bytes come at once.
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
