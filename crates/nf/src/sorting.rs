//! Sending the packets of a batch different ways, in batches again.

use element::{Batch, Cx, DropReason, Packet};
use packet::BATCH_CAPACITY;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to an output; without that output it is dropped.
    Output(usize),
    /// It is dropped.
    Drop(DropReason),
}

/// Some output, or none.
impl From<Option<usize>> for Fate {
    #[inline]
    fn from(output: Option<usize>) -> Fate {
        output.map_or(Fate::Drop(DropReason::NoOutput), Fate::Output)
    }
}

/// Takes batches apart by what becomes of their packets.
pub(crate) struct Sorter {
    /// One batch per output, to be filled while a batch is taken apart.
    sorted: Vec<Option<Batch>>,
    /// What becomes of each packet of a batch.
    fates: Vec<Fate>,
}

impl Sorter {
    /// For an element with so many outputs.
    pub(crate) fn new(outputs: usize) -> Sorter {
        Sorter { sorted: (0..outputs).map(|_| None).collect(), fates: Vec::with_capacity(BATCH_CAPACITY) }
    }

    /// How many outputs there are.
    pub(crate) fn outputs(&self) -> usize {
        self.sorted.len()
    }

    /// Sends each packet where `fate`, asked once about each of them in order, says; packets for one output stay in
    /// order. What goes to output 0 as a whole batch is given back for the engine to carry on.
    #[inline]
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        batch: Batch,
        mut fate: impl FnMut(&mut Cx<'_>, &Packet) -> Fate,
    ) -> Option<Batch> {
        let Some(first) = batch.first() else { return Some(batch) };
        let first = fate(cx, first);
        self.fates.clear();
        self.fates.push(first);
        let mut same = true;
        for packet in &batch[1..] {
            let fate = fate(cx, packet);
            same &= fate == first;
            self.fates.push(fate);
        }
        // Most batches go one way as a whole: no packet has to be moved.
        match first {
            _ if !same => self.send_each(cx, batch),
            Fate::Output(0) => return Some(batch),
            Fate::Output(output) => cx.emit(output, batch),
            Fate::Drop(reason) => cx.drop_all(batch, reason),
        }
        None
    }

    fn send_each(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        for (packet, &fate) in batch.drain().zip(&self.fates) {
            let output = match fate {
                Fate::Drop(reason) => {
                    cx.drop(packet, reason);
                    continue;
                }
                Fate::Output(output) => output,
            };
            let Some(sorted) = self.sorted.get_mut(output) else {
                cx.drop(packet, DropReason::NoOutput);
                continue;
            };
            // No more packets than came in one batch, so they fit into one.
            if let Err(packet) = sorted.get_or_insert_with(|| cx.batch()).push(packet) {
                cx.emit_one(output, packet, DropReason::NoOutput);
            }
        }
        cx.recycle(batch);
        for (output, sorted) in self.sorted.iter_mut().enumerate() {
            if let Some(sorted) = sorted.take() {
                cx.emit(output, sorted);
            }
        }
    }
}
