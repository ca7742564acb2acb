//! # ICMPRewriter
//! Translates ICMP errors about packets that translators have changed (RFC 5508).
//!
//! An ICMP error quotes the packet that it is about. If that is a packet of a mapping of one of the MAPS, the quotation is
//! changed to what the packet was before, and so is the error's destination address if the quoted packet came from there.
//! All checksums are updated: those of both IP headers, of the error, and, where it is quoted, of the quoted transport
//! header. The packet then leaves by output 0, or by an output that goes with the mapping's, if the map has an offset.
//!
//! Errors are: destination unreachable, source quench, redirect, time exceeded, parameter problem. Other ICMP packets, and
//! errors about packets without a mapping, leave by output 1 if there are two outputs and no map has an offset; otherwise
//! they are dropped. Packets other than ICMP are dropped. Header annotations must be set.
//!
//! ## Usage
//! `ICMPRewriter(MAPS [, KEYWORDS])`
//!
//! ## Arguments
//! - `MAPS`: names of translators, in one argument, each with `:OFFSET` behind it or not: with it, a packet leaves by the
//!   output of its mapping plus OFFSET.
//! - `DST_ANNO`: whether the destination annotation becomes the new destination, if there is one.
//! - `REPLY_ANNO`: an annotation byte that errors about the reply get from the first packet of the flow.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> Discard;
//! Idle -> ICMPRewriter(rw) -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter, ICMPPingRewriter, ICMPError

use std::sync::Arc;

use element::args::{AnnotationOffset, Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{Case, DST_IP, Depends, Effects, Field, Filter, Header, State, Target, wire_field};
use element::{
    Args, Base, Batch, Class, Cx, DropReason, Element, ElementId, Invalid, Packet, Timestamp, manual,
};
use packet::BATCH_CAPACITY;
use wire::checksum::Delta;
use wire::{FromBytes, icmp, ip_protocol, ipv4};

use crate::editing::{annotation, bytes, is_marked, needs, pure, when};
use crate::sorting::{Fate, Sorter};

use super::flavour::set_next_hop;
use super::pattern::words;
use super::rewriter::{Published, Quoted};
use super::tuple::Tuple;

/// The class.
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
    samples: &[],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let Raw(text) = args.required("MAPS");
    let sets_next_hop = args.or("DST_ANNO", true);
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
    /// What is added to the mapping's output; output 0 if there is none.
    offset: Option<usize>,
    published: Option<Arc<Published>>,
}

struct IcmpRewriter {
    maps: Vec<Map>,
    sets_next_hop: bool,
    reply_annotation: Option<usize>,
    /// Whether output 1 is for what has no mapping.
    has_aside: bool,
    outputs: usize,
    sorter: Sorter,
    fates: Vec<Fate>,
}

/// Where the quoted packet's transport header starts, from that of its IP header.
fn quoted_transport(ip: &ipv4::Header) -> Option<usize> {
    let length = ip.header_len();
    (ip.version() == 4 && length >= ipv4::Header::LEN).then_some(length)
}

/// What is quoted behind the IP header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Ports,
    Identifier,
    Nothing,
}

/// What an error says about the packet that it quotes: the tuple of those that answer it.
struct Error {
    protocol: u8,
    answer: Tuple,
    behind: Behind,
    transport: usize,
}

/// Reads an ICMP error, from the ICMP header on.
fn read(message: &[u8]) -> Option<Error> {
    let (head, quoted) = icmp::Header::ref_from_prefix(message).ok()?;
    if !head.is_error() {
        return None;
    }
    let (ip, _) = ipv4::Header::ref_from_prefix(quoted).ok()?;
    let transport = quoted_transport(ip)?;
    let behind = quoted.get(transport..).unwrap_or_default();
    let mut answer = Tuple {
        source: ip.destination.get(),
        destination: ip.source.get(),
        source_port: 0,
        destination_port: 0,
    };
    let number = |at: usize| u16::from_be_bytes([behind[at], behind[at + 1]]);
    let is_first = ip.fragment_offset() == 0;
    let kind = match ip.protocol {
        ip_protocol::TCP | ip_protocol::UDP | ip_protocol::DCCP if is_first && behind.len() >= 8 => {
            (answer.source_port, answer.destination_port) = (number(2), number(0));
            Behind::Ports
        }
        ip_protocol::ICMP if is_first && behind.len() >= 6 && behind[0] == icmp::kind::ECHO => {
            answer.source_port = number(4);
            Behind::Identifier
        }
        _ => Behind::Nothing,
    };
    Some(Error { protocol: ip.protocol, answer, behind: kind, transport })
}

