//! What the element knows about its own work.

use element::Timestamp;
use element::histogram::Histogram;

use crate::lists::Reason;

/// Packets and runs of packets of one flow: their quotient is the spatial locality factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locality {
    packets: u64,
    runs: u64,
    last: u64,
}

/// The name of no flow.
const NO_FLOW: u64 = u64::MAX;

impl Default for Locality {
    fn default() -> Self {
        Locality { packets: 0, runs: 0, last: NO_FLOW }
    }
}

impl Locality {
    /// Counts `n` packets of a flow, whose name is any number but the largest.
    #[inline]
    pub fn see(&mut self, flow: u64, n: u64) {
        self.packets += n;
        self.runs += u64::from(self.last != flow);
        self.last = flow;
    }

    /// Packets per run; 0 before the first.
    pub fn factor(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.packets as f64 / self.runs as f64 }
    }
}

/// Counts of one element.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Runs among the packets that come.
    pub locality_in: Locality,
    /// Runs among those that leave.
    pub locality_out: Locality,
    /// How long packets were held.
    pub holds: Histogram,
    /// Bursts by the reason for which they left.
    pub releases: [u64; Reason::ALL.len()],
    /// Packets in these bursts.
    pub released: u64,
    /// Nanoseconds that bursts waited behind their last packet.
    pub waited: u64,
    /// Packets that passed without being held.
    pub passed: u64,
    /// ... because there was no room for their flow or for themselves.
    pub overflows: u64,
    /// Bursts in which segments were put in order.
    pub reordered: u64,
    /// Segments in them that came behind one that belongs behind them.
    pub mended: u64,
    /// ACKs merged into later ones.
    pub coalesced: u64,
    /// Packets among them that did not wait: each is a burst of its own.
    pub at_once: u64,
    /// Rounds in which bursts left that had waited: FastClick's *superframes*.
    pub rounds: u64,
}

impl Statistics {
    /// Counts a burst that leaves.
    #[inline]
    pub fn release(&mut self, reason: Reason, packets: u32, waited: Timestamp) {
        self.releases[reason as usize] += 1;
        self.released += u64::from(packets);
        self.at_once += u64::from(reason == Reason::Bypass && packets == 1);
        // What bypasses and full bursts wait behind their last packet is nothing.
        self.waited = self.waited.wrapping_add(waited.0 as u64);
    }

    /// Bursts in all.
    pub fn bursts(&self) -> u64 {
        self.releases.iter().sum()
    }

    /// Packets that waited, and their bursts.
    pub fn waiting(&self) -> (u64, u64) {
        (self.released - self.at_once, self.bursts() - self.at_once)
    }
}

/// A quotient, 0 where there is nothing to divide by.
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
