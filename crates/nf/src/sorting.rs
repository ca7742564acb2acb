//! Distribution of the packets of a batch over outputs, in new batches.

use element::{Batch, Cx, DropReason, Packet};
use packet::BATCH_CAPACITY;

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Sends the packet to an output; drops it if that output does not exist.
    Output(usize),
    /// Drops the packet.
    Drop(DropReason),
}

/// An output, or a drop for [`DropReason::NoOutput`].
impl From<Option<usize>> for Fate {
    #[inline]
    fn from(output: Option<usize>) -> Fate {
        output.map_or(Fate::Drop(DropReason::NoOutput), Fate::Output)
    }
}

/// Splits batches by the fates of their packets.
pub(crate) struct Sorter {
    /// A batch per output, which is filled while a batch is split.
    sorted: Vec<Option<Batch>>,
    /// The fate of each packet of a batch.
    fates: Vec<Fate>,
}

impl Sorter {
    /// Returns a sorter for an element with this number of outputs.
    pub(crate) fn new(outputs: usize) -> Sorter {
        Sorter { sorted: (0..outputs).map(|_| None).collect(), fates: Vec::with_capacity(BATCH_CAPACITY) }
    }

    /// Returns the number of outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.sorted.len()
    }

    /// Sends each packet to its fate. `fate` is called once per packet, in order; packets for one output
    /// stay in order. A batch that goes to output 0 as a whole is returned, and the engine continues with
    /// it.
    #[inline]
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        batch: Batch,
        fate: impl FnMut(&mut Cx<'_>, &Packet) -> Fate,
    ) -> Option<Batch> {
        self.send_by(cx, batch, fate, |fate| fate)
    }

    /// Like [`send`](Self::send), for fates that depend on a key that is cheaper to compute and compare
    /// than the fate.
    #[inline]
    pub(crate) fn send_by<K: Copy + PartialEq>(
        &mut self,
        cx: &mut Cx<'_>,
        batch: Batch,
        mut key: impl FnMut(&mut Cx<'_>, &Packet) -> K,
        fate: impl Fn(K) -> Fate,
    ) -> Option<Batch> {
        let Some((first, rest)) = batch.split_first() else { return Some(batch) };
        let first = key(cx, first);
        // Most batches go to one output as a whole, so no fate has to be stored and no packet moved.
        let mut rest = rest.iter();
        let other = rest.find_map(|packet| Some(key(cx, packet)).filter(|&other| other != first));
        let Some(other) = other else { return send_all(cx, batch, fate(first)) };
        self.fates.clear();
        self.fates.resize(batch.len() - rest.len() - 1, fate(first));
        self.fates.push(fate(other));
        self.fates.extend(rest.map(|packet| fate(key(cx, packet))));
        self.send_each(cx, batch);
        None
    }

    /// Starts to record the fates of the packets of a batch.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.fates.clear();
    }

    /// Records the fate of the next packet.
    #[inline]
    pub(crate) fn note(&mut self, fate: Fate) {
        self.fates.push(fate);
    }

    /// Sends each packet to its recorded fate; see [`send`](Self::send).
    pub(crate) fn send_noted(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Option<Batch> {
        debug_assert_eq!(self.fates.len(), batch.len());
        let Some((&first, rest)) = self.fates.split_first() else { return Some(batch) };
        if rest.iter().any(|&fate| fate != first) {
            self.send_each(cx, batch);
            return None;
        }
        send_all(cx, batch, first)
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
            // One batch holds at most as many packets as the batch that is split, so there is room.
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

/// Sends a whole batch to one output or drops it; returns a batch for output 0.
#[inline]
fn send_all(cx: &mut Cx<'_>, batch: Batch, fate: Fate) -> Option<Batch> {
    match fate {
        Fate::Output(0) => return Some(batch),
        Fate::Output(output) => cx.emit(output, batch),
        Fate::Drop(reason) => cx.drop_all(batch, reason),
    }
    None
}
