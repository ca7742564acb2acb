//! Tests of the delays of classes of traffic (DELAYS), and of the counts of bursts by class.

use std::collections::HashMap;
use std::net::SocketAddr;

use testkit::timed::{frame, through, through_while};
use wire::build::Builder;

fn ends(source: u16, destination: u16) -> (SocketAddr, SocketAddr) {
    (([10, 0, 0, 1], source).into(), ([10, 0, 0, 2], destination).into())
}

fn dns(number: u8) -> Vec<u8> {
    let (a, b) = ends(1, 53);
    frame(Builder::udp(a, b), &[number; 20])
}

fn web(number: u8) -> Vec<u8> {
    let (a, b) = ends(2, 80);
    frame(Builder::tcp(a, b, 16).sequence(number.into(), 1), &[number; 20])
}

fn other(number: u8, tos: u8) -> Vec<u8> {
    let (a, b) = ends(3, 9);
    frame(Builder::udp(a, b).tos(tos), &[number; 20])
}

fn fragment(number: u8) -> Vec<u8> {
    let (a, b) = ends(3, 9);
    frame(Builder::udp(a, b).id(7).fragment(0x2000), &[number; 20])
}

/// Returns the times in microseconds at which packets leave.
fn times(element: &str, arrivals: &[(i64, Vec<u8>)]) -> Vec<(i64, Vec<u8>)> {
    let arrivals: Vec<_> = arrivals.iter().map(|(time, bytes)| (time * 1000, bytes.clone())).collect();
    let (_, seen) = through(element, &arrivals, &[]);
    seen.into_iter().map(|(time, bytes)| (time / 1000, bytes)).collect()
}

#[test]
fn each_class_waits_for_its_delay() {
    let end = (900, other(99, 0));
    let arrivals = [(0, web(1)), (1, dns(1)), (2, other(1, 0)), (3, web(2)), (4, dns(2)), end.clone()];
    let expected = [(1, dns(1)), (4, dns(2)), (22, other(1, 0)), (100, web(1)), (100, web(2)), end.clone()];
    assert_eq!(times("Reframer(20us, DELAYS \"udp port 53 0us, tcp 100us\")", &arrivals), expected);
    // The first filter that matches decides.
    let first = times("Reframer(20us, DELAYS \"udp port 53 0us, udp 50us, all 30us\")", &arrivals);
    let expected = [(1, dns(1)), (4, dns(2)), (30, web(1)), (30, web(2)), (52, other(1, 0)), end.clone()];
    assert_eq!(first, expected);
    // A packet that no filter matches waits for seven eighths of the SLO of 80 us.
    let slo = times("Reframer(20us, SLO 80us, DELAYS udp port 53 0us)", &arrivals);
    assert_eq!(slo[..2], [(1, dns(1)), (4, dns(2))]);
    assert_eq!(slo[2..5], [(70, web(1)), (70, web(2)), (72, other(1, 0))]);
}

#[test]
fn a_filter_that_tells_packets_of_a_flow_apart_decides_for_each_burst() {
    // The first burst begins with a packet of DSCP 46, the second with one of DSCP 0.
    let arrivals = [
        (0, other(1, 46 << 2)),
        (1, other(2, 0)),
        (50, other(3, 0)),
        (51, other(4, 46 << 2)),
        (90, other(5, 46 << 2)),
        (900, web(1)),
    ];
    let seen = times("Reframer(20us, DELAYS ip dscp 46 5us)", &arrivals);
    let left: Vec<_> = seen.iter().map(|(time, _)| *time).collect();
    assert_eq!(left[..5], [5, 5, 70, 70, 95]);
    // A filter that looks only at ports is tested once per flow, with the first packet of the flow, so all
    // bursts of the flow wait for 5 us.
    let seen = times("Reframer(20us, DELAYS src udp port 3 5us)", &arrivals);
    let left: Vec<_> = seen.iter().map(|(time, _)| *time).collect();
    assert_eq!(left[..5], [5, 5, 55, 55, 95]);
}

#[test]
fn a_fragment_waits_for_the_longest_delay() {
    let arrivals = [(0, fragment(1)), (1, dns(1)), (2, web(1)), (900, web(2))];
    let seen = times("Reframer(20us, DELAYS \"udp 0us, tcp 100us\")", &arrivals);
    let expected = [(100, fragment(1)), (100, dns(1)), (100, web(1)), (900, web(2))];
    assert_eq!(seen, expected);
}

