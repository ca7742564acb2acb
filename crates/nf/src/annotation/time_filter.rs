//! # TimeFilter
//! Passes packets whose time stamps lie in a range.
//!
//! Other packets go to output 1, or are dropped. START_AFTER and END_AFTER are relative to the time stamp
//! of the first packet; START_DELAY and END_DELAY are relative to the start of the run. If no start is
//! given, the range starts with the first packet; if no end is given, it has no end.
//!
//! ## Usage
//! `TimeFilter([START, END, KEYWORDS])`
//!
//! ## Arguments
//! - `START`, `START_AFTER`, `START_DELAY`: the earliest time; at most one of the three.
//! - `END`, `END_AFTER`, `END_DELAY`: the time from which on packets do not pass; at most one of the three
//!   and INTERVAL.
//! - `INTERVAL`: the length of the range; sets the end relative to the start.
//! - `STOP`: if true, stops the driver at the first packet at or after the end.
//! - `END_CALL`: a write handler to call at the first packet at or after the end; `$t` in its value is
//!   replaced by the packet's time stamp. If the call moves the end, the packet is checked again.
//!
//! ## Handlers
//! - `start`, `end`: the range; relative times are resolved when the first packet arrives.
//! - `interval`: the time from start to end. Writing it moves the end.
//! - `extend_interval`: moves the end by a time.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 100, LIMIT 50) -> TimeFilter(START_AFTER 0.1s, INTERVAL 0.2s, STOP true) -> Discard
//! ```
//!
//! ## See also
//! SetTimestamp, TimeRange

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::editing::aside;
use element::args::{Raw, parse_seconds};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Predicate, Target};
use element::{
    Batch, Call, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, Timestamp, manual,
};

/// The element class `TimeFilter`.
pub static CLASS: Class = Class {
    name: "TimeFilter",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("time_filter.rs"),
    args: &[
        ArgInfo::positional("START", "seconds", ""),
        ArgInfo::positional("END", "seconds", ""),
        ArgInfo::keyword("START_DELAY", "seconds", ""),
        ArgInfo::keyword("END_DELAY", "seconds", ""),
        ArgInfo::keyword("START_AFTER", "seconds", ""),
        ArgInfo::keyword("END_AFTER", "seconds", ""),
        ArgInfo::keyword("INTERVAL", "seconds", ""),
        ArgInfo::keyword("STOP", "bool", "false"),
        ArgInfo::keyword("END_CALL", "HANDLER [VALUE]", ""),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("first time", &["start", "end", "interval"]),
        StatePart::drained("packets", &[]),
    ],
    samples: &["START_AFTER 5, INTERVAL 10", "3, 9.5 -> 1/2", "", "END 9, END_CALL e.extend_interval 2"],
    build: |args| {
        let mut time = |name| args.get::<Timestamp>(name).filter(|time| time.is_set());
        let [start, end] = [time("START"), time("END")];
        let [start_delay, end_delay] = [time("START_DELAY"), time("END_DELAY")];
        let [start_after, end_after] = [time("START_AFTER"), time("END_AFTER")];
        let interval = time("INTERVAL");
        let stop = args.value::<bool>("STOP");
        let call_text = args.get::<Raw>("END_CALL").map(|Raw(text)| text);
        let given = |all: &[Option<Timestamp>]| all.iter().flatten().count();
        if given(&[start, start_after, start_delay]) > 1 {
            args.error("START, START_AFTER, and START_AFTER_INIT are mutually exclusive");
        }
        if given(&[end, end_after, end_delay, interval]) > 1 {
            args.error("END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive");
        }
        if stop && call_text.is_some() {
            args.error("END_CALL and STOP are mutually exclusive");
        }
        args.finish()?;
        let (start, start_from) = match (start, start_delay) {
            (Some(at), _) => (at, From::Zero),
            (_, Some(delay)) => (delay, From::Run),
            _ => (start_after.unwrap_or_default(), From::FirstPacket),
        };
        let (end, end_from) = match (end, end_after, end_delay, interval) {
            (Some(at), ..) => (at, From::Zero),
            (_, Some(after), ..) => (after, From::FirstPacket),
            (_, _, Some(delay), _) => (delay, From::Run),
            (.., Some(interval)) => (interval, From::Start),
            _ => (Timestamp::MAX, From::Zero),
        };
        let armed = stop || call_text.is_some();
        Ok(Box::new(TimeFilter {
            given: [(start, start_from), (end, end_from)],
            start,
            start_from,
            end,
            end_from,
            ready: false,
            stop,
            call_text,
            call: None,
            armed,
            waiting: VecDeque::new(),
            end_before: Timestamp::ZERO,
        }))
    },
    ..Class::DEFAULT
};

