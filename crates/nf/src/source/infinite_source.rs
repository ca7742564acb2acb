//! # InfiniteSource
//! Makes packets as fast as possible.
//!
//! The output can be a push or a pull output. A push source waits while a queue downstream is full.
//!
//! ## Usage
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE, KEYWORDS])`
//!
//! ## Arguments
//! - `DATA`: the bytes of each packet.
//! - `LIMIT`: the total number of packets; negative for no limit.
//! - `BURST`: the number of packets that the task makes per call.
//! - `ACTIVE`: if true, packets are made.
//! - `TIMESTAMP`: if true, packets get the current time as their time stamp.
//! - `HEADROOM`: accepted, without effect; packets always have 256 bytes of headroom.
//! - `LENGTH`: the length of each packet; the data is repeated or cut.
//! - `DATASIZE`: deprecated name of LENGTH.
//! - `STOP`: if true, stops the driver when the limit is reached.
//! - `END_CALL`: the write handler to call when the limit is reached.
//!
//! ## Handlers
//! - `count`: the number of packets that were made.
//! - `data`, `limit`, `burst`, `active`, `length`: the arguments.
//! - `datasize`: deprecated name of `length`.
//! - `burstsize`: deprecated name of `burst`.
//! - `reset`: sets the count to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<0800>, LIMIT 10, STOP true) -> Discard
//! ```
//!
//! ## See also
//! RatedSource, TimedSource

use element::args::{ArgType, parse_bool};
use element::class::{ArgInfo, Notes, Task};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Signal, StatePart, manual,
};
use packet::BATCH_CAPACITY;
use std::any::Any;

use super::{AtEnd, DEFAULT_DATA, Data, limit_of, rest_if, show_limit};

/// The element class `InfiniteSource`.
pub static CLASS: Class = Class {
    name: "InfiniteSource",
    ports: "0/1",
    manual: manual!("infinite_source.rs"),
    args: &[
        ArgInfo::positional("DATA", "bytes", DEFAULT_DATA),
        ArgInfo::positional("LIMIT", "int", "-1"),
        ArgInfo::positional("BURST", "int", "").burst_of_run("1"),
        ArgInfo::positional("ACTIVE", "bool", "true"),
        ArgInfo::keyword("TIMESTAMP", "bool", "true"),
        ArgInfo::keyword("HEADROOM", "unsigned", "256"),
        ArgInfo::keyword("LENGTH", "int", "-1"),
        ArgInfo::keyword("DATASIZE", "int", "").computed("LENGTH"),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("END_CALL", "HANDLER [VALUE]", ""),
    ],
    table: &HANDLERS,
    notes: Notes { signals_packets: true, task: Task::WherePushing, ..Notes::NONE },
    state: &[StatePart::kept("counts", &["count"])],
    samples: &["LIMIT 50", "LIMIT 40, LENGTH 5000, BURST 7"],
    reconfigures: true,
    build: |args| {
        let data = Data::read(args);
        args.value::<u32>("HEADROOM");
        build(args, data, false)
    },
    ..Class::DEFAULT
};

/// Makes the element of RandomSource: an InfiniteSource with random bytes in each packet. The argument
/// LENGTH is parsed here.
pub(super) fn build_random(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let length: i64 = args.required("LENGTH");
    if !(0..65_536).contains(&length) {
        args.error(format!("bad length {length}"));
        return Err(Invalid);
    }
    build(args, Data::new(Vec::new(), usize::try_from(length).ok()), true)
}

fn build(args: &mut Args<'_>, data: Data, random: bool) -> Result<Box<dyn Element>, Invalid> {
    let limit = limit_of(args.value("LIMIT"));
    let burst = args.value::<i64>("BURST");
    if burst < 1 {
        args.error("burst size must be >= 1");
    } else if burst > MOST_BURST {
        args.too_large("BURST", MOST_BURST);
    }
    let source = InfiniteSource {
        data,
        random,
        limit,
        burst: burst as usize,
        active: args.value("ACTIVE"),
        timestamp: args.value("TIMESTAMP"),
        end: AtEnd::read(args, true),
        count: 0,
    };
    args.finish()?;
    Ok(Box::new(source))
}

/// The maximum BURST: all packets of a burst are in memory before other tasks run.
const MOST_BURST: i64 = 65_536;

pub(super) struct InfiniteSource {
    data: Data,
    /// True for RandomSource: each packet has random bytes.
    random: bool,
    limit: u64,
    burst: usize,
    active: bool,
    timestamp: bool,
    end: AtEnd,
    count: u64,
}

