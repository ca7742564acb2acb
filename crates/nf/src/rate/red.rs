//! # RED
//! Drops packets at random, with a probability that grows with the length of queues (random early
//! detection).
//!
//! RED computes a moving average of the number of packets in the nearest queues: downstream if its ports
//! are push ports, upstream if they are pull ports (Floyd and Jacobson, 1993). The packets that it chooses
//! to drop go to output 1, if there is an output 1.
//!
//! ## Usage
//! `RED(MIN_THRESH, MAX_THRESH, MAX_P [, KEYWORDS])`
//!
//! ## Arguments
//! - `MIN_THRESH`: the average number of packets up to which no packet is dropped.
//! - `MAX_THRESH`: the average number of packets at which the drop probability reaches MAX_P.
//! - `MAX_P`: the drop probability at MAX_THRESH.
//! - `QUEUES`: the names of the queues to watch; the nearest queues if not given.
//! - `STABILITY`: the weight of a new length in the average is 1 / 2^STABILITY.
//! - `GENTLE`: if true, the probability grows from MAX_P to 1 while the average grows from MAX_THRESH to
//!   twice MAX_THRESH; if false, all packets are dropped while the average is above MAX_THRESH.
//!
//! ## Handlers
//! - `min_thresh`, `max_thresh`, `max_p`: the arguments.
//! - `drops`: the number of packets that were dropped, or sent to output 1.
//! - `queues`: the names of the queues, one per line.
//! - `avg_queue_size`: the average number of packets in the queues.
//! - `stats`: queue length, average and drops, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> RED(5, 50, 0.02) -> Queue(200) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Queue, CoDel

use std::any::Any;

use element::args::{ArgType, Raw};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, Target};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Random, StatePart, Timestamp,
    manual,
};
use packet::BATCH_CAPACITY;

use crate::editing::aside;
use crate::fixed;
use crate::storage::watched::Watched;

/// The element class `RED`.
pub static CLASS: Class = Class {
    name: "RED",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("red.rs"),
    args: &[
        ArgInfo::required("MIN_THRESH", "unsigned"),
        ArgInfo::required("MAX_THRESH", "unsigned"),
        ArgInfo::required("MAX_P", "probability"),
        ArgInfo::positional("QUEUES", "elements", ""),
        ArgInfo::keyword("STABILITY", "unsigned", "4"),
        ArgInfo::keyword("GENTLE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("average length", &["avg_queue_size"]),
        StatePart::kept("counts", &["drops", "stats"]),
    ],
    samples: &["5, 50, 0.5", "5, 20, 1, STABILITY 0 -> 1/2", "0, 5, 0.02, GENTLE false"],
    reconfigures: true,
    build: |args| {
        let bounds = Bounds {
            least: args.required("MIN_THRESH"),
            most: args.required("MAX_THRESH"),
            p: Bounds::scale(args.required("MAX_P")),
        };
        Red::build(args, bounds, |args| args.value("GENTLE"), false)
    },
    ..Class::DEFAULT
};

/// The number of fractional bits of the average queue length.
const SCALE: u32 = 10;
/// The number of fractional bits of drop probabilities.
const P_BITS: u32 = 16;

#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) least: u32,
    pub(super) most: u32,
    /// MAX_P, times 2^16.
    pub(super) p: u32,
}

impl Bounds {
    /// Converts a probability to the form of `p`. A probability above 2 becomes 2.
    pub(super) fn scale(probability: f64) -> u32 {
        fixed::quantize(probability.min(2.0), P_BITS) as u32
    }

    fn check(&self) -> Result<(), String> {
        let largest = u32::MAX >> SCALE;
        if self.least > largest {
            Err(format!("MIN_THRESH too large (max {largest})"))
        } else if self.most > largest {
            Err(format!("MAX_THRESH too large (max {largest})"))
        } else if self.least > self.most {
            Err("MIN_THRESH must be <= MAX_THRESH".into())
        } else if self.p > 1 << P_BITS {
            Err("MAX_P must be between 0 and 1".into())
        } else {
            Ok(())
        }
    }
}

