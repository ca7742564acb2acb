//! The headers of tunnels, from the outer IP header to the inner packet: VXLAN (RFC 7348), GENEVE (RFC 8926),
//! GTP-U (3GPP TS 29.281), GRE (RFC 2784, RFC 2890) and IP in IP (RFC 2003, RFC 2473, RFC 4213).
//!
//! Only one tunnel is opened: what the inner packet itself carries is not looked at.

use element::frame::ip_header;
use wire::checksum::ipv4_valid;
use wire::layers::{MAX_MPLS_LABELS, MAX_VLAN_TAGS};
use wire::{Layers, ether_type, ip_protocol};

use crate::key::addresses;

/// The EtherType of Ethernet frames in GRE and GENEVE (transparent Ethernet bridging).
const BRIDGED: u16 = 0x6558;
/// The UDP destination ports of VXLAN, GENEVE and GTP-U packets.
pub(crate) const VXLAN: u16 = 4789;
pub(crate) const GENEVE: u16 = 6081;
pub(crate) const GTP: u16 = 2152;

/// The length in bytes of the headers of UDP, VXLAN, GENEVE without options, and GTP-U without optional
/// fields.
const HEADER: usize = 8;
/// The maximum number of GTP-U extension headers that are skipped.
const MAX_EXTENSIONS: usize = 8;

/// The link types (as in captures) of inner packets that start with an Ethernet header, and of inner packets
/// that start with an IP header.
const ETHERNET: u16 = 1;
const RAW_IP: u16 = 101;

/// A tunnel between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnel {
    kind: Kind,
    /// The VNI, TEID or GRE key; 0 for tunnels without one.
    id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Vxlan = 1,
    Geneve,
    Gtp,
    Gre,
    KeyedGre,
    Ipv4,
    Ipv6,
}

impl Tunnel {
    /// Returns a number that differs from that of any other tunnel between the same hosts, in 35 bits.
    pub(crate) fn number(self) -> u64 {
        (self.kind as u64) << 32 | u64::from(self.id)
    }
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside<'p> {
    /// An IP packet in a tunnel, up to the end of the outer packet, with the VLANs of its Ethernet header.
    Packet { tunnel: Tunnel, ip: &'p [u8], vlans: u32 },
    /// A packet whose flow is the whole tunnel: the content of a tunnel other than VXLAN and GENEVE is not an
    /// IP packet that can be read.
    Whole(Tunnel),
    /// A packet with a sequence number, which no packet of its tunnel must overtake, and which must overtake
    /// none: receivers drop or sort packets that are late, and packets with and without numbers may belong to
    /// one inner flow.
    Numbered(Tunnel),
    /// A packet whose inner flow is not known, or one that no packet of its tunnel must overtake.
    Unknown,
    /// The packet is in no tunnel, is a control message of a tunnel protocol, or is other than IP in VXLAN or
    /// GENEVE. The outer headers identify its flow.
    Nothing,
}

/// Finds what an IP packet carries in a tunnel. `ip` starts at the outer IP header. `is_cut` is true if the
/// packet has, or had before it was truncated, more bytes than `ip`.
pub(crate) fn inside<'p>(ip: &'p [u8], layers: &Layers, is_cut: bool) -> Inside<'p> {
    let (Some(l4), None, Some(protocol)) = (layers.l4, layers.fragment, layers.protocol) else {
        return Inside::Nothing;
    };
    let Some(data) = ip.get(l4..layers.end) else { return Inside::Nothing };
    let found = match protocol {
        ip_protocol::UDP => in_udp(data),
        ip_protocol::GRE => gre(data),
        ip_protocol::IPV4 => Some(Found::Packet(Tunnel { kind: Kind::Ipv4, id: 0 }, data, RAW_IP)),
        ip_protocol::IPV6 => Some(Found::Packet(Tunnel { kind: Kind::Ipv6, id: 0 }, data, RAW_IP)),
        _ => Some(Found::Nothing),
    };
    match found {
        Some(Found::Packet(tunnel, data, link)) => {
            let missing = is_cut.then_some(layers.missing);
            carried(tunnel, data, link, missing)
        }
        Some(Found::Whole(tunnel)) => Inside::Whole(tunnel),
        Some(Found::Numbered(tunnel)) => Inside::Numbered(tunnel),
        Some(Found::Nothing) => Inside::Nothing,
        Some(Found::Unknown) => Inside::Unknown,
        // The headers of the tunnel go on after the bytes in `ip`, so the inner flow cannot be read.
        None if is_cut => Inside::Unknown,
        None => Inside::Nothing,
    }
}

