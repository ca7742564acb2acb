//! The headers of a packet whose payload is taken out: their offsets, the changes that describe the shorter
//! packet, and the reversal of these changes.
//!
//! A sliced packet is a valid packet. The lengths of IP and UDP are the new lengths, and the checksum of TCP
//! or UDP is right, as if the sender had sent the token; a datagram without a checksum stays without one. The
//! checksum of an IPv4 header is right if it was right before. With TAIL, a TCP segment is presented as its
//! own last bytes: its sequence number is larger by the number of bytes that its payload is shorter, so that
//! the segment ends at the same number as before. Observers of the connection (conntrack of the Linux kernel)
//! then know how far the sender has got, and find the receiver's ACKs inside the window.
//!
//! Changes that a network function makes to the headers are kept: lengths and the sequence number are
//! restored by adding the difference, not by writing the old value. Checksums are corrected by the
//! difference between the sender's checksum and the checksum that was written, so that a wrong checksum is
//! as wrong afterwards.

use wire::checksum::{Delta, PseudoHeader, Sum};
use wire::tcp::flags;
use wire::{FromBytes, ip_protocol, ipv4, ipv6, tcp, udp};

use crate::token::{MARKER, TOKEN};
use crate::tunnel::carries_others;

/// The maximum number of bytes from the start of a packet to its payload, for packets that are sliced. With
/// the token they are at most 128 bytes, two cache lines.
pub const HEADERS: usize = 128 - TOKEN;
/// The headers of a complete TCP segment or UDP datagram in an IP packet. All offsets are in bytes from the
/// start of the packet's data, link header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The offset of the IP header.
    pub l3: u16,
    /// The offset of the TCP or UDP header.
    pub l4: u16,
    /// The offset of the payload.
    pub payload: u16,
    /// The offset of the end of the IP packet, which is the end of its payload. Bytes after it are a
    /// trailer.
    pub end: u32,
    /// True for IPv6, false for IPv4.
    pub is_ipv6: bool,
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
}

/// The changes that slicing has made to the headers of a packet, as needed to revert them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Original {
    /// The number of bytes by which the payload became shorter; negative if the token is longer than the
    /// bytes that it replaces.
    pub less: i32,
    /// The number that was added to the TCP sequence number; 0 for UDP and without TAIL.
    pub shift: i32,
    /// The DSCP before slicing, if slicing replaced it by the mark of sliced packets (DSCP 63); otherwise
    /// `None`.
    pub dscp: Option<u8>,
    /// True if the packet leaves work to a device: it is a large segment, or its checksum is incomplete.
    pub is_unfinished: bool,
    /// The checksum of the IPv4 header: the original value, and the value that slicing wrote.
    pub header_checksum: [u16; 2],
    /// The checksum of TCP or UDP: the original value, and the value that slicing wrote.
    pub checksum: [u16; 2],
}

impl Original {
    /// Returns the changes as those of a packet that has `n` bytes less at its end.
    pub fn without(&self, n: usize) -> Original {
        if n == 0 {
            return *self;
        }
        let [old, written] = self.header_checksum;
        // The checksum covers the length of the packet, which is less by `n`.
        let header_checksum = [Delta::u16(n as u16, 0).apply(old), written];
        Original { less: self.less - n as i32, header_checksum, ..*self }
    }
}

impl Headers {
    /// Finds the headers of a packet. `data` is its first bytes, `l3` the offset of its IP header, and
    /// `length` the length of the whole packet.
    ///
    /// Returns `None` for packets that cannot be sliced: fragments, other protocols than TCP and UDP,
    /// segments that open or reset a connection or have urgent data, and packets with source routes or with
    /// IPv6 extension headers that may hide the payload or change checksums (`after_extensions`). Also `None`
    /// if the headers contradict each other, claim more than `length` bytes or do not end in `data`.
    #[inline]
    pub fn find(data: &[u8], l3: usize, length: usize) -> Option<Headers> {
        Headers::find_common(data, l3, length).or_else(|| Headers::find_any(data, l3, length))
    }

