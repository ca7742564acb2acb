//! # FastTCPFlows
//! Sends TCP packets of many flows, from SYN to FIN.
//!
//! Packets have an Ethernet, an IPv4 and a TCP header, and zeros behind them; the header annotations and the destination
//! address annotation are set. It can be pushed from and pulled from.
//!
//! ## Usage
//! `FastTCPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; 0 for as many as possible.
//! - `LIMIT`: packets in all; -1 for no limit.
//! - `LENGTH`: bytes of a packet from the Ethernet header on, at least 60.
//! - `SRCETH`, `DSTETH`: Ethernet addresses.
//! - `SRCIP`, `DSTIP`: IP addresses.
//! - `FLOWS`: how many flows there are at a time; each packet is of one of them, chosen at random. When the limit is
//!   reached, those that are not complete are closed.
//! - `FLOWSIZE`: packets of a flow, at least 3; then it gets other ports.
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
//! FastTCPFlows(0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::class::ArgInfo;
use element::{Class, manual};

use super::fast_flows::{COMMON, FastFlows, Kind, flow_args};

/// The class.
pub static CLASS: Class = Class {
    name: "FastTCPFlows",
    manual: manual!("fast_tcp_flows.rs"),
    args: ARGS,
    samples: &["0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5"],
    build: |args| FastFlows::build(args, Kind::Tcp),
    ..COMMON
};

const ARGS: &[ArgInfo] = &flow_args::<11>(&[
    ArgInfo::positional("ACTIVE", "bool", "true"),
    ArgInfo::keyword("STOP", "bool", "false"),
]);
