//! # AverageCounter
//! Counts packets and bytes, and their mean rates from the first packet to the last.
//!
//! ## Usage
//! `AverageCounter([IGNORE, KEYWORDS])`
//!
//! ## Arguments
//! - `IGNORE`: the seconds after the first packet in which packets are not counted.
//! - `LINK_FCS`: if true, link rates include the 4 bytes of the frame check sequence.
//! - `MAX`: the seconds that counting lasts from the first packet on; 0 for no limit.
//! - `THRESHOLD`: a rate in packets per second. When the rate exceeds it more than one second after the
//!   first packet, counting starts again from zero, once, and a message is printed. 0 for never.
//!
//! ## Handlers
//! - `count`: the number of packets.
//! - `byte_count`: the number of bytes.
//! - `bit_count`: the number of bits.
//! - `link_count`: the number of bits on the wire, with preamble, gap and, if LINK_FCS is true, check
//!   sequence.
//! - `rate`: packets per second.
//! - `byte_rate`, `bit_rate`, `link_rate`: bytes, bits, and bits on the wire per second.
//! - `time`: seconds from the first packet to the last, without the ignored seconds.
//! - `first`, `last`: the time of the first and the last packet.
//! - `reset`, `reset_now`: sets all counts to zero; the next packet is the first one.
//!
//! ## Example
//! ```click
//! RatedSource(RATE 1000, LIMIT 100) -> c :: AverageCounter -> Discard
//! ```
//!
//! ## See also
//! Counter

use element::class::ArgInfo;
use element::effects::{self, Field, State, StateAccess};
use element::metrics;
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, Tally, Timestamp, manual};

use crate::script::number::Number;

