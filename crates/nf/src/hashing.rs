//! A fast hash function for keys that are single numbers, for tables that are looked up for each packet.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// A hash builder for `HashMap`, with a seed. A table whose keys come from packets gets the seed of the run
/// with [`reseed`], so that senders cannot choose keys that collide.
#[derive(Clone, Copy, Default)]
pub(crate) struct ByNumber(u64);

impl ByNumber {
    fn new(seed: u64) -> ByNumber {
        // Seeds that differ in few bits must give hashes that differ in many.
        let mut mixed = NumberHasher::default();
        mixed.add(seed);
        ByNumber(mixed.0)
    }
}

impl BuildHasher for ByNumber {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

/// Replaces the seed of a table, and inserts the table's entries again under the new hashes.
pub(crate) fn reseed<K: Eq + Hash, V>(table: &mut HashMap<K, V, ByNumber>, seed: u64) {
    let old = std::mem::replace(table, HashMap::with_hasher(ByNumber::new(seed)));
    table.extend(old);
}

/// A hasher that multiplies the key, XORed with the hash so far, by a constant. It combines the halves of
/// the 128-bit product by XOR, so that all bits of the key affect the highest and the lowest bits.
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

    fn write_u128(&mut self, number: u128) {
        self.add((number >> 64) as u64);
        self.add(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    /// Checks that consecutive keys are spread, for several seeds and distances. `HashMap` uses the lowest
    /// bits of a hash as the index and the highest seven bits as a tag, so both must differ.
    #[test]
    fn neighbours_are_spread() {
        let seeds = [0, 1, 0xdead_beef_0000_0000];
        for (seed, step) in
            seeds.into_iter().flat_map(|seed| [1, 256, 65_536, 1 << 24].map(|step| (seed, step)))
        {
            let hash = |number: u32| ByNumber::new(seed).hash_one(number);
            let hashes: Vec<u64> = (0..256).map(|i| hash(0x0a00_0000_u32.wrapping_add(i * step))).collect();
            let low: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xff).collect();
            let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // A random function would give about 162 of 256 indices and about 111 of 128 tags.
            assert!(low.len() > 120 && high.len() > 80, "{seed} {step}: {} {}", low.len(), high.len());
        }
    }

    /// Checks that keys that share an index under one seed are spread over many indices under another seed.
    #[test]
    fn collisions_depend_on_the_seed() {
        let place = |seed, key: u64| ByNumber::new(seed).hash_one(key) & 0x3ff;
        let chosen: Vec<u64> = (0..1 << 20).filter(|&key| place(1, key) == 0).take(512).collect();
        assert_eq!(chosen.len(), 512);
        for seed in [0, 2, 0x1234_5678_9abc_def0] {
            let places: BTreeSet<u64> = chosen.iter().map(|&key| place(seed, key)).collect();
            // A random function would give about 400 indexes. Keys this close to each other keep some
            // regularity under any seed.
            assert!(places.len() > 200, "{seed}: {}", places.len());
        }
    }

    #[test]
    fn nothing_is_lost_with_another_seed() {
        let mut table: HashMap<u32, u32, ByNumber> = (0..100).map(|i| (i, i * i)).collect();
        reseed(&mut table, 7);
        assert!((0..100).all(|i| table.get(&i) == Some(&(i * i))) && table.len() == 100);
    }
}
