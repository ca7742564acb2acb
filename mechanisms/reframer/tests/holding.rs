//! Tests of Reframer and Batcher in whole configurations: when packets leave, in which order, and how many.

use proptest::prelude::*;
use testkit::TestRun;
use testkit::elements::{TestPacket, collect, offer};
use testkit::timed::{frame, tcp, through, through_while, udp};
use wire::build::Builder;

const GREEN: u16 = 1;
const BLUE: u16 = 2;
const BROWN: u16 = 3;

fn us(packets: &[(i64, Vec<u8>)]) -> Vec<(i64, Vec<u8>)> {
    packets.iter().map(|(time, bytes)| (time * 1000, bytes.clone())).collect()
}

#[test]
fn figure_10() {
    let arrivals = [
        (0, udp(GREEN, 1)),
        (1, udp(GREEN, 2)),
        (2, udp(BLUE, 1)),
        (3, udp(BLUE, 2)),
        (4, udp(BROWN, 1)),
        (5, udp(BLUE, 3)),
        (7, udp(BLUE, 4)),
        // When this packet arrives, the first packet of flow BROWN has left, because its delay has passed.
        (20, udp(BROWN, 2)),
    ];
    let leaves = [
        (6, udp(GREEN, 1)),
        (6, udp(GREEN, 2)),
        (7, udp(BLUE, 1)),
        (7, udp(BLUE, 2)),
        (7, udp(BLUE, 3)),
        (7, udp(BLUE, 4)),
        (10, udp(BROWN, 1)),
    ];
    for priority in ["SHORTEST_FLOW", "OLDEST_FLOW", "LONGEST_WAIT"] {
        let element = format!("Reframer(6us, MAX_BURST 4, PRIORITY {priority})");
        let handlers = ["e.slf_in", "e.slf_out", "e.releases", "e.mean_batch", "e.waited_in_vain"];
        let (outcome, seen) = through(&element, &us(&arrivals), &handlers);
        assert_eq!(seen[..7], us(&leaves)[..], "{priority}");
        assert_eq!(seen[7].1, udp(BROWN, 2));
        let values: Vec<_> = outcome.values.iter().map(|v| v.as_deref().unwrap()).collect();
        // Eight packets arrive in five runs; seven packets have left in three runs so far.
        let releases = "full 1\ntimeout 2\nbypass 0\ncapacity 0\ndrain 0\n";
        assert_eq!(values[..2], ["1.600", "2.333"], "{values:?}");
        // Flow GREEN waited 5 us after its second packet had arrived, flow BROWN 6 us after its first, and
        // flow BLUE, whose burst was full, 0 us. The mean is 3667 ns.
        assert_eq!(values[2..], [releases, "2.333", "3667ns"]);
    }
}

#[test]
fn arrivals_let_due_flows_go_where_no_timer_runs() {
    // The source emits all packets at one time of the simulated clock. With a delay of 1 s no packet becomes
    // due: only MAX_BURST (or BURST) and the end of the run release packets. With a delay of 0 all packets
    // are due at once.
    let inputs = [(GREEN, 1), (BLUE, 1), (GREEN, 2), (BLUE, 2), (GREEN, 3)]
        .map(|(flow, number)| TestPacket {
            bytes: udp(flow, number),
            time: element::Timestamp(1),
            annotations: [0; 48],
            headers: [None; 3],
        })
        .to_vec();
    for (element, order) in [
        ("Reframer(1s, MAX_BURST 2)", [(GREEN, 1), (GREEN, 2), (BLUE, 1), (BLUE, 2), (GREEN, 3)]),
        ("Reframer(0)", [(GREEN, 1), (GREEN, 2), (GREEN, 3), (BLUE, 1), (BLUE, 2)]),
        ("Batcher(1s, 3)", [(GREEN, 1), (BLUE, 1), (GREEN, 2), (BLUE, 2), (GREEN, 3)]),
    ] {
        let number = offer(vec![inputs.clone()]);
        let text = format!("TestSource({number}, 0) -> {element} -> TestSink({number}, 0)");
        let outcome = TestRun::default().text(&text, &[]).unwrap();
        assert!(outcome.report.balances());
        let seen: Vec<_> = collect(number).into_iter().map(|seen| seen.bytes).collect();
        assert_eq!(seen, order.map(|(flow, number)| udp(flow, number)), "{element}");
    }
}

