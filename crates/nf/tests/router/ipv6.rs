//! Tests of RFC 4291, RFC 4443, RFC 4861, RFC 5095, RFC 6583 and RFC 8200 on the router in
//! `configs/router6.click`.

use std::net::{IpAddr, Ipv6Addr};

use wire::MacAddr;
use wire::neighbor::flag;

use crate::net::*;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Returns the router's link-local address, which is the same on both links.
fn link_local() -> Ipv6Addr {
    ip("fe80::fe")
}

/// Runs the router on frames that arrive by the left link, 20 ms apart. Hosts answer neighbour
/// solicitations 2 ms after each frame.
fn from_left(frames: &[Vec<u8>]) -> Routed {
    let (mut left, mut right) = (Arrivals::new(), Arrivals::new());
    for (i, frame) in frames.iter().enumerate() {
        let time = 20_000 * i as i64;
        left.push((time, frame.clone()));
        left.extend([LEFT, NEAR].map(|host| (time + 2_000, advertisement(host, ROUTER))));
        right.extend([RIGHT, FAR].map(|host| (time + 2_000, advertisement(host, ROUTER_RIGHT))));
    }
    run("router6.click", &left, &right, &["groups.count", "from_left/martians.count"])
}

fn sent(packet: &[u8]) -> Routed {
    from_left(&[from(LEFT, packet)])
}

/// Returns the parts of a packet with an ICMPv6 message: type and code, the second word of its header, and
/// the quoted packet.
fn message(packet: &[u8]) -> ([u8; 2], u32, &[u8]) {
    assert_eq!(packet[6], 58, "not ICMPv6: {packet:x?}");
    let word = u32::from_be_bytes(packet[44..48].try_into().unwrap());
    ([packet[40], packet[41]], word, &packet[48..])
}

/// Asserts that the router answers a packet with an ICMPv6 message of this type and code to its sender, and
/// does not forward it. Returns the message's second word and the quoted packet.
fn is_answered(packet: &[u8], kind_and_code: [u8; 2]) -> (u32, Vec<u8>) {
    let routed = sent(packet);
    assert!(routed.packets(1).is_empty());
    let answer = routed.only(0);
    let (found, word, quoted) = message(&answer);
    assert_eq!((found, &answer[24..40]), (kind_and_code, &LEFT.ip6.octets()[..]));
    let sources = [ROUTER, ROUTER_RIGHT].map(|router| router.ip6.octets());
    assert!(sources.iter().any(|source| answer[8..24] == *source));
    (word, quoted.to_vec())
}

fn after_a_hop(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[7] -= 1;
    packet
}

fn is_forwarded(packet: &[u8]) {
    let routed = sent(packet);
    assert_eq!(routed.packets(1), [after_a_hop(packet)]);
    assert!(routed.packets(0).is_empty());
}

