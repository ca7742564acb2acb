//! Packets that are lent repeatedly.

use std::ops::Range;

use packet::{Batch, DropReason, Packet, Store};

use super::Cx;

/// The stores of packets that are lent repeatedly, for sources that replay captures.
pub struct Stores<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the stores of packets that are lent repeatedly, for sources that replay captures.
    #[inline]
    pub fn stores(&mut self) -> Stores<'_, 'a> {
        Stores { cx: self }
    }
}

impl Stores<'_, '_> {
    /// Adds packets on loan from a store to a batch, and returns their number. The number is smaller than
    /// requested if a packet cannot be lent now. This counts no drops, because a source can wait.
    #[inline]
    pub fn lend_into(&mut self, store: &mut Store, range: Range<usize>, batch: &mut Batch) -> usize {
        let lent = store.lend_into(range, &mut self.cx.core.pool, batch);
        self.cx.own().made += lent as u64;
        lent
    }

    /// Makes a store for packets that are lent repeatedly, with the properties that the graph needs.
    pub fn store(&self) -> Store {
        Store::new(self.cx.core.facts.restore)
    }

    /// Puts a packet into a store; it counts as held. A packet on loan is copied, or dropped if it cannot
    /// be copied.
    pub fn keep(&mut self, store: &mut Store, packet: Packet) {
        if !store.insert(packet, &mut self.cx.core.pool) {
            self.cx.own().drop(DropReason::NoBuffer, 1);
        }
    }

    /// Returns all packets of a store to the pool and counts them as dropped.
    pub fn release(&mut self, store: &mut Store, reason: DropReason) {
        let n = store.release(&mut self.cx.core.pool);
        if n > 0 {
            self.cx.own().drop(reason, n as u64);
        }
    }
}