/// The reference point of START or END. A time relative to the first packet or to the start of the range
/// becomes an absolute time when the first packet arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Zero,
    Run,
    FirstPacket,
    Start,
}

struct TimeFilter {
    /// START and END as configured, with their reference points.
    given: [(Timestamp, From); 2],
    start: Timestamp,
    start_from: From,
    end: Timestamp,
    end_from: From,
    /// True if the first packet has arrived or the handler `start` was written. `start` and `end` are then
    /// absolute times.
    ready: bool,
    stop: bool,
    call_text: Option<String>,
    call: Option<Call>,
    /// True if the next packet at or after the end stops the driver or calls the handler; false once it has
    /// happened, until the end is set again.
    armed: bool,
    /// The packet that reached the end and all packets after it, while the handler that it caused is being
    /// called. They are checked again afterwards, because the handler may move the end.
    waiting: VecDeque<Packet>,
    /// The end at the time of the last handler call. A further call is made for the same packet only if the
    /// handler has moved the end to a later time; otherwise calls would never stop.
    end_before: Timestamp,
}

/// The decision about a packet by its time stamp.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passes,
    Outside,
    /// The packet is the first at or after the end. The driver must be stopped or the handler called before
    /// the element decides about the packet.
    Ends,
}

impl TimeFilter {
    /// Sets the end. With STOP or END_CALL, the next packet at or after it stops the driver or calls the
    /// handler again.
    fn end_at(&mut self, time: Timestamp) -> Result<(), String> {
        self.end = time;
        self.armed = self.stop || self.call.is_some();
        Ok(())
    }

    fn judge(&mut self, time: Timestamp) -> Verdict {
        if !self.ready {
            self.first_packet(time);
        }
        if time < self.start {
            Verdict::Outside
        } else if time < self.end {
            Verdict::Passes
        } else if self.armed {
            Verdict::Ends
        } else {
            Verdict::Outside
        }
    }

    fn first_packet(&mut self, time: Timestamp) {
        self.ready = true;
        if self.start_from == From::FirstPacket {
            self.start = self.start + time;
        }
        match self.end_from {
            From::FirstPacket => self.end = self.end + time,
            From::Start => self.end = self.end + self.start,
            From::Zero | From::Run => {}
        }
    }

    /// Returns the handler call for a packet at or after the end, with `$t` replaced by the packet's time
    /// stamp; `None` if there is no END_CALL.
    fn call_for(&self, time: Timestamp) -> Option<Call> {
        let call = self.call.clone()?;
        let value = expand(&call.value, &time.to_string());
        Some(Call { value, ..call })
    }

    /// Stops the driver or calls the handler immediately, for a pulled packet, and decides about the packet
    /// again. Repeats this while the handler moves the end to a later time that is not after the packet's.
    fn call_now(&mut self, cx: &mut Cx<'_>, time: Timestamp) -> Verdict {
        loop {
            self.armed = false;
            let before = self.end;
            if self.stop {
                cx.stop();
            }
            if let Some(call) = self.call_for(time) {
                // The engine cannot call a handler of this element now, because the element is being
                // executed.
                let result = match call.element == Some(cx.id()) {
                    true => {
                        cx.handlers().on_behalf(&call, |cx| CLASS.write(self, cx, &call.handler, &call.value))
                    }
                    false => cx.handlers().write(&call),
                };
                if let Err(reason) = result {
                    let name = cx.name().to_string();
                    cx.messages().message(format_args!("{name}: {}: {reason}\n", call.handler));
                }
            }
            let verdict = self.judge(time);
            if verdict != Verdict::Ends || self.end <= before {
                return if verdict == Verdict::Passes { verdict } else { Verdict::Outside };
            }
        }
    }

    /// Decides about the waiting packets in order. Stops at the first packet that requires a handler call;
    /// after the call, `timer` continues with this packet.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.waiting.front() {
            let time = packet.time();
            let verdict = self.judge(time);
            if verdict == Verdict::Ends {
                let moved = self.end > self.end_before;
                if moved && !self.stop {
                    return self.call_behind(cx, time);
                }
                self.armed = false;
                if self.stop {
                    cx.stop();
                }
            }
            let Some(packet) = self.waiting.pop_front() else { return };
            match verdict {
                Verdict::Passes => cx.emit_one(0, packet, DropReason::NoOutput),
                _ => cx.emit_one(1, packet, DropReason::OutOfTime),
            }
            // The next waiting packet may cause a handler call even if the end has not moved since the last
            // call, because a handler may have armed the filter again.
            self.end_before = Timestamp(i64::MIN);
        }
    }

    /// Calls the handler after everything that has been emitted so far has been processed, and then
    /// continues with the waiting packets (in `timer`).
    fn call_behind(&mut self, cx: &mut Cx<'_>, time: Timestamp) {
        self.armed = false;
        self.end_before = self.end;
        if let Some(call) = self.call_for(time) {
            cx.handlers().call_later(&Arc::new(call));
        }
        cx.come_back(0);
    }
}

