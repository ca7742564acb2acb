//! # ICMPPingEncap
//! Prepends IPv4 and ICMP headers, so that each packet becomes the data of an ICMP echo request.
//!
//! Identifications and sequence numbers are counted from 1, and the time to live is 255. The header
//! annotations are set to the new headers, and the destination address annotation to the destination.
//!
//! ## Usage
//! `ICMPPingEncap(SRC, DST [, KEYWORDS])`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `IDENTIFIER`: the identifier of the requests.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> ICMPPingEncap(10.0.0.1, 10.0.0.2) -> Discard
//! ```
//!
//! ## See also
//! ICMPIPEncap, ICMPPingSource, ICMPPingResponder

use std::net::Ipv4Addr;

use element::class::ArgInfo;
use element::{Class, manual};
use wire::icmp::kind;

use super::icmp_ip_encap::{HANDLERS, IcmpIpEncap};
use crate::editing::missing;

/// The element class `ICMPPingEncap`.
pub static CLASS: Class = Class {
    name: "ICMPPingEncap",
    manual: manual!("icmp_ping_encap.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("DST", "address"),
        ArgInfo::keyword("IDENTIFIER", "0-0xffff", "0"),
    ],
    table: &HANDLERS,
    samples: &["10.0.0.1, 10.0.0.2"],
    build: |args| {
        let (source, destination): (Option<Ipv4Addr>, Option<Ipv4Addr>) = (args.get("SRC"), args.get("DST"));
        let identifier = args.value::<u16>("IDENTIFIER");
        let Some(source) = source else { return missing(args, "SRC") };
        let Some(destination) = destination else { return missing(args, "DST") };
        args.finish()?;
        Ok(Box::new(IcmpIpEncap::new(source, destination, kind::ECHO, 0, identifier)))
    },
    ..Class::DEFAULT
};
