//! Flow keys: finds the TCP or UDP segment in a packet, and identifies its flow by addresses, ports,
//! protocol and VLANs.

use element::frame::{ip_header, vlans_before};
use element::{Base, Packet};
use wire::layers::{FLOW_HEADERS, Network};
use wire::merge::{Frame, WINDOW, WholeSegment};
use wire::{ether_type, tcp};
use zerocopy::FromZeros;

/// The number of bytes from the start of a packet in which merging may change header fields. It reaches the
/// end of TCP's checksum after an IPv6 header and an Ethernet header with two tags. Effects declare these
/// bytes as written, so segments whose transport header starts too late for its checksum to lie within them
/// are not merged.
pub const WRITTEN: u16 = 80;
/// The offset in a TCP header of the end of the checksum, the last field that merging changes.
const CHECKSUM_END: u16 = 18;
/// The offset in bits of protocol and IP version in the last word of a key.
const KIND: u32 = 56;
/// Protocol and IP version in a key, for TCP over IPv4.
const KIND_TCP_V4: u64 = 5;
/// The length of an Ethernet header in bytes, without tags.
const ETHERNET: usize = 14;
/// The offset of the IP header in a frame of the usual layout.
pub(crate) const L3: isize = ETHERNET as isize;
/// The offset in bytes of the type field in an Ethernet header.
const TYPE: usize = 12;

/// The identity of a flow in one direction: two addresses in four words, and one word of ports, VLAN
/// identifiers, protocol and IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
#[repr(transparent)]
pub struct SegmentFlow([u64; 5]);

impl flow::Key for SegmentFlow {
    #[inline(always)]
    fn words(&self) -> &[u64] {
        &self.0
    }
}

impl SegmentFlow {
    /// A key that no flow has: a placeholder for free entries.
    pub const NONE: SegmentFlow = SegmentFlow([0; 5]);

    /// True if two keys are equal. Unlike `==`, makes no function call for the comparison of arrays.
    #[inline]
    pub fn is_same(&self, other: &SegmentFlow) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// True for a TCP flow, false for a UDP flow.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        self.0[4] >> KIND & 1 != 0
    }

    /// Returns an index below `places`, which must be a power of two. The index is a cheap hash of the key,
    /// for small tables of flows.
    #[inline]
    pub fn place(&self, places: usize) -> usize {
        // An odd number whose multiples differ in their upper bits (Knuth, The Art of Computer Programming,
        // 6.4).
        let mixed = self.0.iter().fold(0, |all, word| all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (places - 1)
    }

    /// Returns the key of the flow of a frame of the usual layout ([`Frame::is_usual`]).
    #[inline(always)]
    fn of_usual(window: &[u8; WINDOW]) -> SegmentFlow {
        let words: [[u8; 8]; 2] = [26, 30].map(|at| std::array::from_fn(|byte| window[at + byte]));
        let [addresses, ports] = words.map(u64::from_le_bytes);
        SegmentFlow([addresses, 0, 0, 0, ports >> 32 | KIND_TCP_V4 << KIND])
    }

    /// Returns the key of the flow of `segment`, whose header offsets count from the start of `frame`; `None`
    /// if the addresses or ports are not in `frame`.
    #[inline]
    fn of(frame: &[u8], segment: &WholeSegment, vlans: u32) -> Option<SegmentFlow> {
        let ip = frame.get(segment.l3.into()..)?;
        let word = |at: usize| Some(u64::from_le_bytes(*ip.get(at..)?.first_chunk()?));
        let (version, [a, b, c, d]) = match segment.network {
            Network::Ipv4 => (0, [word(12)?, 0, 0, 0]),
            _ => (1, [word(8)?, word(16)?, word(24)?, word(32)?]),
        };
        let ports = u64::from(u32::from_le_bytes(*frame.get(segment.l4.into()..)?.first_chunk()?));
        // Bit 2 of `kind` is set in the key of each flow, so that no key equals `NONE`; bit 1 encodes the IP
        // version, bit 0 the protocol.
        let kind = KIND_TCP_V4 & !1 | version << 1 | u64::from(segment.is_tcp);
        Some(SegmentFlow([a, b, c, d, ports | u64::from(vlans) << 32 | kind << KIND]))
    }
}