/// Inserts extension headers after the IPv6 header. Each is given by its type and its bytes after the first
/// (next header).
fn with_extensions(packet: &[u8], headers: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = packet[..40].to_vec();
    let kinds: Vec<u8> = headers.iter().map(|(kind, _)| *kind).chain([packet[6]]).collect();
    bytes[6] = kinds[0];
    for ((_, rest), next) in headers.iter().zip(&kinds[1..]) {
        bytes.push(*next);
        bytes.extend_from_slice(rest);
    }
    bytes.extend_from_slice(&packet[40..]);
    let length = (bytes.len() - 40) as u16;
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// The bytes of an options header (for the destination or for each hop) after the first, with padding only.
const PADDING: &[u8] = &[0, 1, 4, 0, 0, 0, 0];

fn nowhere() -> Ipv6Addr {
    ip("2001:db8:ffff::1")
}

#[test]
fn rfc8200_3_packets_go_to_the_next_hop() {
    let direct = udp(LEFT.ip6, RIGHT.ip6, 100);
    let by_gateway = udp(LEFT.ip6, ip("2001:db8:9::1"), 100);
    let routed = from_left(&[from(LEFT, &direct), from(LEFT, &by_gateway)]);
    assert_eq!(routed.packets(1), [after_a_hop(&direct), after_a_hop(&by_gateway)]);
    let to: Vec<MacAddr> =
        routed.frames().iter().filter(|f| f.link == 1 && f.packet[6] == 17).map(|f| f.to).collect();
    assert_eq!(to, [RIGHT.mac, FAR.mac]);
}

#[test]
fn rfc8200_3_malformed_headers_are_dropped() {
    let sound = udp(LEFT.ip6, RIGHT.ip6, 100);
    let spoilt: [Spoil; 3] = [
        ("version", |p| p[0] = 0x50),
        ("payload beyond the frame", |p| p[4] = 9),
        ("no whole header", |p| p.truncate(39)),
    ];
    for (what, spoil) in spoilt {
        let mut packet = sound.clone();
        spoil(&mut packet);
        let mut frame = from(LEFT, &sound);
        frame.splice(14.., packet);
        assert!(from_left(&[frame]).is_silent(), "{what}");
    }
}

#[test]
fn rfc8200_3_and_rfc4443_3_3_the_hop_limit_falls_and_what_has_none_left_is_answered() {
    for limit in [0, 1] {
        let packet = changed(LEFT.ip6, RIGHT.ip6, 8, |builder| builder.ttl(limit));
        assert_eq!(is_answered(&packet, [3, 0]), (0, packet));
    }
    is_forwarded(&changed(LEFT.ip6, RIGHT.ip6, 8, |builder| builder.ttl(2)));
}

#[test]
fn rfc8200_4_extension_headers_pass_unread() {
    let packet = udp(LEFT.ip6, RIGHT.ip6, 50);
    let route = &[0, 4, 1, 0, 0, 0, 0];
    is_forwarded(&with_extensions(&packet, &[(60, PADDING)]));
    is_forwarded(&with_extensions(&packet, &[(0, PADDING), (60, PADDING), (43, route), (60, PADDING)]));
    is_forwarded(&with_extensions(&packet, &[(44, &[0, 0, 1, 0, 0, 0, 7])]));
    // The destination has to detect wrong lengths or too many headers. The router forwards the packet.
    is_forwarded(&with_extensions(&packet, &[(60, &[200, 1, 4, 0, 0, 0, 0])]));
    is_forwarded(&with_extensions(&packet, &[(60, PADDING); 30]));
}

#[test]
fn rfc8200_4_5_and_rfc4443_3_2_routers_do_not_fragment_but_say_the_mtu() {
    let packet = udp(LEFT.ip6, RIGHT.ip6, 1400);
    let (word, quoted) = is_answered(&packet, [2, 0]);
    assert_eq!((word, quoted.len() + 48), (1280, 1280));
    assert_eq!(quoted, after_a_hop(&packet)[..1232]);
}

#[test]
fn rfc8200_5_packets_of_1280_bytes_pass() {
    is_forwarded(&udp(LEFT.ip6, RIGHT.ip6, 1280 - 48));
}

#[test]
fn rfc4443_3_1_without_a_route_there_is_none() {
    let packet = udp(LEFT.ip6, nowhere(), 8);
    assert_eq!(is_answered(&packet, [1, 0]), (0, packet));
}

#[test]
fn rfc4443_3_1_and_rfc4291_2_5_6_link_local_sources_are_beyond_scope() {
    let host = Host { ip6: ip("fe80::1"), ..LEFT };
    let packet = udp(host.ip6, RIGHT.ip6, 8);
    let left = vec![(0, from(LEFT, &packet)), (2_000, advertisement(host, ROUTER))];
    let routed = run("router6.click", &left, &Vec::new(), &[]);
    let answer = routed.only(0);
    let (found, _, quoted) = message(&answer);
    assert_eq!((found, quoted, &answer[24..40]), ([1, 2], &packet[..], &host.ip6.octets()[..]));
    assert!(routed.packets(1).is_empty());
}

#[test]
fn rfc4443_3_1_and_rfc4861_7_2_2_unanswered_addresses_are_unreachable() {
    let packet = udp(LEFT.ip6, RIGHT.ip6, 8);
    let left = vec![(0, from(LEFT, &packet)), (3_002_000, advertisement(LEFT, ROUTER))];
    let routed = run("router6.click", &left, &Vec::new(), &["right_nd.table", "right_nd.stats"]);
    let answer = routed.only(0);
    assert_eq!((message(&answer).0, message(&answer).2), ([1, 3], &after_a_hop(&packet)[..]));
    // The router sends three solicitations, a second apart.
    let questions: Vec<_> = routed.frames().into_iter().filter(|frame| frame.link == 1).collect();
    assert_eq!(questions.iter().map(|frame| frame.time).collect::<Vec<_>>(), [0, 1_000_000, 2_000_000]);
    for question in questions {
        assert_eq!(question.to, MacAddr([0x33, 0x33, 0xff, 0, 0, 1]));
        assert_eq!((question.packet[7], question.packet[40], is_sound(&question.packet)), (255, 135, true));
        assert_eq!(question.packet[8..24], ROUTER_RIGHT.ip6.octets());
        assert_eq!(question.packet[24..40], ip("ff02::1:ff00:1").octets());
        assert_eq!(question.packet[48..64], RIGHT.ip6.octets());
        assert_eq!(question.packet[64..], [&[1, 1][..], &ROUTER_RIGHT.mac.0].concat());
    }
    assert_eq!(routed.value(0), "");
    assert_eq!(routed.value(1), "1 packets killed\n3 ND Solicitation Message sent\n");
}

#[test]
fn rfc4443_3_1_and_3_4_the_router_says_what_it_does_not_have() {
    let packet = udp(LEFT.ip6, ROUTER.ip6, 8);
    assert_eq!(is_answered(&packet, [1, 4]).1, packet);
    let mut other = packet.clone();
    other[6] = 99;
    assert_eq!(is_answered(&other, [4, 1]), (6, other));
}

#[test]
fn rfc8200_4_what_must_be_stepped_over_is_not_refused() {
    let packet = udp(LEFT.ip6, ROUTER.ip6, 8);
    let ping = icmp(LEFT.ip6, ROUTER.ip6, 128, 0, b"ping");
    // The bytes of an options header after the first: length 0 and six bytes of padding.
    let padding: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let mut nothing = packet[..40].to_vec();
    (nothing[5], nothing[6]) = (0, 59);
    for silent in [
        nothing,
        with_extensions(&packet, &[(0, padding)]),
        with_extensions(&ping, &[(0, padding)]),
        with_extensions(&packet, &[(60, padding)]),
        with_extensions(&ping, &[(60, padding)]),
        with_extensions(&packet, &[(43, &[0, 2, 0, 0, 0, 0, 0])]),
    ] {
        let routed = sent(&silent);
        assert!(routed.packets(0).is_empty() && routed.packets(1).is_empty(), "{:x?}", routed.packets(0));
    }
}

#[test]
fn rfc4443_3_1_hosts_without_a_global_address_get_messages_too() {
    let near = ip("fe80::1");
    for to in [link_local(), ROUTER.ip6] {
        let packet = udp(near, to, 8);
        let answer =
            advertised(LEFT.mac, [near, link_local(), near], flag::SOLICITED | flag::OVERRIDE, ROUTER.mac);
        let left = [(0, from(LEFT, &packet)), (2_000, answer.clone())];
        let (left, right) = (left.to_vec(), Arrivals::new());
        let routed = run("router6.click", &left, &right, &[]);
        let message_of = |packet: &Vec<u8>| packet[6] == 58 && packet[40] == 1;
        let messages: Vec<_> = routed.packets(0).into_iter().filter(message_of).collect();
        let [answer] = &messages[..] else { panic!("{messages:x?}") };
        let (kind, _, quoted) = message(answer);
        assert_eq!((kind, quoted, &answer[24..40]), ([1, 4], &packet[..], &near.octets()[..]));
    }
}

#[test]
fn rfc5095_3_and_rfc8200_4_4_routes_of_type_0_are_not_followed() {
    let packet = with_extensions(&udp(LEFT.ip6, ROUTER.ip6, 8), &[(43, &[0, 0, 1, 0, 0, 0, 0])]);
    let (pointer, _) = is_answered(&packet, [4, 0]);
    assert_eq!(packet[pointer as usize], 0, "the routing type");
    assert_eq!(pointer, 42);
}

#[test]
fn rfc4443_2_4_c_messages_fit_into_the_least_mtu() {
    let packet = changed(LEFT.ip6, RIGHT.ip6, 1200, |builder| builder.ttl(1));
    let routed = sent(&packet);
    assert_eq!((routed.only(0).len(), &routed.only(0)[48..]), (1280, &packet[..1232]));
}

#[test]
fn rfc4443_2_4_e_no_messages_about_what_must_not_be_answered() {
    let expired = |from: Ipv6Addr, to: Ipv6Addr| changed(from, to, 8, |builder| builder.ttl(1));
    let quoted = udp(nowhere(), LEFT.ip6, 8);
    let cases = [
        ("an error", icmp(LEFT.ip6, nowhere(), 1, 0, &quoted)),
        ("an error that nobody knows", icmp(LEFT.ip6, nowhere(), 99, 0, &quoted)),
        ("a redirect", icmp(LEFT.ip6, nowhere(), 137, 0, &quoted)),
        (
            "an error behind options",
            with_extensions(&icmp(LEFT.ip6, nowhere(), 3, 0, &quoted), &[(60, PADDING)]),
        ),
        ("to a group", expired(LEFT.ip6, ip("ff05::5"))),
        ("from a group", expired(ip("ff05::5"), RIGHT.ip6)),
        ("from nobody", expired(Ipv6Addr::UNSPECIFIED, RIGHT.ip6)),
        ("from the loopback", expired(Ipv6Addr::LOCALHOST, RIGHT.ip6)),
    ];
    for (what, packet) in cases {
        assert!(sent(&packet).is_silent(), "{what}");
    }
    let shared = framed(MacAddr([0x33, 0x33, 0, 0, 0, 1]), LEFT.mac, &udp(LEFT.ip6, nowhere(), 8));
    assert!(from_left(&[shared]).is_silent(), "to all on the link");
    is_answered(&icmp(LEFT.ip6, nowhere(), 128, 0, b"ping"), [1, 0]);
}

#[test]
fn rfc4443_2_4_f_messages_are_limited() {
    let packets = (0..200).map(|i| (1_000 * i, from(LEFT, &udp(LEFT.ip6, nowhere(), 8))));
    let mut left: Arrivals = packets.collect();
    left.insert(1, (500, advertisement(LEFT, ROUTER)));
    let routed = run_changed("router6.click", &left, &Vec::new(), &["limited.count"], |text| {
        text.replace("$ERRORS 1000)", "$ERRORS 50)")
    });
    let sent = routed.packets(0).len();
    assert!((10..=13).contains(&sent), "{sent}");
    assert_eq!(routed.value(0), (200 - sent).to_string());
}

#[test]
fn rfc4443_4_2_pings_are_answered() {
    // The router answers pings to its own addresses and to the subnet-router anycast address (RFC 4291,
    // section 2.6.1).
    for to in [ROUTER.ip6, ROUTER_RIGHT.ip6, ip("2001:db8:1::")] {
        let ping = icmp(LEFT.ip6, to, 128, 0, b"as it came");
        let answer = sent(&ping).only(0);
        assert_eq!((&answer[8..24], &answer[24..40]), (&to.octets()[..], &LEFT.ip6.octets()[..]));
        assert_eq!((answer[40], &answer[44..]), (129, &ping[44..]));
    }
    let host = Host { ip6: ip("fe80::1"), ..LEFT };
    let ping = icmp(host.ip6, link_local(), 128, 0, b"near");
    let left = vec![(0, from(LEFT, &ping)), (2_000, advertisement(host, ROUTER))];
    let answer = run("router6.click", &left, &Vec::new(), &[]).only(0);
    assert_eq!((answer[40], &answer[24..40]), (129, &host.ip6.octets()[..]));
}

#[test]
fn rfc4291_2_5_and_2_7_packets_stay_in_their_scope() {
    let silent = [
        (LEFT.ip6, ip("fe80::2")),
        (LEFT.ip6, ip("ff02::1")),
        (LEFT.ip6, ip("ff0e::1")),
        (LEFT.ip6, Ipv6Addr::UNSPECIFIED),
        (LEFT.ip6, Ipv6Addr::LOCALHOST),
        (ip("fe80::1"), ip("fe80::2")),
    ];
    for (from, to) in silent {
        assert!(sent(&udp(from, to, 8)).is_silent(), "{from} to {to}");
    }
    assert!(from_left(&[framed(NEAR.mac, LEFT.mac, &udp(LEFT.ip6, RIGHT.ip6, 8))]).is_silent());
}

/// Runs the router while these frames arrive by the right link. One packet per second comes for the right
/// host, `packets` in total. Returns what was routed, and the right host's entry in the neighbour cache.
fn cache_after(right: &Arrivals, packets: i64) -> (Routed, String) {
    let packet = from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 8));
    let left = (0..packets).map(|i| (1_000_000 * i, packet.clone())).collect();
    cache_of(run("router6.click", &left, right, &["right_nd.table"]))
}

