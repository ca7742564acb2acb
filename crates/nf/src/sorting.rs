//! Distribution of the packets of a batch over the outputs of an element.

use element::{Batch, Cx, DropReason, Packet};
use packet::BATCH_CAPACITY;

/// The decision about a packet: an output, or a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// Sends the packet to this output; drops it for [`DropReason::NoOutput`] if the output does not exist.
    Output(usize),
    Drop(DropReason),
}

/// Converts an optional output: `None` drops the packet for [`DropReason::NoOutput`].
impl From<Option<usize>> for Fate {
    #[inline]
    fn from(output: Option<usize>) -> Fate {
        output.map_or(Fate::Drop(DropReason::NoOutput), Fate::Output)
    }
}

/// The value of [`Sorter::same`] (a decision and the number of packets) before the first decision about a
/// batch, and after two decisions have differed.
const NOTHING_NOTED: (Fate, usize) = (Fate::Output(0), 0);

/// Splits batches by the decisions about their packets, with buffers that are kept from batch to batch.
pub(crate) struct Sorter {
    /// For each output, the packets of the current batch that go there. Between two batches, all are
    /// `None`.
    sorted: Vec<Option<Batch>>,
    /// The decision about the packets of the batch that were noted so far, and the number of these packets,
    /// as long as all decisions are equal.
    same: (Fate, usize),
    /// The decision about each packet of the current batch, in the order of the packets; empty as long as all
    /// decisions are the same.
    fates: Vec<Fate>,
}

impl Sorter {
    /// Returns a sorter for an element with this number of outputs.
    pub(crate) fn new(outputs: usize) -> Sorter {
        Sorter {
            sorted: (0..outputs).map(|_| None).collect(),
            same: NOTHING_NOTED,
            fates: Vec::with_capacity(BATCH_CAPACITY),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.sorted.len()
    }

    /// Decides about each packet with `fate` and sends it to its output or drops it. `fate` is called once
    /// per packet, in order; packets for one output stay in order. Returns the batch if all its packets go
    /// to output 0, for the element to return to the engine; otherwise returns `None`.
    #[inline]
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        batch: Batch,
        fate: impl FnMut(&mut Cx<'_>, &Packet) -> Fate,
    ) -> Option<Batch> {
        self.send_by(cx, batch, fate, |fate| fate)
    }

    /// Does the same as [`send`](Self::send) for decisions that depend only on a key of the packet, such as
    /// an index, if keys are cheaper to compute and compare than decisions. `fate` is called once for the
    /// first packets, whose keys are equal, and for each packet from the first other key on. The batch is
    /// returned only if all keys are equal.
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
        // The search for a packet with another key comes before any decision is stored or any packet is
        // moved, because neither is needed if all packets go to one output.
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

    /// Starts a batch whose decisions are recorded with [`note`](Self::note) and executed by
    /// [`send_noted`](Self::send_noted).
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.fates.clear();
        self.same = NOTHING_NOTED;
    }

    /// Records the decision about the next `count` packets of the batch.
    #[inline]
    pub(crate) fn note(&mut self, fate: Fate, count: usize) {
        let (same, noted) = &mut self.same;
        if *noted > 0 && fate == *same {
            *noted += count;
        } else {
            self.note_other(fate, count);
        }
    }

    /// Records the first decision about a batch, and all decisions from the first different decision on.
    #[inline(never)]
    fn note_other(&mut self, fate: Fate, count: usize) {
        if self.fates.is_empty() {
            let (same, noted) = std::mem::replace(&mut self.same, NOTHING_NOTED);
            if noted == 0 {
                self.same = (fate, count);
                return;
            }
            self.fates.resize(noted, same);
        }
        self.fates.resize(self.fates.len() + count, fate);
    }

    /// Sends each packet as recorded since [`begin`](Self::begin); there must be one decision per packet.
    /// Returns the batch if all its packets go to output 0, as [`send`](Self::send) does.
    pub(crate) fn send_noted(&mut self, cx: &mut Cx<'_>, batch: Batch) -> Option<Batch> {
        let (same, noted) = self.same;
        if self.fates.is_empty() {
            debug_assert_eq!(noted, batch.len());
            return send_all(cx, batch, same);
        }
        debug_assert_eq!(self.fates.len(), batch.len());
        self.send_each(cx, batch);
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
            // The new batch has room for all packets of the batch that is split, so this never fails.
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

/// Sends a whole batch to one output or drops it. Returns a batch for output 0 instead of emitting it.
#[inline]
pub(crate) fn send_all(cx: &mut Cx<'_>, batch: Batch, fate: Fate) -> Option<Batch> {
    match fate {
        Fate::Output(0) => return Some(batch),
        Fate::Output(output) => cx.emit(output, batch),
        Fate::Drop(reason) => cx.drop_all(batch, reason),
    }
    None
}
