//! Tests of the routers with random and damaged packets, and with captures from other sources: nothing
//! panics, every packet is accounted for, and output has correct checksums. Also tests of IP6Fragmenter, and
//! of IPInputCombo and IPOutputCombo against the elements that they stand for.

use std::net::{IpAddr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use testkit::elements::{Seen, TestPacket, collect, offer};
use testkit::found::{self, files};
use testkit::{TestRun, corpus};
use wire::MacAddr;

use crate::net::*;

/// Returns the addresses that random packets may have, of both IP versions: of hosts, routers, multicast,
/// and invalid addresses.
fn addresses() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    for host in [LEFT, NEAR, RIGHT, FAR, ROUTER, ROUTER_RIGHT] {
        all.extend([IpAddr::from(host.ip), host.ip6.into()]);
    }
    let four =
        [[10, 9, 1, 1], [192, 0, 2, 1], [10, 1, 0, 255], [224, 0, 0, 1], [255; 4], [127, 0, 0, 1], [0; 4]];
    all.extend(four.map(IpAddr::from));
    let six = ["2001:db8:9::1", "2001:db8:ffff::1", "fe80::1", "fe80::fe", "ff02::1", "::1", "::"];
    all.extend(six.map(|text| IpAddr::from(text.parse::<Ipv6Addr>().unwrap())));
    all
}

/// The description of a random packet: addresses by index, kind of message, length of payload, time to
/// live, options, and damage.
#[derive(Clone, Debug)]
struct Draft {
    by_left: bool,
    to_all: bool,
    ends: (prop::sample::Index, prop::sample::Index),
    kind: u8,
    payload: usize,
    ttl: u8,
    options: Vec<u8>,
    spoilt: Vec<(prop::sample::Index, u8)>,
    cut: Option<prop::sample::Index>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let spoilt =
        prop_oneof![3 => Just(Vec::new()), 1 => vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)];
    let option = prop_oneof![0u8..12, Just(68), Just(131), Just(137), any::<u8>()];
    let options = prop_oneof![2 => Just(Vec::new()), 1 => vec(option, 1..40)];
    let payload = prop_oneof![0usize..100, 1200usize..1500];
    let ttl = prop_oneof![Just(0u8), Just(1), Just(40), Just(130)];
    let cut = prop::option::weighted(0.1, any::<prop::sample::Index>());
    (
        any::<bool>(),
        prop::bool::weighted(0.1),
        any::<(prop::sample::Index, prop::sample::Index)>(),
        0u8..8,
        payload,
        ttl,
    )
        .prop_flat_map(move |(by_left, to_all, ends, kind, payload, ttl)| {
            (options.clone(), spoilt.clone(), cut.clone()).prop_map(move |(options, spoilt, cut)| Draft {
                by_left,
                to_all,
                ends,
                kind,
                payload,
                ttl,
                options,
                spoilt,
                cut,
            })
        })
}

impl Draft {
    fn frame(&self) -> Vec<u8> {
        let all = addresses();
        // Packets that have a source address of the router would be taken for the router's own messages.
        let own = [ROUTER, ROUTER_RIGHT].map(|own| [IpAddr::from(own.ip), own.ip6.into()]);
        let others: Vec<IpAddr> =
            all.iter().copied().filter(|from| !own.as_flattened().contains(from)).collect();
        let from = *self.ends.0.get(&others);
        let same: Vec<IpAddr> = all.into_iter().filter(|to| to.is_ipv4() == from.is_ipv4()).collect();
        let to = *self.ends.1.get(&same);
        let message = match (from.is_ipv4(), self.kind) {
            (true, 1) => Some(8),
            (true, 2) => Some(3),
            (false, 1) => Some(128),
            (false, 2) => Some(2),
            (false, 3) => Some(135),
            (false, 4) => Some(136),
            _ => None,
        };
        let bytes: Vec<u8> = (0..self.payload).map(|i| i as u8).collect();
        let mut packet = match message {
            Some(kind) => icmp(from, to, kind, 0, &bytes),
            None => udp(from, to, self.payload),
        };
        if from.is_ipv4() {
            packet[8] = self.ttl;
            packet[6] = if self.kind == 5 { 0x40 } else { 0 };
            refill(&mut packet);
            if !self.options.is_empty() {
                packet = with_options(&packet, &self.options);
            }
        } else {
            packet[7] = if message >= Some(135) { 255 } else { self.ttl };
            // For the kinds 5 to 7, the payload is interpreted as an extension header.
            packet[6] =
                [packet[6], packet[6], packet[6], packet[6], packet[6], 0, 43, 60][usize::from(self.kind)];
        }
        let (host, router) = if self.by_left { (LEFT, ROUTER) } else { (RIGHT, ROUTER_RIGHT) };
        let mut frame = framed(if self.to_all { MacAddr::BROADCAST } else { router.mac }, host.mac, &packet);
        for (place, byte) in &self.spoilt {
            // The Ethernet header stays undamaged.
            let place = 14 + place.index(frame.len() - 14);
            frame[place] = *byte;
        }
        if let Some(cut) = &self.cut {
            frame.truncate(cut.index(frame.len()));
        }
        frame
    }
}

