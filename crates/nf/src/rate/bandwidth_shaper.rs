//! # BandwidthShaper
//! Limits pulled packets to a number of bytes per second, evenly spaced.
//!
//! Bytes are spaced within each second as Shaper spaces packets: a packet may be pulled when the bytes of
//! the packets before it were due. If there are two outputs, the limit applies to both together.
//!
//! ## Usage
//! `BandwidthShaper(RATE)`
//!
//! ## Arguments
//! - `RATE`: the bandwidth; with 0, no packet may be pulled.
//!
//! ## Handlers
//! - `rate`: the bandwidth.
//! - `reset`: restarts the spacing from the current time.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> BandwidthShaper(1MBps) -> Discard
//! ```
//!
//! ## See also
//! Shaper, BandwidthRatedSplitter, BandwidthRatedUnqueue

use element::args::Bandwidth;
use element::class::{ArgInfo, Notes};
use element::{Class, StatePart, manual};

use super::shaper::{HANDLERS, Shaper};

/// The element class `BandwidthShaper`.
pub static CLASS: Class = Class {
    name: "BandwidthShaper",
    ports: "1/1-2",
    processing: "l/l",
    manual: manual!("bandwidth_shaper.rs"),
    args: &[ArgInfo::required("RATE", "bandwidth")],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, ..Notes::NONE },
    state: &[StatePart::kept("rate", &[])],
    samples: &["100MBps"],
    reconfigures: true,
    build: |args| {
        let Bandwidth(rate) = args.required("RATE");
        args.finish()?;
        Ok(Box::new(Shaper::new(rate, true, args)))
    },
    ..Class::DEFAULT
};
