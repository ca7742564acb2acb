//! Merging of segments into a large segment, without loss: if the large segment is cut again
//! ([`crate::offload::Segments`]), the result is the original segments, byte for byte.
//!
//! So the headers of the segments must be equal, except in the fields that cutting sets: lengths,
//! identification, sequence number, checksums, PSH and FIN on the last segment, CWR on the first. IPv6
//! extension headers must be equal. Segments with IP options, with padding after the packet, or with wrong
//! checksums are not merged, because cutting does not restore these.

mod frame;

use zerocopy::{Immutable, KnownLayout, Unaligned};

use crate::checksum::{self, PseudoHeader, Sum};
use crate::ipv6::FragmentHeader;
use crate::layers::Network;
use crate::{FromBytes, IntoBytes, ip_protocol, ipv4, ipv6, offload, tcp, udp};

pub use frame::{FirstFrame, Frame, NextSegment, SegmentData, WINDOW};

/// The TCP flags that segments may have if they are to be merged.
const PLAIN: u8 = tcp::flags::ACK | tcp::flags::ECE | ON_LAST | tcp::flags::CWR;
/// The TCP flags among [`PLAIN`] that cutting leaves on the last segment only.
const ON_LAST: u8 = tcp::flags::PSH | tcp::flags::FIN;
/// The checksum 0xffff, a zero in one's complement. It is as valid as 0, but cutting writes a computed zero
/// as 0 for IPv4 and TCP, so that 0xffff would not be restored. For UDP, cutting writes a computed zero as
/// 0xffff.
const NEGATIVE_ZERO: u16 = 0xffff;

/// The mask for a header word of 32 bits of which all bits must be equal. Masks have ones for the bits that
/// are compared; [`FIRST_HALF`] and [`LAST_HALF`] have the first or the last two bytes only.
const ALL: [u8; 4] = [0xff; 4];
const FIRST_HALF: [u8; 4] = [0xff, 0xff, 0, 0];
const LAST_HALF: [u8; 4] = [0, 0, 0xff, 0xff];

/// The mask of an IPv4 header, word by word: all bits must be equal but the length, the identification and
/// the checksum.
const IPV4: [[u8; 4]; 5] = {
    let mut words = [ALL; 5];
    (words[0], words[1], words[2]) = (FIRST_HALF, LAST_HALF, FIRST_HALF);
    words
};
/// The mask of an IPv6 header: all bits must be equal but the payload length.
const IPV6: [[u8; 4]; 10] = {
    let mut words = [ALL; 10];
    words[1] = LAST_HALF;
    words
};
/// The mask of a TCP header: all bits must be equal but the sequence number, the flags and the checksum.
const TCP: [[u8; 4]; 5] = {
    let mut words = [ALL; 5];
    (words[1], words[3], words[4]) = ([0; 4], [0xff, 0, 0xff, 0xff], LAST_HALF);
    words
};

/// The mask of the part of a UDP header that must be equal: the ports.
const PORTS: [[u8; 4]; 1] = [ALL];

/// Returns the masks of two headers as one mask. `C` must be `A + B`.
const fn joined<const A: usize, const B: usize, const C: usize>(
    first: [[u8; 4]; A],
    second: [[u8; 4]; B],
) -> [[u8; 4]; C] {
    let mut words = [ALL; C];
    let mut at = 0;
    while at < C {
        words[at] = if at < A { first[at] } else { second[at - A] };
        at += 1;
    }
    words
}

/// True if the first `N` words of both slices are equal in the bits that `mask` has; false if a slice is
/// shorter.
#[inline(always)]
fn same<const N: usize>(a: &[u8], b: &[u8], mask: &[[u8; 4]; N]) -> bool {
    let (Some(a), Some(b)) =
        (a.as_chunks::<4>().0.first_chunk::<N>(), b.as_chunks::<4>().0.first_chunk::<N>())
    else {
        return false;
    };
    let word = |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes);
    let words = a.iter().zip(b).zip(mask);
    words.fold(0, |differs, ((a, b), mask)| differs | (word(a) ^ word(b)) & word(mask)) == 0
}

