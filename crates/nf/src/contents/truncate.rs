//! # Truncate
//! Cuts packets that are longer than a limit.
//!
//! ## Usage
//! `Truncate(LENGTH [, KEYWORDS])`
//!
//! ## Arguments
//! - `LENGTH`: the maximum length in bytes.
//! - `EXTRA_LENGTH`: if true, the number of removed bytes is added to the extra length annotation.
//!
//! ## Handlers
//! - `nbytes`: the maximum length in bytes.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Truncate(40) -> Discard
//! ```
//!
//! ## See also
//! Pad, CheckLength, Resize

use element::class::ArgInfo;
use element::effects::{
    Action, Case, Depends, EXTRA_LENGTH, Field, Number, Predicate, Target, Value, plus_annotation,
};
use element::{Batch, Class, Cx, Effects, Element, Handler, manual};
use packet::Annotations;

use crate::editing::{otherwise, value};

/// The element class `Truncate`.
pub static CLASS: Class = Class {
    name: "Truncate",
    manual: manual!("truncate.rs"),
    args: &[ArgInfo::required("LENGTH", "unsigned"), ArgInfo::keyword("EXTRA_LENGTH", "bool", "true")],
    table: &HANDLERS,
    samples: &["40", "0, EXTRA_LENGTH false"],
    reconfigures: true,
    build: |args| {
        let element = Truncate { length: args.required("LENGTH"), extra: args.value("EXTRA_LENGTH") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct Truncate {
    length: u32,
    extra: bool,
}

impl Element for Truncate {
    fn effects(&self) -> Effects {
        let longest = Number::constant(self.length.into());
        let fits = Predicate::at_most(Number::of(Field::Length), longest.clone());
        let mut cut = otherwise(vec![Action::Set(Field::Length, Value::Number(longest))]);
        if self.extra {
            let more = Number::of(Field::Length).plus_constant(-i64::from(self.length));
            let extra = plus_annotation(more, Annotations::EXTRA_LENGTH as u8);
            cut = cut.with(Action::Set(EXTRA_LENGTH, Value::Native(extra)));
        }
        Effects::cases(vec![Case::new(fits, Target::Output(0)), cut]).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let length = self.length as usize;
        let extra_is_read = self.extra && cx.graph().facts().annotation_read(Annotations::EXTRA_LENGTH, 4);
        for packet in batch.iter_mut() {
            let cut = packet.len().saturating_sub(length);
            if cut > 0 {
                packet.truncate(length);
                if extra_is_read {
                    let annotations = packet.annotations_mut();
                    let extra = annotations.u32(Annotations::EXTRA_LENGTH).wrapping_add(cut as u32);
                    annotations.set_u32(Annotations::EXTRA_LENGTH, extra);
                }
            }
        }
    }
}

const HANDLERS: &[Handler<Truncate>] = &[Handler::data(
    "nbytes",
    |e| e.length.to_string(),
    |e, cx, text| {
        e.length = value(cx, text, "expected integer")?;
        Ok(())
    },
)];
