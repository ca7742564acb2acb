//! The longest path through a region: the fields that its elements read and write, and the program's
//! questions and writes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use element::Base;
use element::effects::{Action, Case, Checksum, Field, Value};
use wire::ethernet;

use program::chain::Chain;
use program::location::{IPV4, Location};
use program::question::{Leased, Question};
use program::{Class, Exit, Next, Node, Program};

/// The name for checksums of headers.
const CHECKSUM: &str = "IP checksum";

/// The path of the class that passes the most elements.
pub(crate) struct Way<'a> {
    /// The class.
    pub(crate) class: &'a Class,
    /// The elements of the path, in order.
    pub(crate) steps: Vec<Step>,
    /// The offset of the network header from the start of the input packet.
    pub(crate) network: i32,
}

/// An element on the path.
pub(crate) struct Step {
    /// The number of the element in the chain.
    pub(crate) node: usize,
    /// The fields that the element reads.
    pub(crate) reads: BTreeSet<String>,
    /// The fields that the element writes, with repetitions.
    pub(crate) writes: Vec<String>,
}

/// A question on the path.
pub(crate) struct Asked<'a> {
    /// The question, with the successors of its answers.
    pub(crate) node: &'a Node,
    /// The successor on the path.
    pub(crate) next: Next,
}

/// Returns the length of a program's longest path: the number of elements of the chain that it was made of,
/// and the number of questions that the program asks in their place. `None` if there are no classes.
pub fn lengths(chain: &Chain, program: &Program) -> Option<[usize; 2]> {
    let way = Way::new(chain, program)?;
    Some([way.steps.len(), way.questions(program).len()])
}

impl<'a> Way<'a> {
    /// Returns the longest path of a program that was made of a chain; among several, a path with few
    /// writes. `None` if there are no classes.
    pub(crate) fn new(chain: &Chain, program: &'a Program) -> Option<Way<'a>> {
        // The maximum is the last of several in this order, which is the first class.
        let longest = |class: &&Class| (class.path.len(), Reverse(class.writes.len()));
        let class = program.classes.iter().rev().max_by_key(longest)?;
        let numbers: BTreeMap<&str, usize> =
            chain.nodes.iter().enumerate().map(|(number, node)| (node.name.as_str(), number)).collect();
        let mut passed = Vec::new();
        for on in &class.path {
            let name = program.elements.get(on.element as usize);
            let Some(&node) = name.and_then(|name| numbers.get(name.as_str())) else { continue };
            if let Some(cases) = chain.nodes[node].effects.cases.get(..=on.case) {
                passed.push((node, on.start, cases));
            }
        }
        // Later marks belong to headers that were prepended.
        let mut marks = passed.iter().filter_map(|&(_, start, cases)| mark(cases.last()?, start));
        let network = program.layout[1].or_else(|| marks.next()).unwrap_or_default();
        let step = |&(node, start, cases): &(usize, i32, &[Case])| {
            let mut fields = Vec::new();
            cases.iter().for_each(|case| case.when.collect_reads(&mut fields));
            let reads = fields.iter().filter_map(|field| name_of(field, start - network)).collect();
            let mut writes = Vec::new();
            if let Some(case) = cases.last() {
                each_set(case, start, |field, _, start| writes.extend(name_of(field, start - network)));
                if !matches!(case.checksum, Checksum::Untouched) {
                    writes.push(CHECKSUM.into());
                }
            }
            Step { node, reads, writes }
        };
        Some(Way { class, steps: passed.iter().map(step).collect(), network })
    }

    /// Returns the questions that lead to the class: as few as possible, then along the largest sets of
    /// answers.
    pub(crate) fn questions(&self, program: &'a Program) -> Vec<Asked<'a>> {
        // The number of remaining questions, by question; questions lead to later questions only.
        let mut left: Vec<Option<usize>> = vec![None; program.nodes.len()];
        let to_come = |left: &[Option<usize>], next: Next| match next {
            Next::Node(node) => left.get(node as usize).copied().flatten(),
            Next::Class(class) => (program.classes.get(class as usize) == Some(self.class)).then_some(0),
        };
        for number in (0..program.nodes.len()).rev() {
            let nexts = program.nodes[number].parts.iter();
            left[number] = nexts.filter_map(|&(_, next)| to_come(&left, next)).min().map(|more| more + 1);
        }
        let mut asked = Vec::new();
        let mut here = program.start;
        while let Next::Node(number) = here
            && let Some(node) = program.nodes.get(number as usize)
        {
            let mut answers: BTreeMap<Next, (Reverse<usize>, u128)> = BTreeMap::new();
            let mut low = 0;
            for &(last, next) in &node.parts {
                if let Some(more) = to_come(&left, next) {
                    answers.entry(next).or_insert((Reverse(more), 0)).1 += (last - low).saturating_add(1);
                }
                low = last.saturating_add(1);
            }
            let Some((&next, _)) = answers.iter().max_by_key(|(_, good)| **good) else { break };
            asked.push(Asked { node, next });
            here = next;
        }
        asked
    }

    /// Returns the fields that the program writes, without duplicates.
    pub(crate) fn writes(&self) -> BTreeSet<String> {
        let bytes = self.class.writes.iter().flat_map(|write| {
            (0..write.value.length() as i32)
                .filter_map(|more| name_of_place(write.place.behind(more), self.network))
        });
        bytes.chain(self.class.checksum.is_some().then(|| CHECKSUM.into())).collect()
    }
}

/// Returns the readable name of a question's field; `None` if the question is about more than one field.
pub(crate) fn name_of_question(question: &Question, network: i32) -> Option<String> {
    match question {
        Question::Length => Some("length".into()),
        Question::Kind => Some("packet type".into()),
        Question::Bytes { offset, .. } => name_of_place(Location::Byte(*offset), network),
        Question::Annotation { offset, .. } => name_of_place(Location::Annotation(*offset), network),
        Question::AtLeastZero(_)
        | Question::RightChecksum { .. }
        | Question::List(_)
        | Question::Leased { .. } => None,
    }
}

/// Returns the element that leases a flow, for a question about a lease, and the field that gets the values
/// asked for, if any.
pub(crate) fn leased<'a>(
    question: &Question,
    chain: &Chain,
    program: &'a Program,
    network: i32,
) -> Option<(&'a str, Option<String>)> {
    let Question::Leased { step, what } = *question else { return None };
    let step = program.steps.get(usize::from(step))?;
    let element = program.elements.get(step.element as usize)?;
    let Leased::Bytes { offset, .. } = what else { return Some((element, None)) };
    let node = chain.nodes.iter().find(|node| node.name == *element)?;
    let case = node.effects.cases.get(step.case)?;
    let (mut end, mut name) = (0, None);
    each_set(case, step.before.start, |field, value, start| {
        let length = match field {
            Field::Bytes { length, .. } => usize::from(*length),
            Field::Annotation { length, .. } => usize::from(*length),
            _ => 0,
        };
        // The values that a flow gets are consecutive, including values of annotations.
        let before = end;
        end += if matches!(value, Value::Choose { .. }) { length } else { 0 };
        if (before..end).contains(&usize::from(offset)) {
            name = name_of(field, start - network);
        }
    });
    Some((element, name))
}

/// Returns the readable form of a question.
pub(crate) fn said(question: &Question, chain: &Chain, program: &Program, network: i32) -> String {
    match question {
        Question::List(list) => {
            let list = program.lists.get(*list as usize);
            let element = list.and_then(|list| program.elements.get(list.element as usize));
            format!("rules of {}", element.map(String::as_str).unwrap_or_default())
        }
        Question::Leased { .. } => match leased(question, chain, program, network) {
            Some((element, Some(field))) => format!("{field} that {element} gives the flow"),
            Some((element, None)) => format!("where {element} sends the flow"),
            None => question.to_string(),
        },
        question => name_of_question(question, network).unwrap_or_else(|| question.to_string()),
    }
}

/// Returns the drop reason of a class as an error, or the name of the element that its packets go to.
pub(crate) fn fate<'a>(
    class: &Class,
    outputs: &'a [(usize, usize)],
    chain: &'a Chain,
) -> Result<&'a str, &'static str> {
    match class.exit {
        Exit::Output(output) => Ok(outputs.get(output).map_or("", |port| chain.nodes[port.0].name.as_str())),
        Exit::Drop(reason) => Err(reason.as_str()),
    }
}

