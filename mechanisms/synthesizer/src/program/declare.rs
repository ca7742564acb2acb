//! What a program does to packets, as a declaration: for the engine, and for the verifier, which knows nothing of how the
//! program was found.

use classify::IntervalSet;
use classify::filter::{Condition, Header as Part, Test, Tree};
use element::Base;
use element::effects::{
    Action, Case, Checksum as Declared, Effects, Field, Filter, Header, Number, Target, Value as Set,
};

use super::question::{Question, Sum};
use super::{Checksum, Class, Exit, List, Next, Node, Program, Value};
use crate::compose::packet::Place;

/// Cases that one declaration may have; those of longer programs say less.
const MOST_CASES: usize = 4000;

/// Rules that are told one by one in a declaration.
const MOST_RULES: usize = 64;

/// An element for one step of a program.
pub struct Stage {
    /// What it does.
    pub effects: Effects,
    /// By output: the number of the stage that follows, or the program's output.
    pub forward: Vec<Forward>,
}

/// Where a stage leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// To another stage.
    Stage(usize),
    /// Out, by an output of the program.
    Output(usize),
}

/// The program as elements of a chain, the first one first: one for each question, one for each class.
pub fn stages(program: &Program) -> Vec<Stage> {
    // Behind the first one, which looks at how packets are laid out.
    let stage = |next: Next| match next {
        Next::Node(number) => 1 + number as usize,
        Next::Class(number) => 1 + program.nodes.len() + number as usize,
    };
    let mut stages = vec![Stage {
        effects: Effects::cases(vec![
            Case::new(laid_out(program), Target::Output(0)),
            Case::new(Filter::Any, Target::Output(1)),
        ]),
        forward: vec![Forward::Stage(stage(program.start)), Forward::Output(program.otherwise)],
    }];
    for node in &program.nodes {
        let mut nexts: Vec<Next> = Vec::new();
        let mut output = |next: Next| {
            let known = nexts.iter().position(|other| *other == next);
            known.unwrap_or_else(|| {
                nexts.push(next);
                nexts.len() - 1
            })
        };
        let cases = match &node.question {
            Question::List(number) => {
                let rules = program.lists.get(*number as usize).map(|list| (&list.rules, list.headers));
                let rules = rules.into_iter().flat_map(|(rules, headers)| rules.iter().map(move |rule| (rule, headers)));
                let case = |(rule, headers): (&super::Rule, [i32; 2])| {
                    let when = condition(&rule.condition, headers);
                    Case::new(when, Target::Output(output(node.next(rule.outcome.into()))))
                };
                rules.map(case).collect()
            }
            question => {
                let parts = by_next(node).into_iter();
                parts.map(|(next, set)| Case::new(lies_in(question, &set), Target::Output(output(next)))).collect()
            }
        };
        let forward = nexts.iter().map(|next| Forward::Stage(stage(*next))).collect();
        stages.push(Stage { effects: Effects::cases(cases), forward });
    }
    for class in &program.classes {
        let (to, forward) = match class.exit {
            Exit::Output(output) => (Target::Output(0), vec![Forward::Output(output)]),
            Exit::Drop(reason) => (Target::Drop(reason), Vec::new()),
        };
        stages.push(Stage { effects: Effects::cases(vec![operation(class, Filter::Any, to)]), forward });
    }
    stages
}

/// The program as one element. Where it would take too many cases, what decides is not said, only what is looked at.
pub fn effects(program: &Program) -> Effects {
    let mut cases = Vec::new();
    if !program.is_certain {
        cases.push(Case::new(laid_out(program).not(), Target::Output(program.otherwise)));
    }
    let mut way = Vec::new();
    if !ways(program, program.start, &mut way, &mut cases) {
        cases.truncate(usize::from(!program.is_certain));
        let reads: Vec<Field> = program.nodes.iter().flat_map(|node| asked(program, &node.question)).collect();
        for class in &program.classes {
            let when = Filter::Opaque { about: "one of many classes", reads: reads.clone() };
            cases.push(operation(class, when, target(class)));
        }
        // One of them it is.
        if let Some(last) = cases.last_mut() {
            last.when = Filter::Any;
        }
    }
    Effects::cases(cases)
}

