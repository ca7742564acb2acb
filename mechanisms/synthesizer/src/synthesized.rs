//! # Synthesized
//! Takes packets past a whole stretch of elements: asks each question about a packet once, then writes each field once.
//!
//! It stands where a synthesized stretch begins ([`tidegate synthesize`] writes its arguments). Packets for which something
//! in the stretch cannot be composed leave by the output that leads to the element in question, with all that was done
//! before. Where the elements of the stretch are still there, they count what has passed, as if it had gone through them; a
//! handler that changes what one of them does sends all packets through the elements again.
//!
//! Translators that a stretch passes say once what they do to a flow they know, and packets of it pass them all with one
//! look-up. Packets that open or close a connection, and flows that are new, come to the translators themselves.
//!
//! ## Usage
//! `Synthesized(LAYOUT ..., OTHERWISE 0, START ..., ...)`
//!
//! ## Arguments
//! - `LAYOUT`: where the link, network and transport header of packets are marked, from the start of each; `-` where none is.
//!   `ANY` in front says that all packets are so.
//! - `OTHERWISE`: the output for other packets.
//! - `PASSING`: the elements that packets are taken past.
//! - `MACHINE_CODE`: when machine code is made for what is done to packets: `later` (the default), for what many packets need,
//!   and without letting them wait; `now`, before the first packet; `never`. There is some on x86-64 only, with the feature
//!   `machine-code`; what becomes of packets is the same.
//! - `USE`: `paying` (the default) takes packets past the elements as long as that costs less than they do, by the cost model of
//!   docs/synthesizer.md, and takes flows on lease once they have shown that they last; `always` takes all packets, and flows from
//!   their first packets on. What becomes of packets is the same. Where the elements are not in the graph, all packets are taken.
//! - `START`: the first question or class.
//! - `LINE`: questions (`n0 length 33:c0 *:n1`), lists of rules (`l0 of 0 0 at 14 34`, `r 0 0 n9/1=6`), classes
//!   (`c0 at 14; add 22 22/1 -1; sum 14 22; out 0`).
//!
//! ## Handlers
//! - `classes`: packets of each class so far, a line for each.
//! - `flows`: flows that are on lease from the stretch's translators.
//! - `sampled`: true while the elements, or the program without its flows, cost less, so that only a sample of the packets is taken.
//! - `remembered`: other flows for which answers of rule sets are remembered.
//! - `active`: false once an element of the stretch has been changed by a handler.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 3)
//!   -> Synthesized(LAYOUT ANY 0 - -, OTHERWISE 0, START n0, n0 length 59:c0 *:c1, c0 at 0; out 0, c1 at 14; out 0)
//!   -> Discard
//! ```
//!
//! ## See also
//! IPClassifier, IPFilter

use std::fmt::Write as _;
use std::sync::Arc;

use element::args::Raw;
use element::class::{ArgInfo, HandlerInfo};
use element::effects::Counts;
use element::lease::Leasing;
use element::{
    Args, Batch, Class, Cx, Effects, Element, ElementId, Invalid, Packet, Tally, Timestamp, manual,
};

use crate::program::balance::Balance;
use crate::program::flows::Flows;
use crate::program::groups::Groups;
use crate::program::leaving::Leaving;
use crate::program::run::{OTHERWISE, Runner, Scratch};
use crate::program::{Exit, Program, Step, cost, declare, text};