    /// Finds the headers as [`find`](Self::find) does, if they have the most common form: IPv4 without
    /// options, in `data` up to 40 bytes after the start of the IP header. `None` for all other packets.
    #[inline(always)]
    fn find_common(data: &[u8], l3: usize, length: usize) -> Option<Headers> {
        /// The bits of the IPv4 header's field for fragments that are set in a fragment, and the TCP flags
        /// that are refused.
        const FRAGMENT: u16 = 0x3fff;
        const REFUSED: u8 = flags::SYN | flags::RST | flags::URG;
        let ip: &[u8; 40] = data.get(l3..)?.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        if ip[0] != 0x45 || word(6) & FRAGMENT != 0 {
            return None;
        }
        let total = usize::from(word(2));
        let (is_tcp, header) = match ip[9] {
            ip_protocol::TCP if ip[33] & REFUSED == 0 => (true, usize::from(ip[32] >> 4).max(5) * 4),
            ip_protocol::UDP if usize::from(word(24)) + 20 == total => (false, udp::Header::LEN),
            _ => return None,
        };
        let (payload, end) = (l3 + 20 + header, l3 + total);
        (payload <= end && end <= length && payload <= data.len()).then_some(Headers {
            l3: l3 as u16,
            l4: (l3 + 20) as u16,
            payload: payload as u16,
            end: end as u32,
            is_ipv6: false,
            is_tcp,
        })
    }

    #[inline(never)]
    fn find_any(data: &[u8], l3: usize, length: usize) -> Option<Headers> {
        let ip = data.get(l3..)?;
        let (protocol, header, total) = match ip.first()? >> 4 {
            4 => {
                let (header, rest) = ipv4::Header::ref_from_prefix(ip).ok()?;
                let length = header.header_len();
                let options = rest.get(..length.checked_sub(ipv4::Header::LEN)?)?;
                if header.is_fragment() || !options.is_empty() && has_route(options) {
                    return None;
                }
                (header.protocol, length, usize::from(header.total_length.get()))
            }
            6 => {
                let (header, rest) = ipv6::Header::ref_from_prefix(ip).ok()?;
                let payload = usize::from(header.payload_length.get());
                let (protocol, before) = match header.next_header {
                    plain @ (ip_protocol::TCP | ip_protocol::UDP) => (plain, 0),
                    other => after_extensions(other, rest)?,
                };
                (protocol, ipv6::Header::LEN + before, ipv6::Header::LEN + payload)
            }
            _ => return None,
        };
        let l4 = l3 + header;
        let segment = data.get(l4..)?;
        let (is_tcp, payload) = match protocol {
            ip_protocol::TCP => {
                let (tcp, _) = tcp::Header::ref_from_prefix(segment).ok()?;
                if tcp.has(flags::SYN) || tcp.has(flags::RST) || tcp.has(flags::URG) {
                    return None;
                }
                (true, l4 + tcp.header_len().max(tcp::Header::LEN))
            }
            ip_protocol::UDP => {
                let (udp, _) = udp::Header::ref_from_prefix(segment).ok()?;
                (usize::from(udp.length.get()) == total.checked_sub(header)?).then_some(())?;
                (false, l4 + udp::Header::LEN)
            }
            _ => return None,
        };
        let end = l3 + total;
        let fits = payload <= end && end <= length && payload <= data.len();
        fits.then_some(Headers {
            l3: l3 as u16,
            l4: l4 as u16,
            payload: payload as u16,
            end: end as u32,
            is_ipv6: ip[0] >> 4 == 6,
            is_tcp,
        })
    }

    /// True if a packet for which [`find`](Self::find) returns `None` has the mark of sliced packets and may
    /// be a sliced packet or contain one. This concerns TCP and UDP packets that are fragments or claim to be
    /// longer than they are. It also concerns protocols that carry other packets ([`carries_others`]) and
    /// packets whose contents cannot be seen.
    #[cold]
    pub fn is_doubtful(data: &[u8], l3: usize, length: usize) -> bool {
        let ip = data.get(l3..).unwrap_or_default();
        let could_be = |protocol, is_part| {
            carries_others(protocol) || is_part && matches!(protocol, ip_protocol::TCP | ip_protocol::UDP)
        };
        match ip.first().map(|byte| byte >> 4) {
            Some(4) => ipv4::Header::ref_from_prefix(ip).is_ok_and(|(header, _)| {
                let is_cut = l3 + usize::from(header.total_length.get()) > length;
                header.dscp() == MARKER && could_be(header.protocol, is_cut || header.is_fragment())
            }),
            Some(6) => ipv6::Header::ref_from_prefix(ip).is_ok_and(|(header, rest)| {
                let end = l3 + ipv6::Header::LEN + usize::from(header.payload_length.get());
                let upper = ipv6::upper_layer(header.next_header, rest);
                let is_part = end > length || upper.fragment.is_some();
                let is_hidden = upper.fault.is_some() || header.next_header == ip_protocol::AH;
                header.traffic_class() >> 2 == MARKER && (is_hidden || could_be(upper.protocol, is_part))
            }),
            _ => false,
        }
    }

