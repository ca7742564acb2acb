//! The Address Resolution Protocol (RFC 826): elements that query and answer for Ethernet addresses, and
//! the tables in which addresses are kept while packets wait for them.

pub mod arp_faker;
pub mod arp_querier;
pub mod arp_responder;
pub mod arp_table;
mod desk;
pub(crate) mod entries;
mod shared;
pub(crate) mod table;
pub(crate) mod waiting;

use classify::IntervalSet;
use element::Base;
use element::args::{ArgType, Ipv4Prefix, Scope};
use element::effects::{Filter, Predicate};
use std::net::Ipv4Addr;
use wire::{IntoBytes, MacAddr, arp, ether_type, ethernet};

use crate::editing::bytes;

/// The length in bytes of an Ethernet frame with an ARP request or reply, without padding.
const FRAME: usize = ethernet::Header::LEN + arp::Header::LEN;

/// The Ethernet and IPv4 address of the sender, or of the target, in an ARP message.
#[derive(Clone, Copy)]
struct Party {
    mac: MacAddr,
    ip: Ipv4Addr,
}

/// Returns an Ethernet frame with an ARP message, from the sender to the Ethernet address `to`.
fn frame(operation: u16, to: MacAddr, sender: Party, target: Party) -> [u8; FRAME] {
    let ethernet =
        ethernet::Header { destination: to, source: sender.mac, ether_type: ether_type::ARP.into() };
    let mut arp = arp::Header::new(operation);
    (arp.sender_mac, arp.sender_ip) = (sender.mac, sender.ip.to_bits().into());
    (arp.target_mac, arp.target_ip) = (target.mac, target.ip.to_bits().into());
    let mut frame = [0; FRAME];
    let (link, rest) = frame.split_at_mut(ethernet::Header::LEN);
    link.copy_from_slice(ethernet.as_bytes());
    rest.copy_from_slice(arp.as_bytes());
    frame
}

/// Returns the headers of a frame if it is an ARP message with this operation, for IPv4 on Ethernet;
/// otherwise `None`. As in Click, the two address lengths in the message are not checked.
fn headers(frame: &[u8; FRAME], operation: u16) -> Option<(&ethernet::Header, &arp::Header)> {
    use wire::FromBytes;
    let (link, rest) = frame.split_at(ethernet::Header::LEN);
    let link = ethernet::Header::ref_from_bytes(link).ok()?;
    let header = arp::Header::ref_from_bytes(rest).ok()?;
    let is_meant = link.ether_type.get() == ether_type::ARP
        && header.hardware_type.get() == arp::ETHERNET
        && header.protocol_type.get() == ether_type::IPV4
        && header.operation.get() == operation;
    is_meant.then_some((link, header))
}

/// Returns the filter for packets that [`headers`] accepts with this operation.
fn is_operation(operation: u16) -> Filter {
    let is = |offset, value: u16| Predicate::equals(bytes(Base::Data, offset, 2), value.into());
    Predicate::reaches(Base::Data, 0, FRAME as u16).and([
        is(12, ether_type::ARP),
        is(14, arp::ETHERNET),
        is(16, ether_type::IPV4),
        is(20, operation),
    ])
}

/// Returns the IPv4 addresses that a host on a network can have: all except for 0.0.0.0/8, 127.0.0.0/8,
/// multicast and 255.255.255.255 (RFC 1122, section 3.2.1.3).
fn hosts() -> IntervalSet {
    let ranges =
        [(0x0100_0000, 0x7eff_ffff), (0x8000_0000, 0xdfff_ffff), (0xf000_0000, 0xffff_fffe)].into_iter();
    ranges.fold(IntervalSet::empty(), |all, (low, high)| all.union(&IntervalSet::one(low, high)))
}

/// Parses an address, as a prefix of 32 bits, or a prefix. A name that stands for both (AddressInfo) means
/// the address.
fn prefix_or_address(text: &str, place: &Scope<'_>) -> Result<Ipv4Prefix, String> {
    match Ipv4Addr::parse(text, place) {
        Ok(address) => Ok(Ipv4Prefix { address, mask: Ipv4Addr::BROADCAST }),
        Err(_) => Ipv4Prefix::parse(text, place),
    }
}
