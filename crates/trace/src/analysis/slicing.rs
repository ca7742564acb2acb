//! The potential of parking payloads: packets that are worth slicing.

use serde::Serialize;

use super::Accumulator;
use crate::histogram::ratio;
use crate::packet::Packet;

/// The length in bytes from which on a frame is worth slicing.
pub const THRESHOLD: u32 = 500;

/// Shares of the traffic that could be sliced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sliceable {
    /// Frames of at least 500 bytes with a TCP or UDP payload, over all packets.
    pub packets: f64,
    /// The payload of these frames, over all bytes.
    pub bytes: f64,
}

/// Counts frames of at least [`THRESHOLD`] bytes with a payload, and the payload.
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
    fn observe(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        // A wrong length field does not make the packet longer.
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
