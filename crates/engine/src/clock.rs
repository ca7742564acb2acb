//! The kinds of time that a run can follow, and the machine's clock, read from the processor's time stamp
//! counter.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use element::Timestamp;

/// The source of time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The machine's clock.
    Real,
    /// The time stamps of the captures' packets, and the times of timers between packets. Without captures,
    /// time jumps from timer to timer.
    Trace,
    /// A clock that starts at `start`, and advances by `tick` each time the driver reads it. When no work is
    /// left, it jumps to the next timer. (This is Click's `--simtime`.)
    Simulated {
        /// The time at which the clock starts.
        start: Timestamp,
        /// The time by which each reading advances the clock.
        tick: Timestamp,
    },
}

/// The machine's clock, read from the processor's time stamp counter. A reading without a system call takes
/// about a third of the time of `clock_gettime`; the hot loop reads the clock after each task.
pub(crate) struct RealClock {
    start: Instant,
    wall: i64,
    /// The values of the time stamp counter and of the time, in nanoseconds since 1970, from which readings
    /// compute the time: those of the last comparison with the system's clock that measured the rate or found
    /// that the counter had gone back, or those of the start.
    anchor: (u64, i64),
    /// The nanoseconds per count of the time stamp counter, in units of 2^-32. Zero until they have been
    /// measured.
    scale: u64,
    /// The value of the time stamp counter from which on a reading compares the counter with the system's
    /// clock again. With 0, every reading compares.
    compare_at: u64,
    last: i64,
}

/// The time after the start before which the rate of the time stamp counter is not measured. Until it is
/// measured, readings use the system's clock.
const CALIBRATION: Duration = Duration::from_millis(50);
/// The time between two comparisons of the time stamp counter with the system's clock, once the rate is
/// measured.
const COMPARISON: Duration = Duration::from_millis(500);

impl RealClock {
    pub(crate) fn new() -> RealClock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64;
        let start = Instant::now();
        RealClock { start, wall, anchor: (cycles(), wall), scale: 0, compare_at: 0, last: wall }
    }

    /// Returns the nanoseconds since 1970: the system's time when this clock was made, and the time passed
    /// since then. The result is never less than the previous result.
    #[inline]
    pub(crate) fn now(&mut self) -> Timestamp {
        let counter = cycles();
        // The second condition detects a time stamp counter that has gone back, for example in a virtual
        // machine that has moved to another host.
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
        // Until the rate of the time stamp counter is measured, every reading of the clock calls this
        // function, which reads the system's clock. On a machine without a counter, the rate is never
        // measured.
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

/// Returns the processor's time stamp counter, or zero on processors other than x86-64 and under Miri.
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
        // Another process may run between two readings, so the clocks may differ by up to a second.
        let (before, now, after) = (system(), clock.now().0, system());
        assert!((before - 1_000_000_000..after + 1_000_000_000).contains(&now), "{before} {now} {after}");
    }
}
