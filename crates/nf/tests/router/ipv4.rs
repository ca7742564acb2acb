//! Tests of RFC 1812, and of the RFCs that it refers to, on the router in `configs/router.click`.

use wire::MacAddr;
use wire::ether_type;

use crate::net::*;

/// Runs the router on frames that arrive by the left link, a millisecond apart. All hosts have sent ARP
/// replies before, so that their Ethernet addresses are known.
fn from_left(frames: &[Vec<u8>]) -> Routed {
    let left = [LEFT, NEAR].map(|host| (0, arp_reply(host, ROUTER))).to_vec();
    let packets = frames.iter().enumerate().map(|(i, frame)| (1_000 * (i as i64 + 1), frame.clone()));
    let right = [RIGHT, FAR].map(|host| (0, arp_reply(host, ROUTER_RIGHT))).to_vec();
    run(
        "router.click",
        &left.into_iter().chain(packets).collect(),
        &right,
        &["martians.count", "groups.count"],
    )
}

/// Runs the router on one packet from the left host, as [`from_left`] does.
fn sent(packet: &[u8]) -> Routed {
    from_left(&[from(LEFT, packet)])
}

/// Returns the parts of a packet with an ICMP message: type and code, the second word of its header, and
/// the quoted packet.
fn message(packet: &[u8]) -> ([u8; 2], u32, &[u8]) {
    let length = usize::from(packet[0] & 15) * 4;
    assert_eq!(packet[9], 1, "not ICMP: {packet:x?}");
    let word = u32::from_be_bytes(packet[length + 4..length + 8].try_into().unwrap());
    ([packet[length], packet[length + 1]], word, &packet[length + 8..])
}

/// Asserts that the router answers a packet with an ICMP message of this type and code, from the interface
/// by which it arrived, and does not forward it. Returns the message's second word and the quoted packet.
fn is_answered(packet: &[u8], kind_and_code: [u8; 2]) -> (u32, Vec<u8>) {
    let routed = sent(packet);
    assert!(routed.packets(1).is_empty());
    let answer = routed.only(0);
    let (found, word, quoted) = message(&answer);
    assert_eq!((found, &answer[12..20]), (kind_and_code, &[ROUTER.ip, LEFT.ip].concat()[..]));
    (word, quoted.to_vec())
}

/// Returns a packet as it is after one hop: with the time to live decremented.
fn after_a_hop(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[8] -= 1;
    refill(&mut packet);
    packet
}

fn is_forwarded(packet: &[u8]) {
    let routed = sent(packet);
    assert_eq!(routed.only(1), after_a_hop(packet));
    assert!(routed.packets(0).is_empty());
}

const NOWHERE: [u8; 4] = [192, 0, 2, 1];

#[test]
fn rfc1812_5_2_1_packets_go_to_the_next_hop() {
    let direct = udp(LEFT.ip, RIGHT.ip, 100);
    let by_gateway = udp(LEFT.ip, [10, 9, 1, 1], 100);
    let routed = from_left(&[from(LEFT, &direct), from(LEFT, &by_gateway)]);
    let frames = routed.frames();
    let found: Vec<_> = frames.iter().map(|f| (f.link, f.to, f.from, &f.packet[..])).collect();
    let (first, second) = (after_a_hop(&direct), after_a_hop(&by_gateway));
    let router = ROUTER_RIGHT.mac;
    assert_eq!(found, [(1, RIGHT.mac, router, &first[..]), (1, FAR.mac, router, &second[..])]);
}

#[test]
fn rfc1812_5_2_2_malformed_headers_are_dropped_silently() {
    let sound = udp(LEFT.ip, RIGHT.ip, 100);
    let spoilt: [Spoil; 6] = [
        ("version", |p| p[0] = 0x55),
        ("header length", |p| p[0] = 0x44),
        ("total length below the header", |p| p[2..4].copy_from_slice(&[0, 19])),
        ("total length beyond the frame", |p| p[2..4].copy_from_slice(&[1, 0])),
        ("no whole header", |p| p.truncate(19)),
        ("options beyond the frame", |p| {
            p.truncate(24);
            p[0] = 0x4f;
        }),
    ];
    for (what, spoil) in spoilt {
        let mut packet = sound.clone();
        spoil(&mut packet);
        if packet.len() >= 60 && packet[0] & 15 >= 5 {
            refill(&mut packet);
        }
        // The frame has the EtherType of IPv4, whatever the packet's version field says.
        let mut frame = from(LEFT, &sound);
        frame.splice(14.., packet);
        assert!(from_left(&[frame]).is_silent(), "{what}");
    }
    is_forwarded(&sound);
}

