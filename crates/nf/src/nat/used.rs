//! The sets of ports or addresses that mappings use, by pool.
//!
//! A *pool* is a set of numbers from which mappings choose: all mappings of a pool would have the same reply
//! tuple except for the chosen number. The pools of endpoints are an exception: in these, a number is for all
//! destinations. A set is a hierarchy of bitmaps. Each bit of level 0 is a number in use; each bit of a
//! higher level says that a word of 64 bits below is full. Only words that are not zero are stored. So the
//! next free number is found in at most 6 steps up and 6 down, however full the pool is.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// The identity of a pool (a set of ports or addresses from which mappings choose), packed into two numbers
/// by [`Store::pool`](super::store::Store): the addresses and ports that the replies have in common, and the
/// space.
pub(super) type Pool = (u64, u64);

/// The number of levels of the hierarchy of bitmaps. Each level resolves 6 bits of a port or an address, a
/// number of up to 32 bits.
const LEVELS: u32 = 6;

#[derive(Default)]
pub(super) struct Used {
    /// The words of 64 bits that are not zero, by pool, and by level and index within the level (see
    /// [`key`]).
    words: HashMap<(Pool, u32), u64, Seeded>,
}

impl Used {
    /// Seeds the hash function, so that an attacker cannot make words collide. Has no effect once numbers
    /// are in use.
    pub(super) fn seed(&mut self, seed: u64) {
        if self.words.is_empty() {
            self.words = HashMap::with_hasher(Seeded(seed));
        }
    }
}

/// The hash function of [`Used::words`]. For keys of a few numbers it is four times as fast as the standard
/// library's hash function.
#[derive(Clone, Copy, Default)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded(self.0 ^ 0x9e37_79b9_7f4a_7c15)
    }
}

/// The hash of a key while [`Seeded`] computes it: each number of the key is mixed into the value.
struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // As in the flow tables, the hash function combines both halves of a 128-bit product by exclusive or.
        let product = u128::from(self.0 ^ number) * u128::from(self.0.rotate_left(32) | 1);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(0xd6e8_feb8_6659_fd93);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn key(pool: Pool, level: u32, place: u64) -> (Pool, u32) {
    // The level fits above the index, which has at most 26 bits.
    (pool, level << 28 | place as u32)
}

impl Used {
    fn word(&self, pool: Pool, level: u32, place: u64) -> u64 {
        self.words.get(&key(pool, level, place)).copied().unwrap_or(0)
    }

    /// Reserves memory for the words that marking another port or address as used can add. Returns false if
    /// there is no memory.
    pub(super) fn try_reserve(&mut self) -> bool {
        self.words.try_reserve(LEVELS as usize).is_ok()
    }

    /// Marks a number of a pool as used.
    pub(super) fn set(&mut self, pool: Pool, number: u32) {
        let mut at = u64::from(number);
        for level in 0..LEVELS {
            let word = self.words.entry(key(pool, level, at >> 6)).or_default();
            *word |= 1 << (at & 63);
            if *word != u64::MAX {
                break;
            }
            at >>= 6;
        }
    }

    /// Marks a number of a pool as free.
    pub(super) fn clear(&mut self, pool: Pool, number: u32) {
        let mut at = u64::from(number);
        for level in 0..LEVELS {
            let key = key(pool, level, at >> 6);
            let Some(word) = self.words.get_mut(&key) else { break };
            let was_full = *word == u64::MAX;
            *word &= !(1 << (at & 63));
            if *word == 0 {
                self.words.remove(&key);
            }
            if !was_full {
                break;
            }
            at >>= 6;
        }
    }

    /// Returns the first free number of a pool from `from` to `last`, both included; `None` if all of them
    /// are used.
    pub(super) fn next_free(&self, pool: Pool, from: u32, last: u32) -> Option<u32> {
        let (mut level, mut at) = (0, u64::from(from));
        loop {
            let free = !self.word(pool, level, at >> 6) & (u64::MAX << (at & 63));
            if free != 0 {
                at = at & !63 | u64::from(free.trailing_zeros());
                break;
            }
            at = (at >> 6) + 1;
            level += 1;
            if level == LEVELS {
                return None;
            }
        }
        for level in (0..level).rev() {
            at = at << 6 | u64::from((!self.word(pool, level, at)).trailing_zeros());
        }
        u32::try_from(at).ok().filter(|&number| number <= last)
    }

    /// Releases memory that the words now stored do not need.
    pub(super) fn give_memory_back(&mut self) {
        self.words.shrink_to_fit();
    }

    /// Returns the number of words in memory.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const POOL: Pool = (1, 2);

    fn expected(set: &BTreeSet<u32>, from: u32, last: u32) -> Option<u32> {
        (from..=last).find(|number| !set.contains(number))
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(
            steps in proptest::collection::vec((any::<bool>(), 0u32..300), 0..600),
            questions in proptest::collection::vec((0u32..320, 0u32..320), 1..20),
            base in prop_oneof![Just(0u32), Just(65_000), Just(u32::MAX - 400)],
        ) {
            let (mut used, mut set) = (Used::default(), BTreeSet::new());
            for (add, number) in steps {
                let number = base + number;
                if add {
                    used.set(POOL, number);
                    set.insert(number);
                } else if set.remove(&number) {
                    used.clear(POOL, number);
                }
            }
            for (from, last) in questions {
                let (from, last) = (base + from, base + last);
                prop_assert_eq!(used.next_free(POOL, from, last), expected(&set, from, last));
                prop_assert_eq!(used.next_free((2, 1), from, last), (from <= last).then_some(from));
            }
            set.iter().for_each(|&number| used.clear(POOL, number));
            prop_assert_eq!(used.len(), 0);
        }
    }

    #[test]
    fn the_last_port_of_all_is_found_and_nothing_stays_behind() {
        let mut used = Used::default();
        (1024..=65_535).filter(|&port| port != 40_000).for_each(|port| used.set(POOL, port));
        assert_eq!(used.next_free(POOL, 1024, 65_535), Some(40_000));
        assert_eq!(used.next_free(POOL, 40_001, 65_535), None);
        used.set(POOL, 40_000);
        assert_eq!(used.next_free(POOL, 1024, 65_535), None);
        (1024..=65_535).for_each(|port| used.clear(POOL, port));
        assert_eq!((used.next_free(POOL, 1024, 65_535), used.len()), (Some(1024), 0));
    }
}
