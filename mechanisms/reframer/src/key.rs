//! Flow keys, which identify the flow of a packet, in one direction.
//!
//! TCP, UDP and SCTP flows are identified by addresses and ports, ICMP queries by addresses and identifier,
//! ESP by destination and SPI (RFC 4301, section 4.1). The key also contains two VLAN identifiers: those of
//! the outer and the inner tag.
//!
//! Two kinds of packets may belong to such a flow, but do not show which flow it is: fragments, and packets
//! with IPv6 extension headers that are truncated, or more than the parser walks over ([`wire::ipv6`]). Their
//! key is the *pair key* of their addresses, which is equal for all packets from the one host to the other
//! ([`FlowKind::Pair`]). All other packets have no key.

use classify::filter::HeaderSlices;
use element::frame::{ip_header, vlans_before};
use element::{Base, Packet};
use wire::layers::FLOW_HEADERS;
use wire::{Layer, Layers, LinkType, ether_type, ip_protocol};
use zerocopy::FromZeros;

/// The identity of a flow in one direction: two addresses of 128 bits, and one word with the ports (or SPI
/// or identifier), the [`FlowKind`], the IP version and the VLAN identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct FlowKey([u64; 5]);

impl flow::Key for FlowKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

impl FlowKey {
    /// A key that no flow has: a placeholder for packets without a key.
    pub const NONE: FlowKey = FlowKey([0; 5]);

    #[inline(always)]
    fn new(addresses: [u64; 4], number: u32, kind: FlowKind, version: u8, vlans: u32) -> FlowKey {
        let [a, b, c, d] = addresses;
        let kind = u64::from(kind as u8) << 4 | u64::from(version);
        FlowKey([a, b, c, d, u64::from(number) | kind << 32 | u64::from(vlans) << 40])
    }
}

/// The kind of a flow: its protocol, which decides which header fields the key contains. The values are
/// part of the key; 0 is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowKind {
    /// TCP, identified by addresses and ports.
    Tcp = 1,
    /// UDP, identified by addresses and ports.
    Udp,
    /// SCTP, identified by addresses and ports.
    Sctp,
    /// ICMP queries, identified by addresses and identifier.
    Icmp,
    /// ESP, identified by destination and SPI.
    Esp,
    /// All packets between two hosts in one direction, identified by addresses alone.
    Pair,
}

fn first(bytes: &[u8]) -> &[u8] {
    bytes.get(..FLOW_HEADERS.into()).unwrap_or(bytes)
}

/// The result of [`locate`]: the flow of a packet and its TCP flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The key of the flow.
    pub key: FlowKey,
    /// The kind of the flow.
    pub kind: FlowKind,
    /// The byte of TCP flags; 0 for other protocols.
    pub flags: u8,
}

/// The bytes of a packet from its IP header on, and the identifiers of the first and the last VLAN tag
/// ahead of it ([`element::frame`]).
struct Frame<'p> {
    ip: &'p [u8],
    vlans: u32,
}

/// Returns the flow of a packet; `None` if the packet belongs to no flow that can be identified.
///
/// If the network header annotation is set, the IP header starts there, and the VLAN tags are read from the
/// bytes ahead of it. Otherwise the packet is taken to start with a header of its link type.
#[inline]
pub fn locate(packet: &Packet) -> Option<Located> {
    let frame = frame(packet)?;
    frame.ip.first_chunk().and_then(|ip| quickly(ip, frame.vlans)).or_else(|| inner(&frame))
}

/// Finds the flow of a packet as [`locate`] does, for the hot path: writes the key to `key`, and returns
/// kind and flags. If the result is `None`, `key` is unchanged. The result is so small that it stays in
/// registers. (A whole [`Located`] goes through memory, written and read in pieces of different sizes,
/// which costs 5 ns.)
#[inline(always)]
pub fn locate_into(packet: &Packet, key: &mut FlowKey) -> Option<Brief> {
    match untagged(packet).and_then(|ip| quickly(ip, 0)) {
        Some(located) => {
            *key = located.key;
            Some(Brief { kind: located.kind, flags: located.flags })
        }
        None => locate_slowly(packet, key),
    }
}

#[inline(never)]
fn locate_slowly(packet: &Packet, key: &mut FlowKey) -> Option<Brief> {
    let located = locate(packet)?;
    *key = located.key;
    Some(Brief { kind: located.kind, flags: located.flags })
}

