//! What a mapping's packets tell about it, and how long it holds because of that.
//!
//! Each direction has a state of its own, which stands beside what packets of that direction become; what follows for
//! the mapping as a whole is worked out when somebody asks.

/// How long mappings hold, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policy {
    /// Most mappings.
    pub(super) plain: i64,
    /// TCP with data in both directions, or streams of datagrams.
    pub(super) busy: i64,
    /// TCP closed in both directions, or reset.
    pub(super) done: i64,
    /// For so long they do not give way to others; zero for not at all.
    pub(super) guarantee: i64,
}

impl Policy {
    /// The shortest time for which mappings hold after a packet.
    pub(super) fn shortest(&self) -> i64 {
        self.plain.min(self.busy).min(self.done)
    }

    /// How long a mapping holds after its last packet, by the states of flow and reply.
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

/// What a mapping's packets tell about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Plain,
    /// How many there were, and whether there was a reply.
    Datagrams,
    /// Whether the connection is open, and has carried data.
    Connection,
}

impl Kind {
    /// Whether both directions are closed, by the states of flow and reply.
    pub(super) fn is_done(self, [flow, reply]: [State; 2]) -> bool {
        self == Kind::Connection && flow.0 & reply.0 & DONE != 0
    }
}

/// What one packet tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Datagram,
    Segment { flags: u8, has_payload: bool },
}

impl Told {
    /// Whether it closes the other direction too.
    #[inline]
    pub(super) fn resets(self) -> bool {
        matches!(self, Told::Segment { flags, .. } if flags & wire::tcp::flags::RST != 0)
    }

    /// Whether a connection begins or ends.
    #[inline]
    pub(super) fn opens_or_closes(self) -> bool {
        use wire::tcp::flags::{FIN, RST, SYN};
        matches!(self, Told::Segment { flags, .. } if flags & (SYN | FIN | RST) != 0)
    }
}

/// One direction of a mapping: how many datagrams there were, up to [`MANY`]; or the bits [`DONE`] and [`DATA`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State(pub(super) u16);

/// Datagrams of a stream: three, one of them a reply.
const MANY: u16 = 3;
/// Closed.
const DONE: u16 = 1;
/// Has carried data.
const DATA: u16 = 2;
/// Not told by packets: the connection's sequence numbers move.
const SHIFTED: u16 = 1 << 15;

impl State {
    /// The state behind a packet.
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
                    // Another connection, which has carried nothing yet.
                    bits &= SHIFTED;
                } else if flags & SYN != 0 || has_payload {
                    bits &= !DONE;
                }
                State(bits | if has_payload { DATA } else { 0 })
            }
        }
    }

    /// Whether packets that neither open nor close a connection leave it as it is.
    pub(super) fn is_final(self, kind: Kind) -> bool {
        match kind {
            Kind::Plain => true,
            Kind::Datagrams => self.0 == MANY,
            Kind::Connection => self.0 == DATA,
        }
    }

    /// Whether sequence numbers are to be changed.
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

    /// The state when the other direction was reset.
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
        // Whoever sends on, or opens again, is not done; and what is opened again is only half open.
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
