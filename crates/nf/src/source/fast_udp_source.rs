//! # FastUDPSource
//! Sends UDP packets of one flow.
//!
//! Packets have an Ethernet, an IPv4 and a UDP header, followed by zeros. The header annotations and the
//! destination address annotation are set. The output can be a push or a pull output.
//!
//! ## Usage
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM, INTERVAL, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; 0 for as many as possible.
//! - `LIMIT`: the total number of packets; -1 for no limit.
//! - `LENGTH`: the length of packets in bytes, from the Ethernet header on, at least 60.
//! - `SRCETH`, `DSTETH`: Ethernet addresses.
//! - `SRCIP`, `DSTIP`: IP addresses.
//! - `SPORT`, `DPORT`: UDP ports.
//! - `CHECKSUM`: if true, packets have a UDP checksum.
//! - `INTERVAL`: the number of packets after which both ports increase by one; 0 for never.
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
//! FastUDPSource(0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 1234, 6:7:8:9:a:b, 10.0.0.2, 1234) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::fast_flows::{COMMON, DSTETH, DSTIP, FastFlows, Kind, LENGTH, LIMIT, RATE, SRCETH, SRCIP};

/// The element class `FastUDPSource`.
pub static CLASS: Class = Class {
    name: "FastUDPSource",
    manual: manual!("fast_udp_source.rs"),
    args: ARGS,
    state: &[StatePart::lost("flows", "the source begins again with new flows", &["count"])],
    samples: &["0, 100, 60, 0:1:2:3:4:5, 10.0.0.1, 1234, 6:7:8:9:a:b, 10.0.0.2, 1234"],
    build: |args| FastFlows::build(args, Kind::UdpInterval),
    ..COMMON
};

const ARGS: &[ArgInfo] = &[
    RATE,
    LIMIT,
    LENGTH,
    SRCETH,
    SRCIP,
    ArgInfo::required("SPORT", "port"),
    DSTETH,
    DSTIP,
    ArgInfo::required("DPORT", "port"),
    ArgInfo::positional("CHECKSUM", "bool", "true"),
    ArgInfo::positional("INTERVAL", "unsigned", "0"),
    ArgInfo::positional("ACTIVE", "bool", "true"),
    ArgInfo::keyword("STOP", "bool", "false"),
];
