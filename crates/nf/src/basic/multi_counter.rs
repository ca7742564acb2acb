//! # MultiCounter
//! Counts packets and bytes, and estimates their rates, for each input.
//!
//! Packets of an input leave by the output of the same number.
//!
//! ## Usage
//! `MultiCounter`
//!
//! ## Handlers
//! - `count`: the number of packets of each input, as a list in square brackets.
//! - `byte_count`: the number of bytes of each input, likewise.
//! - `rate`: packets per second of each input, smoothed over about 16 milliseconds, likewise.
//! - `byte_rate`: bytes per second of each input, likewise.
//! - `reset_counts`: sets the counts to zero. Rates are not reset.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> c :: MultiCounter -> Discard; InfiniteSource(LIMIT 2) -> [1] c [1] -> Discard
//! ```
//!
//! ## See also
//! Counter, AverageCounter

use std::any::Any;

use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};

use crate::ewma::Rate;

/// The element class `MultiCounter`.
pub static CLASS: Class = Class {
    name: "MultiCounter",
    ports: "1-/=",
    processing: "h",
    flow: "#/#",
    manual: manual!("multi_counter.rs"),
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count", "byte_count", "rate", "byte_rate"])],
    samples: &["", "-> 3/3"],
    build: |args| {
        args.finish()?;
        Ok(Box::new(MultiCounter { counts: vec![Counts::default(); args.inputs()] }))
    },
    ..Class::DEFAULT
};

/// The counts of an input.
#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    packet_rate: Rate<10>,
    byte_rate: Rate<4>,
}

struct MultiCounter {
    counts: Vec<Counts>,
}

/// Returns the values of all inputs as a list in square brackets.
fn list<T: ToString>(values: impl Iterator<Item = T>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    format!("[{}]", values.join(","))
}

impl MultiCounter {
    fn reset(&mut self) {
        self.counts.iter_mut().for_each(|counts| (counts.packets, counts.bytes) = (0, 0));
    }

    fn rates(&mut self, rate: fn(&mut Counts, Timestamp) -> String, now: Timestamp) -> String {
        list(self.counts.iter_mut().map(|counts| rate(counts, now)))
    }
}

impl Element for MultiCounter {
    fn effects(&self) -> Effects {
        Effects::port_by_port(self.counts.len()).observing(&[Field::Length]).sharing("counts")
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        if let Some(counts) = self.counts.get_mut(port) {
            let (packets, bytes) = (batch.len() as u64, batch.iter().map(|packet| packet.len() as u64).sum());
            counts.packets += packets;
            counts.bytes += bytes;
            counts.packet_rate.add(packets, cx.now());
            counts.byte_rate.add(bytes, cx.now());
        }
        cx.pass_on(port, batch)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.counts.clone()))
    }

    /// Continues with the counts of the inputs that both elements have.
    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let before = state.downcast::<Vec<Counts>>().map_err(|_| "not the state of a MultiCounter")?;
        self.counts.iter_mut().zip(*before).for_each(|(counts, before)| *counts = before);
        Ok(())
    }
}

const HANDLERS: &[Handler<MultiCounter>] = &[
    Handler::get("count", |e| list(e.counts.iter().map(|counts| counts.packets))),
    Handler::get("byte_count", |e| list(e.counts.iter().map(|counts| counts.bytes))),
    Handler::read("rate", |e, cx, _| Ok(e.rates(|counts, now| counts.packet_rate.show(now, 0), cx.now()))),
    Handler::read("byte_rate", |e, cx, _| Ok(e.rates(|counts, now| counts.byte_rate.show(now, 0), cx.now()))),
    Handler::act("reset_counts", MultiCounter::reset),
];
