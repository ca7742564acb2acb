//! Errors of parsing: a fault in a header, and the part of the packet in which it lies.

use std::fmt;

/// The header in which an [`Error`] lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The link header: Ethernet, Linux cooked, null or loopback. In errors of [`crate::offload`], also the
    /// frame as a whole.
    Link,
    /// An 802.1Q or 802.1ad tag, or a tag with the older EtherType 0x9100.
    Vlan,
    /// The stack of MPLS labels.
    Mpls,
    /// The PPPoE session header and PPP's protocol field.
    Pppoe,
    /// The ARP packet, for Ethernet and IPv4.
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

/// A fault in a header. The type is small and `Copy`, so that making an error for a packet costs next to
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the end of the header, or before the end that a length field says.
    Truncated {
        /// The header that is truncated.
        layer: Layer,
        /// The number of bytes that are needed from the start of this header on.
        need: usize,
        /// The number of bytes that are present from the start of this header on.
        have: usize,
    },
    /// A version, type or format field has a value that this header cannot have.
    Format {
        /// The header with the wrong value.
        layer: Layer,
        /// The value of the field.
        found: u32,
    },
    /// A length field has a value that its header cannot have. Most often, it is less than the fixed part of
    /// its own header, for example an IHL below 5.
    Length {
        /// The header with the wrong length.
        layer: Layer,
        /// The length in bytes that the field says.
        found: usize,
    },
    /// More headers of one kind follow each other than the limit allows.
    TooMany {
        /// The kind of header: VLAN tags, MPLS labels or IPv6 extension headers.
        layer: Layer,
        /// The largest number of headers allowed.
        limit: usize,
    },
    /// Headers of one kind that follow each other have more bytes in total than the limit allows.
    TooLong {
        /// The kind of header: IPv6 extension headers.
        layer: Layer,
        /// The largest number of bytes allowed.
        limit: usize,
    },
}

impl Error {
    /// Returns the header in which the fault lies.
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
