//! # AggregateCounter
//! Counts packets or bytes per aggregate annotation.
//!
//! Counted packets go to output 0. Packets that are not counted go to output 1, or to output 0 if there is no
//! output 1. They are packets of new aggregates while the element is frozen or the table is full, and all
//! packets while it is not active. Packets on input 1 are counted only if their aggregate has a count
//! already. On a pull path, output N pulls from input N, or from input 0 if there is only one input. Packets
//! leave by this output whether they are counted or not.
//!
//! ## Usage
//! `AggregateCounter([KEYWORDS])`
//!
//! ## Arguments
//! - `BYTES`: if true, counts bytes instead of packets.
//! - `IP_BYTES`: if true, counts bytes from the IP header on; only with BYTES.
//! - `MULTIPACKET`: if true, a packet counts as 1 plus its extra packets annotation; only without BYTES.
//! - `EXTRA_LENGTH`: if true, the extra length annotation is added to the length; only with BYTES.
//! - `MASK`: the bits of the annotation that are used.
//! - `AGGREGATE_FREEZE`: the number of aggregates from which on new aggregates are not counted.
//! - `COUNT_FREEZE`: the total count, in packets or bytes, from which on new aggregates are not counted.
//! - `AGGREGATE_STOP`, `COUNT_STOP`: stops the driver when a packet of a new aggregate arrives and there
//!   are this many aggregates already, or when the total count reaches this number.
//! - `AGGREGATE_CALL`, `COUNT_CALL`: `N HANDLER [VALUE]`: calls a write handler when a packet of a new
//!   aggregate arrives and there are N aggregates already, or when the total count reaches N.
//! - `BANNER`: text at the head of files.
//! - `CAPACITY`: the maximum number of aggregates; memory for them is reserved at the start, about 17 bytes
//!   each. Packets of further aggregates are not counted.
//!
//! ## Handlers
//! - `write_text_file`, `write_ascii_file`: writes the counts to a file as text; `-` is standard output.
//! - `write_file`: writes the counts as binary numbers.
//! - `write_ip_file`: writes the counts as text, with aggregates as IP addresses.
//! - `write_pdf_file`: writes text with shares of the total instead of counts.
//! - `freeze`: true if packets of new aggregates are not counted.
//! - `active`: true if packets are counted.
//! - `stop`: stops counting and stops the driver.
//! - `reaggregate_counts`, `counts_pdf`: replaces the table: each old count becomes an aggregate, and its
//!   new count is the number of aggregates that had it.
//! - `banner`: text at the head of files.
//! - `clear`: clears all counts.
//! - `aggregate_call`, `count_call`: the call that has not been made yet, as in the arguments.
//! - `count`: the total count.
//! - `nagg`: the number of aggregates.
//! - `overflows`: the number of packets that were not counted because the table was full.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> c :: AggregateCounter(BYTES true) -> Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateLength, AggregateIPFlows, Counter

use std::any::Any;
use std::io::Write;
use std::sync::Arc;

