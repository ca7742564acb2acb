//! Packets that other workers have sent home, to the worker that owns the state of their flow.
//!
//! The packets wait until all packets that were handed over before them are processed. So the packet that
//! opens a connection is processed before the answer to it, even if the answer came through a third worker.

use element::Batch;

use super::rings::Unfinished;
use crate::graph_copy::Target;

/// A batch of packets that was sent home, and the worker that has sent it.
pub(super) type SentHome = (usize, Target, Batch);

/// The packets that were sent home and wait.
#[derive(Default)]
pub(super) struct Home {
    /// The batches that have come since `older` was last filled.
    newer: Vec<SentHome>,
    /// The batches that wait until no packet that was handed over before them is still outside of the rings.
    /// The batches are ready when each other worker has had all its packets in the rings at some time since
    /// `numbers` was read.
    older: Vec<SentHome>,
    /// For each worker, the counter by which it tells that its packets are in the rings ([`Unfinished`]), as
    /// it was after the last batch of `older` was received.
    numbers: Vec<u64>,
    /// The batches that need not wait any more, the next batch last.
    ready: Vec<SentHome>,
}

impl Home {
    /// Keeps packets that a worker has sent home.
    pub(super) fn keep(&mut self, from: usize, to: Target, batch: Batch) {
        self.newer.push((from, to, batch));
    }

    /// Moves the older batches to the ready batches if every packet that was handed over before them is in
    /// a ring now. Call this before packets are taken out of the rings, and process the ready batches after
    /// the packets from the rings. `me` is the number of this worker, whose own counter does not matter.
    pub(super) fn look(&mut self, me: usize, unfinished: &[Unfinished]) {
        let Home { newer, older, numbers, ready } = self;
        if older.is_empty() && !newer.is_empty() {
            std::mem::swap(older, newer);
            numbers.clear();
            numbers.extend(unfinished.iter().map(Unfinished::number));
        }
        let mut others = numbers.iter().zip(unfinished).enumerate().filter(|&(worker, _)| worker != me);
        let are_over = others.all(|(_, (&number, unfinished))| unfinished.has_ended(number));
        if are_over && !older.is_empty() && ready.is_empty() {
            std::mem::swap(ready, older);
            ready.reverse();
        }
    }

    /// True if batches are ready to be processed.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next batch that is ready to be processed.
    pub(super) fn take_ready(&mut self) -> Option<SentHome> {
        self.ready.pop()
    }

    /// True if batches wait that are not ready yet.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.older.is_empty() || !self.newer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Way;

    const TO: Target = Target { element: 0, input: 0, way: Way::ToOwner };

    fn ready(home: &mut Home) -> Vec<usize> {
        std::iter::from_fn(|| home.take_ready()).map(|(from, ..)| from).collect()
    }

    #[test]
    fn packets_sent_home_wait_for_packets_that_are_not_in_a_ring_yet() {
        let unfinished = [(); 3].map(|()| Unfinished::default());
        let mut home = Home::default();
        home.keep(1, TO, Batch::new());
        home.keep(2, TO, Batch::new());
        // The third worker has packets that are not in a ring yet. The counter of this worker itself does
        // not matter.
        unfinished[0].set(true);
        unfinished[2].set(true);
        home.look(0, &unfinished);
        assert!(home.has_waiting() && !home.has_ready());
        home.keep(1, TO, Batch::new());
        unfinished[2].set(false);
        unfinished[2].set(true);
        home.look(0, &unfinished);
        assert!(home.has_ready() && home.has_waiting(), "the next period is for the third batch");
        assert_eq!(ready(&mut home), [1, 2]);
        home.look(0, &unfinished);
        assert!(home.has_waiting() && ready(&mut home).is_empty());
        unfinished[2].set(false);
        home.look(0, &unfinished);
        assert_eq!(ready(&mut home), [1]);
        assert!(!home.has_waiting());
    }
}
