//! Mappings as bytes, for a restart: written in pieces while packets flow, and put into the store of a later
//! run.

use element::{Damaged, Loaded, StateReader, StateWriter, Timestamp};

use super::{Claim, Store, space};
use crate::nat::shift::Shifts;
use crate::nat::state::{Kind, State};
use crate::nat::store::Written;
use crate::nat::tuple::Tuple;

/// The largest number of sessions that are examined for one piece (one call) of writing the mappings to disk.
const LOOKS: usize = 4096;

/// The index in the list of sessions at which the writing of mappings continues, with the epoch of the store.
/// In another epoch, the sessions may have other indexes.
#[derive(Clone, Copy)]
struct Position {
    epoch: u32,
    place: u32,
}

impl Position {
    fn unpacked(number: u64) -> Position {
        Position { epoch: (number >> 32) as u32, place: number as u32 }
    }

    fn packed(self) -> u64 {
        u64::from(self.epoch) << 32 | u64::from(self.place)
    }
}

/// The properties of a mapping that follow from the class of its translator and from its protocol.
pub(in crate::nat) struct Classified {
    /// The number of the mapping's space among the spaces of its translator: flows in different spaces may
    /// have equal tuples.
    pub(in crate::nat) which: u32,
    /// The kind of the mapping's states.
    pub(in crate::nat) kind: Kind,
    /// The index of the time-outs among the translator's two policies.
    pub(in crate::nat) policy: u8,
}

impl Store {
    /// Writes a part of the mappings of the translator with number `owner`, from the position `from` in the
    /// list of sessions on (0 in the first call). Returns the position at which the next part starts; `None`
    /// after the last part. If sessions have been renumbered since the previous part, writing begins again,
    /// and mappings are written twice.
    pub(in crate::nat) fn save(&self, owner: u16, from: u64, out: &mut StateWriter) -> Option<u64> {
        let Position { epoch, place } = Position::unpacked(from);
        let now = self.epoch as u32;
        let start = if epoch == now { place as usize } else { 0 };
        let sessions = self.sessions.iter().enumerate().skip(start).take(LOOKS);
        let mut next = start;
        for (place, session) in sessions {
            if out.is_full() {
                break;
            }
            next = place + 1;
            if session.owner == owner
                && session.is_in_use()
                && let Some(written) = self.write(place as u32, session)
            {
                written.save(out);
            }
        }
        let place = next as u32;
        (next < self.sessions.len()).then_some(Position { epoch: now, place }.packed())
    }

    /// Adds a mapping that an earlier run has saved, and counts it in `loaded` as taken, refused, or ended
    /// (expired). If the store has the same mapping already, the mapping with the later packet stays, and the
    /// two count as one mapping.
    pub(in crate::nat) fn put_saved(
        &mut self,
        (owner, is_independent): (u16, bool),
        written: &Written,
        now: Timestamp,
        loaded: &mut Loaded,
    ) {
        let Some(of) = self.owners.get(usize::from(owner)) else { return };
        let policy = of.policies[usize::from(written.policy) & 1];
        let lasts = policy.timeout(written.kind, written.states).max(policy.guarantee);
        if self.reaps && written.last.saturating_add(lasts) <= now.0 {
            loaded.ended += 1;
            return self.record_end(owner, written);
        }
        let known = self.find(written.tuples[1], space(owner, written.which));
        if let Some(known) = known.filter(|known| known.to.reversed() == written.tuples[0]) {
            let session = self.sessions.get(known.session as usize);
            if session.is_none_or(|session| self.times(session).0 >= written.last) {
                return;
            }
            self.remove(known.session);
            // The removed mapping may not have been counted as taken: it may have been made before the saved
            // state was loaded. So the count stops at zero.
            loaded.taken = loaded.taken.saturating_sub(1);
        }
        let before = self.additions;
        self.put(owner, written, is_independent);
        match self.additions != before {
            true => loaded.taken += 1,
            false => loaded.refused += 1,
        }
    }
}

impl Written {
    fn save(&self, out: &mut StateWriter) {
        for Tuple { source, destination, source_port, destination_port } in self.tuples {
            out.u32(source);
            out.u32(destination);
            out.u16(source_port);
            out.u16(destination_port);
        }
        self.outputs.iter().for_each(|&output| out.u16(output));
        out.u16(self.input);
        out.u8(self.protocol);
        out.u8(self.annotation);
        out.u8(match self.claim {
            Claim::Nothing => 0,
            Claim::Port => 1,
            Claim::Address => 2,
            Claim::Endpoint => 3,
        });
        self.states.iter().for_each(|state| out.u16(state.0));
        out.time(Timestamp(self.last));
        out.u8(u8::from(self.shifts.is_some()));
        if let Some(shifts) = &self.shifts {
            shifts.save(out);
        }
    }

    /// Reads a mapping that an earlier run has saved. `classify` returns its space, kind and time-outs, from
    /// the tuples of the flow and of its reply, and from the protocol.
    ///
    /// # Errors
    /// If the bytes are not a mapping, or if `classify` fails.
    pub(in crate::nat) fn load(
        reader: &mut StateReader<'_>,
        classify: impl Fn([Tuple; 2], u8) -> Result<Classified, Damaged>,
    ) -> Result<Written, Damaged> {
        let mut tuple = || {
            Ok(Tuple {
                source: reader.u32()?,
                destination: reader.u32()?,
                source_port: reader.u16()?,
                destination_port: reader.u16()?,
            })
        };
        let tuples = [tuple()?, tuple()?];
        let outputs = [reader.u16()?, reader.u16()?];
        let (input, protocol, annotation) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let claim = match reader.u8()? {
            0 => Claim::Nothing,
            1 => Claim::Port,
            2 => Claim::Address,
            3 => Claim::Endpoint,
            _ => return Err(Damaged("a mapping reserves an unknown kind of number")),
        };
        let Classified { which, kind, policy } = classify(tuples, protocol)?;
        let states = [reader.u16()?, reader.u16()?].map(|bits| State::saved(kind, bits));
        let last = reader.time()?.0;
        let shifts = if reader.bool()? { Some(Box::new(Shifts::load(reader)?)) } else { None };
        Ok(Written {
            serial: 0,
            which,
            is_own_reply: tuples[0] == tuples[1],
            tuples,
            outputs,
            input,
            expiry: last,
            kind,
            policy,
            protocol,
            states,
            annotation,
            claim,
            last,
            shifts,
        })
    }
}
