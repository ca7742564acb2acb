//! A token bucket that is exact, in integers.

use element::Timestamp;

/// The units of `level` in one token: a token is as many units as a second has nanoseconds.
const TOKEN: u128 = 1_000_000_000;

/// Tokens that arrive at a rate, up to a capacity.
pub(crate) struct Bucket {
    rate: u64,
    capacity: u64,
    level: u128,
    filled_at: Option<Timestamp>,
}

impl Bucket {
    /// Returns a bucket with `tokens` in it.
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
        // A level is at most 2^64 tokens of 2^30 units; dividing first keeps the product in range.
        self.level = (self.level / before).saturating_mul(u128::from(capacity));
        (self.rate, self.capacity) = (rate, capacity);
    }

    /// Adds the tokens that have arrived since the last call, and returns the number of whole tokens.
    pub(crate) fn fill(&mut self, now: Timestamp) -> u64 {
        let passed = (now - *self.filled_at.get_or_insert(now)).0.max(0) as u128;
        let capacity = u128::from(self.capacity) * TOKEN;
        self.level = (self.level + passed * u128::from(self.rate)).min(capacity);
        self.filled_at = Some(now);
        self.tokens()
    }

    /// Returns the number of whole tokens.
    pub(crate) fn tokens(&self) -> u64 {
        (self.level / TOKEN) as u64
    }

    /// Removes `n` tokens, or all if there are fewer.
    pub(crate) fn take(&mut self, n: u64) {
        self.level = self.level.saturating_sub(u128::from(n) * TOKEN);
    }

    /// Returns the time at which there will be `n` tokens; `None` if the rate is zero or `n` exceeds the
    /// capacity.
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
        /// A bucket never gives more than its capacity plus the tokens that arrived, regardless of the calls.
        /// The tokens that it predicts for a time are there at that time and not before.
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
