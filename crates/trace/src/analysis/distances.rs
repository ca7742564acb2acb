//! The distances between consecutive packets of a flow, in packets and in time (Reframer, figure 7).

use super::Accumulator;
use crate::flows::{entry, prefetch};
use crate::histogram::{Distribution, Histogram};
use crate::packet::{Member, TracePacket};

/// The last packet of a flow. `place` is its index among the TCP and UDP packets, counted from 1; 0 means
/// that the flow has no packet yet. `time` is in nanoseconds. The structure has only 16 bytes, as there is
/// one for each flow.
#[derive(Clone, Copy, Default)]
struct Last {
    place: u64,
    time: i64,
}

/// The value of [`Last::time`] after a restart, when the next packet has no time to compare with.
const NONE: i64 = i64::MIN;

/// Measures the distance of each TCP or UDP packet from the previous packet of its flow. The first packet
/// of a flow has no distance, so flows of one packet add nothing.
#[derive(Default)]
pub struct Distances {
    packets: u64,
    last: Vec<Last>,
    spatial: Histogram,
    temporal: Histogram,
}

/// The distributions of the distances.
pub struct Measured {
    /// The number of TCP and UDP packets of other flows between two consecutive packets of a flow.
    pub spatial: Distribution,
    /// The time between two consecutive packets of a flow in nanoseconds; 0 if the later packet has the
    /// earlier time.
    pub temporal: Distribution,
}

impl Distances {
    /// Restarts the measurement of times, where the time of the trace goes back: the time between a packet
    /// before this call and a packet after it is not counted. Distances in packets are still counted.
    pub fn restart(&mut self) {
        self.last.iter_mut().for_each(|last| last.time = NONE);
    }
}

impl Accumulator for Distances {
    type Result = Measured;

    #[inline]
    fn prefetch(&self, flow: &Member) {
        prefetch(&self.last, flow.number);
    }

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        let Some(flow) = packet.flow else { return };
        self.packets += 1;
        let last = entry(&mut self.last, flow.number);
        if last.place > 0 {
            self.spatial.add(self.packets - last.place - 1);
            if last.time != NONE {
                self.temporal.add(packet.time.saturating_sub(last.time).max(0) as u64);
            }
        }
        *last = Last { place: self.packets, time: packet.time };
    }

    fn finish(self) -> Measured {
        Measured { spatial: self.spatial.summary(), temporal: self.temporal.summary() }
    }
}
