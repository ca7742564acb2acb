//! # FlowSwitch
//! Balances flows over outputs.
//!
//! Packets are not changed. A flow is all packets with the same IPv4 or IPv6 addresses, protocol and ports.
//! The element reads these fields at the network header annotation or, without it, after the link header. The
//! packets of a flow leave by the output that was chosen for its first packet, until the flow is forgotten.
//! Fragments have no ports: the fragments of a datagram leave by one output, but not always by the output of
//! the datagram's flow. Outputs are chosen and remembered as servers are by FlowIPLoadBalancer; closed
//! connections are noticed if the transport header annotation is set. An ICMP error leaves by the output of
//! the flow that it is about.
//!
//! Packets without IP leave by output 0. Packets of new flows are dropped while no output is active.
//!
//! ## Usage
//! `FlowSwitch([KEYWORDS])`
//!
//! ## Arguments
//! - `LB_MODE`: the rule by which an output is chosen, see FlowIPLoadBalancer.
//! - `LST_MODE`: the unit of load, see FlowIPLoadBalancer.
//! - `AWRR_TIME`: milliseconds between two computations of the weights.
//! - `AWRR_ALPHA`: 0 if weights depend on the load fully, 1 if they do not depend on it, or a number
//!   between. An output without load has weight 30 in any case.
//! - `FORCE_TRACK_LOAD`: has no effect, because loads are always counted.
//! - `NSERVER`: the number of outputs that are active at first; 0 for all.
//! - `CST_BUCKETS`: the number of entries of the consistent hashing table, rounded up to a prime number.
//! - `TIMEOUT`: seconds after which an idle flow is forgotten.
//! - `FIN_TIMEOUT`: seconds after which an idle flow is forgotten when the client has sent FIN and the
//!   server may still send.
//! - `DONE_TIMEOUT`: seconds after which an idle TCP connection is forgotten that was reset.
//! - `CAPACITY`: the number of flows that are remembered, about 85 bytes of memory each once they exist.
//!   Packets of further flows are balanced one by one, and counted as `overflows`.
//!
//! ## Handlers
//! - `nb_total_servers`: the number of outputs.
//! - `nb_active_servers`: the number of outputs to which new flows can go.
//! - `load_conn`: flows of each output.
//! - `load_packets`: packets that left by each output.
//! - `load_bytes`: bytes that left by each output.
//! - `load`: loads that were written, of all outputs, or of the output with a number; written as
//!   `NUMBER:LOAD,NUMBER:LOAD`.
//! - `servers`: a line for each output: number, `active` or `inactive`, flows, packets, bytes.
//! - `connections`: flows that are remembered.
//! - `overflows`: packets of flows for which the table had no room.
//! - `add_server`: makes an output active, by its number.
//! - `remove_server`: makes an output inactive: it gets no new flows.
//! - `fail_server`: makes an output inactive, and forgets its flows.
//!
//! ## Example
//! ```click
//! FastUDPFlows(RATE 0, LIMIT 1000, LENGTH 100, SRCETH 2:0:0:0:0:1, SRCIP 10.0.0.1, DSTETH 2:0:0:0:0:2,
//! DSTIP 10.220.0.1,
//!         FLOWS 50, FLOWSIZE 10)
//!     -> lb :: FlowSwitch(LB_MODE maglev);
//! lb[0] -> EtherRewrite(2:0:0:0:0:3, 2:0:0:0:1:1) -> Discard;
//! lb[1] -> EtherRewrite(2:0:0:0:0:3, 2:0:0:0:1:2) -> Discard
//! ```
//!
//! ## See also
//! FlowIPLoadBalancer, FlowL2LoadBalancer, HashSwitch, RoundRobinSwitch

use std::fmt;

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Filter, Target};
use element::five_tuple::READS;
use element::{Class, DropReason, Effects, Packet, StatePart, manual};

use super::balancer::{self, Balancer, Balancing, Delivery, Place, Settings};
use crate::editing::when;
use crate::sorting::Fate;

static ARGS: [ArgInfo; 11] = balancer::ARGS;

/// The element class `FlowSwitch`.
pub static CLASS: Class = Class {
    name: "FlowSwitch",
    aliases: &["IPRRSwitch", "FlowRoundRobinSwitch"],
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("flow_switch.rs"),
    args: &ARGS,
    table: &Balancing::<Outputs>::HANDLERS,
    reconfigures: true,
    state: &[
        StatePart::kept("connections", &["connections", "load_conn"]).on_disk(),
        StatePart::kept("servers", &["servers", "nb_active_servers"]),
        StatePart::kept("turn", &[]),
        StatePart::kept("counts", &["load_packets", "load_bytes", "overflows"]),
    ],
    saved_form: balancer::FORM,
    samples: &[
        "",
        " -> 1/3",
        "LB_MODE maglev, CST_BUCKETS 251, CAPACITY 4 -> 1/4",
        "LB_MODE hash, NSERVER 1 -> 1/2",
    ],
    build: |args| {
        let settings = Settings::read(args);
        let outputs = args.outputs();
        balancer::build(args, settings, (0..outputs).map(Output).collect(), Outputs { outputs })
    },
    ..Class::DEFAULT
};

/// The destination of this load balancer: the number of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Output(usize);

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ArgType for Output {
    fn parse(text: &str, place: &element::args::Scope<'_>) -> Result<Output, String> {
        usize::parse(text, place).map(Output)
    }

    fn clicks_words(text: &str) -> Option<String> {
        usize::clicks_words(text)
    }
}

impl Place for Output {
    const WHAT: &'static str = "output";
    const EXPECTED: &'static str = "expected number of an output";
}

/// The part of a load balancer that sends packets to the output of their flow.
struct Outputs {
    outputs: usize,
}

impl Delivery for Outputs {
    type Place = Output;

    fn effects(&self, balancer: &Balancer<Output>) -> Effects {
        let mut reads = READS.to_vec();
        reads.extend(balancer.reads());
        let mut cases = vec![
            when("not IP", &READS, Target::Output(0)),
            when("no output is active for it", &reads, Target::Drop(DropReason::NotConnected)),
        ];
        if self.outputs > 1 {
            cases.push(when("choice of output", &reads, Target::SomeOutput));
        }
        cases.push(Case::new(Filter::TRUE, Target::Output(0)));
        balancer.declare(Effects::cases(cases), READS.to_vec())
    }

    #[inline]
    fn deliver(_packet: &mut Packet, &Output(output): &Output, _is_error: bool) -> Fate {
        Fate::Output(output)
    }
}
