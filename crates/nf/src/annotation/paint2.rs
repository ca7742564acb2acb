//! # Paint2
//! Sets an annotation of two bytes to a colour.
//!
//! ## Usage
//! `Paint2(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR`: the colour, 0 to 65535.
//! - `ANNO`: the annotation of two bytes to set, by name or offset.
//!
//! ## Handlers
//! - `color`: the colour.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint2(3) -> Discard
//! ```
//!
//! ## See also
//! Paint, PaintSwitch

use element::args::{AnnotationOffset, ArgType};
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};

use crate::editing::annotation;

/// The element class `Paint2`.
pub static CLASS: Class = Class {
    name: "Paint2",
    manual: manual!("paint2.rs"),
    args: &[ArgInfo::required("COLOR", "0-65535"), ArgInfo::positional("ANNO", "annotation", "16")],
    table: &HANDLERS,
    samples: &["7", "300, 20"],
    reconfigures: true,
    build: |args| {
        let colour = args.required("COLOR");
        let AnnotationOffset::<2>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(Paint2 { colour, place }))
    },
    ..Class::DEFAULT
};

struct Paint2 {
    colour: u16,
    place: usize,
}

impl Element for Paint2 {
    fn effects(&self) -> Effects {
        let paint = Value::Constant(self.colour.to_ne_bytes().to_vec());
        let paint = Action::Set(annotation(self.place, 2), paint);
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(paint)])
            .depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        let colour = self.colour.to_ne_bytes();
        batch.iter_mut().for_each(|packet| packet.annotations_mut().set_array(self.place, colour));
    }
}

const HANDLERS: &[Handler<Paint2>] = &[Handler::data(
    "color",
    |e| e.colour.to_string(),
    |e, cx, value| {
        e.colour = u16::parse(value, &cx.place()).map_err(|_| "expected uint16_t")?;
        Ok(())
    },
)];
