//! The times at which one core has last seen each flow of another core.

use packet::Timestamp;

use super::table::Cells;

/// A stamp per flow. Only one core writes the stamps, and at most once per [`TICK`], so that a reader
/// rarely takes the cache line away from the writer.
pub(super) struct Seen(Cells);

/// The unit of the stamps with which cores publish when they have seen a flow: 67 ms.
pub const TICK: Timestamp = Timestamp(1 << 26);

impl Seen {
    pub(super) fn new(capacity: usize) -> std::io::Result<Seen> {
        Cells::new(capacity).map(Seen)
    }

    #[inline]
    pub(super) fn note(&self, index: u32, now: Timestamp) {
        let stamp = (now.0 / TICK.0).max(0) as u64 + 1;
        if self.0.get_relaxed(index as usize) != stamp {
            self.0.set_relaxed(index as usize, stamp);
        }
    }

    /// Returns the end of the tick in which the flow was seen; zero if it never was.
    #[inline]
    pub(super) fn last(&self, index: u32) -> Timestamp {
        Timestamp((self.0.get_relaxed(index as usize) as i64).saturating_mul(TICK.0))
    }
}
