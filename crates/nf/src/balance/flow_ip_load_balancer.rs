//! # FlowIPLoadBalancer
//! Balances flows over servers by writing a server's address into their packets.
//!
//! A flow is what has the same IPv4 addresses, protocol and ports. The first packet of a flow chooses a server; those
//! that follow go to the same one, until nothing was seen of the flow for TIMEOUT, for FIN_TIMEOUT behind a TCP
//! segment with FIN, which closes one direction only, or for DONE_TIMEOUT behind one with RST. The connection counts
//! for its server as long as it is remembered. The destination address and the destination annotation become the
//! server's, and all checksums are updated.
//!
//! FlowIPLoadBalancerReverse does the opposite for answers, and tells the balancer when servers close connections:
//! those that both sides have closed are remembered for DONE_TIMEOUT. Without it, what servers send is not known.
//!
//! An ICMP error goes to the server of the flow that it is about: the packet that it quotes has come from the address that
//! the error goes to. There, too, the server's address is put in. An error about a flow that is not remembered goes where
//! a hash of the flow says; errors neither open flows nor keep them.
//!
//! New flows go to servers that are active. A server that is taken out keeps its flows; one that has failed loses them,
//! and the flows choose anew with their next packets. Other flows stay where they are in any case. When CAPACITY flows
//! are there, further ones are not remembered: a hash then chooses the server of each packet, and that of all new flows until
//! there was room for TIMEOUT, so that a flow that began without being remembered stays where it is. Arguments that are
//! changed while it runs leave active what is so and inactive what is not, unless NSERVER has changed.
//!
//! All packets are balanced: those for other addresses than VIP have to go another way before. The network header
//! annotation must be set, and the transport header annotation for ports to count; packets without the first or an IPv4
//! header there are dropped, and so are those of new flows while no server is active. Fragments
//! count as a flow of their addresses and protocol, without ports: those of a datagram go to one server, but not always to the
//! one of the flow that they are of. Put IPReassembler in front where they have to.
//!
//! ## Usage
//! `FlowIPLoadBalancer(VIP ADDRESS, DST ADDRESS, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `DST`: the address of a server, as often as there are servers.
//! - `VIP`: the address that clients use.
//! - `LB_MODE`: how a server is chosen: `rr` or `wrr` (in turn), `awrr` (in turn, the more often the less load), `least` (the
//!   least load), `pow2` (of two that a hash says, the one with less load), `hash` or `hash_crc` (of the flow), `hash_ip` (of
//!   the addresses), `hash_agg` (of the aggregate annotation), `maglev` and `cst_hash_agg` (of the flow and of the annotation
//!   by consistent hashing, so that few flows would change their server when one comes or goes, and several balancers agree).
//! - `LST_MODE`: what load is: `conn` (flows), `packets` or `bytes` (all that a server got so far), or `cpu` (what was written to
//!   the handler `load`).
//! - `AWRR_TIME`: milliseconds between two times that weights are found for `awrr`: from 2 to 30, ten for the average load.
//! - `AWRR_ALPHA`: how little weights depend on the load: 0 for in full, 1 for not at all.
//! - `FORCE_TRACK_LOAD`: accepted; loads are always counted.
//! - `NSERVER`: how many of the servers are active at first; 0 for all.
//! - `CST_BUCKETS`: places of the consistent hashing table, a prime number, or else the next one; 100 times the number of servers or more.
//! - `TIMEOUT`: seconds after which an idle flow is forgotten.
//! - `FIN_TIMEOUT`: the same behind the FIN of one side, when the other one may still send.
//! - `DONE_TIMEOUT`: the same for TCP connections that were reset, or closed by both sides.
//! - `CAPACITY`: how many flows are remembered, each in about 85 bytes from the time when it comes. Packets of further
//!   flows are balanced, too, each for itself, and counted as `overflows`.
//!
//! ## Handlers
//! - `nb_total_servers`: how many servers there are.
//! - `nb_active_servers`: how many new flows can go to.
//! - `load_conn`: flows of each server.
//! - `load_packets`: packets that each server got.
//! - `load_bytes`: their bytes.
//! - `load`: loads that were written, of all servers, or of the one with a number; written as `NUMBER:LOAD,NUMBER:LOAD`.
//! - `servers`: a line for each server: address, `active` or `inactive`, flows, packets, bytes.
//! - `connections`: flows that are remembered.
//! - `overflows`: packets whose flow found no room.
//! - `add_server`: makes a server active, by its address.
//! - `remove_server`: lets no new flows go to a server.
//! - `fail_server`: the same, and takes its flows away from it.
//!
//! ## Example
//! ```click
//! FastTCPFlows(RATE 0, LIMIT 1000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2, DSTIP 10.220.0.1,
//!         FLOWS 50, FLOWSIZE 10)
//!     -> MarkIPHeader(14)
//!     -> lb :: FlowIPLoadBalancer(VIP 10.220.0.1, DST 10.221.0.1, DST 10.221.0.2, DST 10.221.0.3, LB_MODE maglev)
//!     -> Discard;
//! DriverManager(pause, print "$(lb.servers)", write lb.remove_server 10.221.0.2, stop)
//! ```
//!
//! ## See also
//! FlowIPLoadBalancerReverse, FlowL2LoadBalancer, FlowSwitch, MaglevIPMapper, RoundRobinIPMapper