/// Replaces `$t` in the value of a handler call by the text of a time stamp.
fn expand(value: &str, time: &str) -> String {
    let mut parts = value.split("$t");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        // Only the variable `$t` is replaced. `$time` is another variable, so it stays.
        let longer = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        text += if longer { "$t" } else { time };
        text += part;
    }
    text
}

impl Element for TimeFilter {
    fn effects(&self) -> Effects {
        let outside =
            Filter::Leaf(Predicate::Opaque { about: "outside of the range", reads: vec![Field::TimeStamp] });
        let cases = vec![aside(outside, DropReason::OutOfTime), Case::new(Filter::TRUE, Target::Output(0))];
        let relative = |from| from == From::FirstPacket || from == From::Start;
        let calls = self.call_text.is_some();
        let effects = Effects::cases(cases).depending_on(Depends::Handler).calling(calls);
        match relative(self.start_from) || relative(self.end_from) {
            true => effects.depending_on(Depends::Counter).sharing("first time"),
            false => effects,
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if self.start_from == From::Run {
            self.start = self.start + cx.now();
        }
        if self.end_from == From::Run {
            self.end = self.end + cx.now();
        }
        if let Some(text) = &self.call_text {
            let own = |name: &str| CLASS.each_handler().any(|h| h.name == name).then_some(cx.id());
            self.call = Some(Call::parse(text, cx, own)?);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        // While a handler is being called, arriving packets join the waiting packets, so that they stay in
        // order.
        let called = !self.waiting.is_empty();
        if !called && batch.iter().all(|packet| self.judge(packet.time()) == Verdict::Passes) {
            return Some(batch);
        }
        for packet in batch.drain() {
            match self.waiting.try_reserve(1) {
                Ok(()) => self.waiting.push_back(packet),
                Err(_) => cx.drop(packet, DropReason::QueueFull),
            }
        }
        cx.recycle(batch);
        if !called {
            self.end_before = Timestamp(i64::MIN);
            self.go_on(cx);
        }
        None
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut outside = cx.batch();
        let mut inside = cx.batch();
        for packet in batch.drain() {
            let mut verdict = self.judge(packet.time());
            if verdict == Verdict::Ends {
                verdict = self.call_now(cx, packet.time());
            }
            let to = if verdict == Verdict::Passes { &mut inside } else { &mut outside };
            // All packets come from one batch, so `inside` and `outside` have room for them, and this never
            // fails.
            if let Err(packet) = to.push(packet) {
                cx.drop(packet, DropReason::NoBuffer);
            }
        }
        batch.append(&mut inside);
        cx.recycle(inside);
        match cx.outputs() {
            1 => cx.drop_all(outside, DropReason::OutOfTime),
            _ => cx.emit(1, outside),
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.go_on(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for packet in self.waiting.drain(..) {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let times = (self.start, self.end, self.end_from, self.ready, self.armed);
        Some(Box::new((self.given, times)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (given, times): ([(Timestamp, From); 2], _);
        (given, times) = *state.downcast().map_err(|_| "the state of another class")?;
        if given == self.given {
            (self.start, self.end, self.end_from, self.ready, self.armed) = times;
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<TimeFilter>] = &[
    Handler::data(
        "start",
        |e| e.start.to_string(),
        |e, _, value| {
            let time = time(value)?;
            if !e.ready {
                e.first_packet(time);
            }
            e.start = time;
            Ok(())
        },
    ),
    Handler::data(
        "end",
        |e| e.end.to_string(),
        |e, _, value| {
            e.end_at(time(value)?)?;
            e.end_from = From::Zero;
            Ok(())
        },
    ),
    Handler::data(
        "interval",
        |e| (e.end - e.start).to_string(),
        |e, _, value| e.end_at(e.start + time(value)?),
    ),
    Handler::set("extend_interval", |e, _, value| e.end_at(e.end + time(value)?)),
];

fn time(text: &str) -> Result<Timestamp, String> {
    parse_seconds(text).ok_or_else(|| "expected time".into())
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn the_time_stands_where_the_variable_stood() {
        assert_eq!(expand("a $t b$t $time $t", "1.5"), "a 1.5 b1.5 $time 1.5");
        assert_eq!(expand("none", "1"), "none");
    }
}
