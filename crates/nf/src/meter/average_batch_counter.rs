//! # AverageBatchCounter
//! Counts packets and batches per interval of time.
//!
//! ## Usage
//! `AverageBatchCounter([INTERVAL, KEYWORDS])`
//!
//! ## Arguments
//! - `INTERVAL`: the interval in milliseconds.
//! - `LENGTH_STATS`: if true, the lengths of packets are counted.
//!
//! ## Handlers
//! - `average`: the mean number of packets per batch in the last interval that has ended; 0 if there was no
//!   batch.
//! - `average_total`: the mean number of packets per batch over all intervals that have ended; 0 if there
//!   was no batch.
//! - `average_frame_len`: the mean length of packets in bytes in the last interval that has ended; 0 if
//!   there was no packet, or without LENGTH_STATS.
//! - `average_frame_len_total`: the mean length of packets in bytes over all intervals that have ended; 0 if
//!   there was no packet, or without LENGTH_STATS.
//! - `count_packets`, `count_batches`: the numbers of packets and batches in the last interval.
//! - `count_packets_total`, `count_batches_total`: the numbers of packets and batches in all intervals that
//!   have ended.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100) -> AverageBatchCounter(10) -> Discard
//! ```
//!
//! ## See also
//! BatchStats, AverageCounter

use element::class::ArgInfo;
use element::effects::Field;
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, Timestamp, manual};

use super::metering;
use crate::fixed::twelve_digits;

/// The element class `AverageBatchCounter`.
pub static CLASS: Class = Class {
    name: "AverageBatchCounter",
    manual: manual!("average_batch_counter.rs"),
    args: &[
        ArgInfo::positional("INTERVAL", "milliseconds", "1000"),
        ArgInfo::keyword("LENGTH_STATS", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept(
        "counts",
        &[
            "average",
            "average_total",
            "count_packets",
            "count_packets_total",
            "count_batches",
            "count_batches_total",
            "average_frame_len",
            "average_frame_len_total",
        ],
    )
    .with_tables(&["meter"])],
    samples: &["", "10, LENGTH_STATS true"],
    build: |args| {
        let interval = Timestamp(i64::from(args.value::<u32>("INTERVAL").max(1)) * 1_000_000);
        let lengths = args.value("LENGTH_STATS");
        args.finish()?;
        Ok(Box::new(AverageBatchCounter { interval, lengths, ..AverageBatchCounter::default() }))
    },
    ..Class::DEFAULT
};

#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    batches: u64,
    bytes: u64,
}

/// Returns a quotient as FastClick shows it: with single precision and at most twelve digits; 0 if the
/// divisor is 0.
fn quotient(dividend: u64, divisor: u64) -> String {
    if divisor == 0 {
        return "0".into();
    }
    twelve_digits(f64::from(dividend as f32 / divisor as f32))
}

impl Counts {
    /// Returns the mean number of packets in a batch.
    fn average(self) -> String {
        quotient(self.packets, self.batches)
    }

    /// Returns the mean length of packets in bytes.
    fn length(self) -> String {
        quotient(self.bytes, self.packets)
    }
}

#[derive(Default)]
struct AverageBatchCounter {
    interval: Timestamp,
    /// True if the lengths of packets are counted.
    lengths: bool,
    began: Option<Timestamp>,
    current: Counts,
    last: Counts,
    total: Counts,
}

impl AverageBatchCounter {
    /// Ends the intervals that are over at `now`. Called for each batch and each reading of a handler.
    /// There is no timer, because a pending timer would keep a run from ending.
    fn advance(&mut self, now: Timestamp) {
        let began = *self.began.get_or_insert(now);
        let passed = (now - began).0 / self.interval.0;
        if passed < 1 {
            return;
        }
        self.began = Some(Timestamp(began.0 + passed * self.interval.0));
        self.total.packets += self.current.packets;
        self.total.batches += self.current.batches;
        self.total.bytes += self.current.bytes;
        self.last = if passed == 1 { self.current } else { Counts::default() };
        self.current = Counts::default();
    }
}

impl Element for AverageBatchCounter {
    fn effects(&self) -> Effects {
        metering(&[Field::Length])
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.began = Some(cx.now()).filter(|now| now.is_set());
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.advance(cx.now());
        self.current.packets += batch.len() as u64;
        self.current.batches += u64::from(!batch.is_empty());
        if self.lengths {
            self.current.bytes += batch.iter().map(|packet| packet.len() as u64).sum::<u64>();
        }
    }

    element::keeps!(began, current, last, total);
}

const HANDLERS: &[Handler<AverageBatchCounter>] = &[
    Handler::read("average", |e, cx, _| Ok(e.until(cx).last.average())),
    Handler::read("average_total", |e, cx, _| Ok(e.until(cx).total.average())),
    Handler::read("average_frame_len", |e, cx, _| Ok(e.until(cx).last.length())),
    Handler::read("average_frame_len_total", |e, cx, _| Ok(e.until(cx).total.length())),
    Handler::<AverageBatchCounter>::read("count_packets", |e, cx, _| {
        Ok(e.until(cx).last.packets.to_string())
    })
    .summed(),
    Handler::<AverageBatchCounter>::read("count_packets_total", |e, cx, _| {
        Ok(e.until(cx).total.packets.to_string())
    })
    .summed(),
    Handler::<AverageBatchCounter>::read("count_batches", |e, cx, _| {
        Ok(e.until(cx).last.batches.to_string())
    })
    .summed(),
    Handler::<AverageBatchCounter>::read("count_batches_total", |e, cx, _| {
        Ok(e.until(cx).total.batches.to_string())
    })
    .summed(),
];

impl AverageBatchCounter {
    /// Ends the intervals that are over, so that handlers show the counts at the current time.
    fn until(&mut self, cx: &Cx<'_>) -> &AverageBatchCounter {
        self.advance(cx.now());
        self
    }
}
