//! The worker that a packet belongs to.
//!
//! Every worker has its own flow state, so all packets of a flow, in both directions, have to come to one
//! worker. A [`Dispatch`] chooses that worker; the engine hands over packets that have come in at other
//! workers. If elements can read the flow state of other workers, packets that do not change this state may
//! be at any worker: a [`Spread`] chooses it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use flow::Known;
use flow::rss::{self, Toeplitz};
pub use flow::rss::{KEY as STEERING_KEY, Key as SteeringKey, key_of};
use flow::{AddressesAndPorts, FiveTupleKey, Key};
use packet::{Base, Batch, Packet, Timestamp};
pub use wire::LinkType;
use wire::{U16, ip_protocol, ipv4};
use zerocopy::FromBytes;

/// A rule that assigns packets to workers.
pub trait Dispatch: Send + Sync {
    /// The worker, counted from 0, that a packet belongs to.
    fn worker_of(&self, packet: &Packet) -> usize;

    /// The worker that a frame belongs to, for bytes that are not in a [`Packet`] yet.
    fn worker_of_frame(&self, frame: &[u8], link: LinkType) -> usize;

    /// The worker that packets between two ends belong to, in either direction. An end is an address and a
    /// port, or an address and, for one of the two ends, an identifier in place of the port.
    fn worker_between(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize;

    /// The hash that the rule uses. `None` for packets that are not IP.
    fn hash(&self, packet: &Packet) -> Option<u32>;

    /// The key of the hash, for programs with which the kernel finds the same worker.
    fn key(&self) -> &rss::Key;
}

/// A way to spread packets of one flow over workers.
pub trait Spreading: Send + Sync {
    /// Makes the state with which one worker spreads its packets. There is one load per worker.
    fn spread(&self, worker: usize, loads: &Arc<[Load]>) -> Box<dyn Spread>;

    /// True if packets leave in the order in which they came; the elements that send them then run at one
    /// worker only.
    fn keeps_order(&self) -> bool {
        false
    }

    /// The number of workers over which interfaces may spread packets in place of this rule; `None` if they
    /// may not. An interface then spreads each segment of a TCP connection separately, except for segments
    /// that open or close the connection. The workers follow each other from the worker that the connection
    /// belongs to; 0 means all workers.
    fn by_interfaces(&self) -> Option<usize> {
        None
    }
}

/// The packets that a worker has spread to another worker and that are not processed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The time at which the oldest of these packets was spread. `None` if there is no such packet.
    pub since: Option<Timestamp>,
    /// True if no further packets are given to the worker that may go to another worker.
    pub is_full: bool,
}

/// The state with which one worker spreads packets.
pub trait Spread: Send {
    /// Looks at an incoming batch before [`worker_of`](Spread::worker_of) is called for its packets.
    /// `owner` knows the worker that each packet belongs to. Returns false if all packets go to the workers
    /// that they belong to; `worker_of` is then not called.
    #[inline]
    fn look(&mut self, _batch: &Batch, _now: Timestamp, _owner: &dyn Dispatch) -> bool {
        true
    }

    /// Takes the state of the packets that wait for each worker, before [`worker_of`](Spread::worker_of) is
    /// called for packets of a batch. It is not called if the spreading keeps order.
    #[inline]
    fn hear(&mut self, _waiting: &[Waiting]) {}

    /// The worker for a packet that could go anywhere. `owner` knows the worker that the packet belongs to.
    /// Packets that may change the state of their flow, and packets of a kind that is not spread, have to
    /// go to that worker.
    fn worker_of(&mut self, packet: &Packet, now: Timestamp, owner: &dyn Dispatch) -> usize;

    /// True if any worker may process the packet: its kind is spread, and it neither opens nor closes a
    /// connection.
    fn may_stay(&self, packet: &Packet) -> bool;
}

