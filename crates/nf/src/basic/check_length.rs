//! # CheckLength
//! Sends packets longer than a limit to output 1, or drops them.
//!
//! ## Usage
//! `CheckLength(LENGTH [, KEYWORDS])`
//!
//! ## Arguments
//! - `LENGTH`: the maximum length of packets that pass, in bytes.
//! - `EXTRA_LENGTH`: if true, the extra length annotation is added to the packet's length.
//!
//! ## Handlers
//! - `length`: the maximum length.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CheckLength(1500) -> Discard
//! ```
//!
//! ## See also
//! Truncate, Pad

use classify::IntervalSet;
use element::class::ArgInfo;
use element::effects::{Counting, Depends, Field, Filter, Number, Predicate, plus_annotation};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};
use packet::Annotations;

use crate::editing::{each_or_aside, or_aside, value};

/// The element class `CheckLength`.
pub static CLASS: Class = Class {
    name: "CheckLength",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("check_length.rs"),
    args: &[ArgInfo::required("LENGTH", "unsigned"), ArgInfo::keyword("EXTRA_LENGTH", "bool", "false")],
    table: &HANDLERS,
    samples: &["60", "60, EXTRA_LENGTH true -> 1/2"],
    build: |args| {
        let element = CheckLength { longest: args.required("LENGTH"), extra: args.value("EXTRA_LENGTH") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct CheckLength {
    longest: u32,
    extra: bool,
}

impl Element for CheckLength {
    fn effects(&self) -> Effects {
        let fits = match self.extra {
            false => {
                let set = IntervalSet::one(0, self.longest.into());
                Filter::Leaf(Predicate::In { field: Field::Length, mask: u128::MAX, set })
            }
            true => Predicate::at_most(
                plus_annotation(Number::of(Field::Length), Annotations::EXTRA_LENGTH as u8),
                Number::constant(self.longest.into()),
            ),
        };
        or_aside(fits, DropReason::TooLong, Vec::new())
            .depending_on(Depends::Handler)
            .counting(Counting::Tallied)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (longest, extra) = (self.longest as usize, self.extra);
        each_or_aside(cx, batch, |packet| {
            let more = if extra { packet.annotations().u32(Annotations::EXTRA_LENGTH) as usize } else { 0 };
            if packet.len() + more > longest { Err(DropReason::TooLong) } else { Ok(()) }
        });
    }
}

const HANDLERS: &[Handler<CheckLength>] = &[Handler::data(
    "length",
    |e| e.longest.to_string(),
    |e, cx, text| {
        e.longest = value(cx, text, "expected integer")?;
        Ok(())
    },
)];
