//! Parser for the header fields that AggregateIP uses: `ip src/8`, `tcp dport`, `ip[12:2]`, `udp{16-31} &
//! 0xff`.

use std::fmt;

use element::args::parse_integer;
use wire::ip_protocol::{ICMP, IGMP, IPV4, TCP, UDP};

/// The part of a packet that contains a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The IP header.
    Ip,
    /// The transport header, if the packet has this IP protocol.
    Protocol(u8),
    /// The transport header, if the packet is TCP or UDP.
    TcpUdp,
    /// The transport header of a packet of any protocol.
    Transport,
    /// The payload of a TCP or UDP packet.
    Payload,
}

/// A field: a range of bits in a part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpField {
    pub(super) part: Part,
    /// The offset of the field from the start of the part, in bits.
    pub(super) offset: u32,
    /// The length of the field in bits, at least 1.
    pub(super) length: u32,
}

type Names = &'static [(&'static str, u32, u32)];

/// The names of fields of the IPv4 header (RFC 791), with offset and length in bits.
const IP_FIELDS: Names = &[
    ("vers", 0, 4),
    ("hl", 4, 4),
    ("tos", 8, 8),
    ("dscp", 8, 6),
    ("ecn", 14, 2),
    ("len", 16, 16),
    ("id", 32, 16),
    ("off", 48, 16),
    ("rf", 48, 1),
    ("df", 49, 1),
    ("mf", 50, 1),
    ("fragoff", 51, 13),
    ("ttl", 64, 8),
    ("proto", 72, 8),
    ("sum", 80, 16),
    ("src", 96, 32),
    ("dst", 128, 32),
];
const PORTS: Names = &[("sport", 0, 16), ("dport", 16, 16)];
/// The names of fields of the UDP header (RFC 768), with offset and length in bits.
const UDP_FIELDS: Names = &[("sport", 0, 16), ("dport", 16, 16), ("len", 32, 16), ("sum", 48, 16)];
/// The names of fields of the TCP header (RFC 9293), with offset and length in bits.
const TCP_FIELDS: Names = &[
    ("sport", 0, 16),
    ("dport", 16, 16),
    ("seq", 32, 32),
    ("seqno", 32, 32),
    ("ackno", 64, 32),
    ("hl", 96, 4),
    ("flags", 104, 8),
    ("urg", 106, 1),
    ("ack", 107, 1),
    ("psh", 108, 1),
    ("push", 108, 1),
    ("rst", 109, 1),
    ("syn", 110, 1),
    ("fin", 111, 1),
    ("win", 112, 16),
    ("sum", 128, 16),
    ("urp", 144, 16),
];
/// The names of fields of the ICMP header (RFC 792), with offset and length in bits.
const ICMP_FIELDS: Names = &[("type", 0, 8), ("code", 8, 8), ("sum", 16, 16)];

const PARTS: &[(&str, Part)] = &[
    ("ip", Part::Ip),
    ("icmp", Part::Protocol(ICMP)),
    ("igmp", Part::Protocol(IGMP)),
    ("ipip", Part::Protocol(IPV4)),
    ("tcp", Part::Protocol(TCP)),
    ("udp", Part::Protocol(UDP)),
    ("dccp", Part::Protocol(33)),
    ("gre", Part::Protocol(47)),
    ("sctp", Part::Protocol(132)),
    ("tcpudp", Part::TcpUdp),
    ("transp", Part::Transport),
    ("payload", Part::Payload),
    ("data", Part::Payload),
];

const SYNTAX: &str = "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'";
const RANGE: &str = "bad offset or length in TCP/IP field";
const MASK: &str = "bad prefix or mask in TCP/IP field";

impl Part {
    fn names(self) -> Names {
        match self {
            Part::Ip => IP_FIELDS,
            Part::Protocol(TCP) => TCP_FIELDS,
            Part::Protocol(UDP) => UDP_FIELDS,
            Part::Protocol(ICMP) => ICMP_FIELDS,
            Part::TcpUdp => PORTS,
            Part::Protocol(_) | Part::Transport | Part::Payload => &[],
        }
    }
}

/// Removes a word of letters, digits, dashes and underscores, and the spaces around it, from the front of a
/// text. Returns the word, which may be empty.
fn word<'a>(text: &mut &'a str) -> &'a str {
    *text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *text = rest.trim_start();
    word
}

