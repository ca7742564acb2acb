//! Random numbers and secret seeds.

use flow::KeyHasher;

use super::Cx;
use crate::Random;

impl Cx<'_> {
    /// Returns the random number generator of the worker.
    pub fn random(&mut self) -> &mut Random {
        &mut self.core.random
    }

    /// Returns the seed for hash tables whose keys come from packets, and for numbers that must not be
    /// guessed, such as ports of a NAT. Other values that leave the graph must not depend on it: it differs
    /// in each run, except under clocks that make runs repeatable.
    pub fn hash_seed(&self) -> u64 {
        self.core.hash_seed
    }

    /// Returns a hash function for keys of flow tables with the seed [`hash_seed`](Self::hash_seed). Unless
    /// runs are repeatable, the seed is secret, so that an attacker cannot choose flows whose hashes
    /// collide.
    pub fn key_hasher(&self) -> KeyHasher {
        KeyHasher::new(self.core.hash_seed)
    }

    /// True if the clock makes runs repeatable, such as the trace clock. Nothing is secret then: choices
    /// that are otherwise unpredictable are the same in each run.
    pub fn is_repeatable(&self) -> bool {
        self.core.is_repeatable
    }
}
