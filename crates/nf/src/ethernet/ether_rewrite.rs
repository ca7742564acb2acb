//! # EtherRewrite
//! Overwrites the addresses of the Ethernet header, but not its type.
//!
//! The header starts at the MAC header annotation, or at the start of the packet if the annotation is not
//! set. Packets that are too short for the addresses are dropped.
//!
//! ## Usage
//! `EtherRewrite(SRC, DST)`
//!
//! ## Arguments
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//!
//! ## Handlers
//! - `src`, `dst`: the addresses.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard
//! ```
//!
//! ## See also
//! EtherEncap

use crate::editing::{bytes, is_marked};
use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Filter, Predicate, Target, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};
use wire::MacAddr;

/// The element class `EtherRewrite`.
pub static CLASS: Class = Class {
    name: "EtherRewrite",
    manual: manual!("ether_rewrite.rs"),
    args: &[ArgInfo::required("SRC", "Ethernet address"), ArgInfo::required("DST", "Ethernet address")],
    table: &HANDLERS,
    samples: &["1:1:1:1:1:1, 2:2:2:2:2:2"],
    reconfigures: true,
    build: |args| {
        let (source, destination): (MacAddr, MacAddr) = (args.required("SRC"), args.required("DST"));
        args.finish()?;
        let mut rewrite = EtherRewrite { addresses: [0; ADDRESSES] };
        rewrite.set("src", source);
        rewrite.set("dst", destination);
        Ok(Box::new(rewrite))
    },
    ..Class::DEFAULT
};

/// The length in bytes of both addresses of an Ethernet header.
const ADDRESSES: usize = 12;

struct EtherRewrite {
    /// The new addresses as they are in the header: destination, then source.
    addresses: [u8; ADDRESSES],
}

impl EtherRewrite {
    /// Returns the offset in `addresses` of the address that a handler reads or writes.
    fn place(name: &str) -> usize {
        if name == "src" { 6 } else { 0 }
    }

    fn get(&self, name: &str) -> MacAddr {
        let mut address = [0; 6];
        address.copy_from_slice(&self.addresses[Self::place(name)..][..6]);
        MacAddr(address)
    }

    fn set(&mut self, name: &str, address: MacAddr) {
        self.addresses[Self::place(name)..][..6].copy_from_slice(&address.0);
    }
}

impl Element for EtherRewrite {
    fn effects(&self) -> Effects {
        let set = |field, address: MacAddr| Action::Set(field, Value::Constant(address.0.to_vec()));
        let rewrite = |base, when| {
            let case = Case::new(when, Target::Output(0));
            case.with(set(bytes(base, 0, 6), self.get("dst"))).with(set(bytes(base, 6, 6), self.get("src")))
        };
        Effects::cases(vec![
            rewrite(Base::Mac, Predicate::reaches(Base::Mac, 0, 12)),
            rewrite(Base::Data, is_marked(Base::Mac).not().and([Predicate::reaches(Base::Data, 0, 12)])),
            Case::new(Filter::TRUE, Target::Drop(DropReason::TooShort)),
        ])
        .depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let addresses = self.addresses;
        batch.sift(
            |packet| {
                let base = if packet.offset(Base::Mac).is_some() { Base::Mac } else { Base::Data };
                *packet.header_chunk_mut(base).ok_or(DropReason::TooShort)? = addresses;
                Ok(())
            },
            |packet, reason| cx.drop(packet, reason),
        );
    }
}

const HANDLERS: &[Handler<EtherRewrite>] = &[
    Handler::argument(
        "src",
        "SRC",
        |e| format!("{:#}", e.get("src")),
        |e, cx, value| {
            let address = MacAddr::parse(value, &cx.place()).map_err(|_| "expected Ethernet address")?;
            e.set("src", address);
            Ok(())
        },
    ),
    Handler::argument(
        "dst",
        "DST",
        |e| format!("{:#}", e.get("dst")),
        |e, cx, value| {
            let address = MacAddr::parse(value, &cx.place()).map_err(|_| "expected Ethernet address")?;
            e.set("dst", address);
            Ok(())
        },
    ),
];
