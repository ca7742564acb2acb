//! Schedulers: elements that pull from several inputs and choose the input of the next packet.

pub mod drr_sched;
pub mod prio_sched;
pub mod pull_switch;
pub mod round_robin_multi_sched;
pub mod round_robin_sched;
pub mod round_robin_unqueue;
pub mod simple_pull_switch;
pub mod static_pull_switch;
pub mod stride;
pub mod stride_sched;
pub mod time_sorted_sched;

use element::{Batch, Cx, DropReason, Packet};
use packet::BATCH_CAPACITY;

/// Pulls one packet from an input; returns `None` if the input gives no packet.
pub(crate) fn pull_one(cx: &mut Cx<'_>, input: usize) -> Option<Packet> {
    let mut batch = cx.pull(input, 1);
    let packet = batch.pop();
    cx.recycle(batch);
    packet
}

/// Calls `next` repeatedly, and returns a batch of the packets that it gives. Stops when `next` returns
/// `None`, when there are `max` packets, or when the batch is full.
pub(crate) fn collect(
    cx: &mut Cx<'_>,
    max: usize,
    mut next: impl FnMut(&mut Cx<'_>) -> Option<Packet>,
) -> Batch {
    let mut batch = cx.batch();
    while batch.len() < max.min(BATCH_CAPACITY)
        && let Some(packet) = next(cx)
    {
        // The loop ends before the batch is full, so no packet is dropped here.
        if let Err(packet) = batch.push(packet) {
            cx.drop(packet, DropReason::NoBuffer);
        }
    }
    batch
}
