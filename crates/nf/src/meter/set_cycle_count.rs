//! # SetCycleCount
//! Stores the processor's cycle counter in the PERFCTR annotation.
//!
//! ## Usage
//! `SetCycleCount`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetCycleCount -> Null -> CycleCountAccum -> Discard
//! ```
//!
//! ## See also
//! CycleCountAccum

use element::effects::{Action, Case, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::{PERFCTR, PERFCTR_FIELD};

/// The element class `SetCycleCount`.
pub static CLASS: Class = Class {
    name: "SetCycleCount",
    manual: manual!("set_cycle_count.rs"),
    // No samples for the generic tests, because cycle counts differ between runs; the tests of whole
    // configurations cover the element.
    samples: &[],
    build: |args| {
        args.finish()?;
        Ok(Box::new(SetCycleCount))
    },
    ..Class::DEFAULT
};

struct SetCycleCount;

impl Element for SetCycleCount {
    fn effects(&self) -> Effects {
        let stamp = Action::Set(PERFCTR_FIELD, Value::Now);
        Effects::cases(vec![Case::new(Filter::TRUE, Target::Output(0)).with(stamp)])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let cycles = cx.cycles().to_ne_bytes();
        for packet in batch.iter_mut() {
            packet.annotations_mut().bytes_mut()[PERFCTR..][..8].copy_from_slice(&cycles);
        }
    }
}
