//! # UDPIPEncap
//! Prepends IPv4 and UDP headers to each packet.
//!
//! Identifications are counted from 0, and the time to live is 250. The header annotations are set to the
//! new headers, and the destination address annotation to the destination.
//!
//! ## Usage
//! `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `SPORT`: the source port, by number or name.
//! - `DST`: the destination address, or `DST_ANNO` for the address in each packet's destination address
//!   annotation.
//! - `DPORT`: the destination port.
//! - `CHECKSUM`: if true, there is a UDP checksum.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses; `dst` shows 0.0.0.0 for `DST_ANNO`.
//! - `sport`, `dport`: the ports.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, domain) -> Discard
//! ```
//!
//! ## See also
//! IPEncap, ICMPIPEncap, SetUDPChecksum

use std::any::Any;
use std::net::Ipv4Addr;

use element::args::{ArgType, Raw, UdpPort};
use element::class::ArgInfo;
use element::effects::{Action, Field, HeaderKind, Number, Value, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use wire::checksum::{PseudoHeader, Sum};
use wire::{IntoBytes, U16, ip_protocol, ipv4, udp};

use super::{Destination, Outer, Template};
use crate::editing::{Fate, bytes, constant, each, missing, pure, sum_from};

/// The element class `UDPIPEncap`.
pub static CLASS: Class = Class {
    name: "UDPIPEncap",
    manual: manual!("udp_ip_encap.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("SPORT", "port"),
        ArgInfo::required("DST", "address or DST_ANNO"),
        ArgInfo::required("DPORT", "port"),
        ArgInfo::positional("CHECKSUM", "bool", "true"),
    ],
    table: &HANDLERS,
    samples: &["10.0.0.1, 1234, 10.0.0.2, domain", "10.0.0.1, 1234, DST_ANNO, 80, false"],
    reconfigures: true,
    build: |args| {
        let source: Option<Ipv4Addr> = args.get("SRC");
        let source_port = args.required::<UdpPort>("SPORT").0;
        let Raw(destination) = args.required("DST");
        let destination_port = args.required::<UdpPort>("DPORT").0;
        let checksum = args.value::<bool>("CHECKSUM");
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let destination = Destination::parse(&destination, &args.place());
        if destination.is_none() {
            args.error("bad DST");
        }
        args.finish()?;
        let destination = destination.unwrap_or(Destination::Annotation);
        Ok(Box::new(UdpIpEncap::new(source, destination, [source_port, destination_port], checksum, 0)))
    },
    ..Class::DEFAULT
};

/// The element of the classes UDPIPEncap and DynamicUDPIPEncap.
pub(super) struct UdpIpEncap {
    outer: Outer,
    /// The source port and the destination port.
    ports: [u16; 2],
    checksum: bool,
    id: u16,
    /// The number of packets after which both ports grow by one; 0 if they stay the same.
    interval: u32,
    /// The number of packets with the current ports, if they grow.
    sent: u32,
    /// The number by which both ports have grown.
    grown: u16,
}

const INNER: usize = udp::Header::LEN;

impl UdpIpEncap {
    pub(super) fn new(
        source: Ipv4Addr,
        destination: Destination,
        ports: [u16; 2],
        checksum: bool,
        interval: u32,
    ) -> UdpIpEncap {
        let outer = Outer::new(source, destination, ip_protocol::UDP, 250);
        UdpIpEncap { outer, ports, checksum, id: 0, interval, sent: 0, grown: 0 }
    }

    /// Returns the source port and the destination port of the next packet.
    #[inline]
    fn current_ports(&self) -> [u16; 2] {
        self.ports.map(|port| port.wrapping_add(self.grown))
    }

    /// Encapsulates packets with ports that grow after every `interval` packets.
    fn process_with_new_ports(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let template = self.outer.template(cx);
        each(cx, batch, |packet| {
            let sum = self.checksum.then(|| self.sum());
            self.encapsulate(packet, &template, sum, self.id)?;
            self.id = self.id.wrapping_add(1);
            self.sent += 1;
            if self.sent >= self.interval {
                (self.sent, self.grown) = (0, self.grown.wrapping_add(1));
            }
            Ok(())
        });
    }

    /// Returns the part of the UDP checksum's sum that is the same for all packets: over the pseudo header
    /// and the UDP header, without both length fields, and without the destination address if it comes from
    /// each packet's annotation.
    fn sum(&self) -> Sum {
        let fixed = match self.outer.destination {
            Destination::Fixed(address) => address,
            Destination::Annotation => Ipv4Addr::UNSPECIFIED,
        };
        let pseudo = PseudoHeader::V4 { source: self.outer.source, destination: fixed };
        let [source, destination] = self.current_ports();
        pseudo.sum(ip_protocol::UDP, 0).word(source).word(destination)
    }

    fn encapsulate(&self, packet: &mut Packet, template: &Template, sum: Option<Sum>, id: u16) -> Fate {
        let length = Template::total(packet, INNER)? - ipv4::Header::LEN as u16;
        let mut checksum = 0;
        if let Some(mut sum) = sum {
            if let Some(address) = template.annotated(packet) {
                sum = sum.bytes(&address);
            }
            let sum = sum.word(length).word(length);
            let sum = sum_from(packet, Base::Data, packet.len(), sum).ok_or(DropReason::TooShort)?;
            checksum = sum.udp_checksum();
        }
        let [source, destination] = self.current_ports();
        let words = [source, destination, length, checksum].map(U16::new);
        let mut header = [0; INNER];
        header.copy_from_slice(words.as_bytes());
        template.prepend(packet, id, &header)
    }
}

impl Element for UdpIpEncap {
    fn effects(&self) -> Effects {
        let length = Number::of(Field::Length).plus_constant(INNER as i64);
        let length = Action::Set(bytes(Base::Transport, 4, 2), Value::Number(length));
        // The checksum field is zero, unless the effects below declare that the checksum is recomputed.
        let checksum = constant(bytes(Base::Transport, 6, 2), &[0, 0]);
        let port = |field, number: u16| match self.interval {
            0 => constant(field, &number.to_be_bytes()),
            _ => pure(field, "growing port", &[]),
        };
        let [source, destination] = self.ports;
        let ports = [port(wire_field::SRC_PORT, source), port(wire_field::DST_PORT, destination)];
        let effects = self.outer.effects(
            INNER,
            ports.into_iter().chain([length, checksum]).collect(),
            self.checksum.then_some(HeaderKind::Udp),
        );
        if self.interval > 0 { effects.sharing("ports") } else { effects }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.interval > 0 {
            self.process_with_new_ports(cx, batch);
            return;
        }
        let mut id = self.id;
        let template = self.outer.template(cx);
        let sum = self.checksum.then(|| self.sum());
        each(cx, batch, |packet| {
            self.encapsulate(packet, &template, sum, id)?;
            id = id.wrapping_add(1);
            Ok(())
        });
        self.id = id;
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        (self.interval > 0).then(|| Box::new((self.sent, self.grown)) as Box<dyn Any + Send>)
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.sent, self.grown) = *state.downcast().map_err(|_| "the state of another class")?;
        Ok(())
    }
}

