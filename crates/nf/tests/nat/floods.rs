//! Tests of the end of mappings: the time at which they expire, the reuse of their ports, and floods.

use super::*;

/// Makes a UDP packet from a host to a server, with its time in milliseconds.
fn query(host: u8, port: u16, at: i64) -> (i64, Vec<u8>) {
    (at, udp(end([10, 0, 0, host], port), end(REMOTE, 53)))
}

/// A translator with ports, addresses or capacity for three mappings: class, configuration, a function that
/// makes a packet of the host with a number at a time in milliseconds, and the time-out of a mapping in
/// seconds.
type Few = (&'static str, String, fn(u8, i64) -> (i64, Vec<u8>), i64);

fn few() -> Vec<Few> {
    let ports = "pattern 192.0.2.1 5000-5002 - - 0 1, drop";
    let addresses = "pattern 192.0.2.1-192.0.2.3# - 0 1, drop";
    let datagram = |host: u8, at: i64| query(host, 7000 + u16::from(host), at);
    let segment = |host: u8, at: i64| (at, tcp(end([10, 0, 0, host], 7000), end(REMOTE, 80), SYN, b""));
    let ping = |host: u8, at: i64| (at, echo([10, 0, 0, host], REMOTE, 8, 7));
    let mut all: Vec<Few> = vec![
        ("IPRewriter", ports.into(), datagram, 300),
        ("IPRewriter", format!("{ports}, INDEPENDENT_MAPPING true"), datagram, 300),
        ("IPRewriter", format!("{NAPT}, MAPPING_CAPACITY 3, UDP_GUARANTEE 1"), datagram, 300),
        ("UDPRewriter", ports.into(), datagram, 300),
        ("TCPRewriter", ports.into(), segment, 300),
        ("ICMPPingRewriter", ports.into(), ping, 300),
        ("ICMPPingRewriter", format!("{ports}, INDEPENDENT_MAPPING true"), ping, 300),
        ("IPAddrRewriter", addresses.into(), ping, 7200),
        ("IPAddrPairRewriter", addresses.into(), ping, 7200),
    ];
    // Translators that do not search for expired mappings regularly (REAP_INTERVAL 0) must behave in the same
    // way.
    let without: Vec<Few> =
        all.iter().map(|(a, b, c, d)| (*a, format!("{b}, REAP_INTERVAL 0"), *c, *d)).collect();
    all.extend(without);
    all
}

#[test]
fn what_mappings_that_are_over_had_is_given_to_others() {
    for (class, specification, make, seconds) in few() {
        let mut packets: Vec<_> = (0..3).map(|n| make(n, i64::from(n) * 1000)).collect();
        // All three mappings are in use when the packet of a fourth host arrives. One millisecond later, the
        // first mapping has expired, and a fifth host gets its place. 2.5 seconds later, the other two have
        // expired.
        packets.push(make(3, seconds * 1000 - 1));
        packets.push(make(4, seconds * 1000));
        packets.extend((5..7).map(|n| make(n, seconds * 1000 + 2500)));
        let (_, seen) = run(&gateway(class, &specification), 2, &packets, &[]);
        let hosts: Vec<i64> = seen.iter().map(|seen| seen.time.0 / 1_000_000 - 1_000_000).collect();
        let late = seconds * 1000 + 2500;
        let is_first_to_go = specification.contains("MAPPING_CAPACITY");
        let expected = [vec![0, 1000, 2000], vec![seconds * 1000; 1], vec![late; 2]].concat();
        // With MAPPING_CAPACITY, a mapping in use can be evicted, so the packet of the fourth host may pass.
        // It is left out of the comparison.
        let without_fourth: Vec<i64> =
            hosts.into_iter().filter(|&at| at != seconds * 1000 - 1 || !is_first_to_go).collect();
        assert_eq!(without_fourth, expected, "{class}({specification})");
    }
}

/// A mapping expires exactly (to the millisecond) at its time-out, whether packets come from inside or from
/// outside, and whether it expires alone or together with 5,000 other mappings.
#[test]
fn a_packet_that_comes_when_its_mapping_is_over_finds_none() {
    for others in [0, 5000u16] {
        let mut packets: Vec<_> = (0..others).map(|n| query(9, 10_000 + n, 0)).collect();
        packets.push(query(1, 5000, 0));
        let back = udp(end(REMOTE, 53), end(OUTER, 5000));
        let come = |at: i64| {
            let packets = [&packets[..], &[(at, back.clone())]].concat();
            let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &packets, &[]);
            seen.iter().filter(|seen| seen.sink == 1).count()
        };
        assert_eq!([come(299_999), come(300_000), come(450_000)], [1, 0, 0], "{others}");
        // A packet of a flow whose mapping has expired gets a new mapping. The new mapping has another port
        // if another flow has taken the old port.
        let taken = (300_000, udp(end([10, 0, 0, 2], 5000), end(REMOTE, 53)));
        let packets = [&packets[..], &[taken, query(1, 5000, 300_000)]].concat();
        let (_, seen) = run(&gateway("IPRewriter", NAPT), 2, &packets, &[]);
        let ports: Vec<u16> =
            seen[packets.len() - 2..].iter().map(|seen| ends(&seen.bytes).0.port()).collect();
        assert!(ports[0] != ports[1] && ports.contains(&5000), "{ports:?}");
        assert_eq!(ports[0] == 5000, others == 0, "as far as a batch finds mappings that are over");
        // An ICMP error about an expired mapping is not forwarded.
        let outside = udp(end(OUTER, 5000), end(REMOTE, 53));
        let config = "in -> p :: IPClassifier(icmp, -); p[0] -> ICMPRewriter(nat) -> rw :: Null;
            p[1] -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard;";
        let come = |at: i64| {
            let about = [(at, error([7; 4], &outside, 28))];
            run(config, 1, &[&packets[..usize::from(others) + 1], &about].concat(), &[]).1.len()
        };
        assert_eq!([come(299_999), come(300_000)], [1, 0]);
    }
}

