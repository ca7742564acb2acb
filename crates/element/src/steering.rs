//! Which worker a packet belongs to.
//!
//! Every worker has flow state of its own, so all packets of a flow, in both directions, have to come to one worker.
//! [`Dispatch`] says to which; the engine hands packets over that have come in elsewhere.

use flow::rss;
use packet::{Base, Packet};
use wire::{LinkType, U16, ip_protocol, ipv4};
use zerocopy::FromBytes;

/// A rule that gives packets to workers.
pub trait Dispatch: Send + Sync {
    /// The worker, counted from 0, that a packet belongs to.
    fn worker_of(&self, packet: &Packet) -> usize;

    /// The worker that packets with these ends belong to, in either direction: addresses and ports (or identifiers)
    /// folded by [`rss::fold`].
    fn worker_of_fold(&self, fold: u16) -> usize;
}

/// Receive-side scaling: by the symmetric Toeplitz hash of addresses and ports, so that an interface can do it too.
///
/// An ICMP query goes by its addresses and identifier, an ICMP error by the packet that it quotes, which is of the flow
/// that the error is about; fragments, which may have no ports, by addresses alone. What is not IP is worker 0's.
#[derive(Clone, Copy, Debug)]
pub struct Rss {
    workers: usize,
}

impl Rss {
    /// For so many workers.
    pub fn new(workers: usize) -> Rss {
        Rss { workers }
    }
}

impl Dispatch for Rss {
    #[inline]
    fn worker_of(&self, packet: &Packet) -> usize {
        fold(packet).map_or(0, |fold| self.worker_of_fold(fold))
    }

    #[inline]
    fn worker_of_fold(&self, fold: u16) -> usize {
        rss::queue(rss::toeplitz(fold), self.workers)
    }
}

/// What a packet is spread by: the exclusive or of the 16-bit words of its addresses and ports. `None` if it is not IP.
#[inline]
pub fn fold(packet: &Packet) -> Option<u16> {
    if let Some(ip) = packet.header(Base::Network)
        && let Some(fold) = fold_ip(ip, 0)
    {
        return Some(fold);
    }
    let data = packet.data();
    if packet.link() == LinkType::Ethernet.number()
        && let Some(&[0x08, 0x00]) = data.get(12..14)
    {
        return fold_ip(&data[14..], 0);
    }
    fold_elsewhere(data, LinkType::from_number(packet.link()))
}

/// Quotes within quotes that are looked into: one, because errors are not sent about errors.
const DEEPEST: u32 = 1;

#[inline]
fn fold_ip(ip: &[u8], depth: u32) -> Option<u16> {
    match ip.first()? >> 4 {
        4 => fold_v4(ip, depth),
        6 => fold_elsewhere(ip, LinkType::RawIp),
        _ => None,
    }
}

#[inline]
fn fold_v4(ip: &[u8], depth: u32) -> Option<u16> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let addresses = word(12) ^ word(14) ^ word(16) ^ word(18);
    let length = usize::from(header[0] & 15) * 4;
    // Fragments: any with an offset, and any that more follow.
    if word(6) & 0x3fff != 0 || length < ipv4::Header::LEN {
        return Some(addresses);
    }
    let rest = ip.get(length..).unwrap_or_default();
    Some(match header[9] {
        ip_protocol::ICMP => fold_icmp(rest, addresses, depth),
        protocol if ip_protocol::has_ports(protocol) => addresses ^ fold_ports(rest),
        _ => addresses,
    })
}

#[inline]
fn fold_ports(transport: &[u8]) -> u16 {
    <[U16; 2]>::read_from_prefix(transport)
        .map_or(0, |([source, destination], _)| source.get() ^ destination.get())
}

fn fold_icmp(icmp: &[u8], addresses: u16, depth: u32) -> u16 {
    use wire::icmp::kind;
    let identifier = || icmp.get(4..6).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
    let quotes = |kind| {
        matches!(kind, kind::UNREACHABLE | kind::SOURCE_QUENCH | kind::REDIRECT | kind::TIME_EXCEEDED)
            || kind == kind::PARAMETER_PROBLEM
    };
    match icmp.first() {
        Some(&kind) if quotes(kind) => {
            let quote = icmp.get(8..).filter(|_| depth < DEEPEST);
            quote.and_then(|quote| fold_ip(quote, depth + 1)).unwrap_or(addresses)
        }
        Some(&(kind::ECHO | kind::ECHO_REPLY | kind::TIME_STAMP..=kind::INFORMATION_REPLY)) => {
            addresses ^ identifier()
        }
        _ => addresses,
    }
}

fn fold_icmpv6(icmp: &[u8], addresses: u16) -> u16 {
    use wire::icmpv6::kind;
    let identifier = || icmp.get(4..6).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
    match icmp.first() {
        Some(&(kind::UNREACHABLE..=kind::PARAMETER_PROBLEM)) => {
            let quote = icmp.get(8..).unwrap_or_default();
            let layers = wire::Layers::locate(quote, LinkType::RawIp);
            match (layers.five_tuple(quote), layers.protocol, layers.l4) {
                (Some(tuple), Some(ip_protocol::ICMPV6), Some(l4)) if layers.fragment.is_none() => {
                    let identifier =
                        quote.get(l4 + 4..l4 + 6).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
                    rss::fold_tuple(&tuple) ^ identifier
                }
                (Some(tuple), ..) => rss::fold_tuple(&tuple),
                _ => addresses,
            }
        }
        Some(&(kind::ECHO | kind::ECHO_REPLY)) => addresses ^ identifier(),
        _ => addresses,
    }
}