/// The class.
pub static CLASS: Class = Class {
    name: "Synthesized",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("synthesized.rs"),
    args: &[
        ArgInfo::keyword("LAYOUT", "places", "ANY 0 - -"),
        ArgInfo::keyword("OTHERWISE", "unsigned", "0"),
        ArgInfo::keyword("PASSING", "element names", ""),
        ArgInfo::keyword("MACHINE_CODE", "`never`, `later` or `now`", "later"),
        ArgInfo::keyword("USE", "`paying` or `always`", "paying"),
        ArgInfo::keyword("START", "question or class", "c0"),
        ArgInfo::rest("LINE", "line of a program"),
    ],
    handlers: &[
        HandlerInfo::list("classes"),
        HandlerInfo::count("flows"),
        HandlerInfo::count("remembered"),
        HandlerInfo::read("sampled"),
        HandlerInfo::read("active"),
    ],
    samples: &[
        "LAYOUT ANY 0 - -, START c0, c0 at 0; out 0 -> 1/1",
        "LAYOUT ANY 0 - -, START n0, n0 length 33:c0 *:n1, n1 12/2 2047:c0 2048:n2 *:c0, n2 22/1 1:c0 *:c1, \
         c0 at 0; out 1, c1 at 0; mark = 14 -; put 0 000102030405060708090a0b0800; add 22 22/1 -1; sum 14 22; out 0 -> 1/2",
        "LAYOUT - 0 20, OTHERWISE 1, START n0, n0 length 27:c1 *:n1, n1 list0 0:c0 *:c1, l0 of 0 0 at 0 20, \
         r 0 0 &2 n9/1=6 t2/2=80, r 1 1 yes, PASSING nobody, c0 at -2; put -2 abcd; put anno0 07; out 0, \
         c1 at 20; drop denied; via 0.0.1@0 -> 1/2",
    ],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let mut lines = Vec::new();
    for name in ["LAYOUT", "OTHERWISE", "PASSING", "MACHINE_CODE", "USE", "START"] {
        if let Some(Raw(value)) = args.get::<Raw>(name) {
            lines.push(format!("{name} {value}"));
        }
    }
    lines.extend(args.rest().into_iter().map(|(_, line)| line));
    args.finish()?;
    let program = text::read(&lines, args.outputs()).map_err(|why| {
        args.error(why);
        Invalid
    })?;
    let place = args.place();
    let elements: Vec<_> = program.elements.iter().map(|name| place.element(name)).collect();
    Ok(Box::new(Synthesized {
        counts: vec![Count::default(); program.classes.len()],
        rules: program.lists.iter().map(|list| RuleCounts::new(list.rules.len())).collect(),
        passed: vec![0; program.classes.len()],
        ends: program.classes.iter().map(|class| class.exit).collect(),
        saved: vec![0; program.classes.len()],
        fallback: Fallback::Elements,
        balance: Balance::new(true, 0),
        program: Arc::new(program),
        runner: None,
        flows: None,
        tells: elements.iter().all(Option::is_some),
        elements,
        scratch: Scratch::default(),
        leaving: Leaving::new(args.outputs()),
        is_outdated: false,
    }))
}

/// Packets since the elements were told.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
    /// The bytes up to where packets end at last, from where they came in. Packets that are cut to less than was put in front of
    /// them by then end before that: sums wrap, and are right again with what was put in front.
    cut: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Count {
    /// Adds packets of one batch.
    #[inline]
    fn add(&mut self, packets: u64, bytes: u64, cut: u64, now: Timestamp) {
        if packets == 0 {
            return;
        }
        if self.packets == 0 {
            self.first = now;
        }
        self.packets += packets;
        self.bytes += bytes;
        self.cut = self.cut.wrapping_add(cut);
        self.last = now;
    }
}

/// Packets of each rule of a list since the elements were told. There may be many rules, and each packet has another one, so
/// that times are those of all.
#[derive(Clone, Debug)]
struct RuleCounts {
    packets: Vec<u64>,
    is_empty: bool,
    first: Timestamp,
    last: Timestamp,
}

impl RuleCounts {
    fn new(rules: usize) -> RuleCounts {
        RuleCounts { packets: vec![0; rules], is_empty: true, first: Timestamp(0), last: Timestamp(0) }
    }

    #[inline]
    fn add(&mut self, rule: u32, now: Timestamp) {
        if std::mem::take(&mut self.is_empty) {
            self.first = now;
        }
        self.last = now;
        self.packets[rule as usize] += 1;
    }
}

/// The way of packets that are not in a sample while the balance is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fallback {
    /// They go to the elements.
    Elements,
    /// The program takes them as far as to where flows are leased: that alone pays.
    Program,
}

struct Synthesized {
    program: Arc<Program>,
    /// By class: where packets go.
    ends: Vec<Exit>,
    /// By class: instructions that a packet saves, against what becomes of packets where the balance is bad.
    saved: Vec<i64>,
    balance: Balance,
    fallback: Fallback,
    runner: Option<Runner>,
    flows: Option<Flows>,
    /// Elements that packets are taken past, where they are in the graph.
    elements: Vec<Option<ElementId>>,
    /// Whether all of them are, so that those where packets end count these.
    tells: bool,
    /// By class, and by list and rule: what elements have not been told yet.
    counts: Vec<Count>,
    rules: Vec<RuleCounts>,
    /// By class: packets in all.
    passed: Vec<u64>,
    scratch: Scratch,
    leaving: Leaving,
    is_outdated: bool,
}

/// Where packets of a batch go: whether some end here, and where the others go if that is one way.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    has_ended: bool,
    other: Option<Exit>,
    is_mixed: bool,
}

impl Ways {
    /// Some go there. Where elements are told, those that are dropped end here.
    fn add(&mut self, exit: Exit, tells: bool) {
        if tells && matches!(exit, Exit::Drop(_)) {
            self.has_ended = true;
        } else {
            self.is_mixed |= self.other.is_some_and(|other| other != exit);
            self.other = Some(exit);
        }
    }
}