#[test]
fn a_batcher_holds_whatever_comes() {
    let arrivals: Vec<_> = [0, 1, 2, 9, 10, 30].map(|t| (t, udp(t as u16 + 1, 0))).to_vec();
    let (outcome, seen) = through("Batcher(5, 3)", &us(&arrivals), &["e.mean_batch", "e.held"]);
    let times: Vec<i64> = seen.iter().map(|(time, _)| time / 1000).collect();
    // Three packets leave when the third arrives (BURST), two 5 us after the first of them (DELAY), one at
    // the end of the run.
    assert_eq!(times[..5], [2, 2, 2, 14, 14]);
    assert_eq!(seen.len(), 6);
    assert_eq!(outcome.values[0].as_deref(), Ok("2.500"));
}

#[test]
fn packets_that_bypass() {
    let syn = frame(tcp(5, 2, 100, 0), &[]);
    let data = |sequence| frame(tcp(5, 16, sequence, 0), &[1; 10]);
    let arrivals = us(&[
        (0, data(1)),
        (1, data(2)),
        (2, syn.clone()),
        (3, data(3)),
        (4, vec![0; 60]),
        (40, syn.clone()),
    ]);
    let times = |element: &str| {
        let (_, seen) = through(element, &arrivals, &[]);
        seen.iter().map(|(time, bytes)| (time / 1000, bytes.clone())).collect::<Vec<_>>()
    };
    // Packets that a flow holds leave before a bypassing SYN of the flow; packets without a flow pass at
    // once.
    let expected =
        [(2, data(1)), (2, data(2)), (2, syn.clone()), (4, vec![0; 60]), (13, data(3)), (40, syn.clone())];
    assert_eq!(times("Reframer(10)"), expected);
    assert_eq!(times("Reframer(10, BYPASS \"tcp opt syn\")"), expected);
    assert_eq!(times("Reframer(10, BYPASS src port 5 and tcp opt syn)"), expected);
    assert_eq!(
        times("Reframer(10, BYPASS all)").iter().map(|p| p.0).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 40]
    );
    let held = times("Reframer(10, BYPASS none)");
    assert_eq!(held.iter().map(|p| p.0).collect::<Vec<_>>()[..5], [4, 10, 10, 10, 10]);
}

#[test]
fn runs_stay_whole_where_packets_without_an_entry_pass() {
    // Each flow consists of a SYN and a data packet; a packet that bypasses opens no entry. With a delay of 0
    // the order does not change, so the SLF must be the same for arriving and for leaving packets.
    let arrivals: Vec<_> = (0..100u16)
        .flat_map(|n| {
            let syn = frame(tcp(1 + n, 2, 1, 0), &[]);
            let data = frame(tcp(1 + n, 24, 2, 1), &[1; 10]);
            [(200 * i64::from(n), syn), (200 * i64::from(n) + 1, data)]
        })
        .collect();
    for bypass in ["tcp opt syn", "none", "tcp"] {
        let element = format!("Reframer(0, BYPASS {bypass})");
        let (outcome, _) = through(&element, &us(&arrivals), &["e.slf_in", "e.slf_out"]);
        assert_eq!(outcome.values, ["2.000", "2.000"].map(|v| Ok(v.to_string())), "{bypass}");
    }
    // The first packets of a flow pass, later packets are held for 0 us and leave before the next packet
    // arrives. So the SLF must again be the same for arriving and for leaving packets.
    let arrivals: Vec<_> = (0..40).map(|n| (100 * n, udp(1 + n as u16 / 4, 0))).collect();
    let (outcome, _) = through("Reframer(0, ELEPHANTS 3)", &us(&arrivals), &["e.slf_in", "e.slf_out"]);
    assert_eq!(outcome.values, ["4.000", "4.000"].map(|v| Ok(v.to_string())));
}

