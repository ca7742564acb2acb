//! Elements that number packets, and elements that measure the delay of packets by their numbers.

pub mod check_number_packet;
pub mod number_packet;
pub mod record_timestamp;
pub mod timestamp_diff;

use element::effects::Field;
use element::{Base, Packet};

/// The length in bytes of the number that NumberPacket writes into packets.
const SIZE: usize = 8;

/// The service that NumberPacket publishes: the order of the bytes of its numbers.
struct ByteOrder {
    is_network: bool,
}

/// Returns the number at an offset from the start of a packet; `None` if the packet ends before the number
/// does.
fn number_at(packet: &Packet, offset: usize, net_order: bool) -> Option<u64> {
    let mut bytes = [0; SIZE];
    let whole = packet.read_at(offset, &mut bytes) == SIZE;
    whole.then(|| if net_order { u64::from_be_bytes(bytes) } else { u64::from_ne_bytes(bytes) })
}

/// Returns the 8 bytes of the number at an offset as a field of declarations. If the offset is too large for
/// such a field, returns all bytes of the packet.
fn number_field(offset: usize) -> Field {
    match i32::try_from(offset) {
        Ok(offset) => Field::Bytes { base: Base::Data, offset, length: SIZE as u16 },
        Err(_) => Field::Payload,
    }
}
