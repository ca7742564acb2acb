//! The condition for packets of flows whose answers are cached, and the properties common to all packets of
//! such a flow.

use classify::filter::{Condition, Header, Test, Tree};
use element::Packet;
use flow::EndsKey;
use wire::{ip_protocol, ipv4};

use program::location::IPV4;
use program::question::{Question, Sum};
use program::{List, Program};

/// The length of the headers that every packet with a key has: an IPv4 header without options, and the
/// first 8 bytes of a transport header.
const PLAIN: usize = IPV4 as usize + 8;

/// Returns the key of a packet: addresses, protocol, and the four bytes after the IPv4 header, which are
/// usually the ports. Packets with IPv4 options and fragments have no key.
#[inline]
pub(super) fn key_of(packet: &Packet, network: usize) -> Option<EndsKey> {
    let bytes = packet.data().get(network..)?.first_chunk::<PLAIN>()?;
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let is_plain = bytes[0] == 0x45
        && half(6) & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS) == 0
        && usize::from(half(2)) >= PLAIN;
    is_plain.then(|| EndsKey::new((word(12), half(20)), (word(16), half(22)), bytes[9].into()))
}

/// True if stateful elements may know the flow by this key.
#[inline]
pub(super) fn has_ports(key: &EndsKey) -> bool {
    [ip_protocol::TCP, ip_protocol::UDP].map(u32::from).contains(&key.space())
}

/// Returns the IPv4 addresses of a packet whose flow stateful elements may know by another key.
pub(super) fn addresses_of(packet: &Packet, network: usize) -> Option<[u8; 8]> {
    packet.data().get(network + 12..)?.first_chunk().copied()
}

/// True if a flow has these source and destination addresses.
pub(super) fn is_between(addresses: &[u8; 8], key: &EndsKey) -> bool {
    let [(source, _), (destination, _)] = key.ends();
    let [a, b, c, d, e, f, g, h] = *addresses;
    (source, destination) == (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// Returns a mask of the bits that are equal in all packets of a flow, for a byte at an offset from the
/// IPv4 header.
pub(super) fn kept_bits(place: i32) -> u8 {
    match place {
        0 | 7 | 9 | 12..24 => 0xff,
        6 => 0x3f,
        _ => 0,
    }
}

/// Returns the offset of the IPv4 header of packets with keys, if all first steps agree on it, or if all
/// lists agree on it in a program without steps.
pub(super) fn network_of(program: &Program) -> Option<i32> {
    let of_steps = program
        .steps
        .iter()
        .filter(|step| step.after.is_none())
        .map(|step| [1, 2].map(|header| step.before.headers[header].unwrap_or(program.layout[header])));
    let of_lists =
        program.lists.iter().filter(|_| program.steps.is_empty()).map(|list| list.headers.map(Some));
    let mut firsts = of_steps.chain(of_lists).map(|headers| match headers {
        [Some(network), Some(transport)] if network >= 0 && transport == network + IPV4 => Some(network),
        _ => None,
    });
    let first = firsts.next()??;
    firsts.all(|other| other == Some(first)).then_some(first)
}

/// True if all packets of a flow match the same rule of a list.
pub(super) fn is_constant(list: &List, network: i32) -> bool {
    let ends_with_packet = match &list.end {
        None => true,
        // An end that follows from the IPv4 header's total length is after all bytes that the rules read: a
        // shorter packet has no key.
        Some(end) => {
            let length = Question::Bytes { offset: network + 2, length: 2 };
            *end == Sum::of(length).plus_constant(network.into())
        }
    };
    let laid_out = list.headers == [network, network + IPV4];
    laid_out && ends_with_packet && list.rules.iter().all(|rule| depends_on_flow(&rule.condition))
}

fn depends_on_flow(condition: &Condition) -> bool {
    match condition {
        Tree::Constant(_) => true,
        Tree::Not(inner) => depends_on_flow(inner),
        Tree::All(parts) | Tree::Any(parts) => parts.iter().all(depends_on_flow),
        Tree::Choose(parts) => parts.iter().all(depends_on_flow),
        Tree::Leaf(Test { header, offset, length, mask, .. }) => {
            let first = match header {
                Header::Mac => return false,
                Header::Network => i32::from(*offset),
                Header::Transport => IPV4 + i32::from(*offset),
            };
            let bytes = mask.to_be_bytes();
            let counting = bytes.iter().rev().take(usize::from(*length)).rev();
            (first..).zip(counting).all(|(place, mask)| mask & !kept_bits(place) == 0)
        }
    }
}
