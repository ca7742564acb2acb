//! # Paint
//! Sets the paint annotation to a colour.
//!
//! ## Usage
//! `Paint(COLOR [, ANNO])`
//!
//! ## Arguments
//! - `COLOR`: the colour, 0 to 255.
//! - `ANNO`: the annotation to set, by name or offset.
//!
//! ## Handlers
//! - `color`: the colour.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(3) -> Discard
//! ```
//!
//! ## See also
//! PaintSwitch

use element::args::{AnnotationOffset, ArgType};
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};

/// The element class `Paint`.
pub static CLASS: Class = Class {
    name: "Paint",
    manual: manual!("paint.rs"),
    args: &[ArgInfo::required("COLOR", "0-255"), ArgInfo::positional("ANNO", "annotation", "PAINT")],
    table: &HANDLERS,
    samples: &["7", "7, 20"],
    reconfigures: true,
    build: |args| {
        let colour = args.required("COLOR");
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        args.finish()?;
        Ok(Box::new(Paint { colour, place, wanted: true }))
    },
    ..Class::DEFAULT
};

struct Paint {
    colour: u8,
    place: usize,
    /// True if some element reads the paint annotation (or the annotation ANNO). If none does, the annotation
    /// is not set, which saves time.
    wanted: bool,
}

impl Element for Paint {
    fn effects(&self) -> Effects {
        let field = Field::Annotation { offset: self.place as u8, length: 1 };
        let paint = Action::Set(field, Value::Constant(vec![self.colour]));
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(paint)])
            .depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.wanted = cx.graph().facts().annotation_read(self.place, 1);
        Ok(())
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        if self.wanted {
            for packet in batch.iter_mut() {
                packet.annotations_mut().set_u8(self.place, self.colour);
            }
        }
    }
}

const HANDLERS: &[Handler<Paint>] = &[Handler::data(
    "color",
    |e| e.colour.to_string(),
    |e, cx, value| {
        e.colour = u8::parse(value, &cx.place()).map_err(|_| "expected uint8_t")?;
        Ok(())
    },
)];
