//! # EtherEncap
//! Prepends an Ethernet header to each packet.
//!
//! The MAC header annotation is set to the new header, and the network header annotation to the first byte
//! after it.
//!
//! ## Usage
//! `EtherEncap(ETHERTYPE, SRC, DST)`
//!
//! ## Arguments
//! - `ETHERTYPE`: the EtherType, such as 0x0800.
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//!
//! ## Handlers
//! - `ethertype`, `etht`: the EtherType, in decimal.
//! - `src`, `dst`: the addresses.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard
//! ```
//!
//! ## See also
//! Strip, EtherRewrite

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Target, Value, wire_field};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};
use wire::{IntoBytes, LinkType, MacAddr, ethernet};

/// The element class `EtherEncap`.
pub static CLASS: Class = Class {
    name: "EtherEncap",
    manual: manual!("ether_encap.rs"),
    args: &[
        ArgInfo::required("ETHERTYPE", "0-0xffff"),
        ArgInfo::required("SRC", "Ethernet address"),
        ArgInfo::required("DST", "Ethernet address"),
    ],
    table: &HANDLERS,
    samples: &["0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2"],
    reconfigures: true,
    build: |args| {
        let ether_type: u16 = args.required("ETHERTYPE");
        let (source, destination) = (args.required("SRC"), args.required("DST"));
        args.finish()?;
        Ok(Box::new(EtherEncap {
            header: ethernet::Header { destination, source, ether_type: ether_type.into() },
        }))
    },
    ..Class::DEFAULT
};

struct EtherEncap {
    header: ethernet::Header,
}

impl Element for EtherEncap {
    fn effects(&self) -> Effects {
        let set = |field, bytes: &[u8]| Action::Set(field, Value::Constant(bytes.to_vec()));
        let offset = |base, n: u32| set(Field::HeaderOffset(base), &n.to_be_bytes());
        let encap = Case::new(Filter::TRUE, Target::Output(0))
            .with(Action::Strip(-(ethernet::Header::LEN as i32)))
            .with(offset(Base::Mac, 0))
            .with(offset(Base::Network, ethernet::Header::LEN as u32))
            .with(set(wire_field::ETHER_DST, &self.header.destination.0))
            .with(set(wire_field::ETHER_SRC, &self.header.source.0))
            .with(set(wire_field::ETHER_TYPE, self.header.ether_type.as_bytes()));
        Effects::cases(vec![encap]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut header = [0; ethernet::Header::LEN];
        header.copy_from_slice(self.header.as_bytes());
        batch.sift(
            |packet| {
                if !packet.prepend(&header) {
                    return Err(DropReason::NoHeadroom);
                }
                packet.set_link_header(ethernet::Header::LEN);
                packet.set_link(LinkType::Ethernet.number());
                Ok(())
            },
            |packet, reason| cx.drop(packet, reason),
        );
    }
}

/// Describes a handler for the EtherType.
const fn ether_type(name: &'static str) -> Handler<EtherEncap> {
    Handler::argument(
        name,
        "ETHERTYPE",
        |e| e.header.ether_type.get().to_string(),
        |e, cx, value| {
            let place = cx.place();
            e.header.ether_type = u16::parse(value, &place).map_err(|_| "expected uint16_t")?.into();
            Ok(())
        },
    )
}

const HANDLERS: &[Handler<EtherEncap>] = &[
    ether_type("ethertype"),
    ether_type("etht"),
    Handler::argument(
        "src",
        "SRC",
        |e| format!("{:#}", e.header.source),
        |e, cx, value| {
            let place = cx.place();
            let address = || MacAddr::parse(value, &place).map_err(|_| "expected Ethernet address");
            e.header.source = address()?;
            Ok(())
        },
    ),
    Handler::argument(
        "dst",
        "DST",
        |e| format!("{:#}", e.header.destination),
        |e, cx, value| {
            let place = cx.place();
            let address = || MacAddr::parse(value, &place).map_err(|_| "expected Ethernet address");
            e.header.destination = address()?;
            Ok(())
        },
    ),
];
