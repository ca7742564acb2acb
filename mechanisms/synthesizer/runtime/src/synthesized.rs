//! # Synthesized
//! Runs the program of a whole region of elements: asks each question about a packet once, then writes each
//! field once.
//!
//! The element is at the entry of a synthesized region ([`tidegate synthesize`] writes its arguments). If an
//! element of the region cannot be composed for some packets, they leave by the output that leads to that
//! element, with all earlier changes applied. If the elements of the region are in the graph, their counters
//! include the packets of the program. If a handler changes what one of them does, all packets go through the
//! elements. `tidegate run --synthesize` then composes and proves the program again, and packets take the new
//! program.
//!
//! Each translator in the region is asked once for the translation of a flow it knows; packets of the flow
//! then pass all of them with one look-up. Packets that open or close a connection, and packets of new flows,
//! go to the translators themselves.
//!
//! ## Usage
//! `Synthesized(LAYOUT ..., OTHERWISE 0, START ..., ...)`
//!
//! ## Arguments
//! - `LAYOUT`: the offsets of the marked link, network and transport header from the start of the packet; `-`
//!   for a header that is not marked. A leading `ANY` declares that all packets have this layout; a leading
//!   `?`, that the mark of the link header does not matter.
//! - `OTHERWISE`: the output for packets with another layout, and for packets that the program leaves to the
//!   elements.
//! - `PASSING`: the elements that packets bypass.
//! - `MACHINE_CODE`: the time at which machine code is made for questions and operations: `later`, if many
//!   packets have needed it, and without delaying packets; `now`, when packets first need it, which delays
//!   these packets; `never`. Machine code exists only on Unix systems on x86-64, with the feature
//!   `machine-code`; results are the same without it.
//! - `USE`: `paying` lets packets bypass the elements while that costs less by the cost model of
//!   docs/synthesizer.md, and leases only flows that have shown that they last; `always` takes all packets,
//!   and leases flows from their first packets on. Results are the same. If any of the elements is not in the
//!   graph, all packets are taken.
//! - `START`: the first question or class.
//! - `LINE`: questions (`n0 length 33:c0 *:n1`), lists of rules (`l0 of 0 0 at 14 34`, `r 0 0 n9/1=6`), steps
//!   at translators (`s0 of 3.0.5 behind - at 14; out 0`), classes (`c0 at 14; add 22 22/1 -1; sum 14 22; out
//!   0`).
//!
//! ## Handlers
//! - `classes`: packets of each class of the present program, a line for each.
//! - `flows`: the number of flows that are leased from the region's translators.
//! - `sampled`: true while the elements, or the program without its flow cache, cost less, so that only a
//!   sample of the packets is taken.
//! - `remembered`: the number of other flows for which answers of rule sets are cached.
//! - `active`: false after a handler has changed what an element of the region does, until a new program is
//!   put in.
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

use std::any::Any;
use std::sync::Arc;

use element::args::Raw;
use element::class::ArgInfo;
use element::effects::Counting;
use element::lease::Leasing;
use element::metrics;
use element::{
    Args, Batch, Class, Cx, Effects, Element, ElementId, Handler, Invalid, Packet, StatePart, Tally,
    Timestamp, manual,
};

use crate::balance::Balance;
use crate::flow_cache::FlowCache;
use crate::graph::OTHERWISE;
use crate::groups::Groups;
use crate::interpreter::{Interpreter, Scratch};
use crate::leaving::Leaving;
use program::question::Question;
use program::{Exit, Next, Program, Step, TrafficClass, cost, declare, text};

