//! # StrideSched
//! Pulls from its inputs in proportion to their tickets.
//!
//! Inputs that have nothing are passed over, but their turn counts. Each input has a handler `tickets0`, `tickets1`
//! and so on, which reads or sets its tickets.
//!
//! ## Usage
//! `StrideSched(TICKETS, ...)`
//!
//! ## Arguments
//! - `TICKETS`: one number for each input, at most 32768; 0 for an input that is never asked.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> s :: StrideSched(3, 1) -> Discard; InfiniteSource(LIMIT 5) -> Queue -> [1] s
//! ```
//!
//! ## See also
//! StrideSwitch, PrioSched, RoundRobinSched, DRRSched

use element::class::ArgInfo;
use element::{Access, Batch, Class, Cx, Effects, Element, manual};

use super::stride::Stride;
use super::{collect, pull_one};

/// The class.
pub static CLASS: Class = Class {
    name: "StrideSched",
    ports: "1-/1",
    processing: "l/l",
    manual: manual!("stride_sched.rs"),
    args: &[ArgInfo::rest("TICKETS", "unsigned")],
    samples: &["1", "3, 1, 2 -> 3/1"],
    build: |args| {
        let stride = Stride::read(args, args.inputs(), "input");
        args.finish()?;
        Ok(Box::new(StrideSched { stride }))
    },
    ..Class::DEFAULT
};

struct StrideSched {
    stride: Stride,
}

impl Element for StrideSched {
    fn effects(&self) -> Effects {
        Effects::pass()
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let stride = &mut self.stride;
        collect(cx, max, |cx| {
            stride.next(|input| if cx.may_pull(input) { pull_one(cx, input) } else { None })
        })
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
