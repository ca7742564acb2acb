//! # PaintRR
//! Chooses the output as the paint annotation modulo the number of outputs.
//!
//! ## Usage
//! `PaintRR([ANNO])`
//!
//! ## Arguments
//! - `ANNO`: the annotation to read, by name or offset.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(7) -> s :: PaintRR; s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! PaintSwitch, Paint

use classify::IntervalSet;
use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};

use crate::sorting::Sorter;

/// The element class `PaintRR`.
pub static CLASS: Class = Class {
    name: "PaintRR",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("paint_rr.rs"),
    args: &[ArgInfo::positional("ANNO", "annotation", "PAINT")],
    samples: &[" -> 1/1", " -> 1/3", "20 -> 1/2", " -> 1/0"],
    build: |args| {
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(PaintRr { place, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

struct PaintRr {
    place: usize,
    sorter: Sorter,
}

impl Element for PaintRr {
    fn effects(&self) -> Effects {
        let n = self.sorter.outputs();
        if n == 0 {
            return Effects::drop(DropReason::NoOutput);
        }
        let field = Field::Annotation { offset: self.place as u8, length: 1 };
        let colours = |output: usize| {
            let each =
                (output..256).step_by(n).map(|colour| IntervalSet::one(colour as u128, colour as u128));
            each.fold(IntervalSet::default(), |all, one| all.union(&one))
        };
        let case = |output| {
            let when = Filter::Leaf(Predicate::In { field: field.clone(), mask: 0xff, set: colours(output) });
            Case::new(when, Target::Output(output))
        };
        Effects::cases((0..n.min(256)).map(case).collect())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let (place, n) = (self.place, self.sorter.outputs());
        self.sorter
            .send(cx, batch, |_, packet| usize::from(packet.annotations().u8(place)).checked_rem(n).into())
    }
}
