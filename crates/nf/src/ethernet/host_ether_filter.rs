//! # HostEtherFilter
//! Sends Ethernet frames for other hosts to output 1, or drops them, and sets the packet type annotation.
//!
//! ## Usage
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER, KEYWORDS])`
//!
//! ## Arguments
//! - `ETHER`: this host's address.
//! - `DROP_OWN`: whether frames from this host are sent aside too.
//! - `DROP_OTHER`: whether frames for other hosts are; if not, they only become `OTHERHOST`.
//! - `OFFSET`: where the Ethernet header starts.
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

use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Depends, Field, Filter};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use packet::PacketKind;
use wire::{FromBytes, MacAddr, ethernet};

use crate::editing::{Fate, aside, bytes, each_or_aside, otherwise, pure, refused, value};

/// The class.
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
    handlers: &[HandlerInfo::both("ether")],
    samples: &["2:0:0:0:0:2", "2:0:0:0:0:1, true, false -> 1/2", "2:0:0:0:0:2, OFFSET 6"],
    build: |args| {
        let element = HostEtherFilter {
            own: args.required("ETHER"),
            drop_own: args.or("DROP_OWN", false),
            drop_other: args.or("DROP_OTHER", true),
            offset: args.or("OFFSET", 0u32) as usize,
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
        let addresses = bytes(Base::Data, self.offset, 12);
        let reads = [Field::Length, addresses.clone()];
        let kind = pure(Field::Kind, "packet type by Ethernet destination", &[addresses]);
        // Those for other hosts have their type when they leave by output 1.
        let short = Filter::reaches(Base::Data, self.offset as i32, ethernet::Header::LEN as u16).not();
        let denied = refused("not for this host", &reads, DropReason::Denied).with(kind.clone());
        Effects::cases(vec![aside(short, DropReason::TooShort), denied, otherwise(vec![kind])])
            .depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        each_or_aside(cx, batch, |packet| self.filter(packet));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(format!("{:#}", self.own))
    }

    fn write(&mut self, cx: &mut Cx<'_>, _name: &str, text: &str) -> Result<(), String> {
        self.own = value(cx, text, "expected Ethernet address")?;
        Ok(())
    }
}
