//! # FastUDPFlows
//! Sends UDP packets of many flows.
//!
//! Packets have an Ethernet, an IPv4 and a UDP header, followed by zeros. The header annotations and the
//! destination address annotation are set. The output can be a push or a pull output.
//!
//! ## Usage
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; 0 for as many as possible.
//! - `LIMIT`: the total number of packets; -1 for no limit.
//! - `LENGTH`: the length of packets in bytes, from the Ethernet header on, at least 60.
//! - `SRCETH`, `DSTETH`: Ethernet addresses.
//! - `SRCIP`, `DSTIP`: IP addresses.
//! - `FLOWS`: the number of concurrent flows; the flow of each packet is chosen at random.
//! - `FLOWSIZE`: the number of packets of a flow; then the flow gets new ports.
//! - `CHECKSUM`: if true, packets have a UDP checksum.
//! - `FLOWBURST`: the number of consecutive packets of a flow.
//! - `SEQUENTIAL`: if true, flows take turns instead of being chosen at random.
//! - `DUPLICATE`: accepted, without effect.
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
//! FastUDPFlows(0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 6:7:8:9:a:b, 10.0.0.2, 10, 5) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::fast_flows::{COMMON, FastFlows, Kind, flow_args};

/// The element class `FastUDPFlows`.
pub static CLASS: Class = Class {
    name: "FastUDPFlows",
    manual: manual!("fast_udp_flows.rs"),
    args: ARGS,
    state: &[StatePart::lost("flows", "the source begins again with new flows", &["count"])],
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
