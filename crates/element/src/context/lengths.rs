//! How long packets are where payloads may have been left aside.

use packet::Packet;

use super::Cx;

impl Cx<'_> {
    /// How long packets are, with payloads that have been left aside.
    #[inline]
    pub fn lengths(&self) -> Lengths {
        Lengths { tells: self.core.facts.tells_lengths }
    }
}

/// Knows how long packets are, with payloads that have been left aside ([`Effects::whole_length`](crate::Effects::whole_length)).
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Whether annotations say how much has been.
    tells: bool,
}

impl Lengths {
    /// Bytes of a packet.
    #[inline]
    pub fn of(self, packet: &Packet) -> usize {
        packet.len() + self.aside(packet)
    }

    /// Bytes of its payload that are not in it.
    #[inline]
    pub fn aside(self, packet: &Packet) -> usize {
        if self.tells { packet.annotations().parked as usize } else { 0 }
    }
}
