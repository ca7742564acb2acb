//! # Idle
//! Drops every packet that arrives and never emits a packet.
//!
//! Idle has any number of inputs and outputs, so it can replace a part of a configuration that does not
//! exist.
//!
//! ## Usage
//! `Idle`
//!
//! ## Example
//! ```click
//! Idle -> Counter -> Idle
//! ```
//!
//! ## See also
//! Discard, Null

use element::class::Notes;
use element::{Batch, Class, Cx, DropReason, Effects, Element, Signal, manual};

/// The element class `Idle`.
pub static CLASS: Class = Class {
    name: "Idle",
    aliases: &["SimpleIdle"],
    ports: "-/-",
    flow: "x/y",
    manual: manual!("idle.rs"),
    notes: Notes { signals_packets: true, ..Notes::NONE },
    samples: &["", " -> 1/0"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(Idle))
    },
    ..Class::DEFAULT
};

struct Idle;

impl Element for Idle {
    fn effects(&self) -> Effects {
        Effects::drop(DropReason::Discard)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.set_signal(Signal::Packets, false);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        cx.drop_all(batch, DropReason::Discard);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, _max: usize) -> Batch {
        cx.batch()
    }
}