fn number(text: &str) -> Option<u32> {
    parse_integer(text).ok().and_then(|n| u32::try_from(n).ok())
}

/// Parses a range in brackets as offset and length: `B` has length 1, `B:N` and `B,N` have length N, and
/// `B-C` ends with C, included.
fn range(text: &str) -> Option<(u32, u32)> {
    if let Some((from, to)) = text.split_once('-') {
        let (from, to) = (number(from)?, number(to)?);
        return Some((from, to.checked_sub(from)?.checked_add(1)?));
    }
    match text.split_once([':', ',']) {
        Some((from, length)) => Some((number(from)?, number(length).filter(|&n| n > 0)?)),
        None => Some((number(text)?, 1)),
    }
}

impl IpField {
    /// Parses a field at the start of a text. Returns the field and the text after it.
    ///
    /// # Errors
    /// Click's message if the text is not a field.
    pub(super) fn parse(text: &str) -> Result<(IpField, &str), &'static str> {
        let mut rest = text;
        let header = word(&mut rest);
        let port = PORTS.iter().find(|(name, ..)| *name == header);
        if let Some(&(_, offset, length)) = port {
            let field = IpField { part: Part::TcpUdp, offset, length };
            return field.masked(rest);
        }
        let (_, mut part) = *PARTS.iter().find(|(name, _)| *name == header).ok_or(SYNTAX)?;
        let mut named = None;
        let mut ahead = rest;
        let name = word(&mut ahead);
        if !name.is_empty() {
            let mut further = ahead;
            let protocol = word(&mut further);
            if part == Part::Ip && name == "proto" && !protocol.is_empty() {
                let number = number(protocol).and_then(|n| u8::try_from(n).ok()).map(Part::Protocol);
                let known = PARTS.iter().find(|(name, _)| *name == protocol).map(|(_, part)| *part);
                part = number.or(known).ok_or(SYNTAX)?;
                ahead = further;
            } else {
                let port = PORTS.iter().find(|(port, ..)| part == Part::Ip && *port == name);
                part = if port.is_some() { Part::TcpUdp } else { part };
                let (_, offset, length) =
                    port.or(part.names().iter().find(|(n, ..)| *n == name)).ok_or(SYNTAX)?;
                named = Some((*offset, *length));
            }
            rest = ahead;
        }
        let unit = match rest.as_bytes().first() {
            Some(b'[') => Some((']', 8)),
            Some(b'{') => Some(('}', 1)),
            _ => None,
        };
        let (mut offset, mut length) = named.unwrap_or((0, 0));
        if let Some((close, bits)) = unit {
            let (inner, behind) = rest[1..].split_once(close).ok_or(SYNTAX)?;
            let (from, many) = range(inner).ok_or(RANGE)?;
            let (from, many) = (from.checked_mul(bits).ok_or(RANGE)?, many.checked_mul(bits).ok_or(RANGE)?);
            let end = from.checked_add(many).filter(|&end| end < 1 << 20).ok_or(RANGE)?;
            if named.is_some() && end > length {
                return Err(RANGE);
            }
            (offset, length) = (offset + from, many);
            rest = behind.trim_start();
        }
        if length == 0 {
            return Err(SYNTAX);
        }
        IpField { part, offset, length }.masked(rest)
    }

    /// Parses `/PREFIX` and `& MASK` after a field, and reduces the field to these bits. Returns the field
    /// and the text after it.
    fn masked(mut self, mut rest: &str) -> Result<(IpField, &str), &'static str> {
        if let Some(behind) = rest.strip_prefix('/') {
            rest = behind;
            let bits = number(word(&mut rest)).filter(|bits| (1..=self.length).contains(bits)).ok_or(MASK)?;
            self.length = bits;
        }
        if let Some(behind) = rest.strip_prefix('&') {
            rest = behind;
            let mask = number(word(&mut rest)).filter(|&mask| mask != 0).ok_or(MASK)?;
            let (above, below) = (mask.leading_zeros(), mask.trailing_zeros());
            let used = 32 - above;
            // The set bits of the mask must be contiguous, and none may lie above the most significant bit of
            // the field.
            if mask.count_ones() != used - below || used > self.length {
                return Err(MASK);
            }
            self.offset += self.length - used;
            self.length = used - below;
        }
        Ok((self, rest.trim()))
    }

    /// Returns the name of the part for the handler `header`; empty for the IP header, and for a protocol
    /// without a name in [`PARTS`].
    pub(super) fn header(&self) -> &'static str {
        match self.part {
            Part::Ip => "",
            part => PARTS.iter().find(|(_, known)| *known == part).map_or("", |(name, _)| name),
        }
    }
}

