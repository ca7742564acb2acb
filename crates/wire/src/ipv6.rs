//! IPv6 header and extension headers (RFC 8200; AH RFC 4302, mobility RFC 6275, jumbograms RFC 2675).
//!
//! [`extensions`] is the only loop over extension headers in this crate; [`upper_layer`] returns the header
//! that follows them. Both read at most [`MAX_EXTENSIONS`] headers, and at most [`MAX_EXTENSION_BYTES`] bytes
//! of headers in total.
//!
//! A packet beyond these limits has no transport header for any element, and so no ports. Its five-tuple
//! consists of its addresses and, as protocol, the number of the extension header that was not read; in a
//! fragment, the protocol that its fragment header names.

use std::net::Ipv6Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Layer, U16, U32, ip_protocol};

/// The largest number of extension headers that are read in one packet. RFC 8200 asks senders to use each
/// kind at most once, and destination options at most twice.
pub const MAX_EXTENSIONS: usize = 16;

/// The largest total size, in bytes, of the extension headers that are read in one packet. A segment
/// routing header (RFC 8754) of 15 segments fits.
pub const MAX_EXTENSION_BYTES: usize = 256;

/// The kind of the hop-by-hop option that holds the length of a jumbogram (RFC 2675).
const JUMBO_PAYLOAD: u8 = 0xc2;
/// The kind of the destination option that holds the home address of a mobile node (RFC 6275).
const HOME_ADDRESS: u8 = 0xc9;

/// The fixed 40 bytes of an IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The version, 6, in the upper 4 bits, then the traffic class (8 bits) and the flow label (20 bits).
    pub version_class_flow: U32,
    /// The number of bytes after this header, extension headers included; 0 in a jumbogram.
    pub payload_length: U16,
    /// The protocol of the header after this one, see [`crate::ip_protocol`]; it may be an extension
    /// header.
    pub next_header: u8,
    /// Hop limit: the number of hops that the packet may still make.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// Returns the version; 6 in a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// Returns the traffic class: DSCP in the upper 6 bits, ECN in the lower 2.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Sets the traffic class; the version and the flow label stay as they are.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let others = self.version_class_flow.get() & 0xf00f_ffff;
        self.version_class_flow.set(others | u32::from(class) << 20);
    }

    /// Returns the flow label, by which a source marks the packets of a flow; 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// Sets the flow label to the lower 20 bits of `label`.
    #[inline]
    pub fn set_flow_label(&mut self, label: u32) {
        let others = self.version_class_flow.get() & 0xfff0_0000;
        self.version_class_flow.set(others | label & 0x000f_ffff);
    }

    /// Returns the source address.
    #[inline]
    pub fn source_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.source)
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.destination)
    }
}

/// An IPv6 packet whose payload length has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The fixed header of 40 bytes.
    pub header: &'a Header,
    /// The extension headers and everything after them, up to the payload length; link padding is left out.
    pub payload: &'a [u8],
}

/// Parses the packet at the start of `bytes`; link padding after it may follow. If the payload length is 0,
/// the jumbo payload option gives the length, if there is one.
///
/// # Errors
///
/// `Truncated` if `bytes` end before the header or the payload length do, `Format` if the version is not 6.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Packet<'_>, Error> {
    let truncated = |need| Error::Truncated { layer: Layer::Ipv6, need, have: bytes.len() };
    let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| truncated(Header::LEN))?;
    if header.version() != 6 {
        return Err(Error::Format { layer: Layer::Ipv6, found: header.version().into() });
    }
    let length = match header.payload_length.get() {
        0 => jumbo_length(header.next_header, rest).unwrap_or(0),
        length => length.into(),
    };
    let payload = rest.get(..length).ok_or_else(|| truncated(Header::LEN.saturating_add(length)))?;
    Ok(Packet { header, payload })
}

/// Returns the payload length of a jumbogram in bytes, from the jumbo payload option. `rest` are the bytes
/// after the fixed header, whose next header is `next_header`. `None` if no hop-by-hop header with this
/// option follows, or if its value is 65,535 or less, which RFC 2675 forbids.
pub fn jumbo_length(next_header: u8, rest: &[u8]) -> Option<usize> {
    if next_header != ip_protocol::HOP_BY_HOP {
        return None;
    }
    let (extension, _) = Extension::split(next_header, rest).ok()?;
    let length = u32::from_be_bytes(*extension.option(JUMBO_PAYLOAD)?);
    (length > u16::MAX.into()).then_some(length as usize)
}

