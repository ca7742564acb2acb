//! The analyzed fields of a packet.

use capture::Record;
use wire::checksum::tcp_packet_valid;
use wire::layers::Network;
use wire::{FiveTuple, FromBytes, Layers, LinkType, U16, U32, ip_protocol, tcp, udp};

/// A packet of a capture as the analyses see it.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// The time in nanoseconds since 1970.
    pub time: i64,
    /// The length on the wire in bytes.
    pub bytes: u32,
    /// True if not all bytes were captured.
    pub is_cut: bool,
    /// The kind of the packet if it has no flow.
    pub kind: Kind,
    /// The flow; `None` for all but unfragmented TCP and UDP with ports.
    pub flow: Option<Member>,
}

/// The kinds of packets without a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A fragment of an IP packet.
    Fragment,
    /// IP of other protocols, or truncated or malformed.
    OtherIp,
    /// All other packets.
    NotIp,
}

/// A captured packet whose headers have been found.
#[derive(Debug, Clone, Copy)]
pub struct Dissected<'a> {
    /// The time in nanoseconds since 1970.
    pub time: i64,
    /// The length on the wire in bytes.
    pub bytes: u32,
    /// The captured bytes.
    pub frame: &'a [u8],
    /// The type of the link header.
    pub link: LinkType,
    /// The offsets of the headers.
    pub layers: Layers,
}

/// A packet as a member of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The flow's number.
    pub number: u32,
    /// The flow's position among the flows of the same protocol, so that analyses of TCP need no room for
    /// UDP.
    pub ordinal: u32,
    /// The length of the TCP or UDP payload on the wire, in bytes.
    pub payload: u32,
    /// The transport protocol, with the TCP header.
    pub transport: Transport,
}

/// The analyzed fields of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP; `None` if the header is malformed or truncated within its first 14 bytes.
    Tcp(Option<Segment>),
    /// UDP.
    Udp,
}

/// The analyzed fields of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// Control bits, see [`tcp::flags`].
    pub flags: u8,
    /// `Some` for a pure ACK: ACK without SYN, FIN, RST, PSH or URG, and without payload.
    pub acknowledges: Option<Intact>,
}

/// True if the checksums of an acknowledgment were captured and are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intact(pub bool);

/// The flags of segments that are not pure ACKs.
const NOT_ALONE: u8 = tcp::flags::SYN | tcp::flags::FIN | tcp::flags::RST | tcp::flags::PSH | tcp::flags::URG;

impl Member {
    /// True if the flow is TCP.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp(_))
    }

    /// Returns the TCP header, if the flow is TCP and the header was captured.
    #[inline]
    pub fn segment(&self) -> Option<Segment> {
        match self.transport {
            Transport::Tcp(segment) => segment,
            Transport::Udp => None,
        }
    }
}

/// Returns the five-tuple of a packet that has a flow: unfragmented TCP and UDP whose ports were captured.
#[inline]
pub fn tuple(frame: &[u8], layers: &Layers) -> Option<FiveTuple> {
    let l4 = layers.l4?;
    let counts = matches!(layers.protocol, Some(ip_protocol::TCP | ip_protocol::UDP));
    // `end` is the end of the IP packet; link padding after it does not contain ports.
    let has_ports = layers.end >= l4 + 4;
    (counts && has_ports && layers.fragment.is_none()).then(|| layers.five_tuple(frame)).flatten()
}

impl<'a> Dissected<'a> {
    /// Finds the headers of a record.
    #[inline]
    pub fn locate(record: &Record<'a>) -> Dissected<'a> {
        let layers = Layers::locate(record.data, record.link);
        Dissected { time: record.time, bytes: record.wire_len, frame: record.data, link: record.link, layers }
    }

    /// Returns the five-tuple of the packet's flow.
    #[inline]
    pub fn tuple(&self) -> Option<FiveTuple> {
        tuple(self.frame, &self.layers)
    }

    /// Returns the packet as the analyses see it.
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

    /// Returns the packet as a member of a flow.
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

    /// True if the checksums of a TCP packet are right.
    fn is_intact(&self, l4: usize) -> bool {
        let l3 = self.layers.l3.unwrap_or(l4);
        let ip = self.frame.get(l3..self.layers.end);
        self.layers.missing == 0 && ip.is_some_and(|ip| tcp_packet_valid(ip, l4 - l3))
    }

    /// Returns the offset of the end of the IP packet on the wire. If the length field is zero (a frame on
    /// its way to a network card that does segmentation), the frame's length counts.
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

    /// True if headers of this link type can be found at all.
    pub fn link_is_known(link: LinkType) -> bool {
        !matches!(link, LinkType::Other(_))
    }
}

/// Jumbograms may announce more bytes than a `u32` can hold.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
