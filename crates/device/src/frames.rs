//! Completes partial checksums in frames that FromXDP and FromDPDKDevice get directly from a queue of an
//! interface. The kernel has not seen these frames, so that no header says which checksums are partial.

use wire::offload::{completed, set_checksum, start_checksum};
use wire::{LinkType, ether_type, ip_protocol, ipv6, vlan};

/// Completes the checksum of an Ethernet frame with TCP or UDP if a local sender has left it to the
/// interface. Returns true if this changed the frame. Only the checksum's value shows that it is partial: it
/// is the sum of the pseudo header alone. A complete checksum can have this value by chance; completing it
/// again does not change it.
#[inline]
pub(crate) fn complete(frame: &mut [u8]) -> bool {
    may_be_partial(frame) && complete_closely(frame)
}

/// Completes a partial checksum as [`complete`] does, but parses the headers of every frame, instead of first
/// excluding most frames by bytes at fixed offsets.
fn complete_closely(frame: &mut [u8]) -> bool {
    let before = |frame: &[u8], at: usize| -> Option<[u8; 2]> { frame.get(at..)?.first_chunk().copied() };
    // The offset of the checksum depends on headers, which `start_checksum` parses. The function gets a copy
    // of the frame's first bytes, because it writes the sum of the pseudo header into them. Below, that sum
    // is compared with the frame's checksum.
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

/// True if a frame may have a checksum of the pseudo header alone. Returns false only if the frame is too
/// short for the headers of Ethernet and IPv4, or if bytes at fixed offsets exclude such a checksum: for
/// example for ARP frames, for ICMP over IPv4, and for unfragmented IPv4 packets without options whose
/// checksum has another value.
#[inline]
fn may_be_partial(frame: &[u8]) -> bool {
    // The lengths of the Ethernet and IPv4 headers together. A frame with TCP or UDP is longer.
    let Some(head) = frame.first_chunk::<34>() else { return false };
    let field = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    match field(12) {
        ether_type::IPV4 => {}
        ether_type::IPV6 => return is_transport(head[20]) || ipv6::Extension::is(head[20]),
        // IP may follow MPLS labels or a PPPoE header, so the frame has to be examined.
        ether_type::MPLS | ether_type::MPLS_UPSTREAM | ether_type::PPPOE_SESSION => return true,
        other => return vlan::is_tag(other),
    }
    let (length, protocol) = (field(16), head[23]);
    if !is_transport(protocol) {
        return false;
    }
    let is_plain = head[14] == 0x45 && field(20) & 0x3fff == 0;
    if !is_plain || length < 20 || usize::from(length) + 14 > frame.len() {
        return true;
    }
    let offset = if protocol == ip_protocol::TCP { 16 } else { 6 };
    let Some(checksum) = frame.get(34 + offset..).and_then(|rest| rest.first_chunk()) else { return true };
    let addresses: u32 = [26, 28, 30, 32].into_iter().map(|at| u32::from(field(at))).sum();
    let sum = addresses + u32::from(protocol) + u32::from(length - 20);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    // In one's complement, 0 and 0xffff are both zero, so the sums are compared modulo 0xffff.
    u32::from(u16::from_be_bytes(*checksum)) % 0xffff == sum % 0xffff
}

fn is_transport(protocol: u8) -> bool {
    matches!(protocol, ip_protocol::TCP | ip_protocol::UDP)
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
                // A checksum that is not the sum of the pseudo header alone is not changed, whether it is
                // right or wrong.
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

        /// Builds frames of many kinds, with some bytes changed. Expects that a frame that `may_be_partial`
        /// excludes is one that `complete_closely` does not change.
        #[test]
        fn nothing_is_told_from_fixed_places_that_is_not_so(
            kind in 0usize..6, v6: bool, udp: bool, partial: bool, length in 0usize..100,
            changes in vec((0usize..80, any::<u8>()), 0..3),
        ) {
            let ends: [SocketAddr; 2] = match v6 {
                true => [([0x20, 1, 0, 0, 0, 0, 0, 1], 1).into(), ([0x20, 1, 0, 0, 0, 0, 0, 2], 2).into()],
                false => [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()],
            };
            let builder = if udp { Builder::udp(ends[0], ends[1]) } else { Builder::tcp(ends[0], ends[1], 0x10) };
            let mut frame = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(&[7; 100][..length]).unwrap();
            // The bytes between the Ethernet addresses and IP: a VLAN tag, MPLS labels, PPPoE, padding, or
            // an unknown type.
            let between: &[u8] = match kind {
                0 => &[0x81, 0, 0, 7],
                1 => &[0x88, 0x47, 0, 0, 0x11, 0x40],
                2 if v6 => &[0x88, 0x64, 0x11, 0, 0, 1, 0, 50, 0, 0x57],
                2 => &[0x88, 0x64, 0x11, 0, 0, 1, 0, 50, 0, 0x21],
                3 => &[0x08, 0x06],
                _ => &[],
            };
            frame.splice(12..if kind == 1 || kind == 2 { 14 } else { 12 }, between.iter().copied());
            if kind == 4 {
                frame.extend_from_slice(&[0; 9]);
            }
            let whole = frame.len();
            if partial {
                let _ = start_checksum(&mut frame, LinkType::Ethernet, whole);
            }
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            let (mut quickly, mut closely) = (frame.clone(), frame);
            prop_assert_eq!(complete(&mut quickly), complete_closely(&mut closely));
            prop_assert_eq!(quickly, closely);
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
