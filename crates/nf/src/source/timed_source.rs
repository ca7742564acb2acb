//! # TimedSource
//! Makes one packet after each interval.
//!
//! ## Usage
//! `TimedSource([INTERVAL, DATA, KEYWORDS])`
//!
//! ## Arguments
//! - `INTERVAL`: the time between packets; the first packet is sent after one interval.
//! - `DATA`: the bytes of each packet.
//! - `LIMIT`: the total number of packets; negative for no limit.
//! - `ACTIVE`: if true, packets are made.
//! - `STOP`: if true, stops the driver when the limit is reached.
//! - `HEADROOM`: accepted, without effect; packets always have 256 bytes of headroom.
//!
//! ## Handlers
//! - `count`: the number of packets that were made.
//! - `interval`, `data`, `limit`, `active`: the arguments.
//! - `reset`: sets the count to zero.
//!
//! ## Example
//! ```click
//! TimedSource(1ms, LIMIT 3, STOP true) -> Discard
//! ```
//!
//! ## See also
//! InfiniteSource, RatedSource

use element::args::{ArgType, Bytes, parse_bool, parse_seconds};
use element::class::ArgInfo;
use element::{Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};
use std::any::Any;

use super::{AtEnd, DEFAULT_DATA, Data, limit_of, show_limit};

/// The element class `TimedSource`.
pub static CLASS: Class = Class {
    name: "TimedSource",
    aliases: &["PeriodicSource"],
    ports: "0/1",
    processing: "h/h",
    manual: manual!("timed_source.rs"),
    args: &[
        ArgInfo::positional("INTERVAL", "seconds", "0.5"),
        ArgInfo::positional("DATA", "bytes", DEFAULT_DATA),
        ArgInfo::keyword("LIMIT", "int", "-1"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("HEADROOM", "unsigned", "256"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"])],
    samples: &["1ms, LIMIT 5"],
    build: |args| {
        let interval = args.value::<Timestamp>("INTERVAL");
        if interval <= Timestamp::ZERO {
            args.error("bad interval");
        }
        let Bytes(given) = args.value("DATA");
        args.value::<u32>("HEADROOM");
        let source = TimedSource {
            interval,
            data: Data::new(given, None),
            limit: limit_of(args.value("LIMIT")),
            active: args.value("ACTIVE"),
            end: AtEnd::read(args, false),
            next: None,
            count: 0,
        };
        args.finish()?;
        Ok(Box::new(source))
    },
    ..Class::DEFAULT
};

struct TimedSource {
    interval: Timestamp,
    data: Data,
    limit: u64,
    active: bool,
    end: AtEnd,
    /// The time of the next packet. Intervals are counted from it, so that delays of timers do not add up.
    next: Option<Timestamp>,
    count: u64,
}

impl TimedSource {
    fn wait(&mut self, cx: &mut Cx<'_>, from: Timestamp) {
        let next = cx.due_again(from, self.interval);
        self.next = Some(next);
        cx.set_timer(0, next);
    }
}

impl Element for TimedSource {
    fn effects(&self) -> Effects {
        Effects::source("packet")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.active {
            self.wait(cx, cx.now());
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        if !self.active {
            return;
        }
        if self.count >= self.limit {
            return self.end.reached(cx);
        }
        if let Some(mut packet) = cx.packet(&self.data.bytes) {
            packet.set_time(cx.now());
            let batch = cx.batch_of(packet);
            cx.emit(0, batch);
            self.count += 1;
        }
        let due = self.next.unwrap_or(cx.now());
        self.wait(cx, due);
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.count, self.end.done, self.next)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.count, self.end.done, self.next) =
            *state.downcast().map_err(|_| "the state of another class")?;
        if let Some(next) = self.next.filter(|_| self.active) {
            cx.set_timer(0, next);
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<TimedSource>] = &[
    Handler::count("count", |e| e.count),
    Handler::data(
        "interval",
        |e| e.interval.as_interval(),
        |e, _, value| {
            let interval = parse_seconds(value).filter(|&t| t > Timestamp::ZERO);
            // As in Click, the interval that has begun ends when it would have ended.
            e.interval = interval.ok_or("bad interval")?;
            Ok(())
        },
    ),
    Handler::<TimedSource>::data(
        "data",
        |e| String::from_utf8_lossy(&e.data.given).into_owned(),
        |e, cx, value| {
            let Bytes(given) = Bytes::parse(value, &cx.place())?;
            e.data = Data::new(given, None);
            Ok(())
        },
    )
    .raw(),
    Handler::data(
        "limit",
        |e| show_limit(e.limit),
        |e, cx, value| {
            e.limit = limit_of(i64::parse(value, &cx.place())?);
            Ok(())
        },
    ),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            let active = parse_bool(value).ok_or("bad active")?;
            if active && !e.active {
                cx.set_timer(0, cx.now());
                e.next = Some(cx.now());
            }
            e.active = active;
            Ok(())
        },
    ),
    Handler::act("reset", |e| e.count = 0),
];
