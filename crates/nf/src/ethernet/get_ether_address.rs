//! # GetEtherAddress
//! Copies an Ethernet address from the packet into an annotation.
//!
//! Packets that are too short go to output 1, or are dropped.
//!
//! ## Usage
//! `GetEtherAddress(ANNO, OFFSET)`
//!
//! ## Arguments
//! - `ANNO`: the annotation of six bytes to set, by offset.
//! - `OFFSET`: the offset of the address from the start of the packet, or `src` (6) or `dst` (0) for an
//!   Ethernet header there.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> GetEtherAddress(20, src) -> StoreEtherAddress(OFFSET dst, ANNO 20) -> Discard
//! ```
//!
//! ## See also
//! SetEtherAddress, StoreEtherAddress, EtherMirror

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Action, Predicate, Value};
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};

use super::store_ether_address::read_offset;
use crate::editing::{annotation, bytes, each_or_aside, or_aside};

/// The element class `GetEtherAddress`.
pub static CLASS: Class = Class {
    name: "GetEtherAddress",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("get_ether_address.rs"),
    args: &[ArgInfo::required("ANNO", "annotation"), ArgInfo::required("OFFSET", "unsigned, src or dst")],
    samples: &["20, src", "OFFSET 30, ANNO 0 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let AnnotationOffset::<6>(place) = args.required("ANNO");
        let offset = read_offset(args)?;
        args.finish()?;
        Ok(Box::new(GetEtherAddress { place, offset }))
    },
    ..Class::DEFAULT
};

struct GetEtherAddress {
    place: usize,
    offset: usize,
}

impl Element for GetEtherAddress {
    fn effects(&self) -> Effects {
        let room = Predicate::reaches(Base::Data, i32::try_from(self.offset).unwrap_or(i32::MAX), 6);
        let copy = Action::Set(annotation(self.place, 6), Value::Copy(bytes(Base::Data, self.offset, 6)));
        or_aside(room, DropReason::TooShort, vec![copy])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let GetEtherAddress { place, offset } = *self;
        each_or_aside(cx, batch, |packet| {
            let address = packet.data().get(offset..).and_then(|data| data.first_chunk::<6>().copied());
            packet.annotations_mut().set_array(place, address.ok_or(DropReason::TooShort)?);
            Ok(())
        });
    }
}
