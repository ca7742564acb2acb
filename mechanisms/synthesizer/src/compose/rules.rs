//! The rules of an element that a program evaluates together as a list, and not question by question: their
//! conditions, expressed over the headers of the input packet.

use classify::IntervalSet;
use classify::Tree;
use classify::filter::{Condition, HeaderLayer, Test};
use element::effects::{Field, Filter, Predicate};

use super::packet::{InputExpression, SymbolicPacket, big_endian};

use program::location::ByteLocation;
use program::question::shifted;

/// Returns the offsets, from the start of the input packet, of a packet's network and transport header, to
/// which the rules' conditions will refer. Returns `None` if a header is not marked, or if the headers do not
/// lie in order in the input packet.
pub fn headers(packet: &SymbolicPacket) -> Option<[i32; 2]> {
    let [_, network, transport] = packet.headers;
    let (network, transport) = (network?, transport?);
    (0 <= network && network <= transport).then_some([network, transport])
}

/// Returns a filter as a condition on header bytes of the input packet. `headers` are the offsets of the
/// network and transport header. Returns `None` if the filter tests anything that is no header byte of the
/// input packet.
pub fn condition(filter: &Filter, packet: &SymbolicPacket, headers: [i32; 2]) -> Option<Condition> {
    filter.try_replace(&mut |predicate| match predicate {
        Predicate::In { field, mask, set } => tests(packet, field, *mask, set, headers),
        _ => None,
    })
}

fn tests(
    packet: &SymbolicPacket,
    field: &Field,
    mask: u128,
    set: &IntervalSet,
    headers: [i32; 2],
) -> Option<Condition> {
    let Field::Bytes { length: 1..=4, .. } = field else { return None };
    let Some((place, length)) = packet.whereabouts(field) else {
        // A header that is not marked has no bytes, so the test is false.
        return Some(Tree::Constant(false));
    };
    let bits = 8 * u32::from(length);
    let all = u128::from(u32::MAX) >> (32 - bits);
    match packet.value(place, length) {
        InputExpression::Constant(bytes) => {
            // The field was set to a constant, so the packet has it, and the test is decided.
            Some(Tree::Constant(set.contains(big_endian(&bytes) & mask)))
        }
        InputExpression::Came(ByteLocation::Byte(offset), length, plus) => {
            let (mask, set) = match plus {
                0 => (mask & all, set.clone()),
                _ if mask & all == all => (all, shifted(set, plus, bits)),
                _ => return None,
            };
            let (header, offset) = header_of(offset, headers)?;
            let mask = mask as u32;
            let test = |low: u32, high: u32, outside| {
                Tree::Leaf(Test { header, offset, length, mask, low, high, outside })
            };
            let largest = u128::from(mask);
            let inside: Vec<(u128, u128)> = set
                .intervals()
                .iter()
                .filter(|(low, _)| *low <= largest)
                .map(|&(low, high)| (low, high.min(largest)))
                .collect();
            Some(match inside[..] {
                [] => Tree::Constant(false),
                [(low, high)] => test(low as u32, high as u32, false),
                // If the set has two intervals, and they begin at zero and end at the largest number, the set
                // is all numbers outside of the one interval between them.
                [(0, below), (above, high)] if high == largest => {
                    test(below as u32 + 1, above as u32 - 1, true)
                }
                _ => Tree::Any(
                    inside.iter().map(|&(low, high)| test(low as u32, high as u32, false)).collect(),
                ),
            })
        }
        _ => None,
    }
}

/// Returns the header that contains an offset, and the offset from that header's start; `None` for an offset
/// before the packet, or more than 65535 bytes after the start of the header.
fn header_of(place: i32, [network, transport]: [i32; 2]) -> Option<(HeaderLayer, u16)> {
    let (header, start) = match place {
        _ if place >= transport => (HeaderLayer::Transport, transport),
        _ if place >= network => (HeaderLayer::Network, network),
        _ => (HeaderLayer::Mac, 0),
    };
    Some((header, u16::try_from(place - start).ok()?))
}