/// An extension header of a packet, with its kind and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The kind of this extension header: an IP protocol number.
    pub kind: u8,
    /// The protocol of the header after this extension header.
    pub next_header: u8,
    /// The bytes of this header, from its next header field on.
    pub bytes: &'a [u8],
}

impl<'a> Extension<'a> {
    /// True if the protocol number is that of an extension header that [`extensions`] reads: hop-by-hop,
    /// routing, fragment, destination options, AH or mobility.
    #[inline]
    pub fn is(protocol: u8) -> bool {
        matches!(
            protocol,
            ip_protocol::HOP_BY_HOP
                | ip_protocol::ROUTING
                | ip_protocol::FRAGMENT
                | ip_protocol::DESTINATION
                | ip_protocol::AH
                | ip_protocol::MOBILITY
        )
    }

    /// Returns this extension as a fragment header; `None` if it is of another kind.
    #[inline]
    pub fn fragment(&self) -> Option<&'a FragmentHeader> {
        match self.kind {
            ip_protocol::FRAGMENT => FragmentHeader::ref_from_bytes(self.bytes).ok(),
            _ => None,
        }
    }

    /// Returns the data of the first option of a kind with `LENGTH` bytes of data, in a hop-by-hop or
    /// destination options header; `None` if there is none.
    fn option<const LENGTH: usize>(&self, kind: u8) -> Option<&'a [u8; LENGTH]> {
        let mut options = self.bytes.get(2..)?;
        loop {
            options = match options {
                // The option Pad1 is a single zero byte; all other options have a length.
                [0, rest @ ..] => rest,
                [found, length, rest @ ..] => {
                    let (data, rest) = rest.split_at_checked((*length).into())?;
                    if *found == kind
                        && let Ok(data) = data.try_into()
                    {
                        return Some(data);
                    }
                    rest
                }
                _ => return None,
            };
        }
    }

    /// Returns the final destination that a routing header with segments left gives. `destination` is the
    /// one in the IPv6 header.
    ///
    /// For types 0 and 2 (RFC 8200, RFC 6275) and type 3 (RFC 6554), the result is the last address in the
    /// header. Type 3 omits the prefix that addresses share with `destination`, which is added. For type 4
    /// (RFC 8754), the result is the first entry of the segment list. `None` for other types, and if the
    /// header is too short.
    fn final_destination(&self, destination: [u8; 16]) -> Option<[u8; 16]> {
        const ADDRESSES: usize = 8;
        let addresses = self.bytes.get(ADDRESSES..)?;
        match *self.bytes.get(2)? {
            0 | 2 => addresses.as_chunks::<16>().0.last().copied(),
            3 => {
                let shared = usize::from(self.bytes[4] & 15);
                let padding = usize::from(self.bytes[5] >> 4);
                let end = addresses.len().checked_sub(padding)?;
                let rest = addresses.get(end.checked_sub(16 - shared)?..end)?;
                let mut last = destination;
                last[shared..].copy_from_slice(rest);
                Some(last)
            }
            4 => addresses.first_chunk().copied(),
            _ => None,
        }
    }

    fn split(kind: u8, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let truncated = |need| Error::Truncated { layer: Layer::Ipv6Extension, need, have: bytes.len() };
        let &[next_header, length, ..] = bytes else { return Err(truncated(8)) };
        let length = match kind {
            ip_protocol::FRAGMENT => FragmentHeader::LEN,
            ip_protocol::AH => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        let (bytes, rest) = bytes.split_at_checked(length).ok_or_else(|| truncated(length))?;
        Ok((Extension { kind, next_header, bytes }, rest))
    }
}

/// The fragment extension header, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FragmentHeader {
    /// The protocol of the header that follows in the reassembled packet.
    pub next_header: u8,
    /// Reserved; zero.
    pub reserved: u8,
    /// The fragment's offset in units of 8 bytes (upper 13 bits), and "more fragments" (lowest bit).
    pub offset_more: U16,
    /// Identification, which all fragments of a packet share.
    pub id: U32,
}

impl FragmentHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<FragmentHeader>();

    /// Returns the offset in bytes of this fragment's payload in the fragmentable part of the packet.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_more.get() & 0xfff8)
    }

    /// True if another fragment of the packet follows this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }

    /// True if the fragment holds the whole packet (offset 0, no more fragments). It is then treated as a
    /// packet without a fragment header (RFC 6946; RFC 8200, section 4.5).
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.offset_more.get() & 0xfff9 == 0
    }
}

