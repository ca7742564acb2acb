//! The limit on the number of packets that a source makes per turn, counted in packets made, not in frames
//! read.

/// The number of packets that a source may still make in this turn.
///
/// A large TCP segment of 64 KiB becomes about 45 packets at once when it is cut. If it counted as a single
/// packet, a source would push 45 times as many packets per turn as the sender downstream pulls per turn. A
/// queue between the source and the sender would overflow even if both are fast. Therefore each packet
/// counts, and packets beyond the limit of a turn count for the next turns.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// The number of packets that may still be made in this turn; negative if the last segment made more
    /// packets than were left.
    left: i64,
}

impl Budget {
    /// Begins a turn in which `most` packets may be made, less the packets that earlier turns made beyond
    /// their limits.
    pub(super) fn begin(&mut self, most: usize) {
        self.left = self.left.min(0).saturating_add(i64::try_from(most).unwrap_or(i64::MAX));
    }

    /// True if the source may read another frame in this turn.
    pub(super) fn has_some(&self) -> bool {
        self.left > 0
    }

    /// Counts a frame of which `packets` packets were made. A frame without packets, such as a frame that
    /// is not wanted, counts as one, because it cost the time to examine it.
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
        // Packets that a turn did not make are not added to the next turn.
        let mut budget = Budget::default();
        budget.begin(32);
        budget.begin(32);
        (0..32).for_each(|_| budget.spend(0));
        assert!(!budget.has_some());
    }
}
