//! The declaration of a program's effects on packets as one element. For the verifier,
//! [`unfold`](super::unfold) gives a more precise description.

use std::collections::BTreeSet;

use classify::IntervalSet;
use classify::filter::{Condition, HeaderLayer as Part, Test};
use element::Base;
use element::effects::{
    Action, Case, Checksum as Declared, Effects, Field, Filter, HeaderKind, Number, Predicate, Target,
    Value as Set,
};

use super::question::{AnswerSum, Question};
use super::{
    ChecksumOperation, Exit, Next, Node, OrderedRules, Program, TrafficClass, TransportChecksum, WrittenValue,
};
use crate::location::{ByteLocation, IPV4, IPV4_SUM};

/// The maximum number of cases of a program's declaration. A program with more paths, each of which is a
/// case, is declared with one case per class, with opaque conditions.
const MOST_CASES: usize = 4000;

/// The maximum number of rules of a list that the declaration gives one by one. A program with a longer
/// list is declared with opaque conditions.
const MOST_RULES: usize = 64;

/// The reference point from which offsets of bytes after an IPv4 header are counted.
#[derive(Clone, Copy)]
pub(crate) enum Behind {
    /// The start of the packet, as for all other bytes.
    Start,
    /// The end of the IPv4 header at this offset, which is known to have no options.
    Marked(i32),
    /// The end of the IPv4 header at this offset if the header has no options, else the packet's start.
    Either(i32),
}

pub(crate) fn mark(base: Base, offset: Option<i32>) -> Action {
    let bytes = offset.map(|offset| offset.to_be_bytes().to_vec()).unwrap_or_default();
    Action::Set(Field::HeaderOffset(base), Set::Constant(bytes))
}

/// Returns the declaration of a program as one element, with a case for each path through its decision graph.
/// If packets may have another layout than the program's, the first case is for these packets. If there are
/// more than `MOST_CASES` cases, or a list has more than `MOST_RULES` rules, the declaration has one case per
/// class instead. These cases name the fields that are read, but not their conditions; the last case has no
/// condition at all.
pub fn effects(program: &Program) -> Effects {
    let mut cases = Vec::new();
    if !program.is_certain {
        cases.push(Case::new(laid_out(program).not(), Target::Output(program.otherwise)));
    }
    let mut path = Vec::new();
    if !add_paths(program, program.start, &mut path, &mut cases) {
        cases.truncate(usize::from(!program.is_certain));
        let reads: Vec<Field> =
            program.nodes.iter().flat_map(|node| asked(program, &node.question)).collect();
        for class in &program.classes {
            let when = Filter::Leaf(Predicate::Opaque { about: "one of many classes", reads: reads.clone() });
            cases.push(alone(program, class, when));
        }
        // Each packet belongs to exactly one of the cases, so the last case needs no condition.
        if let Some(last) = cases.last_mut() {
            last.when = Filter::TRUE;
        }
    }
    Effects::cases(cases)
}

/// Returns the case of a class: the condition `when`, and the operation of the class. If the program's layout
/// marks the IPv4 header, the operation on its checksum is declared as such. Otherwise the checksum field is
/// declared as set to an unknown function of the header, because only checksums of marked headers can be
/// declared.
fn alone(program: &Program, class: &TrafficClass, when: Filter) -> Case {
    let transport = class.headers[2].unwrap_or(program.layout[2]);
    match &class.checksum {
        Some(checksum) if program.layout[1] != Some(checksum.header()) => {
            let other = TrafficClass { checksum: None, ..class.clone() };
            pure_sum(operation(&other, when, target(class), transport), class, checksum.header(), "a sum")
        }
        _ => operation(class, when, target(class), transport),
    }
}

fn target(class: &TrafficClass) -> Target {
    match class.exit {
        Exit::Output(output) => Target::Output(output),
        Exit::Drop(reason) => Target::Drop(reason),
    }
}