#[test]
fn what_there_is_no_room_for_passes() {
    let arrivals: Vec<_> = (0..6).map(|t| (t, udp(t as u16 + 1, 0))).collect();
    let (outcome, seen) = through("Reframer(50, CAPACITY 2)", &us(&arrivals), &["e.overflows", "e.passed"]);
    let order: Vec<_> = seen.iter().map(|(_, bytes)| bytes[42]).collect();
    assert_eq!(order, [3, 4, 5, 6, 1, 2]);
    assert_eq!(outcome.values, ["4", "4"].map(|v| Ok(v.to_string())));
    let (outcome, seen) = through("Reframer(50, MAX_HELD 2)", &us(&arrivals), &["e.overflows", "e.held"]);
    let order: Vec<_> = seen.iter().map(|(_, bytes)| bytes[42]).collect();
    assert_eq!(order, [3, 4, 5, 6, 1, 2]);
    assert_eq!(outcome.values, ["4", "2"].map(|v| Ok(v.to_string())));
    // Five flows take turns where four have room: a flow that holds no packets any more makes room for the
    // next.
    let arrivals: Vec<_> = (0..50).map(|t| (t * 30, udp(t as u16 % 5 + 1, t as u8))).collect();
    let (outcome, _) = through("Reframer(50, CAPACITY 4)", &us(&arrivals), &["e.overflows"]);
    assert_eq!(outcome.values, [Ok("0".to_string())]);
}

#[test]
fn only_heavy_flows_are_held() {
    let arrivals: Vec<_> =
        (0..6).map(|t| (t, udp(1, t as u8))).chain([(6, udp(2, 0)), (60, udp(3, 0))]).collect();
    let (_, seen) = through("Reframer(10, ELEPHANTS 4)", &us(&arrivals), &[]);
    let times: Vec<_> = seen.iter().map(|(time, bytes)| (time / 1000, bytes[42], bytes[43])).collect();
    // Flow 1 is held from its fourth packet on; packets of the small flows 2 and 3 pass.
    let expected =
        [(0, 1, 0), (1, 1, 1), (2, 1, 2), (6, 2, 0), (13, 1, 3), (13, 1, 4), (13, 1, 5), (60, 3, 0)];
    assert_eq!(times, expected);
    // With two seconds between packets the counts are halved more often than they grow, so the flow is
    // never heavy.
    let arrivals: Vec<_> = (0..5).map(|t| (t * 2_000_000, udp(1, t as u8))).collect();
    let (_, seen) = through("Reframer(10, ELEPHANTS 2)", &us(&arrivals), &[]);
    assert!(seen.iter().all(|(time, _)| time % 1_000_000_000 == 0), "{seen:?}");
    // Seconds without packets count too: half a minute after five packets, the count is near 0, and the
    // next packet passes.
    let arrivals: Vec<_> =
        [0, 1, 2, 3, 4, 30_000_000, 60_000_000].iter().map(|&t| (1000 * t, udp(1, t as u8))).collect();
    let (_, seen) = through("Reframer(10, ELEPHANTS 3)", &arrivals, &[]);
    assert_eq!(seen[5].0, 30_000_000_000);
    let arrivals: Vec<_> = (0..5).map(|t| (t * 2_000_000, udp(1, t as u8))).collect();
    // With ELEPHANTS 1 a flow is heavy from its first packet on: every packet is held, none passes.
    let (outcome, _) = through("Reframer(10, ELEPHANTS 1)", &us(&arrivals), &["e.elephants", "e.passed"]);
    assert_eq!(outcome.values, ["1", "0"].map(|v| Ok(v.to_string())));
}

