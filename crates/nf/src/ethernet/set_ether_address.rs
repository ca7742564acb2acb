//! # SetEtherAddress
//! Sets an annotation to an Ethernet address.
//!
//! ## Usage
//! `SetEtherAddress(ADDR, ANNO)`
//!
//! ## Arguments
//! - `ADDR`: the address.
//! - `ANNO`: the annotation of six bytes to set, by offset.
//!
//! ## Handlers
//! - `addr`: the address.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetEtherAddress(1:2:3:4:5:6, 20) -> StoreEtherAddress(OFFSET src, ANNO 20)
//!     -> Discard
//! ```
//!
//! ## See also
//! StoreEtherAddress, GetEtherAddress

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};
use wire::MacAddr;

use crate::editing::{annotation, constant, otherwise, value};

/// The element class `SetEtherAddress`.
pub static CLASS: Class = Class {
    name: "SetEtherAddress",
    manual: manual!("set_ether_address.rs"),
    args: &[ArgInfo::required("ADDR", "Ethernet address"), ArgInfo::required("ANNO", "annotation")],
    table: &HANDLERS,
    samples: &["1:2:3:4:5:6, 20"],
    reconfigures: true,
    build: |args| {
        let address = args.required("ADDR");
        let AnnotationOffset::<6>(place) = args.required("ANNO");
        args.finish()?;
        Ok(Box::new(SetEtherAddress { address, place }))
    },
    ..Class::DEFAULT
};

struct SetEtherAddress {
    address: MacAddr,
    place: usize,
}

impl Element for SetEtherAddress {
    fn effects(&self) -> Effects {
        let set = constant(annotation(self.place, 6), &self.address.0);
        Effects::cases(vec![otherwise(vec![set])]).depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.annotations_mut().set_array(self.place, self.address.0));
    }
}

const HANDLERS: &[Handler<SetEtherAddress>] = &[Handler::data(
    "addr",
    |e| format!("{:#}", e.address),
    |e, cx, text| {
        e.address = value(cx, text, "expected Ethernet address")?;
        Ok(())
    },
)];
