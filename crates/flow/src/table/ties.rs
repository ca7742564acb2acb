//! The ties of a flow to others: its reverse flow, and holders that keep its id.

use std::num::NonZeroU32;

use super::{FlowTable, REMOVED};
use crate::bucket::Link;
use crate::id::FlowId;
use crate::key::Key;

impl<K: Key> FlowTable<K> {
    /// Makes two flows each other's reverse, and unpairs the flows with which they were paired before. A
    /// flow may be its own reverse. Returns `false`, and changes nothing, if a flow is not in the table.
    pub fn pair(&mut self, a: FlowId, b: FlowId) -> bool {
        let live = |id: FlowId| self.is_current(id) && self.holds[id.index as usize] & REMOVED == 0;
        if !live(a) || !live(b) {
            return false;
        }
        self.part(a.index);
        self.part(b.index);
        self.entries[a.index as usize].reverse = Link::to(b.index);
        self.entries[b.index as usize].reverse = Link::to(a.index);
        true
    }

    /// Returns the flow in the other direction, if it was paired and is still in the table.
    #[inline]
    pub fn reverse(&self, id: FlowId) -> Option<FlowId> {
        let link = self.current(id)?.reverse;
        let generation = NonZeroU32::new(self.entry(link)?.generation)?;
        Some(FlowId { index: link.index()?, generation })
    }

    /// Keeps the id from being assigned to another flow, and the flow from expiring, until
    /// [`FlowTable::release`] has been called as many times. A held flow can still be removed. Returns
    /// `false` if the id is stale.
    #[must_use]
    pub fn retain(&mut self, id: FlowId) -> bool {
        let can_hold = self.is_current(id) && self.holds[id.index as usize] & !REMOVED != !REMOVED;
        if can_hold {
            self.holds[id.index as usize] += 1;
        }
        can_hold
    }

    /// Ends one call of [`FlowTable::retain`]. Returns `false` if the id is stale or was not held.
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

    /// Unpairs a flow.
    #[inline]
    pub(super) fn part(&mut self, index: u32) {
        let reverse = std::mem::replace(&mut self.entries[index as usize].reverse, Link::NONE);
        if let Some(reverse) = reverse.index() {
            self.entries[reverse as usize].reverse = Link::NONE;
        }
    }
}
