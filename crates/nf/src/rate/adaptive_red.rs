//! # AdaptiveRED
//! Drops packets like RED, and adapts the drop probability so that queues have a target length.
//!
//! The thresholds are half of TARGET, and TARGET plus this half (Floyd, Gummadi and Shenker, 2001). Twice
//! per second, `max_p` decreases by a tenth while the average queue length is below the target, and
//! increases by 0.01, or a quarter of itself if that is less, while it is above. It stays between about 0.01
//! and 0.5. The packets that the element chooses to drop go to output 1, if there is an output 1.
//!
//! ## Usage
//! `AdaptiveRED(TARGET, MAX_P [, KEYWORDS])`
//!
//! ## Arguments
//! - `TARGET`: the average number of packets in the queues that is aimed at; at least 10.
//! - `MAX_P`: the drop probability at the upper threshold, at first.
//! - `QUEUES`: the names of the queues to watch; the nearest queues if not given.
//! - `STABILITY`: the weight of a new length in the average is 1 / 2^STABILITY.
//!
//! ## Handlers
//! - `min_thresh`, `max_thresh`: the thresholds.
//! - `max_p`: the drop probability at the upper threshold, now.
//! - `drops`: the number of packets that were dropped, or sent to output 1.
//! - `queues`: the names of the queues, one per line.
//! - `avg_queue_size`: the average number of packets in the queues.
//! - `stats`: queue length, average and drops, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> AdaptiveRED(20, 0.02) -> Queue(200) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! RED, CoDel, Queue

use element::class::ArgInfo;
use element::{Class, StatePart, manual};

use super::red::{Bounds, HANDLERS, Red};

/// The element class `AdaptiveRED`.
pub static CLASS: Class = Class {
    name: "AdaptiveRED",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("adaptive_red.rs"),
    args: &[
        ArgInfo::required("TARGET", "unsigned"),
        ArgInfo::required("MAX_P", "probability"),
        ArgInfo::keyword("QUEUES", "elements", ""),
        ArgInfo::keyword("STABILITY", "unsigned", "4"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("average length", &["avg_queue_size"]),
        StatePart::kept("drop probability", &["max_p"]),
        StatePart::kept("counts", &["drops", "stats"]),
    ],
    samples: &["20, 0.5", "5, 1, STABILITY 0 -> 1/2"],
    reconfigures: true,
    build: |args| {
        let target = args.required::<u32>("TARGET").max(10);
        let p = Bounds::scale(args.required("MAX_P"));
        let least = target / 2;
        Red::build(args, Bounds { least, most: target.saturating_add(least), p }, |_| true, true)
    },
    ..Class::DEFAULT
};