impl Synthesized {
    /// Finds out what each class saves.
    fn weigh(&mut self) {
        let program = &self.program;
        let without = self.flows.as_ref().and_then(Flows::saved_without);
        self.fallback = if without.is_some() { Fallback::Program } else { Fallback::Elements };
        let saved = |class| {
            let saved = cost::saved(program, class);
            match without {
                None => saved,
                Some(without) if class.path.iter().any(|passed| cost::is_step(program, passed)) => {
                    saved - without
                }
                Some(_) => 0,
            }
        };
        self.saved = program.classes.iter().map(saved).collect();
    }

    /// Ends packets, or sends them on, as their classes say; what goes to output 0 alone is given back.
    fn leave(&mut self, cx: &mut Cx<'_>, mut batch: Batch, ways: Ways) -> Option<Batch> {
        let Synthesized { program, ends, scratch, leaving, tells, .. } = self;
        let otherwise = Exit::Output(program.otherwise);
        let exit = |class: u32| ends.get(class as usize).copied().unwrap_or(otherwise);
        let has_ended = |class: u32| *tells && matches!(exit(class), Exit::Drop(_));
        let classes = &scratch.classes;
        if ways.has_ended {
            if ways.other.is_none() {
                cx.end_all_for_others(batch);
                return None;
            }
            let mut ended = cx.batch();
            let has_room = batch.part(&mut ended, |place| has_ended(classes[place]));
            debug_assert!(has_room, "no batch has more packets than another one has room for");
            cx.end_all_for_others(ended);
        }
        match ways.other {
            Some(exit) if !ways.is_mixed => return send(cx, batch, exit),
            _ => {}
        }
        let classes = classes.iter().filter(|class| !has_ended(**class));
        for (packet, &class) in batch.drain().zip(classes) {
            match exit(class) {
                Exit::Drop(reason) => cx.drop(packet, reason),
                Exit::Output(output) => leaving.push(cx, output, packet),
            }
        }
        cx.recycle(batch);
        leaving.finish(cx);
        None
    }
}

