//! Stores of packets that are lent to the graph again and again, for sources that replay captures.

use std::ops::Range;

use packet::{Batch, DropReason, Packet, Store};

use super::Cx;

/// The methods with which a source lends the packets of a store to the graph again and again.
pub struct Stores<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the methods with which a source lends the packets of a store to the graph again and again.
    #[inline]
    pub fn stores(&mut self) -> Stores<'_, 'a> {
        Stores { cx: self }
    }
}

impl Stores<'_, '_> {
    /// Adds the packets `range` of a store to a batch, on loan, and returns the number of packets added.
    /// These packets count as made. The number is smaller than requested if the batch is full or the store
    /// has fewer packets. It is also smaller if a packet cannot be lent now: it is large or still on loan,
    /// and no copy of it can be made. No drops are counted then, because a source can lend the packet
    /// later.
    #[inline]
    pub fn lend_into(&mut self, store: &mut Store, range: Range<usize>, batch: &mut Batch) -> usize {
        let lent = store.lend_into(range, &mut self.cx.core.pool, batch);
        self.cx.own().made += lent as u64;
        lent
    }

    /// Makes an empty store. Before it lends a packet again, it restores what the elements of the graph may
    /// have changed ([`Facts::restore`](crate::Facts::restore)).
    pub fn store(&self) -> Store {
        Store::new(self.cx.core.facts.restore)
    }

    /// Puts a packet into a store, where it counts as held. A packet that is itself on loan, or is of
    /// another pool, is copied. The packet is dropped ([`DropReason::NoBuffer`]) if there is no memory for
    /// the copy or for the store.
    pub fn keep(&mut self, store: &mut Store, packet: Packet) {
        if !store.insert(packet, &mut self.cx.core.pool) {
            self.cx.own().drop(DropReason::NoBuffer, 1);
        }
    }

    /// Returns all packets of a store to the pool, and counts them as dropped for a reason.
    pub fn release(&mut self, store: &mut Store, reason: DropReason) {
        let n = store.release(&mut self.cx.core.pool);
        if n > 0 {
            self.cx.own().drop(reason, n as u64);
        }
    }
}
