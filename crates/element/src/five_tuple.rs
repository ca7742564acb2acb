//! The five-tuple of a packet, which identifies its flow: addresses, protocol and ports.

use packet::{Base, Packet};
use wire::layers::FLOW_HEADERS;
use wire::{FiveTuple, FromBytes, Layers, LinkType, icmp, icmpv6, ip_protocol, ipv4};

use crate::effects::Field;

/// The fields that [`five_tuple`] reads, for the declarations of elements that call it.
pub const READS: [Field; 4] = [
    Field::Bytes { base: Base::Network, offset: 0, length: FLOW_HEADERS },
    Field::Bytes { base: Base::Data, offset: 0, length: FLOW_HEADERS },
    Field::Length,
    Field::HeaderOffset(Base::Network),
];

/// Returns the five-tuple of a packet. The IP header starts at the packet's network header annotation or,
/// without this annotation, after the link header. Ports are 0 if the protocol has none, if they are cut off,
/// in fragments, and after more extension headers than the parser reads ([`wire::ipv6`]). `None` if the
/// packet has no complete and valid IP header; the options of an IPv4 header may be cut off.
#[inline]
pub fn five_tuple(packet: &Packet) -> Option<FiveTuple> {
    match packet.offset(Base::Network) {
        Some(_) => {
            let ip = first(packet.header(Base::Network)?);
            plain(ip).or_else(|| elsewhere(ip, LinkType::RawIp))
        }
        None => elsewhere(first(packet.data()), LinkType::from_number(packet.link())),
    }
}

/// Returns the first [`FLOW_HEADERS`] bytes of a packet, or all bytes if it is shorter: no more are read to
/// find the flow.
#[inline]
fn first(bytes: &[u8]) -> &[u8] {
    bytes.get(..usize::from(FLOW_HEADERS)).unwrap_or(bytes)
}

/// Returns the flow to which an ICMP or ICMPv6 error belongs, in the direction of the error: the reverse of
/// the flow of the packet that the error quotes. `None` for packets that are no errors. Also `None` if the
/// error does not go to the sender of the quoted packet, or if the quoted IP header is not complete.
#[inline]
pub fn flow_of_error(packet: &Packet) -> Option<FiveTuple> {
    let (bytes, link) = match packet.offset(Base::Network) {
        Some(_) => (first(packet.header(Base::Network)?), LinkType::RawIp),
        None => (first(packet.data()), LinkType::from_number(packet.link())),
    };
    if link == LinkType::RawIp && plain(bytes).is_some() {
        return None;
    }
    let layers = Layers::locate(bytes, link);
    let message = bytes.get(layers.l4?..)?;
    let is_error = match layers.protocol? {
        ip_protocol::ICMP => icmp::Header::ref_from_prefix(message).ok()?.0.is_error(),
        ip_protocol::ICMPV6 => icmpv6::Header::ref_from_prefix(message).ok()?.0.is_error(),
        _ => false,
    };
    if !is_error {
        return None;
    }
    let quoted = message.get(icmp::Header::LEN..)?;
    let about = Layers::locate(quoted, LinkType::RawIp).five_tuple(quoted)?.reversed();
    (about.destination() == layers.five_tuple(bytes)?.destination()).then_some(about)
}

/// Returns the five-tuple of a TCP or UDP packet in IPv4 without options and fragmentation, if its ports
/// are complete; most packets are of this kind. `None` for all other packets.
#[inline]
fn plain(bytes: &[u8]) -> Option<FiveTuple> {
    let (ip, rest) = ipv4::Header::ref_from_prefix(bytes).ok()?;
    let length = usize::from(ip.total_length.get());
    let is_plain = ip.version() == 4 && ip.header_len() == ipv4::Header::LEN && !ip.is_fragment();
    if !is_plain || !matches!(ip.protocol, ip_protocol::TCP | ip_protocol::UDP) || length < PORTS_END {
        return None;
    }
    let &[a, b, c, d] = rest.first_chunk()?;
    let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    Some(FiveTuple::v4((ip.source_addr(), ports.0), (ip.destination_addr(), ports.1), ip.protocol))
}

/// The offset of the end of the ports in an IPv4 packet without options, in bytes.
const PORTS_END: usize = ipv4::Header::LEN + 4;

