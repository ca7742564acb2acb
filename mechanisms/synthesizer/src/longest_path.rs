//! The longest path through a region, for reports: the fields that its elements read and write, and the
//! questions and writes of the program that replaces them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use element::Base;
use element::effects::{Action, Case, Checksum, Field, Value};
use wire::ethernet;

use program::chain::Chain;
use program::location::{ByteLocation, IPV4};
use program::question::{LeasedProperty, Question};
use program::{Exit, Next, Node, Program, TrafficClass};

/// The name of a header checksum in the report.
const CHECKSUM: &str = "IP checksum";

/// The path of the class whose packets bypass the most elements.
pub(crate) struct LongestPath<'a> {
    pub(crate) class: &'a TrafficClass,
    /// The elements of the path, in the order in which packets would pass them.
    pub(crate) steps: Vec<Step>,
    /// The offset of the network header from the start of the input packet.
    pub(crate) network: i32,
}

/// An element on the path, with the fields that it reads and writes.
pub(crate) struct Step {
    /// The index of the element in the chain.
    pub(crate) node: usize,
    /// The names of the fields that the element's filters read, up to the case that applies to these packets.
    pub(crate) reads: BTreeSet<String>,
    /// The names of the fields that the element writes; a field that it writes twice occurs twice.
    pub(crate) writes: Vec<String>,
}

/// A question that the program asks about packets on the path.
pub(crate) struct Asked<'a> {
    /// The node with the question; its ranges have the successors of all answers.
    pub(crate) node: &'a Node,
    /// The node or class that follows the question for packets on the path.
    pub(crate) next: Next,
}

/// Returns two lengths of the longest path of a program: the number of elements that packets bypass, and
/// the number of questions that the program asks in their place. `chain` is the chain that the program was
/// made of. Returns `None` if the program has no classes.
pub fn lengths(chain: &Chain, program: &Program) -> Option<[usize; 2]> {
    let path = LongestPath::new(chain, program)?;
    Some([path.steps.len(), path.questions(program).len()])
}

