//! Seeded hashes of keys, computed once per packet and passed to the tables.
//!
//! Each two words of a key are combined with secret words by exclusive or and multiplied to 128 bits; the
//! two halves of the product are combined by exclusive or. The processor can work on all pairs in parallel,
//! because they do not depend on each other. The sum of the results is multiplied and combined once more.
//!
//! A hash of a five-tuple takes 1.9 ns (`foldhash`: 1.4 to 1.6, but its results may change with the release
//! and the machine). Results of this module must never change, because balancers and sprayers derive values
//! from hashes that appear in the output of a run.

use crate::key::{Directed, Key, MAX_WORDS};

/// A hash function for keys, chosen by a seed. An attacker who does not know the seed cannot choose keys
/// that collide.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    secrets: [u64; MAX_WORDS + 1],
    last: u64,
}

/// Returns the hash function of seed 0, which an element has before its initialisation gives it the seed of
/// the run.
impl Default for KeyHasher {
    fn default() -> KeyHasher {
        KeyHasher::new(0)
    }
}

impl KeyHasher {
    /// Makes the hash function of `seed`. Workers whose hashes must agree need the same seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || split_mix(&mut state);
        // An odd factor makes the lower half of the product different for each sum.
        KeyHasher { secrets: std::array::from_fn(|_| next()), last: next() | 1 }
    }

    /// Returns the 32-bit hash of a key, for look-ups in tables and for packet metadata.
    #[inline]
    pub fn hash<K: Key>(&self, key: &K) -> u32 {
        self.finish(self.sum(key))
    }

    /// Returns a 32-bit hash that is equal for both directions of a flow: `symmetric(key) ==
    /// symmetric(key.reversed())`. It takes the time of two hashes.
    #[inline]
    pub fn symmetric<K: Directed>(&self, key: &K) -> u32 {
        self.finish(self.sum(key).wrapping_add(self.sum(&key.reversed())))
    }

    #[inline(always)]
    fn sum<K: Key>(&self, key: &K) -> u64 {
        debug_assert!(key.words().len() <= MAX_WORDS);
        let mut sum = 0u64;
        for (words, secrets) in key.words().chunks(2).zip(self.secrets.as_chunks::<2>().0) {
            let second = words.get(1).copied().unwrap_or(0);
            sum = sum.wrapping_add(fold(words[0] ^ secrets[0], second ^ secrets[1]));
        }
        sum
    }

    #[inline(always)]
    fn finish(&self, sum: u64) -> u32 {
        (fold(sum, self.last) >> 32) as u32
    }
}

/// Returns the next number of the pseudo-random sequence SplitMix64 (Steele, Lea, Flood, 2014) and advances
/// `state`, which is first the seed.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Multiplies two words, and combines the upper half of the product with its lower half by exclusive or.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use wire::FiveTuple;

    use super::*;
    use crate::key::{AddressKey, FiveTupleKey};

    fn key(client: u32, port: u16, server: u32) -> FiveTupleKey {
        let tuple = FiveTuple::v4((Ipv4Addr::from_bits(client), port), (Ipv4Addr::from_bits(server), 443), 6);
        FiveTupleKey::new(&tuple, 0)
    }

    /// Returns chi-squared of the numbers of hashes in `cells` cells, divided by the degrees of freedom:
    /// near 1 for a good hash function.
    fn unevenness(hashes: impl Iterator<Item = u32>, cells: usize) -> f64 {
        let mut counts = vec![0f64; cells];
        let mut all = 0.0;
        for hash in hashes {
            counts[hash as usize] += 1.0;
            all += 1.0;
        }
        let mean = all / cells as f64;
        counts.iter().map(|count| (count - mean).powi(2) / mean).sum::<f64>() / (cells - 1) as f64
    }

    #[test]
    fn neighbouring_keys_spread_over_buckets_and_tags() {
        type Make = fn(u32) -> FiveTupleKey;
        let kinds: [Make; 4] = [
            |n| key(0x0a00_0001, n as u16, 0x0a00_0002),
            |n| key(0x0a00_0000 + n, 1024, 0xc0a8_0001),
            |n| key(0x0a00_0000 + (n >> 8), n as u16 & 0xff, 0xc0a8_0001),
            |n| key(n << 16, 1024, !n),
        ];
        for seed in [0, 1, 0xdead_beef] {
            let hasher = KeyHasher::new(seed);
            for (kind, make) in kinds.into_iter().enumerate() {
                for shift in [24, 12, 0] {
                    let cell = |hash: u32| hash >> shift & 0xff;
                    let keys = || (0..1 << 16).map(make);
                    let one_way = unevenness(keys().map(|key| cell(hasher.hash(&key))), 256);
                    let both_ways = unevenness(keys().map(|key| cell(hasher.symmetric(&key))), 256);
                    let good = 0.6..1.5;
                    assert!(good.contains(&one_way), "seed {seed}, kind {kind}, shift {shift}: {one_way}");
                    assert!(
                        good.contains(&both_ways),
                        "seed {seed}, kind {kind}, shift {shift}: {both_ways}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_bit_of_a_key_flips_half_of_the_hash() {
        let hasher = KeyHasher::new(42);
        for bit in 0..320 {
            let mut flips = 0;
            for n in 0..256u64 {
                let words = std::array::from_fn(|word| (n + 1) * (word as u64 + 3));
                let mut other: [u64; 5] = words;
                other[bit / 64] ^= 1 << (bit % 64);
                let [a, b] = [words, other].map(|words| hasher.hash(&Words(words)));
                flips += (a ^ b).count_ones();
            }
            let mean = f64::from(flips) / 256.0;
            assert!((14.0..18.0).contains(&mean), "bit {bit} of the key flips {mean} of 32 bits");
        }
    }

    #[derive(Clone, Copy, PartialEq, Eq, zerocopy::FromZeros)]
    struct Words([u64; 5]);

    impl Key for Words {
        fn words(&self) -> &[u64] {
            &self.0
        }
    }

    #[test]
    fn the_same_in_every_release_and_on_every_machine() {
        // The expected values were computed by an independent program; the hashes may never change.
        let hasher = KeyHasher::new(1);
        assert_eq!(hasher.hash(&key(0x0a00_0001, 1024, 0x0a00_0002)), 3_055_521_091);
        assert_eq!(hasher.symmetric(&key(0x0a00_0001, 1024, 0x0a00_0002)), 4_280_504_330);
        assert_eq!(hasher.hash(&AddressKey::new(Ipv4Addr::LOCALHOST.into(), 7)), 931_504_917);
    }

    proptest! {
        #[test]
        fn symmetric_hashes_see_no_direction(seed: u64, client: u32, port: u16, server: u32) {
            let hasher = KeyHasher::new(seed);
            let there = key(client, port, server);
            prop_assert_eq!(hasher.symmetric(&there), hasher.symmetric(&there.reversed()));
            if there != there.reversed() {
                prop_assert_ne!(hasher.hash(&there), hasher.hash(&there.reversed()));
            }
        }
    }
}
