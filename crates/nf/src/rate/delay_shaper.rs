//! # DelayShaper
//! Passes each pulled packet when DELAY has passed since its time stamp.
//!
//! Packets leave with the current time as their time stamp. A packet without a time stamp is delayed from
//! the time at which it is pulled. One packet at a time waits in the element, and downstream elements that
//! pull sleep until it may leave.
//!
//! ## Usage
//! `DelayShaper(DELAY)`
//!
//! ## Arguments
//! - `DELAY`: the delay.
//!
//! ## Handlers
//! - `delay`: the delay.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> DelayShaper(10ms) -> Discard
//! ```
//!
//! ## See also
//! BandwidthShaper, DelayUnqueue, SetTimestamp

use element::class::{ArgInfo, Notes};
use element::{Class, StatePart, manual};

use super::delay_unqueue::Delay;

/// The element class `DelayShaper`.
pub static CLASS: Class = Class {
    name: "DelayShaper",
    processing: "l/l",
    manual: manual!("delay_shaper.rs"),
    args: &[ArgInfo::required("DELAY", "seconds")],
    table: &super::delay_unqueue::HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: &[StatePart::kept("packets", &[])],
    samples: &["1ms"],
    build: |args| {
        let delay = args.required("DELAY");
        args.finish()?;
        Ok(Box::new(Delay::new(delay, false)))
    },
    ..Class::DEFAULT
};
