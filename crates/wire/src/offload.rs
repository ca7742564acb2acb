//! Work on frames that their sender leaves to a device with offloads. [`completed`] finishes a checksum
//! whose field holds only the sum of the pseudo-header. [`Segments`] cuts a large frame into frames of the
//! size that its sender chose.
//!
//! The offsets and sizes come with the frame in a virtio-net header (virtio 1.2, section 5.1.6). Frames may
//! be in pieces, so most functions need only the headers, in the first piece. [`complete`] and
//! [`Segments::write`] need the whole frame in one piece.

use std::ops::Range;

use crate::checksum::{self, PseudoHeader, Sum};
use crate::layers::Network;
use crate::{Error, FromBytes, Layer, Layers, LinkType, ip_protocol, ipv4, ipv6, tcp, udp};

/// Computes the checksum of a frame whose checksum field holds the sum of the pseudo-header. It covers the
/// bytes from offset `start` to the end of the frame, which is given in pieces. A result of zero becomes
/// 0xffff, which has the same value and, for UDP, does not mean "no checksum".
///
/// ```
/// use wire::offload::completed;
///
/// // The field is at 2; the pseudo header's sum was 0x1234.
/// let frame = [0, 0, 0x12, 0x34, 0xab];
/// assert_eq!(completed([&frame[..3], &frame[3..]], 2), !(0x1234 + 0xab00));
/// ```
pub fn completed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, start: usize) -> u16 {
    let mut skip = start;
    let mut sum = Sum::new();
    for piece in pieces {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        sum = sum.bytes(&piece[skipped..]);
    }
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Completes the checksum of a frame in one piece, and writes it into its field. The checksum covers the
/// bytes from `start` on; its field is at offset `start + offset`.
///
/// # Errors
///
/// `Truncated` if the field is not inside the frame.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> Result<(), Error> {
    let checksum = completed([&*frame], start);
    set_checksum(frame, start, offset, checksum)
}

/// Writes a checksum into its field at offset `start + offset`. `head` is the frame or its first piece.
///
/// # Errors
///
/// `Truncated` if the field is not inside `head`.
pub fn set_checksum(head: &mut [u8], start: usize, offset: usize, checksum: u16) -> Result<(), Error> {
    let at = start.saturating_add(offset);
    let have = head.len();
    let field = head.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
    *field.ok_or(Error::Truncated { layer: Layer::Link, need: at.saturating_add(2), have })? =
        checksum.to_be_bytes();
    Ok(())
}

/// The plan by which a large TCP or UDP frame is cut into frames with the payload size that its sender
/// chose. Each frame gets a copy of the headers with its own lengths, identification, sequence number,
/// flags and checksums.
///
/// ```
/// use wire::offload::Segments;
/// # use wire::{LinkType, build::Builder};
/// # let [a, b] = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
/// # let large = Builder::tcp(a, b, 0).build(&[7; 2500]).unwrap();
///
/// let segments = Segments::of(&large, LinkType::RawIp, large.len(), 1000)?;
/// for number in 0..segments.count() {
///     let mut frame = Vec::new();
///     segments.write(&large, number, &mut frame);
///     assert_eq!(frame.len(), 40 + [1000, 1000, 500][number]);
/// }
/// # Ok::<(), wire::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    network: Network,
    l3: usize,
    l4: usize,
    /// The offset in bytes of the payload, after all headers of the large frame.
    start: usize,
    /// The offset in bytes of the end of the payload; bytes after it are link padding.
    end: usize,
    /// The number of payload bytes in each frame but the last.
    size: usize,
    is_tcp: bool,
    /// The length in bytes of a hop-by-hop header that contains only the length of a jumbogram; 0 if there is
    /// none. It is left out of the frames, which are too short for it.
    jumbo: usize,
    /// True if all frames get the IPv4 identification of the large frame; otherwise it increases by one
    /// from frame to frame.
    constant_id: bool,
}

