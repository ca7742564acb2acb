//! The parts of packets that declarations of effects name: fields and headers.

use packet::{Annotations, Base};

/// A part of a packet, or of the metadata that travels with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Bytes of the packet at a fixed offset from the packet's start or from a header.
    Bytes {
        /// The packet's start or the header annotation from which the offset counts.
        base: Base,
        /// The offset from the base, in bytes.
        offset: i32,
        /// The number of bytes.
        length: u16,
    },
    /// Bytes of the annotation area.
    Annotation {
        /// The offset of the first byte.
        offset: u8,
        /// The number of bytes.
        length: u8,
    },
    /// The offset of a header annotation from the packet's start. For `Base::Data` it is the packet's start
    /// itself, so that stripping or adding bytes at the front writes it.
    HeaderOffset(Base),
    /// The length of the packet.
    Length,
    /// All bytes after the headers. Elements declare it if they read or write at offsets that are not fixed.
    Payload,
    /// The time stamp annotation.
    TimeStamp,
    /// The packet type annotation.
    Kind,
    /// The input port annotation: the number of the input or device that the packet came in by.
    InputPort,
}

/// Named fields of the protocols that elements use, as bytes from the start of their headers. Offsets are
/// those in the RFCs; fields smaller than a byte are read with a mask.
pub mod wire_field {
    use super::Field;
    use packet::Base;

    const fn at(base: Base, offset: i32, length: u16) -> Field {
        Field::Bytes { base, offset, length }
    }

    /// Ethernet destination.
    pub const ETHER_DST: Field = at(Base::Mac, 0, 6);
    /// Ethernet source.
    pub const ETHER_SRC: Field = at(Base::Mac, 6, 6);
    /// Ethernet type.
    pub const ETHER_TYPE: Field = at(Base::Mac, 12, 2);
    /// IPv4 version and header length.
    pub const IP_VERSION_IHL: Field = at(Base::Network, 0, 1);
    /// IPv4 type of service: DSCP and ECN.
    pub const IP_TOS: Field = at(Base::Network, 1, 1);
    /// IPv4 total length.
    pub const IP_LENGTH: Field = at(Base::Network, 2, 2);
    /// IPv4 identification.
    pub const IP_ID: Field = at(Base::Network, 4, 2);
    /// IPv4 flags and fragment offset.
    pub const IP_FRAGMENT: Field = at(Base::Network, 6, 2);
    /// IPv4 time to live.
    pub const IP_TTL: Field = at(Base::Network, 8, 1);
    /// IPv4 protocol.
    pub const IP_PROTOCOL: Field = at(Base::Network, 9, 1);
    /// IPv4 header checksum.
    pub const IP_CHECKSUM: Field = at(Base::Network, 10, 2);
    /// IPv4 source address.
    pub const IP_SRC: Field = at(Base::Network, 12, 4);
    /// IPv4 destination address.
    pub const IP_DST: Field = at(Base::Network, 16, 4);
    /// The whole IPv4 header with options.
    pub const IP_HEADER: Field = at(Base::Network, 0, 60);
    /// TCP or UDP source port.
    pub const SRC_PORT: Field = at(Base::Transport, 0, 2);
    /// TCP or UDP destination port.
    pub const DST_PORT: Field = at(Base::Transport, 2, 2);
}

/// A header that a packet may or may not have, and that may or may not be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet.
    Ethernet,
    /// An 802.1Q tag.
    Vlan,
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmpv6,
}

impl Header {
    /// The header annotation that gives the start of the header.
    pub fn base(self) -> Base {
        match self {
            Header::Ethernet | Header::Vlan => Base::Mac,
            Header::Arp | Header::Ipv4 | Header::Ipv6 => Base::Network,
            Header::Tcp | Header::Udp | Header::Icmp | Header::Icmpv6 => Base::Transport,
        }
    }

    /// The length of the fixed part of the header, in bytes.
    pub fn least_length(self) -> u16 {
        match self {
            Header::Ethernet => 14,
            Header::Vlan => 18,
            Header::Arp => 28,
            Header::Ipv4 | Header::Tcp => 20,
            Header::Ipv6 => 40,
            Header::Udp | Header::Icmp | Header::Icmpv6 => 8,
        }
    }

    /// The bytes that a check of the header reads.
    pub fn extent(self) -> Field {
        match self {
            Header::Ethernet => Field::Bytes { base: Base::Mac, offset: 0, length: 14 },
            Header::Vlan => Field::Bytes { base: Base::Mac, offset: 12, length: 6 },
            Header::Arp => Field::Bytes { base: Base::Network, offset: 0, length: 28 },
            Header::Ipv4 => wire_field::IP_HEADER,
            Header::Ipv6 => Field::Bytes { base: Base::Network, offset: 0, length: 40 },
            // The checksums of these headers cover everything after the header.
            Header::Tcp | Header::Udp | Header::Icmp | Header::Icmpv6 => Field::Payload,
        }
    }

    /// The checksum field of the header, if it has one.
    pub fn checksum(self) -> Option<Field> {
        let at = |base, offset| Some(Field::Bytes { base, offset, length: 2 });
        match self {
            Header::Ipv4 => at(Base::Network, 10),
            Header::Tcp => at(Base::Transport, 16),
            Header::Udp => at(Base::Transport, 6),
            Header::Icmp | Header::Icmpv6 => at(Base::Transport, 2),
            Header::Ethernet | Header::Vlan | Header::Arp | Header::Ipv6 => None,
        }
    }
}

/// The paint annotation.
pub const PAINT: Field = Field::Annotation { offset: Annotations::PAINT as u8, length: 1 };
/// The destination address annotation.
pub const DST_IP: Field = Field::Annotation { offset: Annotations::DST_IP as u8, length: 4 };

/// The destination address annotation of IPv6, at the same offset as the annotation of IPv4.
pub const DST_IP6: Field = Field::Annotation { offset: Annotations::DST_IP as u8, length: 16 };
/// The extra length annotation.
pub const EXTRA_LENGTH: Field = Field::Annotation { offset: Annotations::EXTRA_LENGTH as u8, length: 4 };
