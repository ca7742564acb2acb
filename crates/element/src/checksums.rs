//! The bit for verified transport checksums.
//!
//! A bit of the metadata says that the transport checksum of a packet is right, because the interface that
//! received the packet has verified it ([`Packet::has_right_checksum`]). Elements that check checksums then
//! need not read the payload. The engine finds out from the declarations where the bit is still right
//! ([`Facts::right_checksums`](crate::Facts::right_checksums)).

use packet::Packet;
use wire::LinkType;

/// The lengths in bytes of link headers of Ethernet: without tags, and with one or two.
const ETHERNET: [isize; 3] = [14, 18, 22];

/// True if a device has said that the transport checksum after the network header at offset `l3` is right.
/// The element that asks must be one that may trust this
/// ([`GraphView::trusts_checksums`](crate::context::GraphView::trusts_checksums)), and the packet must not be
/// a fragment. False for a network header that is not the first one of the packet, as in a tunnel.
#[inline]
pub fn is_known_right(packet: &Packet, l3: isize) -> bool {
    packet.has_right_checksum() && is_first_header(packet, l3)
}

fn is_first_header(packet: &Packet, l3: isize) -> bool {
    // Stripped bytes count: they were in front of the network header when the device received the packet.
    let from_start = l3 + packet.stripped() as isize;
    match LinkType::from_number(packet.link()) {
        LinkType::Ethernet => ETHERNET.contains(&from_start),
        LinkType::RawIp => from_start == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use packet::{Packet, Pool};

    use super::*;

    #[test]
    fn the_bit_is_about_the_first_network_header() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut packet = pool.packet(&[0; 100]).unwrap();
        let known = |packet: &Packet| (-20..60).filter(|&l3| is_known_right(packet, l3)).collect::<Vec<_>>();
        assert_eq!(known(&packet), []);
        packet.set_right_checksum(true);
        assert_eq!(known(&packet), [14, 18, 22]);
        assert!(packet.strip(14));
        assert_eq!(known(&packet), [0, 4, 8]);
        // What was in a tunnel starts too late.
        assert!(packet.strip(28));
        assert!(!is_known_right(&packet, 0) && !is_known_right(&packet, 14));
        assert!(packet.unstrip(42));
        packet.set_link(LinkType::RawIp.number());
        assert_eq!(known(&packet), [0]);
        packet.set_link(LinkType::LinuxCooked.number());
        assert_eq!(known(&packet), []);
        packet.set_right_checksum(false);
        packet.set_link(LinkType::Ethernet.number());
        assert_eq!(known(&packet), []);
        pool.free(packet);
    }
}
