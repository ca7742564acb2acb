//! Tests of SFMaker: its arguments and handlers, and defects of FastClick's element that must not occur here.
//! Each test of a defect quotes it.

use element::Timestamp;
use testkit::elements::{TestPacket, collect, offer};
use testkit::timed::{frame, tcp, through, through_while, udp};
use testkit::{TestRun, worker};
use wire::build::Builder;

const NONE: &str = "MODEL NONE, REORDER false";

fn us(packets: &[(i64, Vec<u8>)]) -> Vec<(i64, Vec<u8>)> {
    packets.iter().map(|(time, bytes)| (time * 1000, bytes.clone())).collect()
}

/// Returns the packets that leave the element, with their times in microseconds.
fn leaves(element: &str, arrivals: &[(i64, Vec<u8>)]) -> Vec<(i64, Vec<u8>)> {
    let (_, seen) = through(element, &us(arrivals), &[]);
    seen.into_iter().map(|(time, bytes)| (time / 1000, bytes)).collect()
}

fn times(element: &str, arrivals: &[(i64, Vec<u8>)]) -> Vec<i64> {
    leaves(element, arrivals).iter().map(|(time, _)| *time).collect()
}

/// Returns a packet after one second: it keeps the run going until all packets before it have left.
fn end() -> (i64, Vec<u8>) {
    (1_000_000, udp(999, 0))
}

#[test]
fn units_defaults_and_models() {
    let one = [(0, udp(1, 0)), (1, udp(1, 1)), (2, udp(1, 2)), end()];
    // The default of DELAY is 100 microseconds, and the first packet of a flow passes.
    assert_eq!(times("SFMaker", &one)[..3], [0, 101, 101]);
    assert_eq!(times("SFMaker(50)", &one)[..3], [0, 51, 51]);
    assert_eq!(times("SFMaker(DELAY 50, MODEL NONE)", &one)[..3], [50, 50, 50]);
    assert_eq!(times("SFMaker(DELAY 50, PASSTHROUGH false)", &one)[..3], [50, 50, 50]);
    assert_eq!(times("SFMaker(50, MODEL NONE, MAX_BURST 2)", &one)[..3], [1, 1, 52]);
    let most: Vec<_> = (0..1025).map(|n| (0, udp(1, n as u8))).chain([end()]).collect();
    assert_eq!(times(&format!("SFMaker({NONE})"), &most)[1023..1025], [0, 100]);
    let full = [(0, udp(1, 0)), (1, udp(2, 0)), (2, udp(3, 0)), end()];
    assert_eq!(times("SFMaker(50, MODEL NONE, MAX_CAP 2)", &full)[..3], [2, 50, 51]);
    let syn = frame(tcp(1, 2, 0, 0), &[]);
    let opens = [(0, syn.clone()), (0, syn), end()];
    assert_eq!(times("SFMaker(50, MODEL NONE)", &opens)[..2], [50, 50]);
    assert_eq!(times("SFMaker(50, MODEL NONE, BYPASS_SYN true)", &opens)[..2], [0, 0]);
    // With BYPASS_AFTER_FAIL 2, a flow is not held any more after two bursts of one packet.
    let lonely: Vec<_> = (0..4).map(|n| (1000 * n, udp(1, n as u8))).chain([end()]).collect();
    let fails = times("SFMaker(50, MODEL NONE, BYPASS_AFTER_FAIL 2)", &lonely);
    assert_eq!(fails[..4], [50, 1050, 2000, 3000]);
}

#[test]
fn a_packet_that_passes_is_no_failure() {
    // The first packet of a flow passes, whether or not packets of another flow leave in the same batch.
    let other = [(0, udp(2, 0)), (0, udp(2, 1)), (0, udp(2, 2))];
    let one = [(10, udp(1, 1)), (12, udp(1, 2)), end()];
    for place in [0, 3] {
        let mut arrivals = other.to_vec();
        arrivals.insert(place, (0, udp(1, 0)));
        arrivals.extend(one.clone());
        let element = "SFMaker(50, BYPASS_AFTER_FAIL 1, MAX_BURST 2, REORDER false)";
        let seen = leaves(element, &arrivals);
        let time = |number| seen.iter().find(|(_, bytes)| *bytes == udp(1, number)).unwrap().0;
        assert_eq!([0, 1, 2].map(time), [0, 12, 12], "{place}");
    }
}

