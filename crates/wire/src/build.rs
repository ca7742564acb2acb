//! Packets with correct lengths and checksums, for sources and tests.
//!
//! ```
//! use wire::{MacAddr, build::Builder};
//!
//! let frame = Builder::udp("10.0.0.1:1024".parse()?, "10.0.0.2:53".parse()?)
//!     .ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
//!     .vlan(7)
//!     .build(b"payload")?;
//! assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use zerocopy::IntoBytes;

use crate::checksum::{self, PseudoHeader};
use crate::{Layer, MacAddr, U16, U32, ether_type, ethernet, icmp, ip_protocol, ipv4, ipv6, tcp, udp, vlan};

/// A builder of packets with one set of headers, for any number of payloads. The packet starts at the IP
/// header unless [`Builder::ethernet`] is called.
#[derive(Debug, Clone)]
pub struct Builder {
    ethernet: Option<(MacAddr, MacAddr)>,
    /// The tag control information of each VLAN tag, outermost first.
    vlans: Vec<u16>,
    source: IpAddr,
    destination: IpAddr,
    tos: u8,
    ttl: u8,
    id: u16,
    fragment: u16,
    transport: Transport,
}

#[derive(Debug, Clone)]
enum Transport {
    Udp { source: u16, destination: u16 },
    Tcp { header: tcp::Header, options: Vec<u8> },
    Icmp(icmp::Header),
    Raw(u8),
}

/// Reasons for which a packet cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The source and destination addresses differ in IP version.
    MixedVersions {
        /// The source address of the packet.
        source: IpAddr,
        /// The destination address of the packet.
        destination: IpAddr,
    },
    /// The packet does not fit into a length field of IP or UDP (16 bits).
    TooLong {
        /// The header with the length field: IPv4, IPv6 or UDP.
        layer: Layer,
        /// The length in bytes that the field would have to hold.
        length: usize,
    },
    /// The TCP options are longer than 40 bytes, or not a multiple of 4 bytes.
    TcpOptions {
        /// The length of the options in bytes.
        length: usize,
    },
    /// A VLAN tag was added without an Ethernet header.
    VlanWithoutEthernet,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::MixedVersions { source, destination } => {
                write!(f, "addresses {source} and {destination} differ in IP version: use two of the same")
            }
            BuildError::TooLong { layer, length } => {
                write!(
                    f,
                    "the {layer} length field holds at most 65535, but the length is {length} bytes: shorten \
                     the payload"
                )
            }
            BuildError::TcpOptions { length } => {
                write!(f, "TCP options of {length} bytes: use at most 40, padded to a multiple of 4")
            }
            BuildError::VlanWithoutEthernet => {
                f.write_str("a VLAN tag needs an Ethernet header: call `ethernet` too")
            }
        }
    }
}

impl std::error::Error for BuildError {}

impl Builder {
    /// Starts a UDP datagram from `source` to `destination`.
    pub fn udp(source: SocketAddr, destination: SocketAddr) -> Self {
        let transport = Transport::Udp { source: source.port(), destination: destination.port() };
        Self::new(source.ip(), destination.ip(), transport)
    }

    /// Starts a TCP segment with these control bits (see [`tcp::flags`]). Unless they are set, the sequence
    /// and acknowledgment numbers are 0 and the window is 65,535.
    pub fn tcp(source: SocketAddr, destination: SocketAddr, flags: u8) -> Self {
        let header = tcp::Header {
            source: U16::new(source.port()),
            destination: U16::new(destination.port()),
            sequence: U32::new(0),
            acknowledgment: U32::new(0),
            data_offset: 0,
            flags,
            window: U16::new(u16::MAX),
            checksum: U16::new(0),
            urgent: U16::new(0),
        };
        Self::new(source.ip(), destination.ip(), Transport::Tcp { header, options: Vec::new() })
    }

    /// Starts an ICMP message, or an ICMPv6 message if the addresses are IPv6. `kind` is its type; `words`
    /// are the two 16-bit words that follow the checksum (for echo: identifier, sequence number).
    pub fn icmp(source: IpAddr, destination: IpAddr, kind: u8, code: u8, words: [u16; 2]) -> Self {
        let [identifier, sequence] = words.map(U16::new);
        let header = icmp::Header { kind, code, checksum: U16::new(0), identifier, sequence };
        Self::new(source, destination, Transport::Icmp(header))
    }

    /// Starts an IP packet of another protocol; the payload of [`build`](Self::build) follows the IP header
    /// directly, with its own transport header, if any.
    pub fn ip(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self::new(source, destination, Transport::Raw(protocol))
    }

