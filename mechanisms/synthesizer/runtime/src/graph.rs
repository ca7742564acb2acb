//! The decision graph of a program, which finds the class of a packet, and the graphs of residual programs,
//! which are added for known flows.
//!
//! Questions are compiled to flat arrays, and rule lists to a [`Matcher`].

use std::collections::HashMap;

use classify::filter::{HeaderSlices, Matcher};
use element::{Base, Packet};
use foldhash::fast::RandomState;

use crate::ask::{Ask, answer, plain};
use crate::computed::{Computed, Plain, Total};
use program::question::Question;
use program::{Next, Node, Program};

/// The maximum number of nodes, including the nodes of residual programs. Residual programs that need more
/// are not made.
const MOST_NODES: usize = 1 << 20;

/// The class of packets that are left to the elements: they leave by [`Program::otherwise`] without
/// changes.
pub const OTHERWISE: u32 = u32::MAX;

/// A compiled decision graph.
pub struct CompiledGraph {
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
    /// The nodes of residual programs that exist already, so that an equal node is shared and not made again.
    /// The key has the question, the index of the original node, and the successors of the ranges.
    branches: HashMap<(Ask, u32, Vec<Next>), Next, RandomState>,
    /// The number of times that all nodes of residual programs have been removed. Indices of removed nodes
    /// are assigned again, so references to nodes that were made before the last removal are invalid.
    forgotten: u64,
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

/// A compiled list of rules: the matcher of the rules' conditions, the offsets of the network and transport
/// headers that the conditions refer to, the end of the packet at the list, and the outcome of each rule.
pub(super) struct RuleList {
    matcher: Matcher,
    headers: [usize; 2],
    end: Option<Total>,
    outcomes: Vec<u32>,
}

impl RuleList {
    /// Calls `tell` for each packet, in order, with the index of the first rule that matches, and its
    /// outcome. If no rule matches, the last rule counts as matching.
    #[inline]
    pub(super) fn first_of_each<'p>(
        &self,
        packets: impl Iterator<Item = &'p Packet>,
        mut tell: impl FnMut(u32, u32),
    ) {
        let RuleList { matcher, headers, end, outcomes } = self;
        let packets = packets.map(|packet| split(packet, *headers, end.as_ref()));
        matcher.first_of_each(packets, None, |rule| {
            let rule = rule.unwrap_or(outcomes.len().saturating_sub(1));
            tell(rule as u32, outcomes.get(rule).copied().unwrap_or_default());
        });
    }
}

impl CompiledGraph {
    /// Compiles the decision graph of a valid program ([`program::validate`]).
    pub(super) fn new(program: &Program) -> CompiledGraph {
        let mut graph = CompiledGraph {
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
        };
        for node in &program.nodes {
            let first = graph.ends.len() as u32;
            for &(last, next) in &node.parts {
                graph.ends.push(u64::try_from(last).unwrap_or(u64::MAX));
                graph.nexts.push(next);
            }
            let place = |offset: i32| u16::try_from(offset).ok();
            let ask = match &node.question {
                Question::Bytes { offset, length } if *length > 8 || place(*offset).is_none() => {
                    graph.wide.push(node.clone());
                    Ask::Wide(graph.wide.len() as u32 - 1)
                }
                Question::Annotation { length, .. } if *length > 8 => {
                    graph.wide.push(node.clone());
                    Ask::Wide(graph.wide.len() as u32 - 1)
                }
                Question::List(list) => Ask::List(*list),
                question => Ask::plain(question).unwrap_or_else(|| {
                    graph.others.push(Computed::new(question));
                    Ask::Other(graph.others.len() as u32 - 1)
                }),
            };
            let table = graph.tables.len() as u32;
            if let Ask::Byte(_) = ask {
                let part = |value: usize| {
                    node.parts.partition_point(|(last, _)| *last < value as u128).min(node.parts.len() - 1)
                        as u8
                };
                graph.tables.push(std::array::from_fn(part));
            }
            graph.nodes.push(Compiled { ask, first, count: node.parts.len() as u32, table });
        }
        for list in &program.lists {
            let conditions: Vec<_> = list.rules.iter().map(|rule| rule.condition.clone()).collect();
            graph.lists.push(RuleList {
                matcher: Matcher::new(&conditions),
                headers: list.headers.map(|offset| usize::try_from(offset).unwrap_or_default()),
                end: list.end.as_ref().map(Total::new),
                outcomes: list.rules.iter().map(|rule| rule.outcome).collect(),
            });
        }
        graph
    }

    /// Returns the node or class at which packets of unknown flows begin.
    #[inline]
    pub(super) fn start(&self) -> Next {
        self.start
    }

    /// Returns the number of times that the nodes of residual programs have been removed.
    #[inline]
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the node or class that follows a list of rules if the list has the given outcome. `number` is
    /// the index of the list's node.
    #[inline]
    pub(super) fn after(&self, number: u32, outcome: u32) -> Next {
        let node = &self.nodes[number as usize];
        self.leads(node, self.part(node, outcome.into()))
    }

