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
        fate: impl FnMut(&mut Cx<'_>, &Packet) -> Fate,
    ) -> Option<Batch> {
        self.send_by(cx, batch, fate, |fate| fate)
    }

    /// The same where packets are compared by something that is found more quickly than what becomes of them.
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
        // Most batches go one way as a whole: nothing has to be noted down, and no packet to be moved.
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

    /// Starts to note what becomes of the packets of a batch.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.fates.clear();
    }

    /// Notes it for the next packet.
    #[inline]
    pub(crate) fn note(&mut self, fate: Fate) {
        self.fates.push(fate);
    }

    /// Sends each packet where was noted for it; see [`send`](Self::send).
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

/// Sends a whole batch one way; what goes to output 0 is given back.
#[inline]
fn send_all(cx: &mut Cx<'_>, batch: Batch, fate: Fate) -> Option<Batch> {
    match fate {
        Fate::Output(0) => return Some(batch),
        Fate::Output(output) => cx.emit(output, batch),
        Fate::Drop(reason) => cx.drop_all(batch, reason),
    }
    None
}
