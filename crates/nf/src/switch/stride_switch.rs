//! # StrideSwitch
//! Sends packets to its outputs in proportion to their tickets.
//!
//! Each output has a handler `tickets0`, `tickets1` and so on, which reads or sets its tickets. If no output has
//! tickets, packets are dropped.
//!
//! ## Usage
//! `StrideSwitch(TICKETS, ...)`
//!
//! ## Arguments
//! - `TICKETS`: one number for each output, at most 32768; 0 for an output that gets nothing.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: StrideSwitch(3, 1); s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! StrideSched, RoundRobinSwitch, Switch, HashSwitch, RandomSwitch

use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Target};
use element::{Access, Batch, Class, Cx, DropReason, Effects, Element, manual};

use super::Outputs;
use crate::schedule::stride::Stride;

/// The class.
pub static CLASS: Class = Class {
    name: "StrideSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("stride_switch.rs"),
    args: &[ArgInfo::rest("TICKETS", "unsigned")],
    samples: &["1", "3, 1, 2 -> 1/3", "0"],
    build: |args| {
        let stride = Stride::read(args, args.outputs(), "output");
        args.finish()?;
        Ok(Box::new(StrideSwitch { stride, outputs: Outputs::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

struct StrideSwitch {
    stride: Stride,
    outputs: Outputs,
}

impl Element for StrideSwitch {
    fn effects(&self) -> Effects {
        let some = Effects::cases(vec![Case::new(Filter::Any, Target::SomeOutput)]);
        some.depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let stride = &mut self.stride;
        self.outputs.distribute(cx, batch, DropReason::NoOutput, |_, _| stride.next(Some));
        None
    }

    fn own_handlers(&self) -> Vec<(String, Access)> {
        self.stride.handlers()
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(self.stride.read_handler(name))
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        self.stride.write_handler(name, value)
    }
}
