//! # GetIPAddress
//! Copies an address from the packet into the destination address annotation.
//!
//! Packets that are too short to contain the address are dropped, and so are packets without a network
//! header annotation, if it is needed.
//!
//! ## Usage
//! `GetIPAddress(OFFSET [, ANNO])`, `GetIPAddress(IP src)`, `GetIPAddress(IP dst)`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the address from the start of the packet.
//! - `ANNO`: the annotation to set, by name or offset.
//! - `IP`: `src` or `dst`, to copy this address of the IPv4 header that the network header annotation
//!   points at.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetIPAddress(16) -> Discard
//! ```
//!
//! ## See also
//! SetIPAddress, StoreIPAddress

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Action, Case, Filter, HeaderKind, Predicate, Target, Value, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};

use super::set_address;
use crate::editing::{annotation, bytes, each, ipv4, needs, otherwise};
use classify::IntervalSet;

/// The element class `GetIPAddress`.
pub static CLASS: Class = Class {
    name: "GetIPAddress",
    manual: manual!("get_ip_address.rs"),
    args: &[
        ArgInfo::positional("OFFSET", "integer", ""),
        ArgInfo::positional("ANNO", "annotation", "DST_IP"),
        ArgInfo::keyword("IP", "src or dst", ""),
    ],
    samples: &["16", "30, 20", "IP src", "IP dst"],
    build: |args| {
        let word: Option<String> = args.get("IP");
        let offset: Option<u32> = args.get("OFFSET");
        let AnnotationOffset::<4>(to) = args.value("ANNO");
        args.finish()?;
        let from = match (offset, word.as_deref()) {
            (Some(offset), None) => Ok(From::Data(offset as usize)),
            (None, Some("src")) => Ok(From::Source),
            (None, Some("dst")) => Ok(From::Destination),
            (None, Some(_)) => Err("bad IP"),
            _ => Err("set one of OFFSET, IP"),
        };
        if let Err(reason) = &from {
            args.error(*reason);
        }
        args.finish()?;
        Ok(Box::new(GetIpAddress { from: from.unwrap_or(From::Source), to }))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy)]
enum From {
    Data(usize),
    Source,
    Destination,
}

struct GetIpAddress {
    from: From,
    to: usize,
}

impl Element for GetIpAddress {
    fn effects(&self) -> Effects {
        let (lacks, field) = match self.from {
            From::Data(offset) => {
                let field = bytes(Base::Data, offset, 4);
                let there = Filter::Leaf(Predicate::In {
                    field: field.clone(),
                    mask: 0,
                    set: IntervalSet::one(0, 0),
                });
                (Case::new(there.not(), Target::Drop(DropReason::TooShort)), field)
            }
            From::Source => (needs(HeaderKind::Ipv4), wire_field::IP_SRC),
            From::Destination => (needs(HeaderKind::Ipv4), wire_field::IP_DST),
        };
        let copy = Action::Set(annotation(self.to, 4), Value::Copy(field));
        Effects::cases(vec![lacks, otherwise(vec![copy])])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (from, to) = (self.from, self.to);
        each(cx, batch, |packet| {
            let address = match from {
                From::Data(offset) => {
                    let mut address = [0; 4];
                    if packet.read_at(offset, &mut address) < address.len() {
                        return Err(DropReason::TooShort);
                    }
                    address
                }
                From::Source => ipv4(packet)?.source.to_bytes(),
                From::Destination => ipv4(packet)?.destination.to_bytes(),
            };
            set_address(packet, to, address);
            Ok(())
        });
    }
}