/// Finds the IP header and the VLANs of a packet: at its network header annotation or, without the
/// annotation, after its link header. `None` if there is no IP header.
#[inline(always)]
fn frame(packet: &Packet) -> Option<Frame<'_>> {
    Some(match packet.offset(Base::Network) {
        Some(offset) => {
            Frame { ip: first(packet.header(Base::Network)?), vlans: vlans_before(packet, offset) }
        }
        None => outer(first(packet.data()), packet.link())?,
    })
}

/// Finds the IP header after the link header of a frame; `None` if the frame is not IP.
fn outer(data: &[u8], link: u16) -> Option<Frame<'_>> {
    let (l3, vlans) = ip_header(data, link)?;
    Some(Frame { ip: data.get(l3..)?, vlans })
}

/// Returns the first bytes of the IPv4 packet if it follows an Ethernet header without VLAN tags and the
/// network header annotation is not set. Most packets have this layout.
#[inline(always)]
fn untagged(packet: &Packet) -> Option<&[u8; QUICK]> {
    const START: usize = 14;
    let data: &[u8; START + QUICK] = packet.data().first_chunk()?;
    let is_ip = data[12..START] == ether_type::IPV4.to_be_bytes();
    let is_plain = is_ip && packet.link() == 1 && packet.offset(Base::Network).is_none();
    data.last_chunk().filter(|_| is_plain)
}

/// The number of bytes of an IPv4 packet without options up to and including the TCP flags.
const QUICK: usize = 34;

/// Finds the flow of most packets quickly: IPv4 without options, not a fragment, carrying TCP or UDP, with
/// at least [`QUICK`] bytes of IP length. `None` for all other packets, which [`inner`] handles.
#[inline(always)]
fn quickly(ip: &[u8; QUICK], vlans: u32) -> Option<Located> {
    let word = |at: usize| u32::from_le_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let length = u16::from_be_bytes([ip[2], ip[3]]);
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
    let (kind, flags) = match ip[9] {
        ip_protocol::TCP => (FlowKind::Tcp, ip[33]),
        ip_protocol::UDP => (FlowKind::Udp, 0),
        _ => return None,
    };
    if ip[0] != 0x45 || fragment != 0 || usize::from(length) < QUICK {
        return None;
    }
    let addresses = [u64::from(word(12)), 0, u64::from(word(16)), 0];
    Some(Located { key: FlowKey::new(addresses, word(20), kind, 4, vlans), kind, flags })
}

/// Returns the pair key of a packet, which is equal for all packets from the one host to the other in the
/// same VLANs; `None` if the packet is not IP.
#[inline(never)]
pub fn pair(packet: &Packet) -> Option<FlowKey> {
    let frame = frame(packet)?;
    let (version, addresses) = addresses(frame.ip)?;
    Some(FlowKey::new(addresses, 0, FlowKind::Pair, version, frame.vlans))
}

/// Returns the IP version and the source and destination address, each in two words; `None` if the header
/// is truncated or not IP.
fn addresses(ip: &[u8]) -> Option<(u8, [u64; 4])> {
    let address = |at: usize, length: usize| {
        let mut bytes = [0; 16];
        bytes.get_mut(..length)?.copy_from_slice(ip.get(at..at + length)?);
        let all = u128::from_le_bytes(bytes);
        Some([all as u64, (all >> 64) as u64])
    };
    let version = ip.first()? >> 4;
    let ([a, b], [c, d]) = match version {
        4 => (address(12, 4)?, address(16, 4)?),
        6 => (address(8, 16)?, address(24, 16)?),
        _ => return None,
    };
    Some((version, [a, b, c, d]))
}

