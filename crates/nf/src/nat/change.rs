//! The rewriting that a mapping does to a packet, small enough to fit into the cache line of the mapping's
//! key.

use wire::checksum::Delta;

use super::spaces::IDENTIFIERS;
use super::state::State;
use super::tuple::Tuple;

/// The rewriting of a packet of one direction of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) to: Tuple,
    address_change: u16,
    transport_change: u16,
    pub(super) session: u32,
    pub(super) is_reply: bool,
    pub(super) output: u16,
    /// The information that packets of this direction have given: see [`State`].
    pub(super) state: State,
}

/// Packs a change of a checksum into 16 bits; zero for no change.
fn folded(change: Delta) -> u16 {
    match !change.apply(0xffff) {
        0xffff => 0,
        folded => folded,
    }
}

/// Unpacks a change of a checksum.
#[inline]
fn unfolded(change: u16) -> Delta {
    Delta::u16(0xffff, change)
}

impl Change {
    pub(super) fn new(from: Tuple, to: Tuple, space: u32) -> Change {
        let transport = match space & 0xff {
            IDENTIFIERS => Delta::u16(from.source_port, to.source_port),
            _ => from.address_change(to) + from.port_change(to),
        };
        Change {
            to,
            address_change: folded(from.address_change(to)),
            transport_change: folded(transport),
            session: 0,
            is_reply: false,
            output: 0,
            state: State::default(),
        }
    }

    /// Sets the change for a transport header in which only an identifier changes.
    pub(super) fn change_identifier(&mut self, from: u16, to: u16) {
        self.transport_change = folded(Delta::u16(from, to));
    }

    /// Returns the change of the IPv4 header's checksum.
    #[inline]
    pub(super) fn of_addresses(&self) -> Delta {
        unfolded(self.address_change)
    }

    /// Returns the change of the transport header's checksum.
    #[inline]
    pub(super) fn of_transport(&self) -> Delta {
        unfolded(self.transport_change)
    }

    /// True if no checksum changes.
    #[cfg(test)]
    pub(super) fn is_none(&self) -> bool {
        (self.address_change, self.transport_change) == (0, 0)
    }

    pub(super) fn packed(self) -> [u32; 6] {
        let pair = |a: u16, b: u16| u32::from(a) | u32::from(b) << 16;
        [
            self.to.source,
            self.to.destination,
            pair(self.to.source_port, self.to.destination_port),
            pair(self.address_change, self.transport_change),
            self.session << 1 | u32::from(self.is_reply),
            pair(self.output, self.state.0),
        ]
    }

    #[inline]
    pub(super) fn unpacked(value: &[u32; 6]) -> Change {
        let &[source, destination, ports, changes, session, output] = value;
        Change {
            to: Tuple {
                source,
                destination,
                source_port: ports as u16,
                destination_port: (ports >> 16) as u16,
            },
            address_change: changes as u16,
            transport_change: (changes >> 16) as u16,
            session: session >> 1,
            is_reply: session & 1 != 0,
            output: output as u16,
            state: State((output >> 16) as u16),
        }
    }
}

/// Writes another session to a packed change.
pub(super) fn set_session(value: &mut [u32; 6], session: u32) {
    value[4] = session << 1 | value[4] & 1;
}

/// Writes another state to a packed change.
pub(super) fn set_state(value: &mut [u32; 6], state: State) {
    value[5] = value[5] & 0xffff | u32::from(state.0) << 16;
}