/// True if both slices are equal from offset `place` on; false if one of them is shorter than `place`.
#[inline(always)]
fn same_behind(a: &[u8], b: &[u8], place: usize) -> bool {
    a.get(place..).zip(b.get(place..)).is_some_and(|(a, b)| equal(a, b))
}

/// True if both slices are equal. Slices of 8 to 16 bytes are compared in place, as two words each, which
/// is faster than calling `memcmp`.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    let ends = |bytes: &[u8]| {
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        (bytes.len() <= 16).then_some((word(bytes.first_chunk()?), word(bytes.last_chunk()?)))
    };
    match (ends(a), ends(b)) {
        (Some(a_ends), Some(b_ends)) => a.len() == b.len() && a_ends == b_ends,
        _ => a.len() == b.len() && (a.is_empty() || a == b),
    }
}

/// The transport protocol after IPv6 extension headers, and the properties of these headers that merging
/// needs.
struct AfterExtensions {
    protocol: u8,
    /// The total length of the extension headers in bytes.
    length: usize,
    /// True if segments with these extension headers can be merged.
    is_plain: bool,
}

/// Reads IPv6 extension headers. Returns `None` if one of them is unreadable, or if the transport header
/// after it cannot be found or checked (a fragment, AH, mobility). Also returns `None` for a routing header
/// with segments left, because it changes the destination in the checksum.
fn after_extensions(next_header: u8, bytes: &[u8]) -> Option<AfterExtensions> {
    let mut behind = AfterExtensions { protocol: next_header, length: 0, is_plain: true };
    for extension in ipv6::extensions(next_header, bytes) {
        let extension = extension.ok()?;
        match extension.kind {
            ip_protocol::HOP_BY_HOP => {}
            ip_protocol::ROUTING if extension.bytes.get(SEGMENTS_LEFT) == Some(&0) => {}
            // A home address in this header may replace the source in the checksum (RFC 6275, section 6.3).
            ip_protocol::DESTINATION => behind.is_plain = false,
            // The fragment header holds the whole packet. Cutting would give all segments its
            // identification, so that they would look like fragments of one datagram.
            ip_protocol::FRAGMENT if extension.fragment().is_some_and(FragmentHeader::is_atomic) => {
                behind.is_plain = false;
            }
            _ => return None,
        }
        behind.protocol = extension.next_header;
        behind.length += extension.bytes.len();
    }
    Some(behind)
}

/// The offset in a routing header of the byte that says how many segments are left (RFC 8200, section 4.4).
const SEGMENTS_LEFT: usize = 3;

/// Returns the sum of the `length` bytes from offset `start` on of a packet in pieces; `None` if the first
/// piece ends before `start`.
#[inline]
fn data_sum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, start: usize, length: usize) -> Option<Sum> {
    let mut pieces = pieces.into_iter();
    let first = pieces.next()?.get(start..)?;
    let (mut left, mut sum) = (length, Sum::new());
    for piece in std::iter::once(first).chain(pieces) {
        let part = piece.get(..left).unwrap_or(piece);
        sum = sum.bytes(part);
        left -= part.len();
    }
    Some(sum)
}

/// The headers of nearly all packets: IPv4 without options, and TCP.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Plain {
    ip: ipv4::Header,
    tcp: tcp::Header,
}

/// The fields of an IPv4 or IPv6 header that merging needs.
struct Ip {
    network: Network,
    l3: usize,
    l4: usize,
    end: usize,
    is_plain: bool,
    id: u16,
}

impl Ip {
    /// Reads an IPv4 header of `own` bytes (options included) at offset `l3` of a packet of `length` bytes.
    /// `None` for fragments and wrong lengths. The checksum is checked if `merges` is true.
    #[inline(always)]
    fn v4(header: &ipv4::Header, own: usize, l3: usize, length: usize, merges: bool) -> Option<Ip> {
        // A total length of 0 comes from a sender that leaves segmentation to a device; the packet then
        // ends with the frame.
        let said = usize::from(header.total_length.get());
        let whole = if said == 0 { length.checked_sub(l3)? } else { said };
        if header.is_fragment() || own < ipv4::Header::LEN || whole < own {
            return None;
        }
        let end = l3 + whole;
        let is_plain = merges
            && own == ipv4::Header::LEN
            && end == length
            && said > 0
            && header.checksum.get() != NEGATIVE_ZERO
            && checksum::ipv4_plain_valid(header);
        Some(Ip { network: Network::Ipv4, l3, l4: l3 + own, end, is_plain, id: header.id.get() })
    }

