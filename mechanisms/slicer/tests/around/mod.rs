//! Tunnels for tests: each wraps an Ethernet frame in headers, as a network function may do, and returns an
//! Ethernet frame.
#![allow(dead_code, reason = "each test program uses a part")]

use wire::checksum::{PseudoHeader, Sum, fill_ipv4, fill_udp};
use wire::{FromBytes, ipv4, ipv6};

/// A tunnel: its name in messages, and the function that wraps a frame.
pub(crate) type Tunnel = (&'static str, fn(&[u8]) -> Vec<u8>);

/// Tunnels that the slicer knows: sliced packets inside are joined.
pub(crate) const KNOWN: &[Tunnel] = &[
    ("IP in IPv4", |frame| eth(0x0800, &ip4(number(frame), 0, &packet(frame)))),
    ("IP in IPv4 with its class", |frame| eth(0x0800, &ip4(number(frame), class(frame), &packet(frame)))),
    ("IP in IPv6", |frame| eth(0x86dd, &ip6(number(frame), 0, &packet(frame)))),
    ("IP in IPv6 with its class", |frame| eth(0x86dd, &ip6(number(frame), class(frame), &packet(frame)))),
    ("IP in IPv6 behind options", |frame| {
        let limit = [number(frame), 0, 4, 1, 4, 1, 1, 0];
        eth(0x86dd, &ip6(60, 0, &[&limit, &packet(frame)[..]].concat()))
    }),
    ("GRE", |frame| eth(0x0800, &ip4(47, 0, &gre(0, kind(frame), &packet(frame))))),
    ("GRE with all fields", |frame| eth(0x0800, &ip4(47, 0, &gre(0xb000, kind(frame), &packet(frame))))),
    ("GRE of frames over IPv6", |frame| eth(0x86dd, &ip6(47, 0, &gre(0x8000, 0x6558, frame)))),
    ("VXLAN", |frame| eth(0x0800, &udp4(8472, false, &vxlan(frame)))),
    ("VXLAN with a checksum", |frame| eth(0x0800, &udp4(4789, true, &vxlan(frame)))),
    ("VXLAN over IPv6", |frame| eth(0x86dd, &udp6(4789, true, &vxlan(frame)))),
    ("VXLAN with a group", |frame| {
        eth(0x0800, &udp4(4789, false, &[&[0x88, 0x40, 0, 9, 0, 0, 7, 0], frame].concat()))
    }),
    ("VXLAN-GPE", |frame| {
        let next = if number(frame) == 4 { 1 } else { 2 };
        eth(0x0800, &udp4(4790, true, &[&[0x0c, 0, 0, next, 0, 0, 7, 0], &packet(frame)[..]].concat()))
    }),
    ("VXLAN-GPE with a service header", |frame| {
        let header = [0x0c, 0, 0, 4, 0, 0, 7, 0, 0x0f, 0xc6, 1, 3, 0, 0, 1, 255];
        eth(0x0800, &udp4(4790, true, &[&header, &[0; 16][..], frame].concat()))
    }),
    ("GENEVE", |frame| {
        let header = [2, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 1, 9, 9, 9, 9];
        eth(0x0800, &udp4(6081, true, &[&header, frame].concat()))
    }),
    ("GENEVE of packets", |frame| {
        let [high, low] = kind(frame).to_be_bytes();
        eth(0x86dd, &udp6(6081, false, &[&[0, 0, high, low, 0, 0, 7, 0], &packet(frame)[..]].concat()))
    }),
    ("GTP-U", |frame| eth(0x0800, &udp4(2152, false, &gtp(&[], &packet(frame))))),
    ("GTP-U with extensions", |frame| {
        let options = [0, 1, 0, 0x85, 1, 0x10, 9, 0];
        eth(0x0800, &udp4(2152, true, &gtp(&options, &packet(frame))))
    }),
    ("IP in UDP", |frame| eth(0x0800, &udp4(5555, true, &packet(frame)))),
    ("GUE", |frame| {
        eth(0x0800, &udp4(6080, true, &[&[0, number(frame), 0, 0], &packet(frame)[..]].concat()))
    }),
    ("LISP", |frame| {
        eth(0x0800, &udp4(4341, false, &[&[0x80, 1, 2, 3, 0, 0, 0, 1], &packet(frame)[..]].concat()))
    }),
    ("MPLS", |frame| eth(0x8847, &[&[0, 1, 1, 64], &packet(frame)[..]].concat())),
    ("MPLS with two labels", |frame| {
        eth(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], &packet(frame)[..]].concat())
    }),
    ("MPLS of frames", |frame| eth(0x8847, &[&[0, 1, 1, 64, 0, 0, 0, 1], frame].concat())),
    ("MPLS in UDP", |frame| eth(0x0800, &udp4(6635, true, &[&[0, 1, 1, 64], &packet(frame)[..]].concat()))),
    ("MPLS in GRE", |frame| {
        eth(0x0800, &ip4(47, 0, &gre(0x2000, 0x8847, &[&[0, 1, 1, 64], &packet(frame)[..]].concat())))
    }),
    ("MPLS in IP", |frame| eth(0x0800, &ip4(137, 0, &[&[0, 1, 1, 64], &packet(frame)[..]].concat()))),
    ("PPPoE", |frame| {
        let ppp = ppp(frame);
        let [high, low] = (ppp.len() as u16).to_be_bytes();
        eth(0x8864, &[&[0x11, 0, 0, 7, high, low], &ppp[..]].concat())
    }),
    ("PPTP", |frame| {
        let ppp = [&[0xff, 3], &ppp(frame)[..]].concat();
        let [high, low] = (ppp.len() as u16).to_be_bytes();
        let header = [0x30, 0x81, 0x88, 0x0b, high, low, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1];
        eth(0x0800, &ip4(47, 0, &[&header, &ppp[..]].concat()))
    }),
    ("EtherIP", |frame| eth(0x0800, &ip4(97, 0, &[&[0x30, 0], frame].concat()))),
    ("L2TP version 3", |frame| eth(0x0800, &ip4(115, 0, &[&[0, 0, 0, 7, 0, 0, 0, 0], frame].concat()))),
    ("802.3", |frame| {
        let [high, low] = kind(frame).to_be_bytes();
        let packet = packet(frame);
        // A length of 0x600 or more would be an EtherType, so longer frames stay as they are.
        if packet.len() + 8 >= 0x600 {
            return frame.to_vec();
        }
        eth(packet.len() as u16 + 8, &[&[0xaa, 0xaa, 3, 0, 0, 0, high, low], &packet[..]].concat())
    }),
    ("a tag", |frame| [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()),
    ("a backbone", |frame| eth(0x88e7, &[&[0, 0, 0, 7], frame].concat())),
    ("a service header", |frame| eth(0x894f, &[&[0x0f, 0xc2, 2, 3, 0, 0, 1, 255], frame].concat())),
];