/// Returns the number of packets that leave directly after a packet of their flow (the gain), the sum of
/// all waiting times in nanoseconds, and the longest wait in nanoseconds. Packets carry their arrival time
/// as payload.
fn gain_and_wait(element: &str, arrivals: &[(i64, Vec<u8>)]) -> (f64, f64, i64) {
    let (_, seen) = through(element, arrivals, &[]);
    let (mut wait, mut longest) = (0, 0);
    for (left, bytes) in &seen {
        let came = i64::from_be_bytes(bytes[42..50].try_into().unwrap());
        wait += left - came;
        longest = longest.max(left - came);
    }
    let port = |bytes: &[u8]| bytes[34..36].to_vec();
    let runs = 1 + seen.windows(2).filter(|pair| port(&pair[0].1) != port(&pair[1].1)).count();
    ((seen.len() - runs) as f64, wait as f64, longest)
}

#[test]
fn an_slo_is_kept_and_waits_pay() {
    // Twenty flows; the packets of each are 25 us apart at first, then 700 us, then 60 us.
    let mut arrivals = Vec::new();
    let mut time = 0;
    for (gap, rounds) in [(25_000, 200), (700_000, 100), (60_000, 200)] {
        for _ in 0..rounds {
            for flow in 0..20 {
                let at = time + i64::from(flow) * gap / 20;
                let end = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
                arrivals.push((at, frame(Builder::udp(end(1 + flow), end(9)), &at.to_be_bytes())));
            }
            time += gap;
        }
    }
    let (gain, wait, longest) = gain_and_wait("Reframer(SLO 200us)", &arrivals);
    assert!(longest < 200_000, "{longest}");
    println!("SLO: {gain} packets follow one of their flow, {wait} ns of waiting");
    for delay in [8, 16, 32, 64, 100, 128, 175] {
        let (fixed, fixed_wait, _) = gain_and_wait(&format!("Reframer({delay})"), &arrivals);
        println!("{delay} us: {fixed}, {fixed_wait} ns");
        // The gain with the SLO must be at least 95 % of the gain with each fixed delay, all of which are
        // within the SLO. With a fixed delay of equal gain, packets must wait longer.
        assert!(gain >= 0.95 * fixed, "{delay}: {gain} and {fixed}");
        assert!(fixed < 0.99 * gain || wait < 0.8 * fixed_wait, "{delay}: {wait} and {fixed_wait}");
    }
}

#[test]
fn arguments_change_while_it_runs() {
    let arrivals = us(&[(0, udp(1, 0)), (1, udp(1, 1)), (2, udp(2, 0)), (10, udp(2, 1)), (3000, udp(1, 2))]);
    let run = |writes: &str| {
        let (outcome, seen) = through_while("Reframer(1000)", &arrivals, &format!("wait 5us, {writes}"), &[]);
        (outcome.messages, seen.iter().map(|(time, _)| time / 1000).collect::<Vec<_>>())
    };
    // The script writes 5 us after the first packet. Packets that exceed the new bound leave at that time.
    assert_eq!(run("write e.max_burst 2").1[..4], [5, 5, 10, 10]);
    assert_eq!(run("write e.max_burst 3").1[..4], [1000, 1000, 1002, 1002]);
    assert_eq!(run("write e.max_held 1").1[..4], [5, 5, 10, 10]);
    assert_eq!(run("write e.delay 7").1[..4], [7, 7, 9, 17]);
    assert_eq!(run("write e.delay 2").1[..4], [5, 5, 5, 12]);
    assert_eq!(run("write e.capacity 7").1[..4], [5, 5, 5, 1010]);
    assert_eq!(run("write e.flush").1[..4], [5, 5, 5, 1010]);
    for write in ["delay x", "delay -1", "max_burst 0", "priority FIRST", "bypass tcp and", "capacity 0"] {
        let (messages, times) = run(&format!("write e.{write}"));
        assert!(!messages.is_empty(), "{write}");
        assert_eq!(times[..4], [1000, 1000, 1002, 1002]);
    }
}