/// Returns the segment and the flow key of a packet; `None` if no TCP segment or UDP datagram is found
/// ([`WholeSegment::of`]), or if its transport header starts so late that 20 bytes of it would reach beyond
/// offset [`FLOW_HEADERS`].
///
/// If the network header annotation is set, the IP header starts there, and the VLAN tags are read from the
/// bytes ahead of it. Otherwise the packet is taken to start with a header of its link type.
#[inline]
pub fn locate(packet: &Packet) -> Option<(WholeSegment, SegmentFlow)> {
    match usual_key(packet).zip(usual_segment(packet, true)) {
        Some((key, segment)) => Some((segment, key)),
        None => locate_any(packet, true),
    }
}

/// Returns a packet as a frame that may have the usual layout; `None` if its annotations say that it has
/// another layout.
#[inline(always)]
pub(crate) fn frame_of(packet: &Packet) -> Option<Frame<'_>> {
    let may_be = packet.link() == 1 && matches!(packet.offset(Base::Network), None | Some(L3));
    let window = packet.slot_bytes(0).filter(|_| may_be)?;
    Some(Frame { window, head: packet.data(), length: packet.len() })
}

/// Returns the key of the flow of a packet, but only for the layout of nearly all packets: TCP over IPv4
/// without IP options, in an Ethernet frame without tags. `None` for all other packets. If it returns a key,
/// [`usual_segment`] may still find no whole segment.
#[inline(always)]
pub(crate) fn usual_key(packet: &Packet) -> Option<SegmentFlow> {
    let frame = frame_of(packet).filter(|frame| frame.is_usual())?;
    Some(SegmentFlow::of_usual(frame.window))
}

/// Returns the segment of a packet for which [`usual_key`] returns a key. If `merges` is false, what only
/// merging needs is not checked.
#[inline(always)]
pub(crate) fn usual_segment(packet: &Packet, merges: bool) -> Option<WholeSegment> {
    WholeSegment::plain(packet.data(), ETHERNET, packet.len(), merges)
}

/// Finds the segment as [`locate`] does, for packets of any layout. If `merges` is false, what only merging
/// needs is not checked.
#[inline(never)]
pub(crate) fn locate_any(packet: &Packet, merges: bool) -> Option<(WholeSegment, SegmentFlow)> {
    let data = packet.data();
    let mut is_inner = false;
    let (l3, vlans) = match packet.offset(Base::Network) {
        Some(offset) => {
            let l3 = usize::try_from(offset).ok()?;
            is_inner = l3 > 0 && !is_outer(packet, data, l3);
            (l3, vlans_before(packet, offset))
        }
        None if is_untagged(packet, data) => (ETHERNET, 0),
        None => ip_header(data, packet.link())?,
    };
    let length = packet.len();
    let mut segment = WholeSegment::plain(data, l3, length, merges)
        .or_else(|| WholeSegment::of_any(data, l3, length, merges))?;
    // The effects declare reads of FLOW_HEADERS bytes only, so segments with longer headers are not read.
    // In practice no link header is so long.
    if usize::from(segment.l4) + tcp::Header::LEN > FLOW_HEADERS.into() {
        return None;
    }
    // `is_plain` allows merging. Merging does not adjust the lengths in the outer headers of a tunnel, and
    // changes no bytes beyond WRITTEN.
    segment.is_plain &= !is_inner && segment.l4 <= WRITTEN - CHECKSUM_END;
    Some((segment, SegmentFlow::of(data, &segment, vlans)?))
}

/// True if the annotated IP header, at offset `l3`, is the header that follows the link header, and not a
/// header inside a tunnel.
#[inline]
fn is_outer(packet: &Packet, data: &[u8], l3: usize) -> bool {
    l3 == ETHERNET && is_untagged(packet, data)
        || ip_header(data, packet.link()).is_some_and(|(found, _)| found == l3)
}

