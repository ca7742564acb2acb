//! # SetTimestampDelta
//! Replaces each packet's time stamp by its difference from another time.
//!
//! Time stamps that are zero do not change.
//!
//! ## Usage
//! `SetTimestampDelta([KEYWORDS])`
//!
//! ## Arguments
//! - `TYPE`: `RANGE` for the time since the first time stamp of the run, `NOW` for the time from the time
//!   stamp until now, `FIRST` for the time since the packet's first-timestamp annotation.
//!
//! ## Handlers
//! - `first`: the first time stamp of the run, or since the last `reset`; zero unless TYPE is `RANGE`.
//! - `reset`: clears the first time stamp; the next packet's time stamp becomes the first one.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 10, LIMIT 3) -> SetTimestampDelta -> Print(TIMESTAMP true) -> Discard
//! ```
//!
//! ## See also
//! SetTimestamp, AdjustTimestamp, TimeFilter

use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};
use packet::Annotations;

use super::first_timestamp;

/// The element class `SetTimestampDelta`.
pub static CLASS: Class = Class {
    name: "SetTimestampDelta",
    manual: manual!("set_timestamp_delta.rs"),
    args: &[ArgInfo::keyword("TYPE", "RANGE, NOW or FIRST", "RANGE")],
    table: &HANDLERS,
    state: &[StatePart::kept("first time", &["first"])],
    samples: &["", "TYPE NOW", "TYPE FIRST"],
    build: |args| {
        let kind = match args.value::<String>("TYPE").as_str() {
            "RANGE" => Kind::Range,
            "NOW" => Kind::Now,
            "FIRST" => Kind::First,
            _ => {
                args.error("bad TYPE");
                Kind::Range
            }
        };
        args.finish()?;
        Ok(Box::new(SetTimestampDelta { kind, first: Timestamp::ZERO }))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy)]
enum Kind {
    Range,
    Now,
    First,
}

struct SetTimestampDelta {
    kind: Kind,
    /// With TYPE `RANGE`, the first time stamp of the run, or since the last `reset`; zero before it is
    /// known.
    first: Timestamp,
}

impl Element for SetTimestampDelta {
    fn effects(&self) -> Effects {
        let first = Field::Annotation { offset: Annotations::FIRST_TIMESTAMP as u8, length: 8 };
        let (name, reads, depends) = match self.kind {
            Kind::Range => ("since the first packet", vec![Field::TimeStamp], Some(Depends::Counter)),
            Kind::Now => ("until now", vec![Field::TimeStamp], Some(Depends::Time)),
            Kind::First => ("since the first time stamp", vec![Field::TimeStamp, first], None),
        };
        let delta = Action::Set(Field::TimeStamp, Value::Pure { name, reads });
        let effects = Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(delta)]);
        match depends {
            Some(Depends::Counter) => effects.depending_on(Depends::Counter).sharing("first time"),
            Some(depends) => effects.depending_on(depends),
            None => effects,
        }
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let time = packet.time();
            if !time.is_set() {
                continue;
            }
            if matches!(self.kind, Kind::Range) && !self.first.is_set() {
                self.first = time;
            }
            packet.set_time(match self.kind {
                Kind::Range => time - self.first,
                Kind::Now => cx.now() - time,
                Kind::First => time - first_timestamp(packet),
            });
        }
    }

    element::keeps!(first);
}

const HANDLERS: &[Handler<SetTimestampDelta>] = &[
    Handler::get("first", |e| format!("{}\n", e.first)),
    Handler::act("reset", |e| {
        e.first = Timestamp::ZERO;
    }),
];
