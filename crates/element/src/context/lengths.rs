//! The lengths of packets, payloads included that the Slicer has taken out of packets and parked in a table.

use packet::Packet;

use super::Cx;

impl Cx<'_> {
    /// Returns a reader of packet lengths. It adds the length of payload that the Slicer has parked in a
    /// table.
    #[inline]
    pub fn lengths(&self) -> WholeLengths {
        WholeLengths { tells: self.core.facts.tells_lengths }
    }
}

/// A reader of packet lengths that adds the length of payload that the Slicer has parked in a table. Elements
/// that use it declare [`Support::whole_length`](crate::effects::Support::whole_length).
#[derive(Clone, Copy, Debug)]
pub struct WholeLengths {
    /// True if packets carry the length of their parked payload in their metadata.
    tells: bool,
}

impl WholeLengths {
    /// Returns the length of a packet in bytes, its parked payload included.
    #[inline]
    pub fn of(self, packet: &Packet) -> usize {
        packet.len() + self.aside(packet)
    }

    /// Returns the number of bytes of the packet's payload that are parked. 0 if none are, or if packets do
    /// not carry this length.
    #[inline]
    pub fn aside(self, packet: &Packet) -> usize {
        if self.tells { packet.annotations().parked as usize } else { 0 }
    }
}
