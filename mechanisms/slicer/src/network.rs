//! The IP header of a packet: its offset, and the length of the packet that it states.

use element::{Base, Packet};
use wire::{FromBytes, Layers, LinkType, ether_type, ipv4, ipv6};

/// The length of an Ethernet header in bytes, without tags.
pub(crate) const ETHERNET: usize = 14;

/// Returns the offset of the IP header that follows the link header; `None` if the packet is not IP, or its
/// IP header was stripped. Walks over VLAN tags only, because other headers in between have lengths of their
/// own. Without a link header the offset is 0.
#[inline]
pub(crate) fn network_start(packet: &Packet) -> Option<usize> {
    match packet.offset(Base::Network) {
        Some(0) => return Some(0),
        Some(stripped) if stripped < 0 => return None,
        // An annotation that points beyond the first byte is not relied on: elements that do not parse all
        // VLAN tags set it, too, so there may be no IP header at that offset.
        _ => {}
    }
    let ether_type = packet.data().get(12..).and_then(|bytes| bytes.first_chunk());
    let is_untagged = ether_type.is_some_and(|&[high, low]| {
        matches!(u16::from_be_bytes([high, low]), ether_type::IPV4 | ether_type::IPV6)
    });
    if is_untagged && packet.link() == 1 { Some(ETHERNET) } else { walk(packet) }
}

#[cold]
fn walk(packet: &Packet) -> Option<usize> {
    let layers = Layers::locate(packet.data(), LinkType::from_number(packet.link()));
    let is_ip = matches!(layers.ether_type, Some(ether_type::IPV4 | ether_type::IPV6));
    // The link header may have been stripped by an element that does not set the network header annotation:
    // the packet then is as long as its IP header says.
    let is_bare = || ip_length(packet.data()) == Some(packet.len());
    layers.l3.filter(|_| is_ip).or_else(|| is_bare().then_some(0))
}

/// Returns the length in bytes of the packet, IP header included, that the IP header at the start of `data`
/// states; `None` if there is no complete IP header.
pub(crate) fn ip_length(data: &[u8]) -> Option<usize> {
    match data.first()? >> 4 {
        4 => ipv4::Header::ref_from_prefix(data).ok().map(|(header, _)| header.total_length.get().into()),
        6 => {
            let header = ipv6::Header::ref_from_prefix(data).ok()?.0;
            Some(ipv6::Header::LEN + usize::from(header.payload_length.get()))
        }
        _ => None,
    }
}
