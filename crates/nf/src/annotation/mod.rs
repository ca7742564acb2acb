//! Elements that set and read annotations and time stamps.

pub mod adjust_timestamp;
pub mod check_paint;
pub mod drop_broadcasts;
pub mod get_ip6_address;
pub mod get_ip_address;
pub mod paint;
pub mod paint2;
pub mod paint_switch;
pub mod paint_tee;
pub mod set_anno_byte;
pub mod set_ip6_address;
pub mod set_ip_address;
pub mod set_packet_type;
pub mod set_rand_ip_address;
pub mod set_timestamp;
pub mod set_timestamp_delta;
pub mod time_filter;
pub mod time_range;

use element::{Packet, Timestamp};
use packet::Annotations;

/// Stores an IPv4 address at offset `place` of a packet's annotation area.
#[inline]
pub(crate) fn set_address(packet: &mut Packet, place: usize, address: [u8; 4]) {
    match place {
        Annotations::DST_IP => packet.set_destination(address),
        _ => packet.annotations_mut().set_array4(place, address),
    }
}

/// Returns the first-timestamp annotation: if a packet represents several packets, the time stamp of the
/// first of them.
pub(crate) fn first_timestamp(packet: &Packet) -> Timestamp {
    let place = Annotations::FIRST_TIMESTAMP;
    let bytes = packet.annotations().bytes()[place..place + 8].try_into();
    Timestamp(bytes.map_or(0, i64::from_ne_bytes))
}

pub(crate) fn set_first_timestamp(packet: &mut Packet, time: Timestamp) {
    let place = Annotations::FIRST_TIMESTAMP;
    packet.annotations_mut().bytes_mut()[place..place + 8].copy_from_slice(&time.0.to_ne_bytes());
}
