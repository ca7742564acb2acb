//! The random numbers of elements. A generator that a configuration seeds (RandomSeed) gives the numbers of
//! the C library's `random()`, as in Click: the same seed then gives the same choices in both programs.

use fastrand::Rng;

/// The number of words of the C library's generator (random(3), the default state of 128 bytes).
const WORDS: usize = 31;
/// The distance between the two words that are added for the next number.
const DISTANCE: usize = 3;
/// The number of numbers that the C library discards after seeding.
const DISCARDED: usize = 310;
/// The largest number that `random()` returns.
const MOST: u32 = i32::MAX as u32;

/// A generator of random numbers. Its numbers can be predicted from earlier numbers, so it is not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Random {
    own: Rng,
    /// The generator of the C library, if a configuration has given a seed.
    seeded: Option<Box<CRandom>>,
}

impl Random {
    /// Creates a generator with this program's own algorithm.
    pub fn new(seed: u64) -> Random {
        Random { own: Rng::with_seed(seed), seeded: None }
    }

    /// Makes the generator give the numbers of the C library after `srandom(seed)`.
    pub fn seed(&mut self, seed: u32) {
        self.seeded = Some(Box::new(CRandom::new(seed)));
    }

    /// Makes the generator continue with this program's own algorithm, from the state that it had before
    /// [`seed`](Self::seed).
    pub fn forget_seed(&mut self) {
        self.seeded = None;
    }

    /// Replaces the generator by one with this program's own algorithm and a random seed.
    pub fn seed_randomly(&mut self) {
        *self = Random::new(fastrand::u64(..));
    }

    /// True if a configuration has given a seed, and so asks for known numbers.
    pub fn is_seeded(&self) -> bool {
        self.seeded.is_some()
    }

    /// Returns a number of 31 random bits.
    #[inline]
    pub fn bits(&mut self) -> u32 {
        match &mut self.seeded {
            None => self.own.u32(..) >> 1,
            Some(seeded) => seeded.next(),
        }
    }

    /// Returns a number from `least` to `most`, both included, all with the same probability; `least` if
    /// `most` is less.
    #[inline]
    pub fn between(&mut self, least: u32, most: u32) -> u32 {
        match &mut self.seeded {
            None if most <= least => least,
            None => self.own.u32(least..=most),
            Some(_) if most < least => least,
            // Click draws a number even if there is no choice.
            Some(seeded) => least + seeded.up_to(most - least),
        }
    }

    /// Returns a number of 32 random bits.
    #[inline]
    pub fn u32(&mut self) -> u32 {
        match &mut self.seeded {
            None => self.own.u32(..),
            Some(seeded) => seeded.up_to(u32::MAX),
        }
    }

    /// Returns a number of 64 random bits.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) << 32 | u64::from(self.u32())
    }

    /// Returns a number from 0 to less than 1.
    #[inline]
    pub fn f64(&mut self) -> f64 {
        match &mut self.seeded {
            None => self.own.f64(),
            Some(seeded) => f64::from(seeded.next()) / (f64::from(MOST) + 1.0),
        }
    }

    /// Returns true with a probability from 0 to 1, which is rounded to a multiple of 2^-28, as in Click.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        let one = 1_u32 << 28;
        f64::from(self.bits() % one) < (probability * f64::from(one)).round()
    }

    /// Fills `bytes` with random bytes. A seeded generator gives four bytes per number, the least significant
    /// byte first; the highest bit of the fourth byte is 0.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let Some(seeded) = &mut self.seeded else { return self.own.fill(bytes) };
        for word in bytes.chunks_mut(size_of::<u32>()) {
            word.copy_from_slice(&seeded.next().to_le_bytes()[..word.len()]);
        }
    }

    /// Returns a generator that continues with other numbers, for a loop that cannot borrow the context.
    #[inline]
    pub fn fork(&mut self) -> Rng {
        match &mut self.seeded {
            None => self.own.fork(),
            Some(seeded) => Rng::with_seed(seeded.next().into()),
        }
    }
}

