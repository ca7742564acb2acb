//! Checksums of IPv4, TCP, UDP, ICMP and ICMPv6: for each protocol, functions that check and that write its
//! checksum field.

use std::mem::offset_of;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{FoldedDelta, Sum};
use crate::{Error, FromBytes, IntoBytes, Layer, icmp, icmpv6, ip_protocol, ipv4, ipv6, tcp, udp};

/// The source and destination address that the checksums of TCP, UDP and ICMPv6 include (RFC 9293 3.1, RFC
/// 8200 8.1).
///
/// The destination is the *final* one. It differs from the address in the IP header as long as an IPv6
/// routing header has segments left, or an IPv4 source route has addresses left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoHeader {
    /// The addresses of an IPv4 packet.
    V4 {
        /// Source address of the packet.
        source: Ipv4Addr,
        /// Final destination address, after all addresses of a source route.
        destination: Ipv4Addr,
    },
    /// The addresses of an IPv6 packet.
    V6 {
        /// Source address of the packet.
        source: Ipv6Addr,
        /// Final destination address, after all segments of a routing header.
        destination: Ipv6Addr,
    },
}

impl PseudoHeader {
    /// Starts a checksum with the pseudo-header: addresses, protocol, and `length`, the number of bytes of
    /// transport header and payload. The caller adds these bytes.
    #[inline]
    pub fn sum(&self, protocol: u8, length: usize) -> Sum {
        // The length has 16 bits over IPv4 and 32 bits over IPv6. It is added as 32 bits in both cases: the
        // upper 16 are zero for IPv4.
        let addresses = match self {
            PseudoHeader::V4 { source, destination } => {
                Sum::new().word32(source.to_bits()).word32(destination.to_bits())
            }
            PseudoHeader::V6 { source, destination } => {
                Sum::new().bytes(&source.octets()).bytes(&destination.octets())
            }
        };
        addresses.word32(length as u32).word(protocol.into())
    }
}

impl PseudoHeader {
    /// Returns the pseudo-header of the packet whose IP header is at the start of `ip`. The destination is
    /// the final one by an IPv4 source route or IPv6 routing header. `None` if the packet is not IP, its IP
    /// header is truncated or has an IHL below 5, or its final destination is unknown
    /// ([`ipv6::checksum_addresses`]).
    #[inline]
    pub fn of(ip: &[u8]) -> Option<PseudoHeader> {
        match ip.first()? >> 4 {
            4 => {
                let (header, rest) = ipv4::Header::ref_from_prefix(ip).ok()?;
                let options = rest.get(..header.header_len().checked_sub(ipv4::Header::LEN)?)?;
                Some(PseudoHeader::routed(header, options))
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(ip).ok()?;
                let (source, destination) = ipv6::checksum_addresses(header, rest)?;
                Some(PseudoHeader::V6 { source, destination })
            }
            _ => None,
        }
    }

    /// Returns the pseudo-header of an IPv4 packet, given its header and option bytes. As long as a source
    /// route has addresses left, its last address is the destination (RFC 791, section 3.1).
    #[inline]
    pub fn routed(header: &ipv4::Header, options: &[u8]) -> PseudoHeader {
        // Nearly all packets have no options, so that the function for options is not inlined.
        if options.is_empty() { header.into() } else { PseudoHeader::by_options(header, options) }
    }

    #[cold]
    fn by_options(header: &ipv4::Header, options: &[u8]) -> PseudoHeader {
        use ipv4::option::{LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE};
        let route = ipv4::options(options)
            .flatten()
            .find(|option| matches!(option.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE));
        // The route's first data byte is a pointer to the next address. It counts from 1, which is the
        // option's kind byte, so that the first address has number 4. Addresses before the pointer have
        // been visited; a pointer beyond the end means that none is left.
        let left = route
            .filter(|route| route.data.first().is_some_and(|&at| usize::from(at) <= route.data.len() + 2));
        let last = left.and_then(|route| route.data.get(1..)?.as_chunks::<4>().0.last());
        let destination = last.map_or(header.destination_addr(), |&address| address.into());
        PseudoHeader::V4 { source: header.source_addr(), destination }
    }
}

impl From<&ipv4::Header> for PseudoHeader {
    #[inline]
    fn from(header: &ipv4::Header) -> Self {
        PseudoHeader::V4 { source: header.source_addr(), destination: header.destination_addr() }
    }
}

