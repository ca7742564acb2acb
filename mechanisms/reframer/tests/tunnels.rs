//! Tests of flows in tunnels (TUNNELS): which packets have one key, that order is kept within each flow, and
//! that flows of two tenants are two flows.

mod encapsulation;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use encapsulation::{ALL, Kind, Tunnel};
use flow::KeyHasher;
use packet::Pool;
use proptest::prelude::*;
use reframer::finder::Finder;
use reframer::key::{FlowKind, Located};
use testkit::timed::{frame, through, through_while};
use wire::MacAddr;
use wire::build::Builder;

fn end(is_v6: bool, host: u8, port: u16) -> SocketAddr {
    let address = match is_v6 {
        true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()]),
        false => IpAddr::from([10, 0, 0, host]),
    };
    SocketAddr::new(address, port)
}

fn udp(is_v6: bool, port: u16) -> Builder {
    Builder::udp(end(is_v6, 1, port), end(is_v6, 2, 53))
}

fn tcp(is_v6: bool, flags: u8) -> Builder {
    Builder::tcp(end(is_v6, 1, 7), end(is_v6, 2, 80), flags)
}

fn icmp(kind: u8, id: u16) -> Builder {
    Builder::icmp(end(false, 1, 0).ip(), end(false, 2, 0).ip(), kind, 0, [id, 1])
}

/// Returns the flow of each frame, if a finder looks into tunnels.
fn located(frames: &[Vec<u8>]) -> Vec<Option<Located>> {
    let mut pool = Pool::new(64 << 20).unwrap();
    let finder = Finder::new(KeyHasher::new(3), true, 0);
    let of = |bytes: &Vec<u8>| {
        let packet = pool.packet(bytes).unwrap();
        let located = finder.locate(&packet);
        assert!(located.is_none() || finder.pairs(&packet)[0].is_some());
        pool.free(packet);
        located
    };
    frames.iter().map(of).collect()
}

/// All tunnels, of both versions of IP, for a tenant.
fn tunnels(id: u32) -> impl Iterator<Item = Tunnel> {
    ALL.into_iter().flat_map(move |kind| [false, true].map(|outer_v6| Tunnel::new(kind, outer_v6, id)))
}

#[test]
fn what_makes_a_flow_in_a_tunnel_and_what_does_not() {
    for tunnel in tunnels(7).filter(|tunnel| !tunnel.kind.is_numbered()) {
        for is_v6 in [false, true] {
            let frames = [
                tunnel.wrap(&udp(is_v6, 1), &[1; 30]),
                tunnel.wrap(&udp(is_v6, 2), &[1; 30]),
                tunnel.wrap(&tcp(is_v6, 16), &[1; 30]),
                tunnel.wrap(&udp(!is_v6, 1), &[1; 30]),
                tunnel.wrap(&icmp(8, 5), &[1; 30]),
                tunnel.wrap(&icmp(8, 6), &[1; 30]),
                tunnel.wrap(&icmp(3, 0), &[1; 30]),
                tunnel.wrap(&udp(false, 1).id(4).fragment(0x2000), &[1; 30]),
                tunnel.wrap(&Builder::ip(end(false, 1, 0).ip(), end(false, 2, 0).ip(), 47), &[1; 30]),
                Tunnel { outer_v6: !tunnel.outer_v6, ..tunnel }.wrap(&udp(is_v6, 1), &[1; 30]),
                frame(udp(is_v6, 1), &[1; 30]),
            ];
            let found = located(&frames);
            for (i, a) in found.iter().enumerate() {
                for (j, b) in found.iter().enumerate() {
                    assert!(a.is_some(), "{tunnel:?}: {i}");
                    assert_eq!(a == b, i == j, "{tunnel:?}: {i} and {j}");
                }
            }
            // Packets of the flows of frames 0, 2 and 7 have the same keys with another payload, other TCP
            // flags or another fragment offset, and with another outer source port.
            let other = Tunnel { port: 6000, ..tunnel };
            let again = located(&[
                other.wrap(&udp(is_v6, 1), &[2; 900]),
                other.wrap(&tcp(is_v6, 2), &[]),
                other.wrap(&udp(false, 9).id(5).fragment(3), &[2; 90]),
            ]);
            for (again, number) in again.iter().zip([0, 2, 7]) {
                assert_eq!(again.unwrap().key, found[number].unwrap().key, "{tunnel:?}: {number}");
            }
            let kinds = [0, 2, 4, 7].map(|number: usize| found[number].unwrap().kind);
            assert_eq!(kinds, [FlowKind::Inner, FlowKind::Inner, FlowKind::Tunnel, FlowKind::Pair]);
            assert_eq!(again[1].unwrap().flags, 2);
        }
    }
}

