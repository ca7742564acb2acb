//! The headers of tunnels, from the outer IP header to the inner packet: VXLAN (RFC 7348), GENEVE (RFC 8926),
//! GTP-U (3GPP TS 29.281), GRE (RFC 2784, RFC 2890) and IP in IP (RFC 2003, RFC 2473, RFC 4213).
//!
//! Only one tunnel is opened: what the inner packet itself carries is not looked at.

use element::frame::ip_header;
use wire::layers::{MAX_MPLS_LABELS, MAX_VLAN_TAGS};
use wire::{Layers, ether_type, ip_protocol};

use crate::key::addresses;

/// The EtherType of Ethernet frames in GRE and GENEVE (transparent Ethernet bridging).
const BRIDGED: u16 = 0x6558;
/// The UDP ports to which packets of a tunnel are sent.
pub(crate) const VXLAN: u16 = 4789;
pub(crate) const GENEVE: u16 = 6081;
pub(crate) const GTP: u16 = 2152;

/// The length in bytes of the headers of UDP, VXLAN, GENEVE without options, and GTP-U without optional
/// fields.
const HEADER: usize = 8;
/// The maximum number of GTP-U extension headers that are skipped.
const MAX_EXTENSIONS: usize = 8;

/// The link types of inner packets that start with an Ethernet header, and with an IP header.
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
    /// Something else in a tunnel without ports, or a packet with a sequence number. It belongs to the tunnel
    /// as a whole.
    Whole(Tunnel),
    /// A packet whose inner flow is not known, or one that no packet of its tunnel must overtake.
    Unknown,
    /// No tunnel, or a message about a tunnel. The outer header says which flow it is.
    Nothing,
}

/// Finds the packet in the tunnel that an IP packet belongs to. `ip` starts at the outer IP header. `is_cut`
/// is true if the packet has more bytes than `ip`.
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
        Some(Found::Packet(tunnel, data, link)) => carried(tunnel, data, link, is_cut),
        Some(Found::Whole(tunnel)) => Inside::Whole(tunnel),
        Some(Found::Nothing) => Inside::Nothing,
        Some(Found::Unknown) => Inside::Unknown,
        // The headers of the tunnel go on where they cannot be read.
        None if is_cut => Inside::Unknown,
        None => Inside::Nothing,
    }
}

/// The result of reading the headers of a tunnel; otherwise as [`Inside`].
enum Found<'p> {
    /// Data that start with a header of this link type.
    Packet(Tunnel, &'p [u8], u16),
    Whole(Tunnel),
    Unknown,
    Nothing,
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

fn long(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// Returns what a packet of `tunnel` carries: `data`, with a first header of type `link`.
fn carried(tunnel: Tunnel, data: &[u8], link: u16, is_cut: bool) -> Inside<'_> {
    // Ethernet with the VLAN tags and MPLS labels that are read, up to the addresses of IPv6.
    const LONGEST: usize = 14 + 4 * MAX_VLAN_TAGS + 4 * MAX_MPLS_LABELS + 40;
    if let Some((l3, vlans)) = ip_header(data, link)
        && let Some(ip) = data.get(l3..)
        && addresses(ip).is_some()
    {
        return Inside::Packet { tunnel, ip, vlans };
    }
    match tunnel.kind {
        _ if is_cut && data.len() < LONGEST => Inside::Unknown,
        // Packets other than IP, such as ARP, have the ports of the tunnel to tell them apart.
        Kind::Vxlan | Kind::Geneve => Inside::Nothing,
        _ => Inside::Whole(tunnel),
    }
}

/// Reads the headers of a datagram from the UDP header on; `None` if they are truncated.
fn in_udp(data: &[u8]) -> Option<Found<'_>> {
    let (port, data) = (word(data, 2)?, data.get(HEADER..)?);
    match port {
        VXLAN => vxlan(data),
        GENEVE => geneve(data),
        GTP => gtp(data),
        _ => Some(Found::Nothing),
    }
}

fn vxlan(data: &[u8]) -> Option<Found<'_>> {
    // The flags of a VNI, and of a next protocol other than Ethernet.
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
    // Of the flags: extension headers follow; the sequence number is valid; any of the optional fields is.
    const EXTENDED: u8 = 4;
    const NUMBERED: u8 = 2;
    const OPTIONAL: u8 = 7;
    // The types of a message with a user's packet, and of the last message before a handover.
    const PACKET: u8 = 255;
    const END_MARKER: u8 = 254;
    let ([flags, message], id) = (*data.first_chunk()?, long(data, 4)?);
    let tunnel = Tunnel { kind: Kind::Gtp, id };
    if flags >> 4 != 3 {
        return Some(Found::Nothing);
    }
    match message {
        // The receiver of a sequence number may put packets in order, or drop late packets.
        PACKET if flags & NUMBERED != 0 => return Some(Found::Whole(tunnel)),
        PACKET => {}
        // After the end marker, the receiver expects no packet of the tunnel (3GPP TS 23.401).
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
        // Source routes, and the GRE of PPTP, whose key field changes with each packet (RFC 2637).
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
        // The receiver drops packets that come later than a higher sequence number (RFC 2890).
        Some(link) if !has(NUMBERED) => Some(Found::Packet(tunnel, data.get(length..)?, link)),
        _ => Some(Found::Whole(tunnel)),
    }
}

/// Returns the link type of packets of an EtherType; `None` if they are neither IP nor Ethernet.
fn by_type(kind: u16) -> Option<u16> {
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => Some(RAW_IP),
        BRIDGED => Some(ETHERNET),
        _ => None,
    }
}