    fn new(source: IpAddr, destination: IpAddr, transport: Transport) -> Self {
        Builder {
            ethernet: None,
            vlans: Vec::new(),
            source,
            destination,
            tos: 0,
            ttl: 64,
            id: 0,
            fragment: 0,
            transport,
        }
    }

    /// Adds an Ethernet header before the IP header; its EtherType follows from the IP version.
    #[must_use]
    pub fn ethernet(mut self, source: MacAddr, destination: MacAddr) -> Self {
        self.ethernet = Some((source, destination));
        self
    }

    /// Adds a VLAN tag with this control information (the VLAN identifier alone, or with priority bits),
    /// inside the tags added before. The EtherType ahead of the innermost tag is 0x8100, and ahead of all
    /// others 0x88a8.
    #[must_use]
    pub fn vlan(mut self, control: u16) -> Self {
        self.vlans.push(control);
        self
    }

    /// Sets the type of service of IPv4 or the traffic class of IPv6 (default 0).
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Sets the time to live of IPv4 or the hop limit of IPv6 (default 64).
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the IPv4 identification (default 0); no effect on IPv6.
    #[must_use]
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Sets the IPv4 word of flags and fragment offset (default 0), see [`ipv4::Header::fragment`]; no
    /// effect on IPv6.
    #[must_use]
    pub fn fragment(mut self, word: u16) -> Self {
        self.fragment = word;
        self
    }

    /// Sets the TCP sequence and acknowledgment numbers; no effect on other protocols.
    #[must_use]
    pub fn sequence(mut self, sequence: u32, acknowledgment: u32) -> Self {
        if let Transport::Tcp { header, .. } = &mut self.transport {
            header.sequence.set(sequence);
            header.acknowledgment.set(acknowledgment);
        }
        self
    }

    /// Sets the TCP window field, without scaling; no effect on other protocols.
    #[must_use]
    pub fn window(mut self, window: u16) -> Self {
        if let Transport::Tcp { header, .. } = &mut self.transport {
            header.window.set(window);
        }
        self
    }

    /// Sets the TCP options. The caller pads them to a multiple of 4 bytes; [`build`](Self::build) refuses
    /// other lengths. No effect on other protocols.
    #[must_use]
    pub fn options(mut self, bytes: &[u8]) -> Self {
        if let Transport::Tcp { options, .. } = &mut self.transport {
            *options = bytes.to_vec();
        }
        self
    }

