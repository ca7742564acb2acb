//! The interpreter: finds the class of each packet of a batch, and holds the operations of the classes.
//!
//! Questions are compiled to flat arrays. Rule lists are compiled to a [`classify::filter::Matcher`] and
//! evaluated together for all packets of a batch that have reached them. Nothing is allocated per batch.

use std::collections::HashMap;

use classify::filter::{Headers, Matcher};
use element::{Base, Packet};
use foldhash::fast::RandomState;
use packet::BATCH_CAPACITY;

use crate::computed::{Computed, Plain, Total, is_right};
use crate::flow_cache::{FlowCache, KnownFlow, Used};
use crate::groups::Groups;
use crate::operation::Operation;
use crate::trail::{Found, Trails};
use program::machine_code::MachineCode;
use program::question::{Question, Sum};
use program::{Exit, Next, Node, Program};

/// The maximum number of nodes, including the nodes of residual programs. Residual programs that need more
/// are not made.
const MOST_NODES: usize = 1 << 20;

/// A compiled program, ready to run. It finds the classes of packets, and holds the operations of the
/// classes.
pub struct Interpreter {
    layout: [Option<isize>; 3],
    needs_link: bool,
    is_certain: bool,
    nodes: Vec<Compiled>,
    /// The last answer of each range, for all nodes one after the other.
    ends: Vec<u64>,
    /// The node or class that each range leads to, for all nodes one after the other.
    nexts: Vec<Next>,
    /// A table for each question about one byte: the index of the range for each of the 256 values.
    tables: Vec<[u8; 256]>,
    /// Questions that need computation or several reads (`computed.rs`).
    others: Vec<Computed>,
    /// Nodes whose answers have more than 64 bits, or whose offsets do not fit into 16 bits.
    wide: Vec<Node>,
    start: Next,
    lists: Vec<RuleList>,
    /// The nodes of residual programs that exist already, by the question, the node of the program that
    /// they were copied from, and the successors of their ranges. Equal nodes are shared.
    branches: HashMap<(Ask, u32, Vec<Next>), Next, RandomState>,
    /// The number of times that the nodes of residual programs have been removed. The indices of removed
    /// nodes are used again, so references from before are invalid.
    forgotten: u64,
    /// The compiled operation of each class.
    operations: Vec<Operation>,
    machine_code: MachineCode,
}

/// A compiled node: a question and its ranges. Nodes are small and of equal size, because a packet's path
/// costs one dependent memory access per node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiled {
    pub(super) ask: Ask,
    /// The index of the node's first range in `ends` and `nexts`.
    first: u32,
    /// The number of the node's ranges.
    count: u32,
    /// The index of the node's table in `tables`; only a question about one byte has a table.
    table: u32,
}

/// The compiled form of a question. `Byte`, `Half` and `Word` read 1, 2 or 4 bytes at an offset; `List` has
/// the index of a rule list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Byte(u16),
    Half(u16),
    Word(u16),
    Length,
    Kind,
    /// An annotation byte at this offset.
    Annotation(u8),
    /// A question that needs computation or several reads: an index in `others`.
    Other(u32),
    /// A question whose answer has more than 64 bits or whose offset does not fit: an index in `wide`.
    Wide(u32),
    List(u32),
    /// A rule list whose matching rule is known for the packet's flow. No rule is evaluated; the known rule
    /// is counted.
    Counted(u32),
}

impl Ask {
    /// Returns the compiled form of a question that a single read answers; `None` for other questions.
    pub(super) fn plain(question: &Question) -> Option<Ask> {
        let place = |offset: i32| u16::try_from(offset).ok();
        Some(match *question {
            Question::Bytes { offset, length: 1 } => Ask::Byte(place(offset)?),
            Question::Bytes { offset, length: 2 } => Ask::Half(place(offset)?),
            Question::Bytes { offset, length: 4 } => Ask::Word(place(offset)?),
            Question::Length => Ask::Length,
            Question::Kind => Ask::Kind,
            Question::Annotation { offset, length: 1 } => Ask::Annotation(offset),
            _ => return None,
        })
    }