/// The element class `AverageCounter`.
pub static CLASS: Class = Class {
    name: "AverageCounter",
    aliases: &["AverageCounterMP", "AverageCounterIMP"],
    manual: manual!("average_counter.rs"),
    args: &[
        ArgInfo::positional("IGNORE", "seconds", "0"),
        ArgInfo::positional("LINK_FCS", "bool", "true"),
        ArgInfo::keyword("MAX", "seconds", "0"),
        ArgInfo::keyword("THRESHOLD", "unsigned", "0"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept(
        "counts",
        &[
            "count",
            "byte_count",
            "bit_count",
            "link_count",
            "rate",
            "byte_rate",
            "bit_rate",
            "link_rate",
            "time",
            "first",
            "last",
        ],
    )
    .with_tables(&["count"])],
    samples: &["", "1", "THRESHOLD 10"],
    build: |args| {
        let counter = AverageCounter {
            ignore: args.value("IGNORE"),
            link_fcs: args.value("LINK_FCS"),
            max: args.value("MAX"),
            threshold: args.value("THRESHOLD"),
            counts: Counts::default(),
        };
        args.finish()?;
        Ok(Box::new(counter))
    },
    ..Class::DEFAULT
};

struct AverageCounter {
    ignore: Timestamp,
    max: Timestamp,
    link_fcs: bool,
    /// The rate in packets per second above which counting starts again, once; 0 for never, and after it
    /// has happened.
    threshold: u32,
    counts: Counts,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    /// The time at which the first packet arrived; `None` if no packet has arrived.
    first: Option<Timestamp>,
    last: Timestamp,
}

/// The bytes on the wire that each Ethernet frame needs in addition to the frame: preamble and
/// start-of-frame delimiter (8 bytes) and inter-frame gap (12 bytes).
const WIRE_OVERHEAD: u64 = 20;
/// The length of the frame check sequence in bytes.
const FCS: u64 = 4;

impl AverageCounter {
    fn link_bits(&self) -> u64 {
        let overhead = WIRE_OVERHEAD + if self.link_fcs { FCS } else { 0 };
        (self.counts.bytes + self.counts.packets * overhead) * 8
    }

    /// Returns the milliseconds from the first packet to the last, without the ignored time. The result is
    /// at least 1, so that a single packet has a rate.
    fn span(&self) -> i64 {
        let ms = |time: Timestamp| time.0.div_euclid(1_000_000);
        let first = self.counts.first.unwrap_or(self.counts.last);
        (ms(self.counts.last) - ms(first) - ms(self.ignore)).max(1)
    }

    fn per_second(&self, n: u64) -> f64 {
        n as f64 * 1000.0 / self.span() as f64
    }

    /// Sets the counts to zero, prints a message and disables the threshold, if the rate exceeds the
    /// threshold. `age` is the time since the first packet; the rate is not judged in the first second.
    fn watch(&mut self, cx: &mut Cx<'_>, age: Timestamp) {
        let rate = self.per_second(self.counts.packets);
        if self.threshold > 0 && age > Timestamp::from_secs(1) && rate > f64::from(self.threshold) {
            let name = cx.declaration();
            cx.messages().message(format_args!("{name} : starting compute (rate {} pps)\n", show(rate)));
            self.threshold = 0;
            self.counts = Counts::default();
        }
    }
}

fn show(number: f64) -> String {
    Number::Real(number).to_string()
}

impl Element for AverageCounter {
    fn effects(&self) -> Effects {
        let state =
            State { table: "count", key: Vec::new(), both_directions: false, access: StateAccess::Soft };
        // With IGNORE, MAX or THRESHOLD, the time of each packet decides if it counts. Therefore, the element
        // must see each packet itself and not only the totals of a program that replaces it.
        let chooses = self.ignore.is_set() || self.max.is_set() || self.threshold > 0;
        let counts = if chooses { effects::Counting::Own } else { effects::Counting::Tallied };
        Effects { state: vec![state], counts, ..Effects::pass() }.observing(&[Field::Length])
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let now = cx.now();
        let age = now - *self.counts.first.get_or_insert(now);
        if age >= self.ignore && (!self.max.is_set() || age <= self.max) {
            self.counts.packets += batch.len() as u64;
            self.counts.bytes += batch.iter().map(|p| p.len() as u64).sum::<u64>();
        }
        self.counts.last = now;
        if self.threshold > 0 {
            self.watch(cx, age);
        }
    }

    fn tally(&mut self, tally: &Tally) {
        self.counts.packets += tally.packets;
        self.counts.bytes += tally.bytes;
        // A tally reports packets of one case and one input that bypassed the element. Several tallies may
        // cover the same period, so the first packet of a later tally may be the earliest.
        let first = self.counts.first.map_or(tally.first, |first| first.min(tally.first));
        self.counts.first = Some(first);
        self.counts.last = self.counts.last.max(tally.last);
    }

    element::keeps!(counts, threshold);
}

const HANDLERS: &[Handler<AverageCounter>] = &[
    Handler::count("count", |e| e.counts.packets),
    Handler::<AverageCounter>::count("byte_count", |e| e.counts.bytes).metric(metrics::BYTES),
    Handler::count("bit_count", |e| e.counts.bytes * 8),
    Handler::count("link_count", |e| e.link_bits()),
    Handler::<AverageCounter>::get("rate", |e| show(e.per_second(e.counts.packets))).summed(),
    Handler::<AverageCounter>::get("byte_rate", |e| show(e.per_second(e.counts.bytes))).summed(),
    Handler::<AverageCounter>::get("bit_rate", |e| show(e.per_second(e.counts.bytes * 8))).summed(),
    Handler::<AverageCounter>::get("link_rate", |e| show(e.per_second(e.link_bits()))).summed(),
    Handler::get("time", |e| show(e.span() as f64 / 1000.0)),
    Handler::get("first", |e| e.counts.first.unwrap_or_default().to_string()),
    Handler::get("last", |e| e.counts.last.to_string()),
    Handler::act("reset", |e| e.counts = Counts::default()),
    Handler::act("reset_now", |e| e.counts = Counts::default()),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Tallies of two cases, and a packet that the element itself has counted, cover different times in any
    /// order. The span is from the earliest first packet to the latest last packet.
    #[test]
    fn tallies_in_any_order_last_from_the_first_packet_to_the_last() {
        let second = Timestamp::from_secs;
        let mut counter = AverageCounter {
            ignore: Timestamp::ZERO,
            max: Timestamp::ZERO,
            link_fcs: true,
            threshold: 0,
            counts: Counts { packets: 1, bytes: 60, first: Some(second(4)), last: second(9) },
        };
        for (first, last) in [(5, 8), (2, 3)] {
            let (first, last) = (second(first), second(last));
            counter.tally(&Tally { input: 0, case: 0, packets: 3, bytes: 180, first, last });
        }
        assert_eq!((counter.counts.packets, counter.span()), (7, 7_000));
    }
}