impl Segments {
    /// Prepares to cut a frame of `length` bytes, of which `head` holds the first, into frames with `size`
    /// bytes of payload.
    ///
    /// # Errors
    ///
    /// If the frame is neither TCP nor UDP over IP, is a fragment, is malformed, or has headers that are not
    /// all in `head`. Also if its final destination is unknown ([`PseudoHeader::of`]), if `length` ends
    /// before the payload begins, or if `size` is 0.
    pub fn of(head: &[u8], link: LinkType, length: usize, size: usize) -> Result<Segments, Error> {
        let layers = Layers::locate(head, link);
        let fault = |found| Error::Format { layer: Layer::Link, found };
        let (Some(l3), Some(l4), Some(start), Some(protocol), None) =
            (layers.l3, layers.l4, layers.payload, layers.protocol, layers.fragment)
        else {
            return Err(layers.fault.unwrap_or(fault(u32::from(layers.ether_type.unwrap_or(0)))));
        };
        let is_tcp = protocol == ip_protocol::TCP;
        if !is_tcp && protocol != ip_protocol::UDP {
            return Err(fault(protocol.into()));
        }
        if PseudoHeader::of(head.get(l3..l4).unwrap_or_default()).is_none() {
            return Err(fault(ip_protocol::ROUTING.into()));
        }
        // If the IP length field is 0, `locate` takes the end of `head` for the end of the packet. But the
        // packet ends with the frame.
        let end = match has_length(head.get(l3..l4).unwrap_or_default()) {
            true => (layers.end + layers.missing).min(length),
            false => length,
        };
        if size == 0 || end < start {
            return Err(Error::Length { layer: if is_tcp { Layer::Tcp } else { Layer::Udp }, found: size });
        }
        let jumbo =
            if layers.network == Network::Ipv6 { jumbo(head.get(l3..l4).unwrap_or_default()) } else { 0 };
        Ok(Segments { network: layers.network, l3, l4, start, end, size, is_tcp, jumbo, constant_id: false })
    }

    /// Sets whether all frames get the identification of the large frame (`constant` is true), or numbers
    /// that count up from it (false, the default). The IPv4 identification has no meaning if DF is set (RFC
    /// 6864), and some senders do not increment it.
    pub fn constant_id(self, constant: bool) -> Segments {
        Segments { constant_id: constant, ..self }
    }

    /// Returns the IP version, true if the transport is TCP (false for UDP), and the offset of the
    /// transport header in bytes.
    pub fn transport(&self) -> (Network, bool, usize) {
        (self.network, self.is_tcp, self.l4)
    }

    /// Returns the offset of the IP header in bytes.
    pub fn network(&self) -> usize {
        self.l3
    }

    /// Returns the number of frames into which the large frame is cut; at least one, even without payload.
    pub fn count(&self) -> usize {
        (self.end - self.start).div_ceil(self.size).max(1)
    }

    /// Returns the length in bytes of the headers that each frame gets; less than that of the large frame
    /// if this has a jumbogram header.
    pub fn header_length(&self) -> usize {
        self.start - self.jumbo
    }

    /// Returns the length in bytes of the longest of the frames.
    pub fn longest(&self) -> usize {
        self.header_length() + self.size.min(self.end - self.start)
    }

    /// Appends frame `number`, counted from 0, to `to`. `large` is the whole large frame.
    pub fn write(&self, large: &[u8], number: usize, to: &mut Vec<u8>) {
        let at = to.len();
        // The number of bytes before the jumbogram header, which is left out, or of all headers if there is
        // no such header.
        let fixed = if self.jumbo > 0 { self.l3 + ipv6::Header::LEN } else { self.start };
        to.extend_from_slice(&large[..fixed]);
        to.extend_from_slice(&large[fixed + self.jumbo..self.start]);
        if self.jumbo > 0 {
            to[at + self.l3 + NEXT_HEADER] = large[fixed];
        }
        let payload = &large[self.payload(number)];
        self.finish(number, &mut to[at..], payload.len(), Sum::new().bytes(payload));
        to.extend_from_slice(payload);
    }

