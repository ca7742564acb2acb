//! # ICMPError
//! Answers each IPv4 packet with an ICMP error message that quotes it (RFC 792, 1122 and 1812).
//!
//! No errors are sent about ICMP errors, fragments other than the first, packets to more than one host (to a
//! broadcast or multicast address, or by link-level broadcast or multicast), or packets whose source is no
//! host, and no redirects about source-routed packets; such packets are dropped. Other messages about a
//! source-routed packet take the reverse route, unless they report an error in the route option. The
//! message's annotations are the destination address, the time, and the request for a new source (see
//! FixIPSrc).
//!
//! ## Usage
//! `ICMPError(SRC, TYPE [, CODE, BADADDRS, KEYWORDS])`
//!
//! ## Arguments
//! - `SRC`: the source address of the messages.
//! - `TYPE`: the type of the messages, by number or name (`timeexceeded`, `unreachable`,
//!   `parameterproblem`, `redirect`, `sourcequench`).
//! - `CODE`: the code of the messages, by number or name.
//! - `BADADDRS`: broadcast addresses, separated by spaces: no errors about packets to or from them.
//! - `MTU`: the length of the longest message in bytes; quotes are cut.
//! - `PMTU`: the next hop's MTU in messages of type `unreachable` and code `needfrag`.
//! - `SET_FIX_ANNO`: true to set the annotation that requests a new source from FixIPSrc.
//!
//! ## Handlers
//! - `src`: the source address.
//! - `mtu`, `pmtu`: the arguments.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> ttl :: DecIPTTL -> Discard;
//! ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard
//! ```
//!
//! ## See also
//! FixIPSrc, ICMPPingResponder, DecIPTTL, IPGWOptions

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use element::class::ArgInfo;
use element::effects::{DST_IP, Depends, HeaderKind};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use packet::{Annotations, MAX_PACKET, PacketKind};
use wire::icmp::kind;
use wire::ipv4::option;
use wire::{FromBytes, IntoBytes, U16, U32, checksum, icmp, ip_protocol, ipv4};

use super::{answer, declared, quote};
use crate::editing::{missing, value};
use crate::encap::icmp_ip_encap::{parse_code, parse_kind};
use crate::ip::Addresses;

/// The element class `ICMPError`.
pub static CLASS: Class = Class {
    name: "ICMPError",
    manual: manual!("icmp_error.rs"),
    args: &[
        ArgInfo::required("SRC", "address"),
        ArgInfo::required("TYPE", "0-255 or a name"),
        ArgInfo::positional("CODE", "0-255 or a name", "0"),
        ArgInfo::positional("BADADDRS", "addresses", ""),
        ArgInfo::keyword("MTU", "unsigned", "576"),
        ArgInfo::keyword("PMTU", "0-0xffff", "0"),
        ArgInfo::keyword("SET_FIX_ANNO", "bool", "true"),
    ],
    table: &HANDLERS,
    samples: &[
        "10.0.0.1, timeexceeded",
        "10.0.0.1, unreachable, needfrag, 10.255.255.255, MTU 1500, PMTU 1400, SET_FIX_ANNO false",
        "10.0.0.1, parameterproblem",
        "10.0.0.1, redirect, host",
    ],
    reconfigures: true,
    build: |args| {
        let source: Option<Ipv4Addr> = args.get("SRC");
        let kind: String = args.required("TYPE");
        let code = args.value::<String>("CODE");
        let Addresses(bad) = args.get("BADADDRS").unwrap_or_default();
        let mtu = args.value::<u32>("MTU");
        let next_mtu = args.value::<u16>("PMTU");
        let sets_wish = args.value::<bool>("SET_FIX_ANNO");
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let number = parse_kind(&kind, &args.place());
        match number {
            None => args.error("ICMP type must be between 0 and 255"),
            Some(number) if !is_error(number) => {
                args.error(format!("ICMP type {number} is not an error type"));
            }
            Some(_) => {}
        }
        let kind = number.unwrap_or(kind::UNREACHABLE);
        let code = parse_code(kind, &code, &args.place());
        if code.is_none() {
            args.error("argument 2 takes ICMP code (integer between 0 and 255)");
        }
        args.finish()?;
        // All ICMPErrors of a graph share one counter of IP identifications. Services are published under
        // element ids; the counter is published under an id that no element has, because it belongs to no
        // single element.
        let ids = args.setup.service::<Ids>(element::ElementId::MAX).unwrap_or_default();
        args.setup.publish(element::ElementId::MAX, Arc::clone(&ids));
        let code = code.unwrap_or(0);
        let bytes = Vec::with_capacity(mtu.min(MAX_PACKET as u32) as usize);
        Ok(Box::new(IcmpError { source, kind, code, bad, mtu, next_mtu, sets_wish, ids, bytes }))
    },
    ..Class::DEFAULT
};

