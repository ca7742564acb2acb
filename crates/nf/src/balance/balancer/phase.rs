//! The phases of TCP connections, as far as the balancer knows them.

use element::{Base, Packet};
use wire::{FiveTuple, ip_protocol, ipv6, tcp::flags};

use super::super::headers::tcp_flags;

/// The phase of a TCP connection, as far as the balancer knows it; other flows are always open. Packets
/// from servers do not pass the balancer, so it may not be notified of their FIN and RST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The client has sent FIN. The server may still send for any length of time.
    ClientClosed,
    /// The server has sent FIN. The client may still send.
    ServerClosed,
    /// Both sides have sent FIN, or one has sent RST. The entry remains for late packets.
    Over,
}

impl Phase {
    /// Returns the phase after a packet of the client; `seen` are its TCP flags.
    #[inline]
    pub(super) fn after(self, seen: u8, packet: &Packet) -> Phase {
        if seen & flags::RST != 0 {
            Phase::Over
        } else if seen & flags::FIN != 0 {
            self.closed_by(Phase::ClientClosed)
        } else if matches!(self, Phase::ClientClosed | Phase::Over) && has_payload(packet) {
            // A client that sends data after FIN or RST continues the connection: the server cannot have
            // accepted the FIN or RST.
            Phase::Open
        } else {
            self
        }
    }

    /// Returns the phase after a segment of the server; `seen` are its TCP flags, which include FIN or RST.
    pub(super) fn after_server(self, seen: u8) -> Phase {
        if seen & flags::RST != 0 { Phase::Over } else { self.closed_by(Phase::ServerClosed) }
    }

    /// Returns the phase after a FIN; `alone` is the phase if only this side has sent FIN.
    fn closed_by(self, alone: Phase) -> Phase {
        if self == Phase::Open || self == alone { alone } else { Phase::Over }
    }
}

/// Returns the number of packets at the start of a run of the flow `flow` after which its connection is still
/// open. The connection is open after the first packet. So these are the packets before the first later
/// packet that has FIN or RST, or all packets if no later packet has.
#[inline]
pub(super) fn open_length(packets: &[Packet], flow: &FiveTuple) -> usize {
    if flow.protocol() != ip_protocol::TCP {
        return packets.len();
    }
    let closes = |packet: &Packet| tcp_flags(packet, flow) & (flags::FIN | flags::RST) != 0;
    packets.iter().skip(1).position(closes).map_or(packets.len(), |more| 1 + more)
}

/// True if a TCP segment has data. Padding of the link after the end of the IP packet does not count.
#[cold]
fn has_payload(packet: &Packet) -> bool {
    let start = || {
        let offset = packet.header(Base::Transport)?.get(12)? >> 4;
        Some(packet.offset(Base::Transport)? + isize::from(offset) * 4)
    };
    let end = || {
        let ip = packet.header(Base::Network)?;
        let number = |at: usize| Some(usize::from(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
        let length = if ip.first()? >> 4 == 6 { number(4)? + ipv6::Header::LEN } else { number(2)? };
        Some(packet.offset(Base::Network)? + length as isize)
    };
    let length = packet.len() as isize;
    start().is_some_and(|start| start < end().unwrap_or(length).min(length))
}
