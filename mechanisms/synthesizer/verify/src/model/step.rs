//! The transfer function of one element, from its declaration.

use element::effects::{
    Access, Action, Case, Checksum, Depends, EXTRA_LENGTH, Effects, Field, Filter, Header, Hold, Target,
    Value,
};
use element::{Base, DropReason};

use super::branches::{Branch, BranchHistory};
use super::diagrams::{Bit, Diagrams, Term};
use super::explore::Arrival;
use super::functions::Functions;
use super::packet::{LENGTH_BITS, Packet};
use super::places::{anywhere, in_byte_region, real};
use super::sums::Sum;
use super::word::{Word, bits_in};
use program::chain::Node;

/// The maximum number of values of a header's offset that cause forks; an IP header has eleven lengths.
const MOST_PLACES: usize = 64;

/// An element of a chain: its declaration, and the identity of its function.
#[derive(Clone, Copy)]
pub struct Unit<'u> {
    /// The declaration.
    pub effects: &'u Effects,
    /// Class and arguments: elements with equal keys have equal functions.
    pub key: &'u str,
    /// The number of outputs.
    pub outputs: usize,
    /// The uninterpreted functions of packets that start at the same input.
    pub functions: &'u Functions,
    /// The number of the stream that arrives there, and of the packet's position in it: results that depend
    /// on earlier packets are equal in two chains if this number is.
    pub stream: u32,
    /// True if the stream determines, for each input packet, which packet arrives because of it, and at
    /// which position.
    pub says_all: bool,
    /// True if the element, as a queue, always has room.
    pub has_room: bool,
    /// The input that packets arrive at: a value that only the element knows may differ between inputs.
    pub input: usize,
}

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The element's output with this index.
    Output(usize),
    /// Out of the chain, at this element.
    Out,
    /// Nowhere: the packet is dropped.
    Drop(DropReason),
}

/// Packets of one layout that leave an element.
pub struct Leaving {
    /// The destination.
    pub to: To,
    /// The condition on the input packets.
    pub condition: Bit,
    /// The packet after the element.
    pub packet: Packet,
    /// The index of the declared emission, if this is a copy sent in addition to the packet.
    pub copy: Option<usize>,
}

/// A packet that an element makes from another packet.
pub struct Derived {
    /// The name of the emission.
    pub name: &'static str,
    /// The index of the emission in the element's declaration.
    pub number: usize,
    /// The output by which the packet leaves; `None` for every output.
    pub output: Option<usize>,
    /// The header at the packet's start.
    pub starts: Option<Header>,
    /// The condition on the input packets.
    pub condition: Bit,
    /// The packet, as a function of which nothing else is known.
    pub packet: Packet,
}

/// The result of an element for a packet.
#[derive(Default)]
pub struct Outcome {
    /// The packet itself, on each path.
    pub leaving: Vec<Leaving>,
    /// Derived packets that the element makes.
    pub derived: Vec<Derived>,
    /// True if a queue was assumed never to be full.
    pub ignores_full_queues: bool,
}

