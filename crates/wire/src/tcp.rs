//! TCP header and options (RFC 9293, window scale and time stamps RFC 7323, SACK RFC 2018, ECN RFC 3168).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::options::RawOptions;
use crate::{Error, Layer, U16, U32};

/// Control bits: values of [`Header::flags`].
pub mod flags {
    /// Flag of a segment: the sender has no more data.
    pub const FIN: u8 = 0x01;
    /// Flag of a segment: the sequence number is the initial one (start of a connection).
    pub const SYN: u8 = 0x02;
    /// Flag of a segment: the connection is reset.
    pub const RST: u8 = 0x04;
    /// Flag of a segment: the receiver shall pass the data to the application at once.
    pub const PSH: u8 = 0x08;
    /// Flag of a segment: the acknowledgment number is valid, as in nearly all segments.
    pub const ACK: u8 = 0x10;
    /// Flag of a segment: the urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// Flag of a segment: its sender has received a packet with congestion experienced (ECN echo).
    pub const ECE: u8 = 0x40;
    /// Flag of a segment: the sender has reduced its congestion window after ECN echo.
    pub const CWR: u8 = 0x80;
}

/// The fixed 20 bytes of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// The sequence number of the first payload byte; with SYN, of the SYN itself.
    pub sequence: U32,
    /// The next sequence number that the sender of the segment expects from its peer.
    pub acknowledgment: U32,
    /// The data offset (header length) in 32-bit words, in the upper 4 bits; the lower 4 are reserved.
    pub data_offset: u8,
    /// Control bits, see [`flags`].
    pub flags: u8,
    /// The receive window. Its unit is one byte in a segment with SYN; otherwise 2 to the power of the window
    /// scale, in bytes (RFC 7323, section 2.2).
    pub window: U16,
    /// Checksum over the pseudo-header, the TCP header and the payload.
    pub checksum: U16,
    /// The offset from `sequence` of the end of urgent data; only valid with URG.
    pub urgent: U16,
}

impl Header {
    /// The length of the header without options in bytes.
    pub const LEN: usize = size_of::<Header>();

    /// Returns the length of the header with options in bytes, according to the data offset: 0-60, less
    /// than 20 if malformed.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset >> 4) * 4
    }

    /// True if at least one of these control bits is set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// A TCP segment whose header length has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The header without its options.
    pub header: &'a Header,
    /// Option bytes, a multiple of 4; read them with [`options`].
    pub options: &'a [u8],
    /// The data after the options.
    pub payload: &'a [u8],
}

/// Parses the segment that fills `bytes` (the payload of the IP packet).
///
/// # Errors
/// `Truncated` if `bytes` end before the header does, `Length` if the data offset is below 5.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Segment<'_>, Error> {
    let truncated = |need| Error::Truncated { layer: Layer::Tcp, need, have: bytes.len() };
    let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| truncated(Header::LEN))?;
    let header_len = header.header_len();
    let Some(options_len) = header_len.checked_sub(Header::LEN) else {
        return Err(Error::Length { layer: Layer::Tcp, found: header_len });
    };
    let (options, payload) = rest.split_at_checked(options_len).ok_or_else(|| truncated(header_len))?;
    Ok(Segment { header, options, payload })
}

/// An option of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// Kind 1: one byte of padding.
    Nop,
    /// Kind 2: the largest segment that the sender can receive, in bytes.
    MaxSegmentSize(u16),
    /// Kind 3: the exponent of the window's unit, which is 2 to this power in bytes.
    WindowScale(u8),
    /// Kind 4: the sender allows selective acknowledgments.
    SackPermitted,
    /// Kind 5: ranges of data that were received out of order.
    Sack(SackBlocks<'a>),
    /// Kind 8: time stamps of sender and peer.
    TimeStamps {
        /// The sender's clock when it sent the segment.
        value: u32,
        /// The time stamp of the peer that the sender echoes (TS.Recent in RFC 7323); only valid with ACK.
        echo: u32,
    },
    /// An option of any other kind, or of one of these kinds with an invalid length.
    Other {
        /// The kind of the option.
        kind: u8,
        /// The bytes after the kind and length bytes.
        data: &'a [u8],
    },
}

/// The blocks of a SACK option: ranges of sequence numbers that have been received out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks<'a> {
    blocks: &'a [[U32; 2]],
}

impl SackBlocks<'_> {
    /// Returns an iterator over (left edge, right edge): the first sequence number of each range, and the
    /// number after its last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.blocks.iter().map(|[left, right]| (left.get(), right.get()))
    }
}

/// Returns an iterator over option bytes, up to the end-of-list option. The first malformed option yields
/// an error and ends the iteration.
pub fn options(bytes: &[u8]) -> Options<'_> {
    Options(RawOptions::new(bytes, Layer::Tcp))
}

/// The iterator returned by [`options`].
#[derive(Debug, Clone)]
pub struct Options<'a>(RawOptions<'a>);

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(kind, data)| Opt::new(kind, data)))
    }
}

impl std::iter::FusedIterator for Options<'_> {}

