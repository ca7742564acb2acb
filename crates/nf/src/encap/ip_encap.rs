//! # IPEncap
//! Prepends an IPv4 header to each packet.
//!
//! Identifications are counted from 0. The network header annotation is set to the new header, the transport
//! header annotation to the first byte after it, and the destination address annotation to the destination.
//! Packets that would become longer than 65,535 bytes are dropped.
//!
//! ## Usage
//! `IPEncap(PROTO, SRC, DST [, KEYWORDS])`
//!
//! ## Arguments
//! - `PROTO`: the protocol of the payload, by number or name (`ipip`, `udp` ...).
//! - `SRC`: the source address.
//! - `DST`: the destination address, or `DST_ANNO` for the address in each packet's destination address
//!   annotation.
//! - `TOS`: the type of service.
//! - `TTL`: the time to live.
//! - `DSCP`: the differentiated services code point, instead of `TOS`.
//! - `ECT`: if true, the ECN field is 1 (the transport supports ECN); `2` sets it to 2.
//! - `CE`: if true, the ECN field is 3 (congestion experienced).
//! - `DF`: if true, the packet must not be fragmented.
//!
//! ## Handlers
//! - `src`: the source address.
//! - `dst`: the destination address, or `DST_ANNO`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> IPEncap(ipip, 18.26.4.24, 140.247.60.147) -> Discard
//! ```
//!
//! ## See also
//! UDPIPEncap, ICMPIPEncap, StripIPHeader

use std::net::Ipv4Addr;

use element::args::{Raw, parse_bool};
use element::class::{ArgInfo, join};
use element::{Args, Batch, Class, Cx, Effects, Element, Handler, manual};
use wire::ipv4;

use super::{Destination, Outer, ProtocolNumber};
use crate::editing::{each, missing, value};

/// The element class `IPEncap`.
pub static CLASS: Class = Class {
    name: "IPEncap",
    manual: manual!("ip_encap.rs"),
    args: &join::<3, 6, 9>(
        [
            ArgInfo::required("PROTO", "protocol"),
            ArgInfo::required("SRC", "address"),
            ArgInfo::required("DST", "address or DST_ANNO"),
        ],
        HEADER_ARGS,
    ),
    table: &HANDLERS,
    samples: &["ipip, 18.26.4.24, 140.247.60.147", "17, 1.2.3.4, DST_ANNO, DSCP 46, ECT 2, DF true, TTL 9"],
    reconfigures: true,
    build: |args| {
        let outer = outer(args);
        let source: Option<Ipv4Addr> = args.get("SRC");
        let Raw(destination) = args.required("DST");
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let destination = Destination::parse(&destination, &args.place());
        if destination.is_none() {
            args.error(BAD_DESTINATION);
        }
        args.finish()?;
        let destination = destination.unwrap_or(Destination::Annotation);
        Ok(Box::new(IpEncap { outer: Outer { source, destination, ..outer }, id: 0 }))
    },
    ..Class::DEFAULT
};

/// The arguments for the fields of the header beside protocol and addresses.
pub(crate) const HEADER_ARGS: [ArgInfo; 6] = [
    ArgInfo::keyword("TOS", "0-255", "0"),
    ArgInfo::keyword("TTL", "0-255", "250"),
    ArgInfo::keyword("DSCP", "0-63", "0"),
    ArgInfo::keyword("ECT", "bool or 2", "false"),
    ArgInfo::keyword("CE", "bool", "false"),
    ArgInfo::keyword("DF", "bool", "false"),
];

/// Reads the argument PROTO and those of [`HEADER_ARGS`]. The result has no source address, and the address
/// in the annotation as its destination.
pub(crate) fn outer(args: &mut Args<'_>) -> Outer {
    let ProtocolNumber(protocol) = args.required("PROTO");
    let tos = service_type(args);
    let ttl = args.value::<u8>("TTL");
    let fragment = if args.value::<bool>("DF") { ipv4::DONT_FRAGMENT } else { 0 };
    let protocol = u8::try_from(protocol).unwrap_or_else(|_| {
        args.error("bad IP protocol");
        0
    });
    Outer { tos, fragment, ..Outer::new(Ipv4Addr::UNSPECIFIED, Destination::Annotation, protocol, ttl) }
}

const BAD_DESTINATION: &str = "DST argument should be IP address or 'DST_ANNO'";

/// Computes the type of service byte from the arguments TOS, DSCP, ECT and CE; reports an error if they are
/// invalid or exclude each other.
fn service_type(args: &mut Args<'_>) -> u8 {
    let (tos, dscp): (i32, i32) = (args.value("TOS"), args.value("DSCP"));
    let ect: String = args.value("ECT");
    let congested = args.value::<bool>("CE");
    let ect = match ect.as_str() {
        "2" => 2,
        word => match parse_bool(word) {
            Some(known) => u8::from(known),
            None => {
                args.error(format!("bad ECT value '{word}'"));
                0
            }
        },
    };
    let has_tos = args.was_given("TOS");
    if has_tos && args.was_given("DSCP") {
        args.error("cannot set both TOS and DSCP");
    } else if has_tos && (ect > 0 || congested) {
        args.error("cannot set both TOS and ECN bits");
    }
    if ect > 0 && congested {
        args.error("can set at most one ECN option");
    }
    let tos = u8::try_from(tos).unwrap_or_else(|_| {
        args.error("TOS too large; max 255");
        0
    });
    let dscp = u8::try_from(dscp).ok().filter(|&dscp| dscp < 64).unwrap_or_else(|| {
        args.error("DSCP too large; max 63");
        0
    });
    tos | dscp << 2 | if congested { 3 } else { ect }
}

struct IpEncap {
    outer: Outer,
    id: u16,
}

impl Element for IpEncap {
    fn effects(&self) -> Effects {
        self.outer.effects(0, Vec::new(), None)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let template = self.outer.template(cx);
        let mut id = self.id;
        each(cx, batch, |packet| {
            template.prepend(packet, id, &[])?;
            id = id.wrapping_add(1);
            Ok(())
        });
        self.id = id;
    }
}

const HANDLERS: &[Handler<IpEncap>] = &[
    Handler::argument(
        "src",
        "SRC",
        |e| e.outer.source.to_string(),
        |e, cx, text| {
            e.outer.source = value(cx, text, "expected IP address")?;
            Ok(())
        },
    ),
    Handler::argument(
        "dst",
        "DST",
        |e| e.outer.destination.show(),
        |e, cx, text| {
            e.outer.destination = Destination::parse(text, &cx.place()).ok_or(BAD_DESTINATION)?;
            Ok(())
        },
    ),
];
