//! # IP6Encap
//! Prepends an IPv6 header to each packet.
//!
//! The network header annotation is set to the new header, the transport header annotation to the first byte
//! after it, and the destination address annotation to the destination. Packets of more than 65,535 bytes are
//! dropped.
//!
//! ## Usage
//! `IP6Encap(PROTO, SRC, DST [, KEYWORDS])`
//!
//! ## Arguments
//! - `PROTO`: the next header, by number or name (`ipip`, `udp` ...).
//! - `SRC`: the source address.
//! - `DST`: the destination address, or `DST_ANNO` for the address in each packet's destination address
//!   annotation.
//! - `HLIM`: the hop limit.
//! - `CLASS`: the traffic class.
//!
//! ## Handlers
//! - `src`: the source address.
//! - `dst`: the destination address, or `DST_ANNO`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> IP6Encap(ipip, 2000:10:1::2, 2000:20:1::2, HLIM 20) -> Discard
//! ```
//!
//! ## See also
//! IPEncap, UDPIPEncap, StripToNetworkHeader

use std::net::Ipv6Addr;

use element::args::{ArgType, Raw, Scope};
use element::class::ArgInfo;
use element::effects::{Action, Case, DST_IP6, Depends, Field, Number, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};
use packet::Annotations;
use wire::{IntoBytes, U16, ipv6};

use super::ProtocolNumber;
use crate::editing::{bytes, constant, each, header_at, missing, otherwise, value};

/// The element class `IP6Encap`.
pub static CLASS: Class = Class {
    name: "IP6Encap",
    manual: manual!("ip6_encap.rs"),
    args: &[
        ArgInfo::required("PROTO", "protocol"),
        ArgInfo::required("SRC", "IPv6 address"),
        ArgInfo::required("DST", "IPv6 address or DST_ANNO"),
        ArgInfo::keyword("HLIM", "0-255", "250"),
        ArgInfo::keyword("CLASS", "0-255", "0"),
    ],
    table: &HANDLERS,
    samples: &["4, 2000:10:1::2, 2000:20:1::2, HLIM 20", "udp, 2001:db8::1, DST_ANNO, CLASS 0xb9"],
    reconfigures: true,
    build: |args| {
        let ProtocolNumber(protocol) = args.required("PROTO");
        let source: Option<Ipv6Addr> = args.get("SRC");
        let Raw(destination) = args.required("DST");
        let (hop_limit, class) = (args.value::<u8>("HLIM"), args.value::<u8>("CLASS"));
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let protocol = u8::try_from(protocol);
        if protocol.is_err() {
            args.error("bad IP protocol");
        }
        let destination = read_destination(&destination, &args.place());
        if let Err(reason) = destination {
            args.error(reason);
        }
        args.finish()?;
        let mut header = ipv6::Header {
            version_class_flow: [0x60, 0, 0, 0].into(),
            payload_length: U16::new(0),
            next_header: protocol.unwrap_or_default(),
            hop_limit,
            source: source.octets(),
            destination: [0; 16],
        };
        header.set_traffic_class(class);
        Ok(Box::new(Ip6Encap { header, destination: destination.unwrap_or_default() }))
    },
    ..Class::DEFAULT
};

/// Parses the argument DST: `None` for `DST_ANNO`, otherwise an address.
///
/// # Errors
/// Click's message if the text is neither.
pub(super) fn read_destination(text: &str, place: &Scope<'_>) -> Result<Option<Ipv6Addr>, &'static str> {
    match text.trim() {
        "DST_ANNO" => Ok(None),
        text => match Ipv6Addr::parse(text, place) {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err("DST argument should be IP address or 'DST_ANNO'"),
        },
    }
}

struct Ip6Encap {
    /// The IPv6 header that packets get, except for the payload length and the destination.
    header: ipv6::Header,
    /// The destination of all packets; `None` to take it from each packet's destination address annotation.
    destination: Option<Ipv6Addr>,
}

impl Element for Ip6Encap {
    fn effects(&self) -> Effects {
        let length = Number::of(Field::Length);
        let fits = Predicate::at_most(length.clone(), Number::constant(u16::MAX.into()));
        let field = |offset, length| bytes(Base::Network, offset, length);
        let header = self.header.as_bytes();
        let mut actions = vec![
            Action::Strip(-(ipv6::Header::LEN as i32)),
            header_at(Base::Network, 0),
            header_at(Base::Transport, ipv6::Header::LEN),
            constant(field(0, 4), &header[..4]),
            Action::Set(field(4, 2), Value::Number(length)),
            constant(field(6, 18), &header[6..24]),
        ];
        match self.destination {
            Some(address) => {
                actions.push(constant(field(24, 16), &address.octets()));
                actions.push(constant(DST_IP6, &address.octets()));
            }
            None => actions.push(Action::Set(field(24, 16), Value::Copy(DST_IP6))),
        }
        let too_long = Case::new(fits.not(), Target::Drop(DropReason::TooLong));
        Effects::cases(vec![too_long, otherwise(actions)]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (template, fixed) = (self.header, self.destination.map(|address| address.octets()));
        each(cx, batch, |packet| {
            let length = u16::try_from(packet.len()).map_err(|_| DropReason::TooLong)?;
            let destination = match fixed {
                Some(address) => {
                    packet.annotations_mut().set_array(Annotations::DST_IP, address);
                    address
                }
                None => packet.annotations().array(Annotations::DST_IP),
            };
            let header = ipv6::Header { payload_length: U16::new(length), destination, ..template };
            if !packet.unstrip(ipv6::Header::LEN) {
                return Err(DropReason::NoHeadroom);
            }
            packet.set_headers(0, ipv6::Header::LEN);
            let place = packet.header_chunk_mut::<{ ipv6::Header::LEN }>(Base::Network);
            place.ok_or(DropReason::NoHeader)?.copy_from_slice(header.as_bytes());
            Ok(())
        });
    }
}

const HANDLERS: &[Handler<Ip6Encap>] = &[
    Handler::argument(
        "src",
        "SRC",
        |e| e.header.source_addr().to_string(),
        |e, cx, text| {
            let address: Ipv6Addr = value(cx, text, "expected IPv6 address")?;
            e.header.source = address.octets();
            Ok(())
        },
    ),
    Handler::argument(
        "dst",
        "DST",
        |e| e.destination.map_or("DST_ANNO".into(), |address| address.to_string()),
        |e, cx, text| {
            e.destination = read_destination(text, &cx.place())?;
            Ok(())
        },
    ),
];