#[derive(Clone, Copy)]
struct Average {
    stability: u32,
    scaled: i64,
    /// The epoch of the last packet, if this packet found the queues empty; otherwise `None`. If the next
    /// packet finds them empty, too, the average decreases once for each epoch between the two packets, at
    /// most 1024 times.
    empty_since: Option<i64>,
}

impl Average {
    /// The length of an epoch in nanoseconds: while the queues are empty, the average decreases once in
    /// this time.
    const EPOCH: i64 = 20_000_000;

    fn update(&mut self, length: usize, now: Timestamp) {
        let value = (length as i64) << SCALE;
        let epoch = now.0.div_euclid(Self::EPOCH);
        let times = match (self.stability, length) {
            (0, _) => {
                self.scaled = value;
                return;
            }
            (_, 0) => {
                let since = self.empty_since.replace(epoch);
                since.map_or(1, |since| (epoch - since).clamp(0, 1024))
            }
            _ => {
                self.empty_since = None;
                1
            }
        };
        let half = 1 << (self.stability - 1);
        for _ in 0..times {
            self.scaled += (value + half - self.scaled) >> self.stability;
        }
    }
}

/// The element of the classes RED and AdaptiveRED.
pub(super) struct Red {
    bounds: Bounds,
    gentle: bool,
    /// True if the element adapts MAX_P to the average queue length (AdaptiveRED).
    adapts: bool,
    queues: Watched,
    average: Average,
    /// The number of packets since the last drop, or since drops at random began; -1 while the average is so
    /// low that no packet is dropped, or so high that all packets are dropped.
    count: i64,
    /// A random number below 2^16, drawn again after each drop, so that the gaps between drops are
    /// uniformly distributed; also drawn when `count` leaves -1.
    random: i64,
    drops: u64,
}

impl Red {
    /// The nanoseconds between two changes of MAX_P by AdaptiveRED.
    const ADAPTS_EVERY: i64 = 500_000_000;
    /// The drop probability 0.01: AdaptiveRED increases MAX_P by at most this step, and decreases it only
    /// while it is larger.
    const HUNDREDTH: u32 = (1 << P_BITS) / 100;
    /// The factor 0.9, by which AdaptiveRED decreases MAX_P.
    const NINE_TENTHS: u32 = (9 << P_BITS) / 10;

