//! # ICMPIPEncap
//! Prepends IPv4 and ICMP headers to each packet.
//!
//! Identifications are counted from 1, and the time to live is 255. Messages with an identifier and a
//! sequence number (echo, time stamp, information) use the identification as the sequence number. Time stamp
//! messages also get three times, which are zero. The header annotations are set to the new headers, and the
//! destination address annotation to the destination.
//!
//! ## Usage
//! `ICMPIPEncap(SRC, DST, TYPE [, CODE, KEYWORDS])`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//! - `TYPE`: the type of message, by number or name (`echo`, `unreachable` ...).
//! - `CODE`: the code, by number or name.
//! - `IDENTIFIER`: the identifier, for echo, time stamp and information messages.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> ICMPIPEncap(10.0.0.1, 10.0.0.2, echo, IDENTIFIER 7) -> Discard
//! ```
//!
//! ## See also
//! ICMPPingEncap, IPEncap, ICMPError

use std::net::Ipv4Addr;

use element::args::{ArgType, Scope};
use element::class::ArgInfo;
use element::effects::HeaderKind;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use wire::checksum::Sum;
use wire::icmp::kind;
use wire::{IntoBytes, U16, icmp, icmp_names, ip_protocol};

use super::{Destination, Outer, Template, identification, next_id};
use crate::editing::{Fate, bytes, constant, each, missing, sum_from, value};

/// The element class `ICMPIPEncap`.
pub static CLASS: Class = Class {
    name: "ICMPIPEncap",
    manual: manual!("icmp_ip_encap.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("DST", "address"),
        ArgInfo::required("TYPE", "0-255 or a name"),
        ArgInfo::positional("CODE", "0-255 or a name", "0"),
        ArgInfo::keyword("IDENTIFIER", "0-0xffff", "0"),
    ],
    table: &HANDLERS,
    samples: &[
        "10.0.0.1, 10.0.0.2, echo, IDENTIFIER 7",
        "1.2.3.4, 5.6.7.8, unreachable, port",
        "1.2.3.4, 5.6.7.8, 13",
    ],
    build: |args| {
        let (source, destination): (Option<Ipv4Addr>, Option<Ipv4Addr>) = (args.get("SRC"), args.get("DST"));
        let kind: String = args.required("TYPE");
        let code = args.value::<String>("CODE");
        let identifier = args.value::<u16>("IDENTIFIER");
        let Some(source) = source else { return missing(args, "SRC") };
        let Some(destination) = destination else { return missing(args, "DST") };
        args.finish()?;
        let number = parse_kind(&kind, &args.place());
        if number.is_none() {
            args.error("invalid TYPE");
        }
        let kind = number.unwrap_or(0);
        let code = parse_code(kind, &code, &args.place());
        if code.is_none() {
            args.error("invalid CODE");
        }
        args.finish()?;
        Ok(Box::new(IcmpIpEncap::new(source, destination, kind, code.unwrap_or(0), identifier)))
    },
    ..Class::DEFAULT
};

/// Parses an ICMP type, by number or name; `None` if it is invalid.
pub(crate) fn parse_kind(word: &str, place: &Scope<'_>) -> Option<u8> {
    icmp_names::kind(word).or_else(|| u8::parse(word, place).ok())
}

/// Parses an ICMP code, by number or by its name for messages of type `kind`; `None` if it is invalid.
pub(crate) fn parse_code(kind: u8, word: &str, place: &Scope<'_>) -> Option<u8> {
    icmp_names::code(kind, word).or_else(|| u8::parse(word, place).ok())
}

/// The element of ICMPIPEncap and ICMPPingEncap, which makes each packet the data of an ICMP message of one
/// type.
pub(super) struct IcmpIpEncap {
    outer: Outer,
    kind: u8,
    code: u8,
    identifier: u16,
    id: u16,
}

/// The length in bytes of the three times (originate, receive, transmit) that follow the header of time
/// stamp messages (RFC 792).
const TIMES: usize = 12;
const INNER: usize = icmp::Header::LEN;

impl IcmpIpEncap {
    pub(super) fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        kind: u8,
        code: u8,
        identifier: u16,
    ) -> IcmpIpEncap {
        let outer = Outer::new(source, Destination::Fixed(destination), ip_protocol::ICMP, 255);
        IcmpIpEncap { outer, kind, code, identifier, id: 1 }
    }

    /// True if messages of this type get an identifier and a sequence number. Address mask messages get none,
    /// as in Click.
    fn is_query(&self) -> bool {
        let queries = [
            kind::ECHO,
            kind::ECHO_REPLY,
            kind::TIME_STAMP,
            kind::TIME_STAMP_REPLY,
            kind::INFORMATION,
            kind::INFORMATION_REPLY,
        ];
        queries.contains(&self.kind)
    }

    /// True if messages of this type have three times after the header.
    fn has_times(&self) -> bool {
        matches!(self.kind, kind::TIME_STAMP | kind::TIME_STAMP_REPLY)
    }

    /// Prepends an IPv4 header with identification `id`, and an ICMP header of `N` bytes, which are zero
    /// after the fixed part. Rejects packets that become too long or have too little headroom.
    fn encapsulate<const N: usize>(&self, packet: &mut Packet, template: &Template, id: u16) -> Fate {
        Template::total(packet, N)?;
        let [identifier, sequence] =
            if self.is_query() { [self.identifier, id] } else { [0; 2] }.map(U16::new);
        let mut icmp =
            icmp::Header { kind: self.kind, code: self.code, checksum: U16::new(0), identifier, sequence };
        let sum = Sum::new().bytes(icmp.as_bytes());
        let sum = sum_from(packet, Base::Data, packet.len(), sum).ok_or(DropReason::TooShort)?;
        icmp.checksum.set(sum.checksum());
        let mut header = [0; N];
        header[..INNER].copy_from_slice(icmp.as_bytes());
        template.prepend(packet, id, &header)
    }
}

impl Element for IcmpIpEncap {
    fn effects(&self) -> Effects {
        let inner = if self.has_times() { INNER + TIMES } else { INNER };
        let at = |offset, length: usize| bytes(Base::Transport, offset, length as u16);
        let mut actions =
            vec![constant(at(0, inner), &vec![0; inner]), constant(at(0, 2), &[self.kind, self.code])];
        if self.is_query() {
            actions.push(constant(at(4, 2), &self.identifier.to_be_bytes()));
            actions.push(identification(at(6, 2)));
        }
        self.outer.effects(inner, actions, Some(HeaderKind::Icmp))
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (mut id, has_times) = (self.id, self.has_times());
        let template = self.outer.template(cx);
        each(cx, batch, |packet| {
            let this = next_id(&mut id);
            match has_times {
                true => self.encapsulate::<{ INNER + TIMES }>(packet, &template, this),
                false => self.encapsulate::<INNER>(packet, &template, this),
            }
        });
        self.id = id;
    }
}

pub(super) const HANDLERS: &[Handler<IcmpIpEncap>] = &[
    Handler::data(
        "src",
        |e| e.outer.source.to_string(),
        |e, cx, text| {
            e.outer.source = value(cx, text, "syntax error")?;
            Ok(())
        },
    ),
    Handler::data(
        "dst",
        |e| e.outer.destination.show(),
        |e, cx, text| {
            e.outer.destination = Destination::Fixed(value(cx, text, "syntax error")?);
            Ok(())
        },
    ),
];