/// Returns the right host's entry in the neighbour cache, as [`cache_after`] does, after one packet for this
/// host, and with a router that accepts unsolicited advertisements.
fn credulous_cache_after(right: &Arrivals) -> String {
    let left = vec![(0, from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 8)))];
    let credulous = |text: String| text.replace("(right, right)", "(right, right, UNSOLICITED true)");
    cache_of(run_changed("router6.click", &left, right, &["right_nd.table"], credulous)).1
}

fn cache_of(routed: Routed) -> (Routed, String) {
    let line = routed.value(0).lines().next().unwrap_or_default().replace("2001:db8:2::1 ", "");
    (routed, line)
}

/// Makes an advertisement of the right host to `to` with these flags and another Ethernet address.
fn moved(flags: u32, to: Ipv6Addr) -> Vec<u8> {
    advertised(MacAddr([2, 0, 0, 0, 2, 9]), [RIGHT.ip6, to, RIGHT.ip6], flags, ROUTER_RIGHT.mac)
}

#[test]
fn rfc4861_7_2_5_answers_are_learnt() {
    let answer = advertisement(RIGHT, ROUTER_RIGHT);
    assert_eq!(cache_after(&vec![(2_000, answer.clone())], 1).1, "1 02-00-00-00-02-01");
    // A neighbour advertisement that answers no solicitation makes no entry in the neighbour cache.
    assert_eq!(cache_after(&vec![(2_000, answer)], 0).1, "");
}

