//! # DriverManager
//! Runs a script that decides when the driver stops.
//!
//! DriverManager is a Script with DRIVER as the default TYPE; there can be only one script of that type.
//! Unless its first instruction waits, the script starts before any task runs. A request to stop, by any
//! element, does not stop the driver: it gives the script a step, for which an instruction may be waiting.
//! The driver stops when the script has reached its end or a `stop`, or at a request to stop if the script
//! has ended in another way. Having no work left counts as a request to stop.
//!
//! ## Usage
//! `DriverManager(INSTRUCTION, ..., [TYPE type])`
//!
//! ## Arguments
//! - `INSTRUCTION`: an instruction of the script, as in Script. Without instructions, it waits for the
//!   first request to stop.
//! - `TYPE`: as in Script.
//!
//! ## Handlers
//! - `run`, `step`, `goto`, `get`, `set`, `shift`: control the script, as in Script.
//! - `add`, `sub`, `mul`, `div`, `idiv`, `mod`, `rem`, `neg`, `abs`, `ceil`, `floor`, `round`: arithmetic,
//!   as in Script.
//! - `min`, `max`, `avg`, `count`, `popcount`, `gt_vec`: functions of lists of numbers, as in Script.
//! - `eq`, `ne`, `gt`, `ge`, `lt`, `le`, `not`, `and`, `or`, `nand`, `nor`: comparison and logic, as in
//!   Script.
//! - `if`, `in`, `first`, `sprintf`, `length`, `unquote`: functions of words and texts, as in Script.
//! - `random`, `now`, `now_steady`, `readable`, `writable`: random numbers, the time, and the existence of
//!   handlers, as in Script.
//! - `htons`, `htonl`, `ntohs`, `ntohl`: byte order, as in Script.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;
//! DriverManager(pause, wait 100ms, print c.count, stop)
//! ```
//!
//! ## See also
//! Script

use element::{Class, manual};

use super::program::Kind;
use super::{TEMPLATE, build};

/// The element class `DriverManager`.
pub static CLASS: Class = Class {
    name: "DriverManager",
    manual: manual!("driver_manager.rs"),
    samples: &["", "pause, wait 1ms, stop"],
    build: |args| build(args, Kind::Driver),
    ..TEMPLATE
};