    /// True if the IP header at offset `l3` has the mark of sliced packets as its DSCP.
    pub fn bears_mark(data: &[u8], l3: usize) -> bool {
        match data.get(l3..).and_then(|ip| ip.first_chunk::<2>()) {
            Some([first, second]) if first >> 4 == 4 => second >> 2 == MARKER,
            Some([first, second]) if first >> 4 == 6 => (first & 0xf) << 2 | second >> 6 == MARKER,
            _ => false,
        }
    }

    /// Sets the DSCP of the IP header at offset `l3` to 0, and corrects the checksum of an IPv4 header.
    #[cold]
    pub fn clear_mark(data: &mut [u8], l3: usize) {
        let is_ipv6 = data.get(l3).is_some_and(|byte| byte >> 4 == 6);
        let headers = Headers { l3: l3 as u16, l4: 0, payload: 0, end: 0, is_ipv6, is_tcp: false };
        headers.network(data, 0, Some(0), None);
    }

    /// Returns the headers of the packet without its first `n` bytes, which come before the IP header.
    pub fn without(&self, n: u16) -> Headers {
        let Headers { l3, l4, payload, end, .. } = *self;
        Headers { l3: l3 - n, l4: l4 - n, payload: payload - n, end: end - u32::from(n), ..*self }
    }

    /// Returns the length of the payload in bytes.
    #[inline]
    pub fn payload_length(&self) -> usize {
        self.end as usize - usize::from(self.payload)
    }

    /// Returns the DSCP of the packet.
    #[inline]
    pub fn dscp(&self, data: &[u8]) -> u8 {
        let ip = &data[self.l3.into()..];
        if self.is_ipv6 { (ip[0] & 0xf) << 2 | ip[1] >> 6 } else { ip[1] >> 2 }
    }

    /// Changes the headers of a packet whose payload has become `less` bytes shorter, and returns what
    /// [`restore`](Self::restore) needs. If `mark`, sets the DSCP to the mark of sliced packets (63). If
    /// `is_tail`, a TCP segment is presented as the last bytes of the original, otherwise as the first.
    /// `more` is the checksum of payload bytes that are not in `data`.
    #[inline]
    pub fn shorten(
        &self,
        data: &mut [u8],
        less: i32,
        mark: bool,
        is_tail: bool,
        more: Option<Sum>,
    ) -> Original {
        let dscp = mark.then(|| self.dscp(data));
        // The segment is summed before fields are written: a load that covers a narrower store has to wait.
        let sum = Sum::new().bytes(data.get(self.l4.into()..).unwrap_or_default());
        let header_checksum = self.network(data, less, mark.then_some(MARKER), None);
        let pseudo = self.pseudo(data, (self.end as i32 - less) as usize);
        let segment = data.get_mut(self.l4.into()..).unwrap_or_default();
        let shift = if self.is_tcp && is_tail { less } else { 0 };
        let [before, after] = self.transport(segment, less, shift);
        let old = self.checksum(segment);
        // A datagram that was sent without a checksum stays without one.
        let written = if self.is_tcp || old != 0 {
            // What the fields had is subtracted: the complement of a word is its negative.
            let sum = pseudo.word(!old).word32(!before).word32(after).followed_by(sum);
            self.put_checksum(segment, more.map_or(sum, |more| sum.followed_by(more)))
        } else {
            0
        };
        Original { less, shift, dscp, is_unfinished: false, header_checksum, checksum: [old, written] }
    }

    /// True if the datagram was sent without a checksum and a network function has filled one in. That
    /// checksum covers the token and must be computed again.
    #[inline]
    pub fn has_filled_in(&self, data: &[u8], original: &Original) -> bool {
        let segment = || data.get(self.l4.into()..).unwrap_or_default();
        !self.is_tcp && original.checksum[0] == 0 && self.checksum(segment()) != 0
    }