fn target(class: &Class) -> Target {
    match class.exit {
        Exit::Output(output) => Target::Output(output),
        Exit::Drop(reason) => Target::Drop(reason),
    }
}

/// A case for each way through the graph; false if there are too many.
fn ways(program: &Program, next: Next, way: &mut Vec<Filter>, cases: &mut Vec<Case>) -> bool {
    let node = match next {
        Next::Node(number) => &program.nodes[number as usize],
        Next::Class(number) => {
            let class = &program.classes[number as usize];
            cases.push(operation(class, Filter::All(way.clone()), target(class)));
            return cases.len() <= MOST_CASES;
        }
    };
    let mut go = |filter: Filter, next: Next| {
        way.push(filter);
        let is_told = ways(program, next, way, cases);
        way.pop();
        is_told
    };
    match &node.question {
        Question::List(number) => {
            let list = &program.lists[*number as usize];
            let told = |(next, filter): (Next, Filter)| go(filter, next);
            list.rules.len() <= MOST_RULES && outcomes(list, node).into_iter().all(told)
        }
        question => by_next(node).into_iter().all(|(next, set)| go(lies_in(question, &set), next)),
    }
}

/// For which packets the rules of a list lead where.
fn outcomes(list: &List, node: &Node) -> Vec<(Next, Filter)> {
    let mut nexts: Vec<Next> = list.rules.iter().map(|rule| node.next(rule.outcome.into())).collect();
    nexts.sort_unstable();
    nexts.dedup();
    let leads = |to: Next| {
        // From the last rule on: each decides what those behind it leave.
        list.rules.iter().rev().fold(Filter::Any.not(), |rest, rule| {
            let when = condition(&rule.condition, list.headers);
            match node.next(rule.outcome.into()) == to {
                true => Filter::One(vec![when, rest]),
                false => Filter::All(vec![when.not(), rest]),
            }
        })
    };
    nexts.into_iter().map(|next| (next, leads(next))).collect()
}

