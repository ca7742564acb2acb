//! # CheckICMPHeader
//! Checks ICMP messages: their length, as far as their type fixes it, and their checksum.
//!
//! The element takes all bytes up to the end of the packet as the ICMP message. Put CheckIPHeader upstream:
//! it cuts link padding off, and sets the header annotations. Bad packets leave by output 1, or are dropped.
//! With DETAILS, a handler `drop_details` counts them by reason.
//!
//! ## Usage
//! `CheckICMPHeader([KEYWORDS])`
//!
//! ## Arguments
//! - `CHECKSUM`: true to check the checksum.
//! - `VERBOSE`: true to report every bad packet, not only the first.
//! - `DETAILS`: if true, there is a handler `drop_details`.
//!
//! ## Handlers
//! - `count`: good packets.
//! - `drops`: bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckIPHeader(14) -> CheckICMPHeader -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, CheckTCPHeader, CheckUDPHeader

use classify::IntervalSet;
use element::effects::{Filter, HeaderKind, Number, Predicate};
use element::{Base, Class, DropReason, Effects, Packet, manual};
use wire::checksum::Sum;
use wire::{FromBytes, icmp, ip_protocol, ipv4};

use super::check_tcp_header::{self, ipv4_of};
use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{bytes, checked, ipv4_of_protocol, length_from, rest_from, sum_from};

/// The element class `CheckICMPHeader`.
pub static CLASS: Class = Class {
    name: "CheckICMPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_icmp_header.rs"),
    args: check_tcp_header::ARGS,
    table: &Checker::<CheckIcmpHeader>::HANDLERS,
    state: Checker::<CheckIcmpHeader>::STATE,
    samples: &["", "CHECKSUM false, DETAILS true, VERBOSE true -> 1/2"],
    build: |args| {
        let checksum = args.value::<bool>("CHECKSUM");
        Checker::boxed(args, &CLASS, CheckIcmpHeader { checksum })
    },
    ..Class::DEFAULT
};

struct CheckIcmpHeader {
    checksum: bool,
}

/// True if an ICMP message with this header can have `length` bytes (RFC 792). Errors quote at least an IP
/// header and 8 bytes, time stamp messages have three numbers of 4 bytes, information messages have no data.
fn length_fits(header: &icmp::Header, length: usize) -> bool {
    use icmp::kind::{INFORMATION, INFORMATION_REPLY, TIME_STAMP, TIME_STAMP_REPLY};
    match header.kind {
        _ if header.is_error() => length >= icmp::Header::LEN + ipv4::Header::LEN + 8,
        TIME_STAMP | TIME_STAMP_REPLY => length == icmp::Header::LEN + 12,
        INFORMATION | INFORMATION_REPLY => length == icmp::Header::LEN,
        _ => true,
    }
}

impl HeaderCheck for CheckIcmpHeader {
    const REASONS: Reasons = &[
        ("not ICMP", DropReason::BadTransportHeader),
        ("bad packet length", DropReason::BadTransportHeader),
        ("bad ICMP checksum", DropReason::BadTransportChecksum),
    ];
    const MESSAGE: &'static str = "ICMP header check failed";
    const SPEAKER: Speaker = Speaker::Declaration;

    fn effects(&self) -> Effects {
        let length = || rest_from(Base::Transport);
        let at_least = |n| Predicate::at_most(Number::constant(n), length());
        let exactly = |n| at_least(n).and([Predicate::at_most(length(), Number::constant(n))]);
        let mut well_formed = vec![ipv4_of_protocol(ip_protocol::ICMP), Predicate::present(HeaderKind::Icmp)];
        for (kinds, fits) in
            [(&[3, 4, 5, 11, 12][..], at_least(36)), (&[13, 14], exactly(20)), (&[15, 16], exactly(8))]
        {
            let each = kinds.iter().map(|&kind| IntervalSet::one(kind, kind));
            let set = each.fold(IntervalSet::empty(), |all, one| all.union(&one));
            let of_kind =
                Filter::Leaf(Predicate::In { field: bytes(Base::Transport, 0, 1), mask: u128::MAX, set });
            well_formed.push(Filter::Any(vec![of_kind.not(), fits]));
        }
        let mut sound = vec![(Filter::All(well_formed), DropReason::BadTransportHeader)];
        if self.checksum {
            let right = Filter::Leaf(Predicate::RightChecksum {
                header: HeaderKind::Icmp,
                base: Base::Transport,
                offset: 0,
            });
            sound.push((right, DropReason::BadTransportChecksum));
        }
        checked(sound, Vec::new())
    }

    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        ipv4_of(packet, ip_protocol::ICMP).ok_or(0usize)?;
        let length = length_from(packet, Base::Transport).ok_or(1usize)?;
        let header = packet.header(Base::Transport).ok_or(1usize)?;
        let Ok((icmp, _)) = icmp::Header::ref_from_prefix(header) else { return Err(1) };
        if !length_fits(icmp, length) {
            return Err(1);
        }
        if self.checksum && !sum_from(packet, Base::Transport, length, Sum::new()).ok_or(1usize)?.is_valid() {
            return Err(2);
        }
        Ok(())
    }
}
