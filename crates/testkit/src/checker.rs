//! A checker of checksums that is independent of Tidegate's own checksum code. It follows the definitions in
//! the RFCs byte by byte, and shares no code with `crates/wire`.

use std::collections::{BTreeMap, HashSet};

/// The result of checking one checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumResult {
    /// The checksum is correct.
    Right,
    /// The checksum is wrong.
    Wrong,
    /// The checksum is missing or cannot be checked: fragments, truncated packets, contradictory lengths,
    /// source routes, other protocols.
    Unknown,
}

/// The result of checking the checksums of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The IPv4 header checksum; [`ChecksumResult::Unknown`] for IPv6, which has none.
    pub header: ChecksumResult,
    /// The checksum of TCP, UDP, ICMP or ICMPv6.
    pub transport: ChecksumResult,
    /// The fields that stay the same when a configuration changes addresses, ports and time to live. They
    /// identify the packet before and after processing.
    pub mark: Mark,
}

/// The fields that identify a packet ([`Checked::mark`]): IP version, protocol, IPv4 identification (0 for
/// IPv6), and the transport packet without ports, checksum and, for ICMP over IPv4, identifiers. Of ICMP
/// errors over IPv4, the last part has only type, code and the low byte of the length. For IPv6 packets whose
/// transport packet cannot be found, the last part is empty.
pub type Mark = (u8, u8, u16, Vec<u8>);

fn words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn is_right(mut sum: u64) -> ChecksumResult {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if sum == 0xffff { ChecksumResult::Right } else { ChecksumResult::Wrong }
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// Returns the IP packet in a frame. `link` is the link type of the capture, as pcap numbers it; VLAN tags
/// are skipped. `None` if an Ethernet or Linux cooked frame has no IP packet, if the frame is too short, or
/// for unknown link types.
pub fn ip(link: u16, frame: &[u8]) -> Option<&[u8]> {
    let mut at = match link {
        1 => 12,
        113 => 14,
        12 | 14 | 101 | 228 | 229 => return Some(frame),
        0 => return frame.get(4..),
        _ => return None,
    };
    loop {
        let kind = number(frame.get(at..at + 2)?, 0);
        match kind {
            0x0800 | 0x86dd => return frame.get(at + 2..),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => return None,
        }
    }
}

/// Checks the transport checksum over `bytes`, which follow the IP headers. `addresses` is the sum of the
/// 16-bit words of both IP addresses, for the pseudo-header.
fn transport(protocol: u8, addresses: u64, bytes: &[u8]) -> ChecksumResult {
    let pseudo = |length: usize| addresses + u64::from(protocol) + length as u64;
    match protocol {
        6 if bytes.len() >= 20 => is_right(pseudo(bytes.len()) + words(bytes)),
        17 if bytes.len() >= 8 => {
            let length = number(bytes, 4);
            match (number(bytes, 6), bytes.get(..length)) {
                (0, _) | (_, None) => ChecksumResult::Unknown,
                _ if length < 8 => ChecksumResult::Unknown,
                (_, Some(datagram)) => is_right(pseudo(length) + words(datagram)),
            }
        }
        1 if bytes.len() >= 8 => is_right(words(bytes)),
        58 if bytes.len() >= 4 => is_right(pseudo(bytes.len()) + words(bytes)),
        _ => ChecksumResult::Unknown,
    }
}

/// Returns the parts of a transport packet that translators do not change: of TCP, UDP and ICMP, everything
/// but ports, ICMP identifiers and the checksum. Of ICMP errors, only type, code and the low byte of the
/// length; of other protocols, everything but the bytes at offsets 2 and 3, the checksum of ICMPv6.
fn rest(protocol: u8, bytes: &[u8]) -> Vec<u8> {
    let keep: &[(usize, usize)] = match protocol {
        6 => &[(4, 16), (18, usize::MAX)],
        17 => &[(4, 6), (8, usize::MAX)],
        // An ICMP error quotes a packet, which is translated, too. So only type, code and the low byte of the
        // length are used.
        1 if bytes.len() > 1 && matches!(bytes[0], 3..=5 | 11 | 12) => {
            return vec![bytes[0], bytes[1], bytes.len() as u8];
        }
        1 => &[(0, 2), (6, usize::MAX)],
        _ => &[(0, 2), (4, usize::MAX)],
    };
    let part = |&(from, to): &(usize, usize)| bytes.get(from..to.min(bytes.len())).unwrap_or_default();
    keep.iter().flat_map(part).copied().collect()
}

/// A fragment of an IPv4 datagram.
struct Piece<'a> {
    /// The bytes that fragments of one datagram have in common: addresses, protocol and identification.
    datagram: Vec<u8>,
    protocol: u8,
    id: u16,
    offset: usize,
    more: bool,
    bytes: &'a [u8],
}

/// Returns two offsets from the start of an IPv4 packet: the end of its header, and the end of the packet by
/// its length field. The latter may be beyond the captured bytes. `None` if the header is incomplete or
/// wrong.
fn extent(ip: &[u8]) -> Option<(usize, usize)> {
    let header = usize::from(ip.first()? & 15) * 4;
    (ip.len() >= 20 && ip[0] >> 4 == 4 && header >= 20 && ip.len() >= header)
        .then(|| (header, number(ip, 2)))
        .filter(|&(header, total)| total >= header)
}