/// Adds a case to `cases` for each path from `next` to a class. `path` has the conditions on the way from the
/// start of the program to `next`. Returns false if there are too many cases or rules; `cases` is then
/// incomplete.
fn add_paths(program: &Program, next: Next, path: &mut Vec<Filter>, cases: &mut Vec<Case>) -> bool {
    let node = match next {
        Next::Node(number) => &program.nodes[number as usize],
        Next::Class(number) => {
            let class = &program.classes[number as usize];
            cases.push(alone(program, class, Filter::All(path.clone())));
            return cases.len() <= MOST_CASES;
        }
    };
    let mut go = |filter: Filter, next: Next| {
        path.push(filter);
        let is_told = add_paths(program, next, path, cases);
        path.pop();
        is_told
    };
    match &node.question {
        Question::List(number) => {
            let list = &program.lists[*number as usize];
            let told = |(next, filter): (Next, Filter)| go(filter, next);
            list.rules.len() <= MOST_RULES && outcomes(list, node).into_iter().all(told)
        }
        question => {
            by_next(node).into_iter().all(|(next, set)| go(lies_in(question, &set, Behind::Start), next))
        }
    }
}

/// Returns the nodes and classes that the rules of a list lead to, each with the filter of the packets that
/// are sent there.
fn outcomes(list: &OrderedRules, node: &Node) -> Vec<(Next, Filter)> {
    let mut nexts: Vec<Next> = list.rules.iter().map(|rule| node.next(rule.outcome.into())).collect();
    nexts.sort_unstable();
    nexts.dedup();
    let leads = |to: Next| {
        // Folds from the last rule to the first, because each rule takes precedence over the rules after it.
        list.rules.iter().rev().fold(Filter::FALSE, |rest, rule| {
            let when = condition(&rule.condition, list, Behind::Start);
            match node.next(rule.outcome.into()) == to {
                true => Filter::Any(vec![when, rest]),
                false => Filter::All(vec![when.not(), rest]),
            }
        })
    };
    nexts.into_iter().map(|next| (next, leads(next))).collect()
}

/// Returns the nodes and classes that a node leads to, each with the set of answers that lead there.
pub fn by_next(node: &Node) -> Vec<(Next, IntervalSet)> {
    let mut sets: Vec<(Next, Vec<(u128, u128)>)> = Vec::new();
    let mut low = 0;
    for &(last, next) in &node.parts {
        match sets.iter_mut().find(|(other, _)| *other == next) {
            Some((_, intervals)) => intervals.push((low, last)),
            None => sets.push((next, vec![(low, last)])),
        }
        low = last.saturating_add(1);
    }
    sets.into_iter().map(|(next, intervals)| (next, intervals.into_iter().collect())).collect()
}

pub(crate) fn laid_out(program: &Program) -> Filter {
    if program.is_certain {
        return Filter::TRUE;
    }
    let header = |(base, place): (Base, Option<i32>)| {
        let offset = || Number::of(Field::HeaderOffset(base));
        match place {
            Some(place) => {
                let place = || Number::constant(place.into());
                Filter::All(vec![
                    Predicate::at_most(offset(), place()),
                    Predicate::at_most(place(), offset()),
                ])
            }
            None => {
                // A comparison with the offset of a header that is not marked is always false. So this
                // comparison of zero times the offset with zero is true exactly if the header is marked.
                let marked = Number::constant(0).plus(0, Field::HeaderOffset(base), u128::MAX);
                Predicate::at_most(marked, Number::constant(0)).not()
            }
        }
    };
    let needed = usize::from(!program.needs_link);
    let headers = [Base::Mac, Base::Network, Base::Transport].into_iter().zip(program.layout);
    Filter::All(headers.skip(needed).map(header).collect())
}

pub(crate) fn field(place: ByteLocation, length: u16) -> Field {
    match place {
        ByteLocation::Byte(offset) => Field::Bytes { base: Base::Data, offset, length },
        ByteLocation::Annotation(offset) => Field::Annotation { offset, length: length.min(48) as u8 },
        // A leased value is not part of the packet, and no filter reads it as a field; the result is only a
        // placeholder.
        ByteLocation::Leased(..) => Field::Payload,
    }
}

