//! Sending the packets of a batch different ways, in batches again.

use element::{Batch, Cx, DropReason, Packet};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to an output.
    Output(usize),
    /// It is dropped.
    Drop(DropReason),
}

/// One batch per output, to be filled while a batch is taken apart.
pub(crate) struct Sorter {
    sorted: Vec<Option<Batch>>,
}

impl Sorter {
    /// For an element with so many outputs.
    pub(crate) fn new(outputs: usize) -> Sorter {
        Sorter { sorted: (0..outputs).map(|_| None).collect() }
    }

    /// Sends all packets the same way; what goes to output 0 is given back for the engine to carry on.
    #[inline]
    pub(crate) fn send_whole(cx: &mut Cx<'_>, batch: Batch, fate: Fate) -> Option<Batch> {
        match fate {
            Fate::Output(0) => return Some(batch),
            Fate::Output(output) => cx.emit(output, batch),
            Fate::Drop(reason) => cx.drop_all(batch, reason),
        }
        None
    }

    /// Sends each packet its way. Packets for one output stay in order.
    pub(crate) fn send_each(
        &mut self,
        cx: &mut Cx<'_>,
        mut batch: Batch,
        mut fate: impl FnMut(&Packet) -> Fate,
    ) {
        for packet in batch.drain() {
            match fate(&packet) {
                Fate::Drop(reason) => cx.drop(packet, reason),
                Fate::Output(output) => {
                    let Some(sorted) = self.sorted.get_mut(output) else {
                        cx.drop(packet, DropReason::NoOutput);
                        continue;
                    };
                    let sorted = sorted.get_or_insert_with(|| cx.batch());
                    if let Err(packet) = sorted.push(packet) {
                        cx.emit_one(output, packet, DropReason::NoOutput);
                    }
                }
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
