//! Which segments can be one large one, exactly: cut again ([`crate::offload::Segments`]), each of them is what it was, byte
//! for byte.
//!
//! So headers have to be equal but for what cutting makes anew: lengths, identification, sequence number, checksums, PSH and
//! FIN of the last segment, CWR of the first. IPv6 extension headers have to be equal; IP options, padding behind the packet and
//! damaged checksums are not made anew.

use zerocopy::{Immutable, KnownLayout, Unaligned};

use crate::checksum::{self, PseudoHeader, Sum};
use crate::ipv6::FragmentHeader;
use crate::layers::Network;
use crate::{FromBytes, IntoBytes, ip_protocol, ipv4, ipv6, offload, tcp, udp};

/// Flags that segments of a large one may have.
const PLAIN: u8 = tcp::flags::ACK | tcp::flags::ECE | ON_LAST | tcp::flags::CWR;
/// Those that only the last one may have.
const ON_LAST: u8 = tcp::flags::PSH | tcp::flags::FIN;
/// A checksum that is right, and not the one that is computed.
const OTHER_ZERO: u16 = 0xffff;

/// Bytes of a word that are compared: all, and one half.
const ALL: [u8; 4] = [0xff; 4];
const FIRST_HALF: [u8; 4] = [0xff, 0xff, 0, 0];
const LAST_HALF: [u8; 4] = [0, 0, 0xff, 0xff];

/// What is the same in all headers that belong together, word by word. Of IPv4: all but length, identification and checksum.
const IPV4: [[u8; 4]; 5] = {
    let mut words = [ALL; 5];
    (words[0], words[1], words[2]) = (FIRST_HALF, LAST_HALF, FIRST_HALF);
    words
};
/// Of IPv6: all but the length.
const IPV6: [[u8; 4]; 10] = {
    let mut words = [ALL; 10];
    words[1] = LAST_HALF;
    words
};
/// Of TCP: all but sequence number, flags and checksum.
const TCP: [[u8; 4]; 5] = {
    let mut words = [ALL; 5];
    (words[1], words[3], words[4]) = ([0; 4], [0xff, 0, 0xff, 0xff], LAST_HALF);
    words
};

/// Of UDP: the ports.
const PORTS: [[u8; 4]; 1] = [ALL];

/// Those of two headers one behind the other.
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

/// Whether the first bytes are the same where a mask has ones.
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

/// Whether bytes from a place on are the same.
#[inline(always)]
fn same_behind(a: &[u8], b: &[u8], place: usize) -> bool {
    a.get(place..).zip(b.get(place..)).is_some_and(|(a, b)| equal(a, b))
}

/// Whether bytes are the same: for few of them, which are compared faster than others are called.
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

/// What stands behind IPv6 extension headers.
struct Behind {
    protocol: u8,
    /// Bytes of the extension headers.
    length: usize,
    /// True if segments with these headers can be parts of a larger one.
    is_plain: bool,
}