const HANDLERS: &[Handler<UdpIpEncap>] = &[
    Handler::argument(
        "src",
        "SRC",
        |e| e.outer.source.to_string(),
        |e, cx, text| {
            let source = Ipv4Addr::parse(text, &cx.place());
            e.outer.source = source.map_err(|reason| format!("SRC: {reason}"))?;
            Ok(())
        },
    ),
    Handler::argument(
        "dst",
        "DST",
        |e| match e.outer.destination {
            Destination::Annotation => Ipv4Addr::UNSPECIFIED.to_string(),
            destination => destination.show(),
        },
        |e, cx, text| {
            e.outer.destination = Destination::parse(text, &cx.place()).ok_or("bad DST")?;
            Ok(())
        },
    ),
    Handler::argument(
        "sport",
        "SPORT",
        |e| e.ports[0].to_string(),
        |e, cx, text| {
            let port = UdpPort::parse(text, &cx.place()).map_err(|reason| format!("SPORT: {reason}"))?;
            e.ports[0] = port.0;
            Ok(())
        },
    ),
    Handler::argument(
        "dport",
        "DPORT",
        |e| e.ports[1].to_string(),
        |e, cx, text| {
            let port = UdpPort::parse(text, &cx.place()).map_err(|reason| format!("DPORT: {reason}"))?;
            e.ports[1] = port.0;
            Ok(())
        },
    ),
];
