//! # TimestampAccum
//! Adds up the time from packets' time stamps until now.
//!
//! ## Usage
//! `TimestampAccum([KEYWORDS])`
//!
//! ## Arguments
//! - `STEADY`: accepted, without effect; there is only one clock.
//!
//! ## Handlers
//! - `count`: the number of packets.
//! - `time`: the total time in seconds.
//! - `average_time`: the mean time per packet in seconds.
//! - `min`, `max`: the smallest and the largest time, in nanoseconds.
//! - `reset_counts`: resets all values to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> Unqueue -> TimestampAccum -> Discard
//! ```
//!
//! ## See also
//! CycleCountAccum, SetTimestamp

use element::class::ArgInfo;
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};

use super::metering;
use crate::script::number::Number;

/// The element class `TimestampAccum`.
pub static CLASS: Class = Class {
    name: "TimestampAccum",
    aliases: &["TimestampAccumMP"],
    manual: manual!("timestamp_accum.rs"),
    args: &[ArgInfo::keyword("STEADY", "bool", "true")],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "time", "average_time", "min", "max"]).with_tables(&["meter"])
    ],
    build: |args| {
        args.value::<bool>("STEADY");
        args.finish()?;
        Ok(Box::new(TimestampAccum::default()))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct TimestampAccum {
    count: u64,
    nanos: i128,
    /// The smallest and the largest time, in nanoseconds, from a packet's time stamp until it arrived;
    /// `None` before the first packet.
    range: Option<(i64, i64)>,
}

impl Element for TimestampAccum {
    fn effects(&self) -> Effects {
        metering(&[Field::TimeStamp])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        for packet in batch.iter() {
            let time = (now - packet.time()).0;
            let (least, most) = self.range.unwrap_or((time, time));
            self.range = Some((least.min(time), most.max(time)));
            self.nanos += i128::from(time);
            self.count += 1;
        }
    }

    element::keeps!(count, nanos, range);
}

const HANDLERS: &[Handler<TimestampAccum>] = &[
    Handler::count("count", |e| e.count),
    Handler::<TimestampAccum>::get("time", |e| Number::Real(e.nanos as f64 / 1e9).to_string()).summed(),
    Handler::get("average_time", |e| Number::Real(e.nanos as f64 / 1e9 / e.count as f64).to_string()),
    Handler::get("min", |e| e.range.unwrap_or_default().0.to_string()),
    Handler::get("max", |e| e.range.unwrap_or_default().1.to_string()),
    Handler::act("reset_counts", |e| {
        *e = TimestampAccum::default();
    }),
];
