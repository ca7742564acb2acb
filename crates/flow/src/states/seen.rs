//! The times at which one core has last seen each flow of a designated core, in ticks of [`TICK`].

use packet::Timestamp;

use super::table::Cells;

/// A stamp per entry of a designated core's table, written by one core (the designated core or another) when
/// that core sees a packet of the flow. The stamp is the number of the tick plus one, or 0 if the core has
/// never seen a flow of the entry. A stamp stays when its entry is reused. It is written only once per tick,
/// so the designated core, which reads it, rarely finds its copy of the cache line invalid.
pub(super) struct Seen(Cells);

/// The length of a tick, the resolution of the times at which flows were seen: 67 ms. A core writes the
/// stamp of a flow once per tick.
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

    /// Returns the end of the tick in which the core last saw a flow of the entry, so at most one [`TICK`]
    /// too late. Returns zero if the core has never seen a flow of the entry.
    #[inline]
    pub(super) fn last(&self, index: u32) -> Timestamp {
        Timestamp((self.0.get_relaxed(index as usize) as i64).saturating_mul(TICK.0))
    }
}
