//! The number of flows that are active at a time (Sprayer, figure 2).

use crate::histogram::{Distribution, Histogram};

/// The length of a window: the time that a packet may spend in a middlebox.
pub const WINDOW_NS: i64 = 150_000;

/// The number of flows in tumbling windows. The first window starts at the first packet. Windows without a
/// counted packet are left out.
///
/// Time does not go back here: a packet with an earlier time stamp belongs to the open window.
#[derive(Default)]
pub struct Concurrency {
    start: Option<i64>,
    /// The number of the open window.
    window: i64,
    /// The number of windows opened so far.
    opened: u64,
    flows: u64,
    /// The number (as in `opened`) of the window in which each flow was last seen.
    seen: Vec<u64>,
    closed: Histogram,
}

impl Concurrency {
    /// Restarts the clock; a capture with an earlier time follows.
    pub fn restart(&mut self) {
        self.close();
        (self.start, self.window) = (None, i64::MIN);
    }

    /// Starts the clock at the first packet, of whatever kind.
    #[inline]
    pub fn start(&mut self, time: i64) {
        self.start.get_or_insert(time);
    }

    /// Prefetches the state of a flow.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        super::prefetch(&self.seen, flow);
    }

    /// Adds a packet of a flow.
    #[inline]
    pub fn take(&mut self, flow: u32, time: i64) {
        let start = *self.start.get_or_insert(time);
        let window = time.saturating_sub(start).div_euclid(WINDOW_NS);
        if self.opened == 0 || window > self.window {
            self.close();
            self.window = window;
            self.opened += 1;
        }
        let seen = super::entry(&mut self.seen, flow);
        self.flows += u64::from(*seen != self.opened);
        *seen = self.opened;
    }

    fn close(&mut self) {
        if self.flows > 0 {
            self.closed.add(self.flows);
        }
        self.flows = 0;
    }

    /// Returns the distribution of flows per window.
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
        // The other capture is older; without a separate clock it would be a single window with four flows.
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
