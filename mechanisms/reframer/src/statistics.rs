//! Counts that Reframer, SFMaker and their handlers report.

use element::Timestamp;
use element::histogram::Log2Histogram;

use crate::delays::MAX_RULES;
use crate::lists::{DELAY_CLASSES, MAX_CLASSES, ReleaseReason};

/// The numbers of packets and of runs, for the spatial locality factor (SLF): packets divided by runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCounts {
    packets: u64,
    runs: u64,
    last: u64,
}

/// The value of `last` before the first packet, so that this packet begins a run.
const NO_FLOW: u64 = u64::MAX;

impl Default for RunCounts {
    fn default() -> Self {
        RunCounts { packets: 0, runs: 0, last: NO_FLOW }
    }
}

impl RunCounts {
    /// Counts `n` consecutive packets of one flow. `flow` identifies the flow (its hash): any number except
    /// `u64::MAX`.
    #[inline]
    pub fn see(&mut self, flow: u64, n: u64) {
        self.packets += n;
        self.runs += u64::from(self.last != flow);
        self.last = flow;
    }

    /// Returns the SLF, packets divided by runs; 0 before the first packet.
    pub fn factor(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.packets as f64 / self.runs as f64 }
    }
}

/// The counts of the bursts of one class of traffic: those of a rule of DELAYS, or all others.
#[derive(Clone, Debug)]
pub struct ClassCounts {
    /// The number of bursts of `n` packets, at index `n`, for bursts of fewer than [`LONG`] packets.
    sizes: [u64; LONG],
    /// The histogram of the numbers of packets in longer bursts.
    long: Log2Histogram,
    /// The histogram of the times for which the first packets of bursts were held, if there are rules.
    pub times: Log2Histogram,
}

/// The number of packets from which on bursts are so rare that a histogram counts them, instead of one count
/// per number of packets.
const LONG: usize = 128;

impl Default for ClassCounts {
    fn default() -> ClassCounts {
        ClassCounts { sizes: [0; LONG], long: Log2Histogram::default(), times: Log2Histogram::default() }
    }
}

impl ClassCounts {
    #[inline(always)]
    fn see(&mut self, length: u32) {
        match self.sizes.get_mut(length as usize) {
            Some(count) => *count += 1,
            None => self.see_long(length),
        }
    }

    #[cold]
    fn see_long(&mut self, length: u32) {
        self.long.add(length.into(), 1);
    }

    /// Returns the histogram of the numbers of packets in bursts.
    pub fn sizes(&self) -> Log2Histogram {
        let mut sizes = self.long.clone();
        self.sizes.iter().enumerate().for_each(|(length, &count)| sizes.add(length as u64, count));
        sizes
    }
}

/// The number of classes of traffic: index 0 is the class of packets that no rule of DELAYS matches, and each
/// rule has a class after it.
const CLASSES: usize = MAX_RULES + 1;

const _: () = assert!(DELAY_CLASSES + MAX_RULES <= MAX_CLASSES);

/// A burst that an element has held when it is replaced, and that the new instance of the element counts.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// The number of its packets.
    pub length: u32,
    /// The delay class in which it waited.
    pub delay_class: u8,
    /// The times at which the first and the last packet of the burst arrived.
    pub came: [Timestamp; 2],
}

/// The counts of one element.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The SLF counts of the packets in order of arrival.
    pub locality_in: RunCounts,
    /// The SLF counts of the packets in the order in which they leave.
    pub locality_out: RunCounts,
    /// The histogram of the times for which packets were held.
    pub holds: Log2Histogram,
    /// The number of bursts that left, by `ReleaseReason as usize`.
    pub releases: [u64; ReleaseReason::ALL.len()],
    /// The counts of the bursts that left, by class of traffic.
    pub classes: [ClassCounts; CLASSES],
    /// The number of packets in all bursts that left, including dropped ACKs.
    pub released: u64,
    /// The sum over all bursts of the time, in nanoseconds, that a burst waited after its last packet had
    /// arrived.
    pub waited: u64,
    /// The number of packets that were forwarded without being held, without those of pauses.
    pub passed: u64,
    /// The number of packets that were forwarded in pauses.
    pub paused: u64,
    /// The number of packets for whose flow there was no room, or that exceeded MAX_HELD.
    pub overflows: u64,
    /// The number of bursts in which the order of segments was changed.
    pub reordered: u64,
    /// The number of segments that arrived after a segment of their burst that was sent later.
    pub mended: u64,
    /// The number of ACKs that were dropped in favour of later ACKs.
    pub coalesced: u64,
    /// The number of bypassing packets whose flow held no packets, and that left as a burst of one packet
    /// because COMPRESS has to see them. Without COMPRESS, such packets count in `passed`.
    pub at_once: u64,
    /// The numbers of packets and bursts that `at_once` does not count, but that did not wait either, because
    /// the delay of their class is 0.
    pub undelayed: (u64, u64),
    /// The number of rounds (calls that send what is due) in which a burst left that `at_once` does not
    /// count: the *superframes* of FastClick.
    pub rounds: u64,
}