    /// Reads the arguments that RED and AdaptiveRED have in common, and `gentle` among them, and makes the
    /// element.
    pub(super) fn build(
        args: &mut Args<'_>,
        bounds: Bounds,
        gentle: impl FnOnce(&mut Args<'_>) -> bool,
        adapts: bool,
    ) -> Result<Box<dyn Element>, Invalid> {
        let names = args.get::<Raw>("QUEUES").map(|Raw(text)| text).unwrap_or_default();
        let stability = args.value::<u32>("STABILITY");
        let gentle = gentle(args);
        args.finish()?;
        if let Err(reason) = bounds.check() {
            args.error(reason);
        }
        if stability > 16 {
            args.error("STABILITY parameter must be between 0 and 16");
        }
        let queues = Watched::read(args, &names);
        args.finish()?;
        let average = Average { stability, scaled: 0, empty_since: None };
        Ok(Box::new(Red { bounds, gentle, adapts, queues, average, count: -1, random: 0, drops: 0 }))
    }

    /// Changes MAX_P by the rule of AdaptiveRED: it decreases by a tenth while the average is in the lower
    /// half between the thresholds or below, and increases by 0.01, or a quarter of itself if that is less,
    /// while the average is above. It stays between 0.01 and 0.5, or nearly.
    fn adapt(&mut self) {
        let average = match self.average.stability {
            0 => self.queues.length() as i64,
            _ => (self.average.scaled + (1 << (SCALE - 1))) >> SCALE,
        };
        let Bounds { least, most, p } = &mut self.bounds;
        let part = (*most - *least) / 2;
        if average < i64::from(*least + part) && *p > Red::HUNDREDTH {
            *p = ((u64::from(*p) * u64::from(Red::NINE_TENTHS)) >> P_BITS) as u32;
        } else if average > i64::from(*most - part) && *p < 1 << (P_BITS - 1) {
            *p += Red::HUNDREDTH.min(*p / 4);
        }
    }

    /// Returns the drop probability for the average queue length, times 2^16; `None` if the average is so
    /// high that all packets are dropped.
    fn probability(&self) -> Option<i64> {
        let (average, p) = (self.average.scaled, i64::from(self.bounds.p));
        let [least, most] = [self.bounds.least, self.bounds.most].map(|bound| i64::from(bound) << SCALE);
        let end = if self.gentle { most * 2 } else { most };
        if average <= least {
            Some(0)
        } else if average > end {
            None
        } else if average <= most {
            Some(p * (average - least) / (most - least).max(1))
        } else {
            Some(p + ((1 << P_BITS) - p) * (average - most) / most.max(1))
        }
    }

    fn chooses(&mut self, now: Timestamp, random: &mut Random) -> bool {
        self.average.update(self.queues.length(), now);
        let Some(p) = self.probability() else {
            self.count = -1;
            return true;
        };
        if self.average.scaled <= i64::from(self.bounds.least) << SCALE {
            self.count = -1;
            return false;
        }
        self.count += 1;
        let drop = self.count > 0 && p > 0 && self.count > self.random / p;
        if drop {
            self.count = 0;
        }
        if self.count == 0 {
            // The same bits as in Click.
            self.random = i64::from(random.bits() >> 5) % (1 << P_BITS);
        }
        drop
    }
}

impl Element for Red {
    fn effects(&self) -> Effects {
        let long = Filter::Leaf(Predicate::Opaque { about: "length of queues", reads: Vec::new() });
        let cases = vec![aside(long, DropReason::EarlyDrop), Case::new(Filter::TRUE, Target::Output(0))];
        let effects = Effects::cases(cases).depending_on(Depends::Random).depending_on(Depends::Time);
        effects.depending_on(Depends::Counter).depending_on(Depends::Handler).sharing("average length")
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.queues.find(cx, cx.graph().output_is_push(0))?;
        if self.adapts {
            cx.set_background_timer(0, cx.now() + Timestamp(Red::ADAPTS_EVERY));
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.adapt();
        cx.set_background_timer(0, cx.now() + Timestamp(Red::ADAPTS_EVERY));
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, max: usize) -> Batch {
        // Some packets of a batch are dropped. So the element pulls again, until it has `max` packets or no
        // packet is left upstream.
        let mut all = cx.batch();
        while all.len() < max.min(BATCH_CAPACITY) {
            let mut batch = cx.pull(0, max.min(BATCH_CAPACITY) - all.len());
            let empty = batch.is_empty();
            self.process(cx, &mut batch);
            all.append(&mut batch);
            cx.recycle(batch);
            if empty {
                break;
            }
        }
        all
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let now = cx.now();
        // The choices are made first, because the closure that emits packets borrows the context.
        let mut chosen = [false; BATCH_CAPACITY];
        for chosen in &mut chosen[..batch.len()] {
            *chosen = self.chooses(now, cx.random());
        }
        let mut chosen = chosen.into_iter();
        let mut drops = 0;
        batch.sift(
            |_| if chosen.next() == Some(true) { Err(DropReason::EarlyDrop) } else { Ok(()) },
            |packet, reason| {
                drops += 1;
                cx.emit_one(1, packet, reason);
            },
        );
        self.drops += drops;
    }

    fn configuration(&self) -> Option<String> {
        if self.adapts {
            return None;
        }
        let Bounds { least, most, p } = self.bounds;
        let (p, stability) = (fixed::show(p.into(), P_BITS), self.average.stability);
        let queues = match self.queues.names().collect::<Vec<_>>().join(" ") {
            // The queues are looked up when the graph starts.
            none if none.is_empty() => none,
            names => format!(", QUEUES {names}"),
        };
        let gentle = if self.gentle { "" } else { ", GENTLE false" };
        Some(format!("{least}, {most}, {p}{queues}, STABILITY {stability}{gentle}"))
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.average, self.count, self.random, self.drops, self.bounds.p)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (before, p): (Average, u32);
        (before, self.count, self.random, self.drops, p) =
            *state.downcast().map_err(|_| "the state of another class")?;
        if self.adapts {
            self.bounds.p = p;
        }
        self.average = Average { stability: self.average.stability, ..before };
        Ok(())
    }
}

pub(super) const HANDLERS: &[Handler<Red>] = &[
    Handler::argument(
        "min_thresh",
        "MIN_THRESH",
        |e| e.bounds.least.to_string(),
        |e, cx, value| e.set(Bounds { least: number("MIN_THRESH", value, cx)?, ..e.bounds }),
    ),
    Handler::argument(
        "max_thresh",
        "MAX_THRESH",
        |e| e.bounds.most.to_string(),
        |e, cx, value| e.set(Bounds { most: number("MAX_THRESH", value, cx)?, ..e.bounds }),
    ),
    Handler::argument(
        "max_p",
        "MAX_P",
        |e| fixed::show(u64::from(e.bounds.p), P_BITS),
        |e, cx, value| {
            let p: f64 = number("MAX_P", value, cx)?;
            e.set(Bounds { p: Bounds::scale(p), ..e.bounds })
        },
    ),
    Handler::count("drops", |e| e.drops),
    Handler::get("queues", |e| e.queues.list()),
    Handler::get("avg_queue_size", Red::show_average),
    Handler::get("stats", |e| {
        let (queue, average) = (e.queues.length(), e.show_average());
        format!("{queue} current queue\n{average} avg queue\n{} drops\n", e.drops)
    }),
];

impl Red {
    fn show_average(&self) -> String {
        fixed::show(self.average.scaled.max(0) as u64, SCALE)
    }

