//! The differences between the six translators: the packets that they translate, the keys of their flows,
//! and the fields that they change.

use element::{Base, DropReason, Packet};
use flow::Ipv4FlowKey;
use wire::checksum::FoldedDelta;
use wire::{FromBytes, icmp, ip_protocol, ipv4};

use crate::editing::ipv4;

use super::change::Change;
use super::spaces::{IDENTIFIERS, ONLY, UDP_BESIDE};
use super::state::{Kind, Told};
use super::store::{Store, mark, space};
use super::tuple::Tuple;

/// The class of a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// IPRewriter: TCP and UDP, in separate spaces, so that flows of both protocols may have equal
    /// addresses and ports.
    Both,
    /// TCPRewriter: TCP only.
    Tcp,
    /// UDPRewriter: UDP, TCP and DCCP in one space, so that flows of different protocols with equal
    /// addresses and ports are one flow.
    Udp,
    /// IPAddrRewriter: mappings of one inside address, for packets from it and to it.
    Address,
    /// IPAddrPairRewriter: mappings of a pair of source and destination address.
    Pair,
    /// ICMPPingRewriter: mappings of the identifier of echo requests and replies, and optionally of other
    /// queries.
    Ping {
        /// True to also translate queries for time stamps, information and address masks (RFC 792, RFC
        /// 950).
        others: bool,
    },
}

/// The spaces in which plain TCP and UDP packets are looked up: see [`Flavour::plain_spaces`]. Flows in
/// different spaces may have equal addresses and ports.
#[derive(Clone, Copy)]
pub(super) struct PlainSpaces {
    tcp: Option<u32>,
    udp: Option<u32>,
}

impl PlainSpaces {
    /// Returns the key of a plain packet; `None` if the packet is not plain, or its protocol is not
    /// translated. A plain packet is a whole TCP or UDP packet with an IPv4 header of 20 bytes, directly
    /// followed by the transport header at least up to its checksum.
    #[inline(always)]
    pub(super) fn key(self, packet: &mut Packet) -> Option<Ipv4FlowKey> {
        if !packet.transport_follows_network(ipv4::Header::LEN) {
            return None;
        }
        let bytes = packet.header_chunk_mut::<PLAIN>(Base::Network)?;
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (space, least) = match bytes[9] {
            ip_protocol::UDP => (self.udp?, PLAIN),
            ip_protocol::TCP => (self.tcp?, PLAIN_TCP),
            _ => return None,
        };
        // A first fragment is translated, but not as a plain packet, because plain packets get a flow mark.
        // Other elements see no ports in fragments (`Layers::five_tuple`), so the mark would name a
        // different flow for them.
        let is_fragment = half(6) & (ipv4::FRAGMENT_OFFSET | ipv4::MORE_FRAGMENTS) != 0;
        let is_whole = !is_fragment && usize::from(half(2)) >= least;
        let key = Ipv4FlowKey::new((word(12), half(20)), (word(16), half(22)), space);
        // A TCP segment that ends before its checksum keeps its ports (except in UDPRewriter, which gives no
        // flow marks). Such a segment must not get the flow mark of its mapping, so it is not plain.
        let is_there = least == PLAIN || packet.header_chunk_mut::<PLAIN_TCP>(Base::Network).is_some();
        (is_whole && is_there).then_some(key)
    }
}

/// The data by which a packet's flow is identified: its tuple, the number `which` of its space within the
/// translator (flows in different spaces may have equal tuples), and its IP protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looked {
    pub(super) tuple: Tuple,
    pub(super) which: u32,
    pub(super) protocol: u8,
    /// True if the packet may make a mapping. Replies to ICMP queries may not.
    pub(super) opens: bool,
}

/// Returns the first 20 bytes of the packet's IPv4 header; `None` without a network header annotation, or
/// if the packet is shorter.
fn header(packet: &Packet) -> Option<&ipv4::Header> {
    ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok().map(|(ip, _)| ip)
}

/// True if both header annotations are set, and the transport header starts at least 20 bytes after the start
/// of the IP header. If it starts earlier, the IP header declares a length of less than 20 bytes, and writing
/// ports would overwrite addresses.
fn has_transport_after_header(packet: &Packet) -> bool {
    let marked = packet.offset(Base::Network).zip(packet.offset(Base::Transport));
    marked.is_some_and(|(network, transport)| transport >= network + ipv4::Header::LEN as isize)
}

