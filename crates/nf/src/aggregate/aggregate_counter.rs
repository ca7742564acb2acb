//! # AggregateCounter
//! Counts packets or bytes per aggregate annotation.
//!
//! Packets that are counted go to output 0. What is not counted - new aggregates while it is frozen, everything while
//! it is not active - goes to output 1 if there is one. Packets on input 1 are counted only for aggregates that are
//! known.
//!
//! ## Usage
//! `AggregateCounter([KEYWORDS])`
//!
//! ## Arguments
//! - `BYTES`: whether to count bytes.
//! - `IP_BYTES`: whether to count bytes from the IP header on; with BYTES.
//! - `MULTIPACKET`: whether packets count for as many as their extra packets annotation says.
//! - `EXTRA_LENGTH`: whether the extra length annotation counts.
//! - `MASK`: bits of the annotation that matter.
//! - `AGGREGATE_FREEZE`: no new aggregates are counted when there are so many.
//! - `COUNT_FREEZE`: the same when the total count has come to so much.
//! - `AGGREGATE_STOP`, `COUNT_STOP`: stop the driver instead.
//! - `AGGREGATE_CALL`, `COUNT_CALL`: `N HANDLER [VALUE]`: call a write handler instead.
//! - `BANNER`: text for the head of files.
//! - `CAPACITY`: most aggregates, in about 17 bytes each; memory for them is reserved at the start. Packets of further
//!   ones are not counted.
//!
//! ## Handlers
//! - `write_text_file`, `write_ascii_file`: writes counts to a file as text; `-` is standard output.
//! - `write_file`: writes them as binary numbers.
//! - `write_ip_file`: writes aggregates as IP addresses.
//! - `write_pdf_file`: writes shares of the total instead of counts.
//! - `freeze`: whether new aggregates are left out.
//! - `active`: whether it counts.
//! - `stop`: is written to stop counting, and the driver.
//! - `reaggregate_counts`, `counts_pdf`: makes counts the new aggregates, and how often they occur their counts.
//! - `banner`: text for the head of files.
//! - `clear`: forgets all counts.
//! - `aggregate_call`, `count_call`: the call that is waiting, as in the arguments.
//! - `count`: the total.
//! - `nagg`: number of aggregates.
//! - `overflows`: packets that were not counted because there was no room for their aggregates.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> c :: AggregateCounter(BYTES true) -> Discard
//! ```
//!
//! ## See also
//! AggregateIP, AggregateLength, AggregateIPFlows, Counter

use std::io::Write;
use std::sync::Arc;

use element::args::{Raw, parse_bool, parse_integer};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{self, Access, Case, Depends, EXTRA_LENGTH, Field, Filter, State, Target};
use element::{Args, Base, Batch, Call, Class, Cx, DropReason, Effects, Element, Packet, manual};
use lang::args::unquote;
use packet::Annotations;

use super::counts::{Counts, Format};
use super::{AGGREGATE, aggregate_of, for_capacity};
use crate::printers::reason;
use crate::trigger::Trigger;

/// The class.
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
    handlers: &[
        HandlerInfo::write("write_text_file"),
        HandlerInfo::write("write_ascii_file"),
        HandlerInfo::write("write_file"),
        HandlerInfo::write("write_ip_file"),
        HandlerInfo::write("write_pdf_file"),
        HandlerInfo::both("freeze"),
        HandlerInfo::both("active"),
        HandlerInfo::write("stop"),
        HandlerInfo::write("reaggregate_counts"),
        HandlerInfo::write("counts_pdf"),
        HandlerInfo::both("banner"),
        HandlerInfo::write("clear"),
        HandlerInfo::both("aggregate_call"),
        HandlerInfo::both("count_call"),
        HandlerInfo::count("count"),
        HandlerInfo::count("nagg"),
        HandlerInfo::count("overflows"),
    ],
    samples: &[
        "",
        "AGGREGATE_FREEZE 5 -> 1/2",
        "BYTES true, IP_BYTES true, COUNT_STOP 1000 -> 2/2",
        "MASK 1",
    ],
    build: |args| {
        let bytes = args.or("BYTES", false);
        let counter = AggregateCounter {
            bytes,
            ip_bytes: args.or("IP_BYTES", false),
            multipacket: args.or("MULTIPACKET", true),
            extra_length: args.or("EXTRA_LENGTH", true),
            mask: args.or("MASK", u32::MAX),
            texts: [limit(args, "AGGREGATE"), limit(args, "COUNT")],
            banner: args.get("BANNER").map_or(String::new(), |text: String| with_end(&text)),
            inputs: args.inputs(),
            sides: args.outputs() > 1,
            active: true,
            frozen: false,
            on_aggregates: None,
            on_count: None,
            counts: for_capacity(args, 1 << 20, Counts::new)?,
            total: 0,
            overflows: 0,
        };
        Ok(Box::new(counter))
    },
    ..Class::DEFAULT
};

/// What is to happen at a number of aggregates or a count, as a handler call.
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

/// A text as whole lines; a line end alone is none.
fn with_end(text: &str) -> String {
    match text {
        "" | "\n" => String::new(),
        _ if text.ends_with('\n') => text.to_string(),
        _ => format!("{text}\n"),
    }
}