    /// Returns the offset and the number of the bytes that the question reads; `None` if it is not `Byte`,
    /// `Half` or `Word`.
    pub(super) fn place(self) -> Option<(usize, usize)> {
        match self {
            Ask::Byte(place) => Some((place.into(), 1)),
            Ask::Half(place) => Some((place.into(), 2)),
            Ask::Word(place) => Some((place.into(), 4)),
            _ => None,
        }
    }
}

struct RuleList {
    matcher: Matcher,
    headers: [usize; 2],
    end: Option<Total>,
    outcomes: Vec<u32>,
}

/// The class of packets that are left to the elements: they leave by [`Program::otherwise`] without
/// changes.
pub const OTHERWISE: u32 = u32::MAX;

/// The working memory for the packets of a batch. All of it is overwritten by the next batch, except for
/// the trails.
pub struct Scratch {
    /// The class of each packet of the batch, or [`OTHERWISE`].
    pub classes: Vec<u32>,
    waiting: Vec<(u8, u32)>,
    answers: Vec<u32>,
    trails: Trails,
    /// The rules that matched, to be counted: the index of the packet in the batch, of the list, and of the
    /// rule in the list.
    pub held: Vec<(u8, u32, u32)>,
    /// The packets of the batch grouped by class.
    pub groups: Groups,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            classes: Vec::with_capacity(BATCH_CAPACITY),
            waiting: Vec::with_capacity(BATCH_CAPACITY),
            answers: Vec::with_capacity(BATCH_CAPACITY),
            trails: Trails::default(),
            held: Vec::with_capacity(BATCH_CAPACITY),
            groups: Groups::default(),
        }
    }
}

impl Interpreter {
    /// Compiles a program. `is_seen` returns true if any element downstream of an output reads an
    /// annotation byte; annotations that no element reads are not written.
    ///
    /// # Errors
    /// If the program is not valid ([`program::validate`]).
    pub fn new(program: &Program, is_seen: &dyn Fn(usize, u8) -> bool) -> Result<Interpreter, String> {
        program::validate(program)?;
        jit::prepare(program.machine_code);
        let mut runner = Interpreter {
            layout: program.layout.map(|place| place.map(|place| place as isize)),
            needs_link: program.needs_link,
            is_certain: program.is_certain,
            nodes: Vec::with_capacity(program.nodes.len()),
            ends: Vec::new(),
            nexts: Vec::new(),
            tables: Vec::new(),
            others: Vec::new(),
            wide: Vec::new(),
            start: program.start,
            lists: Vec::with_capacity(program.lists.len()),
            branches: HashMap::default(),
            forgotten: 0,
            operations: Vec::with_capacity(program.classes.len()),
            machine_code: program.machine_code,
        };
        for node in &program.nodes {
            let first = runner.ends.len() as u32;
            for &(last, next) in &node.parts {
                runner.ends.push(u64::try_from(last).unwrap_or(u64::MAX));
                runner.nexts.push(next);
            }
            let place = |offset: i32| u16::try_from(offset).ok();
            let ask = match &node.question {
                Question::Bytes { offset, length } if *length > 8 || place(*offset).is_none() => {
                    runner.wide.push(node.clone());
                    Ask::Wide(runner.wide.len() as u32 - 1)
                }
                Question::Annotation { length, .. } if *length > 8 => {
                    runner.wide.push(node.clone());
                    Ask::Wide(runner.wide.len() as u32 - 1)
                }
                Question::List(list) => Ask::List(*list),
                question => Ask::plain(question).unwrap_or_else(|| {
                    runner.others.push(Computed::new(question));
                    Ask::Other(runner.others.len() as u32 - 1)
                }),
            };
            let table = runner.tables.len() as u32;
            if let Ask::Byte(_) = ask {
                let part = |value: usize| {
                    node.parts.partition_point(|(last, _)| *last < value as u128).min(node.parts.len() - 1)
                        as u8
                };
                runner.tables.push(std::array::from_fn(part));
            }
            runner.nodes.push(Compiled { ask, first, count: node.parts.len() as u32, table });
        }
        for list in &program.lists {
            let conditions: Vec<_> = list.rules.iter().map(|rule| rule.condition.clone()).collect();
            runner.lists.push(RuleList {
                matcher: Matcher::new(&conditions),
                headers: list.headers.map(|offset| usize::try_from(offset).unwrap_or_default()),
                end: list.end.as_ref().map(Total::new),
                outcomes: list.rules.iter().map(|rule| rule.outcome).collect(),
            });
        }
        let used = Used::new(program);
        let leased = |step, offset| used.place_of(program, step, offset);
        for class in &program.classes {
            let is_seen = |byte| match class.exit {
                Exit::Output(output) => is_seen(output, byte),
                Exit::Drop(_) => false,
            };
            runner.operations.push(Operation::new(class, &is_seen, &leased));
        }
        Ok(runner)
    }

