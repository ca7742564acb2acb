//! # ICMP6Error
//! Answers each IPv6 packet with an ICMPv6 error message or redirect about it (RFC 4443, RFC 4861).
//!
//! The message quotes as much of the packet as fits into a message of MTU bytes. No messages are sent about
//! ICMPv6 errors and redirects, about packets to more than one host (to a multicast address, or by link-level
//! broadcast or multicast), or about packets whose source is no single host; such packets are dropped.
//! Packets to more than one host are still answered by messages of type 2 (packet too big), and of type 4
//! with code 2 (unknown option). This element does not limit the rate of messages: put a RatedSplitter
//! downstream.
//!
//! The network header annotation must be set. The message's annotations are the destination address, the
//! time, and the request for a new source.
//!
//! ## Usage
//! `ICMP6Error(SRC, TYPE, CODE [, KEYWORDS])`
//!
//! ## Arguments
//! - `SRC`: the source address of the messages.
//! - `TYPE`: 1 destination unreachable, 2 packet too big, 3 time exceeded, 4 parameter problem, 137
//!   redirect.
//! - `CODE`: the code of the messages.
//! - `PMTU`: the next hop's MTU in messages of type 2.
//! - `MTU`: the length of the longest message in bytes; quotes are cut.
//!
//! The pointer of parameter problems is the parameter problem annotation. A redirect announces the address
//! in the destination address annotation, which must be the address of the better first hop or of the
//! destination itself; it quotes the packet in a redirected header option.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIP6Header(OFFSET 14) -> hops :: DecIP6HLIM -> Discard;
//! hops[1] -> ICMP6Error(2001:db8::1, 3, 0) -> RatedSplitter(100) -> Discard
//! ```
//!
//! ## See also
//! DecIP6HLIM, CheckLength, LookupIP6Route, IP6NDSolicitor, ICMPError

use std::net::Ipv6Addr;

use element::class::ArgInfo;
use element::effects::{DST_IP6, HeaderKind};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::{Annotations, MAX_PACKET, PacketKind};
use wire::checksum::PseudoHeader;
use wire::icmpv6::{self, kind};
use wire::{FromBytes, IntoBytes, U16, U32, checksum, ip_protocol, ipv6};

use super::{answer, declared, quote};
use crate::editing::missing;

/// The element class `ICMP6Error`.
pub static CLASS: Class = Class {
    name: "ICMP6Error",
    manual: manual!("icmp6_error.rs"),
    args: &[
        ArgInfo::required("SRC", "IPv6 address"),
        ArgInfo::required("TYPE", "1, 2, 3, 4 or 137"),
        ArgInfo::required("CODE", "0-255"),
        ArgInfo::keyword("PMTU", "unsigned", "1500"),
        ArgInfo::keyword("MTU", "unsigned", "1280"),
    ],
    samples: &[
        "2001:db8::1, 3, 0",
        "2001:db8::1, 2, 0, PMTU 1400, MTU 100",
        "2001:db8::1, 4, 2",
        "fe80::1, 137, 0",
    ],
    build: |args| {
        let source: Option<Ipv6Addr> = args.get("SRC");
        let kind: i32 = args.required("TYPE");
        let code: i32 = args.required("CODE");
        let next_mtu = args.value::<u32>("PMTU");
        // The default, 1280 bytes, is the minimum MTU of IPv6 links (RFC 8200, section 5). Error messages
        // must not be longer (RFC 4443, section 2.4 c).
        let mtu = args.value::<u32>("MTU");
        let Some(source) = source else { return missing(args, "SRC") };
        args.finish()?;
        let is_known = u8::try_from(kind).is_ok_and(|kind| is_error(kind) || kind == kind::REDIRECT);
        if source.is_unspecified() || kind < 0 || code < 0 {
            args.error("not configured -a");
        } else if !is_known {
            args.error(format!("ICMP6 type {kind} is not an error or redirect type"));
        } else if code > 255 {
            args.error("ICMP6 code must be between 0 and 255");
        }
        args.finish()?;
        let mtu = (mtu as usize).min(MAX_PACKET);
        let (kind, code) = (kind as u8, code as u8);
        Ok(Box::new(Icmp6Error { source, kind, code, next_mtu, mtu, bytes: Vec::with_capacity(mtu) }))
    },
    ..Class::DEFAULT
};

/// The type of the option in which a redirect quotes the packet (RFC 4861, section 4.6.3).
const REDIRECTED_HEADER: u8 = 4;
/// The number of bytes of the redirected header option ahead of the quoted packet.
const REDIRECTED_HEADER_LEN: usize = 8;

struct Icmp6Error {
    source: Ipv6Addr,
    kind: u8,
    code: u8,
    next_mtu: u32,
    mtu: usize,
    /// The buffer in which messages are written, kept to avoid allocations.
    bytes: Vec<u8>,
}

/// True for the ICMPv6 error types that the element sends, 1 to 4. A redirect is not an error.
fn is_error(kind: u8) -> bool {
    (kind::UNREACHABLE..=kind::PARAMETER_PROBLEM).contains(&kind)
}

