//! # CheckPaint
//! Passes packets of one colour, and sends other packets to output 1, or drops them.
//!
//! ## Usage
//! `CheckPaint(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR`: the colour, 0 to 255.
//! - `ANNO`: the annotation to compare, by name or offset.
//!
//! ## Handlers
//! - `color`: the colour.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(3) -> CheckPaint(3) -> Discard
//! ```
//!
//! ## See also
//! Paint, PaintSwitch

use element::args::AnnotationOffset;
use element::class::ArgInfo;
use element::effects::{Counting, Depends, Predicate};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};

use crate::editing::{annotation, each_or_aside, or_aside, value};

/// The element class `CheckPaint`.
pub static CLASS: Class = Class {
    name: "CheckPaint",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_paint.rs"),
    args: &[ArgInfo::required("COLOR", "0-255"), ArgInfo::positional("ANNO", "annotation", "PAINT")],
    table: &HANDLERS,
    samples: &["2", "2, 20 -> 1/2"],
    build: |args| {
        let colour = args.required("COLOR");
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(CheckPaint { colour, place }))
    },
    ..Class::DEFAULT
};

struct CheckPaint {
    colour: u8,
    place: usize,
}

impl Element for CheckPaint {
    fn effects(&self) -> Effects {
        let same = Predicate::equals(annotation(self.place, 1), self.colour.into());
        or_aside(same, DropReason::NoMatch, Vec::new())
            .depending_on(Depends::Handler)
            .counting(Counting::Tallied)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (colour, place) = (self.colour, self.place);
        each_or_aside(cx, batch, |packet| {
            if packet.annotations().u8(place) == colour { Ok(()) } else { Err(DropReason::NoMatch) }
        });
    }
}

const HANDLERS: &[Handler<CheckPaint>] = &[Handler::data(
    "color",
    |e| e.colour.to_string(),
    |e, cx, text| {
        e.colour = value(cx, text, "expected uint8_t")?;
        Ok(())
    },
)];
