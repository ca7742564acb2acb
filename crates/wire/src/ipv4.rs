//! IPv4 header and options (RFC 791; DSCP RFC 2474, ECN RFC 3168).

use std::net::Ipv4Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::options::RawOptions;
use crate::{Error, Layer, U16, U32};

/// The "don't fragment" bit of [`Header::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The "more fragments" bit of [`Header::fragment`].
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The bits of [`Header::fragment`] that hold the offset, in units of 8 bytes.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// The fixed 20 bytes of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// The version, 4, in the upper 4 bits, and the header length in 32-bit words (IHL) in the lower 4.
    pub version_ihl: u8,
    /// Type of service: DSCP in the upper 6 bits, ECN in the lower 2.
    pub tos: u8,
    /// The length of the whole packet, header and payload, in bytes.
    pub total_length: U16,
    /// Identification, which all fragments of a datagram share.
    pub id: U16,
    /// Flags and fragment offset, see [`DONT_FRAGMENT`], [`MORE_FRAGMENTS`], [`FRAGMENT_OFFSET`].
    pub fragment: U16,
    /// Time to live: the number of hops that the packet may still make.
    pub ttl: u8,
    /// The protocol of the payload, see [`crate::ip_protocol`].
    pub protocol: u8,
    /// Checksum of the header with its options.
    pub checksum: U16,
    /// Source address.
    pub source: U32,
    /// Destination address.
    pub destination: U32,
}

impl Header {
    /// The length of the header without options in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// Returns the version; 4 in a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Returns the length of the header with options in bytes, according to the IHL field: 0-60, less than
    /// 20 if malformed.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0x0f) * 4
    }

    /// Returns the differentiated services code point (DSCP), 0-63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Sets the DSCP to the lower 6 bits of `dscp`; ECN stays as it is.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        self.tos = dscp << 2 | self.tos & 3;
    }

    /// Returns the explicit congestion notification bits (ECN), 0-3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// Sets ECN to the lower 2 bits of `ecn`; the DSCP stays as it is.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        self.tos = self.tos & !3 | ecn & 3;
    }

    /// Returns the offset in bytes of this packet's payload in the payload of the whole datagram; 0 for the
    /// first fragment, and for a packet that is not a fragment.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment.get() & FRAGMENT_OFFSET) * 8
    }

    /// True if the packet is a fragment, but not the last one of its datagram.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment.get() & MORE_FRAGMENTS != 0
    }

    /// True if the "don't fragment" bit is set: routers drop the packet if it is too long for a link.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment.get() & DONT_FRAGMENT != 0
    }

    /// True if the packet is a fragment: its offset is not zero, or more fragments follow.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment.get() & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Returns the source address.
    #[inline]
    pub fn source_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.source.get())
    }

    /// Returns the destination address.
    #[inline]
    pub fn destination_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.destination.get())
    }
}

/// An IPv4 packet whose header length and total length have been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header without its options.
    pub header: &'a Header,
    /// Option bytes, a multiple of 4; read them with [`options`].
    pub options: &'a [u8],
    /// The bytes from the end of the options to the total length, without link padding.
    pub payload: &'a [u8],
}

/// Parses the packet at the start of `bytes`; link padding after it may follow.
///
/// # Errors
///
/// `Truncated` if `bytes` end before the header or the total length do; `Format` if the version is not 4;
/// `Length` if the IHL is below 5, or the total length is less than the header length.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Packet<'_>, Error> {
    let truncated = |need| Error::Truncated { layer: Layer::Ipv4, need, have: bytes.len() };
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| truncated(Header::LEN))?;
    if header.version() != 4 {
        return Err(Error::Format { layer: Layer::Ipv4, found: header.version().into() });
    }
    let header_len = header.header_len();
    let options = bytes.get(Header::LEN..header_len);
    if header_len < Header::LEN {
        return Err(Error::Length { layer: Layer::Ipv4, found: header_len });
    }
    let options = options.ok_or_else(|| truncated(header_len))?;
    let total = usize::from(header.total_length.get());
    if total < header_len {
        return Err(Error::Length { layer: Layer::Ipv4, found: total });
    }
    let payload = bytes.get(header_len..total).ok_or_else(|| truncated(total))?;
    Ok(Packet { header, options, payload })
}

/// Values of [`Opt::kind`] (IANA IPv4 option numbers).
pub mod option {
    /// Kind of the option that ends the list.
    pub const END: u8 = 0;
    /// Kind of the option that is one byte of padding.
    pub const NOP: u8 = 1;
    /// Kind of the option "record route".
    pub const RECORD_ROUTE: u8 = 7;
    /// Kind of the option "Internet time stamp".
    pub const TIME_STAMP: u8 = 68;
    /// Kind of the option "loose source route".
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Kind of the option "strict source route".
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Kind of the option "router alert" (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;
}

/// An option of an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The kind, see [`option`]. If the top bit is set, each fragment carries a copy of the option;
    /// otherwise only the first.
    pub kind: u8,
    /// The bytes after the kind and length bytes; empty for [`option::NOP`], which has only a kind.
    pub data: &'a [u8],
}

/// Returns an iterator over option bytes, up to the end-of-list option. The first malformed option yields
/// an error and ends the iteration.
pub fn options(bytes: &[u8]) -> Options<'_> {
    Options(RawOptions::new(bytes, Layer::Ipv4))
}

/// The iterator returned by [`options`].
#[derive(Debug, Clone)]
pub struct Options<'a>(RawOptions<'a>);

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(kind, data)| Opt { kind, data }))
    }
}

impl std::iter::FusedIterator for Options<'_> {}

