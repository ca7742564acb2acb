//! Where bytes are: places counted from the first byte of the packet as it came in, or from a header whose place
//! depends on the packet.
//!
//! A transport header stands behind an IP header of eleven possible lengths. Telling these cases apart multiplies every
//! rule by eleven. So the bytes from there on are a *region* of their own, with variables of their own. That its bytes
//! are bytes of the frame too does no harm as long as nobody writes through one name and reads through the other:
//! variables that are not tied to each other only make for more packets than there are. Where somebody does
//! ([`Diagrams::overlap_found`]), all is done again with cases told apart.
//!
//! Where only the element knows where a transport header is (behind the extension headers of IPv6), its bytes are a region
//! too, one that may be anywhere ([`anywhere`]).

use super::diagrams::{Diagrams, Term};
use super::word::Word;

/// Places from here on are in regions.
const REGIONS: i32 = 1 << 24;

/// Places of one region, half of them in front of its start.
const SIZE: i32 = 1 << 17;

/// Where an IP header is in an Ethernet frame.
pub const ETHERNET: i32 = 14;

/// Whether a place is in a region, rather than counted from the start of the frame.
pub fn in_region(place: i32) -> bool {
    place >= REGIONS - SIZE / 2
}

/// The region of a place, and the place in it.
pub fn region_of(place: i32) -> Option<(usize, i32)> {
    in_region(place).then(|| {
        let number = (place - REGIONS + SIZE / 2) / SIZE;
        (number as usize, place - start_of(number as usize))
    })
}

/// The first place of a region.
pub fn start_of(region: usize) -> i32 {
    REGIONS + region as i32 * SIZE
}

/// Where a place is in the frame.
pub fn real(d: &Diagrams, place: i32) -> Word {
    match region_of(place) {
        None => Word::constant(d, place.into()),
        Some((region, offset)) => match d.region(region) {
            Some(word) => word.plus(d, &Word::constant(d, offset.into())),
            None => Word::constant(d, place.into()),
        },
    }
}

/// The shortest IPv4 header.
pub const IPV4_HEADER: i32 = 20;

/// Where the region starts that is behind an IPv4 header of the packet that came in.
pub fn behind_ipv4(d: &Diagrams, network: i32) -> i32 {
    let length = Word::from_bits(d, &d.input(network)[4..]).times(d, 4);
    d.region_at(length.plus(d, &Word::constant(d, network.into())), network + IPV4_HEADER)
}

/// Bits of a place that may be any, with a sign: beyond all packets, too.
pub const ANYWHERE_BITS: u32 = 20;

/// A region of which nothing is known but the function that says where it is. For the usual place of a header the
/// function's value is zero.
pub fn anywhere(d: &Diagrams, usual: &Word, term: Term) -> i32 {
    let mut bits = d.weighty(term, ANYWHERE_BITS);
    let sign = Word::from_bits(d, &[bits.remove(0)]).times(d, -(1 << (ANYWHERE_BITS - 1)));
    d.region_anywhere(usual.plus(d, &Word::from_bits(d, &bits)).plus(d, &sign))
}

/// Whether a place is in such a region.
pub fn is_anywhere(d: &Diagrams, place: i32) -> bool {
    region_of(place).is_some_and(|(region, _)| d.is_anywhere(region))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_touch() {
        assert!(!in_region(300_000) && !in_region(-300));
        for region in [0, 1, 5] {
            for offset in [-300, 0, 60_000] {
                assert_eq!(region_of(start_of(region) + offset), Some((region, offset)));
            }
        }
    }
}
