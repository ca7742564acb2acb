//! Slicing around network functions, compared packet by packet: if packets are sliced upstream of a network
//! function and joined downstream of it, the same packets leave as with the network function alone. Skipped
//! with a message if network namespaces or a program are missing.

mod detour;
mod line;

use std::process::Command;
use std::time::Duration;

use detour::frames::{CLIENT, CLIENT6, List, SERVER, SERVER6, by_flow, is_mark, mac, replies};
use detour::{
    Arrived, COUNTS, Detour, MASQUERADE, NORMAL, SLICED, Way, carry, has_version_6, is_installed, nft, read,
    set,
};
use lab::{RunningProgram, openvswitch};
use line::{run, value};
use wire::build::Builder;
use wire::checksum::{Delta, PseudoHeader, icmp_valid, ipv4_valid, tcp_valid, udp_valid};
use wire::tcp::flags::ACK;
use wire::{FromBytes, MacAddr, ip_protocol, ipv4, ipv6};

/// The Classifier patterns of marks: the datagrams to or from port 9 that end each group of frames.
const MARKS: &str = "12/0800 23/11 36/0009, 12/0800 23/11 34/0009";

/// Carries frames to the server and replies back to the client, through the network function that `start`
/// starts. `own` are the addresses of the function's interfaces; `ends` are the Ethernet destinations of
/// frames to the server and to the client. Returns the frames that arrived at the server, the frames that
/// arrived at the client, and the host's counters.
fn both_ways(
    way: Way,
    own: [&str; 2],
    ends: [MacAddr; 2],
    start: &dyn Fn(&Detour) -> Option<Vec<RunningProgram>>,
) -> Option<([Vec<Vec<u8>>; 2], String)> {
    let detour = Detour::new(["", ""], own)?;
    let function = start(&detour)?;
    let host = detour.run(way, "Null", &[]);
    let Detour { client, server, .. } = &detour;
    let there = carry([client, server], &List::of_all_kinds(ends[0]), is_mark, MARKS).frames;
    let back = carry([server, client], &replies(&there, ends[1]), is_mark, MARKS).frames;
    let (good, [counts, messages]) = host.stop();
    assert!(good, "{messages}");
    drop(function);
    Some(([there, back], counts))
}

/// Checks that a network function does the same to sliced packets as to whole packets, and that the expected
/// numbers of packets arrive at the server and at the client.
fn check(
    own: [&str; 2],
    ends: [MacAddr; 2],
    expected: [usize; 2],
    start: &dyn Fn(&Detour) -> Option<Vec<RunningProgram>>,
) {
    let Some((whole, _)) = both_ways(Way::Whole, own, ends, start) else { return };
    let Some((joined, counts)) = both_ways(SLICED, own, ends, start) else { return };
    for ((whole, joined), expected) in whole.iter().zip(&joined).zip(expected) {
        assert_same(whole, joined);
        assert_eq!(by_flow(whole).values().map(Vec::len).sum::<usize>(), expected);
    }
    assert!(value(&counts, "t.sliced") > 100, "{counts}");
    for name in &COUNTS[NORMAL..] {
        assert_eq!(value(&counts, &format!("t.{name}")), 0, "{name}: {counts}");
    }
}

/// Compares frames flow by flow and frame by frame.
fn assert_same(whole: &[Vec<u8>], joined: &[Vec<u8>]) {
    let [whole, joined] = [whole, joined].map(by_flow);
    assert!(whole.keys().eq(joined.keys()), "{:?} {:?}", whole.keys(), joined.keys());
    for (flow, frames) in &whole {
        let others = &joined[flow];
        assert_eq!(frames.len(), others.len(), "{flow}");
        for (number, (frame, other)) in frames.iter().zip(others).enumerate() {
            let differ = frame.iter().zip(other).position(|(a, b)| a != b);
            assert!(
                frame == other,
                "{flow}: frame {number} from byte {differ:?} on:\n{frame:02x?}\n{other:02x?}"
            );
        }
    }
}

/// Runs Tidegate as the network function.
fn tidegate(config: &'static str) -> impl Fn(&Detour) -> Option<Vec<RunningProgram>> {
    move |detour| Some(vec![run(&detour.function, config, &[])])
}

#[test]
fn a_switch_of_ours() {
    let switch = "s :: EtherSwitch;
        FromDevice(nf0, PROMISC true) -> [0] s [0] -> Queue -> ToDevice(nf0);
        FromDevice(nf1, PROMISC true) -> [1] s [1] -> Queue -> ToDevice(nf1)";
    check(["", ""], [mac(4), mac(1)], [160, 61], &tidegate(switch));
}

