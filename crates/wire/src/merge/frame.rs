//! Segments in frames of the usual layout, which nearly all frames have: Ethernet without tags, IPv4 without
//! options, TCP. All fields have fixed offsets, so that two frames are compared as a whole, by masks.

use super::{IPV4, NEGATIVE_ZERO, ON_LAST, TCP, WholeSegment, same_behind};
use crate::checksum::Sum;
use crate::layers::Network;
use crate::{ether_type, ip_protocol, tcp};

/// The number of bytes of a frame that are compared by masks: a whole number of vectors that holds the fixed
/// headers.
pub const WINDOW: usize = 64;

/// The offsets of the IP header, of the TCP header, and of the end of the fixed TCP header.
const L3: usize = 14;
const L4: usize = 34;
const FIXED: usize = 54;

/// The mask of a frame: all bits must be equal in the segments of a large segment, but those that cutting
/// sets.
const UNIFORM: [u8; WINDOW] = {
    let mut mask = [0; WINDOW];
    let mut at = 0;
    while at < FIXED {
        mask[at] = match at {
            0..L3 => 0xff,
            L3..L4 => IPV4[(at - L3) / 4][(at - L3) % 4],
            _ => TCP[(at - L4) / 4][(at - L4) % 4],
        };
        at += 1;
    }
    mask
};

/// The mask of a frame: the bits that must be equal in the frames of one flow, if one of them has the usual
/// layout. They also say that the other frame has this layout, and is not a fragment.
const FLOW: [u8; WINDOW] = {
    let mut mask = [0; WINDOW];
    let mut at = L3 - 2;
    while at < L4 + 4 {
        mask[at] = match at {
            // The type of the Ethernet header; version and header length; protocol; addresses and ports.
            12..=14 | 23 | 26.. => 0xff,
            // The fragment offset, and the flag for more fragments.
            20 => 0x3f,
            21 => 0xff,
            _ => 0,
        };
        at += 1;
    }
    mask
};

/// True if two windows are equal in the bits that `mask` has.
#[inline(always)]
fn same(a: &[u8; WINDOW], b: &[u8; WINDOW], mask: &[u8; WINDOW]) -> bool {
    let words = |bytes: &[u8; WINDOW]| -> [u64; WINDOW / 8] { zerocopy::transmute!(*bytes) };
    let (a, b, mask) = (words(a), words(b), words(mask));
    (0..WINDOW / 8).fold(0, |differs, at| differs | (a[at] ^ b[at]) & mask[at]) == 0
}

#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([window[at], window[at + 1]])
}

/// A frame that may have the usual layout.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The first bytes of the frame. Bytes after the end of `head` have no meaning.
    pub window: &'a [u8; WINDOW],
    /// The bytes of the frame that are available in one piece.
    pub head: &'a [u8],
    /// The length of the whole frame in bytes.
    pub length: usize,
}

/// The data of a TCP segment: its place in the flow and the flags of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentData {
    /// The sequence number.
    pub sequence: u32,
    /// The number of bytes of data.
    pub length: u16,
    /// The TCP flags.
    pub flags: u8,
}

impl Frame<'_> {
    /// True if the frame has the usual layout and is not a fragment.
    #[inline]
    pub fn is_usual(self) -> bool {
        const NO_FRAGMENT: u16 = 0x3fff;
        let window = self.window;
        self.head.len() >= FIXED
            && word(window, 12) == ether_type::IPV4
            && window[L3] == 0x45
            && word(window, 20) & NO_FRAGMENT == 0
            && window[23] == ip_protocol::TCP
    }

    /// True if this frame has the usual layout and belongs to the same flow as `of`, the window of another
    /// frame of the usual layout.
    #[inline(always)]
    pub fn continues(self, of: &[u8; WINDOW]) -> bool {
        self.head.len() >= FIXED && same(self.window, of, &FLOW)
    }

    /// Returns the data of the segment in a frame of the usual layout. `None` if the segment has no data, is
    /// not whole, or if its headers are malformed or not in `head`. Checksums are not checked.
    #[inline(always)]
    pub fn data(self) -> Option<SegmentData> {
        let end = L3 + usize::from(word(self.window, 16));
        let own = usize::from(self.window[46] >> 4) * 4;
        let start = L4 + own;
        if own < tcp::Header::LEN || start >= end || end > self.length || start > self.head.len() {
            return None;
        }
        Some(SegmentData {
            sequence: sequence(self.window),
            length: (end - start) as u16,
            flags: self.window[47],
        })
    }
}

#[inline(always)]
fn sequence(window: &[u8; WINDOW]) -> u32 {
    u32::from(word(window, 38)) << 16 | u32::from(word(window, 40))
}

/// The properties of a run's first segment with which further segments are compared, if its frame has the
/// usual layout.
#[derive(Clone, Copy, Debug)]
pub struct FirstFrame {
    /// The offset of the data in the frame, in bytes.
    start: u16,
    /// The one's complement sum of those words of the IP header that differ from segment to segment, in the
    /// machine's byte order and below 0xffff.
    ip: u16,
    /// The folded sum of the pseudo-header and the TCP header, without the words that differ.
    equal: u16,
    /// The flags that all segments of the run have.
    flags: u8,
}

