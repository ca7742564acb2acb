//! # RandomSource
//! Sends packets of random bytes.
//!
//! ## Usage
//! `RandomSource(LENGTH [, LIMIT, BURST, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `LENGTH`: the length of packets in bytes, less than 65536.
//! - `LIMIT`: the total number of packets; -1 for no limit.
//! - `BURST`: the number of packets that the task makes per call.
//! - `ACTIVE`: if true, packets are sent.
//! - `TIMESTAMP`: if true, packets get the current time as their time stamp.
//! - `STOP`: if true, stops the driver when the limit is reached.
//! - `END_CALL`: the write handler to call when the limit is reached.
//!
//! ## Handlers
//! - `count`: the number of packets that were sent.
//! - `limit`, `burst`, `active`, `length`: the arguments.
//! - `reset`: sets the count to zero.
//!
//! ## Example
//! ```click
//! RandomSource(64, LIMIT 10) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource

use element::class::{ArgInfo, Notes, Task};
use element::{Class, StatePart, manual};

use super::infinite_source::{OF_RANDOM, build_random};

/// The element class `RandomSource`.
pub static CLASS: Class = Class {
    name: "RandomSource",
    ports: "0/1",
    manual: manual!("random_source.rs"),
    args: &[
        ArgInfo::required("LENGTH", "int"),
        ArgInfo::positional("LIMIT", "int", "-1"),
        ArgInfo::positional("BURST", "int", "").burst_of_run("1"),
        ArgInfo::positional("ACTIVE", "bool", "true"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("END_CALL", "HANDLER [VALUE]", ""),
    ],
    table: &OF_RANDOM,
    notes: Notes { signals_packets: true, task: Task::WherePushing, ..Notes::NONE },
    state: &[StatePart::kept("counts", &["count"])],
    samples: &["64, LIMIT 50"],
    build: build_random,
    ..Class::DEFAULT
};
