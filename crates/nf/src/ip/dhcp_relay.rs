//! # DHCPRelay
//! Relays DHCP messages between clients and servers on another network (RFC 2131, RFC 1542).
//!
//! Packets from the clients' network come to input 0, packets from servers to input 1. Requests leave by
//! output 0, one for each server; replies leave by output 1 as broadcasts (255.255.255.255), because a client
//! without an address answers no ARP query. The destination address annotation is set. Packets that are no
//! DHCP messages for the relay leave by output 2, or are dropped if there is no such output: fragments,
//! datagrams to other ports, requests to other addresses than 255.255.255.255 and ADDR (such as a client that
//! renews its address), requests at input 1, replies at input 0, replies for another relay, and messages of
//! BOOTP without the options of DHCP.
//!
//! A request that no other relay has passed gets ADDR as its gateway address, by which the server knows the
//! network, and the servers answer to it. With CIRCUIT_ID or REMOTE_ID, such a request also gets the option
//! with information of the agent (RFC 3046); the option is removed from replies. Messages are refused and
//! dropped that pretend to come from a relay: requests with the gateway address ADDR, and requests with the
//! option but without a gateway address. So are requests that have passed more than MAX_HOPS relays.
//!
//! Packets must be IPv4 with their header annotations, so put CheckIPHeader upstream. A UDP checksum is
//! checked, unless it is zero (none). Relayed packets have computed checksums.
//!
//! ## Usage
//! `DHCPRelay(ADDR, SERVER [, SERVER..., KEYWORDS])`
//!
//! ## Arguments
//! - `ADDR`: the address of the relay on the clients' network.
//! - `SERVER`: the addresses of the servers.
//! - `CIRCUIT_ID`: a text that tells servers from where requests come, such as the name of the interface: of
//!   up to 253 bytes, with REMOTE_ID up to 251 together.
//! - `REMOTE_ID`: the same, for the client's end of the line.
//! - `MAX_HOPS`: the largest number of relays that a request may have passed.
//!
//! ## Handlers
//! - `requests`: requests that were sent to servers.
//! - `replies`: replies that were sent to clients.
//! - `refused`: messages that pretend to come from a relay, that have passed too many relays, or that are
//!   malformed.
//!
//! ## Example
//! ```click
//! relay :: DHCPRelay(192.0.2.1, 198.51.100.7, CIRCUIT_ID lan1);
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> [0] relay [0] -> Discard;
//! Idle -> [1] relay [1] -> Discard; relay [2] -> Discard
//! ```
//!
//! ## See also
//! UDPIPEncap, IPClassifier, ARPQuerier

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::effects::{Case, Emit, Field, Filter, HeaderKind, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};
use wire::checksum::{self, PseudoHeader};
use wire::dhcp::{self, AGENT, CLIENT_PORT, END, Header, SERVER_PORT};
use wire::{FromBytes, ip_protocol, ipv4, udp};

use crate::editing::{ipv4_with_options, missing};

/// The element class `DHCPRelay`.
pub static CLASS: Class = Class {
    name: "DHCPRelay",
    ports: "2/2-3",
    manual: manual!("dhcp_relay.rs"),
    args: &[
        ArgInfo::required("ADDR", "address"),
        ArgInfo::rest("SERVER", "address"),
        ArgInfo::keyword("CIRCUIT_ID", "string", ""),
        ArgInfo::keyword("REMOTE_ID", "string", ""),
        ArgInfo::keyword("MAX_HOPS", "1-16", "4"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &[])],
    samples: &[
        "10.0.0.1, 10.1.0.1",
        "10.0.0.1, 10.1.0.1, 10.1.0.2, CIRCUIT_ID lan, REMOTE_ID \"a line\", MAX_HOPS 4 -> 2/3",
    ],
    build: |args| {
        let address: Option<Ipv4Addr> = args.get("ADDR");
        let ids = ["CIRCUIT_ID", "REMOTE_ID"].map(|name| args.get::<String>(name).unwrap_or_default());
        let most_hops: u8 = args.value("MAX_HOPS");
        let servers = servers(args);
        let Some(address) = address else { return missing(args, "ADDR") };
        let agent = agent(&ids);
        if agent.is_none() {
            args.error("CIRCUIT_ID and REMOTE_ID: at most 253 bytes, or 251 together");
        }
        if servers.is_empty() {
            args.error("at least one SERVER is needed");
        }
        if !is_unicast(address) {
            args.error(format!("ADDR: {address} is not the address of a host"));
        }
        if !(1..=16).contains(&most_hops) {
            args.error("MAX_HOPS: expected a number from 1 to 16");
        }
        args.finish()?;
        let agent = agent.unwrap_or_default();
        let is_open = args.outputs() > ASIDE;
        let counts = Counts::default();
        Ok(Box::new(DhcpRelay { address, servers, agent, most_hops, has_third: is_open, counts }))
    },
    ..Class::DEFAULT
};