#[test]
fn tenants_with_the_same_addresses_have_flows_of_their_own() {
    for (one, other) in tunnels(7).zip(tunnels(8)) {
        let frames = [one, other].map(|tunnel| tunnel.wrap(&udp(false, 1), &[1; 30]));
        let found = located(&frames);
        assert_eq!(found[0] != found[1], one.kind.has_id(), "{one:?}");
    }
    // Packets are of different flows if the VLAN of the inner Ethernet header differs, or that of the outer
    // one.
    let vlan = |id| Tunnel::new(Kind::Vxlan, false, 7).wrap(&udp(false, 1).vlan(id), &[1; 30]);
    let (builder, payload) = Tunnel::new(Kind::Gre, false, 7).outer(&udp(false, 1).build(&[1; 30]).unwrap());
    let found =
        located(&[vlan(5), vlan(6), frame(builder.clone().vlan(5), &payload), frame(builder, &payload)]);
    for pair in found.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
    // The tenant's number is 0 in all of these kinds of tunnels; even so, packets in tunnels of different
    // kinds have different flow keys.
    let kinds = [Kind::Vxlan, Kind::Geneve(0), Kind::Gtp, Kind::GreKeyed, Kind::Gre, Kind::InIp];
    let found = located(&kinds.map(|kind| Tunnel::new(kind, false, 0).wrap(&udp(false, 1), &[1; 30])));
    let keys: Vec<_> = found.iter().map(|found| found.unwrap().key).collect();
    assert!((0..6).all(|i| !keys[..i].contains(&keys[i])));
}