#[test]
fn rfc1812_4_2_2_5_wrong_header_checksums_are_dropped_silently() {
    let mut packet = udp(LEFT.ip, RIGHT.ip, 100);
    packet[11] ^= 1;
    assert!(sent(&packet).is_silent());
}

#[test]
fn rfc1812_5_3_1_the_time_to_live_falls_and_what_has_none_left_is_answered() {
    for ttl in [0, 1] {
        let packet = changed(LEFT.ip, RIGHT.ip, 8, |builder| builder.ttl(ttl));
        let (unused, quoted) = is_answered(&packet, [11, 0]);
        assert_eq!((unused, quoted), (0, packet));
    }
    is_forwarded(&changed(LEFT.ip, RIGHT.ip, 8, |builder| builder.ttl(2)));
}

#[test]
fn rfc1812_4_2_2_9_what_is_for_the_router_needs_no_time_to_live() {
    let mut ping = icmp(LEFT.ip, ROUTER.ip, 8, 0, b"ping");
    ping[8] = 1;
    refill(&mut ping);
    assert_eq!(message(&sent(&ping).only(0)).0, [0, 0]);
}

#[test]
fn rfc1812_4_2_2_7_long_packets_are_fragmented() {
    let packet = udp(LEFT.ip, RIGHT.ip, 1400);
    let fragments = sent(&packet).packets(1);
    assert_eq!(fragments.len(), 2);
    let mut joined = vec![0; packet.len() - 20];
    for fragment in &fragments {
        assert!(fragment.len() <= 1280);
        let word = u16::from_be_bytes([fragment[6], fragment[7]]);
        let at = usize::from(word & 0x1fff) * 8;
        let end = at + fragment.len() - 20;
        joined[at..end].copy_from_slice(&fragment[20..]);
        assert_eq!(word & 0x2000 == 0, end == joined.len(), "more fragments follow but the last");
    }
    assert_eq!(joined, packet[20..]);
}

#[test]
fn rfc1191_4_long_packets_that_must_stay_whole_are_answered_with_the_mtu() {
    let packet = changed(LEFT.ip, RIGHT.ip, 1400, |builder| builder.fragment(0x4000));
    let (word, quoted) = is_answered(&packet, [3, 4]);
    assert_eq!(word, 1280);
    assert_eq!(quoted, after_a_hop(&packet)[..548]);
}

#[test]
fn rfc1812_4_2_2_8_fragments_for_the_router_are_joined() {
    let ping = icmp(LEFT.ip, ROUTER.ip, 8, 0, &[9; 32]);
    let part = |range: std::ops::Range<usize>, word: u16| {
        let mut bytes = [&ping[..20], &ping[20..][range]].concat();
        let total = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[6..8].copy_from_slice(&word.to_be_bytes());
        refill(&mut bytes);
        from(LEFT, &bytes)
    };
    let routed = from_left(&[part(24..40, 3), part(0..24, 0x2000)]);
    assert_eq!(routed.only(0)[28..], [9; 32]);
}

#[test]
fn rfc1812_5_2_7_1_without_a_route_the_network_is_unreachable() {
    let packet = udp(LEFT.ip, NOWHERE, 8);
    assert_eq!(is_answered(&packet, [3, 0]), (0, packet));
}

#[test]
fn rfc1122_3_2_2_1_the_router_says_what_it_does_not_have() {
    let packet = udp(LEFT.ip, ROUTER.ip, 8);
    assert_eq!(is_answered(&packet, [3, 3]).1, packet);
    let mut other = packet.clone();
    other[9] = 99;
    refill(&mut other);
    assert_eq!(is_answered(&other, [3, 2]).1, other);
}

#[test]
fn rfc1812_4_3_2_3_messages_quote_as_much_as_fits_into_576_bytes() {
    let packet = changed(LEFT.ip, RIGHT.ip, 1000, |builder| builder.ttl(1));
    let routed = sent(&packet);
    assert_eq!((routed.only(0).len(), &routed.only(0)[28..]), (576, &packet[..548]));
}

