//! Counts of packets that leave or enter an element without the methods of its context.

use packet::{Batch, DropReason, Packet};

use super::Cx;

/// The methods with which an element counts packets that did not pass the methods of its context. A device
/// processes these packets in the pool's memory, or the element processes them in place of elements that it
/// replaces.
pub struct Accounts<'c, 'a> {
    cx: &'c mut Cx<'a>,
}

impl<'a> Cx<'a> {
    /// Returns the methods with which an element counts packets itself: packets that a device processes in
    /// the pool's memory, or that the element processes in place of other elements.
    #[inline]
    pub fn accounts(&mut self) -> Accounts<'_, 'a> {
        Accounts { cx: self }
    }
}

impl Accounts<'_, '_> {
    /// Counts `n` packets as made that a device has received into slots of the pool.
    #[inline]
    pub fn count_made(&mut self, n: usize) {
        self.cx.own().made += n as u64;
    }

    /// Counts `n` packets as sent whose slots the device has taken over.
    #[inline]
    pub fn count_sent(&mut self, n: usize) {
        self.cx.own().sent += n as u64;
    }

    /// Counts `n` packets of a device as dropped for a reason. It frees no slots: the caller has already
    /// returned them to the pool.
    pub fn count_dropped(&mut self, n: usize, reason: DropReason) {
        if n > 0 {
            self.cx.own().drop(reason, n as u64);
        }
    }

    /// Frees a packet that an element replaced by this element
    /// ([`Effects::replaces`](crate::Effects::replaces)) would have dropped or sent. For this element the
    /// packet counts as emitted. The tally of the replaced element
    /// ([`Element::settle`](crate::Element::settle)) says whether it was dropped or sent.
    pub fn end_for_others(&mut self, packet: Packet) {
        self.cx.own().emitted += 1;
        self.cx.core.pool.free(packet);
    }

    /// Frees all packets of a batch and counts them, as [`end_for_others`](Self::end_for_others) does for one
    /// packet.
    pub fn end_all_for_others(&mut self, mut batch: Batch) {
        self.cx.own().emitted += batch.len() as u64;
        self.cx.core.pool.free_all(&mut batch);
        self.cx.core.recycle(batch);
    }
}
