//! The rewriting of the packets of one direction of a mapping: new addresses and ports, checksum changes,
//! output and state. In packed form the rewriting is the value of this direction's key in the flow table, and
//! shares a cache line with the key.

use wire::checksum::Delta;

use super::spaces::IDENTIFIERS;
use super::state::State;
use super::tuple::Tuple;

/// The rewriting of the packets of one direction of a mapping. `to` has their new addresses and ports,
/// `session` is the index of the session (the mapping's other data) in the store, and `is_reply` is true in
/// the direction of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) to: Tuple,
    address_change: u16,
    transport_change: u16,
    pub(super) session: u32,
    pub(super) is_reply: bool,
    pub(super) output: u16,
    /// The state of this direction. It follows from the direction's packets so far, and from resets by the
    /// other direction: see [`State`].
    pub(super) state: State,
}

/// Packs the change of a checksum into 16 bits. Zero means that the checksum does not change.
fn folded(change: Delta) -> u16 {
    match !change.apply(0xffff) {
        0xffff => 0,
        folded => folded,
    }
}

/// Returns the change of a checksum that [`folded`] has packed.
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

    /// Sets the change of the ICMP checksum for a query whose identifier changes from `from` to `to`. No
    /// other field under this checksum changes.
    pub(super) fn change_identifier(&mut self, from: u16, to: u16) {
        self.transport_change = folded(Delta::u16(from, to));
    }

    /// Returns the change of the IPv4 header's checksum, which covers the addresses.
    #[inline]
    pub(super) fn of_addresses(&self) -> Delta {
        unfolded(self.address_change)
    }

    /// Returns the change of the TCP, UDP or ICMP checksum.
    #[inline]
    pub(super) fn of_transport(&self) -> Delta {
        unfolded(self.transport_change)
    }

    /// True if the rewriting changes neither the IPv4 checksum nor the transport checksum.
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

/// Replaces the session's index in a packed [`Change`], and keeps the direction.
pub(super) fn set_session(value: &mut [u32; 6], session: u32) {
    value[4] = session << 1 | value[4] & 1;
}

/// Replaces the state in a packed [`Change`], and keeps the output.
pub(super) fn set_state(value: &mut [u32; 6], state: State) {
    value[5] = value[5] & 0xffff | u32::from(state.0) << 16;
}