#[test]
fn priorities() {
    // At the flush, flow 1 was seen first and has sent the most packets, and flow 2 has waited longest.
    let arrivals = [
        (0, udp(1, 0)),
        (1, udp(2, 0)),
        (40, udp(1, 1)),
        (100, udp(2, 1)),
        (101, udp(1, 2)),
        (102, udp(3, 0)),
        end(),
    ];
    let order = |prio| {
        let element = format!("SFMaker(50, {NONE}, PRIO {prio})");
        let (_, seen) = through_while(&element, &us(&arrivals), "wait 120us, write e.flush", &[]);
        seen[3..6].iter().map(|(_, bytes)| (bytes[42], bytes[43])).collect::<Vec<_>>()
    };
    // At the flush, flow 1 has sent two packets, flow 2 one, flow 3 none.
    assert_eq!(order("DELAY"), [(2, 1), (1, 2), (3, 0)]);
    assert_eq!(order("FIRST"), [(1, 2), (2, 1), (3, 0)]);
    assert_eq!(order("SENT"), [(3, 0), (2, 1), (1, 2)]);
}

#[test]
fn errors() {
    for (config, expected) in [
        ("PRIO LAST", "Unknown PRIO !"),
        ("MODEL THIRD", "Unknown MODEL !"),
        ("10, 5", "DELAY_LAST must be 0"),
        ("DELAY_HARD 5", "It must be 0."),
    ] {
        let text = format!("Idle -> SFMaker({config}) -> Discard");
        let error = TestRun::default().text(&text, &[]).unwrap_err();
        assert!(error.contains(expected), "{config}: {error}");
    }
}

#[test]
fn handlers() {
    let arrivals = [(0, udp(1, 0)), (1, udp(2, 0)), (2, udp(1, 1)), end()];
    let names = [
        "queued",
        "pushed",
        "sent",
        "dropped",
        "active",
        "count",
        "superframes",
        "superframe_size_avg",
        "superframe_flows_avg",
        "packets_avg",
        "useless_wait_avg",
    ];
    let handlers = names.map(|name| format!("e.{name}"));
    let handlers = handlers.each_ref().map(String::as_str);
    let (outcome, _) = through(&format!("SFMaker(10, {NONE})"), &us(&arrivals), &handlers);
    let values: Vec<_> = outcome.values.iter().map(|value| value.as_deref().unwrap()).collect();
    // Flow 1 leaves at 10 us with two packets, 8 us after its second packet arrived; flow 2 leaves at 11 us
    // with one packet, which waited for 10 us. The mean wait after the last packet is 9 us.
    assert_eq!(values, ["1", "4", "3", "0", "1", "3", "2", "1.5", "1", "1.5", "9"]);
    // Packets that pass count for no superframe. Means have up to twelve digits, as in Click.
    let arrivals = [(0, udp(1, 0)), (1, udp(2, 0)), (2, udp(1, 1)), (3, udp(1, 2)), (9, udp(2, 1)), end()];
    let (outcome, _) = through("SFMaker(10)", &us(&arrivals), &handlers);
    let values: Vec<_> = outcome.values.iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(values, ["0", "6", "6", "0", "0", "3", "2", "1.5", "1", "1.5", "9.5"]);
}

