//! Idle rules: rules of an element that decide about no packet, because earlier rules take every packet
//! that they match, or no packet matches them.

use std::ops::Range;

use element::effects::{Effects, Written};

use crate::model::arrival::Waiting;
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::functions::Functions;
use crate::model::step::Unit;
use program::chain::ChainNode;

/// The maximum number of earlier rules that are recorded, per arriving symbolic packet, as the rules that
/// together take all packets of an idle rule.
const MOST_COVERS: usize = 64;

/// The number of random packets that are tried per rule. If a tried packet shows that the rule decides about
/// packets, the slower test with diagrams is not needed.
const WITNESSES: usize = 8;

/// The maximum number of covering rules that a report names.
pub const MOST_NAMED: usize = 4;

/// A rule that decides about no packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRule {
    /// The number of the element that has the rule.
    pub node: usize,
    /// The rule, with its place in the configuration.
    pub rule: Written,
    /// Earlier rules that take packets that match the idle rule; at most [`MOST_NAMED`], so there may be
    /// more. Empty if no packet that arrives matches the rule.
    pub covered_by: Vec<Written>,
    /// The first earlier rule that takes some of the idle rule's packets and does something else with them
    /// than the idle rule would: another destination or other changes. `None` if there is no such rule: the
    /// idle rule is redundant, or no packet matches it.
    pub elsewhere: Option<Written>,
}

/// The use of one element's rules (the cases of its declaration) by all packets that arrive.
pub struct Usage {
    /// For each case, true if it has decided about a packet.
    decides: Vec<bool>,
    /// For each case, the earlier cases that took its packets, without duplicates; at most [`MOST_COVERS`]
    /// per arrival, the last case of an arrival first.
    covers: Vec<Vec<usize>>,
    /// For each case, the first earlier case that takes some of its packets and treats them in another way.
    elsewhere: Vec<Option<usize>>,
}

impl Usage {
    /// Returns an empty record for the cases of a declaration.
    pub fn new(effects: &Effects) -> Usage {
        let n = effects.cases.len();
        Usage { decides: vec![false; n], covers: vec![Vec::new(); n], elsewhere: vec![None; n] }
    }

    /// Records the use of the rules by the packets that wait at the element.
    pub fn see(&mut self, d: &Diagrams, node: &ChainNode, waiting: &Waiting) {
        for (&input, arrivals) in waiting {
            for arrival in arrivals {
                let functions = Functions::default();
                let unit = Unit::of(node, &functions, 0, input);
                let Some(mut cases) = unit.conditions(d, &arrival.condition, &arrival.packet) else {
                    // Nothing is known of the packets that arrive, or of the element, so each rule may decide
                    // about them.
                    self.decides.fill(true);
                    return;
                };
                cases.retain(|(_, when)| !d.is_never(when));
                self.compare(d, &node.effects, &cases);
            }
        }
    }

    /// Records which of `cases` decide about a packet. For each other case, records the earlier cases that
    /// take its packets. Each case is given by its index and by the packets that its filter accepts. Cases
    /// that the user has not written as rules are not recorded.
    fn compare(&mut self, d: &Diagrams, effects: &Effects, cases: &[(usize, Bit)]) {
        let unions = Unions::new(d, cases.iter().map(|(_, when)| when.clone()).collect());
        let mut random = fastrand::Rng::with_seed(1);
        for (place, (case, when)) in cases.iter().enumerate() {
            if effects.cases[*case].written.is_none() {
                continue;
            }
            // For most rules that decide, a random packet that they accept and no earlier rule does is
            // found at once.
            self.decides[*case] |= (0..WITNESSES).any(|_| {
                let witness = d.witness(when, &mut || random.bool());
                witness.is_some_and(|values| !unions.take(d, place, &values))
            });
            if self.decides[*case] {
                continue;
            }
            let mut rest = when.clone();
            let mut before = place;
            let mut covers = Vec::new();
            while !d.is_never(&rest) && covers.len() < MOST_COVERS {
                let Some(last) = unions.last_needed(d, before, &rest) else {
                    // The earlier rules together do not take all packets that this rule matches, so this rule
                    // decides about some packets.
                    self.decides[*case] = covers.is_empty();
                    break;
                };
                covers.push(cases[last].0);
                rest = d.and_not(&rest, &cases[last].1);
                before = last;
            }
            if !self.decides[*case] {
                let fate = |case: usize| (&effects.cases[case].to, &effects.cases[case].actions);
                let mut takers = unions.takers(d, place, when).map(|taker| cases[taker].0);
                let other = takers.find(|&taker| fate(taker) != fate(*case));
                self.elsewhere[*case] = self.elsewhere[*case].or(other);
            }
            for cover in covers {
                if !self.covers[*case].contains(&cover) {
                    self.covers[*case].push(cover);
                }
            }
        }
    }