#[test]
fn open_vswitch() {
    if !openvswitch::is_installed() {
        return println!("skipped: no Open vSwitch here");
    }
    let folder = std::cell::RefCell::new(Vec::new());
    check(["", ""], [mac(4), mac(1)], [160, 61], &|detour| {
        let own = tempfile::tempdir().unwrap();
        let running = openvswitch::bridge(&detour.function, &["nf0", "nf1"], own.path(), "netdev").unwrap();
        folder.borrow_mut().push(own);
        Some(running.into())
    });
}

/// Makes the kernel of the function's machine a router that knows the Ethernet addresses of both ends.
/// Returns false, with a message, if there is no IPv6.
fn router(detour: &Detour) -> bool {
    if !has_version_6() {
        return false;
    }
    let function = &detour.function;
    set(function, "ipv4/ip_forward", "1");
    set(function, "ipv6/conf/all/forwarding", "1");
    for (interface, number, own, ends) in [
        ("nf0", 1, "fd01::fe/64", ["10.1.0.1", "fd01::1"]),
        ("nf1", 4, "fd02::fe/64", ["10.2.0.1", "fd02::1"]),
    ] {
        set(function, &format!("ipv6/conf/{interface}/disable_ipv6"), "0");
        function.ip(&format!("addr add {own} dev {interface} nodad")).unwrap();
        for end in ends {
            function.ip(&format!("neigh replace {end} lladdr 2:0:0:0:0:{number} dev {interface}")).unwrap();
        }
    }
    true
}

const ROUTER: [&str; 2] = ["10.1.0.254/24", "10.2.0.254/24"];

#[test]
fn the_kernel_as_router() {
    check(ROUTER, [mac(2), mac(3)], [159, 61], &|detour| router(detour).then(Vec::new));
}

#[test]
fn the_kernel_as_translator() {
    check(ROUTER, [mac(2), mac(3)], [159, 58], &|detour| {
        if !router(detour) || !nft(&detour.function, MASQUERADE) {
            return None;
        }
        // The checksum of a sliced packet is right even if the sender's was wrong, so that conntrack would
        // reject only whole packets.
        set(&detour.function, "netfilter/nf_conntrack_checksum", "0");
        Some(Vec::new())
    });
}

#[test]
fn a_firewall_of_ours() {
    let firewall = "
        FromDevice(nf0, PROMISC true) -> f :: Classifier(12/0800, -) -> CheckIPHeader(14)
            -> IPFilter(deny udp dst port 2003, deny tcp dst port 2103, deny icmp, allow all) -> to1 :: Queue -> ToDevice(nf1);
        f[1] -> to1;
        FromDevice(nf1, PROMISC true) -> g :: Classifier(12/0800, -) -> CheckIPHeader(14)
            -> IPFilter(deny src udp port 2004, allow src net 10.2.0.0/24, deny all) -> to0 :: Queue -> ToDevice(nf0);
        g[1] -> to0";
    check(["", ""], [mac(4), mac(1)], [156, 52], &tidegate(firewall));
}