#[test]
fn rfc4861_7_2_5_what_is_known_changes_only_where_it_may() {
    let all: Ipv6Addr = ip("ff02::1");
    let answer = (2_000, advertisement(RIGHT, ROUTER_RIGHT));
    let (old, new) = ("1 02-00-00-00-02-01", "1 02-00-00-00-02-09");
    let after = |flags, to| cache_after(&vec![answer.clone(), (4_000, moved(flags, to))], 1).1;
    // Without the argument UNSOLICITED, an unsolicited advertisement does not replace the cached Ethernet
    // address of a host that still answers.
    assert_eq!(after(flag::OVERRIDE, all), old);
    assert_eq!(after(flag::OVERRIDE | flag::SOLICITED, ROUTER_RIGHT.ip6), old);
    let credulous = |flags, to| credulous_cache_after(&vec![answer.clone(), (4_000, moved(flags, to))]);
    assert_eq!(credulous(flag::OVERRIDE, all), new);
    assert_eq!(credulous(flag::OVERRIDE | flag::SOLICITED, ROUTER_RIGHT.ip6), new);
    assert_eq!(credulous(0, all), old);
    assert_eq!(after(0, all), old);
    assert_eq!(after(flag::SOLICITED, ROUTER_RIGHT.ip6), old);
}