    /// Returns the rule list of a node, with its index; `None` for a node without a list.
    pub(super) fn list_of(&self, node: u32) -> Option<(u32, &RuleList)> {
        match self.nodes.get(node as usize)?.ask {
            Ask::List(list) => Some((list, self.lists.get(list as usize)?)),
            _ => None,
        }
    }

    /// True if the header marks of a packet are as the program's layout says, or if all packets have that
    /// layout. The mark of the link header counts only if the program needs it.
    #[inline]
    pub fn is_laid_out(&self, packet: &Packet) -> bool {
        let [link, network, transport] = self.layout;
        self.is_certain
            || packet.offset(Base::Network) == network
                && packet.offset(Base::Transport) == transport
                && (!self.needs_link || packet.offset(Base::Mac) == link)
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

    /// Asks questions about a packet, from the node or class `next` up to a class or a list of rules. Returns
    /// the class as `Ok`, or the index of the list's node as `Err`. Calls `counted` with each list on the way
    /// whose matching rule is known for the packet's flow, so that the rule is counted.
    pub(super) fn follow(
        &self,
        mut next: Next,
        packet: &Packet,
        counted: &mut impl FnMut(u32),
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
                    counted(list);
                    next = self.leads(node, 0);
                    continue;
                }
                ask => self.ask(ask, data, packet),
            };
            next = self.leads(node, self.part(node, answer));
        }
    }

    pub(super) fn node(&self, number: u32) -> &Compiled {
        &self.nodes[number as usize]
    }

    /// Returns the ranges of a node: the last answer of each range, and the node or class that it leads to.
    pub(super) fn parts(&self, node: &Compiled) -> (&[u64], &[Next]) {
        let places = node.first as usize..(node.first + node.count) as usize;
        (&self.ends[places.clone()], &self.nexts[places])
    }

    /// Returns the offset and the number of the bytes of a question that reads 1 to 8 consecutive bytes of
    /// the packet; `None` for other questions.
    pub(super) fn place(&self, ask: Ask) -> Option<(usize, usize)> {
        match ask {
            Ask::Other(number) => self.others[number as usize].place(),
            ask => ask.place(),
        }
    }

    /// Returns the sum whose sign a question tests; `None` if the question tests no sum, or if a term of the
    /// sum needs more than a single read of at most 32 bits ([`Plain`]).
    pub(super) fn sum(&self, ask: Ask) -> Option<&Plain> {
        match ask {
            Ask::Other(number) => self.others[number as usize].sum(),
            _ => None,
        }
    }

    /// Returns the answer to a question. Must not be called for `List`, `Wide` and `Counted`, which
    /// [`follow`](Self::follow) handles.
    #[inline]
    pub(super) fn ask(&self, ask: Ask, data: &[u8], packet: &Packet) -> u64 {
        match ask {
            Ask::Other(number) => self.others[number as usize].answer(data, packet),
            ask => plain(ask, data, packet),
        }
    }

    /// Returns the index of the first rule of a list that matches a packet, and the rule's outcome. If no
    /// rule matches, the last rule counts as matching. `None` if there is no such list.
    pub(super) fn rule_of(&self, list: u32, packet: &Packet) -> Option<(u32, u32)> {
        let mut found = None;
        self.lists.get(list as usize)?.first_of_each([packet].into_iter(), |rule, outcome| {
            found = Some((rule, outcome));
        });
        found
    }

    /// Returns a copy of the node `number` with other successors, one for each range; an equal copy is
    /// reused. If all successors are equal and the question is no list, returns the successor itself. Returns
    /// `None` if there are too many nodes.
    pub(super) fn branch(&mut self, number: u32, nexts: Vec<Next>) -> Option<Next> {
        let first = *nexts.first()?;
        let Compiled { ask, table, first: ends, count } = *self.nodes.get(number as usize)?;
        // A list stays in the residual program even if all outcomes lead to the same successor, because the
        // rule that matches has to be counted.
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

    /// Returns a node of a residual program that counts the rule of `list` that is known for the flow, and
    /// then leads to `next`. Returns `None` if there are too many nodes.
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
}

/// Returns the headers of a packet as the rules of a list see them: at the offsets `headers`, and without the
/// bytes after `end`, the end of the packet at the list.
#[inline]
fn split<'p>(packet: &'p Packet, headers: [usize; 2], end: Option<&Total>) -> HeaderSlices<'p> {
    let mut data = packet.data();
    if let Some(end) = end {
        let end = usize::try_from(end.value(data, packet)).unwrap_or(0);
        data = &data[..end.min(data.len())];
    }
    let [network, transport] = headers.map(|start| data.get(start..).unwrap_or_default());
    HeaderSlices { mac: data, network, transport }
}