impl From<&ipv6::Header> for PseudoHeader {
    #[inline]
    fn from(header: &ipv6::Header) -> Self {
        PseudoHeader::V6 { source: header.source_addr(), destination: header.destination_addr() }
    }
}

/// True if the checksum of an IPv4 header is right. `header` is the header with its options and nothing else.
#[inline]
pub fn ipv4_valid(header: &[u8]) -> bool {
    ipv4_sum(header).is_valid()
}

/// True if the checksum of an IPv4 header without options is right.
#[inline]
pub fn ipv4_plain_valid(header: &ipv4::Header) -> bool {
    let bytes: &[u8; 20] = zerocopy::transmute_ref!(header);
    Sum::of_20(bytes).is_valid()
}

/// Decrements the time to live and updates the header checksum. The time to live must not be zero.
///
/// The result is that of [`Delta`](super::Delta) (RFC 1624, section 4: never the negative zero 0xffff), in
/// the few instructions that this case needs.
#[inline]
pub fn decrement_ttl(ip: &mut ipv4::Header) {
    // The time to live is the upper byte of its 16-bit word, so the word falls by 0x0100.
    const CHANGE: FoldedDelta = FoldedDelta::from_bits((!0x0100u16).to_be());
    ip.checksum = CHANGE.apply(ip.checksum.to_bytes()).into();
    ip.ttl = ip.ttl.wrapping_sub(1);
}

/// Writes the checksum of an IPv4 header into its field. `header` is the header with its options and
/// nothing else.
///
/// # Errors
///
/// `Truncated` below 20 bytes.
#[inline]
pub fn fill_ipv4(header: &mut [u8]) -> Result<(), Error> {
    Field::IPV4.fill(header, ipv4_sum)
}

/// Writes the checksum of an IPv4 header without options into its field; all other fields must be set.
#[inline]
pub fn fill_ipv4_plain(header: &mut ipv4::Header) {
    let bytes: &[u8; 20] = zerocopy::transmute_ref!(&*header);
    // The old value of the checksum field is subtracted from the sum. If the field were cleared first, the
    // processor would have to wait for this write before it could read the header in larger words.
    let sum = Sum::of_20(bytes).word(!header.checksum.get());
    header.checksum.set(sum.checksum());
}

/// True if the checksum of a TCP segment is right. `segment` is the TCP header and all of the payload.
#[inline]
pub fn tcp_valid(pseudo: &PseudoHeader, segment: &[u8]) -> bool {
    pseudo.sum(ip_protocol::TCP, segment.len()).bytes(segment).folded() == 0xffff
}

/// True if both checksums of a TCP packet are right: that of TCP and, over IPv4, that of the IP header.
/// `ip` holds the packet from its IP header to its end, without link padding; the TCP header is at offset
/// `l4`.
pub fn tcp_packet_valid(ip: &[u8], l4: usize) -> bool {
    let is_sound = match ipv4::Header::ref_from_prefix(ip) {
        Ok((header, _)) if header.version() == 4 => ip.get(..header.header_len()).is_some_and(ipv4_valid),
        _ => true,
    };
    let pseudo = PseudoHeader::of(ip).filter(|_| is_sound);
    let segment = ip.get(l4..);
    pseudo.zip(segment).is_some_and(|(pseudo, segment)| tcp_valid(&pseudo, segment))
}

/// Writes the checksum of a TCP segment into its field. `segment` is the TCP header and all of the payload.
///
/// # Errors
///
/// `Truncated` below 20 bytes.
#[inline]
pub fn fill_tcp(pseudo: &PseudoHeader, segment: &mut [u8]) -> Result<(), Error> {
    Field::TCP.fill(segment, |bytes| pseudo.sum(ip_protocol::TCP, bytes.len()).bytes(bytes))
}

/// True if the checksum of the UDP datagram at the start of `bytes` is right, or absent over IPv4. Bytes
/// after the datagram's length are ignored; false if `bytes` ends before that length.
///
/// A zero over IPv6 is wrong (RFC 8200 8.1); callers must handle the exception for tunnels (RFC 6935).
#[inline]
pub fn udp_valid(pseudo: &PseudoHeader, bytes: &[u8]) -> bool {
    let Ok(udp::Datagram { header, payload }) = udp::parse(bytes) else { return false };
    if header.checksum.get() == 0 {
        return matches!(pseudo, PseudoHeader::V4 { .. });
    }
    let sum = pseudo.sum(ip_protocol::UDP, udp::Header::LEN + payload.len());
    sum.bytes(header.as_bytes()).bytes(payload).folded() == 0xffff
}

