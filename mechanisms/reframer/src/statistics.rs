//! The statistics of the element.

use element::Timestamp;
use element::histogram::Histogram;

use crate::lists::Reason;

/// The numbers of packets and of runs of packets of one flow. Their quotient is the spatial locality
/// factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locality {
    packets: u64,
    runs: u64,
    last: u64,
}

/// The value of `last` before the first packet.
const NO_FLOW: u64 = u64::MAX;

impl Default for Locality {
    fn default() -> Self {
        Locality { packets: 0, runs: 0, last: NO_FLOW }
    }
}

impl Locality {
    /// Counts `n` packets of a flow. `flow` is any number except `u64::MAX`.
    #[inline]
    pub fn see(&mut self, flow: u64, n: u64) {
        self.packets += n;
        self.runs += u64::from(self.last != flow);
        self.last = flow;
    }

    /// Returns the number of packets per run; 0 before the first packet.
    pub fn factor(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.packets as f64 / self.runs as f64 }
    }
}

/// The counts of one element.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Runs of the packets that arrive.
    pub locality_in: Locality,
    /// Runs of the packets that leave.
    pub locality_out: Locality,
    /// The times for which packets were held.
    pub holds: Histogram,
    /// The number of bursts that left, by reason.
    pub releases: [u64; Reason::ALL.len()],
    /// The number of packets in these bursts.
    pub released: u64,
    /// The sum of the times, in nanoseconds, that bursts waited after their last packet had arrived.
    pub waited: u64,
    /// The number of packets that passed without being held.
    pub passed: u64,
    /// The number of packets for which there was no room in the flow table or among the held packets.
    pub overflows: u64,
    /// The number of bursts in which segments were sorted.
    pub reordered: u64,
    /// The number of segments that arrived after a later segment of their burst.
    pub mended: u64,
    /// The number of ACKs that were merged into later ACKs.
    pub coalesced: u64,
    /// The number of packets that left at once as a burst of their own.
    pub at_once: u64,
    /// The number of rounds in which bursts left that had waited: the *superframes* of FastClick.
    pub rounds: u64,
}

impl Statistics {
    /// Counts a burst that leaves.
    #[inline]
    pub fn release(&mut self, reason: Reason, packets: u32, waited: Timestamp) {
        self.releases[reason as usize] += 1;
        self.released += u64::from(packets);
        self.at_once += u64::from(reason == Reason::Bypass && packets == 1);
        // Full bursts and bursts that bypass leave with their last packet and add nothing.
        self.waited = self.waited.wrapping_add(waited.0 as u64);
    }

    /// Returns the number of all bursts.
    pub fn bursts(&self) -> u64 {
        self.releases.iter().sum()
    }

    /// Returns the number of packets that waited, and the number of their bursts.
    pub fn waiting(&self) -> (u64, u64) {
        (self.released - self.at_once, self.bursts() - self.at_once)
    }
}

/// Returns the quotient; 0 if `count` is 0.
pub fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted() {
        let mut locality = Locality::default();
        assert_eq!(locality.factor(), 0.0);
        for flow in [1, 1, 2, 1, 1, 1] {
            locality.see(flow, 1);
        }
        assert_eq!(locality.factor(), 2.0);
        locality.see(1, 3);
        assert_eq!(locality.factor(), 3.0);
    }
}
