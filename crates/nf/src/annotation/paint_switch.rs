//! # PaintSwitch
//! Sends each packet to the output whose number is the packet's paint annotation.
//!
//! A packet with paint 255 is copied to every output. Packets whose paint is not the number of an output
//! are dropped.
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
use element::effects::{Case, Emit, Field, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};

use crate::sorting::{Fate, Sorter};

/// The element class `PaintSwitch`.
pub static CLASS: Class = Class {
    name: "PaintSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("paint_switch.rs"),
    args: &[ArgInfo::positional("ANNO", "annotation", "PAINT")],
    samples: &["", " -> 1/3", "20 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(PaintSwitch { place, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

/// The paint of packets that are copied to every output.
const ALL: usize = 255;

struct PaintSwitch {
    place: usize,
    sorter: Sorter,
}

impl PaintSwitch {
    /// Emits the packets of a batch one by one, in their order, if one of them is copied to all outputs. If
    /// packets were sorted by output instead, a copy could overtake packets that came before it.
    #[cold]
    fn push_each(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let last = self.sorter.outputs() - 1;
        for packet in batch.drain() {
            let mut colour = usize::from(packet.annotations().u8(self.place));
            if colour == ALL {
                for output in 0..last {
                    if let Some(copy) = cx.copy(&packet) {
                        cx.emit_one(output, copy, DropReason::NoOutput);
                    }
                }
                colour = last;
            }
            cx.emit_one(colour, packet, DropReason::NoOutput);
        }
        cx.recycle(batch);
    }
}

impl Element for PaintSwitch {
    fn effects(&self) -> Effects {
        let field = Field::Annotation { offset: self.place as u8, length: 1 };
        let is = |colour: usize| Predicate::equals(field.clone(), colour as u128);
        let mut cases = vec![Case::new(is(ALL), Target::AllOutputs)];
        cases.extend((0..self.sorter.outputs().min(ALL)).map(|n| Case::new(is(n), Target::Output(n))));
        let rest =
            Filter::Leaf(Predicate::In { field: field.clone(), mask: 0xff, set: IntervalSet::full(8) });
        cases.push(Case::new(rest, Target::Drop(DropReason::NoOutput)));
        let copies = Emit { reads: vec![field], ..Emit::copies(None) };
        Effects { emits: vec![copies], ..Effects::cases(cases) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let place = self.place;
        let colour = |packet: &Packet| usize::from(packet.annotations().u8(place));
        if batch.iter().any(|packet| colour(packet) == ALL) {
            self.push_each(cx, batch);
            return None;
        }
        self.sorter.send_by(cx, batch, |_, packet| colour(packet), Fate::Output)
    }
}
