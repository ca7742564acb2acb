//! The edits of TCP connections whose sequence numbers are shifted, per session: see [`Shifts`].

use flow::FlowId;

use super::Store;
use crate::nat::change::Change;
use crate::nat::shift::{Numbers, Shifts};
use crate::nat::state::State;

impl Store {
    /// Returns the edits (replaced ranges of bytes) of a mapping's connection; `None` if it has none.
    pub(in crate::nat) fn shifts(&self, session: u32) -> Option<&Shifts> {
        self.shifts.get(&session).map(|shifts| &**shifts)
    }

    /// Shifts the sequence numbers of a TCP segment; `segment` starts with the TCP header. If the segment
    /// accepts a new connection on the same ports, the edits (replaced ranges of bytes) are removed, and the
    /// state in `change` is no longer shifted.
    #[cold]
    pub(in crate::nat) fn shift(&mut self, change: &mut Change, segment: &mut [u8]) {
        let Some(shifts) = self.shifts.get_mut(&change.session) else { return };
        if shifts.apply(change.is_reply, segment) == Numbers::NewConnection {
            self.shifts.remove(&change.session);
            self.change_states(change.session, State::without_shift);
            change.state = change.state.without_shift();
        }
    }

    /// Records that `length` bytes from sequence number `start` on, in the direction of `change`, become
    /// `new` for the receiver. Returns false if the edit is not possible (see
    /// [`Shift::add`](crate::nat::shift::Shift::add)), or if there is no memory.
    pub(in crate::nat) fn edit(&mut self, change: &Change, start: u32, length: usize, new: &[u8]) -> bool {
        if self.shifts.try_reserve(1).is_err() {
            return false;
        }
        let is_first = !self.shifts.contains_key(&change.session);
        let shifts = self.shifts.entry(change.session).or_default();
        if !shifts.of_mut(change.is_reply).add(start, length, new) {
            // The failed attempt leaves no entry for the connection: a connection with an entry is slower.
            if is_first {
                self.shifts.remove(&change.session);
            }
            return false;
        }
        self.mark_shifted(change.session);
        true
    }

    /// Gives a mapping the edits (replaced ranges of bytes) that its TCP connection had in a replaced store
    /// or an earlier run.
    pub(super) fn put_shifts(&mut self, session: u32, shifts: Box<Shifts>) {
        self.shifts.insert(session, shifts);
        self.mark_shifted(session);
    }

    fn mark_shifted(&mut self, session: u32) {
        self.change_states(session, State::with_shift);
    }

    fn change_states(&mut self, session: u32, change: impl Fn(State) -> State) {
        let Some(session) = self.sessions.get(session as usize) else { return };
        let (keys, era): ([Option<FlowId>; 2], u8) = (session.keys, session.era);
        for id in keys.into_iter().flatten() {
            self.change_state(era, id, &change);
        }
    }
}
