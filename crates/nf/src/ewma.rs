//! Rates as in Click's counters and meters: exponentially weighted moving averages in fixed-point numbers.

use element::Timestamp;

use crate::fixed;

/// The length of an epoch in nanoseconds, unless `EPOCH` is given. The average is updated once per epoch.
const MILLISECOND: i64 = 1_000_000;
/// The number of epochs per second if an epoch is a millisecond long.
pub(crate) const FREQUENCY: u64 = 1_000;

/// The number of epochs in a row without events after which the average is zero, as in Click.
const FORGOTTEN: i64 = 100;

/// An exponentially weighted moving average of events (packets or bytes) per epoch of `EPOCH` nanoseconds,
/// with `SCALE` fractional bits. `SCALE` is as small as in Click, because handlers show the rounding. The
/// weight of a new epoch is 1 / 2^`STABILITY`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rate<const SCALE: u32, const STABILITY: u32 = 4, const EPOCH: i64 = MILLISECOND> {
    average: i64,
    /// The number of events in the current epoch, which are not yet part of the average.
    pending: u64,
    epoch: i64,
}

impl<const SCALE: u32, const STABILITY: u32, const EPOCH: i64> Rate<SCALE, STABILITY, EPOCH> {
    /// The number of epochs per second.
    const FREQUENCY: u64 = (1_000_000_000 / EPOCH) as u64;

    /// Counts `events` more events at `now`. If the current epoch has ended, first updates the average.
    #[inline]
    pub(crate) fn add(&mut self, events: u64, now: Timestamp) {
        let epoch = now.0.div_euclid(EPOCH);
        if epoch > self.epoch {
            self.advance(epoch);
        }
        self.pending += events;
    }

    /// Counts events whose individual times are not known, as if they had been evenly spread over the
    /// epochs from `first` to `last`.
    pub(crate) fn add_between(&mut self, events: u64, first: Timestamp, last: Timestamp) {
        let [from, to] = [first, last].map(|time| time.0.div_euclid(EPOCH));
        let epochs = to.saturating_sub(from).max(0) as u128 + 1;
        // Earlier epochs no longer have an influence on the average, so they are left out.
        let seen = epochs.min(16 << STABILITY);
        let by = |epoch: u128| (u128::from(events) * epoch / epochs) as u64;
        for epoch in epochs - seen..epochs {
            let time = Timestamp((from + epoch as i64).saturating_mul(EPOCH));
            self.add(by(epoch + 1) - by(epoch), time);
        }
    }

    /// Ends the current epoch and begins `epoch`: updates the average with the pending events, and with
    /// zero events for each epoch between the two.
    fn advance(&mut self, epoch: i64) {
        let before = std::mem::replace(&mut self.epoch, epoch);
        let events = std::mem::take(&mut self.pending);
        self.update(events);
        let idle = epoch - before - 1;
        if idle >= FORGOTTEN {
            // Because of rounding, the average would not reach zero.
            self.average = 0;
            return;
        }
        for _ in 0..idle {
            self.update(0);
        }
    }

    fn update(&mut self, events: u64) {
        let events = i64::try_from(events).unwrap_or(i64::MAX).min(i64::MAX >> (SCALE + 1));
        self.average += ((events << SCALE) - self.average + (1 << (STABILITY - 1))) >> STABILITY;
    }

    /// Returns the average number of events per epoch, with `SCALE` fractional bits.
    pub(crate) fn average(&self) -> u64 {
        self.average.max(0).cast_unsigned()
    }

    /// Returns the average number of events per second, rounded down.
    pub(crate) fn per_second(&self) -> u64 {
        self.average().saturating_mul(Self::FREQUENCY) >> SCALE
    }

    /// Returns the average number of events per second at `now`, times 2^`shift`, as a decimal text. The
    /// text has the fewest digits that identify the fixed-point number.
    pub(crate) fn show(&mut self, now: Timestamp, shift: u32) -> String {
        self.add(0, now);
        fixed::show(self.average().saturating_mul(Self::FREQUENCY), SCALE - shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_between_two_times_are_spread() {
        let ms = |ms| Timestamp(ms * MILLISECOND);
        for (events, last) in [(3, 1), (70_000, 700), (1_000_000, 100_000), (5, 1_000)] {
            let [mut one_by_one, mut at_once] = [Rate::<10>::default(); 2];
            for number in 0..=last {
                let by = |n: i64| events * n / (last + 1);
                one_by_one.add((by(number + 1) - by(number)).cast_unsigned(), ms(number));
            }
            at_once.add_between(events.cast_unsigned(), ms(0), ms(last));
            let [one_by_one, at_once] = [one_by_one, at_once].map(|mut rate| {
                rate.add(0, ms(last + 1));
                rate.average()
            });
            assert!(one_by_one.abs_diff(at_once) <= 1, "{events}: {one_by_one} and {at_once}");
        }
        let mut rate = Rate::<10>::default();
        rate.add_between(u64::MAX, Timestamp(i64::MIN), Timestamp(i64::MAX));
        rate.add_between(1, Timestamp(i64::MAX), Timestamp(i64::MIN));
    }

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::<10>::default();
        for ms in 1..500 {
            rate.add(100, Timestamp(ms * MILLISECOND));
        }
        let shown: f64 = rate.show(Timestamp(500 * MILLISECOND), 0).parse().unwrap();
        assert!((99_000.0..=101_000.0).contains(&shown), "{shown}");
        rate.add(0, Timestamp(2000 * MILLISECOND));
        assert_eq!(rate.average(), 0);
        // Where events come again and again, rounding leaves a remainder.
        rate.add(1_000, Timestamp(2001 * MILLISECOND));
        rate.add(0, Timestamp(2099 * MILLISECOND));
        assert!((1..1000).contains(&rate.average()));
    }
}