    /// Reverts the changes of [`shorten`](Self::shorten) in the headers of a packet, and keeps other changes
    /// to them. Returns false if the network function has replaced the mark of sliced packets (DSCP 63) by
    /// another DSCP; that DSCP is kept. `payload` is the checksum of the whole payload, given if the checksum
    /// has to be computed.
    #[inline]
    pub fn restore(&self, data: &mut [u8], original: &Original, payload: Option<Sum>) -> bool {
        let is_marked = original.dscp.is_some() && self.dscp(data) == MARKER;
        let dscp = original.dscp.filter(|_| is_marked);
        self.network(data, -original.less, dscp, Some(original.header_checksum));
        if let Some(payload) = payload {
            self.fill_in(data, original, payload);
            return original.dscp.is_none() || is_marked;
        }
        let segment = data.get_mut(self.l4.into()..).unwrap_or_default();
        self.transport(segment, -original.less, -original.shift);
        let [old, written] = original.checksum;
        let came = self.checksum(segment);
        let checksum = match came == written {
            true => old,
            // The network function has changed the checksum. Its change is kept, and the token's part of the
            // checksum is exchanged for the payload's. A checksum that the sender left out stays absent.
            false if self.is_tcp => Delta::u16(!written, !old).apply(came),
            false if old == 0 => 0,
            false => Delta::u16(!written, !old).apply_udp(came),
        };
        put(segment, self.checksum_offset(), checksum.to_be_bytes());
        original.dscp.is_none() || is_marked
    }

    /// Writes the original length and a new checksum, for a packet that was sent without a checksum, or with
    /// an incomplete one. `payload` is the checksum of the whole payload.
    #[cold]
    fn fill_in(&self, data: &mut [u8], original: &Original, payload: Sum) {
        let pseudo = self.pseudo(data, (self.end as i32 + original.less) as usize);
        let segment = data.get_mut(self.l4.into()..).unwrap_or_default();
        self.transport(segment, -original.less, -original.shift);
        let header = segment.get_mut(..usize::from(self.payload - self.l4)).unwrap_or_default();
        put(header, self.checksum_offset(), [0; 2]);
        let sum = pseudo.bytes(header).followed_by(payload);
        self.put_checksum(header, sum);
    }

    /// Writes the sum of the pseudo-header into the checksum field of a packet that is `more` bytes longer
    /// than these headers say. A device has to complete the checksum.
    pub fn start_checksum(&self, data: &mut [u8], more: i32) {
        let sum = self.pseudo(data, (self.end as i32 + more) as usize).folded();
        let segment = data.get_mut(self.l4.into()..).unwrap_or_default();
        put(segment, self.checksum_offset(), sum.to_be_bytes());
    }

    /// Writes the checksum of TCP or UDP, given the sum of everything that it covers, and returns it.
    #[inline]
    fn put_checksum(&self, segment: &mut [u8], sum: Sum) -> u16 {
        let checksum = if self.is_tcp { sum.checksum() } else { sum.udp_checksum() };
        put(segment, self.checksum_offset(), checksum.to_be_bytes());
        checksum
    }

    /// Makes the IP packet `less` bytes shorter in its header and sets the DSCP, if given. The checksum of an
    /// IPv4 header is corrected. If `reverted` is given, this reverts a change of the checksum from its first
    /// value to its second: the first value is written if the checksum still is the second. Returns the
    /// checksum before and after; 0 for IPv6.
    #[inline]
    fn network(&self, data: &mut [u8], less: i32, dscp: Option<u8>, reverted: Option<[u16; 2]>) -> [u16; 2] {
        let ip = data.get_mut(self.l3.into()..).unwrap_or_default();
        if self.is_ipv6 {
            let Ok((header, _)) = ipv6::Header::mut_from_prefix(ip) else { return [0; 2] };
            header.payload_length.set(header.payload_length.get().wrapping_sub(less as u16));
            if let Some(dscp) = dscp {
                header.set_traffic_class(dscp << 2 | header.traffic_class() & 3);
            }
            return [0; 2];
        }
        let Ok((header, _)) = ipv4::Header::mut_from_prefix(ip) else { return [0; 2] };
        let first = |header: &ipv4::Header| {
            u32::from(header.version_ihl) << 24
                | u32::from(header.tos) << 16
                | u32::from(header.total_length.get())
        };
        let (before, old) = (first(header), header.checksum.get());
        header.total_length.set(header.total_length.get().wrapping_sub(less as u16));
        if let Some(dscp) = dscp {
            header.set_dscp(dscp);
        }
        let new = match reverted {
            Some([original, written]) if written == old => original,
            _ => Delta::u32(before, first(header)).apply(old),
        };
        header.checksum.set(new);
        [old, new]
    }