#[cfg(test)]
mod tests {
    use etherparse::{IpDscp, IpEcn, IpFragOffset, Ipv4Header, Ipv4HeaderSlice, Ipv4Options};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_agree_with_etherparse(
            tos: u8, id: u16, flags in 0u8..4, offset in 0u16..0x2000, ttl: u8, protocol: u8,
            source: [u8; 4], destination: [u8; 4], words in 0usize..=10, payload in vec(any::<u8>(), 0..64),
            pad in 0usize..8,
        ) {
            let mut oracle = Ipv4Header::new(payload.len() as u16, ttl, protocol.into(), source, destination).unwrap();
            oracle.dscp = IpDscp::try_new(tos >> 2).unwrap();
            oracle.ecn = IpEcn::try_new(tos & 3).unwrap();
            oracle.identification = id;
            oracle.dont_fragment = flags & 1 != 0;
            oracle.more_fragments = flags & 2 != 0;
            oracle.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            oracle.options = Ipv4Options::try_from(&vec![1u8; words * 4][..]).unwrap();
            oracle.set_payload_len(payload.len()).unwrap();
            oracle.header_checksum = oracle.calc_header_checksum();
            let mut bytes = oracle.to_bytes().to_vec();
            bytes.extend(&payload);
            bytes.resize(bytes.len() + pad, 0xee);

            let packet = parse(&bytes).unwrap();
            let header = packet.header;
            prop_assert_eq!((header.dscp(), header.ecn(), header.id.get()), (tos >> 2, tos & 3, id));
            prop_assert_eq!((header.dont_fragment(), header.more_fragments()), (flags & 1 != 0, flags & 2 != 0));
            prop_assert_eq!(header.fragment_offset(), usize::from(offset) * 8);
            prop_assert_eq!(header.is_fragment(), oracle.is_fragmenting_payload());
            prop_assert_eq!((header.ttl, header.protocol), (ttl, protocol));
            prop_assert_eq!(header.source_addr().octets(), source);
            prop_assert_eq!(header.destination_addr().octets(), destination);
            prop_assert_eq!(header.checksum.get(), oracle.header_checksum);
            prop_assert_eq!(packet.options.len(), words * 4);
            prop_assert_eq!(packet.payload, &payload[..]);
        }

        #[test]
        fn any_bytes_are_answered(mut bytes in vec(any::<u8>(), 0..80), fix: bool) {
            if fix && let Some(first) = bytes.first_mut() {
                *first = *first & 0x0f | 0x40;
            }
            let own = parse(&bytes);
            if let Ok(packet) = own {
                let _ = options(packet.options).count();
            }
            // etherparse's header slice does not check the total length. `parse` checks it last, so that an
            // error of this check alone is no disagreement.
            let total_length = bytes.get(2..4).map(|field| u16::from_be_bytes([field[0], field[1]]).into());
            let only_total_length_wrong = match own {
                Err(Error::Truncated { need, .. }) => Some(need) == total_length && bytes.len() >= Header::LEN,
                Err(Error::Length { found, .. }) => found != usize::from(bytes[0] & 15) * 4,
                _ => false,
            };
            let header_ok = own.is_ok() || only_total_length_wrong;
            prop_assert_eq!(header_ok, Ipv4HeaderSlice::from_slice(&bytes).is_ok());
        }

        #[test]
        fn any_options_are_answered(bytes in vec(any::<u8>(), 0..40)) {
            let mut seen = 0;
            for option in options(&bytes).flatten() {
                seen += if option.kind == option::NOP { 1 } else { 2 + option.data.len() };
            }
            prop_assert!(seen <= bytes.len());
        }
    }

    #[test]
    fn impossible_lengths_are_told_apart() {
        let mut bytes = [0u8; 24];
        bytes[0] = 0x45;
        bytes[3] = 24;
        assert_eq!(parse(&bytes).unwrap().payload.len(), 4);
        bytes[3] = 25;
        assert_eq!(parse(&bytes), Err(Error::Truncated { layer: Layer::Ipv4, need: 25, have: 24 }));
        bytes[3] = 19;
        assert_eq!(parse(&bytes), Err(Error::Length { layer: Layer::Ipv4, found: 19 }));
        bytes[0] = 0x44;
        assert_eq!(parse(&bytes), Err(Error::Length { layer: Layer::Ipv4, found: 16 }));
        bytes[0] = 0x47;
        assert_eq!(parse(&bytes), Err(Error::Truncated { layer: Layer::Ipv4, need: 28, have: 24 }));
        bytes[0] = 0x65;
        assert_eq!(parse(&bytes), Err(Error::Format { layer: Layer::Ipv4, found: 6 }));
    }

    #[test]
    fn setters_keep_their_neighbours() {
        let mut bytes = [0u8; 20];
        let (header, _) = Header::mut_from_prefix(&mut bytes).unwrap();
        header.set_dscp(46);
        header.set_ecn(3);
        assert_eq!((header.tos, header.dscp(), header.ecn()), (0xbb, 46, 3));
        header.set_dscp(1);
        assert_eq!((header.dscp(), header.ecn()), (1, 3));
    }

    #[test]
    fn options_end_at_the_list_end_or_the_first_fault() {
        let kinds = |bytes| options(bytes).map(|o| o.map(|o| (o.kind, o.data.len()))).collect::<Vec<_>>();
        assert_eq!(kinds(&[1, 148, 4, 0, 0, 1, 0, 1]), [Ok((1, 0)), Ok((148, 2)), Ok((1, 0))]);
        for bad in [&[1u8, 7][..], &[1, 7, 1], &[1, 7, 0], &[1, 7, 4, 0]] {
            let found = kinds(bad);
            assert_eq!(found.len(), 2);
            assert!(found[1].is_err(), "{bad:?}");
        }
    }
}
