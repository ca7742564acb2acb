//! What the element knows about its own work.

use element::Timestamp;
use element::histogram::Histogram;

use crate::flows::{List, Reason};
use crate::queue::Run;

/// Counts of one element.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// Segments and datagrams of flows that came, and packets that left of them.
    pub(crate) segments: [u64; 2],
    /// Segments in the packets that left.
    pub(crate) released: u64,
    /// Packets that belong to no flow that is looked after.
    pub(crate) passed: u64,
    /// Segments with a wrong checksum.
    pub(crate) damaged: u64,
    /// Packets that left, by the segments in them.
    sizes: [u64; 17],
    /// Runs by the reason for which they left.
    pub(crate) flushes: [u64; Reason::ALL.len()],
    /// How long segments waited.
    pub(crate) holds: Histogram,
    /// How long each list was at the end of batches.
    pub(crate) lengths: [Histogram; List::ALL.len()],
}

impl Statistics {
    /// Counts segments that go on at once.
    #[inline]
    pub(crate) fn pass(&mut self, reason: Reason, segments: u64) {
        self.flushes[reason as usize] += segments;
        self.segments[1] += segments;
        self.released += segments;
        self.sizes[1] += segments;
        self.holds.add(0, segments);
    }

    /// Counts what leaves together, as so many packets.
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

    /// Lines with the least number of segments of a class, and the packets in it.
    pub(crate) fn show_sizes(&self) -> String {
        let classes = self.sizes.iter().enumerate().skip(1).filter(|(_, count)| **count > 0);
        classes.map(|(class, count)| format!(">={} {count}\n", 1 << (class - 1))).collect()
    }
}
