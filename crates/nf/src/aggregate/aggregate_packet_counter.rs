//! # AggregatePacketCounter
//! Records which packets of each aggregate have passed which port.
//!
//! Packets go from each input to the output of the same number. Packets whose aggregate annotation is zero
//! are not counted.
//!
//! ## Usage
//! `AggregatePacketCounter([KEYWORDS])`
//!
//! ## Arguments
//! - `NOTIFIER`: accepted, without effect; aggregates are never removed.
//! - `ANNO`: the annotation with the packet's number, or `NONE` to number the packets of an aggregate by
//!   their order.
//! - `CAPACITY`: the maximum number of packet numbers in all aggregates together, or, with ANNO `NONE`, of
//!   aggregates. Memory for them, about 28 bytes each, is reserved at the start. Packets for which there is
//!   no room are not counted.
//!
//! ## Handlers
//! - `clear`: clears all counts.
//! - `count`: the number of counted packets.
//! - `overflows`: the number of packets that were not counted because there was no room.
//! - `received`: the numbers of the packets of an aggregate, one per line.
//! - `undelivered`: the numbers of the packets of an aggregate that have passed port 0 more often than port
//!   1, one per line.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregatePacketCounter -> Discard
//! ```
//!
//! ## See also
//! AggregateCounter, AggregateIPFlows

use std::any::Any;
use std::collections::HashMap;

use element::args::{AnnotationOffset, ArgType, ElementRef, Raw, parse_integer};
use element::class::ArgInfo;
use element::effects::{Counting, Field, State, StateAccess};
use element::{Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};

use super::{AGGREGATE, aggregate_of, for_capacity};
use crate::memory::{reserved, reserved_map};

/// The element class `AggregatePacketCounter`.
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
    table: &HANDLERS,
    state: &[StatePart::kept("packets", &["count", "overflows", "received", "undelivered"])],
    samples: &["", "ANNO NONE -> 2/2"],
    build: |args| {
        args.get::<ElementRef>("NOTIFIER");
        let Raw(word) = args.value("ANNO");
        let anno = match word.as_str() {
            "NONE" => Some(None),
            word => {
                AnnotationOffset::<4>::parse(word, &args.place()).ok().map(|AnnotationOffset(at)| Some(at))
            }
        };
        if anno.is_none() {
            args.error("bad ANNO");
        }
        let ports = args.inputs();
        let make = |capacity: usize| {
            Ok((reserved_map(capacity)?, reserved(capacity.saturating_mul(ports))?, capacity))
        };
        let (places, counts, capacity) = for_capacity(args, make)?;
        let anno = anno.flatten();
        Ok(Box::new(AggregatePacketCounter {
            anno,
            ports,
            packets: 0,
            places,
            counts,
            capacity,
            overflows: 0,
        }))
    },
    ..Class::DEFAULT
};

struct AggregatePacketCounter {
    anno: Option<usize>,
    ports: usize,
    packets: u64,
    /// The index of the entry in `counts` for each aggregate and packet number; with ANNO `NONE`, for each
    /// aggregate and 0.
    places: HashMap<(u32, u32), u32>,
    /// The numbers of packets: for each entry, one count per port. The counts of the entry with index N start
    /// at N times the number of ports.
    counts: Vec<u32>,
    /// The maximum number of entries in `places` (CAPACITY).
    capacity: usize,
    /// The number of packets that were not counted because there was no room for another entry.
    overflows: u64,
}

impl AggregatePacketCounter {
    fn count(&mut self, batch: &Batch, port: usize) {
        for packet in batch.iter() {
            let aggregate = aggregate_of(packet);
            if aggregate == 0 {
                continue;
            }
            let key = (aggregate, self.anno.map_or(0, |anno| packet.annotations().u32(anno)));
            let has_room = self.places.len() < self.capacity;
            let place = match self.places.get(&key) {
                Some(&place) => place,
                None if has_room => {
                    let place = self.places.len() as u32;
                    self.places.insert(key, place);
                    self.counts.resize(self.counts.len() + self.ports, 0);
                    place
                }
                None => {
                    self.overflows += 1;
                    continue;
                }
            };
            self.packets += 1;
            if let Some(count) = self.counts.get_mut(place as usize * self.ports + port) {
                *count = count.saturating_add(1);
            }
        }
    }

