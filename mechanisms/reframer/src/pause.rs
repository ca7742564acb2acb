//! The pauses of a Reframer whose bursts have hardly more than one packet, so that holding costs more than it
//! saves.

use crate::statistics::Statistics;

/// The number of bursts after which the element decides whether it pauses. To hold packets costs more than to
/// let them pass, so the sample is short.
const SAMPLE: u64 = 1024;
/// The number of packets that pass in a pause. If each burst has one packet, one packet in 65 belongs to a
/// sample.
const PAUSE: u64 = 64 * SAMPLE;

/// The pause of one element, and the bursts since the last decision.
#[derive(Debug, Default)]
pub struct Pause {
    /// The number of packets that still pass in this pause; 0 while the element holds packets.
    left: u64,
    /// The numbers of packets and bursts that had left when the sample began, without those that do not count
    /// ([`Statistics::sampled`]).
    start: (u64, u64),
}

impl Pause {
    /// True if the element pauses, so that a batch of `length` packets passes. Counts the packets.
    #[inline]
    pub fn passes(&mut self, length: usize) -> bool {
        let is_paused = self.left > 0;
        self.left = self.left.saturating_sub(length as u64);
        is_paused
    }

    /// True if a pause begins: the sample is complete, and its bursts have fewer than `least` packets on
    /// average.
    #[inline]
    pub fn begins(&mut self, statistics: &Statistics, least: f64) -> bool {
        let (packets, bursts) = statistics.sampled();
        let count = bursts.wrapping_sub(self.start.1);
        if count < SAMPLE {
            return false;
        }
        let mean = packets.wrapping_sub(self.start.0) as f64 / count as f64;
        self.begin_sample(statistics);
        let begins = mean < least;
        self.left = if begins { PAUSE } else { 0 };
        begins
    }

    /// Begins a sample: only bursts that leave from now on count in it. `statistics` has the counts of all
    /// bursts that have left.
    #[inline]
    pub fn begin_sample(&mut self, statistics: &Statistics) {
        self.start = statistics.sampled();
    }

    /// Ends the pause, and begins a sample.
    pub fn restart(&mut self, statistics: &Statistics) {
        self.left = 0;
        self.begin_sample(statistics);
    }
}