/// Returns the first frame of a router with a fault: a wrong length, a wrong checksum, or a wrong Ethernet
/// source; `None` if there is none. Transport checksums are checked only in the router's own messages, which
/// are recognized by their source and an unusual time to live.
fn faults(routed: &Routed) -> Option<String> {
    let own = [ROUTER, ROUTER_RIGHT];
    routed.frames().into_iter().find_map(|frame| {
        let packet = &frame.packet;
        let right = match frame.ether_type {
            0x0800 => {
                let length = usize::from(packet[0] & 15) * 4;
                let is_own = packet[9] == 1
                    && [199, 254].contains(&packet[8])
                    && own.iter().any(|own| packet[12..16] == own.ip);
                let whole = usize::from(u16::from_be_bytes([packet[2], packet[3]])) == packet.len();
                whole && folded(&packet[..length]) == 0xffff && (!is_own || is_sound(packet))
            }
            0x86dd => {
                let is_own = packet[6] == 58
                    && [63, 254, 255].contains(&packet[7])
                    && own.iter().any(|own| packet[8..24] == own.ip6.octets());
                let whole = usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40 == packet.len();
                whole && (!is_own || is_sound(packet))
            }
            _ => true,
        };
        (!right || frame.from != own[frame.link].mac).then(|| format!("{frame:x?}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn routers_account_for_every_packet(drafts in vec(draft(), 1..60)) {
        let (mut left, mut right) = (Arrivals::new(), Arrivals::new());
        for (i, draft) in drafts.iter().enumerate() {
            let time = 10_000 * i as i64;
            if draft.by_left { &mut left } else { &mut right }.push((time, draft.frame()));
            for (link, hosts, router) in [(&mut left, [LEFT, NEAR], ROUTER), (&mut right, [RIGHT, FAR], ROUTER_RIGHT)] {
                link.extend(hosts.map(|host| (time + 1_000, arp_reply(host, router))));
                link.extend(hosts.map(|host| (time + 1_000, advertisement(host, router))));
            }
        }
        for file in ["router.click", "router6.click"] {
            let routed = run(file, &left, &right, &[]);
            prop_assert_eq!(faults(&routed), None);
            prop_assert!(routed.outcome.report.elements.iter().all(|element| element.held == 0));
        }
    }

    /// Fragments a random IPv6 packet, and reassembles it independently of Tidegate's own code. The packet
    /// has to be the same, and each fragment has to fit the MTU.
    #[test]
    fn rfc8200_4_5_fragments_are_the_packet_again(
        payload in 0usize..6000, mtu in 100u32..1500, options: bool, route: bool, behind: bool, atomic: bool,
    ) {
        let mut chain: Vec<u8> = Vec::new();
        let mut kinds: Vec<u8> = Vec::new();
        for (is_there, kind) in [(options, 0u8), (route, 43), (behind, 60)] {
            if is_there {
                kinds.push(kind);
            }
        }
        // Each fragment repeats the headers that routers on the path read.
        let repeated = 40 + 8 * (usize::from(options) + usize::from(route));
        let packet = udp(LEFT.ip6, RIGHT.ip6, payload);
        for next in kinds.iter().skip(1).chain([&17]).take(kinds.len()) {
            chain.extend([*next, 0, 1, 4, 0, 0, 0, 0]);
        }
        let mut whole = [&packet[..40], &chain, &packet[40..]].concat();
        whole[6] = *kinds.first().unwrap_or(&17);
        let length = (whole.len() - 40) as u16;
        whole[4..6].copy_from_slice(&length.to_be_bytes());
        // The packet has a fragment header already, with the whole packet as one fragment (an atomic
        // fragment). The new fragments have to keep its identification.
        let mut sent = whole.clone();
        if atomic {
            let named_at = if repeated == 40 { 6 } else { repeated - 8 };
            let next = std::mem::replace(&mut sent[named_at], 44);
            sent.splice(repeated..repeated, [next, 0, 0, 0, 9, 8, 7, 6]);
            let length = (sent.len() - 40) as u16;
            sent[4..6].copy_from_slice(&length.to_be_bytes());
        }
        let seen = through("MarkIP6Header -> f :: IP6Fragmenter(MTU); f[1] -> SINK1; f".replace("MTU", &mtu.to_string()).as_str(), &sent);
        prop_assert!(seen.iter().all(|seen| seen.sink == 0 && seen.bytes.len() <= mtu as usize));
        if sent.len() <= mtu as usize {
            prop_assert_eq!(&seen[0].bytes, &sent);
            return Ok(());
        }
        let mut joined = vec![None; whole.len() - repeated];
        let mut place = 0;
        for Seen { bytes, .. } in &seen {
            prop_assert_eq!(usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + 40, bytes.len());
            prop_assert_eq!((&bytes[8..40], bytes[7]), (&whole[8..40], whole[7]));
            let header = &bytes[repeated..repeated + 8];
            let word = u16::from_be_bytes([header[2], header[3]]);
            let at = usize::from(word & 0xfff8);
            prop_assert!(!atomic || header[4..] == [9, 8, 7, 6]);
            prop_assert_eq!((header[0], &header[4..]), (if behind { 60 } else { 17 }, &seen[0].bytes[repeated + 4..repeated + 8]));
            for (byte_there, &byte) in joined[at..].iter_mut().zip(&bytes[repeated + 8..]) {
                prop_assert_eq!(byte_there.replace(byte), None, "twice");
            }
            let reaches_end = at + bytes.len() - repeated - 8 == joined.len();
            prop_assert_eq!(word & 1 == 0, reaches_end);
            prop_assert_eq!(at, place, "they leave in order");
            place += bytes.len() - repeated - 8;
        }
        let joined: Option<Vec<u8>> = joined.into_iter().collect();
        prop_assert_eq!(joined.as_deref(), Some(&whole[repeated..]));
    }
}

/// Sends a packet through a chain. Returns the packets that come out: at sink 0 downstream of the chain, or
/// at `SINK1`, `SINK2` ... in it.
pub(crate) fn through(chain: &str, packet: &[u8]) -> Vec<Seen> {
    let input = TestPacket {
        bytes: packet.to_vec(),
        time: element::Timestamp(1),
        annotations: [0; 48],
        headers: [None; 3],
    };
    outputs(chain, vec![input], 32)
}

fn outputs(chain: &str, inputs: Vec<TestPacket>, burst: usize) -> Vec<Seen> {
    let exchange = offer(vec![inputs]);
    let mut text = format!("TestSource({exchange}, 0) -> {chain} -> SINK0");
    for sink in 0..5 {
        text = text.replace(&format!("SINK{sink}"), &format!("TestSink({exchange}, {sink})"));
    }
    let outcome = TestRun { burst: Some(burst), ..TestRun::default() }
        .text(&text, &[])
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances());
    let mut seen = collect(exchange);
    // Packets at different sinks may come in any order, so they are sorted by sink. The sort is stable:
    // packets at one sink keep their order.
    seen.sort_by_key(|seen| seen.sink);
    seen
}

#[test]
fn ip_input_combo_is_what_it_stands_for() {
    for seed in 0..8 {
        let run = |chain: &str| outputs(chain, corpus::inputs(seed), 32);
        let combo = run("IPInputCombo(3, 1.2.3.4, INTERFACES 10.0.0.1/8, GOODDST 10.0.0.1)");
        let chain = "Paint(3) -> Strip(14)
            -> CheckIPHeader(BADSRC 1.2.3.4, INTERFACES 10.0.0.1/8, GOODDST 10.0.0.1) -> GetIPAddress(16)";
        assert_eq!(combo, run(chain));
        assert!(combo.len() > 5);
    }
}

#[test]
fn ip_output_combo_is_what_it_stands_for() {
    let rest = "c[1] -> SINK1; c[2] -> SINK2; c[3] -> SINK3; c[4] -> SINK4; c[0]";
    let chain = "DropBroadcasts -> p :: PaintTee(1) -> g :: IPGWOptions(10.0.0.9) -> FixIPSrc(10.0.0.9)
        -> t :: DecIPTTL -> l :: CheckLength(100); p[1] -> SINK1; g[1] -> SINK2; t[1] -> SINK3; l[1] -> SINK4; l[0]";
    for seed in 0..8 {
        let mut inputs = corpus::inputs(seed);
        // Replaces the inputs by packets without an Ethernet header, with a marked IP header, and with
        // options of several kinds.
        for (i, input) in inputs.iter_mut().enumerate() {
            let options: &[u8] = match i % 4 {
                0 => &[],
                1 => &[7, 7, 4, 0, 0, 0, 0, 0],
                2 => &[68, 4, 5, 0],
                _ => &[7, 99, 4, 0],
            };
            input.bytes = corpus::ipv4(i as u8 % 3, 17, options, &vec![5; 3 * i]);
            input.headers = [None, Some(0), None];
        }
        let mark = "MarkIPHeader -> ";
        let combo =
            outputs(&format!("{mark}c :: IPOutputCombo(1, 10.0.0.9, 100); {rest}"), inputs.clone(), 32);
        assert_eq!(combo, outputs(&format!("{mark}{chain}"), inputs, 32));
        assert!((1..5).all(|sink| combo.iter().any(|seen| seen.sink == sink)), "every output is used");
    }
}

#[test]
fn routers_send_right_checksums_on_every_capture() {
    let Some(data) = found::path("traces") else { return };
    let mut captures = 0;
    for capture in files(&data) {
        for file in ["router.click", "router6.click"] {
            let exchange = offer(Vec::new());
            // Both links get the same capture, with all frames addressed to the router.
            let text = text_of(file, [&capture, &capture], exchange);
            let text = text.replace("HostEtherFilter($name)", "StoreEtherAddress($name, dst)");
            let outcome = match TestRun::trace().text(&text, &[]) {
                Ok(outcome) => outcome,
                Err(error) if error.contains("not a tcpdump file") => continue,
                Err(error) => panic!("{}: {error}", capture.display()),
            };
            captures += 1;
            assert!(outcome.report.balances(), "{file} on {}", capture.display());
            let routed = Routed { outcome, seen: collect(exchange) };
            assert_eq!(faults(&routed), None, "{file} on {}", capture.display());
        }
    }
    assert!(captures > 10);
}

#[test]
fn ipv6_packets_that_were_cut_or_are_mostly_headers_are_not_fragmented() {
    let limited = |mtu: usize, packet: &[u8]| {
        let chain = format!("MarkIP6Header -> f :: IP6Fragmenter({mtu}); f[1] -> SINK1; f");
        through(&chain, packet)
    };
    let through = |packet: &[u8]| limited(1280, packet);
    let datagram = udp(LEFT.ip6, RIGHT.ip6, 3000);
    assert_eq!(through(&datagram).len(), 3);
    let cut = through(&datagram[..2000]);
    assert!(cut.len() == 1 && cut[0].sink == 1, "what is whole again would be something else");
    // Returns the packet with a hop-by-hop options header of `length` bytes of padding.
    let with_options = |length: usize| {
        let mut packet = datagram.clone();
        let mut options = vec![0; length];
        (options[0], options[1]) = (packet[6], (length / 8 - 1) as u8);
        for at in (2..length).step_by(200) {
            options[at] = 1;
            options[at + 1] = (length - at - 2).min(198) as u8;
        }
        packet[6] = 0;
        packet.splice(40..40, options);
        let total = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&total.to_be_bytes());
        packet
    };
    assert!(through(&with_options(256)).iter().all(|seen| seen.sink == 0));
    // IP6Fragmenter sends packets to output 1 if their extension headers have more bytes than are read, or
    // leave less than a quarter of the MTU for data.
    for long in [through(&with_options(264)), limited(380, &with_options(256))] {
        assert!(long.len() == 1 && long[0].sink == 1, "{}", long.len());
    }
}
