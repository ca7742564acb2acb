//! Insertion of flows into the flow cache, with a lease from the stateful elements or without.

use std::net::Ipv4Addr;

use element::lease::Terms;
use element::{Packet, Timestamp};
use flow::{FlowId, Inserted, Ipv4FlowKey, MappedKey};
use jit::ROW;
use wire::FiveTuple;
use zerocopy::IntoBytes;

use super::row::HEAD_LENGTH;
use super::{FlowCache, LeasedFlow, MOST_REMEMBERED, NEVER_IDLE};
use crate::ask::answer;
use crate::graph::CompiledGraph;
use program::location::ByteLocation;
use program::question::{LeasedProperty, Question};
use program::{Next, TrafficClass, WrittenValue};

impl FlowCache {
    /// Leases the flow of a packet from all stateful elements that the packet would pass, and inserts it into
    /// the table. Returns the flow; `None` if no lease is possible, for example because an element refuses or
    /// there is no room. Then no element has leased the flow, and the flow is in the table only if it was
    /// there before.
    #[cold]
    pub(super) fn lease(
        &mut self,
        graph: &mut CompiledGraph,
        packet: &Packet,
        key: Ipv4FlowKey,
        hash: u32,
        now: Timestamp,
    ) -> Option<FlowId> {
        // With the time `NEVER_IDLE`, the flow does not expire from the table before the elements end its
        // lease.
        let known = MappedKey::new(key, [0; 6]);
        let (id, is_new) = match self.table.insert(&known, hash, NEVER_IDLE) {
            Ok(Inserted::New(id)) => (id, true),
            Ok(Inserted::Present(id)) => (id, false),
            Err(_) => return None,
        };
        let place = id.index() as usize;
        let mut steps = Vec::new();
        let terms = self.terms(graph, packet, id.index(), now, &mut steps);
        // The steps in the order in which packets pass them: index `n` has the step with `n` preceding steps
        // on the path.
        let passed: Vec<u16> = steps.iter().map(|(step, _)| *step).collect();
        let taken = terms.and_then(|terms| Some((self.residual_of(graph, packet, &terms)?, terms)));
        let Some((residual, terms)) = taken else {
            self.give_back(steps, id.index());
            if is_new {
                self.table.remove(id);
            }
            return None;
        };
        let mut row = [0; ROW];
        for (to, &(depth, offset)) in row[HEAD_LENGTH..].iter_mut().zip(&self.row_layout.0) {
            let terms = passed.get(depth).and_then(|step| terms[usize::from(*step)].as_ref());
            let byte = terms.and_then(|terms| terms.values.get(usize::from(offset)));
            *to = byte.copied().unwrap_or(0);
        }
        row[..HEAD_LENGTH].copy_from_slice(&residual.0.to_ne_bytes());
        let mut value = [0; 6];
        value.as_mut_bytes().copy_from_slice(&row);
        if place >= self.held.len() {
            self.held.resize_with(place + 1, || None);
        }
        self.held[place] = Some(LeasedFlow { id, steps });
        self.leased += 1;
        // With the new flow, the elements may have work to do earlier than they have announced, so the next
        // batch asks them again.
        self.next_catch_up = Timestamp(i64::MIN);
        self.table.touch(id, NEVER_IDLE);
        *self.table.value_mut(id)? = value;
        Some(id)
    }

    /// Caches the flow of a packet without a lease. `place` is the index of the packet in the batch. Does
    /// nothing if the flow is in the table already, if there is no room, or if no residual program can be
    /// made.
    #[cold]
    pub(super) fn remember(
        &mut self,
        graph: &mut CompiledGraph,
        packet: &Packet,
        place: usize,
        now: Timestamp,
    ) {
        if self.remembered() >= MOST_REMEMBERED {
            return;
        }
        let Some(residual) = self.residual_of(graph, packet, &[]) else { return };
        // If the flow has been leased meanwhile, its entry remains as it is.
        let flow = MappedKey::new(self.keys[place], [residual.0, 0, 0, 0, 0, 0]);
        // If the table is full, the flow is not cached, and its packets continue to ask all questions.
        let _ = self.table.insert(&flow, self.hashes[place], now);
    }

