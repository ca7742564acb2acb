//! # SetTimestamp
//! Sets each packet's time stamp to the current time, or to a constant.
//!
//! ## Usage
//! `SetTimestamp([TIMESTAMP, KEYWORDS])`
//!
//! ## Arguments
//! - `TIMESTAMP`: the time stamp; the current time if not given.
//! - `FIRST`: if true, sets the first-timestamp annotation instead.
//! - `PER_BATCH`: accepted, without effect; packets of a batch always get the same time.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetTimestamp(1.5) -> Print(TIMESTAMP true) -> Discard
//! ```
//!
//! ## See also
//! Print

use element::class::ArgInfo;
use element::effects::{Action, Case, Field, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Timestamp, manual};
use packet::Annotations;

use super::set_first_timestamp;

/// The element class `SetTimestamp`.
pub static CLASS: Class = Class {
    name: "SetTimestamp",
    manual: manual!("set_timestamp.rs"),
    args: &[
        ArgInfo::positional("TIMESTAMP", "time", "").computed("now"),
        ArgInfo::keyword("FIRST", "bool", "false"),
        ArgInfo::keyword("PER_BATCH", "bool", "false"),
    ],
    samples: &["", "12.5", "FIRST true"],
    build: |args| {
        let element = SetTimestamp { time: args.get("TIMESTAMP"), first: args.value("FIRST") };
        args.value::<bool>("PER_BATCH");
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct SetTimestamp {
    time: Option<Timestamp>,
    first: bool,
}

impl Element for SetTimestamp {
    fn effects(&self) -> Effects {
        let offset = Annotations::FIRST_TIMESTAMP as u8;
        let field = if self.first { Field::Annotation { offset, length: 8 } } else { Field::TimeStamp };
        let value = match self.time {
            Some(time) => Value::Constant(time.0.to_ne_bytes().to_vec()),
            None => Value::Now,
        };
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(Action::Set(field, value))])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let time = self.time.unwrap_or(cx.now());
        for packet in batch.iter_mut() {
            if self.first {
                set_first_timestamp(packet, time);
            } else {
                packet.set_time(time);
            }
        }
    }
}
