//! Tests of translators with one outer endpoint for each inner endpoint: endpoint-independent mapping and
//! filtering, and the limit of mappings per host.

use super::*;

const INDEPENDENT: &str = "pattern 192.0.2.1 1024-65535 - - 0 1, drop, INDEPENDENT_MAPPING true";
const OPEN: &str =
    "pattern 192.0.2.1 1024-65535 - - 0 1, drop, INDEPENDENT_MAPPING true, INDEPENDENT_FILTERING true";

/// Sends packets, each with its time in milliseconds, through an IPRewriter with this input specification.
/// Returns the source endpoint (address and port) of each packet that leaves.
fn outer(specification: &str, packets: &[(i64, Vec<u8>)]) -> Vec<SocketAddr> {
    let (_, seen) = run(&gateway("IPRewriter", specification), 2, packets, &[]);
    seen.iter().map(|seen| ends(&seen.bytes).0).collect()
}

#[test]
fn rfc4787_req_1_and_rfc5382_req_1_one_end_inside_is_one_end_outside() {
    let other = [10, 0, 0, 9];
    for make in [udp, |from, to| tcp(from, to, SYN, b"")] {
        // Another host already has outer port 5000, so the inner endpoint with port 5000 cannot keep its port
        // number.
        let mut packets = vec![(0, make(end(other, 5000), end(REMOTE, 53)))];
        packets.extend((0..50).map(|n| (1, make(end(INSIDE, 5000), end([2, 0, 0, n], 53 + u16::from(n))))));
        let outer = outer(INDEPENDENT, &packets);
        assert_eq!(outer.len(), 51);
        assert!(outer[0] == end(OUTER, 5000) && outer[1] != outer[0], "REQ-3: nobody has it a second time");
        assert!(outer[1..].iter().all(|&end| end == outer[1]), "{outer:?}");
    }
}

#[test]
fn rfc4787_req_3_and_rfc7857_sec_3_no_two_ends_have_the_same_port() {
    // Four hosts open a flow each, to different servers, but the range has only three ports. One host must
    // get no port.
    let three = INDEPENDENT.replace("1024-65535", "6000-6002");
    let packets: Vec<_> = (0..4).map(|n| (0, udp(end([10, 0, 0, n], 6000), end([2, 0, 0, n], 53)))).collect();
    let (outcome, seen) = run(&gateway("IPRewriter", &three), 2, &packets, &["rw.mapping_failures"]);
    let ports: std::collections::BTreeSet<_> = seen.iter().map(|s| ends(&s.bytes).0.port()).collect();
    assert_eq!((seen.len(), ports.len(), value(&outcome, 0)), (3, 3, "1"));
}

#[test]
fn a_port_is_kept_as_long_as_any_mapping_and_free_afterwards() {
    let config = INDEPENDENT;
    let first = |at, server: u8| (at, udp(end(INSIDE, 5000), end([2, 0, 0, server], 53)));
    let second = |at| (at, udp(end([10, 0, 0, 9], 5000), end(REMOTE, 53)));
    let gets = |at| outer(config, &[first(0, 1), first(200_000, 2), second(at)])[2];
    assert_ne!(gets(400_000), end(OUTER, 5000), "the second mapping still holds");
    assert_eq!(gets(502_000), end(OUTER, 5000));
}

#[test]
fn rfc4787_req_8_and_rfc5382_req_3_filtering_may_be_independent_of_the_sender() {
    let open = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let stranger = udp(end([3, 3, 3, 3], 99), end(OUTER, 5000));
    let nobody = udp(end([3, 3, 3, 3], 99), end(OUTER, 5001));
    let back = udp(end(INSIDE, 5000), end([3, 3, 3, 3], 99));
    let packets = [(0, open), (1, stranger), (2, nobody), (3, back)];
    let handlers = ["rw.udp_table", "rw.patterns"];
    let (outcome, seen) = run(&gateway("IPRewriter", OPEN), 2, &packets, &handlers);
    let tuples: Vec<_> = seen.iter().map(|seen| (seen.sink, ends(&seen.bytes))).collect();
    assert_eq!(
        tuples,
        [
            (0, (end(OUTER, 5000), end(REMOTE, 53))),
            (1, (end([3, 3, 3, 3], 99), end(INSIDE, 5000))),
            (0, (end(OUTER, 5000), end([3, 3, 3, 3], 99))),
        ]
    );
    assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
    assert_eq!(value(&outcome, 0).lines().count(), 4);
    assert!(value(&outcome, 1).starts_with("192.0.2.1 1024-65535 - - [2]"), "{}", value(&outcome, 1));
    // Without INDEPENDENT_FILTERING, packets pass only from endpoints to which the host has sent.
    assert_eq!(outer(INDEPENDENT, &packets).len(), 2);
    // A stranger opens a TCP connection to the outer port of an inner host. Its packets must pass in both
    // directions.
    let packets = [
        (0, tcp(end(INSIDE, 5000), end(REMOTE, 80), SYN, b"")),
        (1, tcp(end([3, 3, 3, 3], 99), end(OUTER, 5000), SYN, b"")),
        (2, tcp(end(INSIDE, 5000), end([3, 3, 3, 3], 99), SYN | ACK, b"")),
    ];
    assert_eq!(outer(OPEN, &packets).len(), 3);
}

