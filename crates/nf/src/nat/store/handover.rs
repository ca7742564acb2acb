//! Mappings in a form for people, and for another element that continues with them.

use element::Timestamp;

use super::{Chosen, Claim, Fresh, Session, Store, space, tuple};
use crate::nat::change::Change;
use crate::nat::shift::Shifts;
use crate::nat::state::{Kind, State};
use crate::nat::tuple::Tuple;

/// A mapping in this form.
#[derive(Clone, Debug)]
pub(in crate::nat) struct Written {
    serial: u64,
    pub(in crate::nat) which: u32,
    /// The original tuples of packets in both directions; a mapping that is its own reply has only the
    /// reply's.
    pub(in crate::nat) tuples: [Tuple; 2],
    pub(in crate::nat) is_own_reply: bool,
    pub(in crate::nat) outputs: [u16; 2],
    pub(in crate::nat) input: u16,
    /// The time when the mapping expires without further packets.
    pub(in crate::nat) expiry: i64,
    kind: Kind,
    policy: u8,
    protocol: u8,
    states: [State; 2],
    annotation: u8,
    claim: Claim,
    last: i64,
    pub(in crate::nat) shifts: Option<Box<Shifts>>,
}

impl Store {
    /// Returns all mappings of an owner, or of one of its spaces, in the order of their age.
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

    fn write(&self, place: u32, session: &Session) -> Option<Written> {
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

    /// Removes and returns all mappings of an owner, in the order of their last packets.
    pub(in crate::nat) fn take(&mut self, owner: u16) -> Vec<Written> {
        let mut all = self.written(owner, None);
        self.remove_where(|session| session.owner == owner);
        all.sort_by_key(|written| written.last);
        all
    }

    /// Restores a mapping; the caller shrinks the store to its capacity afterwards. If all flows of an
    /// endpoint must have one port, a mapping that has another port, or a port of another endpoint, keeps
    /// it for itself.
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
        let Ok((_, change)) = self.insert(&fresh, Timestamp(written.last)) else { return };
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
        // By its state, the mapping may expire sooner than a new mapping.
        self.forget_turn(change.session);
        self.queue_first(change.session);
    }
}
