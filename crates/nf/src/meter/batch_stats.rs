//! # BatchStats
//! Counts the batches of each size.
//!
//! ## Usage
//! `BatchStats`
//!
//! ## Handlers
//! - `median`: the most frequent size; the handler's name is from FastClick.
//! - `average`: the mean size.
//! - `dump`: lines `SIZE: COUNT`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100, BURST 10) -> BatchStats -> Discard
//! ```
//!
//! ## See also
//! AverageBatchCounter, BurstStats

use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::BATCH_CAPACITY;

use super::histogram::Histogram;
use super::metering;
use crate::fixed::quotient;

/// The element class `BatchStats`.
pub static CLASS: Class = Class {
    name: "BatchStats",
    manual: manual!("batch_stats.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["median", "average", "dump"]).with_tables(&["meter"])],
    build: |args| {
        args.finish()?;
        Ok(Box::new(BatchStats { sizes: Histogram::new(BATCH_CAPACITY) }))
    },
    ..Class::DEFAULT
};

struct BatchStats {
    sizes: Histogram,
}

impl Element for BatchStats {
    fn effects(&self) -> Effects {
        metering(&[])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        if !batch.is_empty() {
            self.sizes.add(batch.len());
        }
    }

    element::keeps!(sizes);
}

const HANDLERS: &[Handler<BatchStats>] = &[
    Handler::get("median", |e| e.sizes.mode().0.to_string()),
    Handler::get("average", |e| quotient(e.sizes.sum(), e.sizes.total())),
    Handler::<BatchStats>::get("dump", |e| e.sizes.dump()).summed(),
];
