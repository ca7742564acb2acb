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

use element::class::{ArgInfo, HandlerInfo};
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::metering;
use crate::script::number::Number;

/// The class.
pub static CLASS: Class = Class {
    name: "TimestampAccum",
    aliases: &["TimestampAccumMP"],
    manual: manual!("timestamp_accum.rs"),
    args: &[ArgInfo::keyword("STEADY", "bool", "true")],
    handlers: &[
        HandlerInfo::count("count"),
        HandlerInfo::read("time"),
        HandlerInfo::read("average_time"),
        HandlerInfo::read("min"),
        HandlerInfo::read("max"),
        HandlerInfo::write("reset_counts"),
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
    /// The smallest and the largest time in nanoseconds; `None` before the first packet.
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

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        let seconds = self.nanos as f64 / 1e9;
        let (least, most) = self.range.unwrap_or_default();
        Ok(match name {
            "count" => self.count.to_string(),
            "time" => Number::Real(seconds).to_string(),
            "average_time" => Number::Real(seconds / self.count as f64).to_string(),
            "min" => least.to_string(),
            _ => most.to_string(),
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, _value: &str) -> Result<(), String> {
        *self = TimestampAccum::default();
        Ok(())
    }
}
