//! The number of flows with a packet in the same window of 150 microseconds (Sprayer, figure 2).

use crate::flows::{entry, prefetch};
use crate::histogram::{Distribution, Histogram};

/// The length in nanoseconds of a window in which flows are counted: the time that a packet may spend in a
/// middlebox.
pub const WINDOW_NS: i64 = 150_000;

/// Counts the flows that have a packet in each window. Windows follow each other without gap or overlap;
/// the first starts at the first packet of any kind. Windows without a packet of a counted flow are left
/// out.
///
/// A packet with an earlier time than the open window counts in the open window.
#[derive(Default)]
pub struct Concurrency {
    start: Option<i64>,
    /// The index of the open window, counted from the window that starts at `start`.
    window: i64,
    /// The number of windows opened so far, which identifies the open window in `seen`.
    opened: u64,
    flows: u64,
    /// A table by flow: the value of `opened` when the flow was last counted. A flow whose value differs
    /// from `opened` has not been counted in the open window.
    seen: Vec<u64>,
    closed: Histogram,
}

impl Concurrency {
    /// Closes the open window; the next packet starts the first window of another capture, whose time may
    /// be earlier.
    pub fn restart(&mut self) {
        self.close();
        (self.start, self.window) = (None, i64::MIN);
    }

    /// Lets the first window start at `time`, in nanoseconds, unless it has started. Called for each
    /// packet, including packets that are not counted.
    #[inline]
    pub fn start(&mut self, time: i64) {
        self.start.get_or_insert(time);
    }

    /// Prefetches the state of flow number `flow`, whose packet will be passed to [`take`](Self::take)
    /// soon.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        prefetch(&self.seen, flow);
    }

    /// Adds a packet of flow number `flow` that arrived at `time`, in nanoseconds. Opens the packet's
    /// window if it is later than the open one.
    #[inline]
    pub fn take(&mut self, flow: u32, time: i64) {
        let start = *self.start.get_or_insert(time);
        let window = time.saturating_sub(start).div_euclid(WINDOW_NS);
        if self.opened == 0 || window > self.window {
            self.close();
            self.window = window;
            self.opened += 1;
        }
        let seen = entry(&mut self.seen, flow);
        self.flows += u64::from(*seen != self.opened);
        *seen = self.opened;
    }

    fn close(&mut self) {
        if self.flows > 0 {
            self.closed.add(self.flows);
        }
        self.flows = 0;
    }

    /// Returns the distribution of the number of flows per window.
    pub fn finish(mut self) -> Distribution {
        self.close();
        self.closed.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capture_has_its_own_clock() {
        let mut concurrency = Concurrency::default();
        let second = 1_000_000_000;
        // Two flows in each of two windows, in both captures. The second capture is older: without a
        // restart, its flows would count in the last window of the first capture.
        for start in [9 * second, second] {
            concurrency.restart();
            concurrency.start(start);
            for flow in 0..4 {
                concurrency.take(flow, start + i64::from(flow / 2) * WINDOW_NS);
            }
        }
        let windows = concurrency.finish();
        assert_eq!((windows.count, windows.min, windows.max), (4, 2, 2));
    }
}
