//! The residual program for packets of a flow, whose answers to some questions are all equal.

use std::collections::HashMap;

use element::Packet;
use element::lease::Terms;
use foldhash::fast::RandomState;

use super::key::{has_ports, kept_bits, key_of};
use super::leasing::bytes_of;
use super::{FlowCache, KnownFlow, MOST_RESIDUALS, Residual, RowHead, UsualResult};
use crate::interpreter::{Interpreter, OTHERWISE, answer};
use program::Next;
use program::question::{Leased, Question};

/// The maximum number of questions that are evaluated to make a residual program.
const MOST_LEFT: usize = 4096;
/// The maximum number of answer sequences whose residual programs are cached.
const MOST_KNOWN: usize = 1024;
/// The marker for a question whose answer depends on the packet.
const OPEN: Next = Next::Node(u32::MAX);

/// The knowledge about a question that holds for all packets of a flow.
enum Fixed {
    /// The answer is known: the destination.
    To(Next),
    /// The rule that matches is known: the list, the rule, and the destination.
    Rule((u32, u32), Next),
    /// The answer depends on the packet.
    Open,
}

/// The generator of residual programs. For each flow, all questions on its paths are evaluated; but most
/// flows have equal answers, so the residual program is usually found by its answers.
#[derive(Default)]
pub(super) struct Residuals {
    /// The starts of residual programs, by the sequence of all answers.
    starts: HashMap<Vec<Next>, Next, RandomState>,
    /// By question: the last flow that reached it.
    seen: Vec<u32>,
    /// By question: the corresponding node of the residual program, if the flow reached the question.
    left: Vec<Next>,
    /// The number of the current flow.
    flow: u32,
    /// The questions of the flow, in the order in which they were evaluated.
    found: Vec<(u32, Fixed)>,
    /// The answers, in the same order; `OPEN` for an answer that depends on the packet.
    answers: Vec<Next>,
    work: Vec<Next>,
    /// The lists that were evaluated for the flow, each with the rule that matches and its outcome. Many
    /// questions can refer to one list.
    asked: Vec<(u32, (u32, u32))>,
}

impl Residuals {
    /// Removes all programs, which are no longer valid.
    pub(super) fn clear(&mut self) {
        self.starts.clear();
    }

    /// Begins with the next flow.
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

    /// Returns the node of the residual program that corresponds to a destination in the whole program.
    fn place(&self, next: Next) -> Next {
        match next {
            Next::Node(number) if self.seen[number as usize] == self.flow => self.left[number as usize],
            Next::Node(_) => Next::Class(OTHERWISE),
            class => class,
        }
    }
}

impl FlowCache {
    /// Returns the residual program for the flow of a packet; `None` if the program would become too large.
    /// A flow that is not leased has no terms.
    pub(super) fn rest_of(
        &mut self,
        runner: &mut Interpreter,
        packet: &Packet,
        terms: &[Option<Terms>],
    ) -> Option<RowHead> {
        let mut makes = std::mem::take(&mut self.makes);
        let start = self.start_of(&mut makes, runner, packet, terms);
        let rules = makes.found.iter().filter_map(|(_, fixed)| match fixed {
            Fixed::Rule(rule, _) => Some(*rule),
            _ => None,
        });
        let mut rules: Vec<(u32, u32)> = rules.collect();
        self.makes = makes;
        // Several paths may lead to the same list.
        rules.sort_unstable();
        rules.dedup();
        let first = rules.first().copied().filter(|(_, rule)| *rule <= u16::MAX.into());
        let others = rules.split_off(usize::from(first.is_some()));
        let rule = first.map_or(0, |(_, rule)| rule as u16);
        let has_ports = key_of(packet, self.network).is_some_and(|key| has_ports(&key));
        let first = first.map(|(list, _)| list);
        let mut rest = Residual { start: start?, first, others, has_ports, end: None };
        // A flow without terms is only cached, and its packets may have any exit.
        if !terms.is_empty() {
            let class =
                runner.class_of(packet, Some(KnownFlow { rest: &rest, rule: rule.into() }), &mut |_, _| {})
                    as usize;
            rest.end = Some(self.ends.get(class).copied().filter(|end| (1..u32::MAX).contains(&end.steps))?);
        }
        if let Some(number) = self.numbers.get(&rest) {
            return Some(RowHead::new(*number, rule));
        }
        let number = self.rests.len();
        if number >= MOST_RESIDUALS {
            self.is_spent = true;
            return None;
        }
        self.usual.push(UsualResult::of(&rest, &self.ends));
        self.rests.push(rest.clone());
        self.numbers.insert(rest, number);
        Some(RowHead::new(number, rule))
    }

    /// Returns the start of the residual program. Afterwards, `makes.found` has the knowledge about the
    /// questions.
    fn start_of(
        &mut self,
        makes: &mut Residuals,
        runner: &mut Interpreter,
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
            let found = self.fixed(runner, number, packet, terms, &mut makes.asked);
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
        // Nodes lead to nodes with higher numbers only. So in descending order, the destinations of each
        // node are already known.
        makes.found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        for (number, fixed) in &makes.found {
            let next = match fixed {
                Fixed::To(next) => Some(makes.place(*next)),
                Fixed::Rule((list, _), next) => runner.counted(*list, makes.place(*next)),
                Fixed::Open => {
                    let parts = program.nodes[*number as usize].parts.iter();
                    runner.branch(*number, parts.map(|(_, next)| makes.place(*next)).collect())
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

    /// Returns the knowledge about a question that holds for all packets of a flow.
    fn fixed(
        &self,
        runner: &Interpreter,
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
                    Leased::Output => Some(terms.output as u128 + 1),
                    Leased::Bytes { offset, length } => bytes_of(terms, offset, length),
                });
                let first = self.program.steps[usize::from(step)].after.is_none();
                match answer {
                    Some(answer) => Fixed::To(node.next(answer)),
                    None if first && what == Leased::Output => Fixed::To(node.next(0)),
                    None => Fixed::To(Next::Class(OTHERWISE)),
                }
            }
            Question::List(list) if self.constant_lists.get(list as usize) == Some(&true) => {
                let known = asked.iter().find(|(other, _)| *other == list).map(|(_, found)| *found);
                let found = known.or_else(|| {
                    let found = runner.rule_of(list, packet)?;
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
                // In the word with the fragment offset, packets of a flow differ only in the reserved bit
                // and "don't fragment".
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
