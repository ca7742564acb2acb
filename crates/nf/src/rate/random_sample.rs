//! # RandomSample
//! Passes each packet with a given probability.
//!
//! Packets that do not pass go to output 1; if there is no output 1, they are dropped.
//!
//! ## Usage
//! `RandomSample([P, KEYWORDS])`
//!
//! ## Arguments
//! - `P`, `SAMPLE`: the probability that a packet passes.
//! - `DROP`: the probability that a packet does not pass; one of the three must be given.
//! - `ACTIVE`: if false, all packets pass.
//!
//! ## Handlers
//! - `sampling_prob`: the probability that a packet passes.
//! - `drop_prob`: the probability that a packet does not pass.
//! - `active`: false if all packets pass.
//! - `drops`: the number of packets that did not pass.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> RandomSample(0.1) -> Discard
//! ```
//!
//! ## See also
//! RandomBitErrors

use crate::editing::aside;
use crate::fixed;
use element::args::parse_real;
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};
use packet::BATCH_CAPACITY;

/// The element class `RandomSample`.
pub static CLASS: Class = Class {
    name: "RandomSample",
    ports: "1/1-2",
    processing: "a/ah",
    manual: manual!("random_sample.rs"),
    args: &[
        ArgInfo::positional("P", "probability", ""),
        ArgInfo::keyword("SAMPLE", "probability", ""),
        ArgInfo::keyword("DROP", "probability", ""),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    samples: &["0.5", "DROP 0.25 -> 1/2", "0, ACTIVE false"],
    reconfigures: true,
    build: |args| {
        let (p, sample, drop): (Option<f64>, Option<f64>, Option<f64>) =
            (args.get("P"), args.get("SAMPLE"), args.get("DROP"));
        let active = args.value::<bool>("ACTIVE");
        if sample.is_some() && drop.is_some() {
            args.error("give at most one of SAMPLE and DROP");
        }
        args.finish()?;
        let probability = drop.map(|q| 1.0 - q).or(sample).or(p).filter(|p| (0.0..=1.0).contains(p));
        let Some(probability) = probability else {
            args.error("sampling probability must be between 0 and 1");
            return Err(element::Invalid);
        };
        let threshold = fixed::quantize(probability, BITS);
        Ok(Box::new(RandomSample { threshold, active, drops: 0 }))
    },
    ..Class::DEFAULT
};

/// The number of fractional bits of probabilities in fixed point.
const BITS: u32 = 28;
const ONE: u64 = 1 << BITS;

struct RandomSample {
    /// The probability that a packet passes, times 2^28: a packet passes if a random number below 2^28 is
    /// less than this threshold.
    threshold: u64,
    active: bool,
    drops: u64,
}

impl Element for RandomSample {
    fn effects(&self) -> Effects {
        let unlucky = Filter::Leaf(Predicate::Opaque { about: "random numbers", reads: Vec::new() });
        let cases = vec![aside(unlucky, DropReason::Sampled), Case::new(Filter::TRUE, Target::Output(0))];
        Effects::cases(cases).depending_on(Depends::Random).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        let (threshold, drops) = (self.threshold, &mut self.drops);
        // The numbers are drawn first, because the closure that emits packets borrows the context.
        let mut passes = [false; BATCH_CAPACITY];
        let random = cx.random();
        for passes in &mut passes[..batch.len()] {
            *passes = u64::from(random.bits()) % ONE < threshold;
        }
        let mut passes = passes.into_iter();
        batch.sift(
            |_| if passes.next() == Some(true) { Ok(()) } else { Err(DropReason::Sampled) },
            |packet, reason| {
                *drops += 1;
                cx.emit_one(1, packet, reason);
            },
        );
    }

    fn configuration(&self) -> Option<String> {
        Some(format!("SAMPLE {}, ACTIVE {}", fixed::show(self.threshold, BITS), self.active))
    }

    element::keeps!(drops);
}

const HANDLERS: &[Handler<RandomSample>] = &[
    Handler::data(
        "sampling_prob",
        |e| fixed::show(e.threshold, BITS),
        |e, _, value| {
            e.threshold = probability(value)?;
            Ok(())
        },
    ),
    Handler::data(
        "drop_prob",
        |e| fixed::show(ONE - e.threshold, BITS),
        |e, _, value| {
            e.threshold = ONE - probability(value)?;
            Ok(())
        },
    ),
    Handler::flag("active", |e| &mut e.active, "syntax error"),
    Handler::count("drops", |e| e.drops),
];

fn probability(text: &str) -> Result<u64, String> {
    let p = parse_real(text).filter(|p| (0.0..=1.0).contains(p));
    Ok(fixed::quantize(p.ok_or("Must be given a number between 0.0 and 1.0")?, BITS))
}
