//! # RandomPath
//! Sends each packet over one of several paths of different delay, chosen at random, so that packets
//! overtake each other.
//!
//! The element simulates the switch in the experiments of the Juggler paper (figure 11). Each packet goes
//! to one of the paths. A path keeps the order of its packets, but packets on a slower path are overtaken
//! by later packets on a faster path. Packets leave exactly when the delay of their path has passed under
//! the trace clock, otherwise after the running task. With equal delays the order of all packets is kept.
//! At the end of a run all packets leave.
//!
//! Each worker has paths of its own.
//!
//! ## Usage
//! `RandomPath(DELAY1, ..., DELAYn [, KEYWORDS])`
//!
//! ## Arguments
//! - `DELAY`: the delay of a path, once for each path; up to 1048576 s.
//! - `WEIGHTS`: the weight of each path, as numbers between spaces: a packet takes a path with a
//!   probability of its weight divided by the sum of all weights. Without it, all paths are equally likely.
//! - `CAPACITY`: the maximum number of packets on each path; packets that find no room are dropped.
//!
//! ## Handlers
//! - `delays`: the delays, between spaces. New delays apply to packets that arrive afterwards; no packet
//!   overtakes another one on its path.
//! - `packets`: lines with the number of a path and the number of packets that have taken it.
//! - `held`: the number of packets on the paths.
//! - `drops`: the number of packets that found no room.
//! - `reset_counts`: sets the counts to zero.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 100) -> RandomPath(0us, 500us, WEIGHTS 3 1) -> Discard
//! ```
//!
//! ## See also
//! PathSelector, StrictPriority, DelayUnqueue, RandomSwitch

use std::any::Any;

use element::args::{Raw, parse_integer, read_seconds, unquote};
use element::class::ArgInfo;
use element::effects::{Case, Depends, Filter, Hold, Order, Predicate, Target};
use element::{
    Args, Batch, Class, Cx, DropReason, Effects, Element, Handler, Invalid, Packet, StatePart, Timestamp,
    manual,
};

use crate::delay_queue::{DelayQueue, LONGEST};

/// The element class `RandomPath`.
pub static CLASS: Class = Class {
    name: "RandomPath",
    processing: "h/h",
    manual: manual!("random_path.rs"),
    args: &[
        ArgInfo::rest("DELAY", "seconds"),
        ArgInfo::keyword("WEIGHTS", "unsigned ...", ""),
        ArgInfo::keyword("CAPACITY", "unsigned", "65536"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &["held"]), StatePart::kept("counts", &["packets", "drops"])],
    samples: &["0, 20us", "3us, 0, 9us, WEIGHTS 1 0 2", "5us, 1ms, CAPACITY 3", "0"],
    reconfigures: true,
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let weights = args.get::<Raw>("WEIGHTS");
    let capacity: u32 = args.value("CAPACITY");
    let (mut given, mut paths) = (0, Vec::new());
    args.each_of("DELAY", |args, text| {
        given += 1;
        match parse_delay(text) {
            Ok(delay) => paths.push(Path::new(delay)),
            Err(reason) => args.error(format!("DELAY: {reason}")),
        }
    });
    if given == 0 {
        args.error("DELAY: required argument missing");
    }
    if let Some(Raw(weights)) = weights {
        match parse_weights(&weights, given) {
            Ok(weights) => paths.iter_mut().zip(weights).for_each(|(path, weight)| path.weight = weight),
            Err(reason) => args.error(format!("WEIGHTS: {reason}")),
        }
    }
    if capacity == 0 {
        args.error("CAPACITY: must be positive");
    }
    args.finish()?;
    let total = paths.iter().map(|path| u64::from(path.weight)).sum();
    let capacity = capacity as usize;
    let delay_queue = DelayQueue::new(capacity.saturating_mul(paths.len()));
    Ok(Box::new(RandomPath { paths, total, capacity, delay_queue, drops: 0 }))
}

fn parse_delay(text: &str) -> Result<Timestamp, String> {
    let delay = read_seconds(text)?;
    let bounds = Timestamp::ZERO..=LONGEST;
    if bounds.contains(&delay) { Ok(delay) } else { Err("must be between 0 and 1048576s".into()) }
}

/// Parses the argument WEIGHTS: one whole number for each of `paths` paths, not all 0.
fn parse_weights(text: &str, paths: usize) -> Result<Vec<u32>, &'static str> {
    let text = unquote(text);
    let weight = |word| parse_integer(word).ok().and_then(|weight| u32::try_from(weight).ok());
    let weights: Option<Vec<u32>> = text.split_whitespace().map(weight).collect();
    let weights = weights.ok_or("must be whole numbers")?;
    if weights.len() != paths {
        return Err("must be as many as there are delays");
    }
    if weights.iter().all(|&weight| weight == 0) {
        return Err("must not all be 0");
    }
    Ok(weights)
}

