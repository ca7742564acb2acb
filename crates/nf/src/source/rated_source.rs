//! # RatedSource
//! Makes packets at a given rate.
//!
//! A token bucket enforces the rate. The bucket holds two tokens, or a hundredth of the rate if that is
//! more. It is full at the start, and has one token after the rate was changed.
//!
//! ## Usage
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `DATA`: the bytes of each packet.
//! - `RATE`: packets per second.
//! - `LIMIT`: the total number of packets; negative for no limit.
//! - `ACTIVE`: if true, packets are made.
//! - `HEADROOM`: accepted, without effect; packets always have 256 bytes of headroom.
//! - `LENGTH`: the length of each packet; the data is repeated or cut.
//! - `DATASIZE`: deprecated name of LENGTH.
//! - `BANDWIDTH`: the bandwidth of the packets, from which the rate is computed in place of RATE; 0 for
//!   RATE.
//! - `STOP`: if true, stops the driver when the limit is reached.
//! - `END_CALL`: the write handler to call when the limit is reached.
//!
//! ## Handlers
//! - `count`: the number of packets that were made.
//! - `data`, `rate`, `limit`, `active`, `length`: the arguments.
//! - `datasize`: deprecated name of `length`.
//! - `reset`: sets the count to zero.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 10, STOP true) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, TimedSource

use element::args::{ArgType, Bandwidth, parse_bool};
use element::class::{ArgInfo, Notes, Task};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Signal, StatePart, manual};
use std::any::Any;

use crate::rate::bucket::Bucket;

use super::{AtEnd, DEFAULT_DATA, Data, limit_of, rest_if, show_limit};

/// The element class `RatedSource`.
pub static CLASS: Class = Class {
    name: "RatedSource",
    ports: "0/1",
    manual: manual!("rated_source.rs"),
    args: &[
        ArgInfo::positional("DATA", "bytes", DEFAULT_DATA),
        ArgInfo::positional("RATE", "unsigned", "10"),
        ArgInfo::positional("LIMIT", "int", "-1"),
        ArgInfo::positional("ACTIVE", "bool", "true"),
        ArgInfo::keyword("HEADROOM", "unsigned", "256"),
        ArgInfo::keyword("LENGTH", "int", "-1"),
        ArgInfo::keyword("DATASIZE", "int", "").computed("LENGTH"),
        ArgInfo::keyword("BANDWIDTH", "bandwidth", "0"),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("END_CALL", "HANDLER [VALUE]", ""),
    ],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, task: Task::WherePushing, ..Notes::NONE },
    state: &[StatePart::kept("counts", &["count"]), StatePart::kept("rate", &[])],
    samples: &["RATE 1000000, LIMIT 50"],
    reconfigures: true,
    build: |args| {
        let data = Data::read(args);
        let mut rate = u64::from(args.value::<u32>("RATE"));
        let limit = limit_of(args.value("LIMIT"));
        let Bandwidth(bandwidth) = args.value("BANDWIDTH");
        if bandwidth > 0 {
            rate = bandwidth / data.bytes.len().max(1) as u64;
        }
        let capacity = capacity(rate);
        args.value::<u32>("HEADROOM");
        let source = RatedSource {
            bucket: Bucket::new(rate, capacity, capacity),
            active: args.value("ACTIVE"),
            end: AtEnd::read(args, true),
            data,
            limit,
            count: 0,
        };
        args.finish()?;
        Ok(Box::new(source))
    },
    ..Class::DEFAULT
};

/// Returns the number of tokens that the bucket for a rate in packets per second holds.
fn capacity(rate: u64) -> u64 {
    (rate / 100).max(2)
}

struct RatedSource {
    data: Data,
    bucket: Bucket,
    limit: u64,
    active: bool,
    end: AtEnd,
    count: u64,
}

impl RatedSource {
    /// Makes at most `most` packets: one per token in the bucket, until LIMIT packets have been made.
    fn make(&mut self, cx: &mut Cx<'_>, most: usize) -> Batch {
        let tokens = self.bucket.fill(cx.now()).min(self.limit.saturating_sub(self.count)).min(most as u64);
        let mut batch = cx.batch();
        for _ in 0..tokens {
            let Some(mut packet) = cx.packet(&self.data.bytes) else { break };
            packet.set_time(cx.now());
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
                break;
            }
        }
        self.bucket.take(batch.len() as u64);
        self.count += batch.len() as u64;
        batch
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if self.active && self.count < self.limit {
            self.end.done = false;
        }
        let ready = self.active && !self.end.done;
        if !cx.graph().output_is_push(0) {
            cx.set_signal(Signal::Packets, ready);
        } else if ready {
            cx.schedule();
        }
    }

    /// Sets a timer for the arrival of the next token, so that the element sleeps and does not poll.
    fn wait(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.bucket.when(1, cx.now()) {
            cx.set_timer(0, at);
        }
    }
}

impl Element for RatedSource {
    fn effects(&self) -> Effects {
        Effects::source("packet").calling(self.end.calls())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.end.initialize(cx, &CLASS)?;
        self.start(cx);
        // As in Click, the task is scheduled once also if the source is not active.
        if !self.active && cx.graph().output_is_push(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        if self.count >= self.limit {
            self.end.reached(cx);
            return false;
        }
        let batch = self.make(cx, cx.burst());
        let worked = !batch.is_empty();
        cx.emit(0, batch);
        if worked {
            cx.schedule();
        } else {
            self.wait(cx);
        }
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.start(cx);
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        if !self.active || self.count >= self.limit {
            if self.active {
                self.end.reached(cx);
            }
            cx.set_signal(Signal::Packets, false);
            return cx.batch();
        }
        let batch = self.make(cx, max);
        if batch.is_empty() {
            cx.set_signal(Signal::Packets, false);
            self.wait(cx);
        }
        batch
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.count, self.end.done, self.bucket.clone())))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let bucket: Bucket;
        (self.count, self.end.done, bucket) = *state.downcast().map_err(|_| "the state of another class")?;
        self.bucket.go_on(&bucket);
        self.start(cx);
        rest_if(cx, self.end.done);
        Ok(())
    }
}

const HANDLERS: &[Handler<RatedSource>] = &[
    Handler::count("count", |e| e.count),
    Handler::<RatedSource>::data(
        "data",
        |e| e.data.show(),
        |e, cx, value| {
            e.data.set_given(value);
            e.start(cx);
            Ok(())
        },
    )
    .raw(),
    Handler::data(
        "rate",
        |e| e.bucket.rate().to_string(),
        |e, cx, value| {
            let rate = i64::parse(value, &cx.place()).ok().and_then(|rate| u32::try_from(rate).ok());
            let rate = rate.ok_or("syntax error")?.into();
            e.bucket = Bucket::new(rate, capacity(rate), 1);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "limit",
        |e| show_limit(e.limit),
        |e, cx, value| {
            e.limit = limit_of(i64::parse(value, &cx.place()).map_err(|_| "syntax error")?);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("syntax error")?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "length",
        |e| e.data.show_length(),
        |e, cx, value| {
            e.data.set_length(i64::parse(value, &cx.place()).map_err(|_| "syntax error")?);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "datasize",
        |e| e.data.show_length(),
        |e, cx, value| {
            e.data.set_length(i64::parse(value, &cx.place()).map_err(|_| "syntax error")?);
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("reset", |e, cx, _| {
        e.count = 0;
        e.start(cx);
        Ok(())
    }),
];
