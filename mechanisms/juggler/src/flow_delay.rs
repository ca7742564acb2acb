//! # FlowDelay
//! Delays each flow by a time of its own, like a wide-area network whose hosts are at different distances.
//!
//! The delay of a flow lies between DELAY - SPREAD and DELAY + SPREAD, uniformly distributed, and stays the
//! same for the whole run. It follows from a hash of addresses, protocol and ports, so the element keeps no
//! state of flows. The two directions of a connection are two flows. Packets of one flow keep their order;
//! packets of different flows do not. Fragments and IP packets without ports are hashed by addresses and
//! protocol. Packets that are not IP are delayed by DELAY.
//!
//! Packets leave exactly when their delay has passed under the trace clock, otherwise after the running
//! task. At the end of a run all packets leave. Each worker has a network of its own, in which a flow has
//! the same delay.
//!
//! ## Usage
//! `FlowDelay(DELAY [, SPREAD, KEYWORDS])`
//!
//! ## Arguments
//! - `DELAY`: the mean delay of packets; up to 1048576 s.
//! - `SPREAD`: the maximum difference between a flow's delay and DELAY; no more than DELAY.
//! - `CAPACITY`: the maximum number of packets that are delayed at a time, in about 50 bytes each besides
//!   the slot of the packet pool; packets that find no room are dropped.
//! - `SEED`: selects the hash: with another seed, flows have other delays. Without it, delays differ from
//!   run to run, except under the trace clock.
//!
//! ## Handlers
//! - `delay`: the mean delay.
//! - `held`: the number of packets that are delayed at present.
//! - `drops`: the number of packets that found no room.
//! - `reset_counts`: sets the count to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> FlowDelay(10ms, 2ms) -> Discard
//! ```
//!
//! ## See also
//! RandomPath, DelayUnqueue, DelayShaper

use std::any::Any;

use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Hold, Order, Predicate, Target};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
    manual,
};
use flow::{FiveTupleKey, KeyHasher};

use crate::delay_queue::{DelayQueue, LONGEST};
use crate::tcp_header::{READS, locate};

/// The element class `FlowDelay`.
pub static CLASS: Class = Class {
    name: "FlowDelay",
    processing: "h/h",
    manual: manual!("flow_delay.rs"),
    args: &[
        ArgInfo::required("DELAY", "seconds"),
        ArgInfo::positional("SPREAD", "seconds", "0"),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
        ArgInfo::keyword("SEED", "unsigned", ""),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &["held"]), StatePart::kept("counts", &["drops"])],
    samples: &["10ms, 2ms", "0", "5us, 5us, CAPACITY 3, SEED 7"],
    reconfigures: true,
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let delay: Timestamp = args.required("DELAY");
    let spread = args.value::<Timestamp>("SPREAD");
    let (capacity, seed): (u32, Option<u64>) = (args.value("CAPACITY"), args.get("SEED"));
    args.finish()?;
    if !(Timestamp::ZERO..=LONGEST).contains(&delay) {
        args.error("DELAY: must be between 0 and 1048576s");
    } else if !(Timestamp::ZERO..=delay).contains(&spread) {
        args.error("SPREAD: must be between 0 and DELAY");
    }
    if capacity == 0 {
        args.error("CAPACITY: must be positive");
    }
    args.finish()?;
    Ok(Box::new(FlowDelay {
        delay,
        spread,
        capacity: capacity as usize,
        seed,
        hasher: KeyHasher::default(),
        delay_queue: DelayQueue::new(capacity as usize),
        not_before: Timestamp(i64::MIN),
        drops: 0,
    }))
}

struct FlowDelay {
    delay: Timestamp,
    spread: Timestamp,
    capacity: usize,
    /// The seed of the hash; `None` if it was not configured.
    seed: Option<u64>,
    hasher: KeyHasher,
    delay_queue: DelayQueue,
    /// The earliest time at which a new packet may leave. It keeps the order after a reconfiguration, when
    /// packets that the previous instance delayed differently are still held.
    not_before: Timestamp,
    drops: u64,
}

/// The state that a new instance takes over when the graph is changed.
struct Inherited {
    delay_queue: DelayQueue,
    drops: u64,
}

impl FlowDelay {
    fn delay_of(&self, packet: &Packet) -> Timestamp {
        let Some(located) = locate(packet) else { return self.delay };
        let hash = self.hasher.hash(&FiveTupleKey::new(&located.flow, 0));
        // Maps the hash, a fraction of 2^32, to the range of delays.
        let range = 2 * self.spread.0 as u128 + 1;
        let within = ((range * u128::from(hash)) >> 32) as i64;
        self.delay - self.spread + Timestamp(within)
    }

    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if self.delay_queue.len() >= self.capacity || !self.delay_queue.has_memory_for_another() {
            self.drops += 1;
            return cx.drop(packet, DropReason::QueueFull);
        }
        let leaves = (cx.now() + self.delay_of(&packet)).max(self.not_before);
        self.delay_queue.add(packet, 0, leaves);
    }

    fn let_go(&mut self, cx: &mut Cx<'_>) {
        self.delay_queue.let_go(cx, cx.now(), |_| ());
        self.delay_queue.arm(cx);
    }
}

impl Element for FlowDelay {
    fn effects(&self) -> Effects {
        let full = Filter::Leaf(Predicate::Opaque { about: "too many packets under way", reads: Vec::new() });
        let by_flow = Filter::Leaf(Predicate::Opaque { about: "hash of the flow", reads: READS.to_vec() });
        let cases = vec![
            Case::new(full, Target::Drop(DropReason::QueueFull)),
            Case::new(by_flow, Target::Hold(0)),
            Case::new(Filter::TRUE, Target::Hold(0)),
        ];
        let effects = Effects { hold: Hold::Delay, order: Order::MayReorder, ..Effects::cases(cases) };
        effects.depending_on(Depends::Time)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.hasher = crate::hasher_of(cx, self.seed);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            self.take(cx, packet);
        }
        cx.recycle(batch);
        self.let_go(cx);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.delay_queue.disarm(cx);
        self.let_go(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.delay_queue.let_go(cx, Timestamp::MAX, |_| ());
        self.delay_queue.disarm(cx);
    }

    fn held(&self) -> usize {
        self.delay_queue.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Inherited { delay_queue: self.delay_queue.hand_on(), drops: self.drops }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = *state.downcast::<Inherited>().map_err(|_| "not the state of a FlowDelay")?;
        (self.delay_queue, self.drops) = (state.delay_queue, state.drops);
        let last = self.delay_queue.leaving().map(|(_, leaves)| leaves).max();
        self.not_before = last.unwrap_or(self.not_before);
        self.delay_queue.arm(cx);
        Ok(())
    }
}

const HANDLERS: &[Handler<FlowDelay>] = &[
    Handler::get("delay", |e| e.delay.as_interval().to_string()),
    Handler::count("held", |e| e.held() as u64),
    Handler::count("drops", |e| e.drops),
    Handler::act("reset_counts", |e| {
        e.drops = 0;
    }),
];
