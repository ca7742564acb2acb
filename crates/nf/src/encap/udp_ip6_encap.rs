//! # UDPIP6Encap
//! Prepends IPv6 and UDP headers to each packet.
//!
//! The hop limit is 255, and there is always a UDP checksum, as IPv6 demands. The header annotations are set
//! to the new headers, and the destination address annotation to the destination.
//!
//! ## Usage
//! `UDPIP6Encap(SRC, SPORT, DST, DPORT)`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `SPORT`: the source port, by number or name.
//! - `DST`: the destination address, or `DST_ANNO` for the address in each packet's destination address
//!   annotation.
//! - `DPORT`: the destination port.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses; `dst` shows `DST_ANNO` for the annotation.
//! - `sport`, `dport`: the ports.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIP6Encap(2001:db8::1, 1234, 2001:db8::2, domain) -> Discard
//! ```
//!
//! ## See also
//! IP6Encap, UDPIPEncap

use std::net::Ipv6Addr;

use element::args::{ArgType, Raw, UdpPort};
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Checksum, DST_IP6, Depends, Field, HeaderKind, Number, Predicate, Target, Value,
};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use packet::Annotations;
use wire::checksum::PseudoHeader;
use wire::{IntoBytes, U16, ip_protocol, ipv6, udp};

use super::ip6_encap::read_destination;
use crate::editing::{Fate, bytes, constant, each, header_at, missing, otherwise, sum_from, value};

/// The element class `UDPIP6Encap`.
pub static CLASS: Class = Class {
    name: "UDPIP6Encap",
    manual: manual!("udp_ip6_encap.rs"),
    args: &[
        ArgInfo::required("SRC", "IPv6 address"),
        ArgInfo::required("SPORT", "port"),
        ArgInfo::required("DST", "IPv6 address or DST_ANNO"),
        ArgInfo::required("DPORT", "port"),
    ],
    table: &HANDLERS,
    samples: &["2001:db8::1, 1234, 2001:db8::2, domain", "2001:db8::1, 1234, DST_ANNO, 80"],
    reconfigures: true,
    build: |args| {
        let source: Option<Ipv6Addr> = args.get("SRC");
        let source_port = args.required::<UdpPort>("SPORT").0;
        let Raw(destination) = args.required("DST");
        let destination_port = args.required::<UdpPort>("DPORT").0;
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let destination = read_destination(&destination, &args.place());
        if let Err(reason) = destination {
            args.error(reason);
        }
        args.finish()?;
        let destination = destination.unwrap_or_default();
        Ok(Box::new(UdpIp6Encap { source, destination, ports: [source_port, destination_port] }))
    },
    ..Class::DEFAULT
};

/// The length of both headers.
const LEN: usize = ipv6::Header::LEN + udp::Header::LEN;
const HOP_LIMIT: u8 = 255;

struct UdpIp6Encap {
    source: Ipv6Addr,
    /// The destination of all packets; `None` to take it from each packet's destination address annotation.
    destination: Option<Ipv6Addr>,
    /// The source port and the destination port.
    ports: [u16; 2],
}

impl UdpIp6Encap {
    fn encapsulate(&self, packet: &mut Packet) -> Fate {
        let length = u16::try_from(packet.len() + udp::Header::LEN).map_err(|_| DropReason::TooLong)?;
        let destination = match self.destination {
            Some(address) => {
                packet.annotations_mut().set_array(Annotations::DST_IP, address.octets());
                address
            }
            None => Ipv6Addr::from(packet.annotations().array::<16>(Annotations::DST_IP)),
        };
        let [from, to] = self.ports;
        let pseudo = PseudoHeader::V6 { source: self.source, destination };
        let sum = pseudo.sum(ip_protocol::UDP, usize::from(length)).word(from).word(to).word(length);
        let sum = sum_from(packet, Base::Data, packet.len(), sum).ok_or(DropReason::TooShort)?;
        let outer = ipv6::Header {
            version_class_flow: [0x60, 0, 0, 0].into(),
            payload_length: U16::new(length),
            next_header: ip_protocol::UDP,
            hop_limit: HOP_LIMIT,
            source: self.source.octets(),
            destination: destination.octets(),
        };
        let mut header = [0; LEN];
        header[..ipv6::Header::LEN].copy_from_slice(outer.as_bytes());
        let words = [from, to, length, sum.udp_checksum()].map(U16::new);
        header[ipv6::Header::LEN..].copy_from_slice(words.as_bytes());
        if !packet.prepend(&header) {
            return Err(DropReason::NoHeadroom);
        }
        packet.set_headers(0, ipv6::Header::LEN);
        Ok(())
    }
}

impl Element for UdpIp6Encap {
    fn effects(&self) -> Effects {
        let length = Number::of(Field::Length).plus_constant(udp::Header::LEN as i64);
        let fits = Predicate::at_most(length.clone(), Number::constant(u16::MAX.into()));
        let network = |offset, length| bytes(Base::Network, offset, length);
        let transport = |offset| bytes(Base::Transport, offset, 2);
        let [from, to] = self.ports.map(u16::to_be_bytes);
        let mut actions = vec![
            Action::Strip(-(LEN as i32)),
            header_at(Base::Network, 0),
            header_at(Base::Transport, ipv6::Header::LEN),
            constant(network(0, 4), &[0x60, 0, 0, 0]),
            Action::Set(network(4, 2), Value::Number(length.clone())),
            constant(network(6, 2), &[ip_protocol::UDP, HOP_LIMIT]),
            constant(network(8, 16), &self.source.octets()),
        ];
        match self.destination {
            Some(address) => {
                actions.push(constant(network(24, 16), &address.octets()));
                actions.push(constant(DST_IP6, &address.octets()));
            }
            None => actions.push(Action::Set(network(24, 16), Value::Copy(DST_IP6))),
        }
        actions.extend([
            constant(transport(0), &from),
            constant(transport(2), &to),
            Action::Set(transport(4), Value::Number(length)),
            constant(transport(6), &[0; 2]),
        ]);
        let too_long = Case::new(fits.not(), Target::Drop(DropReason::TooLong));
        let encap = Case { checksum: Checksum::Recomputed(vec![HeaderKind::Udp]), ..otherwise(actions) };
        Effects::cases(vec![too_long, encap]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each(cx, batch, |packet| self.encapsulate(packet));
    }
}

/// Returns the number of a port that is written to the handler of the argument `name`.
fn port(name: &str, cx: &Cx<'_>, text: &str) -> Result<u16, String> {
    UdpPort::parse(text, &cx.place()).map(|port| port.0).map_err(|reason| format!("{name}: {reason}"))
}

const HANDLERS: &[Handler<UdpIp6Encap>] = &[
    Handler::argument(
        "src",
        "SRC",
        |e| e.source.to_string(),
        |e, cx, text| {
            e.source = value(cx, text, "expected IPv6 address")?;
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
    Handler::argument(
        "sport",
        "SPORT",
        |e| e.ports[0].to_string(),
        |e, cx, text| {
            e.ports[0] = port("SPORT", cx, text)?;
            Ok(())
        },
    ),
    Handler::argument(
        "dport",
        "DPORT",
        |e| e.ports[1].to_string(),
        |e, cx, text| {
            e.ports[1] = port("DPORT", cx, text)?;
            Ok(())
        },
    ),
];