/// A segment that can follow in a large segment, because its headers are those that cutting would make.
#[derive(Clone, Copy, Debug)]
pub struct NextSegment {
    /// The place in the flow, and the flags.
    pub data: SegmentData,
    /// The IPv4 identification, which is not compared.
    pub id: u16,
    /// The sum of the pseudo-header and the TCP header with its checksum.
    header: Sum,
}

impl FirstFrame {
    /// Returns the properties of `first`, which `frame` contains; `None` if it cannot be merged, or if the
    /// frame does not have the usual layout.
    pub fn of(first: &WholeSegment, frame: Frame<'_>) -> Option<FirstFrame> {
        let is_usual = first.is_plain
            && first.is_tcp
            && first.network == Network::Ipv4
            && (usize::from(first.l3), usize::from(first.l4)) == (L3, L4)
            && frame.is_usual();
        let transport = frame.head.get(L4..first.start.into()).filter(|_| is_usual)?;
        let window = frame.window;
        // The words that differ are left out: sequence number, length of the header and flags, checksum.
        let equal = Sum::new()
            .bytes(&window[26..L4])
            .word(ip_protocol::TCP.into())
            .bytes(&transport[..4])
            .bytes(&transport[8..12])
            .bytes(&transport[14..16])
            .bytes(&transport[18..]);
        let flags = first.flags & !(ON_LAST | tcp::flags::CWR);
        let ip = (differing_ip(window) % 0xffff) as u16;
        Some(FirstFrame { start: first.start, ip, equal: equal.folded(), flags })
    }

    /// Returns the segment in the frame `next` if it has the sequence number `sequence` and can be merged
    /// after the first segment, whose frame is `own`, according to its headers: as
    /// [`WholeSegment::goes_before`] does, but without comparing the identifications. `None` for other
    /// segments, and for those with FIN.
    #[inline(always)]
    pub fn next(&self, own: Frame<'_>, next: Frame<'_>, sequence: u32) -> Option<NextSegment> {
        let (window, start) = (next.window, usize::from(self.start));
        if self::sequence(window) != sequence {
            return None;
        }
        let total = word(window, 16);
        let length = total.wrapping_sub(self.start - L3 as u16);
        let (ip_checksum, checksum, flags) = (word(window, 24), word(window, 50), window[47]);
        let is_next = same(own.window, window, &UNIFORM)
            && L3 + usize::from(total) == next.length
            && next.length > start
            && next.head.len() >= start
            // Both IP headers are equal but for these words, so that the checksum of this one is right, as
            // that of the first is, if the sums are equal.
            && (differing_ip(window) + 0xffff - u32::from(self.ip)).is_multiple_of(0xffff)
            && ip_checksum != NEGATIVE_ZERO
            && checksum != NEGATIVE_ZERO
            && flags & !tcp::flags::PSH == self.flags
            && (start == FIXED || same_behind_to(own.head, next.head, start));
        if !is_next {
            return None;
        }
        let header = Sum::new()
            .word(self.equal)
            .word32(sequence)
            .word(word(window, 46))
            .word(checksum)
            .word(total - 20);
        let data = SegmentData { sequence, length, flags };
        Some(NextSegment { data, id: word(window, 18), header })
    }
}

impl NextSegment {
    /// Returns the sum of the data as [`WholeSegment::trust`] does.
    #[inline]
    pub fn trust(&self) -> Sum {
        self.header.complement(self.data.length.into())
    }

    /// Returns the sum of the data if the checksum is right, otherwise `None`. `pieces` are the bytes of the
    /// whole frame, in which the data starts at offset `start`; its headers are in the first piece.
    #[inline]
    pub fn verify<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>, start: u16) -> Option<Sum> {
        let sum = super::data_sum(pieces, start.into(), self.data.length.into())?;
        self.header.followed_by(sum).is_valid().then_some(sum)
    }
}

/// Returns the sum of those words of an IPv4 header that differ between the segments of a large segment, in
/// the machine's byte order: length, identification, checksum.
#[inline(always)]
fn differing_ip(window: &[u8; WINDOW]) -> u32 {
    let word = |at: usize| u32::from(u16::from_ne_bytes([window[at], window[at + 1]]));
    word(16) + word(18) + word(24)
}

