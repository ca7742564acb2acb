//! Errors of parsing: the bytes are not a valid header.

use std::fmt;

/// The part of a packet in which an [`Error`] lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The link header: Ethernet, Linux cooked, null or loopback.
    Link,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// The stack of MPLS labels.
    Mpls,
    /// The PPPoE session header and PPP's protocol field.
    Pppoe,
    /// ARP for Ethernet and IPv4.
    Arp,
    /// The IPv4 header.
    Ipv4,
    /// The fixed IPv6 header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// The TCP header.
    Tcp,
    /// The UDP header.
    Udp,
    /// The ICMP header.
    Icmp,
    /// The ICMPv6 header.
    Icmpv6,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Link => "link header",
            Layer::Vlan => "VLAN tag",
            Layer::Mpls => "MPLS label stack",
            Layer::Pppoe => "PPPoE header",
            Layer::Arp => "ARP",
            Layer::Ipv4 => "IPv4",
            Layer::Ipv6 => "IPv6",
            Layer::Ipv6Extension => "IPv6 extension header",
            Layer::Tcp => "TCP",
            Layer::Udp => "UDP",
            Layer::Icmp => "ICMP",
            Layer::Icmpv6 => "ICMPv6",
        })
    }
}

/// A fault in a header. Small and `Copy`, so that it can be made for each packet without cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the end of the header, or before the length in its length field.
    Truncated {
        /// The part of the packet.
        layer: Layer,
        /// The number of bytes needed.
        need: usize,
        /// The number of bytes present.
        have: usize,
    },
    /// A version, type or format field has a value that this layer cannot have.
    Format {
        /// The part of the packet.
        layer: Layer,
        /// The value found.
        found: u32,
    },
    /// A length field contradicts the header itself, e.g. an IHL below 5.
    Length {
        /// The part of the packet.
        layer: Layer,
        /// The length in bytes according to the field.
        found: usize,
    },
    /// More headers of one kind follow one another than the limit allows.
    TooMany {
        /// The kind of header.
        layer: Layer,
        /// The limit.
        limit: usize,
    },
    /// Headers of one kind that follow one another have more bytes than the limit allows.
    TooLong {
        /// The kind of header.
        layer: Layer,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Error {
    /// Returns the part of the packet in which the error lies.
    pub fn layer(&self) -> Layer {
        match *self {
            Error::Truncated { layer, .. }
            | Error::Format { layer, .. }
            | Error::Length { layer, .. }
            | Error::TooMany { layer, .. }
            | Error::TooLong { layer, .. } => layer,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Truncated { layer, need, have } => {
                write!(f, "{layer}: {need} bytes needed, {have} there (cut by the snap length, or malformed)")
            }
            Error::Format { layer, found } => {
                write!(f, "{layer}: unexpected version or format {found:#x} (wrong link type or offset?)")
            }
            Error::Length { layer, found } => {
                write!(f, "{layer}: impossible length field, {found} bytes (malformed packet)")
            }
            Error::TooMany { layer, limit } => {
                write!(f, "{layer}: more than {limit} in a row (malformed packet)")
            }
            Error::TooLong { layer, limit } => {
                write!(f, "{layer}: more than {limit} bytes in a row (malformed packet)")
            }
        }
    }
}

impl std::error::Error for Error {}