/// Tunnels in which Splice finds a sliced packet that it cannot join. The outer packet is authenticated
/// (AH, ESP, MACsec), is a fragment, has a wrong length, or has contents of an unknown format. Splice drops
/// the outer packet.
pub(crate) const CLOSED: &[Tunnel] = &[
    ("AH", |frame| {
        let header = [number(frame), 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        eth(0x0800, &ip4(51, 0, &[&header, &packet(frame)[..]].concat()))
    }),
    ("AH over IPv6", |frame| {
        let header = [number(frame), 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        eth(0x86dd, &ip6(51, 0, &[&header, &packet(frame)[..]].concat()))
    }),
    ("ESP that encrypts nothing", |frame| {
        eth(
            0x0800,
            &ip4(50, 0, &[&[0, 0, 0, 7, 0, 0, 0, 1], &packet(frame)[..], &[1, 2, 2, 4], &[9; 12]].concat()),
        )
    }),
    ("MACsec that encrypts nothing", |frame| {
        [&frame[..12], &[0x88, 0xe5, 0, 0, 0, 0, 0, 1], &frame[12..], &[9; 16]].concat()
    }),
    ("a first fragment", |frame| {
        let mut outer = eth(0x0800, &ip4(number(frame), 0, &packet(frame)));
        outer[20] = 0x20;
        fill_ipv4(&mut outer[14..34]).unwrap();
        outer
    }),
    ("a last fragment", |frame| {
        let mut outer = eth(0x0800, &ip4(number(frame), 0, &packet(frame)));
        outer[21] = 9;
        fill_ipv4(&mut outer[14..34]).unwrap();
        outer
    }),
    ("a fragment over IPv6", |frame| {
        let part = [number(frame), 0, 0, 1, 0, 0, 0, 7];
        eth(0x86dd, &ip6(44, 0, &[&part, &packet(frame)[..]].concat()))
    }),
    ("a datagram with more behind it", |frame| {
        let mut outer = udp4(4789, false, &vxlan(frame));
        outer.extend([7; 6]);
        let length = outer.len() as u16;
        outer[2..4].copy_from_slice(&length.to_be_bytes());
        fill_ipv4(&mut outer[..20]).unwrap();
        eth(0x0800, &outer)
    }),
    ("an outer length that is too large", |frame| {
        let mut outer = eth(0x0800, &ip4(number(frame), 0, &packet(frame)));
        let length = outer.len() as u16;
        outer[16..18].copy_from_slice(&length.to_be_bytes());
        fill_ipv4(&mut outer[14..34]).unwrap();
        outer
    }),
    ("a protocol of its own", |frame| eth(0x0800, &ip4(253, 0, &[&[1, 2, 3], &packet(frame)[..]].concat()))),
    ("SCTP", |frame| eth(0x0800, &ip4(132, 0, &[&[7; 28], &packet(frame)[..]].concat()))),
    ("a datagram of its own", |frame| {
        eth(0x0800, &udp4(9, true, &[&[1, 2, 3], &packet(frame)[..]].concat()))
    }),
    ("an EtherType of its own", |frame| eth(0x88b5, &[&[1, 2, 3], &packet(frame)[..]].concat())),
];

/// Wraps a frame in ESP as Linux does: the contents are encrypted, but the DSCP is copied to the outer
/// header, so that the mark of sliced packets can be seen.
pub(crate) fn esp(frame: &[u8]) -> Vec<u8> {
    let inside: Vec<u8> = packet(frame).iter().map(|byte| byte ^ 0x5a).collect();
    eth(0x0800, &ip4(50, class(frame), &[&[0, 0, 0, 7, 0, 0, 0, 1], &inside[..]].concat()))
}

fn number(frame: &[u8]) -> u8 {
    if kind(frame) == 0x86dd { 41 } else { 4 }
}

/// Returns the EtherType of a frame.
fn kind(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[12], frame[13]])
}