/// Finds the flow of any IP packet; `None` if its protocol or its type of ICMP message has no flows here, or
/// its headers are truncated or malformed. The result for fragments and for packets with unreadable IPv6
/// extension headers is the pair key.
#[inline(never)]
fn inner(frame: &Frame<'_>) -> Option<Located> {
    let layers = Layers::locate(frame.ip, LinkType::RawIp);
    let number = |at: usize| Some(u32::from_le_bytes(*frame.ip.get(at..layers.end)?.first_chunk()?));
    let (version, [a, b, c, d]) = addresses(frame.ip)?;
    let located = |addresses, number, kind, flags| {
        Some(Located { key: FlowKey::new(addresses, number, kind, version, frame.vlans), kind, flags })
    };
    let protocol = layers.protocol?;
    let is_hidden = layers.fault.is_some_and(|fault| fault.layer() == Layer::Ipv6Extension);
    if layers.fragment.is_some() || is_hidden {
        return located([a, b, c, d], 0, FlowKind::Pair, 0);
    }
    let l4 = layers.l4?;
    match protocol {
        ip_protocol::TCP => {
            let segment = frame.ip.get(l4..layers.end)?;
            located([a, b, c, d], number(l4)?, FlowKind::Tcp, *segment.get(13)?)
        }
        ip_protocol::UDP => located([a, b, c, d], number(l4)?, FlowKind::Udp, 0),
        ip_protocol::SCTP => located([a, b, c, d], number(l4)?, FlowKind::Sctp, 0),
        ip_protocol::ESP => located([0, 0, c, d], number(l4)?, FlowKind::Esp, 0),
        ip_protocol::ICMP if has_id(version, *frame.ip.get(l4)?) => {
            located([a, b, c, d], number(l4 + 4)? & 0xffff, FlowKind::Icmp, 0)
        }
        ip_protocol::ICMPV6 if has_id(version, *frame.ip.get(l4)?) => {
            located([a, b, c, d], number(l4 + 4)? & 0xffff, FlowKind::Icmp, 0)
        }
        _ => None,
    }
}

/// True if this type of ICMP message (`kind`) has an identifier: echo, and in ICMPv4 also timestamp,
/// information and address mask queries, with their replies.
fn has_id(version: u8, kind: u8) -> bool {
    if version == 6 { matches!(kind, 128 | 129) } else { matches!(kind, 0 | 8 | 13..=18) }
}

/// The small part of [`Located`]: all but the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// The kind of the flow.
    pub kind: FlowKind,
    /// The byte of TCP flags; 0 for other protocols.
    pub flags: u8,
}

impl Brief {
    /// True if runs of the flow count for the spatial locality factor, which is defined over TCP and UDP.
    #[inline]
    pub fn counts(self) -> bool {
        matches!(self.kind, FlowKind::Tcp | FlowKind::Udp)
    }
}

/// Returns the bytes of a packet from its IP header on, which is found as by [`locate`]; `None` if there is
/// no IP header.
pub fn ip(packet: &Packet) -> Option<&[u8]> {
    match packet.offset(Base::Network) {
        Some(_) => packet.header(Base::Network),
        None => outer(packet.data(), packet.link()).map(|frame| frame.ip),
    }
}

/// Returns the headers of a packet as input for filters. The IP header is found as by [`locate`]; headers
/// that are missing are empty.
pub fn headers(packet: &Packet) -> HeaderSlices<'_> {
    let network = ip(packet).unwrap_or_default();
    let l4 = Layers::locate(network, LinkType::RawIp).l4;
    let transport = l4.and_then(|l4| network.get(l4..)).unwrap_or_default();
    HeaderSlices { mac: packet.header(Base::Mac).unwrap_or(packet.data()), network, transport }
}

#[cfg(test)]
mod tests {
    use packet::Pool;
    use proptest::prelude::*;
    use wire::MacAddr;
    use wire::build::Builder;

    use super::*;

    fn pool() -> Pool {
        Pool::new(64 << 20).unwrap()
    }

    fn of(pool: &mut Pool, bytes: &[u8]) -> Option<Located> {
        let packet = pool.packet(bytes).unwrap();
        let located = locate(&packet);
        pool.free(packet);
        located
    }

    fn ether(builder: Builder) -> Builder {
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
    }

    fn built(builder: Builder) -> Vec<u8> {
        ether(builder).build(&[7; 30]).unwrap()
    }

    fn udp(a: &str, b: &str) -> Builder {
        Builder::udp(a.parse().unwrap(), b.parse().unwrap())
    }

