//! Counts of packets that do not go through the methods of the context.

use packet::{Batch, DropReason, Packet};

use super::Cx;

/// The counts of packets that a device or an element in place of others processes.
pub struct Accounts<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the counts of packets that a device or an element in place of others processes.
    #[inline]
    pub fn accounts(&mut self) -> Accounts<'_, 'a> {
        Accounts { cx: self }
    }
}

impl Accounts<'_, '_> {
    /// Counts packets that a device has put into the pool's slots as made.
    #[inline]
    pub fn count_made(&mut self, n: usize) {
        self.cx.own().made += n as u64;
    }

    /// Counts packets whose slots a device has taken as sent.
    #[inline]
    pub fn count_sent(&mut self, n: usize) {
        self.cx.own().sent += n as u64;
    }

    /// Counts packets as dropped whose slots a device had and has returned.
    pub fn count_dropped(&mut self, n: usize, reason: DropReason) {
        if n > 0 {
            self.cx.own().drop(reason, n as u64);
        }
    }

    /// Ends a packet that an element which this element replaces
    /// ([`Effects::replaces`](crate::Effects::replaces)) would have dropped or sent. Here it counts as
    /// emitted; the tally of the other element records its end
    /// ([`Element::settle`](crate::Element::settle)).
    pub fn end_for_others(&mut self, packet: Packet) {
        self.cx.own().emitted += 1;
        self.cx.core.pool.free(packet);
    }

    /// Like [`end_for_others`](Self::end_for_others), for all packets of a batch.
    pub fn end_all_for_others(&mut self, mut batch: Batch) {
        self.cx.own().emitted += batch.len() as u64;
        self.cx.core.pool.free_all(&mut batch);
        self.cx.core.recycle(batch);
    }
}
