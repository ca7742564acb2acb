//! Lists conditions as a decision graph over 32-bit words, in the format in which Click shows its compiled
//! filters.
//!
//! A listing numbers bytes as Click does: the link-layer header from 2 (its words begin two bytes before
//! the header), the IP header from 256, and the transport header from 512.

use crate::Tree;
use std::fmt;

use super::{Condition, HeaderLayer, Test};
use crate::decision::{Graph, Next, Word, WordTest};

/// A list of conditions with their outputs, compiled to the decision graph that is shown.
#[derive(Clone, Debug)]
pub struct Listing {
    graph: Graph<Word>,
}

impl Listing {
    /// Compiles conditions, each with its output, in the order in which they are tried. The first condition
    /// that holds decides; the output `None` means that the packet is dropped.
    pub fn new<'c>(rules: impl DoubleEndedIterator<Item = (&'c Condition, Option<usize>)>) -> Listing {
        let rules: Vec<(Tree<WordTest>, Next)> = rules
            .map(|(condition, output)| {
                let words = condition.replace(&mut words).simplified();
                (in_order(words), output.map_or(Next::FAIL, Next::result))
            })
            .collect();
        let graph = Graph::of(rules.iter().map(|(condition, target)| (condition, *target)));
        Listing { graph: graph.map(Word::new) }
    }

    /// Returns the outputs below `count` to which the listing does not lead.
    pub fn unused(&self, count: usize) -> Vec<usize> {
        self.graph.unused(count)
    }

    /// Returns the length in bytes, counted as in the listing, from which on a packet has the bytes of all
    /// tests.
    pub fn safe_length(&self) -> usize {
        self.graph.safe_length()
    }

    /// True if the listing has no tests, so that each packet has the same result.
    pub fn is_constant(&self) -> bool {
        self.graph.start.as_step().is_none()
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph.fmt(f)
    }
}

/// Sorts the parts of conjunctions: first tests of the protocol, because most other tests depend on it, then
/// other tests by their offset, then parts with several tests.
fn in_order(condition: Tree<WordTest>) -> Tree<WordTest> {
    let order = |parts: Vec<Tree<WordTest>>| parts.into_iter().map(in_order).collect::<Vec<_>>();
    let asks_protocol = |part: &Tree<WordTest>| matches!(part, Tree::Leaf(word) if word.offset == PROTOCOL);
    let key = |part: &Tree<WordTest>| match part {
        Tree::Leaf(word) => (word.offset != PROTOCOL, word.offset, word.mask, word.value),
        Tree::Any(parts) if parts.iter().all(asks_protocol) => (false, PROTOCOL, 0, 0),
        _ => (true, u32::MAX, 0, 0),
    };
    match condition {
        Tree::All(parts) => {
            let mut parts = order(parts);
            parts.sort_by_key(key);
            Tree::All(parts)
        }
        Tree::Any(parts) => Tree::Any(order(parts)),
        Tree::Not(inner) => Tree::Not(Box::new(in_order(*inner))),
        Tree::Choose(parts) => Tree::Choose(Box::new(parts.map(in_order))),
        other => other,
    }
}

/// The offset, as in the listing, of the word that contains the protocol field of IPv4.
const PROTOCOL: u32 = 256 + 8;

/// Translates a test into an expression of tests of words for equality, because the graph's tests can only
/// compare for equality.
fn words(test: &Test) -> Tree<WordTest> {
    let place = u32::from(test.offset)
        + match test.header {
            HeaderLayer::Mac => 2,
            HeaderLayer::Network => 256,
            HeaderLayer::Transport => 512,
        };
    let shift = 8 * (4 - place % 4).saturating_sub(test.length.into());
    let (mask, high) = (test.mask << shift, test.high << shift);
    let word = |mask: u32, value: u32, short: bool| {
        Tree::Leaf(WordTest { offset: place & !3, mask, value: value & mask, short })
    };
    if mask == 0 {
        return Tree::Constant(!test.outside);
    }
    if test.low == test.high {
        let equal = word(mask, high, test.outside);
        return if test.outside { equal.not() } else { equal };
    }
    // Here, all ranges extend to the largest number that the mask allows. So the test asks if the masked
    // number is greater than `low - 1`.
    let above = (test.low << shift).saturating_sub(1);
    greater(mask, largest_within(mask, above), test.outside, &word)
}

/// Returns the largest number that has no bits outside of the mask and is at most `limit`.
fn largest_within(mask: u32, limit: u32) -> u32 {
    match limit & !mask {
        0 => limit,
        foreign => {
            let top = 31 - foreign.leading_zeros();
            let below = (1u32 << top) - 1;
            (limit & mask & !below) | (mask & below)
        }
    }
}

/// Returns an expression that is true if the number under the mask is greater than `limit` or, if `opposite`,
/// is not. The bits are tested in groups, from the highest: each group covers leading bits that are all zero
/// in `limit`, or all one in `limit + 1`, so that one test for equality decides about the group.
fn greater(
    mask: u32,
    limit: u32,
    opposite: bool,
    word: &impl Fn(u32, u32, bool) -> Tree<WordTest>,
) -> Tree<WordTest> {
    let (mut mask, mut limit) = (mask, limit & mask);
    let mut runs = Vec::new();
    while limit < mask {
        let ones = limit > mask >> 1;
        let differs = if ones { !(limit + 1) & mask } else { limit };
        let run = match differs {
            0 => mask,
            bits => mask & !(u32::MAX >> bits.leading_zeros()),
        };
        runs.push((ones, run));
        mask &= !run;
        limit &= mask;
    }
    let mut rest: Option<Tree<WordTest>> = None;
    for (ones, run) in runs.into_iter().rev() {
        let test = if ones { word(run, run, opposite) } else { word(run, 0, !opposite).not() };
        rest = Some(match (rest, ones) {
            (None, _) => test,
            (Some(rest), true) => Tree::All(vec![test, rest]),
            (Some(rest), false) => Tree::Any(vec![test, rest]),
        });
    }
    let greater = rest.unwrap_or(Tree::Constant(false));
    if opposite { greater.not() } else { greater }
}

#[cfg(test)]
impl Listing {
    /// Returns the output to which the listing leads for a packet. A word counts as missing if the packet
    /// lacks the last byte of the word that the mask compares. The result is right only if the packet has all
    /// bytes of the tested words.
    pub(super) fn walk(&self, headers: &super::HeaderSlices<'_>) -> Option<usize> {
        let mut next = self.graph.start;
        while let Some(step) = next.as_step().map(|n| &self.graph.steps[n]) {
            let WordTest { offset, mask, value, short } = step.test.test;
            let (header, start) = match offset {
                512.. => (headers.transport, i64::from(offset) - 512),
                256.. => (headers.network, i64::from(offset) - 256),
                _ => (headers.mac, i64::from(offset) - 2),
            };
            let byte = |i: i64| usize::try_from(start + i).ok().and_then(|at| header.get(at)).copied();
            let word = (0..4).fold(0, |word, i| word << 8 | u32::from(byte(i).unwrap_or(0)));
            let needed = 4 - mask.trailing_zeros() as i64 / 8;
            let there = byte(needed - 1).is_some();
            let yes = if there { word & mask == value } else { short };
            next = if yes { step.yes } else { step.no };
        }
        next.as_result()
    }
}
