//! Link headers that occur in captures only: PPP, Cisco HDLC, FDDI, ATM, and 802.11 with the headers that
//! drivers put before it (<https://www.tcpdump.org/linktypes.html>).

use crate::{Error, Layer, ether_type};

/// The numbers of the link types of this file, with the functions that read their headers.
const LINKS: &[(u16, Read)] = &[
    (9, ppp),
    (10, fddi),
    (50, serial),
    (100, llc),
    (104, cisco),
    (105, wifi),
    (119, prism),
    (123, sun_atm),
    (127, radiotap),
    (163, avs),
];

/// Reads a link header. Returns the offset of the header after it, and the EtherType of that header; `None`
/// if the frame carries no such header.
type Read = fn(&Bytes<'_>) -> Result<Option<(usize, u16)>, Error>;

/// The longest header of a driver that is read before an 802.11 header.
const MOST: usize = 192;

/// Returns the function that reads headers of the link type with this number in capture files; `None` if the
/// number is not one of this file's.
pub(crate) fn reader(number: u16) -> Option<Read> {
    LINKS.iter().find(|(link, _)| *link == number).map(|(_, read)| *read)
}

/// The bytes of a frame.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    /// Returns the `N` bytes at offset `at`.
    ///
    /// # Errors
    /// If the frame ends before.
    fn at<const N: usize>(&self, at: usize) -> Result<[u8; N], Error> {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().ok_or(Error::Truncated { layer: Layer::Link, need: at + N, have: self.0.len() })
    }

    fn word(&self, at: usize) -> Result<u16, Error> {
        self.at(at).map(u16::from_be_bytes)
    }

    /// Reads a header of LLC and SNAP at offset `at` (RFC 1042).
    fn snap(&self, at: usize) -> Result<Option<(usize, u16)>, Error> {
        let is_snap = matches!(self.at(at)?, [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8]);
        Ok(if is_snap { Some((at + 8, self.word(at + 6)?)) } else { None })
    }

    /// Reads the protocol field of PPP at offset `at`. It has one byte if that byte is odd (RFC 1661, 6.5).
    fn ppp_protocol(&self, at: usize) -> Result<Option<(usize, u16)>, Error> {
        let [first] = self.at(at)?;
        let (length, protocol) = if first & 1 == 1 { (1, first.into()) } else { (2, self.word(at)?) };
        let ether_type = match protocol {
            0x0021 => ether_type::IPV4,
            0x0057 => ether_type::IPV6,
            0x0281 => ether_type::MPLS,
            _ => return Ok(None),
        };
        Ok(Some((at + length, ether_type)))
    }

    /// Reads an 802.11 header at offset `at`. Only data frames that are not encrypted carry packets.
    fn wifi(&self, at: usize) -> Result<Option<(usize, u16)>, Error> {
        let [kind, flags] = self.at(at)?;
        let (is_data, is_empty) = (kind & 0x0c == 0x08, kind & 0x40 != 0);
        let (is_encrypted, has_control) = (flags & 0x40 != 0, flags & 0x80 != 0);
        if kind & 3 != 0 || !is_data || is_empty || is_encrypted {
            return Ok(None);
        }
        // A fourth address between two access points; QoS, and with it HT control.
        let fourth = if flags & 3 == 3 { 6 } else { 0 };
        let quality = match (kind & 0x80 != 0, has_control) {
            (true, true) => 6,
            (true, false) => 2,
            (false, _) => 0,
        };
        self.snap(at + 24 + fourth + quality)
    }
}

/// PPP, with or without the address and control bytes of HDLC.
fn ppp(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    match frame.at(0)? {
        [0xff, 3] => frame.ppp_protocol(2),
        _ => frame.ppp_protocol(0),
    }
}

/// A serial line: PPP in HDLC frames (RFC 1662), or Cisco's HDLC.
fn serial(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    match frame.at(0)? {
        [0x0f | 0x8f] => cisco(frame),
        [_] => ppp(frame),
    }
}

/// Cisco's HDLC: an address byte, a control byte, and an EtherType (RFC 1547, 4.3.1).
fn cisco(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    Ok(Some((4, frame.word(2)?)))
}

/// FDDI: a control byte and two addresses, then LLC. Only asynchronous LLC frames carry packets.
fn fddi(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    let [control] = frame.at(0)?;
    if control & 0xf0 == 0x50 { frame.snap(13) } else { Ok(None) }
}

/// LLC and SNAP: ATM (RFC 2684).
fn llc(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    frame.snap(0)
}

