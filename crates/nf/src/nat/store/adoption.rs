//! The handover of a whole store to the translators of a new configuration.
//!
//! The new store takes over the table, the sessions and everything that belongs to them in one step, however
//! many there are. Settings that differ are applied later by a *revision*. It visits the sessions in turn, a
//! few with each batch, so that no packet waits for all of them. A mapping that the new specification could
//! not have made, and that must therefore end, is also noticed when a packet looks it up.

use element::Timestamp;
use flow::FlowId;

use super::{Owner, Store, WINDOW, tuple};
use crate::nat::change::Change;
use crate::nat::tuple::Tuple;

/// After a reload: the number of sessions to which the settings of the new store are applied with each batch
/// of packets, and the number of mappings above the new capacity that are evicted with each batch.
const PER_BATCH: usize = 64;

/// The largest number of mappings that are examined to find one to evict, because there are more mappings
/// than the capacity after a reload.
const LOOKS: usize = 8;

/// The work that remains after a store has taken over the mappings of another store: to apply the settings of
/// the new store to each mapping.
pub(super) struct Revision {
    /// The index of the session to visit next.
    next: usize,
    /// True if each session must be queued again for expiry, because time-outs have changed.
    requeues: bool,
    /// True if the keys of each mapping must be copied to the board, the table by which workers read each
    /// other's mappings.
    shows: bool,
    /// For each translator that shares the store, a function that returns false for mappings that must end,
    /// because the translator's specifications could not have made them. With `None`, all mappings of the
    /// translator stay.
    rules: Vec<Option<CouldMake>>,
}

/// The data of a mapping by which a [`CouldMake`] decides if the specifications of a translator could have
/// made the mapping.
pub(in crate::nat) struct Made {
    pub(in crate::nat) input: u16,
    /// True if the mapping shares its outside port with other mappings of its inside endpoint.
    pub(in crate::nat) is_shared: bool,
    pub(in crate::nat) space: u32,
    /// The tuple of the flow before translation, and the tuple after translation.
    pub(in crate::nat) tuples: (Tuple, Tuple),
    pub(in crate::nat) outputs: [u16; 2],
}

/// A function that returns true for mappings that the specifications of a translator could have made.
pub(in crate::nat) type CouldMake = Box<dyn Fn(&Made) -> bool + Send>;

impl Revision {
    /// Makes the revision (the application of new settings after a reload) visit all sessions again, because
    /// the sessions have got other indexes, or a rule was added.
    pub(super) fn start_again(&mut self) {
        self.next = 0;
    }
}

impl Owner {
    /// True if this translator can continue with all mappings of the translator `old` unchanged: it has the
    /// same name, class and INDEPENDENT_MAPPING, and at least as many inputs and outputs.
    fn can_continue(&self, old: &Owner) -> bool {
        self.name == old.name
            && self.inputs.len() >= old.inputs.len()
            && self.outputs >= old.outputs
            && self.is_independent == old.is_independent
    }
}

impl Store {
    /// Takes over all mappings of `old`, in a time that does not depend on their number. Returns false, and
    /// changes nothing, if this is not possible: the two stores have different translators, a translator has
    /// fewer inputs or outputs or another INDEPENDENT_MAPPING, or this store has mappings. Returns true if
    /// this store has adopted the mappings before, for another translator.
    pub(in crate::nat) fn adopt(&mut self, old: &mut Store) -> bool {
        if self.has_adopted {
            return true;
        }
        let can_continue = self.owners.len() == old.owners.len()
            && self.owners.iter().zip(&old.owners).all(|(new, old)| new.can_continue(old));
        if self.size > 0 || !can_continue {
            return false;
        }
        let requeues = self.owners.iter().zip(&old.owners).any(|(new, old)| new.policies != old.policies);
        // The stores exchange all fields, and then exchange their settings back.
        std::mem::swap(self, old);
        std::mem::swap(&mut self.owners, &mut old.owners);
        std::mem::swap(&mut self.capacity, &mut old.capacity);
        std::mem::swap(&mut self.reaps, &mut old.reaps);
        std::mem::swap(&mut self.slice, &mut old.slice);
        for (new, before) in self.owners.iter_mut().zip(&mut old.owners) {
            new.inputs.iter_mut().zip(&mut before.inputs).for_each(|(new, old)| std::mem::swap(new, old));
        }
        let shows = self.board.is_none() && old.board.is_some();
        if self.board.is_none() != old.board.is_none() {
            std::mem::swap(&mut self.board, &mut old.board);
        }
        let unfinished = self.revision.take();
        self.revision = Some(Revision {
            next: 0,
            requeues: requeues || unfinished.as_ref().is_some_and(|before| before.requeues),
            shows: shows || unfinished.is_some_and(|before| before.shows),
            rules: self.owners.iter().map(|_| None).collect(),
        });
        (self.has_adopted, old.has_adopted) = (true, false);
        self.next_search = i64::MIN;
        true
    }

