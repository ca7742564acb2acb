//! # UnstripAnno
//! Restores bytes at the front of each packet; an annotation gives their number.
//!
//! Search stores the number of removed bytes in this annotation. Packets without enough headroom are
//! dropped.
//!
//! ## Usage
//! `UnstripAnno([ANNO])`
//!
//! ## Arguments
//! - `ANNO`: the offset of the annotation, 2 bytes long.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA "GET / HTTP", LIMIT 1) -> s :: Search("HTTP") -> UnstripAnno -> Discard; s[1] ->
//! Discard
//! ```
//!
//! ## See also
//! Search, Unstrip

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::Target;
use element::{Base, Batch, Class, Cx, DropReason, Effects, Element, manual};

use super::search::annotated_length;
use crate::editing::{annotation, each, when};
use crate::stripping::{move_start, vague_effects};

/// The element class `UnstripAnno`.
pub static CLASS: Class = Class {
    name: "UnstripAnno",
    manual: manual!("unstrip_anno.rs"),
    args: &[ArgInfo::positional("ANNO", "annotation", "16")],
    samples: &["", "20"],
    build: |args| {
        let AnnotationOffset::<2>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(UnstripAnno { place }))
    },
    ..Class::DEFAULT
};

struct UnstripAnno {
    place: usize,
}

impl Element for UnstripAnno {
    fn effects(&self) -> Effects {
        let reads = [annotation(self.place, 2)];
        let mut effects = vague_effects(Base::Data, &reads);
        let refused = when("no headroom", &reads, Target::Drop(DropReason::NoHeadroom));
        effects.cases.insert(0, refused);
        effects
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let place = self.place;
        each(cx, batch, |packet| move_start(packet, -(annotated_length(packet, place) as isize)));
    }
}