#[test]
fn rfc5508_req_1a_identifiers_do_not_depend_on_the_remote_host() {
    let mut packets = vec![(0, echo([10, 0, 0, 9], REMOTE, 8, 77))];
    packets.extend((0..9).map(|n| (1, echo(INSIDE, [2, 0, 0, n], 8, 77))));
    let (_, seen) = run(&gateway("ICMPPingRewriter", INDEPENDENT), 2, &packets, &[]);
    let identifier = |n: usize| seen[n].bytes[24..26].to_vec();
    assert_ne!(identifier(0), identifier(1));
    assert!((1..10).all(|n| identifier(n) == identifier(1)));
    // The reply to each echo request must be translated back to the host that sent the request.
    let back: Vec<_> = seen.iter().map(|seen| (2, answer(&seen.bytes))).collect();
    let all = [packets.clone(), back].concat();
    let (_, seen) = run(&gateway("ICMPPingRewriter", INDEPENDENT), 2, &all, &[]);
    for (seen, (_, there)) in seen[10..].iter().zip(&packets) {
        assert_eq!(seen.bytes, answer(there));
    }
    assert_eq!(seen.len(), 20);
}

#[test]
fn rfc5508_req_1_other_queries_are_told_apart_too() {
    for (kind, reply) in [(13, 14), (15, 16), (17, 18)] {
        let other = [10, 0, 0, 9];
        let packets = [(0, echo(other, REMOTE, kind, 77)), (1, echo(INSIDE, REMOTE, kind, 77))];
        let specification = format!("{NAPT}, OTHER_QUERIES true");
        let there = run(&gateway("ICMPPingRewriter", &specification), 2, &packets, &[]).1;
        assert_eq!((there.len(), there[0].bytes[20], there[1].bytes[20]), (2, kind, kind));
        assert_ne!(there[0].bytes[24..26], there[1].bytes[24..26]);
        let back = there.iter().map(|seen| {
            let mut bytes = answer(&seen.bytes);
            bytes[20] = reply;
            refill(&mut bytes);
            (2, bytes)
        });
        let all: Vec<_> = packets.iter().cloned().chain(back).collect();
        let seen = run(&gateway("ICMPPingRewriter", &specification), 2, &all, &[]).1;
        assert!(seen.iter().all(|seen| is_sound(&seen.bytes)));
        let to: Vec<_> = seen[2..].iter().map(|seen| (&seen.bytes[16..20], &seen.bytes[24..26])).collect();
        assert_eq!(to, [(&other[..], &[0, 77][..]), (&INSIDE, &[0, 77])]);
    }
}

#[test]
fn rfc6888_req_2_and_4_one_subscriber_has_no_more_than_its_part() {
    let config = format!("{NAPT}, SUBSCRIBER_CAPACITY 3");
    let from = |host: u8, port: u16, at| (at, udp(end([10, 0, 0, host], port), end(REMOTE, 53)));
    let mut packets: Vec<_> = (0..5).map(|n| from(1, 5000 + n, 0)).collect();
    // A second host has its own limit of three mappings, and the three existing flows of the first host
    // continue.
    packets.extend((0..5).map(|n| from(2, 5000 + n, 1)));
    packets.extend((0..3).map(|n| from(1, 5000 + n, 2)));
    // The host's mappings have expired, so that it can make a new mapping.
    packets.push(from(1, 6000, 302_100));
    let handlers = ["rw.mapping_failures", "rw.size"];
    let (outcome, seen) = run(&gateway("IPRewriter", &config), 2, &packets, &handlers);
    assert_eq!((seen.len(), value(&outcome, 0)), (3 + 3 + 3 + 1, "4"));
    assert_eq!(ends(&seen[9].bytes).0.port(), 6000);
    // Packets from outside take no mapping, so they do not count towards the limit of the inner host. Answers
    // of the inner host make mappings, which count.
    let open = format!("{OPEN}, SUBSCRIBER_CAPACITY 3");
    let mut packets = vec![from(1, 5000, 0)];
    packets.extend((0..5).map(|n| (1, udp(end([3, 3, 3, n], 99), end(OUTER, 5000)))));
    packets.extend((0..5).map(|n| (2, udp(end([10, 0, 0, 1], 5000), end([3, 3, 3, n], 99)))));
    assert_eq!(outer(&open, &packets).len(), 1 + 5 + 2);
}