fn piece(ip: &[u8]) -> Option<Piece<'_>> {
    let (header, total) = extent(ip)?;
    let word = number(ip, 6);
    if word & 0x3fff == 0 {
        return None;
    }
    let mut datagram = ip[12..20].to_vec();
    datagram.extend([ip[9], ip[4], ip[5]]);
    Some(Piece {
        datagram,
        protocol: ip[9],
        id: number(ip, 4) as u16,
        offset: (word & 0x1fff) * 8,
        more: word & 0x2000 != 0,
        bytes: ip.get(header..total).unwrap_or_default(),
    })
}

/// Checks the checksums of an IPv4 or IPv6 packet; `None` if its header is too damaged to check.
pub fn check(ip: &[u8]) -> Option<Checked> {
    if ip.first()? >> 4 == 6 {
        return check_ip6(ip);
    }
    let (header, total) = extent(ip)?;
    let (protocol, id) = (ip[9], number(ip, 4) as u16);
    // With a source route the pseudo-header has another destination than the header, so the transport
    // checksum cannot be checked.
    let routed = ip[20..header].iter().any(|&option| matches!(option, 131 | 137));
    let is_fragment = number(ip, 6) & 0x3fff != 0;
    let bytes = ip.get(header..total);
    let sum = match bytes {
        Some(bytes) if !routed && !is_fragment => transport(protocol, words(&ip[12..20]), bytes),
        _ => ChecksumResult::Unknown,
    };
    let mark = (4, protocol, id, rest(protocol, bytes.unwrap_or(&ip[header..])));
    Some(Checked { header: is_right(words(&ip[..header])), transport: sum, mark })
}

fn check_ip6(ip: &[u8]) -> Option<Checked> {
    let length = number(ip.get(..40)?, 4);
    let (mut protocol, mut at) = (ip[6], 40);
    let whole = ip.get(..40 + length).filter(|_| length > 0);
    let unknown = |protocol| {
        let mark = (6, protocol, 0, Vec::new());
        Some(Checked { header: ChecksumResult::Unknown, transport: ChecksumResult::Unknown, mark })
    };
    let Some(whole) = whole else { return unknown(protocol) };
    while let Some(next) = whole.get(at..at + 8) {
        match protocol {
            0 | 60 => (protocol, at) = (next[0], at + 8 + usize::from(next[1]) * 8),
            // With segments left in a routing header, the pseudo-header has another destination than the IPv6
            // header, so the transport checksum cannot be checked.
            43 if next[3] > 0 => return unknown(protocol),
            43 => (protocol, at) = (next[0], at + 8 + usize::from(next[1]) * 8),
            44 if number(next, 2) & 0xfff9 != 0 => return unknown(protocol),
            44 => (protocol, at) = (next[0], at + 8),
            51 => (protocol, at) = (next[0], at + 8 + usize::from(next[1]) * 4),
            _ => break,
        }
    }
    let Some(bytes) = whole.get(at..) else { return unknown(protocol) };
    let sum = transport(protocol, words(&ip[8..40]), bytes);
    Some(Checked {
        header: ChecksumResult::Unknown,
        transport: sum,
        mark: (6, protocol, 0, rest(protocol, bytes)),
    })
}

/// The wrong checksums that a capture has before it is processed, each under the identifying fields
/// ([`Mark`]) of its packet.
#[derive(Default)]
pub struct KnownWrong {
    headers: HashSet<Mark>,
    transports: HashSet<Mark>,
    /// Protocol and identification of IPv4 datagrams whose fragments overlap or are incomplete.
    unclear: HashSet<(u8, u16)>,
}

