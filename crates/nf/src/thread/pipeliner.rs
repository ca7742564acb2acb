//! # Pipeliner
//! Passes packets to the thread that the element belongs to.
//!
//! Each worker has its own copy of the element, so packets come from the element's own thread, and pass
//! directly. If DIRECT_TRAVERSAL is false, the element queues packets, and its task pushes them.
//!
//! ## Usage
//! `Pipeliner([CAPACITY, BURST, BLOCKING, KEYWORDS])`
//!
//! ## Arguments
//! - `CAPACITY`: the maximum number of packets that wait, at least 4.
//! - `BURST`: the maximum number of packets that the task pushes per call; 0 for all.
//! - `BLOCKING`: accepted for compatibility with FastClick, without effect; packets that find the queue
//!   full are dropped.
//! - `ACTIVE`: if true, the task runs and pushes the packets that wait.
//! - `ALWAYS_UP`, `NOUSELESS`, `VERBOSE`: accepted for compatibility with FastClick, without effect.
//! - `DIRECT_TRAVERSAL`: if true, packets of the element's own thread pass directly.
//!
//! ## Handlers
//! - `dropped`: the number of packets that found the queue full.
//! - `count`: the number of packets that were queued.
//! - `active`: true if the task runs.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3) -> Pipeliner -> Discard
//! ```
//!
//! ## See also
//! StaticThreadSched, Queue

use std::any::Any;
use std::collections::VecDeque;

use element::args::parse_bool;
use element::class::{ArgInfo, Notes};
use element::effects::{Case, Depends, Filter, Hold, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual};
use packet::BATCH_CAPACITY;

/// The element class `Pipeliner`.
pub static CLASS: Class = Class {
    name: "Pipeliner",
    ports: "1-/1",
    processing: "h/h",
    manual: manual!("pipeliner.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::positional("CAPACITY", "int", "1024"),
        ArgInfo::positional("BURST", "int", "32"),
        ArgInfo::positional("BLOCKING", "bool", "false"),
        ArgInfo::keyword("ACTIVE", "bool", "true"),
        ArgInfo::keyword("ALWAYS_UP", "bool", "false"),
        ArgInfo::keyword("DIRECT_TRAVERSAL", "bool", "true"),
        ArgInfo::keyword("NOUSELESS", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &[]), StatePart::kept("counts", &["count", "dropped"])],
    samples: &["", "DIRECT_TRAVERSAL false", "8, 2, DIRECT_TRAVERSAL false -> 2/1"],
    build: |args| {
        let capacity = args.value::<i32>("CAPACITY");
        let burst = args.value::<i32>("BURST");
        for name in ["BLOCKING", "ALWAYS_UP", "NOUSELESS", "VERBOSE"] {
            args.value::<bool>(name);
        }
        let active = args.value::<bool>("ACTIVE");
        let direct = args.value::<bool>("DIRECT_TRAVERSAL");
        let capacity = if capacity <= 0 { 1024 } else { capacity as usize };
        if capacity < 4 {
            args.error("Pipeliner ring size must be at least 4");
        }
        args.finish()?;
        let burst = usize::try_from(burst).ok().filter(|&n| n > 0).unwrap_or(usize::MAX);
        let ring = VecDeque::with_capacity(capacity.min(4096));
        Ok(Box::new(Pipeliner { capacity, burst, active, direct, ring, dropped: 0, count: 0 }))
    },
    ..Class::DEFAULT
};

struct Pipeliner {
    capacity: usize,
    burst: usize,
    active: bool,
    direct: bool,
    ring: VecDeque<Packet>,
    dropped: u64,
    count: u64,
}

impl Element for Pipeliner {
    fn effects(&self) -> Effects {
        if self.direct {
            return Effects::pass().depending_on(Depends::Handler);
        }
        let full = Filter::Leaf(Predicate::Opaque { about: "queue full", reads: Vec::new() });
        let cases = vec![
            Case::new(full, Target::Drop(DropReason::QueueFull)),
            Case::new(Filter::TRUE, Target::Hold(0)),
        ];
        let hold = Hold::Fifo { may_drop: true };
        Effects { hold, ..Effects::cases(cases) }.depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        if self.direct {
            return Some(batch);
        }
        for packet in batch.drain() {
            if self.ring.len() < self.capacity && self.ring.try_reserve(1).is_ok() {
                self.ring.push_back(packet);
                self.count += 1;
            } else {
                self.dropped += 1;
                cx.drop(packet, DropReason::QueueFull);
            }
        }
        cx.recycle(batch);
        if self.active {
            cx.schedule();
        }
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut left = self.burst.min(self.ring.len());
        let worked = left > 0;
        while left > 0 {
            let mut batch = cx.batch();
            for packet in self.ring.drain(..left.min(BATCH_CAPACITY)) {
                // The batch is new and has room for `BATCH_CAPACITY` packets, so no packet is dropped here.
                if let Err(packet) = batch.push(packet) {
                    cx.drop(packet, DropReason::NoBuffer);
                }
            }
            left -= left.min(BATCH_CAPACITY);
            cx.emit(0, batch);
        }
        if self.active && !self.ring.is_empty() {
            cx.schedule();
        }
        worked
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for packet in self.ring.drain(..) {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.ring.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.ring), self.dropped, self.count)))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        (self.ring, self.dropped, self.count) =
            *state.downcast().map_err(|_| "the state of another class")?;
        for packet in self.ring.drain(self.capacity.min(self.ring.len())..) {
            self.dropped += 1;
            cx.drop(packet, DropReason::QueueFull);
        }
        if self.active {
            cx.schedule();
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<Pipeliner>] = &[
    Handler::count("dropped", |e| e.dropped),
    Handler::count("count", |e| e.count),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = parse_bool(value).ok_or("invalid argument")?;
            match e.active {
                true => cx.schedule(),
                false => cx.unschedule(),
            };
            Ok(())
        },
    ),
];
