//! Taking flows: what becomes of their packets, and what is left of the program for them.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use element::lease::Terms;
use element::{Packet, Timestamp};
use flow::{EndsKey, FlowId, Inserted, MappedKey};
use wire::FiveTuple;

use super::key::kept_bits;
use super::{Flows, Held, Known, MOST_LEFT, MOST_REMEMBERED, MOST_RESTS, NEVER_IDLE, Rest};
use crate::compose::packet::Place;
use crate::program::question::{Leased, Question};
use crate::program::run::{OTHERWISE, Runner, answer};
use crate::program::{Class, Next, Value};

impl Flows {
    /// Takes a packet's flow on lease from all elements that it passes. One that they do not lease stays as it was.
    #[cold]
    pub(super) fn lease(
        &mut self,
        runner: &mut Runner,
        packet: &Packet,
        key: EndsKey,
        hash: u32,
        now: Timestamp,
    ) -> Option<FlowId> {
        // Nobody forgets it but the elements.
        let known = MappedKey::new(key, [0; 6]);
        let (id, is_new) = match self.table.insert(&known, hash, NEVER_IDLE) {
            Ok(Inserted::New(id)) => (id, true),
            Ok(Inserted::Present(id)) => (id, false),
            Err(_) => {
                self.is_full = true;
                return None;
            }
        };
        let place = id.index() as usize;
        let mut steps = Vec::new();
        let terms = self.terms(runner, packet, id.index(), now, &mut steps);
        // One behind the other, as packets pass them.
        let passed: Vec<u16> = steps.iter().map(|(step, _)| *step).collect();
        let taken = terms.and_then(|terms| Some((self.rest_of(runner, packet, &terms)?, terms)));
        let Some((rest, terms)) = taken else {
            self.give_back(steps, id.index());
            if is_new {
                self.table.remove(id);
            }
            return None;
        };
        let mut value = [rest, 0, 0, 0, 0, 0];
        for (number, &(depth, offset)) in self.used.0.iter().enumerate() {
            let terms = passed.get(depth).and_then(|step| terms[usize::from(*step)].as_ref());
            let byte = terms.and_then(|terms| terms.values.get(usize::from(offset)));
            value[1 + number / 4] |= u32::from(byte.copied().unwrap_or(0)) << (8 * (number % 4));
        }
        self.held[place] = Some(Held { id, steps });
        self.leased += 1;
        self.table.touch(id, NEVER_IDLE);
        *self.table.value_mut(id)? = value;
        Some(id)
    }

    /// Remembers the flow of a packet of the batch.
    #[cold]
    pub(super) fn remember(&mut self, runner: &mut Runner, packet: &Packet, place: usize, now: Timestamp) {
        if self.remembered() >= MOST_REMEMBERED {
            return;
        }
        let Some(rest) = self.rest_of(runner, packet, &[]) else { return };
        // One that is there is on lease.
        let flow = MappedKey::new(self.keys[place], [rest, 0, 0, 0, 0, 0]);
        if self.table.insert(&flow, self.hashes[place], now).is_err() {
            self.is_full = true;
        }
    }