use element::args::{Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{
    self, Case, Depends, EXTRA_LENGTH, Field, Filter, Predicate, State, StateAccess, Target,
};
use element::{
    Args, Base, Batch, Call, Class, Cx, DropReason, Effects, Element, Handler, Packet, StatePart, manual,
};
use lang::args::unquote;
use packet::Annotations;

use super::counts::{Counts, Format};
use super::{AGGREGATE, aggregate_of, for_capacity};
use crate::printers::reason;
use crate::trigger::Trigger;

/// The element class `AggregateCounter`.
pub static CLASS: Class = Class {
    name: "AggregateCounter",
    ports: "1-2/1-2",
    manual: manual!("aggregate_counter.rs"),
    args: &[
        ArgInfo::keyword("BYTES", "bool", "false"),
        ArgInfo::keyword("IP_BYTES", "bool", "false"),
        ArgInfo::keyword("MULTIPACKET", "bool", "true"),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "true"),
        ArgInfo::keyword("MASK", "unsigned", "0xffffffff"),
        ArgInfo::keyword("AGGREGATE_FREEZE", "unsigned", ""),
        ArgInfo::keyword("COUNT_FREEZE", "unsigned", ""),
        ArgInfo::keyword("AGGREGATE_STOP", "unsigned", ""),
        ArgInfo::keyword("COUNT_STOP", "unsigned", ""),
        ArgInfo::keyword("AGGREGATE_CALL", "N HANDLER [VALUE]", ""),
        ArgInfo::keyword("COUNT_CALL", "N HANDLER [VALUE]", ""),
        ArgInfo::keyword("BANNER", "string", ""),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
    ],
    table: &HANDLERS,
    state: &[
        StatePart::kept("counts", &["count", "nagg", "overflows"]),
        StatePart::kept("calls that were made", &["aggregate_call", "count_call", "freeze", "active"]),
    ],
    samples: &[
        "",
        "AGGREGATE_FREEZE 5 -> 1/2",
        "BYTES true, IP_BYTES true, COUNT_STOP 1000 -> 2/2",
        "MASK 1",
    ],
    build: |args| {
        let counter = AggregateCounter {
            unit: Unit::read(args),
            mask: args.value("MASK"),
            texts: [limit(args, "AGGREGATE"), limit(args, "COUNT")],
            banner: args.get("BANNER").map_or(String::new(), |text: String| with_end(&text)),
            inputs: args.inputs(),
            sides: args.outputs() > 1,
            active: true,
            frozen: false,
            on_aggregates: None,
            on_count: None,
            counts: for_capacity(args, Counts::new)?,
            total: 0,
            overflows: 0,
        };
        Ok(Box::new(counter))
    },
    ..Class::DEFAULT
};

/// Returns the text `N HANDLER [VALUE]` of the handler call that is made at a number of aggregates (`what` is
/// "AGGREGATE") or at a total count ("COUNT"). The call comes from one of three arguments, whose names are
/// `what` and _CALL, _FREEZE or _STOP. Reports an error if more than one of these arguments is given, or if N
/// is no number. `None` if none is given.
fn limit(args: &mut Args<'_>, what: &'static str) -> Option<String> {
    let [freeze, stop, call] = match what {
        "COUNT" => ["COUNT_FREEZE", "COUNT_STOP", "COUNT_CALL"],
        _ => ["AGGREGATE_FREEZE", "AGGREGATE_STOP", "AGGREGATE_CALL"],
    };
    let given = [
        args.get::<u64>(freeze).map(|n| format!("{n} freeze true")),
        args.get::<u64>(stop).map(|n| format!("{n} stop")),
        args.get(call).map(|Raw(text)| text),
    ];
    let is_number = |word: &str| parse_integer(word).is_ok_and(|n| u64::try_from(n).is_ok());
    if given[2].as_ref().is_some_and(|text| !text.split_whitespace().next().is_some_and(is_number)) {
        args.error(not_a_number(what));
    }
    if given.iter().flatten().count() > 1 {
        args.error(format!("'{freeze}', '{stop}', and '{call}' are mutually exclusive"));
    }
    given.into_iter().flatten().next()
}

fn not_a_number(what: &str) -> String {
    let unit = if what == "COUNT" { "count" } else { "number of aggregates" };
    format!("{what}_CALL first word should be unsigned ({unit})")
}

/// Adds a line end to a banner that lacks it. An empty banner stays empty, and a lone line end becomes an
/// empty banner.
fn with_end(text: &str) -> String {
    match text {
        "" | "\n" => String::new(),
        _ if text.ends_with('\n') => text.to_string(),
        _ => format!("{text}\n"),
    }
}

/// The unit of counts: packets, or bytes if `bytes` is true, and the annotations that are added.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
}

