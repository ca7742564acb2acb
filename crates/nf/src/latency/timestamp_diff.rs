//! # TimestampDiff
//! Measures the delay of packets since a RecordTimestamp.
//!
//! Packets are identified by the number that NumberPacket has written into them. Packets that are too short
//! for a number, and packets whose time was not recorded, go to output 1, or are dropped. Delays are in
//! whole microseconds, or in nanoseconds with NANO.
//!
//! ## Usage
//! `TimestampDiff(RECORDER [, KEYWORDS])`
//!
//! ## Arguments
//! - `RECORDER`: the RecordTimestamp.
//! - `OFFSET`: the offset of the number in bytes.
//! - `N`: the number of delays for which memory is reserved.
//! - `MAXDELAY`: the longest delay that is counted, in milliseconds.
//! - `NANO`: if true, delays are in nanoseconds.
//! - `NET_ORDER`: if true, numbers are in network byte order.
//! - `SAMPLE`: only the delays of packets with a multiple of this number are measured; other packets go to
//!   output 0.
//! - `VERBOSE`: if true, prints a warning about delays longer than MAXDELAY, at most one per batch.
//!
//! ## Handlers
//! - `average`, `min`, `max`, `stddev`: the mean, minimum, maximum and standard deviation of delays.
//! - `perc00`, `perc01`, `perc05`, `perc10`, `perc25`, `median`: percentiles of delays.
//! - `perc75`, `perc90`, `perc95`, `perc99`, `perc100`: more percentiles of delays.
//! - `perc`: the percentile that the parameter gives.
//! - `dump`: all delays in the order of measurement, as lines `INDEX: DELAY`.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, LENGTH 60) -> NumberPacket -> r :: RecordTimestamp(OFFSET 40) -> Queue -> Unqueue
//!     -> TimestampDiff(r) -> Discard
//! ```
//!
//! ## See also
//! RecordTimestamp, NumberPacket

use std::any::Any;
use std::sync::Arc;

use element::args::{ElementRef, not_a, parse_real};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Field, Filter, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};

use super::record_timestamp::Times;
use super::{number_at, number_field};
use crate::editing::refused;
use crate::memory::{refusal, reserved};

/// The element class `TimestampDiff`.
pub static CLASS: Class = Class {
    name: "TimestampDiff",
    ports: "1/1-2",
    processing: "h/h",
    manual: manual!("timestamp_diff.rs"),
    args: &[
        ArgInfo::required("RECORDER", "element"),
        ArgInfo::keyword("OFFSET", "int", "40"),
        ArgInfo::keyword("N", "unsigned", "65536"),
        ArgInfo::keyword("MAXDELAY", "unsigned", "1000"),
        ArgInfo::keyword("NANO", "bool", "false"),
        ArgInfo::keyword("NET_ORDER", "bool", "").computed("that of RECORDER"),
        ArgInfo::keyword("SAMPLE", "unsigned", "1"),
        ArgInfo::keyword("VERBOSE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept(
        "delays",
        &["average", "min", "max", "stddev", "perc", "perc00", "median", "dump"],
    )],
    // No samples for the generic tests, because a single element has no recorder; the tests of whole
    // configurations cover the element.
    samples: &[],
    build: |args| {
        let ElementRef(recorder) = args.required("RECORDER");
        let offset = args.value::<i32>("OFFSET");
        let room = args.value::<u32>("N").min(1 << 28) as usize;
        let max_delay = args.value::<u32>("MAXDELAY");
        let unit = if args.value::<bool>("NANO") { 1 } else { 1_000 };
        let net_order = args.get::<bool>("NET_ORDER");
        let sample = args.value::<u32>("SAMPLE").max(1).into();
        let verbose = args.value::<bool>("VERBOSE");
        args.finish()?;
        let times = args.setup.service::<Times>(recorder);
        if times.is_none() {
            args.error("RECORDER must be a valid RecordTimestamp element");
        }
        let offset = usize::try_from(offset).ok();
        if offset.is_none() {
            args.error("Offset must be >= 0");
        }
        args.finish()?;
        let (Some(times), Some(offset)) = (times, offset) else { return Err(element::Invalid) };
        let delays = reserved(room).map_err(|error| args.error(refusal("N", "delays", &error)));
        args.finish()?;
        let delays = delays.map_err(|()| element::Invalid)?;
        let net_order = net_order.unwrap_or(times.net_order);
        Ok(Box::new(TimestampDiff { times, offset, net_order, unit, max_delay, sample, verbose, delays }))
    },
    ..Class::DEFAULT
};

struct TimestampDiff {
    times: Arc<Times>,
    offset: usize,
    net_order: bool,
    /// The unit of delays in nanoseconds.
    unit: i64,
    /// The longest delay that is counted, in milliseconds.
    max_delay: u32,
    sample: u64,
    verbose: bool,
    /// The measured delays in units of `unit`, in the order of measurement.
    delays: Vec<u64>,
}

