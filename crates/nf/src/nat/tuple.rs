//! What flows are told apart by.

use std::fmt;
use std::net::Ipv4Addr;

use wire::checksum::Delta;

/// Addresses and ports in one direction, in host order; zero for what does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) source: u32,
    pub(super) destination: u32,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Tuple {
    /// The same from the other end.
    #[must_use]
    pub(super) fn reversed(self) -> Tuple {
        Tuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// How a checksum over the addresses changes when they become those of another.
    pub(super) fn address_change(self, to: Tuple) -> Delta {
        Delta::u32(self.source, to.source) + Delta::u32(self.destination, to.destination)
    }

    /// The same for the ports.
    pub(super) fn port_change(self, to: Tuple) -> Delta {
        Delta::u16(self.source_port, to.source_port) + Delta::u16(self.destination_port, to.destination_port)
    }
}

/// `(SADDR, SPORT, DADDR, DPORT)`
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (Ipv4Addr::from_bits(self.source), Ipv4Addr::from_bits(self.destination));
        write!(f, "({source}, {}, {destination}, {})", self.source_port, self.destination_port)
    }
}