    /// Writes the class of each packet to `scratch.classes`, and the rules of lists that matched to
    /// `scratch.held`. With `flows`, packets of known flows take their residual programs; the flows must
    /// have been looked up for this batch ([`FlowCache::find`]). With `None`, all packets take the whole
    /// program.
    pub fn classify(&self, packets: &[Packet], flows: Option<&FlowCache>, scratch: &mut Scratch) {
        let Scratch { classes, waiting, answers, trails, held, .. } = scratch;
        classes.clear();
        classes.resize(packets.len(), OTHERWISE);
        waiting.clear();
        held.clear();
        trails.keep(self.forgotten);
        let places = packets.iter().zip(0..=u8::MAX);
        match flows {
            None => {
                let laid_out = places.filter(|(packet, _)| self.is_laid_out(packet));
                trails.begin(0, self.start).extend(laid_out.map(|(_, place)| place));
            }
            Some(flows) => {
                for ((packet, place), row_head) in places.zip(flows.row_heads()) {
                    // A packet that has a key has passed the test for the program's layout
                    // ([`FlowCache::find`]).
                    match flows.start(row_head.rest()) {
                        Some(at) => trails.add(row_head.rest() + 1, at, place),
                        None if self.is_laid_out(packet) => trails.add(0, self.start, place),
                        None => {}
                    }
                }
            }
        }
        trails.follow(self, &mut Found { packets, flows, classes, waiting, held });
        // Packets that wait at the same list are looked up together. Each pass finishes one list; packets
        // that then reach another list wait there.
        while let Some(&(_, node)) = waiting.first() {
            let Some((list, rules)) = self.list_of(node) else { break };
            let RuleList { matcher, headers, end, outcomes } = rules;
            answers.clear();
            let is_here =
                |(_, other): &&(u8, u32)| self.list_of(*other).is_some_and(|(other, _)| other == list);
            let mut places = waiting.iter().filter(is_here).map(|(place, _)| *place);
            let here = waiting.iter().filter(is_here).map(|(place, _)| &packets[usize::from(*place)]);
            let here = here.map(|packet| split(packet, *headers, end.as_ref()));
            matcher.first_of_each(here, None, |rule| {
                let rule = rule.unwrap_or(outcomes.len().saturating_sub(1));
                held.extend(places.next().map(|place| (place, list as u32, rule as u32)));
                answers.push(outcomes.get(rule).copied().unwrap_or_default());
            });
            let mut answers = answers.iter();
            waiting.retain_mut(|(place, node)| {
                if self.list_of(*node).is_none_or(|(other, _)| other != list) {
                    return true;
                }
                let Some(answer) = answers.next() else { return false };
                let packet = &packets[usize::from(*place)];
                let known = flows.and_then(|flows| flows.known((*place).into()));
                let node_of_list = &self.nodes[*node as usize];
                let next = self.leads(node_of_list, self.part(node_of_list, u64::from(*answer)));
                match self.follow(next, packet, known, &mut |list, rule| held.push((*place, list, rule))) {
                    Ok(class) => {
                        classes[usize::from(*place)] = class;
                        false
                    }
                    Err(further) => {
                        *node = further;
                        true
                    }
                }
            });
        }
    }

    fn list_of(&self, node: u32) -> Option<(usize, &RuleList)> {
        match self.nodes.get(node as usize)?.ask {
            Ask::List(list) => Some((list as usize, self.lists.get(list as usize)?)),
            _ => None,
        }
    }

