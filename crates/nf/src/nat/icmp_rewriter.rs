//! # ICMPRewriter
//! Translates ICMP errors about packets that translators have changed (RFC 5508).
//!
//! An ICMP error quotes the packet that it is about. If the quoted packet belongs to a mapping of one of
//! the MAPS, the quotation is changed to the packet before translation, and so is the error's destination
//! address if it was the source of the quoted packet. All checksums are updated: in both IP headers, in the
//! error, and, if it is quoted, in the quoted transport header. The packet then leaves by output 0 or, if
//! the map has an offset, by the output of its mapping plus the offset.
//!
//! Errors are: destination unreachable, source quench, redirect, time exceeded, parameter problem. Other
//! ICMP packets, and errors about packets without a mapping, leave by output 1 if there are two outputs and
//! no map has an offset; otherwise they are dropped. Packets other than ICMP are dropped. Header
//! annotations must be set.
//!
//! ## Usage
//! `ICMPRewriter(MAPS [, KEYWORDS])`
//!
//! ## Arguments
//! - `MAPS`: names of translators, in one argument, each optionally followed by `:OFFSET`: a packet then
//!   leaves by the output of its mapping plus OFFSET.
//! - `DST_ANNO`: true to set the destination annotation to the new destination, if there is one.
//! - `REPLY_ANNO`: an annotation byte that errors about the reply get from the flow's first packet.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) ->
//! Discard; Idle -> ICMPRewriter(rw) -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter, ICMPPingRewriter, ICMPError

use std::sync::Arc;

use element::args::{AnnotationOffset, Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{
    Case, DST_IP, Depends, Effects, Field, Filter, HeaderKind, Predicate, State, Target, wire_field,
};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Element, ElementId, Invalid, Packet, StatePart, Timestamp,
    manual,
};
use packet::BATCH_CAPACITY;
use wire::checksum::Delta;
use wire::{FromBytes, ip_protocol, ipv4};

use crate::editing::{annotation, bytes, is_marked, needs, pure, when};
use crate::quotation::{Behind, Quotation};
use crate::sorting::{Fate, Sorter};

use super::flavour::set_next_hop;
use super::pattern::words;
use super::published::{Published, Quoted};
use super::tuple::Tuple;

/// The element class `ICMPRewriter`.
pub static CLASS: Class = Class {
    name: "ICMPRewriter",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("icmp_rewriter.rs"),
    args: &[
        ArgInfo::required("MAPS", "elements"),
        ArgInfo::keyword("DST_ANNO", "bool", "true"),
        ArgInfo::keyword("REPLY_ANNO", "annotation", ""),
    ],
    state: &[StatePart::kept("mappings of other elements", &[])],
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let Raw(text) = args.required("MAPS");
    let sets_next_hop = args.value::<bool>("DST_ANNO");
    let reply_annotation = args.get("REPLY_ANNO").map(|AnnotationOffset::<1>(offset)| offset);
    args.finish()?;
    let mut maps = Vec::new();
    for word in words(&text) {
        let (name, offset) = match word.split_once(':') {
            Some((name, offset)) => (name, parse_integer(offset).ok().map(|n| usize::try_from(n).ok())),
            None => (&word[..], Some(None)),
        };
        match (args.place().element(name), offset) {
            (Some(element), Some(offset)) => maps.push(Map { element, offset, published: None }),
            _ => args.error(format!("{name} not an IP rewriter")),
        }
    }
    args.finish()?;
    if maps.is_empty() {
        args.error("no IP rewriters supplied");
    }
    args.finish()?;
    let outputs = args.outputs();
    let has_aside = outputs == 2 && maps.iter().all(|map| map.offset.is_none());
    Ok(Box::new(IcmpRewriter {
        maps,
        sets_next_hop,
        reply_annotation,
        has_aside,
        outputs,
        sorter: Sorter::new(outputs),
        fates: Vec::with_capacity(BATCH_CAPACITY),
    }))
}

struct Map {
    element: ElementId,
    /// The number that is added to the output of the mapping's packets. With `None`, translated errors
    /// leave by output 0.
    offset: Option<usize>,
    published: Option<Arc<Published>>,
}

struct IcmpRewriter {
    maps: Vec<Map>,
    sets_next_hop: bool,
    reply_annotation: Option<usize>,
    /// True if errors about packets without a mapping, and other ICMP packets, leave by output 1; otherwise
    /// they are dropped.
    has_aside: bool,
    outputs: usize,
    sorter: Sorter,
    fates: Vec<Fate>,
}

/// Returns the tuple of a packet that answers the quoted packet, by which mappings are looked up.
fn answer(quotation: &Quotation) -> Tuple {
    let (source_port, destination_port) = match quotation.behind {
        // Translators of ICMP queries expect the identifier of the quoted packet as the source port.
        Behind::Identifier => (quotation.ports.0, 0),
        _ => (quotation.ports.1, quotation.ports.0),
    };
    Tuple { source: quotation.destination, destination: quotation.source, source_port, destination_port }
}

impl IcmpRewriter {
    fn aside(&self, reason: DropReason) -> Fate {
        if self.has_aside { Fate::Output(1) } else { Fate::Drop(reason) }
    }

    /// Returns the data of the mapping to which a quoted packet belongs, and the OFFSET that MAPS gives for
    /// its translator; the first translator that has a mapping is used. Returns `None` if there is none.
    fn find(&self, quotation: &Quotation, now: Timestamp) -> Option<(Option<usize>, Quoted)> {
        let (what, answer) = ((quotation.protocol, quotation.behind), answer(quotation));
        self.maps.iter().find_map(|map| {
            let quoted = map.published.as_ref()?.find(what, answer, now)?;
            Some((map.offset, quoted))
        })
    }

