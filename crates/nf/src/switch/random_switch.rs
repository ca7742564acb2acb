//! # RandomSwitch
//! Sends each packet to an output chosen at random.
//!
//! ## Usage
//! `RandomSwitch`
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: RandomSwitch; s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! Switch, StrideSwitch, RoundRobinSwitch, HashSwitch

use element::effects::{Case, Depends, Filter, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};

use crate::sorting::{Fate, Sorter};

/// The element class `RandomSwitch`.
pub static CLASS: Class = Class {
    name: "RandomSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("random_switch.rs"),
    samples: &["", " -> 1/3"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(RandomSwitch { sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

struct RandomSwitch {
    sorter: Sorter,
}

impl Element for RandomSwitch {
    fn effects(&self) -> Effects {
        Effects::cases(vec![Case::new(Filter::TRUE, Target::SomeOutput)]).depending_on(Depends::Random)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let last = self.sorter.outputs().saturating_sub(1) as u32;
        self.sorter.send(cx, batch, |cx, _| Fate::Output(cx.random().between(0, last) as usize))
    }
}
