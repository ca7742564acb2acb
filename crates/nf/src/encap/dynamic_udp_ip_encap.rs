//! # DynamicUDPIPEncap
//! Prepends IPv4 and UDP headers to each packet, with ports that grow by one after every few packets.
//!
//! Otherwise it does the same as UDPIPEncap, but the destination is always an address.
//!
//! ## Usage
//! `DynamicUDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM, INTERVAL])`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `SPORT`: the source port of the first packets, by number or name.
//! - `DST`: the destination address.
//! - `DPORT`: the destination port of the first packets.
//! - `CHECKSUM`: if true, there is a UDP checksum.
//! - `INTERVAL`: the number of packets after which both ports grow by one; 0 if they stay the same.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 30) -> DynamicUDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 2000, true, 10) -> Discard
//! ```
//!
//! ## See also
//! UDPIPEncap, IPEncap

use std::net::Ipv4Addr;

use element::args::UdpPort;
use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::Destination;
use super::udp_ip_encap::UdpIpEncap;
use crate::editing::missing;

/// The element class `DynamicUDPIPEncap`.
pub static CLASS: Class = Class {
    name: "DynamicUDPIPEncap",
    manual: manual!("dynamic_udp_ip_encap.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("SPORT", "port"),
        ArgInfo::required("DST", "address"),
        ArgInfo::required("DPORT", "port"),
        ArgInfo::positional("CHECKSUM", "bool", "true"),
        ArgInfo::positional("INTERVAL", "unsigned", "0"),
    ],
    state: &[StatePart::kept("ports", &[])],
    samples: &["10.0.0.1, 1234, 10.0.0.2, domain", "10.0.0.1, 1234, 10.0.0.2, 80, false, 2"],
    build: |args| {
        let source: Option<Ipv4Addr> = args.get("SRC");
        let source_port = args.required::<UdpPort>("SPORT").0;
        let destination: Option<Ipv4Addr> = args.get("DST");
        let destination_port = args.required::<UdpPort>("DPORT").0;
        let checksum = args.value::<bool>("CHECKSUM");
        let interval = args.value::<u32>("INTERVAL");
        let Some(source) = source else { return missing(args, "SRC") };
        let Some(destination) = destination else { return missing(args, "DST") };
        args.finish()?;
        let (destination, ports) = (Destination::Fixed(destination), [source_port, destination_port]);
        Ok(Box::new(UdpIpEncap::new(source, destination, ports, checksum, interval)))
    },
    ..Class::DEFAULT
};