#[test]
fn advertisements_of_what_no_host_has_are_of_no_effect() {
    for mac in [MacAddr([0; 6]), MacAddr([0xff; 6]), ROUTER_RIGHT.mac] {
        let addresses = [RIGHT.ip6, ROUTER_RIGHT.ip6, RIGHT.ip6];
        let frame = advertised(mac, addresses, flag::SOLICITED | flag::OVERRIDE, ROUTER_RIGHT.mac);
        assert!(!cache_after(&vec![(2_000, frame)], 1).1.starts_with("1 "), "{mac}");
    }
}

#[test]
fn rfc4861_7_2_5_doubtful_addresses_are_asked_about_when_they_are_used() {
    let right = vec![(2_000, advertisement(RIGHT, ROUTER_RIGHT)), (4_000, moved(0, ip("ff02::1")))];
    let (routed, _) = cache_after(&right, 2);
    let questions = routed.frames().into_iter().filter(|f| f.link == 1 && f.packet[40] == 135);
    let questions: Vec<_> = questions.map(|f| (f.time, f.to, f.packet[24..40].to_vec())).collect();
    assert_eq!(questions.len(), 2, "{questions:x?}");
    // The router asks the host at the cached Ethernet address only.
    assert_eq!(questions[1], (1_000_000, RIGHT.mac, RIGHT.ip6.octets().to_vec()));
}