fn field_of(question: &Question) -> Option<Field> {
    Some(match *question {
        Question::Length => Field::Length,
        Question::Kind => Field::Kind,
        Question::Bytes { offset, length } => field(ByteLocation::Byte(offset), length.into()),
        Question::Annotation { offset, length } => field(ByteLocation::Annotation(offset), length.into()),
        Question::AtLeastZero(_)
        | Question::RightChecksum { .. }
        | Question::List(_)
        | Question::Leased { .. } => return None,
    })
}

fn number(sum: &AnswerSum) -> Number {
    let terms =
        sum.terms.iter().filter_map(|(factor, question, mask)| Some((*factor, field_of(question)?, *mask)));
    Number { constant: sum.constant, terms: terms.collect() }
}

/// Returns the fields that a question reads, sorted and without duplicates.
fn asked(program: &Program, question: &Question) -> Vec<Field> {
    let mut fields = Vec::new();
    match question {
        Question::List(number) => {
            let Some(list) = program.lists.get(*number as usize) else { return fields };
            for rule in &list.rules {
                for leaf in condition(&rule.condition, list, Behind::Start).leaves() {
                    leaf.collect_reads(&mut fields);
                }
            }
        }
        question => {
            let filter = lies_in(question, &IntervalSet::one(1, 1), Behind::Start);
            filter.leaves().for_each(|leaf| leaf.collect_reads(&mut fields));
        }
    }
    fields.sort();
    fields.dedup();
    fields
}

/// Returns the filter of the packets for which the answer to a question is in a set; an opaque filter for
/// questions about lists and leases. `header` is the reference point for bytes after the IPv4 header.
pub(crate) fn lies_in(question: &Question, set: &IntervalSet, header: Behind) -> Filter {
    let yes = |filter: Filter| match (set.contains(0), set.contains(1)) {
        (false, true) => filter,
        (true, false) => filter.not(),
        (true, true) => Filter::TRUE,
        (false, false) => Filter::FALSE,
    };
    match question {
        Question::AtLeastZero(sum) => yes(Predicate::at_most(Number::constant(0), number(sum))),
        Question::RightChecksum { offset } => yes(Filter::Leaf(Predicate::RightChecksum {
            header: HeaderKind::Ipv4,
            base: Base::Data,
            offset: *offset,
        })),
        question => match field_of(question) {
            // The answer is zero for packets that do not have all of these bytes, so these packets match,
            // too.
            Some(field @ Field::Bytes { .. }) if set.contains(0) => {
                let there = behind(field.clone(), 0, &IntervalSet::one(0, 0), header);
                Filter::Any(vec![behind(field, u128::MAX, set, header), there.not()])
            }
            Some(field) => behind(field, u128::MAX, set, header),
            None => Filter::Leaf(Predicate::Opaque { about: "what is done to its flow", reads: Vec::new() }),
        },
    }
}

/// Returns the filter of the packets whose IPv4 header at this offset has no options, which means a header
/// length of five words.
pub(crate) fn is_plain(header: i32) -> Filter {
    let field = Field::Bytes { base: Base::Data, offset: header, length: 1 };
    Filter::Leaf(Predicate::In { field, mask: 0x0f, set: IntervalSet::one(5, 5) })
}

/// Returns the filter of the packets for which a field, under a mask, is in a set. A field after the IPv4
/// header is read relative to the reference point `header`.
fn behind(field: Field, mask: u128, set: &IntervalSet, header: Behind) -> Filter {
    let inside = |field: Field| Filter::Leaf(Predicate::In { field, mask, set: set.clone() });
    let Field::Bytes { base: Base::Data, offset, length } = field else { return inside(field) };
    let (Behind::Marked(place) | Behind::Either(place)) = header else { return inside(field) };
    if offset < place + IPV4 {
        return inside(field);
    }
    let there = inside(Field::Bytes { base: Base::Transport, offset: offset - place - IPV4, length });
    match header {
        Behind::Either(_) => {
            let plain = is_plain(place);
            Filter::Any(vec![plain.clone().and([there]), plain.not().and([inside(field)])])
        }
        _ => there,
    }
}