    /// Returns the segment with this IP and TCP header, in a packet of `length` bytes, of which the first
    /// `head` are available. `None` if the data offset is below 5, and as for [`segment`](Self::segment).
    #[inline(always)]
    fn tcp(mut self, header: &tcp::Header, head: usize, length: usize) -> Option<WholeSegment> {
        let own = header.header_len();
        if own < tcp::Header::LEN {
            return None;
        }
        self.is_plain &= header.flags & !PLAIN == 0 && header.checksum.get() != NEGATIVE_ZERO;
        let segment = self.segment(own, head, length)?;
        Some(WholeSegment { is_tcp: true, sequence: header.sequence.get(), flags: header.flags, ..segment })
    }

    /// Returns the datagram with this IP and UDP header, in a packet of `length` bytes, of which the first
    /// `head` are available. `None` as for [`segment`](Self::segment).
    #[inline(always)]
    fn udp(mut self, header: &udp::Header, head: usize, length: usize) -> Option<WholeSegment> {
        let is_whole = self.l4 + usize::from(header.length.get()) == self.end;
        self.is_plain &= is_whole && header.checksum.get() != 0;
        self.segment(udp::Header::LEN, head, length)
    }

    /// Returns the segment with a transport header of `own` bytes in a packet of `length` bytes, of which the
    /// first `head` are available. `None` if the headers are not available or longer than the IP packet, if
    /// the payload does not end inside the packet, or if an offset or length is above 65,535.
    #[inline(always)]
    fn segment(self, own: usize, head: usize, length: usize) -> Option<WholeSegment> {
        let Ip { network, l3, l4, end, is_plain, id } = self;
        let (start, most) = (l4 + own, usize::from(u16::MAX));
        if start > end || end > length || start > head || start > most || end - start > most {
            return None;
        }
        Some(WholeSegment {
            network,
            is_tcp: false,
            is_plain: is_plain && end > start,
            l3: l3 as u16,
            l4: l4 as u16,
            start: start as u16,
            length: (end - start) as u16,
            sequence: 0,
            flags: 0,
            id,
        })
    }
}

/// A TCP segment or UDP datagram that is whole: its packet contains all bytes that its IP length field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSegment {
    /// The IP version: [`Network::Ipv4`] or [`Network::Ipv6`].
    pub network: Network,
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
    /// True if the segment has data, and its IP and transport headers allow that it is merged with others.
    /// The checksum over the data is not checked.
    pub is_plain: bool,
    /// The offset of the IP header in the packet, in bytes.
    pub l3: u16,
    /// The offset of the transport header in the packet, in bytes.
    pub l4: u16,
    /// The offset of the data (the payload of TCP or UDP) in the packet, in bytes.
    pub start: u16,
    /// The number of bytes of data, without link padding.
    pub length: u16,
    /// The TCP sequence number; 0 for UDP.
    pub sequence: u32,
    /// The TCP flags; 0 for UDP.
    pub flags: u8,
    /// The IPv4 identification; 0 for IPv6.
    pub id: u16,
}

impl WholeSegment {
    /// Parses a packet of `length` bytes, of which `head` holds the first, and whose IP header starts at
    /// offset `l3`.
    ///
    /// Returns `None` if the packet is neither TCP nor UDP, is a fragment, or is shorter than its IP length
    /// field says. Also if a header is malformed or not in `head`, or the packet is too long for the fields
    /// of 16 bits. Four kinds of IPv6 extension headers may precede the transport header: hop-by-hop options,
    /// destination options, a routing header without segments left, and a fragment header that holds the
    /// whole packet.
    #[inline]
    pub fn of(head: &[u8], l3: usize, length: usize) -> Option<WholeSegment> {
        WholeSegment::plain(head, l3, length, true).or_else(|| WholeSegment::of_any(head, l3, length, true))
    }