/// The outputs for requests, for replies, and for other packets.
const TO_SERVERS: usize = 0;
const TO_CLIENTS: usize = 1;
const ASIDE: usize = 2;

/// The time to live of relayed packets.
const TTL: u8 = 64;
/// The length of a message, in bytes, below which some clients and servers refuse it (RFC 1542, section
/// 2.1).
const LEAST: usize = 300;
/// The longest packet that gets the option of the agent, in bytes: the MTU of Ethernet, so that the option
/// causes no fragments (RFC 3046, section 2.1).
const LONGEST: usize = 1500;

/// True for an address that a host can have.
fn is_unicast(address: Ipv4Addr) -> bool {
    !address.is_unspecified() && !address.is_broadcast() && !address.is_multicast()
}

/// Reads the addresses of the servers. Reports wrong ones.
fn servers(args: &mut element::Args<'_>) -> Vec<Ipv4Addr> {
    use element::args::ArgType;
    let texts = args.rest();
    let mut servers = Vec::new();
    for (argument, text) in texts {
        let parsed = Ipv4Addr::parse(&text, &args.place());
        match parsed {
            Ok(server) if is_unicast(server) => servers.push(server),
            Ok(other) => args.error_in(argument, format!("SERVER: {other} is not the address of a host")),
            Err(error) => args.error_in(argument, format!("SERVER: {error}")),
        }
    }
    servers
}

/// Returns the option with the information of the agent (RFC 3046): circuit id as suboption 1, remote id as
/// suboption 2, each if it is not empty. Empty if both are; `None` if they are too long.
fn agent(ids: &[String; 2]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    for (code, id) in (1..).zip(ids) {
        if !id.is_empty() {
            value.extend([code, u8::try_from(id.len()).ok()?]);
            value.extend(id.as_bytes());
        }
    }
    let length = u8::try_from(value.len()).ok()?;
    Some(if length == 0 { Vec::new() } else { [&[AGENT, length], &value[..]].concat() })
}

/// The numbers of messages.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    replies: u64,
    refused: u64,
}

struct DhcpRelay {
    address: Ipv4Addr,
    servers: Vec<Ipv4Addr>,
    /// The option that requests get, with its code and length; empty for none.
    agent: Vec<u8>,
    most_hops: u8,
    /// True if there is an output for packets that are no messages for the relay.
    has_third: bool,
    counts: Counts,
}

/// The place of a message in a packet: its offset from the start of the packet, and its length.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    length: usize,
}

/// Returns the place of the DHCP message in a packet to one of the addresses `to`: the payload of a whole UDP
/// datagram to the port of servers, with a header that can be read. `None` for other packets.
fn find(packet: &Packet, to: &[Ipv4Addr]) -> Option<Place> {
    let (ip, _) = ipv4_with_options(packet)?;
    if !to.iter().any(|address| address.to_bits() == ip.destination.get()) {
        return None;
    }
    let is_part = ip.fragment.get() & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0;
    if ip.protocol != ip_protocol::UDP || is_part || packet.is_large() {
        return None;
    }
    let datagram = packet.header(Base::Transport)?;
    let udp::Datagram { header, payload } = udp::parse(datagram).ok()?;
    dhcp::parse(payload)?;
    let start = usize::try_from(packet.offset(Base::Transport)?).ok()? + udp::Header::LEN;
    (header.destination.get() == SERVER_PORT && header.length.get() != 0)
        .then_some(Place { start, length: payload.len() })
}

/// Returns the message at a place.
fn message(packet: &Packet, place: Place) -> Option<(&Header, &[u8])> {
    dhcp::parse(packet.data().get(place.start..place.start + place.length)?)
}

