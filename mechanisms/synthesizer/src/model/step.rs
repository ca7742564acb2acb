//! What one element makes of a packet, after its declaration.

use element::effects::{
    Access, Action, Case, Checksum, Depends, EXTRA_LENGTH, Effects, Field, Filter, Header, Hold, Target,
    Value,
};
use element::{Base, DropReason};

use super::chain::Node;
use super::diagrams::{Bit, Diagrams, Term};
use super::explore::Arrival;
use super::functions::Functions;
use super::packet::{LENGTH_BITS, Packet};
use super::places::{anywhere, in_region, real};
use super::sums::Sum;
use super::turns::{Turns, Way};
use super::word::{Word, bits_in};

/// Different values of a header's place that are told apart; an IP header has eleven lengths.
const MOST_PLACES: usize = 64;

/// An element of a chain: what its declaration says, and what makes it the same as another one.
#[derive(Clone, Copy)]
pub struct Unit<'u> {
    /// The declaration.
    pub effects: &'u Effects,
    /// Class and arguments: elements that are equal in both do the same.
    pub key: &'u str,
    /// How many outputs it has.
    pub outputs: usize,
    /// What only elements know of packets that start at the same place.
    pub functions: &'u Functions,
    /// Everything that arrives there, and the packet's place in it, as a number: what depends on packets seen before
    /// is the same in two chains if this is.
    pub stream: u32,
    /// Whether the stream says for each packet that came in what arrives because of it, and at which place.
    pub says_all: bool,
    /// Whether it always has room, if it is a queue.
    pub has_room: bool,
    /// The input that packets come to: what only the element knows may be different from one to the other.
    pub input: usize,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// On, by an output.
    Output(usize),
    /// Out of the chain, by this element.
    Out,
    /// It ends.
    Drop(DropReason),
}

/// Packets of one kind that leave an element.
pub struct Leaving {
    /// Where to.
    pub to: To,
    /// For which packets that came in.
    pub condition: Bit,
    /// The packet now.
    pub packet: Packet,
    /// The number of the declared copy, if it is one beside the packet.
    pub copy: Option<usize>,
}

/// A packet that an element makes from another one.
pub struct Derived {
    /// What it is.
    pub name: &'static str,
    /// Its number among those that the element declares.
    pub number: usize,
    /// Where it leaves; `None` for every output.
    pub output: Option<usize>,
    /// The header that it starts with.
    pub starts: Option<Header>,
    /// For which packets that came in.
    pub condition: Bit,
    /// The function that gives it.
    pub packet: Packet,
}

/// What an element makes of a packet.
#[derive(Default)]
pub struct Outcome {
    /// The packet itself.
    pub leaving: Vec<Leaving>,
    /// Others.
    pub derived: Vec<Derived>,
    /// Whether a queue was taken as never full.
    pub ignores_full_queues: bool,
}

impl<'u> Unit<'u> {
    /// An element of a chain, to an input of which packets come at this place of a stream.
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

    /// For which packets of a condition the filter of each case holds, whatever other cases say; `None` if nothing is known
    /// of the packets or of the element.
    pub fn conditions(&self, d: &Diagrams, condition: &Bit, packet: &Packet) -> Option<Vec<(usize, Bit)>> {
        if self.effects.opaque.is_some() || packet.lost.is_some() {
            return None;
        }
        let cases = self.effects.cases.iter().enumerate();
        let here = cases.filter(|(_, case)| case.input.is_none_or(|i| i == self.input));
        let holds = |case: &Case| d.and(condition, &self.holds(d, condition, &case.when, packet));
        Some(here.map(|(number, case)| (number, holds(case))).collect())
    }

    /// What it makes of a packet.
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

    /// For which packets any of these cases holds, and each is the first that does. Long lists are halved and put
    /// together again, so that large diagrams meet few times; cases that do the same are taken together, because rule
    /// sets have few different ones.
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

