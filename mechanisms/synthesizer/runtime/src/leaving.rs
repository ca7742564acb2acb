//! The packets that leave a program by several outputs, in the order of their arrival.
//!
//! A program emits a batch early when the next packet leaves by another output from which it can reach the
//! same element: so no packet overtakes another on its way to an element that receives both. Outputs from
//! which packets can reach no common element emit one batch for each batch that arrives.

use std::collections::BTreeSet;

use element::{Batch, Cx, DropReason, ElementId, Packet};

/// Packets of a batch that have not left yet.
pub(crate) struct Leaving {
    /// By output: the packets that are held.
    waiting: Vec<Option<Batch>>,
    /// The outputs that hold packets. No two of them meet.
    open: Vec<usize>,
    /// By pair of outputs: true if packets of both may reach a common element.
    meet: Vec<bool>,
}

impl Leaving {
    /// Makes empty queues for a number of outputs, all of which meet.
    pub(crate) fn new(outputs: usize) -> Leaving {
        Leaving {
            waiting: (0..outputs).map(|_| None).collect(),
            open: Vec::with_capacity(outputs),
            meet: vec![true; outputs * outputs],
        }
    }

    /// Computes the pairs of outputs that meet from the elements that each output reaches.
    pub(crate) fn find_meeting(&mut self, reached: &[BTreeSet<ElementId>]) {
        let pairs = reached.iter().flat_map(|one| reached.iter().map(move |other| (one, other)));
        self.meet = pairs.map(|(one, other)| !one.is_disjoint(other)).collect();
    }

    /// Adds a packet for an output. Emits packets held at other outputs first, if this packet may meet
    /// them.
    #[inline]
    pub(crate) fn push(&mut self, cx: &mut Cx<'_>, output: usize, packet: Packet) {
        let Leaving { waiting, open, meet } = self;
        let Some(here) = waiting.get_mut(output) else {
            cx.drop(packet, DropReason::NoOutput);
            return;
        };
        if let Some(batch) = here {
            // The packets of one incoming batch always fit into one batch.
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

    /// Emits all packets that are held.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>) {
        for output in self.open.drain(..) {
            if let Some(batch) = self.waiting[output].take() {
                cx.emit(output, batch);
            }
        }
    }
}