#[test]
fn rfc1812_4_3_2_4_messages_come_from_the_interface_that_they_leave_by() {
    // The message comes from the interface by which the packet arrived, not from that by which it would
    // have left.
    is_answered(&changed(LEFT.ip, RIGHT.ip, 8, |builder| builder.ttl(1)), [11, 0]);
}

#[test]
fn rfc1812_4_3_2_5_messages_have_the_precedence_of_internetwork_control() {
    let answer = sent(&udp(LEFT.ip, NOWHERE, 8)).only(0);
    assert_eq!(answer[1] >> 5, 6);
}

#[test]
fn rfc1812_4_3_2_6_messages_go_back_the_way_of_a_source_route() {
    let packet = changed(LEFT.ip, RIGHT.ip, 8, |builder| builder.ttl(1));
    // A loose source route with two stops, both of which have been passed. The answer goes back by the same
    // stops.
    let route = [131, 11, 12, 10, 7, 0, 1, 10, 7, 0, 2];
    let answer = sent(&with_options(&packet, &route)).only(0);
    assert_eq!(answer[20..32], [131, 11, 4, 10, 7, 0, 2, 10, 7, 0, 1, 0]);
    assert_eq!(answer[16..20], LEFT.ip);
}

#[test]
fn rfc1812_4_3_2_7_no_messages_about_what_must_not_be_answered() {
    let to =
        |destination: [u8; 4], source: [u8; 4]| changed(source, destination, 8, |builder| builder.ttl(1));
    let quoted = udp(NOWHERE, LEFT.ip, 8);
    let fragment = changed(LEFT.ip, NOWHERE, 8, |builder| builder.fragment(5));
    let cases = [
        ("an error", icmp(LEFT.ip, NOWHERE, 3, 1, &quoted)),
        ("a redirect", icmp(LEFT.ip, NOWHERE, 5, 1, &quoted)),
        ("a later fragment", fragment),
        ("to a group", to([224, 0, 0, 5], LEFT.ip)),
        ("to everybody", to([255; 4], LEFT.ip)),
        ("to a network", to([10, 2, 0, 255], LEFT.ip)),
        ("from nobody", to(NOWHERE, [0; 4])),
        ("from a group", to(NOWHERE, [224, 0, 0, 5])),
        ("from everybody", to(NOWHERE, [255; 4])),
        ("from a network", to(NOWHERE, [10, 1, 0, 255])),
        ("from the loopback", to(NOWHERE, [127, 0, 0, 1])),
    ];
    for (what, packet) in cases {
        assert!(sent(&packet).is_silent(), "{what}");
    }
    // A unicast packet in a broadcast frame is not answered.
    let shared = framed(MacAddr::BROADCAST, LEFT.mac, &udp(LEFT.ip, NOWHERE, 8));
    assert!(from_left(&[shared]).is_silent());
    // A request is no error message, so it is answered.
    is_answered(&icmp(LEFT.ip, NOWHERE, 8, 0, b"ping"), [3, 0]);
}

#[test]
fn rfc1812_4_3_2_8_messages_are_limited() {
    let frames: Vec<_> = (0..200).map(|i| (1_000 * i, from(LEFT, &udp(LEFT.ip, NOWHERE, 8)))).collect();
    let mut left = vec![(0, arp_reply(LEFT, ROUTER))];
    left.extend(frames);
    let routed = run_changed("router.click", &left, &Vec::new(), &["limited.count"], |text| {
        text.replace("$ERRORS 1000)", "$ERRORS 50)")
    });
    let sent = routed.packets(0).len();
    // 50 messages per second are 10 in 0.2 seconds; the initial contents of the token bucket allow up to
    // three more.
    assert!((10..=13).contains(&sent), "{sent}");
    assert_eq!(routed.value(0), (200 - sent).to_string());
}

#[test]
fn rfc1812_4_3_3_5_bad_options_are_a_parameter_problem() {
    let packet = udp(LEFT.ip, RIGHT.ip, 8);
    // A record route option that exceeds the header, and one whose pointer points into the option's own
    // header.
    for (options, place) in [(&[7, 9, 4, 0][..], 21u32), (&[1, 7, 7, 3, 0, 0, 0, 0][..], 23)] {
        let packet = with_options(&packet, options);
        let (word, quoted) = is_answered(&packet, [12, 0]);
        assert_eq!((word >> 24, &quoted), (place, &packet));
    }
}