/// The element class `Synthesized`.
pub static CLASS: Class = Class {
    name: "Synthesized",
    ports: "1/-",
    processing: "h/h",
    manual: manual!("synthesized.rs"),
    args: &[
        ArgInfo::keyword("LAYOUT", "places", "?- - -"),
        ArgInfo::keyword("OTHERWISE", "unsigned", "0"),
        ArgInfo::keyword("PASSING", "element names", ""),
        ArgInfo::keyword("MACHINE_CODE", "`never`, `later` or `now`", "later"),
        ArgInfo::keyword("USE", "`paying` or `always`", "paying"),
        ArgInfo::keyword("START", "question or class", "c0"),
        ArgInfo::rest("LINE", "line of a program"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["classes"]),
        StatePart::lost(
            "flow cache",
            "the program learns flows again from their next packets",
            &["flows", "remembered"],
        ),
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
    for name in ["LAYOUT", "OTHERWISE", "MACHINE_CODE", "USE", "START"] {
        let Raw(value) = args.value(name);
        lines.push(format!("{name} {value}"));
    }
    lines.extend(args.get("PASSING").map(|Raw(value)| format!("PASSING {value}")));
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
        counted_elsewhere: (0..program.classes.len() as u32)
            .map(|class| is_counted_by(&program, class, &elements))
            .collect(),
        saved: vec![0; program.classes.len()],
        fallback: Fallback::Elements,
        balance: Balance::new(true, 0),
        program: Arc::new(program),
        runner: None,
        flows: None,
        elements,
        scratch: Scratch::default(),
        leaving: Leaving::new(args.outputs()),
        is_outdated: false,
    }))
}

/// True if a class drops its packets, and a replaced element that is in the graph counts the drops. The
/// element that counts is the last element of the class's path or, if the path is empty, the element of the
/// list whose rules lead to the class. `elements` are the replaced elements, by their index in the program.
fn is_counted_by(program: &Program, class: u32, elements: &[Option<ElementId>]) -> bool {
    let TrafficClass { exit, path, .. } = &program.classes[class as usize];
    let exists = |element: u32| matches!(elements.get(element as usize), Some(Some(_)));
    let of_list = |question: &Question| match question {
        Question::List(list) => program.lists.get(*list as usize).is_some_and(|list| exists(list.element)),
        _ => false,
    };
    matches!(exit, Exit::Drop(_))
        && match path.last() {
            Some(passed) => exists(passed.element),
            None => {
                let leads =
                    |node: &&program::Node| node.parts.iter().any(|&(_, next)| next == Next::Class(class));
                let mut nodes = program.nodes.iter().filter(leads).peekable();
                nodes.peek().is_some()
                    && nodes.all(|node| of_list(&node.question))
                    && program.start != Next::Class(class)
            }
        }
}

/// Counts of the packets of one class since the replaced elements were last notified ([`Element::settle`]).
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
    /// The sum of the offsets, from the start of the input packet, at which packets end after the
    /// operation. A packet that is cut shorter than its prepended headers ends before the start of the
    /// input packet: the sum wraps, and is correct again once the headers are added.
    cut: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Count {
    /// Adds the packets of one batch: their number, the sum of their lengths on arrival, and the sum of the
    /// offsets of their ends ([`cut`](Count::cut)).
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

/// Counts of packets for each rule of a list since the replaced elements were last notified. There may be
/// many rules, and each packet may match a different rule. So the times of the first and the last packet are
/// kept for the list and not for each rule.
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

/// The processing of batches that are not sampled while the program's balance is not positive ([`Balance`]),
/// because the program costs more than it saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fallback {
    /// The packets go to the replaced elements.
    Elements,
    /// The packets go through the program without its flow cache, up to the first element that leases flows.
    /// This part of the program costs less than the elements that it replaces.
    Program,
}

