//! # AggregateCounterVector
//! Counts packets or bytes per aggregate, in an array.
//!
//! The low bits of the aggregate annotation, those in MASK, are the index of the count. Unlike
//! AggregateCounter, the element needs no look-up, but memory for MASK + 1 counts.
//!
//! ## Usage
//! `AggregateCounterVector(MASK [, KEYWORDS])`
//!
//! ## Arguments
//! - `MASK`: the bits of the aggregate annotation that are used, such as 511 for 512 counts.
//! - `BYTES`: if true, counts bytes instead of packets.
//! - `IP_BYTES`: if true, the bytes before the network header do not count.
//! - `MULTIPACKET`: if true, the extra packets annotation is added to a packet.
//! - `EXTRA_LENGTH`: if true, the extra length annotation is added to a length.
//! - `MARK`: accepted, without effect; packets have no marks of a card.
//!
//! ## Handlers
//! - `counts`: the aggregates that have a count, each with it, one per line; FastClick has no handler that
//!   shows them.
//! - `active`: true if packets are counted.
//! - `stop`: stops counting, and the driver.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> AggregateLength -> AggregateCounterVector(MASK 511) -> Discard
//! ```
//!
//! ## See also
//! AggregateCounter, AggregatePacketCounter

use std::any::Any;

use element::class::ArgInfo;
use element::effects::{Counting, EXTRA_LENGTH, Field, State, StateAccess};
use element::{Base, Batch, Class, Cx, Effects, Element, Handler, StatePart, manual};
use packet::Annotations;

use super::aggregate_counter::Unit;
use super::{AGGREGATE, aggregate_of};
use crate::editing::annotation;
use crate::memory::{defaults, refusal};

/// The element class `AggregateCounterVector`.
pub static CLASS: Class = Class {
    name: "AggregateCounterVector",
    manual: manual!("aggregate_counter_vector.rs"),
    args: &[
        ArgInfo::required("MASK", "unsigned"),
        ArgInfo::keyword("MARK", "bool", "false"),
        ArgInfo::keyword("BYTES", "bool", "false"),
        ArgInfo::keyword("IP_BYTES", "bool", "false"),
        ArgInfo::keyword("MULTIPACKET", "bool", "true"),
        ArgInfo::keyword("EXTRA_LENGTH", "bool", "true"),
    ],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["counts", "active"])],
    samples: &["511", "MASK 3, BYTES true, IP_BYTES true"],
    build: |args| {
        let mask: u32 = args.required("MASK");
        args.value::<bool>("MARK");
        let unit = Unit::read(args);
        args.finish()?;
        let counts = defaults(mask as usize + 1);
        let counts = counts.map_err(|error| args.error(refusal("MASK", "counts", &error)));
        args.finish()?;
        Ok(Box::new(AggregateCounterVector { unit, active: true, counts: counts.unwrap_or_default() }))
    },
    ..Class::DEFAULT
};

struct AggregateCounterVector {
    unit: Unit,
    active: bool,
    /// The count of each aggregate; the largest index is MASK.
    counts: Vec<u64>,
}

impl Element for AggregateCounterVector {
    fn effects(&self) -> Effects {
        let seen = [
            AGGREGATE,
            Field::Length,
            EXTRA_LENGTH,
            annotation(Annotations::EXTRA_PACKETS, 4),
            Field::HeaderOffset(Base::Network),
        ];
        let counts = State {
            table: "counts",
            key: vec![AGGREGATE],
            both_directions: false,
            access: StateAccess::Soft,
        };
        let effects = Effects::pass().observing(&seen).counting(Counting::Own);
        Effects { state: vec![counts], ..effects }
    }

    fn process(&mut self, _cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        // The counts are MASK + 1; while a reload has taken them away, there are none.
        let mask = (self.counts.len() as u64).wrapping_sub(1) as u32;
        for packet in batch.iter() {
            let amount = u64::from(self.unit.amount(packet));
            if let Some(count) = self.counts.get_mut((aggregate_of(packet) & mask) as usize) {
                *count = count.wrapping_add(amount);
            }
        }
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        Some(Box::new((std::mem::take(&mut self.counts), self.active)))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let state: Box<(Vec<u64>, bool)> = state.downcast().map_err(|_| "the state of another class")?;
        let (counts, active) = *state;
        if counts.len() != self.counts.len() {
            return Err("another MASK: the counts start from 0".into());
        }
        (self.counts, self.active) = (counts, active);
        Ok(())
    }
}

const HANDLERS: &[Handler<AggregateCounterVector>] = &[
    Handler::<AggregateCounterVector>::get("counts", |e| {
        let counted = e.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        counted.map(|(aggregate, count)| format!("{aggregate} {count}\n")).collect()
    })
    .rows(),
    Handler::flag("active", |e| &mut e.active, "type mismatch"),
    Handler::set("stop", |e, cx, _| {
        e.active = false;
        cx.stop();
        Ok(())
    }),
];
