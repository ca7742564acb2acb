//! Neighbour discovery for IPv6 (RFC 4861): elements that solicit and advertise Ethernet addresses. They
//! use the tables and queues of [`crate::arp`].

pub mod ip6_nd_advertiser;
pub mod ip6_nd_solicitor;

use std::net::Ipv6Addr;

use wire::neighbor::{self, Message};
use wire::{FromBytes, IntoBytes, MacAddr, ether_type, ethernet};

/// The length in bytes of an Ethernet frame with a solicitation or advertisement that has one link-layer
/// address option.
const FRAME: usize = ethernet::Header::LEN + neighbor::LEN;

/// Returns the Ethernet header and the neighbour discovery message of a frame; `None` unless it is valid
/// and its ICMPv6 type is `kind`.
fn message(frame: &[u8], kind: u8) -> Option<(&ethernet::Header, Message<'_>)> {
    let (link, packet) = ethernet::Header::ref_from_prefix(frame).ok()?;
    let message = neighbor::parse(packet).filter(|message| message.header.kind == kind)?;
    (link.ether_type.get() == ether_type::IPV6).then_some((link, message))
}

/// Returns an Ethernet frame with a neighbour discovery message. `addresses` are source, destination and
/// target, and `option` is a link-layer address option: see [`neighbor::build`].
fn frame(
    [from, to]: [MacAddr; 2],
    kind: u8,
    flags: u32,
    addresses: [Ipv6Addr; 3],
    option: (u8, MacAddr),
) -> [u8; FRAME] {
    let ethernet = ethernet::Header { destination: to, source: from, ether_type: ether_type::IPV6.into() };
    let mut frame = [0; FRAME];
    let (link, rest) = frame.split_at_mut(ethernet::Header::LEN);
    link.copy_from_slice(ethernet.as_bytes());
    rest.copy_from_slice(&neighbor::build(kind, flags, addresses, option));
    frame
}
