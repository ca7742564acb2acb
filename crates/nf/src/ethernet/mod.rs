//! Elements for Ethernet: headers, addresses, ARP header checks, CRC, switches, VLAN tags, and the
//! classification of packets by byte patterns.

mod bridge_message;
pub mod check_arp_header;
pub mod check_crc32;
pub mod classifier;
pub mod ensure_ether;
pub mod ether_encap;
pub mod ether_mirror;
pub mod ether_rewrite;
pub mod ether_span_tree;
pub mod ether_switch;
pub mod get_ether_address;
pub mod host_ether_filter;
pub mod listen_ether_switch;
pub mod mark_mac_header;
pub mod set_crc32;
pub mod set_ether_address;
pub mod store_ether_address;
pub mod vlan;

use element::effects::{Action, Case, Filter, Target, wire_field};
use element::{Base, Packet};
use wire::{IntoBytes, LinkType, MacAddr, ethernet};

use crate::editing::{constant, header_at};

/// Prepends an Ethernet header to a packet, and sets the header annotations. Returns false, and leaves the
/// packet unchanged, if there is no headroom.
#[inline]
pub(crate) fn encapsulate(packet: &mut Packet, header: &ethernet::Header) -> bool {
    let mut bytes = [0; ethernet::Header::LEN];
    bytes.copy_from_slice(header.as_bytes());
    let fits = packet.prepend(&bytes);
    if fits {
        packet.set_link_header(ethernet::Header::LEN);
        packet.set_link(LinkType::Ethernet.number());
    }
    fits
}

/// Returns the case of declared effects for packets on input 0 that match `when` and leave to `to` with a
/// header by [`encapsulate`]. `destination` are the actions that set the destination address.
pub(crate) fn encapsulated(
    when: Filter,
    to: Target,
    source: MacAddr,
    ether_type: u16,
    destination: Vec<Action>,
) -> Case {
    let mut actions = vec![
        Action::Strip(-(ethernet::Header::LEN as i32)),
        header_at(Base::Mac, 0),
        header_at(Base::Network, ethernet::Header::LEN),
    ];
    actions.extend(destination);
    actions.push(constant(wire_field::ETHER_SRC, &source.0));
    actions.push(constant(wire_field::ETHER_TYPE, &ether_type.to_be_bytes()));
    Case { actions, ..Case::new(when, to).on(0) }
}

/// Replaces the addresses of the Ethernet header at the start of a packet. Does nothing if the packet is
/// too short.
pub(crate) fn readdress(packet: &mut Packet, destination: MacAddr, source: MacAddr) {
    if let Some(addresses) = packet.header_chunk_mut::<12>(Base::Data) {
        addresses[..6].copy_from_slice(&destination.0);
        addresses[6..].copy_from_slice(&source.0);
    }
}
