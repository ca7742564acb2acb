//! Tuples: the addresses and ports by which translators identify a flow.

use std::fmt;
use std::net::Ipv4Addr;

use wire::checksum::Delta;

/// The IPv4 addresses and ports (or ICMP identifiers) of one direction, in host byte order. A field that
/// the translator does not use to identify a flow is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Tuple {
    /// Returns the tuple with source and destination exchanged, as packets in the opposite direction have
    /// it.
    #[must_use]
    pub(super) fn reversed(self) -> Tuple {
        Tuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// Returns the change of an Internet checksum that covers both addresses, if they become those of `to`.
    pub(super) fn address_change(self, to: Tuple) -> Delta {
        Delta::u32(self.source, to.source) + Delta::u32(self.destination, to.destination)
    }

    /// Returns the change of an Internet checksum that covers both ports, if they become those of `to`.
    pub(super) fn port_change(self, to: Tuple) -> Delta {
        Delta::u16(self.source_port, to.source_port) + Delta::u16(self.destination_port, to.destination_port)
    }
}

/// Formats a tuple as `(SADDR, SPORT, DADDR, DPORT)`.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (Ipv4Addr::from_bits(self.source), Ipv4Addr::from_bits(self.destination));
        write!(f, "({source}, {}, {destination}, {})", self.source_port, self.destination_port)
    }
}
