//! The residual programs of flows. For all packets of a flow, some questions have the same answer, such as
//! questions about addresses. The residual program is the program without these questions.

use std::collections::HashMap;

use element::Packet;
use element::lease::Terms;
use foldhash::fast::RandomState;

use super::key::{has_ports, kept_bits, key_of};
use super::known::{KnownFlow, class_of};
use super::leasing::bytes_of;
use super::{FlowCache, MOST_RESIDUALS, Residual, RowHead, UsualFates};
use crate::ask::answer;
use crate::graph::{CompiledGraph, OTHERWISE};
use program::Next;
use program::question::{LeasedProperty, Question};

/// The maximum number of questions that are evaluated to make the residual program of a flow. A flow that
/// needs more questions is not inserted into the flow cache.
const MOST_LEFT: usize = 4096;
/// The maximum number of sequences of answers for which the residual program is remembered, so that another
/// flow with the same answers gets the same residual program.
const MOST_KNOWN: usize = 1024;
/// The element of a sequence of answers that stands for a question which stays in the residual program. No
/// node has this index.
const OPEN: Next = Next::Node(u32::MAX);

/// The part of a question's answer that is the same for all packets of one flow.
enum Fixed {
    /// The answer is known: it leads to this node or class of the whole program.
    To(Next),
    /// The rule that matches in a list is known: the list and the rule, and where its outcome leads. The
    /// rule has to be counted for each packet.
    Rule((u32, u32), Next),
    /// The answer depends on the packet, so the question stays in the residual program.
    Open,
}

/// The generator of residual programs, and its working memory. For each flow, all questions that its packets
/// may reach are evaluated. Most flows have equal answers, so the residual program is usually found in
/// `starts` by these answers, and not made again.
#[derive(Default)]
pub(super) struct Residuals {
    /// The nodes or classes at which residual programs start, at most [`MOST_KNOWN`], by the sequence of all
    /// answers ([`Self::answers`]).
    starts: HashMap<Vec<Next>, Next, RandomState>,
    /// By index of the node in the whole program: the number of the last flow whose packets may reach it.
    seen: Vec<u32>,
    /// By index of the node in the whole program: the node or class of the residual program that takes its
    /// place. Valid only if packets of the present flow may reach the node.
    left: Vec<Next>,
    /// The number of the flow whose residual program is being made. Entries of `seen` with other numbers
    /// belong to earlier flows.
    flow: u32,
    /// The nodes that the flow's packets may reach, in the order in which they were evaluated, and what is
    /// known about each.
    found: Vec<(u32, Fixed)>,
    /// The node or class that each known answer leads to, in the order of evaluation; [`OPEN`] for a
    /// question that stays.
    answers: Vec<Next>,
    work: Vec<Next>,
    /// The lists that were evaluated for the flow, each with the rule that matches and its outcome. Several
    /// nodes may refer to one list, which is evaluated once.
    asked: Vec<(u32, (u32, u32))>,
}

impl Residuals {
    /// Forgets the starts of all residual programs, whose nodes are about to be removed from the interpreter.
    pub(super) fn clear(&mut self) {
        self.starts.clear();
    }

    /// Prepares the working memory for the next flow. `nodes` is the number of nodes of the whole program's
    /// decision graph.
    fn begin(&mut self, nodes: usize) {
        self.flow = self.flow.wrapping_add(1);
        if self.flow == 0 || self.seen.len() != nodes {
            self.flow = 1;
            self.seen = vec![0; nodes];
            self.left = vec![OPEN; nodes];
        }
        self.found.clear();
        self.answers.clear();
        self.work.clear();
        self.asked.clear();
    }

    /// Returns the node or class of the residual program that takes the place of `next` in the whole
    /// program. A node that the flow does not reach becomes [`OTHERWISE`].
    fn place(&self, next: Next) -> Next {
        match next {
            Next::Node(number) if self.seen[number as usize] == self.flow => self.left[number as usize],
            Next::Node(_) => Next::Class(OTHERWISE),
            class => class,
        }
    }
}

impl FlowCache {
    /// Returns the row head, with the residual program, for the flow of a packet. `terms` has, by step, the
    /// lease terms (output and values) of the step's element; it is empty for a flow without a lease. Returns
    /// `None` if the residual program would become too large, or if there are too many residual programs. For
    /// a lease, also returns `None` if the packet's class bypasses no leasing element, or if the leased
    /// values that the class writes have no room in the row.
    pub(super) fn residual_of(
        &mut self,
        graph: &mut CompiledGraph,
        packet: &Packet,
        terms: &[Option<Terms>],
    ) -> Option<RowHead> {
        let mut makes = std::mem::take(&mut self.makes);
        let start = self.start_of(&mut makes, graph, packet, terms);
        let rules = makes.found.iter().filter_map(|(_, fixed)| match fixed {
            Fixed::Rule(rule, _) => Some(*rule),
            _ => None,
        });
        let mut rules: Vec<(u32, u32)> = rules.collect();
        self.makes = makes;
        // Several paths may lead to the same list, whose matching rule has to be recorded only once.
        rules.sort_unstable();
        rules.dedup();
        let first = rules.first().copied().filter(|(_, rule)| *rule <= u16::MAX.into());
        let others = rules.split_off(usize::from(first.is_some()));
        let rule = first.map_or(0, |(_, rule)| rule as u16);
        let has_ports = key_of(packet, self.network).is_some_and(|key| has_ports(&key));
        let first = first.map(|(list, _)| list);
        let mut residual = Residual { start: start?, first, others, has_ports, end: None };
        // A lease fixes the end of the flow's packets. Without a lease, the end is not recorded, because
        // packets of the flow may have any end.
        if !terms.is_empty() {
            let class = class_of(
                graph,
                packet,
                Some(KnownFlow { residual: &residual, rule: rule.into() }),
                &mut |_, _| {},
            ) as usize;
            residual.end =
                Some(self.ends.get(class).copied().filter(|end| (1..u32::MAX).contains(&end.steps))?);
        }
        if let Some(number) = self.numbers.get(&residual) {
            return Some(RowHead::new(*number, rule));
        }
        let number = self.residuals.len();
        if number >= MOST_RESIDUALS {
            self.is_spent = true;
            return None;
        }
        self.usual.push(UsualFates::of(&residual, &self.ends));
        self.residuals.push(residual.clone());
        self.numbers.insert(residual, number);
        Some(RowHead::new(number, rule))
    }

