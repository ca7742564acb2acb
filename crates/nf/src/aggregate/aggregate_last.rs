//! # AggregateLast
//! Keeps the last packet of each aggregate until the aggregate ends.
//!
//! A packet that is followed by another packet with the same aggregate annotation goes to output 1, or is
//! dropped. The packet that replaces it counts for both. Its extra packets annotation grows by 1 and by the
//! extra packets of the replaced packet. Its extra length annotation grows by the length and the extra length
//! of the replaced packet. It gets the first-timestamp annotation of the replaced packet. When an aggregate
//! ends, or when the handler `clear` is called, packets go to output 0.
//!
//! ## Usage
//! `AggregateLast([KEYWORDS])`
//!
//! ## Arguments
//! - `NOTIFIER`: an element that notifies when an aggregate ends, such as AggregateIPFlows.
//! - `STOP_AFTER_CLEAR`: if true, stops the driver after a `clear`.
//! - `CAPACITY`: the maximum number of packets that are kept, each in its own slot. Packets of further
//!   aggregates go to output 1, or are dropped.
//!
//! ## Handlers
//! - `clear`: sends all packets to output 0, in the order of their aggregates.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10, END_CALL last.clear) -> AggregateLength -> last :: AggregateLast -> Discard
//! ```
//!
//! ## See also
//! AggregateFirst, AggregateIPFlows

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use element::class::{ArgInfo, Notes};
use element::effects::{
    Action, Case, EXTRA_LENGTH, Field, Filter, Hold, Order, State, StateAccess, Target, Value,
};
use element::{
    Batch, Class, Cx, DropReason, Effects, Element, ElementId, Handler, Packet, StatePart, manual,
};
use packet::Annotations;

use super::notifier::{self, Ended};
use super::{AGGREGATE, aggregate_of, for_capacity};
use crate::memory::reserved_map;

