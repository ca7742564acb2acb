//! # RatedSplitter
//! Sends up to a number of packets per second to output 0, and further packets to output 1.
//!
//! A token bucket enforces the rate, as in RatedUnqueue. Without output 1, packets above the rate are
//! dropped.
//!
//! ## Usage
//! `RatedSplitter(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; with 0, all packets are above the rate.
//! - `BURST_DURATION`: the size of the bucket, as the time in which it fills.
//! - `BURST_SIZE`: the size of the bucket in packets, in place of BURST_DURATION.
//!
//! ## Handlers
//! - `rate`: packets per second.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: RatedSplitter(1000) -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! BandwidthRatedSplitter, Meter, Shaper, RatedUnqueue

use element::effects::{Case, Depends, Filter, Predicate, Support, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};
use std::any::Any;

use super::bucket::Bucket;
use super::limit::{Limit, PACKET_ARGS};
use crate::editing::aside;
use crate::rate::RATE;

/// The element class `RatedSplitter`.
pub static CLASS: Class = Class {
    name: "RatedSplitter",
    ports: "1/1-2",
    processing: "h/h",
    manual: manual!("rated_splitter.rs"),
    args: PACKET_ARGS,
    table: &HANDLERS,
    state: &[StatePart::kept("rate", &[])],
    samples: &["1000", "1000 -> 1/2", "0"],
    reconfigures: true,
    build: |args| {
        let limit = Limit::read(args, false);
        args.finish()?;
        Ok(Box::new(RatedSplitter { limit }))
    },
    ..Class::DEFAULT
};

/// The element of the classes RatedSplitter and BandwidthRatedSplitter.
pub(super) struct RatedSplitter {
    pub(super) limit: Limit,
}

impl Element for RatedSplitter {
    fn effects(&self) -> Effects {
        // If the limit is in bytes, it depends on the packet's length. So the element declares that it reads
        // the length.
        let above = Filter::Leaf(Predicate::Opaque { about: "above the rate", reads: self.limit.reads() });
        let cases = vec![aside(above, DropReason::OverRate), Case::new(Filter::TRUE, Target::Output(0))];
        let effects = Effects {
            support: Support { whole_length: true, ..Support::default() },
            ..Effects::cases(cases)
        };
        effects.depending_on(Depends::Time).depending_on(Depends::Handler).sharing(RATE)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let (limit, lengths) = (&mut self.limit, cx.lengths());
        limit.fill(cx.now());
        batch.sift(
            |packet| match limit.allows() {
                true => {
                    limit.charge(packet, lengths);
                    Ok(())
                }
                false => Err(DropReason::OverRate),
            },
            |packet, reason| cx.emit_one(1, packet, reason),
        );
    }

    fn configuration(&self) -> Option<String> {
        Some(self.limit.configuration())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.limit.bucket()))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let bucket: Bucket = *state.downcast().map_err(|_| "the state of another class")?;
        self.limit.go_on(&bucket);
        Ok(())
    }
}

pub(super) const HANDLERS: &[Handler<RatedSplitter>] =
    &[Handler::argument("rate", "RATE", |e| e.limit.show(), |e, cx, value| e.limit.write(cx, value))];