/// Puts a number of 16 bits into a message; how a sum over it changes.
fn exchange(bytes: &mut [u8], at: usize, new: u16) -> Delta {
    let Some(place) = bytes.get_mut(at..at + 2) else { return Delta::default() };
    let old = u16::from_be_bytes([place[0], place[1]]);
    place.copy_from_slice(&new.to_be_bytes());
    Delta::u16(old, new)
}

/// Updates a checksum in a message; how a sum over it changes. `apply` knows what zero means in it.
fn sum_in(bytes: &mut [u8], at: usize, change: Delta, apply: impl Fn(Delta, u16) -> u16) -> Delta {
    let Some(&[a, b]) = bytes.get(at..at + 2).and_then(|place| place.first_chunk()) else {
        return Delta::default();
    };
    exchange(bytes, at, apply(change, u16::from_be_bytes([a, b])))
}

/// Changes the quotation in an ICMP error, and the error's checksum.
fn requote(message: &mut [u8], error: &Error, source: u32, destination: u32, ports: (u16, u16)) {
    let (head, quoted) = message.split_at_mut(icmp::Header::LEN);
    let Ok((ip, _)) = ipv4::Header::mut_from_prefix(quoted) else { return };
    let addresses = Delta::u32(ip.source.get(), source) + Delta::u32(ip.destination.get(), destination);
    ip.source.set(source);
    ip.destination.set(destination);
    let old = ip.checksum.get();
    let new = addresses.apply(old);
    ip.checksum.set(new);
    let mut change = addresses + Delta::u16(old, new);
    let behind = quoted.get_mut(error.transport..).unwrap_or_default();
    match error.behind {
        Behind::Ports => {
            let both = exchange(behind, 0, ports.0) + exchange(behind, 2, ports.1);
            let all = addresses + both;
            change = change + both;
            match error.protocol {
                ip_protocol::TCP => change = change + sum_in(behind, 16, all, Delta::apply),
                ip_protocol::UDP => change = change + sum_in(behind, 6, all, Delta::apply_udp),
                _ => {}
            }
        }
        Behind::Identifier => {
            let identifier = exchange(behind, 4, ports.0);
            change = change + identifier + sum_in(behind, 2, identifier, Delta::apply);
        }
        Behind::Nothing => {}
    }
    sum_in(head, 2, change, Delta::apply);
}

impl IcmpRewriter {
    fn aside(&self, reason: DropReason) -> Fate {
        if self.has_aside { Fate::Output(1) } else { Fate::Drop(reason) }
    }

    /// The first map that has a mapping, and what it says.
    fn find(&self, error: &Error, now: Timestamp) -> Option<(Option<usize>, Quoted)> {
        self.maps.iter().find_map(|map| {
            let quoted = map.published.as_ref()?.find(error.protocol, error.answer, now)?;
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
        let Some(error) = read(message) else { return self.aside(DropReason::NoMapping) };
        let Some((offset, quoted)) = self.find(&error, now) else { return self.aside(DropReason::NoMapping) };
        let or = |new: u32, old: u32| if new == 0 { old } else { new };
        // Those who translate one address only say nothing of the other.
        let old_source = or(quoted.to.destination, error.answer.destination);
        let old_destination = or(quoted.to.source, error.answer.source);
        let ports = match (quoted.has_ports, error.behind) {
            (true, _) => (quoted.to.destination_port, quoted.to.source_port),
            // A translator of addresses leaves ports and identifiers as they are.
            (false, Behind::Identifier) => (error.answer.source_port, 0),
            (false, _) => (error.answer.destination_port, error.answer.source_port),
        };
        if let Some(message) = packet.header_mut(Base::Transport) {
            requote(message, &error, old_source, old_destination, ports);
        }
        if destination == error.answer.destination {
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
        let is_icmp = Filter::equals(wire_field::IP_PROTOCOL, ip_protocol::ICMP.into());
        let state = State {
            table: "mappings of others",
            key: vec![bytes(Base::Transport, 16, 16)],
            both_directions: true,
            access: element::effects::Access::Read,
        };
        let cases = vec![
            needs(Header::Ipv4),
            Case::new(is_marked(Base::Transport).not(), Target::Drop(DropReason::NoHeader)),
            Case::new(is_icmp.not(), Target::Drop(DropReason::Unsuitable)),
            translated,
            Case::new(Filter::Any, aside),
        ];
        let reason = "the mappings are those of other elements";
        Effects { state: vec![state], opaque: Some(reason), ..Effects::cases(cases) }
            .depending_on(Depends::Time)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut errors = Vec::new();
        for map in &mut self.maps {
            let Some(published) = cx.service::<Published>(map.element) else {
                errors.push(format!("{} not an IP rewriter", cx.name_of(map.element)));
                continue;
            };
            if let Some(offset) = map.offset.filter(|offset| offset + published.outputs > self.outputs) {
                let (name, n) = (cx.name_of(map.element), self.outputs);
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
