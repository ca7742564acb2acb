//! The sources of time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use element::Timestamp;

/// The clock that drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The machine's clock.
    Real,
    /// The time stamps of captures; without captures, the times of timers.
    Trace,
    /// A clock that starts at a given time, moves a little with each look at it, and jumps to the next
    /// timer when no work is left (Click's `--simtime`).
    Simulated {
        /// The start time.
        start: Timestamp,
        /// The time that each look adds.
        tick: Timestamp,
    },
}

/// The machine's clock, read from the processor's time stamp counter. A look without a system call takes
/// about a third of the time of `clock_gettime`, and the hot loop looks once per batch.
pub(crate) struct RealClock {
    start: Instant,
    wall: i64,
    /// The counter at the last comparison with the system's clock, and the time of that clock then.
    anchor: (u64, i64),
    /// The nanoseconds per count, in units of 2^-32. Zero until the value is known.
    scale: u64,
    /// The counter at which to compare again.
    compare_at: u64,
    last: i64,
}

/// The time for which the system's clock is used until the counter is trusted.
const CALIBRATION: Duration = Duration::from_millis(50);
/// The period of later comparisons between the counter and the system's clock.
const COMPARISON: Duration = Duration::from_millis(500);

impl RealClock {
    pub(crate) fn new() -> RealClock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
        let start = Instant::now();
        RealClock { start, wall, anchor: (cycles(), wall), scale: 0, compare_at: 0, last: wall }
    }

    /// Returns the time since 1970, which never goes back.
    #[inline]
    pub(crate) fn now(&mut self) -> Timestamp {
        let counter = cycles();
        // Also catches a counter that goes back (a virtual machine that moved).
        if counter >= self.compare_at || counter < self.anchor.0 {
            return self.compare(counter);
        }
        let passed = ((counter - self.anchor.0) as u128 * u128::from(self.scale)) >> 32;
        self.last = self.last.max(self.anchor.1 + passed as i64);
        Timestamp(self.last)
    }

    #[cold]
    fn compare(&mut self, counter: u64) -> Timestamp {
        let elapsed = self.start.elapsed();
        let real = self.wall + elapsed.as_nanos() as i64;
        let counted = counter.saturating_sub(self.anchor.0);
        // Every look comes here until the counter is trusted, and for ever without a counter.
        let waited = real - self.anchor.1;
        if counter < self.anchor.0 {
            (self.anchor, self.compare_at) = ((counter, real), 0);
        } else if elapsed >= CALIBRATION && counted > 1_000 && waited > 0 {
            self.scale = (((waited as u128) << 32) / u128::from(counted)) as u64;
            self.anchor = (counter, real);
            let counts = (COMPARISON.as_nanos() << 32) / u128::from(self.scale.max(1));
            self.compare_at = counter.saturating_add(counts.min(u128::from(u64::MAX)) as u64);
        }
        self.last = self.last.max(real);
        Timestamp(self.last)
    }
}

/// Returns the processor's time stamp counter, or zero if there is none.
#[inline]
pub(crate) fn cycles() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction and user programs may use it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_clock_agrees_with_the_system_and_never_goes_back() {
        let mut clock = RealClock::new();
        let mut last = clock.now();
        let start = Instant::now();
        while start.elapsed() < CALIBRATION * 3 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let system = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        // Another process may run between two looks. A wrong scale would be off by far more than a second.
        let (before, now, after) = (system(), clock.now().0, system());
        assert!((before - 1_000_000_000..after + 1_000_000_000).contains(&now), "{before} {now} {after}");
    }
}
