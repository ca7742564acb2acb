//! # DecIPTTL
//! Decrements the IPv4 time to live and updates the header checksum (RFC 1624).
//!
//! Packets whose time to live is 0 or 1 leave by output 1 unchanged, or are dropped. The network header
//! annotation must be set; packets without it are dropped.
//!
//! ## Usage
//! `DecIPTTL([KEYWORDS])`
//!
//! ## Arguments
//! - `ACTIVE`: if false, packets pass unchanged.
//! - `MULTICAST`: if false, packets to multicast addresses pass unchanged.
//!
//! ## Handlers
//! - `drops`: packets that expired.
//! - `active`: true if the time to live is decremented.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> DecIPTTL -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader

use crate::editing::aside;
use classify::IntervalSet;
use element::class::ArgInfo;
use element::effects::{
    Action, Case, Counting, Depends, Filter, HeaderKind, Predicate, Target, Value, wire_field,
};
use element::{
    Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Tally, manual,
};
use wire::{FromBytes, checksum, ipv4};

/// The element class `DecIPTTL`.
pub static CLASS: Class = Class {
    name: "DecIPTTL",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("dec_ip_ttl.rs"),
    args: &[ArgInfo::keyword("ACTIVE", "bool", "true"), ArgInfo::keyword("MULTICAST", "bool", "true")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["", " -> 1/2", "MULTICAST false -> 1/2", "ACTIVE false"],
    build: |args| {
        let element =
            DecIpTtl { active: args.value("ACTIVE"), multicast: args.value("MULTICAST"), expired: 0 };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct DecIpTtl {
    active: bool,
    multicast: bool,
    expired: u64,
}

/// Decrements a packet's time to live, and updates the checksum. If `multicast` is false, packets to
/// multicast addresses stay unchanged. The error is the reason for which the packet cannot be forwarded: no
/// IP header, or the time to live has expired.
#[inline]
pub(super) fn decrement(packet: &mut Packet, multicast: bool) -> Result<(), DropReason> {
    let header =
        packet.header_chunk_mut::<{ ipv4::Header::LEN }>(Base::Network).ok_or(DropReason::NoHeader)?;
    let Ok(ip) = ipv4::Header::mut_from_bytes(header) else { return Err(DropReason::NoHeader) };
    if !multicast && ip.destination_addr().is_multicast() {
        return Ok(());
    }
    if ip.ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    checksum::decrement_ttl(ip);
    Ok(())
}

impl Element for DecIpTtl {
    fn effects(&self) -> Effects {
        let ttl = wire_field::IP_TTL;
        let missing = Filter::Not(Box::new(Predicate::present(HeaderKind::Ipv4)));
        let mut cases = vec![Case::new(missing, Target::Drop(DropReason::NoHeader))];
        if !self.multicast {
            let set = IntervalSet::one(0xe000_0000, 0xefff_ffff);
            let multicast = Filter::Leaf(Predicate::In { field: wire_field::IP_DST, mask: u128::MAX, set });
            cases.push(Case::new(multicast, Target::Output(0)));
        }
        let expired =
            Filter::Leaf(Predicate::In { field: ttl.clone(), mask: 0xff, set: IntervalSet::one(0, 1) });
        cases.push(aside(expired, DropReason::TtlExpired));
        cases.push(
            Case::new(Filter::TRUE, Target::Output(0))
                .with(Action::Set(ttl.clone(), Value::Plus(ttl, -1)))
                .updating(&[HeaderKind::Ipv4]),
        );
        // A handler can switch the element on at any time. So the cases of the active element are declared
        // even if it is switched off.
        if !self.active {
            cases.insert(0, Case::new(Filter::TRUE, Target::Output(0)));
        }
        Effects::cases(cases).depending_on(Depends::Handler).counting(Counting::Tallied)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        let multicast = self.multicast;
        let expired = &mut self.expired;
        batch.sift(
            |packet| decrement(packet, multicast),
            |packet, reason| match reason {
                DropReason::TtlExpired => {
                    *expired += 1;
                    cx.emit_one(1, packet, reason);
                }
                _ => cx.drop(packet, reason),
            },
        );
    }

    fn tally(&mut self, tally: &Tally) {
        // The index of the case for expired packets in the element's effects. This case comes after the case
        // for packets without a header, and after the case for multicast packets if there is one.
        let expired = 1 + usize::from(!self.multicast);
        if self.active && tally.case == expired {
            self.expired += tally.packets;
        }
    }

    element::keeps!(expired);
}

const HANDLERS: &[Handler<DecIpTtl>] =
    &[Handler::count("drops", |e| e.expired), Handler::flag("active", |e| &mut e.active, "expected boolean")];
