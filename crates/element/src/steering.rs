//! The rules that decide which worker processes a packet.
//!
//! Every worker has its own flow state, so all packets of a flow, in both directions, have to come to one
//! worker: the worker that the packet *belongs to*. A [`Dispatch`] computes this worker from the packet. If
//! a packet has come in at another worker, the engine hands it over. Some elements can also read the flow
//! state of other workers. Any worker may then process the packets that do not change this state, and a
//! [`Spread`] chooses the worker for each of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub use flow::KnownFlows;
use flow::rss::{self, Toeplitz};
pub use flow::rss::{KEY as STEERING_KEY, ToeplitzKey as SteeringKey, key_of};
use flow::{AddressesAndPorts, FiveTupleKey, Key};
use packet::{Base, Batch, Packet, Timestamp};
pub use wire::LinkType;
use wire::{U16, ip_protocol, ipv4};
use zerocopy::FromBytes;

/// A rule that assigns each packet to one worker, the same for both directions of a flow.
pub trait Dispatch: Send + Sync {
    /// The worker, counted from 0, that a packet belongs to.
    fn worker_of(&self, packet: &Packet) -> usize;

    /// The worker that a frame belongs to, as [`worker_of`](Self::worker_of) finds it for packets. It is for
    /// bytes that are not in a [`Packet`] yet; `link` is the type of their link header.
    fn worker_of_frame(&self, frame: &[u8], link: LinkType) -> usize;

    /// The worker that packets between two endpoints belong to, in either direction. An endpoint is an
    /// address and a port. For ICMP queries, one endpoint has the identifier of the query in place of the
    /// port, and the other has 0.
    fn worker_between(&self, a: (IpAddr, u16), b: (IpAddr, u16)) -> usize;

    /// The hash of a packet from which the rule computes the worker. `None` for packets without a complete
    /// IP header.
    fn hash(&self, packet: &Packet) -> Option<u32>;

    /// The key of the rule's hash. A program that the kernel runs for an interface uses it to find the same
    /// worker.
    fn key(&self) -> &rss::ToeplitzKey;
}

/// The owners of the packets of a batch. Consecutive packets of one plain flow (ports in IPv4 without
/// options, not fragments) are hashed once.
pub struct Owners<'d> {
    dispatch: &'d dyn Dispatch,
    /// The flow of the last packet, if it was plain, and its owner. The flow is the part of the headers that
    /// is the same in all of its packets.
    last: Option<([u64; 3], usize)>,
}

impl Owners<'_> {
    /// Makes the state for one batch, for whose packets `dispatch` finds the workers that they belong to.
    #[inline]
    pub fn new(dispatch: &dyn Dispatch) -> Owners<'_> {
        Owners { dispatch, last: None }
    }

    /// Returns the worker that the next packet belongs to ([`Dispatch::worker_of`]). `framed` is a worker if
    /// the packet has come to the worker to which the headers in its frame belong, and is this worker.
    #[inline]
    pub fn worker_of(&mut self, packet: &Packet, framed: Option<usize>) -> usize {
        let flow = plain_flow(packet);
        if let (Some(here), Some(_)) = (framed, flow)
            && packet.is_marked_in_frame()
        {
            return here;
        }
        if let Some((last, owner)) = self.last
            && flow == Some(last)
        {
            return owner;
        }
        let owner = self.dispatch.worker_of(packet);
        self.last = flow.map(|flow| (flow, owner));
        owner
    }
}