/// Writes the checksum of the UDP datagram at the start of `bytes`; a computed 0 is written as 0xffff (RFC
/// 768).
///
/// # Errors
/// The errors of [`udp::parse`].
#[inline]
pub fn fill_udp(pseudo: &PseudoHeader, bytes: &mut [u8]) -> Result<(), Error> {
    let length = udp::Header::LEN + udp::parse(bytes)?.payload.len();
    let datagram = bytes.get_mut(..length).unwrap_or_default();
    Field::UDP.fill(datagram, |bytes| pseudo.sum(ip_protocol::UDP, length).bytes(bytes))?;
    let checksum = Field::UDP.of(datagram)?;
    if *checksum == [0; 2] {
        *checksum = [0xff; 2];
    }
    Ok(())
}

/// True if the checksum of an ICMP message is right. `message` is the ICMP header and everything after it.
#[inline]
pub fn icmp_valid(message: &[u8]) -> bool {
    Sum::new().bytes(message).folded() == 0xffff
}

/// Writes the checksum of an ICMP message into its field. `message` is the ICMP header and everything after
/// it.
///
/// # Errors
///
/// `Truncated` below 8 bytes.
#[inline]
pub fn fill_icmp(message: &mut [u8]) -> Result<(), Error> {
    Field::ICMP.fill(message, |bytes| Sum::new().bytes(bytes))
}

/// True if the checksum of an ICMPv6 message is right. `message` is the ICMPv6 header and everything after
/// it.
#[inline]
pub fn icmpv6_valid(pseudo: &PseudoHeader, message: &[u8]) -> bool {
    pseudo.sum(ip_protocol::ICMPV6, message.len()).bytes(message).folded() == 0xffff
}

/// Writes the checksum of an ICMPv6 message into its field. `message` is the ICMPv6 header and everything
/// after it.
///
/// # Errors
///
/// `Truncated` below 8 bytes.
#[inline]
pub fn fill_icmpv6(pseudo: &PseudoHeader, message: &mut [u8]) -> Result<(), Error> {
    Field::ICMPV6.fill(message, |bytes| pseudo.sum(ip_protocol::ICMPV6, bytes.len()).bytes(bytes))
}

#[inline]
fn ipv4_sum(header: &[u8]) -> Sum {
    match header.as_array() {
        Some(plain) => Sum::of_20(plain),
        None => Sum::new().bytes(header),
    }
}

/// The checksum field of a protocol: the length of the header that contains it, and its offset in the
/// header.
struct Field {
    layer: Layer,
    header_len: usize,
    offset: usize,
}

impl Field {
    const IPV4: Field = Field::new(Layer::Ipv4, ipv4::Header::LEN, offset_of!(ipv4::Header, checksum));
    const TCP: Field = Field::new(Layer::Tcp, tcp::Header::LEN, offset_of!(tcp::Header, checksum));
    const UDP: Field = Field::new(Layer::Udp, udp::Header::LEN, offset_of!(udp::Header, checksum));
    const ICMP: Field = Field::new(Layer::Icmp, icmp::Header::LEN, offset_of!(icmp::Header, checksum));
    const ICMPV6: Field =
        Field::new(Layer::Icmpv6, icmpv6::Header::LEN, offset_of!(icmpv6::Header, checksum));

    const fn new(layer: Layer, header_len: usize, offset: usize) -> Field {
        Field { layer, header_len, offset }
    }

