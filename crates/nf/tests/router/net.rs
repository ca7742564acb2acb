//! The networks around the example routers: hosts and their frames, runs of a router, and independent
//! checks of its output.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use testkit::elements::{Seen, collect, offer};
use testkit::{RunResults, TestRun};
use wire::build::Builder;
use wire::neighbor;
use wire::{MacAddr, arp, ether_type};

/// A host on one of the links, with its Ethernet, IPv4 and IPv6 address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) ip: [u8; 4],
    pub(crate) ip6: Ipv6Addr,
}

const fn host(network: u16, number: u8) -> Host {
    Host {
        mac: MacAddr([2, 0, 0, 0, network as u8, number]),
        ip: [10, network as u8, 0, number],
        ip6: Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, number as u16),
    }
}

pub(crate) const LEFT: Host = host(1, 1);
/// The second host on the left link.
pub(crate) const NEAR: Host = host(1, 2);
pub(crate) const RIGHT: Host = host(2, 1);
/// The gateway on the right link to the networks 10.9.0.0/16 and 2001:db8:9::/48.
pub(crate) const FAR: Host = host(2, 2);
/// The router's interface on the left link; `ROUTER_RIGHT` is the interface on the right link.
pub(crate) const ROUTER: Host = router(1, [10, 1, 0, 254]);
pub(crate) const ROUTER_RIGHT: Host = router(2, [10, 2, 0, 254]);

const fn router(network: u16, ip: [u8; 4]) -> Host {
    let ip6 = Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 0xfe);
    Host { mac: MacAddr([2, 0, 0, 0, network as u8, 0xfe]), ip, ip6 }
}

/// Makes a frame with a packet from a host to the router's interface on the host's link.
pub(crate) fn from(host: Host, packet: &[u8]) -> Vec<u8> {
    let MacAddr([.., link, _]) = host.mac;
    framed(MacAddr([2, 0, 0, 0, link, 0xfe]), host.mac, packet)
}

/// Makes a frame with a packet. The EtherType follows from the IP version of the packet.
pub(crate) fn framed(to: MacAddr, from: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 6 { ether_type::IPV6 } else { ether_type::IPV4 };
    [&to.0[..], &from.0, &ether_type.to_be_bytes(), packet].concat()
}

/// Makes an ARP frame. `operation` is 1 for a request and 2 for a reply.
pub(crate) fn arp(operation: u16, to: MacAddr, sender: Host, target: ([u8; 4], MacAddr)) -> Vec<u8> {
    let mut frame = [&to.0[..], &sender.mac.0, &[8, 6, 0, 1, 8, 0, 6, 4], &operation.to_be_bytes()].concat();
    assert_eq!(operation == arp::REQUEST, target.1 == MacAddr([0; 6]));
    frame.extend([&sender.mac.0[..], &sender.ip, &target.1.0, &target.0].concat());
    frame
}

/// Makes the ARP reply of a host to a query of the router's interface `router`.
pub(crate) fn arp_reply(host: Host, router: Host) -> Vec<u8> {
    arp(arp::REPLY, router.mac, host, (router.ip, router.mac))
}

/// Makes the neighbour advertisement by which a host answers a solicitation of the router's interface
/// `router`.
pub(crate) fn advertisement(host: Host, router: Host) -> Vec<u8> {
    advertised(host.mac, [host.ip6, router.ip6, host.ip6], neighbor::flag::SOLICITED, router.mac)
}

/// Makes a frame with a neighbour advertisement. `addresses` are source, destination and target.
pub(crate) fn advertised(mac: MacAddr, addresses: [Ipv6Addr; 3], flags: u32, to: MacAddr) -> Vec<u8> {
    let option = (neighbor::option::TARGET, mac);
    framed(to, mac, &neighbor::build(136, flags, addresses, option))
}

/// Returns the endpoints with these addresses, with port 4000 for the source and port 5000 for the
/// destination.
pub(crate) fn ends(from: impl Into<IpAddr>, to: impl Into<IpAddr>) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(from.into(), 4000), SocketAddr::new(to.into(), 5000))
}

/// Makes an IP packet with UDP between the ports 4000 and 5000, with `payload` bytes of payload.
pub(crate) fn udp(from: impl Into<IpAddr>, to: impl Into<IpAddr>, payload: usize) -> Vec<u8> {
    changed(from, to, payload, |builder| builder)
}

