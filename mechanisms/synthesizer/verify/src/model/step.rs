//! The transfer function of one element: from a symbolic packet that arrives, and the element's
//! declaration, to the symbolic packets that leave.
//!
//! The first case of the declaration whose filter accepts the packet decides ([`Unit::step`]). Its actions
//! change the packet one after the other; then its effect on checksums is applied, and its target gives the
//! destination. The packets that the element makes from the packet are added. A value that the declaration
//! leaves open is an uninterpreted function ([`super::functions`]).

use element::effects::{
    Action, Case, Checksum, Depends, EXTRA_LENGTH, Effects, Field, Filter, HeaderKind, Hold, Predicate,
    StateAccess, Target, Value,
};
use element::{Base, DropReason};

use super::arrival::Arrival;
use super::branches::{Branch, BranchHistory};
use super::diagrams::{Bit, Diagrams, Term};
use super::functions::Functions;
use super::offsets::{anywhere, in_byte_region, real, region_at};
use super::packet::{LENGTH_BITS, PacketModel};
use super::sums::ChecksumHistory;
use super::word::{Word, bits_in};
use program::chain::ChainNode;

/// The maximum number of different header offsets for each of which the execution forks; an IP header has
/// eleven possible lengths. If there are more offsets, the packet counts as unknown.
const MOST_PLACES: usize = 64;

/// An element of a chain as the transfer function sees it: its declaration, the names of its uninterpreted
/// functions, and the place of the present packet in the stream of arriving packets.
#[derive(Clone, Copy)]
pub struct Unit<'u> {
    /// The declaration of the element.
    pub effects: &'u Effects,
    /// The text that identifies the element's function ([`ChainNode::function`]). Elements with equal texts
    /// do the same.
    pub key: &'u str,
    /// The number of the element's outputs: one more than the highest connected output.
    pub outputs: usize,
    /// The applications of uninterpreted functions so far. They are shared by all elements, in all compared
    /// chains, that handle packets from the same start.
    pub functions: &'u Functions,
    /// A number for the stream of packets that arrive at the element and for the packet's position in the
    /// stream; 0 if the element's result depends on the packet alone. If the numbers are equal in two chains,
    /// results that depend on earlier packets are equal, too.
    pub stream: u32,
    /// True if the stream of packets that arrive at the element (`stream`) determines, for each input packet
    /// of the chain, the arriving packet and its position in the stream. Values that depend on earlier
    /// packets are then functions of the stream alone.
    pub says_all: bool,
    /// True to assume that the element, if it is a queue, always has room.
    pub has_room: bool,
    /// The input at which the packet arrives. Values that only the element knows may differ between inputs.
    pub input: usize,
}

/// The destination of a packet that leaves an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// The element's output with this index.
    Output(usize),
    /// Out of the chain: the element is an exit.
    Out,
    /// Nowhere: the element drops the packet for this reason.
    Drop(DropReason),
}

/// A packet that leaves an element on one path.
pub struct LeavingPacket {
    /// The destination of the packet.
    pub to: To,
    /// The path condition: the input packets for which a packet leaves on this path, by this destination.
    pub condition: Bit,
    /// The packet as it leaves.
    pub packet: PacketModel,
    /// `None` for the packet itself; for a copy that is sent in addition, the index of the copy's emission in
    /// the element's declaration.
    pub copy: Option<usize>,
}

/// A packet that an element makes from the packet that arrives, such as an ICMP error.
pub struct Derived {
    /// The name of the emission in the declaration.
    pub name: &'static str,
    /// The index of the emission in the element's declaration.
    pub number: usize,
    /// The output by which the packet leaves; `None` for every output.
    pub output: Option<usize>,
    /// The header at the start of the new packet, if the declaration says it.
    pub starts: Option<HeaderKind>,
    /// The input packets for which the new packet is made.
    pub condition: Bit,
    /// The new packet: the value of an uninterpreted function of which nothing else is known.
    pub packet: PacketModel,
}

/// The result of an element for one symbolic packet.
#[derive(Default)]
pub struct StepResult {
    /// The packet that arrived, as it leaves: once for each path and, if it is copied, for each output.
    pub leaving: Vec<LeavingPacket>,
    /// New packets that the element makes from this packet.
    pub derived: Vec<Derived>,
    /// True if the element is a queue that was assumed to have room.
    pub ignores_full_queues: bool,
}

