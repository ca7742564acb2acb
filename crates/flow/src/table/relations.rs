//! Relations of a flow: its reverse flow, and the holders that keep its id.

use std::num::NonZeroU32;

use super::{FlowTable, REMOVED};
use crate::bucket::Link;
use crate::id::FlowId;
use crate::key::Key;

impl<K: Key> FlowTable<K> {
    /// Makes two flows each other's reverse, for example both directions of a connection. Flows with which
    /// they were paired before become unpaired. A flow may be its own reverse. Returns `false`, and changes
    /// nothing, if one of the flows is not in the table, even if it is still held.
    pub fn pair(&mut self, a: FlowId, b: FlowId) -> bool {
        let live = |id: FlowId| self.is_current(id) && self.holds[id.index as usize] & REMOVED == 0;
        if !live(a) || !live(b) {
            return false;
        }
        self.unpair(a.index);
        self.unpair(b.index);
        self.entries[a.index as usize].reverse = Link::to(b.index);
        self.entries[b.index as usize].reverse = Link::to(a.index);
        true
    }

    /// Returns the flow in the other direction; `None` if the id is stale, if the flow was not paired, or if
    /// one of the two flows has left the table or was paired with a third flow.
    #[inline]
    pub fn reverse(&self, id: FlowId) -> Option<FlowId> {
        let link = self.current(id)?.reverse;
        let generation = NonZeroU32::new(self.entry(link)?.generation)?;
        Some(FlowId { index: link.index()?, generation })
    }

    /// Makes the caller a holder of the id. While there are holders, the flow does not expire, and its id
    /// is not assigned to another flow. A held flow can still be removed; its id then stays current. Each
    /// successful call needs one call of [`FlowTable::release`]. Returns `false` if the id is stale, or
    /// already has `2^31 - 1` holders.
    #[must_use]
    pub fn retain(&mut self, id: FlowId) -> bool {
        let can_hold = self.is_current(id) && self.holds[id.index as usize] & !REMOVED != !REMOVED;
        if can_hold {
            self.holds[id.index as usize] += 1;
        }
        can_hold
    }

    /// Ends one hold that [`FlowTable::retain`] began. When the last holder of a removed flow releases the
    /// id, the id becomes stale. Returns `false` if the id is stale or has no holder.
    pub fn release(&mut self, id: FlowId) -> bool {
        if !self.is_current(id) || self.holds[id.index as usize] & !REMOVED == 0 {
            return false;
        }
        let holds = &mut self.holds[id.index as usize];
        *holds -= 1;
        if *holds == REMOVED {
            *holds = 0;
            self.stats.held -= 1;
            self.give_back(id.index);
        }
        true
    }

    /// Unpairs a flow: neither it nor its reverse flow, if it has one, has a reverse any more.
    #[inline]
    pub(super) fn unpair(&mut self, index: u32) {
        let reverse = std::mem::replace(&mut self.entries[index as usize].reverse, Link::NONE);
        if let Some(reverse) = reverse.index() {
            self.entries[reverse as usize].reverse = Link::NONE;
        }
    }
}