#[test]
fn rfc4861_7_1_2_invalid_advertisements_are_of_no_effect() {
    let spoilt: [Spoil; 4] = [
        ("hop limit", |f| f[14 + 7] = 254),
        ("checksum", |f| f[14 + 42] ^= 1),
        ("code", |f| f[14 + 41] = 1),
        ("an option without length", |f| f[14 + 65] = 0),
    ];
    for (what, spoil) in spoilt {
        let mut frame = advertisement(RIGHT, ROUTER_RIGHT);
        spoil(&mut frame);
        let (routed, line) = cache_after(&vec![(2_000, frame)], 1);
        assert!(routed.packets(1).is_empty(), "{what}");
        assert_eq!(line, "", "{what}");
    }
}

#[test]
fn rfc4861_7_2_2_the_newest_packet_waits() {
    let packets = [30, 40].map(|size| udp(LEFT.ip6, RIGHT.ip6, size));
    let left = packets.iter().map(|packet| (0, from(LEFT, packet))).collect();
    let right = vec![(2_000, advertisement(RIGHT, ROUTER_RIGHT))];
    let routed = run("router6.click", &left, &right, &["right_nd.stats"]);
    assert_eq!(routed.packets(1), [after_a_hop(&packets[1])]);
    assert_eq!(routed.value(0), "1 packets killed\n1 ND Solicitation Message sent\n");
}

#[test]
fn rfc4861_7_3_3_neighbours_that_do_not_answer_any_more_are_forgotten() {
    // The host answers only once. After a minute the router asks three times by unicast, and then by
    // multicast.
    let (routed, _) = cache_after(&vec![(2_000, advertisement(RIGHT, ROUTER_RIGHT))], 68);
    let questions = routed.frames().into_iter().filter(|f| f.link == 1 && f.packet[40] == 135);
    let questions: Vec<_> = questions.map(|f| (f.time / 1_000_000, f.to == RIGHT.mac)).collect();
    assert_eq!(questions[..5], [(0, false), (61, true), (62, true), (63, true), (64, false)]);
}

