//! # AggregateIP
//! Sets the aggregate annotation to a field of the IPv4, TCP, UDP or ICMP header.
//!
//! FIELD begins with a header: `ip`, `tcp`, `udp`, `icmp`, `transp` for any transport header, `payload` ...
//! It may be followed by the name of one of its fields, and by a range (`[BYTE]`, `[BYTE:COUNT]`,
//! `[FIRST-LAST]`, in braces for bits). The ports `sport` and `dport` need no header. A prefix length or a
//! mask may follow. Examples are `ip src/8`, `ip[12:2]`, `tcp flags` and `udp dport & 0xff00`.
//!
//! Packets that do not have the field go to output 1, or are dropped. They have no IPv4 header or are too
//! short. For fields after the IP header, they may also be later fragments or packets of another protocol.
//!
//! ## Usage
//! `AggregateIP(FIELD [, KEYWORDS])`
//!
//! ## Arguments
//! - `FIELD`: the field.
//! - `INCREMENTAL`: if true, shifts the packet's aggregate left by the width of the field and adds the
//!   field.
//! - `UNSHIFT_IP_ADDR`: if true, parts of addresses keep their bit position in the address.
//!
//! ## Handlers
//! - `field`: the field.
//! - `header`: the name of the header; empty for IP, and for a protocol that is given by a number and has no
//!   name here.
//! - `bit_offset`, `bit_length`: the field's position in the header and its length, in bits.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> MarkIPHeader -> AggregateIP(ip src/16) -> AggregateCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateLength, AggregateCounter

use crate::editing::refused;
use element::args::Raw;
use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, manual};
use lang::args::unquote;
use wire::{FromBytes, ip_protocol, ipv4};

use super::ip_field::{IpField, Part};
use super::{Source, annotate, combined};

/// The element class `AggregateIP`.
pub static CLASS: Class = Class {
    name: "AggregateIP",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_ip.rs"),
    args: &[
        ArgInfo::required("FIELD", "field"),
        ArgInfo::keyword("INCREMENTAL", "bool", "false"),
        ArgInfo::keyword("UNSHIFT_IP_ADDR", "bool", "false"),
    ],
    table: &HANDLERS,
    samples: &[
        "ip src/16",
        "udp dport, INCREMENTAL true -> 1/2",
        "ip dst/8, UNSHIFT_IP_ADDR true",
        "payload[0]",
    ],
    build: |args| {
        let Raw(text) = args.required("FIELD");
        let incremental = args.value::<bool>("INCREMENTAL");
        let unshift = args.value::<bool>("UNSHIFT_IP_ADDR");
        args.finish()?;
        let text = unquote(&text);
        let field = match IpField::parse(&text) {
            Ok((_, rest)) if !rest.is_empty() => Err("garbage after field specification"),
            Ok((field, _)) if field.length > 32 => Err("field length too large, max 32"),
            Ok((field, _)) if field.offset / 32 != (field.offset + field.length - 1) / 32 => {
                Err("field specification does not fit within a single word")
            }
            Ok((field, _)) if incremental && field.length == 32 => {
                Err("'INCREMENTAL' is incompatible with field length 32")
            }
            Ok((field, _)) => Ok(field),
            Err(reason) => Err(reason),
        };
        let field = match field {
            Ok(field) => field,
            Err(reason) => {
                args.error(reason);
                return Err(Invalid);
            }
        };
        let is_address = field.part == Part::Ip && (96..160).contains(&field.offset);
        Ok(Box::new(AggregateIp { field, incremental, unshift: unshift && is_address }))
    },
    ..Class::DEFAULT
};

struct AggregateIp {
    field: IpField,
    incremental: bool,
    unshift: bool,
}

impl AggregateIp {
    /// Returns the aggregate number of a packet: the value of the field, combined with the old aggregate if
    /// the element is incremental.
    ///
    /// # Errors
    /// The reason why the packet does not have the field.
    fn number(&self, packet: &Packet) -> Result<u32, DropReason> {
        let network = packet.header(Base::Network).ok_or(DropReason::NoHeader)?;
        let (ip, _) = ipv4::Header::ref_from_prefix(network).map_err(|_| DropReason::NoHeader)?;
        let right = match self.field.part {
            Part::Ip | Part::Transport => true,
            Part::Protocol(number) => ip.protocol == number,
            Part::TcpUdp | Part::Payload => matches!(ip.protocol, ip_protocol::TCP | ip_protocol::UDP),
        };
        if self.field.part != Part::Ip && (!right || ip.fragment_offset() != 0) {
            return Err(DropReason::NoMatch);
        }
        let base = if self.field.part == Part::Ip { Base::Network } else { Base::Transport };
        let mut header = packet.header(base).ok_or(DropReason::NoHeader)?;
        if self.field.part == Part::Payload {
            let length = match ip.protocol {
                ip_protocol::UDP => 8,
                _ => header.get(12).map_or(usize::MAX, |offset| usize::from(offset >> 4) * 4),
            };
            header = header.get(length..).unwrap_or_default();
        }
        let start = (self.field.offset / 32 * 4) as usize;
        let word = header.get(start..).and_then(|bytes| bytes.first_chunk::<4>());
        let word = u32::from_be_bytes(*word.ok_or(DropReason::TooShort)?);
        let behind = 32 - (self.field.offset % 32 + self.field.length);
        let mask = u32::MAX >> (32 - self.field.length);
        let value = if self.unshift { word & (mask << behind) } else { word >> behind & mask };
        Ok(combined(packet, self.field.length, value, self.incremental))
    }
}

impl Element for AggregateIp {
    fn effects(&self) -> Effects {
        let word = (self.field.offset / 32 * 4) as i32;
        let mut reads = vec![Field::Length, Field::HeaderOffset(Base::Network)];
        match self.field.part {
            Part::Ip => reads.push(Field::Bytes { base: Base::Network, offset: word, length: 4 }),
            part => {
                let at = Field::Bytes { base: Base::Transport, offset: word, length: 4 };
                reads.extend([
                    wire_field::IP_PROTOCOL,
                    wire_field::IP_FRAGMENT,
                    Field::HeaderOffset(Base::Transport),
                ]);
                reads.push(if part == Part::Payload { Field::Payload } else { at });
            }
        }
        let lacks = [DropReason::NoHeader, DropReason::NoMatch, DropReason::TooShort];
        let mut cases: Vec<Case> =
            lacks.into_iter().map(|reason: DropReason| refused(reason.as_str(), &reads, reason)).collect();
        cases.push(Source { name: "header field", reads }.case(Filter::TRUE, self.incremental));
        Effects::cases(cases)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        annotate(cx, batch, |packet| self.number(packet));
    }
}

const HANDLERS: &[Handler<AggregateIp>] = &[
    Handler::get("header", |e| e.field.header().to_string()),
    Handler::get("bit_offset", |e| e.field.offset.to_string()),
    Handler::get("bit_length", |e| e.field.length.to_string()),
    Handler::get("field", |e| e.field.to_string()),
];
