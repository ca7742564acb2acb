//! # TimeRange
//! Records the earliest and the latest time stamp of the packets that pass.
//!
//! ## Usage
//! `TimeRange([KEYWORDS])`
//!
//! ## Arguments
//! - `SIMPLE`: if true, packets are expected in the order of their time stamps: the first packet's is the
//!   earliest, the last packet's the latest.
//!
//! ## Handlers
//! - `first`: the earliest time stamp.
//! - `last`: the latest time stamp.
//! - `range`: the earliest and the latest time stamp.
//! - `interval`: the time from the earliest to the latest time stamp.
//! - `reset`: clears both.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 10, LIMIT 3) -> TimeRange -> Discard
//! ```
//!
//! ## See also
//! TimeFilter

use element::class::ArgInfo;
use element::effects::{Counting, Field, State, StateAccess};
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};

/// The element class `TimeRange`.
pub static CLASS: Class = Class {
    name: "TimeRange",
    manual: manual!("time_range.rs"),
    args: &[ArgInfo::keyword("SIMPLE", "bool", "false")],
    table: &HANDLERS,
    state: &[StatePart::kept("range", &["first", "last", "range", "interval"])],
    samples: &["", "SIMPLE true"],
    build: |args| {
        let simple = args.value::<bool>("SIMPLE");
        args.finish()?;
        Ok(Box::new(TimeRange { simple, first: Timestamp::ZERO, last: Timestamp::ZERO }))
    },
    ..Class::DEFAULT
};

struct TimeRange {
    simple: bool,
    first: Timestamp,
    last: Timestamp,
}

impl Element for TimeRange {
    fn effects(&self) -> Effects {
        let state =
            State { table: "range", key: Vec::new(), both_directions: false, access: StateAccess::Soft };
        Effects { state: vec![state], counts: Counting::Own, ..Effects::pass() }
            .observing(&[Field::TimeStamp])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for time in batch.iter().map(|packet| packet.time()) {
            if !self.first.is_set() {
                (self.first, self.last) = (time, time);
            } else if self.simple {
                self.last = time;
            } else {
                (self.first, self.last) = (self.first.min(time), self.last.max(time));
            }
        }
    }

    element::keeps!(first, last);
}

const HANDLERS: &[Handler<TimeRange>] = &[
    Handler::read("first", |e, _, _| {
        let TimeRange { first, last: _, .. } = *e;
        Ok(first.to_string())
    }),
    Handler::read("last", |e, _, _| {
        let TimeRange { first: _, last, .. } = *e;
        Ok(last.to_string())
    }),
    Handler::read("range", |e, _, _| {
        let TimeRange { first, last, .. } = *e;
        Ok(format!("{first} {last}"))
    }),
    Handler::read("interval", |e, _, _| {
        let TimeRange { first, last, .. } = *e;
        Ok((last - first).to_string())
    }),
    Handler::act("reset", |e| {
        (e.first, e.last) = (Timestamp::ZERO, Timestamp::ZERO);
    }),
];
