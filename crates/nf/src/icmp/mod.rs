//! Answering with ICMP, and asking.

pub mod icmp6_error;
pub mod icmp_error;
pub mod icmp_ping_responder;
pub mod icmp_ping_source;

use element::{Base, Cx, DropReason, Packet};

/// Adds a packet, from its network header on, to a message that is to have at most `longest` bytes.
fn quote(message: &mut Vec<u8>, packet: &Packet, longest: usize) {
    let Some(first) = packet.header(Base::Network) else { return };
    let mut room = longest.saturating_sub(message.len());
    for chunk in std::iter::once(first).chain(packet.chunks().skip(1)) {
        let step = chunk.len().min(room);
        message.extend_from_slice(&chunk[..step]);
        room -= step;
    }
}

/// Ends a packet, and gives the message about it: bytes that start with an IP header of this length.
fn answer(cx: &mut Cx<'_>, packet: Packet, message: &[u8], header_length: usize) -> Option<Packet> {
    cx.drop(packet, DropReason::Answered);
    let mut message = cx.packet(message)?;
    message.set_headers(0, header_length);
    message.set_time(cx.now());
    Some(message)
}
