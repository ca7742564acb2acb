//! The state of mappings: the information that packets give about their mapping, and the time-outs that
//! follow from it.
//!
//! Each direction of a mapping has its own state, which is stored with the rewriting of that direction's
//! packets. The time-out is computed from the states of both directions when it is needed.

/// The time-outs of a kind of mappings, in nanoseconds after the last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    /// The time-out of mappings to which neither `busy` nor `done` applies, such as connections with data
    /// in at most one direction, and single datagrams.
    pub(super) plain: i64,
    /// The time-out of TCP connections with data in both directions, and of streams of datagrams.
    pub(super) busy: i64,
    /// The time-out of TCP connections that both sides have closed, or one side has reset.
    pub(super) done: i64,
    /// The time after each packet during which a mapping neither expires nor is evicted for another; zero for
    /// none.
    pub(super) guarantee: i64,
}

impl Policy {
    /// Returns the shortest of the three time-outs.
    pub(super) fn shortest(&self) -> i64 {
        self.plain.min(self.busy).min(self.done)
    }

    /// Returns the time from a mapping's last packet until its time-out ends, in nanoseconds. It depends on
    /// the states of the flow's and the reply's direction.
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

/// The kind of a mapping: it decides which information about packets the mapping's states record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing is recorded about packets, because the mapping has a single time-out.
    Plain,
    /// The number of datagrams in each direction is recorded, up to [`MANY`], because a stream of datagrams
    /// has another time-out.
    Datagrams,
    /// For each direction of a TCP connection, it is recorded if the direction is closed, and if it has
    /// carried data.
    Connection,
}

impl Kind {
    /// True for a TCP connection that is closed in both directions.
    pub(super) fn is_done(self, [flow, reply]: [State; 2]) -> bool {
        self == Kind::Connection && flow.0 & reply.0 & DONE != 0
    }
}

/// The information that one packet gives about its mapping: nothing, that a datagram has passed, or the
/// flags of a TCP segment and the presence of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Datagram,
    Segment { flags: u8, has_payload: bool },
}

impl Told {
    /// True if the packet closes both directions of its connection: a TCP segment with RST.
    #[inline]
    pub(super) fn resets(self) -> bool {
        matches!(self, Told::Segment { flags, .. } if flags & wire::tcp::flags::RST != 0)
    }

    /// True if the packet is a TCP segment with SYN, FIN or RST.
    #[inline]
    pub(super) fn opens_or_closes(self) -> bool {
        use wire::tcp::flags::{FIN, RST, SYN};
        matches!(self, Told::Segment { flags, .. } if flags & (SYN | FIN | RST) != 0)
    }
}

/// The state of one direction of a mapping. For datagrams, the state is the number of datagrams, up to
/// [`MANY`]; for TCP connections, it is a set of the bits [`DONE`], [`DATA`] and [`SHIFTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State(pub(super) u16);

/// The number of datagrams in both directions together from which they count as a stream, if at least one
/// is a reply.
const MANY: u16 = 3;
/// The bit that is set if the direction is closed by FIN or RST.
const DONE: u16 = 1;
/// The bit that is set if the direction has carried data.
const DATA: u16 = 2;
/// The bit that is set if the connection's sequence numbers are shifted. [`State::after`] leaves it as it is.
const SHIFTED: u16 = 1 << 15;

impl State {
    /// Returns a direction's state from the bits that an earlier run has saved, without bits that this kind
    /// of mapping does not have. The bit [`SHIFTED`] is not set here, but when the edits of the connection's
    /// data are loaded.
    pub(super) fn saved(kind: Kind, bits: u16) -> State {
        State(match kind {
            Kind::Plain => 0,
            Kind::Datagrams => bits.min(MANY),
            Kind::Connection => bits & (DONE | DATA),
        })
    }

    /// Returns the state of a direction after a packet of this direction.
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
                    // This SYN opens another connection on the same ports. The new connection has carried no
                    // data yet, and is not closed.
                    bits &= SHIFTED;
                } else if flags & SYN != 0 || has_payload {
                    bits &= !DONE;
                }
                State(bits | if has_payload { DATA } else { 0 })
            }
        }
    }

    /// True if only packets that open or close a connection can still change this state, and no sequence
    /// numbers are shifted. Other elements and other workers can then handle the flow's packets, because they
    /// need not update the state.
    pub(super) fn is_final(self, kind: Kind) -> bool {
        match kind {
            Kind::Plain => true,
            Kind::Datagrams => self.0 == MANY,
            Kind::Connection => self.0 == DATA,
        }
    }

    /// True if the sequence numbers of the connection must be shifted.
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

    /// Returns the state of a direction after the opposite direction was reset.
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
        // A direction that sends again, with data or a SYN, is no longer closed. After a SYN in one
        // direction only, the connection is half open.
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
