//! Counts that the handlers of Juggler report.

use element::Timestamp;
use element::histogram::Log2Histogram;

use crate::flows::{EvictionList, FlushReason};
use crate::queue::SegmentRun;

/// The counts of one instance of Juggler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// The number of TCP segments that arrived (index 0), and the number of packets made of them that left
    /// (index 1). With UDP true, both include datagrams.
    pub(crate) segments: [u64; 2],
    /// The number of segments in the packets that left: the numerator of the handler `merged`.
    pub(crate) released: u64,
    /// The number of other packets, which were forwarded at once: neither complete TCP segments nor, with
    /// UDP true, complete datagrams.
    pub(crate) passed: u64,
    /// The number of segments with a wrong checksum.
    pub(crate) damaged: u64,
    /// The number of packets that left, by class of the number of their segments: packets in class `c` have
    /// at least 2^(c-1) and fewer than 2^c segments; the last class has no upper bound.
    sizes: [u64; 17],
    /// The number of flushed runs and of segments forwarded at once, by `FlushReason as usize`.
    pub(crate) flushes: [u64; FlushReason::ALL.len()],
    /// The histogram of the times for which segments were held, counted from the first arrival in their run.
    pub(crate) holds: Log2Histogram,
    /// The histograms of the lengths of the eviction lists, in flows, by `EvictionList as usize`. The lengths
    /// are taken after each batch, timer and flush. The length for `Active` includes the flows in `Gap`.
    pub(crate) lengths: [Log2Histogram; EvictionList::ALL.len()],
}

impl Statistics {
    /// Counts `segments` segments that are forwarded at once, each as one packet.
    #[inline]
    pub(crate) fn pass(&mut self, reason: FlushReason, segments: u64) {
        self.flushes[reason as usize] += segments;
        self.segments[1] += segments;
        self.released += segments;
        self.sizes[1] += segments;
        self.holds.add(0, segments);
    }

    /// Counts a run that leaves at `now` as `packets` packets: 1 if it was merged, otherwise one per
    /// segment.
    #[inline]
    pub(crate) fn release(&mut self, run: &SegmentRun, reason: FlushReason, packets: u64, now: Timestamp) {
        let segments = run.chain.packets();
        self.flushes[reason as usize] += 1;
        self.segments[1] += packets;
        self.released += segments as u64;
        self.holds.add((now - run.since).0 as u64, segments as u64);
        let each = segments as u64 / packets.max(1);
        self.sizes[(64 - each.leading_zeros() as usize).min(16)] += packets;
    }

    /// Returns one line per class of packet sizes that occurred: its lowest number of segments, and the
    /// number of packets.
    pub(crate) fn show_sizes(&self) -> String {
        let classes = self.sizes.iter().enumerate().skip(1).filter(|(_, count)| **count > 0);
        classes.map(|(class, count)| format!(">={} {count}\n", 1 << (class - 1))).collect()
    }
}
