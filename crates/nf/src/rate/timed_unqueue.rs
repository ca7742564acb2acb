//! # TimedUnqueue
//! Pulls up to BURST packets once per INTERVAL, and pushes them.
//!
//! If there is no packet when an interval is over, the element sleeps. The next packet is then pushed at
//! once, and starts a new interval.
//!
//! ## Usage
//! `TimedUnqueue(INTERVAL [, BURST])`
//!
//! ## Arguments
//! - `INTERVAL`: the time from one burst to the next.
//! - `BURST`: the maximum number of packets in a burst.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> TimedUnqueue(10ms, 2) -> Discard
//! ```
//!
//! ## See also
//! RatedUnqueue, Unqueue, Burster

use crate::rate::RATE;
use element::class::{ArgInfo, Notes};
use element::effects::Depends;
use element::{Args, Class, Cx, Effects, Element, Invalid, StatePart, Timestamp, manual};
use packet::BATCH_CAPACITY;
use std::any::Any;

/// The element class `TimedUnqueue`.
pub static CLASS: Class = Class {
    name: "TimedUnqueue",
    processing: "l/h",
    manual: manual!("timed_unqueue.rs"),
    notes: Notes::TASK,
    args: &[ArgInfo::required("INTERVAL", "seconds"), ArgInfo::positional("BURST", "int", "1")],
    state: &[StatePart::kept("rate", &[])],
    samples: &["1ms", "1ms, 300"],
    build,
    ..Class::DEFAULT
};

/// Parses INTERVAL and BURST and makes the element of the classes TimedUnqueue and Burster. The two classes
/// differ only in the BURST that applies if none is given.
pub(super) fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let interval = args.required("INTERVAL");
    let burst = args.value::<i32>("BURST");
    args.finish()?;
    if burst <= 0 {
        args.error("bad BURST");
    }
    args.finish()?;
    Ok(Box::new(TimedUnqueue { interval, burst: burst as usize, waiting: false, last: None }))
}

struct TimedUnqueue {
    interval: Timestamp,
    burst: usize,
    /// True from a burst to the end of its interval; the task does not pull meanwhile.
    waiting: bool,
    /// The time at which the current or last interval ends. The next interval is counted from it, so that
    /// delays of timers do not add up. `None` before the first burst, and if there were no packets when the
    /// interval was over: the next packet then starts a new interval.
    last: Option<Timestamp>,
}

impl Element for TimedUnqueue {
    fn effects(&self) -> Effects {
        Effects::pass().depending_on(Depends::Time).sharing(RATE)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        // A queue upstream has received a packet and woken the task before the interval is over. The timer
        // will schedule the task again.
        if self.waiting {
            return false;
        }
        let mut left = self.burst;
        while left > 0 {
            let batch = cx.pull(0, left.min(BATCH_CAPACITY));
            if batch.is_empty() {
                cx.recycle(batch);
                break;
            }
            left -= batch.len().min(left);
            cx.emit(0, batch);
        }
        if left == self.burst && !cx.may_pull(0) {
            self.last = None;
            return false;
        }
        let next = cx.due_again(self.last.unwrap_or(cx.now()), self.interval);
        (self.last, self.waiting) = (Some(next), true);
        cx.set_timer(0, next);
        true
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.waiting = false;
        cx.schedule();
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((self.last, self.waiting)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.last, self.waiting) = *state.downcast().map_err(|_| "the state of another class")?;
        if let Some(next) = self.last.filter(|_| self.waiting) {
            cx.set_timer(0, next);
        }
        Ok(())
    }
}
