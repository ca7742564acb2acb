//! # AggregatePacketCounter
//! Remembers which packets of each aggregate have passed which port.
//!
//! Packets go from each input to the output of the same number. Those whose aggregate annotation is zero are not
//! counted.
//!
//! ## Usage
//! `AggregatePacketCounter([KEYWORDS])`
//!
//! ## Arguments
//! - `NOTIFIER`: accepted; aggregates are never forgotten.
//! - `ANNO`: the annotation with the packet's number, or `NONE` to number the packets of an aggregate by their order.
//! - `CAPACITY`: most aggregates and numbers of packets together, each of which takes some 100 bytes. Packets that need more are
//!   not counted.
//!
//! ## Handlers
//! - `clear`: forgets everything.
//! - `count`: packets counted.
//! - `overflows`: packets that were not counted because there was no room.
//! - `received`: numbers of the packets of an aggregate, one per line.
//! - `undelivered`: numbers of those that have passed port 0 more often than port 1.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregatePacketCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateCounter, AggregateIPFlows

use std::collections::{BTreeMap, HashMap};

use element::args::{AnnotationOffset, Arg, ElementRef, Raw, parse_integer};
use element::class::{ArgInfo, HandlerInfo};
use element::effects::{Access, Case, Counts, Field, Filter, State, Target};
use element::{Batch, Class, Cx, Effects, Element, manual};

use super::{AGGREGATE, aggregate_of, for_capacity};

/// The class.
pub static CLASS: Class = Class {
    name: "AggregatePacketCounter",
    ports: "1-/=",
    flow: "#/#",
    manual: manual!("aggregate_packet_counter.rs"),
    args: &[
        ArgInfo::keyword("NOTIFIER", "element", ""),
        ArgInfo::keyword("ANNO", "annotation", "PACKET_NUMBER"),
        ArgInfo::keyword("CAPACITY", "unsigned", "1048576"),
    ],
    handlers: &[
        HandlerInfo::write("clear"),
        HandlerInfo::count("count"),
        HandlerInfo::count("overflows"),
        HandlerInfo::read_param("received"),
        HandlerInfo::read_param("undelivered"),
    ],
    samples: &["", "ANNO NONE -> 2/2"],
    build: |args| {
        args.get::<ElementRef>("NOTIFIER");
        let Raw(word) = args.or("ANNO", Raw("PACKET_NUMBER".into()));
        let anno = match word.as_str() {
            "NONE" => Some(None),
            word => {
                AnnotationOffset::<4>::parse(word, &args.place()).ok().map(|AnnotationOffset(at)| Some(at))
            }
        };
        if anno.is_none() {
            args.error("bad ANNO");
        }
        let capacity = for_capacity(args, 1 << 20, Ok)?;
        Ok(Box::new(AggregatePacketCounter {
            anno: anno.flatten(),
            ports: args.inputs(),
            packets: 0,
            flows: HashMap::new(),
            capacity,
            entries: 0,
            overflows: 0,
        }))
    },
    ..Class::DEFAULT
};

struct AggregatePacketCounter {
    anno: Option<usize>,
    ports: usize,
    packets: u64,
    /// By aggregate: how often each number has passed each port.
    flows: HashMap<u32, Flow>,
    /// Most aggregates and numbers together, and how many there are.
    capacity: usize,
    entries: usize,
    /// Packets that found no room.
    overflows: u64,
}

#[derive(Default)]
struct Flow {
    /// Packets per port; without an annotation these are their numbers, too.
    packets: Vec<u32>,
    numbers: BTreeMap<u32, Vec<u32>>,
}

impl AggregatePacketCounter {
    fn count(&mut self, batch: &Batch, port: usize) {
        for packet in batch.iter() {
            let aggregate = aggregate_of(packet);
            if aggregate == 0 {
                continue;
            }
            let number = self.anno.map(|anno| packet.annotations().u32(anno));
            let known = self.flows.get(&aggregate);
            let has_number = |flow: &Flow| number.is_none_or(|number| flow.numbers.contains_key(&number));
            let missing = match known {
                Some(flow) => usize::from(!has_number(flow)),
                None => 1 + usize::from(number.is_some()),
            };
            if self.entries + missing > self.capacity {
                self.overflows += 1;
                continue;
            }
            self.entries += missing;
            self.packets += 1;
            let flow = self.flows.entry(aggregate).or_default();
            flow.packets.resize(self.ports, 0);
            let Some(passed) = flow.packets.get_mut(port) else { continue };
            *passed = passed.saturating_add(1);
            let Some(number) = number else { continue };
            let counts = flow.numbers.entry(number).or_insert_with(|| vec![0; self.ports]);
            counts[port] = counts[port].saturating_add(1);
        }
    }
}

impl Element for AggregatePacketCounter {
    fn effects(&self) -> Effects {
        let case = |port| Case::new(Filter::Any, Target::Output(port)).on(port);
        let state = State { table: "packets", key: Vec::new(), both_directions: false, access: Access::Soft };
        let mut seen = vec![AGGREGATE];
        seen.extend(self.anno.map(|at| Field::Annotation { offset: at as u8, length: 4 }));
        let effects = Effects::cases((0..self.ports).map(case).collect()).observing(&seen);
        Effects { state: vec![state], counts: Counts::Own, ..effects }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        self.count(&batch, port);
        cx.emit(port, batch);
        None
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.count(&batch, port);
        batch
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.counters().arrived > 0 && self.packets == 0 {
            let name = cx.declaration();
            cx.message(format_args!("{name}: saw no packets with aggregate annotations\n"));
        }
        Ok(())
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, param: &str) -> Result<String, String> {
        match name {
            "count" => return Ok(self.packets.to_string()),
            "overflows" => return Ok(self.overflows.to_string()),
            _ => {}
        }
        let aggregate = match param.trim() {
            "" => 0,
            word => {
                let number = parse_integer(word).ok().and_then(|n| u32::try_from(n).ok());
                number.ok_or("argument should be aggregate number")?
            }
        };
        let Some(flow) = self.flows.get(&aggregate) else { return Ok(String::new()) };
        let lost = |counts: &[u32]| counts.first() > counts.get(1).or(Some(&0));
        let port = |port: usize| flow.packets.get(port).copied().unwrap_or(0);
        let line = |number: u32| format!("{number}\n");
        Ok(match (self.anno, name) {
            (None, "undelivered") => (port(1)..port(0)).map(line).collect(),
            (None, _) => (0..flow.packets.iter().copied().max().unwrap_or(0)).map(line).collect(),
            (Some(_), name) => {
                let wanted = flow.numbers.iter().filter(|(_, counts)| name != "undelivered" || lost(counts));
                wanted.map(|(&number, _)| line(number)).collect()
            }
        })
    }

    fn write(&mut self, _cx: &mut Cx<'_>, _name: &str, _value: &str) -> Result<(), String> {
        (self.packets, self.overflows, self.entries) = (0, 0, 0);
        self.flows.clear();
        Ok(())
    }
}