#[inline(never)]
fn elsewhere(bytes: &[u8], link: LinkType) -> Option<FiveTuple> {
    Layers::locate(bytes, link).five_tuple(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use packet::Pool;
    use proptest::prelude::*;
    use wire::MacAddr;
    use wire::build::Builder;

    use super::*;

    fn end(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn show(pool: &mut Pool, frame: &[u8], network: Option<isize>) -> Option<String> {
        let mut packet = pool.packet(frame).unwrap();
        packet.set_offset(Base::Network, network);
        let tuple = five_tuple(&packet);
        pool.free(packet);
        let show = |t: FiveTuple| {
            let from = SocketAddr::new(t.source(), t.source_port());
            let to = SocketAddr::new(t.destination(), t.destination_port());
            format!("{from} {to} {}", t.protocol())
        };
        tuple.map(show)
    }

    #[test]
    fn with_and_without_annotation() {
        let ether = |builder: Builder| builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let build = |builder: Builder| ether(builder).build(&[7; 30]).unwrap();
        let udp = Builder::udp(end("10.0.0.1:5"), end("10.0.0.2:53"));
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut of = |frame: &[u8], network| show(&mut pool, frame, network);
        let expected = Some("10.0.0.1:5 10.0.0.2:53 17");
        assert_eq!(of(&build(udp.clone()), None).as_deref(), expected);
        assert_eq!(of(&build(udp.clone()), Some(14)).as_deref(), expected);
        assert_eq!(of(&build(udp.clone().vlan(3)), None).as_deref(), expected);
        assert_eq!(of(&build(udp.clone().vlan(3)), Some(18)).as_deref(), expected);
        assert_eq!(of(&build(udp.clone().options(&[1, 1, 1, 0])), Some(14)).as_deref(), expected);
        let behind = build(udp.fragment(8));
        assert_eq!(of(&behind, Some(14)).as_deref(), Some("10.0.0.1:0 10.0.0.2:0 17"));
        let six = build(Builder::tcp(end("[2001:db8::1]:5"), end("[2001:db8::2]:80"), 2));
        assert_eq!(of(&six, None).as_deref(), Some("[2001:db8::1]:5 [2001:db8::2]:80 6"));
        assert_eq!(of(&six, Some(14)).as_deref(), Some("[2001:db8::1]:5 [2001:db8::2]:80 6"));
        let mut arp = build(Builder::udp(end("10.0.0.1:5"), end("10.0.0.2:53")));
        arp[13] = 6;
        assert_eq!(of(&arp, None), None);
        assert_eq!(of(&[], Some(0)), None);
    }

    /// Builds a frame with UDP over IPv6 whose UDP header follows extension headers of these kinds, each
    /// `length` bytes long. Fragment headers have 8 bytes.
    fn behind(kinds: &[u8], length: usize) -> Vec<u8> {
        let udp = Builder::udp(end("[2001:db8::1]:5"), end("[2001:db8::2]:53"));
        let mut frame = udp.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[7; 30]).unwrap();
        for &kind in kinds.iter().rev() {
            let next = std::mem::replace(&mut frame[20], kind);
            let mut header = vec![0; if kind == ip_protocol::FRAGMENT { 8 } else { length }];
            header[0] = next;
            header[1] = if kind == ip_protocol::FRAGMENT { 0 } else { (length / 8 - 1) as u8 };
            frame.splice(54..54, header);
        }
        let payload = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&payload.to_be_bytes());
        frame
    }

    #[test]
    fn extension_headers_have_one_bound_for_flows_and_for_workers() {
        let mut pool = Pool::new(64 << 20).unwrap();
        // For a packet with `number` extension headers of `length` bytes each: true if the ports after them
        // are found.
        for (number, length, is_seen) in [
            (1, 8, true),
            (12, 8, true),
            (16, 8, true),
            (17, 8, false),
            (2, 128, true),
            (1, 256, true),
            (1, 264, false),
        ] {
            let frame = behind(&vec![ip_protocol::DESTINATION; number], length);
            let ports = if is_seen { (5, 53) } else { (0, 0) };
            for network in [None, Some(14)] {
                let mut packet = pool.packet(&frame).unwrap();
                packet.set_offset(Base::Network, network);
                let tuple = five_tuple(&packet).unwrap();
                assert_eq!((tuple.source_port(), tuple.destination_port()), ports, "{number} of {length}");
                let ends = |ports: (u16, u16)| ((tuple.source(), ports.0), (tuple.destination(), ports.1));
                let (a, b) = ends(ports);
                assert_eq!(crate::steering::hash(&packet), Some(flow::rss::DEFAULT_HASH.hash_ends(a, b)));
                assert_eq!(crate::steering::transport(&packet).is_some(), is_seen);
                pool.free(packet);
            }
        }
    }

    #[test]
    fn an_atomic_fragment_has_the_flow_of_whole_packets() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut of = |frame: &[u8]| {
            let packet = pool.packet(frame).unwrap();
            let found = (five_tuple(&packet), crate::steering::hash(&packet));
            let is_whole = crate::steering::transport(&packet).is_some();
            pool.free(packet);
            (found, is_whole)
        };
        assert_eq!(of(&behind(&[ip_protocol::FRAGMENT], 8)), of(&behind(&[], 8)));
    }

    proptest! {
        #[test]
        fn the_quick_way_agrees_with_the_general_one(bytes in prop::collection::vec(any::<u8>(), 0..60), plain_start: bool) {
            let mut bytes = bytes;
            if plain_start && bytes.len() > 24 {
                bytes[0] = 0x45;
                (bytes[2], bytes[3]) = (0, bytes.len() as u8);
                bytes[6..8].fill(0);
                bytes[9] = if bytes[9] & 1 == 0 { 6 } else { 17 };
            }
            if let Some(tuple) = plain(&bytes) {
                prop_assert_eq!(Some(tuple), elsewhere(&bytes, LinkType::RawIp));
            }
        }
    }
}
