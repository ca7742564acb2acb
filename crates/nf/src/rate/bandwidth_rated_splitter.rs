//! # BandwidthRatedSplitter
//! Sends packets up to a bandwidth to output 0, and further packets to output 1.
//!
//! A token bucket enforces the rate, as in BandwidthRatedUnqueue. Without output 1, packets above the rate
//! are dropped.
//!
//! ## Usage
//! `BandwidthRatedSplitter(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: the bandwidth; with 0, all packets are above the rate.
//! - `BURST_DURATION`: the size of the bucket, as the time in which it fills.
//! - `BURST_BYTES`: the size of the bucket in bytes, in place of BURST_DURATION.
//!
//! ## Handlers
//! - `rate`: the bandwidth.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: BandwidthRatedSplitter(10kBps) -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! RatedSplitter, BandwidthMeter, BandwidthShaper, BandwidthRatedUnqueue

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::limit::Limit;
use super::rated_splitter::RatedSplitter;

/// The element class `BandwidthRatedSplitter`.
pub static CLASS: Class = Class {
    name: "BandwidthRatedSplitter",
    ports: "1/1-2",
    processing: "h/h",
    manual: manual!("bandwidth_rated_splitter.rs"),
    args: &[
        ArgInfo::required("RATE", "bandwidth"),
        ArgInfo::keyword("BURST_DURATION", "seconds", "20ms"),
        ArgInfo::keyword("BURST_BYTES", "unsigned", ""),
    ],
    table: &super::rated_splitter::HANDLERS,
    state: &[StatePart::kept("rate", &[])],
    samples: &["1kBps -> 1/2", "100000Bps, BURST_BYTES 10"],
    reconfigures: true,
    build: |args| {
        let limit = Limit::read(args, true);
        args.finish()?;
        Ok(Box::new(RatedSplitter { limit }))
    },
    ..Class::DEFAULT
};
