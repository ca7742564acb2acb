//! The times at which one core has last seen each flow of another core, in ticks of [`TICK`].

use packet::Timestamp;

use super::table::Cells;

/// A stamp per entry of a core's table, written by one other core when it sees a packet of the flow. The
/// stamp is the number of the tick plus one, 0 if the flow was never seen. A stamp is written at most once
/// per [`TICK`], so the designated core, which reads it, rarely finds its copy of the cache line invalid.
pub(super) struct Seen(Cells);

/// The resolution of the times at which flows were seen: 67 ms. A core writes the stamp of a flow at most
/// once in this time.
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

    /// Returns the end of the tick in which the flow was last seen, so at most one [`TICK`] too late; zero
    /// if it was never seen.
    #[inline]
    pub(super) fn last(&self, index: u32) -> Timestamp {
        Timestamp((self.0.get_relaxed(index as usize) as i64).saturating_mul(TICK.0))
    }
}
