//! # FlowIPLoadBalancer
//! Balances flows over servers by writing a server's address into their packets.
//!
//! A flow is all packets with the same IPv4 addresses, protocol and ports. A server is chosen for the first
//! packet of a flow; later packets go to the same server, until the flow has been idle for TIMEOUT. After a
//! TCP segment with FIN, which closes one direction only, FIN_TIMEOUT applies instead, and after a segment
//! with RST DONE_TIMEOUT. The connection counts for its server as long as it is remembered. The destination
//! address and the destination annotation are set to the server's address, and all checksums are updated.
//!
//! FlowIPLoadBalancerReverse rewrites answers in the opposite direction, and notifies the balancer when
//! servers close connections: connections that both sides have closed are remembered for DONE_TIMEOUT.
//! Without it, the balancer does not know what servers send.
//!
//! An ICMP error goes to the server of the flow that it is about: the source of the packet that it quotes is
//! the destination of the error. The server's address is written into the quoted packet, too. For an error
//! about a flow that is not remembered, a hash of the flow chooses the server; errors neither open flows nor
//! extend their time-outs.
//!
//! New flows go to active servers. A server that is removed keeps its flows; a server that has failed loses
//! them, and the flows choose another server with their next packets. Other flows keep their servers in any
//! case. When the table holds CAPACITY flows, further flows are not remembered: a hash then chooses the
//! server of each of their packets. The hash also chooses for all new flows until the table has had room for
//! the time TIMEOUT. So a flow that began without being remembered keeps its server. Changing arguments at
//! run time leaves servers active or inactive as they are, unless NSERVER has changed.
//!
//! All packets are balanced: packets for other addresses than VIP must take another path upstream. The
//! network header annotation must be set; the transport header annotation must be set for ports to count.
//! Packets without a network header annotation, or without an IPv4 header there, are dropped, and so are
//! packets of new flows while no server is active. Fragments count as a flow of their addresses and protocol,
//! without ports. The fragments of a datagram thus go to one server, but not always to the server of the
//! datagram's flow. If they must, put IPReassembler upstream.
//!
//! ## Usage
//! `FlowIPLoadBalancer(VIP ADDRESS, DST ADDRESS, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `DST`: the address of a server; one DST for each server.
//! - `VIP`: the address that clients use.
//! - `LB_MODE`: the rule by which a server is chosen: `rr` or `wrr` (in turn), `awrr` (in turn, more often
//!   with less load), `least` (the least load), `pow2` (less load, of two that a hash selects), `hash` or
//!   `hash_crc` (a hash of the flow), `hash_ip` (of the addresses), `hash_agg` (of the aggregate annotation),
//!   `maglev` and `cst_hash_agg` (consistent hashing of the flow and of the annotation: few flows change
//!   their server when a server is added or removed, and several balancers agree).
//! - `LST_MODE`: the unit of load: `conn` (flows), `packets` or `bytes` (all that a server got so far), or
//!   `cpu` (the load that was written to the handler `load`).
//! - `AWRR_TIME`: milliseconds between two computations of the weights for `awrr`. Weights are from 2 to 30;
//!   10 is the weight of the average load.
//! - `AWRR_ALPHA`: 0 if weights depend on the load fully, 1 if they do not depend on it, or a number between.
//!   A server without load has weight 30 in any case.
//! - `FORCE_TRACK_LOAD`: has no effect, because loads are always counted.
//! - `NSERVER`: the number of servers that are active at first; 0 for all.
//! - `CST_BUCKETS`: the number of entries of the consistent hashing table, rounded up to a prime number; use
//!   at least 100 times the number of servers.
//! - `TIMEOUT`: seconds after which an idle flow is forgotten.
//! - `FIN_TIMEOUT`: seconds after which an idle flow is forgotten when one side has sent FIN and the other
//!   may still send.
//! - `DONE_TIMEOUT`: seconds after which an idle TCP connection is forgotten that was reset, or closed by
//!   both sides.
//! - `CAPACITY`: the number of flows that are remembered, about 85 bytes of memory each once they exist.
//!   Packets of further flows are balanced one by one, and counted as `overflows`.
//!
//! ## Handlers
//! - `nb_total_servers`: the number of servers.
//! - `nb_active_servers`: the number of servers to which new flows can go.
//! - `load_conn`: flows of each server.
//! - `load_packets`: packets that each server got.
//! - `load_bytes`: bytes that each server got.
//! - `load`: loads that were written, of all servers, or of the server with a number; written as
//!   `NUMBER:LOAD,NUMBER:LOAD`.
//! - `servers`: a line for each server: address, `active` or `inactive`, flows, packets, bytes.
//! - `connections`: flows that are remembered.
//! - `overflows`: packets of flows for which the table had no room.
//! - `add_server`: makes a server active, by its address.
//! - `remove_server`: makes a server inactive: it gets no new flows.
//! - `fail_server`: makes a server inactive, and forgets its flows.
//!
//! ## Example
//! ```click
//! FastTCPFlows(RATE 0, LIMIT 1000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
//! DSTIP 10.220.0.1,
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
use element::class::{ArgInfo, ConfigurePhase, join};
use element::effects::{
    Action, Case, DST_IP, Field, Filter, HeaderKind, Predicate, Target, Value, wire_field,
};
use element::{Base, Class, DropReason, Effects, Invalid, Packet, StatePart, manual};
use wire::{FiveTuple, FromBytes, ip_protocol, ipv4};

