//! The lateness of sleeps: the time by which a worker wakes up later than it asked for. A worker that waits
//! for a timer ends its sleep earlier by this time.

/// An estimate of the lateness of sleeps, in nanoseconds, such that most sleeps end no later than this.
pub(crate) struct Lateness(i64);

impl Default for Lateness {
    /// Returns the timer slack that Linux gives ordinary threads, 50 us.
    fn default() -> Self {
        Lateness(50_000)
    }
}

impl Lateness {
    /// The largest lateness that counts for one sleep, in nanoseconds. A larger lateness means that another
    /// thread had the core.
    const MOST: i64 = 1_000_000;

    /// Returns the lateness in nanoseconds.
    pub(crate) fn nanoseconds(&self) -> i64 {
        self.0
    }

    /// Notes that a sleep has ended `late` nanoseconds late. If `late` is above the estimate, the estimate
    /// rises by a quarter of the difference, otherwise it falls by a sixteenth. So it settles near the
    /// largest measured values (an expectile). If the values above and below the estimate differ from it by
    /// the same amount, one sleep of five is later.
    pub(crate) fn note(&mut self, late: i64) {
        let more = late.clamp(0, Self::MOST) - self.0;
        self.0 += if more > 0 { more / 4 } else { more / 16 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_settles_where_one_sleep_of_five_is_later() {
        // Of five sleeps, one ends 100 us late, and the others end 0, 10, 20 and 30 us late.
        let mut lateness = Lateness::default();
        let (mut later, mut sum) = (0, 0);
        for round in 0..1000 {
            let late = [0, 10_000, 20_000, 30_000, 100_000][round % 5];
            later += usize::from(late > lateness.0);
            sum += lateness.0;
            lateness.note(late);
        }
        assert!((190..210).contains(&later) && (30_000..60_000).contains(&(sum / 1000)), "{later} {sum}");
        let before = lateness.0;
        lateness.note(i64::MAX);
        assert!(lateness.0 - before <= Lateness::MOST / 4);
        (0..200).for_each(|_| lateness.note(-5));
        assert_eq!(lateness.0 / 16, 0);
    }
}
