//! What parking payloads could bring: packets that are worth slicing.

use serde::Serialize;

use super::Accumulator;
use crate::histogram::ratio;
use crate::packet::Packet;

/// Frames of fewer bytes are not worth it.
pub const THRESHOLD: u32 = 500;

/// Shares of what could be sliced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Sliceable {
    /// Frames of at least 500 bytes with a TCP or UDP payload, over all packets.
    pub packets: f64,
    /// Their payload, over all bytes.
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
        // A length field that is wrong does not make the packet longer.
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