#[test]
fn rfc4861_7_2_4_solicitations_are_answered() {
    let asked = |source: Ipv6Addr, target: Ipv6Addr, option: u8| {
        let group = wire::neighbor::solicited_node(target);
        let packet = wire::neighbor::build(135, 0, [source, group, target], (option, LEFT.mac));
        let frame = framed(wire::neighbor::multicast_mac(group), LEFT.mac, &packet);
        run("router6.click", &vec![(0, frame)], &Vec::new(), &[]).frames()
    };
    for target in [ROUTER.ip6, link_local()] {
        let frames = asked(LEFT.ip6, target, 1);
        let [answer] = &frames[..] else { panic!("{frames:x?}") };
        assert_eq!((answer.link, answer.to, answer.from), (0, LEFT.mac, ROUTER.mac));
        assert!(is_sound(&answer.packet));
        assert_eq!((answer.packet[7], answer.packet[40]), (255, 136));
        assert_eq!(answer.packet[44], 0xe0, "a router, an answer, and it counts");
        assert_eq!(
            (&answer.packet[8..24], &answer.packet[24..40]),
            (&target.octets()[..], &LEFT.ip6.octets()[..])
        );
        assert_eq!(answer.packet[64..], [&[2, 1][..], &ROUTER.mac.0].concat());
    }
    // A host that is about to take the address gets its answer by multicast (RFC 4862, section 5.4).
    let frames = asked(Ipv6Addr::UNSPECIFIED, ROUTER.ip6, 14);
    assert_eq!((frames[0].to, frames[0].packet[44]), (MacAddr([0x33, 0x33, 0, 0, 0, 1]), 0xa0));
    assert_eq!(frames[0].packet[24..40], ip("ff02::1").octets());
    assert!(asked(LEFT.ip6, NEAR.ip6, 1).is_empty(), "somebody else's address");
    assert!(
        asked(Ipv6Addr::UNSPECIFIED, ROUTER.ip6, 1).is_empty(),
        "invalid: nobody has an Ethernet address"
    );
}

#[test]
fn rfc4861_8_2_hosts_with_a_shorter_way_are_redirected() {
    let packet = udp(LEFT.ip6, NEAR.ip6, 11);
    let routed = sent(&packet);
    let packets = routed.packets(0);
    assert_eq!(packets.len(), 2);
    let (redirects, forwarded): (Vec<_>, Vec<_>) = packets.into_iter().partition(|packet| packet[6] == 58);
    assert_eq!(forwarded, [after_a_hop(&packet)]);
    let redirect = &redirects[0];
    assert_eq!((redirect[7], redirect[40], redirect[41]), (255, 137, 0));
    assert_eq!((&redirect[8..24], &redirect[24..40]), (&link_local().octets()[..], &LEFT.ip6.octets()[..]));
    assert_eq!((&redirect[48..64], &redirect[64..80]), (&NEAR.ip6.octets()[..], &NEAR.ip6.octets()[..]));
    // The redirect quotes the packet in whole units of eight bytes.
    let quoted = packet.len() / 8 * 8;
    assert_eq!((redirect[80], usize::from(redirect[81]) * 8, redirect.len()), (4, quoted + 8, 88 + quoted));
    assert_eq!(redirect[88..], packet[..quoted]);
    let stranger: IpAddr = ip("2001:db8:77::1").into();
    assert_eq!(sent(&udp(stranger, NEAR.ip6, 8)).packets(0).len(), 1, "only for neighbours");
}

#[test]
fn rfc4443_2_4_e_3_packets_to_groups_can_be_too_big() {
    let packet = udp(LEFT.ip6, ip("ff0e::1"), 1400);
    let answered = |about: &str| {
        let seen =
            crate::random::through(&format!("MarkIP6Header -> ICMP6Error(2001:db8::9, {about})"), &packet);
        seen.first().map(|seen| (message(&seen.bytes).0, is_sound(&seen.bytes), seen.bytes.len()))
    };
    assert_eq!(answered("2, 0, PMTU 1280"), Some(([2, 0], true, 1280)));
    assert_eq!(answered("4, 2"), Some(([4, 2], true, 1280)));
    for others in ["1, 0", "3, 0", "4, 0", "4, 1", "137, 0"] {
        assert_eq!(answered(others), None, "{others}");
    }
}