    /// Asks the elements that a packet passes what they do to its flow; `None` if one of them cannot say, or none is passed.
    fn terms(
        &self,
        runner: &Runner,
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
                Question::Leased { step, what: Leased::Output } => {
                    let flow = self.flow_at(step, packet, &all)?;
                    let lease = self.leases.begin(place, now);
                    let input = program.steps[usize::from(step)].input;
                    let terms = self.lessors[usize::from(step)].lease(input, &flow, lease)?;
                    steps.push((step, terms.handle));
                    let output = terms.output as u128 + 1;
                    all[usize::from(step)] = Some(terms);
                    output
                }
                Question::Leased { step, what: Leased::Bytes { offset, length } } => {
                    bytes_of(all[usize::from(step)].as_ref()?, offset, length)?
                }
                Question::List(list) => runner.rule_of(list, packet)?.1.into(),
                ref other => answer(other, packet),
            };
            next = node.next(answer);
        }
        (!steps.is_empty()).then_some(all)
    }

    /// The flow that packets are of when they come to a step.
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

    /// What is left of the program for packets of a packet's flow: its number, and the rule of its first list above; `None` if that is too much. Of a flow that is
    /// not on lease there are no terms.
    fn rest_of(&mut self, runner: &mut Runner, packet: &Packet, terms: &[Option<Terms>]) -> Option<u32> {
        let program = self.program.clone();
        let mut rules = Vec::new();
        // Every node leads to later ones, so what they lead to is known when they are looked at from the last one on.
        let mut fixed: HashMap<u32, Fixed> = HashMap::new();
        let mut work = vec![program.start];
        while let Some(next) = work.pop() {
            let Next::Node(number) = next else { continue };
            if fixed.contains_key(&number) {
                continue;
            }
            if fixed.len() >= MOST_LEFT {
                return None;
            }
            let found = self.fixed(runner, number, packet, terms);
            match &found {
                Fixed::To(next) | Fixed::Rule(_, next) => work.push(*next),
                Fixed::Open => {
                    work.extend(program.nodes[number as usize].parts.iter().map(|(_, next)| *next))
                }
            }
            if let Fixed::Rule(rule, _) = found {
                rules.push(rule);
            }
            fixed.insert(number, found);
        }
        let mut numbers: Vec<u32> = fixed.keys().copied().collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut left: HashMap<u32, Next> = HashMap::new();
        let place = |left: &HashMap<u32, Next>, next: Next| match next {
            Next::Node(number) => left.get(&number).copied().unwrap_or(Next::Class(OTHERWISE)),
            class => class,
        };
        for number in numbers {
            let next = match &fixed[&number] {
                Fixed::To(next) => Some(place(&left, *next)),
                Fixed::Rule((list, _), next) => runner.counted(*list, place(&left, *next)),
                Fixed::Open => {
                    let parts = program.nodes[number as usize].parts.iter();
                    runner.branch(number, parts.map(|(_, next)| place(&left, *next)).collect())
                }
            };
            let Some(next) = next else {
                self.is_spent = true;
                return None;
            };
            left.insert(number, next);
        }
        // Several ways may lead to one list.
        rules.sort_unstable();
        rules.dedup();
        let first = rules.first().copied().filter(|(_, rule)| *rule <= u16::MAX.into());
        let others = rules.split_off(usize::from(first.is_some()));
        let rule = first.map_or(0, |(_, rule)| rule);
        let start = place(&left, program.start);
        let mut rest = Rest { start, first: first.map(|(list, _)| list), others, end: None };
        // Without terms it is only remembered, and packets may go wherever they have to.
        if !terms.is_empty() {
            let class = runner.class_of(packet, Some(Known { number: 0, rest: &rest, rule }), &mut |_, _| {})
                as usize;
            rest.end = Some(self.ends.get(class).copied().filter(|end| (1..u32::MAX).contains(&end.steps))?);
        }
        let next = self.rests.len() as u32;
        if self.rests.len() >= MOST_RESTS {
            self.is_spent = true;
            return None;
        }
        let number = *self.numbers.entry(rest).or_insert_with_key(|rest| {
            self.rests.push(rest.clone());
            next
        });
        Some(number | rule << 16)
    }

    /// Where a question leads for all packets of a flow.
    fn fixed(&self, runner: &Runner, number: u32, packet: &Packet, terms: &[Option<Terms>]) -> Fixed {
        let node = &self.program.nodes[number as usize];
        let network = self.network as i32;
        match node.question {
            Question::Leased { step, what } => {
                let about = terms.get(usize::from(step)).and_then(Option::as_ref);
                let answer = about.and_then(|terms| match what {
                    Leased::Output => Some(terms.output as u128 + 1),
                    Leased::Bytes { offset, length } => bytes_of(terms, offset, length),
                });
                let first = self.program.steps[usize::from(step)].after.is_none();
                match answer {
                    Some(answer) => Fixed::To(node.next(answer)),
                    None if first && what == Leased::Output => Fixed::To(node.next(0)),
                    None => Fixed::To(Next::Class(OTHERWISE)),
                }
            }
            Question::List(list) if self.constant_lists.get(list as usize) == Some(&true) => {
                match runner.rule_of(list, packet) {
                    Some((rule, outcome)) => Fixed::Rule((list, rule), node.next(outcome.into())),
                    None => Fixed::Open,
                }
            }
            Question::Bytes { offset, length } => {
                let mut places = offset - network..offset - network + i32::from(length);
                if places.clone().all(|place| kept_bits(place) == 0xff) {
                    return Fixed::To(node.next(answer(&node.question, packet)));
                }
                // Of the word with the fragment offset only "may be fragmented" and a reserved bit differ.
                if (places.next(), length) == (Some(6), 2) {
                    let mut nexts = [0, 0x4000, 0x8000, 0xc000].into_iter().map(|answer| node.next(answer));
                    let first = nexts.next().unwrap_or_default();
                    return if nexts.all(|next| next == first) { Fixed::To(first) } else { Fixed::Open };
                }
                Fixed::Open
            }
            _ => Fixed::Open,
        }
    }
}

/// What is known of a question for all packets of a flow.
enum Fixed {
    /// It leads there.
    To(Next),
    /// This rule holds.
    Rule((u32, u32), Next),
    /// It depends on the packet.
    Open,
}

/// A byte of the packet when it comes to a step.
fn byte_of(before: &Class, place: i32, packet: &Packet, terms: &[Option<Terms>]) -> Option<u8> {
    let came = |place: Place| match place {
        Place::Byte(place) => packet.data().get(usize::try_from(place).ok()?).copied(),
        Place::Leased(step, offset) => {
            terms.get(usize::from(step))?.as_ref()?.values.get(usize::from(offset)).copied()
        }
        Place::Annotation(_) => None,
    };
    for write in &before.writes {
        let Place::Byte(first) = write.place else { continue };
        let within = place - first;
        if !(0..write.value.length() as i32).contains(&within) {
            continue;
        }
        return match &write.value {
            Value::Constant(bytes) => bytes.get(within as usize).copied(),
            Value::Copy(from, _) => came(from.behind(within)),
            Value::Plus(..) | Value::Masked(..) => None,
        };
    }
    came(Place::Byte(place))
}

fn bytes_of(terms: &Terms, offset: u8, length: u8) -> Option<u128> {
    let bytes = terms.values.get(usize::from(offset)..usize::from(offset) + usize::from(length))?;
    Some(bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)))
}
