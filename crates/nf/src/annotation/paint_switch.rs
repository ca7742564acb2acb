//! # PaintSwitch
//! Sends each packet to the output that its paint annotation names.
//!
//! Paint 255 means a copy to every output. Packets whose paint names no output are dropped.
//!
//! ## Usage
//! `PaintSwitch([ANNO])`
//!
//! ## Arguments
//! - `ANNO`: the annotation to read, by name or offset.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(1) -> s :: PaintSwitch; s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! Paint, Tee

use classify::IntervalSet;
use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Case, Emit, Field, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, manual};
use packet::Annotations;

/// The class.
pub static CLASS: Class = Class {
    name: "PaintSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("paint_switch.rs"),
    args: &[ArgInfo::positional("ANNO", "annotation", "PAINT")],
    samples: &["", " -> 1/3", "20 -> 1/2"],
    build: |args| {
        let AnnotationOffset(place) = args.or("ANNO", AnnotationOffset::<1>(Annotations::PAINT));
        args.finish()?;
        Ok(Box::new(PaintSwitch { place, outputs: args.outputs() }))
    },
    ..Class::DEFAULT
};

/// The paint that means every output.
const ALL: usize = 255;

struct PaintSwitch {
    place: usize,
    outputs: usize,
}

impl Element for PaintSwitch {
    fn effects(&self) -> Effects {
        let field = Field::Annotation { offset: self.place as u8, length: 1 };
        let is = |colour: usize| Filter::equals(field.clone(), colour as u128);
        let mut cases = vec![Case::new(is(ALL), Target::AllOutputs)];
        cases.extend((0..self.outputs.min(ALL)).map(|n| Case::new(is(n), Target::Output(n))));
        let rest = Filter::In { field: field.clone(), mask: 0xff, set: IntervalSet::full(8) };
        cases.push(Case::new(rest, Target::Drop(DropReason::NoOutput)));
        let copies = Emit { name: "copy", reads: vec![field], output: None };
        Effects { emits: vec![copies], ..Effects::cases(cases) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            let colour = usize::from(packet.annotations().u8(self.place));
            if colour == ALL {
                let last = self.outputs - 1;
                for output in 0..last {
                    if let Some(copy) = cx.copy(&packet) {
                        cx.emit_one(output, copy, DropReason::NoOutput);
                    }
                }
                cx.emit_one(last, packet, DropReason::NoOutput);
            } else {
                cx.emit_one(colour, packet, DropReason::NoOutput);
            }
        }
        cx.recycle(batch);
        None
    }
}
