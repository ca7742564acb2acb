//! The header fields that balancers read: five-tuple and TCP flags.

use element::{Base, Packet};
use wire::{FiveTuple, FromBytes, ip_protocol, ipv4};

/// Returns the five-tuple of an IPv4 packet, read at its header annotations; `None` for other packets. The
/// ports are 0 for protocols without ports, for fragments, and if the transport header annotation is not set
/// or the packet ends before the ports.
#[inline]
pub(super) fn marked(packet: &Packet) -> Option<FiveTuple> {
    let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    if ip.version() != 4 {
        return None;
    }
    // All fragments of a datagram must go to one server, and only the first has ports.
    let has_ports = ip_protocol::has_ports(ip.protocol) && !ip.is_fragment();
    let ports = packet.header(Base::Transport).filter(|_| has_ports).and_then(|bytes| bytes.first_chunk());
    let (source, destination) = match ports {
        Some(&[a, b, c, d]) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        None => (0, 0),
    };
    Some(FiveTuple::v4((ip.source_addr(), source), (ip.destination_addr(), destination), ip.protocol))
}

/// Returns the TCP flags of a packet; 0 if the packet is not TCP or has no transport header annotation.
/// Also 0 for a flow without ports: a fragment may have data at the place of the flags.
#[inline]
pub(super) fn tcp_flags(packet: &Packet, flow: &FiveTuple) -> u8 {
    let flags = || packet.header(Base::Transport)?.get(13).copied();
    let has_ports = (flow.source_port(), flow.destination_port()) != (0, 0);
    if flow.protocol() == ip_protocol::TCP && has_ports { flags().unwrap_or(0) } else { 0 }
}