#[test]
fn what_is_sent_at_the_end_does_not_stay_either() {
    for element in ["Reframer(10s)", "Batcher(10s, 200)"] {
        let inputs: Vec<_> = (1..=3)
            .map(|flow| TestPacket {
                bytes: udp(flow, 0),
                time: element::Timestamp(1),
                annotations: [0; 48],
                headers: [None; 3],
            })
            .collect();
        let number = offer(vec![inputs]);
        // The element that is declared first is drained first, so the packets of `first` reach `second`
        // after it was drained.
        let text = format!(
            "second :: {element}; first :: {element}; TestSource({number}, 0) -> first -> second
                -> TestSink({number}, 0); Script(wait 1ms, stop)"
        );
        let outcome = TestRun::default().text(&text, &[]).unwrap();
        assert!(outcome.report.elements.iter().all(|e| e.held == 0), "{element}: {:?}", outcome.report);
        assert_eq!(collect(number).len(), 3, "{element}");
    }
}

#[test]
fn wrong_arguments_are_explained() {
    for (config, expected) in [
        ("DELAY 5 parsecs", "DELAY: '5 parsecs' is not a time"),
        ("MAX_BURST 0", "MAX_BURST: must be positive"),
        ("PRIORITY FIRST", "PRIORITY: must be SHORTEST_FLOW, OLDEST_FLOW or LONGEST_WAIT"),
        ("BYPASS tcp and", "BYPASS: "),
        ("CAPACITY 4294967295", "CAPACITY: "),
        ("MAX_BRUST 5", "MAX_BRUST: unknown argument (did you mean MAX_BURST?)"),
    ] {
        let text = format!("Idle -> Reframer({config}) -> Discard");
        let error = TestRun::default().text(&text, &[]).unwrap_err();
        assert!(error.contains(expected), "{config}: {error}");
    }
}