impl<'u> Unit<'u> {
    /// Makes the unit of an element, for packets that arrive at an input at one position of a stream.
    pub fn of(node: &'u Node, functions: &'u Functions, stream: u32, input: usize) -> Unit<'u> {
        Unit {
            effects: &node.effects,
            key: &node.function,
            outputs: node.forward.len(),
            functions,
            stream,
            says_all: false,
            has_room: true,
            input,
        }
    }

    /// Returns, for each case, the condition that its filter holds, regardless of other cases; `None` if
    /// nothing is known of the packets or of the element.
    pub fn conditions(&self, d: &Diagrams, condition: &Bit, packet: &Packet) -> Option<Vec<(usize, Bit)>> {
        if self.effects.opaque.is_some() || packet.lost.is_some() {
            return None;
        }
        let cases = self.effects.cases.iter().enumerate();
        let here = cases.filter(|(_, case)| case.input.is_none_or(|i| i == self.input));
        let holds = |case: &Case| d.and(condition, &self.holds(d, condition, &case.when, packet));
        Some(here.map(|(number, case)| (number, holds(case))).collect())
    }

    /// Applies the element to a packet.
    pub fn step(&self, d: &Diagrams, condition: &Bit, packet: &Packet) -> Outcome {
        let mut outcome = Outcome::default();
        let is_plain = matches!(&self.effects.cases[..], [only]
            if only.when == Filter::Any && only.actions.is_empty() && only.input.is_none());
        if self.effects.opaque.is_some() || packet.lost.is_some() && !is_plain {
            self.lose(d, condition, packet, &mut outcome);
            return outcome;
        }
        let mut cases: Vec<usize> = Vec::new();
        for (number, case) in self.effects.cases.iter().enumerate() {
            if self.has_room && self.is_overflow(case) {
                outcome.ignores_full_queues = true;
            } else if case.input.is_none_or(|i| i == self.input) {
                cases.push(number);
            }
        }
        let (_, taken) = self.first_match(d, condition, &cases, packet);
        let taken = taken.into_iter().map(|(number, when)| (number, d.and(condition, &when)));
        let taken: Vec<(usize, Bit)> = taken.filter(|(_, here)| !d.is_never(here)).collect();
        for (number, condition) in taken {
            self.carry_out(d, number, &condition, packet, &mut outcome);
        }
        self.emit(d, condition, packet, &mut outcome);
        outcome
    }

    /// Returns the condition that any of these cases holds, and the conditions that each is the first that
    /// holds. Long lists are halved recursively, so that large diagrams meet few times; cases with equal
    /// results are merged, because rule sets have few different results.
    fn first_match(
        &self,
        d: &Diagrams,
        condition: &Bit,
        cases: &[usize],
        packet: &Packet,
    ) -> (Bit, Vec<(usize, Bit)>) {
        match cases {
            [] => (d.no(), Vec::new()),
            &[only] => {
                let when = self.holds(d, condition, &self.effects.cases[only].when, packet);
                (when.clone(), vec![(only, when)])
            }
            cases => {
                let (first, second) = cases.split_at(cases.len() / 2);
                let (matched, mut taken) = self.first_match(d, condition, first, packet);
                if d.known(&matched) == Some(true) {
                    return (matched, taken);
                }
                let (later, more) = self.first_match(d, condition, second, packet);
                for (number, when) in more {
                    let here = d.and_not(&when, &matched);
                    if d.is_never(&here) {
                        continue;
                    }
                    match taken.iter_mut().find(|(other, _)| self.do_the_same(number, *other)) {
                        Some((_, together)) => *together = d.or(together, &here),
                        None => taken.push((number, here)),
                    }
                }
                (d.or(&matched, &later), taken)
            }
        }
    }

    /// True if two cases forward packets to the same destination unchanged.
    fn do_the_same(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.effects.cases[a], &self.effects.cases[b]);
        let unchanged = a.actions.is_empty() && b.actions.is_empty() && a.checksum == b.checksum;
        (&a.to, a.otherwise) == (&b.to, b.otherwise) && unchanged && a.to != Target::SomeOutput
    }

    /// Records the branches taken by packets that come from one packet, if several leave.
    pub fn turn(
        &self,
        d: &Diagrams,
        node: usize,
        turns: &BranchHistory,
        leaving: Vec<Leaving>,
        made: &[Derived],
    ) -> Vec<(To, Arrival)> {
        let copies = self.effects.cases.iter().any(|case| case.to == Target::AllOutputs);
        let copied = leaving.iter().filter(|leaving| leaving.copy.is_some()).map(|copy| &copy.condition);
        let others = made.iter().map(|made| &made.condition).chain(copied);
        let part = if copies { d.yes() } else { others.fold(d.no(), |any, more| d.or(&any, more)) };
        let mut arrivals = Vec::with_capacity(leaving.len());
        for Leaving { to, condition, packet, copy } in leaving {
            let To::Output(output) = to else {
                arrivals.push((to, Arrival { condition, packet, turns: BranchHistory::default() }));
                continue;
            };
            let taken = turns.taken(node, copy.map_or(Branch::Output(output), Branch::Made));
            for (part, turns) in [(part.clone(), taken), (d.not(&part), turns.clone())] {
                let condition = d.and(&condition, &part);
                if !d.is_never(&condition) {
                    let turns = if self.effects.hold == Hold::None { turns } else { turns.waited() };
                    arrivals.push((to, Arrival { condition, packet: packet.clone(), turns }));
                }
            }
        }
        arrivals
    }

    /// True if the case applies to a queue without room.
    fn is_overflow(&self, case: &Case) -> bool {
        let says_nothing = matches!(&case.when, Filter::Opaque { reads, .. } if reads.is_empty());
        says_nothing && matches!(self.effects.hold, Hold::Fifo { may_drop: true })
    }

    /// Returns a value that only the element knows, as a function of the fields it reads, for packets of a
    /// condition.
    fn unknown(&self, d: &Diagrams, what: &str, condition: &Bit, packet: &Packet, reads: &[Field]) -> Term {
        self.unknown_among(d, what, Vec::new(), condition, packet, reads)
    }

    /// Returns a value that only the element knows, of one of several functions that `numbers`
    /// distinguishes.
    fn unknown_among(
        &self,
        d: &Diagrams,
        what: &str,
        mut numbers: Vec<i64>,
        condition: &Bit,
        packet: &Packet,
        reads: &[Field],
    ) -> Term {
        numbers.push(self.input as i64);
        let remembers = remembers(self.effects) || self.effects.opaque.is_some() || packet.lost.is_some();
        if remembers {
            numbers.push(self.stream.into());
        }
        let function = Term { name: format!("{} {what}", self.key), numbers, bits: Vec::new() };
        // The stream determines the fields that are read.
        let reads = if remembers && self.says_all { &[] } else { reads };
        self.functions.value(d, function, reads, self.effects.keeps_to_header, condition, packet)
    }

    /// Returns the condition that a filter accepts the packet.
    fn holds(&self, d: &Diagrams, condition: &Bit, filter: &Filter, packet: &Packet) -> Bit {
        match filter {
            Filter::Any => d.yes(),
            Filter::In { field, mask, set } => {
                let value = packet.field(d, field);
                let width = value.bits.len();
                let masked: Vec<Bit> = value
                    .bits
                    .into_iter()
                    .enumerate()
                    .map(|(i, bit)| if mask >> (width - 1 - i).min(127) & 1 == 1 { bit } else { d.no() })
                    .collect();
                d.and(&value.there, &bits_in(d, &masked, set))
            }
            Filter::Present(header) => match packet.place(header.base()) {
                Some(place) => packet.reaches(d, place + i32::from(header.least_length())),
                None => d.no(),
            },
            Filter::RightChecksum { header, base, offset } => {
                packet.sum_key(*header, *base, *offset).map_or(d.no(), |key| Sum::right(d, packet, key))
            }
            Filter::AtMost(a, b) => {
                let ((a, a_there), (b, b_there)) = (packet.number(d, a), packet.number(d, b));
                d.all([&a.at_most(d, &b), &a_there, &b_there])
            }
            Filter::State { table, hit } => {
                let keys = self.effects.state.iter().filter(|s| s.table == *table);
                let reads: Vec<Field> = keys.flat_map(|s| s.key.iter().cloned()).collect();
                let found = d.value(self.unknown(d, table, condition, packet, &reads), 1).remove(0);
                if *hit { found } else { d.not(&found) }
            }
            Filter::Not(inner) => d.not(&self.holds(d, condition, inner, packet)),
            Filter::All(parts) => {
                let mut all = d.yes();
                for part in parts {
                    if d.is_never(&all) {
                        break;
                    }
                    all = d.and(&all, &self.holds(d, condition, part, packet));
                }
                all
            }
            Filter::One(parts) => {
                parts.iter().fold(d.no(), |one, part| d.or(&one, &self.holds(d, condition, part, packet)))
            }
            Filter::Opaque { about, reads } => {
                d.value(self.unknown(d, about, condition, packet, reads), 1).remove(0)
            }
        }
    }

    /// Executes a case, for packets of the condition.
    fn carry_out(
        &self,
        d: &Diagrams,
        number: usize,
        condition: &Bit,
        before: &Packet,
        outcome: &mut Outcome,
    ) {
        let case = &self.effects.cases[number];
        let mut changed = Vec::new();
        self.act(
            d,
            before,
            condition,
            before.clone(),
            &case.actions,
            &mut Vec::new(),
            &mut |condition, mut packet, places| {
                self.sum_up(d, &case.checksum, before, &mut packet, places);
                changed.push((condition, packet));
            },
        );
        for (condition, packet) in changed {
            let mut leave = |to, condition: Bit, packet| {
                // Packets for an output that the graph lacks are dropped.
                let to = match to {
                    To::Output(output) if output >= self.outputs => To::Drop(case.otherwise),
                    to => to,
                };
                if !d.is_never(&condition) {
                    outcome.leaving.push(Leaving { to, condition, packet, copy: None });
                }
            };
            match case.to {
                Target::Output(output) | Target::Hold(output) => leave(To::Output(output), condition, packet),
                Target::AllOutputs => {
                    (0..self.outputs)
                        .for_each(|output| leave(To::Output(output), condition.clone(), packet.clone()));
                }
                Target::SomeOutput => {
                    let mut reads = Vec::new();
                    case.when.collect_reads(&mut reads);
                    // The choice among two outputs is another function than the choice among four.
                    let what = format!("output {number} of {}", self.outputs);
                    let term = self.unknown(d, &what, &condition, before, &reads);
                    for (output, chosen) in alternatives(d, term, self.outputs) {
                        leave(To::Output(output), d.and(&condition, &chosen), packet.clone());
                    }
                }
                Target::Drop(reason) => leave(To::Drop(reason), condition, packet),
                Target::Send => leave(To::Out, condition, packet),
            }
        }
    }

    /// Executes actions one by one. If the offset of a header depends on the packet, forks for each offset.
    #[allow(clippy::too_many_arguments, reason = "a recursion with its state")]
    fn act(
        &self,
        d: &Diagrams,
        before: &Packet,
        condition: &Bit,
        mut packet: Packet,
        actions: &[Action],
        written: &mut Vec<i32>,
        done: &mut dyn FnMut(Bit, Packet, &[i32]),
    ) {
        let Some((action, rest)) = actions.split_first() else {
            done(condition.clone(), packet, written);
            return;
        };
        // Continues with the remaining actions for each offset that is `number` bytes after the start.
        let places =
            |number: &Word, done: &mut dyn FnMut(Bit, Packet, &[i32]), change: &dyn Fn(&mut Packet, i32)| {
                let place = number.plus(d, &real(d, packet.start));
                let mut go_on = |condition: Bit, place: i32| {
                    let mut packet = packet.clone();
                    change(&mut packet, place);
                    self.act(d, before, &condition, packet, rest, &mut written.clone(), done);
                };
                let mut told_apart = condition.clone();
                if !d.is_exact() && place.known(d).is_none() {
                    // An offset after an IP header starts a byte region. Offsets inside of the header cause
                    // forks, also in a header that the same case marks.
                    let frontier = packet.frontier();
                    let behind = Word::constant(d, frontier.into()).at_most(d, &place);
                    let in_byte_region = d.and(condition, &behind);
                    told_apart = d.and_not(condition, &behind);
                    if !d.is_never(&in_byte_region) {
                        go_on(in_byte_region, d.region_at(place.clone(), frontier));
                    }
                }
                if d.is_never(&told_apart) {
                    return;
                }
                match place.values(d, &told_apart, MOST_PLACES) {
                    Some(values) => {
                        for (place, condition) in values {
                            go_on(condition, i32::try_from(place).unwrap_or(i32::MAX / 2));
                        }
                    }
                    None => {
                        let term = self.unknown(d, "anywhere", &told_apart, before, &[Field::Payload]);
                        done(told_apart, Packet::lost(d, d.term(term)), &[]);
                    }
                }
            };
        match action {
            Action::Strip(n) => {
                // A packet with fewer bytes becomes empty, and keeps its start.
                let whole = packet.reaches(d, packet.start.saturating_add(*n));
                let short = d.and_not(condition, &whole);
                if *n > 0 && !d.is_never(&short) {
                    let mut empty = packet.clone();
                    empty.end = real(d, packet.start);
                    self.act(d, before, &short, empty, rest, &mut written.clone(), done);
                    let condition = d.and(condition, &whole);
                    if !d.is_never(&condition) {
                        packet.strip(d, *n);
                        self.act(d, before, &condition, packet, rest, written, done);
                    }
                    return;
                }
                packet.strip(d, *n);
                if !packet.has_room_in_front() {
                    // At the beginning of the slot, the engine behaves in a way that is not modelled.
                    let term = self.unknown(d, "no headroom", condition, before, &[Field::Payload]);
                    packet = Packet::lost(d, d.term(term));
                }
            }
            Action::Start(number) => {
                let (number, _) = before.number(d, number);
                return places(&number, done, &|packet, place| packet.start_at(d, place));
            }
            Action::Resize(reads) => {
                let length = self.unknown(d, "length", condition, before, reads);
                let length = d.length_bits(length, LENGTH_BITS.into());
                packet.end = Word::from_bits(d, &length).plus(d, &real(d, packet.start));
                // If the packet grows, its new bytes are not bytes of the input packet.
                let contents = [Field::Payload, Field::Length];
                packet.rewrite(d.term(self.unknown(d, "contents", condition, before, &contents)));
            }
            Action::Set(Field::HeaderOffset(base), value) => match value {
                Value::Constant(bytes) if bytes.is_empty() => packet.mark(*base, None),
                Value::Constant(bytes) => {
                    let offset = bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte));
                    packet.mark(*base, Some(packet.start + offset));
                }
                Value::Number(number) => {
                    let (number, _) = before.number(d, number);
                    return places(&number, done, &|packet, place| packet.mark(*base, Some(place)));
                }
                Value::Copy(Field::HeaderOffset(other)) => {
                    // The offset is relative to the former start.
                    let place = before.place(*other).map(|place| match in_byte_region(place) {
                        true => place,
                        false => place - before.start + packet.start,
                    });
                    packet.mark(*base, place);
                }
                _ if *base == Base::Transport && !d.is_exact() => {
                    // The usual offset is directly after the IP header.
                    let network = packet.place(Base::Network).unwrap_or(packet.start);
                    let usual = real(d, network + i32::from(Header::Ipv6.least_length()));
                    let term = self.unknown(d, "a header somewhere", condition, before, &[Field::Payload]);
                    packet.mark(*base, Some(anywhere(d, &usual, term)));
                }
                _ => {
                    let term = self.unknown(d, "a header somewhere", condition, before, &[Field::Payload]);
                    packet = Packet::lost(d, d.term(term));
                }
            },
            Action::Set(field @ Field::Length, value) => {
                let length = match value {
                    Value::Number(number) => before.number(d, number).0,
                    Value::Constant(bytes) => {
                        let length = bytes.iter().fold(0i64, |n, &byte| n << 8 | i64::from(byte));
                        Word::constant(d, length)
                    }
                    Value::Plus(Field::Length, more) => before.length(d).plus(d, &Word::constant(d, *more)),
                    value => Word::from_bits(d, &self.value(d, field, value, condition, before, 24)),
                };
                packet.end = length.plus(d, &real(d, packet.start));
            }
            Action::Set(Field::Payload, value) => {
                let (what, more) = match value {
                    Value::Pure { name, reads } => (*name, &reads[..]),
                    _ => ("contents", &[][..]),
                };
                let reads = [&[Field::Payload], more].concat();
                packet.rewrite(d.term(self.unknown(d, what, condition, before, &reads)));
            }
            Action::Set(field, value) => {
                let width = match field {
                    Field::Bytes { length, .. } => usize::from(*length) * 8,
                    Field::Annotation { length, .. } => usize::from(*length) * 8,
                    Field::TimeStamp => 64,
                    _ => 8,
                };
                let bits = match value {
                    Value::Bits { mask, value } => {
                        let old = match *field {
                            // The other bits keep their position, even if the start of the packet has
                            // moved. Bytes after the end are written and read like others; they are not
                            // visible.
                            Field::Bytes { base, offset, length } => match packet.place(base) {
                                Some(place) => before.bits(d, place + offset, length.into()),
                                None => vec![d.no(); width],
                            },
                            _ => before.field(d, field).bits,
                        };
                        let bit = |bytes: &[u8], i: usize| {
                            bytes.get(i / 8).is_some_and(|b| b >> (7 - i % 8) & 1 == 1)
                        };
                        let mixed = old.into_iter().enumerate();
                        mixed
                            .map(|(i, old)| if bit(mask, i) { d.constant(bit(value, i)) } else { old })
                            .collect()
                    }
                    value => self.value(d, field, value, condition, before, width),
                };
                written.extend(match self.effects.keeps_to_header {
                    true => packet.set_header(d, field, &bits),
                    false => packet.set_field(d, field, &bits),
                });
            }
        }
        self.act(d, before, condition, packet, rest, written, done);
    }

    /// Returns the bits of a value assigned to a field, most significant first.
    fn value(
        &self,
        d: &Diagrams,
        field: &Field,
        value: &Value,
        condition: &Bit,
        before: &Packet,
        width: usize,
    ) -> Vec<Bit> {
        match value {
            Value::Constant(bytes) => {
                let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1));
                let mut bits: Vec<Bit> = bits.map(|bit| d.constant(bit)).collect();
                bits.resize(width, d.no());
                bits
            }
            Value::Copy(from) => {
                let mut bits = before.field(d, from).bits;
                bits.resize(width, d.no());
                bits
            }
            Value::Plus(from, more) => {
                let bits = before.field(d, from).bits;
                let mut carry = d.no();
                let mut sum: Vec<Bit> = Vec::with_capacity(bits.len());
                for (place, bit) in bits.iter().rev().enumerate() {
                    let addend = d.constant(more >> place.min(63) & 1 == 1);
                    let half = d.xor(bit, &addend);
                    sum.push(d.xor(&half, &carry));
                    carry = d.choose(&half, &carry, bit);
                }
                sum.reverse();
                sum
            }
            Value::Number(number) => before.number(d, number).0.to_bits(d, width),
            Value::Native(number) => {
                let bits = before.number(d, number).0.to_bits(d, width);
                match cfg!(target_endian = "little") {
                    true => bits.rchunks(8).flatten().cloned().collect(),
                    false => bits,
                }
            }
            Value::Bits { value, .. } => {
                self.value(d, field, &Value::Constant(value.clone()), condition, before, width)
            }
            // A function of one name may be another function for other arguments or another field.
            Value::Pure { name, reads } => {
                let what = format!("{name} for {field:?}");
                let term = self.unknown(d, &what, condition, before, reads);
                let place = match field {
                    Field::Bytes { base, offset, .. } => before.place(*base).map(|place| place + offset),
                    _ => None,
                };
                match place {
                    Some(place) => d.value_at(term, width, place),
                    None if *field == EXTRA_LENGTH => d.native_length(term, width),
                    None if *field == Field::Length => d.length_bits(term, width as u32),
                    None => d.value(term, width),
                }
            }
            Value::Choose { set, key } => {
                // A choice among other values is another function, and so is a choice for another field (a
                // source and a destination), even if both depend on the same fields.
                let what = format!("choice of {field:?}");
                let mut numbers = vec![width as i64];
                numbers.extend(set.intervals().iter().flat_map(|&(low, high)| [low as i64, high as i64]));
                d.value(self.unknown_among(d, &what, numbers, condition, before, key), width)
            }
            Value::Now => d.value(Term { name: "now".into(), ..Term::default() }, width),
        }
    }

    /// Applies the case's effect on checksums.
    fn sum_up(
        &self,
        d: &Diagrams,
        checksum: &Checksum,
        before: &Packet,
        packet: &mut Packet,
        places: &[i32],
    ) {
        match checksum {
            Checksum::Untouched => {}
            Checksum::Updated(headers) => {
                for header in headers {
                    if let Some(key) = packet.sum_key(*header, header.base(), 0) {
                        let sum = Sum::updated(d, before, packet, key, places);
                        packet.keep(d, key, sum);
                    }
                }
            }
            Checksum::Recomputed(headers) => {
                for header in headers {
                    if let Some(key) = packet.sum_key(*header, header.base(), 0) {
                        let sum = Sum::computed(d, packet, key);
                        packet.keep(d, key, sum);
                    }
                }
            }
        }
    }

    /// Adds the packets that the element makes from others.
    fn emit(&self, d: &Diagrams, condition: &Bit, packet: &Packet, outcome: &mut Outcome) {
        let copies = self.effects.cases.iter().any(|case| case.to == Target::AllOutputs);
        let all = self.effects.emits.iter().enumerate();
        for (number, emit) in all.filter(|(_, emit)| emit.input.is_none_or(|i| i == self.input)) {
            // Copies to all outputs are already among the leaving packets.
            if copies && emit.output.is_none() {
                continue;
            }
            if emit.is_copy()
                && let Some(output) = emit.output
            {
                let condition = d.and(condition, &self.holds(d, condition, &emit.when, packet));
                if output < self.outputs && !d.is_never(&condition) {
                    let (to, packet) = (To::Output(output), packet.clone());
                    outcome.leaving.push(Leaving { to, condition, packet, copy: Some(number) });
                }
                continue;
            }
            let condition = d.and(condition, &self.holds(d, condition, &emit.when, packet));
            if d.is_never(&condition) {
                continue;
            }
            let what = format!("{} {number} itself", emit.name);
            let term = self.unknown(d, &what, &condition, packet, &emit.reads);
            let packet = Packet::lost(d, d.term(term));
            let (name, output, starts) = (emit.name, emit.output, emit.starts);
            outcome.derived.push(Derived { name, number, output, starts, condition, packet });
        }
    }

    /// Handles elements of unknown behaviour, and packets that came out of one.
    fn lose(&self, d: &Diagrams, condition: &Bit, packet: &Packet, outcome: &mut Outcome) {
        let is_sink = self.effects.cases.iter().any(|case| case.to == Target::Send) && packet.lost.is_some();
        if is_sink {
            let (condition, packet) = (condition.clone(), packet.clone());
            outcome.leaving.push(Leaving { to: To::Out, condition, packet, copy: None });
            return;
        }
        let outputs = || vec![self.outputs as i64];
        let unknown = |what| self.unknown_among(d, what, outputs(), condition, packet, &[Field::Payload]);
        let lost = Packet::lost(d, d.term(unknown("whatever")));
        for (output, chosen) in alternatives(d, unknown("goes"), self.outputs + 1) {
            let to =
                if output < self.outputs { To::Output(output) } else { To::Drop(DropReason::Unsuitable) };
            let condition = d.and(condition, &chosen);
            outcome.leaving.push(Leaving { to, condition, packet: lost.clone(), copy: None });
        }
    }
}