/// The additive generator with feedback that the GNU C library has as `random()`: each number is the sum of
/// the numbers 3 and 31 places before it, without its lowest bit.
#[derive(Clone, Debug)]
struct CRandom {
    words: [u32; WORDS],
    /// The index of the word that is replaced next.
    at: usize,
}

impl CRandom {
    fn new(seed: u32) -> CRandom {
        let mut word = seed.max(1) as i32;
        let words = std::array::from_fn(|number| {
            if number > 0 {
                // The minimal standard generator of Park and Miller. The C library computes it in 32 bits
                // (Schrage's method), so a negative seed gives the remainder of a negative number first.
                let next = (16_807 * i64::from(word)) % i64::from(MOST);
                word = if next < 0 { next + i64::from(MOST) } else { next } as i32;
            }
            word as u32
        });
        let mut random = CRandom { words, at: DISTANCE };
        for _ in 0..DISCARDED {
            random.next();
        }
        random
    }

    /// Returns the next number, from 0 to [`MOST`].
    #[inline]
    fn next(&mut self) -> u32 {
        let at = self.at;
        let before = (at + WORDS - DISTANCE) % WORDS;
        self.words[at] = self.words[at].wrapping_add(self.words[before]);
        self.at = if at + 1 == WORDS { 0 } else { at + 1 };
        self.words[at] >> 1
    }

    /// Returns a number from 0 to `most`, as `click_random(0, most)` does.
    fn up_to(&mut self, most: u32) -> u32 {
        if most > MOST {
            // A number of 31 bits does not suffice.
            loop {
                let number = self.next() << 17 ^ self.next() >> 14;
                if number <= most {
                    return number;
                }
            }
        }
        if most == 1 {
            return self.next() >> 14 & 1;
        }
        let each = (MOST + 1) / (most + 1);
        loop {
            let number = self.next();
            if number < each * (most + 1) {
                return number / each;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds, and the first three numbers that `random()` of glibc 2.36 returns after `srandom` with the
    /// seed.
    const EXPECTED: [(u32, [u32; 3]); 7] = [
        (0, [1_804_289_383, 846_930_886, 1_681_692_777]),
        (1, [1_804_289_383, 846_930_886, 1_681_692_777]),
        (42, [71_876_166, 708_592_740, 1_483_128_881]),
        (2_147_483_647, [1_065_668_062, 2_142_264_300, 1_066_566_375]),
        (2_147_483_648, [1_336_741_213, 1_210_407_648, 1_447_044_896]),
        (3_000_000_000, [2_058_147_116, 854_483_408, 922_419_988]),
        (4_294_967_295, [254_925_627, 1_205_188_300, 366_127_624]),
    ];

    #[test]
    fn a_seed_gives_the_numbers_of_the_c_library() {
        for (seed, expected) in EXPECTED {
            let mut random = Random::new(0);
            random.seed(seed);
            assert_eq!([(); 3].map(|()| random.bits()), expected, "{seed}");
            random.forget_seed();
            assert!(!random.is_seeded());
            assert_eq!(random.u64(), Random::new(0).u64(), "the seed leaves no trace");
        }
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut seeded = Random::new(1);
        seeded.seed(7);
        for mut random in [Random::new(1), seeded] {
            for (least, most) in [(0, 1), (3, 5), (0, MOST), (0, u32::MAX), (9, 9), (9, 3), (0, MOST - 1)] {
                let all: Vec<u32> = (0..200).map(|_| random.between(least, most)).collect();
                assert!(
                    all.iter().all(|number| (least..=most.max(least)).contains(number)),
                    "{least} {most}"
                );
                assert!(
                    most.wrapping_sub(least) > 10 || all.contains(&least) && all.contains(&most.max(least))
                );
            }
            assert!((0..100).map(|_| random.f64()).all(|number| (0.0..1.0).contains(&number)));
            let mut bytes = [0; 7];
            random.fill(&mut bytes);
            assert!(bytes != [0; 7] && random.u64() != random.u64());
        }
    }
}
