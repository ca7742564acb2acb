//! Tokens: what stands in a sliced packet in place of its payload, and says where that is.
//!
//! A token is an AES block: what is encrypted are the worker that has the payload, the place in its table, the number of the
//! payload that was put there (its generation), and zeros. The paper's token has 64 bits, of which the lower log2(N) are
//! the index and the others the generation; here 128 bits leave room for an authenticator. Who does not have the key, which
//! is made anew at each start, hits one that decrypts to 48 zeros once in 2^48 attempts, learns nothing from tokens that it
//! has seen, and cannot use one of them twice, because a generation is joined once.

use aes::Aes128;
use aes::cipher::{Block, BlockDecrypt, BlockEncrypt, KeyInit};

/// Bytes of a token.
pub const TOKEN: usize = 16;

/// Generations of one place, after which they start again: at a million a second that takes nine years.
pub const GENERATIONS: u64 = 1 << 48;

/// How many tokens are worked on at once.
pub const TOGETHER: usize = 8;

/// Where a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The worker in whose table it is.
    pub worker: u8,
    /// The entry, below 2^24.
    pub index: u32,
    /// Which of the payloads that have been there; below [`GENERATIONS`].
    pub generation: u64,
}

impl Place {
    fn number(self) -> u128 {
        let Place { worker, index, generation } = self;
        u128::from(worker) << 120 | u128::from(index & 0xff_ffff) << 96 | u128::from(generation) << 48
    }

    /// What a decrypted token says, if it is one of ours.
    #[inline]
    fn read(block: [u8; TOKEN]) -> Option<Place> {
        let number = u128::from_be_bytes(block);
        let generation = (number >> 48) as u64 & (GENERATIONS - 1);
        let place =
            Place { worker: (number >> 120) as u8, index: (number >> 96) as u32 & 0xff_ffff, generation };
        ((number as u64) << 16 == 0).then_some(place)
    }
}

/// Makes tokens and reads them: many at a time for less than one after the other, as the processor then works on several at once.
#[derive(Clone)]
pub struct Seal(Aes128);

impl Seal {
    /// With a key.
    pub fn new(key: [u8; 16]) -> Seal {
        Seal(Aes128::new(&key.into()))
    }

    /// The tokens of some places.
    #[inline]
    pub fn close<const N: usize>(&self, places: [Place; N]) -> [[u8; TOKEN]; N] {
        let mut blocks = places.map(|place| Block::<Aes128>::from(place.number().to_be_bytes()));
        self.0.encrypt_blocks(&mut blocks);
        blocks.map(Into::into)
    }

    /// Reads a token; `None` for what is none of ours.
    #[inline]
    pub fn open(&self, token: [u8; TOKEN]) -> Option<Place> {
        let mut block: Block<Aes128> = token.into();
        self.0.decrypt_block(&mut block);
        Place::read(block.into())
    }

    /// Reads tokens, each with something that says whose it is; `None` for what is none of ours.
    #[inline]
    pub fn open_all<T: Copy>(&self, tokens: &[(T, [u8; TOKEN])], mut each: impl FnMut(T, Option<Place>)) {
        let mut blocks = [Block::<Aes128>::default(); TOGETHER];
        for some in tokens.chunks(TOGETHER) {
            let blocks = &mut blocks[..some.len()];
            blocks.iter_mut().zip(some).for_each(|(block, (_, token))| *block = (*token).into());
            self.0.decrypt_blocks(blocks);
            blocks
                .iter()
                .zip(some)
                .for_each(|(block, (whose, _))| each(*whose, Place::read((*block).into())));
        }
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is nobody's business.
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let seal = Seal::new([7; 16]);
        for place in [
            Place { worker: 0, index: 0, generation: 0 },
            Place { worker: 255, index: 0xff_ffff, generation: GENERATIONS - 1 },
            Place { worker: 3, index: 250, generation: 1 << 40 | 1 },
        ] {
            let [token] = seal.close([place]);
            assert_eq!(seal.open(token), Some(place));
        }
        // Many at once, with something else among them.
        let place = |number: u32| Place { worker: 1, index: number, generation: u64::from(number) * 1000 };
        let tokens = seal.close(std::array::from_fn::<_, 21, _>(|number| place(number as u32)));
        let mut tokens: Vec<_> = (0..21).zip(tokens).collect();
        tokens[9].1 = [1; TOKEN];
        let mut seen = Vec::new();
        seal.open_all(&tokens, |number, place| seen.push((number, place)));
        assert!(
            seen.iter().copied().eq((0..21).map(|number| (number, (number != 9).then(|| place(number)))))
        );
    }

    #[test]
    fn tokens_cannot_be_made_up() {
        let seal = Seal::new([7; 16]);
        let [token] = seal.close([Place { worker: 1, index: 2, generation: 3 }]);
        assert_eq!(Seal::new([8; 16]).open(token), None, "that of another start");
        for bit in 0..8 * TOKEN {
            let mut changed = token;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seal.open(changed), None, "bit {bit}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            assert_eq!(seal.open(std::array::from_fn(|_| random.u8(..))), None);
        }
        assert_eq!(seal.open([0; TOKEN]), None);
    }

    #[test]
    fn neighbours_look_unlike_each_other() {
        let seal = Seal::new([7; 16]);
        let [one, next] = seal.close([0, 1].map(|index| Place { worker: 0, index, generation: 0 }));
        let differ: u32 = one.iter().zip(next).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!((40..90).contains(&differ), "{differ} of 128 bits");
    }
}