use super::balancer::{self, Balancer, Balancing, Delivery, Place, Settings};
use super::headers::marked;
use super::notices::{self, Notice, Notices};
use crate::editing::{needs, pure, when, within};
use crate::ip::store_ip_address::{store, stored};
use crate::quotation::{Behind, Quotation};
use crate::sorting::Fate;

static ARGS: [ArgInfo; 13] =
    join([ArgInfo::rest("DST", "address"), ArgInfo::keyword("VIP", "address", "")], balancer::ARGS);

/// The element class `FlowIPLoadBalancer`.
pub static CLASS: Class = Class {
    name: "FlowIPLoadBalancer",
    aliases: &["IPLoadBalancer"],
    processing: "h/h",
    manual: manual!("flow_ip_load_balancer.rs"),
    args: &ARGS,
    table: &Balancing::<ToAddress>::HANDLERS,
    phase: ConfigurePhase::Service,
    reconfigures: true,
    state: &[
        StatePart::kept("connections", &["connections", "load_conn"]).on_disk(),
        StatePart::kept("servers", &["servers"]),
        StatePart::kept("turn", &[]),
        StatePart::kept("counts", &["load_packets", "load_bytes", "overflows"]),
    ],
    saved_form: balancer::FORM,
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
        // FlowIPLoadBalancerReverse reads VIP only at its own start, so VIP must not change later.
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

/// The service that a balancer publishes for FlowIPLoadBalancerReverse.
pub(super) struct Front {
    /// The virtual address (VIP) to which clients send, and from which they expect answers.
    pub(super) vip: Ipv4Addr,
    /// The boxes, one per worker, for notices of connections that servers have closed.
    pub(super) notices: Arc<Notices>,
}

impl Place for Ipv4Addr {
    const WHAT: &'static str = "server";
    const EXPECTED: &'static str = "expected IP address";
}

/// The part of a load balancer that writes the IPv4 address of a flow's server into its packets.
struct ToAddress {
    worker: usize,
    notices: Arc<Notices>,
    /// A buffer for notices that are being processed; empty between calls.
    heard: Vec<Notice>,
}

/// Returns the ICMP message of a packet; `None` for other packets and for later fragments.
fn message(packet: &Packet) -> Option<&[u8]> {
    let (ip, _) = ipv4::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
    let is_icmp = ip.version() == 4 && ip.protocol == ip_protocol::ICMP && ip.fragment_offset() == 0;
    if is_icmp { packet.header(Base::Transport) } else { None }
}

/// Returns the flow that an ICMP error is about, in the direction of the client's packets. Returns `None`
/// for other packets, and for errors whose destination is not the source of the packet that they quote.
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

/// Replaces the source and destination addresses of the packet quoted in an ICMP error by the addresses that
/// `change` returns. Does nothing for other packets.
pub(super) fn requote(packet: &mut Packet, change: impl Fn(&Quotation) -> (u32, u32)) {
    let Some(quotation) = message(packet).and_then(Quotation::read) else { return };
    let (source, destination) = change(&quotation);
    if let Some(message) = packet.header_mut(Base::Transport) {
        quotation.change(message, source, destination, quotation.ports);
    }
}

/// Returns the case of declared effects for packets that may be ICMP errors: it has these actions, and
/// changes the packet that the error quotes. `reads` are the fields on which the change depends.
pub(super) fn requoted(about: &'static str, reads: &[Field], actions: &[Action]) -> Case {
    let message = [Field::Payload, Field::Length, Field::HeaderOffset(Base::Transport)];
    let icmp = Predicate::equals(wire_field::IP_PROTOCOL, ip_protocol::ICMP.into());
    let first = within(wire_field::IP_FRAGMENT, 0x1fff, 0, 0);
    let of_error = Filter::Leaf(Predicate::Opaque { about, reads: [reads, &message].concat() });
    let icmp = Predicate::present(HeaderKind::Icmp).and([icmp, first, of_error]);
    let case = Case::new(icmp, Target::Output(0)).updating(&[HeaderKind::Ipv4]);
    let case = actions.iter().cloned().fold(case, Case::with);
    case.with(pure(Field::Payload, "quotation", &[reads, &message].concat()))
}

/// Returns the fields from which [`marked`] computes the five-tuple.
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
            needs(HeaderKind::Ipv4),
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

    const WITHOUT_FLOW: Fate = Fate::Drop(DropReason::NoHeader);

    #[inline]
    fn flow(packet: &Packet) -> Option<FiveTuple> {
        marked(packet)
    }

    #[inline]
    fn about(packet: &Packet) -> Option<FiveTuple> {
        about(packet)
    }

    #[inline]
    fn deliver(packet: &mut Packet, server: &Ipv4Addr, is_error: bool) -> Fate {
        let address = server.octets();
        packet.set_destination(address);
        if is_error {
            requote(packet, |quotation| (u32::from_be_bytes(address), quotation.destination));
        }
        store(packet, address, false).map_or_else(Fate::Drop, |()| Fate::Output(0))
    }
}