/// Returns the parts of a packet's headers that distinguish its flow from others, if the packet is IPv4
/// without options, not a fragment, of a protocol with ports, and has the ports.
#[inline]
fn plain_flow(packet: &Packet) -> Option<[u64; 3]> {
    /// The offset of the protocol in an IPv4 header.
    const PROTOCOL: usize = 9;
    /// The mask of the protocol and the source address in bytes 8 to 15 of an IPv4 header, the second word of
    /// eight bytes. The other bytes of this word, time to live and header checksum, differ between packets of
    /// a flow, so they are left out.
    const SECOND: u64 = u64::from_ne_bytes([0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let start: &[u8; 24] = network(packet)?.first_chunk()?;
    let word = |number: usize| start.as_chunks::<8>().0[number];
    let is_plain = header_length(start.first_chunk()?) == ipv4::Header::LEN
        && start[0] >> 4 == 4
        && !is_part(start.first_chunk()?)
        && ip_protocol::has_ports(start[PROTOCOL]);
    let [second, third] = [1, 2].map(|number| u64::from_ne_bytes(word(number)));
    is_plain.then_some([start[0].into(), second & SECOND, third])
}

/// A policy that spreads the packets of one flow over several workers, and makes the state that each worker
/// needs for it.
pub trait Spreading: Send + Sync {
    /// Makes the state with which worker `worker` spreads its packets. `loads` has the load of each worker,
    /// by the worker's number.
    fn spread(&self, worker: usize, loads: &Arc<[WorkerLoad]>) -> Box<dyn Spread>;

    /// True if packets leave the graph in the order in which they came in although they were spread. The
    /// elements that send packets to the outside then run at one worker only, because several workers would
    /// mix up the order.
    fn keeps_order(&self) -> bool {
        false
    }

    /// The number of workers over which an interface may spread the packets of one TCP connection on
    /// receive, in place of this policy. `None` if interfaces may not do this; `Some(0)` means all workers.
    ///
    /// An interface that does it chooses a worker for each segment, except for segments that open or close
    /// the connection. The workers are consecutive, from the worker that the connection belongs to.
    fn by_interfaces(&self) -> Option<usize> {
        None
    }
}

/// The packets that this worker has spread to one other worker and that the other worker has not processed
/// yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// The time at which the oldest packet that the other worker has not processed yet was spread to it.
    /// `None` if there is no such packet.
    pub since: Option<Timestamp>,
    /// True if the ring to the other worker is so full that it gets only packets that belong to that worker.
    /// The engine sends packets that any worker may process to the next worker whose ring has room.
    pub is_full: bool,
}

/// The state with which one worker chooses workers for the packets that it spreads.
pub trait Spread: Send {
    /// Looks at a batch that has come in before the engine calls [`worker_of`](Spread::worker_of) for its
    /// packets. `owner` finds the worker that each packet belongs to. Returns false if all packets of the
    /// batch go to the workers that they belong to; the engine then does not call `worker_of`.
    #[inline]
    fn look(&mut self, _batch: &Batch, _now: Timestamp, _owner: &dyn Dispatch) -> bool {
        true
    }

    /// Takes, for each worker by its number, a summary of the packets that were spread to the worker and
    /// are not processed yet. The engine calls it for each batch for which [`look`](Spread::look) returned
    /// true, before [`worker_of`](Spread::worker_of). It is not called if the policy keeps order
    /// ([`Spreading::keeps_order`]).
    #[inline]
    fn hear(&mut self, _waiting: &[Outstanding]) {}

    /// The worker that gets a packet. `owner` finds the worker that the packet belongs to. The result must
    /// be that worker if the packet may change the state of its flow, or if the policy does not spread
    /// packets of its protocol.
    fn worker_of(&mut self, packet: &Packet, now: Timestamp, owner: &dyn Dispatch) -> usize;

    /// True if any worker may process the packet: the policy spreads packets of its protocol, and the packet
    /// neither opens nor closes a connection.
    fn may_stay(&self, packet: &Packet) -> bool;
}

/// The work that one worker has done so far, and the packets that wait for it. Only this worker writes the
/// numbers; policies at all workers read them. The times are times of the machine's clock; under other clocks
/// no worker counts as busy.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WorkerLoad {
    busy: AtomicU64,
    packets: AtomicU64,
    waiting: AtomicU64,
    /// The time up to which `busy` counts, in nanoseconds; 0 while the worker sleeps.
    until: AtomicI64,
}

/// The work that a worker has done up to some time, and the packets that wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// The time that the worker has spent on tasks and packets so far, in nanoseconds.
    pub busy: u64,
    /// The number of packets that workers have spread to this worker, itself included, and that it has taken
    /// to process so far.
    pub packets: u64,
    /// The number of packets that other workers have handed over to this worker and that it has not taken
    /// yet.
    pub waiting: u64,
}

impl WorkerLoad {
    /// Publishes to the other workers the work of this worker up to the time `until`.
    #[inline]
    pub fn say(&self, work: Work, until: Timestamp) {
        self.busy.store(work.busy, Ordering::Relaxed);
        self.packets.store(work.packets, Ordering::Relaxed);
        self.waiting.store(work.waiting, Ordering::Relaxed);
        self.until.store(until.0, Ordering::Relaxed);
    }