struct Synthesized {
    program: Arc<Program>,
    /// By class: the output or the drop reason.
    ends: Vec<Exit>,
    /// By class: true if its packets are dropped, and the element that would have dropped them counts the
    /// drop.
    counted_elsewhere: Vec<bool>,
    /// By class: the number of instructions that the program saves per packet, compared with `fallback`: the
    /// replaced elements, or the program without its flow cache.
    saved: Vec<i64>,
    balance: Balance,
    fallback: Fallback,
    runner: Option<Interpreter>,
    flows: Option<FlowCache>,
    /// The replaced elements, by their index in the program; `None` for an element that is not in the
    /// graph.
    elements: Vec<Option<ElementId>>,
    /// By class: the counts of packets of which the replaced elements have not been notified yet. `rules` has
    /// the counts of such packets by list and rule.
    counts: Vec<Count>,
    rules: Vec<RuleCounts>,
    /// By class: the number of packets of which the replaced elements have been notified already.
    passed: Vec<u64>,
    scratch: Scratch,
    leaving: Leaving,
    is_outdated: bool,
}

/// A summary of the exits of a batch's packets. It tells if the batch can leave as a whole, so that the
/// packets need not be looked at one by one.
#[derive(Clone, Copy, Debug, Default)]
struct ExitSummary {
    has_ended: bool,
    other: Option<Exit>,
    is_mixed: bool,
}

impl ExitSummary {
    /// Adds the exit of some packets of the batch. If `is_counted_elsewhere` is true, `Synthesized` does not
    /// drop these packets itself, because the element that they bypassed counts the drop.
    fn add(&mut self, exit: Exit, is_counted_elsewhere: bool) {
        if is_counted_elsewhere {
            self.has_ended = true;
        } else {
            self.is_mixed |= self.other.is_some_and(|other| other != exit);
            self.other = Some(exit);
        }
    }
}

