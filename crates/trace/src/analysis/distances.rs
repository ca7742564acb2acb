//! The distances between packets of a flow, in packets and in time (Reframer, figure 7).

use super::Accumulator;
use crate::histogram::{Distribution, Histogram};
use crate::packet::{Member, Packet};

/// The last packet of a flow; `place` counts from 1 and is 0 before the first. Has 16 bytes, as there is
/// one for each flow.
#[derive(Clone, Copy, Default)]
struct Last {
    place: u64,
    time: i64,
}

/// The time if there is no packet to compare with.
const NONE: i64 = i64::MIN;

/// Compares each TCP or UDP packet with the previous packet of its flow. A flow of one packet has no
/// distance.
#[derive(Default)]
pub struct Distances {
    packets: u64,
    last: Vec<Last>,
    spatial: Histogram,
    temporal: Histogram,
}

/// The measured distances.
pub struct Apart {
    /// The number of TCP and UDP packets of other flows in between.
    pub spatial: Distribution,
    /// The time in nanoseconds; 0 where time goes back.
    pub temporal: Distribution,
}

impl Distances {
    /// Restarts the clock: the time between packets before and after this call is not counted.
    pub fn restart(&mut self) {
        self.last.iter_mut().for_each(|last| last.time = NONE);
    }
}

impl Accumulator for Distances {
    type Result = Apart;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        super::prefetch(&self.last, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &Packet) {
        let Some(flow) = packet.flow else { return };
        self.packets += 1;
        let last = super::entry(&mut self.last, flow.number);
        if last.place > 0 {
            self.spatial.add(self.packets - last.place - 1);
            if last.time != NONE {
                self.temporal.add(packet.time.saturating_sub(last.time).max(0) as u64);
            }
        }
        *last = Last { place: self.packets, time: packet.time };
    }

    fn finish(self) -> Apart {
        Apart { spatial: self.spatial.summary(), temporal: self.temporal.summary() }
    }
}
