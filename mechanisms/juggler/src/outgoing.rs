//! Output through batches that are emitted when they are full.

use element::{Batch, Cx, Packet};

/// Adds a packet to `batch`. If the batch is full, emits it at output 0 and puts the packet into a new
/// batch.
#[inline]
pub(crate) fn add(cx: &mut Cx<'_>, batch: &mut Batch, packet: Packet) {
    if let Err(packet) = batch.push(packet) {
        let mut full = cx.batch_of(packet);
        std::mem::swap(batch, &mut full);
        cx.emit(0, full);
    }
}
