//! What frames say of themselves that come from a queue of an interface, where no kernel has looked at them before.

use packet::{Packet, PacketKind};
use wire::offload::{completed, set_checksum, start_checksum};
use wire::{LinkType, ip_protocol};

/// Completes a checksum that a sender has left to its interface; whether there was one. Nothing but the checksum itself
/// says so: it is the sum of the pseudo header and nothing else. A complete one can be so by chance, and is then the same
/// when it is completed.
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    if is_plainly_complete(frame) {
        return false;
    }
    let before = |frame: &[u8], at: usize| -> Option<[u8; 2]> { frame.get(at..)?.first_chunk().copied() };
    // Where the field is depends on headers, which the other function reads: it is put back if it was another one.
    let mut head = [0; 128];
    let n = frame.len().min(head.len());
    head[..n].copy_from_slice(&frame[..n]);
    let Ok((start, offset)) = start_checksum(&mut head[..n], LinkType::Ethernet, frame.len()) else {
        return false;
    };
    let at = start + offset;
    if before(&head[..n], at) != before(frame, at) {
        return false;
    }
    let checksum = completed([&*frame], start);
    let was = before(frame, at) != Some(checksum.to_be_bytes());
    was && set_checksum(frame, start, offset, checksum).is_ok()
}

/// Whether a whole packet of IPv4 without options, TCP or UDP, which nearly all are, has another checksum than one of the
/// pseudo header alone: told without looking for headers.
#[inline]
fn is_plainly_complete(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<34>() else { return false };
    let word = |at: usize| u32::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let length = word(16);
    let is_plain = word(12) == 0x0800 && head[14] == 0x45 && word(20) & 0x3fff == 0;
    if !is_plain || length < 20 || length as usize + 14 > frame.len() {
        return false;
    }
    let offset = match head[23] {
        ip_protocol::TCP => 16,
        ip_protocol::UDP => 6,
        _ => return false,
    };
    let addresses: u32 = [26, 28, 30, 32].into_iter().map(word).sum();
    let sum = addresses + u32::from(head[23]) + length - 20;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    match frame.get(34 + offset..).and_then(|field| field.first_chunk()) {
        // Zero has two forms.
        Some(&field) => {
            !matches!(u16::from_be_bytes(field), 0 | u16::MAX) && u32::from(u16::from_be_bytes(field)) != sum
        }
        None => false,
    }
}

/// Whom a frame is for, as far as it says so.
pub(crate) fn kind(packet: &Packet) -> PacketKind {
    match packet.data().first_chunk() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketKind::Broadcast,
        Some([first, ..]) if first & 1 != 0 => PacketKind::Multicast,
        _ => PacketKind::Host,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::build::Builder;
    use wire::ethernet::MacAddr;

    use super::*;

    proptest! {
        #[test]
        fn partial_checksums_are_completed_and_others_left(
            payload in vec(any::<u8>(), 0..200), udp: bool, partial: bool, wrong in 1u16..,
        ) {
            let [a, b]: [SocketAddr; 2] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
            let builder = if udp { Builder::udp(a, b) } else { Builder::tcp(a, b, 0x10) };
            let whole = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&payload).unwrap();
            let mut frame = whole.clone();
            let length = frame.len();
            let (start, offset) = start_checksum(&mut frame, LinkType::Ethernet, length).unwrap();
            if partial {
                let is_other = frame != whole;
                prop_assert_eq!(complete(&mut frame), is_other);
                prop_assert_eq!(&frame, &whole);
            } else {
                // Whatever it is, it is somebody else's fault.
                let at = start + offset;
                let field = [whole[at], whole[at + 1]];
                let other = (u16::from_be_bytes(field) ^ wrong).to_be_bytes();
                let partial = [frame[at], frame[at + 1]];
                prop_assume!(other != partial && field != partial);
                for value in [other, field] {
                    frame[at..at + 2].copy_from_slice(&value);
                    let before = frame.clone();
                    prop_assert!(!complete(&mut frame));
                    prop_assert_eq!(&frame, &before);
                }
            }
        }

        #[test]
        fn no_frame_panics(mut frame in vec(any::<u8>(), 0..200), ip: bool) {
            if let (true, Some(kind)) = (ip, frame.get_mut(12..15)) {
                kind.copy_from_slice(&[8, 0, 0x45]);
            }
            complete(&mut frame);
        }
    }
}