impl<'a> Opt<'a> {
    #[inline]
    fn new(kind: u8, data: &'a [u8]) -> Self {
        match (kind, data) {
            (1, _) => Opt::Nop,
            (2, &[a, b]) => Opt::MaxSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => Opt::WindowScale(shift),
            (4, []) => Opt::SackPermitted,
            (5, data) => match <[[U32; 2]]>::ref_from_bytes(data) {
                Ok(blocks) if !blocks.is_empty() => Opt::Sack(SackBlocks { blocks }),
                _ => Opt::Other { kind, data },
            },
            (8, &[a, b, c, d, e, f, g, h]) => Opt::TimeStamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            _ => Opt::Other { kind, data },
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{TcpHeader, TcpHeaderSlice, TcpOptionElement};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Returns the option in etherparse's form; `None` if etherparse has no such option.
    fn oracle_option(option: Opt<'_>) -> Option<TcpOptionElement> {
        Some(match option {
            Opt::Nop => TcpOptionElement::Noop,
            Opt::MaxSegmentSize(mss) => TcpOptionElement::MaximumSegmentSize(mss),
            Opt::WindowScale(shift) => TcpOptionElement::WindowScale(shift),
            Opt::SackPermitted => TcpOptionElement::SelectiveAcknowledgementPermitted,
            Opt::Sack(blocks) => {
                let mut all = blocks.iter();
                let first = all.next()?;
                TcpOptionElement::SelectiveAcknowledgement(first, [all.next(), all.next(), all.next()])
            }
            Opt::TimeStamps { value, echo } => TcpOptionElement::Timestamp(value, echo),
            Opt::Other { .. } => return None,
        })
    }

    fn any_option() -> impl Strategy<Value = TcpOptionElement> {
        prop_oneof![
            Just(TcpOptionElement::Noop),
            any::<u16>().prop_map(TcpOptionElement::MaximumSegmentSize),
            any::<u8>().prop_map(TcpOptionElement::WindowScale),
            Just(TcpOptionElement::SelectiveAcknowledgementPermitted),
            any::<((u32, u32), (u32, u32))>()
                .prop_map(|(a, b)| TcpOptionElement::SelectiveAcknowledgement(a, [Some(b), None, None])),
            any::<(u32, u32)>().prop_map(|(a, b)| TcpOptionElement::Timestamp(a, b)),
        ]
    }

    proptest! {
        #[test]
        fn fields_and_options_agree_with_etherparse(
            ports: (u16, u16), sequence: u32, acknowledgment: u32, bits: u8, window: u16, checksum: u16, urgent: u16,
            elements in vec(any_option(), 0..4), payload in vec(any::<u8>(), 0..32),
        ) {
            let mut oracle = TcpHeader::new(ports.0, ports.1, sequence, window);
            oracle.acknowledgment_number = acknowledgment;
            oracle.fin = bits & flags::FIN != 0;
            oracle.syn = bits & flags::SYN != 0;
            oracle.rst = bits & flags::RST != 0;
            oracle.psh = bits & flags::PSH != 0;
            oracle.ack = bits & flags::ACK != 0;
            oracle.urg = bits & flags::URG != 0;
            oracle.ece = bits & flags::ECE != 0;
            oracle.cwr = bits & flags::CWR != 0;
            oracle.checksum = checksum;
            oracle.urgent_pointer = urgent;
            prop_assume!(oracle.set_options(&elements).is_ok());
            let mut bytes = oracle.to_bytes().to_vec();
            bytes.extend(&payload);

            let segment = parse(&bytes).unwrap();
            let header = segment.header;
            prop_assert_eq!((header.source.get(), header.destination.get()), ports);
            prop_assert_eq!((header.sequence.get(), header.acknowledgment.get()), (sequence, acknowledgment));
            prop_assert_eq!((header.flags, header.window.get()), (bits, window));
            prop_assert_eq!((header.checksum.get(), header.urgent.get()), (checksum, urgent));
            prop_assert_eq!(segment.payload, &payload[..]);
            let own: Vec<_> = options(segment.options).map(|o| oracle_option(o.unwrap()).unwrap()).collect();
            prop_assert_eq!(own, elements);
        }

        #[test]
        fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..80)) {
            let own = parse(&bytes);
            if let Ok(segment) = own {
                for option in options(segment.options).flatten() {
                    if let Opt::Sack(blocks) = option {
                        prop_assert!(blocks.iter().len() > 0);
                    }
                }
            }
            prop_assert_eq!(own.is_ok(), TcpHeaderSlice::from_slice(&bytes).is_ok());
        }

        #[test]
        fn any_options_are_answered(bytes in vec(prop_oneof![0u8..9, any::<u8>()], 0..40)) {
            let mut errors = 0;
            for option in options(&bytes) {
                prop_assert_eq!(errors, 0, "nothing follows an error");
                errors += usize::from(option.is_err());
            }
        }
    }

    #[test]
    fn four_sack_blocks_fill_an_option() {
        let mut bytes = vec![5, 34];
        for edge in 1..=8u32 {
            bytes.extend(edge.to_be_bytes());
        }
        let Some(Ok(Opt::Sack(blocks))) = options(&bytes).next() else { panic!("no SACK") };
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [(1, 2), (3, 4), (5, 6), (7, 8)]);
        // A SACK option whose data are not a multiple of 8 bytes is not a list of blocks.
        assert!(matches!(
            options(&[5, 5, 1, 2, 3]).next(),
            Some(Ok(Opt::Other { kind: 5, data: [1, 2, 3] }))
        ));
    }

    #[test]
    fn short_data_offset_is_malformed() {
        let mut bytes = [0u8; 20];
        bytes[12] = 0x40;
        assert_eq!(parse(&bytes), Err(Error::Length { layer: Layer::Tcp, found: 16 }));
        bytes[12] = 0x60;
        assert_eq!(parse(&bytes), Err(Error::Truncated { layer: Layer::Tcp, need: 24, have: 20 }));
    }
}