    /// Adds `shift` to the sequence number of TCP, or subtracts `less` from the length field of UDP. Returns
    /// the field before and after.
    #[inline]
    fn transport(&self, segment: &mut [u8], less: i32, shift: i32) -> [u32; 2] {
        let Some(bytes) = segment.get_mut(4..).and_then(|bytes| bytes.first_chunk_mut::<4>()) else {
            return [0; 2];
        };
        if self.is_tcp {
            let before = u32::from_be_bytes(*bytes);
            let after = before.wrapping_add_signed(shift);
            *bytes = after.to_be_bytes();
            [before, after]
        } else {
            let before = u16::from_be_bytes([bytes[0], bytes[1]]);
            let after = before.wrapping_sub(less as u16);
            [bytes[0], bytes[1]] = after.to_be_bytes();
            [before.into(), after.into()]
        }
    }

    fn checksum_offset(&self) -> usize {
        if self.is_tcp { 16 } else { 6 }
    }

    fn checksum(&self, segment: &[u8]) -> u16 {
        get(segment, self.checksum_offset())
    }

    /// Returns the sum of the pseudo-header of a packet that ends at offset `end`.
    #[inline]
    fn pseudo(&self, data: &[u8], end: usize) -> Sum {
        let ip = data.get(self.l3.into()..).unwrap_or_default();
        let protocol = if self.is_tcp { ip_protocol::TCP } else { ip_protocol::UDP };
        let length = end.wrapping_sub(self.l4.into());
        // Without options, the addresses are those of the header.
        match ipv4::Header::ref_from_prefix(ip) {
            Ok((header, _)) if !self.is_ipv6 && usize::from(self.l4 - self.l3) == ipv4::Header::LEN => {
                PseudoHeader::from(header).sum(protocol, length)
            }
            _ => pseudo_of(ip, protocol, length),
        }
    }
}

/// Returns the sum of the pseudo-header of any IP packet, for a segment of `length` bytes.
#[inline(never)]
fn pseudo_of(ip: &[u8], protocol: u8, length: usize) -> Sum {
    PseudoHeader::of(ip).map_or(Sum::new(), |pseudo| pseudo.sum(protocol, length))
}

fn get(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u16::from_be_bytes(*word))
}

fn put(bytes: &mut [u8], at: usize, word: [u8; 2]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *place = word;
    }
}

/// True if IPv4 options contain a source route or cannot be parsed. With a source route, TCP and UDP
/// checksums cover another destination than the address in the header.
#[cold]
fn has_route(options: &[u8]) -> bool {
    use ipv4::option::{LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE};
    // Options that cannot be parsed may contain a source route.
    ipv4::options(options)
        .any(|option| option.map_or(true, |o| matches!(o.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)))
}

