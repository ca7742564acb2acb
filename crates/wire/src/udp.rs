//! UDP header (RFC 768; length of jumbograms RFC 2675).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Error, Layer, U16};

/// The 8 bytes of a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// The length of header and payload in bytes; 0 in a jumbogram, whose length follows from the IP
    /// header.
    pub length: U16,
    /// Checksum over pseudo-header, header and payload; 0 means no checksum, which IPv4 allows, and IPv6 only
    /// for tunnels (RFC 6935).
    pub checksum: U16,
}

impl Header {
    /// The length of the header in bytes.
    pub const LEN: usize = size_of::<Header>();
}

/// A UDP datagram whose length has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The header of the datagram.
    pub header: &'a Header,
    /// The data after the header.
    pub payload: &'a [u8],
}

/// Parses the datagram at the start of `bytes`, the payload of the IP packet. A length field of 0 means
/// that the datagram fills `bytes`.
///
/// # Errors
///
/// `Truncated` if `bytes` end before the header or the length do, `Length` if the length field is 1-7.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Datagram<'_>, Error> {
    let truncated = |need| Error::Truncated { layer: Layer::Udp, need, have: bytes.len() };
    let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| truncated(Header::LEN))?;
    let payload = match usize::from(header.length.get()) {
        0 => rest,
        length @ 1..Header::LEN => return Err(Error::Length { layer: Layer::Udp, found: length }),
        length => bytes.get(Header::LEN..length).ok_or_else(|| truncated(length))?,
    };
    Ok(Datagram { header, payload })
}

#[cfg(test)]
mod tests {
    use etherparse::{UdpHeader, UdpSlice};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_etherparse(
            ports: (u16, u16), checksum: u16, payload in vec(any::<u8>(), 0..64), pad in 0usize..4,
        ) {
            let length = (Header::LEN + payload.len()) as u16;
            let oracle = UdpHeader { source_port: ports.0, destination_port: ports.1, length, checksum };
            let mut bytes = oracle.to_bytes().to_vec();
            bytes.extend(&payload);
            bytes.resize(bytes.len() + pad, 0xee);
            let datagram = parse(&bytes).unwrap();
            let header = datagram.header;
            prop_assert_eq!((header.source.get(), header.destination.get()), ports);
            prop_assert_eq!((header.length.get(), header.checksum.get()), (length, checksum));
            prop_assert_eq!(datagram.payload, &payload[..]);
        }

        #[test]
        fn any_bytes_are_answered(bytes in vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 0..24)) {
            match (parse(&bytes), UdpSlice::from_slice(&bytes)) {
                (Ok(own), Ok(oracle)) => prop_assert_eq!(own.payload, oracle.payload()),
                (own, oracle) => prop_assert_eq!(own.is_ok(), oracle.is_ok()),
            }
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_told_apart() {
        let parse_with = |length: u8| parse(&[0, 1, 0, 2, 0, length, 0, 0, 9, 9]).map(|d| d.payload.len());
        assert_eq!(parse_with(0), Ok(2));
        assert_eq!(parse_with(7), Err(Error::Length { layer: Layer::Udp, found: 7 }));
        assert_eq!(parse_with(8), Ok(0));
        assert_eq!(parse_with(11), Err(Error::Truncated { layer: Layer::Udp, need: 11, have: 10 }));
    }
}