/// Returns an iterator over the extension headers at the start of `bytes`; `next_header` is the field of
/// the header before them.
///
/// The iteration ends before the first header that is not an extension header. It also ends after the header
/// of a fragment other than the first, because data follow. A fault yields an error and ends the iteration:
/// truncation, more than [`MAX_EXTENSIONS`] headers, or more than [`MAX_EXTENSION_BYTES`] bytes.
pub fn extensions(next_header: u8, bytes: &[u8]) -> Extensions<'_> {
    Extensions { next_header, rest: bytes, seen: 0, length: 0, done: false }
}

/// The iterator returned by [`extensions`].
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    next_header: u8,
    rest: &'a [u8],
    seen: usize,
    /// The total length in bytes of the headers yielded so far.
    length: usize,
    done: bool,
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !Extension::is(self.next_header) {
            return None;
        }
        if self.seen == MAX_EXTENSIONS {
            self.done = true;
            return Some(Err(Error::TooMany { layer: Layer::Ipv6Extension, limit: MAX_EXTENSIONS }));
        }
        match Extension::split(self.next_header, self.rest) {
            Ok((extension, rest)) => {
                self.seen += 1;
                self.length += extension.bytes.len();
                if self.length > MAX_EXTENSION_BYTES {
                    self.done = true;
                    let limit = MAX_EXTENSION_BYTES;
                    return Some(Err(Error::TooLong { layer: Layer::Ipv6Extension, limit }));
                }
                self.next_header = extension.next_header;
                self.rest = rest;
                self.done = extension.fragment().is_some_and(|fragment| fragment.offset() != 0);
                Some(Ok(extension))
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Extensions<'_> {}

/// Returns the source and destination address of the pseudo-header, given the IPv6 header and the bytes
/// after it.
///
/// A home address option replaces the source (RFC 6275, section 6.3). As long as a routing header has
/// segments left, its final destination replaces the destination (RFC 8200, section 8.1). `None` if this
/// destination is unknown, because the routing header has another type or is too short. The first unreadable
/// extension header and all bytes after it are ignored.
#[inline]
pub fn checksum_addresses(header: &Header, rest: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    match Extension::is(header.next_header) {
        true => extended_addresses(header, rest),
        false => Some((header.source_addr(), header.destination_addr())),
    }
}

#[inline(never)]
fn extended_addresses(header: &Header, rest: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let Header { mut source, mut destination, .. } = *header;
    for extension in extensions(header.next_header, rest).flatten() {
        match extension.kind {
            // Byte 3 is the number of segments left.
            ip_protocol::ROUTING if extension.bytes.get(3) > Some(&0) => {
                destination = extension.final_destination(destination)?;
            }
            ip_protocol::DESTINATION => source = *extension.option(HOME_ADDRESS).unwrap_or(&source),
            _ => {}
        }
    }
    Some((Ipv6Addr::from_octets(source), Ipv6Addr::from_octets(destination)))
}

/// The position and protocol of the upper-layer header, and the fragment header before it, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer<'a> {
    /// The protocol of the header after the last extension header. After a fault, the kind of the extension
    /// header that could not be read.
    pub protocol: u8,
    /// The offset of the header of `protocol`, in bytes from the end of the fixed header. In a fragment other
    /// than the first, data are at this offset instead.
    pub offset: usize,
    /// The fragment header, if the packet is a fragment. `None` if there is no such header, or if it holds
    /// the whole packet ([`FragmentHeader::is_atomic`]).
    pub fragment: Option<&'a FragmentHeader>,
    /// The fault that ended the iteration over extension headers early; `None` if all could be read.
    pub fault: Option<Error>,
}

/// Reads the extension headers at the start of `bytes`, with the limits of [`extensions`], and returns the
/// position of the header after them. `next_header` is the field of the header before `bytes`.
#[inline]
pub fn upper_layer(next_header: u8, bytes: &[u8]) -> UpperLayer<'_> {
    let mut found = UpperLayer { protocol: next_header, offset: 0, fragment: None, fault: None };
    for extension in extensions(next_header, bytes) {
        match extension {
            Ok(extension) => {
                found.protocol = extension.next_header;
                found.offset += extension.bytes.len();
                found.fragment =
                    found.fragment.or(extension.fragment().filter(|fragment| !fragment.is_atomic()));
            }
            Err(error) => found.fault = Some(error),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use etherparse::{IpNumber, Ipv6ExtensionsSlice, Ipv6Header};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Returns a sequence of extension headers, given the kind and length field of each, that ends in UDP:
    /// the protocol of the first header, and the bytes.
    fn chain(kinds: &[(u8, u8)]) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        for (index, &(kind, length)) in kinds.iter().enumerate() {
            let next = kinds.get(index + 1).map_or(ip_protocol::UDP, |&(kind, _)| kind);
            let (size, length) = match kind {
                ip_protocol::FRAGMENT => (8, 0),
                ip_protocol::AH => (usize::from(length) * 4 + 12, length + 1),
                _ => (usize::from(length) * 8 + 8, length),
            };
            let start = bytes.len();
            bytes.resize(start + size, 0);
            bytes[start] = next;
            bytes[start + 1] = length;
        }
        (kinds.first().map_or(ip_protocol::UDP, |&(kind, _)| kind), bytes)
    }

    proptest! {
        #[test]
        fn fields_agree_with_etherparse(
            class: u8, flow in 0u32..0x10_0000, next: u8, hops: u8, source: [u8; 16], destination: [u8; 16],
            payload in vec(any::<u8>(), 1..64), pad in 0usize..4,
        ) {
            let oracle = Ipv6Header {
                traffic_class: class,
                flow_label: flow.try_into().unwrap(),
                payload_length: payload.len() as u16,
                next_header: IpNumber(next),
                hop_limit: hops,
                source,
                destination,
            };
            let mut bytes = oracle.to_bytes().to_vec();
            bytes.extend(&payload);
            bytes.resize(bytes.len() + pad, 0xee);
            let packet = parse(&bytes).unwrap();
            let header = packet.header;
            prop_assert_eq!((header.traffic_class(), header.flow_label()), (class, flow));
            prop_assert_eq!((header.next_header, header.hop_limit), (next, hops));
            prop_assert_eq!((header.source_addr().octets(), header.destination_addr().octets()), (source, destination));
            prop_assert_eq!(packet.payload, &payload[..]);

            let mut copy = *header;
            copy.set_traffic_class(!class);
            copy.set_flow_label(!flow);
            prop_assert_eq!((copy.version(), copy.traffic_class(), copy.flow_label()), (6, !class, !flow & 0xf_ffff));
        }

        #[test]
        fn walks_end_where_etherparse_ends(
            kinds in vec((prop::sample::select(vec![43u8, 44, 60, 51, 135]), 0u8..4), 0..3), hop: bool,
            tail in vec(any::<u8>(), 0..16),
        ) {
            // etherparse accepts each kind at most once, and hop-by-hop only at the start.
            let mut kinds = kinds;
            kinds.sort();
            kinds.dedup_by_key(|k| k.0);
            if hop {
                kinds.insert(0, (0, 1));
            }
            let (next, mut bytes) = chain(&kinds);
            let length = bytes.len();
            bytes.extend(&tail);
            let own = upper_layer(next, &bytes);
            let (_, oracle_next, rest) = Ipv6ExtensionsSlice::from_slice(IpNumber(next), &bytes).unwrap();
            if oracle_next.0 == 17 {
                prop_assert_eq!(own.offset, bytes.len() - rest.len());
            }
            prop_assert_eq!((own.protocol, own.offset, own.fault), (ip_protocol::UDP, length, None));
            prop_assert_eq!(own.fragment, None, "the fragment headers hold whole packets");

            // If the bytes are cut at any point, the fault is a truncation, and the protocol is that of the
            // extension header at the offset that was reached.
            for cut in 0..length {
                let own = upper_layer(next, &bytes[..cut]);
                prop_assert!(matches!(own.fault, Some(Error::Truncated { .. })), "cut at {}", cut);
                prop_assert!(own.offset <= cut);
                prop_assert!(Extension::is(own.protocol));
            }
        }

        #[test]
        fn any_bytes_are_answered(next: u8, bytes in vec(prop_oneof![Just(0u8), Just(60u8), 0u8..4, any::<u8>()], 0..160)) {
            let own = upper_layer(next, &bytes);
            prop_assert!(own.offset <= bytes.len());
            let _ = jumbo_length(next, &bytes);
            let fixed = Header::read_from_bytes(&[next; Header::LEN]).unwrap();
            let _ = checksum_addresses(&fixed, &bytes);
            let routed = [&[17, 1][..], &bytes].concat();
            let fixed = Header { next_header: ip_protocol::ROUTING, ..fixed };
            let _ = checksum_addresses(&fixed, &routed);
            let _ = parse(&bytes);
            prop_assert!(extensions(next, &bytes).count() <= MAX_EXTENSIONS + 1);
        }
    }

    #[test]
    fn the_chain_is_bounded() {
        let (next, bytes) = chain(&[(60, 0); MAX_EXTENSIONS]);
        assert_eq!(upper_layer(next, &bytes).fault, None);
        let (next, bytes) = chain(&[(60, 0); MAX_EXTENSIONS + 1]);
        let found = upper_layer(next, &bytes);
        assert_eq!(found.fault, Some(Error::TooMany { layer: Layer::Ipv6Extension, limit: MAX_EXTENSIONS }));
        assert_eq!(found.offset, MAX_EXTENSIONS * 8);
    }

    #[test]
    fn so_are_the_bytes_of_the_chain() {
        // Two headers of 128 bytes each just fit into the limit of 256 bytes.
        let (next, bytes) = chain(&[(60, 15); 2]);
        assert_eq!(bytes.len(), MAX_EXTENSION_BYTES);
        let found = upper_layer(next, &bytes);
        assert_eq!((found.protocol, found.offset, found.fault), (ip_protocol::UDP, 256, None));
        let (next, bytes) = chain(&[(60, 15), (60, 15), (60, 0)]);
        let found = upper_layer(next, &bytes);
        assert_eq!(found.fault, Some(Error::TooLong { layer: Layer::Ipv6Extension, limit: 256 }));
        assert_eq!((found.protocol, found.offset), (60, 256));
    }

    #[test]
    fn a_fragment_that_is_the_whole_packet_is_none() {
        let with = |word: u16| {
            let (next, mut bytes) = chain(&[(60, 0), (44, 0)]);
            bytes[10..12].copy_from_slice(&word.to_be_bytes());
            let found = upper_layer(next, &bytes);
            (found.protocol, found.offset, found.fragment.map(|fragment| fragment.more_fragments()))
        };
        // The reserved bits of a fragment header are ignored.
        assert_eq!([with(0), with(6)], [(17, 16, None); 2]);
        assert_eq!(with(1), (17, 16, Some(true)));
        assert_eq!(with(8), (17, 16, Some(false)));
        // Of two fragment headers, the first has "more fragments", so that the packet is a fragment.
        let (next, mut bytes) = chain(&[(44, 0), (44, 0)]);
        bytes[11] = 1;
        assert!(upper_layer(next, &bytes).fragment.is_some());
    }

    #[test]
    fn behind_a_later_fragment_lie_data() {
        // The fragment header says "destination options" next, but its offset is not zero: the bytes that
        // follow are from the middle of the datagram.
        let (next, mut bytes) = chain(&[(44, 0), (60, 0)]);
        bytes[2..4].copy_from_slice(&(1400u16 | 1).to_be_bytes());
        bytes[4..8].copy_from_slice(&7u32.to_be_bytes());
        let found = upper_layer(next, &bytes);
        let fragment = found.fragment.unwrap();
        assert_eq!((found.protocol, found.offset), (60, 8));
        assert_eq!((fragment.offset(), fragment.more_fragments(), fragment.id.get()), (1400, true, 7));
    }

    #[test]
    fn jumbograms_take_their_length_from_the_option() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        bytes.resize(40, 0);
        // A hop-by-hop header: next header UDP, 8 bytes, and a jumbo payload option of 70,000 bytes.
        bytes.extend([17, 0, 0xc2, 4]);
        bytes.extend(70_000u32.to_be_bytes());
        assert_eq!(parse(&bytes), Err(Error::Truncated { layer: Layer::Ipv6, need: 70_040, have: 48 }));
        bytes.resize(70_050, 1);
        assert_eq!(parse(&bytes).unwrap().payload.len(), 70_000);
        // A payload of 65,535 bytes needs no jumbogram, so the option is invalid.
        bytes[44..48].copy_from_slice(&65_535u32.to_be_bytes());
        assert_eq!(parse(&bytes).unwrap().payload.len(), 0);
        // In this hop-by-hop header, the jumbo payload option follows padding options.
        assert_eq!(jumbo_length(0, &[17, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0xc2, 4, 1, 0, 0, 0]), Some(1 << 24));
        assert_eq!(jumbo_length(60, &[17, 0, 0xc2, 4, 1, 0, 0, 0]), None);
    }
}
