//! # StaticPullSwitch
//! Pulls from one input, which the configuration chooses.
//!
//! ## Usage
//! `StaticPullSwitch(INPUT)`
//!
//! ## Arguments
//! - `INPUT`: the input; a negative number, or an input that does not exist, for no input.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> StaticPullSwitch(0) -> Discard
//! ```
//!
//! ## See also
//! PullSwitch, SimplePullSwitch, StaticSwitch

use element::class::ArgInfo;
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::pull_switch::pulls_from;

/// The element class `StaticPullSwitch`.
pub static CLASS: Class = Class {
    name: "StaticPullSwitch",
    ports: "-/1",
    processing: "l/l",
    manual: manual!("static_pull_switch.rs"),
    args: &[ArgInfo::required("INPUT", "int")],
    samples: &["0 -> 1/1"],
    build: |args| {
        let chosen: i32 = args.required("INPUT");
        args.finish()?;
        let chosen = usize::try_from(chosen).ok().filter(|&n| n < args.inputs());
        Ok(Box::new(StaticPullSwitch { chosen }))
    },
    ..Class::DEFAULT
};

struct StaticPullSwitch {
    chosen: Option<usize>,
}

impl Element for StaticPullSwitch {
    fn effects(&self) -> Effects {
        pulls_from(self.chosen)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        match self.chosen {
            Some(input) => cx.pull(input, max),
            None => cx.batch(),
        }
    }
}
