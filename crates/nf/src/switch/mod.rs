//! Which way: elements that choose among outputs, or copy to all of them.

pub mod hash_switch;
pub mod hub;
pub mod paint_rr;
pub mod random_switch;
pub mod round_robin_switch;
pub mod static_switch;
pub mod stride_switch;
#[allow(clippy::module_inception)]
pub mod switch;

use element::{Batch, Cx, DropReason, Packet};

/// Sends packets of a batch to different outputs, as one batch per output.
pub(crate) struct Outputs {
    waiting: Vec<Option<Batch>>,
}

impl Outputs {
    pub(crate) fn new(outputs: usize) -> Outputs {
        Outputs { waiting: (0..outputs).map(|_| None).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends each packet where `choose` says, in the order of the outputs; drops what has no output.
    pub(crate) fn distribute(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        reason: DropReason,
        mut choose: impl FnMut(&mut Cx<'_>, &Packet) -> Option<usize>,
    ) {
        for packet in batch.drain() {
            let output = choose(cx, &packet);
            match output.and_then(|output| self.waiting.get_mut(output)) {
                None => cx.drop(packet, reason),
                Some(waiting) => {
                    // No more packets than came in one batch, so they fit into one.
                    if let Err(packet) = waiting.get_or_insert_with(|| cx.batch()).push(packet) {
                        cx.drop(packet, DropReason::NoBuffer);
                    }
                }
            }
        }
        cx.recycle(batch);
        for (output, waiting) in self.waiting.iter_mut().enumerate() {
            if let Some(waiting) = waiting.take() {
                cx.emit(output, waiting);
            }
        }
    }
}