/// Returns a packet of a flow, from 0 to 6, with `number` as payload or sequence number.
fn numbered(kind: usize, number: usize) -> Vec<u8> {
    let payload = (number as u32).to_be_bytes();
    let six = |host: u8, port| {
        let mut address = [0x20; 16];
        address[15] = host;
        std::net::SocketAddr::from((address, port))
    };
    match kind {
        0..=2 => {
            frame(Builder::udp(([10, 0, 0, 1], 1 + kind as u16).into(), ([10, 0, 0, 2], 9).into()), &payload)
        }
        3 => frame(Builder::udp(six(1, 5), six(2, 6)), &payload),
        4 => frame(tcp(8, 16, number as u32, 0), &payload),
        5 => frame(Builder::icmp([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 8, 0, [7, 1]), &payload),
        6 => frame(tcp(8, 2, number as u32, 0).vlan(5), &payload),
        // In the flow of kind 4, a packet that bypasses by default.
        _ => frame(tcp(8, 2, number as u32, 0), &payload),
    }
}

/// Returns packets made from (kind, microseconds since the packet before), and the flow of each.
fn arrivals(packets: &[(usize, i64)]) -> (Packets, Vec<usize>) {
    let mut time = 0;
    let arrivals = packets.iter().enumerate().map(|(number, &(flow, passes))| {
        time += 1000 * passes;
        (time, numbered(flow, number))
    });
    let flow = |&(kind, _): &(usize, i64)| if kind == 7 { 4 } else { kind };
    (arrivals.collect(), packets.iter().map(flow).collect())
}

type Packets = Vec<(i64, Vec<u8>)>;

/// Returns a description of the first error in the packets that have left: a packet was lost, doubled, out
/// of order within its flow, or held for more than `longest` nanoseconds. `None` if there is no error.
fn wrong(arrivals: &Packets, flows: &[usize], seen: &Packets, longest: i64) -> Option<String> {
    let mut last = [None; 7];
    for (left, bytes) in seen {
        let Some(number) = arrivals.iter().position(|(_, other)| other == bytes) else {
            return Some(format!("{bytes:x?} never came"));
        };
        let (flow, came) = (flows[number], arrivals[number].0);
        if last[flow] >= Some(number) {
            return Some(format!("packet {number} leaves behind {:?} of its flow", last[flow]));
        }
        last[flow] = Some(number);
        if !(came..=came + longest).contains(left) {
            return Some(format!("packet {number} came at {came} and left at {left}"));
        }
    }
    (seen.len() != arrivals.len()).then(|| format!("{} of {} packets leave", seen.len(), arrivals.len()))
}

/// Handler writes for the script of the test, with delays of at most 30 microseconds.
const WRITES: [&str; 24] = [
    "delay 0",
    "delay 5",
    "delay 30",
    "max_burst 1",
    "max_burst 3",
    "max_burst 32",
    "max_tx_burst 2",
    "priority SHORTEST_FLOW",
    "priority OLDEST_FLOW",
    "priority LONGEST_WAIT",
    "reorder true",
    "compress true",
    "bypass none",
    "bypass udp",
    "bypass all",
    "elephants 3",
    "elephants off",
    "slo 20",
    "slo off",
    "capacity 2",
    "capacity 9",
    "max_held 2",
    "max_held 90",
    "flush",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn nothing_is_lost_late_or_out_of_order_while_arguments_change(
        packets in proptest::collection::vec((0usize..8, prop_oneof![4 => Just(0), 1 => 0i64..6]), 1..120),
        writes in proptest::collection::vec((0i64..40, 0usize..WRITES.len()), 0..12),
    ) {
        let (arrivals, flows) = arrivals(&packets);
        let script: Vec<_> =
            writes.iter().map(|&(passes, which)| format!("wait {passes}us, write e.{}", WRITES[which])).collect();
        // A wait of 0 would stop the Script.
        let script = script.join(", ").replace("wait 0us, ", "");
        let (_, seen) = through_while("Reframer(10, BYPASS none)", &arrivals, &script, &[]);
        prop_assert_eq!(wrong(&arrivals, &flows, &seen, 30_000), None);
    }

    #[test]
    fn nothing_is_lost_late_or_out_of_order(
        packets in proptest::collection::vec((0usize..8, prop_oneof![4 => Just(0), 1 => 0i64..6]), 1..120),
        burst in 1usize..6, tx in 1usize..9, delay in 0i64..20, which in 0usize..3,
        capacity in 1usize..8, held in 1usize..20, bypass in prop_oneof![Just("none"), Just("tcp opt syn"), Just("udp or icmp")],
    ) {
        let priority = ["SHORTEST_FLOW", "OLDEST_FLOW", "LONGEST_WAIT"][which];
        let (arrivals, flows) = arrivals(&packets);
        let element = format!(
            "Reframer({delay}, MAX_BURST {burst}, MAX_TX_BURST {tx}, PRIORITY {priority}, CAPACITY {capacity},
             MAX_HELD {held}, BYPASS {bypass})"
        );
        let (_, seen) = through(&element, &arrivals, &[]);
        prop_assert_eq!(wrong(&arrivals, &flows, &seen, 1000 * delay), None);
    }
}

