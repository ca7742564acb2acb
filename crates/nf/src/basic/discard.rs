//! # Discard
//! Drops every packet.
//!
//! With a pull input, Discard schedules itself and pulls as long as packets are available.
//!
//! ## Usage
//! `Discard([KEYWORDS])`
//!
//! ## Arguments
//! - `ACTIVE`: if true, Discard pulls. Only for pull inputs.
//! - `BURST`: the maximum number of packets pulled in one call of the task; 0 for all that are available.
//!
//! ## Handlers
//! - `count`: the number of dropped packets.
//! - `reset_counts`: sets the count to zero.
//! - `active`: true if Discard pulls.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1000) -> Queue -> Discard(BURST 32)
//! ```
//!
//! ## See also
//! Idle

use element::args::parse_bool;
use element::class::{ArgInfo, Notes, Task};
use element::effects::{Counting, Depends};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, Tally, manual};
use packet::BATCH_CAPACITY;

/// The element class `Discard`.
pub static CLASS: Class = Class {
    name: "Discard",
    aliases: &["DiscardNoFree", "DiscardNoFreeBuffer"],
    ports: "1/0",
    manual: manual!("discard.rs"),
    notes: Notes { task: Task::WherePulling, ..Notes::NONE },
    args: &[
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("BURST", "unsigned", "").burst_of_run("1"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"])],
    build: |args| {
        let discard = Discard { active: args.value("ACTIVE"), burst: args.value("BURST"), count: 0 };
        args.finish()?;
        Ok(Box::new(discard))
    },
    ..Class::DEFAULT
};

struct Discard {
    active: bool,
    burst: usize,
    count: u64,
}

impl Element for Discard {
    fn effects(&self) -> Effects {
        Effects::drop(DropReason::Discard).depending_on(Depends::Handler).counting(Counting::Tallied)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        match (cx.graph().input_is_push(0), self.active) {
            (true, false) => Err("ACTIVE is meaningless in push context".into()),
            (false, true) => {
                cx.schedule();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        self.count += batch.len() as u64;
        cx.drop_all(batch, DropReason::Discard);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let mut left = if self.burst == 0 { usize::MAX } else { self.burst };
        let mut worked = false;
        while left > 0 {
            let batch = cx.pull(0, left.min(BATCH_CAPACITY));
            let n = batch.len();
            self.count += n as u64;
            cx.drop_all(batch, DropReason::Discard);
            if n == 0 {
                break;
            }
            worked = true;
            left -= n.min(left);
        }
        if worked || cx.may_pull(0) {
            cx.schedule();
        }
        worked
    }

    fn tally(&mut self, tally: &Tally) {
        self.count += tally.packets;
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<Discard>] = &[
    Handler::count("count", |e| e.count),
    Handler::act("reset_counts", |e| e.count = 0),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("syntax error")?;
            if e.active && !cx.graph().input_is_push(0) {
                cx.schedule();
            }
            Ok(())
        },
    ),
];