#[test]
fn packets_that_are_not_plain_belong_to_the_outer_flow_or_to_the_tunnel() {
    let vxlan = Tunnel::new(Kind::Vxlan, false, 7);
    let arp = [&[2; 12][..], &[8, 6], &[0; 46]].concat();
    let plain = vxlan.wrap(&udp(false, 1), &[1; 30]);
    let changed = |mut bytes: Vec<u8>, at: usize, value: u8| {
        bytes[at] = value;
        bytes
    };
    let gtp = Tunnel::new(Kind::Gtp, false, 7).wrap(&udp(false, 1), &[1; 30]);
    let geneve = Tunnel::new(Kind::Geneve(0), false, 7).wrap(&udp(false, 1), &[1; 30]);
    // Packets that belong to the flow of the outer UDP datagram. VXLAN: with ARP, without a VNI, with a next
    // protocol. GENEVE: version 1, with the control flag, with an unknown type. GTP-U: version 2, and an echo
    // request.
    let outer = [
        vxlan.wrap_bytes(&arp),
        changed(plain.clone(), 42, 0),
        changed(plain.clone(), 42, 12),
        changed(geneve.clone(), 42, 0x40),
        changed(geneve.clone(), 43, 0x80),
        changed(geneve, 44, 1),
        changed(gtp.clone(), 42, 0x50),
        changed(gtp.clone(), 43, 1),
    ];
    assert!(located(&outer).iter().all(|found| found.unwrap().kind == FlowKind::Udp));
    // Packets that belong to the flow of the whole tunnel. GTP-U: with something other than IP, or with an
    // extension header of length 0. GRE: with source routes, of PPTP, and with an unknown protocol. IP in IP:
    // with something other than IP.
    let gre = Tunnel::new(Kind::Gre, false, 7).wrap(&udp(false, 1), &[1; 30]);
    let extended = Tunnel::new(Kind::GtpExtended(1), false, 7).wrap(&udp(false, 1), &[1; 30]);
    let whole = [
        Tunnel::new(Kind::Gtp, false, 7).wrap_bytes(&arp),
        changed(extended.clone(), 54, 0),
        changed(gre.clone(), 34, 0x40),
        changed(gre.clone(), 35, 1),
        changed(gre, 36, 9),
        Tunnel::new(Kind::InIp, false, 7).wrap_bytes(&[1; 30]),
    ];
    let found = located(&whole);
    assert!(found.iter().all(|found| found.unwrap().kind == FlowKind::Tunnel));
    // All of these packets in one tunnel have one flow key, whatever the tunnel carries.
    assert_eq!(found[0], found[1]);
    assert!(found[2..5].windows(2).all(|pair| pair[0] == pair[1]));
    assert_ne!(found[2], found[5]);
    // Packets with sequence numbers have the pair key of their tunnel.
    for numbered in tunnels(7).filter(|tunnel| tunnel.kind.is_numbered()) {
        let found =
            located(&[numbered.wrap(&udp(false, 1), &[1; 30]), numbered.wrap(&tcp(true, 16), &[1; 30])]);
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0].unwrap().kind, FlowKind::Pair);
        assert_ne!(found[0], located(&[numbered.outer_fragment()])[0]);
    }
    // No packet overtakes an end marker of GTP-U, or a packet whose headers go on after what is read.
    let many = Tunnel::new(Kind::GtpExtended(9), false, 7).wrap(&udp(false, 1), &[1; 30]);
    let long = changed(extended, 54, 200);
    let long = [long, vec![0; 700]].concat();
    let long = changed(changed(long, 16, 3), 17, 0);
    let unknown = located(&[changed(gtp, 43, 254), many, long]);
    assert!(unknown.iter().all(|found| found.unwrap().kind == FlowKind::Pair), "{unknown:?}");
    assert!(unknown.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn truncated_headers_of_every_length_are_no_trouble() {
    for tunnel in tunnels(7) {
        for is_v6 in [false, true] {
            let whole = tunnel.wrap(&tcp(is_v6, 16), &[1; 30]);
            let expected = located(std::slice::from_ref(&whole))[0];
            let pieces: Vec<_> = (0..whole.len()).map(|length| whole[..length].to_vec()).collect();
            let found = located(&pieces);
            // Each truncated packet that has at least the inner TCP header up to its flags has the same flow
            // as the whole packet.
            let keeps = |length: usize| found[length].is_some() && found[length] == expected;
            let first = (0..whole.len()).find(|&length| keeps(length)).unwrap();
            assert!((first..whole.len()).all(keeps), "{tunnel:?}");
            assert!(first <= whole.len() - 30 - 6, "{tunnel:?}: {first}");
        }
    }
}

/// Packets as (time in nanoseconds, flow, bytes).
type Arrivals = Vec<(i64, u32, Vec<u8>)>;

/// Runs `element`, and asserts that no packet is lost, that each flow leaves in order, and that no packet
/// waits for more than 64 us. Returns the packets that left.
fn in_order(element: &str, arrivals: &Arrivals) -> Vec<(i64, Vec<u8>)> {
    let packets: Vec<_> = arrivals.iter().map(|(time, _, bytes)| (*time, bytes.clone())).collect();
    let (outcome, seen) = through(element, &packets, &[]);
    assert!(outcome.report.balances(), "{element}");
    assert_eq!(seen.len(), packets.len(), "{element}");
    let about: HashMap<&[u8], (i64, u32)> =
        arrivals.iter().map(|(time, flow, bytes)| (&bytes[..], (*time, *flow))).collect();
    assert_eq!(about.len(), arrivals.len(), "all are different");
    let mut flows: Vec<_> = arrivals.iter().map(|arrival| arrival.1).collect();
    flows.sort_unstable();
    flows.dedup();
    for flow in flows {
        let came = arrivals.iter().filter(|(_, other, _)| *other == flow).map(|(_, _, bytes)| bytes);
        let left = seen.iter().filter(|(_, bytes)| about[&bytes[..]].1 == flow).map(|(_, bytes)| bytes);
        assert!(came.eq(left), "{element}: flow {flow}");
    }
    let last = arrivals.last().map_or(0, |last| last.0);
    for (time, bytes) in &seen {
        let waited = time - about[&bytes[..]].0;
        assert!((0..=64_000).contains(&waited) || *time >= last, "{element}: {waited} ns");
    }
    seen
}

/// Returns packets of six inner flows in each of several tunnels, up to 1.5 us apart: whole packets and
/// fragments, inside and outside, with outer ports that change, and packets between the same hosts in no
/// tunnel.
fn random(seed: u64) -> Arrivals {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut time, mut arrivals) = (0, Arrivals::new());
    let kinds: Vec<Kind> = (0..4).map(|_| random.choice(ALL).unwrap()).collect();
    for number in 0..1200u32 {
        time += random.i64(0..1500);
        let (place, id, outer_v6) = (random.usize(..4), random.u32(1..3), random.bool());
        let kind = kinds[place];
        let tunnel = Tunnel { port: random.u16(5000..5003), ..Tunnel::new(kind, outer_v6, id) };
        let (is_v6, port) = (random.bool(), random.u16(1..4));
        let payload = [&number.to_be_bytes()[..], &[7; 30]].concat();
        let inner = udp(is_v6, port);
        // In tunnels whose header has no number for the tenant, packets of both tenants belong to the same
        // flows. The variants of one kind of tunnel, such as GTP-U with and without extension headers and
        // sequence numbers, are the same tunnel.
        let class = match kind {
            Kind::Vxlan => 0,
            Kind::Geneve(_) => 1,
            Kind::Gtp | Kind::GtpExtended(_) | Kind::GtpNumbered | Kind::GtpSequence(_) => 2,
            Kind::GreKeyed => 3,
            Kind::Gre | Kind::GreChecked | Kind::GreBridged | Kind::GreNumbered => 4,
            Kind::InIp => 6,
        };
        let tenant = if kind.has_id() { id } else { 0 };
        let flow =
            u32::from(port) + 4 * u32::from(is_v6) + 8 * u32::from(outer_v6) + 16 * class + 256 * tenant;
        let (flow, bytes) = match random.u8(..12) {
            0 if !is_v6 => (flow, tunnel.wrap(&inner.id(number as u16).fragment(0x2000), &payload)),
            1 if !is_v6 => (flow, tunnel.wrap(&inner.id(number as u16).fragment(3), &payload)),
            2 if !outer_v6 => {
                // The outer packet is a fragment, the first of its datagram or a later one.
                let packet = inner.build(&payload).unwrap();
                let (builder, bytes) = tunnel.outer(&packet);
                let place = if random.bool() { 0x2000 } else { 9 };
                (flow, frame(builder.id(number as u16).fragment(place), &bytes))
            }
            3 => {
                let (a, b) = tunnel.ends();
                let ends = (SocketAddr::new(a, port), SocketAddr::new(b, 53));
                (
                    20_000 + u32::from(port) * 2 + u32::from(outer_v6),
                    frame(Builder::udp(ends.0, ends.1), &payload),
                )
            }
            _ => (flow, tunnel.wrap(&inner, &payload)),
        };
        arrivals.push((time, flow, bytes));
    }
    arrivals
}

