//! The analyses of captures, one file each. Each sees every packet once and holds a bounded amount of memory
//! per flow. [`passes`](crate::passes) runs them.

pub mod batches;
pub(crate) mod clock;
pub mod concurrency;
pub mod distances;
pub mod locality;
pub mod reordering;
pub mod slicing;
pub mod switches;
pub mod top;
pub mod totals;

use crate::packet::{Member, TracePacket};

/// The number of bytes above which a TCP flow is large: 10 MB.
pub const LARGE: u64 = 10_000_000;

/// A measurement over the packets of a trace, which are passed to it one after the other.
pub trait Accumulator {
    /// The result of the measurement.
    type Result;

    /// Adds the next packet to the measurement.
    fn observe(&mut self, packet: &TracePacket);

    /// Prefetches the state that [`observe`](Self::observe) will need for a packet of this flow. Does
    /// nothing by default.
    #[inline]
    fn prefetch(&self, flow: &Member) {
        let _ = flow;
    }

    /// Returns the result for all packets that were observed.
    fn finish(self) -> Self::Result;
}
