//! # RandomPath
//! Sends each packet over one of several paths of different delay, chosen at random, so that packets overtake each other.
//!
//! This is the switch that Juggler was measured behind (figure 11 of its paper): each packet goes to one of the paths, a
//! path keeps the order of its packets, and packets of a slower path come behind later ones of a faster one. Packets
//! leave exactly when their path's delay has passed under the captures' time, and in the next round of the driver else.
//! With equal delays the order of all packets is kept. At the end of a run everything leaves.
//!
//! Each worker has paths of its own.
//!
//! ## Usage
//! `RandomPath(DELAY1, ..., DELAYn [, KEYWORDS])`
//!
//! ## Arguments
//! - `DELAY`: how long packets are under way on a path, once for each path; up to 1048576 s.
//! - `WEIGHTS`: how many packets in the sum of all weights take each path, as numbers between spaces; without it, all
//!   paths are as likely.
//! - `CAPACITY`: most packets on each path; those that find no room are dropped.
//!
//! ## Handlers
//! - `delays`: the delays, between spaces. Written ones count for packets that come from then on; none of them overtakes
//!   another one on its path.
//! - `packets`: lines with the number of a path and how many packets have taken it.
//! - `held`: packets on the paths.
//! - `drops`: packets that found no room.
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
use std::collections::VecDeque;

use element::args::{Raw, parse_integer, parse_seconds, unquote};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Case, Depends, Filter, Hold, Order, Target};
use element::{Args, Batch, Class, Cx, DropReason, Effects, Element, Invalid, Packet, Timestamp, manual};

/// The class.
pub static CLASS: Class = Class {
    name: "RandomPath",
    processing: "h/h",
    manual: manual!("random_path.rs"),
    args: &[
        ArgInfo::rest("DELAY", "seconds"),
        ArgInfo::keyword("WEIGHTS", "unsigned ...", ""),
        ArgInfo::keyword("CAPACITY", "unsigned", "65536"),
    ],
    handlers: &[
        HandlerInfo::both("delays"),
        HandlerInfo::count("packets"),
        HandlerInfo::count("held"),
        HandlerInfo::count("drops"),
        HandlerInfo::write("reset_counts"),
    ],
    samples: &["0, 20us", "3us, 0, 9us, WEIGHTS 1 0 2", "5us, 1ms, CAPACITY 3", "0"],
    reconfigures: true,
    build,
    ..Class::DEFAULT
};

/// Longer delays would only lead to overflows.
const LONGEST: Timestamp = Timestamp::from_secs(1 << 20);

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let weights = args.get::<Raw>("WEIGHTS");
    let capacity: u32 = args.or("CAPACITY", 65_536);
    let texts = args.every("DELAY");
    args.finish()?;
    let mut paths = Vec::with_capacity(texts.len());
    for text in &texts {
        match parse_delay(text) {
            Ok(delay) => paths.push(Path::new(delay, capacity as usize)),
            Err(reason) => args.error(format!("DELAY: {reason}")),
        }
    }
    if texts.is_empty() {
        args.error("DELAY: required argument missing");
    }
    if let Some(Raw(weights)) = weights {
        match parse_weights(&weights, texts.len()) {
            Ok(weights) => paths.iter_mut().zip(weights).for_each(|(path, weight)| path.weight = weight),
            Err(reason) => args.error(format!("WEIGHTS: {reason}")),
        }
    }
    if capacity == 0 {
        args.error("CAPACITY: must be positive");
    }
    args.finish()?;
    let total = paths.iter().map(|path| u64::from(path.weight)).sum();
    Ok(Box::new(RandomPath { paths, total, capacity: capacity as usize, arrivals: 0, drops: 0, armed: None }))
}

fn parse_delay(text: &str) -> Result<Timestamp, &'static str> {
    let delay = parse_seconds(text).ok_or("parse error")?;
    let bounds = Timestamp::ZERO..=LONGEST;
    if bounds.contains(&delay) { Ok(delay) } else { Err("must be between 0 and 1048576s") }
}

/// One weight for each of so many paths.
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

/// A packet under way.
struct Waiting {
    leaves: Timestamp,
    /// Its number among all that have come: what comes in first leaves first of those that leave at the same time.
    number: u64,
    packet: Packet,
}

struct Path {
    delay: Timestamp,
    weight: u32,
    waiting: VecDeque<Waiting>,
    packets: u64,
}

impl Path {
    fn new(delay: Timestamp, capacity: usize) -> Path {
        // Longer queues grow while they warm up.
        Path { delay, weight: 1, waiting: VecDeque::with_capacity(capacity.min(1024)), packets: 0 }
    }
}