    /// Asks each stateful element on a packet's path for the terms of a lease of the packet's flow: its
    /// output and values. `place` is the index of the flow in the table. Adds the steps that the packet
    /// passes to `steps`, each with the handle by which its element knows the lease. Returns the terms by
    /// step. Returns `None` if an element refuses, if a question cannot be answered, or if the packet passes
    /// no stateful element; leases that have begun are in `steps` and have to be given back.
    fn terms(
        &self,
        graph: &CompiledGraph,
        packet: &Packet,
        place: u32,
        now: Timestamp,
        steps: &mut Vec<(u16, u64)>,
    ) -> Option<Vec<Option<Terms>>> {
        let program = &self.program;
        let mut all: Vec<Option<Terms>> = vec![None; program.steps.len()];
        let mut next = program.start;
        while let Next::Node(number) = next {
            let node = program.nodes.get(number as usize)?;
            let answer = match node.question {
                Question::Leased { step, what: LeasedProperty::Output } => {
                    let flow = self.flow_at(step, packet, &all)?;
                    let lease = self.leases.begin(place, now);
                    let input = program.steps[usize::from(step)].input;
                    let terms = self.lessors[usize::from(step)].lease(input, &flow, lease)?;
                    steps.push((step, terms.handle));
                    let output = terms.output as u128 + 1;
                    all[usize::from(step)] = Some(terms);
                    output
                }
                Question::Leased { step, what: LeasedProperty::Bytes { offset, length } } => {
                    bytes_of(all[usize::from(step)].as_ref()?, offset, length)?
                }
                Question::List(list) => graph.rule_of(list, packet)?.1.into(),
                ref other => answer(other, packet),
            };
            next = node.next(answer);
        }
        (!steps.is_empty()).then_some(all)
    }

    /// Returns the five-tuple that a packet would have on its arrival at the element of a step, after the
    /// writes of the elements before it. `terms` has the lease terms of the steps before it. Returns `None`
    /// if the five-tuple cannot be computed.
    fn flow_at(&self, step: u16, packet: &Packet, terms: &[Option<Terms>]) -> Option<FiveTuple> {
        let before = &self.program.steps.get(usize::from(step))?.before;
        let network = before.headers[1].unwrap_or(self.program.layout[1])?;
        let transport = before.headers[2].unwrap_or(self.program.layout[2])?;
        let mut bytes = [0; 13];
        let places = (12..20).map(|place| network + place).chain([network + 9]);
        for (byte, place) in bytes.iter_mut().zip(places.chain((0..4).map(|place| transport + place))) {
            *byte = byte_of(before, place, packet, terms)?;
        }
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        Some(FiveTuple::v4((address(0), half(9)), (address(4), half(11)), bytes[8]))
    }
}

/// Returns the value that the byte at offset `place` of the packet would have on its arrival at the element
/// of a step. `before` has the writes until then. Returns `None` if the value cannot be computed, for example
/// because it is a sum.
fn byte_of(before: &TrafficClass, place: i32, packet: &Packet, terms: &[Option<Terms>]) -> Option<u8> {
    let came = |place: ByteLocation| match place {
        ByteLocation::Byte(place) => packet.data().get(usize::try_from(place).ok()?).copied(),
        ByteLocation::Leased(step, offset) => {
            terms.get(usize::from(step))?.as_ref()?.values.get(usize::from(offset)).copied()
        }
        ByteLocation::Annotation(_) => None,
    };
    for write in &before.writes {
        let ByteLocation::Byte(first) = write.place else { continue };
        let within = place - first;
        if !(0..write.value.length() as i32).contains(&within) {
            continue;
        }
        return match &write.value {
            WrittenValue::Constant(bytes) => bytes.get(within as usize).copied(),
            WrittenValue::Copy(from, _) => came(from.after(within)),
            WrittenValue::Plus(..) | WrittenValue::Masked(..) => None,
        };
    }
    came(ByteLocation::Byte(place))
}

pub(super) fn bytes_of(terms: &Terms, offset: u8, length: u8) -> Option<u128> {
    let bytes = terms.values.get(usize::from(offset)..usize::from(offset) + usize::from(length))?;
    Some(bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}