/// Answers by where they lead.
fn by_next(node: &Node) -> Vec<(Next, IntervalSet)> {
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

fn laid_out(program: &Program) -> Filter {
    if program.is_certain {
        return Filter::Any;
    }
    let header = |(base, place): (Base, Option<i32>)| {
        let offset = || Number::of(Field::HeaderOffset(base));
        match place {
            Some(place) => {
                let place = || Number::constant(place.into());
                Filter::All(vec![Filter::AtMost(offset(), place()), Filter::AtMost(place(), offset())])
            }
            None => {
                // A question about it fails where it is not marked.
                let marked = Number::constant(0).plus(0, Field::HeaderOffset(base), u128::MAX);
                Filter::AtMost(marked, Number::constant(0)).not()
            }
        }
    };
    Filter::All([Base::Mac, Base::Network, Base::Transport].into_iter().zip(program.layout).map(header).collect())
}

fn field(place: Place, length: u16) -> Field {
    match place {
        Place::Byte(offset) => Field::Bytes { base: Base::Data, offset, length },
        Place::Annotation(offset) => Field::Annotation { offset, length: length.min(48) as u8 },
    }
}

fn field_of(question: &Question) -> Option<Field> {
    Some(match *question {
        Question::Length => Field::Length,
        Question::Kind => Field::Kind,
        Question::Bytes { offset, length } => field(Place::Byte(offset), length.into()),
        Question::Annotation { offset, length } => field(Place::Annotation(offset), length.into()),
        Question::AtLeastZero(_) | Question::RightChecksum { .. } | Question::List(_) => return None,
    })
}

fn number(sum: &Sum) -> Number {
    let terms = sum.terms.iter().filter_map(|(factor, question, mask)| Some((*factor, field_of(question)?, *mask)));
    Number { constant: sum.constant, terms: terms.collect() }
}

/// Fields that a question is about.
fn asked(program: &Program, question: &Question) -> Vec<Field> {
    let mut fields = Vec::new();
    match question {
        Question::List(number) => {
            let Some(list) = program.lists.get(*number as usize) else { return fields };
            for rule in &list.rules {
                condition(&rule.condition, list.headers).collect_reads(&mut fields);
            }
        }
        question => lies_in(question, &IntervalSet::one(1, 1)).collect_reads(&mut fields),
    }
    fields.sort();
    fields.dedup();
    fields
}

/// Where the answer lies in a set.
fn lies_in(question: &Question, set: &IntervalSet) -> Filter {
    let yes = |filter: Filter| match (set.contains(0), set.contains(1)) {
        (false, true) => filter,
        (true, false) => filter.not(),
        (true, true) => Filter::Any,
        (false, false) => Filter::Any.not(),
    };
    match question {
        Question::AtLeastZero(sum) => yes(Filter::AtMost(Number::constant(0), number(sum))),
        Question::RightChecksum { offset } => {
            yes(Filter::RightChecksum { header: Header::Ipv4, base: Base::Data, offset: *offset })
        }
        question => match field_of(question) {
            Some(field) => Filter::In { field, mask: u128::MAX, set: set.clone() },
            None => Filter::Any.not(),
        },
    }
}

/// A rule's condition as a filter.
pub fn condition(tree: &Condition, headers: [i32; 2]) -> Filter {
    let all = |parts: &[Condition]| parts.iter().map(|part| condition(part, headers)).collect();
    match tree {
        Tree::Constant(true) => Filter::Any,
        Tree::Constant(false) => Filter::Any.not(),
        Tree::Not(inner) => condition(inner, headers).not(),
        Tree::All(parts) => Filter::All(all(parts)),
        Tree::Any(parts) => Filter::One(all(parts)),
        Tree::Choose(parts) => {
            let [when, then, otherwise] = parts.each_ref().map(|part| condition(part, headers));
            Filter::One(vec![
                Filter::All(vec![when.clone(), then]),
                Filter::All(vec![when.not(), otherwise]),
            ])
        }
        Tree::Leaf(test) => of_test(test, headers),
    }
}

fn of_test(test: &Test, [network, transport]: [i32; 2]) -> Filter {
    let start = match test.header {
        Part::Mac => 0,
        Part::Network => network,
        Part::Transport => transport,
    };
    let inside = IntervalSet::one(test.low.into(), test.high.into());
    let set = if test.outside { inside.complement(8 * u32::from(test.length)) } else { inside };
    let field = field(Place::Byte(start + i32::from(test.offset)), test.length.into());
    Filter::In { field, mask: test.mask.into(), set }
}

/// What is done to packets of a class.
fn operation(class: &Class, when: Filter, to: Target) -> Case {
    let mut case = Case::new(when, to);
    if class.start != 0 {
        case = case.with(Action::Strip(class.start));
    }
    // Places count from where the packet starts by then; values are those that came in.
    let at = |place: Place| match place {
        Place::Byte(offset) => Place::Byte(offset - class.start),
        annotation => annotation,
    };
    for (base, header) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(class.headers) {
        if let Some(place) = header {
            let bytes = place.map(|place| (place - class.start).to_be_bytes().to_vec()).unwrap_or_default();
            case = case.with(Action::Set(Field::HeaderOffset(base), Set::Constant(bytes)));
        }
    }
    for write in &class.writes {
        let length = write.value.length() as u16;
        let value = match &write.value {
            Value::Constant(bytes) => Set::Constant(bytes.clone()),
            Value::Copy(from, _) => Set::Copy(field(*from, length)),
            Value::Plus(from, _, plus) => Set::Plus(field(*from, length), *plus),
            Value::Masked(from, and, or) if *from == write.place => {
                Set::Bits { mask: vec![!and], value: vec![*or] }
            }
            Value::Masked(from, ..) => Set::Pure { name: "bits of another byte", reads: vec![field(*from, 1)] },
        };
        case = case.with(Action::Set(field(at(write.place), length), value));
    }
    if let Some(kind) = class.kind {
        case = case.with(Action::Set(Field::Kind, Set::Constant(vec![kind])));
    }
    if let Some(end) = &class.end {
        let length = number(&end.clone().plus_constant(-i64::from(class.start)));
        case = case.with(Action::Set(Field::Length, Set::Number(length)));
    }
    match &class.checksum {
        None => {}
        Some(Checksum::Updated { .. }) => case.checksum = Declared::Updated(vec![Header::Ipv4]),
        Some(Checksum::Recomputed { .. }) => case.checksum = Declared::Recomputed(vec![Header::Ipv4]),
    }
    case
}