    /// Parses a packet as [`of`](Self::of) does, but only TCP over IPv4 without IP options; `None` for other
    /// packets. Nearly all packets have this format: both headers have fixed offsets, so that a single length
    /// check is enough. If `merges` is false, what only merging needs is not checked, and
    /// [`is_plain`](Self::is_plain) is false.
    #[inline(always)]
    pub fn plain(head: &[u8], l3: usize, length: usize, merges: bool) -> Option<WholeSegment> {
        let (Plain { ip, tcp }, _) = Plain::ref_from_prefix(head.get(l3..)?).ok()?;
        if (ip.version_ihl, ip.protocol) != (0x45, ip_protocol::TCP) {
            return None;
        }
        Ip::v4(ip, ipv4::Header::LEN, l3, length, merges)?.tcp(tcp, head.len(), length)
    }

    /// Parses a packet of any layout, as [`plain`](Self::plain) does for the usual one.
    #[inline(never)]
    pub fn of_any(head: &[u8], l3: usize, length: usize, merges: bool) -> Option<WholeSegment> {
        let bytes = head.get(l3..)?;
        let (ip, protocol) = match bytes.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::ref_from_prefix(bytes).ok()?;
                (Ip::v4(header, header.header_len(), l3, length, merges)?, header.protocol)
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(bytes).ok()?;
                let AfterExtensions { protocol, length: options, is_plain } =
                    after_extensions(header.next_header, rest)?;
                let fixed = l3 + ipv6::Header::LEN;
                let end = fixed + usize::from(header.payload_length.get());
                // A hop-by-hop header with the length of a jumbogram would be dropped by cutting, so that
                // such a packet is not merged.
                let is_plain = merges && is_plain && end == length && offload::jumbo(bytes) == 0;
                (Ip { network: Network::Ipv6, l3, l4: fixed + options, end, is_plain, id: 0 }, protocol)
            }
            _ => return None,
        };
        let transport = head.get(ip.l4..)?;
        match protocol {
            ip_protocol::TCP => ip.tcp(tcp::Header::ref_from_prefix(transport).ok()?.0, head.len(), length),
            ip_protocol::UDP => ip.udp(udp::Header::ref_from_prefix(transport).ok()?.0, head.len(), length),
            _ => None,
        }
    }

    /// Returns the number of sequence numbers that the TCP segment takes: one for each byte of data, one
    /// for SYN and one for FIN.
    #[inline]
    pub fn sequence_length(&self) -> u32 {
        let has = |flag: u8| u32::from(self.flags & flag != 0);
        u32::from(self.length) + has(tcp::flags::SYN) + has(tcp::flags::FIN)
    }

    /// True if the segment has a checksum. Only UDP datagrams can have none (a checksum field of 0).
    /// `headers` holds the packet from its start to the data.
    #[inline]
    pub fn has_checksum(&self, headers: &[u8]) -> bool {
        self.is_tcp || headers.get(usize::from(self.l4) + 6..usize::from(self.l4) + 8) != Some(&[0, 0])
    }

    /// Checks the transport checksum of a packet, given in pieces of which the first contains all headers.
    /// Returns the sum of the data, which [`enlarge`](Self::enlarge) needs; `None` if the checksum is wrong
    /// or the first piece is too short.
    #[inline]
    pub fn verify<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Sum> {
        let mut pieces = pieces.into_iter().peekable();
        let header = self.header_sum(pieces.peek()?)?;
        let sum = data_sum(pieces, self.start.into(), self.length.into())?;
        header.followed_by(sum).is_valid().then_some(sum)
    }

    /// Returns the sum of the data as [`verify`](Self::verify) does, but computes it from the headers alone.
    /// The checksum must be known to be right, for example because the network card has checked it. `None` if
    /// `headers` are too short.
    #[inline]
    pub fn trust(&self, headers: &[u8]) -> Option<Sum> {
        Some(self.header_sum(headers)?.complement(self.length.into()))
    }

    /// Returns the sum of the pseudo-header and the transport header, with its checksum field.
    #[inline]
    fn header_sum(&self, headers: &[u8]) -> Option<Sum> {
        let transport = headers.get(self.l4.into()..self.start.into())?;
        let length = transport.len() + usize::from(self.length);
        let protocol = if self.is_tcp { ip_protocol::TCP } else { ip_protocol::UDP };
        Some(self.pseudo_header(headers)?.sum(protocol, length).bytes(transport))
    }

    fn pseudo_header(&self, headers: &[u8]) -> Option<PseudoHeader> {
        PseudoHeader::of(headers.get(self.l3.into()..self.l4.into())?)
    }

    /// Returns the bytes of the packet before the IP header, and the bytes from the IP header to the data.
    /// `None` if `bytes` do not contain all headers.
    #[inline]
    fn headers<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        bytes.get(..self.start.into())?.split_at_checked(self.l3.into())
    }

    /// True if segment `next` can be merged after this segment: the headers `other` of `next` are those that
    /// cutting would make from the headers `own` of this segment. Sequence number, length, transport checksum
    /// and data are not compared, and PSH and FIN may differ.
    ///
    /// `id_ahead` is the expected difference between their IPv4 identifications: the position of `next` in
    /// the large segment, or 0 if all its segments have the same identification.
    #[inline]
    pub fn goes_before(&self, own: &[u8], next: &WholeSegment, other: &[u8], id_ahead: u16) -> bool {
        if (next.l3, next.l4, next.start) != (self.l3, self.l4, self.start)
            || (next.network, next.is_tcp) != (self.network, self.is_tcp)
            || !(self.is_plain && next.is_plain)
        {
            return false;
        }
        let (Some((own_link, own)), Some((other_link, other))) = (self.headers(own), self.headers(other))
        else {
            return false;
        };
        let passing = ON_LAST | tcp::flags::CWR;
        let network = usize::from(self.l4 - self.l3);
        let is_same = match (self.network, self.is_tcp) {
            (Network::Ipv6, _) if network > ipv6::Header::LEN => self.same_behind_options(own, other),
            (Network::Ipv4, true) => same(own, other, &const { joined::<5, 5, 10>(IPV4, TCP) }),
            (Network::Ipv4, false) => same(own, other, &const { joined::<5, 1, 6>(IPV4, PORTS) }),
            (_, true) => same(own, other, &const { joined::<10, 5, 15>(IPV6, TCP) }),
            (_, false) => same(own, other, &const { joined::<10, 1, 11>(IPV6, PORTS) }),
        };
        // `is_same` covers the fixed headers and IPv6 extension headers. IPv4 packets with options are not
        // merged, so that only TCP options are left to be compared.
        let options = network + tcp::Header::LEN;
        is_same
            && equal(own_link, other_link)
            && (self.network != Network::Ipv4 || next.id == self.id.wrapping_add(id_ahead))
            && (self.flags ^ next.flags) & !passing == 0
            && next.flags & tcp::flags::CWR == 0
            && (!self.is_tcp || same_behind(own, other, options))
    }

    /// True if IPv6 headers with extension headers, and the fixed transport headers after them, are equal
    /// except in the fields that cutting sets.
    #[inline(never)]
    fn same_behind_options(&self, own: &[u8], other: &[u8]) -> bool {
        let at = usize::from(self.l4 - self.l3);
        let (Some((own_ip, own)), Some((other_ip, other))) =
            (own.split_at_checked(at), other.split_at_checked(at))
        else {
            return false;
        };
        same(own_ip, other_ip, &IPV6)
            && same_behind(own_ip, other_ip, ipv6::Header::LEN)
            && if self.is_tcp { same(own, other, &TCP) } else { same(own, other, &PORTS) }
    }

    /// True if no other segment may follow this one in a large segment, because it has PSH or FIN.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.is_last_of(self.flags)
    }

    /// True if no other segment may follow a segment with these flags, because it is TCP and they include PSH
    /// or FIN. The flags are those of any segment of the large segment that starts with `self`.
    #[inline]
    pub fn is_last_of(&self, flags: u8) -> bool {
        self.is_tcp && flags & ON_LAST != 0
    }

    /// Changes the headers of this segment, the first, to those of a large segment with `length` bytes of
    /// data. `last` are the TCP flags of the last segment, whose PSH and FIN are added. Nothing changes if
    /// `headers` is too short.
    ///
    /// `data` is the sum of all data, from which the checksum is computed. If it is `None`, the checksum
    /// field gets the sum of the pseudo-header only, and a device completes it.
    pub fn enlarge(&self, headers: &mut [u8], length: usize, last: u8, data: Option<Sum>) {
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        let Some((ip, transport)) =
            headers.get_mut(l3..self.start.into()).and_then(|ip| ip.split_at_mut_checked(l4 - l3))
        else {
            return;
        };
        let whole = transport.len() + length;
        if let (Network::Ipv4, Ok((header, _))) = (self.network, ipv4::Header::mut_from_prefix(ip)) {
            header.total_length.set((l4 - l3 + whole) as u16);
            checksum::fill_ipv4_plain(header);
        } else if let Ok((header, _)) = ipv6::Header::mut_from_prefix(ip) {
            header.payload_length.set((l4 - l3 - ipv6::Header::LEN + whole) as u16);
        }
        if self.is_tcp {
            if let Ok((header, _)) = tcp::Header::mut_from_prefix(transport) {
                header.flags |= last & ON_LAST;
                header.checksum.set(0);
            }
        } else if let Ok((header, _)) = udp::Header::mut_from_prefix(transport) {
            header.length.set(whole as u16);
            header.checksum.set(0);
        }
        let (protocol, field) = if self.is_tcp { (ip_protocol::TCP, 16) } else { (ip_protocol::UDP, 6) };
        let Some(pseudo) = self.pseudo_header(headers) else { return };
        let start = pseudo.sum(protocol, whole);
        let transport = headers.get_mut(l4..self.start.into()).unwrap_or_default();
        let sum = match data {
            Some(data) => {
                let sum = start.bytes(transport).followed_by(data);
                if self.is_tcp { sum.checksum() } else { sum.udp_checksum() }
            }
            None => start.folded(),
        };
        if let Some(place) = transport.get_mut(field..field + 2) {
            place.copy_from_slice(sum.to_be_bytes().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::LinkType;
    use crate::build::Builder;
    use crate::ethernet::MacAddr;
    use crate::offload::Segments;
    use crate::tcp::flags;

    const L3: usize = 18;

    fn addresses(v6: bool) -> [SocketAddr; 2] {
        let ip = |last: u8| -> IpAddr {
            if v6 {
                [0x20, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
            } else {
                [10, 9, 8, last].into()
            }
        };
        [SocketAddr::new(ip(1), 1000), SocketAddr::new(ip(2), 443)]
    }

    fn framed(builder: Builder, payload: &[u8]) -> Vec<u8> {
        builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6])).vlan(5).build(payload).unwrap()
    }

    /// Inserts extension headers of these kinds before the transport header of an IPv6 frame.
    fn extended(mut frame: Vec<u8>, kinds: &[u8]) -> Vec<u8> {
        for &kind in kinds.iter().rev() {
            let next = std::mem::replace(&mut frame[L3 + 6], kind);
            // Each header has 8 bytes: a routing header without segments left, a fragment header that holds
            // the whole packet, or padding options.
            let extension = match kind {
                ip_protocol::ROUTING => [next, 0, 4, 0, 0, 0, 0, 0],
                ip_protocol::FRAGMENT => [next, 0, 0, 0, 0, 0, 0, 9],
                _ => [next, 0, 1, 4, 0, 0, 0, 0],
            };
            frame.splice(L3 + 40..L3 + 40, extension);
            let length = (frame.len() - L3 - 40) as u16;
            frame[L3 + 4..L3 + 6].copy_from_slice(&length.to_be_bytes());
        }
        frame
    }

    /// Lists of extension headers that do not prevent merging.
    const EXTENSIONS: [&[u8]; 4] = [
        &[],
        &[ip_protocol::HOP_BY_HOP],
        &[ip_protocol::ROUTING],
        &[ip_protocol::HOP_BY_HOP, ip_protocol::ROUTING],
    ];

    /// Returns the frames that a sender makes from a payload, `size` bytes in each. `start` are the sequence
    /// number, the identification and the flags of the whole; `options` is the length of the TCP options in
    /// words of 4 bytes; `extensions` are the kinds of the IPv6 extension headers. With `constant`, all
    /// frames have the same identification.
    fn sent(
        v6: bool,
        tcp: bool,
        start: (u32, u16, u8),
        options: usize,
        payload: &[u8],
        size: usize,
        (extensions, constant): (&[u8], bool),
    ) -> Vec<Vec<u8>> {
        let ([a, b], (sequence, id, set)) = (addresses(v6), start);
        let count = payload.chunks(size).count();
        let segment = |(number, chunk): (usize, &[u8])| {
            let mut set = set;
            if number + 1 < count {
                set &= !ON_LAST;
            }
            if number > 0 {
                set &= !flags::CWR;
            }
            let builder = if tcp { Builder::tcp(a, b, set) } else { Builder::udp(a, b) };
            let id_ahead = if constant { 0 } else { number as u16 };
            let builder = builder.id(id.wrapping_add(id_ahead)).tos(1);
            let frame = framed(
                if tcp {
                    builder
                        .sequence(sequence.wrapping_add((number * size) as u32), 77)
                        .options(&[1, 1, 1, 1].repeat(options))
                } else {
                    builder
                },
                chunk,
            );
            if v6 { extended(frame, extensions) } else { frame }
        };
        payload.chunks(size).enumerate().map(segment).collect()
    }

    /// Merges all frames into one large frame; `None` if one of them cannot be merged with those before it.
    /// With `trusts`, the checksum of each payload is computed from the headers alone. With `constant`, all
    /// frames must have the same IPv4 identification.
    fn merged(frames: &[Vec<u8>], trusts: bool, constant: bool) -> Option<Vec<u8>> {
        let segments: Option<Vec<WholeSegment>> =
            frames.iter().map(|frame| WholeSegment::of(frame, L3, frame.len())).collect();
        let segments = segments?;
        let (first, mut large) = (segments[0], frames[0].clone());
        let mut data = Sum::new();
        for (number, (segment, frame)) in segments.iter().zip(frames).enumerate() {
            if number > 0 {
                let id_ahead = if constant { 0 } else { number as u16 };
                let is_next = first.goes_before(&frames[0], segment, frame, id_ahead);
                if !is_next || segments[number - 1].is_last() || segments[number - 1].length != first.length {
                    return None;
                }
                let before = segments[number - 1];
                if segment.is_tcp && segment.sequence != before.sequence.wrapping_add(before.length.into()) {
                    return None;
                }
                if segment.length > first.length {
                    return None;
                }
                large.extend_from_slice(&frame[segment.start.into()..]);
            }
            let half = segment.length as usize / 2;
            let (head, tail) = frame.split_at(segment.start as usize + half);
            let sum = segment.verify([head, tail])?;
            data = data.followed_by(if trusts { segment.trust(frame)? } else { sum });
        }
        let last = segments.last()?.flags;
        let length = large.len() - usize::from(first.start);
        first.enlarge(&mut large, length, last, Some(data));
        Some(large)
    }

    fn cut(large: &[u8], size: usize, constant: bool) -> Vec<Vec<u8>> {
        let segments =
            Segments::of(large, LinkType::Ethernet, large.len(), size).unwrap().constant_id(constant);
        let frame = |number: usize| {
            let mut frame = Vec::new();
            segments.write(large, number, &mut frame);
            frame
        };
        (0..segments.count()).map(frame).collect()
    }

    proptest! {
        #[test]
        fn what_is_merged_is_valid_and_can_be_cut_again(
            v6: bool, tcp: bool, sequence: u32, id: u16, set: u8, options in 0usize..4, trusts: bool, constant: bool,
            payload in vec(any::<u8>(), 1..4000), size in 1usize..1400, which in 0usize..4,
        ) {
            let set = set & PLAIN | flags::ACK;
            let size = size.max(payload.len().div_ceil(40));
            let headers = (EXTENSIONS[which], constant);
            let frames = sent(v6, tcp, (sequence, id, set), options, &payload, size, headers);
            // Frames in which a checksum happens to be the negative zero are not merged, and are left out
            // of the test.
            let other = |frame: &Vec<u8>| WholeSegment::of(frame, L3, frame.len()).is_none_or(|segment| !segment.is_plain);
            prop_assume!(!frames.iter().any(other));
            let large = merged(&frames, trusts, constant).unwrap();
            let segment = WholeSegment::of(&large, L3, large.len()).unwrap();
            prop_assert!(segment.verify([&large[..]]).is_some());
            prop_assert_eq!(usize::from(segment.length), payload.len());
            prop_assert_eq!(cut(&large, size.min(payload.len()), constant), frames);
        }

        #[test]
        fn what_is_not_the_same_again_is_not_merged(
            v6: bool, tcp: bool, id: u16, set: u8, options in 0usize..3, which in 0usize..3, at in 0usize..200,
            flip in 1u8.., rights: bool, constant: bool, headers in 0usize..4,
        ) {
            let set = set & PLAIN | flags::ACK;
            let mut frames =
                sent(v6, tcp, (7, id, set), options, &[9; 300], 100, (EXTENSIONS[headers], constant));
            let frame = &mut frames[which];
            let at = at % frame.len();
            frame[at] ^= flip;
            if rights && let Some(segment) = WholeSegment::of(&frame.clone(), L3, frame.len()) {
                // The checksums of the changed frame are corrected, so that merging cannot detect the change
                // by a wrong checksum.
                let end = frame.len();
                let copy = Segments::of(frame, LinkType::Ethernet, end, usize::MAX);
                if let Ok(copy) = copy && copy.count() == 1 && segment.length > 0 {
                    let mut whole = Vec::new();
                    copy.write(&frame.clone(), 0, &mut whole);
                    *frame = whole;
                }
            }
            if let Some(large) = merged(&frames, false, constant) {
                prop_assert_eq!(cut(&large, 100, constant), frames);
            }
        }

        #[test]
        fn extension_headers_that_hide_or_change_something_are_not_walked(
            kind in prop_oneof![any::<u8>(), proptest::sample::select(&[0u8, 43, 44, 50, 51, 60, 135][..])],
            left in 0u8..3, tcp: bool,
        ) {
            prop_assume!(![ip_protocol::TCP, ip_protocol::UDP].contains(&kind));
            let frame = sent(true, tcp, (7, 0, flags::ACK), 0, &[9; 100], 100, (&[kind], false)).remove(0);
            const KNOWN: [u8; 4] =
                [ip_protocol::HOP_BY_HOP, ip_protocol::ROUTING, ip_protocol::DESTINATION, ip_protocol::FRAGMENT];
            let is_known = KNOWN.contains(&kind);
            let found = WholeSegment::of(&frame, L3, frame.len());
            let place = found.map(|segment| (usize::from(segment.l4), segment.length, segment.is_plain));
            let is_plain = ![ip_protocol::DESTINATION, ip_protocol::FRAGMENT].contains(&kind);
            prop_assert_eq!(place, is_known.then_some((L3 + 48, 100, is_plain)), "{}", kind);
            prop_assert!(found.is_none_or(|segment| segment.verify([&frame[..]]).is_some()));
            // With segments left, the destination in the checksum is not the one in the IPv6 header, so
            // that the packet is not parsed.
            let mut frame = sent(true, tcp, (7, 0, flags::ACK), 0, &[9; 100], 100, (EXTENSIONS[2], false)).remove(0);
            frame[L3 + 43] = left;
            prop_assert_eq!(WholeSegment::of(&frame, L3, frame.len()).is_some(), left == 0);
            // With "more fragments", the packet is a fragment, which is not parsed.
            let mut frame = sent(true, tcp, (7, 0, flags::ACK), 0, &[9; 100], 100, (&[ip_protocol::FRAGMENT], false)).remove(0);
            frame[L3 + 43] = left & 1;
            prop_assert_eq!(WholeSegment::of(&frame, L3, frame.len()).is_some(), left & 1 == 0);
        }

        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..120), l3 in 0usize..60, length in 0usize..70_000, kind in 0u8..3) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(l3) { *byte = [0x45, 0x60, *byte][usize::from(kind)]; }
            prop_assert_eq!(WholeSegment::of(&bytes, l3, length), WholeSegment::of_any(&bytes, l3, length, true));
            if let Some(segment) = WholeSegment::of(&bytes, l3, length) {
                let _ = (segment.verify([&bytes[..]]), segment.trust(&bytes), segment.sequence_length());
                let _ = segment.goes_before(&bytes, &segment, &bytes[..bytes.len() / 2], 1);
                segment.enlarge(&mut bytes.clone(), length, 0xff, None);
                segment.enlarge(&mut bytes[..20.min(l3)], length, 0xff, Some(Sum::new()));
            }
        }
    }
}
