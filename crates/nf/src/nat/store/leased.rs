//! Mappings whose packets another element deals with ([`element::lease`]).
//!
//! A mapping can be leased by direction: each key is a flow of its own. It can be while packets that neither open nor close a
//! connection tell nothing more about it.

use std::sync::Arc;

use element::Timestamp;
use element::lease::{Lease, Leases};
use flow::{EndsKey, FlowId};

use super::Store;
use crate::nat::change::Change;

impl Store {
    /// Leases the flow of a key; what it is known by, and what its packets become.
    pub(in crate::nat) fn lease(&mut self, key: &EndsKey, lease: Lease) -> Option<(FlowId, Change)> {
        // Keys that move have other ids soon, and those shown to others are theirs, too. Who may be over must come
        // here.
        if self.old.is_some() || self.board.is_some() || self.is_behind() {
            return None;
        }
        let id = self.find_key(key)?;
        let change = Change::unpacked(self.table.key(id)?.value());
        let session = self.sessions.get(change.session as usize)?;
        let is_over = self.has_ended(change.session, lease.last_seen());
        if is_over || !change.state.is_final(session.kind) || self.leases.contains_key(&id) {
            return None;
        }
        self.leases.try_reserve(1).ok()?;
        self.leases.insert(id, lease);
        Some((id, change))
    }

    /// A flow comes by again that was on lease at that place.
    pub(in crate::nat) fn give_back(&mut self, id: FlowId, leases: &Arc<Leases>, place: u32) {
        // By now it may be on lease elsewhere.
        if self.leases.get(&id).is_some_and(|lease| lease.is_at(leases, place))
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
        }
    }

    /// When a flow that is on lease was last seen; no time for others.
    pub(super) fn seen_on_lease(&self, id: FlowId) -> i64 {
        // Most stores lease nothing.
        if self.leases.is_empty() {
            return i64::MIN;
        }
        self.leases.get(&id).map_or(i64::MIN, |lease| lease.last_seen().0)
    }

    /// Packets of a flow are to come here again.
    pub(super) fn end_lease(&mut self, id: FlowId) {
        if !self.leases.is_empty()
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
            lease.end();
        }
    }

    /// The same for all.
    pub(super) fn end_leases(&mut self) {
        for (id, lease) in std::mem::take(&mut self.leases) {
            self.note_time(id, lease.last_seen());
            lease.end();
        }
    }

    fn note_time(&mut self, id: FlowId, seen: Timestamp) {
        if self.table.last_seen(id).is_some_and(|last| last < seen) {
            self.table.touch(id, seen);
        }
    }
}
