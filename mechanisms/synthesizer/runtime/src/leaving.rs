//! The order of packets that leave a program by several outputs.
//!
//! A program emits a batch early when the next packet leaves by another output from which it can reach the
//! same element. So no packet overtakes an earlier packet on the way to an element that both reach. Outputs
//! from which packets can reach no common element emit one batch for each batch that arrives.

use std::collections::BTreeSet;

use element::{Batch, Cx, DropReason, ElementId, Packet};

/// The packets of a batch that have not left the program yet, by output.
pub(crate) struct Leaving {
    /// By output: the packets that wait to be emitted.
    waiting: Vec<Option<Batch>>,
    /// The outputs at which packets wait. No two of these outputs meet (`meet`), so the order between their
    /// packets does not matter.
    open: Vec<usize>,
    /// By pair of outputs (index `a * outputs + b`): true if packets of both may reach a common element, so
    /// that their order has to be kept.
    meet: Vec<bool>,
}

impl Leaving {
    /// Makes empty queues for a number of outputs. Until [`find_meeting`](Self::find_meeting), all outputs
    /// count as meeting.
    pub(crate) fn new(outputs: usize) -> Leaving {
        Leaving {
            waiting: (0..outputs).map(|_| None).collect(),
            open: Vec::with_capacity(outputs),
            meet: vec![true; outputs * outputs],
        }
    }

    /// Computes which outputs meet. `reached` has, by output, the elements that its packets may reach.
    pub(crate) fn find_meeting(&mut self, reached: &[BTreeSet<ElementId>]) {
        let pairs = reached.iter().flat_map(|one| reached.iter().map(move |other| (one, other)));
        self.meet = pairs.map(|(one, other)| !one.is_disjoint(other)).collect();
    }

    /// Adds a packet for an output. First emits packets that wait at other outputs and that this packet
    /// might overtake. Drops the packet if there is no such output.
    #[inline]
    pub(crate) fn push(&mut self, cx: &mut Cx<'_>, output: usize, packet: Packet) {
        let Leaving { waiting, open, meet } = self;
        let Some(here) = waiting.get_mut(output) else {
            cx.drop(packet, DropReason::NoOutput);
            return;
        };
        if let Some(batch) = here {
            // All packets come from one incoming batch, which has no more packets than a batch can hold, so
            // the push does not fail.
            if let Err(packet) = batch.push(packet) {
                cx.emit_one(output, packet, DropReason::NoOutput);
            }
            return;
        }
        let outputs = waiting.len();
        open.retain(|&other| {
            let waits = !meet[output * outputs + other];
            if !waits && let Some(batch) = waiting[other].take() {
                cx.emit(other, batch);
            }
            waits
        });
        let mut batch = cx.batch();
        if let Err(packet) = batch.push(packet) {
            cx.drop(packet, DropReason::NoBuffer);
        }
        waiting[output] = Some(batch);
        open.push(output);
    }

    /// Emits all packets that wait; called at the end of a batch.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>) {
        for output in self.open.drain(..) {
            if let Some(batch) = self.waiting[output].take() {
                cx.emit(output, batch);
            }
        }
    }
}