struct AggregateCounter {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
    mask: u32,
    /// Calls as configured, until all elements are known.
    texts: [Option<String>; 2],
    banner: String,
    inputs: usize,
    /// Whether there is an output for what is not counted.
    sides: bool,
    active: bool,
    frozen: bool,
    on_aggregates: Option<Trigger>,
    on_count: Option<Trigger>,
    counts: Counts,
    total: u64,
    /// Packets whose aggregates found no room.
    overflows: u64,
}

impl AggregateCounter {
    /// What a packet counts for.
    fn amount(&self, packet: &Packet) -> u32 {
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

    fn has_triggers(&self) -> bool {
        self.on_aggregates.iter().chain(&self.on_count).any(|trigger| trigger.armed)
    }

    /// Makes a call: at once if it changes this element, because the packet at hand depends on it.
    fn call(&mut self, cx: &mut Cx<'_>, call: &Arc<Call>) {
        if call.element == Some(cx.id()) {
            if let Err(reason) = cx.on_behalf(call, |cx| self.write(cx, &call.handler, &call.value)) {
                cx.message(format_args!("{reason}\n"));
            }
        } else {
            cx.call_later(call);
        }
    }

    /// Counts a packet; false if it is not to be counted.
    fn count(&mut self, cx: &mut Cx<'_>, packet: &Packet, known_only: bool) -> bool {
        let aggregate = aggregate_of(packet) & self.mask;
        if !self.active {
            return false;
        }
        let amount = self.amount(packet);
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

    fn show(cx: &Cx<'_>, trigger: Option<&Trigger>) -> String {
        let Some(Trigger { at, call, .. }) = trigger.filter(|trigger| trigger.armed) else {
            return String::new();
        };
        let element = call.element.map_or(String::new(), |element| format!("{}.", cx.name_of(element)));
        format!("{at} {element}{} {}", call.handler, call.value).trim_end().to_string()
    }

    fn write_file(&self, cx: &mut Cx<'_>, name: &str, format: Format) -> Result<(), String> {
        let name = unquote(name.trim());
        let file = self.counts.file(&self.banner, format);
        match name.as_str() {
            "" => Err("argument should be filename".into()),
            "-" => {
                cx.print(format_args!("{}", String::from_utf8_lossy(&file)));
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
                let not_counted = Filter::Opaque { about: "not counted", reads: seen.to_vec() };
                let cases = vec![
                    Case::new(not_counted, Target::Output(1)),
                    Case::new(Filter::Any, Target::Output(0)),
                ];
                Effects::cases(cases).depending_on(Depends::Handler).depending_on(Depends::Counter)
            }
            false => Effects::pass().observing(&seen),
        };
        let access = if self.sides { Access::EveryPacket } else { Access::Soft };
        let key = if self.sides { vec![AGGREGATE] } else { Vec::new() };
        effects.counts = effects::Counts::Own;
        effects.state.push(State { table: "counts", key, both_directions: false, access });
        effects
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let [aggregates, count] = std::mem::take(&mut self.texts);
        for (name, text) in [("aggregate_call", aggregates), ("count_call", count)] {
            if let Some(text) = text {
                self.write(cx, name, &text)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, mut batch: Batch) -> Option<Batch> {
        if !self.sides && !self.has_triggers() {
            for packet in batch.iter() {
                self.count(cx, packet, port == 1);
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

    fn read(&mut self, cx: &mut Cx<'_>, name: &str, _param: &str) -> Result<String, String> {
        Ok(match name {
            "freeze" => self.frozen.to_string(),
            "active" => self.active.to_string(),
            "banner" => self.banner.clone(),
            "aggregate_call" => Self::show(cx, self.on_aggregates.as_ref()),
            "count_call" => Self::show(cx, self.on_count.as_ref()),
            "count" => self.total.to_string(),
            "overflows" => self.overflows.to_string(),
            _ => self.counts.len().to_string(),
        })
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        let truth = || parse_bool(value).ok_or("type mismatch");
        let trigger = |what: &str| match value.trim() {
            "" => Ok(None),
            text => Trigger::parse(text, &not_a_number(what), cx, &CLASS).map(Some),
        };
        match name {
            "write_text_file" | "write_ascii_file" => return self.write_file(cx, value, Format::Text),
            "write_file" => return self.write_file(cx, value, Format::Binary),
            "write_ip_file" => return self.write_file(cx, value, Format::Ip),
            "write_pdf_file" => return self.write_file(cx, value, Format::Share),
            "freeze" => self.frozen = truth()?,
            "active" => self.active = truth()?,
            "banner" => self.banner = with_end(value),
            "aggregate_call" => self.on_aggregates = trigger("AGGREGATE")?,
            "count_call" => self.on_count = trigger("COUNT")?,
            "stop" => {
                self.active = false;
                cx.stop();
            }
            "clear" => {
                self.counts.clear();
                (self.total, self.overflows) = (0, 0);
            }
            _ => {
                self.counts = self.counts.reaggregated();
                // Each aggregate that there was counts once.
                self.total = self.counts.total();
            }
        }
        Ok(())
    }
}
