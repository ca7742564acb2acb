//! # FlowNAPTLoadBalancer
//! Balances flows over servers, and translates their source addresses and ports (NAPT), in one direction.
//!
//! The servers get new flows in turn. A flow gets the address of its server as the destination address, the
//! address SIP of its server as the source address, and as the source port the next port of 1024 to 65534
//! that is free. Checksums are updated, and the destination annotation is set to the server. So servers need
//! no route to clients, but do not see their addresses. FlowNAPTLoadBalancerReverse translates the packets
//! that come back.
//!
//! Packets of protocols other than TCP and UDP, fragments other than the first, and packets of new flows for
//! which no port is free are dropped. Header annotations must be set. ICMPRewriter translates ICMP errors
//! about the flows.
//!
//! ## Usage
//! `FlowNAPTLoadBalancer(DST ADDRESS, ..., SIP ADDRESSES [, KEYWORDS])`
//!
//! ## Arguments
//! - `DST`: the address of a server; one DST for each server.
//! - `SIP`: the source addresses of packets to the servers, separated by spaces: one for each server, in the
//!   order of DST.
//! - `STATE`: if true, TCP segments without SYN make no mappings and are dropped if they have none. The
//!   states of TCP connections are always followed.
//! - `TCP_TIMEOUT`: seconds after the last packet when a TCP mapping expires, once data have arrived in
//!   both directions.
//! - `TIMEOUT`: another name of TCP_TIMEOUT; TCP_TIMEOUT is used if both are given.
//! - `TCP_DONE_TIMEOUT`: seconds after the last packet when a TCP mapping expires, once the connection was
//!   closed in both directions, or reset.
//! - `TCP_NODATA_TIMEOUT`: seconds after the last packet when a TCP mapping expires, while data have
//!   arrived in at most one direction.
//! - `TCP_GUARANTEE`: seconds after each packet during which a TCP mapping neither expires nor is evicted for
//!   another.
//! - `GUARANTEE`: another name of TCP_GUARANTEE; GUARANTEE is used if both are given.
//! - `UDP_TIMEOUT`: seconds after the last packet when a UDP mapping expires.
//! - `UDP_GUARANTEE`: seconds after each packet during which a UDP mapping neither expires nor is evicted for
//!   another.
//! - `REAP_INTERVAL`: 0 to keep expired mappings until a new mapping needs their port or memory. With any
//!   other number, mappings are removed when they expire.
//! - `REAP_TIME`: an old name of REAP_INTERVAL.
//! - `MAPPING_CAPACITY`: the largest number of mappings, or another translator with which this translator
//!   shares its capacity. A mapping takes about 270 bytes, once it exists; packets for which there is no
//!   memory are treated as if this number were exceeded.
//! - `CAPACITY`: another name of MAPPING_CAPACITY.
//! - `END_STALE`: if true, a reload ends mappings that the new arguments could not have made. Otherwise they
//!   stay until they expire.
//! - `LOG`: a NATLog, which records each mapping that is made or removed.
//!
//! ## Handlers
//! - `tcp_table`: two lines per TCP mapping, the newest first, as in IPRewriter.
//! - `udp_table`: as `tcp_table`, for UDP.
//! - `tcp_mappings`, `udp_mappings`: old names of `tcp_table` and `udp_table`.
//! - `tcp_lookup`: for `SADDR SPORT DADDR DPORT` of a TCP packet: the four values that it would get, or
//!   nothing.
//! - `table_size`: the number of mappings that exist and that this element has made.
//! - `nmappings`: an old name of `table_size`.
//! - `mapping_failures`: packets for which no mapping could be made: no port was free, a capacity was used
//!   up, or the flow's addresses and ports were taken.
//! - `size`: mappings of all translators that share the capacity.
//! - `capacity`: the largest number of mappings.
//! - `clear`: ends all mappings of all translators that share the capacity.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader
//!     -> lb :: FlowNAPTLoadBalancer(DST 10.1.0.1, DST 10.1.0.2, SIP 10.2.0.1 10.2.0.2) -> Discard;
//! Idle -> FlowNAPTLoadBalancerReverse(lb) -> Discard
//! ```
//!
//! ## See also
//! FlowNAPTLoadBalancerReverse, FlowIPNAT, FlowIPLoadBalancer, RoundRobinIPMapper

use std::net::Ipv4Addr;
use std::sync::Arc;

use element::args::read_value;
use element::class::{ArgInfo, ConfigurePhase, join};
use element::{Args, Class, StatePart, manual};

use super::desk::Translation;
use super::flavour::Flavour;
use super::mapper::Mapper;
use super::pattern::{Pattern, Target, words};
use super::reverse::OneWay;
use super::rewriter::{self, *};
use super::save::FORM;
use super::spec::Spec;

/// The element class `FlowNAPTLoadBalancer`.
pub static CLASS: Class = Class {
    name: "FlowNAPTLoadBalancer",
    processing: "h/h",
    manual: manual!("flow_napt_load_balancer.rs"),
    args: &join::<3, 14, 17>(
        [
            ArgInfo::rest("DST", "address"),
            ArgInfo::keyword("SIP", "address", ""),
            ArgInfo::keyword("STATE", "bool", "true"),
        ],
        ONE_WAY,
    ),
    table: &[TWO_TABLES, COUNTS],
    state: &[TWO_TABLES_KEPT, FAILURES, StatePart::kept("turn", &[])],
    saved_form: FORM,
    phase: ConfigurePhase::Service,
    samples: &[
        "DST 10.9.0.1, DST 10.9.0.2, SIP 10.8.0.1 10.8.0.2",
        "DST 10.9.0.1, SIP 10.8.0.1, STATE false, TCP_GUARANTEE 0, UDP_GUARANTEE 0, CAPACITY 1",
    ],
    build: |args| {
        let needs_syn = args.value("STATE");
        let (policies, holding) = (super::one_way_policies(args), Holding::read(args));
        let [servers, sources] = ["DST", "SIP"].map(|name| addresses(args, name));
        args.setup.publish(args.id(), Arc::new(OneWay(CLASS.name)));
        args.finish()?;
        if servers.is_empty() {
            args.error("DST: required argument missing");
        } else if servers.len() != sources.len() {
            let (servers, sources) = (servers.len(), sources.len());
            args.error_as(
                format!("SIP: needs one address for each DST: {servers}, not {sources}"),
                "The number of SIP must match DST",
            );
        }
        args.finish()?;
        let next = Arc::default();
        let pattern = |(&server, &source): (&Ipv4Addr, &Ipv4Addr)| {
            Target::of_one_output(Pattern::next_port(source, 1024..=65534, Some(server), &next))
        };
        let targets = servers.iter().zip(&sources).map(pattern).collect();
        let mapper = Arc::new(Mapper::in_turn(&args.name(), targets));
        let specs = vec![Spec::Mapper(Arc::clone(&mapper))];
        let desk = Translation::new(Flavour::Both, specs, args.outputs());
        let desk = Translation { sets_next_hop: true, needs_syn, ..desk };
        rewriter::assemble(args, (desk, Some(mapper)), policies, holding)
    },
    ..Class::DEFAULT
};

/// Returns the addresses of all arguments `name`, each of which has one or several. Reports words that are
/// not addresses.
fn addresses(args: &mut Args<'_>, name: &'static str) -> Vec<Ipv4Addr> {
    let mut all = Vec::new();
    args.each_of(name, |args, text| {
        for word in words(text) {
            match read_value(name, &word, &args.place()) {
                Ok(address) => all.push(address),
                Err(complaint) => args.error(complaint),
            }
        }
    });
    all
}