#[test]
fn a_packet_that_bypasses_does_not_overtake_its_flow_in_a_batch() {
    // A batch with two packets of a flow, which leave because their list is full, and one that bypasses and
    // finds no list.
    let flags = [(0, 16), (0, 16), (1, 16), (1, 16), (1, 2), (1, 16), (1, 16), (1, 16)];
    let numbered = |(number, &(time, flags)): (usize, &(i64, u8))| {
        (1000 * time, frame(tcp(1, flags, number as u32, 0), &[]))
    };
    let arrivals: Vec<_> = flags.iter().enumerate().map(numbered).collect();
    for arguments in
        ["PRIORITY SHORTEST_FLOW", "PRIORITY OLDEST_FLOW", "COMPRESS false", "COMPRESS true, MAX_ACKS 1"]
    {
        let element = format!("Reframer(64us, MAX_BURST 2, {arguments})");
        // A flow that is older, so that the order by age of the flow in question is not 0.
        let older = (0, udp(1, 1));
        let arrivals: Vec<_> = [older].into_iter().chain(arrivals.clone()).collect();
        let (_, seen) = through(&element, &arrivals, &[]);
        let seen: Vec<_> =
            seen.into_iter().map(|(_, bytes)| bytes).filter(|bytes| *bytes != udp(1, 1)).collect();
        let expected: Vec<_> = arrivals[1..].iter().map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(seen, expected, "{arguments}");
    }
}