impl Unit {
    /// Reads the arguments BYTES, IP_BYTES, MULTIPACKET and EXTRA_LENGTH.
    pub(super) fn read(args: &mut Args<'_>) -> Unit {
        Unit {
            bytes: args.value("BYTES"),
            ip_bytes: args.value("IP_BYTES"),
            multipacket: args.value("MULTIPACKET"),
            extra_length: args.value("EXTRA_LENGTH"),
        }
    }

    /// Returns the number that a packet adds to the count of its aggregate: packets, or bytes if `bytes` is
    /// true.
    pub(super) fn amount(self, packet: &Packet) -> u32 {
        let annotations = packet.annotations();
        let extra = if self.multipacket { annotations.u32(Annotations::EXTRA_PACKETS) } else { 0 };
        if !self.bytes {
            return extra.wrapping_add(1);
        }
        let mut length = packet.len() as u32;
        if self.ip_bytes {
            let before = packet.offset(Base::Network).unwrap_or(0);
            length = packet.len().saturating_add_signed(-before) as u32;
        }
        let more = if self.extra_length { annotations.u32(Annotations::EXTRA_LENGTH) } else { 0 };
        length.wrapping_add(more)
    }
}

struct AggregateCounter {
    unit: Unit,
    mask: u32,
    /// The handler calls at a number of aggregates and at a total count, as configured. The texts are parsed
    /// and removed in `initialize`, when all elements are known.
    texts: [Option<String>; 2],
    banner: String,
    inputs: usize,
    /// True if output 1 exists, to which packets that are not counted go.
    sides: bool,
    active: bool,
    frozen: bool,
    on_aggregates: Option<Trigger>,
    on_count: Option<Trigger>,
    counts: Counts,
    total: u64,
    /// The number of packets that were not counted because the table of aggregates was full.
    overflows: u64,
}

impl AggregateCounter {
    /// Replaces the table: each old count becomes an aggregate, and its new count is the number of old
    /// aggregates that had it.
    fn reaggregate(&mut self) {
        self.counts = self.counts.reaggregated();
        // Each old aggregate has added 1 to a new count, so the new total is the old number of aggregates.
        self.total = self.counts.total();
    }

    fn has_triggers(&self) -> bool {
        self.on_aggregates.iter().chain(&self.on_count).any(|trigger| trigger.armed)
    }

    /// Makes a handler call. A call of one of this element's own handlers is made immediately, because it may
    /// decide about the current packet. Other calls are made after the packets that have been emitted.
    fn call(&mut self, cx: &mut Cx<'_>, call: &Arc<Call>) {
        if call.element == Some(cx.id()) {
            if let Err(reason) =
                cx.handlers().on_behalf(call, |cx| CLASS.write(self, cx, &call.handler, &call.value))
            {
                cx.messages().message(format_args!("{reason}\n"));
            }
        } else {
            cx.handlers().call_later(call);
        }
    }

    /// Counts a packet, and makes the handler calls for a number of aggregates or a total count that is
    /// reached. With `known_only`, packets of aggregates without a count are not counted. Returns false if
    /// the packet is not counted.
    fn count(&mut self, cx: &mut Cx<'_>, packet: &Packet, known_only: bool) -> bool {
        let aggregate = aggregate_of(packet) & self.mask;
        if !self.active {
            return false;
        }
        let amount = self.unit.amount(packet);
        if !self.counts.contains(aggregate) {
            if self.frozen || known_only {
                return false;
            }
            if amount > 0 && self.counts.is_full() {
                self.overflows += 1;
                return false;
            }
            let many = self.counts.len() as u64;
            let call = if amount > 0 { Trigger::check_above(&mut self.on_aggregates, many) } else { None };
            if let Some(call) = call {
                self.call(cx, &call);
                if self.frozen || !self.active {
                    return false;
                }
            }
        }
        self.counts.add(aggregate, amount);
        self.total += u64::from(amount);
        if let Some(call) = Trigger::check_above(&mut self.on_count, self.total) {
            self.call(cx, &call);
        }
        true
    }

