//! # HostEtherFilter
//! Sends Ethernet frames for other hosts to output 1, or drops them, and sets the packet type annotation.
//!
//! Packets that are too short for the Ethernet header go to output 1, too, or are dropped.
//!
//! ## Usage
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, KEYWORDS])`
//!
//! ## Arguments
//! - `ETHER`: this host's address.
//! - `DROP_OWN`: if true, frames from this host go to output 1, too.
//! - `DROP_OTHER`: if true, frames for other hosts go to output 1; if false, they pass with the type
//!   `OTHERHOST`.
//! - `OFFSET`: the offset of the Ethernet header.
//!
//! ## Handlers
//! - `ether`: this host's address.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> HostEtherFilter(1:1:1:1:1:1) -> Discard
//! ```
//!
//! ## See also
//! DropBroadcasts, SetPacketType, Classifier

use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Predicate, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, manual};
use packet::PacketKind;
use wire::{FromBytes, MacAddr, ethernet};

use crate::editing::{Fate, aside, bytes, constant, each_or_aside, otherwise, value, within};

/// The element class `HostEtherFilter`.
pub static CLASS: Class = Class {
    name: "HostEtherFilter",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("host_ether_filter.rs"),
    args: &[
        ArgInfo::required("ETHER", "Ethernet address"),
        ArgInfo::positional("DROP_OWN", "bool", "false"),
        ArgInfo::positional("DROP_OTHER", "bool", "true"),
        ArgInfo::keyword("OFFSET", "unsigned", "0"),
    ],
    table: &HANDLERS,
    samples: &["2:0:0:0:0:2", "2:0:0:0:0:1, true, false -> 1/2", "2:0:0:0:0:2, OFFSET 6"],
    reconfigures: true,
    build: |args| {
        let element = HostEtherFilter {
            own: args.required("ETHER"),
            drop_own: args.value("DROP_OWN"),
            drop_other: args.value("DROP_OTHER"),
            offset: args.value::<u32>("OFFSET") as usize,
        };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct HostEtherFilter {
    own: MacAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl HostEtherFilter {
    fn filter(&self, packet: &mut Packet) -> Fate {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Ok((header, _)) = ethernet::Header::ref_from_prefix(data) else {
            return Err(DropReason::TooShort);
        };
        let (source, destination) = (header.source, header.destination);
        if self.drop_own && source == self.own {
            return Err(DropReason::Denied);
        }
        let kind = match destination {
            own if own == self.own => PacketKind::Host,
            MacAddr::BROADCAST => PacketKind::Broadcast,
            group if group.is_group() => PacketKind::Multicast,
            _ => PacketKind::OtherHost,
        };
        packet.set_kind(kind);
        if kind == PacketKind::OtherHost && self.drop_other { Err(DropReason::Denied) } else { Ok(()) }
    }
}

impl Element for HostEtherFilter {
    fn effects(&self) -> Effects {
        let [destination, source] = [0, 6].map(|place| bytes(Base::Data, self.offset + place, 6));
        let is = |field: &Field, address: MacAddr| Predicate::equals(field.clone(), address.to_bits().into());
        let group = within(destination.clone(), 0x0100_0000_0000, 0x0100_0000_0000, 0x0100_0000_0000);
        let of_kind = |kind: PacketKind| constant(Field::Kind, &[kind as u8]);
        let whole = Predicate::reaches(Base::Data, self.offset as i32, ethernet::Header::LEN as u16);
        let mut cases = vec![aside(whole.not(), DropReason::TooShort)];
        if self.drop_own {
            cases.push(aside(is(&source, self.own), DropReason::Denied));
        }
        let kinds = [
            (is(&destination, self.own), PacketKind::Host),
            (is(&destination, MacAddr::BROADCAST), PacketKind::Broadcast),
            (group, PacketKind::Multicast),
        ];
        cases.extend(
            kinds.map(|(when, kind)| Case {
                actions: vec![of_kind(kind)],
                ..Case::new(when, Target::Output(0))
            }),
        );
        // The packet type of frames for other hosts is set even if they leave by output 1.
        cases.push(match self.drop_other {
            true => aside(Filter::TRUE, DropReason::Denied).with(of_kind(PacketKind::OtherHost)),
            false => otherwise(vec![of_kind(PacketKind::OtherHost)]),
        });
        Effects::cases(cases).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each_or_aside(cx, batch, |packet| self.filter(packet));
    }
}

const HANDLERS: &[Handler<HostEtherFilter>] = &[Handler::data(
    "ether",
    |e| format!("{:#}", e.own),
    |e, cx, text| {
        e.own = value(cx, text, "expected Ethernet address")?;
        Ok(())
    },
)];
