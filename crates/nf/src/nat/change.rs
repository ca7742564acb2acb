//! The rewriting of the packets of one direction of a mapping: new addresses and ports, checksum changes,
//! output and state. In packed form the rewriting is the value of this direction's key in the flow table, and
//! shares a cache line with the key.

use wire::checksum::{Delta, FoldedDelta};

use super::spaces::IDENTIFIERS;
use super::state::State;
use super::tuple::Tuple;

/// The rewriting of the packets of one direction of a mapping. `to` has their new addresses and ports,
/// `session` is the index of the session (the mapping's other data) in the store, and `is_reply` is true in
/// the direction of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) to: Tuple,
    address_change: FoldedDelta,
    transport_change: FoldedDelta,
    pub(super) session: u32,
    pub(super) is_reply: bool,
    pub(super) output: u16,
    /// The state of this direction. It follows from the direction's packets so far, and from resets by the
    /// other direction: see [`State`].
    pub(super) state: State,
}

impl Change {
    pub(super) fn new(from: Tuple, to: Tuple, space: u32) -> Change {
        let transport = match space & 0xff {
            IDENTIFIERS => Delta::u16(from.source_port, to.source_port),
            _ => from.address_change(to) + from.port_change(to),
        };
        Change {
            to,
            address_change: from.address_change(to).folded(),
            transport_change: transport.folded(),
            session: 0,
            is_reply: false,
            output: 0,
            state: State::default(),
        }
    }

    /// Sets the change of the ICMP checksum for a query whose identifier changes from `from` to `to`. No
    /// other field under this checksum changes.
    pub(super) fn change_identifier(&mut self, from: u16, to: u16) {
        self.transport_change = Delta::u16(from, to).folded();
    }

    /// Returns the change of the IPv4 header's checksum, which covers the addresses.
    #[inline]
    pub(super) fn of_addresses(&self) -> FoldedDelta {
        self.address_change
    }

    /// Returns the change of the TCP, UDP or ICMP checksum.
    #[inline]
    pub(super) fn of_transport(&self) -> FoldedDelta {
        self.transport_change
    }

    /// True if the rewriting changes neither the IPv4 checksum nor the transport checksum.
    #[cfg(test)]
    pub(super) fn is_none(&self) -> bool {
        [self.address_change, self.transport_change] == [FoldedDelta::NOTHING; 2]
    }

    /// Returns the packed form of the change: see [`Packed`].
    pub(super) fn packed(self) -> [u32; 6] {
        let pair = |a: u16, b: u16| u32::from(a) | u32::from(b) << 16;
        let Tuple { source, destination, source_port, destination_port } = self.to;
        let ports = u32::from(source_port) << 16 | u32::from(destination_port);
        [
            source.to_be(),
            destination.to_be(),
            ports.to_be(),
            pair(self.address_change.to_bits(), self.transport_change.to_bits()),
            self.session << 1 | u32::from(self.is_reply),
            pair(self.output, self.state.0),
        ]
    }

    #[inline]
    pub(super) fn unpacked(value: &[u32; 6]) -> Change {
        let &[source, destination, ports, changes, session, output] = value;
        let ports = u32::from_be(ports);
        Change {
            to: Tuple {
                source: u32::from_be(source),
                destination: u32::from_be(destination),
                source_port: (ports >> 16) as u16,
                destination_port: ports as u16,
            },
            address_change: FoldedDelta::from_bits(changes as u16),
            transport_change: FoldedDelta::from_bits((changes >> 16) as u16),
            session: session >> 1,
            is_reply: session & 1 != 0,
            output: output as u16,
            state: State((output >> 16) as u16),
        }
    }
}

/// A packed [`Change`], from which packets are rewritten without unpacking it. Addresses and ports are in
/// network order.
#[derive(Clone, Copy)]
pub(super) struct Packed(pub(super) [u32; 6]);

impl Packed {
    /// Returns the new source and destination address.
    #[inline]
    pub(super) fn addresses(&self) -> [[u8; 4]; 2] {
        [self.0[0].to_ne_bytes(), self.0[1].to_ne_bytes()]
    }

    /// Returns the new source and destination port.
    #[inline]
    pub(super) fn ports(&self) -> [u8; 4] {
        self.0[2].to_ne_bytes()
    }

    /// Returns the change of the IPv4 header's checksum.
    #[inline]
    pub(super) fn of_addresses(&self) -> FoldedDelta {
        FoldedDelta::from_bits(self.0[3] as u16)
    }

    /// Returns the change of the TCP, UDP or ICMP checksum.
    #[inline]
    pub(super) fn of_transport(&self) -> FoldedDelta {
        FoldedDelta::from_bits((self.0[3] >> 16) as u16)
    }

    /// True in the direction of replies.
    #[inline]
    pub(super) fn is_reply(&self) -> bool {
        self.0[4] & 1 != 0
    }

    /// Returns the number of the output.
    #[inline]
    pub(super) fn output(&self) -> u16 {
        self.0[5] as u16
    }

    /// Returns the state of this direction.
    #[inline]
    pub(super) fn state(&self) -> State {
        State((self.0[5] >> 16) as u16)
    }

    /// Returns the unpacked change.
    #[inline]
    pub(super) fn unpacked(&self) -> Change {
        Change::unpacked(&self.0)
    }
}

/// Replaces the index of the session (the mapping's data in the store) in a packed [`Change`]. Keeps the bit
/// for the direction, flow or reply, which is in the same word.
pub(super) fn set_session(value: &mut [u32; 6], session: u32) {
    value[4] = session << 1 | value[4] & 1;
}

/// Replaces the state of the mapping's direction in a packed [`Change`]. Keeps the output number, which is in
/// the same word.
pub(super) fn set_state(value: &mut [u32; 6], state: State) {
    value[5] = value[5] & 0xffff | u32::from(state.0) << 16;
}