    fn set(&mut self, bounds: Bounds) -> Result<(), String> {
        bounds.check()?;
        self.bounds = bounds;
        Ok(())
    }
}

fn number<T: ArgType>(name: &str, text: &str, cx: &Cx<'_>) -> Result<T, String> {
    T::parse(text, &cx.place()).map_err(|reason| format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(least: u32, most: u32, p: f64, gentle: bool) -> Red {
        Red {
            bounds: Bounds { least, most, p: fixed::quantize(p, P_BITS) as u32 },
            gentle,
            adapts: false,
            queues: Watched::default(),
            average: Average { stability: 4, scaled: 0, empty_since: None },
            count: -1,
            random: 0,
            drops: 0,
        }
    }

    #[test]
    fn the_probability_rises_as_the_paper_says() {
        let at = |red: &mut Red, length: i64| {
            red.average.scaled = length << SCALE;
            red.probability().map(|p| p as f64 / 65536.0)
        };
        let mut gentle = red(10, 20, 0.5, true);
        for (length, p) in [(0, 0.0), (10, 0.0), (15, 0.25), (20, 0.5), (30, 0.75), (40, 1.0)] {
            assert_eq!(at(&mut gentle, length), Some(p), "{length}");
        }
        assert_eq!(at(&mut gentle, 41), None);
        assert_eq!(at(&mut red(10, 20, 0.5, false), 21), None);
    }

    #[test]
    fn averages_follow_and_sink_while_queues_are_empty() {
        let mut average = Average { stability: 4, scaled: 0, empty_since: None };
        (0..200).for_each(|_| average.update(40, Timestamp(1)));
        // The average of queue lengths of 40 may differ from 40 because of rounding, but by less than a
        // hundredth (10 of 1024 units).
        assert!(((40 << SCALE) - average.scaled).abs() < 10);
        average.update(0, Timestamp::from_secs(1));
        assert!(average.scaled >> SCALE >= 37);
        average.update(0, Timestamp::from_secs(60));
        assert!((0..10).contains(&average.scaled));
    }
}