impl Statistics {
    /// Counts a burst of `length` packets that leaves; `waited` is the time since its last packet arrived.
    #[inline]
    pub fn release(&mut self, reason: ReleaseReason, length: u32, waited: Timestamp) {
        self.releases[reason as usize] += 1;
        self.released += u64::from(length);
        self.at_once += u64::from(is_at_once(reason, length));
        // The time is 0 for full bursts and bursts that bypass, because they leave when their last packet
        // arrives.
        self.waited = self.waited.wrapping_add(waited.0 as u64);
    }

    /// Counts a burst for the class of traffic that all packets belong to without DELAYS.
    #[inline(always)]
    pub fn see_burst(&mut self, length: u32) {
        self.classes[0].see(length);
    }

    /// Counts a burst for its class of traffic, if there are rules. Its first packet has waited for `waited`.
    #[inline(never)]
    pub fn see_class(&mut self, delay_class: u8, length: u32, waited: Timestamp) {
        let class = (usize::from(delay_class) + 1).saturating_sub(DELAY_CLASSES);
        if let Some(counts) = self.classes.get_mut(class) {
            counts.see(length);
            counts.times.see(waited);
        }
    }

    /// Leaves a burst of `length` packets, which [`release`](Self::release) has counted, out of the sample of
    /// MIN_BURST, because its class has no delay.
    pub fn leave_out(&mut self, reason: ReleaseReason, length: u32) {
        if !is_at_once(reason, length) {
            self.undelayed.0 += u64::from(length);
            self.undelayed.1 += 1;
        }
    }

    /// Returns lines with a class of traffic and a line of its histogram: `rest`, or the number of a rule.
    pub fn show_classes(&self, lines: impl Fn(&ClassCounts) -> String) -> String {
        let mut shown = String::new();
        for (class, counts) in self.classes.iter().enumerate() {
            let name = if class == 0 { "rest".into() } else { class.to_string() };
            lines(counts).lines().for_each(|line| shown.extend([&name, " ", line, "\n"]));
        }
        shown
    }

    /// Returns the number of all bursts that left, for all reasons.
    pub fn bursts(&self) -> u64 {
        self.releases.iter().sum()
    }

    /// Returns the numbers of packets and bursts that left, without bypassing packets that left at once.
    pub fn waiting(&self) -> (u64, u64) {
        (self.released - self.at_once, self.bursts() - self.at_once)
    }

    /// Returns the numbers of packets and bursts that left and count for MIN_BURST: those of
    /// [`waiting`](Self::waiting) whose class has a delay.
    #[inline]
    pub fn sampled(&self) -> (u64, u64) {
        let (packets, bursts) = self.waiting();
        (packets - self.undelayed.0, bursts - self.undelayed.1)
    }
}

/// True if a burst is a bypassing packet whose flow held no packets.
#[inline(always)]
fn is_at_once(reason: ReleaseReason, length: u32) -> bool {
    reason == ReleaseReason::Bypass && length == 1
}

/// Returns `sum / count`; 0 if `count` is 0.
pub fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted() {
        let mut locality = RunCounts::default();
        assert_eq!(locality.factor(), 0.0);
        for flow in [1, 1, 2, 1, 1, 1] {
            locality.see(flow, 1);
        }
        assert_eq!(locality.factor(), 2.0);
        locality.see(1, 3);
        assert_eq!(locality.factor(), 3.0);
    }
}