#[test]
fn rfc1812_5_2_7_2_hosts_with_a_shorter_way_are_redirected() {
    let packet = udp(LEFT.ip, NEAR.ip, 8);
    let routed = sent(&packet);
    let packets = routed.packets(0);
    let [redirect, forwarded] = &packets[..] else { panic!("{packets:x?}") };
    let (kind, gateway, quoted) = message(redirect);
    assert_eq!((kind, gateway), ([5, 1], u32::from_be_bytes(NEAR.ip)));
    assert_eq!((&redirect[16..20], quoted, forwarded), (&LEFT.ip[..], &packet[..], &after_a_hop(&packet)));
    // Hosts that are no neighbours get no redirect, and neither do packets with a source route.
    assert_eq!(sent(&udp([10, 77, 0, 1], NEAR.ip, 8)).packets(0).len(), 1);
    let chosen = with_options(&packet, &[131, 7, 8, 10, 7, 0, 1]);
    assert_eq!(sent(&chosen).packets(0).len(), 1);
}

#[test]
fn rfc1812_5_3_4_what_came_to_all_on_the_link_is_not_forwarded() {
    let packet = udp(LEFT.ip, RIGHT.ip, 8);
    for to in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 5])] {
        assert!(from_left(&[framed(to, LEFT.mac, &packet)]).is_silent());
    }
    // A packet in a frame for another host's Ethernet address is neither forwarded nor answered.
    assert!(from_left(&[framed(NEAR.mac, LEFT.mac, &packet)]).is_silent());
}

#[test]
fn rfc1812_5_3_5_broadcasts_are_not_forwarded() {
    let everybody: [[u8; 4]; 5] = [[255; 4], [10, 2, 0, 255], [10, 2, 0, 0], [10, 1, 0, 255], [10, 1, 0, 0]];
    for to in everybody {
        let routed = sent(&udp(LEFT.ip, to, 8));
        assert!(routed.is_silent(), "{to:?}");
        assert_eq!(routed.value(1), "1", "{to:?}");
    }
}

#[test]
fn rfc1812_4_2_3_2_groups_are_not_forwarded() {
    assert!(sent(&udp(LEFT.ip, [239, 1, 2, 3], 8)).is_silent());
}

#[test]
fn rfc1812_5_3_7_martians_are_dropped() {
    let sources = [[0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4], [10, 2, 0, 255]];
    for source in sources {
        assert!(sent(&udp(source, RIGHT.ip, 8)).is_silent(), "from {source:?}");
    }
    for destination in [[0; 4], [0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1]] {
        let routed = sent(&udp(LEFT.ip, destination, 8));
        assert!(routed.is_silent() && routed.value(0) == "1", "to {destination:?}");
    }
}