/// Returns the conditions under which a function's value chooses each of `n` alternatives: its bits are the
/// index of the alternative, and all numbers beyond the last index choose the last alternative.
fn alternatives(d: &Diagrams, term: Term, n: usize) -> Vec<(usize, Bit)> {
    let width = n.next_power_of_two().trailing_zeros() as usize;
    let bits = d.value(term, width);
    let is_one = |number: usize, place: usize| number >> (width - 1 - place) & 1 == 1;
    // Starts at the last bit, so that each operand below a variable is the result so far.
    let equals = |number: usize| {
        let digits = bits.iter().enumerate().rev();
        digits.fold(d.yes(), |rest, (place, bit)| match is_one(number, place) {
            true => d.and(bit, &rest),
            false => d.and_not(&rest, bit),
        })
    };
    let at_least = |number: usize| {
        let digits = bits.iter().enumerate().rev();
        digits.fold(d.yes(), |rest, (place, bit)| match is_one(number, place) {
            true => d.and(bit, &rest),
            false => d.or(bit, &rest),
        })
    };
    let Some(last) = n.checked_sub(1) else { return Vec::new() };
    (0..last).map(|number| (number, equals(number))).chain([(last, at_least(last))]).collect()
}

/// True if the result for a packet depends on earlier packets, or on chance. Counters that are only
/// displayed do not matter, handlers set the same switches in both chains, and packets arrive at the same
/// times.
pub fn remembers(effects: &Effects) -> bool {
    effects.depends.iter().any(|what| !matches!(what, Depends::Handler | Depends::Time))
        || effects.state.iter().any(|state| state.access != Access::Soft)
}
