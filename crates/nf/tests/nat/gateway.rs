//! Tests of the requirements of RFCs on a whole gateway, with `configs/nat.click` unchanged except for the
//! files, the network inside and the sink.

use wire::icmp::kind::{TIME_EXCEEDED, UNREACHABLE};

use super::*;

const OTHER: [u8; 4] = [10, 0, 0, 2];

/// Runs packets, each with its time in milliseconds, through the gateway. Returns the outcome, and the
/// packets that leave.
fn run_gateway(packets: &[(i64, Vec<u8>)], handlers: &[&str]) -> (RunResults, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let options = capture::WriterOptions { link: wire::LinkType::Ethernet, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(&path).unwrap(), options);
    for (milliseconds, bytes) in packets {
        let frame = [&[2; 12][..], &[8, 0], bytes].concat();
        writer.write((1_000_000 + milliseconds) * 1_000_000, frame.len() as u32, [&frame[..]]).unwrap();
    }
    writer.flush().unwrap();
    let exchange = offer(Vec::new());
    let text = include_str!("../../../../configs/nat.click")
        .replace("configs/data/quickstart.pcap", &path.display().to_string())
        .replace("10.1.0.1/32", "10.0.0.0/8")
        .replace("ToDump($OUT, SNAPLEN 0, ENCAP IP)", &format!("TestSink({exchange}, 0)"));
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    let seen: Vec<_> = collect(exchange).into_iter().map(|seen| seen.bytes).collect();
    let is_fragment = |packet: &[u8]| packet[6] & 0x3f != 0 || packet[7] != 0;
    let mut whole = seen.iter().filter(|packet| packet[9] != 1 && !is_fragment(packet));
    assert!(whole.all(|packet| is_sound(packet)), "a wrong checksum");
    (outcome, seen)
}

/// Returns the packets that leave the gateway.
fn out(packets: &[(i64, Vec<u8>)]) -> Vec<Vec<u8>> {
    run_gateway(packets, &[]).1
}

/// Makes a UDP packet with this time to live, with "don't fragment" if `is_whole` is true, and with
/// `payload` bytes of payload.
fn datagram(from: SocketAddr, to: SocketAddr, ttl: u8, is_whole: bool, payload: usize) -> Vec<u8> {
    let mut packet = Builder::udp(from, to).ttl(ttl).build(&vec![7; payload]).unwrap();
    packet[6] = if is_whole { 0x40 } else { 0 };
    refill(&mut packet);
    packet
}

/// Returns the packet as it is after one hop: with the time to live decremented.
fn after_a_hop(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[8] -= 1;
    refill(&mut packet);
    packet
}

/// Asserts that a packet is an ICMP error of this type and code, between these addresses, and quotes the
/// first 28 bytes of `quoted`.
fn is_error(packet: &[u8], kind: [u8; 2], from: [u8; 4], to: [u8; 4], quoted: &[u8]) {
    let start = usize::from(packet[0] & 15) * 4;
    assert_eq!((packet[9], &packet[start..start + 2]), (1, &kind[..]), "{packet:x?}");
    assert_eq!((&packet[12..16], &packet[16..20]), (&from[..], &to[..]));
    let quote = &packet[start + 8..];
    assert_eq!(quote[..28], quoted[..28], "the quotation");
    assert_eq!(fold(words(&packet[start..])), 0xffff, "checksum");
}

