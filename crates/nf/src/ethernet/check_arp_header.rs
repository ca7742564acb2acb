//! # CheckARPHeader
//! Checks that ARP headers are as long as their addresses need, and Ethernet and IP addresses as long as they
//! must be.
//!
//! For good packets, the network header annotation is set to the ARP header, and the transport header
//! annotation to the first byte after it. Bad packets go to output 1, or are dropped. With DETAILS, a
//! handler `drop_details` shows their counts by reason.
//!
//! ## Usage
//! `CheckARPHeader([OFFSET, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the ARP header.
//! - `VERBOSE`: if true, reports every bad packet, not only the first.
//! - `DETAILS`: if true, there is a handler `drop_details`.
//!
//! ## Handlers
//! - `count`: the number of good packets.
//! - `drops`: the number of bad packets.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckARPHeader(14) -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, Classifier

use element::class::ArgInfo;
use element::effects::{Field, Filter, Number, Predicate};
use element::{Base, Class, DropReason, Effects, Packet, manual};
use wire::{arp, ether_type};

use crate::checking::{Checker, HeaderCheck, Reasons, Speaker};
use crate::editing::{bytes, checked, header_at, header_behind};

/// The element class `CheckARPHeader`.
pub static CLASS: Class = Class {
    name: "CheckARPHeader",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_arp_header.rs"),
    args: &[
        ArgInfo::positional("OFFSET", "unsigned", "0"),
        ArgInfo::keyword("VERBOSE", "bool", "false"),
        ArgInfo::keyword("DETAILS", "bool", "false"),
    ],
    table: &Checker::<CheckArpHeader>::HANDLERS,
    state: Checker::<CheckArpHeader>::STATE,
    samples: &["14", "14, DETAILS true, VERBOSE true -> 1/2"],
    build: |args| {
        let offset = args.value::<u32>("OFFSET") as usize;
        if offset > packet::MAX_PACKET {
            args.too_large("OFFSET", packet::MAX_PACKET);
        }
        Checker::boxed(args, &CLASS, CheckArpHeader { offset })
    },
    ..Class::DEFAULT
};

struct CheckArpHeader {
    offset: usize,
}

impl HeaderCheck for CheckArpHeader {
    const REASONS: Reasons = &[
        ("tiny packet", DropReason::TooShort),
        ("too small for addresses", DropReason::TooShort),
        ("bad hardware type/length", DropReason::BadNetworkHeader),
        ("bad protocol type/length", DropReason::BadNetworkHeader),
    ];
    const MESSAGE: &'static str = "ARP header check failed";
    const SPEAKER: Speaker = Speaker::None;

    fn effects(&self) -> Effects {
        let at = |place, length| bytes(Base::Data, self.offset + place, length);
        let offset = self.offset as i64;
        let total = Number::constant(arp::FixedPart::LEN as i64).plus(2, at(4, 1), u128::MAX);
        let total = total.plus(2, at(5, 1), u128::MAX);
        let requires = |kind, number: u16, length, value| {
            Filter::Any(vec![Predicate::equals(kind, number.into()).not(), Predicate::equals(length, value)])
        };
        let whole = Predicate::reaches(Base::Data, self.offset as i32, arp::FixedPart::LEN as u16)
            .and([Predicate::at_most(total.clone(), Number::of(Field::Length).plus_constant(-offset))]);
        let well_formed = Filter::All(vec![
            requires(at(0, 2), arp::ETHERNET, at(4, 1), 6),
            requires(at(2, 2), ether_type::IPV4, at(5, 1), 4),
            requires(at(2, 2), ether_type::IPV6, at(5, 1), 16),
        ]);
        let good = vec![
            header_at(Base::Network, self.offset),
            header_behind(Base::Transport, total.plus_constant(offset)),
        ];
        checked(vec![(whole, DropReason::TooShort), (well_formed, DropReason::BadNetworkHeader)], good)
    }

    fn check(&self, packet: &mut Packet) -> Result<(), usize> {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let header = arp::FixedPart::of(data).ok_or(0usize)?;
        if data.len() < header.total() {
            return Err(1);
        }
        if header.hardware_type.get() == arp::ETHERNET && header.hardware_length != 6 {
            return Err(2);
        }
        let expected = match header.protocol_type.get() {
            ether_type::IPV4 => 4,
            ether_type::IPV6 => 16,
            _ => header.protocol_length,
        };
        if header.protocol_length != expected {
            return Err(3);
        }
        let behind = self.offset + header.total();
        packet.set_headers(self.offset, behind);
        Ok(())
    }
}
