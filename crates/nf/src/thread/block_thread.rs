//! # BlockThread
//! Blocks its thread for a time that is written to a handler, for tests.
//!
//! ## Usage
//! `BlockThread`
//!
//! ## Handlers
//! - `block`: blocks the thread for the number of seconds that is written.
//!
//! ## Example
//! ```click
//! b :: BlockThread; DriverManager(write b.block 0.001)
//! ```
//!
//! ## See also
//! RandomSeed

use std::time::Duration;

use element::args::parse_seconds;
use element::{Class, Effects, Element, Handler, manual};

/// The element class `BlockThread`.
pub static CLASS: Class = Class {
    name: "BlockThread",
    ports: "0/0",
    manual: manual!("block_thread.rs"),
    table: &HANDLERS,
    build: |args| {
        args.finish()?;
        Ok(Box::new(BlockThread))
    },
    ..Class::DEFAULT
};

struct BlockThread;

impl Element for BlockThread {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}

const HANDLERS: &[Handler<BlockThread>] = &[Handler::set("block", |_, _, value| {
    let time = parse_seconds(value).ok_or("bad TIME")?;
    std::thread::sleep(Duration::from_nanos(u64::try_from(time.0).map_err(|_| "bad TIME")?));
    Ok(())
})];
