//! The share of the traffic whose payload could be parked (NFSlicer): frames that are worth slicing.

use serde::Serialize;

use super::Accumulator;
use crate::histogram::ratio;
use crate::packet::TracePacket;

/// The smallest length in bytes of a frame that is worth slicing.
pub const THRESHOLD: u32 = 500;

/// The shares of the traffic that could be sliced, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sliceable {
    /// The number of frames of at least 500 bytes with a TCP or UDP payload, divided by the number of all
    /// packets.
    pub packets: f64,
    /// The payload bytes of frames of at least 500 bytes with a TCP or UDP payload, divided by all bytes on
    /// the wire.
    pub bytes: f64,
}

/// The accumulator for frames of at least [`THRESHOLD`] bytes with a TCP or UDP payload.
#[derive(Default)]
pub struct Slicing {
    packets: u64,
    bytes: u64,
    sliceable: u64,
    payload: u64,
}

impl Accumulator for Slicing {
    type Result = Sliceable;

    #[inline]
    fn observe(&mut self, packet: &TracePacket) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        // A packet with a wrong length field may claim more payload than the frame has bytes.
        let payload = packet.flow.map_or(0, |flow| flow.payload.min(packet.bytes));
        if packet.bytes >= THRESHOLD && payload > 0 {
            self.sliceable += 1;
            self.payload += u64::from(payload);
        }
    }

    fn finish(self) -> Sliceable {
        Sliceable {
            packets: ratio(self.sliceable as f64, self.packets as f64),
            bytes: ratio(self.payload as f64, self.bytes as f64),
        }
    }
}
