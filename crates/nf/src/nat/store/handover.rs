//! Mappings as plain data, for handlers that list them, and for the element that replaces a translator when
//! the configuration changes.

use element::Timestamp;

use super::{Chosen, Claim, Fresh, Session, Store, space, tuple};
use crate::nat::change::Change;
use crate::nat::shift::Shifts;
use crate::nat::state::{Kind, State};
use crate::nat::tuple::Tuple;

/// A mapping as plain data, independent of the store.
#[derive(Clone, Debug)]
pub(in crate::nat) struct Written {
    pub(super) serial: u64,
    pub(in crate::nat) which: u32,
    /// The tuples of the flow and of its reply, as packets have them before translation. They are equal if
    /// the flow is its own reply.
    pub(in crate::nat) tuples: [Tuple; 2],
    pub(in crate::nat) is_own_reply: bool,
    pub(in crate::nat) outputs: [u16; 2],
    pub(in crate::nat) input: u16,
    /// The time at which the mapping's time-out ends without further packets, in nanoseconds.
    pub(in crate::nat) expiry: i64,
    pub(super) kind: Kind,
    pub(super) policy: u8,
    pub(super) protocol: u8,
    pub(super) states: [State; 2],
    pub(super) annotation: u8,
    pub(super) claim: Claim,
    pub(super) last: i64,
    pub(in crate::nat) shifts: Option<Box<Shifts>>,
}

impl Store {
    /// Returns the mappings of the translator with number `owner` in the order in which they were made.
    /// `which` selects one of the translator's spaces; `None` selects all.
    pub(in crate::nat) fn written(&self, owner: u16, which: Option<u32>) -> Vec<Written> {
        let is_in = |session: &Session| {
            let key =
                session.keys[1].filter(|_| which.is_some()).and_then(|id| self.table_of(session).key(id));
            which.is_none() || key.is_some_and(|key| Some(key.ends().space() & 0xff) == which)
        };
        let own = (0..).zip(&self.sessions).filter(|(_, session)| session.owner == owner && is_in(session));
        let mut all: Vec<Written> = own.filter_map(|(place, session)| self.write(place, session)).collect();
        all.sort_by_key(|written| written.serial);
        all
    }

    pub(super) fn write(&self, place: u32, session: &Session) -> Option<Written> {
        let [forward, reply] = session.keys;
        let table = self.table_of(session);
        let key = table.key(reply?)?;
        let comes = tuple(key.ends());
        let back = Change::unpacked(key.value());
        let there = forward.and_then(|id| table.key(id)).map(|key| Change::unpacked(key.value()));
        let (last, _, expiry) = self.times(session);
        Some(Written {
            serial: session.serial,
            which: key.ends().space() & 0xff,
            tuples: [back.to.reversed(), comes],
            is_own_reply: forward.is_none(),
            outputs: [session.output, back.output],
            input: session.input,
            expiry,
            kind: session.kind,
            policy: session.policy,
            protocol: session.protocol,
            states: [there.map_or(State::default(), |there| there.state), back.state],
            annotation: session.annotation,
            claim: session.claim,
            last,
            shifts: self.shifts.get(&place).cloned(),
        })
    }

    /// Removes and returns all mappings of the translator with number `owner`, in the order of their last
    /// packets, so that they expire in a similar order in another store. Also returns the number of failures
    /// of each input, which begin again at zero.
    pub(in crate::nat) fn take(&mut self, owner: u16) -> (Vec<Written>, Vec<u64>) {
        let mut all = self.written(owner, None);
        // These sessions do not end: they go on in another store.
        self.set_log(owner, None);
        self.remove_where(|session| session.owner == owner);
        all.sort_by_key(|written| written.last);
        let inputs = self.owners.get_mut(usize::from(owner)).map(|owner| &mut owner.inputs[..]);
        let failures = inputs.unwrap_or_default().iter_mut().map(|tally| std::mem::take(&mut tally.failures));
        (all, failures.collect())
    }

    /// Adds a mapping that a replaced store or an earlier run had; drops the mapping silently if there is no
    /// room. The caller then shrinks the store to its capacity. With `is_independent`, the mapping's outside
    /// port becomes the port of its inside endpoint, unless the endpoint has another port or another endpoint
    /// has this port; then the port belongs to this mapping alone.
    pub(in crate::nat) fn put(&mut self, owner: u16, written: &Written, is_independent: bool) {
        let (space, from, to) =
            (space(owner, written.which), written.tuples[0], written.tuples[1].reversed());
        let claim = match written.claim {
            Claim::Port | Claim::Endpoint if is_independent && self.may_bind(space, from, to) => {
                Claim::Endpoint
            }
            Claim::Port | Claim::Endpoint => Claim::Port,
            other => other,
        };
        let fresh = Fresh {
            space,
            from,
            chosen: Chosen { to, claim },
            input: written.input,
            outputs: written.outputs,
            kind: written.kind,
            policy: written.policy,
            protocol: written.protocol,
        };
        let Ok((_, change)) = self.insert(&fresh, Timestamp(written.last)) else {
            return self.record_end(owner, written);
        };
        self.set_annotation(change.session, written.annotation);
        let keys = self.sessions[change.session as usize].keys;
        for (id, state) in keys.into_iter().zip(written.states) {
            if let Some(id) = id {
                self.change_state(self.era, id, |_| state);
            }
        }
        if let Some(shifts) = &written.shifts {
            self.put_shifts(change.session, shifts.clone());
        }
        // The new session was queued by the time-out of a mapping without packets. With the state that the
        // mapping had in the other store, it may expire earlier, so the session is queued again.
        self.forget_turn(change.session);
        self.queue_first(change.session);
    }
}