/// The work of one worker so far. Only this worker writes it; all others read it. Times are real; under
/// other clocks no worker is ever busy.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Load {
    busy: AtomicU64,
    packets: AtomicU64,
    waiting: AtomicU64,
    /// The time up to which `busy` counts, in nanoseconds; 0 while the worker sleeps.
    until: AtomicI64,
}

/// The work of a worker up to some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// The nanoseconds of work so far.
    pub busy: u64,
    /// The number of packets processed in this time.
    pub packets: u64,
    /// The number of packets that other workers have handed over to this worker and that it has not taken
    /// yet.
    pub waiting: u64,
}

impl Load {
    /// Publishes the work of the worker up to a time.
    #[inline]
    pub fn say(&self, work: Work, until: Timestamp) {
        self.busy.store(work.busy, Ordering::Relaxed);
        self.packets.store(work.packets, Ordering::Relaxed);
        self.waiting.store(work.waiting, Ordering::Relaxed);
        self.until.store(until.0, Ordering::Relaxed);
    }

    /// Publishes that the worker sleeps.
    pub fn rest(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// The work of the worker until now. Its current activity counts as work, although it may turn out to
    /// be idle. The numbers may be from different moments.
    pub fn at(&self, now: Timestamp) -> Work {
        let since = match self.until.load(Ordering::Relaxed) {
            0 => 0,
            until => (now.0 - until).max(0),
        };
        Work {
            busy: self.busy.load(Ordering::Relaxed) + since as u64,
            packets: self.packets.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

/// The IP protocol and the bytes after the IP header of a packet that is not a fragment. With them, callers
/// recognize packets that open and close connections.
#[inline]
pub fn transport(packet: &Packet) -> Option<(u8, &[u8])> {
    let ip = network(packet);
    if let Some(header) = ip.and_then(|ip| ip.first_chunk::<20>())
        && header[0] >> 4 == 4
    {
        return ip?.get(header_length(header)..).filter(|_| !is_part(header)).map(|rest| (header[9], rest));
    }
    transport_elsewhere(
        ip.unwrap_or(packet.data()),
        if ip.is_some() { LinkType::RawIp } else { LinkType::from_number(packet.link()) },
    )
}

/// A number that all packets of a flow in one direction share, and that hardly any other flow has. It is
/// faster than [`hash`], but differs for the reply direction and for another seed. For packets with
/// addresses and ports it is [`AddressesAndPorts::number`].
#[inline]
pub fn flow_number(packet: &Packet, seed: u64) -> Option<u32> {
    if let Some(ip) = network(packet)
        && let Some(header @ &[_, .., a, b, c, d, e, f, g, h]) = ip.first_chunk::<20>()
        && header[0] >> 4 == 4
        && !is_part(header)
        && let Some(&[i, j, k, l]) = ip.get(header_length(header)..).and_then(|rest| rest.first_chunk())
    {
        let addresses = [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])];
        let ports = [u16::from_be_bytes([i, j]), u16::from_be_bytes([k, l])];
        return Some(AddressesAndPorts::V4(addresses, ports).number(seed));
    }
    number_elsewhere(packet, seed)
}

/// The flow number of a packet for which [`flow_number`] finds no number in a direct look at an IPv4
/// header.
#[inline(never)]
fn number_elsewhere(packet: &Packet, seed: u64) -> Option<u32> {
    let (bytes, link) = match packet.header(Base::Network) {
        Some(ip) => (ip, LinkType::RawIp),
        None => (packet.data(), LinkType::from_number(packet.link())),
    };
    let layers = wire::Layers::locate(bytes, link);
    let tuple = layers.five_tuple(bytes).filter(|_| layers.fragment.is_none());
    let ends = tuple.and_then(|tuple| FiveTupleKey::new(&tuple, 0).addresses_and_ports());
    ends.map_or_else(|| hash(packet), |ends| Some(ends.number(seed)))
}

/// The IP header and the bytes after it, if a quick look finds them.
#[inline]
fn network(packet: &Packet) -> Option<&[u8]> {
    let is_framed = || LinkType::from_number(packet.link()) == LinkType::Ethernet;
    match packet.header(Base::Network) {
        Some(ip) => Some(ip),
        None if is_framed() && packet.data().get(12..14) == Some(&[0x08, 0x00]) => packet.data().get(14..),
        None => None,
    }
}

/// The length of an IPv4 header in bytes, options included.
#[inline]
fn header_length(header: &[u8; 20]) -> usize {
    (usize::from(header[0] & 15) * 4).max(20)
}

/// True if an IPv4 header belongs to a fragment.
#[inline]
fn is_part(header: &[u8; 20]) -> bool {
    u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0
}

/// The protocol and transport header of a packet that is not plain IPv4 in Ethernet.
#[inline(never)]
fn transport_elsewhere(bytes: &[u8], link: LinkType) -> Option<(u8, &[u8])> {
    let layers = wire::Layers::locate(bytes, link);
    Some((layers.protocol.filter(|_| layers.fragment.is_none())?, bytes.get(layers.l4?..)?))
}

/// Receive-side scaling: chooses the worker by the Toeplitz hash of addresses and ports, which is the same
/// in both directions ([`rss`]) and which an interface can compute too.
///
/// The hash of an ICMP query covers its addresses and its identifier. The hash of an ICMP error is the hash
/// of the packet that it quotes, so that the error comes to the flow that it is about. The hash of a
/// fragment covers only its addresses, because a fragment may have no ports; the same holds for packets
/// with more extension headers than the parser reads ([`wire::ipv6`]). All fragments of a datagram are thus
/// at one worker, in whatever order they come, but not at the worker of the flow's whole datagrams; no
/// order is kept between fragments and whole datagrams. Packets that are not IP go to worker 0.
#[derive(Clone)]
pub struct Rss {
    workers: usize,
    /// The hash. With a secret key, an attacker cannot choose flows that all come to one worker.
    toeplitz: Arc<Toeplitz>,
}

impl Rss {
    /// Makes a rule for a number of workers, with the public key.
    pub fn new(workers: usize) -> Rss {
        Rss::with_key(workers, rss::KEY)
    }

    /// Makes a rule for a number of workers, with another key.
    pub fn with_key(workers: usize, key: rss::Key) -> Rss {
        Rss { workers, toeplitz: Arc::new(Toeplitz::new(key)) }
    }
}

impl Dispatch for Rss {
    #[inline]
    fn worker_of(&self, packet: &Packet) -> usize {
        self.hash(packet).map_or(0, |hash| rss::queue(hash, self.workers))
    }

    fn worker_of_frame(&self, frame: &[u8], link: LinkType) -> usize {
        hash_frame(&self.toeplitz, frame, link).map_or(0, |hash| rss::queue(hash, self.workers))
    }

    fn worker_between(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize {
        rss::queue(self.toeplitz.hash_ends(a, b), self.workers)
    }

    #[inline]
    fn hash(&self, packet: &Packet) -> Option<u32> {
        hash_by(&self.toeplitz, packet)
    }

    fn key(&self) -> &rss::Key {
        self.toeplitz.key()
    }
}

/// The hash of a packet with the public key. `None` if it is not IP.
#[inline]
pub fn hash(packet: &Packet) -> Option<u32> {
    hash_by(&rss::DEFAULT_HASH, packet)
}

#[inline]
fn hash_by(toeplitz: &Toeplitz, packet: &Packet) -> Option<u32> {
    if let Some(ip) = packet.header(Base::Network)
        && let Some(hash) = hash_ip(toeplitz, ip, 0)
    {
        return Some(hash);
    }
    hash_frame(toeplitz, packet.data(), LinkType::from_number(packet.link()))
}

#[inline]
fn hash_frame(toeplitz: &Toeplitz, frame: &[u8], link: LinkType) -> Option<u32> {
    if link == LinkType::Ethernet
        && let Some(&[0x08, 0x00]) = frame.get(12..14)
    {
        return hash_ip(toeplitz, &frame[14..], 0);
    }
    hash_elsewhere(toeplitz, frame, link, 0)
}

/// The number of nested quotes that are read: one, because no errors are sent about errors.
const DEEPEST: u32 = 1;

#[inline]
fn hash_ip(toeplitz: &Toeplitz, ip: &[u8], depth: u32) -> Option<u32> {
    match ip.first()? >> 4 {
        4 => hash_v4(toeplitz, ip, depth),
        6 => hash_elsewhere(toeplitz, ip, LinkType::RawIp, depth),
        _ => None,
    }
}

#[inline]
fn hash_v4(toeplitz: &Toeplitz, ip: &[u8], depth: u32) -> Option<u32> {
    let header: &[u8; 20] = ip.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let addresses = [address(12), address(16)];
    let length = usize::from(header[0] & 15) * 4;
    // Fragments: packets with an offset, or with the more-fragments flag.
    if word(6) & 0x3fff != 0 || length < ipv4::Header::LEN {
        return Some(toeplitz.hash_v4(addresses, [0; 2]));
    }
    let rest = ip.get(length..).unwrap_or_default();
    let ports = match header[9] {
        ip_protocol::ICMP => match look_into_icmp(rest) {
            Icmp::Error(quote) if depth < DEEPEST => match hash_ip(toeplitz, quote, depth + 1) {
                Some(hash) => return Some(hash),
                None => [0; 2],
            },
            Icmp::Query(identifier) => [0, identifier],
            _ => [0; 2],
        },
        protocol if ip_protocol::has_ports(protocol) => ports(rest),
        _ => [0; 2],
    };
    Some(toeplitz.hash_v4(addresses, ports))
}

#[inline]
fn ports(transport: &[u8]) -> [u16; 2] {
    <[U16; 2]>::read_from_prefix(transport).map_or([0; 2], |(ports, _)| ports.map(U16::get))
}

/// The information of an ICMP message about the flow that it belongs to.
enum Icmp<'a> {
    /// An error about this packet.
    Error(&'a [u8]),
    /// A query with this identifier, or the reply to such a query.
    Query(u16),
    Other,
}

fn look_into_icmp(icmp: &[u8]) -> Icmp<'_> {
    use wire::icmp::kind;
    match icmp {
        [kind::UNREACHABLE | kind::SOURCE_QUENCH | kind::REDIRECT, _, _, _, _, _, _, _, quote @ ..]
        | [kind::TIME_EXCEEDED | kind::PARAMETER_PROBLEM, _, _, _, _, _, _, _, quote @ ..] => {
            Icmp::Error(quote)
        }
        [kind::ECHO | kind::ECHO_REPLY | kind::TIME_STAMP..=kind::ADDRESS_MASK_REPLY, _, _, _, a, b, ..] => {
            Icmp::Query(u16::from_be_bytes([*a, *b]))
        }
        _ => Icmp::Other,
    }
}

fn look_into_icmpv6(icmp: &[u8]) -> Icmp<'_> {
    use wire::icmpv6::kind;
    match icmp {
        [kind::UNREACHABLE..=kind::PARAMETER_PROBLEM, _, _, _, _, _, _, _, quote @ ..] => Icmp::Error(quote),
        [kind::ECHO | kind::ECHO_REPLY, _, _, _, a, b, ..] => Icmp::Query(u16::from_be_bytes([*a, *b])),
        _ => Icmp::Other,
    }
}

/// The hash of a packet that is not plain IPv4 in Ethernet.
#[inline(never)]
fn hash_elsewhere(toeplitz: &Toeplitz, bytes: &[u8], link: LinkType, depth: u32) -> Option<u32> {
    let layers = wire::Layers::locate(bytes, link);
    let tuple = layers.five_tuple(bytes)?;
    if layers.network == wire::layers::Network::Ipv4 {
        return hash_v4(toeplitz, &bytes[layers.l3?..], depth);
    }
    let ports = match (layers.protocol, layers.l4) {
        _ if layers.fragment.is_some() => [0; 2],
        (Some(ip_protocol::ICMPV6), Some(l4)) => match look_into_icmpv6(bytes.get(l4..)?) {
            Icmp::Error(quote) if depth < DEEPEST => match hash_ip(toeplitz, quote, depth + 1) {
                Some(hash) => return Some(hash),
                None => [0; 2],
            },
            Icmp::Query(identifier) => [0, identifier],
            _ => [0; 2],
        },
        _ => [tuple.source_port(), tuple.destination_port()],
    };
    Some(toeplitz.hash_ends((tuple.source(), ports[0]), (tuple.destination(), ports[1])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    /// An IPv4 header and the bytes after it.
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

    fn hash_of(bytes: &[u8]) -> Option<u32> {
        let mut pool = Pool::new(64 << 20).unwrap();
        let mut packet = pool.packet(bytes).unwrap();
        let fresh = hash(&packet);
        packet.set_offset(Base::Network, Some(14));
        assert_eq!(hash(&packet), fresh, "with and without the annotation");
        pool.free(packet);
        fresh
    }

    const A: u32 = 0x0a00_0001;
    const B: u32 = 0xc0a8_0902;

    #[test]
    fn replies_errors_and_queries_belong_to_their_flow() {
        let there = ip(A, B, 6, 0, &[4, 1, 0, 80, 1, 2, 3, 4]);
        let back = ip(B, A, 6, 0, &[0, 80, 4, 1, 1, 2, 3, 4]);
        let flow = hash_of(&framed(&there));
        assert!(flow.is_some());
        assert_eq!(hash_of(&framed(&back)), flow);
        // A router on the path sends an error about the packet, without and with a VLAN tag.
        let error = ip(0x0101_0101, A, 1, 0, &[&[11, 0, 0, 0, 0, 0, 0, 0][..], &there].concat());
        assert_eq!(hash_of(&framed(&error)), flow);
        let tagged = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], &error].concat();
        let mut pool = Pool::new(64 << 20).unwrap();
        let packet = pool.packet(&tagged).unwrap();
        assert_eq!(hash(&packet), flow);
        pool.free(packet);
        // Queries and their replies.
        let query = ip(A, B, 1, 0, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]);
        let reply = ip(B, A, 1, 0, &[0, 0, 0, 0, 0x12, 0x34, 0, 1]);
        assert_eq!(hash_of(&framed(&query)), hash_of(&framed(&reply)));
        let other = ip(A, B, 1, 0, &[8, 0, 0, 0, 0x12, 0x35, 0, 1]);
        assert_ne!(hash_of(&framed(&query)), hash_of(&framed(&other)));
        let about = ip(0x0101_0101, A, 1, 0, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &query].concat());
        assert_eq!(hash_of(&framed(&about)), hash_of(&framed(&query)));
    }

    #[test]
    fn fragments_stay_together() {
        let first = ip(A, B, 17, 0x2000, &[4, 1, 0, 53, 0, 16, 0, 0]);
        let last = ip(A, B, 17, 1, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(hash_of(&framed(&first)), hash_of(&framed(&last)));
        assert_ne!(hash_of(&framed(&first)), hash_of(&framed(&ip(A, B, 17, 0, &[4, 1, 0, 53, 0, 8, 0, 0]))));
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
        let flow = hash_of(&framed(&there));
        assert!(flow.is_some());
        assert_eq!(hash_of(&framed(&back)), flow);
        let error = v6(7, 1, 58, &[&[3, 0, 0, 0, 0, 0, 0, 0][..], &there].concat());
        assert_eq!(hash_of(&framed(&error)), flow);
        let (query, reply) =
            (v6(1, 9, 58, &[128, 0, 0, 0, 0, 5, 0, 1]), v6(9, 1, 58, &[129, 0, 0, 0, 0, 5, 0, 1]));
        assert_eq!(hash_of(&framed(&query)), hash_of(&framed(&reply)));
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
