//! # CycleCountAccum
//! Adds up the processor cycles that have passed since SetCycleCount.
//!
//! ## Usage
//! `CycleCountAccum`
//!
//! ## Handlers
//! - `count`: the number of packets with a cycle count.
//! - `cycles`: the total number of cycles.
//! - `cycles_pp`: cycles per packet.
//! - `zero_count`: the number of packets without a cycle count.
//! - `reset_counts`: sets all counts to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetCycleCount -> Null -> CycleCountAccum -> Discard
//! ```
//!
//! ## See also
//! SetCycleCount, TimestampAccum

use element::class::HandlerInfo;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::{PERFCTR_FIELD, cycles_of, metering};

/// The class.
pub static CLASS: Class = Class {
    name: "CycleCountAccum",
    manual: manual!("cycle_count_accum.rs"),
    handlers: &[
        HandlerInfo::count("count"),
        HandlerInfo::read("cycles"),
        HandlerInfo::read("cycles_pp"),
        HandlerInfo::count("zero_count"),
        HandlerInfo::write("reset_counts"),
    ],
    build: |args| {
        args.finish()?;
        Ok(Box::new(CycleCountAccum::default()))
    },
    ..Class::DEFAULT
};

#[derive(Default)]
struct CycleCountAccum {
    count: u64,
    cycles: u64,
    without: u64,
}

impl Element for CycleCountAccum {
    fn effects(&self) -> Effects {
        metering(&[PERFCTR_FIELD])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.cycles();
        for packet in batch.iter() {
            match cycles_of(packet) {
                0 => {
                    if self.without == 0 {
                        cx.warn(format_args!("packet with zero cycle counter annotation!"));
                    }
                    self.without += 1;
                }
                then => {
                    self.count += 1;
                    self.cycles = self.cycles.wrapping_add(now.wrapping_sub(then));
                }
            }
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(match name {
            "count" => self.count,
            "cycles" => self.cycles,
            "cycles_pp" => self.cycles.checked_div(self.count).unwrap_or(0),
            _ => self.without,
        }
        .to_string())
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, _value: &str) -> Result<(), String> {
        *self = CycleCountAccum::default();
        Ok(())
    }
}
