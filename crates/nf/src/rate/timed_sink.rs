//! # TimedSink
//! Pulls one packet per interval and drops it.
//!
//! ## Usage
//! `TimedSink([INTERVAL])`
//!
//! ## Arguments
//! - `INTERVAL`: the time between two pulls; the first pull is after one interval.
//!
//! ## Handlers
//! - `interval`: the interval.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> TimedSink(10ms); DriverManager(wait 1s, stop)
//! ```
//!
//! ## See also
//! Shaper, Discard

use element::args::parse_seconds;
use element::class::ArgInfo;
use element::effects::Depends;
use element::{Class, Cx, DropReason, Effects, Element, Handler, StatePart, Timestamp, manual};

/// The element class `TimedSink`.
pub static CLASS: Class = Class {
    name: "TimedSink",
    ports: "1/0",
    processing: "l",
    manual: manual!("timed_sink.rs"),
    args: &[ArgInfo::positional("INTERVAL", "seconds", "0.5")],
    table: &HANDLERS,
    state: &[StatePart::lost("interval", "a new interval begins with the reload", &[])],
    samples: &[],
    build: |args| {
        let interval = args.value::<Timestamp>("INTERVAL");
        args.finish()?;
        if interval <= Timestamp::ZERO {
            args.error("bad interval");
        }
        args.finish()?;
        Ok(Box::new(TimedSink { interval, next: Timestamp::ZERO }))
    },
    ..Class::DEFAULT
};

struct TimedSink {
    interval: Timestamp,
    /// The time of the next pull. Intervals are counted from it, so that delays of timers do not add up.
    next: Timestamp,
}

impl TimedSink {
    fn wait(&mut self, cx: &mut Cx<'_>, from: Timestamp) {
        self.next = cx.due_again(from, self.interval);
        cx.set_timer(0, self.next);
    }
}

impl Element for TimedSink {
    fn effects(&self) -> Effects {
        Effects::drop(DropReason::Discard).depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.wait(cx, cx.now());
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        let batch = cx.pull(0, 1);
        cx.drop_all(batch, DropReason::Discard);
        self.wait(cx, self.next);
    }
}

const HANDLERS: &[Handler<TimedSink>] = &[Handler::data(
    "interval",
    |e| e.interval.as_interval(),
    |e, _, value| {
        let interval = parse_seconds(value).filter(|&t| t > Timestamp::ZERO);
        e.interval = interval.ok_or("bad interval")?;
        Ok(())
    },
)];
