//! When one core has last seen each flow of another one.

use packet::Timestamp;

use super::table::Cells;

/// A stamp per flow. Only one core writes them, and at most once per [`TICK`](Seen::TICK), so that reading takes its line
/// away rarely.
pub(super) struct Seen(Cells);

impl Seen {
    /// Stamps count these: 67 ms.
    pub(super) const TICK: Timestamp = Timestamp(1 << 26);

    pub(super) fn new(capacity: usize) -> std::io::Result<Seen> {
        Cells::new(capacity.div_ceil(2)).map(Seen)
    }

    /// Two stamps share a word: the whole word is written, which only one core does.
    #[inline]
    pub(super) fn note(&self, index: u32, now: Timestamp) {
        let stamp = u64::from((now.0 / Seen::TICK.0).max(0) as u32 + 1);
        let shift = index % 2 * 32;
        let word = self.0.get_relaxed(index as usize / 2);
        if word >> shift & 0xffff_ffff != stamp {
            let other = word & (0xffff_ffff << (32 - shift));
            self.0.set_relaxed(index as usize / 2, other | stamp << shift);
        }
    }

    /// The end of the tick in which the flow was seen; zero if it never was.
    #[inline]
    pub(super) fn last(&self, index: u32) -> Timestamp {
        let word = self.0.get_relaxed(index as usize / 2);
        Timestamp((word >> (index % 2 * 32) & 0xffff_ffff) as i64 * Seen::TICK.0)
    }
}