impl<'a> LongestPath<'a> {
    /// Returns the longest path of a program that was made of `chain`. Of several paths with as many
    /// elements, returns the path with the fewest writes. Returns `None` if the program has no classes.
    pub(crate) fn new(chain: &Chain, program: &'a Program) -> Option<LongestPath<'a>> {
        // `max_by_key` returns the last maximum, and the classes are reversed, so the first class wins a
        // tie.
        let longest = |class: &&TrafficClass| (class.path.len(), Reverse(class.writes.len()));
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
        // Only the first mark of a network header on the path counts: later marks belong to headers that
        // elements prepend to the packet.
        let mut marks = passed.iter().filter_map(|&(_, start, cases)| mark(cases.last()?, start));
        let network = program.layout[1].or_else(|| marks.next()).unwrap_or_default();
        let step = |&(node, start, cases): &(usize, i32, &[Case])| {
            let mut fields = Vec::new();
            cases.iter().for_each(|case| case.when.leaves().for_each(|leaf| leaf.collect_reads(&mut fields)));
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
        Some(LongestPath { class, steps: passed.iter().map(step).collect(), network })
    }

    /// Returns the questions that lead to the class of the path. If several paths through the decision graph
    /// lead to the class, returns one with the fewest questions; of several such paths, the one that follows
    /// the larger sets of answers.
    pub(crate) fn questions(&self, program: &'a Program) -> Vec<Asked<'a>> {
        // By index of the node: the lowest number of questions from the node to the class. Nodes only lead to
        // nodes with a higher index, so the nodes are visited from the last to the first.
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

    /// Returns the names of the fields that the program writes for this class.
    pub(crate) fn writes(&self) -> BTreeSet<String> {
        let bytes = self.class.writes.iter().flat_map(|write| {
            (0..write.value.length() as i32)
                .filter_map(|more| name_of_place(write.place.after(more), self.network))
        });
        bytes.chain(self.class.checksum.is_some().then(|| CHECKSUM.into())).collect()
    }
}

/// Returns the readable name of the field with the first byte that a question reads; `None` for the checksum
/// field, and for questions about sums, checksums, lists and leases. `network` is the offset of the network
/// header.
pub(crate) fn name_of_question(question: &Question, network: i32) -> Option<String> {
    match question {
        Question::Length => Some("length".into()),
        Question::Kind => Some("packet type".into()),
        Question::Bytes { offset, .. } => name_of_place(ByteLocation::Byte(*offset), network),
        Question::Annotation { offset, .. } => name_of_place(ByteLocation::Annotation(*offset), network),
        Question::AtLeastZero(_)
        | Question::RightChecksum { .. }
        | Question::List(_)
        | Question::Leased { .. } => None,
    }
}

/// Returns, for a question about a lease, the name of the element that leases the flow, and the field that
/// gets the value asked for. The field is `None` for a question about the output, and for a field without a
/// name. Returns `None` for other questions.
pub(crate) fn leased<'a>(
    question: &Question,
    chain: &Chain,
    program: &'a Program,
    network: i32,
) -> Option<(&'a str, Option<String>)> {
    let Question::Leased { step, what } = *question else { return None };
    let step = program.steps.get(usize::from(step))?;
    let element = program.elements.get(step.element as usize)?;
    let LeasedProperty::Bytes { offset, .. } = what else { return Some((element, None)) };
    let node = chain.nodes.iter().find(|node| node.name == *element)?;
    let case = node.effects.cases.get(step.case)?;
    let (mut end, mut name) = (0, None);
    each_set(case, step.before.start, |field, value, start| {
        let length = match field {
            Field::Bytes { length, .. } => usize::from(*length),
            Field::Annotation { length, .. } => usize::from(*length),
            _ => 0,
        };
        // The values that an element chooses for a flow are numbered in the order of its actions, including
        // values of annotations.
        let before = end;
        end += if matches!(value, Value::Choose { .. }) { length } else { 0 };
        if (before..end).contains(&usize::from(offset)) {
            name = name_of(field, start - network);
        }
    });
    Some((element, name))
}

/// Returns a question as text for people. `network` is the offset of the network header.
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

/// Returns the name of the element that packets of a class go to; if the class drops them, the drop reason as
/// an error. `outputs` has, for each output of the program, the input that it leads to.
pub(crate) fn fate<'a>(
    class: &TrafficClass,
    outputs: &'a [(usize, usize)],
    chain: &'a Chain,
) -> Result<&'a str, &'static str> {
    match class.exit {
        Exit::Output(output) => Ok(outputs.get(output).map_or("", |port| chain.nodes[port.0].name.as_str())),
        Exit::Drop(reason) => Err(reason.as_str()),
    }
}

/// Calls `told` for each field that a case sets, with the value, and with the offset at which the packet
/// starts at the time of that action. `start` is the offset before the case.
fn each_set(case: &Case, mut start: i32, mut told: impl FnMut(&Field, &Value, i32)) {
    for action in &case.actions {
        match action {
            Action::Strip(bytes) => start = start.saturating_add(*bytes),
            Action::Set(field, value) => told(field, value, start),
            _ => {}
        }
    }
}

/// Returns the offset of the network header that a case marks, from the start of the input packet; `None`
/// if it marks none. `start` is the offset at which the packet starts before the case.
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

/// Returns the readable name of a field; `None` for fields without a name. `start` is the offset of the
/// packet's start from its network header.
fn name_of(field: &Field, start: i32) -> Option<String> {
    Some(match *field {
        Field::Bytes { base, offset, .. } => {
            let place = match base {
                Base::Data => start + offset,
                Base::Mac => offset - ethernet::Header::LEN as i32,
                Base::Network => offset,
                Base::Transport => IPV4 + offset,
            };
            return name_of_place(ByteLocation::Byte(place), 0);
        }
        Field::Annotation { offset, .. } => return name_of_place(ByteLocation::Annotation(offset), 0),
        Field::Length => "length".into(),
        Field::Kind => "packet type".into(),
        _ => return None,
    })
}

/// Returns the readable name of the field that contains a location; `None` for the checksum field.
/// `network` is the offset of the network header.
fn name_of_place(place: ByteLocation, network: i32) -> Option<String> {
    let place = match place {
        ByteLocation::Annotation(_) => return Some("annotations".into()),
        ByteLocation::Leased(..) => return Some("mappings".into()),
        ByteLocation::Byte(place) => place - network,
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