impl<'u> Unit<'u> {
    /// Makes the unit of the element `node`, for packets that arrive at `input` and have the number `stream`
    /// ([`stream`](Self::stream)). Queues are assumed to have room, and the stream is not assumed to
    /// determine the packet.
    pub fn of(node: &'u ChainNode, functions: &'u Functions, stream: u32, input: usize) -> Unit<'u> {
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

    /// Returns, for each case for this input, its index and the condition that its filter accepts the
    /// packet, even if an earlier case does so, too. `None` if nothing is known of the packet or of the
    /// element.
    pub fn conditions(
        &self,
        d: &Diagrams,
        condition: &Bit,
        packet: &PacketModel,
    ) -> Option<Vec<(usize, Bit)>> {
        if self.effects.opaque.is_some() || packet.lost.is_some() {
            return None;
        }
        let cases = self.effects.cases.iter().enumerate();
        let here = cases.filter(|(_, case)| case.input.is_none_or(|i| i == self.input));
        let holds = |case: &Case| d.and(condition, &self.holds(d, condition, &case.when, packet));
        Some(here.map(|(number, case)| (number, holds(case))).collect())
    }

    /// Applies the element to a symbolic packet, for the input packets of `condition`.
    pub fn step(&self, d: &Diagrams, condition: &Bit, packet: &PacketModel) -> StepResult {
        let mut outcome = StepResult::default();
        let is_plain = matches!(&self.effects.cases[..], [only]
            if only.when == Filter::TRUE && only.actions.is_empty() && only.input.is_none());
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

    /// Returns the condition that any filter of `cases` accepts the packet and, for each case, the condition
    /// that its filter is the first one that accepts the packet. Long lists are halved recursively, so that
    /// large diagrams are combined few times. Cases that leave the packet unchanged and have the same
    /// destination are merged to the first of them, because rule sets have few different destinations.
    fn first_match(
        &self,
        d: &Diagrams,
        condition: &Bit,
        cases: &[usize],
        packet: &PacketModel,
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

    /// True if both cases have no actions, an equal effect on checksums, and an equal destination that the
    /// element does not choose.
    fn do_the_same(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.effects.cases[a], &self.effects.cases[b]);
        let unchanged = a.actions.is_empty() && b.actions.is_empty() && a.checksum == b.checksum;
        (&a.to, a.otherwise) == (&b.to, b.otherwise) && unchanged && a.to != Target::SomeOutput
    }

    /// Returns the leaving packets with their destinations and branch histories. If several packets leave for
    /// one input packet, the branch that each packet takes at this element is added to its history. If the
    /// element holds packets, a wait is added. Packets that leave by no output have an empty history.
    pub fn with_branches(
        &self,
        d: &Diagrams,
        node: usize,
        history: &BranchHistory,
        leaving: Vec<LeavingPacket>,
        made: &[Derived],
    ) -> Vec<(To, Arrival)> {
        let copies = self.effects.cases.iter().any(|case| case.to == Target::AllOutputs);
        let copied = leaving.iter().filter(|leaving| leaving.copy.is_some()).map(|copy| &copy.condition);
        let others = made.iter().map(|made| &made.condition).chain(copied);
        let part = if copies { d.yes() } else { others.fold(d.no(), |any, more| d.or(&any, more)) };
        let mut arrivals = Vec::with_capacity(leaving.len());
        for LeavingPacket { to, condition, packet, copy } in leaving {
            let To::Output(output) = to else {
                arrivals.push((to, Arrival { condition, packet, history: BranchHistory::default() }));
                continue;
            };
            let taken = history.taken(node, copy.map_or(Branch::Output(output), Branch::Made));
            for (part, history) in [(part.clone(), taken), (d.not(&part), history.clone())] {
                let condition = d.and(&condition, &part);
                if !d.is_never(&condition) {
                    let history = if self.effects.hold == Hold::None { history } else { history.waited() };
                    arrivals.push((to, Arrival { condition, packet: packet.clone(), history }));
                }
            }
        }
        arrivals
    }

    /// True if the case is for packets that a full queue drops; a queue with room does not apply it.
    fn is_overflow(&self, case: &Case) -> bool {
        let says_nothing =
            matches!(&case.when, Filter::Leaf(Predicate::Opaque { reads, .. }) if reads.is_empty());
        says_nothing && matches!(self.effects.hold, Hold::Fifo { may_drop: true })
    }

    /// Returns the term for a value that only the element knows. `what` names the value; it is a function
    /// of the fields `reads` of the packet, for the input packets of `condition`.
    fn unknown(
        &self,
        d: &Diagrams,
        what: &str,
        condition: &Bit,
        packet: &PacketModel,
        reads: &[Field],
    ) -> Term {
        self.unknown_among(d, what, Vec::new(), condition, packet, reads)
    }

    /// Returns a term as [`unknown`](Self::unknown) does. `numbers` are additional arguments of the
    /// function, such as the bounds of a choice.
    fn unknown_among(
        &self,
        d: &Diagrams,
        what: &str,
        mut numbers: Vec<i64>,
        condition: &Bit,
        packet: &PacketModel,
        reads: &[Field],
    ) -> Term {
        numbers.push(self.input as i64);
        let remembers = remembers(self.effects) || self.effects.opaque.is_some() || packet.lost.is_some();
        if remembers {
            numbers.push(self.stream.into());
        }
        let function = Term { name: format!("{} {what}", self.key), numbers, bits: Vec::new() };
        // The stream of arriving packets, whose number is in the term, determines the packet, so the fields
        // that are read add nothing.
        let reads = if remembers && self.says_all { &[] } else { reads };
        self.functions.value(d, function, reads, self.effects.support.keeps_to_header, condition, packet)
    }

    /// Returns the condition that `filter` accepts the packet, for the input packets of `condition`.
    fn holds(&self, d: &Diagrams, condition: &Bit, filter: &Filter, packet: &PacketModel) -> Bit {
        match filter {
            Filter::Constant(value) => {
                if *value {
                    d.yes()
                } else {
                    d.no()
                }
            }
            Filter::Leaf(Predicate::In { field, mask, set }) => {
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
            Filter::Leaf(Predicate::Present(header)) => match packet.place(header.base()) {
                Some(place) => packet.reaches(d, place + i32::from(header.least_length())),
                None => d.no(),
            },
            Filter::Leaf(Predicate::RightChecksum { header, base, offset }) => packet
                .sum_key(*header, *base, *offset)
                .map_or(d.no(), |key| ChecksumHistory::right(d, packet, key)),
            Filter::Leaf(Predicate::AtMost(a, b)) => {
                let ((a, a_there), (b, b_there)) = (packet.number(d, a), packet.number(d, b));
                d.all([&a.at_most(d, &b), &a_there, &b_there])
            }
            Filter::Leaf(Predicate::State { table, hit }) => {
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
            Filter::Any(parts) => {
                parts.iter().fold(d.no(), |one, part| d.or(&one, &self.holds(d, condition, part, packet)))
            }
            Filter::Choose(parts) => {
                let [chooses, then, otherwise] =
                    parts.each_ref().map(|part| self.holds(d, condition, part, packet));
                d.or(&d.and(&chooses, &then), &d.and(&d.not(&chooses), &otherwise))
            }
            Filter::Leaf(Predicate::Opaque { about, reads }) => {
                d.value(self.unknown(d, about, condition, packet, reads), 1).remove(0)
            }
        }
    }

    /// Executes the case with index `number` for the packet `before`, for the input packets of `condition`.
    /// Adds the packets that leave to `outcome`.
    fn carry_out(
        &self,
        d: &Diagrams,
        number: usize,
        condition: &Bit,
        before: &PacketModel,
        outcome: &mut StepResult,
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
                // A packet for an output that is not connected is dropped for the reason that the case
                // gives.
                let to = match to {
                    To::Output(output) if output >= self.outputs => To::Drop(case.otherwise),
                    to => to,
                };
                if !d.is_never(&condition) {
                    outcome.leaving.push(LeavingPacket { to, condition, packet, copy: None });
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
                    case.when.leaves().for_each(|leaf| leaf.collect_reads(&mut reads));
                    // The number of outputs is part of the function's name: a choice among two outputs is
                    // another function than a choice among four.
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

    /// Executes the remaining `actions` on `packet`. Calls `done` at the end of each path, with its
    /// condition, the packet, and the offsets that were written. Values are taken from `before`, the packet
    /// as it arrived. If the offset of a header depends on the packet, the execution forks for each offset,
    /// except for offsets that start a byte region.
    #[allow(clippy::too_many_arguments, reason = "a recursion with its state")]
    fn act(
        &self,
        d: &Diagrams,
        before: &PacketModel,
        condition: &Bit,
        mut packet: PacketModel,
        actions: &[Action],
        written: &mut Vec<i32>,
        done: &mut dyn FnMut(Bit, PacketModel, &[i32]),
    ) {
        let Some((action, rest)) = actions.split_first() else {
            done(condition.clone(), packet, written);
            return;
        };
        // Calls `change` with the offset that is `number` bytes after the packet's start, once for each value
        // that `number` may have, and continues with the remaining actions for that offset.
        let places = |number: &Word,
                      done: &mut dyn FnMut(Bit, PacketModel, &[i32]),
                      change: &dyn Fn(&mut PacketModel, i32)| {
            let place = number.plus(d, &real(d, packet.start));
            let mut go_on = |condition: Bit, place: i32| {
                let mut packet = packet.clone();
                change(&mut packet, place);
                self.act(d, before, &condition, packet, rest, &mut written.clone(), done);
            };
            let mut told_apart = condition.clone();
            if !d.is_exact() && place.known(d).is_none() {
                // If `number` depends on the packet, offsets at or after the end of the shortest IP header
                // start a byte region. Only lower offsets, inside of that header, cause forks.
                let frontier = packet.frontier();
                let behind = Word::constant(d, frontier.into()).at_most(d, &place);
                let in_byte_region = d.and(condition, &behind);
                told_apart = d.and_not(condition, &behind);
                if !d.is_never(&in_byte_region) {
                    go_on(in_byte_region, region_at(d, &place, frontier));
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
                    done(told_apart, PacketModel::lost(d, d.term(term)), &[]);
                }
            }
        };
        match action {
            Action::Strip(n) => {
                // A packet with fewer than `n` bytes becomes empty, and keeps its start.
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
                    // The model does not describe what the engine does if the headroom is used up, so the
                    // packet counts as unknown.
                    let term = self.unknown(d, "no headroom", condition, before, &[Field::Payload]);
                    packet = PacketModel::lost(d, d.term(term));
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
                // After a change of length, no byte is certain to be a byte of the input packet.
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
                    // The copied header offset counts from the start that the packet had before the actions
                    // of this case.
                    let place = before.place(*other).map(|place| match in_byte_region(place) {
                        true => place,
                        false => place - before.start + packet.start,
                    });
                    packet.mark(*base, place);
                }
                _ if *base == Base::Transport && !d.is_exact() => {
                    // A transport header usually follows the IPv6 header directly. The uninterpreted function
                    // gives the distance of the transport header from the end of the IPv6 header.
                    let network = packet.place(Base::Network).unwrap_or(packet.start);
                    let usual = real(d, network + i32::from(HeaderKind::Ipv6.least_length()));
                    let term = self.unknown(d, "a header somewhere", condition, before, &[Field::Payload]);
                    packet.mark(*base, Some(anywhere(d, &usual, term)));
                }
                _ => {
                    let term = self.unknown(d, "a header somewhere", condition, before, &[Field::Payload]);
                    packet = PacketModel::lost(d, d.term(term));
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
                            // The bits outside of `mask` are read at the header's present offset, even if the
                            // packet's start has moved. Bytes after the packet's end are read and written
                            // like other bytes; no exit can see that.
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
                written.extend(match self.effects.support.keeps_to_header {
                    true => packet.set_header(d, field, &bits),
                    false => packet.set_field(d, field, &bits),
                });
            }
        }
        self.act(d, before, condition, packet, rest, written, done);
    }

    /// Returns the `width` bits that a case assigns to `field`, most significant first.
    fn value(
        &self,
        d: &Diagrams,
        field: &Field,
        value: &Value,
        condition: &Bit,
        before: &PacketModel,
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
            // The field is part of the function's name, because a function may have another value for another
            // field.
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
                // The permitted values and the field are part of the function's identity. Thus a choice among
                // other values is another function. The choices for a source and for a destination are
                // different functions, even if both depend on the same fields.
                let what = format!("choice of {field:?}");
                let mut numbers = vec![width as i64];
                numbers.extend(set.intervals().iter().flat_map(|&(low, high)| [low as i64, high as i64]));
                d.value(self.unknown_among(d, &what, numbers, condition, before, key), width)
            }
            Value::Now => d.value(Term { name: "now".into(), ..Term::default() }, width),
        }
    }

    /// Applies a case's effect on the checksums of `packet`, after the case has written the bytes at
    /// `places`.
    fn sum_up(
        &self,
        d: &Diagrams,
        checksum: &Checksum,
        before: &PacketModel,
        packet: &mut PacketModel,
        places: &[i32],
    ) {
        match checksum {
            Checksum::Untouched => {}
            Checksum::Updated(headers) => {
                for header in headers {
                    if let Some(key) = packet.sum_key(*header, header.base(), 0) {
                        let sum = ChecksumHistory::updated(d, before, packet, key, places);
                        packet.keep(d, key, sum);
                    }
                }
            }
            Checksum::Recomputed(headers) => {
                for header in headers {
                    if let Some(key) = packet.sum_key(*header, header.base(), 0) {
                        let sum = ChecksumHistory::computed(d, packet, key);
                        packet.keep(d, key, sum);
                    }
                }
            }
        }
    }

    /// Adds to `outcome` the copies and the new packets that the declaration's emissions make of the
    /// packet.
    fn emit(&self, d: &Diagrams, condition: &Bit, packet: &PacketModel, outcome: &mut StepResult) {
        let copies = self.effects.cases.iter().any(|case| case.to == Target::AllOutputs);
        let all = self.effects.emits.iter().enumerate();
        for (number, emit) in all.filter(|(_, emit)| emit.input.is_none_or(|i| i == self.input)) {
            // If a case sends the packet to all outputs, the copies at these outputs are among the leaving
            // packets already.
            if copies && emit.output.is_none() {
                continue;
            }
            if emit.is_copy()
                && let Some(output) = emit.output
            {
                let condition = d.and(condition, &self.holds(d, condition, &emit.when, packet));
                if output < self.outputs && !d.is_never(&condition) {
                    let (to, packet) = (To::Output(output), packet.clone());
                    outcome.leaving.push(LeavingPacket { to, condition, packet, copy: Some(number) });
                }
                continue;
            }
            let condition = d.and(condition, &self.holds(d, condition, &emit.when, packet));
            if d.is_never(&condition) {
                continue;
            }
            let what = format!("{} {number} itself", emit.name);
            let term = self.unknown(d, &what, &condition, packet, &emit.reads);
            let packet = PacketModel::lost(d, d.term(term));
            let (name, output, starts) = (emit.name, emit.output, emit.starts);
            outcome.derived.push(Derived { name, number, output, starts, condition, packet });
        }
    }

    /// Handles packets at an opaque element, and unknown packets at any element: each output, and a drop,
    /// may be the destination, and the packet may be anything. At an exit, an unknown packet leaves the
    /// chain.
    fn lose(&self, d: &Diagrams, condition: &Bit, packet: &PacketModel, outcome: &mut StepResult) {
        let is_sink = self.effects.cases.iter().any(|case| case.to == Target::Send) && packet.lost.is_some();
        if is_sink {
            let (condition, packet) = (condition.clone(), packet.clone());
            outcome.leaving.push(LeavingPacket { to: To::Out, condition, packet, copy: None });
            return;
        }
        let outputs = || vec![self.outputs as i64];
        let unknown = |what| self.unknown_among(d, what, outputs(), condition, packet, &[Field::Payload]);
        let lost = PacketModel::lost(d, d.term(unknown("whatever")));
        for (output, chosen) in alternatives(d, unknown("goes"), self.outputs + 1) {
            let to =
                if output < self.outputs { To::Output(output) } else { To::Drop(DropReason::Unsuitable) };
            let condition = d.and(condition, &chosen);
            outcome.leaving.push(LeavingPacket { to, condition, packet: lost.clone(), copy: None });
        }
    }
}

/// Returns, for each index below `n`, the condition under which the value of `term`, as a number, chooses the
/// alternative with that index. Numbers beyond the last index choose the last alternative.
fn alternatives(d: &Diagrams, term: Term, n: usize) -> Vec<(usize, Bit)> {
    let width = n.next_power_of_two().trailing_zeros() as usize;
    let bits = d.value(term, width);
    let is_one = |number: usize, place: usize| number >> (width - 1 - place) & 1 == 1;
    // Adds the bits from the last to the first, so that the variable of each added bit is above the variables
    // of the result so far, which makes the operation cheap.
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

/// True if the outcome of an element may depend on earlier packets or on chance. Three dependencies do not
/// count: state that is only displayed (counters), switches set by handlers (equal in both chains), and
/// time (packets arrive at the same times in both chains).
pub fn remembers(effects: &Effects) -> bool {
    effects.depends.iter().any(|what| !matches!(what, Depends::Handler | Depends::Time))
        || effects.state.iter().any(|state| state.access != StateAccess::Soft)
}
