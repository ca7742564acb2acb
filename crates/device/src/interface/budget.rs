//! The limit of a source per turn, counted in the packets that it makes of the frames that it takes.

/// The packets that a source may still make in this turn.
///
/// A large segment that is cut becomes some 45 packets at once. If it counted for one, a source would push so many times
/// what the sender of its device pulls per turn, and a queue between them would overflow however fast both are. What a
/// segment makes beyond the limit of a turn counts for the next turns.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// The packets that may still be made: less than nothing where the last segment made more than was left.
    left: i64,
}

impl Budget {
    /// Begins a turn of so many packets, less what earlier turns made too many.
    pub(super) fn begin(&mut self, most: usize) {
        self.left = self.left.min(0).saturating_add(i64::try_from(most).unwrap_or(i64::MAX));
    }

    /// True if another frame may be taken.
    pub(super) fn has_some(&self) -> bool {
        self.left > 0
    }

    /// Counts a frame that became so many packets. One of which nothing becomes has been looked at, which counts for one.
    pub(super) fn spend(&mut self, packets: u64) {
        self.left = self.left.saturating_sub(i64::try_from(packets.max(1)).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_make_no_more_than_their_limit_on_average() {
        let (mut budget, mut made, mut frames) = (Budget::default(), 0, 0);
        for turn in 1..=1000 {
            budget.begin(32);
            while budget.has_some() {
                budget.spend(44);
                made += 44;
                frames += 1;
            }
            assert!(made <= turn * 32 + 43, "{made} in {turn} turns");
        }
        assert_eq!((made, frames), (32_032, 728));
        // What is left of a turn is not saved for another one.
        let mut budget = Budget::default();
        budget.begin(32);
        budget.begin(32);
        (0..32).for_each(|_| budget.spend(0));
        assert!(!budget.has_some());
    }
}
