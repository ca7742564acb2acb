//! # AggregateFirst
//! Passes the first packet of each aggregate.
//!
//! Further packets with the same aggregate annotation go to output 1, or are dropped.
//!
//! ## Usage
//! `AggregateFirst([KEYWORDS])`
//!
//! ## Arguments
//! - `NOTIFIER`: an element that notifies when an aggregate ends, such as AggregateIPFlows; ended
//!   aggregates are removed from the table.
//! - `CAPACITY`: the maximum number of aggregates in the table; memory for them is reserved at the start,
//!   about 8 bytes each. Packets of further aggregates go to output 1, or are dropped.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregateFirst -> Discard
//! ```
//!
//! ## See also
//! AggregateLast, AggregateIPFlows

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, State, StateAccess, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, ElementId, StatePart, manual};

use super::notifier::{self, Ended};
use super::{AGGREGATE, aggregate_of, for_capacity};
use crate::editing::aside;
use crate::memory::reserved_set;

/// The element class `AggregateFirst`.
pub static CLASS: Class = Class {
    name: "AggregateFirst",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("aggregate_first.rs"),
    args: &[ArgInfo::keyword("NOTIFIER", "element", ""), ArgInfo::keyword("CAPACITY", "unsigned", "1048576")],
    state: &[StatePart::kept("seen", &[])],
    samples: &["", " -> 1/2", "CAPACITY 2 -> 1/2"],
    build: |args| {
        let notifier = notifier::read(args);
        let make = |capacity| Ok((reserved_set(capacity)?, capacity));
        let (seen, capacity) = for_capacity(args, make)?;
        Ok(Box::new(AggregateFirst { notifier, ended: None, seen, capacity }))
    },
    ..Class::DEFAULT
};

struct AggregateFirst {
    notifier: Option<ElementId>,
    ended: Option<Arc<Ended>>,
    seen: HashSet<u32>,
    /// The maximum number of aggregates in `seen`, for which memory is reserved.
    capacity: usize,
}

impl Element for AggregateFirst {
    fn effects(&self) -> Effects {
        let hit = |hit| Filter::Leaf(Predicate::State { table: "seen", hit });
        let no_room = Filter::Leaf(Predicate::Opaque {
            about: "no room for another aggregate",
            reads: vec![AGGREGATE],
        });
        let cases = vec![
            aside(hit(true), DropReason::NoMatch),
            aside(no_room, DropReason::TableFull),
            Case::new(hit(false), Target::Output(0)),
        ];
        let key = vec![AGGREGATE];
        let state = State { table: "seen", key, both_directions: false, access: StateAccess::EveryPacket };
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
        let capacity = self.capacity;
        let first = |packet: &mut element::Packet| {
            let aggregate = aggregate_of(packet);
            match seen.len() < capacity {
                true if seen.insert(aggregate) => Ok(()),
                false if !seen.contains(&aggregate) => Err(DropReason::TableFull),
                _ => Err(DropReason::NoMatch),
            }
        };
        batch.sift(first, |packet, reason| cx.emit_one(1, packet, reason));
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(std::mem::take(&mut self.seen)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let seen: HashSet<u32> = *state.downcast().map_err(|_| "the state of another class")?;
        self.seen.extend(seen.into_iter().take(self.capacity));
        Ok(())
    }
}