/// Walks over IPv6 extension headers. `None` where nobody can look behind one (fragments, AH), or one changes what the
/// checksum is about (a routing header on the way).
fn behind_options(next_header: u8, bytes: &[u8]) -> Option<Behind> {
    let mut behind = Behind { protocol: next_header, length: 0, is_plain: true };
    for extension in ipv6::extensions(next_header, bytes) {
        let extension = extension.ok()?;
        match extension.kind {
            ip_protocol::HOP_BY_HOP => {}
            ip_protocol::ROUTING if extension.bytes.get(SEGMENTS_LEFT) == Some(&0) => {}
            // A home address in it may stand in place of the source in the checksum (RFC 6275, section 6.3).
            ip_protocol::DESTINATION => behind.is_plain = false,
            // It holds the whole packet. Cutting would give all segments its identification.
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

/// Where a routing header says how many stops are left (RFC 8200, section 4.4).
const SEGMENTS_LEFT: usize = 3;

/// IPv4 without options, and TCP.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Plain {
    ip: ipv4::Header,
    tcp: tcp::Header,
}

/// What an IP header says.
struct Ip {
    network: Network,
    l3: usize,
    l4: usize,
    end: usize,
    is_plain: bool,
    id: u16,
}

impl Ip {
    /// That of a header of `own` bytes at `l3`, in a packet of `length` bytes.
    #[inline(always)]
    fn v4(header: &ipv4::Header, own: usize, l3: usize, length: usize) -> Option<Ip> {
        // A sender that leaves segmentation to a device may leave the length to it, too.
        let said = usize::from(header.total_length.get());
        let whole = if said == 0 { length.checked_sub(l3)? } else { said };
        if header.is_fragment() || own < ipv4::Header::LEN || whole < own {
            return None;
        }
        let end = l3 + whole;
        let is_plain = own == ipv4::Header::LEN
            && end == length
            && said > 0
            && header.checksum.get() != OTHER_ZERO
            && checksum::ipv4_plain_valid(header);
        Some(Ip { network: Network::Ipv4, l3, l4: l3 + own, end, is_plain, id: header.id.get() })
    }

    /// The segment with this TCP header.
    #[inline(always)]
    fn tcp(mut self, header: &tcp::Header, head: usize, length: usize) -> Option<Segment> {
        let own = header.header_len();
        if own < tcp::Header::LEN {
            return None;
        }
        self.is_plain &= header.flags & !PLAIN == 0 && header.checksum.get() != OTHER_ZERO;
        let segment = self.segment(own, head, length)?;
        Some(Segment { is_tcp: true, sequence: header.sequence.get(), flags: header.flags, ..segment })
    }

    /// The datagram with this UDP header.
    #[inline(always)]
    fn udp(mut self, header: &udp::Header, head: usize, length: usize) -> Option<Segment> {
        let is_whole = self.l4 + usize::from(header.length.get()) == self.end;
        self.is_plain &= is_whole && header.checksum.get() != 0;
        self.segment(udp::Header::LEN, head, length)
    }

    /// What has a transport header of `own` bytes, where `head` bytes are at hand.
    #[inline(always)]
    fn segment(self, own: usize, head: usize, length: usize) -> Option<Segment> {
        let Ip { network, l3, l4, end, is_plain, id } = self;
        let (start, most) = (l4 + own, usize::from(u16::MAX));
        if start > end || end > length || start > head || start > most || end - start > most {
            return None;
        }
        Some(Segment {
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

/// A whole TCP segment or UDP datagram in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// IPv4 or IPv6.
    pub network: Network,
    /// TCP, or else UDP.
    pub is_tcp: bool,
    /// Whether it can be part of a larger one, as far as its IP and transport headers say.
    pub is_plain: bool,
    /// Where the IP header starts.
    pub l3: u16,
    /// Where the transport header starts.
    pub l4: u16,
    /// Where the data start.
    pub start: u16,
    /// Bytes of data.
    pub length: u16,
    /// TCP's sequence number.
    pub sequence: u32,
    /// TCP's flags.
    pub flags: u8,
    /// Identification of IPv4.
    pub id: u16,
}

impl Segment {
    /// Looks at a packet of `length` bytes, of which `head` are the first, and whose IP header starts at `l3`. `None` if it is
    /// neither TCP nor UDP, is a fragment, or does not have all the bytes that it says. Of IPv6 extension headers, hop-by-hop
    /// and destination options may be in front, a routing header whose last stop is reached, and a fragment header that holds the
    /// whole packet.
    #[inline]
    pub fn of(head: &[u8], l3: usize, length: usize) -> Option<Segment> {
        Segment::plain(head, l3, length).or_else(|| Segment::of_any(head, l3, length))
    }

    /// The same for what nearly all packets are, TCP over IPv4 without options: two headers in known places, of which one
    /// look at the length is enough. `None` if it is something else.
    #[inline(always)]
    pub fn plain(head: &[u8], l3: usize, length: usize) -> Option<Segment> {
        let (Plain { ip, tcp }, _) = Plain::ref_from_prefix(head.get(l3..)?).ok()?;
        if (ip.version_ihl, ip.protocol) != (0x45, ip_protocol::TCP) {
            return None;
        }
        Ip::v4(ip, ipv4::Header::LEN, l3, length)?.tcp(tcp, head.len(), length)
    }

    #[inline(never)]
    fn of_any(head: &[u8], l3: usize, length: usize) -> Option<Segment> {
        let bytes = head.get(l3..)?;
        let (ip, protocol) = match bytes.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::ref_from_prefix(bytes).ok()?;
                (Ip::v4(header, header.header_len(), l3, length)?, header.protocol)
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(bytes).ok()?;
                let Behind { protocol, length: options, is_plain } =
                    behind_options(header.next_header, rest)?;
                let fixed = l3 + ipv6::Header::LEN;
                let end = fixed + usize::from(header.payload_length.get());
                // What says how long a jumbogram is would be cut off.
                let is_plain = is_plain && end == length && offload::jumbo(bytes) == 0;
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

    /// Numbers that TCP counts: bytes of data, SYN and FIN.
    #[inline]
    pub fn sequence_length(&self) -> u32 {
        let has = |flag: u8| u32::from(self.flags & flag != 0);
        u32::from(self.length) + has(tcp::flags::SYN) + has(tcp::flags::FIN)
    }

    /// Whether there is a checksum: datagrams over IPv4 may have none.
    #[inline]
    pub fn has_checksum(&self, headers: &[u8]) -> bool {
        self.is_tcp || headers.get(usize::from(self.l4) + 6..usize::from(self.l4) + 8) != Some(&[0, 0])
    }

    /// The sum of the data of a packet in pieces, the first of which has all headers. `None` if the checksum is wrong.
    #[inline]
    pub fn verify<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Sum> {
        let mut pieces = pieces.into_iter();
        let head = pieces.next()?;
        let (headers, first) = head.split_at_checked(self.start.into())?;
        let mut left = usize::from(self.length);
        let mut sum = Sum::new();
        for piece in std::iter::once(first).chain(pieces) {
            let part = piece.get(..left).unwrap_or(piece);
            sum = sum.bytes(part);
            left -= part.len();
        }
        let whole = self.header_sum(headers)?.followed_by(sum);
        whole.is_valid().then_some(sum)
    }

    /// The same for a checksum that is known to be right, from the headers alone.
    #[inline]
    pub fn trust(&self, headers: &[u8]) -> Option<Sum> {
        Some(self.header_sum(headers)?.complement(self.length.into()))
    }

    /// The sum of pseudo header and transport header.
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

    /// What lies in front of the IP header, and what goes on from there up to the data.
    #[inline]
    fn headers<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        bytes.get(..self.start.into())?.split_at_checked(self.l3.into())
    }

    /// True if the headers of a segment are what cutting makes of these ones, leaving aside sequence number and flags of the
    /// last. Its identification is to be as far ahead as `id_ahead` says: by its number, or by nothing where all have the same.
    #[inline]
    pub fn goes_before(&self, own: &[u8], next: &Segment, other: &[u8], id_ahead: u16) -> bool {
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
        // Plain headers have nothing but TCP's options behind these.
        let options = network + tcp::Header::LEN;
        is_same
            && equal(own_link, other_link)
            && (self.network != Network::Ipv4 || next.id == self.id.wrapping_add(id_ahead))
            && (self.flags ^ next.flags) & !passing == 0
            && next.flags & tcp::flags::CWR == 0
            && (!self.is_tcp || same_behind(own, other, options))
    }

    /// True if headers are the same but for what cutting makes anew, where IPv6 has extension headers.
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

    /// Whether nothing may come behind it in a large one.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.is_last_of(self.flags)
    }

    /// Whether nothing may come behind a segment with these flags in a large one that this is the first of.
    #[inline]
    pub fn is_last_of(&self, flags: u8) -> bool {
        self.is_tcp && flags & ON_LAST != 0
    }

    /// Makes these headers of the first segment those of a large one with so many bytes of data, the flags of the last
    /// segment, and a checksum over all of it: the sum of the data is given, and `None` leaves the checksum to a device.
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
            Some(data) => match start.bytes(transport).followed_by(data).checksum() {
                // UDP's zero says that there is none.
                0 if !self.is_tcp => OTHER_ZERO,
                sum => sum,
            },
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

    /// Puts extension headers in front of the transport header of a frame of IPv6.
    fn extended(mut frame: Vec<u8>, kinds: &[u8]) -> Vec<u8> {
        for &kind in kinds.iter().rev() {
            let next = std::mem::replace(&mut frame[L3 + 6], kind);
            // Padding, and no routing segments left.
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

    /// Extension headers with which segments can be merged.
    const EXTENSIONS: [&[u8]; 4] = [
        &[],
        &[ip_protocol::HOP_BY_HOP],
        &[ip_protocol::ROUTING],
        &[ip_protocol::HOP_BY_HOP, ip_protocol::ROUTING],
    ];

    /// What a sender makes of some data.
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

    /// One large frame of some, if they can be one.
    fn merged(frames: &[Vec<u8>], trusts: bool, constant: bool) -> Option<Vec<u8>> {
        let segments: Option<Vec<Segment>> =
            frames.iter().map(|frame| Segment::of(frame, L3, frame.len())).collect();
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
            // A checksum of another zero is made of no segment.
            let other = |frame: &Vec<u8>| Segment::of(frame, L3, frame.len()).is_none_or(|segment| !segment.is_plain);
            prop_assume!(!frames.iter().any(other));
            let large = merged(&frames, trusts, constant).unwrap();
            let segment = Segment::of(&large, L3, large.len()).unwrap();
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
            if rights && let Some(segment) = Segment::of(&frame.clone(), L3, frame.len()) {
                // Both checksums are right, and what they are about is another packet.
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
            let found = Segment::of(&frame, L3, frame.len());
            let place = found.map(|segment| (usize::from(segment.l4), segment.length, segment.is_plain));
            let is_plain = ![ip_protocol::DESTINATION, ip_protocol::FRAGMENT].contains(&kind);
            prop_assert_eq!(place, is_known.then_some((L3 + 48, 100, is_plain)), "{}", kind);
            prop_assert!(found.is_none_or(|segment| segment.verify([&frame[..]]).is_some()));
            // A routing header on the way has another destination than the checksum.
            let mut frame = sent(true, tcp, (7, 0, flags::ACK), 0, &[9; 100], 100, (EXTENSIONS[2], false)).remove(0);
            frame[L3 + 43] = left;
            prop_assert_eq!(Segment::of(&frame, L3, frame.len()).is_some(), left == 0);
            // A fragment header that says that there is more.
            let mut frame = sent(true, tcp, (7, 0, flags::ACK), 0, &[9; 100], 100, (&[ip_protocol::FRAGMENT], false)).remove(0);
            frame[L3 + 43] = left & 1;
            prop_assert_eq!(Segment::of(&frame, L3, frame.len()).is_some(), left & 1 == 0);
        }

        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..120), l3 in 0usize..60, length in 0usize..70_000, kind in 0u8..3) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(l3) { *byte = [0x45, 0x60, *byte][usize::from(kind)]; }
            prop_assert_eq!(Segment::of(&bytes, l3, length), Segment::of_any(&bytes, l3, length));
            if let Some(segment) = Segment::of(&bytes, l3, length) {
                let _ = (segment.verify([&bytes[..]]), segment.trust(&bytes), segment.sequence_length());
                let _ = segment.goes_before(&bytes, &segment, &bytes[..bytes.len() / 2], 1);
                segment.enlarge(&mut bytes.clone(), length, 0xff, None);
                segment.enlarge(&mut bytes[..20.min(l3)], length, 0xff, Some(Sum::new()));
            }
        }
    }
}