/// Returns the protocol after the IPv6 extension headers, and their length in bytes. `None` if an extension
/// header may change the addresses that checksums cover, or hide what follows: any but hop-by-hop options,
/// destination options without a byte 201, and a fragment header of a whole packet. `next` is the type of the
/// first header, `rest` the bytes after the IPv6 header.
#[cold]
pub(crate) fn after_extensions(next: u8, rest: &[u8]) -> Option<(u8, usize)> {
    /// The home address option (RFC 6275): checksums cover its address in place of the source.
    const HOME_ADDRESS: u8 = 201;
    let is_harmless = |extension: ipv6::Extension<'_>| match extension.kind {
        ip_protocol::HOP_BY_HOP => true,
        ip_protocol::DESTINATION => !extension.bytes.contains(&HOME_ADDRESS),
        // A fragment header of a packet in one piece hides nothing.
        ip_protocol::FRAGMENT => extension.fragment().is_some_and(ipv6::FragmentHeader::is_atomic),
        _ => false,
    };
    let mut all = ipv6::extensions(next, rest);
    if !all.all(|extension| extension.is_ok_and(is_harmless)) {
        return None;
    }
    let upper = ipv6::upper_layer(next, rest);
    (upper.fault.is_none() && upper.fragment.is_none()).then_some((upper.protocol, upper.offset))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use wire::build::Builder;
    use wire::checksum::{ipv4_valid, tcp_valid, udp_valid};

    use super::*;

    /// Acts as a network function: writes another source address, the time to live and a congestion mark,
    /// and corrects the checksums.
    fn translate(ip: &mut [u8], headers: &Headers, address: u32) {
        let checksum = usize::from(headers.l4) + headers.checksum_offset();
        let at = if headers.is_ipv6 { 20 } else { 12 };
        let old = u32::from_be_bytes(*ip[at..].first_chunk().unwrap());
        ip[at..at + 4].copy_from_slice(&address.to_be_bytes());
        let delta = Delta::u32(old, address);
        let old = get(ip, checksum);
        let new = if headers.is_tcp { delta.apply(old) } else { delta.apply_udp(old) };
        put(ip, checksum, new.to_be_bytes());
        ip[1] |= if headers.is_ipv6 { 0x30 } else { 3 };
        if !headers.is_ipv6 {
            ip[8] = 7;
            let length = usize::from(ip[0] & 0xf) * 4;
            wire::checksum::fill_ipv4(&mut ip[..length]).unwrap();
        }
    }

    fn is_valid(ip: &[u8], headers: &Headers) -> bool {
        let (pseudo, segment) = (PseudoHeader::of(ip).unwrap(), &ip[headers.l4.into()..]);
        let header = headers.is_ipv6 || ipv4_valid(&ip[..headers.l4.into()]);
        header && if headers.is_tcp { tcp_valid(&pseudo, segment) } else { udp_valid(&pseudo, segment) }
    }

    proptest! {
        #[test]
        fn joined_packets_are_what_a_function_makes_of_whole_ones(
            is_ipv6: bool, is_tcp: bool, options in 0usize..=10, payload in vec(any::<u8>(), 17..600), rest in 0usize..20,
            damage in prop_oneof![Just(0u16), any::<u16>()], sequence: u32, tos: u8, token in any::<[u8; TOKEN]>(),
            marks: bool, is_tail: bool, address in prop_oneof![Just(None), any::<u32>().prop_map(Some)],
        ) {
            let end = |last: u8| -> SocketAddr {
                let six = format!("[fd00::{last}]:{last}").parse().unwrap();
                if is_ipv6 { six } else { ([10, 0, 0, last], last.into()).into() }
            };
            let builder = match is_tcp {
                true => Builder::tcp(end(1), end(2), flags::ACK).sequence(sequence, 9).options(&vec![1; 4 * options]),
                false => Builder::udp(end(1), end(2)),
            };
            let mut whole = builder.tos(tos).build(&payload).unwrap();
            let headers = Headers::find(&whole, 0, whole.len()).unwrap();
            prop_assert_eq!(Headers::find_any(&whole, 0, whole.len()), Some(headers));
            prop_assert_eq!(Headers::find_common(&whole, 0, whole.len()).is_some(), !is_ipv6);
            prop_assert_eq!(&whole[headers.payload.into()..headers.end as usize], &payload);
            // Damages the checksum, or leaves it right.
            let place = usize::from(headers.l4) + headers.checksum_offset();
            let checksum = get(&whole, place) ^ damage;
            put(&mut whole, place, checksum.to_be_bytes());
            let rest = rest.min(payload.len() - 1);
            let front = usize::from(headers.payload);
            let mut short = [&whole[..front], &token, &payload[payload.len() - rest..]].concat();
            let less = whole.len() as i32 - short.len() as i32;
            let original = headers.shorten(&mut short, less, marks, is_tail, None);
            let mut short_headers = Headers::find(&short, 0, short.len()).unwrap();
            let is_bare = !is_tcp && checksum == 0;
            prop_assert!(is_valid(&short, &short_headers) || is_bare && is_ipv6);
            prop_assert!(!marks || short_headers.dscp(&short) == MARKER);
            if let Some(address) = address {
                translate(&mut short, &short_headers, address);
                translate(&mut whole, &headers, address);
            }
            let mut joined = [&short[..front], &payload].concat();
            short_headers.end = headers.end;
            prop_assert!(short_headers.restore(&mut joined, &original, None));
            prop_assert_eq!(joined, whole);
        }

        #[test]
        fn anything_may_come(mut bytes in vec(any::<u8>(), 0..200), l3 in 0usize..20, extra in 0usize..50, first: u8) {
            if let Some(byte) = bytes.get_mut(l3) {
                *byte = [0x45, 0x46, 0x60, first][usize::from(first & 3)];
            }
            let length = bytes.len() + extra;
            Headers::is_doubtful(&bytes, l3, length);
            Headers::bears_mark(&bytes, l3);
            if let Some(headers) = Headers::find_common(&bytes, l3, length) {
                prop_assert_eq!(Headers::find_any(&bytes, l3, length), Some(headers));
            }
            if let Some(headers) = Headers::find(&bytes, l3, length) {
                prop_assert!(usize::from(headers.payload) <= bytes.len() && headers.end as usize <= length);
                let original = headers.shorten(&mut bytes, extra as i32 - 20, first & 4 == 0, true, None);
                headers.restore(&mut bytes, &original, None);
            }
            Headers::clear_mark(&mut bytes, l3);
        }
    }
}
