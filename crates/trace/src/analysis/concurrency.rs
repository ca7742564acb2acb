//! How many flows are active at a time (Sprayer, figure 2).

use crate::histogram::{Distribution, Histogram};

/// Length of a window: the time that a packet may be under way in a middlebox.
pub const WINDOW_NS: i64 = 150_000;

/// Flows in tumbling windows, the first of which starts at the first packet. Windows without a packet that counts are
/// left out.
///
/// Time does not go back here: a packet with an earlier stamp belongs to the window that is open.
#[derive(Default)]
pub struct Concurrency {
    start: Option<i64>,
    /// The open window's number.
    window: i64,
    /// How many windows were opened; 0 before the first.
    opened: u64,
    flows: u64,
    /// For each flow the window, as counted by `opened`, that it was seen in last.
    seen: Vec<u64>,
    closed: Histogram,
}

impl Concurrency {
    /// What follows has a clock of its own, that of an earlier capture.
    pub fn restart(&mut self) {
        self.close();
        (self.start, self.window) = (None, i64::MIN);
    }

    /// The clock starts with the first packet, whatever that is.
    #[inline]
    pub fn start(&mut self, time: i64) {
        self.start.get_or_insert(time);
    }

    /// Asks for what is known of a flow.
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

    /// Flows per window.
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
        // The other capture is older; without a clock of its own it would be one window with four flows.
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
