//! A token bucket in exact integer arithmetic: no fraction of a token is lost by rounding while tokens
//! arrive and are taken.

use element::Timestamp;

/// The number of units of `level` that are one token. With as many units as a second has nanoseconds, each
/// nanosecond adds exactly `rate` units.
const TOKEN: u128 = 1_000_000_000;

/// A token bucket: tokens arrive at `rate` per second until the bucket holds `capacity` tokens. The level
/// is counted in units of 1 / `TOKEN` of a token.
#[derive(Clone)]
pub(crate) struct Bucket {
    rate: u64,
    capacity: u64,
    level: u128,
    filled_at: Option<Timestamp>,
}

impl Bucket {
    /// Returns a bucket that holds `tokens` tokens, or `capacity` if that is less. Further tokens arrive
    /// from the first call of [`fill`](Self::fill) on, at `rate` per second.
    pub(crate) fn new(rate: u64, capacity: u64, tokens: u64) -> Bucket {
        Bucket { rate, capacity, level: u128::from(tokens.min(capacity)) * TOKEN, filled_at: None }
    }

    /// Returns the rate in tokens per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Sets rate and capacity; the bucket stays filled to the same fraction of its capacity.
    pub(crate) fn change(&mut self, rate: u64, capacity: u64) {
        let before = u128::from(self.capacity).max(1);
        // A level can be 2^64 tokens of almost 2^30 units each. Dividing before multiplying keeps the product
        // below 2^128.
        self.level = (self.level / before).saturating_mul(u128::from(capacity));
        (self.rate, self.capacity) = (rate, capacity);
    }

    /// Continues with the tokens of the bucket of the element that is replaced in a reload, up to the
    /// capacity of this bucket.
    pub(crate) fn go_on(&mut self, before: &Bucket) {
        self.level = before.level.min(u128::from(self.capacity) * TOKEN);
        self.filled_at = before.filled_at;
    }

    /// Adds the tokens that have arrived since the last call, up to the capacity. Returns the number of
    /// whole tokens in the bucket. If `now` is earlier than at the last call, no tokens are added.
    pub(crate) fn fill(&mut self, now: Timestamp) -> u64 {
        let passed = (now - *self.filled_at.get_or_insert(now)).0.max(0) as u128;
        let capacity = u128::from(self.capacity) * TOKEN;
        self.level = (self.level + passed * u128::from(self.rate)).min(capacity);
        self.filled_at = Some(now);
        self.tokens()
    }

    /// Returns the number of whole tokens in the bucket after the last call of [`fill`](Self::fill).
    pub(crate) fn tokens(&self) -> u64 {
        (self.level / TOKEN) as u64
    }

    /// Removes `n` tokens from the bucket, or all tokens if there are fewer than `n`.
    pub(crate) fn take(&mut self, n: u64) {
        self.level = self.level.saturating_sub(u128::from(n) * TOKEN);
    }

    /// Returns the time at which there will be `n` tokens, if no tokens are taken before; `None` if the
    /// rate is zero or `n` exceeds the capacity. `now` is the time of the last call of
    /// [`fill`](Self::fill).
    pub(crate) fn when(&self, n: u64, now: Timestamp) -> Option<Timestamp> {
        let missing = (u128::from(n) * TOKEN).saturating_sub(self.level);
        let wait = missing.div_ceil(u128::from(self.rate).max(1));
        let possible = self.rate > 0 && n <= self.capacity;
        possible.then(|| now + Timestamp(wait.min(i64::MAX as u128) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Takes all tokens after pauses of random lengths. In total, the bucket gives at most its capacity
        /// plus the tokens that arrived. The time that `when` predicts for a token is exact: the token is
        /// there at that time, but not a nanosecond earlier.
        #[test]
        fn gives_what_came_in(rate in 1u64..2_000_000, capacity in 1u64..100, steps in prop::collection::vec(0i64..50_000_000, 1..40)) {
            let mut bucket = Bucket::new(rate, capacity, capacity);
            let (mut now, mut given) = (Timestamp::from_secs(5), 0u128);
            let start = now;
            for step in steps {
                now = now + Timestamp(step);
                let tokens = bucket.fill(now);
                bucket.take(tokens);
                given += u128::from(tokens);
                let most = u128::from(capacity) + (now - start).0 as u128 * u128::from(rate) / 1_000_000_000;
                prop_assert!(given <= most, "{given} > {most}");
                let at = bucket.when(1, now).unwrap();
                prop_assert_eq!(bucket.fill(Timestamp(at.0 - 1)), 0);
                prop_assert!(bucket.fill(at) >= 1);
                now = at;
            }
        }
    }

    #[test]
    fn changing_the_rate_keeps_the_part_that_is_filled() {
        let mut bucket = Bucket::new(100, 10, 5);
        bucket.change(200, 20);
        assert_eq!((bucket.tokens(), bucket.rate()), (10, 200));
        assert_eq!(bucket.when(21, Timestamp::ZERO), None);
        assert_eq!(Bucket::new(0, 5, 0).when(1, Timestamp::ZERO), None);
    }
}
