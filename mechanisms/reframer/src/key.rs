//! Flow keys, which identify the flow of a packet, in one direction.
//!
//! TCP, UDP and SCTP flows are identified by addresses and ports, ICMP queries by addresses and identifier,
//! ESP by destination and SPI (RFC 4301, section 4.1). The key also contains two VLAN identifiers: those of
//! the outer and the inner tag.
//!
//! Packets inside of tunnels, and QUIC packets, can have keys of their own ([`crate::finder`]).
//!
//! Two kinds of packets may belong to such a flow, but do not show which flow it is: fragments, and packets
//! with IPv6 extension headers that are truncated, or more than the parser walks over ([`wire::ipv6`]). Their
//! key is the *pair key* of their addresses, which is equal for all packets from the one host to the other
//! ([`FlowKind::Pair`]). All other packets have no key.

use classify::filter::HeaderSlices;
use element::frame::{ip_header, vlans_before};
use element::{Base, Packet, runs};
use flow::KeyHasher;
use wire::layers::FLOW_HEADERS;
use wire::{Layer, Layers, LinkType, ether_type, ip_protocol, ipv4};
use zerocopy::FromZeros;

/// The identity of a flow in one direction: one word with the ports (or SPI or identifier), the [`FlowKind`],
/// the IP version and the VLAN identifiers, and four words with the addresses. Both IPv4 addresses are in the
/// first of these four words, and the others are 0.
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
    /// Makes the key of a flow from its addresses, one word of ports or other numbers, its kind and its
    /// VLANs.
    pub(crate) fn new(addresses: Addresses, number: u32, kind: FlowKind, vlans: u32) -> FlowKey {
        match addresses {
            Addresses::V4(addresses) => ShortKey::new(addresses, number, kind, vlans).into(),
            Addresses::V6([a, b, c, d]) => FlowKey([first_word(number, kind, 6, vlans), a, b, c, d]),
        }
    }

    /// Makes the key of a flow in a tunnel, or of a QUIC flow. `start` has the ports or another number, the
    /// kind and the VLANs; `words` are the other four words. `exact` is true if the words contain the
    /// addresses themselves, which are then all IPv4, and false if hashes stand for addresses. The IP version
    /// in the key, 5 or 7, tells it from the keys of all other flows.
    pub(crate) fn inside(start: (u32, FlowKind, u32), exact: bool, words: [u64; 4]) -> FlowKey {
        let (number, kind, vlans) = start;
        let [a, b, c, d] = words;
        FlowKey([first_word(number, kind, if exact { 5 } else { 7 }, vlans), a, b, c, d])
    }

    /// Returns the hash of the key. A key that is no longer than a [`ShortKey`] has the hash of that.
    pub fn hash(&self, hasher: &KeyHasher) -> u32 {
        let (start, _) = self.split();
        if start.has_rest() { hasher.hash(self) } else { hasher.hash(&start) }
    }

    /// Returns the first two words, and the others, which are 0 if the key is no longer than a [`ShortKey`].
    #[inline(always)]
    pub(crate) fn split(&self) -> (ShortKey, [u64; 3]) {
        let [start, addresses, rest @ ..] = self.0;
        (ShortKey([start, addresses]), rest)
    }
}

/// Source and destination address of a packet, as words of a [`FlowKey`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addresses {
    V4(u64),
    V6([u64; 4]),
}

impl Addresses {
    /// Returns the addresses with 0 in place of the source, for ESP flows, which the source does not
    /// identify.
    fn destination(self) -> Addresses {
        match self {
            Addresses::V4(both) => Addresses::V4(both >> 32 << 32),
            Addresses::V6([.., c, d]) => Addresses::V6([0, 0, c, d]),
        }
    }
}

/// Returns the first word of a [`FlowKey`].
#[inline(always)]
fn first_word(number: u32, kind: FlowKind, version: u8, vlans: u32) -> u64 {
    let kind = u64::from(kind as u8) << 4 | u64::from(version);
    u64::from(number) | kind << 32 | u64::from(vlans) << 40
}

/// The key of an IPv4 flow: the first two words of its [`FlowKey`], whose remaining words are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct ShortKey([u64; 2]);

impl flow::Key for ShortKey {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

impl ShortKey {
    /// A key that no flow has.
    pub const NONE: ShortKey = ShortKey([0; 2]);

    /// Returns destination port, kind and IP version as one number, by which [`crate::finder::Finder`] finds
    /// packets that need a closer look. The port is in the lower 16 bits, with its bytes in the order of the
    /// packet. Only for packets outside of VLANs.
    #[inline(always)]
    pub(crate) fn destination(self) -> u32 {
        (self.0[0] >> 16) as u32
    }

