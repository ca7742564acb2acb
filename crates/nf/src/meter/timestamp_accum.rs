//! # TimestampAccum
//! Adds up the time from packets' time stamps until now.
//!
//! Packets pass from each input to the output of the same number; the sums are for all inputs together.
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
    ports: "1-/=",
    flow: "#/#",
    manual: manual!("timestamp_accum.rs"),
    args: &[ArgInfo::keyword("STEADY", "bool", "true")],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "time", "average_time", "min", "max"]).with_tables(&["meter"])
    ],
    samples: &["", "-> 2/2"],
    build: |args| {
        args.value::<bool>("STEADY");
        args.finish()?;
        Ok(Box::new(TimestampAccum { ports: args.inputs(), ..TimestampAccum::default() }))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct TimestampAccum {
    ports: usize,
    count: u64,
    nanos: i128,
    /// The smallest and the largest time, in nanoseconds, from a packet's time stamp until it arrived;
    /// `None` before the first packet.
    range: Option<(i64, i64)>,
}

impl Element for TimestampAccum {
    fn effects(&self) -> Effects {
        let Effects { cases, .. } = Effects::port_by_port(self.ports);
        Effects { cases, ..metering(&[Field::TimeStamp]) }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        self.count(cx, &batch);
        cx.pass_on(port, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.count(cx, &batch);
        batch
    }

    element::keeps!(count, nanos, range);
}

impl TimestampAccum {
    fn count(&mut self, cx: &Cx<'_>, batch: &Batch) {
        let now = cx.now();
        for packet in batch.iter() {
            let time = (now - packet.time()).0;
            let (least, most) = self.range.unwrap_or((time, time));
            self.range = Some((least.min(time), most.max(time)));
            self.nanos += i128::from(time);
            self.count += 1;
        }
    }
}

const HANDLERS: &[Handler<TimestampAccum>] = &[
    Handler::count("count", |e| e.count),
    Handler::<TimestampAccum>::get("time", |e| Number::Real(e.nanos as f64 / 1e9).to_string()).summed(),
    Handler::get("average_time", |e| Number::Real(e.nanos as f64 / 1e9 / e.count as f64).to_string()),
    Handler::get("min", |e| e.range.unwrap_or_default().0.to_string()),
    Handler::get("max", |e| e.range.unwrap_or_default().1.to_string()),
    Handler::act("reset_counts", |e| {
        *e = TimestampAccum { ports: e.ports, ..TimestampAccum::default() };
    }),
];
