//! Hashing of keys that are one number, for tables that are looked up for each packet: the same in every run.

use std::hash::{BuildHasherDefault, Hasher};

/// For `HashMap`.
pub(crate) type ByNumber = BuildHasherDefault<NumberHasher>;

/// Multiplies and folds, so that both ends of the number reach both ends of the hash.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberHasher(u64);

impl NumberHasher {
    fn add(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.add(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    /// Tables use the lowest bits for the place and the highest seven beside it.
    #[test]
    fn neighbours_are_spread() {
        let hash = |number: u32| ByNumber::default().hash_one(number);
        for step in [1, 256, 65_536, 1 << 24] {
            let hashes: Vec<u64> = (0..256).map(|i| hash(0x0a00_0000_u32.wrapping_add(i * step))).collect();
            let low: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xff).collect();
            let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // Chance would give about 162 of 256 places, and nearly all of 128.
            assert!(low.len() > 120 && high.len() > 80, "{step}: {} {}", low.len(), high.len());
        }
    }
}
