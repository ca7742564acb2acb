//! # Batcher
//! Holds packets of all flows together until there are enough of them or the first packet has waited long
//! enough.
//!
//! Batcher is the baseline for measurements of Reframer: batches have the same size and the same delay, but
//! the order of packets does not change.
//!
//! ## Usage
//! `Batcher([DELAY, BURST])`
//!
//! ## Arguments
//! - `DELAY`: the maximum time that a packet waits; a number without a unit is microseconds.
//! - `BURST`: the number of packets that leave together, up to 256.
//!
//! ## Handlers
//! - `delay`, `burst`: the arguments.
//! - `held`: the number of packets that are held.
//! - `mean_batch`: the mean number of packets per batch that left.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Batcher(64us, 32) -> Discard
//! ```
//!
//! ## See also
//! Reframer, SFMaker, DelayUnqueue

use std::any::Any;

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Hold, Target};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};

use crate::settings::{Count, Micros, batch_length};
use crate::statistics::mean;

/// The element class `Batcher`.
pub static CLASS: Class = Class {
    name: "Batcher",
    processing: "h/h",
    manual: manual!("batcher.rs"),
    args: &[
        ArgInfo::positional("DELAY", "microseconds", "64us"),
        ArgInfo::positional("BURST", "unsigned", "32"),
    ],
    table: &HANDLERS,
    state: &[StatePart::drained("packets", &["held"]), StatePart::kept("counts", &["mean_batch"])],
    samples: &["", "5us, 4", "0, 256", "1ms, 50"],
    build: |args| {
        let Micros(delay) = args.value("DELAY");
        let Count(burst) = args.value("BURST");
        args.finish()?;
        let waiting = Vec::with_capacity(256);
        Ok(Box::new(Batcher {
            delay,
            burst: batch_length(burst),
            waiting,
            since: Timestamp::ZERO,
            left: (0, 0),
            armed: None,
        }))
    },
    ..Class::DEFAULT
};

struct Batcher {
    delay: Timestamp,
    burst: usize,
    waiting: Vec<Packet>,
    /// The time at which the oldest held packet arrived.
    since: Timestamp,
    /// The numbers of packets and of batches that have left.
    left: (u64, u64),
    /// The time for which the timer is set; `None` if it is not set.
    armed: Option<Timestamp>,
}

impl Batcher {
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let mut batch = cx.batch();
        self.left = (self.left.0 + self.waiting.len() as u64, self.left.1 + 1);
        for packet in self.waiting.drain(..) {
            // The push does not fail: the number of waiting packets is at most the largest BURST that was set
            // while the packets arrived, and each BURST is at most the capacity of a batch.
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        cx.emit(0, batch);
    }

    /// Emits the held packets if the oldest of them has waited for DELAY. Otherwise sets the timer for that
    /// time, unless it is set for an earlier time.
    fn look(&mut self, cx: &mut Cx<'_>) {
        let due = self.since + self.delay;
        if self.waiting.is_empty() {
            return;
        }
        if due <= cx.now() {
            self.let_go(cx);
        } else if self.armed.is_none_or(|armed| due < armed) {
            cx.set_timer(0, due);
            self.armed = Some(due);
        }
    }
}

impl Element for Batcher {
    fn effects(&self) -> Effects {
        let held = Case::new(Filter::TRUE, Target::Hold(0));
        Effects { hold: Hold::Delay, ..Effects::cases(vec![held]) }
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            if self.waiting.is_empty() {
                self.since = cx.now();
            }
            if self.waiting.try_reserve(1).is_err() {
                self.let_go(cx);
            }
            if self.waiting.try_reserve(1).is_err() {
                cx.drop(packet, DropReason::QueueFull);
                continue;
            }
            self.waiting.push(packet);
            if self.waiting.len() >= self.burst {
                self.let_go(cx);
            }
        }
        cx.recycle(batch);
        self.look(cx);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.armed = None;
        self.look(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx);
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.waiting), self.left)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let packets: Vec<Packet>;
        (packets, self.left) = *state.downcast().map_err(|_| "the state of another class")?;
        for packet in packets {
            cx.emit_one(0, packet, DropReason::NoOutput);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<Batcher>] = &[
    Handler::data(
        "delay",
        |e| e.delay.as_interval(),
        |e, cx, value| {
            e.delay = Micros::parse(value, &cx.place())?.0;
            e.look_again(cx);
            Ok(())
        },
    ),
    Handler::data(
        "burst",
        |e| e.burst.to_string(),
        |e, cx, value| {
            e.burst = batch_length(Count::parse(value, &cx.place())?.0);
            e.look_again(cx);
            Ok(())
        },
    ),
    Handler::count("held", |e| e.waiting.len() as u64),
    Handler::get("mean_batch", |e| format!("{:.3}", mean(e.left.0, e.left.1))),
];

impl Batcher {
    /// Applies changed settings to the packets that wait already.
    fn look_again(&mut self, cx: &mut Cx<'_>) {
        if self.waiting.len() >= self.burst {
            self.let_go(cx);
        }
        self.look(cx);
    }
}