    /// Returns the start of the residual program: a node or class of the interpreter. Afterwards,
    /// `makes.found` has the nodes that packets of the flow may reach, each with the facts about its answer.
    /// Returns `None` if there are too many questions or nodes. Too many nodes also have the effect that all
    /// residual programs are removed before the next batch.
    fn start_of(
        &mut self,
        makes: &mut Residuals,
        graph: &mut CompiledGraph,
        packet: &Packet,
        terms: &[Option<Terms>],
    ) -> Option<Next> {
        let program = self.program.clone();
        makes.begin(program.nodes.len());
        makes.work.push(program.start);
        while let Some(next) = makes.work.pop() {
            let Next::Node(number) = next else { continue };
            if std::mem::replace(&mut makes.seen[number as usize], makes.flow) == makes.flow {
                continue;
            }
            if makes.found.len() >= MOST_LEFT {
                return None;
            }
            let found = self.fixed(graph, number, packet, terms, &mut makes.asked);
            match &found {
                Fixed::To(next) | Fixed::Rule(_, next) => {
                    makes.work.push(*next);
                    makes.answers.push(*next);
                }
                Fixed::Open => {
                    makes.work.extend(program.nodes[number as usize].parts.iter().map(|(_, next)| *next));
                    makes.answers.push(OPEN);
                }
            }
            makes.found.push((number, found));
        }
        if let Some(start) = makes.starts.get(&makes.answers) {
            return Some(*start);
        }
        // Nodes only lead to nodes with a higher index. So in descending order, the successors of each node
        // are already in place.
        makes.found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        for (number, fixed) in &makes.found {
            let next = match fixed {
                Fixed::To(next) => Some(makes.place(*next)),
                Fixed::Rule((list, _), next) => graph.counted(*list, makes.place(*next)),
                Fixed::Open => {
                    let parts = program.nodes[*number as usize].parts.iter();
                    graph.branch(*number, parts.map(|(_, next)| makes.place(*next)).collect())
                }
            };
            let Some(next) = next else {
                self.is_spent = true;
                return None;
            };
            makes.left[*number as usize] = next;
        }
        let start = makes.place(program.start);
        if makes.starts.len() < MOST_KNOWN {
            makes.starts.insert(makes.answers.clone(), start);
        }
        Some(start)
    }

    /// Returns the part of the answer to the question of node `number` that is the same for all packets of a
    /// flow. `packet` is any packet of the flow. `asked` has the lists that were evaluated already; a list
    /// that is evaluated here is added.
    fn fixed(
        &self,
        graph: &CompiledGraph,
        number: u32,
        packet: &Packet,
        terms: &[Option<Terms>],
        asked: &mut Vec<(u32, (u32, u32))>,
    ) -> Fixed {
        let node = &self.program.nodes[number as usize];
        let network = self.network as i32;
        match node.question {
            Question::Leased { step, what } => {
                let about = terms.get(usize::from(step)).and_then(Option::as_ref);
                let answer = about.and_then(|terms| match what {
                    LeasedProperty::Output => Some(terms.output as u128 + 1),
                    LeasedProperty::Bytes { offset, length } => bytes_of(terms, offset, length),
                });
                let first = self.program.steps[usize::from(step)].after.is_none();
                match answer {
                    Some(answer) => Fixed::To(node.next(answer)),
                    None if first && what == LeasedProperty::Output => Fixed::To(node.next(0)),
                    None => Fixed::To(Next::Class(OTHERWISE)),
                }
            }
            Question::List(list) if self.constant_lists.get(list as usize) == Some(&true) => {
                let known = asked.iter().find(|(other, _)| *other == list).map(|(_, found)| *found);
                let found = known.or_else(|| {
                    let found = graph.rule_of(list, packet)?;
                    asked.push((list, found));
                    Some(found)
                });
                match found {
                    Some((rule, outcome)) => Fixed::Rule((list, rule), node.next(outcome.into())),
                    None => Fixed::Open,
                }
            }
            Question::Bytes { offset, length } => {
                let mut places = offset - network..offset - network + i32::from(length);
                if places.clone().all(|place| kept_bits(place) == 0xff) {
                    return Fixed::To(node.next(answer(&node.question, packet)));
                }
                // In the 16-bit word with the fragment offset, packets with one key differ only in the
                // reserved bit and "don't fragment", because fragments have no key.
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