/// The configuration of a translator that chooses ports at random. FILTER stands for an element.
const TRANSLATOR: &str = "
    nat :: IPRewriter(pattern 10.2.0.254 1024-65535? - - 0 1, drop);
    FromDevice(nf0, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader -> FILTER
        -> IPClassifier((tcp or udp) and not frag) -> [0] nat;
    FromDevice(nf1, PROMISC true) -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
        -> IPClassifier((tcp or udp) and not frag) -> [1] nat;
    nat[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> Queue -> ToDevice(nf1);
    nat[1] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> Queue -> ToDevice(nf0)";

#[test]
fn a_translator_of_ours() {
    check(["", ""], [mac(2), mac(3)], [144, 58], &|detour| {
        Some(vec![run(&detour.function, &TRANSLATOR.replace("FILTER", "Null"), &[])])
    });
}

#[test]
fn a_firewall_and_a_translator_of_ours() {
    let filter = "IPFilter(deny udp dst port 2003, deny tcp dst port 2103, allow all)";
    check(["", ""], [mac(2), mac(3)], [142, 52], &|detour| {
        Some(vec![run(&detour.function, &TRANSLATOR.replace("FILTER", filter), &[])])
    });
}

/// A meter gives packets above a rate another DSCP. The DSCP depends on the number of packets before, not on
/// their lengths, so that slicing does not change it.
#[test]
fn a_meter_of_ours() {
    let meter = "FromDevice(nf0, PROMISC true) -> c :: Classifier(12/0800 23/11 36/0009, -) -> out :: Queue -> ToDevice(nf1);
        c[1] -> MarkIPHeader(14) -> m :: RatedSplitter(1, BURST_SIZE 20) -> SetIPDSCP(46) -> out; m[1] -> SetIPDSCP(10) -> out";
    let frames = List::of_datagrams(mac(4), 60);
    // The network function changes the DSCP, so the DSCP cannot serve as the mark of sliced packets.
    let unmarked = Way::Sliced { slicing: "", table: ", MARKER none" };
    for _ in 0..5 {
        let both = [Way::Whole, unmarked].map(|way| {
            let detour = Detour::new(["", ""], ["", ""])?;
            let (function, host) = (run(&detour.function, meter, &[]), detour.run(way, "Null", &[]));
            let arrived = carry([&detour.client, &detour.server], &frames, is_mark, MARKS);
            let all = [function, host].map(|running| running.stop());
            assert!(all.iter().all(|(good, _)| *good), "{all:?}");
            Some(arrived)
        });
        let [Some(whole), Some(joined)] = both else { return };
        // A second after the burst, the meter lets a further packet through. So if sending has taken more
        // than 0.9 seconds, the test is repeated.
        if whole.time.max(joined.time) > Duration::from_millis(900) {
            continue;
        }
        // Packets within the rate and packets above it take different paths through the function. The order
        // on each path is kept.
        for (dscp, expected) in [(46, 20), (10, 40)] {
            let of = |arrived: &Arrived| -> Vec<Vec<u8>> {
                arrived.frames.iter().filter(|frame| frame[15] >> 2 == dscp).cloned().collect()
            };
            assert_eq!(of(&whole).len(), expected);
            assert_same(&of(&whole), &of(&joined));
        }
        return;
    }
    println!("skipped: this machine is too busy to send 60 frames in a second");
}

/// Every frame, sliced or whole, that the network function gets has right checksums, as computed here and by
/// tshark.
#[test]
fn what_the_function_sees_is_right() {
    let Some(detour) = Detour::new(["", ""], ["", ""]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen.pcap").display().to_string();
    let switch = format!(
        "FromDevice(nf0, PROMISC true) -> ToDump({file}, SNAPLEN 0) -> Queue -> ToDevice(nf1);
         FromDevice(nf1, PROMISC true) -> Queue -> ToDevice(nf0)"
    );
    let (function, host) = (run(&detour.function, &switch, &[]), detour.run(SLICED, "Null", &[]));
    let arrived = carry([&detour.client, &detour.server], &List::of_all_kinds(mac(4)), is_mark, MARKS);
    let (_, [counts, _]) = host.stop();
    let (good, [_, messages]) = function.stop();
    assert!(good, "{messages}");
    let seen = read(&file);
    assert_eq!(seen.len(), arrived.frames.len());
    let marked = seen.iter().filter(|frame| is_marked(frame)).count() as u64;
    // A packet that already has the mark (DSCP 63) when it arrives is sliced whatever its size. So all frames
    // with the mark are sliced packets here.
    assert_eq!(marked, value(&counts, "t.sliced"), "{counts}");
    assert!(marked > 70, "{marked}");
    for frame in &seen {
        assert!(is_right(frame), "{frame:02x?}");
        assert!(!is_marked(frame) || frame.len() < 14 + 40 + 32 + 16, "{} bytes", frame.len());
    }
    if !is_installed("tshark") {
        return;
    }
    let bad = "ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0";
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", &file, "-Y", bad]);
    for protocol in ["ip", "tcp", "udp"] {
        tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    let output = tshark.output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}

/// True if a frame has the DSCP of sliced packets.
fn is_marked(frame: &[u8]) -> bool {
    match behind_tag(frame) {
        [0x08, 0x00, _, tos, ..] => tos >> 2 == 63,
        [0x86, 0xdd, high, low, ..] => u16::from_be_bytes([*high, *low]) >> 6 & 63 == 63,
        _ => false,
    }
}

/// Returns the bytes of a frame from the Ethernet type on; with a VLAN tag, from the type behind the tag on.
fn behind_tag(frame: &[u8]) -> &[u8] {
    if frame[12..14] == [0x81, 0x00] { &frame[16..] } else { &frame[12..] }
}

/// True if the checksums of the IPv4 header and of TCP, UDP and ICMP are right. Of an IPv4 fragment, only the
/// header's checksum is checked.
fn is_right(frame: &[u8]) -> bool {
    let (kind, packet) = behind_tag(frame).split_at(2);
    let (protocol, pseudo, rest) = match kind {
        [0x08, 0x00] => {
            let (header, _) = ipv4::Header::ref_from_prefix(packet).unwrap();
            if !ipv4_valid(&packet[..header.header_len()]) {
                return false;
            }
            if header.is_fragment() {
                return true;
            }
            let end = usize::from(header.total_length.get());
            (header.protocol, PseudoHeader::from(header), &packet[header.header_len()..end])
        }
        [0x86, 0xdd] => {
            let (header, rest) = ipv6::Header::ref_from_prefix(packet).unwrap();
            (header.next_header, PseudoHeader::from(header), &rest[..header.payload_length.get().into()])
        }
        _ => return true,
    };
    match protocol {
        ip_protocol::TCP => tcp_valid(&pseudo, rest),
        ip_protocol::UDP => udp_valid(&pseudo, rest),
        ip_protocol::ICMP => icmp_valid(rest),
        _ => true,
    }
}

/// The ICMP errors of a router between Slicer and Splice reach the client with a quotation of the packet that
/// the client has sent, not of the sliced packet that the router has seen.
#[test]
fn errors_quote_what_was_sent() {
    let mut frames = Vec::new();
    let mut add = |builder: Builder, length: usize| {
        let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let builder = builder.ttl(1).id(frames.len() as u16).ethernet(mac(1), mac(2));
        frames.push(builder.build(&payload).unwrap());
    };
    for length in [10, 441, 500, 600, 1000, 1400] {
        add(Builder::udp((CLIENT, 2000).into(), (SERVER, 2000).into()), length);
        add(Builder::tcp((CLIENT, 2100).into(), (SERVER, 2100).into(), ACK).tos(0x28), length);
        add(Builder::udp((CLIENT6, 2300).into(), (SERVER6, 2300).into()), length);
    }
    let both = [Way::Whole, SLICED].map(|way| {
        let detour = Detour::new(["", ""], ROUTER).filter(router)?;
        for limit in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
            set(&detour.function, limit, "0");
        }
        let host = detour.run(way, "Null", &[]);
        // Classifier patterns of the time-exceeded messages of both IP versions.
        let errors = "12/0800 23/01 34/0b, 12/86dd 20/3a 54/03";
        let mut arrived = carry([&detour.client, &detour.client], &frames, |_| true, errors).frames;
        let (good, [counts, messages]) = host.stop();
        assert!(good, "{messages}");
        arrived.retain(|frame| frame[0] & 1 == 0);
        arrived.iter_mut().for_each(|frame| forget_identification(frame));
        Some((arrived, counts))
    });
    let [Some((whole, _)), Some((joined, counts))] = both else { return };
    assert_eq!(whole.len(), frames.len());
    assert_same(&whole, &joined);
    // The table counts as many quoted packets as sliced packets. The shortest packets are not sliced, nor are
    // the IPv4 datagrams with 441 bytes of payload, whose frames have 483 bytes.
    assert_eq!(value(&counts, "t.quoted"), value(&counts, "t.sliced"), "{counts}");
    assert!(value(&counts, "t.quoted") >= 12, "{counts}");
}

/// Clears the IPv4 identification of an ICMP error, because it differs in each run, and updates the header
/// checksum.
fn forget_identification(frame: &mut [u8]) {
    if frame[12..14] == [8, 0] {
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let checksum = Delta::u16(word(18), 0).apply(word(24));
        frame[18..20].fill(0);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// A network function gets only the short sliced packet. So it cannot see that the whole packet is too long
/// for the network downstream of it. This is a documented limit.
#[test]
fn an_mtu_behind_the_function_is_not_seen() {
    let frames: Vec<Vec<u8>> = [100, 900, 1200, 1400]
        .iter()
        .map(|&length| {
            let builder = Builder::udp((CLIENT, 2000).into(), (SERVER, 2000).into());
            let builder = builder.fragment(ipv4::DONT_FRAGMENT).ethernet(mac(1), mac(2));
            builder.build(&vec![0; length]).unwrap()
        })
        .chain([detour::frames::mark(mac(2))])
        .collect();
    for (way, count) in [(Way::Whole, 3), (SLICED, 5)] {
        let Some(detour) = Detour::new(["", ""], ROUTER).filter(router) else { return };
        detour.function.ip("link set nf1 mtu 1000").unwrap();
        let host = detour.run(way, "Null", &[]);
        let arrived = carry([&detour.client, &detour.server], &frames, is_mark, MARKS);
        assert!(host.stop().0);
        assert_eq!(by_flow(&arrived.frames).values().map(Vec::len).sum::<usize>(), count, "{way:?}");
    }
}