    /// True if the header marks of a packet are as the program's layout says.
    #[inline]
    pub fn is_laid_out(&self, packet: &Packet) -> bool {
        let [link, network, transport] = self.layout;
        self.is_certain
            || packet.offset(Base::Network) == network
                && packet.offset(Base::Transport) == transport
                && (!self.needs_link || packet.offset(Base::Mac) == link)
    }

    /// Returns the class of one packet. `known` is what is known about its flow; `hold` is called with list
    /// and rule for each rule that matches.
    pub(super) fn class_of(
        &self,
        packet: &Packet,
        known: Option<KnownFlow<'_>>,
        hold: &mut impl FnMut(u32, u32),
    ) -> u32 {
        let mut next = known.map_or(self.start, |known| known.start());
        loop {
            let node = match self.follow(next, packet, known, hold) {
                Ok(class) => return class,
                Err(number) => &self.nodes[number as usize],
            };
            let Ask::List(list) = node.ask else { return OTHERWISE };
            let Some((rule, outcome)) = self.rule_of(list, packet) else { return OTHERWISE };
            hold(list, rule);
            next = self.leads(node, self.part(node, outcome.into()));
        }
    }

    /// Removes the nodes of residual programs. All references to them become invalid.
    pub(super) fn forget_branches(&mut self, program: &Program) {
        let nodes = program.nodes.len();
        let parts: usize = program.nodes.iter().map(|node| node.parts.len()).sum();
        let wide = self.nodes[..nodes].iter().filter(|node| matches!(node.ask, Ask::Wide(_))).count();
        self.nodes.truncate(nodes);
        self.ends.truncate(parts);
        self.nexts.truncate(parts);
        self.wide.truncate(wide);
        self.branches.clear();
        self.forgotten += 1;
    }

    /// Asks a packet questions, from `next` up to a class or a list of rules. Returns the class as `Ok`, or
    /// the index of the list's node as `Err`. `hold` is called for each known rule that has to be counted.
    pub(super) fn follow(
        &self,
        mut next: Next,
        packet: &Packet,
        known: Option<KnownFlow<'_>>,
        hold: &mut impl FnMut(u32, u32),
    ) -> Result<u32, u32> {
        let data = packet.data();
        loop {
            let number = match next {
                Next::Class(class) => return Ok(class),
                Next::Node(number) => number,
            };
            let node = &self.nodes[number as usize];
            let answer = match node.ask {
                Ask::Wide(wide) => {
                    let node = &self.wide[wide as usize];
                    next = node.next(answer(&node.question, packet));
                    continue;
                }
                Ask::List(_) => return Err(number),
                Ask::Counted(list) => {
                    count(known, list, hold);
                    next = self.leads(node, 0);
                    continue;
                }
                ask => self.ask(ask, data, packet),
            };
            next = self.leads(node, self.part(node, answer));
        }
    }

    /// Returns the node with this index.
    pub(super) fn node(&self, number: u32) -> &Compiled {
        &self.nodes[number as usize]
    }

    /// Returns the ranges of a node: the last answer of each range, and the node or class that it leads to.
    pub(super) fn parts(&self, node: &Compiled) -> (&[u64], &[Next]) {
        let places = node.first as usize..(node.first + node.count) as usize;
        (&self.ends[places.clone()], &self.nexts[places])
    }

    /// Returns the offset and the number of the bytes that a question reads, 1 to 8 bytes; `None` for
    /// questions that do not read consecutive bytes.
    pub(super) fn place(&self, ask: Ask) -> Option<(usize, usize)> {
        match ask {
            Ask::Other(number) => self.others[number as usize].place(),
            ask => ask.place(),
        }
    }

    /// Returns the sum that a question tests; `None` if the question tests no sum, or one with terms that
    /// no single read answers.
    pub(super) fn sum(&self, ask: Ask) -> Option<&Plain> {
        match ask {
            Ask::Other(number) => self.others[number as usize].sum(),
            _ => None,
        }
    }