/// Defect: "It refuses to run on more than one thread."
#[test]
fn every_worker_has_one_of_its_own() {
    let run = |flow| {
        let inputs = (0u8..6).map(|number| TestPacket {
            bytes: udp(flow + u16::from(number % 2), number),
            time: Timestamp(1),
            annotations: [0; 48],
            headers: [None; 3],
        });
        let number = offer(vec![inputs.collect()]);
        let text = format!("TestSource({number}, 0) -> e :: SFMaker({NONE}) -> TestSink({number}, 0)");
        (number, worker(&text, TestRun::default()).unwrap())
    };
    // Two workers run at the same time, each on its own thread.
    let (first, second) = (run(1), run(3));
    let numbers = std::thread::scope(|scope| {
        let threads = [first, second].map(|(number, mut worker)| {
            scope.spawn(move || {
                worker.run();
                worker.finish().unwrap();
                number
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    for (number, flow) in numbers.into_iter().zip([1u8, 3]) {
        let flows: Vec<u8> = collect(number).iter().map(|seen| seen.bytes[42]).collect();
        assert_eq!(flows, [flow, flow, flow, flow + 1, flow + 1, flow + 1]);
    }
}

/// Defect: "Sorts TCP only when compression is on."
#[test]
fn segments_are_sorted_without_compression() {
    let segment = |sequence: u32| frame(tcp(1, 16, sequence, 5), &[1; 10]);
    let arrivals = [(0, segment(10)), (1, segment(30)), (2, segment(20)), end()];
    let sorted = [segment(10), segment(20), segment(30)];
    let order =
        |element: &str| leaves(element, &arrivals).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    assert_eq!(order("SFMaker(50, MODEL NONE)")[..3], sorted);
    assert_eq!(order("SFMaker(50, MODEL NONE, PROTO_COMPRESS true)")[..3], sorted);
    assert_eq!(order("SFMaker(50, MODEL NONE, REORDER false)")[1], segment(30));
}

/// Defect: "Coalesces ACKs blind to SACK and time stamps."
#[test]
fn sack_blocks_and_time_stamps_survive() {
    let ack = |number: u32, options: &[u8]| frame(tcp(1, 16, 7, number).options(options), &[]);
    let stamps = |value: u8, echo: u8| [1, 1, 8, 10, 0, 0, 0, value, 0, 0, 0, echo];
    let sack = [1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0];
    let kept = |acks: [Vec<u8>; 3]| {
        let arrivals: Vec<_> = acks.iter().cloned().map(|ack| (0, ack)).chain([end()]).collect();
        let seen = leaves("SFMaker(50, MODEL NONE, PROTO_COMPRESS true)", &arrivals);
        seen[..seen.len() - 1]
            .iter()
            .map(|(_, b)| acks.iter().position(|a| a == b).unwrap())
            .collect::<Vec<_>>()
    };
    // The first ACK is kept, because it may be a duplicate of an ACK that the element has not seen.
    assert_eq!(kept([ack(10, &[]), ack(20, &[]), ack(30, &[])]), [0, 2]);
    assert_eq!(kept([ack(10, &[]), ack(20, &sack), ack(30, &[])]), [0, 1, 2]);
    assert_eq!(kept([ack(10, &sack), ack(20, &sack), ack(30, &sack)]), [0, 1, 2]);
    assert_eq!(kept([ack(10, &stamps(1, 1)), ack(20, &stamps(2, 2)), ack(30, &stamps(3, 2))]), [0, 2]);
    // An ACK is kept if a time stamp decreases in the next ACK, or if only one of the two has time stamps.
    assert_eq!(kept([ack(10, &stamps(1, 1)), ack(20, &stamps(3, 2)), ack(30, &stamps(2, 2))]), [0, 1, 2]);
    assert_eq!(kept([ack(10, &stamps(1, 1)), ack(20, &stamps(2, 2)), ack(30, &[])]), [0, 1, 2]);
}

/// Defect: "Knows no IPv6."
#[test]
fn ipv6_is_reframed() {
    let six = |port: u16, number: u8| {
        let end = |host: u16, port| std::net::SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, host], port));
        frame(Builder::udp(end(1, port), end(2, 9)), &[number])
    };
    let arrivals = [(0, six(1, 0)), (1, six(2, 1)), (2, six(1, 2)), end()];
    let order: Vec<_> =
        leaves(&format!("SFMaker(50, {NONE})"), &arrivals).into_iter().map(|(_, b)| b).collect();
    assert_eq!(order[..3], [six(1, 0), six(1, 2), six(2, 1)]);
}

/// Defect: "When a flow that already holds packets takes a bypass, the held ones are overtaken and later
/// killed."
#[test]
fn nothing_overtakes_what_is_held() {
    let data = |sequence| frame(tcp(1, 16, sequence, 0), &[1; 10]);
    let syn = frame(tcp(1, 2, 50, 0), &[]);
    let arrivals = [(0, data(1)), (1, data(2)), (2, syn.clone()), (3, data(3)), end()];
    let seen = leaves(&format!("SFMaker(50, {NONE}, BYPASS_SYN true)"), &arrivals);
    assert_eq!(seen[..4], [(2, data(1)), (2, data(2)), (2, syn), (53, data(3))]);
    assert_eq!(seen.len(), 5);
}

/// Defect: "It loses what it holds at exit."
#[test]
fn everything_leaves_at_the_end() {
    let arrivals: Vec<_> = (0..500).map(|n| (n, udp(n as u16 % 50 + 1, n as u8))).collect();
    for element in ["SFMaker(1000000, MODEL NONE)", "Reframer(10s)", "Batcher(10s, 200)"] {
        let (outcome, seen) = through(element, &us(&arrivals), &[]);
        assert_eq!(seen.len(), 500, "{element}");
        assert!(outcome.report.elements.iter().all(|e| e.held == 0 && e.drops.is_empty()), "{element}");
    }
}

/// Defect: "19 keywords of which 6 are documented". This test checks that all keywords exist; the generic
/// tests of the manual require an entry for each.
#[test]
fn every_keyword_is_in_the_manual() {
    // All keywords that FastClick's element parses.
    let expected =
        "DELAY DELAY_LAST DELAY_HARD VERBOSE TAKE_ALL PROTO_COMPRESS REORDER PRIO PASSTHROUGH MODEL
        BYPASS_SYN BYPASS_AFTER_FAIL MAX_BURST MAX_TX_BURST MIN_TX_BURST MAX_TX_DELAY ALWAYSUP MAX_CAP";
    let names: Vec<_> = reframer::sf_maker::CLASS.args.iter().map(|arg| arg.name).collect();
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
}
