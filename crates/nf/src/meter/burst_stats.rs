//! # BurstStats
//! Counts the lengths of bursts of consecutive packets with the same aggregate annotation.
//!
//! Lengths above 1023 count as 1023. A burst counts when it has ended, that is, when a packet with another
//! aggregate arrives. As in FastClick, the first packet ends a burst of length 0, unless its aggregate is 0.
//!
//! ## Usage
//! `BurstStats`
//!
//! ## Handlers
//! - `most_seen`: the most frequent length of a burst.
//! - `most_seen_freq`: the number of bursts of this length.
//! - `max`: the length of the longest burst; -1 if there was none.
//! - `count`: the number of bursts that have ended.
//! - `nval`: the number of different lengths.
//! - `median`, `average`, `avg`: the median and the mean of lengths.
//! - `dump`: lines `LENGTH: COUNT`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> AggregateLength -> BurstStats -> Discard
//! ```
//!
//! ## See also
//! BatchStats, AggregateIPFlows

use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::Annotations;

use super::histogram::Histogram;
use super::metering;
use crate::fixed::quotient;

/// The element class `BurstStats`.
pub static CLASS: Class = Class {
    name: "BurstStats",
    manual: manual!("burst_stats.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept(
        "counts",
        &["most_seen", "most_seen_freq", "max", "count", "nval", "median", "average", "avg", "dump"],
    )
    .with_tables(&["meter"])],
    build: |args| {
        args.finish()?;
        Ok(Box::new(BurstStats { lengths: Histogram::new(1023), aggregate: 0, length: 0 }))
    },
    ..Class::DEFAULT
};

struct BurstStats {
    lengths: Histogram,
    /// The aggregate of the previous packet; 0 before the first packet.
    aggregate: u32,
    /// The number of packets in the current burst, which has not ended.
    length: usize,
}

impl Element for BurstStats {
    fn effects(&self) -> Effects {
        metering(&[Field::Annotation { offset: Annotations::AGGREGATE as u8, length: 4 }])
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            let aggregate = packet.annotations().u32(Annotations::AGGREGATE);
            if aggregate != self.aggregate {
                // As in FastClick, the state before the first packet counts as a burst of length 0, unless
                // the first packet's aggregate is 0.
                self.lengths.add(self.length);
                (self.aggregate, self.length) = (aggregate, 0);
            }
            self.length += 1;
        }
    }

    element::keeps!(lengths, aggregate, length);
}

const HANDLERS: &[Handler<BurstStats>] = &[
    Handler::read("most_seen", |e, _, _| {
        let lengths = &e.lengths;
        let (mode, _often) = lengths.mode();
        Ok(mode.to_string())
    }),
    Handler::read("most_seen_freq", |e, _, _| {
        let lengths = &e.lengths;
        let (_mode, often) = lengths.mode();
        Ok(often.to_string())
    }),
    Handler::<BurstStats>::read("max", |e, _, _| {
        let lengths = &e.lengths;
        Ok(lengths.max().map_or("-1".into(), |max| max.to_string()))
    })
    .most(),
    Handler::<BurstStats>::read("count", |e, _, _| {
        let lengths = &e.lengths;
        Ok(lengths.total().to_string())
    })
    .summed(),
    Handler::read("nval", |e, _, _| {
        let lengths = &e.lengths;
        Ok(lengths.different().to_string())
    }),
    Handler::read("median", |e, _, _| {
        let lengths = &e.lengths;
        Ok(lengths.median().to_string())
    }),
    Handler::get("average", |e| quotient(e.lengths.sum(), e.lengths.total())),
    Handler::get("avg", |e| quotient(e.lengths.sum(), e.lengths.total())),
    Handler::<BurstStats>::read("dump", |e, _, _| {
        let lengths = &e.lengths;
        Ok(lengths.dump())
    })
    .summed(),
];
