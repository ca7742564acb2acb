//! # CPUSwitch
//! Sends packets to the output of the thread's number.
//!
//! The remainder counts where there are fewer outputs than threads. A single worker is thread 0.
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

use element::effects::{Case, Filter, Target};
use element::{Args, Class, Effects, Element, Invalid, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "CPUSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("cpu_switch.rs"),
    samples: &["", " -> 1/3"],
    build: |args| build(args),
    ..Class::DEFAULT
};

/// Makes either switch: with one worker both do the same.
pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    args.finish()?;
    Ok(Box::new(CpuSwitch))
}

/// Pushing passes to output 0, that of the only worker.
struct CpuSwitch;

impl Element for CpuSwitch {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::Any, Target::Output(0))])
    }
}
