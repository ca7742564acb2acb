//! Tokens, and the mark of sliced packets. A token replaces the payload in a sliced packet, and says where
//! the payload is parked.
//!
//! A token is an AES block. It encrypts the worker that has the payload, the index of the entry in its table,
//! the number of the payload in that entry (its *generation*), and 48 zero bits. The token of the NFSlicer
//! paper has 64 bits, of which the lower log2(N) bits are the index and the others the generation; here 128
//! bits leave room for an authenticator, the zeros.
//!
//! The key is generated at each start, except in repeatable runs, which have a fixed key. An attacker
//! without the key produces a block that decrypts to 48 zeros once in 2^48 attempts, and learns nothing from
//! visible tokens. No token can be used twice, because each generation is joined once.

use aes::Aes128;
use aes::cipher::{Block, BlockDecrypt, BlockEncrypt, KeyInit};

/// The length of a token in bytes.
pub const TOKEN: usize = 16;

/// The DSCP that marks sliced packets: 63, a value for local use (RFC 2474, section 6).
pub const MARKER: u8 = 0b11_1111;

/// The number of generations of an entry; then they start again from 0. With a million payloads per second
/// in one entry, this takes nine years.
pub const GENERATIONS: u64 = 1 << 48;

/// The number of tokens that are encrypted or decrypted together, for speed.
pub const TOGETHER: usize = 8;

/// The place of a parked payload, which a token encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlace {
    /// The index of the worker whose table has the payload.
    pub worker: u8,
    /// The index of the entry in the table, below 2^24.
    pub index: u32,
    /// The generation of the payload: a number that grows by 1 with each payload of the entry, modulo
    /// [`GENERATIONS`].
    pub generation: u64,
}

impl PayloadPlace {
    fn number(self) -> u128 {
        let PayloadPlace { worker, index, generation } = self;
        u128::from(worker) << 120 | u128::from(index & 0xff_ffff) << 96 | u128::from(generation) << 48
    }

    /// Decodes a decrypted token; `None` if its last 48 bits are not zero, so that it is not valid.
    #[inline]
    fn read(block: [u8; TOKEN]) -> Option<PayloadPlace> {
        let number = u128::from_be_bytes(block);
        let generation = (number >> 48) as u64 & (GENERATIONS - 1);
        let place = PayloadPlace {
            worker: (number >> 120) as u8,
            index: (number >> 96) as u32 & 0xff_ffff,
            generation,
        };
        ((number as u64) << 16 == 0).then_some(place)
    }
}

/// The cipher that makes and reads tokens. Several tokens at a time take less time each, because the
/// processor works on several blocks at once.
#[derive(Clone)]
pub struct TokenCipher(Aes128);

impl TokenCipher {
    /// Creates a cipher with a key.
    pub fn new(key: [u8; 16]) -> TokenCipher {
        TokenCipher(Aes128::new(&key.into()))
    }

    /// Makes the tokens for these places, in the same order.
    #[inline]
    pub fn encrypt<const N: usize>(&self, places: [PayloadPlace; N]) -> [[u8; TOKEN]; N] {
        let mut blocks = places.map(|place| Block::<Aes128>::from(place.number().to_be_bytes()));
        self.0.encrypt_blocks(&mut blocks);
        blocks.map(Into::into)
    }

    /// Reads a token; `None` if it is not valid: not made with this key.
    #[inline]
    pub fn decrypt(&self, token: [u8; TOKEN]) -> Option<PayloadPlace> {
        let mut block: Block<Aes128> = token.into();
        self.0.decrypt_block(&mut block);
        PayloadPlace::read(block.into())
    }

    /// Decrypts tokens. For each token, calls `each` with the value that stands beside it in `tokens` (for
    /// example a packet's index), and with the place of the parked payload; the place is `None` if the token
    /// is not valid.
    #[inline]
    pub fn decrypt_all<T: Copy>(
        &self,
        tokens: &[(T, [u8; TOKEN])],
        mut each: impl FnMut(T, Option<PayloadPlace>),
    ) {
        let mut blocks = [Block::<Aes128>::default(); TOGETHER];
        for some in tokens.chunks(TOGETHER) {
            let blocks = &mut blocks[..some.len()];
            blocks.iter_mut().zip(some).for_each(|(block, (_, token))| *block = (*token).into());
            self.0.decrypt_blocks(blocks);
            blocks
                .iter()
                .zip(some)
                .for_each(|(block, (whose, _))| each(*whose, PayloadPlace::read((*block).into())));
        }
    }
}

impl std::fmt::Debug for TokenCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key must not appear in logs.
        f.write_str("TokenCipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let cipher = TokenCipher::new([7; 16]);
        for place in [
            PayloadPlace { worker: 0, index: 0, generation: 0 },
            PayloadPlace { worker: 255, index: 0xff_ffff, generation: GENERATIONS - 1 },
            PayloadPlace { worker: 3, index: 250, generation: 1 << 40 | 1 },
        ] {
            let [token] = cipher.encrypt([place]);
            assert_eq!(cipher.decrypt(token), Some(place));
        }
        // Decrypts 21 tokens in one call, more than the `TOGETHER` that the cipher takes at a time, with an
        // invalid token among them.
        let place =
            |number: u32| PayloadPlace { worker: 1, index: number, generation: u64::from(number) * 1000 };
        let tokens = cipher.encrypt(std::array::from_fn::<_, 21, _>(|number| place(number as u32)));
        let mut tokens: Vec<_> = (0..21).zip(tokens).collect();
        tokens[9].1 = [1; TOKEN];
        let mut seen = Vec::new();
        cipher.decrypt_all(&tokens, |number, place| seen.push((number, place)));
        assert!(
            seen.iter().copied().eq((0..21).map(|number| (number, (number != 9).then(|| place(number)))))
        );
    }

    #[test]
    fn tokens_cannot_be_made_up() {
        let cipher = TokenCipher::new([7; 16]);
        let [token] = cipher.encrypt([PayloadPlace { worker: 1, index: 2, generation: 3 }]);
        assert_eq!(TokenCipher::new([8; 16]).decrypt(token), None, "that of another start");
        for bit in 0..8 * TOKEN {
            let mut changed = token;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cipher.decrypt(changed), None, "bit {bit}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100_000 {
            assert_eq!(cipher.decrypt(std::array::from_fn(|_| random.u8(..))), None);
        }
        assert_eq!(cipher.decrypt([0; TOKEN]), None);
    }

    #[test]
    fn neighbours_look_unlike_each_other() {
        let cipher = TokenCipher::new([7; 16]);
        let [one, next] =
            cipher.encrypt([0, 1].map(|index| PayloadPlace { worker: 0, index, generation: 0 }));
        let differ: u32 = one.iter().zip(next).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!((40..90).contains(&differ), "{differ} of 128 bits");
    }
}
