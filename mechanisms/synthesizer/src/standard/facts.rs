//! Data-flow analysis of a program: for each node and traffic class, the answers that packets there may have
//! to earlier questions.

use std::collections::HashMap;

use classify::IntervalSet;

use program::declare::by_next;
use program::location::IPV4;
use program::question::{AnswerSum, Question};
use program::{Next, Program};

/// The possible answers to questions for packets at one node or class. Questions that are not in the map may
/// have any answer. Only questions about the length and about one or two bytes are in the map.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(HashMap<Question, IntervalSet>);

impl Known {
    pub(super) fn answers(&self, question: &Question) -> IntervalSet {
        self.0.get(question).cloned().unwrap_or_else(|| question.all())
    }

    /// Returns the lowest possible answer to a question.
    pub(super) fn least(&self, question: &Question) -> u128 {
        self.answers(question).intervals().first().map_or(0, |interval| interval.0)
    }

    fn most(&self, question: &Question) -> u128 {
        self.answers(question).intervals().last().map_or(0, |interval| interval.1)
    }

    /// True if a sum is zero or more for all possible answers. A masked answer may be any number that the
    /// mask permits.
    pub(super) fn is_at_least_zero(&self, sum: &AnswerSum) -> bool {
        let term = |(factor, question, mask): &(i64, Question, u128)| {
            let bound = match (*factor < 0, *mask == u128::MAX) {
                (false, true) => self.least(question),
                (false, false) => 0,
                (true, true) => self.most(question),
                (true, false) => *mask >> mask.trailing_zeros().min(127),
            };
            factor.saturating_mul(i64::try_from(bound).unwrap_or(i64::MAX))
        };
        sum.terms.iter().map(term).fold(sum.constant, i64::saturating_add) >= 0
    }

    /// True if all possible values of the byte at `place` have the IP version 4 and a header length, in words
    /// of 32 bits, that satisfies `is_right`.
    pub(super) fn is_header(&self, place: i32, is_right: impl Fn(u128) -> bool) -> bool {
        let answers = self.answers(&Question::Bytes { offset: place, length: 1 });
        let all = answers.intervals().iter().flat_map(|&(low, high)| low..=high);
        all.into_iter().all(|first| first >> 4 == 4 && is_right(first & 0x0f))
    }

    /// True if the IPv4 header at an offset is known to have no options.
    pub(super) fn is_plain(&self, place: i32) -> bool {
        let answers = self.answers(&Question::Bytes { offset: place, length: 1 });
        answers.intervals().iter().flat_map(|&(low, high)| low..=high).all(|first| first & 0x0f == 5)
    }

    fn with(&self, question: &Question, set: &IntervalSet) -> Known {
        let mut known = self.clone();
        if matches!(question, Question::Length | Question::Bytes { length: 1 | 2, .. }) {
            known.0.insert(question.clone(), self.answers(question).intersection(set));
        }
        known
    }

    /// Joins the facts of two predecessors of a node: an answer is possible if it is possible after either.
    fn join(&mut self, other: &Known) {
        self.0.retain(|question, set| match other.0.get(question) {
            Some(more) => {
                *set = set.union(more);
                true
            }
            None => false,
        });
    }
}

/// The facts at all nodes and classes of a program; `None` for parts that no packet reaches.
pub(super) struct Facts {
    nodes: Vec<Option<Known>>,
    classes: Vec<Option<Known>>,
}

impl Facts {
    /// Analyzes a program. If its layout has the transport header 20 bytes after the network header,
    /// packets enter with an IPv4 header without options.
    pub(super) fn new(program: &Program) -> Facts {
        let mut facts =
            Facts { nodes: vec![None; program.nodes.len()], classes: vec![None; program.classes.len()] };
        let mut first = Known::default();
        if let [_, Some(network), Some(transport)] = program.layout
            && transport == network + IPV4
        {
            let plain = (0..=0x0f).map(|high| (high << 4 | 5, high << 4 | 5)).collect();
            first = first.with(&Question::Bytes { offset: network, length: 1 }, &plain);
        }
        facts.arrive(program.start, first);
        for (number, node) in program.nodes.iter().enumerate() {
            let Some(known) = facts.nodes[number].clone() else { continue };
            for (next, set) in by_next(node) {
                facts.arrive(next, known.with(&node.question, &set));
            }
        }
        facts
    }

    fn arrive(&mut self, next: Next, known: Known) {
        let place = match next {
            Next::Node(number) => self.nodes.get_mut(number as usize),
            Next::Class(number) => self.classes.get_mut(number as usize),
        };
        match place {
            Some(Some(before)) => before.join(&known),
            Some(nothing) => *nothing = Some(known),
            None => {}
        }
    }

    /// Returns the facts at a node or class; empty if no packet reaches it.
    pub(super) fn at(&self, next: Next) -> Known {
        let known = match next {
            Next::Node(number) => self.nodes.get(number as usize),
            Next::Class(number) => self.classes.get(number as usize),
        };
        known.cloned().flatten().unwrap_or_default()
    }
}
