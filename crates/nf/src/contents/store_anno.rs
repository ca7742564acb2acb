//! # StoreAnno
//! Overwrites a byte of each packet by an annotation of one byte.
//!
//! Packets that end before this byte pass unchanged.
//!
//! ## Usage
//! `StoreAnno(OFFSET [, ANNO, KEYWORDS])`
//!
//! ## Arguments
//! - `OFFSET`: the offset of the byte.
//! - `ANNO`: the annotation to read, by name or offset.
//! - `GROW`: accepted, without effect, as in FastClick: the byte must be in the packet already.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(7) -> StoreAnno(14) -> Discard
//! ```
//!
//! ## See also
//! StoreData, Paint

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Action, Value};
use element::{Base, Batch, Class, Cx, Effects, Element, manual};

use crate::editing::{annotation, bytes, otherwise};

/// The element class `StoreAnno`.
pub static CLASS: Class = Class {
    name: "StoreAnno",
    manual: manual!("store_anno.rs"),
    args: &[
        ArgInfo::required("OFFSET", "unsigned"),
        ArgInfo::positional("ANNO", "annotation", "PAINT"),
        ArgInfo::keyword("GROW", "bool", "false"),
    ],
    samples: &["14", "0, 20", "40, GROW true"],
    reconfigures: true,
    build: |args| {
        let offset = args.required::<u32>("OFFSET") as usize;
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.value::<bool>("GROW");
        args.finish()?;
        Ok(Box::new(StoreAnno { offset, place }))
    },
    ..Class::DEFAULT
};

struct StoreAnno {
    offset: usize,
    place: usize,
}

impl Element for StoreAnno {
    fn effects(&self) -> Effects {
        // The write is declared for all packets: no element can read a byte after the end of a packet.
        let store = Action::Set(bytes(Base::Data, self.offset, 1), Value::Copy(annotation(self.place, 1)));
        Effects::cases(vec![otherwise(vec![store])])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let byte = packet.annotations().u8(self.place);
            packet.write_at(self.offset, &[byte]);
        }
    }
}