    /// Publishes that this worker sleeps, so that [`at`](Self::at) does not count the time from now on as
    /// work.
    pub fn rest(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// The work of the worker until `now`. If the worker is awake, the time since it last published its work
    /// counts as work, although it may turn out that it had nothing to do. The numbers may have been
    /// published at different moments.
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

/// The IP protocol of a packet and the bytes after its IP header. `None` if the packet is a fragment or not
/// IP, or if it ends within its IP headers. Also `None` if it has more extension headers than the parser
/// reads. Callers recognize packets that open and close connections by these bytes, for example by TCP's
/// flags.
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

/// A number by which packets of different flows are distinguished; hardly any two flows share a number. It is
/// faster than [`hash`], but packets of the reply direction have another number, and another `seed` gives
/// other numbers.
///
/// All unfragmented packets of a TCP, UDP or SCTP flow in one direction have one number, which is
/// [`AddressesAndPorts::number`]. In most other unfragmented IPv4 packets, the first four bytes after the IP
/// header are taken for ports, so the number may differ from packet to packet. A fragment's flow number is
/// its `hash`. `None` for packets that are not IP.
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

/// The flow number of a packet that [`flow_number`] cannot read directly: it is not unfragmented IPv4, has
/// an unusual link header, or has fewer than four bytes after the IP header.
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

/// The IP header of a packet and the bytes after it. They are at the network header annotation or, without
/// this annotation, after an Ethernet header without tags whose type is IPv4. `None` in all other cases; the
/// caller then parses the frame.
#[inline]
fn network(packet: &Packet) -> Option<&[u8]> {
    let is_framed = || LinkType::from_number(packet.link()) == LinkType::Ethernet;
    match packet.header(Base::Network) {
        Some(ip) => Some(ip),
        None if is_framed() && packet.data().get(12..14) == Some(&[0x08, 0x00]) => packet.data().get(14..),
        None => None,
    }
}

/// The length of an IPv4 header in bytes, options included. It is at least 20, even if the header gives a
/// smaller length.
#[inline]
fn header_length(header: &[u8; 20]) -> usize {
    (usize::from(header[0] & 15) * 4).max(20)
}

/// True if an IPv4 header is the header of a fragment.
#[inline]
fn is_part(header: &[u8; 20]) -> bool {
    u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0
}

/// The IP protocol and the bytes after the IP header of a packet that is not plain IPv4 in Ethernet. `None`
/// if the packet is a fragment or not IP, or if the bytes after its IP headers are not found. `bytes` start
/// with the link header of type `link`.
#[inline(never)]
fn transport_elsewhere(bytes: &[u8], link: LinkType) -> Option<(u8, &[u8])> {
    let layers = wire::Layers::locate(bytes, link);
    Some((layers.protocol.filter(|_| layers.fragment.is_none())?, bytes.get(layers.l4?..)?))
}

/// Receive-side scaling: chooses the worker by the Toeplitz hash of addresses and ports (0 for protocols
/// without ports). The hash is the same in both directions ([`rss`]), and an interface can compute it too.
///
/// The hash of an ICMP query covers its addresses and its identifier. The hash of an ICMP error is the hash
/// of the packet that it quotes, so that the error comes to the flow that it is about. The hash of an IP
/// fragment covers only its addresses, because a fragment may have no ports; the same holds for packets
/// with more extension headers than the parser reads ([`wire::ipv6`]). All fragments of a datagram are thus
/// at one worker, in whatever order they come, but perhaps not at the worker of the flow's whole datagrams;
/// no order is kept between fragments and whole datagrams. Packets that are not IP go to worker 0.
#[derive(Clone)]
pub struct Rss {
    workers: usize,
    /// The Toeplitz hash with its key. If the key is secret, an attacker cannot choose flows that all come
    /// to one worker.
    toeplitz: Arc<Toeplitz>,
}

impl Rss {
    /// Makes the rule for a number of workers, with the public key [`STEERING_KEY`].
    pub fn new(workers: usize) -> Rss {
        Rss::with_key(workers, rss::KEY)
    }

    /// Makes the rule for a number of workers, with another key, such as a secret key.
    pub fn with_key(workers: usize, key: rss::ToeplitzKey) -> Rss {
        Rss { workers, toeplitz: Arc::new(Toeplitz::new(key)) }
    }
}

impl Dispatch for Rss {
    #[inline]
    fn worker_of(&self, packet: &Packet) -> usize {
        if self.workers == 1 {
            return 0;
        }
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

    fn key(&self) -> &rss::ToeplitzKey {
        self.toeplitz.key()
    }
}

/// The Toeplitz hash of a packet with the public key, by which [`Rss::new`] chooses workers. `None` for
/// packets without a complete IP header.
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

/// The number of quoted packets that are read in an ICMP error: one, and no packet that is quoted inside the
/// quote, because hosts send no errors about errors (RFC 1122, 3.2.2).
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
    // Fragments have a fragment offset or the more-fragments flag. Only the addresses are hashed.
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

/// The information in an ICMP message that tells to which flow the message belongs.
enum Icmp<'a> {
    /// An error about the packet that begins with these bytes.
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

/// The hash of a packet that is not plain IPv4 in Ethernet. `None` for packets without a complete IP
/// header. `depth` is the number of ICMP errors that quote the packet.
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
        // A router on the path sends an ICMP error that quotes a packet of the flow. The error has the hash
        // of the flow, without and with a VLAN tag.
        let error = ip(0x0101_0101, A, 1, 0, &[&[11, 0, 0, 0, 0, 0, 0, 0][..], &there].concat());
        assert_eq!(hash_of(&framed(&error)), flow);
        let tagged = [&[2; 12][..], &[0x81, 0, 0, 5, 8, 0], &error].concat();
        let mut pool = Pool::new(64 << 20).unwrap();
        let packet = pool.packet(&tagged).unwrap();
        assert_eq!(hash(&packet), flow);
        pool.free(packet);
        // An ICMP query and its reply have the same hash, another identifier has another hash.
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