impl Element for Synthesized {
    fn effects(&self) -> Effects {
        let stands_for = self.elements.iter().flatten().copied().collect();
        Effects { stands_for, ..declare::effects(&self.program) }.counting(Counts::Own)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let is_seen = |output, byte| cx.annotation_seen(output, byte);
        self.runner = Some(Runner::new(&self.program, &is_seen)?);
        let lessor = |step: &Step| {
            let element = self.elements.get(step.element as usize).copied().flatten()?;
            Some(cx.service::<Leasing>(element)?.0.clone())
        };
        // Where the elements are not there, nothing is on lease: packets are left to what stands in their place.
        let lessors = self.program.steps.iter().map(lessor).collect::<Option<Vec<_>>>().unwrap_or_default();
        self.flows = Flows::new(&self.program, lessors, cx.hash_seed());
        // Without the elements there is no other way.
        let is_only_way = !self.tells || self.elements.is_empty();
        self.balance = Balance::new(self.program.always || is_only_way, cx.hash_seed());
        self.weigh();
        let reached: Vec<_> = (0..cx.outputs()).map(|output| cx.reached(output)).collect();
        self.leaving.find_meeting(&reached);
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        let otherwise = Exit::Output(self.program.otherwise);
        let Synthesized {
            program,
            ends,
            saved,
            balance,
            fallback,
            runner,
            scratch,
            flows,
            counts,
            tells,
            is_outdated,
            ..
        } = &mut *self;
        let Some(runner) = runner.as_mut().filter(|_| !*is_outdated) else {
            return send(cx, batch, otherwise);
        };
        let is_sample = balance.samples();
        let is_weighed = is_sample || balance.pays();
        if !is_weighed && *fallback == Fallback::Elements {
            return send(cx, batch, otherwise);
        }
        let mut flows = flows.as_mut().filter(|_| is_weighed);
        let now = cx.now();
        let (mut all_saved, mut spared) = (0, 0);
        if let Some(flows) = &mut flows {
            flows.find(runner, &batch, now);
            runner.classify(&batch, Some(flows), scratch);
            spared = flows.settle(runner, &batch, scratch, now, is_sample);
            all_saved -= batch.len() as i64 * cost::FLOW;
        } else {
            runner.classify(&batch, None, scratch);
        }
        let (came, looked_up) = (batch.len(), scratch.held.len() - spared);
        all_saved += spared as i64 * cost::LOOK_UP - looked_up as i64 * cost::LOOKED_UP;
        let Scratch { classes, groups, .. } = scratch;
        let mut ways = Ways::default();
        let others = came - groups.sort(classes, counts.len());
        if others > 0 {
            ways.add(otherwise, *tells);
        }
        if *fallback == Fallback::Elements {
            all_saved -= others as i64 * cost::PROGRAM;
        }
        while let Some(class) = groups.take() {
            let Groups { places, refused, .. } = &mut *groups;
            let Some(operation) = runner.operation(class, places.len()) else { continue };
            let length = |places: &[u8], batch: &[Packet]| -> u64 {
                places.iter().map(|place| batch[usize::from(*place)].len() as u64).sum()
            };
            let before = if operation.cuts() { length(places, &batch) } else { 0 };
            all_saved += saved[class as usize] * places.len() as i64;
            let carried = operation.carry_out(&mut batch, places, flows.as_deref(), now, refused);
            for &place in refused.iter() {
                classes[usize::from(place)] = OTHERWISE;
                ways.add(otherwise, *tells);
            }
            if !places.is_empty() {
                ways.add(ends[class as usize], *tells);
            }
            // How far they reach from where they came in.
            let moved = i64::from(program.classes[class as usize].start) * places.len() as i64;
            let cut = carried.wrapping_add_signed(moved);
            let bytes = if operation.cuts() { before - length(refused, &batch) } else { cut };
            counts[class as usize].add(places.len() as u64, bytes, cut, now);
        }
        if is_weighed {
            balance.note(came, all_saved);
        }
        // What goes to the elements is asked about its rules there.
        for &(place, list, rule) in &self.scratch.held {
            if self.scratch.classes[usize::from(place)] != OTHERWISE {
                self.rules[list as usize].add(rule, now);
            }
        }
        self.leave(cx, batch, ways)
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        if name == "active" {
            return Ok((!self.is_outdated).to_string());
        }
        if name == "sampled" {
            return Ok((!self.balance.pays()).to_string());
        }
        if name == "flows" {
            return Ok(self.flows.as_ref().map_or(0, Flows::leased).to_string());
        }
        if name == "remembered" {
            return Ok(self.flows.as_ref().map_or(0, Flows::remembered).to_string());
        }
        let mut lines = String::new();
        let counts = self.passed.iter().zip(&self.counts);
        for (class, (passed, count)) in counts.enumerate() {
            // A string takes all that is written to it.
            let _ = writeln!(lines, "c{class} {}", passed + count.packets);
        }
        Ok(lines)
    }

    fn settle(&mut self, tell: &mut dyn FnMut(ElementId, Tally)) {
        let Synthesized { program, elements, counts, rules, passed, .. } = self;
        for ((class, count), passed) in program.classes.iter().zip(counts).zip(passed) {
            let count = std::mem::take(count);
            if count.packets == 0 {
                continue;
            }
            *passed += count.packets;
            for passed in &class.path {
                let Some(Some(element)) = elements.get(passed.element as usize) else { continue };
                // What was taken off the front by then, or put there.
                let moved = (count.packets as i64).saturating_mul(passed.start.into());
                let count = if passed.cut { Count { bytes: count.cut, ..count } } else { count };
                tell(*element, tally(count, passed.input, passed.case, moved));
            }
        }
        for (list, counts) in program.lists.iter().zip(rules) {
            let Some(Some(element)) = elements.get(list.element as usize) else { continue };
            let RuleCounts { packets, first, last, .. } = counts;
            for (rule, packets) in list.rules.iter().zip(packets) {
                let count = Count {
                    packets: std::mem::take(packets),
                    first: *first,
                    last: *last,
                    ..Count::default()
                };
                if count.packets > 0 {
                    tell(*element, tally(count, list.input, rule.case, 0));
                }
            }
            counts.is_empty = true;
        }
    }

    fn outdated(&mut self, _element: ElementId) {
        self.is_outdated = true;
        if let Some(mut flows) = self.flows.take() {
            flows.give_all_back();
        }
    }
}

fn tally(count: Count, input: usize, case: usize, moved: i64) -> Tally {
    let Count { packets, bytes, first, last, .. } = count;
    Tally { input, case, packets, bytes: bytes.wrapping_add_signed(-moved), first, last }
}

/// Sends a whole batch one way; what goes to output 0 is given back.
#[inline]
fn send(cx: &mut Cx<'_>, batch: Batch, exit: Exit) -> Option<Batch> {
    match exit {
        Exit::Output(0) => return Some(batch),
        Exit::Output(output) => cx.emit(output, batch),
        Exit::Drop(reason) => cx.drop_all(batch, reason),
    }
    None
}
