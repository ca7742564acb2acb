//! Connections whose sequence numbers are shifted: see [`Shifts`].

use flow::FlowId;

use super::Store;
use crate::nat::change::Change;
use crate::nat::shift::{Numbers, Shifts};
use crate::nat::state::State;

impl Store {
    /// Returns the shifts of a mapping, if it has any.
    pub(in crate::nat) fn shifts(&self, session: u32) -> Option<&Shifts> {
        self.shifts.get(&session).map(|shifts| &**shifts)
    }

    /// Shifts the sequence numbers of a segment. Removes the shifts if another connection begins.
    #[cold]
    pub(in crate::nat) fn shift(&mut self, change: &Change, segment: &mut [u8]) {
        let Some(shifts) = self.shifts.get_mut(&change.session) else { return };
        if shifts.apply(change.is_reply, segment) == Numbers::NewConnection {
            self.shifts.remove(&change.session);
            self.change_states(change.session, State::without_shift);
        }
    }

    /// Replaces bytes that a direction of a connection sends. Returns false, and changes nothing, if this
    /// is not possible.
    pub(in crate::nat) fn edit(&mut self, change: &Change, start: u32, length: usize, new: &[u8]) -> bool {
        if self.shifts.try_reserve(1).is_err() {
            return false;
        }
        let shifts = self.shifts.entry(change.session).or_default();
        let is_done = shifts.of_mut(change.is_reply).add(start, length, new);
        self.mark_shifted(change.session);
        is_done
    }

    /// Continues with the shifts of an earlier element.
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