#[test]
fn bursts_are_counted_by_class() {
    let arrivals: Vec<_> =
        [(0, web(1)), (1, dns(1)), (2, other(1, 0)), (3, web(2)), (4, dns(2)), (5, web(3)), (900, dns(3))]
            .map(|(time, bytes)| (time * 1000, bytes))
            .to_vec();
    let handlers = ["e.burst_sizes", "e.burst_times", "e.delays", "e.mean_batch"];
    let element = "Reframer(20us, DELAYS \"udp port 53 0us, tcp 100us\")";
    let (outcome, _) = through(element, &arrivals, &handlers);
    let values: Vec<_> = outcome.values.iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(values[0], "rest <2 1\n1 <2 3\n2 <4 1\n");
    assert_eq!(values[1], "rest <32768ns 1\n1 <1ns 3\n2 <131072ns 1\n");
    assert_eq!(values[2], "udp port 53 0us, tcp 100us");
    assert_eq!(values[3], "1.400");
    // Without filters in DELAYS, all bursts count for the class `rest`.
    let (outcome, _) = through("Reframer(20us)", &arrivals, &handlers);
    assert_eq!(outcome.values[0].as_deref(), Ok("rest <2 1\nrest <4 2\n"));
    assert_eq!(outcome.values[2].as_deref(), Ok("none"));
}

#[test]
fn a_burst_is_counted_for_the_class_in_which_it_waited() {
    // The first three packets come in one batch. The third begins a burst of another class before the first
    // two, which are released, have left.
    let arrivals = [(0, other(1, 46 << 2)), (0, other(2, 46 << 2)), (0, other(3, 0)), (1000, other(4, 0))];
    let arrivals = [&arrivals[..], &[(900_000, other(5, 0))]].concat();
    let element = "Reframer(20us, MAX_BURST 2, DELAYS ip dscp 46 50us)";
    let (outcome, _) = through(element, &arrivals, &["e.burst_sizes"]);
    assert_eq!(outcome.values[0].as_deref(), Ok("rest <4 1\n1 <4 1\n"));
}