/// The element class `AggregateLast`.
pub static CLASS: Class = Class {
    name: "AggregateLast",
    ports: "1/1-2",
    processing: "h",
    manual: manual!("aggregate_last.rs"),
    notes: Notes::TASK,
    args: &[
        ArgInfo::keyword("NOTIFIER", "element", ""),
        ArgInfo::keyword("STOP_AFTER_CLEAR", "bool", "false"),
        ArgInfo::keyword("CAPACITY", "unsigned", "65536"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("last packets", &[])],
    samples: &["", " -> 1/2"],
    build: |args| {
        let (notifier, stop) = (notifier::read(args), args.value::<bool>("STOP_AFTER_CLEAR"));
        let make = |capacity| Ok((reserved_map(capacity)?, capacity));
        let (packets, capacity) = for_capacity(args, make)?;
        Ok(Box::new(AggregateLast { notifier, stop, ended: None, packets, capacity, going: Vec::new() }))
    },
    ..Class::DEFAULT
};

struct AggregateLast {
    notifier: Option<ElementId>,
    stop: bool,
    ended: Option<Arc<Ended>>,
    packets: HashMap<u32, Packet>,
    /// The maximum number of packets that the element keeps in `packets`, one per aggregate (CAPACITY).
    capacity: usize,
    /// The aggregates whose packets the task has still to send after a `clear`, in descending order: the
    /// task takes them from the end.
    going: Vec<u32>,
}

/// Makes a packet count for the packet `old` that it replaces. Adds 1 and the extra packets of `old` to its
/// extra packets annotation, and the length and the extra length of `old` to its extra length annotation.
/// Takes over the first time stamp. Without an old packet, the first time stamp is the packet's own time
/// stamp.
fn take_over(packet: &mut Packet, old: Option<&Packet>) {
    let first = old.map_or_else(
        || packet.time().0.to_ne_bytes(),
        |old| {
            let bytes = &old.annotations().bytes()[Annotations::FIRST_TIMESTAMP..];
            bytes.first_chunk::<8>().copied().unwrap_or_default()
        },
    );
    let annotations = packet.annotations_mut();
    annotations.bytes_mut()[Annotations::FIRST_TIMESTAMP..][..8].copy_from_slice(&first);
    if let Some(old) = old {
        let before = old.annotations();
        let packets = before.u32(Annotations::EXTRA_PACKETS).wrapping_add(1);
        let length = before.u32(Annotations::EXTRA_LENGTH).wrapping_add(old.len() as u32);
        for (place, more) in [(Annotations::EXTRA_PACKETS, packets), (Annotations::EXTRA_LENGTH, length)] {
            annotations.set_u32(place, annotations.u32(place).wrapping_add(more));
        }
    }
}

impl AggregateLast {
    /// Sends on the packets of aggregates that have ended since the last call.
    fn look(&mut self, cx: &mut Cx<'_>) {
        let (ended, packets) = (&self.ended, &mut self.packets);
        if let Some(ended) = ended {
            ended.take(|aggregate| {
                if let Some(packet) = packets.remove(&aggregate) {
                    cx.emit_one(0, packet, DropReason::NoOutput);
                }
            });
        }
    }
}

impl Element for AggregateLast {
    fn effects(&self) -> Effects {
        let anno = |offset: usize, length| Field::Annotation { offset: offset as u8, length };
        let packets = anno(Annotations::EXTRA_PACKETS, 4);
        let first = anno(Annotations::FIRST_TIMESTAMP, 8);
        let reads = vec![packets.clone(), EXTRA_LENGTH, first.clone(), Field::Length, Field::TimeStamp];
        let set =
            |field| Action::Set(field, Value::Pure { name: "sum over an aggregate", reads: reads.clone() });
        let case = Case::new(Filter::TRUE, Target::Hold(0))
            .with(set(packets))
            .with(set(EXTRA_LENGTH))
            .with(set(first));
        let key = vec![AGGREGATE];
        let state =
            State { table: "last packets", key, both_directions: false, access: StateAccess::EveryPacket };
        Effects {
            hold: Hold::PerFlow,
            state: vec![state],
            order: Order::MayReorder,
            opaque: Some("a packet leaves by output 1 when the next one of its aggregate comes"),
            ..Effects::cases(vec![case])
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.ended = notifier::listen(cx, self.notifier)?;
        Ok(())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, mut batch: Batch) -> Option<Batch> {
        self.look(cx);
        for mut packet in batch.drain() {
            let aggregate = aggregate_of(&packet);
            if self.packets.len() >= self.capacity && !self.packets.contains_key(&aggregate) {
                cx.emit_one(1, packet, DropReason::TableFull);
                continue;
            }
            take_over(&mut packet, self.packets.get(&aggregate));
            if let Some(old) = self.packets.insert(aggregate, packet) {
                cx.emit_one(1, old, DropReason::Coalesced);
            }
        }
        cx.recycle(batch);
        None
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        for _ in 0..cx.burst() {
            let Some(aggregate) = self.going.pop() else { break };
            if let Some(packet) = self.packets.remove(&aggregate) {
                cx.emit_one(0, packet, DropReason::NoOutput);
            }
        }
        if !self.going.is_empty() {
            cx.schedule();
        } else if self.stop {
            cx.stop();
        }
        true
    }

    fn drain(&mut self, cx: &mut Cx<'_>) {
        for (_, packet) in self.packets.drain() {
            cx.drop(packet, DropReason::Stop);
        }
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.packets), std::mem::take(&mut self.going))))
    }

    fn put_state(&mut self, cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let packets: HashMap<u32, Packet>;
        (packets, self.going) = *state.downcast().map_err(|_| "the state of another class")?;
        for (aggregate, packet) in packets {
            match self.packets.len() < self.capacity {
                true => drop(self.packets.insert(aggregate, packet)),
                false => cx.emit_one(1, packet, DropReason::TableFull),
            }
        }
        if !self.going.is_empty() {
            cx.schedule();
        }
        Ok(())
    }
}

const HANDLERS: &[Handler<AggregateLast>] = &[Handler::set("clear", |e, cx, _| {
    e.look(cx);
    e.going = e.packets.keys().copied().collect();
    e.going.sort_unstable_by(|a, b| b.cmp(a));
    cx.schedule();
    Ok(())
})];
