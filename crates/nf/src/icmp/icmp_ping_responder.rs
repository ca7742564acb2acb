//! # ICMPPingResponder
//! Turns ICMP echo requests into replies.
//!
//! Addresses are swapped, the time to live becomes 255, the ICMP code and the IP fragment field become 0,
//! and checksums are updated. The destination address annotation becomes the new destination, the paint 0,
//! and the time stamp the current time. Other packets leave by output 1, or are dropped. The network and
//! transport header annotations must be set.
//!
//! ## Usage
//! `ICMPPingResponder`
//!
//! ## Example
//! ```click
//! ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 1) -> ICMPPingResponder -> Discard
//! ```
//!
//! ## See also
//! ICMPPingSource, ICMPError, IPMirror

use element::effects::{
    Action, DST_IP, Depends, Field, Filter, HeaderKind, PAINT, Predicate, Value, wire_field,
};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, Timestamp, manual};
use packet::Annotations;
use wire::checksum::{Delta, Sum};
use wire::icmp::kind;
use wire::{FromBytes, icmp, ip_protocol};

use crate::editing::{Fate, bytes, checked, constant, each_or_aside, ipv4, sum_from};

/// The element class `ICMPPingResponder`.
pub static CLASS: Class = Class {
    name: "ICMPPingResponder",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("icmp_ping_responder.rs"),
    samples: &["", " -> 1/2"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(IcmpPingResponder))
    },
    ..Class::DEFAULT
};

struct IcmpPingResponder;

/// Returns the first two bytes of an ICMP header, type and code, as a number for checksum updates.
fn first_word(kind: u8, code: u8) -> u16 {
    u16::from_be_bytes([kind, code])
}

fn icmp_header(packet: &mut Packet) -> Option<&mut icmp::Header> {
    let bytes = packet.header_chunk_mut::<{ icmp::Header::LEN }>(Base::Transport)?;
    icmp::Header::mut_from_bytes(bytes).ok()
}

/// Turns an ICMP echo request into the reply, in place, with the time stamp `now`. Other packets get the
/// error `NoMatch`, or `NoHeader` without an IPv4 header, and are not changed.
fn respond(packet: &mut Packet, now: Timestamp) -> Fate {
    if ipv4(packet)?.protocol != ip_protocol::ICMP {
        return Err(DropReason::NoMatch);
    }
    let icmp = icmp_header(packet).ok_or(DropReason::NoMatch)?;
    if icmp.kind != kind::ECHO {
        return Err(DropReason::NoMatch);
    }
    let delta = Delta::u16(first_word(icmp.kind, icmp.code), first_word(kind::ECHO_REPLY, 0));
    (icmp.kind, icmp.code) = (kind::ECHO_REPLY, 0);
    let checksum = delta.apply(icmp.checksum.get());
    icmp.checksum.set(checksum);
    if checksum == 0 {
        // An updated checksum of zero can stand for both zeros of ones' complement. If all other bytes of
        // the message are zero, too, the checksum must be 0xffff.
        let length = crate::editing::length_from(packet, Base::Transport).unwrap_or(0);
        let sum = sum_from(packet, Base::Transport, length, Sum::new());
        if sum.is_some_and(|sum| sum.folded() == 0)
            && let Some(icmp) = icmp_header(packet)
        {
            icmp.checksum.set(u16::MAX);
        }
    }
    let ip = ipv4(packet)?;
    std::mem::swap(&mut ip.source, &mut ip.destination);
    let delta = Delta::u16(ip.fragment.get(), 0)
        + Delta::u16(first_word(ip.ttl, ip.protocol), first_word(u8::MAX, ip.protocol));
    ip.fragment.set(0);
    ip.ttl = u8::MAX;
    ip.checksum.set(delta.apply(ip.checksum.get()));
    let destination = ip.destination.to_bytes();
    let annotations = packet.annotations_mut();
    annotations.set_array4(Annotations::DST_IP, destination);
    annotations.set_u8(Annotations::PAINT, 0);
    packet.set_time(now);
    Ok(())
}

impl Element for IcmpPingResponder {
    fn effects(&self) -> Effects {
        let kind = bytes(Base::Transport, 0, 1);
        let word = bytes(Base::Transport, 0, 2);
        // If the updated checksum is zero, its value depends on all bytes of the message, which a declared
        // update cannot express.
        let all = Filter::Leaf(Predicate::Opaque {
            about: "whole message",
            reads: vec![Field::Payload, Field::Length],
        });
        let header = Predicate::present(HeaderKind::Ipv4);
        let request = Filter::All(vec![
            Predicate::present(HeaderKind::Icmp),
            Predicate::equals(wire_field::IP_PROTOCOL, ip_protocol::ICMP.into()),
            Predicate::equals(kind, kind::ECHO.into()),
            all,
        ]);
        let mut actions = crate::ip::swapped(wire_field::IP_SRC, wire_field::IP_DST).to_vec();
        actions.extend([
            constant(wire_field::IP_FRAGMENT, &[0, 0]),
            constant(wire_field::IP_TTL, &[u8::MAX]),
            constant(word, &[kind::ECHO_REPLY, 0]),
            Action::Set(DST_IP, Value::Copy(wire_field::IP_SRC)),
            constant(PAINT, &[0]),
            Action::Set(Field::TimeStamp, Value::Now),
        ]);
        let mut effects =
            checked(vec![(header, DropReason::NoHeader), (request, DropReason::NoMatch)], actions);
        if let Some(answer) = effects.cases.pop() {
            effects.cases.push(answer.updating(&[HeaderKind::Ipv4, HeaderKind::Icmp]));
        }
        effects.depending_on(Depends::Time)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        each_or_aside(cx, batch, |packet| respond(packet, now));
    }
}

#[cfg(test)]
mod tests {
    use wire::build::Builder;
    use wire::checksum;

    use super::*;

    #[test]
    fn replies_are_what_a_builder_makes() {
        let mut pool = packet::Pool::new(64 << 20).unwrap();
        let address = |last| std::net::IpAddr::from([10, 0, 0, last]);
        for payload in [&b""[..], b"x", b"ping data", &[0xff; 50]] {
            let request = Builder::icmp(address(1), address(2), 8, 3, [7, 9]).id(5).ttl(9).fragment(0x4000);
            let reply = Builder::icmp(address(2), address(1), 0, 0, [7, 9]).id(5).ttl(255);
            let mut packet = pool.packet(&request.build(payload).unwrap()).unwrap();
            packet.set_headers(0, 20);
            assert_eq!(respond(&mut packet, Timestamp(77)), Ok(()));
            assert_eq!(packet.data(), reply.build(payload).unwrap(), "{payload:?}");
            assert_eq!(packet.time(), Timestamp(77));
            assert_eq!(respond(&mut packet, Timestamp(78)), Err(DropReason::NoMatch), "a reply");
            pool.free(packet);
        }
        let nothing = Builder::icmp(address(1), address(2), 8, 0, [0, 0]).build(&[]).unwrap();
        let mut packet = pool.packet(&nothing).unwrap();
        packet.set_headers(0, 20);
        assert_eq!(respond(&mut packet, Timestamp(77)), Ok(()));
        assert_eq!(packet.data()[20..], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(checksum::ipv4_valid(&packet.data()[..20]));
        pool.free(packet);
    }
}