/// The result of reading the headers of a tunnel. Variants with the name of a variant of [`Inside`] mean the
/// same, except `Packet`.
enum Found<'p> {
    /// The tunnel, the data that it carries, and the link type of the header with which these data start.
    Packet(Tunnel, &'p [u8], u16),
    Whole(Tunnel),
    Numbered(Tunnel),
    Unknown,
    Nothing,
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn long(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// Returns the content of a packet of `tunnel`. `data` is what follows the headers of the tunnel; it starts
/// with a header of link type `link`. `missing` is the number of bytes of the packet that follow `data`, as
/// far as the outer IP header says; `None` if the packet ends with `data`.
fn carried(tunnel: Tunnel, data: &[u8], link: u16, missing: Option<usize>) -> Inside<'_> {
    // The length up to which headers are needed to find the inner addresses: Ethernet, with the VLAN tags and
    // MPLS labels that the parser reads, and an IPv6 header.
    const LONGEST: usize = 14 + 4 * MAX_VLAN_TAGS + 4 * MAX_MPLS_LABELS + 40;
    if let Some((l3, vlans)) = ip_header(data, link)
        && let Some(ip) = data.get(l3..)
        && addresses(ip).is_some()
        && (tunnel.kind != Kind::Gtp || is_plausible(ip, ip.len() + missing.unwrap_or_default()))
    {
        return Inside::Packet { tunnel, ip, vlans };
    }
    match tunnel.kind {
        _ if missing.is_some() && data.len() < LONGEST => Inside::Unknown,
        // Inner packets other than IP, such as ARP, belong to the flow of the outer UDP datagram, whose ports
        // tell them apart.
        Kind::Vxlan | Kind::Geneve => Inside::Nothing,
        _ => Inside::Whole(tunnel),
    }
}

/// True if bytes that start like an IP packet are one in all likelihood. GTP-U does not say what it carries,
/// and a frame whose destination address starts with the bits 4 or 6 looks like IP; what would then be the
/// addresses differs from frame to frame of one flow. `length` is the number of bytes of the content.
///
/// An IPv4 packet may be shorter than the content, because senders may leave Ethernet's padding after it; the
/// checksum tells it from a frame. An IPv6 packet has no checksum, but needs no padding.
fn is_plausible(ip: &[u8], length: usize) -> bool {
    const SHORTEST: usize = 20;
    const IPV6: usize = 40;
    let Some(&first) = ip.first() else { return false };
    if first >> 4 == 6 {
        return word(ip, 4).is_some_and(|payload| IPV6 + usize::from(payload) == length);
    }
    let header = usize::from(first & 0xf) * 4;
    let Some((bytes, total)) = ip.get(..header).zip(word(ip, 2)) else { return false };
    header >= SHORTEST && (header..=length).contains(&total.into()) && ipv4_valid(bytes)
}

/// Reads the headers of a datagram from the UDP header on; `None` if those of a tunnel are truncated.
fn in_udp(data: &[u8]) -> Option<Found<'_>> {
    let open = match word(data, 2) {
        Some(VXLAN) => vxlan,
        Some(GENEVE) => geneve,
        Some(GTP) => gtp,
        _ => return Some(Found::Nothing),
    };
    open(data.get(HEADER..)?)
}

fn vxlan(data: &[u8]) -> Option<Found<'_>> {
    // Flags of the VXLAN header: `VALID` says that the VNI is valid, and `OTHER` that the inner packet has a
    // protocol other than Ethernet.
    const VALID: u8 = 0x08;
    const OTHER: u8 = 0x04;
    let (flags, id) = (*data.first()?, long(data, 4)? >> 8);
    if flags & (VALID | OTHER) != VALID {
        return Some(Found::Nothing);
    }
    Some(Found::Packet(Tunnel { kind: Kind::Vxlan, id }, data.get(HEADER..)?, ETHERNET))
}