/// The number of bytes of a TCP header up to and including its checksum.
pub(super) const TCP_SUMMED: usize = 18;
/// The smallest number of bytes after the IP header with which ports are translated.
pub(super) const LEAST: usize = 8;
/// The smallest number of bytes, from the start of the IP header on, of a plain UDP packet: see
/// [`PlainSpaces::key`].
pub(super) const PLAIN: usize = ipv4::Header::LEN + LEAST;
/// The smallest number of bytes, from the start of the IP header on, of a plain TCP packet: see
/// [`PlainSpaces::key`].
pub(super) const PLAIN_TCP: usize = ipv4::Header::LEN + TCP_SUMMED;
/// The smallest number of bytes after the IP header with which an ICMP query is translated: up to and
/// including its identifier.
pub(super) const LEAST_ECHO: usize = 6;

impl Flavour {
    /// True for the translator of ICMP queries, which changes identifiers instead of ports.
    #[inline]
    pub(super) fn is_ping(self) -> bool {
        matches!(self, Flavour::Ping { .. })
    }

    /// Returns the ICMP types of the queries that are translated, each with the type of its reply. The list
    /// is empty for translators other than ICMPPingRewriter.
    pub(super) fn queries(self) -> &'static [(u8, u8)] {
        use icmp::kind::*;
        const ALL: [(u8, u8); 4] = [
            (ECHO, ECHO_REPLY),
            (TIME_STAMP, TIME_STAMP_REPLY),
            (INFORMATION, INFORMATION_REPLY),
            (ADDRESS_MASK, ADDRESS_MASK_REPLY),
        ];
        match self {
            Flavour::Ping { others: true } => &ALL,
            Flavour::Ping { others: false } => &ALL[..1],
            _ => &[],
        }
    }

    /// True if flows are identified by ports or ICMP identifiers, and not by addresses only.
    pub(super) fn has_ports(self) -> bool {
        !matches!(self, Flavour::Address | Flavour::Pair)
    }

    /// Returns the IP protocols that are translated. An empty list means all protocols.
    pub(super) fn protocols(self) -> &'static [u8] {
        match self {
            Flavour::Both => &[ip_protocol::TCP, ip_protocol::UDP],
            Flavour::Tcp => &[ip_protocol::TCP],
            Flavour::Udp => &[ip_protocol::TCP, ip_protocol::UDP, ip_protocol::DCCP],
            Flavour::Ping { .. } => &[ip_protocol::ICMP],
            Flavour::Address | Flavour::Pair => &[],
        }
    }

    /// Returns the smallest number of bytes after the IP header with which ports or identifiers are
    /// translated. Translators of addresses also translate shorter packets, but update no UDP checksum in
    /// them.
    pub(super) fn least(self) -> usize {
        if self.is_ping() { LEAST_ECHO } else { LEAST }
    }

    /// Reads the data that identify a packet's flow. The error is `NoHeader` if the packet has no IPv4
    /// header, or no transport header annotation where ports are needed. It is `Unsuitable` for other
    /// protocols, later fragments, packets that are too short, and IP header lengths below 20 bytes. It is
    /// also `Unsuitable` for ICMP messages other than translated queries and their replies.
    #[inline]
    pub(super) fn look(self, packet: &Packet) -> Result<Looked, DropReason> {
        let ip = header(packet).ok_or(DropReason::NoHeader)?;
        let mut tuple = Tuple {
            source: ip.source.get(),
            destination: ip.destination.get(),
            source_port: 0,
            destination_port: 0,
        };
        let protocol = ip.protocol;
        let looked = |tuple, which| Looked { tuple, which, protocol, opens: true };
        if !self.has_ports() {
            if self == Flavour::Address {
                tuple.destination = 0;
            }
            return Ok(looked(tuple, ONLY));
        }
        if !self.protocols().contains(&protocol) || ip.fragment_offset() != 0 {
            return Err(DropReason::Unsuitable);
        }
        if packet.offset(Base::Transport).is_none() {
            return Err(DropReason::NoHeader);
        }
        let transport = packet.header(Base::Transport).unwrap_or_default();
        if transport.len() < self.least() || !has_transport_after_header(packet) {
            return Err(DropReason::Unsuitable);
        }
        let number = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        if !self.is_ping() {
            (tuple.source_port, tuple.destination_port) = (number(0), number(2));
            return Ok(looked(tuple, self.which(protocol)));
        }
        let identifier = number(4);
        let kinds = self.queries();
        let Some(&(query, _)) = kinds.iter().find(|(query, reply)| [*query, *reply].contains(&transport[0]))
        else {
            return Err(DropReason::Unsuitable);
        };
        let opens = transport[0] == query;
        let ports = (identifier, mark(identifier));
        (tuple.source_port, tuple.destination_port) = if opens { ports } else { (ports.1, ports.0) };
        Ok(Looked { opens, ..looked(tuple, IDENTIFIERS) })
    }

    /// Returns the key by which a packet is looked up in the store. A packet that is not translated gets
    /// the key `NONE`, which is never found.
    pub(super) fn key(self, packet: &Packet, owner: u16) -> Ipv4FlowKey {
        let looked = self.look(packet);
        looked.map_or(Ipv4FlowKey::NONE, |looked| Store::key(looked.tuple, space(owner, looked.which)))
    }

    /// Returns the spaces in which plain TCP and UDP packets (see [`PlainSpaces::key`]) are looked up, for
    /// the translator with number `owner` in its store. The space is `None` for a protocol that is not
    /// translated.
    pub(super) fn plain_spaces(self, owner: u16) -> PlainSpaces {
        let space = |which| Some(space(owner, which));
        let [tcp, udp] = match self {
            Flavour::Both => [space(ONLY), space(UDP_BESIDE)],
            Flavour::Tcp => [space(ONLY), None],
            Flavour::Udp => [space(ONLY), space(ONLY)],
            Flavour::Address | Flavour::Pair | Flavour::Ping { .. } => [None, None],
        };
        PlainSpaces { tcp, udp }
    }

    /// Returns the key by which IPAddrRewriter looks up a packet by its destination address, if its source
    /// address has no mapping. A packet without an IPv4 header gets the key `NONE`.
    #[inline]
    pub(super) fn other_key(self, packet: &Packet, owner: u16) -> Ipv4FlowKey {
        let to = |ip: &ipv4::Header| (ip.destination.get(), 0);
        header(packet).map_or(Ipv4FlowKey::NONE, |ip| Ipv4FlowKey::new((0, 0), to(ip), space(owner, ONLY)))
    }

    /// Returns the data that identify the flow of a TCP connection with these addresses and ports, as this
    /// translator would see its first packet. Returns `None` for ICMPPingRewriter, which does not translate
    /// TCP.
    pub(super) fn look_at_tcp(self, tuple: Tuple) -> Option<Looked> {
        let addresses = Tuple { source_port: 0, destination_port: 0, ..tuple };
        let tuple = match self {
            Flavour::Both | Flavour::Tcp | Flavour::Udp => tuple,
            Flavour::Address => Tuple { destination: 0, ..addresses },
            Flavour::Pair => addresses,
            Flavour::Ping { .. } => return None,
        };
        Some(Looked { tuple, which: ONLY, protocol: ip_protocol::TCP, opens: true })
    }

    /// True if the translator can use the new tuple that a pattern has made: without ports for translators
    /// of addresses, and without a destination for IPAddrRewriter.
    pub(super) fn fits(self, to: Tuple) -> bool {
        match self {
            Flavour::Address => (to.source_port, to.destination_port, to.destination) == (0, 0, 0),
            Flavour::Pair => (to.source_port, to.destination_port) == (0, 0),
            _ => true,
        }
    }

    /// Returns the number, within this translator, of the space to which flows of a protocol belong. Flows in
    /// different spaces may have equal tuples: IPRewriter has one space for TCP and one for UDP. Not for
    /// ICMPPingRewriter, whose space is [`IDENTIFIERS`].
    pub(super) fn which(self, protocol: u8) -> u32 {
        let is_beside = self == Flavour::Both && protocol == ip_protocol::UDP;
        if is_beside { UDP_BESIDE } else { ONLY }
    }

    /// Returns the kind of mapping that this translator makes for packets of a protocol, and the index (0 or
    /// 1) of the mapping's time-outs in the translator's two policies.
    pub(super) fn kind(self, protocol: u8) -> (Kind, u8) {
        match self {
            Flavour::Tcp => (Kind::Connection, 0),
            Flavour::Both if protocol == ip_protocol::TCP => (Kind::Connection, 0),
            Flavour::Both => (Kind::Datagrams, 1),
            Flavour::Udp => (Kind::Datagrams, 0),
            _ => (Kind::Plain, 0),
        }
    }

    /// Writes the new addresses, ports or identifier, and checksums into any translated packet. Later
    /// fragments get only addresses and the IP checksum, and so do packets without a transport header
    /// annotation and packets whose IP header length is below 20 bytes. A TCP segment that ends before its
    /// checksum keeps its ports, except in UDPRewriter. Returns the information that the packet gives for the
    /// state of its mapping, such as TCP flags and payload.
    pub(super) fn apply(self, packet: &mut Packet, change: &Change) -> Told {
        let Ok(ip) = ipv4(packet) else { return Told::Nothing };
        if self != Flavour::Address || !change.is_reply {
            ip.source.set(change.to.source);
        }
        if self != Flavour::Address || change.is_reply {
            ip.destination.set(change.to.destination);
        }
        ip.checksum = change.of_addresses().apply(ip.checksum.to_bytes()).into();
        let (protocol, is_first) = (ip.protocol, ip.fragment_offset() == 0);
        let (length, total) = (ip.header_len(), usize::from(ip.total_length.get()));
        if !is_first || !has_transport_after_header(packet) {
            return Told::Nothing;
        }
        let Some(transport) = packet.header_mut(Base::Transport) else { return Told::Nothing };
        if self.is_ping() {
            let to = if change.is_reply { change.to.destination_port } else { change.to.source_port };
            put(transport, 4, to);
            update(transport, 2, change.of_transport(), FoldedDelta::apply);
            return Told::Nothing;
        }
        let is_whole_tcp = protocol == ip_protocol::TCP && transport.len() >= TCP_SUMMED;
        let keeps_ports = protocol == ip_protocol::TCP && !is_whole_tcp && self != Flavour::Udp;
        if self.has_ports() && !keeps_ports {
            put(transport, 0, change.to.source_port);
            put(transport, 2, change.to.destination_port);
        }
        if is_whole_tcp {
            update(transport, 16, change.of_transport(), FoldedDelta::apply);
        } else if protocol == ip_protocol::UDP && transport.len() >= LEAST {
            update(transport, 6, change.of_transport(), FoldedDelta::apply_udp);
        }
        match self.kind(protocol) {
            (Kind::Datagrams, _) => Told::Datagram,
            (Kind::Connection, _) if is_whole_tcp => {
                let behind = length + usize::from(transport[12] >> 4) * 4;
                Told::Segment { flags: transport[13], has_payload: behind < total }
            }
            _ => Told::Nothing,
        }
    }

    /// True if a packet is by itself no reason to make a mapping: a TCP segment with RST, or with SYN and ACK
    /// (the answer to a connection that another host opens).
    pub(super) fn only_answers(self, packet: &Packet) -> bool {
        use wire::tcp::flags::{ACK, RST, SYN};
        let is_tcp = header(packet).is_some_and(|ip| ip.protocol == ip_protocol::TCP);
        let transport =
            packet.header(Base::Transport).filter(|_| is_tcp && has_transport_after_header(packet));
        let flags = transport.and_then(|transport| transport.get(13)).copied().unwrap_or(0);
        flags & RST != 0 || flags & (SYN | ACK) == SYN | ACK
    }

    /// Returns the new destination address, for the destination annotation. Returns `None` if the rewriting
    /// does not set the destination: packets from inside in IPAddrRewriter.
    pub(super) fn next_hop(self, change: &Change) -> Option<u32> {
        (self != Flavour::Address || change.is_reply).then_some(change.to.destination)
    }
}

/// Sets the packet's destination IP annotation.
#[inline]
pub(super) fn set_next_hop(packet: &mut Packet, address: u32) {
    packet.set_destination(address.to_be_bytes());
}

#[inline]
fn put(bytes: &mut [u8], at: usize, number: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

#[inline]
fn update(bytes: &mut [u8], at: usize, change: FoldedDelta, apply: fn(FoldedDelta, [u8; 2]) -> [u8; 2]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *place = apply(change, *place);
    }
}
