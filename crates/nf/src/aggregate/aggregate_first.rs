//! # AggregateFirst
//! Lets the first packet of each aggregate pass.
//!
//! Further packets with the same aggregate annotation go to output 1, or are dropped.
//!
//! ## Usage
//! `AggregateFirst([KEYWORDS])`
//!
//! ## Arguments
//! - `NOTIFIER`: an element that says when aggregates end, such as AggregateIPFlows; these are forgotten.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregateFirst -> Discard
//! ```
//!
//! ## See also
//! AggregateLast, AggregateIPFlows

use std::collections::HashSet;
use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Access, Case, Depends, Filter, State, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, ElementId, manual};

use super::notifier::{self, Ended};
use super::{AGGREGATE, aggregate_of};
use crate::editing::aside;

/// The class.
pub static CLASS: Class = Class {
    name: "AggregateFirst",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_first.rs"),
    args: &[ArgInfo::keyword("NOTIFIER", "element", "")],
    samples: &["", " -> 1/2"],
    build: |args| {
        let notifier = notifier::read(args);
        args.finish()?;
        Ok(Box::new(AggregateFirst { notifier, ended: None, seen: HashSet::new() }))
    },
    ..Class::DEFAULT
};

struct AggregateFirst {
    notifier: Option<ElementId>,
    ended: Option<Arc<Ended>>,
    seen: HashSet<u32>,
}

impl Element for AggregateFirst {
    fn effects(&self) -> Effects {
        let hit = |hit| Filter::State { table: "seen", hit };
        let cases = vec![Case::new(hit(false), Target::Output(0)), aside(hit(true), DropReason::NoMatch)];
        let key = vec![AGGREGATE];
        let state = State { table: "seen", key, both_directions: false, access: Access::EveryPacket };
        Effects { state: vec![state], ..Effects::cases(cases) }.depending_on(Depends::Counter)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ended = notifier::listen(cx, self.notifier)?;
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let seen = &mut self.seen;
        if let Some(ended) = &self.ended {
            ended.take(|aggregate| {
                seen.remove(&aggregate);
            });
        }
        let first =
            |packet: &mut element::Packet| if seen.insert(aggregate_of(packet)) { Ok(()) } else { Err(()) };
        batch.sift(first, |packet, ()| cx.emit_one(1, packet, DropReason::NoMatch));
    }
}
