//! # FlowIPNAT
//! Translates the source addresses and ports of TCP and UDP packets (NAPT), in one direction.
//!
//! Each flow gets the source address SIP and the next port of 1024 to 65535 that is free; checksums are
//! updated. FlowIPNATReverse translates the packets that come back. Packets of other protocols, fragments
//! other than the first, and packets of new flows for which no port is free are dropped. The destination
//! annotation stays as it is. Header annotations must be set.
//!
//! The element does the same as `IPRewriter(pattern SIP 1024-65535# - - 0 0, DST_ANNO false)`, which has more
//! rules; mappings are stored in the same way. Packets in the direction of replies that come to this element
//! are translated back, and leave by the same output. ICMPRewriter translates ICMP errors about the flows.
//!
//! ## Usage
//! `FlowIPNAT(SIP [, KEYWORDS])`
//!
//! ## Arguments
//! - `SIP`: the source address of translated packets.
//! - `ACCEPT_NONSYN`: if false, TCP segments without SYN make no mappings and are dropped if they have none.
//! - `STATE`: has no effect, because the states of TCP connections are always followed.
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
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> nat :: FlowIPNAT(192.0.2.1) -> Discard;
//! Idle -> FlowIPNATReverse(nat) -> Discard
//! ```
//!
//! ## See also
//! FlowIPNATReverse, FlowNAPTLoadBalancer, IPRewriter, ICMPRewriter

use std::net::Ipv4Addr;
use std::sync::Arc;

use element::class::{ArgInfo, ConfigurePhase, join};
use element::{Class, manual};

use super::desk::Translation;
use super::flavour::Flavour;
use super::pattern::{Pattern, Target};
use super::reverse::OneWay;
use super::rewriter::{self, *};
use super::save::FORM;
use super::spec::Spec;

/// The element class `FlowIPNAT`.
pub static CLASS: Class = Class {
    name: "FlowIPNAT",
    processing: "h/h",
    manual: manual!("flow_ip_nat.rs"),
    args: &join::<3, 14, 17>(
        [
            ArgInfo::required("SIP", "address"),
            ArgInfo::keyword("ACCEPT_NONSYN", "bool", "true"),
            ArgInfo::keyword("STATE", "bool", "false"),
        ],
        ONE_WAY,
    ),
    table: &[TWO_TABLES, COUNTS],
    state: &[TWO_TABLES_KEPT, FAILURES],
    saved_form: FORM,
    phase: ConfigurePhase::Service,
    samples: &[
        "1.0.0.1",
        "1.0.0.1, TCP_GUARANTEE 0, UDP_GUARANTEE 0, CAPACITY 1",
        "SIP 1.0.0.1, ACCEPT_NONSYN false, STATE true",
    ],
    build: |args| {
        let address = args.required_or("SIP", Ipv4Addr::UNSPECIFIED);
        let needs_syn = !args.value::<bool>("ACCEPT_NONSYN");
        args.value::<bool>("STATE");
        let (policies, holding) = (super::one_way_policies(args), Holding::read(args));
        args.setup.publish(args.id(), Arc::new(OneWay(CLASS.name)));
        args.finish()?;
        let pattern = Pattern::next_port(address, 1024..=65535, None, &Arc::default());
        let specs = vec![Spec::Pattern(Target::of_one_output(pattern))];
        let desk = Translation { needs_syn, ..Translation::new(Flavour::Both, specs, args.outputs()) };
        rewriter::assemble(args, (desk, None), policies, holding)
    },
    ..Class::DEFAULT
};
