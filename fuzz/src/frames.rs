//! Fuzz targets for the headers of packets: the views of `wire`, and the dissection of frames.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::checksum::{self, PseudoHeader};
use wire::{FromBytes, IntoBytes, Layers, LinkType};
use wire::{arp, ethernet, icmp, icmpv6, ipv4, ipv6, tcp, udp, vlan};

/// Reads any bytes as a header of each protocol. Checks that all parts lie within the bytes, that getters
/// return the values that setters wrote, and that checksums are valid after they were computed.
pub fn headers(data: &[u8]) {
    link_headers(data);
    ipv4_header(data);
    ipv6_header(data);
    transport_headers(data);
}

fn link_headers(data: &[u8]) {
    if let Ok((ethernet, _)) = ethernet::Header::ref_from_prefix(data) {
        let address = ethernet.source;
        assert_eq!(address.to_string().parse(), Ok(address));
        assert!(address.is_group() || !address.is_broadcast());
    }
    if let Ok((mut tag, _)) = vlan::Tag::read_from_prefix(data) {
        let before = tag;
        tag.set_id(before.id());
        tag.set_priority(before.priority());
        assert_eq!(tag.as_bytes(), before.as_bytes());
        tag.set_id(!before.id());
        tag.set_priority(!before.priority() & 7);
        assert_eq!((tag.id(), tag.priority()), (!before.id() & 0xfff, !before.priority() & 7));
        assert_eq!(tag.drop_eligible(), before.drop_eligible());
    }
    assert!(arp::parse(data).is_err() || data.len() >= 28);
}

fn ipv4_header(data: &[u8]) {
    if let Ok((mut header, _)) = ipv4::Header::read_from_prefix(data) {
        let before = header;
        assert!(header.header_len() <= 60);
        assert!(header.is_fragment() || (header.fragment_offset() == 0 && !header.more_fragments()));
        header.set_dscp(before.dscp());
        header.set_ecn(before.ecn());
        assert_eq!(header.as_bytes(), before.as_bytes());
        header.set_dscp(!before.dscp() & 0x3f);
        assert_eq!((header.dscp(), header.ecn()), (!before.dscp() & 0x3f, before.ecn()));
        let right = checksum::ipv4_plain_valid(&before);
        assert_eq!(checksum::ipv4_valid(before.as_bytes()), right);
        let mut sent = before;
        checksum::fill_ipv4(sent.as_mut_bytes()).expect("20 bytes are enough");
        assert!(checksum::ipv4_plain_valid(&sent));
        // If all bytes of the header are zero after the update, which is not IPv4, the incremental update
        // gives the checksum 0, but 0xffff would be right.
        if sent.ttl > 0 && sent.version() == 4 {
            checksum::decrement_ttl(&mut sent);
            assert!(checksum::ipv4_plain_valid(&sent));
        }
    }
    if let Ok(packet) = ipv4::parse(data) {
        assert!(ipv4::Header::LEN + packet.options.len() + packet.payload.len() <= data.len());
        let mut options = ipv4::options(packet.options);
        assert!(options.by_ref().count() <= packet.options.len());
        assert!(options.next().is_none());
        udp_and_tcp(&PseudoHeader::from(packet.header), packet.payload);
    }
    assert!(ipv4::options(data).count() <= data.len());
}

fn ipv6_header(data: &[u8]) {
    if let Ok((mut header, rest)) = ipv6::Header::read_from_prefix(data) {
        let before = header;
        header.set_traffic_class(before.traffic_class());
        header.set_flow_label(before.flow_label());
        assert_eq!(header.as_bytes(), before.as_bytes());
        header.set_traffic_class(!before.traffic_class());
        header.set_flow_label(!before.flow_label());
        assert_eq!(header.traffic_class(), !before.traffic_class());
        assert_eq!(header.flow_label(), !before.flow_label() & 0xf_ffff);
        assert_eq!(header.version(), before.version());
        extensions(before.next_header, rest);
    }
    if let Ok(packet) = ipv6::parse(data) {
        assert!(ipv6::Header::LEN + packet.payload.len() <= data.len());
        extensions(packet.header.next_header, packet.payload);
        udp_and_tcp(&PseudoHeader::from(packet.header), packet.payload);
    }
    if let Some((&kind, rest)) = data.split_first() {
        extensions(kind, rest);
    }
}