    /// Whether two cases send packets to the same place unchanged.
    fn do_the_same(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.effects.cases[a], &self.effects.cases[b]);
        let unchanged = a.actions.is_empty() && b.actions.is_empty() && a.checksum == b.checksum;
        (&a.to, a.otherwise) == (&b.to, b.otherwise) && unchanged && a.to != Target::SomeOutput
    }

    /// Notes which ways are taken where several packets leave that come of one.
    pub fn turn(
        &self,
        d: &Diagrams,
        node: usize,
        turns: &Turns,
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
                arrivals.push((to, Arrival { condition, packet, turns: Turns::default() }));
                continue;
            };
            let taken = turns.taken(node, copy.map_or(Way::Output(output), Way::Made));
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

    /// Whether the case is that of a queue without room.
    fn is_overflow(&self, case: &Case) -> bool {
        let says_nothing = matches!(&case.when, Filter::Opaque { reads, .. } if reads.is_empty());
        says_nothing && matches!(self.effects.hold, Hold::Fifo { may_drop: true })
    }

    /// A value that only the element knows, as a function of what it reads, for packets of a condition.
    fn unknown(&self, d: &Diagrams, what: &str, condition: &Bit, packet: &Packet, reads: &[Field]) -> Term {
        self.unknown_among(d, what, Vec::new(), condition, packet, reads)
    }

    /// The same for one of several functions, told apart by numbers.
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
        // What it reads follows from the stream then.
        let reads = if remembers && self.says_all { &[] } else { reads };
        self.functions.value(d, function, reads, self.effects.keeps_to_header, condition, packet)
    }

    /// Where a filter lets the packet in.
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

    /// Does what a case says, for packets of the condition.
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
                // Where the graph has no such output, packets for it end.
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
                    // Among two outputs it chooses otherwise than among four.
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

    /// Carries out actions one by one. Where the place of a header depends on the packet, each place goes on alone.
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
        // Goes on for each place that is a number of bytes behind the start.
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
                    // Behind an IP header is a region; what would be inside of one is told apart, also of one that is marked
                    // by the same case.
                    let frontier = packet.frontier();
                    let behind = Word::constant(d, frontier.into()).at_most(d, &place);
                    let in_region = d.and(condition, &behind);
                    told_apart = d.and_not(condition, &behind);
                    if !d.is_never(&in_region) {
                        go_on(in_region, d.region_at(place.clone(), frontier));
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
                // A packet with fewer bytes becomes empty, and stays where it is.
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
                    // Where the slot begins the engine has its own way, which is not followed.
                    let term = self.unknown(d, "no room in front", condition, before, &[Field::Payload]);
                    packet = Packet::lost(d, d.term(term));
                }
            }
            Action::Start(number) => {
                let (number, _) = before.number(d, number);
                return places(&number, done, &|packet, place| packet.start_at(d, place));
            }
            Action::Resize(reads) => {
                let length = self.unknown(d, "length", condition, before, reads);
                let length = d.weighty(length, LENGTH_BITS.into());
                packet.end = Word::from_bits(d, &length).plus(d, &real(d, packet.start));
                // Where it grows there are no bytes of the packet that came in.
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
                    // Counted from the start that it had.
                    let place = before.place(*other).map(|place| match in_region(place) {
                        true => place,
                        false => place - before.start + packet.start,
                    });
                    packet.mark(*base, place);
                }
                _ if *base == Base::Transport && !d.is_exact() => {
                    // Usually it is right behind the IP header.
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
                            // Others stay where they are, wherever the packet starts by then. Bytes behind the end are written and
                            // read like others; nobody sees them.
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

    /// Bits of a value that a field gets, most significant first.
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
            // A function of the same name may be another one with other arguments, and for another field.
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
                    None if *field == Field::Length => d.weighty(term, width as u32),
                    None => d.value(term, width),
                }
            }
            Value::Choose { set, key } => {
                // Another choice is that of other values, and for another field (a source and a destination), though it may
                // depend on the same.
                let what = format!("choice of {field:?}");
                let mut numbers = vec![width as i64];
                numbers.extend(set.intervals().iter().flat_map(|&(low, high)| [low as i64, high as i64]));
                d.value(self.unknown_among(d, &what, numbers, condition, before, key), width)
            }
            Value::Now => d.value(Term { name: "now".into(), ..Term::default() }, width),
        }
    }

    /// What happens to checksums.
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

    /// Packets that the element makes from others.
    fn emit(&self, d: &Diagrams, condition: &Bit, packet: &Packet, outcome: &mut Outcome) {
        let copies = self.effects.cases.iter().any(|case| case.to == Target::AllOutputs);
        let all = self.effects.emits.iter().enumerate();
        for (number, emit) in all.filter(|(_, emit)| emit.input.is_none_or(|i| i == self.input)) {
            // Copies to all outputs have left already.
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

    /// For elements of which it is not known what they do, and packets that came out of one.
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

/// The conditions under which a function's value chooses each of so many alternatives: its bits are the number of one, and all
/// numbers beyond the last one choose the last one.
fn alternatives(d: &Diagrams, term: Term, n: usize) -> Vec<(usize, Bit)> {
    let width = n.next_power_of_two().trailing_zeros() as usize;
    let bits = d.value(term, width);
    let is_one = |number: usize, place: usize| number >> (width - 1 - place) & 1 == 1;
    // From the last bit on, so that only what has been put together stands behind each of them.
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

/// Whether what becomes of a packet depends on those before it, or on chance. Counts that nobody but people look at do not
/// matter, handlers turn the same switches in both chains, and packets come at the same time.
pub fn remembers(effects: &Effects) -> bool {
    effects.depends.iter().any(|what| !matches!(what, Depends::Handler | Depends::Time))
        || effects.state.iter().any(|state| state.access != Access::Soft)
}

/// Whether a target is a place of its own for packets.
pub(super) fn is_exit(effects: &Effects) -> bool {
    effects.cases.iter().any(|case| case.to == Target::Send)
}
