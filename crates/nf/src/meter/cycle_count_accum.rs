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

use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};

use super::{PERFCTR_FIELD, cycles_of, metering};

/// The element class `CycleCountAccum`.
pub static CLASS: Class = Class {
    name: "CycleCountAccum",
    manual: manual!("cycle_count_accum.rs"),
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "cycles", "cycles_pp", "zero_count"]).with_tables(&["meter"])
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

    element::keeps!(count, cycles, without);
}

const HANDLERS: &[Handler<CycleCountAccum>] = &[
    Handler::count("count", |e| e.count),
    Handler::count("cycles", |e| e.cycles),
    Handler::get("cycles_pp", |e| e.cycles.checked_div(e.count).unwrap_or(0).to_string()),
    Handler::count("zero_count", |e| e.without),
    Handler::act("reset_counts", |e| *e = CycleCountAccum::default()),
];
