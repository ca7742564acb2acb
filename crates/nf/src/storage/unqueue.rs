//! # Unqueue
//! Pulls packets and pushes them.
//!
//! ## Usage
//! `Unqueue([BURST, KEYWORDS])`
//!
//! ## Arguments
//! - `BURST`: the maximum number of packets pulled in one call of the task; negative for all that are
//!   available.
//! - `ACTIVE`: if true, packets are pulled.
//! - `LIMIT`: the maximum total number of packets that are pulled; negative for no limit.
//! - `SIGNAL`: if true, the task sleeps while there is nothing to pull.
//!
//! ## Handlers
//! - `count`: the number of packets that have been pulled.
//! - `active`, `burst`, `limit`: the arguments.
//! - `reset`, `reset_counts`: sets the count to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Unqueue(BURST 32) -> Discard
//! ```
//!
//! ## See also
//! Queue

use element::args::{ArgType, parse_bool};
use element::class::{ArgInfo, Notes};
use element::effects::{Case, Counting, Depends, Filter, Predicate, Target};
use element::{Class, Cx, DropReason, Effects, Element, Handler, StatePart, Tally, manual};
use packet::BATCH_CAPACITY;

/// The element class `Unqueue`.
pub static CLASS: Class = Class {
    name: "Unqueue",
    processing: "l/h",
    manual: manual!("unqueue.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::positional("BURST", "int", "").burst_of_run("1"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("LIMIT", "int", "-1"),
        ArgInfo::keyword("SIGNAL", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["count"])],
    build: |args| {
        let unqueue = Unqueue {
            burst: args.value::<i64>("BURST"),
            active: args.value("ACTIVE"),
            limit: args.value::<i64>("LIMIT"),
            sleeps: args.value("SIGNAL"),
            count: 0,
        };
        args.finish()?;
        if unqueue.burst == 0 {
            args.warn("BURST size 0, no packets will be pulled");
        }
        Ok(Box::new(unqueue))
    },
    ..Class::DEFAULT
};

struct Unqueue {
    burst: i64,
    active: bool,
    limit: i64,
    sleeps: bool,
    count: u64,
}

impl Unqueue {
    /// Returns the number of packets that may still be pulled before LIMIT is reached.
    fn left(&self) -> u64 {
        u64::try_from(self.limit).map_or(u64::MAX, |limit| limit.saturating_sub(self.count))
    }

    fn start(&self, cx: &mut Cx<'_>) {
        if self.active && self.left() > 0 {
            cx.schedule();
        }
    }
}

impl Element for Unqueue {
    fn effects(&self) -> Effects {
        if self.active && self.limit < 0 && self.burst != 0 {
            return Effects::pass().depending_on(Depends::Handler).counting(Counting::Tallied);
        }
        // If the element does not pull, packets stay upstream until the end of the run. So they are declared
        // as dropped then.
        let pulls = Filter::Leaf(Predicate::Opaque { about: "whether it pulls", reads: Vec::new() });
        let stays = Case::new(Filter::TRUE, Target::Drop(DropReason::Stop));
        let effects = Effects::cases(vec![Case::new(pulls, Target::Output(0)), stays]);
        effects.depending_on(Depends::Counter).depending_on(Depends::Handler)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.start(cx);
        Ok(())
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let mut left = u64::try_from(self.burst).unwrap_or(u64::MAX).min(self.left());
        let mut worked = false;
        let mut dry = false;
        while left > 0 && !dry {
            let batch = cx.pull(0, left.min(BATCH_CAPACITY as u64) as usize);
            let n = batch.len() as u64;
            dry = n == 0;
            worked |= n > 0;
            self.count += n;
            left -= n.min(left);
            cx.emit(0, batch);
        }
        if self.left() > 0 && (!dry || !self.sleeps || cx.may_pull(0)) {
            cx.schedule();
        }
        worked
    }

    fn tally(&mut self, tally: &Tally) {
        self.count += tally.packets;
    }

    element::keeps!(count);
}

const HANDLERS: &[Handler<Unqueue>] = &[
    Handler::count("count", |e| e.count),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("syntax error")?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "burst",
        |e| e.burst.to_string(),
        |e, cx, value| {
            let number = || i64::parse(value, &cx.place()).map_err(|_| "syntax error");
            e.burst = number()?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::data(
        "limit",
        |e| e.limit.to_string(),
        |e, cx, value| {
            let number = || i64::parse(value, &cx.place()).map_err(|_| "syntax error");
            e.limit = number()?;
            e.start(cx);
            Ok(())
        },
    ),
    Handler::set("reset", |e, cx, _| {
        e.count = 0;
        e.start(cx);
        Ok(())
    }),
    Handler::set("reset_counts", |e, cx, _| {
        e.count = 0;
        e.start(cx);
        Ok(())
    }),
];
