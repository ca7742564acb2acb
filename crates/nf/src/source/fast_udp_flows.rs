//! # FastUDPFlows
//! Sends UDP packets of many flows.
//!
//! Packets have an Ethernet, an IPv4 and a UDP header, and zeros behind them; the header annotations and the destination
//! address annotation are set. It can be pushed from and pulled from.
//!
//! ## Usage
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; 0 for as many as possible.
//! - `LIMIT`: packets in all; -1 for no limit.
//! - `LENGTH`: bytes of a packet from the Ethernet header on, at least 60.
//! - `SRCETH`, `DSTETH`: Ethernet addresses.
//! - `SRCIP`, `DSTIP`: IP addresses.
//! - `FLOWS`: how many flows there are at a time; each packet is of one of them, chosen at random.
//! - `FLOWSIZE`: packets after which a flow gets other ports.
//! - `CHECKSUM`: whether packets have a UDP checksum.
//! - `FLOWBURST`: packets of a flow in a row.
//! - `SEQUENTIAL`: whether flows take turns instead.
//! - `DUPLICATE`: accepted, without effect.
//! - `ACTIVE`: whether it sends.
//! - `STOP`: whether to stop the driver after the last packet.
//!
//! ## Handlers
//! - `count`: packets sent.
//! - `rate`: packets per second from the first to the last, when all are sent; is written to set RATE.
//! - `reset`: starts afresh.
//! - `active`: whether it sends; starts afresh when true is written.
//! - `limit`, `length`, `stop`: the arguments.
//! - `srceth`, `dsteth`: sets these addresses.
//!
//! ## Example
//! ```click
//! FastUDPFlows(0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::class::ArgInfo;
use element::{Class, manual};

use super::fast_flows::{COMMON, FastFlows, Kind, flow_args};

/// The class.
pub static CLASS: Class = Class {
    name: "FastUDPFlows",
    manual: manual!("fast_udp_flows.rs"),
    args: ARGS,
    samples: &["0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5"],
    build: |args| FastFlows::build(args, Kind::Udp),
    ..COMMON
};

const ARGS: &[ArgInfo] = &flow_args::<15>(&[
    ArgInfo::positional("CHECKSUM", "bool", "true"),
    ArgInfo::positional("ACTIVE", "bool", "true"),
    ArgInfo::keyword("FLOWBURST", "unsigned", "1"),
    ArgInfo::keyword("SEQUENTIAL", "bool", "false"),
    ArgInfo::keyword("DUPLICATE", "bool", "false"),
    ArgInfo::keyword("STOP", "bool", "false"),
]);