struct Path {
    delay: Timestamp,
    weight: u32,
    /// The number of packets on the path; `last` is the time at which the last of them leaves.
    waiting: usize,
    last: Timestamp,
    packets: u64,
}

impl Path {
    fn new(delay: Timestamp) -> Path {
        Path { delay, weight: 1, waiting: 0, last: Timestamp(i64::MIN), packets: 0 }
    }
}

struct RandomPath {
    /// The paths; at least one.
    paths: Vec<Path>,
    /// The sum of the weights of all paths.
    total: u64,
    /// The maximum number of packets that are on a path at a time.
    capacity: usize,
    delay_queue: DelayQueue,
    drops: u64,
}

/// The state that a new instance takes over when the graph is changed.
struct Inherited {
    paths: Vec<Path>,
    delay_queue: DelayQueue,
    drops: u64,
}

impl RandomPath {
    /// Returns the index of the path to which `drawn`, a random number below `total`, belongs. Each path
    /// owns as many numbers as its weight.
    fn path_of(&self, mut drawn: u64) -> usize {
        let is_it = |path: &Path| match drawn.checked_sub(path.weight.into()) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        };
        self.paths.iter().position(is_it).unwrap_or(0)
    }

    fn take(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let chosen = self.path_of(cx.random().u64() % self.total);
        let path = &mut self.paths[chosen];
        if path.waiting >= self.capacity || !self.delay_queue.has_memory_for_another() {
            self.drops += 1;
            return cx.drop(packet, DropReason::QueueFull);
        }
        // A packet never leaves before the previous packet of its path, even if the delay was reduced or
        // time went back.
        path.last = (cx.now() + path.delay).max(path.last);
        path.waiting += 1;
        path.packets += 1;
        self.delay_queue.add(packet, chosen as u32, path.last);
    }

    /// Emits the packets that leave at `until` or before, and counts them off their paths.
    fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp) {
        self.delay_queue.let_go(cx, until, |path| self.paths[path as usize].waiting -= 1);
    }
}

impl Element for RandomPath {
    fn effects(&self) -> Effects {
        let full = Filter::Leaf(Predicate::Opaque { about: "path full", reads: Vec::new() });
        let cases = vec![
            Case::new(full, Target::Drop(DropReason::QueueFull)),
            Case::new(Filter::TRUE, Target::Hold(0)),
        ];
        let effects = Effects { hold: Hold::Delay, order: Order::MayReorder, ..Effects::cases(cases) };
        effects.depending_on(Depends::Random).depending_on(Depends::Time).depending_on(Depends::Handler)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        for packet in batch.drain() {
            self.take(cx, packet);
        }
        cx.recycle(batch);
        self.let_go(cx, cx.now());
        self.delay_queue.arm(cx);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.delay_queue.disarm(cx);
        self.let_go(cx, cx.now());
        self.delay_queue.arm(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx, Timestamp::MAX);
        self.delay_queue.disarm(cx);
    }

    fn held(&self) -> usize {
        self.delay_queue.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let (paths, delay_queue) = (std::mem::take(&mut self.paths), self.delay_queue.hand_on());
        Some(Box::new(Inherited { paths, delay_queue, drops: self.drops }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = *state.downcast::<Inherited>().map_err(|_| "not the state of a RandomPath")?;
        (self.delay_queue, self.drops) = (state.delay_queue, state.drops);
        let last = self.paths.len() - 1;
        for (number, path) in state.paths.iter().enumerate() {
            self.paths[number.min(last)].packets += path.packets;
        }
        // Packets of paths that the new configuration does not have move to its last path.
        self.delay_queue.on_paths(last as u32);
        for (path, leaves) in self.delay_queue.leaving() {
            let path = &mut self.paths[path as usize];
            path.waiting += 1;
            path.last = path.last.max(leaves);
        }
        self.delay_queue.arm(cx);
        Ok(())
    }
}

const HANDLERS: &[Handler<RandomPath>] = &[
    Handler::data(
        "delays",
        |e| e.paths.iter().map(|path| path.delay.as_interval()).collect::<Vec<_>>().join(" "),
        |e, _, value| {
            let delays: Vec<Timestamp> =
                value.split_whitespace().map(parse_delay).collect::<Result<_, _>>()?;
            if delays.len() != e.paths.len() {
                return Err(format!("expected {} delays", e.paths.len()));
            }
            e.paths.iter_mut().zip(delays).for_each(|(path, delay)| path.delay = delay);
            Ok(())
        },
    ),
    Handler::<RandomPath>::get("packets", |e| {
        e.paths.iter().enumerate().map(|(n, path)| format!("{n} {}\n", path.packets)).collect()
    })
    .summed(),
    Handler::count("held", |e| e.held() as u64),
    Handler::count("drops", |e| e.drops),
    Handler::act("reset_counts", |e| {
        e.drops = 0;
        e.paths.iter_mut().for_each(|path| path.packets = 0);
    }),
];