#[test]
fn filtering_needs_independent_ports() {
    let alone = OPEN.replace("INDEPENDENT_MAPPING true,", "");
    let text =
        format!("Idle -> rw :: UDPRewriter({alone}); Idle -> [1] rw; rw[0] -> Discard; rw[1] -> Discard");
    let message = TestRun::trace().text(&text, &[]).err().unwrap().to_string();
    assert!(message.contains("INDEPENDENT_FILTERING needs INDEPENDENT_MAPPING"), "{message}");
}

/// Sends packets of inner hosts through a translator `rw` with four outputs. Returns the output and the
/// outer endpoint of each packet.
fn uplinks(config: &str, packets: &[(i64, Vec<u8>)]) -> Vec<(usize, SocketAddr)> {
    let (_, seen) = run(config, 4, packets, &[]);
    seen.iter().map(|seen| (seen.sink, ends(&seen.bytes).0)).collect()
}

#[test]
fn flows_of_an_end_leave_where_its_address_is() {
    let (one, two) = ("192.0.2.1 1024-65535 - - 0 1", "198.51.100.1 1024-65535 - - 2 3");
    let addresses = [(0, OUTER), (2, [198, 51, 100, 1])];
    let flow = |port: u16, n: u8| (n.into(), udp(end(INSIDE, port), end([2, 0, 0, n], 53)));
    let packets: Vec<_> = (0..10).map(|n| flow(5000 + u16::from(n % 3 == 0), n)).collect();
    let mapper = |independent: &str| {
        let input = format!("m, drop, INDEPENDENT_MAPPING {independent}");
        format!("m :: RoundRobinIPMapper({one}, {two}); {}", gateway("IPRewriter", &input))
    };
    for (n, &(output, seen)) in uplinks(&mapper("true"), &packets).iter().enumerate() {
        let (expected, address) = addresses[usize::from(n % 3 != 0)];
        assert_eq!((output, seen), (expected, end(address, 5000 + u16::from(n % 3 == 0))), "{n}");
    }
    // Without INDEPENDENT_MAPPING, each new flow of an endpoint gets the next pattern in turn.
    for (n, &(output, seen)) in uplinks(&mapper("false"), &packets).iter().enumerate() {
        let (expected, address) = addresses[n % 2];
        assert_eq!((output, seen.ip()), (expected, IpAddr::from(address)), "{n}");
    }
    // An inner endpoint that has got its outer endpoint by the pattern of one input must keep it for flows
    // that arrive at another input, with another pattern.
    let inputs = format!(
        "in -> c :: IPClassifier(dst host 2.0.0.0, -);
        c[1] -> [1] rw :: IPRewriter(pattern {one}, pattern {two}, INDEPENDENT_MAPPING true); c[0] -> [0] rw;"
    );
    let packets: Vec<_> = (0..4).map(|n| flow(5000, n)).chain([flow(5001, 4)]).collect();
    let seen = uplinks(&inputs, &packets);
    assert!(seen[..4].iter().all(|&seen| seen == (0, end(OUTER, 5000))), "{seen:?}");
    assert_eq!(seen[4], (2, end([198, 51, 100, 1], 5001)));
    // If all patterns have the same outer address, the endpoint keeps its outer port with each of them. So
    // its flows still get the patterns in turn, and by them different servers.
    let servers =
        "m :: RoundRobinIPMapper(192.0.2.1 2000-3000 10.9.0.1 80 0 1, 192.0.2.1 2000-3000 10.9.0.2 80 2 3);";
    let config = format!("{servers} {}", gateway("IPRewriter", "m, drop, INDEPENDENT_MAPPING true"));
    let packets = [flow(2500, 1), flow(2500, 2)];
    assert_eq!(uplinks(&config, &packets), [(0, end(OUTER, 2500)), (2, end(OUTER, 2500))]);
}

/// Returns a translator that forwards packets for the outer port `port` to the inner endpoint `to`.
fn forwarding(port: u16, to: SocketAddr, config: &str) -> String {
    let (address, inner) = (to.ip(), to.port());
    format!(
        "in -> c :: IPClassifier(dst host 192.0.2.1 and dst udp port {port}, dst host 192.0.2.1, -);
        c[2] -> [0] rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop,
            pattern - - {address} {inner} 1 0, INDEPENDENT_MAPPING true{config});
        c[1] -> [1] rw; c[0] -> [2] rw;"
    )
}