    /// Returns the answer to a question. Not for `List` and `Wide`, which [`follow`](Self::follow) handles.
    #[inline]
    pub(super) fn ask(&self, ask: Ask, data: &[u8], packet: &Packet) -> u64 {
        match ask {
            Ask::Other(number) => self.others[number as usize].answer(data, packet),
            ask => plain(ask, data, packet),
        }
    }

    /// Returns the index of the first rule of a list that matches a packet, and its outcome; `None` if
    /// there is no such list.
    pub(super) fn rule_of(&self, list: u32, packet: &Packet) -> Option<(u32, u32)> {
        let RuleList { matcher, headers, end, outcomes } = self.lists.get(list as usize)?;
        let mut found = None;
        matcher.first_of_each([split(packet, *headers, end.as_ref())].into_iter(), None, |rule| {
            found = Some(rule.unwrap_or(outcomes.len().saturating_sub(1)));
        });
        let rule = found?;
        Some((rule as u32, outcomes.get(rule).copied().unwrap_or_default()))
    }

    /// Returns a copy of the node `number` with other successors, one for each range; an equal copy is
    /// reused. If all successors are equal, returns the successor itself. Returns `None` if there are too
    /// many nodes.
    pub(super) fn branch(&mut self, number: u32, nexts: Vec<Next>) -> Option<Next> {
        let first = *nexts.first()?;
        let Compiled { ask, table, first: ends, count } = *self.nodes.get(number as usize)?;
        // A list is kept even if all outcomes have the same successor, because its rules are counted.
        if nexts.iter().all(|next| *next == first) && !matches!(ask, Ask::List(_)) {
            return Some(first);
        }
        let key = (ask, number, nexts);
        if let Some(known) = self.branches.get(&key) {
            return Some(*known);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let node = match ask {
            Ask::Wide(wide) => {
                let Node { question, parts } = self.wide.get(wide as usize)?.clone();
                let parts = parts.iter().zip(&key.2).map(|((last, _), next)| (*last, *next)).collect();
                self.wide.push(Node { question, parts });
                Compiled { ask: Ask::Wide(self.wide.len() as u32 - 1), first: 0, count: 0, table }
            }
            ask => {
                let start = self.ends.len() as u32;
                self.ends.extend_from_within(ends as usize..(ends + count) as usize);
                self.nexts.extend_from_slice(&key.2);
                Compiled { ask, first: start, count, table }
            }
        };
        let next = Next::Node(self.nodes.len() as u32);
        self.nodes.push(node);
        self.branches.insert(key, next);
        Some(next)
    }

    /// Returns a node that counts the known rule of a flow in a list, and then leads to `next`. Returns
    /// `None` if there are too many nodes.
    pub(super) fn counted(&mut self, list: u32, next: Next) -> Option<Next> {
        let key = (Ask::Counted(list), 0, vec![next]);
        if let Some(known) = self.branches.get(&key) {
            return Some(*known);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let first = self.ends.len() as u32;
        self.ends.push(u64::MAX);
        self.nexts.push(next);
        let node = Next::Node(self.nodes.len() as u32);
        self.nodes.push(Compiled { ask: Ask::Counted(list), first, count: 1, table: 0 });
        self.branches.insert(key, node);
        Some(node)
    }

    /// Returns the index, among the node's ranges, of the range that contains an answer.
    #[inline]
    fn part(&self, node: &Compiled, answer: u64) -> usize {
        if let Ask::Byte(_) = node.ask {
            return self.tables[node.table as usize][answer as usize & 0xff].into();
        }
        let (first, count) = (node.first as usize, node.count as usize);
        let ends = &self.ends[first..first + count];
        match count {
            0..=8 => ends.iter().take(count - 1).filter(|end| **end < answer).count(),
            _ => ends.partition_point(|end| *end < answer).min(count - 1),
        }
    }

    #[inline]
    fn leads(&self, node: &Compiled, part: usize) -> Next {
        self.nexts[node.first as usize + part]
    }

    /// Returns the operation of a class; `None` if there is no such class. `packets` is the number of
    /// packets that will need the operation: it decides when machine code is made.
    #[inline]
    pub fn operation(&mut self, class: u32, packets: usize) -> Option<&Operation> {
        let operation = self.operations.get_mut(class as usize)?;
        operation.count(packets, self.machine_code);
        Some(operation)
    }

    /// Returns the time at which machine code is made for this program.
    pub(super) fn machine_code(&self) -> MachineCode {
        self.machine_code
    }
}

/// Calls `hold` with the rule of a list that matches all packets of a flow, if this rule is known.
#[inline]
pub(super) fn count(known: Option<KnownFlow<'_>>, list: u32, hold: &mut impl FnMut(u32, u32)) {
    if let Some(rule) = known.and_then(|known| known.rule_of(list)) {
        hold(list, rule);
    }
}

/// Returns the answer to a question that a single read answers. Bytes that the packet does not have count
/// as zero.
#[inline(always)]
pub(super) fn plain(ask: Ask, data: &[u8], packet: &Packet) -> u64 {
    match ask {
        Ask::Byte(offset) => match data.get(usize::from(offset)) {
            Some(byte) => u64::from(*byte),
            None => slow(packet, offset, 1),
        },
        Ask::Half(offset) => match data.get(usize::from(offset)..usize::from(offset) + 2) {
            Some(bytes) => u64::from(u16::from_be_bytes([bytes[0], bytes[1]])),
            None => slow(packet, offset, 2),
        },
        Ask::Word(offset) => match data.get(usize::from(offset)..usize::from(offset) + 4) {
            Some(bytes) => u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            None => slow(packet, offset, 4),
        },
        Ask::Kind => packet.kind() as u64,
        Ask::Counted(_) => 0,
        Ask::Annotation(offset) => {
            packet.annotations().bytes().get(usize::from(offset)).map_or(0, |byte| u64::from(*byte))
        }
        _ => packet.len() as u64,
    }
}

/// Returns the headers of a packet for the rules of a list: at the list's offsets, and without the bytes
/// after the packet's end at the list.
#[inline]
fn split<'p>(packet: &'p Packet, headers: [usize; 2], end: Option<&Total>) -> Headers<'p> {
    let mut data = packet.data();
    if let Some(end) = end {
        let end = usize::try_from(end.value(data, packet)).unwrap_or(0);
        data = &data[..end.min(data.len())];
    }
    let [network, transport] = headers.map(|start| data.get(start..).unwrap_or_default());
    Headers { mac: data, network, transport }
}