    /// Counts consecutive packets of one aggregate, as [`count`](Self::count) does for each. Must be called
    /// only while no trigger is armed.
    fn count_all(&mut self, packets: &[Packet], known_only: bool) {
        let Some(first) = packets.first().filter(|_| self.active) else { return };
        let (unit, aggregate) = (self.unit, aggregate_of(first) & self.mask);
        let amounts = packets.iter().map(|packet| unit.amount(packet)).filter(|&amount| amount > 0);
        let counts_new = !self.frozen && !known_only;
        let has_room = counts_new && !self.counts.is_full();
        match self.counts.add_all(aggregate, amounts.clone(), has_room) {
            Some(sum) => self.total += sum,
            None if counts_new => self.overflows += amounts.count() as u64,
            None => {}
        }
    }

    fn show(cx: &Cx<'_>, trigger: Option<&Trigger>) -> String {
        let Some(Trigger { at, call, .. }) = trigger.filter(|trigger| trigger.armed) else {
            return String::new();
        };
        let element =
            call.element.map_or(String::new(), |element| format!("{}.", cx.graph().name_of(element)));
        format!("{at} {element}{} {}", call.handler, call.value).trim_end().to_string()
    }

    fn write_file(&self, cx: &mut Cx<'_>, name: &str, format: Format) -> Result<(), String> {
        let name = unquote(name.trim());
        let file = self.counts.file(&self.banner, format);
        match name.as_str() {
            "" => Err("argument should be filename".into()),
            "-" => {
                cx.messages().print(format_args!("{}", String::from_utf8_lossy(&file)));
                Ok(())
            }
            path => cx
                .rights()
                .files
                .create(path)
                .and_then(|mut new| new.write_all(&file))
                .map_err(|error| format!("{path}: {}", reason(&error))),
        }
    }
}

