//! The spatial locality factor (SLF; Reframer, section 2): the mean length of a run.

use super::Accumulator;
use crate::histogram::ratio;
use crate::packet::TracePacket;

/// Counts the TCP and UDP packets and their runs. Other packets are ignored, so they do not end a run.
#[derive(Default)]
pub struct Locality {
    last: Option<u32>,
    packets: u64,
    runs: u64,
}

impl Accumulator for Locality {
    type Result = f64;

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        let Some(flow) = packet.flow else { return };
        self.packets += 1;
        self.runs += u64::from(self.last != Some(flow.number));
        self.last = Some(flow.number);
    }

    /// Returns the spatial locality factor: packets divided by runs; 0 without packets.
    fn finish(self) -> f64 {
        ratio(self.packets as f64, self.runs as f64)
    }
}
