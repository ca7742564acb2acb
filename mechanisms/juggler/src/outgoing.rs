//! Output batches that may overflow.

use element::{Batch, Cx, Packet};

/// Adds a packet to a batch. A full batch is emitted at output 0 first.
#[inline]
pub(crate) fn add(cx: &mut Cx<'_>, batch: &mut Batch, packet: Packet) {
    if let Err(packet) = batch.push(packet) {
        let mut full = cx.batch_of(packet);
        std::mem::swap(batch, &mut full);
        cx.emit(0, full);
    }
}