#[test]
fn an_end_takes_no_answers_from_another_one() {
    let (server, other, client) = (end([10, 0, 0, 9], 5060), end(INSIDE, 5060), end([3, 3, 3, 3], 6000));
    let call = || udp(client, end(OUTER, 5060));
    let packets = [(0, udp(other, end(REMOTE, 53))), (1, call()), (2, udp(other, client)), (3, call())];
    let (outcome, seen) = run(&forwarding(5060, server, ""), 2, &packets, &["rw.mapping_failures"]);
    let to: Vec<_> = seen.iter().map(|seen| ends(&seen.bytes)).collect();
    // The inner host sends to the client from port 5060, and would need outer port 5060 towards the client.
    // The replies would then equal packets of the client to the server, for which this port is forwarded. So
    // the flow of the inner host is refused.
    assert_eq!(to, [(end(OUTER, 5060), end(REMOTE, 53)), (client, server), (client, server)]);
    assert_eq!(value(&outcome, 0), "1");
}

#[test]
fn a_packet_from_outside_makes_no_second_mapping_for_a_flow_inside() {
    const SHORT: &str =
        ", INDEPENDENT_FILTERING true, SUBSCRIBER_CAPACITY 3, UDP_TIMEOUT 10, UDP_STREAMING_TIMEOUT 10";
    let inner = end(INSIDE, 5060);
    let config = forwarding(6000, inner, SHORT);
    let client = |port: u16| end([3, 3, 3, 3], port);
    let call = |at: i64, from: u16| (at, udp(client(from), end(OUTER, 6000)));
    let reply = |at: i64, to: u16| (at, udp(inner, client(to)));
    let stray = |at: i64, from: u16| (at, udp(client(from), end(OUTER, 5060)));
    let open = (0, udp(inner, end(REMOTE, 53)));
    // A client talks to an inner host by the forwarded port 6000, and also sends a packet to outer port 5060,
    // which the inner host itself has. The connection by port 6000 must go on unchanged.
    let packets = [open.clone(), call(1, 99), stray(2, 99), reply(3, 99), call(9_000, 99), reply(18_000, 99)];
    let (_, seen) = run(&config, 2, &packets, &[]);
    let from: Vec<_> = seen.iter().map(|seen| ends(&seen.bytes).0).collect();
    let outer = end(OUTER, 6000);
    assert_eq!(from, [end(OUTER, 5060), client(99), outer, client(99), outer]);
    // When all time-outs are over, nothing is left of the connections.
    let mut packets = vec![open];
    packets.extend((0..2).flat_map(|n| [call(1, 99 + n), stray(2, 99 + n), stray(3, 99 + n)]));
    packets.push(stray(50_000, 7));
    packets.extend((0..4).map(|n| (51_000, udp(end(INSIDE, 2000 + n), end(REMOTE, 53)))));
    let (outcome, seen) = run(&config, 2, &packets, &["rw.mapping_failures", "rw.size"]);
    assert_eq!((seen.len(), value(&outcome, 0), value(&outcome, 1)), (3 + 3, "1", "3"));
}

#[test]
fn a_host_makes_room_for_itself_however_many_others_there_are() {
    let config = format!("{NAPT}, SUBSCRIBER_CAPACITY 3, UDP_TIMEOUT 10, UDP_STREAMING_TIMEOUT 10");
    let from = |host: [u8; 4], port: u16, at: i64| (at, udp(end(host, port), end(REMOTE, 53)));
    let others = |at: i64| (0..1000u16).map(move |n| from([10, 1, (n >> 8) as u8, n as u8], 5000, at));
    let mut packets: Vec<_> = (0..3).map(|n| from(INSIDE, 5000 + n, 0)).collect();
    packets.extend(others(1));
    // At 9 s, all mappings of the other hosts and one of the three mappings of INSIDE have a packet. So the
    // other two mappings of INSIDE are the first to expire.
    packets.extend(others(9_000));
    packets.push(from(INSIDE, 5001, 9_000));
    packets.extend((0..3).map(|n| from(INSIDE, 6000 + n, 15_000)));
    let (outcome, seen) = run(&gateway("IPRewriter", &config), 2, &packets, &["rw.mapping_failures"]);
    assert_eq!((packets.len() - seen.len(), value(&outcome, 0)), (1, "1"));
    let last: Vec<_> = seen[seen.len() - 2..].iter().map(|seen| ends(&seen.bytes).0.port()).collect();
    assert_eq!(last, [6000, 6001]);
}