    #[inline]
    fn of<'a>(&self, bytes: &'a mut [u8]) -> Result<&'a mut [u8; 2], Error> {
        let have = bytes.len();
        bytes
            .get_mut(..self.header_len)
            .and_then(|header| header.get_mut(self.offset..)?.first_chunk_mut())
            .ok_or(Error::Truncated { layer: self.layer, need: self.header_len, have })
    }

    /// Zeroes the checksum field, sums the bytes with `sum`, and writes the checksum into the field. Fails
    /// with `Truncated` if the bytes are shorter than the header.
    #[inline]
    fn fill(&self, bytes: &mut [u8], sum: impl Fn(&[u8]) -> Sum) -> Result<(), Error> {
        *self.of(bytes)? = [0; 2];
        let checksum = sum(bytes).checksum();
        *self.of(bytes)? = checksum.to_be_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IcmpEchoHeader, Icmpv4Type};
    use etherparse::{
        Icmpv4Header, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader,
    };
    use proptest::collection::vec;
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    use super::*;

    fn v4(source: [u8; 4], destination: [u8; 4]) -> (Ipv4Header, PseudoHeader) {
        let header = Ipv4Header::new(0, 64, IpNumber::UDP, source, destination).unwrap();
        (header, PseudoHeader::V4 { source: source.into(), destination: destination.into() })
    }

    fn v6(source: [u8; 16], destination: [u8; 16]) -> (Ipv6Header, PseudoHeader) {
        let header = Ipv6Header { source, destination, ..Default::default() };
        (header, PseudoHeader::V6 { source: source.into(), destination: destination.into() })
    }

    proptest! {
        #[test]
        fn ipv4_agrees_with_etherparse(source: [u8; 4], destination: [u8; 4], ttl: u8, words in 0usize..=10, flip in 0usize..20) {
            let (mut oracle, _) = v4(source, destination);
            oracle.time_to_live = ttl;
            oracle.options = vec![1u8; words * 4][..].try_into().unwrap();
            let mut bytes = oracle.to_bytes().to_vec();
            fill_ipv4(&mut bytes).unwrap();
            prop_assert_eq!(&bytes[10..12], oracle.calc_header_checksum().to_be_bytes());
            prop_assert!(ipv4_valid(&bytes));
            if let Ok(plain) = ipv4::Header::mut_from_bytes(&mut bytes.clone()) {
                // The old value of the checksum field does not influence the result.
                plain.checksum.set(ttl.into());
                fill_ipv4_plain(plain);
                prop_assert_eq!(plain.as_bytes(), &bytes);
            }
            bytes[flip] ^= 0x10;
            prop_assert!(!ipv4_valid(&bytes));
        }

        #[test]
        fn transport_agrees_with_etherparse(
            a4: [u8; 4], b4: [u8; 4], a6: [u8; 16], b6: [u8; 16], ports: (u16, u16), payload in vec(any::<u8>(), 0..100),
        ) {
            let ((ip4, pseudo4), (ip6, pseudo6)) = (v4(a4, b4), v6(a6, b6));

            let tcp = TcpHeader::new(ports.0, ports.1, 7, 8);
            let mut bytes = [&tcp.to_bytes()[..], &payload].concat();
            fill_tcp(&pseudo4, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[16..18], tcp.calc_checksum_ipv4(&ip4, &payload).unwrap().to_be_bytes());
            prop_assert!(tcp_valid(&pseudo4, &bytes));
            fill_tcp(&pseudo6, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[16..18], tcp.calc_checksum_ipv6(&ip6, &payload).unwrap().to_be_bytes());
            prop_assert!(tcp_valid(&pseudo6, &bytes));

            let udp = UdpHeader::without_ipv4_checksum(ports.0, ports.1, payload.len()).unwrap();
            let mut bytes = [&udp.to_bytes()[..], &payload].concat();
            prop_assert!(udp_valid(&pseudo4, &bytes) && !udp_valid(&pseudo6, &bytes), "zero means none, over IPv4");
            fill_udp(&pseudo4, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[6..8], udp.calc_checksum_ipv4(&ip4, &payload).unwrap().to_be_bytes());
            prop_assert!(udp_valid(&pseudo4, &bytes));
            fill_udp(&pseudo6, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[6..8], udp.calc_checksum_ipv6(&ip6, &payload).unwrap().to_be_bytes());
            prop_assert!(udp_valid(&pseudo6, &bytes));
            bytes.extend([0x55; 3]);
            prop_assert!(udp_valid(&pseudo6, &bytes), "what follows the datagram does not count");

            let echo = IcmpEchoHeader { id: ports.0, seq: ports.1 };
            let icmp = Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), &payload);
            let mut bytes = [&icmp.to_bytes()[..], &payload].concat();
            prop_assert!(icmp_valid(&bytes));
            bytes[2] = 0x55;
            fill_icmp(&mut bytes).unwrap();
            prop_assert_eq!(&bytes[..8], &icmp.to_bytes()[..]);

            let icmpv6 = Icmpv6Header::with_checksum(Icmpv6Type::EchoRequest(echo), a6, b6, &payload).unwrap();
            let mut bytes = [&icmpv6.to_bytes()[..], &payload].concat();
            prop_assert!(icmpv6_valid(&pseudo6, &bytes));
            bytes[2] = 0x55;
            fill_icmpv6(&pseudo6, &mut bytes).unwrap();
            prop_assert_eq!(&bytes[..8], &icmpv6.to_bytes()[..]);
        }

        #[test]
        fn any_bytes_are_answered(mut bytes in vec(prop_oneof![0u8..24, any::<u8>()], 0..24)) {
            let (_, pseudo) = v4([1, 2, 3, 4], [5, 6, 7, 8]);
            let (eight, twenty) = (bytes.len() >= 8, bytes.len() >= 20);
            let is_udp = udp::parse(&bytes).is_ok();
            prop_assert_eq!(fill_udp(&pseudo, &mut bytes).is_ok(), is_udp);
            prop_assert_eq!(udp_valid(&pseudo, &bytes), is_udp);
            let _ = (ipv4_valid(&bytes), tcp_valid(&pseudo, &bytes), icmp_valid(&bytes));
            prop_assert_eq!(fill_ipv4(&mut bytes).is_ok(), twenty);
            prop_assert_eq!(fill_tcp(&pseudo, &mut bytes).is_ok(), twenty);
            prop_assert_eq!(fill_icmp(&mut bytes).is_ok(), eight);
            prop_assert_eq!(fill_icmpv6(&pseudo, &mut bytes).is_ok(), eight);
        }
    }

    #[test]
    fn a_computed_zero_of_udp_is_written_as_ones() {
        let (_, pseudo) = v4([0, 0, 0, 0], [0, 0, 0, 0]);
        // The pseudo-header adds 17 + 10, the UDP length 10; the payload makes the sum 0xffff, so that the
        // checksum is 0.
        let mut bytes = vec![0, 0, 0, 0, 0, 10, 0, 0];
        bytes.extend((0xffffu16 - 17 - 20).to_be_bytes());
        fill_udp(&pseudo, &mut bytes).unwrap();
        assert_eq!(&bytes[6..8], [0xff, 0xff]);
        assert!(udp_valid(&pseudo, &bytes));
    }

    #[test]
    fn a_source_route_says_where_a_packet_ends() {
        let mut bytes = [0u8; 20];
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let (header, _) = <ipv4::Header as crate::FromBytes>::ref_from_prefix(&bytes).unwrap();
        let end = |options: &[u8]| match PseudoHeader::routed(header, options) {
            PseudoHeader::V4 { destination, .. } => destination.octets(),
            PseudoHeader::V6 { .. } => [0; 4],
        };
        assert_eq!(end(&[]), [10, 0, 0, 2]);
        assert_eq!(end(&[1, 131, 11, 4, 1, 1, 1, 1, 2, 2, 2, 2]), [2, 2, 2, 2]);
        assert_eq!(end(&[137, 7, 4, 3, 3, 3, 3, 0]), [3, 3, 3, 3]);
        assert_eq!(end(&[137, 7, 8, 3, 3, 3, 3, 0]), [10, 0, 0, 2], "the end of the route");
        assert_eq!(end(&[131, 11, 8, 1, 1, 1, 1, 2, 2, 2, 2, 0]), [2, 2, 2, 2]);
        assert_eq!(end(&[131, 11, 12, 1, 1, 1, 1, 2, 2, 2, 2, 0]), [10, 0, 0, 2], "the end of the route");
        assert_eq!(end(&[137, 3, 4, 0]), [10, 0, 0, 2], "a route without addresses");
        assert_eq!(end(&[7, 7, 4, 3, 3, 3, 3, 0]), [10, 0, 0, 2], "a recorded route is none");
    }

    #[test]
    fn lengths_beyond_16_bits_count_in_ipv6() {
        let (_, pseudo) = v6([1; 16], [2; 16]);
        assert_ne!(pseudo.sum(6, 70_000), pseudo.sum(6, 70_000 - 65_536));
    }

    #[test]
    fn decrementing_the_time_to_live_is_the_general_update() {
        use crate::FromBytes;
        for ttl in 1..=255u8 {
            for checksum in 0..=0xffffu16 {
                let mut bytes = [0; 20];
                (bytes[8], bytes[9]) = (ttl, 6);
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
                let Ok((ip, _)) = crate::ipv4::Header::mut_from_prefix(&mut bytes) else {
                    panic!("20 bytes")
                };
                decrement_ttl(ip);
                let word = |ttl| u16::from_be_bytes([ttl, 6]);
                let updated = super::super::Delta::u16(word(ttl), word(ttl - 1)).apply(checksum);
                assert_eq!((ip.ttl, ip.checksum.get()), (ttl - 1, updated), "{ttl} {checksum:#x}");
            }
        }
    }
}
