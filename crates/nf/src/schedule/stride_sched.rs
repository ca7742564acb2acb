//! # StrideSched
//! Pulls from its inputs in proportion to their tickets.
//!
//! An input without packets loses its turn, and cannot make up for it later. Each input has a handler
//! (`tickets0`, `tickets1` and so on), which reads or sets its tickets.
//!
//! ## Usage
//! `StrideSched(TICKETS, ...)`
//!
//! ## Arguments
//! - `TICKETS`: one number for each input, at most 32768; 0 for an input that is never pulled from.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> s :: StrideSched(3, 1) -> Discard; InfiniteSource(LIMIT 5) -> Queue
//! -> [1] s
//! ```
//!
//! ## See also
//! StrideSwitch, PrioSched, RoundRobinSched, DRRSched

use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, manual};

use super::stride::Stride;
use super::{collect, pull_one};
use crate::editing::when;
use crate::sorting::Sorter;

/// The element class `StrideSched`.
pub static CLASS: Class = Class {
    name: "StrideSched",
    ports: "1-/1",
    processing: "l/l",
    manual: manual!("stride_sched.rs"),
    args: &[ArgInfo::rest("TICKETS", "unsigned")],
    table: &HANDLERS,
    samples: &["1", "3, 1, 2 -> 3/1"],
    build: |args| {
        let stride = Stride::read(args, args.inputs(), "input");
        args.finish()?;
        Ok(Box::new(Striding { stride, sorter: None }))
    },
    ..Class::DEFAULT
};

/// The element of the classes StrideSched, which chooses among inputs, and StrideSwitch, which chooses
/// among outputs.
pub(crate) struct Striding {
    pub(crate) stride: Stride,
    /// The outputs of StrideSwitch; `None` for StrideSched.
    pub(crate) sorter: Option<Sorter>,
}

impl Element for Striding {
    fn effects(&self) -> Effects {
        if self.sorter.is_none() {
            return Effects::pass().depending_on(Depends::Handler);
        }
        let none = when("no output has tickets", &[], Target::Drop(DropReason::NoOutput));
        let some = Effects::cases(vec![none, Case::new(Filter::TRUE, Target::SomeOutput)]);
        some.depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn configuration(&self) -> Option<String> {
        let tickets = (0..self.stride.clients()).map(|client| self.stride.tickets(client).to_string());
        Some(tickets.collect::<Vec<_>>().join(", "))
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let Some(sorter) = &mut self.sorter else { return Some(batch) };
        let stride = &mut self.stride;
        sorter.send(cx, batch, |_, _| stride.next(Some).into())
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        let stride = &mut self.stride;
        collect(cx, max, |cx| {
            stride.next(|input| if cx.may_pull(input) { pull_one(cx, input) } else { None })
        })
    }
}

/// The handlers of StrideSched and StrideSwitch.
pub(crate) const HANDLERS: &[Handler<Striding>] = &[Handler::numbered(
    "tickets",
    |e| e.stride.clients(),
    |e, _, client| e.stride.tickets(client).to_string(),
    |e, _, client, value| e.stride.write_tickets(client, value),
)];
