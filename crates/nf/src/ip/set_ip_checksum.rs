//! # SetIPChecksum
//! Computes the checksum of the IPv4 header afresh.
//!
//! The header is where the network header annotation points, or else at the start of the packet. Packets without
//! room for the header are dropped, the first of them with a message.
//!
//! ## Usage
//! `SetIPChecksum`
//!
//! ## Handlers
//! - `drops`: packets that were too short, or whose header says that it is.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> MarkIPHeader(14) -> SetIPChecksum -> Discard
//! ```
//!
//! ## See also
//! CheckIPHeader, SetTCPChecksum, SetUDPChecksum

use element::class::HandlerInfo;
use element::effects::{Case, Checksum, Field, Filter, Header, Target};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};
use wire::{FromBytes, checksum, ipv4};

use crate::editing::{bytes, otherwise, pure, when};

/// The class.
pub static CLASS: Class = Class {
    name: "SetIPChecksum",
    manual: manual!("set_ip_checksum.rs"),
    handlers: &[HandlerInfo::read("drops")],
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetIpChecksum { drops: 0 }))
    },
    ..Class::DEFAULT
};

struct SetIpChecksum {
    drops: u64,
}

fn set(packet: &mut Packet) -> Option<()> {
    let base = if packet.offset(Base::Network).is_some() { Base::Network } else { Base::Data };
    // Nearly all headers have no options.
    if let Some(bytes) = packet.header_chunk_mut::<{ ipv4::Header::LEN }>(base)
        && let Ok(ip) = ipv4::Header::mut_from_bytes(bytes)
        && ip.version_ihl == 0x45
    {
        checksum::fill_ipv4_plain(ip);
        return Some(());
    }
    let header = packet.header_mut(base)?;
    let length = ipv4::Header::ref_from_prefix(header).ok()?.0.header_len();
    checksum::fill_ipv4(header.get_mut(..length)?).ok()
}

impl Element for SetIpChecksum {
    fn effects(&self) -> Effects {
        let offset = Field::HeaderOffset(Base::Network);
        let at_data = bytes(Base::Data, 0, 60);
        let sound = Filter::All(vec![
            Filter::Present(Header::Ipv4),
            Filter::Opaque { about: "whole IPv4 header", reads: vec![Header::Ipv4.extent()] },
        ]);
        let marked = Case {
            checksum: Checksum::Recomputed(vec![Header::Ipv4]),
            ..Case::new(sound, Target::Output(0))
        };
        let reads = [offset, Field::Length, at_data.clone(), Header::Ipv4.extent()];
        let bad = when("no whole IPv4 header", &reads, Target::Drop(DropReason::BadIpHeader));
        let unmarked = otherwise(vec![pure(bytes(Base::Data, 10, 2), "IPv4 checksum", &[at_data])]);
        Effects::cases(vec![marked, bad, unmarked])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let drops = &mut self.drops;
        batch.sift(
            |packet| set(packet).ok_or(()),
            |packet, ()| {
                *drops += 1;
                if *drops == 1 {
                    cx.message(format_args!("SetIPChecksum: bad input packet\n"));
                }
                cx.drop(packet, DropReason::BadIpHeader);
            },
        );
    }

    fn read(&mut self, _cx: &mut Cx<'_>, _name: &str, _param: &str) -> Result<String, String> {
        Ok(self.drops.to_string())
    }
}
