//! # JiffieClock
//! Takes the place of a clock of FastClick; accepted, without effect.
//!
//! FastClick's element makes its clock cheaper to read and coarser: the time advances a thousand times per
//! second. Here, each worker reads its clock once per round of its loop, so that reading it costs packets
//! next to nothing.
//!
//! ## Usage
//! `JiffieClock([MINPRECISION])`
//!
//! ## Arguments
//! - `MINPRECISION`: accepted.
//!
//! ## Example
//! ```click
//! JiffieClock; InfiniteSource(LIMIT 1) -> Discard
//! ```
//!
//! ## See also
//! TSCClock, SetTimestamp

use element::class::ArgInfo;
use element::{Class, manual};

use super::clicky_info::Ignored;

/// The element class `JiffieClock`.
pub static CLASS: Class = Class {
    name: "JiffieClock",
    ports: "0/0",
    manual: manual!("jiffie_clock.rs"),
    args: &[ArgInfo::positional("MINPRECISION", "unsigned", "1000")],
    samples: &["", "100"],
    build: |args| {
        args.value::<u32>("MINPRECISION");
        args.finish()?;
        Ok(Box::new(Ignored))
    },
    ..Class::DEFAULT
};
