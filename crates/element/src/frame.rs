//! The offset of the IP header in a frame, and the VLANs of the tags ahead of it.
//!
//! The VLANs of a frame are one number, so that keys of flows can contain them: the 12-bit identifiers of the
//! first tag (upper bits) and of the last tag (lower bits). With a single tag, the upper bits are all set.
//! The number is 0 for frames without a tag, and for frames whose only tag, or whose first and last tags,
//! have the identifier 0. A tag of identifier 0 only sets a priority (IEEE 802.1Q, 6.8).

use packet::{Base, Packet};
use wire::layers::{FLOW_HEADERS, Network};
use wire::{Layers, LinkType, vlan};

/// The upper identifier in the number of a frame with a single tag. No VLAN has this identifier (IEEE
/// 802.1Q, table 9-2), so that one tag and two equal tags have different numbers.
const SINGLE: u32 = 0xfff;

/// The offset in bytes of the first tag in an Ethernet header.
const TAGS: usize = 12;

/// The length in bytes of an Ethernet header with one tag.
const TAGGED: usize = 18;

/// Returns the offset in bytes of the IP header in a frame, and the VLANs of the frame as one number. `None`
/// if the frame is not IP. `link` is the number of the link type of `data` in captures.
#[inline(never)]
pub fn ip_header(data: &[u8], link: u16) -> Option<(usize, u32)> {
    let layers = Layers::locate(data, LinkType::from_number(link));
    if !matches!(layers.network, Network::Ipv4 | Network::Ipv6) {
        return None;
    }
    let id = |control: u16| u32::from(control & 0xfff);
    Some((layers.l3?, pack(layers.outer_vlan.map(id), layers.inner_vlan.map(id))))
}

/// Returns, as one number, the VLANs in the Ethernet header of a packet. The header starts at the link
/// header annotation or, without this annotation, at the packet's start, and it ends at the network header:
/// at offset `network` from the packet's start. The number is 0 if the header is too short for a tag or
/// starts after its end.
#[inline]
pub fn vlans_before(packet: &Packet, network: isize) -> u32 {
    let (header, length) = match packet.offset(Base::Mac) {
        Some(link) if link < network => (packet.header(Base::Mac).unwrap_or_default(), network - link),
        None if network > 0 => (packet.data(), network),
        _ => return 0,
    };
    let length = length.min(FLOW_HEADERS as isize) as usize;
    if length < TAGGED { 0 } else { vlans(header.get(..length).unwrap_or(header)) }
}

/// Returns the VLANs in the tags of an Ethernet header as one number.
#[inline(never)]
fn vlans(header: &[u8]) -> u32 {
    let (mut first, mut last) = (None, None);
    for &[a, b, c, d] in header.get(TAGS..).unwrap_or_default().as_chunks::<4>().0 {
        if !vlan::is_tag(u16::from_be_bytes([a, b])) {
            break;
        }
        let id = u32::from(u16::from_be_bytes([c, d]) & 0xfff);
        match first {
            None => first = Some(id),
            Some(_) => last = Some(id),
        }
    }
    pack(first, last)
}

/// Packs the identifiers of the first tag and, if there are several tags, of the last tag into one number.
fn pack(first: Option<u32>, last: Option<u32>) -> u32 {
    match (first, last) {
        (None | Some(0), None) => 0,
        (Some(only), None) => SINGLE << 12 | only,
        (first, Some(last)) => first.unwrap_or_default() << 12 | last,
    }
}

#[cfg(test)]
mod tests {
    use packet::Pool;
    use wire::MacAddr;
    use wire::build::Builder;

    use super::*;

    #[test]
    fn stacks_of_tags_are_told_apart_in_the_same_way_with_and_without_annotation() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let udp = Builder::udp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let ethernet = udp.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let mut seen = std::collections::HashMap::new();
        for tags in [&[][..], &[7], &[7, 7], &[7, 8], &[8, 7], &[0, 7], &[7, 0], &[0]] {
            let frame =
                tags.iter().fold(ethernet.clone(), |frame, &id| frame.vlan(id)).build(b"data").unwrap();
            let (l3, found) = ip_header(&frame, 1).unwrap();
            let mut packet = pool.packet(&frame).unwrap();
            assert_eq!(vlans_before(&packet, l3 as isize), found, "{tags:?}");
            packet.set_offset(Base::Mac, Some(0));
            assert!(packet.strip(l3));
            assert_eq!(vlans_before(&packet, 0), found, "{tags:?}");
            pool.free(packet);
            if let Some(other) = seen.insert(found, tags) {
                // A tag of identifier 0 only sets a priority, so that the frame has the number of a frame
                // without tags.
                assert_eq!((other, tags), (&[][..], &[0u16][..]));
            }
        }
        let packet = pool.packet(&[0; 60]).unwrap();
        assert_eq!((vlans_before(&packet, 14), ip_header(packet.data(), 1)), (0, None));
        pool.free(packet);
    }
}