/// The counter of the IP identifications of messages, shared by all ICMPErrors of a graph.
#[derive(Default)]
struct Ids(AtomicU16);

impl Ids {
    /// Returns the identification of the next message, starting with 1.
    fn next(&self) -> u16 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

struct IcmpError {
    source: Ipv4Addr,
    kind: u8,
    code: u8,
    /// The addresses of BADADDRS, which are broadcast addresses: no errors are sent about packets to or
    /// from them.
    bad: Vec<u32>,
    mtu: u32,
    next_mtu: u16,
    sets_wish: bool,
    ids: Arc<Ids>,
    /// The buffer in which messages are written, kept to avoid allocations.
    bytes: Vec<u8>,
}

fn is_error(kind: u8) -> bool {
    let header = icmp::Header { kind, code: 0, checksum: 0.into(), identifier: 0.into(), sequence: 0.into() };
    header.is_error()
}

/// Returns the first source route option of an IPv4 header whose pointer is valid: its offset in the
/// header, and its bytes. Returns `None` if there is none, or if options are malformed ahead of it.
fn source_route(header: &[u8]) -> Option<(usize, &[u8])> {
    let mut at = ipv4::Header::LEN;
    loop {
        match header.get(at..)? {
            [option::END, ..] => return None,
            [option::NOP, ..] => at += 1,
            [kind, length, ..] => {
                let bytes = header.get(at..at + usize::from(*length)).filter(|bytes| bytes.len() >= 2)?;
                let pointer = usize::from(bytes.get(2).copied().unwrap_or(0));
                let sound = pointer >= 4 && pointer.is_multiple_of(4) && pointer <= bytes.len() + 1;
                if sound && matches!(*kind, option::LOOSE_SOURCE_ROUTE | option::STRICT_SOURCE_ROUTE) {
                    return Some((at, bytes));
                }
                at += bytes.len();
            }
            _ => return None,
        }
    }
}

impl IcmpError {
    /// True unless an address is a multicast or broadcast address, as far as this is known (255.255.255.255
    /// and BADADDRS).
    fn is_unicast(&self, address: u32) -> bool {
        let class_d = address >> 28 == 0xe;
        address != u32::MAX && !class_d && !self.bad.contains(&address)
    }

    /// True if an address can be the source of a packet from a single host: unicast, and not in 0.0.0.0/8,
    /// 127.0.0.0/8 or 240.0.0.0/4.
    fn is_sender(&self, address: u32) -> bool {
        let network = address >> 24;
        self.is_unicast(address) && !matches!(network, 0 | 127) && network & 0xf0 != 0xf0
    }

    /// Writes the message about a packet into the buffer, and returns its destination. Returns `None` if no
    /// message may be sent about the packet, or if it has no complete IPv4 header.
    fn message_about(&mut self, packet: &Packet) -> Option<Ipv4Addr> {
        let quoted = packet.header(Base::Network)?;
        let (ip, _) = ipv4::Header::ref_from_prefix(quoted).ok().filter(|(ip, _)| ip.version() == 4)?;
        let header = quoted.get(..ip.header_len().max(ipv4::Header::LEN))?;
        if ip.protocol == ip_protocol::ICMP && is_error(*quoted.get(header.len()).unwrap_or(&kind::REDIRECT))
        {
            return None;
        }
        let shared = matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast);
        let one_to_one = self.is_unicast(ip.destination.get()) && self.is_sender(ip.source.get());
        if shared || !one_to_one || ip.fragment_offset() > 0 {
            return None;
        }
        let route = source_route(header);
        if route.is_some() && self.kind == kind::REDIRECT {
            return None;
        }
        let problem = packet.annotations().u8(Annotations::ICMP_PARAM);
        let (to, gateway) = (ip.source_addr(), packet.destination());
        self.bytes.clear();
        self.bytes.resize(ipv4::Header::LEN, 0);
        self.write_route_back(route, problem);
        let header_length = self.bytes.len();
        self.write_icmp(problem, gateway);
        quote(&mut self.bytes, packet, self.mtu as usize);
        let total = u16::try_from(self.bytes.len()).ok()?;
        let ip = ipv4::Header {
            version_ihl: 0x40 | (header_length / 4) as u8,
            tos: 0,
            total_length: U16::new(total),
            id: U16::new(self.ids.next()),
            fragment: U16::new(0),
            ttl: 200,
            protocol: ip_protocol::ICMP,
            checksum: U16::new(0),
            source: U32::new(self.source.to_bits()),
            destination: U32::new(to.to_bits()),
        };
        self.bytes[..ipv4::Header::LEN].copy_from_slice(ip.as_bytes());
        let (header, message) = self.bytes.split_at_mut(header_length);
        checksum::fill_ipv4(header).ok()?;
        checksum::fill_icmp(message).ok()?;
        Some(to)
    }