/// Returns the delay below which `percent` percent of the delays lie: in the sorted list, the delay at this
/// percentage of the length, or the last delay. Returns -1 if there are no delays.
fn percentile(delays: &[u64], percent: f64) -> f64 {
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    let place = (percent * sorted.len() as f64 / 100.0).max(0.0) as usize;
    sorted.get(place).or(sorted.last()).map_or(-1.0, |&delay| delay as f64)
}

fn mean(delays: &[u64]) -> f64 {
    delays.iter().map(|&delay| delay as f64).sum::<f64>() / delays.len() as f64
}

/// Formats a number as C does, which writes `nan` in lower case.
fn show(number: f64) -> String {
    if number.is_nan() { "nan".into() } else { number.to_string() }
}

impl Element for TimestampDiff {
    fn effects(&self) -> Effects {
        let reads = vec![number_field(self.offset), Field::Length];
        let unknown = |reason: DropReason| refused(reason.as_str(), &reads, reason);
        let cases = vec![
            unknown(DropReason::TooShort),
            unknown(DropReason::NoMatch),
            Case::new(Filter::TRUE, Target::Output(0)),
        ];
        Effects::cases(cases).depending_on(Depends::Time).depending_on(Depends::Counter)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        let (times, delays) = (&self.times, &mut self.delays);
        let (offset, net_order, max_delay) = (self.offset, self.net_order, i64::from(self.max_delay));
        let (sample, unit) = (self.sample, self.unit);
        let mut late = None;
        batch.sift(
            |packet| {
                let number = number_at(packet, offset, net_order).ok_or(DropReason::TooShort)?;
                if !number.is_multiple_of(sample) {
                    return Ok(());
                }
                let delay = (now - times.take(number).ok_or(DropReason::NoMatch)?).0.max(0);
                if delay / 1_000_000 > max_delay {
                    late = Some((number, delay / 1_000));
                } else {
                    delays.push((delay / unit).unsigned_abs());
                }
                Ok(())
            },
            |packet, reason| cx.emit_one(1, packet, reason),
        );
        if let (Some((number, delay)), true) = (late, self.verbose) {
            cx.warn(format_args!("delay over {max_delay} ms for packet {number}: {delay} us"));
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.unit, std::mem::take(&mut self.delays))))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (unit, delays): (i64, Vec<u64>) = *state.downcast().map_err(|_| "the state of another class")?;
        // NANO may have changed.
        let [old, new] = [unit, self.unit].map(i64::unsigned_abs);
        self.delays.extend(delays.into_iter().map(|delay| delay.saturating_mul(old) / new));
        Ok(())
    }
}

const HANDLERS: &[Handler<TimestampDiff>] = &[
    Handler::get("average", |e| show(mean(&e.delays))),
    Handler::get("min", TimestampDiff::least),
    Handler::get("max", TimestampDiff::most),
    Handler::get("stddev", |e| {
        let mean = mean(&e.delays);
        let squares = e.delays.iter().map(|&delay| (delay as f64 - mean).powi(2)).sum::<f64>();
        show((squares / e.delays.len() as f64).sqrt())
    }),
    Handler::get("perc00", TimestampDiff::least),
    Handler::get("perc01", |e| show(percentile(&e.delays, 1.0))),
    Handler::get("perc05", |e| show(percentile(&e.delays, 5.0))),
    Handler::get("perc10", |e| show(percentile(&e.delays, 10.0))),
    Handler::get("perc25", |e| show(percentile(&e.delays, 25.0))),
    Handler::get("median", |e| show(percentile(&e.delays, 50.0))),
    Handler::get("perc75", |e| show(percentile(&e.delays, 75.0))),
    Handler::get("perc90", |e| show(percentile(&e.delays, 90.0))),
    Handler::get("perc95", |e| show(percentile(&e.delays, 95.0))),
    Handler::get("perc99", |e| show(percentile(&e.delays, 99.0))),
    Handler::get("perc100", TimestampDiff::most),
    Handler::read_param("perc", |e, _, param| {
        let percent = parse_real(param).ok_or_else(|| not_a(param, "a number"))?;
        Ok(show(percentile(&e.delays, percent)))
    }),
    Handler::get("dump", |e| {
        e.delays.iter().enumerate().map(|(i, delay)| format!("{i}: {delay}\n")).collect()
    }),
];

impl TimestampDiff {
    fn least(&self) -> String {
        // FastClick shows the largest number of 32 bits while there are no delays.
        self.delays.iter().min().unwrap_or(&u32::MAX.into()).to_string()
    }

    fn most(&self) -> String {
        self.delays.iter().max().unwrap_or(&0).to_string()
    }
}