#[inline]
fn is_untagged(packet: &Packet, data: &[u8]) -> bool {
    let Some(&[high, low]) = data.get(TYPE..).and_then(|bytes| bytes.first_chunk()) else { return false };
    packet.link() == 1 && matches!(u16::from_be_bytes([high, low]), ether_type::IPV4 | ether_type::IPV6)
}

#[cfg(test)]
mod tests {
    use packet::Pool;
    use wire::LinkType;
    use wire::build::Builder;
    use wire::ethernet::MacAddr;

    use super::*;

    #[test]
    fn addresses_ports_protocol_and_vlans_tell_flows_apart() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let end = |last: u8, port| ([10, 0, 0, last], port).into();
        let end6 = |last: u16, port| ([0x2001, 0, 0, 0, 0, 0, 0, last], port).into();
        let ethernet = |builder: Builder| builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let tcp = |a, b| ethernet(Builder::tcp(a, b, 0x10));
        let builders = [
            tcp(end(1, 1), end(2, 2)),
            tcp(end(1, 1), end(2, 3)),
            tcp(end(1, 4), end(2, 2)),
            tcp(end(3, 1), end(2, 2)),
            tcp(end(2, 2), end(1, 1)),
            ethernet(Builder::udp(end(1, 1), end(2, 2))),
            tcp(end(1, 1), end(2, 2)).vlan(7),
            tcp(end(1, 1), end(2, 2)).vlan(7).vlan(8),
            tcp(end6(1, 1), end6(2, 2)),
            tcp(end6(1, 1), end6(3, 2)),
        ];
        let mut keys = Vec::new();
        for builder in builders {
            let mut packet = pool.packet(&builder.build(b"data").unwrap()).unwrap();
            let (segment, key) = locate(&packet).unwrap();
            assert_eq!(locate_any(&packet, true), Some((segment, key)));
            assert_eq!(segment.length, 4);
            // With the network header annotation set, the result is the same before and after the link header
            // is stripped.
            packet.set_offset(Base::Mac, Some(0));
            packet.set_offset(Base::Network, Some(segment.l3 as isize));
            for strip in [0, segment.l3 as usize] {
                assert!(packet.strip(strip));
                assert_eq!(locate(&packet).unwrap().1, key);
                assert_eq!(locate(&packet), locate_any(&packet, true));
            }
            pool.free(packet);
            assert!(!keys.contains(&key) && key != SegmentFlow::NONE);
            assert_eq!(key.is_tcp(), segment.is_tcp);
            keys.push(key);
        }
    }

    #[test]
    fn only_what_is_declared_is_written() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let end = |last| ([0x2001, 0, 0, 0, 0, 0, 0, last], 1).into();
        let mut builder = Builder::tcp(end(1), end(2), 0x10).ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        for tags in 0..4 {
            let packet = pool.packet(&builder.build(b"data").unwrap()).unwrap();
            let (segment, _) = locate(&packet).unwrap();
            assert_eq!(segment.is_plain, tags < 3, "{segment:?}");
            assert!(!segment.is_plain || segment.l4 + CHECKSUM_END <= WRITTEN);
            pool.free(packet);
            builder = builder.vlan(tags);
        }
    }

    #[test]
    fn other_packets_have_no_flow() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let (a, b) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let icmp =
            Builder::icmp([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 8, 0, [1, 2]).build(&[0; 20]).unwrap();
        let part = Builder::tcp(a, b, 0x10).fragment(0x2000).build(&[0; 24]).unwrap();
        let mut short = Builder::tcp(a, b, 0x10).build(&[0; 24]).unwrap();
        short.truncate(50);
        for bytes in [icmp, part, short, Vec::new()] {
            let mut packet = pool.packet(&bytes).unwrap();
            packet.set_link(LinkType::RawIp.number());
            assert_eq!(locate(&packet), None);
            pool.free(packet);
        }
    }
}