#[test]
fn no_argument_changes_the_order_in_a_tunnel() {
    for (number, arguments) in [
        "64us",
        "64us, BYPASS none, MAX_BURST 3",
        "64us, PRIORITY SHORTEST_FLOW, MAX_BURST 2",
        "64us, PRIORITY OLDEST_FLOW, MAX_TX_BURST 2",
        "64us, ELEPHANTS 20",
        "64us, SLO 20us",
        "64us, MAX_HELD 5",
        "64us, CAPACITY 3",
        "64us, REORDER true, COMPRESS true",
        "0",
    ]
    .into_iter()
    .enumerate()
    {
        for seed in 0..8 {
            let arrivals = random(seed + 100 * number as u64);
            in_order(&format!("Reframer({arguments}, TUNNELS true)"), &arrivals);
        }
    }
}

#[test]
fn nothing_overtakes_packets_with_sequence_numbers() {
    let pairs = [
        (Kind::Gtp, Kind::GtpNumbered),
        (Kind::GtpExtended(1), Kind::GtpSequence(0xc0)),
        (Kind::Gtp, Kind::GtpSequence(0x82)),
        (Kind::Gtp, Kind::GtpSequence(0x84)),
        (Kind::Gre, Kind::GreNumbered),
    ];
    for (plain, numbered) in pairs {
        for period in [1, 3, 10] {
            let (mut arrivals, mut order) = (Arrivals::new(), Vec::new());
            for number in 0..120u8 {
                let port = u16::from(number % 4) + 1;
                let kind = if number % period == 0 { numbered } else { plain };
                let bytes = Tunnel::new(kind, false, 7).wrap(&udp(false, port), &[number; 30]);
                if kind == numbered {
                    order.push(bytes.clone());
                }
                arrivals.push((i64::from(number) * 3000, port.into(), bytes));
            }
            for arguments in
                ["BYPASS none, MAX_BURST 3", "MAX_HELD 4", "CAPACITY 3", "PRIORITY SHORTEST_FLOW"]
            {
                let seen = in_order(&format!("Reframer(64us, TUNNELS true, {arguments})"), &arrivals);
                let left: Vec<_> = seen.into_iter().map(|(_, bytes)| bytes).collect();
                assert!(order.iter().eq(left.iter().filter(|bytes| order.contains(bytes))), "{numbered:?}");
            }
        }
    }
    // Packets of another tunnel between the same hosts do not wait.
    let number = |kind, id| Tunnel::new(kind, false, id).wrap(&udp(false, 1), &[1; 30]);
    let arrivals =
        [(0, number(Kind::GtpNumbered, 7)), (1000, number(Kind::Gtp, 8)), (2000, number(Kind::Gtp, 7))];
    let (_, seen) = through("Reframer(64us, MAX_BURST 1, TUNNELS true)", &arrivals, &[]);
    assert_eq!(seen.iter().position(|(_, bytes)| *bytes == arrivals[1].1), Some(0));
}

