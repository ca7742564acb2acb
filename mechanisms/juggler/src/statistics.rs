//! The statistics of the element.

use element::Timestamp;
use element::histogram::Histogram;

use crate::flows::{List, Reason};
use crate::queue::Run;

/// The counts of one element.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// The number of segments and datagrams of flows that arrived, and the number of packets of flows that
    /// left.
    pub(crate) segments: [u64; 2],
    /// The number of segments in the packets that left.
    pub(crate) released: u64,
    /// The number of packets that belong to no flow.
    pub(crate) passed: u64,
    /// The number of segments with a wrong checksum.
    pub(crate) damaged: u64,
    /// The number of packets that left, by the number of their segments.
    sizes: [u64; 17],
    /// The number of runs that left, by reason.
    pub(crate) flushes: [u64; Reason::ALL.len()],
    /// The times for which segments waited.
    pub(crate) holds: Histogram,
    /// The lengths of each list at the ends of batches.
    pub(crate) lengths: [Histogram; List::ALL.len()],
}

impl Statistics {
    /// Counts segments that are forwarded at once.
    #[inline]
    pub(crate) fn pass(&mut self, reason: Reason, segments: u64) {
        self.flushes[reason as usize] += segments;
        self.segments[1] += segments;
        self.released += segments;
        self.sizes[1] += segments;
        self.holds.add(0, segments);
    }

    /// Counts a run that leaves as `packets` packets.
    #[inline]
    pub(crate) fn release(&mut self, run: &Run, reason: Reason, packets: u64, now: Timestamp) {
        let segments = run.chain.packets();
        self.flushes[reason as usize] += 1;
        self.segments[1] += packets;
        self.released += segments as u64;
        self.holds.add((now - run.since).0 as u64, segments as u64);
        let each = segments as u64 / packets.max(1);
        self.sizes[(64 - each.leading_zeros() as usize).min(16)] += packets;
    }

    /// Returns lines with the lower bound of a class of numbers of segments, and the number of packets in
    /// the class.
    pub(crate) fn show_sizes(&self) -> String {
        let classes = self.sizes.iter().enumerate().skip(1).filter(|(_, count)| **count > 0);
        classes.map(|(class, count)| format!(">={} {count}\n", 1 << (class - 1))).collect()
    }
}