    /// Returns the counts of the entry with index `place`, one per port; empty if there is no such entry.
    fn at(&self, place: u32) -> &[u32] {
        self.counts
            .get(place as usize * self.ports..)
            .and_then(|rest| rest.get(..self.ports))
            .unwrap_or_default()
    }
}

impl Element for AggregatePacketCounter {
    fn effects(&self) -> Effects {
        let state =
            State { table: "packets", key: Vec::new(), both_directions: false, access: StateAccess::Soft };
        let mut seen = vec![AGGREGATE];
        seen.extend(self.anno.map(|at| Field::Annotation { offset: at as u8, length: 4 }));
        let effects = Effects::port_by_port(self.ports).observing(&seen);
        Effects { state: vec![state], counts: Counting::Own, ..effects }
    }

    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: Batch) -> Option<Batch> {
        self.count(&batch, port);
        cx.pass_on(port, batch)
    }

    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, max: usize) -> Batch {
        let batch = cx.pull(port, max);
        self.count(&batch, port);
        batch
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.counters().arrived > 0 && self.packets == 0 {
            cx.warn(format_args!("warning: saw no packets with aggregate annotations"));
        }
        Ok(())
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let (places, counts) = (std::mem::take(&mut self.places), std::mem::take(&mut self.counts));
        Some(Box::new(((self.anno, self.ports), self.packets, self.overflows, places, counts)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let settings: (Option<usize>, usize);
        let (packets, overflows, counts);
        let places: HashMap<(u32, u32), u32>;
        (settings, packets, overflows, places, counts) =
            *state.downcast().map_err(|_| "the state of another class")?;
        if settings != (self.anno, self.ports) {
            return Err("it counts something else now".into());
        }
        if places.len() > self.capacity {
            return Err("CAPACITY is less than the number of packets that were counted".into());
        }
        (self.packets, self.overflows, self.places, self.counts) = (packets, overflows, places, counts);
        Ok(())
    }
}

impl AggregatePacketCounter {
    /// Returns the numbers of an aggregate's packets, one per line; with ANNO `NONE`, the packets at each
    /// port are numbered from 0 on. With `only_lost`, these are only the packets that came in by input 0 more
    /// often than by input 1.
    fn numbers(&self, aggregate: &str, only_lost: bool) -> Result<String, String> {
        let aggregate = match aggregate.trim() {
            "" => 0,
            word => {
                let number = parse_integer(word).ok().and_then(|n| u32::try_from(n).ok());
                number.ok_or("argument should be aggregate number")?
            }
        };
        let lost = |counts: &[u32]| counts.first() > counts.get(1).or(Some(&0));
        let line = |number: u32| format!("{number}\n");
        if self.anno.is_none() {
            let counts = self.places.get(&(aggregate, 0)).map_or(&[][..], |&place| self.at(place));
            let port = |port: usize| counts.get(port).copied().unwrap_or(0);
            return Ok(match only_lost {
                true => (port(1)..port(0)).map(line).collect(),
                false => (0..counts.iter().copied().max().unwrap_or(0)).map(line).collect(),
            });
        }
        let wanted = |place| !only_lost || lost(self.at(place));
        let of_aggregate = self.places.iter().filter(|(key, place)| key.0 == aggregate && wanted(**place));
        let mut numbers: Vec<u32> = of_aggregate.map(|(&(_, number), _)| number).collect();
        numbers.sort_unstable();
        Ok(numbers.into_iter().map(line).collect())
    }
}

const HANDLERS: &[Handler<AggregatePacketCounter>] = &[
    Handler::act("clear", |e| {
        (e.packets, e.overflows) = (0, 0);
        e.places.clear();
        e.counts.clear();
    }),
    Handler::count("count", |e| e.packets),
    Handler::count("overflows", |e| e.overflows),
    Handler::read_param("received", |e, _, param| e.numbers(param, false)),
    Handler::read_param("undelivered", |e, _, param| e.numbers(param, true)),
];