#[test]
fn rfc1812_5_3_13_1_unknown_options_pass() {
    let packet = udp(LEFT.ip, RIGHT.ip, 8);
    is_forwarded(&with_options(&packet, &[0x9e, 4, 1, 2]));
    // The options security, stream identifier and router alert are passed on unchanged.
    is_forwarded(&with_options(&packet, &[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    is_forwarded(&with_options(&packet, &[136, 4, 0, 7, 148, 4, 0, 0]));
}

#[test]
fn rfc1812_5_3_13_6_routes_are_recorded() {
    let packet = with_options(&udp(LEFT.ip, RIGHT.ip, 8), &[7, 7, 4, 0, 0, 0, 0]);
    let mut expected = after_a_hop(&packet);
    expected[22] = 8;
    expected[23..27].copy_from_slice(&ROUTER_RIGHT.ip);
    refill(&mut expected);
    assert_eq!(sent(&packet).only(1), expected);
}

#[test]
fn rfc1812_5_3_13_7_times_are_recorded() {
    let packet = with_options(&udp(LEFT.ip, RIGHT.ip, 8), &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let forwarded = sent(&packet).only(1);
    assert_eq!((forwarded[22], &forwarded[24..28]), (13, &ROUTER_RIGHT.ip[..]));
    // The timestamp option has the time in milliseconds since midnight; the packet comes a millisecond after
    // the start.
    let midnight = START / 1_000 % 86_400_000;
    assert_eq!(i64::from(u32::from_be_bytes(forwarded[28..32].try_into().unwrap())), midnight + 1);
}

#[test]
fn rfc1812_5_3_2_the_type_of_service_passes() {
    is_forwarded(&changed(LEFT.ip, RIGHT.ip, 8, |builder| builder.tos(0xb9)));
}

#[test]
fn rfc1812_4_3_3_6_pings_are_answered() {
    let ping = icmp(LEFT.ip, ROUTER_RIGHT.ip, 8, 0, b"as it came");
    let answer = sent(&ping).only(0);
    assert_eq!(answer[12..20], [ROUTER_RIGHT.ip, LEFT.ip].concat());
    assert_eq!((answer[20], &answer[24..]), (0, &ping[24..]));
    let mut spoilt = ping.clone();
    spoilt[30] ^= 1;
    assert!(sent(&spoilt).is_silent(), "with a wrong checksum");
    assert!(sent(&icmp(LEFT.ip, [10, 1, 0, 255], 8, 0, b"everybody")).is_silent());
}

#[test]
fn rfc1812_3_3_2_addresses_are_asked_for_and_packets_wait() {
    let packets: Vec<_> = (0..3).map(|i| udp(LEFT.ip, RIGHT.ip, 10 + i)).collect();
    let left = packets.iter().map(|packet| (0, from(LEFT, packet))).collect();
    let routed = run("router.click", &left, &vec![(5_000, arp_reply(RIGHT, ROUTER_RIGHT))], &[]);
    let frames = routed.frames();
    assert_eq!((frames[0].ether_type, frames[0].to, frames.len()), (ether_type::ARP, MacAddr::BROADCAST, 4));
    assert_eq!(frames[0].packet[24..28], RIGHT.ip);
    let forwarded: Vec<_> = packets.iter().map(|packet| after_a_hop(packet)).collect();
    assert_eq!(routed.packets(1), forwarded);
}

#[test]
fn rfc826_requests_for_the_router_are_answered() {
    let request = |ip| arp(1, MacAddr::BROADCAST, LEFT, (ip, MacAddr([0; 6])));
    let routed = run("router.click", &vec![(0, request(ROUTER.ip)), (0, request(NEAR.ip))], &Vec::new(), &[]);
    let frames = routed.frames();
    assert_eq!(frames.len(), 1);
    let expected = arp(2, LEFT.mac, Host { ..ROUTER }, (LEFT.ip, LEFT.mac));
    assert_eq!((frames[0].link, &frames[0].packet[..28]), (0, &expected[14..]));
}

#[test]
fn rfc1812_4_2_1_padding_is_cut_off() {
    let packet = udp(LEFT.ip, RIGHT.ip, 1);
    let mut frame = from(LEFT, &packet);
    frame.resize(60, 0xee);
    assert_eq!(from_left(&[frame]).only(1), after_a_hop(&packet));
}

#[test]
fn rfc1812_3_3_2_hosts_that_do_not_answer_are_unreachable() {
    let nobody = [10, 2, 0, 77];
    let packets: Vec<_> = (0..2).map(|i| udp(LEFT.ip, nobody, 10 + i)).collect();
    let mut left = vec![(0, arp_reply(LEFT, ROUTER))];
    left.extend(packets.iter().map(|packet| (1_000, from(LEFT, packet))));
    // The host RIGHT answers the router's ARP query in time, so only the host 10.2.0.77 is reported as
    // unreachable.
    left.push((2_000_000, from(LEFT, &udp(LEFT.ip, RIGHT.ip, 30))));
    let right = vec![(4_900_000, arp_reply(RIGHT, ROUTER_RIGHT)), (6_000_000, arp_reply(FAR, ROUTER_RIGHT))];
    let routed = run("router.click", &left, &right, &[]);
    let answers = routed.packets(0);
    assert_eq!(answers.len(), 2);
    for (answer, packet) in answers.iter().zip(&packets) {
        let (found, _, quoted) = message(answer);
        assert_eq!((found, &answer[12..20]), ([3, 1], &[ROUTER.ip, LEFT.ip].concat()[..]));
        assert_eq!(quoted, after_a_hop(packet), "as it waited");
    }
    assert_eq!(routed.packets(1), [after_a_hop(&udp(LEFT.ip, RIGHT.ip, 30))]);
    // An error about a packet is not answered with another error, even if it cannot be delivered.
    let error = icmp(LEFT.ip, nobody, 3, 1, &packets[0]);
    let left = vec![(0, arp_reply(LEFT, ROUTER)), (1_000, from(LEFT, &error))];
    assert!(
        run("router.click", &left, &vec![(6_000_000, arp_reply(FAR, ROUTER_RIGHT))], &[])
            .packets(0)
            .is_empty()
    );
}