#[test]
fn what_does_not_wait_does_not_count_for_a_pause() {
    let mut arrivals = Vec::new();
    for round in 0..200i64 {
        let start = round * 40_000;
        arrivals.extend((0..12).map(|number| (start + number * 1000, dns(number as u8))));
        arrivals.extend((12..16).map(|number| (start + number * 1000, web(number as u8))));
    }
    let paused = |delay: &str| {
        let element = format!("Reframer(10us, MIN_BURST 2, DELAYS udp port 53 {delay})");
        let (outcome, _) = through(&element, &arrivals, &["e.paused"]);
        outcome.values[0].as_ref().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(paused("0us"), 0);
    assert!(paused("0.5us") > 0);
}

#[test]
fn bits_that_differ_within_a_flow_are_looked_at_in_each_burst() {
    // Only the first packet has the flag that forbids fragments.
    let (a, b) = ends(3, 9);
    let datagram = |number: u8, field| frame(Builder::udp(a, b).fragment(field), &[number; 20]);
    let arrivals = [(0, datagram(1, 0x4000)), (50, datagram(2, 0)), (900, web(1))];
    let left = |element: &str, arrivals: &[_]| -> Vec<i64> {
        times(element, arrivals).into_iter().map(|(time, _)| time).collect()
    };
    assert_eq!(left("Reframer(20us, DELAYS ip[6] & 0x40 != 0 5us)", &arrivals)[..2], [5, 70]);
    // Requests and replies of one identifier are one flow in each direction.
    let echo = |kind| frame(Builder::icmp(a.ip(), b.ip(), kind, 0, [7, 1]), &[1; 20]);
    let arrivals = [(0, echo(8)), (50, echo(0)), (900, web(1))];
    assert_eq!(left("Reframer(20us, DELAYS icmp type 8 5us)", &arrivals)[..2], [5, 70]);
    // The flow in a tunnel stays the same if the outer source port changes.
    let inner = Builder::udp(a, b).build(&[1; 20]).unwrap();
    let tunnel = |port| {
        let (a, b) = ends(port, 2152);
        let header = [0x30, 255, 0, inner.len() as u8, 0, 0, 0, 7];
        frame(Builder::udp(a, b), &[&header, &inner[..]].concat())
    };
    let arrivals = [(0, tunnel(5)), (50, tunnel(6)), (900, web(1))];
    assert_eq!(left("Reframer(20us, TUNNELS true, DELAYS src udp port 5 5us)", &arrivals)[..2], [5, 70]);
}

#[test]
fn classes_change_while_packets_wait() {
    let arrivals: Vec<_> = (0..60u8)
        .map(|number| (i64::from(number) * 1000, if number % 2 == 0 { web(number) } else { dns(number) }))
        .collect();
    let script = "wait 20500ns, write e.delays \"udp port 53 5us, tcp 9us\", wait 20us, write e.delays none";
    let handlers = ["e.delays", "e.burst_sizes", "e.held"];
    let (outcome, seen) = through_while("Reframer(64us, DELAYS tcp 40us)", &arrivals, script, &handlers);
    assert_eq!(outcome.values[0].as_deref(), Ok("none"));
    assert_eq!(seen.len(), 60);
    let place = |bytes: &Vec<u8>| arrivals.iter().position(|(_, other)| other == bytes).unwrap();
    for parity in [0, 1] {
        let places: Vec<_> = seen.iter().map(|(_, bytes)| place(bytes)).filter(|p| p % 2 == parity).collect();
        assert!(places.is_sorted());
    }
    // All packets that are held when the script changes DELAYS, at 20.5 us, leave at that time.
    assert!(seen[..21].iter().all(|(time, bytes)| *time <= 20_500 && place(bytes) <= 20));
}

#[test]
fn no_classes_change_the_order() {
    for (number, arguments) in [
        "DELAYS \"udp 0us, ip dscp 46 20us, tcp 7us\"",
        "DELAYS \"ip dscp 46 3us, src udp port 1 50us\", MAX_BURST 3",
        "DELAYS \"ip dscp 46 3us, src udp port 1 50us\", SLO 30us, PRIORITY SHORTEST_FLOW",
        "DELAYS \"src udp port 1 0us, src udp port 2 64us\", SLO 30us",
        "DELAYS \"ip dscp 46 0us, tcp 64us\", MAX_HELD 4, PRIORITY OLDEST_FLOW",
        "DELAYS \"ip dscp 46 0us, tcp 64us\", CAPACITY 2",
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 0..10 {
            let mut random = fastrand::Rng::with_seed(seed + 100 * number as u64);
            let (mut time, mut arrivals) = (0, Vec::new());
            for number in 0..1000u32 {
                time += random.i64(0..1500);
                let flow = random.u16(1..5);
                let (a, b) = ends(flow, 9);
                let tos = if random.bool() { 46 << 2 } else { 0 };
                let builder = if flow < 3 { Builder::udp(a, b) } else { Builder::tcp(a, b, 16) }.tos(tos);
                let builder = match random.u8(..20) {
                    0 => builder.id(number as u16).fragment(0x2000),
                    _ => builder,
                };
                arrivals.push((time, flow, frame(builder, &number.to_be_bytes())));
            }
            let packets: Vec<_> = arrivals.iter().map(|(time, _, bytes)| (*time, bytes.clone())).collect();
            let element = format!("Reframer(40us, {arguments})");
            let (outcome, seen) = through(&element, &packets, &[]);
            assert!(outcome.report.balances());
            assert_eq!(seen.len(), packets.len(), "{element}");
            let about: HashMap<&[u8], (i64, u16)> =
                arrivals.iter().map(|(time, flow, bytes)| (&bytes[..], (*time, *flow))).collect();
            for flow in 1..5 {
                let came = arrivals.iter().filter(|arrival| arrival.1 == flow).map(|arrival| &arrival.2);
                let left =
                    seen.iter().filter(|(_, bytes)| about[&bytes[..]].1 == flow).map(|(_, bytes)| bytes);
                assert!(came.eq(left), "{element}: flow {flow}");
            }
            for (left, bytes) in &seen {
                let waited = left - about[&bytes[..]].0;
                assert!((0..=64_000).contains(&waited) || *left >= time, "{element}: {waited} ns");
            }
        }
    }
}