/// Makes a packet as [`udp`] does; `change` sets other header fields, such as the time to live.
pub(crate) fn changed(
    from: impl Into<IpAddr>,
    to: impl Into<IpAddr>,
    payload: usize,
    change: impl FnOnce(Builder) -> Builder,
) -> Vec<u8> {
    let (from, to) = ends(from, to);
    let bytes: Vec<u8> = (0..payload).map(|i| (i * 7) as u8).collect();
    change(Builder::udp(from, to)).build(&bytes).unwrap()
}

pub(crate) fn icmp(
    from: impl Into<IpAddr>,
    to: impl Into<IpAddr>,
    kind: u8,
    code: u8,
    payload: &[u8],
) -> Vec<u8> {
    Builder::icmp(from.into(), to.into(), kind, code, [7, 1]).build(payload).unwrap()
}

/// Inserts options into the header of an IPv4 packet, padded to a multiple of four bytes.
pub(crate) fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut bytes = [&packet[..20], &options, &packet[20..]].concat();
    let words = (20 + options.len()) / 4;
    bytes[0] = 0x40 | words as u8;
    let total = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    refill(&mut bytes);
    bytes
}

/// Computes the checksum of an IPv4 header, and writes it.
pub(crate) fn refill(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = !folded(&packet[..length]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the one's complement sum of the bytes, computed word by word.
pub(crate) fn folded(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The results of a run of a router: the outcome, and the frames that left.
pub(crate) struct Routed {
    pub(crate) outcome: RunResults,
    pub(crate) seen: Vec<Seen>,
}

/// A frame that left the router, in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The link by which the frame left: 0 is left, 1 is right.
    pub(crate) link: usize,
    pub(crate) to: MacAddr,
    pub(crate) from: MacAddr,
    pub(crate) ether_type: u16,
    pub(crate) packet: Vec<u8>,
    /// The time at which the frame left, in microseconds since the start of the test.
    pub(crate) time: i64,
}

impl Routed {
    /// Returns all frames, in the order in which they left.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        let frame = |seen: &Seen| {
            let mac = |at: usize| MacAddr(seen.bytes[at..at + 6].try_into().unwrap());
            let ether_type = u16::from_be_bytes([seen.bytes[12], seen.bytes[13]]);
            let packet = seen.bytes[14..].to_vec();
            let time = seen.time.0 / 1_000 - START;
            Frame { link: seen.sink, to: mac(0), from: mac(6), ether_type, packet, time }
        };
        self.seen.iter().map(frame).collect()
    }

    /// Returns the IP packets that left by a link, without neighbour solicitations and advertisements.
    /// Asserts that their checksums are correct.
    pub(crate) fn packets(&self, link: usize) -> Vec<Vec<u8>> {
        let is_packet = |frame: &Frame| match frame.ether_type {
            ether_type::IPV4 => true,
            ether_type::IPV6 => !(frame.packet[6] == 58 && matches!(frame.packet[40], 135 | 136)),
            _ => false,
        };
        let frames = self.frames().into_iter().filter(|frame| frame.link == link && is_packet(frame));
        frames.map(|frame| frame.packet).inspect(|packet| assert!(is_sound(packet), "{packet:x?}")).collect()
    }

    /// Returns the packet that left by a link; panics unless there is exactly one.
    pub(crate) fn only(&self, link: usize) -> Vec<u8> {
        let packets = self.packets(link);
        assert_eq!(packets.len(), 1, "{packets:x?}");
        packets[0].clone()
    }

    /// True if no IP packet has left by any link, apart from neighbour solicitations and advertisements.
    pub(crate) fn is_silent(&self) -> bool {
        self.packets(0).is_empty() && self.packets(1).is_empty()
    }

    /// Returns the value of the requested handler with index `n`.
    pub(crate) fn value(&self, n: usize) -> &str {
        self.outcome.values[n].as_deref().unwrap()
    }
}

/// The time stamp, in microseconds since the epoch, of packets whose time in [`Arrivals`] is 0.
pub(crate) const START: i64 = 1_000_000_000_000_000;