    #[test]
    fn what_makes_a_flow_and_what_does_not() {
        let mut pool = pool();
        let ip = |a: &str| a.parse().unwrap();
        let plain = udp("10.0.0.1:1", "10.0.0.2:2");
        let tcp = Builder::tcp("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap(), 2);
        let echo = |id| Builder::icmp(ip("10.0.0.1"), ip("10.0.0.2"), 8, 0, [id, 1]);
        let frames = [
            built(plain.clone()),
            built(udp("10.0.0.2:2", "10.0.0.1:1")),
            built(udp("10.0.0.1:1", "10.0.0.2:3")),
            built(udp("[2001:db8::1]:1", "[2001:db8::2]:2")),
            built(tcp.clone()),
            built(plain.clone().vlan(7)),
            built(plain.clone().vlan(8)),
            built(plain.clone().vlan(7).vlan(8)),
            built(plain.clone().vlan(8).vlan(7)),
            built(echo(3)),
            built(echo(4)),
            built(plain.clone().id(5).fragment(0x2000)),
            built(plain.clone().id(5).fragment(0x2000).vlan(7)),
            built(Builder::ip(ip("10.0.0.2"), ip("10.0.0.1"), 17).id(5).fragment(0x2000)),
            built(Builder::ip(ip("10.0.0.1"), ip("10.0.0.2"), 132)),
            built(Builder::ip(ip("10.0.0.1"), ip("10.0.0.2"), 50)),
        ];
        let keys: Vec<FlowKey> = frames.iter().map(|f| of(&mut pool, f).unwrap().key).collect();
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                assert_eq!(a == b, i == j, "{i} and {j}");
            }
        }
        // Packets of the same flow in pairs: with other payload, other priority bits of the VLAN tag, as
        // fragments between the same hosts, and as ESP from another source.
        let same = [
            (0, ether(plain.clone()).build(&[9; 900]).unwrap()),
            (5, built(plain.clone().vlan(7 | 5 << 13))),
            (11, built(plain.clone().id(5).fragment(3))),
            (11, built(plain.clone().id(6).fragment(0x2000))),
            (11, built(tcp.id(5).fragment(0x2000))),
            (15, built(Builder::ip(ip("10.9.9.9"), ip("10.0.0.2"), 50))),
        ];
        for (number, frame) in same {
            assert_eq!(of(&mut pool, &frame).unwrap().key, keys[number], "{number}");
        }
        let none = [
            built(Builder::icmp(ip("10.0.0.1"), ip("10.0.0.2"), 3, 1, [0, 0])),
            built(Builder::ip(ip("10.0.0.1"), ip("10.0.0.2"), 47)),
            vec![0; 60],
            vec![],
        ];
        for frame in none {
            assert_eq!(of(&mut pool, &frame), None);
        }
    }

    #[test]
    fn annotations_say_where_ip_starts() {
        let mut pool = pool();
        let frame = built(udp("10.0.0.1:1", "10.0.0.2:2").vlan(7));
        let expected = of(&mut pool, &frame);
        let mut packet = pool.packet(&frame).unwrap();
        packet.set_offset(Base::Network, Some(18));
        assert_eq!(locate(&packet), expected);
        packet.set_offset(Base::Mac, Some(0));
        assert!(packet.strip(18));
        assert_eq!(locate(&packet), expected);
        packet.set_offset(Base::Network, Some(1));
        assert_eq!(locate(&packet), None);
        pool.free(packet);
    }

    proptest! {
        #[test]
        fn the_quick_way_agrees_with_the_long_one(
            tcp: bool, ports: (u16, u16), flags: u8, cut in 0usize..60, at in 0usize..40, value: u8,
        ) {
            let ends = (([10, 0, 0, 1], ports.0).into(), ([10, 0, 0, 2], ports.1).into());
            let builder = if tcp { Builder::tcp(ends.0, ends.1, flags) } else { Builder::udp(ends.0, ends.1) };
            let mut bytes = builder.build(&[1; 30]).unwrap();
            bytes[at] = value;
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let frame = Frame { ip: &bytes, vlans: 5 };
            if let Some(quick) = bytes.first_chunk().and_then(|ip| quickly(ip, 5)) {
                prop_assert_eq!(Some(quick), inner(&frame));
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, network in -4isize..80, link in 0u16..300, marked: bool) {
            let mut pool = pool();
            let mut packet = pool.packet(&bytes).unwrap();
            packet.set_link(link);
            if marked {
                packet.set_offset(Base::Network, Some(network));
            }
            // Each packet that has a flow key also has a pair key.
            prop_assert!(locate(&packet).is_none() || pair(&packet).is_some());
            let _ = headers(&packet);
            pool.free(packet);
        }
    }
}