#[test]
fn rfc4787_req_9_and_rfc5382_req_8_hairpins_come_back_from_the_outer_address() {
    let (a, b) = (end(INSIDE, 6000), end(OTHER, 5000));
    let packets = [
        // The first packet to an inside host is dropped, although its sender is inside, too: an inside host
        // is reached only after it has sent a packet itself.
        (0, udp(a, end(OUTER, 5000))),
        (1, udp(b, end(OUTER, 6000))),
        (2, udp(a, end(OUTER, 5000))),
        (10, tcp(a, end(OUTER, 5000), SYN, b"")),
        (11, tcp(b, end(OUTER, 6000), SYN, b"")),
        (12, tcp(a, end(OUTER, 5000), ACK, b"data")),
    ];
    let (outcome, seen) = run_gateway(&packets, &["outside.count", "hairpins.count"]);
    assert_eq!((value(&outcome, 0), value(&outcome, 1)), ("0", "6"), "none leaks to the outside");
    let tuples: Vec<_> = seen.iter().map(|packet| (packet[9], ends(packet))).collect();
    let (to_a, to_b) = ((end(OUTER, 5000), a), (end(OUTER, 6000), b));
    assert_eq!(tuples, [(17, to_a), (17, to_b), (6, to_a), (6, to_b)]);
}

#[test]
fn rfc5508_req_7_errors_about_hairpins_come_back_too() {
    let (a, b) = (end(INSIDE, 6000), end(OTHER, 5000));
    let there = [(0, udp(a, end(OUTER, 5000))), (1, udp(b, end(OUTER, 6000)))];
    let got = out(&there).remove(0);
    let refusal = error(INSIDE, &got, 28);
    let seen = out(&[there[0].clone(), there[1].clone(), (2, refusal)]);
    // The error must quote the packet as the other inside host sent it, before translation; only the time to
    // live may differ.
    let mut sent = there[1].1.clone();
    sent[8] = seen[1][28 + 8];
    refill(&mut sent);
    is_error(&seen[1], [3, 1], OUTER, OTHER, &sent);
}

#[test]
fn rfc4787_req_13_packets_that_are_too_big_are_answered() {
    let big = datagram(end(INSIDE, 5000), end(REMOTE, 53), 64, true, 1600);
    let seen = out(&[(0, big.clone())]);
    assert_eq!(seen.len(), 1);
    is_error(&seen[0], [UNREACHABLE, 4], OUTER, INSIDE, &after_a_hop(&big));
    assert_eq!(seen[0][26..28], 1500u16.to_be_bytes());
    // A packet without "don't fragment" is fragmented.
    let seen = out(&[(0, datagram(end(INSIDE, 5000), end(REMOTE, 53), 64, false, 1600))]);
    assert!(seen.len() == 2 && seen.iter().all(|packet| packet.len() <= 1500 && packet[12..16] == OUTER));
    // A packet from outside that is too big is answered, too.
    let reply = datagram(end(REMOTE, 53), end(OUTER, 5000), 64, true, 1600);
    let seen = out(&[(0, udp(end(INSIDE, 5000), end(REMOTE, 53))), (1, reply.clone())]);
    assert_eq!(seen.len(), 2);
    is_error(&seen[1], [UNREACHABLE, 4], OUTER, REMOTE, &after_a_hop(&reply));
}