impl KnownWrong {
    /// Collects the wrong checksums of all IP packets of a capture, also of IPv4 datagrams in fragments.
    pub fn of<'a>(packets: impl Iterator<Item = &'a [u8]>) -> KnownWrong {
        let mut known = KnownWrong::default();
        let mut datagrams: BTreeMap<Vec<u8>, Vec<Piece<'a>>> = BTreeMap::new();
        for ip in packets {
            let Some(checked) = check(ip) else { continue };
            if checked.header == ChecksumResult::Wrong {
                known.headers.insert(checked.mark.clone());
            }
            if checked.transport == ChecksumResult::Wrong {
                known.transports.insert(checked.mark);
            }
            if let Some(piece) = piece(ip) {
                datagrams.entry(piece.datagram.clone()).or_default().push(piece);
            }
        }
        for pieces in datagrams.values_mut() {
            known.reassemble(pieces);
        }
        known
    }

    fn reassemble(&mut self, pieces: &mut [Piece<'_>]) {
        let Some(&Piece { protocol, id, .. }) = pieces.first() else { return };
        pieces.sort_by_key(|piece| piece.offset);
        let mut bytes: Vec<u8> = Vec::new();
        let fits = pieces.iter().all(|piece| {
            let follows = piece.offset == bytes.len();
            bytes.extend_from_slice(piece.bytes);
            follows
        });
        let ends = pieces.iter().position(|piece| !piece.more) == Some(pieces.len() - 1);
        if !fits || !ends {
            self.unclear.insert((protocol, id));
            return;
        }
        let addresses = pieces[0].datagram.get(..8).map_or(0, words);
        if transport(protocol, addresses, &bytes) == ChecksumResult::Wrong {
            self.transports.insert((4, protocol, id, rest(protocol, &bytes)));
        }
    }

    /// Returns the name of a wrong checksum of an output packet. `None` if there is none, or if the same
    /// checksum (IPv4 header or transport) of a packet of the capture with the same [`Mark`] was wrong
    /// already. A wrong transport checksum of an IPv4 packet is also excused if fragments of a datagram with
    /// the same protocol and identification overlap or are incomplete in the capture.
    pub fn fault(&self, checked: &Checked) -> Option<&'static str> {
        let unclear = self.unclear.contains(&(checked.mark.1, checked.mark.2)) && checked.mark.0 == 4;
        if checked.header == ChecksumResult::Wrong && !self.headers.contains(&checked.mark) {
            return Some("IPv4 header checksum");
        }
        let excused = unclear || self.transports.contains(&checked.mark);
        (checked.transport == ChecksumResult::Wrong && !excused).then_some("transport checksum")
    }
}

#[cfg(test)]
mod tests {
    use wire::build::Builder;

    use super::*;

    fn packets() -> Vec<Vec<u8>> {
        let end = |text: &str| text.parse().unwrap();
        let (a, b) = (end("10.0.0.1:5"), end("10.0.0.2:53"));
        let (c, d) = (end("[2001:db8::1]:5"), end("[2001:db8::2]:53"));
        let ip = |text: &str| text.parse().unwrap();
        let builders = [
            Builder::udp(a, b),
            Builder::tcp(a, b, 2).options(&[1, 1, 1, 0]),
            Builder::icmp(ip("10.0.0.1"), ip("10.0.0.2"), 8, 0, [1, 2]),
            Builder::udp(c, d),
            Builder::tcp(c, d, 16),
            Builder::icmp(ip("2001:db8::1"), ip("2001:db8::2"), 128, 0, [1, 2]),
        ];
        builders.iter().map(|builder| builder.build(b"odd").unwrap()).collect()
    }

    #[test]
    fn each_flipped_bit_is_seen() {
        for packet in packets() {
            let good = check(&packet).unwrap();
            assert_eq!(good.transport, ChecksumResult::Right, "{packet:?}");
            let is_ip4 = packet[0] >> 4 == 4;
            assert_eq!(good.header, if is_ip4 { ChecksumResult::Right } else { ChecksumResult::Unknown });
            let known = KnownWrong::of([&packet[..]].into_iter());
            assert_eq!(known.fault(&good), None);
            let last = packet.len() - 1;
            let mut bad = packet.clone();
            bad[last] ^= 4;
            let checked = check(&bad).unwrap();
            assert_eq!(
                (checked.transport, known.fault(&checked)),
                (ChecksumResult::Wrong, Some("transport checksum"))
            );
            assert_eq!(KnownWrong::of([&bad[..]].into_iter()).fault(&checked), None);
            if is_ip4 {
                let mut bad = packet.clone();
                bad[8] ^= 1;
                assert_eq!(known.fault(&check(&bad).unwrap()), Some("IPv4 header checksum"));
            }
        }
    }

    #[test]
    fn frames_are_opened_and_fragments_put_together() {
        assert_eq!(ip(1, &[0; 13]), None);
        let mut tagged = vec![0; 12];
        tagged.extend([0x81, 0, 0, 7, 8, 0, 0x45]);
        assert_eq!(ip(1, &tagged), Some(&[0x45][..]));
        let whole = packets().remove(0);
        let cut = |from: usize, to: usize, more: u8| {
            let mut part = whole[..20].to_vec();
            part.extend_from_slice(&whole[20 + from..20 + to]);
            let length = (part.len() as u16).to_be_bytes();
            part[2..4].copy_from_slice(&length);
            part[6..8].copy_from_slice(&[more, (from / 8) as u8]);
            part
        };
        let mut second = cut(8, 11, 0);
        let parts = [cut(0, 8, 0x20), second.clone()];
        let mut wrong = whole.clone();
        wrong[30] ^= 1;
        let fault = |parts: &[Vec<u8>], packet: &[u8]| {
            KnownWrong::of(parts.iter().map(|part| &part[..])).fault(&check(packet).unwrap())
        };
        assert_eq!(fault(&parts, &wrong), Some("transport checksum"));
        second[22] ^= 1;
        assert_eq!(fault(&[parts[0].clone(), second], &wrong), None);
        assert_eq!(fault(&parts[..1], &wrong), None);
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        for packet in packets() {
            for length in 0..packet.len() {
                if let Some(checked) = check(&packet[..length]) {
                    assert_eq!(checked.transport, ChecksumResult::Unknown);
                }
            }
        }
    }
}