/// Returns the condition of a rule of `list` as a filter. `header` is the reference point for bytes after
/// the IPv4 header.
pub(crate) fn condition(tree: &Condition, list: &OrderedRules, header: Behind) -> Filter {
    tree.replace(&mut |test| of_test(test, list, header))
}

fn of_test(test: &Test, list: &OrderedRules, header: Behind) -> Filter {
    let [network, transport] = list.headers;
    let start = match test.header {
        Part::Mac => 0,
        Part::Network => network,
        Part::Transport => transport,
    };
    let inside = IntervalSet::one(test.low.into(), test.high.into());
    let set = if test.outside { inside.complement(8 * u32::from(test.length)) } else { inside };
    let first = start + i32::from(test.offset);
    let inside = behind(field(ByteLocation::Byte(first), test.length.into()), test.mask.into(), &set, header);
    match &list.end {
        None => inside,
        Some(end) => {
            let reach = Number::constant(i64::from(first) + i64::from(test.length));
            inside.and([Predicate::at_most(reach, number(end))])
        }
    }
}

/// Returns a case with the operation of a class: its condition `when` and its target `to`. `transport` is the
/// offset, from the start of the input packet, of the transport header that is marked after the operation.
pub(crate) fn operation(class: &TrafficClass, when: Filter, to: Target, transport: Option<i32>) -> Case {
    let mut case = Case::new(when, to);
    // Bytes of the input packet that the class writes and then strips have to be written first. So the packet
    // is first extended to the lowest offset at which it starts at any element or is written
    // ([`TrafficClass::front`]), and stripped to the start of the output packet after the writes. All values
    // except leased ones are computed from the input packet.
    let front = class.front();
    if front < 0 {
        case = case.with(Action::Strip(front));
    }
    let at = |place: ByteLocation| match place {
        ByteLocation::Byte(offset) => ByteLocation::Byte(offset - front),
        annotation => annotation,
    };
    for write in &class.writes {
        let length = write.value.length() as u16;
        let value = match &write.value {
            WrittenValue::Constant(bytes) => Set::Constant(bytes.clone()),
            WrittenValue::Copy(ByteLocation::Leased(..), _)
            | WrittenValue::Plus(ByteLocation::Leased(..), ..)
            | WrittenValue::Masked(ByteLocation::Leased(..), ..) => {
                Set::Choose { set: IntervalSet::full(8 * u32::from(length)), key: Vec::new() }
            }
            WrittenValue::Copy(from, _) => Set::Copy(field(*from, length)),
            WrittenValue::Plus(from, _, plus) => Set::Plus(field(*from, length), *plus),
            WrittenValue::Masked(from, and, or) if *from == write.place => {
                Set::Bits { mask: vec![!and], value: vec![*or] }
            }
            WrittenValue::Masked(from, ..) => {
                Set::Pure { name: "bits of another byte", reads: vec![field(*from, 1)] }
            }
        };
        case = case.with(Action::Set(field(at(write.place), length), value));
    }
    if class.start > front {
        case = case.with(Action::Strip(class.start - front));
    }
    for (base, header) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(class.headers) {
        if let Some(place) = header {
            case = case.with(mark(base, place.map(|place| place - class.start)));
        }
    }
    if let Some(kind) = class.kind {
        case = case.with(Action::Set(Field::Kind, Set::Constant(vec![kind])));
    }
    if let Some(port) = class.port {
        case = case.with(Action::Set(Field::InputPort, Set::Constant(vec![port])));
    }
    if class.stamped {
        case = case.with(Action::Set(Field::TimeStamp, Set::Now));
    }
    if let Some(end) = &class.end {
        let length = number(&end.clone().plus_constant(-i64::from(class.start)));
        case = case.with(Action::Set(Field::Length, Set::Number(length)));
    }
    match &class.checksum {
        None => {}
        Some(ChecksumOperation::Updated { header, words }) if !accounts_for_all(class, *header, words) => {
            case = pure_sum(case, class, *header, "a sum over other words");
        }
        // The declaration can only name an operation on the checksum of a marked header. A class that removes
        // the mark is declared to write an unknown function of the header.
        Some(ChecksumOperation::Updated { header, .. } | ChecksumOperation::Recomputed { header })
            if !matches!(class.headers[1], None | Some(Some(_))) =>
        {
            case = pure_sum(case, class, *header, "a sum");
        }
        Some(ChecksumOperation::Updated { .. }) => case.checksum = Declared::Updated(vec![HeaderKind::Ipv4]),
        Some(ChecksumOperation::Recomputed { .. }) => {
            case.checksum = Declared::Recomputed(vec![HeaderKind::Ipv4])
        }
    }
    let Some(sum) = &class.transport_checksum else { return case };
    let accounts = accounts_for_covered(class, sum.header - IPV4, sum);
    match &mut case.checksum {
        Declared::Updated(headers) if accounts && transport == Some(sum.header) => headers.push(sum.protocol),
        Declared::Untouched if accounts && transport == Some(sum.header) => {
            case.checksum = Declared::Updated(vec![sum.protocol]);
        }
        _ => {
            let reads = sum.words.iter().map(|word| field(ByteLocation::Byte(*word), 2)).collect();
            let place = field(ByteLocation::Byte(sum.place() - class.start), 2);
            case = case.with(Action::Set(place, Set::Pure { name: "a transport sum", reads }));
        }
    }
    case
}