    /// True if the key of the flow has further words after these two.
    #[inline(always)]
    pub(crate) fn has_rest(self) -> bool {
        self.0[0] >> 32 & 0xf != 4
    }

    #[inline(always)]
    fn new(addresses: u64, number: u32, kind: FlowKind, vlans: u32) -> ShortKey {
        ShortKey([first_word(number, kind, 4, vlans), addresses])
    }
}

impl From<ShortKey> for FlowKey {
    fn from(key: ShortKey) -> FlowKey {
        let ShortKey([start, addresses]) = key;
        FlowKey([start, addresses, 0, 0, 0])
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
    /// TCP or UDP in a tunnel, identified by the tunnel, and by addresses and ports in it.
    Inner,
    /// Another flow in a tunnel, or all packets of a tunnel.
    Tunnel,
    /// QUIC, identified by addresses, ports and connection id.
    Quic,
}

impl FlowKind {
    /// True if runs of such flows count for the spatial locality factor, which is defined over TCP and UDP,
    /// in tunnels too.
    #[inline(always)]
    pub fn counts(self) -> bool {
        matches!(self, FlowKind::Tcp | FlowKind::Udp | FlowKind::Inner | FlowKind::Quic)
    }
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
pub(crate) struct Frame<'p> {
    pub(crate) ip: &'p [u8],
    pub(crate) vlans: u32,
}

/// Returns the flow of a packet; `None` if the packet belongs to no flow that can be identified.
///
/// If the network header annotation is set, the IP header starts there, and the VLAN tags are read from the
/// bytes ahead of it. Otherwise the packet is taken to start with a header of its link type.
#[inline]
pub fn locate(packet: &Packet) -> Option<Located> {
    let frame = frame(packet)?;
    let quick = frame.ip.first_chunk().and_then(|ip| quickly(ip, frame.vlans));
    quick.map(Located::from).or_else(|| thoroughly(&frame))
}

/// The flow of a packet of the usual kind: TCP or UDP in IPv4 without options, outside of VLANs, and not a
/// fragment.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// The key of the flow.
    pub key: ShortKey,
    /// The kind of the flow: TCP or UDP.
    pub kind: FlowKind,
    /// The byte of TCP flags; 0 for UDP.
    pub flags: u8,
    /// True if the packet can be in a run of several packets ([`runs::plain_ipv4`]). Packets of one flow for
    /// which this is true are in one run if their offsets agree.
    pub is_plain: bool,
}

impl Usual {
    /// Returns the flow of a packet that [`runs::plain_ipv4`] has found to start with `start`.
    #[inline(always)]
    pub(crate) fn plain(start: &[u8; runs::PLAIN_LENGTH]) -> Usual {
        let kind = if start[PROTOCOL] == ip_protocol::TCP { FlowKind::Tcp } else { FlowKind::Udp };
        let flags = if kind == FlowKind::Tcp { start[FLAGS] } else { 0 };
        Usual { key: short(start, kind, 0), kind, flags, is_plain: true }
    }
}

impl From<Usual> for Located {
    fn from(Usual { key, kind, flags, .. }: Usual) -> Located {
        Located { key: key.into(), kind, flags }
    }
}

/// Finds the flow of a packet as [`locate`] does, for the hot path. `None` for packets that are not of the
/// usual kind, and for some that are.
#[inline(always)]
pub fn usual(packet: &Packet) -> Option<Usual> {
    if let Some(start) = runs::plain_ipv4(packet) {
        return Some(Usual::plain(start));
    }
    untagged(packet).and_then(|ip| quickly(ip, 0))
}

/// Finds the IP header and the VLANs of a packet: at its network header annotation or, without the
/// annotation, after its link header. `None` if there is no IP header.
#[inline(always)]
pub(crate) fn frame(packet: &Packet) -> Option<Frame<'_>> {
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
const QUICK: usize = runs::PLAIN_LENGTH;
/// The offsets in an IPv4 packet without options of the protocol and of the TCP flags.
const PROTOCOL: usize = 9;
const FLAGS: usize = QUICK - 1;

/// Finds the flow of most packets quickly: IPv4 without options, not a fragment, carrying TCP or UDP, with
/// at least [`QUICK`] bytes of IP length. `None` for all other packets, which [`thoroughly`] handles.
#[inline(always)]
fn quickly(ip: &[u8; QUICK], vlans: u32) -> Option<Usual> {
    let length = u16::from_be_bytes([ip[2], ip[3]]);
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
    let (kind, flags) = match ip[PROTOCOL] {
        ip_protocol::TCP => (FlowKind::Tcp, ip[FLAGS]),
        ip_protocol::UDP => (FlowKind::Udp, 0),
        _ => return None,
    };
    if ip[0] != 0x45 || fragment != 0 || usize::from(length) < QUICK {
        return None;
    }
    Some(Usual { key: short(ip, kind, vlans), kind, flags, is_plain: false })
}

/// Returns the key of a TCP or UDP packet that starts with an IPv4 header without options.
#[inline(always)]
fn short(ip: &[u8; QUICK], kind: FlowKind, vlans: u32) -> ShortKey {
    let [.., a, b, c, d, e, f, g, h, i, j, k, l, _, _, _, _, _, _, _, _, _, _] = *ip;
    let addresses = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    ShortKey::new(addresses, u32::from_le_bytes([i, j, k, l]), kind, vlans)
}

/// Returns the pair key of a packet, which is equal for all packets from the one host to the other in the
/// same VLANs; `None` if the packet is not IP.
#[inline(never)]
pub fn pair(packet: &Packet) -> Option<FlowKey> {
    let frame = frame(packet)?;
    Some(FlowKey::new(addresses(frame.ip)?, 0, FlowKind::Pair, frame.vlans))
}

/// Returns the source and destination address; `None` if the header is truncated or not IP.
pub(crate) fn addresses(ip: &[u8]) -> Option<Addresses> {
    let word = |at: usize| Some(u64::from_le_bytes(*ip.get(at..)?.first_chunk()?));
    match ip.first()? >> 4 {
        4 => Some(Addresses::V4(word(12)?)),
        6 => Some(Addresses::V6([word(8)?, word(16)?, word(24)?, word(32)?])),
        _ => None,
    }
}

/// Finds the flow of any IP packet. `None` if flows of its protocol or of its type of ICMP message are not
/// identified, or if its headers are truncated or malformed. For fragments, and for packets with unreadable
/// IPv6 extension headers, the key of the result is the pair key.
#[inline(never)]
fn thoroughly(frame: &Frame<'_>) -> Option<Located> {
    let layers = Layers::locate(frame.ip, LinkType::RawIp);
    let all = addresses(frame.ip)?;
    let Identity { number, kind, flags } = identify(frame.ip, &layers, all)?;
    let addresses = if kind == FlowKind::Esp { all.destination() } else { all };
    Some(Located { key: FlowKey::new(addresses, number, kind, frame.vlans), kind, flags })
}

/// The values that tell a flow from other flows between its hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// Ports, SPI or identifier.
    pub(crate) number: u32,
    /// The kind of the flow; [`FlowKind::Pair`] if the flow is not known.
    pub(crate) kind: FlowKind,
    /// The byte of TCP flags; 0 for other protocols.
    pub(crate) flags: u8,
}