#[test]
fn mappings_are_gone_when_their_time_is_over() {
    // 20,000 mappings of a flood expire while one flow goes on with a packet each second.
    let mut packets: Vec<_> = (0..20_000u16).map(|n| query(9, 10_000 + n, 0)).collect();
    packets.extend((0..=330).map(|second| query(1, 5000, second * 1000)));
    let size = |packets: &[(i64, Vec<u8>)]| {
        let (outcome, seen) = run(&gateway("IPRewriter", NAPT), 2, packets, &["rw.size"]);
        assert_eq!(seen.len(), packets.len());
        value(&outcome, 0).parse::<usize>().unwrap()
    };
    assert_eq!(size(&packets[..20_000 + 300]), 20_001);
    assert_eq!(size(&packets), 1);
}

#[test]
fn rfc4787_req_8_strangers_make_no_mappings() {
    const OPEN: &str = "pattern 192.0.2.1 1024-65535 - - 0 1, drop, INDEPENDENT_MAPPING true,
        INDEPENDENT_FILTERING true, SUBSCRIBER_CAPACITY 100, MAPPING_CAPACITY 1000";
    const FLOOD: u16 = 12_000;
    let stranger = |n: u16| end([3, 3, (n >> 8) as u8, n as u8], 1000 + n);
    let mut packets = vec![query(1, 5000, 0)];
    packets.extend((0..FLOOD).map(|n| (1, udp(stranger(n), end(OUTER, 5000)))));
    // After the flood, the host opens connections, and answers the datagram of one of the strangers.
    packets.extend((0..50).map(|n| (2, tcp(end(INSIDE, 6000 + n), end(REMOTE, 80), SYN, b""))));
    packets.push((3, udp(end(INSIDE, 5000), stranger(7))));
    packets.push((4, udp(stranger(7), end(OUTER, 5000))));
    let handlers = ["rw.size", "rw.mapping_failures"];
    let (outcome, seen) = run(&gateway("IPRewriter", OPEN), 2, &packets, &handlers);
    assert_eq!(seen.len(), packets.len());
    assert_eq!((value(&outcome, 0), value(&outcome, 1)), ("52", "0"));
    for (seen, n) in seen[1..].iter().zip(0..FLOOD) {
        assert_eq!((seen.sink, ends(&seen.bytes)), (1, (stranger(n), end(INSIDE, 5000))));
        assert!(is_sound(&seen.bytes) && seen.annotations[..4] == INSIDE);
    }
    // Strangers open connections to the host's outer port. The host refuses them (RST), or accepts them (SYN
    // and ACK), but no stranger confirms. These answers must not make mappings.
    for answer in [RST | ACK, SYN | ACK] {
        let mut packets = vec![(0, tcp(end(INSIDE, 5000), end(REMOTE, 80), SYN, b""))];
        for n in 0..1000 {
            packets.push((1, tcp(stranger(n), end(OUTER, 5000), SYN, b"")));
            packets.push((2, tcp(end(INSIDE, 5000), stranger(n), answer, b"")));
        }
        let (outcome, seen) = run(&gateway("IPRewriter", OPEN), 2, &packets, &handlers);
        assert_eq!((seen.len(), value(&outcome, 0), value(&outcome, 1)), (2001, "1", "0"));
        assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
        assert_eq!(ends(&seen[1500].bytes), (end(OUTER, 5000), stranger(749)));
        assert_eq!(seen.iter().filter(|seen| seen.sink == 1).count(), 1000);
        // When a stranger confirms and the host sends data, the connection must get a mapping.
        packets.push((3, tcp(stranger(5), end(OUTER, 5000), ACK, b"")));
        packets.push((4, tcp(end(INSIDE, 5000), stranger(5), ACK, b"hello")));
        packets.push((5, tcp(stranger(5), end(OUTER, 5000), ACK, b"hello")));
        let (outcome, seen) = run(&gateway("IPRewriter", OPEN), 2, &packets, &handlers);
        assert_eq!((seen.len(), value(&outcome, 0), value(&outcome, 1)), (2004, "2", "0"));
    }
}

/// The annotation byte of REPLY_ANNO is also set in packets of strangers to a port with a mapping, but not in
/// packets to a port without one.
#[test]
fn packets_of_strangers_get_the_annotation_of_their_receiver() {
    let config = "in -> c :: IPClassifier(dst host 192.0.2.1, -);
        c[1] -> Paint(7) -> [0] rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, pass 2, REPLY_ANNO PAINT,
            INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING true);
        c[0] -> Paint(9) -> [1] rw;";
    let packets = [
        query(1, 5000, 0),
        (1, udp(end([3; 4], 9), end(OUTER, 5000))),
        (1, udp(end([3; 4], 9), end(OUTER, 5001))),
    ];
    let (_, seen) = run(config, 3, &packets, &[]);
    let seen: Vec<_> = seen.iter().map(|seen| (seen.sink, seen.annotations[16])).collect();
    assert_eq!(seen, [(0, 7), (1, 7), (2, 9)]);
}