impl Synthesized {
    /// Chooses `fallback`, the processing of batches that are not sampled, and computes the number of
    /// instructions that each class saves compared with the fallback.
    fn weigh(&mut self) {
        let program = &self.program;
        let without = self.flows.as_ref().and_then(FlowCache::saved_without);
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

    /// Drops or sends the packets of a batch according to their classes. Packets whose drop a replaced
    /// element counts leave the batch first. Returns the batch if all remaining packets leave by output 0, so
    /// that the engine forwards this batch directly.
    fn leave(&mut self, cx: &mut Cx<'_>, mut batch: Batch, exits: ExitSummary) -> Option<Batch> {
        let Synthesized { program, ends, counted_elsewhere, scratch, leaving, .. } = self;
        let otherwise = Exit::Output(program.otherwise);
        let exit = |class: u32| ends.get(class as usize).copied().unwrap_or(otherwise);
        let has_ended = |class: u32| counted_elsewhere.get(class as usize) == Some(&true);
        let classes = &scratch.classes;
        if exits.has_ended {
            if exits.other.is_none() {
                cx.accounts().end_all_for_others(batch);
                return None;
            }
            let mut ended = cx.batch();
            let has_room = batch.part(&mut ended, |place| has_ended(classes[place]));
            debug_assert!(has_room, "no batch has more packets than another one has room for");
            cx.accounts().end_all_for_others(ended);
        }
        match exits.other {
            Some(exit) if !exits.is_mixed => return send(cx, batch, exit),
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
        let replaces = self.elements.iter().flatten().copied().collect();
        Effects { replaces, ..declare::effects(&self.program) }.counting(Counting::Own)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let is_seen = |output, byte| cx.graph().annotation_seen(output, byte);
        self.runner = Some(Interpreter::new(&self.program, &is_seen)?);
        let lessor = |step: &Step| {
            let element = self.elements.get(step.element as usize).copied().flatten()?;
            Some(cx.graph().service::<Leasing>(element)?.0.clone())
        };
        // If the element of any step is not in the graph, or leases no flows, no flow is leased. Packets that
        // reach a step then leave the program by the output that leads to the step's element.
        let lessors = self.program.steps.iter().map(lessor).collect::<Option<Vec<_>>>().unwrap_or_default();
        self.flows = FlowCache::new(&self.program, lessors, cx.hash_seed());
        // Without the elements in the graph, the program has to take all packets, whatever they cost.
        let is_only_way = self.elements.is_empty() || self.elements.contains(&None);
        self.balance = Balance::new(self.program.always || is_only_way, cx.hash_seed());
        self.weigh();
        let reached: Vec<_> = (0..cx.outputs()).map(|output| cx.graph().reached(output)).collect();
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
            counted_elsewhere,
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
            flows.find(&mut runner.graph, &batch, now);
            runner.classify(&batch, Some(flows), scratch);
            let Scratch { classes, held, .. } = &mut *scratch;
            spared = flows.settle(&mut runner.graph, &batch, classes, held, now, is_sample);
            all_saved -= batch.len() as i64 * cost::FLOW;
        } else {
            runner.classify(&batch, None, scratch);
        }
        let (came, looked_up) = (batch.len(), scratch.held.len() - spared);
        all_saved += spared as i64 * cost::LOOK_UP - looked_up as i64 * cost::LOOKED_UP;
        let Scratch { classes, groups, .. } = scratch;
        let mut exits = ExitSummary::default();
        let others = came - groups.sort(classes, counts.len());
        if others > 0 {
            exits.add(otherwise, false);
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
                exits.add(otherwise, false);
            }
            if !places.is_empty() {
                exits.add(ends[class as usize], counted_elsewhere[class as usize]);
            }
            // The sum of the offsets at which the output packets start, to convert lengths into ends.
            let moved = i64::from(program.classes[class as usize].start) * places.len() as i64;
            let cut = carried.wrapping_add_signed(moved);
            let bytes = if operation.cuts() { before - length(refused, &batch) } else { cut };
            counts[class as usize].add(places.len() as u64, bytes, cut, now);
        }
        if is_weighed {
            balance.note(came, all_saved);
        }
        // The rules that matched are counted. An exception are packets that leave the program unchanged for
        // the replaced elements: the element that has the rules counts these packets itself.
        for &(place, list, rule) in &self.scratch.held {
            if self.scratch.classes[usize::from(place)] != OTHERWISE {
                self.rules[list as usize].add(rule, now);
            }
        }
        self.leave(cx, batch, exits)
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
                // The number of bytes that were stripped (negative: prepended) from all packets together
                // before they would have reached the element.
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

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let counts = self.passed.iter().zip(&self.counts).map(|(passed, count)| passed + count.packets);
        Some(Box::new((Arc::clone(&self.program), counts.collect::<Vec<u64>>())))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (program, passed): (Arc<Program>, Vec<u64>);
        (program, passed) = *state.downcast().map_err(|_| "the state of another class")?;
        if program == self.program {
            self.passed = passed;
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<Synthesized>] = &[
    Handler::<Synthesized>::get("classes", |e| {
        let counts = e.passed.iter().zip(&e.counts).enumerate();
        counts.map(|(class, (passed, count))| format!("c{class} {}\n", passed + count.packets)).collect()
    })
    .summed(),
    Handler::<Synthesized>::count("flows", |e| e.flows.as_ref().map_or(0, FlowCache::leased) as u64)
        .metric(metrics::FLOWS),
    Handler::count("remembered", |e| e.flows.as_ref().map_or(0, FlowCache::remembered) as u64),
    Handler::get("sampled", |e| (!e.balance.pays()).to_string()),
    Handler::<Synthesized>::get("active", |e| (!e.is_outdated).to_string()).least(),
];

fn tally(count: Count, input: usize, case: usize, moved: i64) -> Tally {
    let Count { packets, bytes, first, last, .. } = count;
    Tally { input, case, packets, bytes: bytes.wrapping_add_signed(-moved), first, last }
}

/// Sends all packets of a batch to the exit `exit`: an output or a drop. Returns the batch if the exit is
/// output 0.
#[inline]
fn send(cx: &mut Cx<'_>, batch: Batch, exit: Exit) -> Option<Batch> {
    match exit {
        Exit::Output(0) => return Some(batch),
        Exit::Output(output) => cx.emit(output, batch),
        Exit::Drop(reason) => cx.drop_all(batch, reason),
    }
    None
}
