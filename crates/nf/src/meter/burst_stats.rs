//! # BurstStats
//! Counts the lengths of bursts of consecutive packets with the same aggregate annotation.
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

use element::class::HandlerInfo;
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, manual};
use packet::Annotations;

use super::histogram::Histogram;
use super::metering;
use crate::script::number::Number;

/// The class.
pub static CLASS: Class = Class {
    name: "BurstStats",
    manual: manual!("burst_stats.rs"),
    handlers: &[
        HandlerInfo::read("most_seen"),
        HandlerInfo::read("most_seen_freq"),
        HandlerInfo::read("max"),
        HandlerInfo::count("count"),
        HandlerInfo::read("nval"),
        HandlerInfo::read("median"),
        HandlerInfo::read("average"),
        HandlerInfo::read("avg"),
        HandlerInfo::read("dump"),
    ],
    build: |args| {
        args.finish()?;
        Ok(Box::new(BurstStats { lengths: Histogram::new(1023), aggregate: 0, length: 0 }))
    },
    ..Class::DEFAULT
};

struct BurstStats {
    lengths: Histogram,
    /// The aggregate of the previous packet.
    aggregate: u32,
    /// The length of the current burst.
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
                // Like FastClick, count a burst of length 0 before the first packet.
                self.lengths.add(self.length);
                (self.aggregate, self.length) = (aggregate, 0);
            }
            self.length += 1;
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        let lengths = &self.lengths;
        let (mode, often) = lengths.mode();
        Ok(match name {
            "most_seen" => mode.to_string(),
            "most_seen_freq" => often.to_string(),
            "max" => lengths.max().map_or("-1".into(), |max| max.to_string()),
            "count" => lengths.total().to_string(),
            "nval" => lengths.different().to_string(),
            "median" => lengths.median().to_string(),
            "average" | "avg" => match lengths.total() {
                0 => "0".into(),
                total => Number::Real(lengths.sum() as f64 / total as f64).to_string(),
            },
            _ => lengths.dump(),
        })
    }
}
