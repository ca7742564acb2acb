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
        /// The offset of the first byte in the annotation area.
        offset: u8,
        /// The number of bytes.
        length: u8,
    },
    /// The offset of a header annotation from the packet's start. For `Base::Data` it is the packet's start
    /// itself, so that stripping or adding bytes at the front writes it.
    HeaderOffset(Base),
    /// The length of the packet, from its current start.
    Length,
    /// All bytes after the headers. Elements declare it if they read or write at offsets that are not fixed.
    Payload,
    /// The time stamp of the packet.
    TimeStamp,
    /// The packet type annotation: the kind of destination or origin on the link layer, such as broadcast.
    Kind,
    /// The input port annotation: the number of the input or device that the packet came in by.
    InputPort,
}

/// Fields of protocols, as bytes from the start of their headers, for the declarations of elements. Offsets
/// are the offsets in the RFCs; fields smaller than a byte are read with a mask.
pub mod wire_field {
    use super::Field;
    use packet::Base;

    const fn at(base: Base, offset: i32, length: u16) -> Field {
        Field::Bytes { base, offset, length }
    }

    /// The destination address in the Ethernet header.
    pub const ETHER_DST: Field = at(Base::Mac, 0, 6);
    /// The source address in the Ethernet header.
    pub const ETHER_SRC: Field = at(Base::Mac, 6, 6);
    /// The EtherType in the Ethernet header.
    pub const ETHER_TYPE: Field = at(Base::Mac, 12, 2);
    /// Version and header length of IPv4: one byte, four bits each.
    pub const IP_VERSION_IHL: Field = at(Base::Network, 0, 1);
    /// The type of service byte of IPv4: DSCP (upper six bits) and ECN.
    pub const IP_TOS: Field = at(Base::Network, 1, 1);
    /// The total length of an IPv4 packet.
    pub const IP_LENGTH: Field = at(Base::Network, 2, 2);
    /// The identification of an IPv4 packet, which its fragments have in common.
    pub const IP_ID: Field = at(Base::Network, 4, 2);
    /// The flags (upper three bits) and the fragment offset of IPv4.
    pub const IP_FRAGMENT: Field = at(Base::Network, 6, 2);
    /// The time to live of IPv4.
    pub const IP_TTL: Field = at(Base::Network, 8, 1);
    /// The protocol number in the IPv4 header.
    pub const IP_PROTOCOL: Field = at(Base::Network, 9, 1);
    /// The header checksum of IPv4.
    pub const IP_CHECKSUM: Field = at(Base::Network, 10, 2);
    /// The source address in the IPv4 header.
    pub const IP_SRC: Field = at(Base::Network, 12, 4);
    /// The destination address in the IPv4 header.
    pub const IP_DST: Field = at(Base::Network, 16, 4);
    /// The whole IPv4 header with options, at its largest length of 60 bytes.
    pub const IP_HEADER: Field = at(Base::Network, 0, 60);
    /// The source port of TCP and UDP.
    pub const SRC_PORT: Field = at(Base::Transport, 0, 2);
    /// The destination port of TCP and UDP.
    pub const DST_PORT: Field = at(Base::Transport, 2, 2);
}

/// A kind of header. A packet may or may not have it, and it may or may not be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderKind {
    /// The Ethernet header without tags.
    Ethernet,
    /// The Ethernet header with one 802.1Q tag.
    Vlan,
    /// An ARP packet for Ethernet and IPv4.
    Arp,
    /// The IPv4 header.
    Ipv4,
    /// The fixed IPv6 header, without extension headers.
    Ipv6,
    /// The TCP header.
    Tcp,
    /// The UDP header.
    Udp,
    /// The ICMP header.
    Icmp,
    /// The ICMPv6 header.
    Icmpv6,
}

impl HeaderKind {
    /// The header annotation that gives the offset at which the header starts.
    pub fn base(self) -> Base {
        match self {
            HeaderKind::Ethernet | HeaderKind::Vlan => Base::Mac,
            HeaderKind::Arp | HeaderKind::Ipv4 | HeaderKind::Ipv6 => Base::Network,
            HeaderKind::Tcp | HeaderKind::Udp | HeaderKind::Icmp | HeaderKind::Icmpv6 => Base::Transport,
        }
    }

    /// The length of the fixed part of the header in bytes, from its header annotation on.
    pub fn least_length(self) -> u16 {
        match self {
            HeaderKind::Ethernet => 14,
            HeaderKind::Vlan => 18,
            HeaderKind::Arp => 28,
            HeaderKind::Ipv4 | HeaderKind::Tcp => 20,
            HeaderKind::Ipv6 => 40,
            HeaderKind::Udp | HeaderKind::Icmp | HeaderKind::Icmpv6 => 8,
        }
    }

    /// The bytes of the packet that a check of the header reads, its checksum included.
    pub fn extent(self) -> Field {
        match self {
            HeaderKind::Ethernet => Field::Bytes { base: Base::Mac, offset: 0, length: 14 },
            HeaderKind::Vlan => Field::Bytes { base: Base::Mac, offset: 12, length: 6 },
            HeaderKind::Arp => Field::Bytes { base: Base::Network, offset: 0, length: 28 },
            HeaderKind::Ipv4 => wire_field::IP_HEADER,
            HeaderKind::Ipv6 => Field::Bytes { base: Base::Network, offset: 0, length: 40 },
            // The checksums of these headers cover everything after the header.
            HeaderKind::Tcp | HeaderKind::Udp | HeaderKind::Icmp | HeaderKind::Icmpv6 => Field::Payload,
        }
    }

    /// The checksum field of the header; `None` if this kind of header has none.
    pub fn checksum(self) -> Option<Field> {
        let at = |base, offset| Some(Field::Bytes { base, offset, length: 2 });
        match self {
            HeaderKind::Ipv4 => at(Base::Network, 10),
            HeaderKind::Tcp => at(Base::Transport, 16),
            HeaderKind::Udp => at(Base::Transport, 6),
            HeaderKind::Icmp | HeaderKind::Icmpv6 => at(Base::Transport, 2),
            HeaderKind::Ethernet | HeaderKind::Vlan | HeaderKind::Arp | HeaderKind::Ipv6 => None,
        }
    }
}

/// The paint annotation, one byte.
pub const PAINT: Field = Field::Annotation { offset: Annotations::PAINT as u8, length: 1 };
/// The destination address annotation: the address of the packet's next hop, 4 bytes.
pub const DST_IP: Field = Field::Annotation { offset: Annotations::DST_IP as u8, length: 4 };

/// The destination address annotation of IPv6, at the same offset as the annotation of IPv4.
pub const DST_IP6: Field = Field::Annotation { offset: Annotations::DST_IP as u8, length: 16 };
/// The extra length annotation, 4 bytes: the number of bytes that were on the wire but are not in the
/// packet.
pub const EXTRA_LENGTH: Field = Field::Annotation { offset: Annotations::EXTRA_LENGTH as u8, length: 4 };
