//! The distinction between regular packets, which may be spread, and packets that must go to the owner of
//! their flow.

use std::ops::RangeInclusive;

use element::Packet;
use element::steering::transport;
use wire::ip_protocol::{TCP, UDP};
use wire::tcp::flags::{FIN, RST, SYN};

/// The offset in bytes of the flags in a TCP header.
pub(crate) const FLAGS: usize = 13;
/// The highest bit of the first byte of a QUIC packet. It is set in packets with a long header, as packets
/// that open connections have (RFC 9000, section 17.2).
const LONG_HEADER: u8 = 0x80;
/// The length of a UDP header in bytes.
const UDP_HEADER: usize = 8;

/// The kinds of packets that may be spread. TCP is always included; datagrams only if the user says that
/// their receivers tolerate reordering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// The ports of UDP applications that tolerate reordering; a datagram matches with its source or
    /// destination port.
    pub udp_ports: Vec<RangeInclusive<u16>>,
    /// The ports of QUIC, source or destination. Of these datagrams, packets with long headers count as
    /// packets that open connections.
    pub quic_ports: Vec<RangeInclusive<u16>>,
}

impl Classes {
    /// True if a packet is regular: of a kind that may be spread, and without flags that open or close a
    /// connection. Fragments are not regular, because they have no ports that would identify the flow.
    #[inline]
    pub fn is_regular(&self, packet: &Packet) -> bool {
        match transport(packet) {
            Some((TCP, segment)) => segment.get(FLAGS).is_some_and(|flags| flags & (SYN | FIN | RST) == 0),
            Some((UDP, datagram)) => self.is_regular_datagram(datagram),
            _ => false,
        }
    }

    fn is_regular_datagram(&self, datagram: &[u8]) -> bool {
        let Some(&[a, b, c, d]) = datagram.first_chunk() else { return false };
        let ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let has = |wanted: &[RangeInclusive<u16>]| {
            wanted.iter().any(|range| ports.iter().any(|port| range.contains(port)))
        };
        if has(&self.quic_ports) {
            return datagram.get(UDP_HEADER).is_some_and(|first| first & LONG_HEADER == 0);
        }
        has(&self.udp_ports)
    }
}
