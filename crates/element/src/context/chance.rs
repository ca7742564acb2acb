//! Random numbers, and what nobody is to guess.

use flow::KeyHasher;

use super::Cx;

impl Cx<'_> {
    /// Random numbers.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.core.random
    }

    /// The seed for hash tables whose keys come from packets, and for numbers that nobody is to guess, such as ports. Nothing
    /// else that leaves may depend on it: it is another one in each run, but under clocks that make runs repeatable.
    pub fn hash_seed(&self) -> u64 {
        self.core.hash_seed
    }

    /// The hash function of [`hash_seed`](Self::hash_seed): nobody outside can choose flows whose hashes collide.
    pub fn key_hasher(&self) -> KeyHasher {
        KeyHasher::new(self.core.hash_seed)
    }

    /// Whether the clock makes runs repeatable: then nothing is secret, and what would be chosen so that nobody can guess it is
    /// always the same.
    pub fn is_repeatable(&self) -> bool {
        self.core.is_repeatable
    }
}
