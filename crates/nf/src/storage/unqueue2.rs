//! # Unqueue2
//! Pulls packets and pushes them, as long as the queues downstream have room for them.
//!
//! In one call of its task, Unqueue2 never pulls more packets than there is room for in each of the queues.
//!
//! ## Usage
//! `Unqueue2([BURST, KEYWORDS])`
//!
//! ## Arguments
//! - `BURST`: the maximum number of packets pulled in one call of the task; 0 for all that are available.
//! - `QUEUES`: the names of the queues to watch; the nearest queues if not given.
//! - `QUIET`: if true, does not warn that Unqueue is the better choice.
//!
//! ## Handlers
//! - `packets`: the number of packets that have been pulled, as readable text.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Unqueue2(8, QUIET true) -> Queue(10) -> Unqueue -> Discard
//! ```
//!
//! ## See also
//! Unqueue, RatedUnqueue, BandwidthRatedUnqueue

use element::args::Raw;
use element::class::{ArgInfo, Notes};
use element::effects::Depends;
use element::{Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::BATCH_CAPACITY;

use super::watched::Watched;

/// The element class `Unqueue2`.
pub static CLASS: Class = Class {
    name: "Unqueue2",
    processing: "l/h",
    manual: manual!("unqueue2.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::positional("BURST", "int", "1"),
        ArgInfo::keyword("QUEUES", "elements", ""),
        ArgInfo::keyword("QUIET", "bool", "false"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["packets"])],
    samples: &["", "0, QUIET true", "7"],
    build: |args| {
        let burst = args.value::<i32>("BURST");
        let names = args.get::<Raw>("QUEUES").map(|Raw(text)| text).unwrap_or_default();
        let quiet = args.value::<bool>("QUIET");
        let queues = Watched::read(args, &names);
        args.finish()?;
        if !quiet {
            args.note("Unqueue2 is deprecated, you should probably use Unqueue");
        }
        let burst = usize::try_from(burst).ok().filter(|&n| n > 0).unwrap_or(usize::MAX);
        Ok(Box::new(Unqueue2 { burst, queues, count: 0 }))
    },
    ..Class::DEFAULT
};

struct Unqueue2 {
    burst: usize,
    queues: Watched,
    count: u64,
}

impl Element for Unqueue2 {
    fn effects(&self) -> Effects {
        Effects::pass().depending_on(Depends::Counter)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // Having no queues downstream is no error: there is then always room for packets.
        self.queues.find_any(cx, true)?;
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut left = self.burst.min(self.queues.room());
        if left == 0 {
            // A queue that is full but does not signal to sources must be polled, so the task is scheduled
            // again.
            if cx.may_push(0) {
                cx.schedule();
            }
            return false;
        }
        let before = self.count;
        while left > 0 {
            let batch = cx.pull(0, left.min(BATCH_CAPACITY));
            let n = batch.len();
            left -= n.min(left);
            self.count += n as u64;
            cx.emit(0, batch);
            if n == 0 {
                break;
            }
        }
        let worked = self.count > before;
        if worked || cx.may_pull(0) {
            cx.schedule();
        }
        worked
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<Unqueue2>] =
    &[Handler::<Unqueue2>::get("packets", |e| format!("{} packets\n", e.count)).summed()];
