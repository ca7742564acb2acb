//! # CPUSwitch
//! Sends packets to the output whose number is the number of the current thread.
//!
//! Threads are workers, numbered from 0. If there are fewer outputs than workers, the output is the
//! worker's number modulo the number of outputs.
//!
//! ## Usage
//! `CPUSwitch`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> s :: CPUSwitch -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! ExactCPUSwitch, RoundRobinSwitch, StrideSwitch, HashSwitch

use element::effects::{Case, Depends, Filter, Target};
use element::{Args, Batch, Class, Cx, Effects, Element, Invalid, manual};

/// The element class `CPUSwitch`.
pub static CLASS: Class = Class {
    name: "CPUSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("cpu_switch.rs"),
    samples: &["", " -> 1/3"],
    build: |args| build(args),
    ..Class::DEFAULT
};

/// Makes the element of CPUSwitch and ExactCPUSwitch. ExactCPUSwitch counts only workers on which packets
/// may arrive; these are all workers, so the two classes do the same.
pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let outputs = args.outputs();
    let several = args.setup.workers > 1 && outputs > 1;
    let output = args.setup.worker % outputs.max(1);
    args.finish()?;
    Ok(Box::new(CpuSwitch { output, outputs, several }))
}

struct CpuSwitch {
    /// The number of the output to which this worker sends its packets.
    output: usize,
    outputs: usize,
    /// True if there are several workers and several outputs, so that not all packets go to output 0.
    several: bool,
}

impl Element for CpuSwitch {
    fn effects(&self) -> Effects {
        let to = if self.several { Target::SomeOutput } else { Target::Output(0) };
        let effects = Effects::cases(vec![Case::new(Filter::TRUE, to)]);
        if self.outputs > 1 { effects.depending_on(Depends::Worker) } else { effects }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if self.output == 0 {
            return Some(batch);
        }
        cx.emit(self.output, batch);
        None
    }
}