    fn handle(&self, packet: &mut Packet, now: Timestamp) -> Fate {
        let Some(network) = packet.header(Base::Network) else { return Fate::Drop(DropReason::NoHeader) };
        let Ok((ip, _)) = ipv4::Header::ref_from_prefix(network) else {
            return Fate::Drop(DropReason::NoHeader);
        };
        if packet.offset(Base::Transport).is_none() {
            return Fate::Drop(DropReason::NoHeader);
        }
        let (destination, is_first) = (ip.destination.get(), ip.fragment_offset() == 0);
        if ip.protocol != ip_protocol::ICMP {
            return Fate::Drop(DropReason::Unsuitable);
        }
        let message = packet.header(Base::Transport).filter(|_| is_first).unwrap_or_default();
        let Some(quotation) = Quotation::read(message) else { return self.aside(DropReason::NoMapping) };
        let Some((offset, quoted)) = self.find(&quotation, now) else {
            return self.aside(DropReason::NoMapping);
        };
        let or = |new: u32, old: u32| if new == 0 { old } else { new };
        // The mapping has zero for an address that the translator does not change. The address of the quoted
        // packet is then kept.
        let old_source = or(quoted.to.destination, quotation.source);
        let old_destination = or(quoted.to.source, quotation.destination);
        let ports = match quoted.has_ports {
            true => (quoted.to.destination_port, quoted.to.source_port),
            // A translator of addresses only does not change ports and identifiers.
            false => quotation.ports,
        };
        if let Some(message) = packet.header_mut(Base::Transport) {
            quotation.change(message, old_source, old_destination, ports);
        }
        if destination == quotation.source {
            if let Ok(ip) = crate::editing::ipv4(packet) {
                let change = Delta::u32(destination, old_source);
                ip.destination.set(old_source);
                ip.checksum.set(change.apply(ip.checksum.get()));
            }
            if self.sets_next_hop {
                set_next_hop(packet, old_source);
            }
        }
        if let Some(offset) = self.reply_annotation.filter(|_| quoted.is_reply) {
            packet.annotations_mut().set_u8(offset, quoted.annotation);
        }
        Fate::Output(offset.map_or(0, |offset| offset + quoted.output))
    }
}

impl Element for IcmpRewriter {
    fn effects(&self) -> Effects {
        let aside = if self.has_aside { Target::Output(1) } else { Target::Drop(DropReason::NoMapping) };
        let message = [Field::Payload, Field::Length, Field::HeaderOffset(Base::Transport)];
        let mut reads = message.to_vec();
        reads.extend([wire_field::IP_DST, wire_field::IP_CHECKSUM, wire_field::IP_FRAGMENT]);
        let mut actions = vec![
            pure(Field::Payload, "quotation", &reads),
            pure(wire_field::IP_DST, "old source", &reads),
            pure(wire_field::IP_CHECKSUM, "checksum", &reads),
        ];
        if self.sets_next_hop {
            actions.push(pure(DST_IP, "old source", &[reads.clone(), vec![DST_IP]].concat()));
        }
        if let Some(offset) = self.reply_annotation {
            let own = annotation(offset, 1);
            actions.push(pure(own.clone(), "annotation", &[reads.clone(), vec![own]].concat()));
        }
        let somewhere = if self.outputs == 1 { Target::Output(0) } else { Target::SomeOutput };
        let translated = Case { actions, ..when("quotes a packet of a mapping", &reads, somewhere) };
        let is_icmp = Predicate::equals(wire_field::IP_PROTOCOL, ip_protocol::ICMP.into());
        let state = State {
            table: "mappings of other elements",
            key: vec![bytes(Base::Transport, 16, 16)],
            both_directions: true,
            access: element::effects::StateAccess::Read,
        };
        let cases = vec![
            needs(HeaderKind::Ipv4),
            Case::new(is_marked(Base::Transport).not(), Target::Drop(DropReason::NoHeader)),
            Case::new(is_icmp.not(), Target::Drop(DropReason::Unsuitable)),
            translated,
            Case::new(Filter::TRUE, aside),
        ];
        let reason = "other elements own the mappings";
        let beside = self.maps.iter().map(|map| map.element).collect();
        Effects { state: vec![state], opaque: Some(reason), beside, ..Effects::cases(cases) }
            .depending_on(Depends::Time)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut errors = Vec::new();
        for map in &mut self.maps {
            let Some(published) = cx.graph().service::<Published>(map.element) else {
                errors.push(format!("{} not an IP rewriter", cx.graph().name_of(map.element)));
                continue;
            };
            if let Some(offset) = map.offset.filter(|offset| offset + published.outputs > self.outputs) {
                let (name, n) = (cx.graph().name_of(map.element), self.outputs);
                let outputs = if n == 1 { "output" } else { "outputs" };
                errors.push(format!("{name}:{offset} port offset requires more than {n} {outputs}"));
            }
            map.published = Some(published);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let mut fates = std::mem::take(&mut self.fates);
        fates.clear();
        let now = cx.now();
        fates.extend(batch.iter_mut().map(|packet| self.handle(packet, now)));
        let mut each = fates.iter().copied();
        let lost = Fate::Drop(DropReason::NoOutput);
        let rest = self.sorter.send(cx, batch, |_, _| each.next().unwrap_or(lost));
        self.fates = fates;
        rest
    }
}