use std::net::Ipv4Addr;
use std::sync::Arc;

use classify::IntervalSet;
use element::class::{ArgInfo, Phase, join};
use element::effects::{Action, Case, DST_IP, Field, Filter, Header, Target, Value, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Invalid, Packet, manual};
use packet::Annotations;
use wire::{FiveTuple, FromBytes, ip_protocol, ipv4};

use super::balancer::{self, Balancer, Delivery, HANDLERS, Place, Settings};
use super::notices::{self, Notice, Notices};
use crate::editing::{each, needs, pure, when, within};
use crate::ip::store_ip_address::{store, stored};
use crate::quotation::{Behind, Quotation};

static ARGS: [ArgInfo; 13] =
    join([ArgInfo::rest("DST", "address"), ArgInfo::keyword("VIP", "address", "")], balancer::ARGS);

/// The class.
pub static CLASS: Class = Class {
    name: "FlowIPLoadBalancer",
    processing: "h/h",
    manual: manual!("flow_ip_load_balancer.rs"),
    args: &ARGS,
    handlers: HANDLERS,
    phase: Phase::Service,
    reconfigures: true,
    samples: &[
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2, 10.9.0.3",
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2, LB_MODE maglev, NSERVER 1, CST_BUCKETS 251, CAPACITY 3",
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.9, LB_MODE cst_hash_agg, TIMEOUT 1ms",
        "VIP 10.0.1.2, DST 10.9.0.1, LB_MODE least",
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2, LB_MODE awrr, LST_MODE bytes, AWRR_TIME 1",
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2, LB_MODE pow2, LST_MODE cpu, FORCE_TRACK_LOAD true",
        "VIP 10.0.1.2, DST 10.9.0.1, DST 10.9.0.2, LB_MODE hash_ip",
    ],
    build: |args| {
        let settings = Settings::read(args);
        let vip: Option<Ipv4Addr> = args.get("VIP");
        let servers = balancer::servers::<Ipv4Addr>(args);
        args.finish()?;
        let Some(vip) = vip else { return crate::editing::missing(args, "VIP") };
        let (id, worker, workers) = (args.id(), args.setup.worker, args.setup.workers);
        // Whoever knows of the address has been told at the start.
        if args.setup.service::<Front>(id).is_some_and(|front| front.vip != vip) {
            args.error("VIP: cannot change while it runs; load a new configuration");
            return Err(Invalid);
        }
        let notices = args.setup.common.get_or_make(id, || Notices::new(workers));
        args.setup.publish(id, Arc::new(Front { vip, notices: Arc::clone(&notices) }));
        balancer::build(args, settings, servers, ToAddress { worker, notices, heard: notices::list() })
    },
    ..Class::DEFAULT
};

/// The service that a balancer publishes for those who have the answers.
pub(super) struct Front {
    /// The address that clients use.
    pub(super) vip: Ipv4Addr,
    /// The boxes for notices of connections that servers close.
    pub(super) notices: Arc<Notices>,
}

impl Place for Ipv4Addr {
    const WHAT: &'static str = "server";
    const EXPECTED: &'static str = "expected IP address";
}

/// Packets get the address of their server.
struct ToAddress {
    worker: usize,
    notices: Arc<Notices>,
    /// Empty but for a moment.
    heard: Vec<Notice>,
}

/// Addresses, protocol and ports as the header annotations have them.
#[inline]
pub(super) fn marked(packet: &Packet) -> Option<FiveTuple> {
    let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    if ip.version() != 4 {
        return None;
    }
    // All fragments of a datagram go to one server, and only the first one has ports.
    let has_ports = ip_protocol::has_ports(ip.protocol) && !ip.is_fragment();
    let ports = packet.header(Base::Transport).filter(|_| has_ports).and_then(|bytes| bytes.first_chunk());
    let (source, destination) = match ports {
        Some(&[a, b, c, d]) => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        None => (0, 0),
    };
    Some(FiveTuple::v4((ip.source_addr(), source), (ip.destination_addr(), destination), ip.protocol))
}

/// The ICMP message of a packet.
fn message(packet: &Packet) -> Option<&[u8]> {
    let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let is_icmp = ip.version() == 4 && ip.protocol == ip_protocol::ICMP && ip.fragment_offset() == 0;
    if is_icmp { packet.header(Base::Transport) } else { None }
}

