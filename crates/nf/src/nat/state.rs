//! The state of mappings: what their packets tell about them, and the time-outs that follow from it.
//!
//! Each direction has its own state, which is stored together with the change of that direction's packets;
//! the state of the mapping as a whole is computed when it is needed.

/// The time-outs of mappings, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policy {
    /// The time-out of most mappings.
    pub(super) plain: i64,
    /// The time-out of TCP with data in both directions, or of streams of datagrams.
    pub(super) busy: i64,
    /// The time-out of TCP closed in both directions, or reset.
    pub(super) done: i64,
    /// The time after each packet during which a mapping is not evicted; zero for none.
    pub(super) guarantee: i64,
}

impl Policy {
    /// Returns the shortest time-out.
    pub(super) fn shortest(&self) -> i64 {
        self.plain.min(self.busy).min(self.done)
    }

    /// Returns the time after the last packet when a mapping expires, by the states of flow and reply.
    pub(super) fn timeout(&self, kind: Kind, [flow, reply]: [State; 2]) -> i64 {
        let both = |bit: u16| flow.0 & reply.0 & bit != 0;
        match kind {
            _ if kind.is_done([flow, reply]) => self.done,
            Kind::Connection if both(DATA) => self.busy,
            Kind::Datagrams if flow.0 + reply.0 >= MANY && reply.0 > 0 => self.busy,
            _ => self.plain,
        }
    }
}

/// The kind of information that a mapping's packets give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No information.
    Plain,
    /// The number of packets, and whether there was a reply.
    Datagrams,
    /// The state of the connection: open or closed, with or without data.
    Connection,
}

impl Kind {
    /// True if both directions are closed, by the states of flow and reply.
    pub(super) fn is_done(self, [flow, reply]: [State; 2]) -> bool {
        self == Kind::Connection && flow.0 & reply.0 & DONE != 0
    }
}

/// The information that one packet gives about its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Datagram,
    Segment { flags: u8, has_payload: bool },
}

impl Told {
    /// True if the packet also closes the other direction.
    #[inline]
    pub(super) fn resets(self) -> bool {
        matches!(self, Told::Segment { flags, .. } if flags & wire::tcp::flags::RST != 0)
    }

    /// True if a connection begins or ends.
    #[inline]
    pub(super) fn opens_or_closes(self) -> bool {
        use wire::tcp::flags::{FIN, RST, SYN};
        matches!(self, Told::Segment { flags, .. } if flags & (SYN | FIN | RST) != 0)
    }
}

/// The state of one direction of a mapping: the number of datagrams, up to [`MANY`]; or the bits [`DONE`]
/// and [`DATA`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State(pub(super) u16);

/// The number of datagrams that make a stream, including at least one reply.
const MANY: u16 = 3;
/// The bit of a direction that is closed.
const DONE: u16 = 1;
/// The bit of a direction that has carried data.
const DATA: u16 = 2;
/// The bit of a connection whose sequence numbers are shifted; packets do not set it.
const SHIFTED: u16 = 1 << 15;

impl State {
    /// Returns the state after a packet.
    #[inline]
    pub(super) fn after(self, told: Told) -> State {
        use wire::tcp::flags::{FIN, RST, SYN};
        match told {
            Told::Nothing => self,
            Told::Datagram => State((self.0 + 1).min(MANY)),
            Told::Segment { flags, has_payload } => {
                let mut bits = self.0;
                if flags & (FIN | RST) != 0 {
                    bits |= DONE;
                } else if flags & SYN != 0 && bits & DONE != 0 {
                    // This SYN opens another connection, which has carried no data yet.
                    bits &= SHIFTED;
                } else if flags & SYN != 0 || has_payload {
                    bits &= !DONE;
                }
                State(bits | if has_payload { DATA } else { 0 })
            }
        }
    }

    /// True if packets that neither open nor close a connection do not change the state.
    pub(super) fn is_final(self, kind: Kind) -> bool {
        match kind {
            Kind::Plain => true,
            Kind::Datagrams => self.0 == MANY,
            Kind::Connection => self.0 == DATA,
        }
    }

    /// True if sequence numbers must be shifted.
    #[inline]
    pub(super) fn is_shifted(self) -> bool {
        self.0 & SHIFTED != 0
    }

    pub(super) fn with_shift(self) -> State {
        State(self.0 | SHIFTED)
    }

    pub(super) fn without_shift(self) -> State {
        State(self.0 & !SHIFTED)
    }

    /// Returns the state after the other direction was reset.
    pub(super) fn closed(self) -> State {
        State(self.0 | DONE)
    }
}

#[cfg(test)]
mod tests {
    use wire::tcp::flags::{ACK, FIN, RST, SYN};

    use super::*;

    const POLICY: Policy = Policy { plain: 1, busy: 2, done: 3, guarantee: 0 };

    #[test]
    fn a_stream_is_three_datagrams_and_one_of_them_a_reply() {
        for (flow, reply, expected) in [(1, 0, 1), (9, 0, 1), (1, 1, 1), (2, 1, 2), (1, 2, 2), (0, 3, 2)] {
            let many = |n: usize| (0..n).fold(State::default(), |state, _| state.after(Told::Datagram));
            assert_eq!(
                POLICY.timeout(Kind::Datagrams, [many(flow), many(reply)]),
                expected,
                "{flow} {reply}"
            );
            assert_eq!(POLICY.timeout(Kind::Plain, [many(flow), many(reply)]), 1);
        }
    }

    #[test]
    fn connections_are_busy_with_data_both_ways_and_done_when_closed_both_ways() {
        let told = |flags: u8, has_payload: bool| Told::Segment { flags, has_payload };
        let after = |all: &[(u8, bool)]| {
            all.iter().fold(State::default(), |state, &(flags, payload)| state.after(told(flags, payload)))
        };
        let timeout = |flow: &[(u8, bool)], reply: &[(u8, bool)]| {
            POLICY.timeout(Kind::Connection, [after(flow), after(reply)])
        };
        assert_eq!(timeout(&[(SYN, false), (ACK, true)], &[(SYN | ACK, false)]), 1);
        assert_eq!(timeout(&[(SYN, false), (ACK, true)], &[(SYN | ACK, true)]), 2);
        assert_eq!(timeout(&[(ACK, true), (FIN | ACK, false)], &[(ACK, true)]), 2);
        assert_eq!(timeout(&[(ACK, true), (FIN | ACK, false)], &[(FIN, true)]), 3);
        // A direction that sends on, or opens again, is not done; a connection that is opened again is only
        // half open.
        assert_eq!(timeout(&[(FIN, false), (SYN, false)], &[(FIN, false)]), 1);
        assert_eq!(timeout(&[(ACK, true), (FIN, false), (SYN, false)], &[(ACK, true), (FIN, false)]), 1);
        let again = &[(ACK, true), (FIN, false), (SYN, false), (ACK, true)];
        assert_eq!(timeout(again, &[(ACK, true), (FIN, false), (SYN | ACK, false)]), 1);
        assert_eq!(timeout(again, &[(ACK, true), (FIN, false), (SYN | ACK, false), (ACK, true)]), 2);
        assert_eq!(timeout(&[(FIN, true), (ACK, true)], &[(FIN, true)]), 2);
        assert!(told(RST | ACK, false).resets() && !told(FIN, true).resets() && !Told::Datagram.resets());
        assert_eq!(POLICY.timeout(Kind::Connection, [after(&[(RST, false)]), State::default().closed()]), 3);
    }
}
