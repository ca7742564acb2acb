//! The balance of a running program: the instructions that it saves, less the instructions that it costs. By
//! the balance, the program processes batches itself, or leaves them to the elements that it replaces because
//! these cost less.
//!
//! The saving of a program depends on the number of elements that packets bypass, and therefore on the
//! packets. If most flows have few packets, few flows are ever leased, and most packets are classified only
//! to be left to the elements. So the program adds up its savings and costs by the cost model
//! ([`program::cost`]). While its costs exceed its savings, it processes only a sample of the batches: enough
//! to notice a change, and to find flows that last. The other batches go to the elements, or through the
//! program without its flow cache.

/// The average number of batches per sample: one batch in 32 is a sample.
const SAMPLED: u32 = 32;

/// The number of packets over which savings are averaged. The weight of older packets decreases
/// exponentially.
const PACKETS: i64 = 4096;

/// The balance at the start, in instructions. It is positive, so a program begins by processing all
/// batches.
const FIRST: i64 = 1 << 17;

/// The balance of one program.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    /// The balance in instructions: positive if the program has recently saved more than it has spent.
    saved: i64,
    /// True if the program processes all batches regardless of its balance.
    is_ignored: bool,
    random: fastrand::Rng,
}

impl Balance {
    /// Returns the balance at the start of a program. If `is_ignored` is true, the balance has no effect: the
    /// program processes all batches. `seed` seeds the random choice of samples.
    pub(crate) fn new(is_ignored: bool, seed: u64) -> Balance {
        Balance { saved: FIRST, is_ignored, random: fastrand::Rng::with_seed(seed) }
    }

    /// True if the program processes the next batch in any case: the batch is a sample, or the balance is
    /// ignored. Samples are drawn at random, so that flows whose packets arrive periodically are in some of
    /// the samples.
    #[inline]
    pub(crate) fn samples(&mut self) -> bool {
        self.is_ignored || self.random.u32(..SAMPLED) == 0
    }

    /// True if the program processes all batches, because the balance is positive or ignored.
    #[inline]
    pub(crate) fn pays(&self) -> bool {
        self.is_ignored || self.saved > 0
    }

    /// Adds `saved`, the number of instructions that the program has saved for `packets` packets; negative if
    /// it has cost more than the elements. Reduces the weight of earlier packets.
    #[inline]
    pub(crate) fn note(&mut self, packets: usize, saved: i64) {
        self.saved += saved - self.saved * packets as i64 / PACKETS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_costs_more_than_it_saves_sees_samples_until_that_changes() {
        let mut balance = Balance::new(false, 1);
        assert!(balance.pays());
        let mut batches = 0;
        while balance.pays() {
            balance.note(32, -32 * 300);
            batches += 1;
        }
        assert!((5..50).contains(&batches), "{batches}");
        // Even after many batches with losses, as many batches are sampled as before, and the balance becomes
        // positive soon after packets save instructions again.
        (0..100_000).for_each(|_| balance.note(32, -32 * 300));
        let samples = (0..16_000).filter(|_| balance.samples()).count();
        assert!((350..650).contains(&samples), "{samples}");
        let mut batches = 0;
        while !balance.pays() {
            balance.note(32, 32 * 300);
            batches += 1;
        }
        assert!(batches < 200, "{batches}");
    }

    #[test]
    fn one_that_is_ignored_always_pays() {
        let mut balance = Balance::new(true, 1);
        balance.note(256, i64::from(i32::MIN));
        assert!(balance.pays() && (0..100).all(|_| balance.samples()));
    }
}
