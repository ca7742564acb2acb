//! The lengths of packets whose payloads may be parked.

use packet::Packet;

use super::Cx;

impl Cx<'_> {
    /// Returns a reader of packet lengths that includes parked payloads.
    #[inline]
    pub fn lengths(&self) -> Lengths {
        Lengths { tells: self.core.facts.tells_lengths }
    }
}

/// A reader of packet lengths that includes parked payloads
/// ([`Support::whole_length`](crate::effects::Support::whole_length)).
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// True if annotations give the length of parked payload.
    tells: bool,
}

impl Lengths {
    /// Returns the length of a packet in bytes, parked payload included.
    #[inline]
    pub fn of(self, packet: &Packet) -> usize {
        packet.len() + self.aside(packet)
    }

    /// Returns the number of bytes of the packet's payload that are parked.
    #[inline]
    pub fn aside(self, packet: &Packet) -> usize {
        if self.tells { packet.annotations().parked as usize } else { 0 }
    }
}
