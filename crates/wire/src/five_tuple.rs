//! The five-tuple of a packet: source and destination address, source and destination port, and protocol.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{U16, ip_protocol};

/// The identity of a flow, in one direction: addresses, ports and protocol of its packets. A value has 40
/// bytes without padding, so that it is hashed as plain memory.
///
/// A five-tuple is made by [`crate::Layers::five_tuple`], or from addresses and ports. An IPv4 address never
/// equals an IPv6 address. By convention, ports are 0 for protocols without ports, for fragments, and for
/// packets that are truncated before their ports.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoBytes, FromBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct FiveTuple {
    /// The source address. IPv4 addresses are in the first four bytes; zeros follow.
    source: [u8; 16],
    destination: [u8; 16],
    source_port: U16,
    destination_port: U16,
    protocol: u8,
    version: u8,
    /// Always zero; pads the struct to a multiple of 8 bytes.
    reserved: [u8; 2],
}

impl FiveTuple {
    /// Makes the five-tuple of an IPv4 flow from (address, port) of source and destination. Callers pass port
    /// 0 if the protocol has no ports.
    #[inline]
    pub fn v4(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16), protocol: u8) -> Self {
        let extend = |address: Ipv4Addr| {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        };
        FiveTuple {
            source: extend(source.0),
            destination: extend(destination.0),
            source_port: U16::new(source.1),
            destination_port: U16::new(destination.1),
            protocol,
            version: 4,
            reserved: [0; 2],
        }
    }

    /// Makes the five-tuple of an IPv6 flow from (address, port) of source and destination. Callers pass port
    /// 0 if the protocol has no ports.
    #[inline]
    pub fn v6(source: (Ipv6Addr, u16), destination: (Ipv6Addr, u16), protocol: u8) -> Self {
        FiveTuple {
            source: source.0.octets(),
            destination: destination.0.octets(),
            source_port: U16::new(source.1),
            destination_port: U16::new(destination.1),
            protocol,
            version: 6,
            reserved: [0; 2],
        }
    }

    /// Returns the source address.
    #[inline]
    pub fn source(&self) -> IpAddr {
        self.address(&self.source)
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        self.address(&self.destination)
    }

    /// Returns the source port; 0 for protocols without ports, and for fragments.
    #[inline]
    pub fn source_port(&self) -> u16 {
        self.source_port.get()
    }

    /// Returns the destination port; 0 for protocols without ports, and for fragments.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        self.destination_port.get()
    }

    /// Returns the IP protocol number.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the five-tuple of the replies: source and destination are exchanged.
    #[inline]
    pub fn reversed(&self) -> Self {
        FiveTuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..*self
        }
    }

    #[inline]
    fn address(&self, bytes: &[u8; 16]) -> IpAddr {
        match (self.version, *bytes) {
            (4, [a, b, c, d, ..]) => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from_octets(*bytes)),
        }
    }
}

impl Hash for FiveTuple {
    /// Hashes all 40 bytes in one write, which is faster than one write per field, as the derived
    /// implementation would do.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

/// Writes `10.0.0.1:1024 -> 10.0.0.2:80 tcp` or `[::1]:53 -> [::2]:53 udp`. Protocols without ports are
/// written without them, as in `10.0.0.1 -> 10.0.0.2 icmp`, and protocols without a name as numbers.
impl fmt::Display for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.source(), self.destination());
        if ip_protocol::has_ports(self.protocol) {
            let source = SocketAddr::new(source, self.source_port());
            let destination = SocketAddr::new(destination, self.destination_port());
            write!(f, "{source} -> {destination} ")?;
        } else {
            write!(f, "{source} -> {destination} ")?;
        }
        match ip_protocol::name(self.protocol) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.protocol),
        }
    }
}

impl fmt::Debug for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn display() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(FiveTuple::v4((a, 1024), (b, 80), 6).to_string(), "10.0.0.1:1024 -> 10.0.0.2:80 tcp");
        assert_eq!(FiveTuple::v4((a, 0), (b, 0), 1).to_string(), "10.0.0.1 -> 10.0.0.2 icmp");
        assert_eq!(FiveTuple::v4((a, 0), (b, 0), 253).to_string(), "10.0.0.1 -> 10.0.0.2 253");
        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        assert_eq!(FiveTuple::v6((a, 53), (b, 5353), 17).to_string(), "[::1]:53 -> [::]:5353 udp");
    }

    #[test]
    fn versions_differ_even_with_equal_bytes() {
        let zero4 = FiveTuple::v4((Ipv4Addr::UNSPECIFIED, 1), (Ipv4Addr::UNSPECIFIED, 2), 6);
        let zero6 = FiveTuple::v6((Ipv6Addr::UNSPECIFIED, 1), (Ipv6Addr::UNSPECIFIED, 2), 6);
        assert_ne!(zero4, zero6);
        assert_eq!(HashSet::from([zero4, zero6, zero4.reversed(), zero4]).len(), 3);
    }

    proptest! {
        #[test]
        fn parts_come_back(a: [u8; 4], b: [u8; 4], c: [u8; 16], d: [u8; 16], ports: (u16, u16), protocol: u8) {
            let four = FiveTuple::v4((a.into(), ports.0), (b.into(), ports.1), protocol);
            let six = FiveTuple::v6((c.into(), ports.0), (d.into(), ports.1), protocol);
            prop_assert_eq!((four.source(), four.destination()), (a.into(), b.into()));
            prop_assert_eq!((six.source(), six.destination()), (c.into(), d.into()));
            for tuple in [four, six] {
                prop_assert_eq!((tuple.source_port(), tuple.destination_port(), tuple.protocol()), (ports.0, ports.1, protocol));
                let back = tuple.reversed();
                prop_assert_eq!((back.source(), back.source_port()), (tuple.destination(), ports.1));
                prop_assert_eq!(back.reversed(), tuple);
            }
        }
    }
}