fn message_mut(packet: &mut Packet, place: Place) -> Option<(&mut Header, &mut [u8])> {
    let message = packet.data_mut().get_mut(place.start..place.start + place.length)?;
    Header::mut_from_prefix(message).ok()
}

/// True if the UDP checksum is right, or there is none.
fn has_valid_checksum(packet: &Packet, place: Place) -> bool {
    let Some((ip, options)) = ipv4_with_options(packet) else { return false };
    let pseudo = PseudoHeader::routed(ip, options);
    let start = place.start - udp::Header::LEN;
    let datagram = packet.data().get(start..place.start + place.length);
    datagram.is_some_and(|datagram| checksum::udp_valid(&pseudo, datagram))
}

/// Gives the packet of a message, which ends the packet, new addresses and a new destination port, and the
/// port of servers as its source port. Computes lengths and checksums.
fn address(packet: &mut Packet, place: Place, [source, destination]: [Ipv4Addr; 2], port: u16) -> Option<()> {
    let length = udp::Header::LEN + place.length;
    let network = usize::try_from(packet.offset(Base::Network)?).ok()?;
    let whole = packet.data_mut().get_mut(network..)?;
    let transport = place.start - udp::Header::LEN - network;
    let (header, datagram) = whole.split_at_mut_checked(transport)?;
    let (ip, _) = ipv4::Header::mut_from_prefix(header).ok()?;
    ip.total_length.set(u16::try_from(transport + length).ok()?);
    ip.ttl = TTL;
    ip.source.set(source.to_bits());
    ip.destination.set(destination.to_bits());
    checksum::fill_ipv4(header).ok()?;
    let (udp, _) = udp::Header::mut_from_prefix(datagram).ok()?;
    udp.source.set(SERVER_PORT);
    udp.destination.set(port);
    udp.length.set(u16::try_from(length).ok()?);
    let pseudo = PseudoHeader::V4 { source, destination };
    checksum::fill_udp(&pseudo, datagram).ok()?;
    packet.set_destination(destination.octets());
    Some(())
}

impl DhcpRelay {
    /// Relays the packet of a request: sends a copy to each server but the last, and returns the packet for
    /// the last. `None` if the packet has gone another way.
    fn request(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let place = find(&packet, &[Ipv4Addr::BROADCAST, self.address]);
        let place =
            place.filter(|&place| message(&packet, place).is_some_and(|(head, _)| head.op == dhcp::REQUEST));
        let Some(mut place) = place else { return self.pass(cx, packet) };
        let (gateway, hops, has_agent, end) = match message(&packet, place) {
            Some((head, options)) => {
                let end = dhcp::find(options, END).map(|range| range.start);
                (head.gateway.get(), head.hops, dhcp::find(options, AGENT).is_some(), end)
            }
            None => return self.pass(cx, packet),
        };
        let is_own = gateway == self.address.to_bits();
        let is_first = gateway == 0;
        let Some(end) = end else { return self.refuse(cx, packet, DropReason::BadTransportHeader) };
        if !has_valid_checksum(&packet, place) {
            return self.refuse(cx, packet, DropReason::BadTransportChecksum);
        }
        if is_own || is_first && has_agent {
            return self.refuse(cx, packet, DropReason::Denied);
        }
        if hops > self.most_hops {
            return self.refuse(cx, packet, DropReason::TtlExpired);
        }
        // Bytes behind the datagram, such as those that pad a frame, are no part of it.
        packet.truncate(place.start + place.length);
        if is_first {
            (packet, place) = self.add_agent(cx, packet, place, end)?;
        }
        if let Some((head, _)) = message_mut(&mut packet, place) {
            head.hops = hops + 1;
            if is_first {
                head.gateway.set(self.address.to_bits());
            }
        }
        self.counts.requests += 1;
        let (last, others) = self.servers.split_last()?;
        for server in others {
            if let Some(mut copy) = cx.copy(&packet)
                && address(&mut copy, place, [self.address, *server], SERVER_PORT).is_some()
            {
                cx.emit_one(TO_SERVERS, copy, DropReason::NoOutput);
            }
        }
        match address(&mut packet, place, [self.address, *last], SERVER_PORT) {
            Some(()) => Some(packet),
            None => self.refuse(cx, packet, DropReason::Unsuitable),
        }
    }

