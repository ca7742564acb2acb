//! # FastTCPFlows
//! Sends TCP packets of many flows, from SYN to FIN.
//!
//! Packets have an Ethernet, an IPv4 and a TCP header, followed by zeros. The header annotations and the
//! destination address annotation are set. The output can be a push or a pull output.
//!
//! ## Usage
//! `FastTCPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; 0 for as many as possible.
//! - `LIMIT`: the number of packets, without the FIN packets that close flows afterwards; negative for no
//!   limit.
//! - `LENGTH`: the length of packets in bytes, from the Ethernet header on, at least 60.
//! - `SRCETH`, `DSTETH`: Ethernet addresses.
//! - `SRCIP`, `DSTIP`: IP addresses.
//! - `FLOWS`: the number of concurrent flows; the flow of each packet is chosen at random. When the limit
//!   is reached, a FIN packet is sent for each flow that is not complete, even if it has not begun.
//! - `FLOWSIZE`: the number of packets of a flow, at least 3; then the flow gets new ports.
//! - `ACTIVE`: if true, packets are sent.
//! - `STOP`: if true, stops the driver after the last packet.
//!
//! ## Handlers
//! - `count`: the number of packets that were sent.
//! - `rate`: packets per second from the first packet to the last, once all are sent; 0 before, and if that
//!   took less than a millisecond. Writing it sets RATE.
//! - `reset`: sets the count to zero and starts again.
//! - `active`: true if packets are sent. Writing true starts again.
//! - `limit`, `length`, `stop`: the arguments.
//! - `srceth`, `dsteth`: sets the Ethernet addresses.
//!
//! ## Example
//! ```click
//! FastTCPFlows(0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::fast_flows::{COMMON, FastFlows, Kind, flow_args};

/// The element class `FastTCPFlows`.
pub static CLASS: Class = Class {
    name: "FastTCPFlows",
    manual: manual!("fast_tcp_flows.rs"),
    args: ARGS,
    state: &[StatePart::lost("flows", "the source begins again with new flows", &["count"])],
    samples: &["0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5"],
    build: |args| FastFlows::build(args, Kind::Tcp),
    ..COMMON
};

const ARGS: &[ArgInfo] = &flow_args::<11>(&[
    ArgInfo::positional("ACTIVE", "bool", "true"),
    ArgInfo::keyword("STOP", "bool", "false"),
]);
