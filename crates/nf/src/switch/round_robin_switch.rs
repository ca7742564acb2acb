//! # RoundRobinSwitch
//! Sends packets to its outputs in turn.
//!
//! ## Usage
//! `RoundRobinSwitch`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: RoundRobinSwitch; s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! StrideSwitch, Switch, HashSwitch, RandomSwitch, RoundRobinSched

use element::effects::{Case, Depends, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};

use crate::sorting::{Fate, Sorter};

/// The element class `RoundRobinSwitch`.
pub static CLASS: Class = Class {
    name: "RoundRobinSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("round_robin_switch.rs"),
    samples: &["", " -> 1/3"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(RoundRobinSwitch { sorter: Sorter::new(args.outputs()), next: 0 }))
    },
    ..Class::DEFAULT
};

struct RoundRobinSwitch {
    sorter: Sorter,
    next: usize,
}

impl Element for RoundRobinSwitch {
    fn effects(&self) -> Effects {
        if self.sorter.outputs() == 1 {
            return Effects::pass();
        }
        Effects::cases(vec![Case::new(Filter::TRUE, Target::SomeOutput)]).depending_on(Depends::Counter)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let (next, n) = (&mut self.next, self.sorter.outputs());
        self.sorter.send(cx, batch, |_, _| {
            let output = *next;
            *next = if output + 1 == n { 0 } else { output + 1 };
            Fate::Output(output)
        })
    }
}