impl fmt::Display for IpField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.part, self.header()) {
            (Part::Ip, _) => f.write_str("ip")?,
            (Part::Protocol(number), "") => write!(f, "ip proto {number}")?,
            (_, name) => f.write_str(name)?,
        }
        let end = self.offset + self.length;
        let inside = |(_, from, length): &&(&str, u32, u32)| *from <= self.offset && end <= from + length;
        let container = self.part.names().iter().filter(inside).min_by_key(|(.., length)| *length);
        let from = container.map_or(0, |(_, from, _)| *from);
        if let Some((name, _, length)) = container {
            write!(f, " {name}")?;
            if self.offset == from {
                return if *length == self.length { Ok(()) } else { write!(f, "/{}", self.length) };
            }
        }
        let offset = self.offset - from;
        let bytes = offset.is_multiple_of(8) && self.length.is_multiple_of(8);
        match (bytes, self.length) {
            (true, 8) => write!(f, "[{}]", offset / 8),
            (true, length) => write!(f, "[{}:{}]", offset / 8, length / 8),
            (false, 1) => write!(f, "{{{offset}}}"),
            (false, length) => write!(f, "{{{offset}:{length}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(text: &str) -> Option<(Part, u32, u32)> {
        let (field, rest) = IpField::parse(text).ok()?;
        rest.is_empty().then_some((field.part, field.offset, field.length))
    }

    #[test]
    fn the_same_field_in_many_ways() {
        let ways =
            ["ip src/8", "ip src & 0xFF000000", "ip[12]", "ip[12, 1]", "ip{96, 8}", "ip{96-103}", "ip[12:1]"];
        for text in ways {
            assert_eq!(bits(text), Some((Part::Ip, 96, 8)), "{text}");
        }
    }

    #[test]
    fn fields() {
        assert_eq!(bits("tcp dport"), Some((Part::Protocol(TCP), 16, 16)));
        assert_eq!(bits("sport"), Some((Part::TcpUdp, 0, 16)));
        assert_eq!(bits("ip dport"), Some((Part::TcpUdp, 16, 16)));
        assert_eq!(bits("tcp syn"), Some((Part::Protocol(TCP), 110, 1)));
        assert_eq!(bits("ip proto"), Some((Part::Ip, 72, 8)));
        assert_eq!(bits("ip proto 89[4:2]"), Some((Part::Protocol(89), 32, 16)));
        assert_eq!(bits("ip src[1]"), Some((Part::Ip, 104, 8)));
        assert_eq!(bits("ip dst & 0xff00"), Some((Part::Ip, 144, 8)));
        assert_eq!(bits("payload[0:4]"), Some((Part::Payload, 0, 32)));
    }

    #[test]
    fn what_is_no_field() {
        assert_eq!(IpField::parse("foo"), Err(SYNTAX));
        assert_eq!(IpField::parse("ip foo"), Err(SYNTAX));
        assert_eq!(IpField::parse("ip"), Err(SYNTAX));
        assert_eq!(IpField::parse("ip ttl[1]"), Err(RANGE));
        assert_eq!(IpField::parse("ip[3-2]"), Err(RANGE));
        assert_eq!(IpField::parse("ip src/33"), Err(MASK));
        assert_eq!(IpField::parse("ip src & 5"), Err(MASK));
    }

    #[test]
    fn texts() {
        let shown = |text| IpField::parse(text).unwrap().0.to_string();
        assert_eq!(shown("ip[12]"), "ip src/8");
        assert_eq!(shown("ip[12:4]"), "ip src");
        assert_eq!(shown("ip[13]"), "ip src[1]");
        assert_eq!(shown("ip[8:2]"), "ip[8:2]");
        assert_eq!(shown("transp{3:2}"), "transp{3:2}");
        assert_eq!(shown("dport"), "tcpudp dport");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(ip|tcp|udp|payload)? ?[a-z]{0,4} ?[\\[{/&:, 0-9x\\]}-]{0,12}") {
            if let Ok((field, _)) = IpField::parse(&text) {
                let again = field.to_string();
                prop_assert_eq!(IpField::parse(&again), Ok((field, "")), "{}", again);
            }
        }
    }
}