    /// Writes the option of the agent in place of the option END, which is `end` bytes after the start of the
    /// options, and END after it. Returns the packet, and the message's place. A message that would be too
    /// long stays as it is. `None` if there is no room in packet memory; the packet has then been dropped.
    fn add_agent(
        &self,
        cx: &mut Cx<'_>,
        mut packet: Packet,
        place: Place,
        end: usize,
    ) -> Option<(Packet, Place)> {
        let at = place.start + Header::LEN + end;
        let needed = at + self.agent.len() + 1 - place.start;
        if self.agent.is_empty() || ipv4::Header::LEN + udp::Header::LEN + needed > LONGEST {
            return Some((packet, place));
        }
        let length = place.length.max(needed).max(LEAST);
        let zeros = [0; LEAST + 2 + u8::MAX as usize];
        let mut more = length - place.length;
        while more > 0 {
            let part = more.min(zeros.len());
            packet = cx.append(packet, &zeros[..part])?;
            more -= part;
        }
        packet.write_at(at, &self.agent);
        packet.write_at(at + self.agent.len(), &[END]);
        let place = Place { length, ..place };
        if let Some((_, options)) = message_mut(&mut packet, place) {
            // What came after END has no meaning.
            if let Some(rest) = options.get_mut(end + self.agent.len() + 1..) {
                rest.fill(0);
            }
        }
        Some((packet, place))
    }

    /// Relays the packet of a reply, and returns it. `None` if the packet has gone another way.
    fn reply(&mut self, cx: &mut Cx<'_>, mut packet: Packet) -> Option<Packet> {
        let own = self.address.to_bits();
        let is_own = |head: &Header| head.op == dhcp::REPLY && head.gateway.get() == own;
        let place = find(&packet, &[self.address]);
        let place = place.filter(|&place| message(&packet, place).is_some_and(|(head, _)| is_own(head)));
        let Some(place) = place else { return self.pass(cx, packet) };
        if !has_valid_checksum(&packet, place) {
            return self.refuse(cx, packet, DropReason::BadTransportChecksum);
        }
        packet.truncate(place.start + place.length);
        if let Some((_, options)) = message_mut(&mut packet, place) {
            while let Some(range) = dhcp::find(options, AGENT) {
                // The options after it move up, so that the message keeps its length.
                let length = options.len() - range.len();
                options.copy_within(range.end.., range.start);
                options[length..].fill(0);
            }
        }
        match address(&mut packet, place, [self.address, Ipv4Addr::BROADCAST], CLIENT_PORT) {
            Some(()) => {
                self.counts.replies += 1;
                Some(packet)
            }
            None => self.refuse(cx, packet, DropReason::Unsuitable),
        }
    }

    /// Sends a packet that is no message for the relay to the third output, or drops it.
    fn pass(&self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        match self.has_third {
            true => cx.emit_one(ASIDE, packet, DropReason::NoOutput),
            false => cx.drop(packet, DropReason::NoMatch),
        }
        None
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) -> Option<Packet> {
        self.counts.refused += 1;
        cx.drop(packet, reason);
        None
    }
}

impl Element for DhcpRelay {
    fn effects(&self) -> Effects {
        let reads = vec![Field::Payload, Field::Length, Field::HeaderOffset(Base::Network)];
        let copy = Emit { reads, starts: Some(HeaderKind::Ipv4), ..Emit::copies(Some(TO_SERVERS)) };
        let cases = [TO_SERVERS, TO_CLIENTS].map(|way| Case::new(Filter::TRUE, Target::Output(way)).on(way));
        let opaque = Some("edits DHCP messages and sends copies of them");
        Effects { emits: vec![copy], opaque, ..Effects::cases(cases.to_vec()) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        batch.replace_each(|packet| match port {
            TO_SERVERS => self.request(cx, packet),
            _ => self.reply(cx, packet),
        });
        cx.pass_on(port, batch)
    }

    element::keeps!(counts);
}

const HANDLERS: &[Handler<DhcpRelay>] = &[
    Handler::count("requests", |e| e.counts.requests),
    Handler::count("replies", |e| e.counts.replies),
    Handler::count("refused", |e| e.counts.refused),
];