    /// Returns the bytes of the packet with this payload, with all lengths and checksums set. In packets of
    /// [`ip`](Self::ip), these are the fields of the IP header only.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn build(&self, payload: &[u8]) -> Result<Vec<u8>, BuildError> {
        let mut frame = Vec::with_capacity(128 + payload.len());
        self.push_link(&mut frame)?;
        let segment = self.segment(payload)?;
        self.push_ip(&mut frame, segment.len())?;
        frame.extend_from_slice(&segment);
        Ok(frame)
    }

    fn push_link(&self, frame: &mut Vec<u8>) -> Result<(), BuildError> {
        let Some((source, destination)) = self.ethernet else {
            return if self.vlans.is_empty() { Ok(()) } else { Err(BuildError::VlanWithoutEthernet) };
        };
        let network = if self.source.is_ipv4() { ether_type::IPV4 } else { ether_type::IPV6 };
        let tag_type = |tags_left: usize| match tags_left {
            0 => network,
            1 => ether_type::VLAN,
            _ => ether_type::QINQ,
        };
        let ether_type = U16::new(tag_type(self.vlans.len()));
        frame.extend_from_slice(ethernet::Header { destination, source, ether_type }.as_bytes());
        for (control, tags_left) in self.vlans.iter().zip((0..self.vlans.len()).rev()) {
            let tag = vlan::Tag { control: U16::new(*control), ether_type: U16::new(tag_type(tags_left)) };
            frame.extend_from_slice(tag.as_bytes());
        }
        Ok(())
    }

    fn push_ip(&self, frame: &mut Vec<u8>, length: usize) -> Result<(), BuildError> {
        let fits = |layer: Layer, length: usize| {
            u16::try_from(length).map(U16::new).map_err(|_| BuildError::TooLong { layer, length })
        };
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = ipv4::Header {
                    version_ihl: 0x45,
                    tos: self.tos,
                    total_length: fits(Layer::Ipv4, ipv4::Header::LEN + length)?,
                    id: U16::new(self.id),
                    fragment: U16::new(self.fragment),
                    ttl: self.ttl,
                    protocol: self.protocol(),
                    checksum: U16::new(0),
                    source: U32::new(source.to_bits()),
                    destination: U32::new(destination.to_bits()),
                };
                header.checksum.set(checksum::Sum::new().bytes(header.as_bytes()).checksum());
                frame.extend_from_slice(header.as_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = ipv6::Header {
                    version_class_flow: U32::new(6 << 28),
                    payload_length: fits(Layer::Ipv6, length)?,
                    next_header: self.protocol(),
                    hop_limit: self.ttl,
                    source: source.octets(),
                    destination: destination.octets(),
                };
                header.set_traffic_class(self.tos);
                frame.extend_from_slice(header.as_bytes());
            }
            (source, destination) => return Err(BuildError::MixedVersions { source, destination }),
        }
        Ok(())
    }

    fn protocol(&self) -> u8 {
        match (&self.transport, self.source) {
            (Transport::Udp { .. }, _) => ip_protocol::UDP,
            (Transport::Tcp { .. }, _) => ip_protocol::TCP,
            (Transport::Icmp(_), IpAddr::V4(_)) => ip_protocol::ICMP,
            (Transport::Icmp(_), IpAddr::V6(_)) => ip_protocol::ICMPV6,
            (Transport::Raw(protocol), _) => *protocol,
        }
    }

    /// Returns the transport header with its checksum, followed by the payload.
    fn segment(&self, payload: &[u8]) -> Result<Vec<u8>, BuildError> {
        let pseudo = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => PseudoHeader::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => PseudoHeader::V6 { source, destination },
            (source, destination) => return Err(BuildError::MixedVersions { source, destination }),
        };
        let mut bytes = Vec::with_capacity(tcp::Header::LEN + 40 + payload.len());
        let filled = match &self.transport {
            Transport::Udp { source, destination } => {
                let length = udp::Header::LEN + payload.len();
                let header = udp::Header {
                    source: U16::new(*source),
                    destination: U16::new(*destination),
                    length: U16::new(
                        u16::try_from(length)
                            .map_err(|_| BuildError::TooLong { layer: Layer::Udp, length })?,
                    ),
                    checksum: U16::new(0),
                };
                bytes.extend_from_slice(header.as_bytes());
                bytes.extend_from_slice(payload);
                checksum::fill_udp(&pseudo, &mut bytes)
            }
            Transport::Tcp { header, options } => {
                let length = options.len();
                if length > 40 || length % 4 != 0 {
                    return Err(BuildError::TcpOptions { length });
                }
                // The header has at most 60 bytes, so that its length in 32-bit words fits into 4 bits.
                let data_offset = ((tcp::Header::LEN + length) as u8 / 4) << 4;
                bytes.extend_from_slice(tcp::Header { data_offset, ..*header }.as_bytes());
                bytes.extend_from_slice(options);
                bytes.extend_from_slice(payload);
                checksum::fill_tcp(&pseudo, &mut bytes)
            }
            Transport::Icmp(header) => {
                bytes.extend_from_slice(header.as_bytes());
                bytes.extend_from_slice(payload);
                match self.source {
                    IpAddr::V4(_) => checksum::fill_icmp(&mut bytes),
                    IpAddr::V6(_) => checksum::fill_icmpv6(&pseudo, &mut bytes),
                }
            }
            Transport::Raw(_) => {
                bytes.extend_from_slice(payload);
                Ok(())
            }
        };
        // Filling in the checksum fails only if the header is truncated or its length field is wrong, but
        // header and length were written just above.
        let _ = filled;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::tcp::flags;

    fn bytes<F: FnOnce(&mut Vec<u8>)>(write: F) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn ipv4_agrees_with_etherparse(
            macs: ([u8; 6], [u8; 6]), a: [u8; 4], b: [u8; 4], ports: (u16, u16), ttl: u8, vlan in 0u16..0x1000,
            payload in vec(any::<u8>(), 0..100),
        ) {
            let (source, destination): (SocketAddr, SocketAddr) = ((a, ports.0).into(), (b, ports.1).into());
            let own = Builder::udp(source, destination).ethernet(MacAddr(macs.0), MacAddr(macs.1)).ttl(ttl);
            let oracle = PacketBuilder::ethernet2(macs.0, macs.1).ipv4(a, b, ttl).udp(ports.0, ports.1);
            let mut oracle = bytes(|out| oracle.write(out, &payload).unwrap());
            // etherparse sets the flag "don't fragment" by default, this builder does not.
            oracle[20] = 0;
            checksum::fill_ipv4(&mut oracle[14..34]).unwrap();
            prop_assert_eq!(own.build(&payload).unwrap(), oracle);

            let own = Builder::tcp(source, destination, flags::SYN | flags::ACK).sequence(1, 2).window(3).ttl(ttl)
                .fragment(ipv4::DONT_FRAGMENT).ethernet(MacAddr(macs.0), MacAddr(macs.1)).vlan(vlan).options(&[2, 4, 5, 180]);
            let oracle = PacketBuilder::ethernet2(macs.0, macs.1)
                .single_vlan(vlan.try_into().unwrap()).ipv4(a, b, ttl).tcp(ports.0, ports.1, 1, 3).syn().ack(2)
                .options_raw(&[2, 4, 5, 180]).unwrap();
            prop_assert_eq!(own.build(&payload).unwrap(), bytes(|out| oracle.write(out, &payload).unwrap()));

            let own = Builder::icmp(source.ip(), destination.ip(), 8, 0, ports.into()).fragment(ipv4::DONT_FRAGMENT).ttl(ttl);
            let oracle = PacketBuilder::ipv4(a, b, ttl).icmpv4_echo_request(ports.0, ports.1);
            prop_assert_eq!(own.build(&payload).unwrap(), bytes(|out| oracle.write(out, &payload).unwrap()));
        }

        #[test]
        fn ipv6_agrees_with_etherparse(
            a: [u8; 16], b: [u8; 16], ports: (u16, u16), ttl: u8, payload in vec(any::<u8>(), 0..100),
        ) {
            let (source, destination): (SocketAddr, SocketAddr) = ((a, ports.0).into(), (b, ports.1).into());
            let oracle = || PacketBuilder::ipv6(a, b, ttl);
            let udp = Builder::udp(source, destination).ttl(ttl).build(&payload).unwrap();
            prop_assert_eq!(udp, bytes(|out| oracle().udp(ports.0, ports.1).write(out, &payload).unwrap()));
            let tcp = Builder::tcp(source, destination, 0).ttl(ttl).build(&payload).unwrap();
            prop_assert_eq!(tcp, bytes(|out| oracle().tcp(ports.0, ports.1, 0, 65535).write(out, &payload).unwrap()));
            let icmp = Builder::icmp(source.ip(), destination.ip(), 128, 0, ports.into()).ttl(ttl).build(&payload).unwrap();
            prop_assert_eq!(icmp, bytes(|out| oracle().icmpv6_echo_request(ports.0, ports.1).write(out, &payload).unwrap()));
        }
    }

    #[test]
    fn two_tags_make_qinq() {
        let [a, b]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let (mac1, mac2) = (MacAddr([2; 6]), MacAddr([4; 6]));
        let frame = Builder::udp(a, b).ethernet(mac1, mac2).vlan(5).vlan(6).build(b"").unwrap();
        assert_eq!(frame[12..22], [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]);
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        let [four, six]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([0; 16], 2).into()];
        let refused = |builder: Builder, payload: &[u8]| builder.build(payload).unwrap_err();
        assert!(matches!(refused(Builder::udp(four, six), b""), BuildError::MixedVersions { .. }));
        assert_eq!(refused(Builder::udp(four, four).vlan(1), b""), BuildError::VlanWithoutEthernet);
        assert_eq!(
            refused(Builder::tcp(four, four, 0).options(&[1]), b""),
            BuildError::TcpOptions { length: 1 }
        );
        assert_eq!(
            refused(Builder::tcp(four, four, 0).options(&[1; 44]), b""),
            BuildError::TcpOptions { length: 44 }
        );
        let long = vec![0; 65_535];
        assert_eq!(
            refused(Builder::ip(four.ip(), four.ip(), 253), &long),
            BuildError::TooLong { layer: Layer::Ipv4, length: 65_555 }
        );
        assert!(Builder::ip(six.ip(), six.ip(), 253).build(&long).is_ok());
        let udp = refused(Builder::udp(six, six), &long);
        assert_eq!(udp, BuildError::TooLong { layer: Layer::Udp, length: 65_543 });
        assert!(
            udp.to_string().starts_with("the UDP length field holds at most 65535, but the length is 65543")
        );
        assert_eq!(
            refused(Builder::tcp(six, six, 0), &long),
            BuildError::TooLong { layer: Layer::Ipv6, length: 65_555 }
        );
    }
}
