//! # Meter
//! Chooses the output by the arrival rate of packets.
//!
//! The rate is an exponentially weighted moving average of the packets per millisecond, in which a new
//! millisecond has the weight 1/16. Packets go to output 0 while the rate is below the first argument, to
//! output 1 while it is below the second, and so on. They go to the last output while the rate is not
//! below any argument.
//!
//! ## Usage
//! `Meter(RATE, ...)`
//!
//! ## Arguments
//! - `RATE`: packets per second, in ascending order; one argument less than there are outputs.
//!
//! ## Handlers
//! - `rate`: the average rate in packets per second.
//! - `meters`: the arguments.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: Meter(10000) -> Discard; m[1] -> Discard
//! ```
//!
//! ## See also
//! BandwidthMeter, RatedSplitter, Shaper, BandwidthShaper, RatedUnqueue, BandwidthRatedUnqueue

use element::{Class, StatePart, manual};

use super::bandwidth_meter::{ARGS, HANDLERS, build};

/// The element class `Meter`.
pub static CLASS: Class = Class {
    name: "Meter",
    ports: "1/2-",
    processing: "h/h",
    manual: manual!("meter.rs"),
    args: ARGS,
    table: &HANDLERS,
    state: &[StatePart::kept("rate", &["rate"])],
    samples: &["1000 -> 1/2"],
    build: |args| build(args, false),
    ..Class::DEFAULT
};