/// Checks that extension headers of IPv6 follow one another without gaps, and that the upper-layer header
/// follows the last one.
fn extensions(next_header: u8, bytes: &[u8]) {
    ipv6::jumbo_length(next_header, bytes);
    let (mut next, mut offset) = (next_header, 0);
    for extension in ipv6::extensions(next_header, bytes) {
        let Ok(extension) = extension else { break };
        assert_eq!(extension.kind, next);
        assert_eq!(bytes.get(offset..offset + extension.bytes.len()), Some(extension.bytes));
        next = extension.next_header;
        offset += extension.bytes.len();
    }
    let upper = ipv6::upper_layer(next_header, bytes);
    assert_eq!((upper.protocol, upper.offset), (next, offset));
    assert!(upper.offset <= bytes.len());
}

fn transport_headers(data: &[u8]) {
    let v4 = PseudoHeader::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::LOCALHOST };
    let v6 = PseudoHeader::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    for pseudo in [v4, v6] {
        udp_and_tcp(&pseudo, data);
        let mut message = data.to_vec();
        checksum::icmpv6_valid(&pseudo, &message);
        if checksum::fill_icmpv6(&pseudo, &mut message).is_ok() {
            assert!(checksum::icmpv6_valid(&pseudo, &message));
        }
    }
    if let Ok((header, _)) = icmp::Header::ref_from_prefix(data) {
        assert!(!(header.is_error() && header.is_query()));
    }
    if let Ok((header, _)) = icmpv6::Header::ref_from_prefix(data) {
        assert!(!(header.is_error() && header.is_query()));
    }
    let mut message = data.to_vec();
    checksum::icmp_valid(&message);
    if checksum::fill_icmp(&mut message).is_ok() {
        assert!(checksum::icmp_valid(&message));
    }
    assert!(tcp::options(data).count() <= data.len());
}

fn udp_and_tcp(pseudo: &PseudoHeader, data: &[u8]) {
    checksum::udp_valid(pseudo, data);
    checksum::tcp_valid(pseudo, data);
    let mut copy = data.to_vec();
    if checksum::fill_udp(pseudo, &mut copy).is_ok() {
        assert!(checksum::udp_valid(pseudo, &copy));
    }
    let mut copy = data.to_vec();
    if checksum::fill_tcp(pseudo, &mut copy).is_ok() {
        assert!(checksum::tcp_valid(pseudo, &copy));
    }
    if let Ok(datagram) = udp::parse(data) {
        assert!(udp::Header::LEN + datagram.payload.len() <= data.len());
    }
    if let Ok(segment) = tcp::parse(data) {
        assert_eq!(tcp::Header::LEN + segment.options.len() + segment.payload.len(), data.len());
        for option in tcp::options(segment.options) {
            if let Ok(tcp::Opt::Sack(blocks)) = option {
                assert!(blocks.iter().len() <= 5);
            }
        }
    }
}

/// All link types that have a dissector, and one that has none.
const LINKS: [LinkType; 7] = [
    LinkType::Null,
    LinkType::Ethernet,
    LinkType::RawIp,
    LinkType::Loop,
    LinkType::LinuxCooked,
    LinkType::LinuxCookedV2,
    LinkType::Other(147),
];

/// Dissects any bytes as a frame of each link type. Checks that the headers lie within the frame, in order,
/// and that link padding makes no difference.
pub fn layers(data: &[u8]) {
    for link in LINKS {
        let layers = Layers::locate(data, link);
        assert!(layers.end <= data.len());
        let places = [layers.l3, layers.l4, layers.payload];
        let known: Vec<usize> = places.into_iter().flatten().collect();
        assert!(known.is_sorted() && known.iter().all(|&place| place <= data.len()), "{layers:?}");
        assert!(layers.l4.is_none() || layers.l3.is_some());
        assert!(layers.payload.is_none() || layers.l4.is_some());
        let tuple = layers.five_tuple(data);
        if let Some(tuple) = tuple {
            assert_eq!(tuple.reversed().reversed(), tuple);
            let protocol = layers.fragment.map(|fragment| fragment.protocol).or(layers.protocol);
            assert_eq!(Some(tuple.protocol()), protocol);
        }
        if let Some(fault) = &layers.fault {
            assert!(!fault.to_string().is_empty());
        } else if layers.missing == 0 {
            let packet = &data[..layers.end];
            let again = Layers::locate(packet, link);
            assert_eq!(again, layers, "link padding counts");
            assert_eq!(again.five_tuple(packet), tuple);
        }
    }
}