    /// Returns the range of bytes of the large frame that are the payload of frame `number`.
    pub fn payload(&self, number: usize) -> Range<usize> {
        let start = number.saturating_mul(self.size).saturating_add(self.start).min(self.end);
        start..start.saturating_add(self.size).min(self.end)
    }

    /// Turns `headers`, a copy of the large frame's headers, into those of frame `number`: sets lengths,
    /// identification, sequence number, flags, urgent pointer and checksums. The frame has `length` bytes of
    /// data; `data` is their sum, from which the checksum follows. A jumbogram header has been left out.
    pub fn finish(&self, number: usize, headers: &mut [u8], length: usize, data: Sum) {
        let Some((network, transport)) = headers.split_at_mut_checked(self.l4 - self.jumbo) else { return };
        let ip = network.get_mut(self.l3..).unwrap_or_default();
        let length = transport.len() + length;
        let is_last = number + 1 >= self.count();
        let pseudo = match self.network {
            Network::Ipv4 => finish_ipv4(ip, length, if self.constant_id { 0 } else { number }),
            _ => finish_ipv6(ip, length),
        };
        if self.is_tcp {
            if let Ok((header, _)) = tcp::Header::mut_from_prefix(transport) {
                // SYN takes the first sequence number, before the first byte of payload.
                let syn = usize::from(number > 0 && header.flags & tcp::flags::SYN != 0);
                let gone = number.saturating_mul(self.size).saturating_add(syn);
                header.sequence.set(header.sequence.get().wrapping_add(gone as u32));
                // FIN, PSH and RST stay on the last frame only, CWR and SYN on the first only (CWR: RFC
                // 3168, 6.1.2).
                if !is_last {
                    header.flags &= !(tcp::flags::FIN | tcp::flags::PSH | tcp::flags::RST);
                }
                if number > 0 {
                    header.flags &= !(tcp::flags::CWR | tcp::flags::SYN);
                }
                // The urgent pointer counts from the sequence number of its own frame (RFC 9293, 3.8.5).
                if header.flags & tcp::flags::URG != 0 {
                    let urgent = usize::from(header.urgent.get()).saturating_sub(gone);
                    header.urgent.set(urgent as u16);
                    if urgent == 0 && number > 0 {
                        header.flags &= !tcp::flags::URG;
                    }
                }
            }
        } else if let Ok((header, _)) = udp::Header::mut_from_prefix(transport) {
            header.length.set(length as u16);
        }
        let (protocol, field) = if self.is_tcp { (ip_protocol::TCP, 16) } else { (ip_protocol::UDP, 6) };
        // The transport header is complete, since `of` has checked it.
        let (Some(pseudo), Some(place)) = (pseudo, transport.get_mut(field..field + 2)) else { return };
        place.fill(0);
        let sum = pseudo.sum(protocol, length).bytes(transport).followed_by(data);
        let checksum = if self.is_tcp { sum.checksum() } else { sum.udp_checksum() };
        transport[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// True if IP headers give the length of their packet, false if the length field is 0 and no option has the
/// length.
fn has_length(ip: &[u8]) -> bool {
    match ip {
        [first, _, a, b, ..] if first >> 4 == 4 => (*a, *b) != (0, 0),
        [_, _, _, _, a, b, next, ..] => {
            let extensions = ip.get(ipv6::Header::LEN..).unwrap_or_default();
            (*a, *b) != (0, 0) || ipv6::jumbo_length(*next, extensions).is_some()
        }
        _ => false,
    }
}

/// The offset of the next header field in an IPv6 header, in bytes.
const NEXT_HEADER: usize = 6;

/// Returns the length in bytes (8) of a hop-by-hop header that contains only the length of a jumbogram (RFC
/// 2675); 0 if the packet has no such header. Linux writes it into segments of more than 64 KiB.
pub(crate) fn jumbo(ip: &[u8]) -> usize {
    let first = ip.get(NEXT_HEADER).copied() == Some(ip_protocol::HOP_BY_HOP);
    match ip.get(ipv6::Header::LEN..) {
        Some(&[_, 0, 0xc2, 4, ..]) if first => 8,
        _ => 0,
    }
}

/// Finishes the IPv4 header of a frame with `length` bytes of transport header and payload: sets the total
/// length, adds `number` to the identification, and writes the header checksum. Returns the pseudo-header;
/// `None` if the header is truncated.
fn finish_ipv4(ip: &mut [u8], length: usize, number: usize) -> Option<PseudoHeader> {
    let whole = ip.len() + length;
    let (header, _) = ipv4::Header::mut_from_prefix(ip).ok()?;
    header.total_length.set(whole as u16);
    header.id.set(header.id.get().wrapping_add(number as u16));
    checksum::fill_ipv4(ip).ok()?;
    PseudoHeader::of(ip)
}

fn finish_ipv6(ip: &mut [u8], length: usize) -> Option<PseudoHeader> {
    let (header, extensions) = ipv6::Header::mut_from_prefix(ip).ok()?;
    header.payload_length.set((extensions.len() + length) as u16);
    PseudoHeader::of(ip)
}

/// Writes the sum of the pseudo-header into the checksum field of a TCP or UDP frame of `length` bytes; a
/// device has to complete the checksum. Returns the offset of the transport header, and the offset of the
/// checksum field in that header.
///
/// # Errors
///
/// The errors of [`Segments::of`].
pub fn start_checksum(head: &mut [u8], link: LinkType, length: usize) -> Result<(usize, usize), Error> {
    let parts = Segments::of(head, link, length, usize::MAX)?;
    let (protocol, offset) = if parts.is_tcp { (ip_protocol::TCP, 16) } else { (ip_protocol::UDP, 6) };
    if let Some(pseudo) = PseudoHeader::of(&head[parts.l3..]) {
        let sum = pseudo.sum(protocol, parts.end - parts.l4).folded();
        set_checksum(head, parts.l4, offset, sum)?;
    }
    Ok((parts.l4, offset))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::build::Builder;
    use crate::ethernet::MacAddr;
    use crate::tcp::flags;

    /// Cuts a large frame, of which only the first `head` bytes are parsed, and returns all frames.
    fn segment(large: &[u8], link: LinkType, head: usize, size: usize) -> Vec<Vec<u8>> {
        let segments = Segments::of(&large[..head], link, large.len(), size).unwrap();
        let frame = |number: usize| {
            let mut frame = Vec::new();
            segments.write(large, number, &mut frame);
            assert!(frame.len() <= segments.longest());
            frame
        };
        (0..segments.count()).map(frame).collect()
    }

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

    fn framed(builder: Builder, tags: &[u16], link: LinkType) -> Builder {
        if link == LinkType::RawIp {
            return builder;
        }
        let builder = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        tags.iter().fold(builder, |builder, &tag| builder.vlan(tag))
    }

    fn link() -> impl Strategy<Value = LinkType> {
        prop_oneof![Just(LinkType::Ethernet), Just(LinkType::RawIp)]
    }

    proptest! {
        #[test]
        fn tcp_becomes_what_its_sender_would_have_sent(
            v6: bool, tags in vec(0u16..0x1000, 0..3), link in link(), sequence: u32, id: u16, set: u8, options in 0usize..4,
            payload in vec(any::<u8>(), 1..9000), size in 1usize..3000, cut in 0usize..9000,
        ) {
            // SYN, URG and RST are left out in this test; `syn_rst_and_urgent_data_stay_where_they_are`
            // covers them.
            let set = set & !(flags::SYN | flags::URG | flags::RST) | flags::ACK;
            let [a, b] = addresses(v6);
            let build = |number: usize, set: u8, payload: &[u8]| {
                let builder = Builder::tcp(a, b, set).id(id.wrapping_add(number as u16)).options(&[1, 1, 1, 1].repeat(options));
                let builder = builder.sequence(sequence.wrapping_add((number * size) as u32), 77).tos(2);
                framed(builder, &tags, link).build(payload).unwrap()
            };
            let mut large = build(0, set, &payload);
            // The checksum of most large frames is overwritten by the partial checksum of a wrong length,
            // because cutting must not depend on the old checksum.
            start_checksum(&mut large, link, payload.len()).ok();
            let chunks: Vec<&[u8]> = payload.chunks(size).collect();
            let expected: Vec<Vec<u8>> = chunks.iter().enumerate().map(|(number, chunk)| {
                let mut set = set;
                if number + 1 < chunks.len() { set &= !(flags::FIN | flags::PSH); }
                if number > 0 { set &= !flags::CWR; }
                build(number, set, chunk)
            }).collect();
            let head = (large.len() - payload.len() + cut).min(large.len());
            prop_assert_eq!(segment(&large, link, head, size), expected);
        }

        #[test]
        fn syn_rst_and_urgent_data_stay_where_they_are(
            sequence: u32, set: u8, urgent: u16, payload in vec(any::<u8>(), 1..9000), size in 1usize..3000,
        ) {
            let [a, b] = addresses(false);
            let builder = Builder::tcp(a, b, set | flags::ACK).sequence(sequence, 77);
            let mut large = framed(builder, &[], LinkType::RawIp).build(&payload).unwrap();
            let tcp_at = large.len() - payload.len() - tcp::Header::LEN;
            tcp::Header::mut_from_prefix(&mut large[tcp_at..]).unwrap().0.urgent.set(urgent);
            let pieces = segment(&large, LinkType::RawIp, large.len(), size);
            let mut next = sequence;
            for (number, piece) in pieces.iter().enumerate() {
                let (header, _) = tcp::Header::ref_from_prefix(&piece[tcp_at..]).unwrap();
                let is = |flag: u8| header.flags & flag != 0;
                let was = |flag: u8| set & flag != 0;
                prop_assert_eq!(header.sequence.get(), next);
                prop_assert_eq!(is(flags::SYN), was(flags::SYN) && number == 0);
                prop_assert_eq!(is(flags::RST), was(flags::RST) && number + 1 == pieces.len());
                let gone = header.sequence.get().wrapping_sub(sequence);
                let is_ahead = u32::from(urgent) > gone || number == 0;
                prop_assert_eq!(is(flags::URG), was(flags::URG) && is_ahead);
                if is(flags::URG) {
                    prop_assert_eq!(gone + u32::from(header.urgent.get()), u32::from(urgent));
                }
                let length = (piece.len() - tcp_at - tcp::Header::LEN) as u32;
                next = next.wrapping_add(length).wrapping_add(u32::from(is(flags::SYN)));
            }
        }

        #[test]
        fn udp_becomes_datagrams(
            v6: bool, tags in vec(0u16..0x1000, 0..2), link in link(), id: u16,
            payload in vec(any::<u8>(), 1..5000), size in 1usize..1500,
        ) {
            let [a, b] = addresses(v6);
            let build = |number: usize, payload: &[u8]| {
                framed(Builder::udp(a, b).id(id.wrapping_add(number as u16)), &tags, link).build(payload).unwrap()
            };
            let expected: Vec<Vec<u8>> =
                payload.chunks(size).enumerate().map(|(number, chunk)| build(number, chunk)).collect();
            let large = build(0, &payload);
            prop_assert_eq!(segment(&large, link, large.len(), size), expected);
        }

        #[test]
        fn a_completed_checksum_is_the_right_one(
            v6: bool, tcp: bool, link in link(), payload in vec(any::<u8>(), 0..3000), cuts in vec(0usize..3000, 0..4),
        ) {
            let [a, b] = addresses(v6);
            let builder = if tcp { Builder::tcp(a, b, flags::ACK) } else { Builder::udp(a, b) };
            let right = framed(builder, &[], link).build(&payload).unwrap();
            let mut frame = right.clone();
            let length = frame.len();
            let (start, offset) = start_checksum(&mut frame, link, length).unwrap();
            let mut pieces: Vec<&[u8]> = vec![&frame];
            for cut in cuts {
                let last = pieces.pop().unwrap_or_default();
                let (front, back) = last.split_at(cut.min(last.len()));
                pieces.extend([front, back]);
            }
            let stands = &right[start + offset..][..2];
            // Both values are zero in one's complement, but for UDP, 0 means "no checksum", so that
            // `completed` returns 0xffff.
            let shown = if stands == [0, 0] { [0xff; 2] } else { [stands[0], stands[1]] };
            prop_assert_eq!(completed(pieces, start).to_be_bytes(), shown);
            complete(&mut frame, start, offset).unwrap();
            prop_assert_eq!(&frame[start + offset..][..2], shown);
        }

        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..200), length in 0usize..70_000, size in 0usize..2000, number: usize) {
            for link in [LinkType::Ethernet, LinkType::RawIp] {
                if let Ok(segments) = Segments::of(&bytes, link, length, size) {
                    let _ = (segments.count(), segments.payload(number), segments.longest());
                    segments.finish(number, &mut bytes.clone(), 9, Sum::new());
                    segments.finish(number, &mut [], 9, Sum::new());
                }
                let _ = start_checksum(&mut bytes.clone(), link, length);
            }
            let _ = complete(&mut bytes.clone(), length, size);
        }
    }

    /// Returns a TCP frame that has not reached its final destination yet, and its pseudo-header with this
    /// destination. The route is an IPv6 routing header of type `kind`, or an IPv4 source route.
    fn on_the_way(v6: bool, kind: u8, payload: &[u8]) -> (Vec<u8>, PseudoHeader) {
        let [a, b] = addresses(v6);
        let mut frame =
            framed(Builder::tcp(a, b, flags::ACK), &[], LinkType::Ethernet).build(payload).unwrap();
        let pseudo = match a.ip() {
            IpAddr::V6(source) => {
                let last = [0x20, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99];
                frame[20] = ip_protocol::ROUTING;
                frame[19] += 24;
                frame.splice(54..54, [&[ip_protocol::TCP, 2, kind, 1, 0, 0, 0, 0][..], &last].concat());
                PseudoHeader::V6 { source, destination: last.into() }
            }
            IpAddr::V4(source) => {
                frame[14] = 0x47;
                frame[17] += 8;
                frame.splice(34..34, [131, 7, 4, 10, 9, 8, 0x99, 0]);
                checksum::fill_ipv4(&mut frame[14..42]).unwrap();
                PseudoHeader::V4 { source, destination: [10, 9, 8, 0x99].into() }
            }
        };
        (frame, pseudo)
    }

    #[test]
    fn checksums_are_about_the_final_destination() {
        for (v6, l4) in [(true, 78), (false, 42)] {
            let (mut large, pseudo) = on_the_way(v6, 2, &[7; 90]);
            checksum::fill_tcp(&pseudo, &mut large[l4..]).unwrap();
            assert!(checksum::tcp_packet_valid(&large[14..], l4 - 14));
            let frames = segment(&large, LinkType::Ethernet, large.len(), 40);
            assert_eq!(frames.len(), 3);
            assert!(frames.iter().all(|frame| checksum::tcp_valid(&pseudo, &frame[l4..])));
            let mut partial = large.clone();
            let (start, offset) = start_checksum(&mut partial, LinkType::Ethernet, large.len()).unwrap();
            complete(&mut partial, start, offset).unwrap();
            assert_eq!(partial, large);
        }
        // For a routing header of unknown type 77, the final destination is unknown, so that the frame
        // cannot be cut.
        let (frame, _) = on_the_way(true, 77, &[7; 90]);
        assert!(Segments::of(&frame, LinkType::Ethernet, frame.len(), 40).is_err());
    }

    #[test]
    fn the_length_of_a_jumbogram_goes_with_it() {
        let [a, b] = addresses(true);
        let build = |number: usize, payload: &[u8]| {
            let builder = Builder::tcp(a, b, flags::ACK).sequence(7 + number as u32 * 1400, 1);
            framed(builder, &[], LinkType::Ethernet).build(payload).unwrap()
        };
        let payload: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let mut large = build(0, &[]);
        // A hop-by-hop header with the length of a jumbogram: TCP is next, 8 bytes, then the length of
        // everything after the fixed header.
        let length = (8 + 20 + payload.len() as u32).to_be_bytes();
        let option = [6, 0, 0xc2, 4, length[0], length[1], length[2], length[3]];
        (large[18], large[19], large[20]) = (0, 0, 0);
        large.splice(54..54, option);
        large.extend_from_slice(&payload);
        let expected: Vec<_> =
            payload.chunks(1400).enumerate().map(|(number, chunk)| build(number, chunk)).collect();
        assert_eq!(segment(&large, LinkType::Ethernet, large.len(), 1400), expected);
    }

    #[test]
    fn a_length_beyond_the_head_counts() {
        let [a, b] = addresses(false);
        let large = Builder::tcp(a, b, 0).build(&[1; 60_000]).unwrap();
        let segments = Segments::of(&large[..2000], LinkType::RawIp, large.len(), 1448).unwrap();
        assert_eq!((segments.count(), segments.payload(41)), (42, 40 + 41 * 1448..60_040));
        // A packet larger than an IP length can express (BIG TCP): its length field is zero, and the length
        // of the frame is used.
        let mut large = Builder::tcp(a, b, 0).build(&[1; 1000]).unwrap();
        large[2..4].fill(0);
        large.resize(100_040, 1);
        assert_eq!(Segments::of(&large[..2000], LinkType::RawIp, large.len(), 1000).unwrap().count(), 100);
    }

    /// The first piece may end exactly where the IP packet ends, so that all later pieces are padding.
    #[test]
    fn padding_behind_the_head_is_no_payload() {
        for v6 in [false, true] {
            let [a, b] = addresses(v6);
            let frame =
                framed(Builder::tcp(a, b, flags::ACK), &[], LinkType::Ethernet).build(&[7; 300]).unwrap();
            let padded = [&frame[..], &[0; 60]].concat();
            for head in [frame.len() - 1, frame.len(), frame.len() + 1, padded.len()] {
                let segments = segment(&padded, LinkType::Ethernet, head, 100);
                let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
                assert_eq!(lengths, [frame.len() - 200; 3], "{head} bytes in the first piece");
                let mut partial = padded[..head].to_vec();
                let (start, offset) = start_checksum(&mut partial, LinkType::Ethernet, padded.len()).unwrap();
                let mut whole = frame.clone();
                start_checksum(&mut whole, LinkType::Ethernet, frame.len()).unwrap();
                assert_eq!(partial[start + offset..][..2], whole[start + offset..][..2], "{head}");
            }
        }
    }

    #[test]
    fn what_is_no_transport_is_refused() {
        let [a, b] = addresses(false);
        let refused = |frame: &[u8]| Segments::of(frame, LinkType::RawIp, frame.len(), 100).is_err();
        assert!(refused(&Builder::icmp(a.ip(), b.ip(), 8, 0, [1, 2]).build(&[0; 300]).unwrap()));
        assert!(refused(&Builder::udp(a, b).fragment(0x2000).build(&[0; 300]).unwrap()));
        assert!(refused(&[]));
        let frame = Builder::udp(a, b).build(&[0; 300]).unwrap();
        assert!(!refused(&frame) && Segments::of(&frame, LinkType::RawIp, frame.len(), 0).is_err());
    }
}