/// ATM on SunOS: four bytes, of which the first has the kind of the traffic, before LLC.
fn sun_atm(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    let [kind] = frame.at(0)?;
    if kind & 0xf == 2 { frame.snap(4) } else { Ok(None) }
}

/// 802.11 without a driver's header.
fn wifi(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    frame.wifi(0)
}

/// 802.11 after a Prism header of 144 bytes, or after an AVS header, which drivers write in its place.
fn prism(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    match frame.at(0)? {
        [0x80, 0x21, 0x10, _] => avs(frame),
        [..] => frame.wifi(144),
    }
}

/// 802.11 after an AVS header, which has its length as its second word.
fn avs(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    after(frame, u32::from_be_bytes(frame.at(4)?) as usize)
}

/// 802.11 after a radiotap header, which has its length as its second 16-bit word, in little-endian order.
fn radiotap(frame: &Bytes<'_>) -> Result<Option<(usize, u16)>, Error> {
    after(frame, u16::from_le_bytes(frame.at(2)?).into())
}

fn after(frame: &Bytes<'_>, length: usize) -> Result<Option<(usize, u16)>, Error> {
    if length > MOST {
        return Err(Error::Length { layer: Layer::Link, found: length });
    }
    frame.wifi(length)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::layers::Network;
    use crate::{Layers, LinkType};

    const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

    #[test]
    fn packets_are_found_behind_each_kind_of_header() {
        let wifi = |kind: u8, flags: u8, length: usize| {
            let mut header = vec![0; length];
            (header[0], header[1]) = (kind, flags);
            [&header[..], &SNAP].concat()
        };
        let radiotap = |frame: Vec<u8>| [&[0, 0, 10, 0, 1, 2, 3, 4, 5, 6][..], &frame].concat();
        let avs = |frame: Vec<u8>| [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56], &frame].concat();
        let frames: Vec<(u16, Vec<u8>)> = vec![
            (9, vec![0xff, 3, 0, 0x21]),
            (9, vec![0, 0x21]),
            (9, vec![0x21]),
            (50, vec![0xff, 3, 0x21]),
            (50, vec![0x0f, 0, 8, 0]),
            (104, vec![0x8f, 0, 8, 0]),
            (10, [&[0x54][..], &[0; 12], &SNAP].concat()),
            (100, SNAP.to_vec()),
            (123, [&[2, 0, 0, 0][..], &SNAP].concat()),
            (105, wifi(0x08, 0x01, 24)),
            (105, wifi(0x08, 0x03, 30)),
            (105, wifi(0x88, 0x02, 26)),
            (105, wifi(0x88, 0x82, 30)),
            (127, radiotap(wifi(0x88, 0x01, 26))),
            (119, [&[0; 144][..], &wifi(0x08, 0, 24)].concat()),
            (119, avs(wifi(0x08, 0, 24))),
            (163, avs(wifi(0x08, 0, 24))),
        ];
        let ip = crate::build::Builder::udp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let ip = ip.build(b"x").unwrap();
        for (number, header) in frames {
            let frame = [&header[..], &ip].concat();
            let layers = Layers::locate(&frame, LinkType::from_number(number));
            assert_eq!(
                (layers.l3, layers.network, layers.ether_type, layers.fault),
                (Some(header.len()), Network::Ipv4, Some(ether_type::IPV4), None),
                "link type {number}: {header:02x?}"
            );
            assert_eq!(layers.five_tuple(&frame).unwrap().destination_port(), 2);
            for end in 0..header.len() {
                let cut = Layers::locate(&frame[..end], LinkType::from_number(number));
                assert_eq!(cut.l3, None, "link type {number}, {end} bytes");
            }
        }
    }

    #[test]
    fn frames_without_packets_carry_none() {
        let frames: [(u16, &[u8]); 7] = [
            (9, &[0xc0, 0x21, 1, 1, 0, 4]),
            (10, &[0x4f; 21]),
            (100, &[0xfe, 0xfe, 3, 0xcc, 0, 0, 0, 0]),
            (123, &[1, 0, 0, 0, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]),
            // A beacon, an empty data frame, and an encrypted data frame.
            (105, &[0x80; 60]),
            (105, &[0x48; 60]),
            (105, &[0x08, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (number, frame) in frames {
            let layers = Layers::locate(frame, LinkType::from_number(number));
            assert_eq!((layers.l3, layers.network), (None, Network::Other), "link type {number}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_may_come(frame in vec(any::<u8>(), 0..200), link in 0..LINKS.len(), long: bool) {
            let mut frame = frame;
            if long && frame.len() > 8 {
                frame[2..4].fill(0xff);
            }
            Layers::locate(&frame, LinkType::from_number(LINKS[link].0));
        }
    }
}
