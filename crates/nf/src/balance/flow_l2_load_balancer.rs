//! # FlowL2LoadBalancer
//! Balances flows over servers by writing a server's Ethernet address into their frames.
//!
//! IP addresses and ports are not changed, so that servers that have the common address themselves answer
//! clients directly (direct server return). A flow is all packets with the same IPv4 or IPv6 addresses,
//! protocol and ports. They are read at the network header annotation or, without it, after the link
//! header. Servers are chosen and remembered as by FlowIPLoadBalancer; closed connections are noticed if
//! the transport header annotation is set. The address is written to the Ethernet header that the MAC
//! header annotation marks, or that the packet starts with. ICMP errors go to the server of the flow that
//! they are about.
//!
//! Frames without IP pass unchanged. Frames of new flows are dropped while no server is active.
//!
//! ## Usage
//! `FlowL2LoadBalancer(DST ADDRESS, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `DST`: the Ethernet address of a server; one DST for each server.
//! - `LB_MODE`: the rule by which a server is chosen, see FlowIPLoadBalancer.
//! - `LST_MODE`: the unit of load, see FlowIPLoadBalancer.
//! - `AWRR_TIME`: milliseconds between two computations of the weights.
//! - `AWRR_ALPHA`: 0 if weights depend on the load fully, 1 if they do not depend on it, or a number
//!   between. A server without load has weight 30 in any case.
//! - `FORCE_TRACK_LOAD`: has no effect, because loads are always counted.
//! - `NSERVER`: the number of servers that are active at first; 0 for all.
//! - `CST_BUCKETS`: the number of entries of the consistent hashing table, rounded up to a prime number.
//! - `TIMEOUT`: seconds after which an idle flow is forgotten.
//! - `FIN_TIMEOUT`: seconds after which an idle flow is forgotten when the client has sent FIN and the
//!   server may still send.
//! - `DONE_TIMEOUT`: seconds after which an idle TCP connection is forgotten that was reset.
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
//! FastUDPFlows(RATE 0, LIMIT 1000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
//! DSTIP 10.220.0.1,
//!         FLOWS 50, FLOWSIZE 10)
//!     -> lb :: FlowL2LoadBalancer(DST 02:00:00:00:01:01, DST 02:00:00:00:01:02, LB_MODE maglev)
//!     -> Discard;
//! DriverManager(pause, print "$(lb.load_packets)", stop)
//! ```
//!
//! ## See also
//! FlowIPLoadBalancer, FlowSwitch, EtherRewrite

use classify::IntervalSet;
use element::class::{ArgInfo, join};
use element::effects::{Action, Case, Filter, Predicate, Target, Value};
use element::five_tuple::READS;
use element::{Base, Class, DropReason, Effects, Packet, StatePart, manual};
use wire::MacAddr;

use super::balancer::{self, Balancer, Balancing, Delivery, Place, Settings};
use crate::editing::{bytes, is_marked, when};
use crate::sorting::Fate;

static ARGS: [ArgInfo; 12] = join([ArgInfo::rest("DST", "Ethernet address")], balancer::ARGS);

/// The element class `FlowL2LoadBalancer`.
pub static CLASS: Class = Class {
    name: "FlowL2LoadBalancer",
    aliases: &["L2LoadBalancer"],
    processing: "h/h",
    manual: manual!("flow_l2_load_balancer.rs"),
    args: &ARGS,
    table: &Balancing::<ToFrame>::HANDLERS,
    reconfigures: true,
    state: &[
        StatePart::kept("connections", &["connections", "load_conn"]).on_disk(),
        StatePart::kept("servers", &["servers"]),
        StatePart::kept("turn", &[]),
        StatePart::kept("counts", &["load_packets", "load_bytes", "overflows"]),
    ],
    saved_form: balancer::FORM,
    samples: &[
        "DST 2:0:0:0:9:1, DST 2:0:0:0:9:2",
        "2:0:0:0:9:1, 2:0:0:0:9:2, 2:0:0:0:9:3, LB_MODE maglev, CAPACITY 2",
    ],
    build: |args| {
        let settings = Settings::read(args);
        let servers = balancer::servers::<MacAddr>(args);
        balancer::build(args, settings, servers, ToFrame)
    },
    ..Class::DEFAULT
};

impl Place for MacAddr {
    const WHAT: &'static str = "server";
    const EXPECTED: &'static str = "expected Ethernet address";
}

/// The part of a load balancer that writes the Ethernet address of a flow's server into its frames.
struct ToFrame;

impl Delivery for ToFrame {
    type Place = MacAddr;

    fn effects(&self, balancer: &Balancer<MacAddr>) -> Effects {
        let mut reads = READS.to_vec();
        reads.extend(balancer.reads());
        let number = |server: &MacAddr| server.0.iter().fold(0u128, |sum, &byte| sum << 8 | u128::from(byte));
        let set: IntervalSet = balancer.places().map(|server| (number(server), number(server))).collect();
        let rewrite = |base, filter| {
            let chosen = Value::Choose { set: set.clone(), key: reads.clone() };
            Case::new(filter, Target::Output(0)).with(Action::Set(bytes(base, 0, 6), chosen))
        };
        let cases = vec![
            when("not IP", &READS, Target::Output(0)),
            when("no server is active for it", &reads, Target::Drop(DropReason::NotConnected)),
            rewrite(Base::Mac, Predicate::reaches(Base::Mac, 0, 6)),
            rewrite(Base::Data, is_marked(Base::Mac).not().and([Predicate::reaches(Base::Data, 0, 6)])),
            Case::new(Filter::TRUE, Target::Drop(DropReason::TooShort)),
        ];
        balancer.declare(Effects::cases(cases), READS.to_vec())
    }

    #[inline]
    fn deliver(packet: &mut Packet, server: &MacAddr, _is_error: bool) -> Fate {
        let base = if packet.offset(Base::Mac).is_some() { Base::Mac } else { Base::Data };
        let Some(destination) = packet.header_chunk_mut(base) else {
            return Fate::Drop(DropReason::TooShort);
        };
        *destination = server.0;
        // If fewer bytes than an address has lie before the network header, the address was written into this
        // header or behind it. The packet may then belong to another flow than the rest of its run.
        if packet.link_header_ends_within(size_of::<MacAddr>() - 1) {
            packet.set_run(0);
        }
        Fate::Output(0)
    }
}