#[test]
fn wrong_delays_say_what_would_be_right() {
    for (delay, words) in [("-1", "'-1' is not a time from 0 to 1048576s"), ("soon", "such as 64us")] {
        let text = format!("Idle -> Reframer({delay}) -> Discard");
        let Err(error) = TestRun::default().text(&text, &[]) else { panic!("{delay} is taken") };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn it_pauses_while_bursts_have_one_packet() {
    /// The numbers in the manual of MIN_BURST: `SAMPLE` bursts per sample, and `PAUSE` packets per pause.
    const SAMPLE: usize = 1024;
    const PAUSE: usize = 65_536;
    // Flows send one packet each, 1 us apart, so that ten packets are held when the pause begins: one of flow
    // GREEN, whose next packet is the second of the pause. Two packets of flow BLUE come after the pause.
    let flow = |n: usize| (100 + n % 20_000) as u16;
    let single = |n: usize| udp(flow(n), n as u8);
    let mut arrivals: Vec<_> = (0..SAMPLE + 5).map(|n| (n as i64, single(n))).collect();
    arrivals.push((SAMPLE as i64 + 5, udp(GREEN, 1)));
    arrivals.extend((SAMPLE + 6..SAMPLE + 12).map(|n| (n as i64, single(n))));
    let start = arrivals.len();
    let late = |n: usize| (n as i64, if n == start + 1 { udp(GREEN, 2) } else { single(n) });
    arrivals.extend((start..start + PAUSE).map(late));
    let end = (start + PAUSE) as i64 + 100;
    arrivals.extend([(end, udp(BLUE, 1)), (end + 5, udp(BLUE, 2)), (end + 50, udp(BROWN, 1))]);
    let wait = |element: &str| {
        let (outcome, seen) = through(element, &us(&arrivals), &["e.paused", "e.releases"]);
        let paused: usize = outcome.values[0].as_ref().unwrap().parse().unwrap();
        let green = seen.iter().position(|(_, bytes)| *bytes == udp(GREEN, 1)).unwrap();
        assert!(seen[green..].iter().any(|(_, bytes)| *bytes == udp(GREEN, 2)), "{element}");
        let left = |packet: &[u8]| seen.iter().find(|(_, bytes)| bytes == packet).unwrap().0 / 1000;
        (paused, [left(&udp(GREEN, 1)), left(&udp(GREEN, 2)), left(&udp(BLUE, 1)), left(&udp(BLUE, 2))])
    };
    let (paused, left) = wait("Reframer(10us, BYPASS none)");
    assert!((PAUSE - 20..=PAUSE).contains(&paused), "{paused}");
    // GREEN's first packet leaves when the pause begins, and the second at once. BLUE's packets are held.
    assert_eq!(left[1..], [start as i64 + 1, end + 10, end + 10]);
    assert!(left[0] < SAMPLE as i64 + 15, "{left:?}");
    for never in ["Reframer(10us, BYPASS none, MIN_BURST 0)", "Reframer(10us, BYPASS none, REORDER true)"] {
        let (paused, left) = wait(never);
        assert_eq!((paused, left[1]), (0, SAMPLE as i64 + 15), "{never}");
    }
}

#[test]
fn a_burst_has_a_limit_of_bytes() {
    // Packets of flow GREEN have 44 bytes. The third of them reaches the limit of 130 bytes, and the burst
    // leaves; then the bytes are counted from 0 again.
    let arrivals: Vec<_> =
        (0..7).map(|n| (n, udp(GREEN, n as u8))).chain([(8, udp(BLUE, 1)), (90, udp(BROWN, 1))]).collect();
    let (outcome, seen) = through("Reframer(10us, MAX_BYTES 130)", &us(&arrivals), &["e.max_bytes"]);
    let times: Vec<_> = seen.iter().map(|(time, _)| time / 1000).collect();
    assert_eq!(times[..8], [2, 2, 2, 5, 5, 5, 16, 18]);
    assert_eq!(outcome.values[0].as_deref(), Ok("130"));
    // A packet that alone has more bytes than the limit leaves at once.
    let (_, seen) = through("Reframer(10us, MAX_BYTES 40)", &us(&arrivals), &[]);
    assert_eq!(seen, us(&arrivals));
}

#[test]
fn bursts_that_a_pause_cuts_short_do_not_count() {
    // When the pause begins, 5000 packets of as many flows are held. After the pause, all packets are of one
    // flow.
    let held = 5000;
    let start = 1024 + held + 100;
    let single = |n: usize| (n as i64, udp(100 + (n % 20_000) as u16, n as u8));
    let mut arrivals: Vec<_> = (0..start + 65_536).map(single).collect();
    let late = arrivals.len();
    arrivals.extend((late..late + 40_000).map(|n| (n as i64, udp(GREEN, n as u8))));
    let (outcome, _) = through("Reframer(5000us, BYPASS none)", &us(&arrivals), &["e.paused", "e.releases"]);
    let paused: usize = outcome.values[0].as_ref().unwrap().parse().unwrap();
    assert!((65_536..65_536 + 256).contains(&paused), "{paused} {:?}", outcome.values[1]);
}

#[test]
fn a_new_element_does_not_pause_for_the_bursts_of_its_predecessor() {
    let packets = |count: usize| {
        let packet = |n: usize| TestPacket {
            bytes: udp(100 + n as u16, 0),
            time: element::Timestamp(1),
            annotations: [0; 48],
            headers: [None; 3],
        };
        offer(vec![(0..count).map(packet).collect()])
    };
    let (first, second) = (packets(5000), packets(500));
    let text = |number: u64, delay: &str| {
        format!("TestSource({number}, 0) -> e :: Reframer({delay}, BYPASS none) -> TestSink({number}, 0);")
    };
    // Without a delay, each packet is a burst, and the element never pauses.
    let mut worker = testkit::worker(&text(first, "0"), TestRun::default()).unwrap();
    // Each step runs the task that sends 32 of the 5000 packets. The test stops after 4992 packets, because
    // the driver would stop after the last packet.
    assert!((0..156).all(|_| worker.step(1)));
    worker.write(None, "hotconfig", &text(second, "10s")).unwrap();
    worker.run();
    let id = worker.plan().graph.find("e");
    let read = |worker: &mut engine::Worker, handler: &str| worker.read(id, handler, "").unwrap();
    assert_eq!(read(&mut worker, "paused"), "0");
    let bursts: usize = read(&mut worker, "releases")
        .split(' ')
        .filter_map(|text| text.split('\n').next()?.parse::<usize>().ok())
        .sum();
    assert_eq!(bursts, 4992 + 500);
    worker.finish().unwrap();
    collect(first);
    collect(second);
}