/// Calls the closure for each field that a case sets, with the start of the packet at that time.
fn each_set(case: &Case, mut start: i32, mut told: impl FnMut(&Field, &Value, i32)) {
    for action in &case.actions {
        match action {
            Action::Strip(bytes) => start = start.saturating_add(*bytes),
            Action::Set(field, value) => told(field, value, start),
            _ => {}
        }
    }
}

/// Returns the offset of the network header that a case marks, from the start of the input packet.
fn mark(case: &Case, start: i32) -> Option<i32> {
    let mut mark = None;
    each_set(case, start, |field, value, start| {
        if let (Field::HeaderOffset(Base::Network), Value::Constant(bytes)) = (field, value)
            && !bytes.is_empty()
        {
            mark = Some(start + bytes.iter().fold(0i32, |n, &byte| n << 8 | i32::from(byte)));
        }
    });
    mark
}

/// Returns the readable name of a field. `start` is the offset of the packet's start from its network
/// header.
fn name_of(field: &Field, start: i32) -> Option<String> {
    Some(match *field {
        Field::Bytes { base, offset, .. } => {
            let place = match base {
                Base::Data => start + offset,
                Base::Mac => offset - ethernet::Header::LEN as i32,
                Base::Network => offset,
                Base::Transport => IPV4 + offset,
            };
            return name_of_place(Location::Byte(place), 0);
        }
        Field::Annotation { offset, .. } => return name_of_place(Location::Annotation(offset), 0),
        Field::Length => "length".into(),
        Field::Kind => "packet type".into(),
        _ => return None,
    })
}

/// Returns the readable name of a part of a packet.
fn name_of_place(place: Location, network: i32) -> Option<String> {
    let place = match place {
        Location::Annotation(_) => return Some("annotations".into()),
        Location::Leased(..) => return Some("mappings".into()),
        Location::Byte(place) => place - network,
    };
    Some(
        match place {
            i32::MIN..0 => "Ethernet header",
            0 => "IP version, header length",
            1 => "IP TOS",
            2..4 => "IP length",
            4..6 => "IP identification",
            6..8 => "IP fragment",
            8 => "IP TTL",
            9 => "IP protocol",
            10..12 => return None,
            12..16 => "IP source",
            16..20 => "IP destination",
            20..22 => "source port",
            22..24 => "destination port",
            _ => "after the ports",
        }
        .into(),
    )
}