struct RandomPath {
    /// At least one.
    paths: Vec<Path>,
    /// The sum of all weights.
    total: u64,
    /// Of each path.
    capacity: usize,
    arrivals: u64,
    drops: u64,
    /// When the timer will run.
    armed: Option<Timestamp>,
}

/// What a new element goes on with.
struct Inherited {
    paths: Vec<Path>,
    arrivals: u64,
    drops: u64,
}

impl RandomPath {
    /// The path that has a number below the sum of all weights.
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
        let chosen = self.path_of(cx.random().u64(..self.total));
        let path = &mut self.paths[chosen];
        if path.waiting.len() >= self.capacity {
            self.drops += 1;
            return cx.drop(packet, DropReason::QueueFull);
        }
        let due = cx.now() + path.delay;
        // Where the delay has become shorter, or time has gone back, the one in front still leaves first.
        let leaves = path.waiting.back().map_or(due, |last| due.max(last.leaves));
        path.waiting.push_back(Waiting { leaves, number: self.arrivals, packet });
        path.packets += 1;
        self.arrivals += 1;
    }

    /// The path whose first packet leaves next, and when.
    fn next(&self) -> Option<(usize, Timestamp)> {
        let firsts = self.paths.iter().enumerate().filter_map(|(n, path)| Some((n, path.waiting.front()?)));
        firsts.min_by_key(|(_, first)| (first.leaves, first.number)).map(|(n, first)| (n, first.leaves))
    }

    /// Lets go what leaves by then.
    fn let_go(&mut self, cx: &mut Cx<'_>, until: Timestamp) {
        while let Some((path, leaves)) = self.next()
            && leaves <= until
            && let Some(first) = self.paths[path].waiting.pop_front()
        {
            cx.emit_one(0, first.packet, DropReason::NoOutput);
        }
    }

    /// Has the timer run when the next packet leaves. An earlier setting stays: when it comes, it sets the next one.
    fn arm(&mut self, cx: &mut Cx<'_>) {
        if let Some((_, leaves)) = self.next()
            && self.armed.is_none_or(|armed| leaves < armed)
        {
            cx.set_timer(0, leaves);
            self.armed = Some(leaves);
        }
    }
}

impl Element for RandomPath {
    fn effects(&self) -> Effects {
        let full = Filter::Opaque { about: "path full", reads: Vec::new() };
        let cases = vec![
            Case::new(full, Target::Drop(DropReason::QueueFull)),
            Case::new(Filter::Any, Target::Hold(0)),
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
        self.arm(cx);
        None
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
        self.armed = None;
        self.let_go(cx, cx.now());
        self.arm(cx);
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx, Timestamp::MAX);
        cx.clear_timer(0);
        self.armed = None;
    }

    fn held(&self) -> usize {
        self.paths.iter().map(|path| path.waiting.len()).sum()
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        let paths = self.paths.iter();
        Ok(match name {
            "delays" => paths.map(|path| path.delay.as_interval()).collect::<Vec<_>>().join(" "),
            "packets" => paths.enumerate().map(|(n, path)| format!("{n} {}\n", path.packets)).collect(),
            "held" => self.held().to_string(),
            _ => self.drops.to_string(),
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        if name == "reset_counts" {
            self.drops = 0;
            self.paths.iter_mut().for_each(|path| path.packets = 0);
            return Ok(());
        }
        let delays: Vec<Timestamp> = value.split_whitespace().map(parse_delay).collect::<Result<_, _>>()?;
        if delays.len() != self.paths.len() {
            return Err(format!("expected {} delays", self.paths.len()));
        }
        self.paths.iter_mut().zip(delays).for_each(|(path, delay)| path.delay = delay);
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let (paths, arrivals, drops) = (std::mem::take(&mut self.paths), self.arrivals, self.drops);
        Some(Box::new(Inherited { paths, arrivals, drops }))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state = *state.downcast::<Inherited>().map_err(|_| "not the state of a RandomPath")?;
        (self.arrivals, self.drops) = (state.arrivals, state.drops);
        let last = self.paths.len() - 1;
        for (number, path) in state.paths.into_iter().enumerate() {
            // What was on a path that there is no more is on the last one.
            let heir = &mut self.paths[number.min(last)];
            heir.packets += path.packets;
            heir.waiting.extend(path.waiting);
            heir.waiting.make_contiguous().sort_by_key(|waiting| (waiting.leaves, waiting.number));
        }
        self.arm(cx);
        Ok(())
    }
}