    /// Appends an option with the reverse of the packet's source route to the IPv4 header in the buffer.
    /// Appends nothing if the packet has no source route option, or if the message reports an error in this
    /// option (`problem` is the offset of the wrong byte in the packet's IPv4 header).
    fn write_route_back(&mut self, route: Option<(usize, &[u8])>, problem: u8) {
        let Some((at, option)) = route else { return };
        let pointer = usize::from(option[2]);
        let is_problem = self.kind == kind::PARAMETER_PROBLEM
            && self.code == 0
            && (at..at + option.len()).contains(&usize::from(problem));
        if is_problem {
            return;
        }
        // The pointer (which counts from 1) is at the next address, so the addresses ahead of it have been
        // visited.
        let visited = option.get(3..pointer - 1).unwrap_or_default();
        self.bytes.extend_from_slice(&[option[0], (pointer - 1) as u8, 4]);
        visited.as_chunks::<4>().0.iter().rev().for_each(|address| self.bytes.extend_from_slice(address));
        self.bytes.push(option::END);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), option::END);
    }

    /// Appends the ICMP header, with the pointer, gateway or MTU that the type needs. `problem` is the
    /// pointer of a parameter problem, and `gateway` the address that a redirect names.
    fn write_icmp(&mut self, problem: u8, gateway: [u8; 4]) {
        let needs_fragments = self.kind == kind::UNREACHABLE && self.code == 4;
        let [a, b, c, d] = match self.kind {
            kind::PARAMETER_PROBLEM if self.code == 0 => [problem, 0, 0, 0],
            kind::REDIRECT => gateway,
            _ if needs_fragments => u32::from(self.next_mtu).to_be_bytes(),
            _ => [0; 4],
        };
        let header = icmp::Header {
            kind: self.kind,
            code: self.code,
            checksum: U16::new(0),
            identifier: U16::from_bytes([a, b]),
            sequence: U16::from_bytes([c, d]),
        };
        self.bytes.extend_from_slice(header.as_bytes());
    }

    /// Drops a packet, and returns the message about it. Returns `None` if no message may be sent, or if
    /// there is no memory for it.
    fn answer(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let Some(destination) = self.message_about(&packet) else {
            cx.drop(packet, DropReason::Unsuitable);
            return None;
        };
        let header_length = self.bytes.first().map_or(0, |first| usize::from(first & 15) * 4);
        let mut message = answer(cx, packet, &self.bytes, header_length)?;
        let annotations = message.annotations_mut();
        annotations.set_array4(Annotations::DST_IP, destination.octets());
        annotations.set_u8(Annotations::FIX_IP_SRC, self.sets_wish.into());
        Some(message)
    }
}

impl Element for IcmpError {
    fn effects(&self) -> Effects {
        declared("ICMP error", HeaderKind::Ipv4, DST_IP)
            .depending_on(Depends::Counter)
            .depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.answer(cx, packet));
    }
}

const HANDLERS: &[Handler<IcmpError>] = &[
    Handler::data(
        "src",
        |e| e.source.to_string(),
        |e, cx, text| {
            e.source = value(cx, text, "expected IP address")?;
            Ok(())
        },
    ),
    Handler::data(
        "mtu",
        |e| e.mtu.to_string(),
        |e, cx, text| {
            e.mtu = value(cx, text, "expected integer")?;
            Ok(())
        },
    ),
    Handler::data(
        "pmtu",
        |e| e.next_mtu.to_string(),
        |e, cx, text| {
            e.next_mtu = value(cx, text, "expected integer")?;
            Ok(())
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_routes_that_make_no_sense_are_passed_over() {
        let found = |options: &[u8]| {
            let header = [&[0; ipv4::Header::LEN][..], options].concat();
            source_route(&header).map(|(at, bytes)| (at, bytes.len()))
        };
        assert_eq!(found(&[1, 131, 7, 4, 9, 9, 9, 9]), Some((21, 7)));
        assert_eq!(found(&[137, 7, 8, 9, 9, 9, 9, 0]), Some((20, 7)), "all visited");
        assert_eq!(found(&[131, 7, 5, 9, 9, 9, 9, 0]), None);
        assert_eq!(found(&[131, 7, 12, 9, 9, 9, 9, 0]), None, "beyond its end");
        assert_eq!(found(&[131, 2, 137, 7, 4, 9, 9, 9, 9, 0, 0, 0]), Some((22, 7)), "without a pointer");
        assert_eq!(found(&[131, 9, 4, 9]), None, "longer than the header");
    }
}
