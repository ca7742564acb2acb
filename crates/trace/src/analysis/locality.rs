//! Spatial locality: the number of packets of a flow that follow each other.

use super::Accumulator;
use crate::histogram::ratio;
use crate::packet::Packet;

/// Counts runs of packets of one flow among the TCP and UDP packets.
#[derive(Default)]
pub struct Locality {
    last: Option<u32>,
    packets: u64,
    runs: u64,
}

impl Accumulator for Locality {
    type Result = f64;

    #[inline]
    fn observe(&mut self, packet: &Packet) {
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