/// Returns what identifies the flow of an IP packet between `addresses`, with `layers` as its headers. `None`
/// where [`thoroughly`] finds no flow.
pub(crate) fn identify(ip: &[u8], layers: &Layers, addresses: Addresses) -> Option<Identity> {
    let number = |at: usize| Some(u32::from_le_bytes(*ip.get(at..layers.end)?.first_chunk()?));
    let identity = |number, kind, flags| Some(Identity { number, kind, flags });
    let protocol = layers.protocol?;
    let is_hidden = layers.fault.is_some_and(|fault| fault.layer() == Layer::Ipv6Extension);
    if layers.fragment.is_some() || is_hidden {
        return identity(0, FlowKind::Pair, 0);
    }
    let l4 = layers.l4?;
    match protocol {
        ip_protocol::TCP => {
            let segment = ip.get(l4..layers.end)?;
            identity(number(l4)?, FlowKind::Tcp, *segment.get(13)?)
        }
        ip_protocol::UDP => identity(number(l4)?, FlowKind::Udp, 0),
        ip_protocol::SCTP => identity(number(l4)?, FlowKind::Sctp, 0),
        ip_protocol::ESP => identity(number(l4)?, FlowKind::Esp, 0),
        ip_protocol::ICMP | ip_protocol::ICMPV6 if has_id(addresses, *ip.get(l4)?) => {
            identity(number(l4 + 4)? & 0xffff, FlowKind::Icmp, 0)
        }
        _ => None,
    }
}

/// True if this type of ICMP message (`kind`) has an identifier: echo, and in ICMPv4 also timestamp,
/// information and address mask queries, with their replies.
fn has_id(addresses: Addresses, kind: u8) -> bool {
    match addresses {
        Addresses::V4(_) => matches!(kind, 0 | 8 | 13..=18),
        Addresses::V6(_) => matches!(kind, 128 | 129),
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
    let is_quick = network.first_chunk().is_some_and(|ip| quickly(ip, 0).is_some());
    let l4 = if is_quick { Some(ipv4::Header::LEN) } else { Layers::locate(network, LinkType::RawIp).l4 };
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
                prop_assert_eq!(Some(quick.into()), thoroughly(&frame));
                prop_assert_eq!(Layers::locate(&bytes, LinkType::RawIp).l4, Some(ipv4::Header::LEN));
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
