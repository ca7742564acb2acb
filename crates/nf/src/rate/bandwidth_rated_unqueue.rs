//! # BandwidthRatedUnqueue
//! Pulls packets and pushes them on, at most so many bytes per second.
//!
//! A token bucket keeps the rate; it is full at first, and holds 20 milliseconds' worth of bytes unless told
//! otherwise, and 131072 more, which have to be there for a packet to go.
//!
//! ## Usage
//! `BandwidthRatedUnqueue(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: bandwidth; 0 for no limit.
//! - `BURST_DURATION`: the bucket holds what comes in during this time.
//! - `BURST_BYTES`: bytes that the bucket holds.
//! - `EXTRA_LENGTH`: whether the extra length annotation counts.
//! - `LINK_RATE`: whether the rate is that of an Ethernet link: 24 bytes more count for each packet.
//!
//! ## Handlers
//! - `rate`: the bandwidth.
//! - `active`: whether it pulls.
//! - `calls`: what its task has done so far.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> BandwidthRatedUnqueue(10Mbps) -> Discard
//! ```
//!
//! ## See also
//! RatedUnqueue, Unqueue, BandwidthShaper, BandwidthRatedSplitter

use element::class::{ArgInfo, Notes};
use element::{Class, manual};

use super::limit::Limit;
use super::rated_unqueue::{HANDLERS, RatedUnqueue};

/// The class.
pub static CLASS: Class = Class {
    name: "BandwidthRatedUnqueue",
    processing: "l/h",
    manual: manual!("bandwidth_rated_unqueue.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::required("RATE", "bandwidth"),
        ArgInfo::keyword("BURST_DURATION", "seconds", "20ms"),
        ArgInfo::keyword("BURST_BYTES", "unsigned", ""),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "false"),
        ArgInfo::keyword("LINK_RATE", "bool", "false"),
    ],
    handlers: HANDLERS,
    samples: &["1Gbps", "1MBps, BURST_BYTES 100, LINK_RATE true, EXTRA_LENGTH true"],
    reconfigures: true,
    build: |args| {
        let limit = Limit::read(args, true);
        let extra = args.or("EXTRA_LENGTH", false);
        let overhead = if args.or("LINK_RATE", false) { LINK_OVERHEAD } else { 0 };
        args.finish()?;
        Ok(Box::new(RatedUnqueue::new(limit.counting(extra, overhead))))
    },
    ..Class::DEFAULT
};

/// Preamble, start of frame, check sequence and gap.
const LINK_OVERHEAD: u64 = 24;