    /// Returns the rules that have decided about no packet. `node` is the number of the element, `effects`
    /// its declaration.
    pub fn idle(self, node: usize, effects: &Effects) -> Vec<IdleRule> {
        let Usage { decides, covers, elsewhere } = self;
        let idle = (0..decides.len()).filter(|&case| !decides[case]);
        idle.filter_map(|case| {
            let rule = effects.cases[case].written?;
            let named = covers[case].iter().filter_map(|&cover| effects.cases[cover].written);
            let covered_by = named.take(MOST_NAMED).collect();
            let elsewhere = elsewhere[case].and_then(|other| effects.cases[other].written);
            Some(IdleRule { node, rule, covered_by, elsewhere })
        })
        .collect()
    }
}

/// A binary tree of conditions, each inner node of which is the disjunction of its children. A query about
/// the first conditions needs few operations on large diagrams.
struct Unions {
    /// The conditions by node: 1 is the root, the children of node n are 2n and 2n+1. The leaves are the
    /// conditions in order, padded with false to a power of two.
    tree: Vec<Bit>,
    leaves: usize,
}

impl Unions {
    fn new(d: &Diagrams, conditions: Vec<Bit>) -> Unions {
        let leaves = conditions.len().next_power_of_two();
        let mut tree = vec![d.no(); 2 * leaves];
        for (place, condition) in conditions.into_iter().enumerate() {
            tree[leaves + place] = condition;
        }
        for node in (1..leaves).rev() {
            tree[node] = d.or(&tree[2 * node], &tree[2 * node + 1]);
        }
        Unions { tree, leaves }
    }

    /// Returns the index of the last condition that is needed to cover `covered` by the first conditions: the
    /// conditions up to this index together contain all its packets. `None` if the first `end` conditions
    /// together do not.
    fn last_needed(&self, d: &Diagrams, end: usize, covered: &Bit) -> Option<usize> {
        let mut rest = covered.clone();
        self.descend(d, 1, 0..self.leaves, end, &mut rest)
    }

    /// True if one of the first `end` conditions is true for an assignment of all variables.
    fn take(&self, d: &Diagrams, end: usize, values: &[bool]) -> bool {
        // Visits the largest subtrees that together have the first `end` conditions, from the last to the
        // first.
        let mut node = self.leaves + end;
        while node > 1 {
            if node % 2 == 1 && d.is_true(&self.tree[node - 1], values) {
                return true;
            }
            node /= 2;
        }
        false
    }

    /// Returns the indices of those of the first `end` conditions that take any packets of `all`, if each
    /// condition takes the packets that earlier conditions have left.
    fn takers(&self, d: &Diagrams, end: usize, all: &Bit) -> impl Iterator<Item = usize> {
        let mut rest = all.clone();
        let mut from = 0;
        std::iter::from_fn(move || {
            let taker = self.first_overlap(d, 1, 0..self.leaves, from..end, &rest)?;
            rest = d.and_not(&rest, &self.tree[self.leaves + taker]);
            from = taker + 1;
            Some(taker)
        })
    }

    /// Returns the index of the first condition in the range `within` that some packets of `rest` satisfy.
    fn first_overlap(
        &self,
        d: &Diagrams,
        node: usize,
        range: Range<usize>,
        within: Range<usize>,
        rest: &Bit,
    ) -> Option<usize> {
        let is_outside = range.start >= within.end || range.end <= within.start;
        if is_outside || !d.overlap(rest, &self.tree[node]) {
            return None;
        }
        if range.len() == 1 {
            return Some(range.start);
        }
        let middle = range.start + range.len() / 2;
        self.first_overlap(d, 2 * node, range.start..middle, within.clone(), rest)
            .or_else(|| self.first_overlap(d, 2 * node + 1, middle..range.end, within, rest))
    }

    fn descend(
        &self,
        d: &Diagrams,
        node: usize,
        range: Range<usize>,
        end: usize,
        rest: &mut Bit,
    ) -> Option<usize> {
        if range.start >= end {
            return None;
        }
        if range.end <= end {
            let left = d.and_not(rest, &self.tree[node]);
            if !d.is_never(&left) {
                *rest = left;
                return None;
            }
            if range.len() == 1 {
                return Some(range.start);
            }
        }
        let middle = range.start + range.len() / 2;
        self.descend(d, 2 * node, range.start..middle, end, rest)
            .or_else(|| self.descend(d, 2 * node + 1, middle..range.end, end, rest))
    }
}