/// ICMP6Error sets the annotation of FixIPSrc, as ICMPError does; FixIPSrc writes IPv4 headers only.
#[test]
fn fix_ip_src_leaves_ipv6_messages_alone() {
    let packet = udp(LEFT.ip6, ip("2001:db8:2::1"), 100);
    let sent = |then: &str| {
        let chain = format!("MarkIP6Header -> ICMP6Error(2001:db8::9, 1, 0){then}");
        crate::random::through(&chain, &packet)
    };
    let messages = sent("");
    assert!(messages.len() == 1 && is_sound(&messages[0].bytes));
    let fixed = sent(" -> FixIPSrc(10.0.0.9)");
    assert_eq!((&fixed[0].bytes, &fixed[0].annotations), (&messages[0].bytes, &messages[0].annotations));
}

/// ICMPError, which is for IPv4 packets, and ICMP6Error, which is for IPv6 packets, send no errors about
/// packets of the other IP version: they would take the addresses from wrong bytes.
#[test]
fn no_errors_are_sent_about_packets_of_the_other_version() {
    let mut packet = udp(ip("2001:db8:a00:1:a00:2:0:1"), ip("2001:db8:2::1"), 100);
    // If this IPv6 header is read as an IPv4 header, its fragment offset is 0 and its addresses are 10.0.0.1
    // and 10.0.0.2.
    packet[6..8].fill(0);
    let errors = crate::random::through("MarkIPHeader -> ICMPError(10.0.0.9, unreachable, net)", &packet);
    assert_eq!(errors.len(), 0);
    let packet = wire::build::Builder::udp("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
    let packet = packet.build(&[7; 100]).unwrap();
    let errors = crate::random::through("MarkIPHeader -> ICMP6Error(2001:db8::9, 1, 0)", &packet);
    assert_eq!(errors.len(), 0);
}

#[test]
fn rfc6583_addresses_that_nobody_has_are_forgotten() {
    // A host sends to each of 5,000 addresses of the other network. The neighbour that is known stays
    // known.
    let mut left = vec![(0, from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 8)))];
    for i in 0..5_000u16 {
        let to = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 7, i);
        left.push((10_000 + 100 * i64::from(i), from(LEFT, &udp(nowhere(), to, 8))));
    }
    left.push((8_000_000, from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 9))));
    let right = vec![(2_000, advertisement(RIGHT, ROUTER_RIGHT))];
    let routed = run("router6.click", &left, &right, &["right_nd.table"]);
    assert_eq!(routed.value(0), "2001:db8:2::1 1 02-00-00-00-02-01\n");
    assert_eq!(routed.packets(1).len(), 2);
}

/// Neighbours that are known take precedence over addresses that are still being resolved (RFC 6583,
/// section 6.2).
#[test]
fn rfc6583_a_sweep_of_addresses_leaves_known_neighbours_alone() {
    let mut packets = vec![(0, from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 8)))];
    for i in 0..40u16 {
        let to = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 7, i);
        packets.push((10_000 + 100 * i64::from(i), from(LEFT, &udp(nowhere(), to, 8))));
    }
    packets.push((500_000, from(LEFT, &udp(LEFT.ip6, RIGHT.ip6, 9))));
    let right = vec![(2_000, advertisement(RIGHT, ROUTER_RIGHT))];
    let with_four = |text: String| {
        let changed =
            text.replace("IP6NDSolicitor(right, right", "IP6NDSolicitor(right, right, ENTRY_CAPACITY 4");
        assert_ne!(changed, text);
        changed
    };
    let routed = run_changed("router6.click", &packets, &right, &["right_nd.table"], with_four);
    assert_eq!(routed.packets(1).len(), 2);
    assert_eq!(routed.value(0), "2001:db8:2::1 1 02-00-00-00-02-01\n");
}