/// The same for whatever has no short way.
#[cold]
fn fold_elsewhere(bytes: &[u8], link: LinkType) -> Option<u16> {
    let layers = wire::Layers::locate(bytes, link);
    let tuple = layers.five_tuple(bytes)?;
    let l3 = layers.l3?;
    if bytes.get(l3)? >> 4 == 4 {
        return fold_v4(&bytes[l3..], 0);
    }
    let addresses = rss::fold(address_bits(tuple.source())) ^ rss::fold(address_bits(tuple.destination()));
    if layers.fragment.is_some_and(|fragment| fragment.offset > 0 || fragment.more) {
        return Some(addresses);
    }
    match (layers.protocol, layers.l4) {
        (Some(ip_protocol::ICMPV6), Some(l4)) => Some(fold_icmpv6(bytes.get(l4..)?, addresses)),
        _ => Some(rss::fold_tuple(&tuple)),
    }
}

fn address_bits(address: std::net::IpAddr) -> u128 {
    match address {
        std::net::IpAddr::V4(address) => u128::from(address.to_bits()),
        std::net::IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    /// An IPv4 header and what follows it.
    fn ip(source: u32, destination: u32, protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, (20 + rest.len()) as u8, 0, 7];
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0]);
        bytes.extend(source.to_be_bytes());
        bytes.extend(destination.to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    fn framed(ip: &[u8]) -> Vec<u8> {
        let kind = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        [&[2; 12][..], &kind, ip].concat()
    }

    fn fold_of(bytes: &[u8]) -> Option<u16> {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut packet = pool.packet(bytes).unwrap();
        let fresh = fold(&packet);
        packet.set_offset(Base::Network, Some(14));
        assert_eq!(fold(&packet), fresh, "with and without the annotation");
        pool.free(packet);
        fresh
    }

    const A: u32 = 0x0a00_0001;
    const B: u32 = 0xc0a8_0902;

    #[test]
    fn replies_errors_and_queries_belong_to_their_flow() {
        let there = ip(A, B, 6, 0, &[4, 1, 0, 80, 1, 2, 3, 4]);
        let back = ip(B, A, 6, 0, &[0, 80, 4, 1, 1, 2, 3, 4]);
        let flow = fold_of(&framed(&there));
        assert!(flow.is_some());
        assert_eq!(fold_of(&framed(&back)), flow);
        // A router on the way complains about the packet; so does one behind a tag.
        let error = ip(0x0101_0101, A, 1, 0, &[&[11, 0, 0, 0, 0, 0, 0, 0][..], &there].concat());
        assert_eq!(fold_of(&framed(&error)), flow);
        let tagged = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], &error].concat();
        let mut pool = Pool::new(64 << 20).unwrap();
        let packet = pool.packet(&tagged).unwrap();
        assert_eq!(fold(&packet), flow);
        pool.free(packet);
        // Queries and their replies.
        let query = ip(A, B, 1, 0, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
        let reply = ip(B, A, 1, 0, &[0, 0, 0, 0, 0x12, 0x34, 0, 1]);
        assert_eq!(fold_of(&framed(&query)), fold_of(&framed(&reply)));
        let other = ip(A, B, 1, 0, &[8, 0, 0, 0, 0x12, 0x35, 0, 1]);
        assert_ne!(fold_of(&framed(&query)), fold_of(&framed(&other)));
        let about = ip(0x0101_0101, A, 1, 0, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &query].concat());
        assert_eq!(fold_of(&framed(&about)), fold_of(&framed(&query)));
    }

    #[test]
    fn fragments_stay_together() {
        let first = ip(A, B, 17, 0x2000, &[4, 1, 0, 53, 0, 16, 0, 0]);
        let last = ip(A, B, 17, 1, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(fold_of(&framed(&first)), fold_of(&framed(&last)));
        assert_ne!(fold_of(&framed(&first)), fold_of(&framed(&ip(A, B, 17, 0, &[4, 1, 0, 53, 0, 8, 0, 0]))));
    }

    #[test]
    fn ipv6_goes_the_same_way() {
        let v6 = |from: u8, to: u8, next: u8, rest: &[u8]| {
            let mut bytes = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
            bytes.extend([&[0x20; 15][..], &[from]].concat());
            bytes.extend([&[0x20; 15][..], &[to]].concat());
            bytes.extend(rest);
            bytes
        };
        let there = v6(1, 9, 17, &[4, 1, 0, 53, 0, 8, 0, 0]);
        let back = v6(9, 1, 17, &[0, 53, 4, 1, 0, 8, 0, 0]);
        let flow = fold_of(&framed(&there));
        assert!(flow.is_some());
        assert_eq!(fold_of(&framed(&back)), flow);
        let error = v6(7, 1, 58, &[&[3, 0, 0, 0, 0, 0, 0, 0][..], &there].concat());
        assert_eq!(fold_of(&framed(&error)), flow);
        let (query, reply) =
            (v6(1, 9, 58, &[128, 0, 0, 0, 0, 5, 0, 1]), v6(9, 1, 58, &[129, 0, 0, 0, 0, 5, 0, 1]));
        assert_eq!(fold_of(&framed(&query)), fold_of(&framed(&reply)));
    }

    #[test]
    fn whatever_is_cut_or_foreign_has_a_worker() {
        let dispatch = Rss::new(3);
        let whole =
            framed(&ip(A, B, 1, 0, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &ip(A, B, 6, 0, &[0; 8])].concat()));
        let mut pool = Pool::new(64 << 20).unwrap();
        for length in 0..whole.len() {
            let packet = pool.packet(&whole[..length]).unwrap();
            assert!(dispatch.worker_of(&packet) < 3);
            pool.free(packet);
        }
        let arp = pool.packet(&[&[2; 12][..], &[8, 6], &[0; 28]].concat()).unwrap();
        assert_eq!(dispatch.worker_of(&arp), 0);
        pool.free(arp);
    }
}
