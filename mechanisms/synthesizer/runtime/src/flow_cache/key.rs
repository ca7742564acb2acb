//! The key by which the flow cache finds a packet's flow, and the header bits that are equal in all packets
//! with one key.

use classify::Tree;
use classify::filter::{Condition, HeaderLayer, Test};
use element::Packet;
use flow::Ipv4FlowKey;
use wire::{ip_protocol, ipv4};

use program::location::IPV4;
use program::question::{AnswerSum, Question};
use program::{OrderedRules, Program};

/// The minimum number of bytes of a packet with a key, from the IPv4 header on: an IPv4 header without
/// options, and the first 8 bytes of a transport header.
const PLAIN: usize = IPV4 as usize + 8;

/// Returns the key of a packet: addresses, protocol, and the four bytes after the IPv4 header, which are the
/// ports in TCP and UDP. `network` is the offset of the IPv4 header. Packets with IPv4 options, fragments,
/// packets that are too short and packets that are not IPv4 have no key.
#[inline]
pub(super) fn key_of(packet: &Packet, network: usize) -> Option<Ipv4FlowKey> {
    let bytes = packet.data().get(network..)?.first_chunk::<PLAIN>()?;
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let is_plain = bytes[0] == 0x45
        && half(6) & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS) == 0
        && usize::from(half(2)) >= PLAIN;
    is_plain.then(|| Ipv4FlowKey::new((word(12), half(20)), (word(16), half(22)), bytes[9].into()))
}

/// True if the key contains ports (TCP or UDP). Stateful elements then identify the flow by the same fields;
/// for other protocols, they may use other bytes than the key has.
#[inline]
pub(super) fn has_ports(key: &Ipv4FlowKey) -> bool {
    [ip_protocol::TCP, ip_protocol::UDP].map(u32::from).contains(&key.space())
}

/// Returns the IPv4 source and destination address of a packet; `None` if the packet is too short. `network`
/// is the offset of the IPv4 header. Used for packets whose flow stateful elements may identify by other
/// fields than the flow cache does.
pub(super) fn addresses_of(packet: &Packet, network: usize) -> Option<[u8; 8]> {
    packet.data().get(network + 12..)?.first_chunk().copied()
}

/// True if the flow with the key `key` has the source and destination address `addresses`.
pub(super) fn is_between(addresses: &[u8; 8], key: &Ipv4FlowKey) -> bool {
    let [(source, _), (destination, _)] = key.ends();
    let [a, b, c, d, e, f, g, h] = *addresses;
    (source, destination) == (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// Returns a mask of the bits of one header byte that are equal in all packets with one key. `place` is the
/// offset of the byte from the start of the IPv4 header.
pub(super) fn kept_bits(place: i32) -> u8 {
    match place {
        0 | 7 | 9 | 12..24 => 0xff,
        6 => 0x3f,
        _ => 0,
    }
}

/// Returns the offset of the IPv4 header from which keys of flows are read. It is the offset at which the
/// first stateful element on each path ([`program::Step`]) finds the header; in a program without stateful
/// elements, it is the offset that all rule lists ([`program::OrderedRules`]) use. Returns `None` if these
/// offsets differ, or if there is neither a step nor a list. Also returns `None` if an offset is negative or
/// not known, or if the transport header does not follow an IPv4 header without options.
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

/// True if all packets with the same flow key match the same rule of a list, so that the rule can be cached
/// for the flow. `network` is the offset of the IPv4 header.
pub(super) fn is_constant(list: &OrderedRules, network: i32) -> bool {
    let ends_with_packet = match &list.end {
        None => true,
        // The list may see the packet cut to the IPv4 header's total length. All bytes that the rules read
        // are still there: a packet with a shorter total length has no key.
        Some(end) => {
            let length = Question::Bytes { offset: network + 2, length: 2 };
            *end == AnswerSum::of(length).plus_constant(network.into())
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
                HeaderLayer::Mac => return false,
                HeaderLayer::Network => i32::from(*offset),
                HeaderLayer::Transport => IPV4 + i32::from(*offset),
            };
            let bytes = mask.to_be_bytes();
            let counting = bytes.iter().rev().take(usize::from(*length)).rev();
            (first..).zip(counting).all(|(place, mask)| mask & !kept_bits(place) == 0)
        }
    }
}