#[test]
fn ethernet_in_gtp_is_one_flow() {
    // Frames of one flow whose lengths and identifications differ, to addresses that start like IP headers.
    for first in [0x02, 0x45, 0x48, 0x4e, 0x60, 0x68] {
        let tunnel = Tunnel::new(Kind::Gtp, false, 7);
        let mac = MacAddr([first, 0xb0, 0x2d, 0x11, 0, 0]);
        let frames: Vec<_> = (0..100u8)
            .map(|number| {
                let inner = tcp(false, 16).sequence(number.into(), 1).id(number.into());
                let inner =
                    inner.ethernet(mac, MacAddr([2; 6])).build(&vec![1; usize::from(number % 7) * 50]);
                tunnel.wrap_bytes(&inner.unwrap())
            })
            .collect();
        let found = located(&frames);
        assert_eq!(found[0].unwrap().kind, FlowKind::Tunnel);
        assert!(found.iter().all(|other| *other == found[0]), "{first:x}");
        let arrivals = frames.into_iter().zip(0..).map(|(bytes, number)| (number * 1000, 0, bytes)).collect();
        in_order("Reframer(64us, TUNNELS true, MAX_BURST 4)", &arrivals);
    }
    // An IPv4 packet may have padding after it. A packet with a wrong checksum is no IP packet.
    let tunnel = Tunnel::new(Kind::Gtp, false, 7);
    let mut inner = udp(false, 1).build(&[1; 4]).unwrap();
    let plain = tunnel.wrap_bytes(&inner);
    inner.resize(46, 0);
    let padded = tunnel.wrap_bytes(&inner);
    inner[10] ^= 1;
    let found = located(&[plain, padded, tunnel.wrap_bytes(&inner)]);
    assert_eq!(found[0], found[1]);
    assert_eq!(found[2].unwrap().kind, FlowKind::Tunnel);
}

#[test]
fn truncated_captures_keep_the_order() {
    // Every second packet has 80 bytes of options, so that the inner headers are not in its first 100 bytes.
    let arrivals = (0..60u16)
        .map(|number| {
            let tunnel = Tunnel::new(Kind::Geneve(if number % 2 == 0 { 0 } else { 20 }), false, 7);
            let (builder, payload) = tunnel.outer(&udp(false, 1).build(&[1; 40]).unwrap());
            let mut bytes = frame(builder.id(number), &payload);
            bytes.truncate(100);
            (i64::from(number) * 500, 0, bytes)
        })
        .collect();
    in_order("Reframer(64us, TUNNELS true)", &arrivals);
    // A datagram outside of tunnels whose UDP header is truncated keeps its flow.
    let plain = frame(udp(false, 1), &[1; 30]);
    assert_eq!(located(&[plain[..38].to_vec()]), located(&[plain]));
}

