//! # RatedUnqueue
//! Pulls packets and pushes them, up to a number of packets per second.
//!
//! A token bucket enforces the rate. The bucket is full at the start, and holds the packets of 20
//! milliseconds unless configured otherwise.
//!
//! ## Usage
//! `RatedUnqueue(RATE [, KEYWORDS])`
//!
//! ## Arguments
//! - `RATE`: packets per second; with 0, no packets are pulled.
//! - `BURST_DURATION`: the size of the bucket, as the time in which it fills.
//! - `BURST_SIZE`: the size of the bucket in packets, in place of BURST_DURATION.
//! - `ACTIVE`: true to pull packets from the start.
//!
//! ## Handlers
//! - `rate`: packets per second.
//! - `active`: true if the element pulls packets.
//! - `reset`: removes all tokens, so that the next packet waits for a new one.
//! - `calls`: the numbers of calls of the task, of calls in which no packet was allowed, of batches
//!   pushed, of pulls without packets, and of packets, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> RatedUnqueue(1000) -> Discard
//! ```
//!
//! ## See also
//! BandwidthRatedUnqueue, Unqueue, Shaper, RatedSplitter

use element::args::parse_bool;
use element::class::Notes;
use element::effects::{Depends, Support};
use element::{Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::BATCH_CAPACITY;
use std::any::Any;

use super::bucket::Bucket;
use super::limit::{Limit, UNQUEUE_ARGS};
use crate::rate::RATE;

/// The element class `RatedUnqueue`.
pub static CLASS: Class = Class {
    name: "RatedUnqueue",
    processing: "l/h",
    manual: manual!("rated_unqueue.rs"),
    notes: Notes::TASK,
    args: UNQUEUE_ARGS,
    table: &HANDLERS,
    state: &[StatePart::kept("rate", &[]), StatePart::kept("counts", &["calls"])],
    samples: &["1000000", "5000, BURST_SIZE 3", "0", "1000, ACTIVE false"],
    reconfigures: true,
    build: |args| {
        let limit = Limit::read(args, false);
        let active = args.value("ACTIVE");
        args.finish()?;
        Ok(Box::new(RatedUnqueue::new(limit, active)))
    },
    ..Class::DEFAULT
};

/// The element of the classes RatedUnqueue and BandwidthRatedUnqueue. The counts are for the handler
/// `calls`.
pub(super) struct RatedUnqueue {
    limit: Limit,
    active: bool,
    calls: u64,
    empty_runs: u64,
    pushes: u64,
    failed_pulls: u64,
    packets: u64,
}

impl RatedUnqueue {
    pub(super) fn new(limit: Limit, active: bool) -> RatedUnqueue {
        RatedUnqueue { limit, active, calls: 0, empty_runs: 0, pushes: 0, failed_pulls: 0, packets: 0 }
    }
}

impl Element for RatedUnqueue {
    fn effects(&self) -> Effects {
        let effects =
            Effects { support: Support { whole_length: true, ..Support::default() }, ..Effects::pass() };
        effects
            .depending_on(Depends::Time)
            .depending_on(Depends::Handler)
            .sharing(RATE)
            .observing(&self.limit.reads())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        self.calls += 1;
        if !self.active {
            return false;
        }
        self.limit.fill(cx.now());
        if !self.limit.allows() {
            self.empty_runs += 1;
            if let Some(at) = self.limit.next(cx.now()) {
                cx.set_timer(0, at);
            }
            return false;
        }
        let mut left = cx.burst().min(BATCH_CAPACITY);
        let mut worked = false;
        while left > 0 && self.limit.allows() {
            let batch = cx.pull(0, self.limit.allowed().min(left));
            if batch.is_empty() {
                cx.recycle(batch);
                self.failed_pulls += 1;
                if !cx.may_pull(0) {
                    return worked;
                }
                break;
            }
            left -= batch.len().min(left);
            worked = true;
            self.packets += batch.len() as u64;
            self.pushes += 1;
            let lengths = cx.lengths();
            batch.iter().for_each(|packet| self.limit.charge(packet, lengths));
            cx.emit(0, batch);
        }
        cx.schedule();
        worked
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        cx.schedule();
    }

    fn configuration(&self) -> Option<String> {
        Some(format!("{}{}", self.limit.configuration(), if self.active { "" } else { ", ACTIVE false" }))
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let counts = [self.calls, self.empty_runs, self.pushes, self.failed_pulls, self.packets];
        Some(Box::new((self.limit.bucket(), counts)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let bucket: Bucket;
        (bucket, [self.calls, self.empty_runs, self.pushes, self.failed_pulls, self.packets]) =
            *state.downcast().map_err(|_| "the state of another class")?;
        self.limit.go_on(&bucket);
        Ok(())
    }
}

pub(super) const HANDLERS: &[Handler<RatedUnqueue>] = &[
    Handler::argument(
        "rate",
        "RATE",
        |e| e.limit.show(),
        |e, cx, value| {
            e.limit.write(cx, value)?;
            cx.schedule();
            Ok(())
        },
    ),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("syntax error")?;
            cx.schedule();
            Ok(())
        },
    ),
    Handler::act("reset", |e| e.limit.empty()),
    Handler::<RatedUnqueue>::get("calls", |e| {
        format!(
            "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n{} packets\n",
            e.calls, e.empty_runs, e.pushes, e.failed_pulls, e.packets
        )
    })
    .summed(),
];
