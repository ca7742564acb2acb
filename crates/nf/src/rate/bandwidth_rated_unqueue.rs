//! # BandwidthRatedUnqueue
//! Pulls packets and pushes them, up to a number of bytes per second.
//!
//! A token bucket enforces the rate. The bucket is full at the start. It holds the bytes of 20 milliseconds
//! unless configured otherwise, plus 131072 bytes, which must be in the bucket for a packet to be sent.
//!
//! ## Usage
//! `BandwidthRatedUnqueue(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: the bandwidth; with 0, no packets are pulled.
//! - `BURST_DURATION`: the size of the bucket, as the time in which it fills.
//! - `BURST_BYTES`: the size of the bucket in bytes, in place of BURST_DURATION.
//! - `EXTRA_LENGTH`: if true, the extra length annotation is added to packets' lengths.
//! - `LINK_RATE`: if true, the rate is the rate of an Ethernet link: 24 bytes are added for each packet.
//! - `ACTIVE`: true to pull packets from the start.
//!
//! ## Handlers
//! - `rate`: the bandwidth.
//! - `active`: true if the element pulls packets.
//! - `reset`: removes all tokens, so that the next packet waits for a new one.
//! - `calls`: the numbers of calls of the task, of calls in which no packet was allowed, of batches
//!   pushed, of pulls without packets, and of packets, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> BandwidthRatedUnqueue(10Mbps) -> Discard
//! ```
//!
//! ## See also
//! RatedUnqueue, Unqueue, BandwidthShaper, BandwidthRatedSplitter

use element::class::{ArgInfo, Notes};
use element::{Class, StatePart, manual};

use super::limit::Limit;
use super::rated_unqueue::{HANDLERS, RatedUnqueue};

/// The element class `BandwidthRatedUnqueue`.
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
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("rate", &[]), StatePart::kept("counts", &["calls"])],
    samples: &["1Gbps", "1MBps, BURST_BYTES 100, LINK_RATE true, EXTRA_LENGTH true"],
    reconfigures: true,
    build: |args| {
        let limit = Limit::read(args, true);
        let extra = args.value::<bool>("EXTRA_LENGTH");
        let overhead = if args.value::<bool>("LINK_RATE") { LINK_OVERHEAD } else { 0 };
        let active = args.value("ACTIVE");
        args.finish()?;
        Ok(Box::new(RatedUnqueue::new(limit.counting(extra, overhead), active)))
    },
    ..Class::DEFAULT
};

/// Bytes per frame on an Ethernet link: preamble, start-of-frame delimiter, frame check sequence and
/// inter-frame gap.
const LINK_OVERHEAD: u64 = 24;