impl InfiniteSource {
    fn make(&mut self, cx: &mut Cx<'_>, n: usize) -> Batch {
        let n = n
            .min(BATCH_CAPACITY)
            .min(usize::try_from(self.limit.saturating_sub(self.count)).unwrap_or(usize::MAX));
        let mut batch = cx.batch();
        for _ in 0..n {
            if self.random {
                cx.random().fill(&mut self.data.bytes);
            }
            // If the packet pool is empty, the batch ends with the packets made so far; the remaining packets
            // are made in a later call.
            let Some(mut packet) = cx.packet(&self.data.bytes) else { break };
            if self.timestamp {
                packet.set_time(cx.now());
            }
            if let Err(packet) = batch.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
                break;
            }
        }
        self.count += batch.len() as u64;
        batch
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        let ready = self.active && self.count < self.limit;
        if ready {
            self.end.done = false;
        }
        if cx.graph().output_is_push(0) {
            if self.active && !self.end.done {
                cx.schedule();
            }
        } else {
            cx.set_signal(Signal::Packets, ready);
        }
    }
}

impl Element for InfiniteSource {
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
        if !self.active || !cx.may_push(0) {
            return false;
        }
        if self.count >= self.limit {
            // STOP and END_CALL take effect one call of the task after the last packet was made, so that
            // other tasks can process that packet first.
            self.end.reached(cx);
            return false;
        }
        let mut left = self.burst;
        while left > 0 && self.count < self.limit {
            let batch = self.make(cx, left);
            if batch.is_empty() {
                cx.recycle(batch);
                break;
            }
            left -= batch.len();
            cx.emit(0, batch);
        }
        cx.schedule();
        true
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        if !self.active || self.count >= self.limit {
            if self.active {
                self.end.reached(cx);
            }
            cx.set_signal(Signal::Packets, false);
            return cx.batch();
        }
        self.make(cx, max)
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.count, self.end.done)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.count, self.end.done) = *state.downcast().map_err(|_| "the state of another class")?;
        self.start(cx);
        rest_if(cx, self.end.done);
        Ok(())
    }
}

const HANDLERS: &[Handler<InfiniteSource>] = &[
    COUNT,
    Handler::<InfiniteSource>::data(
        "data",
        |e| e.data.show(),
        |e, cx, value| {
            e.data.set_given(value);
            e.start(cx);
            Ok(())
        },
    )
    .raw(),
    LIMIT,
    BURST,
    Handler::data("burstsize", InfiniteSource::show_burst, InfiniteSource::set_burst),
    ACTIVE,
    LENGTH,
    Handler::data(
        "datasize",
        |e| e.data.show_length(),
        |e, cx, value| {
            e.data.set_length(i64::parse(value, &cx.place()).map_err(|_| "length must be integer")?);
            e.start(cx);
            Ok(())
        },
    ),
    RESET,
];

const COUNT: Handler<InfiniteSource> = Handler::count("count", |e| e.count);
const LIMIT: Handler<InfiniteSource> = Handler::data(
    "limit",
    |e| show_limit(e.limit),
    |e, cx, value| {
        e.limit = limit_of(i64::parse(value, &cx.place()).map_err(|_| "limit parameter must be integer")?);
        e.start(cx);
        Ok(())
    },
);
const BURST: Handler<InfiniteSource> =
    Handler::data("burst", InfiniteSource::show_burst, InfiniteSource::set_burst);
const ACTIVE: Handler<InfiniteSource> = Handler::data(
    "active",
    |e| e.active.to_string(),
    |e, cx, value| {
        e.active = parse_bool(value).ok_or("active parameter must be boolean")?;
        e.start(cx);
        Ok(())
    },
);
const LENGTH: Handler<InfiniteSource> = Handler::data(
    "length",
    |e| e.data.show_length(),
    |e, cx, value| {
        e.data.set_length(i64::parse(value, &cx.place()).map_err(|_| "length must be integer")?);
        e.start(cx);
        Ok(())
    },
);
const RESET: Handler<InfiniteSource> = Handler::set("reset", |e, cx, _| {
    e.count = 0;
    e.start(cx);
    Ok(())
});

/// The handlers of RandomSource, which has no handlers for DATA and no deprecated names.
pub(super) const OF_RANDOM: &[Handler<InfiniteSource>] = &[COUNT, LIMIT, BURST, ACTIVE, LENGTH, RESET];

impl InfiniteSource {
    fn show_burst(&self) -> String {
        self.burst.to_string()
    }

    fn set_burst(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), String> {
        let burst = i64::parse(value, &cx.place()).ok().filter(|n| (1..=MOST_BURST).contains(n));
        self.burst = burst.ok_or("burstsize parameter must be integer >= 1")? as usize;
        self.start(cx);
        Ok(())
    }
}