#[test]
fn rfc4787_req_14_fragments_come_in_any_order() {
    let whole = datagram(end(REMOTE, 53), end(OUTER, 5000), 64, false, 2000);
    let fragment = |from: usize, to: usize, more: u16| {
        let mut packet = [&whole[..20], &whole[20 + from..20 + to]].concat();
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[6..8].copy_from_slice(&((from / 8) as u16 | more << 13).to_be_bytes());
        packet[10..12].fill(0);
        let sum = !fold(words(&packet[..20]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let parts = [fragment(0, 800, 1), fragment(800, 1600, 1), fragment(1600, 2008, 0)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut packets = vec![(0, udp(end(INSIDE, 5000), end(REMOTE, 53)))];
        packets.extend(order.iter().zip(1..).map(|(&part, at)| (at, parts[part].clone())));
        let seen = out(&packets);
        let payload: usize = seen[1..].iter().map(|packet| packet.len() - 20).sum();
        assert!(payload == 2008 && seen[1..].iter().all(|packet| packet[16..20] == INSIDE), "{order:?}");
    }
}

#[test]
fn rfc5508_req_5_errors_from_inside_come_from_the_outer_address() {
    let request = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let reply = udp(end(REMOTE, 53), end(OUTER, 5000));
    let got = out(&[(0, request.clone()), (1, reply.clone())]).remove(1);
    for router in [INSIDE, [10, 0, 0, 99]] {
        let seen = out(&[(0, request.clone()), (1, reply.clone()), (2, error(router, &got, 28))]);
        is_error(&seen[2], [3, 1], OUTER, REMOTE, &after_a_hop(&reply));
    }
}

#[test]
fn rfc5508_req_10_the_gateway_says_that_time_is_exceeded() {
    let old = datagram(end(INSIDE, 5000), end(REMOTE, 53), 1, false, 8);
    let (outcome, seen) = run_gateway(&[(0, old.clone())], &["nat.table_size"]);
    assert_eq!((seen.len(), value(&outcome, 0)), (1, "0"), "and no mapping is made");
    is_error(&seen[0], [TIME_EXCEEDED, 0], OUTER, INSIDE, &old);
    // The error about a packet from outside must quote the packet as it was sent, before translation.
    let request = udp(end(INSIDE, 5000), end(REMOTE, 53));
    let old = datagram(end(REMOTE, 53), end(OUTER, 5000), 1, false, 8);
    let seen = out(&[(0, request.clone()), (1, old.clone())]);
    assert_eq!(seen.len(), 2);
    is_error(&seen[1], [TIME_EXCEEDED, 0], OUTER, REMOTE, &old);
    // The gateway decrements the time to live by one in each direction.
    let reply = datagram(end(REMOTE, 53), end(OUTER, 5000), 9, false, 8);
    let seen = out(&[(0, datagram(end(INSIDE, 5000), end(REMOTE, 53), 7, false, 8)), (1, reply)]);
    assert_eq!([seen[0][8], seen[1][8]], [6, 8]);
}

#[test]
fn rfc5508_req_11_other_messages_are_dropped() {
    let query = Builder::icmp(INSIDE.into(), REMOTE.into(), 37, 0, [5, 1]).build(&[0; 12]).unwrap();
    assert!(out(&[(0, query)]).is_empty());
}

#[test]
fn rfc5382_req_4_an_unsolicited_syn_is_answered_after_six_seconds() {
    let call = tcp(end(REMOTE, 80), end(OUTER, 5000), SYN, b"");
    let handlers = ["outside.count", "inside.count"];
    let later = |at| (at, udp(end(INSIDE, 7000), end(REMOTE, 53)));
    // The ICMP error about the unsolicited SYN is sent after six seconds. A packet of an inside host at 5.999
    // seconds must leave before it.
    let (_, seen) = run_gateway(&[(0, call.clone()), later(5_999)], &handlers);
    is_error(&seen[1], [3, 3], OUTER, REMOTE, &call);
    assert_eq!((seen.len(), seen[0][9]), (2, 17), "what came before the six seconds were over left first");
    // Within the six seconds, the inside host sends a SYN to the same remote endpoint (simultaneous open), so
    // no error must be sent.
    let back = tcp(end(INSIDE, 5000), end(REMOTE, 80), SYN, b"");
    let (outcome, seen) = run_gateway(&[(0, call.clone()), (3_000, back), later(9_000)], &handlers);
    assert_eq!((seen.len(), value(&outcome, 0), value(&outcome, 1)), (2, "2", "0"));
    // Unsolicited segments that do not open a connection, and unsolicited UDP packets, must not be answered
    // with an error.
    let others = [
        (0, tcp(end(REMOTE, 80), end(OUTER, 5000), SYN | ACK, b"")),
        (0, tcp(end(REMOTE, 80), end(OUTER, 5000), RST, b"")),
        (0, udp(end(REMOTE, 80), end(OUTER, 5000))),
        later(9_000),
    ];
    assert_eq!(run_gateway(&others, &handlers).1.len(), 1);
}

#[test]
fn rfc4787_req_8_and_9_hosts_reach_each_other_once_the_receiver_has_sent() {
    // Host B has sent a packet to some remote endpoint, such as a server by which hosts find each other. From
    // then on, host A reaches host B by its outer endpoint.
    let (a, b) = (end(INSIDE, 6000), end(OTHER, 5000));
    let packets = [
        (0, udp(b, end(REMOTE, 53))),
        (1, udp(a, end(OUTER, 5000))),
        (2, udp(b, end(OUTER, 6000))),
        (3, udp(end([3, 3, 3, 3], 99), end(OUTER, 5000))),
    ];
    let tuples: Vec<_> = out(&packets).iter().map(|packet| ends(packet)).collect();
    let inside = [(end(OUTER, 6000), b), (end(OUTER, 5000), a), (end([3, 3, 3, 3], 99), b)];
    assert_eq!(tuples[1..], inside);
    assert_eq!(tuples[0], (end(OUTER, 5000), end(REMOTE, 53)));
}

#[test]
fn rfc5508_req_1_time_stamps_are_asked_for_through_the_gateway() {
    for (kind, reply) in [(13, 14), (17, 18)] {
        let query = Builder::icmp(INSIDE.into(), REMOTE.into(), kind, 0, [7777, 1]).build(&[0; 12]).unwrap();
        let back = Builder::icmp(REMOTE.into(), OUTER.into(), reply, 0, [7777, 1]).build(&[0; 12]).unwrap();
        let seen = out(&[(0, query), (1, back)]);
        let ends: Vec<_> = seen.iter().map(|seen| (&seen[12..16], &seen[16..20], seen[20])).collect();
        assert_eq!(ends, [(&OUTER[..], &REMOTE[..], kind), (&REMOTE[..], &INSIDE[..], reply)]);
    }
}

#[test]
fn rfc1812_4_3_2_8_the_gateways_messages_are_limited() {
    let old: Vec<_> =
        (0..3000).map(|n| (n / 3, datagram(end(INSIDE, 5000), end(REMOTE, 53), 1, false, 8))).collect();
    let (outcome, seen) = run_gateway(&old, &["limited.count"]);
    assert!(seen.len() < 2100 && value(&outcome, 0) != "0", "{}", seen.len());
}

/// After 12,000 datagrams of strangers, the host that received them still opens connections, and errors
/// about these datagrams are still translated.
#[test]
fn rfc4787_req_8_a_flood_of_strangers_cuts_no_host_off() {
    let stranger = |n: u16| end([3, 3, (n >> 8) as u8, n as u8], 1000 + n);
    let mut packets = vec![(0, udp(end(INSIDE, 5000), end(REMOTE, 53)))];
    packets.extend((0..12_000).map(|n| (1, udp(stranger(n), end(OUTER, 5000)))));
    packets.extend((0..500).map(|n| (2, tcp(end(INSIDE, 6000 + n), end(REMOTE, 80), SYN, b""))));
    // The host reports the datagram of stranger 9 as undeliverable. A datagram of stranger 10 arrives with
    // the time to live 1, so the gateway reports that its time is exceeded.
    let told = udp(stranger(9), end(INSIDE, 5000));
    packets.push((3, error(INSIDE, &told, 28)));
    packets.push((4, datagram(stranger(10), end(OUTER, 5000), 1, false, 10)));
    let handlers = ["nat.table_size", "nat.mapping_failures", "outside.count", "inside.count"];
    let (outcome, seen) = run_gateway(&packets, &handlers);
    assert_eq!([0, 1, 2, 3].map(|n| value(&outcome, n)), ["501", "0", "503", "12000"]);
    let refusal = &seen[seen.len() - 2];
    is_error(refusal, [UNREACHABLE, 1], OUTER, [3, 3, 0, 9], &udp(stranger(9), end(OUTER, 5000)));
    let last = datagram(stranger(10), end(OUTER, 5000), 1, false, 10);
    is_error(&seen[seen.len() - 1], [TIME_EXCEEDED, 0], OUTER, [3, 3, 0, 10], &last);
}
