//! Which packets are spread, and which of them change the state of their flow.

use element::Packet;
use element::steering::transport;
use wire::ip_protocol::{TCP, UDP};
use wire::tcp::flags::{FIN, RST, SYN};

/// The place of the flags in a TCP header.
pub(crate) const FLAGS: usize = 13;
/// The first bit of a QUIC packet: its header is a long one, which connections open with (RFC 9000, section 17.2).
const LONG_HEADER: u8 = 0x80;
/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// Packets that may be spread. TCP always; datagrams where the user says that their receivers do not mind order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Ports, of either end, of UDP applications that do not mind order.
    pub udp_ports: Vec<u16>,
    /// Ports, of either end, of QUIC: packets with long headers are taken for those that open connections.
    pub quic_ports: Vec<u16>,
}

impl Classes {
    /// Whether a packet is of a kind that is spread, and does not open or close a connection. Fragments are not: they have no
    /// ports to be told apart by.
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
        let has = |wanted: &[u16]| ports.iter().any(|port| wanted.contains(port));
        if has(&self.quic_ports) {
            return datagram.get(UDP_HEADER).is_some_and(|first| first & LONG_HEADER == 0);
        }
        has(&self.udp_ports)
    }
}