/// Reads bytes that do not all lie in the packet's first slot, as a big-endian number. Returns zero if the
/// packet does not have all of them.
#[cold]
fn slow(packet: &Packet, offset: u16, length: usize) -> u64 {
    let mut bytes = [0; 8];
    match packet.read_at(offset.into(), &mut bytes[8 - length..]) {
        found if found == length => u64::from_be_bytes(bytes),
        _ => 0,
    }
}

/// Returns the answer to a question by its definition, without a compiled form; zero for questions about
/// lists and leases.
pub(super) fn answer(question: &Question, packet: &Packet) -> u128 {
    match question {
        Question::Length => packet.len() as u128,
        Question::Kind => packet.kind() as u128,
        Question::Bytes { offset, length } => {
            let mut bytes = [0; 16];
            let length = usize::from(*length).min(16);
            let Ok(offset) = usize::try_from(*offset) else { return 0 };
            match packet.read_at(offset, &mut bytes[16 - length..]) {
                found if found == length => u128::from_be_bytes(bytes),
                _ => 0,
            }
        }
        Question::Annotation { offset, length } => {
            let bytes = packet.annotations().bytes().iter().skip((*offset).into()).take((*length).into());
            bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
        }
        Question::AtLeastZero(sum) => u128::from(value(sum, packet) >= 0),
        Question::RightChecksum { offset } => {
            let header = usize::try_from(*offset).ok().and_then(|start| packet.data().get(start..));
            u128::from(header.is_some_and(is_right))
        }
        Question::List(_) | Question::Leased { .. } => 0,
    }
}

pub(super) fn value(sum: &Sum, packet: &Packet) -> i64 {
    sum.value(|question| answer(question, packet))
}