fn geneve(data: &[u8]) -> Option<Found<'_>> {
    let ([first, flags], kind, id) = (*data.first_chunk()?, word(data, 2)?, long(data, 4)? >> 8);
    let link = by_type(kind);
    // Another version, or a control packet.
    let is_other = first >> 6 != 0 || flags & 0x80 != 0;
    let Some(link) = link.filter(|_| !is_other) else { return Some(Found::Nothing) };
    let options = usize::from(first & 0x3f) * 4;
    Some(Found::Packet(Tunnel { kind: Kind::Geneve, id }, data.get(HEADER + options..)?, link))
}

fn gtp(data: &[u8]) -> Option<Found<'_>> {
    // Flags of the GTP-U header: extension headers follow (`EXTENDED`), the sequence number is valid
    // (`NUMBERED`), or any of the optional fields is present (`OPTIONAL`, a mask).
    const EXTENDED: u8 = 4;
    const NUMBERED: u8 = 2;
    const OPTIONAL: u8 = 7;
    // Types of GTP-U messages: `PACKET` carries a user's packet, and `END_MARKER` is the last message of a
    // tunnel before a handover.
    const PACKET: u8 = 255;
    const END_MARKER: u8 = 254;
    // Types of extension headers with a number by which the receiver sorts packets, or drops late ones: the
    // long PDCP PDU number (two types), the containers of radio networks, and the PDCP PDU number.
    const SEQUENCES: [u8; 6] = [0x03, 0x81, 0x82, 0x83, 0x84, 0xc0];
    let ([flags, message], id) = (*data.first_chunk()?, long(data, 4)?);
    let tunnel = Tunnel { kind: Kind::Gtp, id };
    if flags >> 4 != 3 {
        return Some(Found::Nothing);
    }
    match message {
        PACKET if flags & NUMBERED != 0 => return Some(Found::Numbered(tunnel)),
        PACKET => {}
        // After the end marker, the receiver expects no packet of the tunnel (3GPP TS 23.401), so no packet
        // may move from ahead of the end marker to after it.
        END_MARKER => return Some(Found::Unknown),
        _ => return Some(Found::Nothing),
    }
    let mut length = HEADER;
    if flags & OPTIONAL != 0 {
        length += 4;
        let mut next = if flags & EXTENDED != 0 { *data.get(length - 1)? } else { 0 };
        for count in 0.. {
            if next == 0 {
                break;
            }
            if SEQUENCES.contains(&next) {
                return Some(Found::Numbered(tunnel));
            }
            let words = usize::from(*data.get(length)?);
            if words == 0 {
                return Some(Found::Whole(tunnel));
            }
            if count == MAX_EXTENSIONS {
                return Some(Found::Unknown);
            }
            length += 4 * words;
            next = *data.get(length - 1)?;
        }
    }
    Some(Found::Packet(tunnel, data.get(length..)?, RAW_IP))
}

fn gre(data: &[u8]) -> Option<Found<'_>> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTED: u16 = 0x4000;
    const KEYED: u16 = 0x2000;
    const NUMBERED: u16 = 0x1000;
    const VERSION: u16 = 7;
    let (flags, kind) = (word(data, 0)?, word(data, 2)?);
    if flags & (ROUTED | VERSION) != 0 {
        // GRE with source routes, or GRE of PPTP, whose key field changes with each packet (RFC 2637), has no
        // key that identifies a tunnel.
        return Some(Found::Whole(Tunnel { kind: Kind::Gre, id: 0 }));
    }
    let has = |flag| flags & flag != 0;
    let mut length = if has(CHECKSUM) { 8 } else { 4 };
    let mut tunnel = Tunnel { kind: Kind::Gre, id: 0 };
    if has(KEYED) {
        tunnel = Tunnel { kind: Kind::KeyedGre, id: long(data, length)? };
        length += 4;
    }
    match by_type(kind) {
        // The receiver drops a packet that comes after a packet with a higher number (RFC 2890).
        _ if has(NUMBERED) => Some(Found::Numbered(tunnel)),
        Some(link) => Some(Found::Packet(tunnel, data.get(length..)?, link)),
        None => Some(Found::Whole(tunnel)),
    }
}

/// Returns the link type of the first header of an inner packet with EtherType `kind`; `None` if it is
/// neither IP nor Ethernet.
fn by_type(kind: u16) -> Option<u16> {
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => Some(RAW_IP),
        BRIDGED => Some(ETHERNET),
        _ => None,
    }
}