impl Element for AggregateCounter {
    fn effects(&self) -> Effects {
        let extra_packets = Field::Annotation { offset: Annotations::EXTRA_PACKETS as u8, length: 4 };
        let seen =
            [AGGREGATE, Field::Length, EXTRA_LENGTH, extra_packets, Field::HeaderOffset(Base::Network)];
        let mut effects = match self.sides {
            true => {
                let not_counted =
                    Filter::Leaf(Predicate::Opaque { about: "not counted", reads: seen.to_vec() });
                let cases = vec![
                    Case::new(not_counted, Target::Output(1)),
                    Case::new(Filter::TRUE, Target::Output(0)),
                ];
                Effects::cases(cases).depending_on(Depends::Handler).depending_on(Depends::Counter)
            }
            false => Effects::pass().observing(&seen),
        };
        let access = if self.sides { StateAccess::EveryPacket } else { StateAccess::Soft };
        let key = if self.sides { vec![AGGREGATE] } else { Vec::new() };
        effects.counts = effects::Counting::Own;
        let own = |text: &String| matches!(text.split_whitespace().nth(1), None | Some("stop" | "freeze"));
        let set = self.on_aggregates.iter().chain(&self.on_count).any(|trigger| trigger.is_foreign);
        effects.calls = set || self.texts.iter().flatten().any(|text| !own(text));
        effects.state.push(State { table: "counts", key, both_directions: false, access });
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let [aggregates, count] = std::mem::take(&mut self.texts);
        for (name, text) in [("aggregate_call", aggregates), ("count_call", count)] {
            if let Some(text) = text {
                CLASS.write(self, cx, name, &text)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        if !self.sides && !self.has_triggers() {
            let mask = self.mask;
            let are_same =
                |one: &Packet, other: &Packet| (aggregate_of(one) ^ aggregate_of(other)) & mask == 0;
            for packets in batch.chunk_by(are_same) {
                self.count_all(packets, port == 1);
            }
            return Some(batch);
        }
        for packet in batch.drain() {
            let counted = self.count(cx, &packet, port == 1);
            let output = if counted || !self.sides { 0 } else { 1 };
            cx.emit_one(output, packet, DropReason::NoOutput);
        }
        cx.recycle(batch);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port.min(self.inputs.saturating_sub(1)), max);
        for packet in batch.iter() {
            self.count(cx, packet, port == 1);
        }
        batch
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let settings = (self.unit.bytes, self.unit.ip_bytes, self.mask);
        let spent = [Trigger::spent(&self.on_aggregates), Trigger::spent(&self.on_count)];
        let stopped = (self.frozen, self.active);
        Some(Box::new((settings, self.counts.take(), self.total, self.overflows, spent, stopped)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let (settings, counts, spent): ((bool, bool, u32), _, [Option<u64>; 2]);
        let (total, overflows, stopped);
        (settings, counts, total, overflows, spent, stopped) =
            *state.downcast().map_err(|_| "the state of another class")?;
        if settings != (self.unit.bytes, self.unit.ip_bytes, self.mask) {
            return Err("it counts something else now".into());
        }
        self.counts.fill(counts);
        (self.total, self.overflows) = (total, overflows);
        (self.frozen, self.active) = stopped;
        Trigger::skip(&mut self.on_aggregates, spent[0]);
        Trigger::skip(&mut self.on_count, spent[1]);
        Ok(())
    }
}

const HANDLERS: &[Handler<AggregateCounter>] = &[
    Handler::set("write_text_file", |e, cx, value| e.write_file(cx, value, Format::Text)),
    Handler::set("write_ascii_file", |e, cx, value| e.write_file(cx, value, Format::Text)),
    Handler::set("write_file", |e, cx, value| e.write_file(cx, value, Format::Binary)),
    Handler::set("write_ip_file", |e, cx, value| e.write_file(cx, value, Format::Ip)),
    Handler::set("write_pdf_file", |e, cx, value| e.write_file(cx, value, Format::Share)),
    Handler::flag("freeze", |e| &mut e.frozen, "type mismatch"),
    Handler::flag("active", |e| &mut e.active, "type mismatch"),
    Handler::set("stop", |e, cx, _| {
        e.active = false;
        cx.stop();
        Ok(())
    }),
    Handler::act("reaggregate_counts", AggregateCounter::reaggregate),
    Handler::act("counts_pdf", AggregateCounter::reaggregate),
    Handler::<AggregateCounter>::data(
        "banner",
        |e| e.banner.clone(),
        |e, _, value| {
            e.banner = with_end(value);
            Ok(())
        },
    )
    .raw(),
    Handler::act("clear", |e| {
        e.counts.clear();
        (e.total, e.overflows) = (0, 0);
    }),
    Handler::<AggregateCounter>::read("aggregate_call", |e, cx, _| {
        Ok(AggregateCounter::show(cx, e.on_aggregates.as_ref()))
    })
    .and_set(|e, cx, value| {
        e.on_aggregates = trigger(cx, value, "AGGREGATE")?;
        Ok(())
    }),
    Handler::<AggregateCounter>::read("count_call", |e, cx, _| {
        Ok(AggregateCounter::show(cx, e.on_count.as_ref()))
    })
    .and_set(|e, cx, value| {
        e.on_count = trigger(cx, value, "COUNT")?;
        Ok(())
    }),
    Handler::count("count", |e| e.total),
    Handler::count("nagg", |e| e.counts.len() as u64),
    Handler::count("overflows", |e| e.overflows),
];

fn trigger(cx: &Cx<'_>, value: &str, what: &str) -> Result<Option<Trigger>, String> {
    match value.trim() {
        "" => Ok(None),
        text => Trigger::parse(text, &not_a_number(what), cx, &CLASS).map(Some),
    }
}