#[test]
fn only_the_inner_hosts_wait_for_an_inner_fragment() {
    let tunnel = Tunnel::new(Kind::Gtp, false, 7);
    let other = Tunnel::new(Kind::Gtp, false, 8);
    let mut arrivals: Arrivals = vec![(0, 0, tunnel.wrap(&udp(false, 1).id(1).fragment(0x2000), &[0; 30]))];
    for number in 1..9u8 {
        let time = i64::from(number) * 1000;
        arrivals.push((time, 1, tunnel.wrap(&udp(false, 2), &[number; 30])));
        arrivals.push((time, 2, other.wrap(&udp(false, 2), &[number; 30])));
    }
    arrivals.push((200_000, 3, other.wrap(&udp(false, 3), &[0; 30])));
    let seen = in_order("Reframer(64us, MAX_BURST 4, TUNNELS true)", &arrivals);
    let times = |flow: u32| -> Vec<i64> {
        let bytes: Vec<_> = arrivals.iter().filter(|arrival| arrival.1 == flow).map(|a| &a.2).collect();
        seen.iter().filter(|(_, b)| bytes.contains(&b)).map(|(time, _)| time / 1000).collect()
    };
    assert_eq!(times(2), [4, 4, 4, 4, 8, 8, 8, 8], "in bursts of four");
    assert_eq!(times(1), [64; 8], "with the fragment");
}

#[test]
fn inner_flows_leave_in_bursts() {
    // Two inner flows in one tunnel, packet by packet.
    let tunnel = Tunnel::new(Kind::GreKeyed, false, 7);
    let arrivals: Vec<_> = (0..40u16)
        .map(|number| {
            (i64::from(number) * 1000, tunnel.wrap(&udp(false, 1 + number % 2), &number.to_be_bytes()))
        })
        .collect();
    let handlers = ["e.slf_in", "e.slf_out", "e.passed", "e.tunnels"];
    let values = |element: &str| {
        let (outcome, _) = through(element, &arrivals, &handlers);
        outcome.values.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(values("Reframer(64us, MAX_BURST 4, TUNNELS true)"), ["1.000", "4.000", "0", "true"]);
    assert_eq!(values("Reframer(64us, MAX_BURST 4)"), ["0.000", "0.000", "40", "false"]);
    // The argument changes while packets are held: all of them leave first.
    let element = "Reframer(64us, MAX_BURST 4)";
    let (outcome, seen) = through_while(element, &arrivals, "wait 10500ns, write e.tunnels true", &handlers);
    assert_eq!(outcome.values[3].as_deref(), Ok("true"));
    assert_eq!(outcome.values[2].as_deref(), Ok("11"));
    assert_eq!(seen.len(), 40);
}

#[test]
fn a_syn_in_a_tunnel_is_not_held() {
    let tunnel = Tunnel::new(Kind::Vxlan, false, 7);
    let arrivals = [(0, tunnel.wrap(&tcp(false, 2), &[])), (1000, tunnel.wrap(&tcp(false, 16), &[1; 9]))];
    let (_, seen) = through("Reframer(64us, TUNNELS true)", &arrivals, &[]);
    assert_eq!(seen[0].0, 0);
    let (_, seen) = through("Reframer(64us, TUNNELS true, BYPASS none)", &arrivals, &[]);
    assert_ne!(seen[0].0, 0);
}

proptest! {
    #[test]
    fn no_bytes_in_a_tunnel_panic(kind in 0..ALL.len(), outer_v6: bool, bytes: Vec<u8>, at in 34usize..140, value: u8) {
        let tunnel = Tunnel::new(ALL[kind], outer_v6, 7);
        let mut changed = tunnel.wrap(&tcp(false, 16), &[1; 30]);
        let at = at.min(changed.len() - 1);
        changed[at] = value;
        located(&[tunnel.wrap_bytes(&bytes), changed]);
    }
}