    /// Ends the mappings of the translator with number `owner` for which `rule` returns false: with each
    /// batch some, or when a packet looks them up. With a board, all of them end at once, because other
    /// workers read the board.
    pub(in crate::nat) fn end_stale(&mut self, owner: u16, rule: CouldMake) {
        let revision = self.revision.get_or_insert_with(|| Revision {
            next: 0,
            requeues: false,
            shows: false,
            rules: self.owners.iter().map(|_| None).collect(),
        });
        revision.start_again();
        if let Some(place) = revision.rules.get_mut(usize::from(owner)) {
            *place = Some(rule);
        }
        if self.board.is_some() {
            (0..self.sessions.len() as u32).for_each(|place| self.remove_if_stale(place));
        }
    }

    /// Applies the settings of this store to the next [`PER_BATCH`] sessions of the replaced store, and
    /// evicts mappings above the capacity. Called with each batch.
    #[cold]
    pub(super) fn revise_with_batch(&mut self, now: Timestamp) {
        self.revise_some(now, PER_BATCH);
    }

    /// Applies the settings of this store to up to `most` further sessions of the replaced store, and evicts
    /// up to `most` mappings above the capacity.
    pub(super) fn revise_some(&mut self, now: Timestamp, most: usize) {
        for _ in 0..most {
            let Some(revision) = &mut self.revision else { return };
            let place = revision.next;
            if place >= self.sessions.len() {
                break;
            }
            revision.next += 1;
            self.revise(place as u32);
        }
        for _ in 0..most {
            if !self.is_over_capacity() || !self.evict(now, LOOKS) {
                break;
            }
        }
        let is_done = self.revision.as_ref().is_some_and(|revision| revision.next >= self.sessions.len());
        if is_done && !self.is_over_capacity() {
            self.revision = None;
        }
    }

    /// Applies the settings of this store to a session of the replaced store.
    fn revise(&mut self, place: u32) {
        self.remove_if_stale(place);
        let Some(session) = self.sessions.get(place as usize).filter(|session| session.is_in_use()) else {
            return;
        };
        let (owner, seat, keys) = (session.owner, session.seat, session.keys);
        let last = self.times(session).0;
        // The elements that hold leases of the flows belong to the replaced graph, so the leases end.
        keys.into_iter().flatten().for_each(|id| self.end_lease(id));
        let Some(&Revision { requeues, shows, .. }) = self.revision.as_ref() else { return };
        if requeues {
            self.forget_turn(place);
            self.queue_first(place);
        }
        if shows {
            keys.into_iter().flatten().for_each(|id| self.show(id, Timestamp(last)));
        }
        let is_limited = self.owners.get(usize::from(owner)).is_some_and(|owner| owner.most_of_one > 0);
        if is_limited
            && seat == super::NONE
            && let Some(address) = self.sender_of(place)
            && self.reserve_seat(owner, address)
        {
            self.charge(place, address);
        }
    }

    /// Removes the stale mappings among the keys with the ids in `found`: the mappings that the new
    /// specifications could not have made. Sets the ids of their keys to `None`.
    #[cold]
    pub(super) fn end_stale_among(&mut self, found: &mut [Option<FlowId>; WINDOW]) {
        if self.revision.as_ref().is_some_and(|revision| revision.rules.iter().any(Option::is_some)) {
            for found in found {
                *found = found.filter(|&id| !self.ends_as_stale(id));
            }
        }
    }

    /// True if the key with this id belongs to no mapping, or belonged to a stale mapping, which has now been
    /// removed. Stale mappings are those that the new specifications could not have made.
    #[cold]
    pub(super) fn ends_as_stale(&mut self, id: FlowId) -> bool {
        let Some(place) = self.table.key(id).map(|key| Change::unpacked(key.value()).session) else {
            return true;
        };
        self.remove_if_stale(place);
        self.table.key(id).is_none()
    }

    fn remove_if_stale(&mut self, place: u32) {
        if self.is_stale(place) {
            self.remove(place);
        }
    }

    /// True if a mapping must end, because the new specification of its translator could not have made it.
    pub(super) fn is_stale(&self, place: u32) -> bool {
        let Some(revision) = &self.revision else { return false };
        let Some(session) = self.sessions.get(place as usize) else { return false };
        let Some(Some(could_make)) = revision.rules.get(usize::from(session.owner)) else { return false };
        let [_, Some(reply)] = session.keys else { return false };
        let Some(key) = self.table_of(session).key(reply) else { return false };
        let back = Change::unpacked(key.value());
        let tuples = (back.to.reversed(), tuple(key.ends()).reversed());
        let (input, is_shared) = (session.input, session.claim == super::Claim::Endpoint);
        let outputs = [session.output, back.output];
        !could_make(&Made { input, is_shared, space: key.ends().space(), tuples, outputs })
    }
}
