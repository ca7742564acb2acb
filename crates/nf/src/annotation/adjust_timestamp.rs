//! # AdjustTimestamp
//! Adds a time to each packet's time stamp.
//!
//! ## Usage
//! `AdjustTimestamp(TIME [, KEYWORDS])`
//!
//! ## Arguments
//! - `TIME`: the time to add; may be negative.
//! - `FIRST`: if true, changes the first-timestamp annotation instead.
//! - `ALL`: if true, changes time stamps that are zero, too.
//!
//! ## Handlers
//! - `time`: the time that is added.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetTimestamp(5) -> AdjustTimestamp(-1.5) -> Print(TIMESTAMP true) -> Discard
//! ```
//!
//! ## See also
//! SetTimestamp, SetTimestampDelta

use element::args::parse_seconds;
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, Timestamp, manual};
use packet::Annotations;

use super::{first_timestamp, set_first_timestamp};

/// The element class `AdjustTimestamp`.
pub static CLASS: Class = Class {
    name: "AdjustTimestamp",
    manual: manual!("adjust_timestamp.rs"),
    args: &[
        ArgInfo::positional("TIME", "seconds", "0"),
        ArgInfo::keyword("FIRST", "bool", "false"),
        ArgInfo::keyword("ALL", "bool", "false"),
    ],
    table: &HANDLERS,
    samples: &["1.5", "-2, ALL true", "3, FIRST true"],
    build: |args| {
        let element =
            AdjustTimestamp { time: args.value("TIME"), first: args.value("FIRST"), all: args.value("ALL") };
        args.finish()?;
        Ok(Box::new(element))
    },
    ..Class::DEFAULT
};

struct AdjustTimestamp {
    time: Timestamp,
    first: bool,
    all: bool,
}

impl Element for AdjustTimestamp {
    fn effects(&self) -> Effects {
        let offset = Annotations::FIRST_TIMESTAMP as u8;
        let field = if self.first { Field::Annotation { offset, length: 8 } } else { Field::TimeStamp };
        let value = match self.all {
            true => Value::Plus(field.clone(), self.time.0),
            false => Value::Pure { name: "adjusted if set", reads: vec![field.clone()] },
        };
        let adjusted = Case::new(Filter::TRUE, Target::Output(0)).with(Action::Set(field, value));
        Effects::cases(vec![adjusted]).depending_on(Depends::Handler)
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let time = if self.first { first_timestamp(packet) } else { packet.time() };
            if !self.all && !time.is_set() {
                continue;
            }
            match self.first {
                true => set_first_timestamp(packet, time + self.time),
                false => packet.set_time(time + self.time),
            }
        }
    }
}

const HANDLERS: &[Handler<AdjustTimestamp>] = &[Handler::data(
    "time",
    |e| e.time.as_interval(),
    |e, _, value| {
        e.time = parse_seconds(value).ok_or("expected timestamp")?;
        Ok(())
    },
)];