/// True if a packet is an ICMPv6 error or redirect, or can be one. Later ICMPv6 fragments, and packets that
/// end before the type, count as errors, because their type is not known.
fn may_be_error(ip: &ipv6::Header, payload: &[u8]) -> bool {
    let upper = ipv6::upper_layer(ip.next_header, payload);
    if upper.protocol != ip_protocol::ICMPV6 {
        return false;
    }
    let is_later = upper.fragment.is_some_and(|fragment| fragment.offset() > 0);
    // All types below 128 are errors (RFC 4443, section 2.1), also unknown ones.
    let told = |kind: u8| kind < 128 || kind == kind::REDIRECT;
    is_later || payload.get(upper.offset).is_none_or(|&kind| told(kind))
}

/// True if an address can be the source of a packet from a single host: not multicast, `::` or `::1`.
fn is_sender(address: Ipv6Addr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

impl Icmp6Error {
    /// True if messages of this type and code are also sent about packets to a multicast address or by
    /// link-level multicast or broadcast (RFC 4443, section 2.4 e.3).
    fn answers_groups(&self) -> bool {
        let unknown_option = self.kind == kind::PARAMETER_PROBLEM && self.code == 2;
        self.kind == kind::PACKET_TOO_BIG || unknown_option
    }

    /// Writes the message about a packet into the buffer, and returns its destination. Returns `None` if no
    /// message may be sent about the packet, or if it is not IPv6.
    fn message_about(&mut self, packet: &Packet) -> Option<Ipv6Addr> {
        let (ip, payload) = ipv6::Header::ref_from_prefix(packet.header(Base::Network)?).ok()?;
        if ip.version() != 6 {
            return None;
        }
        let shared = matches!(packet.kind(), PacketKind::Broadcast | PacketKind::Multicast)
            || ip.destination_addr().is_multicast();
        let to = ip.source_addr();
        if shared && !self.answers_groups() || !is_sender(to) || may_be_error(ip, payload) {
            return None;
        }
        self.bytes.clear();
        self.bytes.resize(ipv6::Header::LEN, 0);
        let detail = match self.kind {
            kind::PACKET_TOO_BIG => self.next_mtu,
            kind::PARAMETER_PROBLEM => packet.annotations().u8(Annotations::ICMP_PARAM).into(),
            _ => 0,
        };
        let [upper, lower] = [detail >> 16, detail & 0xffff].map(|half| U16::new(half as u16));
        let (kind, code) = (self.kind, self.code);
        let header = icmpv6::Header { kind, code, checksum: U16::new(0), identifier: upper, sequence: lower };
        self.bytes.extend_from_slice(header.as_bytes());
        if self.kind == kind::REDIRECT {
            self.write_redirect(packet, ip);
        } else {
            quote(&mut self.bytes, packet, self.mtu);
        }
        let length = self.bytes.len().checked_sub(ipv6::Header::LEN)?;
        let ip = ipv6::Header {
            version_class_flow: U32::new(6 << 28),
            payload_length: U16::new(u16::try_from(length).ok()?),
            next_header: ip_protocol::ICMPV6,
            // Redirects with a lower hop limit are ignored (RFC 4861, section 8.1).
            hop_limit: 255,
            source: self.source.octets(),
            destination: to.octets(),
        };
        let (header, message) = self.bytes.split_at_mut(ipv6::Header::LEN);
        header.copy_from_slice(ip.as_bytes());
        checksum::fill_icmpv6(&PseudoHeader::from(&ip), message).ok()?;
        Some(to)
    }

    /// Appends the body of a redirect to the ICMPv6 header in the buffer: the better first hop, the
    /// destination, and the option with the packet.
    fn write_redirect(&mut self, packet: &Packet, ip: &ipv6::Header) {
        let target: [u8; 16] = packet.annotations().array(Annotations::DST_IP);
        self.bytes.extend_from_slice(&target);
        self.bytes.extend_from_slice(&ip.destination);
        let option = self.bytes.len();
        self.bytes.extend_from_slice(&[REDIRECTED_HEADER, 0, 0, 0, 0, 0, 0, 0]);
        quote(&mut self.bytes, packet, self.mtu.max(option + REDIRECTED_HEADER_LEN));
        // The length of an option is a byte, in units of eight bytes, so the quoted packet is cut to whole
        // units.
        let units = ((self.bytes.len() - option) / 8).min(usize::from(u8::MAX));
        self.bytes.truncate(option + units * 8);
        self.bytes[option + 1] = units as u8;
    }

    /// Drops a packet, and returns the message about it. Returns `None` if no message may be sent, or if
    /// there is no memory for it.
    fn answer(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Option<Packet> {
        let Some(destination) = self.message_about(&packet) else {
            cx.drop(packet, DropReason::Unsuitable);
            return None;
        };
        let mut message = answer(cx, packet, &self.bytes, ipv6::Header::LEN)?;
        let annotations = message.annotations_mut();
        annotations.set_array(Annotations::DST_IP, destination.octets());
        annotations.set_u8(Annotations::FIX_IP_SRC, 1);
        Some(message)
    }
}

impl Element for Icmp6Error {
    fn effects(&self) -> Effects {
        declared("ICMPv6 message", HeaderKind::Ipv6, DST_IP6)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.replace_each(|packet| self.answer(cx, packet));
    }
}