/// The flow that an ICMP error is about, if the packet that it quotes has come from where it goes.
#[inline]
fn about(packet: &Packet) -> Option<FiveTuple> {
    let quotation = Quotation::read(message(packet)?)?;
    let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let (source, destination) = match quotation.behind {
        Behind::Ports => quotation.ports,
        Behind::Identifier | Behind::Nothing => (0, 0),
    };
    let [from, to] = [quotation.source, quotation.destination].map(Ipv4Addr::from_bits);
    (ip.destination_addr() == from)
        .then(|| FiveTuple::v4((to, destination), (from, source), quotation.protocol))
}

/// Gives the packet that an ICMP error quotes another source and destination.
pub(super) fn requote(packet: &mut Packet, change: impl Fn(&Quotation) -> (u32, u32)) {
    let Some(quotation) = message(packet).and_then(Quotation::read) else { return };
    let (source, destination) = change(&quotation);
    if let Some(message) = packet.header_mut(Base::Transport) {
        quotation.change(message, source, destination, quotation.ports);
    }
}

/// What is declared of packets that are or may be ICMP errors, with these changes beside that of the quotation.
pub(super) fn requoted(about: &'static str, reads: &[Field], actions: &[Action]) -> Case {
    let message = [Field::Payload, Field::Length, Field::HeaderOffset(Base::Transport)];
    let icmp = Filter::equals(wire_field::IP_PROTOCOL, ip_protocol::ICMP.into());
    let first = within(wire_field::IP_FRAGMENT, 0x1fff, 0, 0);
    let of_error = Filter::Opaque { about, reads: [reads, &message].concat() };
    let icmp = Filter::Present(Header::Icmp).and([icmp, first, of_error]);
    let case = Case::new(icmp, Target::Output(0)).updating(&[Header::Ipv4]);
    let case = actions.iter().cloned().fold(case, Case::with);
    case.with(pure(Field::Payload, "quotation", &[reads, &message].concat()))
}

/// What [`marked`] looks at.
fn key() -> Vec<Field> {
    vec![
        wire_field::IP_SRC,
        wire_field::IP_DST,
        wire_field::IP_PROTOCOL,
        wire_field::IP_FRAGMENT,
        wire_field::SRC_PORT,
        wire_field::DST_PORT,
    ]
}

impl Delivery for ToAddress {
    type Place = Ipv4Addr;

    fn effects(&self, balancer: &Balancer<Ipv4Addr>) -> Effects {
        let number = |server: &Ipv4Addr| u128::from(server.to_bits());
        let set: IntervalSet = balancer.places().map(|server| (number(server), number(server))).collect();
        let mut reads = key();
        reads.extend(balancer.reads());
        let chosen = || Value::Choose { set: set.clone(), key: reads.clone() };
        let is_ipv4 = within(wire_field::IP_VERSION_IHL, 0xf0, 0x40, 0x40);
        let actions = [Action::Set(wire_field::IP_DST, chosen()), Action::Set(DST_IP, chosen())];
        let mut cases = vec![
            needs(Header::Ipv4),
            Case::new(is_ipv4.not(), Target::Drop(DropReason::NoHeader)),
            when("no server is active for it", &reads, Target::Drop(DropReason::NotConnected)),
        ];
        cases.push(requoted("an ICMP error about a flow", &reads, &actions));
        cases.extend(stored(&actions, |when| Case::new(when, Target::Output(0))));
        balancer.declare(Effects::cases(cases), key())
    }

    fn hear(&mut self, balancer: &mut Balancer<Ipv4Addr>) {
        self.notices.take(self.worker, &mut self.heard);
        for notice in self.heard.drain(..) {
            balancer.close(&notice.key, &notice.server, notice.flags, notice.at);
        }
    }

    fn push(
        &mut self,
        cx: &mut Cx<'_>,
        balancer: &mut Balancer<Ipv4Addr>,
        mut batch: Batch,
    ) -> Option<Batch> {
        let now = cx.now();
        balancer.look_up(&batch, marked, about);
        let mut places = 0..;
        each(cx, &mut batch, |packet| {
            let place =
                places.next().filter(|&place| balancer.has_flow(place)).ok_or(DropReason::NoHeader)?;
            let server = balancer.server(place, packet, now).ok_or(DropReason::NotConnected)?;
            let address = balancer.place(server).ok_or(DropReason::NotConnected)?.octets();
            packet.annotations_mut().set_array4(Annotations::DST_IP, address);
            if balancer.is_error(place) {
                requote(packet, |quotation| (u32::from_be_bytes(address), quotation.destination));
            }
            store(packet, address, false)
        });
        Some(batch)
    }
}
