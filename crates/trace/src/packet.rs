//! The fields of a packet that the analyses use.

use capture::Record;
use wire::checksum::tcp_packet_valid;
use wire::layers::Network;
use wire::{FiveTuple, FromBytes, Layers, LinkType, U16, U32, ip_protocol, tcp, udp};

/// A packet of a capture, reduced to the fields that the analyses use.
#[derive(Debug, Clone, Copy)]
pub struct TracePacket {
    /// The time in nanoseconds since 1970.
    pub time: i64,
    /// The length on the wire in bytes.
    pub bytes: u32,
    /// True if fewer bytes were captured than the packet had on the wire.
    pub is_cut: bool,
    /// The kind of packet, for packets without a flow. Ignored if there is a flow.
    pub kind: FlowlessKind,
    /// The flow that the packet belongs to. `None` for all packets but unfragmented TCP and UDP whose ports
    /// were captured.
    pub flow: Option<Member>,
}

/// The kinds of packets that belong to no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowlessKind {
    /// A fragment of an IP packet.
    Fragment,
    /// An IP packet of a protocol other than TCP and UDP, or a truncated or malformed one.
    OtherIp,
    /// A packet that is not IP, or whose link header could not be read.
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
    /// The offsets and protocols of the headers.
    pub layers: Layers,
}

/// A packet as a member of a flow: the flow's numbers, and the fields of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The number of the flow among all flows; see [`FlowNumbers`](crate::FlowNumbers).
    pub number: u32,
    /// The number of the flow among the TCP flows, or among the flows of other protocols. Analyses of TCP
    /// use it as an array index, so that their arrays have no entries for UDP.
    pub ordinal: u32,
    /// The length of the TCP or UDP payload on the wire, in bytes; 0 if a TCP header is malformed or was not
    /// captured.
    pub payload: u32,
    /// The transport protocol, with the fields of the TCP header.
    pub transport: Transport,
}

/// The transport protocol of a flow, and the fields of the transport header that the analyses use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP. `None` if the header is malformed or fewer than its first 14 bytes were captured.
    Tcp(Option<TcpFields>),
    /// UDP.
    Udp,
}

/// The fields of a TCP header that the analyses use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFields {
    /// The sequence number of the first payload byte; with SYN, of the SYN itself.
    pub sequence: u32,
    /// The control bits; see [`tcp::flags`].
    pub flags: u8,
    /// `Some` for a pure ACK, which only acknowledges: ACK without SYN, FIN, RST, PSH or URG, and without
    /// payload.
    pub acknowledges: Option<Intact>,
}

/// The state of a pure ACK: true if the whole IP packet was captured, and its checksums (of the IPv4 header
/// and of TCP) are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intact(pub bool);

/// The flags that a pure ACK does not have.
const NOT_ALONE: u8 = tcp::flags::SYN | tcp::flags::FIN | tcp::flags::RST | tcp::flags::PSH | tcp::flags::URG;

impl Member {
    /// True if the flow is TCP.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp(_))
    }

    /// Returns the fields of the TCP header; `None` if the flow is not TCP, or the header is malformed or
    /// was not captured.
    #[inline]
    pub fn segment(&self) -> Option<TcpFields> {
        match self.transport {
            Transport::Tcp(segment) => segment,
            Transport::Udp => None,
        }
    }
}

/// Returns the five-tuple of a packet; `None` unless it is an unfragmented TCP or UDP packet whose ports
/// were captured.
#[inline]
pub fn tuple(frame: &[u8], layers: &Layers) -> Option<FiveTuple> {
    let l4 = layers.l4?;
    let counts = matches!(layers.protocol, Some(ip_protocol::TCP | ip_protocol::UDP));
    // Bytes after the end of the IP packet are padding of the link and no ports.
    let has_ports = layers.end >= l4 + 4;
    (counts && has_ports && layers.fragment.is_none()).then(|| layers.five_tuple(frame)).flatten()
}

impl<'a> Dissected<'a> {
    /// Finds the headers of a captured packet.
    #[inline]
    pub fn locate(record: &Record<'a>) -> Dissected<'a> {
        let layers = Layers::locate(record.data, record.link);
        Dissected { time: record.time, bytes: record.wire_len, frame: record.data, link: record.link, layers }
    }

    /// Returns the five-tuple of the packet's flow, as [`tuple()`] does.
    #[inline]
    pub fn tuple(&self) -> Option<FiveTuple> {
        tuple(self.frame, &self.layers)
    }

    /// Returns the fields that the analyses use, with `flow` as the packet's flow.
    #[inline]
    pub fn packet(&self, flow: Option<Member>) -> TracePacket {
        let kind = match self.layers.network {
            _ if self.layers.fragment.is_some() => FlowlessKind::Fragment,
            Network::Ipv4 | Network::Ipv6 => FlowlessKind::OtherIp,
            _ => FlowlessKind::NotIp,
        };
        let is_cut = self.bytes as usize > self.frame.len();
        TracePacket { time: self.time, bytes: self.bytes, is_cut, kind, flow }
    }

    /// Returns the packet as a member of the flow with this number and ordinal. Requires that
    /// [`tuple`](Self::tuple) returns a five-tuple.
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
                Some(TcpFields { sequence: sequence.get(), flags, acknowledges })
            }
            _ => None,
        };
        let payload = if segment.is_some() { narrow(on_wire.saturating_sub(header_len)) } else { 0 };
        Member { number, ordinal, payload, transport: Transport::Tcp(segment) }
    }

    /// True if all bytes of the IP packet were captured and the checksums of IP and TCP are right.
    fn is_intact(&self, l4: usize) -> bool {
        let l3 = self.layers.l3.unwrap_or(l4);
        let ip = self.frame.get(l3..self.layers.end);
        self.layers.missing == 0 && ip.is_some_and(|ip| tcp_packet_valid(ip, l4 - l3))
    }

    /// Returns the offset in the frame at which the IP packet ends on the wire. If the length field is
    /// zero, the IP packet ends with the frame. The field is zero in frames on their way to a network card
    /// that does segmentation.
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

    /// True if packets of this link type can be dissected. Packets of other link types are counted, but
    /// belong to no flow.
    pub fn link_is_known(link: LinkType) -> bool {
        link.is_known()
    }
}

/// Limits a number of bytes to the range of `u32`, because jumbograms may announce more.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
