//! Leases of mappings: another element handles the packets of a flow in place of the translator
//! ([`element::lease`]).
//!
//! Each direction of a mapping is leased separately, because each is a flow. A flow can be leased if its
//! state no longer changes by packets that neither open nor close a connection.

use std::sync::Arc;

use element::Timestamp;
use element::lease::{Lease, Leases};
use flow::{FlowId, Ipv4FlowKey};

use super::Store;
use crate::nat::change::Change;

impl Store {
    /// Leases the flow with this key. Returns the id of the key and the rewriting of the flow's packets.
    /// Returns `None` if the flow cannot be leased now: it has no valid mapping, its state still changes, its
    /// sequence numbers are shifted, it is already leased, the store needs all packets itself, or there is no
    /// memory.
    pub(in crate::nat) fn lease(&mut self, key: &Ipv4FlowKey, lease: Lease) -> Option<(FlowId, Change)> {
        // While keys are moved to another table, their ids change soon. A revision, which applies new
        // settings after a reload, ends leases. With a board, other workers also handle the packets. While
        // expired mappings may be left, the translator itself must check packets for expiry.
        let is_at_work = self.old.is_some() || self.revision.is_some();
        if is_at_work || self.board.is_some() || self.is_behind() {
            return None;
        }
        let id = self.find_key(key)?;
        let change = Change::unpacked(self.table.key(id)?.value());
        let session = self.sessions.get(change.session as usize)?;
        let is_expired = self.has_ended(change.session, lease.last_seen());
        if is_expired || !change.state.is_final(session.kind) || self.leases.contains_key(&id) {
            return None;
        }
        self.leases.try_reserve(1).ok()?;
        self.leases.insert(id, lease);
        Some((id, change))
    }

    /// Ends a lease because its holder gives it back. `place` is the index of the lease in the holder's
    /// table, and identifies it. Records the time of the flow's last packet.
    pub(in crate::nat) fn give_back(&mut self, id: FlowId, leases: &Arc<Leases>, place: u32) {
        // The flow may have been leased again since then. The new lease has another index, and must not end.
        if self.leases.get(&id).is_some_and(|lease| lease.is_at(leases, place))
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
        }
    }

    /// Returns the time of the last packet that the lease's holder has handled, in nanoseconds; the minimum
    /// if the flow is not leased.
    pub(super) fn seen_on_lease(&self, id: FlowId) -> i64 {
        // In most cases there are no leases; then no map is searched.
        if self.leases.is_empty() {
            return i64::MIN;
        }
        self.leases.get(&id).map_or(i64::MIN, |lease| lease.last_seen().0)
    }

    /// Ends the lease of a flow, if there is one, so that its packets come to the translator again.
    pub(super) fn end_lease(&mut self, id: FlowId) {
        if !self.leases.is_empty()
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
            lease.end();
        }
    }

    /// Ends all leases, so that all packets come to the translator again.
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
