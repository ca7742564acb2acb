//! Offsets of bytes in symbolic packets. An offset is counted either from the first byte of the input
//! packet (the frame), or from a header whose offset depends on the packet.
//!
//! A transport header follows an IP header of eleven possible lengths. A fork for each length would
//! multiply every rule by eleven. Therefore the bytes from the transport header on are a *byte region* with
//! variables of its own. Each byte of a region also has an offset in the frame. The model treats the two as
//! independent, which is sound as long as no element writes a byte by one offset and reads it by the other:
//! independent variables only describe more packets than there are. If an element does
//! ([`Diagrams::overlap_found`]), the analysis runs again with one fork per header length.
//!
//! If only the element knows the offset of a transport header (after the extension headers of IPv6), the
//! header's bytes are a byte region too, which may start anywhere ([`anywhere`]).

use super::diagrams::{Diagrams, Term};
use super::word::Word;

/// The number that represents the first byte of byte region 0. The numbers of byte regions begin half of
/// [`SIZE`] before this number; lower numbers are offsets in the frame.
const REGIONS: i32 = 1 << 24;

/// The number of offsets that each byte region has; half of them are negative, for bytes before the
/// region's start.
const SIZE: i32 = 1 << 17;

/// The lowest number that represents a byte of a byte region.
pub const FIRST_IN_REGIONS: i32 = REGIONS - SIZE / 2;

/// The offset of an IP header in an Ethernet frame.
pub const ETHERNET: i32 = 14;

/// True if `place` is in a byte region, false if it is an offset in the frame.
pub fn in_byte_region(place: i32) -> bool {
    place >= FIRST_IN_REGIONS
}

/// Returns the number of the byte region that `place` is in, and the offset in bytes from the region's
/// start, which may be negative. `None` if `place` is an offset in the frame.
pub fn byte_region_of(place: i32) -> Option<(usize, i32)> {
    in_byte_region(place).then(|| {
        let number = (place - REGIONS + SIZE / 2) / SIZE;
        (number as usize, place - start_of(number as usize))
    })
}

/// Returns the number that represents the first byte of a byte region.
pub fn start_of(region: usize) -> i32 {
    REGIONS + region as i32 * SIZE
}

/// Returns the offset in the frame of the byte `place`. For a byte region it depends on the packet.
pub fn real(d: &Diagrams, place: i32) -> Word {
    match byte_region_of(place) {
        None => Word::constant(d, place.into()),
        Some((region, offset)) => match d.region(region).map(Word::from_all_bits) {
            Some(word) => word.plus(d, &Word::constant(d, offset.into())),
            None => Word::constant(d, place.into()),
        },
    }
}

/// The length of the shortest IPv4 header in bytes.
pub const IPV4_HEADER: i32 = 20;

/// Returns the number that represents the first byte of the byte region that directly follows the IPv4 header
/// at offset `network` of the input packet. The header's length field decides where the region starts.
pub fn behind_ipv4(d: &Diagrams, network: i32) -> i32 {
    let length = Word::from_bits(d, &d.input(network)[4..]).times(d, 4);
    region_at(d, &length.plus(d, &Word::constant(d, network.into())), network + IPV4_HEADER)
}

/// Returns the number that represents the first byte of the byte region that starts at `start` in the frame,
/// after an IP header. `least` is the lowest value of `start` in packets that have the region.
pub fn region_at(d: &Diagrams, start: &Word, least: i32) -> i32 {
    start_of(d.region_at(start.bits().to_vec(), least))
}

/// The number of bits, including the sign, of the distance between a header's usual offset and its actual
/// offset. It suffices for offsets beyond the end of any packet.
pub const ANYWHERE_BITS: u32 = 20;

/// Returns the number that represents the first byte of a byte region whose offset in the frame is `usual`
/// plus the value of the uninterpreted function `term`, which may be negative.
pub fn anywhere(d: &Diagrams, usual: &Word, term: Term) -> i32 {
    let mut bits = d.length_bits(term, ANYWHERE_BITS);
    let sign = Word::from_bits(d, &[bits.remove(0)]).times(d, -(1 << (ANYWHERE_BITS - 1)));
    let start = usual.plus(d, &Word::from_bits(d, &bits)).plus(d, &sign);
    start_of(d.region_anywhere(start.bits().to_vec()))
}

/// True if `place` is in a byte region that may start at any offset of the frame.
pub fn is_anywhere(d: &Diagrams, place: i32) -> bool {
    byte_region_of(place).is_some_and(|(region, _)| d.is_anywhere(region))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_touch() {
        assert!(!in_byte_region(300_000) && !in_byte_region(-300));
        for region in [0, 1, 5] {
            for offset in [-300, 0, 60_000] {
                assert_eq!(byte_region_of(start_of(region) + offset), Some((region, offset)));
            }
        }
    }
}