/// Returns the offsets, from the start of the input packet, of the packet bytes in `class.writes`. Bytes that
/// the checksum operations of the class write (`checksum`, `transport_checksum`) are not included.
pub fn written(class: &TrafficClass) -> impl Iterator<Item = i32> {
    let places = class.writes.iter().flat_map(|write| {
        let more = 0..write.value.length() as i32;
        more.map(|more| write.place.after(more))
    });
    places.filter_map(|place| match place {
        ByteLocation::Byte(place) => Some(place),
        _ => None,
    })
}

/// True if the update `sum` of a TCP or UDP checksum lists each 16-bit word that the class writes and the
/// checksum covers, and lists no word twice. `network` is the offset of the IPv4 header from the start of the
/// input packet.
pub(crate) fn accounts_for_covered(class: &TrafficClass, network: i32, sum: &TransportChecksum) -> bool {
    let once: BTreeSet<i32> = sum.words.iter().copied().collect();
    let mut covered = covered_words(class, network, sum.header);
    once.len() == sum.words.len() && covered.all(|word| once.contains(&word))
}

/// Returns the offsets, from the start of the input packet, of the 16-bit words that a class writes and that
/// a TCP or UDP checksum covers: the IP addresses, and all bytes from the transport header on. A word of
/// which both bytes are written occurs twice.
pub(crate) fn covered_words(class: &TrafficClass, network: i32, transport: i32) -> impl Iterator<Item = i32> {
    let addresses = network + 12..network + IPV4;
    let covered = written(class).filter(move |place| addresses.contains(place) || *place >= transport);
    covered.map(move |place| {
        let start = if place < transport { network } else { transport };
        start + (place - start) / 2 * 2
    })
}

fn pure_sum(case: Case, class: &TrafficClass, header: i32, name: &'static str) -> Case {
    let sum = field(ByteLocation::Byte(header + IPV4_SUM - class.start), 2);
    let reads = vec![field(ByteLocation::Byte(header), IPV4 as u16)];
    case.with(Action::Set(sum, Set::Pure { name, reads }))
}

/// True if `words`, the words of an update of the IPv4 checksum, contains each 16-bit word of the header that
/// the class writes, and no word twice.
pub fn accounts_for_all(class: &TrafficClass, header: i32, words: &[i32]) -> bool {
    let in_header = |place: &i32| (header..header + IPV4).contains(place);
    let mut written = written(class).filter(in_header).map(|place| header + (place - header) / 2 * 2);
    // A word that the class does not write has the same value before and after, so it is harmless in the
    // update. But the change of a word that is listed twice would be added twice.
    let mut once = words.to_vec();
    once.sort_unstable();
    once.dedup();
    once.len() == words.len() && written.all(|word| words.contains(&word))
}