/// True if the TCP options, which end at offset `end`, are equal; false if they are not available.
#[inline(always)]
fn same_behind_to(own: &[u8], other: &[u8], end: usize) -> bool {
    own.get(..end).zip(other.get(..end)).is_some_and(|(own, other)| same_behind(own, other, FIXED))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::Builder;
    use crate::ethernet::MacAddr;

    fn built(sequence: u32, id: u16, flags: u8, options: usize, payload: &[u8]) -> Vec<u8> {
        let [a, b] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
        let builder = Builder::tcp(a, b, flags).sequence(sequence, 7).id(id);
        let builder = builder.options(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8][..4 * options]);
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).build(payload).unwrap()
    }

    /// Returns a window on a frame, and after its end the byte `end`.
    fn window(frame: &[u8], end: u8) -> [u8; WINDOW] {
        std::array::from_fn(|at| frame.get(at).copied().unwrap_or(end))
    }

    fn frame<'a>(window: &'a [u8; WINDOW], head: &'a [u8]) -> Frame<'a> {
        Frame { window, head, length: head.len() }
    }

    proptest! {
        /// Whatever changes in a frame that could follow: the comparison of frames has the result of the
        /// general comparison, and sums are the same.
        #[test]
        fn frames_are_compared_as_segments_are(
            sequence: u32, id: u16, flags in prop_oneof![Just(0x10u8), any::<u8>()], other_flags in prop_oneof![Just(0x10u8), Just(0x18), any::<u8>()],
            options in 0usize..4, length in 1usize..30, shorter in 0usize..3, at in 0usize..70, flip in prop_oneof![Just(0u8), any::<u8>()], fixes: bool,
            cut in prop_oneof![9 => Just(0usize), 1 => 0usize..90],
        ) {
            let payload = vec![7; length];
            let own = built(sequence, id, flags, options, &payload);
            let data = &payload[..length.saturating_sub(shorter).max(1)];
            let mut other = built(sequence.wrapping_add(length as u32), id.wrapping_add(1), other_flags, options, data);
            let end = other.len();
            other[at % end] ^= flip;
            if fixes && let Some(ip) = other.get_mut(14..34) {
                // The checksum of the IP header is right, whatever has changed.
                ip[10..12].fill(0);
                let sum = Sum::new().bytes(ip).checksum();
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            other.truncate(end.saturating_sub(cut));
            let (own_window, other_window) = (window(&own, 0), window(&other, 9));
            let (own_frame, other_frame) = (frame(&own_window, &own), frame(&other_window, &other));
            let segment = WholeSegment::of(&own, 14, own.len());
            let Some(first) = segment.and_then(|segment| FirstFrame::of(&segment, own_frame)) else {
                prop_assert!(!segment.is_some_and(|segment| segment.is_plain));
                return Ok(());
            };
            let segment = segment.unwrap();
            let general = WholeSegment::of(&other, 14, other.len())
                .filter(|next| segment.goes_before(&own, next, &other, next.id.wrapping_sub(segment.id)))
                .filter(|next| next.flags & tcp::flags::FIN == 0);
            let number = self::sequence(&other_window);
            prop_assert!(first.next(own_frame, other_frame, number ^ 1).is_none());
            let next = first.next(own_frame, other_frame, number);
            prop_assert_eq!(next.is_some(), general.is_some());
            if let Some((next, general)) = next.zip(general) {
                let SegmentData { sequence, length, flags } = next.data;
                prop_assert_eq!((sequence, length, flags, next.id), (general.sequence, general.length, general.flags, general.id));
                let (one, two) = other.split_at(56.min(other.len()));
                let sum = next.verify([one, two], segment.start);
                prop_assert_eq!(sum, general.verify([one, two]));
                prop_assert_eq!(next.trust().folded(), general.trust(&other).unwrap().folded());
            }
        }

        /// Frames of the usual layout are recognized, their data is that of the segment, and they continue a
        /// flow if addresses and ports are equal.
        #[test]
        fn flows_continue_in_frames_of_the_usual_layout(
            options in 0usize..4, length in 0usize..30, changes in prop::collection::vec((0usize..90, any::<u8>()), 0..3),
            padding in 0usize..3, cut in prop_oneof![9 => Just(0usize), 1 => 0usize..90],
        ) {
            let own = built(1, 1, 0x10, options, &[1]);
            let mut other = built(2, 2, 0x10, options, &vec![7; length]);
            other.resize(other.len() + padding, 0);
            for (at, value) in changes {
                let end = other.len();
                other[at % end] = value;
            }
            other.truncate(other.len().saturating_sub(cut));
            let (own_window, other_window) = (window(&own, 0), window(&other, 9));
            let other_frame = frame(&other_window, &other);
            let segment = (other.get(12..14) == Some(&[8, 0]) && other.get(14) == Some(&0x45) && other.get(23) == Some(&6))
                .then(|| WholeSegment::of(&other, 14, other.len()))
                .flatten();
            let is_whole_header = other.len() >= FIXED;
            if let Some(segment) = segment.filter(|_| is_whole_header) {
                prop_assert!(other_frame.is_usual());
                prop_assert_eq!(other_frame.continues(&own_window), own[26..38] == other[26..38]);
                let data = SegmentData { sequence: segment.sequence, length: segment.length, flags: segment.flags };
                let has_length = other[16..18] != [0, 0];
                prop_assert_eq!(other_frame.data(), (segment.length > 0 && has_length).then_some(data));
            } else if other_frame.is_usual() {
                prop_assert_eq!(other_frame.data(), None);
            }
        }
    }
}
