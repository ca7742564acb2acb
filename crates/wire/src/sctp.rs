//! The checksum of SCTP, a CRC32c (RFC 9260, section 6.8). Senders can leave its computation to the network
//! card.

use std::ops::Range;

use crate::{Layers, LinkType, ip_protocol};

/// The offset of the checksum in the SCTP common header, in bytes.
pub const CHECKSUM: usize = 8;
const HEADER: usize = 12;

/// Returns the range of bytes of the SCTP packet in a frame of `length` bytes, of which `head` holds the
/// first. `None` if the frame contains no SCTP packet, a truncated header or only a fragment, or if `head`
/// ends before the SCTP header.
pub fn find(head: &[u8], link: LinkType, length: usize) -> Option<Range<usize>> {
    let layers = Layers::locate(head, link);
    let start =
        layers.l4.filter(|_| layers.protocol == Some(ip_protocol::SCTP) && layers.fragment.is_none())?;
    let end = (layers.end + layers.missing).min(length);
    (start + HEADER <= end).then_some(start..end)
}

/// Computes the checksum of an SCTP packet, which is the range `packet` of a frame that is given in pieces.
/// The result has the byte order of the checksum field. The field counts as zero, whatever it contains.
///
/// ```
/// use wire::sctp::checksum;
///
/// assert_eq!(checksum([&[0xff; 4][..], &[0; 32]], 4..36), [0xaa, 0x36, 0x91, 0x8a]);
/// ```
pub fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, packet: Range<usize>) -> [u8; 4] {
    let field = packet.start + CHECKSUM..packet.start + HEADER;
    let (before, behind) = (packet.start..field.start, field.end..packet.end.max(field.end));
    let mut crc = 0;
    let mut at = 0;
    for piece in pieces {
        let end = at + piece.len();
        let part =
            |range: &Range<usize>| &piece[range.start.clamp(at, end) - at..range.end.clamp(at, end) - at];
        crc = crc32c::crc32c_append(crc, part(&before));
        crc = crc32c::crc32c_append(crc, &[0; HEADER - CHECKSUM][..part(&field).len()]);
        crc = crc32c::crc32c_append(crc, part(&behind));
        at = end;
    }
    crc.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bit_by_bit_gives_the_same(
            bytes in vec(any::<u8>(), 12..200), front in 0usize..20, behind in 0usize..20, cuts in vec(0usize..240, 0..4),
        ) {
            let mut register = u32::MAX;
            for (at, byte) in bytes.iter().enumerate() {
                register ^= u32::from(if (CHECKSUM..HEADER).contains(&at) { 0 } else { *byte });
                for _ in 0..8 {
                    register = register >> 1 ^ if register & 1 == 1 { 0x82f6_3b78 } else { 0 };
                }
            }
            let frame = [vec![1; front], bytes.clone(), vec![2; behind]].concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(frame.len())).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([frame.len()]);
            let pieces = [0].into_iter().chain(cuts.iter().copied()).zip(ends).map(|(from, to)| &frame[from..to]);
            prop_assert_eq!(checksum(pieces, front..front + bytes.len()), (!register).to_le_bytes());
        }

        #[test]
        fn no_frame_panics(bytes in vec(any::<u8>(), 0..80), length in 0usize..100) {
            for link in [LinkType::Ethernet, LinkType::RawIp] {
                if let Some(range) = find(&bytes, link, length) {
                    checksum([&bytes[..]], range);
                }
            }
        }
    }
}
