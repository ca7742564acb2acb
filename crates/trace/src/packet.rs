//! What is looked at in a packet.

use capture::Record;
use wire::checksum::tcp_packet_valid;
use wire::layers::Network;
use wire::{FiveTuple, FromBytes, Layers, LinkType, U16, U32, ip_protocol, tcp, udp};

/// A packet of a capture as the analyses see it.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Bytes it had on the wire.
    pub bytes: u32,
    /// Whether fewer of them were captured.
    pub is_cut: bool,
    /// What it is if it has no flow.
    pub kind: Kind,
    /// The flow; `None` for all but unfragmented TCP and UDP with ports.
    pub flow: Option<Member>,
}

/// What packets without a flow are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A fragment of an IP packet.
    Fragment,
    /// IP of other protocols, or cut or malformed.
    OtherIp,
    /// All else.
    NotIp,
}

/// A captured packet whose headers have been found.
#[derive(Debug, Clone, Copy)]
pub struct Dissected<'a> {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Bytes it had on the wire.
    pub bytes: u32,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// What they start with.
    pub link: LinkType,
    /// Where its headers are.
    pub layers: Layers,
}

/// A packet's place in a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The flow's number.
    pub number: u32,
    /// Its place among the flows of the same protocol: analyses of TCP need no room for UDP.
    pub ordinal: u32,
    /// TCP or UDP payload, in bytes on the wire.
    pub payload: u32,
    /// TCP or UDP.
    pub transport: Transport,
}

/// What is looked at in the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP; `None` if the header is malformed or cut within its first 14 bytes.
    Tcp(Option<Segment>),
    /// UDP.
    Udp,
}

/// The part of a TCP header that counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// Control bits, see [`tcp::flags`].
    pub flags: u8,
    /// Whether it only acknowledges: ACK without SYN, FIN, RST, PSH or URG, and no payload.
    pub acknowledges: Option<Intact>,
}

/// Whether the checksums of an acknowledgment were captured and are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intact(pub bool);

/// Flags of segments that do more than acknowledge.
const NOT_ALONE: u8 = tcp::flags::SYN | tcp::flags::FIN | tcp::flags::RST | tcp::flags::PSH | tcp::flags::URG;

impl Member {
    /// Whether it is TCP.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp(_))
    }

    /// The TCP header, if it is TCP and was captured.
    #[inline]
    pub fn segment(&self) -> Option<Segment> {
        match self.transport {
            Transport::Tcp(segment) => segment,
            Transport::Udp => None,
        }
    }
}

/// The five-tuple that counts as a flow: unfragmented TCP and UDP whose ports were captured.
#[inline]
pub fn tuple(frame: &[u8], layers: &Layers) -> Option<FiveTuple> {
    let l4 = layers.l4?;
    let counts = matches!(layers.protocol, Some(ip_protocol::TCP | ip_protocol::UDP));
    // `end` is where the IP packet ends; link padding behind it is no port.
    let has_ports = layers.end >= l4 + 4;
    (counts && has_ports && layers.fragment.is_none()).then(|| layers.five_tuple(frame)).flatten()
}

impl<'a> Dissected<'a> {
    /// Takes a record apart.
    #[inline]
    pub fn locate(record: &Record<'a>) -> Dissected<'a> {
        let layers = Layers::locate(record.data, record.link);
        Dissected { time: record.time, bytes: record.wire_len, frame: record.data, link: record.link, layers }
    }

    /// The flow that the packet belongs to.
    #[inline]
    pub fn tuple(&self) -> Option<FiveTuple> {
        tuple(self.frame, &self.layers)
    }

    /// What analyses see of it.
    #[inline]
    pub fn packet(&self, flow: Option<Member>) -> Packet {
        let kind = match self.layers.network {
            _ if self.layers.fragment.is_some() => Kind::Fragment,
            Network::Ipv4 | Network::Ipv6 => Kind::OtherIp,
            _ => Kind::NotIp,
        };
        let is_cut = self.bytes as usize > self.frame.len();
        Packet { time: self.time, bytes: self.bytes, is_cut, kind, flow }
    }

    /// The packet's place in a flow.
    #[inline]
    pub fn member(&self, number: u32, ordinal: u32) -> Member {
        let l4 = self.layers.l4.unwrap_or(self.layers.end);
        let bytes = self.frame.get(l4..self.layers.end).unwrap_or_default();
        let on_wire = self.ip_end().saturating_sub(l4);
        if self.layers.protocol == Some(ip_protocol::UDP) {
            let payload = narrow(on_wire.saturating_sub(udp::Header::LEN));
            return Member { number, ordinal, payload, transport: Transport::Udp };
        }
        let header_len = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
        let sequence = bytes.get(4..8).and_then(|bytes| U32::read_from_bytes(bytes).ok());
        let segment = match (sequence, bytes.get(13)) {
            (Some(sequence), Some(&flags)) if header_len >= tcp::Header::LEN => {
                let only = on_wire <= header_len && flags & tcp::flags::ACK != 0 && flags & NOT_ALONE == 0;
                let acknowledges = only.then(|| Intact(self.is_intact(l4)));
                Some(Segment { sequence: sequence.get(), flags, acknowledges })
            }
            _ => None,
        };
        let payload = if segment.is_some() { narrow(on_wire.saturating_sub(header_len)) } else { 0 };
        Member { number, ordinal, payload, transport: Transport::Tcp(segment) }
    }

    /// Whether the checksums of a TCP packet are right.
    fn is_intact(&self, l4: usize) -> bool {
        let l3 = self.layers.l3.unwrap_or(l4);
        let ip = self.frame.get(l3..self.layers.end);
        self.layers.missing == 0 && ip.is_some_and(|ip| tcp_packet_valid(ip, l4 - l3))
    }

    /// Where the IP packet ended on the wire. A length field of zero (a frame on its way to a network card that
    /// segments) says nothing: the frame's length counts.
    #[inline]
    fn ip_end(&self) -> usize {
        let announced = self.layers.end + self.layers.missing;
        let field = |offset| {
            let at = self.layers.l3.unwrap_or(0) + offset;
            self.frame.get(at..at + 2).and_then(|bytes| U16::read_from_bytes(bytes).ok())
        };
        let length = match self.layers.network {
            Network::Ipv4 => field(2),
            _ => field(4),
        };
        match length {
            Some(length) if length.get() == 0 && announced == self.frame.len() => self.bytes as usize,
            _ => announced,
        }
    }

    /// Whether headers of this link type can be found at all.
    pub fn link_is_known(link: LinkType) -> bool {
        !matches!(link, LinkType::Other(_))
    }
}

/// Jumbograms may announce more than there can be.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
