//! Mappings whose packets are handled by another element ([`element::lease`]).
//!
//! Each direction of a mapping can be leased by itself, because each key is a flow of its own. A flow can
//! be leased while packets that neither open nor close a connection tell nothing new about the mapping.

use std::sync::Arc;

use element::Timestamp;
use element::lease::{Lease, Leases};
use flow::{FlowId, Ipv4FlowKey};

use super::Store;
use crate::nat::change::Change;

impl Store {
    /// Leases the flow of a key. Returns its id, and the change of its packets.
    pub(in crate::nat) fn lease(&mut self, key: &Ipv4FlowKey, lease: Lease) -> Option<(FlowId, Change)> {
        // Keys that are being moved get other ids soon; keys on a board are used by other workers, too.
        // Packets of mappings that may have expired must be checked here.
        if self.old.is_some() || self.board.is_some() || self.is_behind() {
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

    /// Ends the lease of a flow at a place in a table of leases, because its packets arrive here again.
    pub(in crate::nat) fn give_back(&mut self, id: FlowId, leases: &Arc<Leases>, place: u32) {
        // The flow may have been leased elsewhere since.
        if self.leases.get(&id).is_some_and(|lease| lease.is_at(leases, place))
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
        }
    }

    /// Returns the time of a leased flow's last packet; the minimum for other flows.
    pub(super) fn seen_on_lease(&self, id: FlowId) -> i64 {
        // Most stores lease no flows.
        if self.leases.is_empty() {
            return i64::MIN;
        }
        self.leases.get(&id).map_or(i64::MIN, |lease| lease.last_seen().0)
    }

    /// Ends the lease of a flow, so that its packets arrive here again.
    pub(super) fn end_lease(&mut self, id: FlowId) {
        if !self.leases.is_empty()
            && let Some(lease) = self.leases.remove(&id)
        {
            self.note_time(id, lease.last_seen());
            lease.end();
        }
    }

    /// Ends all leases.
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