fn class(frame: &[u8]) -> u8 {
    if kind(frame) == 0x86dd { frame[14] << 4 | frame[15] >> 4 } else { frame[15] }
}

/// Returns the IP packet in a frame, without a trailer.
pub(crate) fn packet(frame: &[u8]) -> Vec<u8> {
    let ip = &frame[14..];
    let length = match kind(frame) {
        0x0800 => u16::from_be_bytes([ip[2], ip[3]]).into(),
        0x86dd => 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]])),
        _ => ip.len(),
    };
    ip[..length.min(ip.len())].to_vec()
}

fn eth(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2], &kind.to_be_bytes()[..], payload].concat()
}

fn ip4(protocol: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let header = [0x45, class, high, low, 0, 7, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let mut packet = [&header, payload].concat();
    fill_ipv4(&mut packet[..20]).unwrap();
    packet
}

fn ip6(next: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let mut header = [0; 40];
    header[..8].copy_from_slice(&[0x60 | class >> 4, class << 4, 0, 9, high, low, next, 64]);
    (header[8], header[23], header[24], header[39]) = (0xfd, 1, 0xfd, 2);
    [&header, payload].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let ports = [50_000, port, 8 + payload.len() as u16, 0].map(u16::to_be_bytes);
    [ports.as_flattened(), payload].concat()
}

fn udp4(port: u16, has_checksum: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = ip4(17, 0, &udp(port, payload));
    let pseudo = PseudoHeader::from(ipv4::Header::ref_from_prefix(&packet).unwrap().0);
    if has_checksum {
        fill_udp(&pseudo, &mut packet[20..]).unwrap();
    }
    packet
}

fn udp6(port: u16, has_checksum: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = ip6(17, 0, &udp(port, payload));
    let pseudo = PseudoHeader::from(ipv6::Header::ref_from_prefix(&packet).unwrap().0);
    if has_checksum {
        fill_udp(&pseudo, &mut packet[40..]).unwrap();
    }
    packet
}

fn vxlan(frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, 7, 0], frame].concat()
}

/// Returns a GRE packet with EtherType `kind`. The bits of `flags` select the checksum, the key and the
/// sequence number.
fn gre(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
    for (flag, field) in [(0x8000, [0; 4]), (0x2000, [0, 0, 0, 7]), (0x1000, [0, 0, 0, 1])] {
        if flags & flag != 0 {
            bytes.extend(field);
        }
    }
    bytes.extend(payload);
    if flags & 0x8000 != 0 {
        let checksum = Sum::new().bytes(&bytes).checksum();
        bytes[4..6].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}

fn gtp(options: &[u8], payload: &[u8]) -> Vec<u8> {
    let [high, low] = ((options.len() + payload.len()) as u16).to_be_bytes();
    let first = if options.is_empty() { 0x30 } else { 0x36 };
    [&[first, 0xff, high, low, 0, 0, 0, 7], options, payload].concat()
}

fn ppp(frame: &[u8]) -> Vec<u8> {
    let protocol = if kind(frame) == 0x86dd { 0x57 } else { 0x21 };
    [&[0, protocol], &packet(frame)[..]].concat()
}
