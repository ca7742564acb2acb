//! The flow of a packet and, for TCP, the header fields that are needed to track the bytes of a flow.

use element::effects::Field;
use element::{Base, Packet, five_tuple};
use wire::layers::FLOW_HEADERS;
use wire::{FiveTuple, FromBytes, Layers, LinkType, ip_protocol, tcp};

/// The packet fields that [`locate`] reads, for declarations.
pub const READS: [Field; 4] = five_tuple::READS;

/// The result of [`locate`]: flow, length and TCP header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedSegment {
    /// The five-tuple of the flow.
    pub flow: FiveTuple,
    /// The number of bytes after the transport header, according to the length in the IP header. In a
    /// packet without a known transport header: the number of bytes from the start of the last header
    /// that was found.
    pub length: u32,
    /// The TCP header; `None` for other protocols, in fragments other than the first, or if the header is
    /// truncated or malformed.
    pub tcp: Option<TcpHeader>,
}

/// Some fields of a TCP header (RFC 9293, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// The sequence number of the first byte of data (or of the SYN).
    pub sequence: u32,
    /// The acknowledgment number: the sequence number of the byte that the sender of this packet expects
    /// next.
    pub acknowledgment: u32,
    /// The byte of TCP flags.
    pub flags: u8,
}

/// Finds the headers of a packet: at its network header annotation or, without the annotation, after its link
/// header. `None` if the packet is not IP, or its IP header is truncated or malformed.
pub fn locate(packet: &Packet) -> Option<LocatedSegment> {
    let (bytes, link) = match packet.offset(Base::Network) {
        Some(_) => (packet.header(Base::Network)?, LinkType::RawIp),
        None => (packet.data(), LinkType::from_number(packet.link())),
    };
    let bytes = bytes.get(..FLOW_HEADERS.into()).unwrap_or(bytes);
    let layers = Layers::locate(bytes, link);
    let flow = layers.five_tuple(bytes)?;
    let end = layers.end + layers.missing;
    let start = layers.payload.or(layers.l4).or(layers.l3)?;
    let is_tcp = layers.protocol == Some(ip_protocol::TCP) && layers.payload.is_some();
    let header = layers.l4.filter(|_| is_tcp).and_then(|l4| bytes.get(l4..));
    let tcp = header.and_then(|bytes| tcp::Header::ref_from_prefix(bytes).ok()).map(|(tcp, _)| TcpHeader {
        sequence: tcp.sequence.get(),
        acknowledgment: tcp.acknowledgment.get(),
        flags: tcp.flags,
    });
    Some(LocatedSegment { flow, length: end.saturating_sub(start) as u32, tcp })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use packet::Pool;
    use wire::MacAddr;
    use wire::build::Builder;

    use super::*;

    #[test]
    fn as_much_is_read_as_is_declared() {
        let lengths = READS.iter().filter_map(|field| match field {
            Field::Bytes { length, .. } => Some(*length),
            _ => None,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [FLOW_HEADERS; 2]);
    }

    #[test]
    fn lengths_are_those_of_ip() {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut of = |builder: Builder, payload: &[u8], padding: usize| {
            let ether = builder.ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
            let mut frame = ether.build(payload).unwrap();
            frame.resize(frame.len() + padding, 0);
            let packet = pool.packet(&frame).unwrap();
            let located = locate(&packet);
            pool.free(packet);
            located
        };
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let tcp = |a: &str, b: &str| Builder::tcp(end(a), end(b), 24).sequence(7, 9);
        let header = Some(TcpHeader { sequence: 7, acknowledgment: 9, flags: 24 });
        let of_tcp = |located: Option<LocatedSegment>| located.map(|located| (located.length, located.tcp));
        // The payload length follows from the length in the IP header: padding of a short frame does not
        // count as payload, and payload behind the bytes that `locate` reads does count.
        assert_eq!(of_tcp(of(tcp("10.0.0.1:1", "10.0.0.2:2"), &[], 6)), Some((0, header)));
        assert_eq!(of_tcp(of(tcp("10.0.0.1:1", "10.0.0.2:2"), &[1; 9000], 0)), Some((9000, header)));
        assert_eq!(of_tcp(of(tcp("[2001:db8::1]:1", "[2001:db8::2]:2"), &[1; 50], 0)), Some((50, header)));
        let udp = Builder::udp(end("10.0.0.1:1"), end("10.0.0.2:2"));
        assert_eq!(of_tcp(of(udp.clone(), &[1; 50], 0)), Some((50, None)));
        assert_eq!(of_tcp(of(udp.fragment(5), &[1; 50], 0)).map(|found| found.1), Some(None));
        let packet = pool.packet(&[0; 60]).unwrap();
        assert_eq!(locate(&packet), None);
        pool.free(packet);
    }
}