/// True if the lengths and checksums of a packet are correct, as computed by the crate etherparse or by this
/// file. Checksums of the transport header are not checked in IPv4 fragments, nor after IPv6 extension
/// headers.
pub(crate) fn is_sound(packet: &[u8]) -> bool {
    use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};
    let (protocol, start, pseudo) = match packet[0] >> 4 {
        4 => {
            let Ok(ip) = Ipv4HeaderSlice::from_slice(packet) else { return false };
            if ip.to_header().calc_header_checksum() != ip.header_checksum() {
                return false;
            }
            if ip.is_fragmenting_payload() || usize::from(ip.total_len()) != packet.len() {
                return usize::from(ip.total_len()) == packet.len();
            }
            let pseudo = [&packet[12..20], &[0, packet[9]]].concat();
            (packet[9], ip.slice().len(), pseudo)
        }
        6 => {
            let Ok(ip) = Ipv6HeaderSlice::from_slice(packet) else { return false };
            if usize::from(ip.payload_length()) + 40 != packet.len() {
                return false;
            }
            let pseudo = [&packet[8..40], &[0, packet[6]]].concat();
            (packet[6], 40, pseudo)
        }
        _ => return false,
    };
    let payload = &packet[start..];
    let length = (payload.len() as u16).to_be_bytes();
    let with_pseudo = folded(&[&pseudo, &length[..], payload].concat()) == 0xffff;
    match protocol {
        1 => folded(payload) == 0xffff,
        17 if packet[0] >> 4 == 4 && payload[6..8] == [0, 0] => true,
        6 | 17 | 58 => with_pseudo,
        _ => true,
    }
}

/// The frames that arrive by one link, each with its time in microseconds.
pub(crate) type Arrivals = Vec<(i64, Vec<u8>)>;

/// Writes a capture of frames.
pub(crate) fn write_capture(path: &Path, arrivals: &Arrivals) {
    let options = capture::WriterOptions { link: wire::LinkType::Ethernet, ..Default::default() };
    let mut writer = capture::Writer::new(std::fs::File::create(path).unwrap(), options);
    for (time, bytes) in arrivals {
        writer.write((START + time) * 1_000, bytes.len() as u32, [&bytes[..]]).unwrap();
    }
    writer.flush().unwrap();
}

/// Returns the text of a router that reads these captures, for the left and the right link, and sends its
/// output to the test sinks of exchange number `exchange` (`testkit::elements`).
pub(crate) fn text_of(file: &str, captures: [&Path; 2], exchange: u64) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for line in &mut lines {
        for (link, (side, capture)) in ["LEFT", "RIGHT"].into_iter().zip(captures).enumerate() {
            if line.starts_with(&format!("FromDump(${side}_IN)")) {
                *line = line.replace(&format!("${side}_IN"), &capture.display().to_string());
            }
            let written = format!("ToDump(${side}_OUT, SNAPLEN 0, ENCAP ETHER)");
            *line = line.replace(&written, &format!("Counter -> TestSink({exchange}, {link})"));
        }
    }
    assert!(!lines.iter().any(|line| line.contains("ToDump(")), "sinks were not found");
    lines.join("\n")
}

/// Runs the router in `configs/FILE` on the frames that arrive by both links. `handlers` are read at the
/// end.
pub(crate) fn run(file: &str, left: &Arrivals, right: &Arrivals, handlers: &[&str]) -> Routed {
    run_changed(file, left, right, handlers, |text| text)
}

/// Runs a router as [`run`] does, after `change` has changed the text of its configuration.
pub(crate) fn run_changed(
    file: &str,
    left: &Arrivals,
    right: &Arrivals,
    handlers: &[&str],
    change: impl FnOnce(String) -> String,
) -> Routed {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["left.pcap", "right.pcap"].map(|name| folder.path().join(name));
    write_capture(&paths[0], left);
    write_capture(&paths[1], right);
    let exchange = offer(Vec::new());
    let text = change(text_of(file, [&paths[0], &paths[1]], exchange));
    let outcome = TestRun::trace().text(&text, handlers).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.report.balances(), "{:?}", outcome.report);
    Routed { outcome, seen: collect(exchange) }
}

/// A fault: its name, and a function that causes it in a packet or frame.
pub(crate) type Spoil = (&'static str, fn(&mut Vec<u8>));
