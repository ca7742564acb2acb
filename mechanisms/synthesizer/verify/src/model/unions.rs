//! A list of conditions with the disjunctions of its parts, for questions about the first conditions of the
//! list, such as which of them packets satisfy.

use std::ops::Range;

use super::diagrams::{Bit, Diagrams};

/// A binary tree of conditions, each inner node of which is the disjunction of its children. A query about
/// the first conditions needs few operations on large diagrams.
pub struct Unions {
    /// The conditions by node: 1 is the root, the children of node n are 2n and 2n+1. The leaves are the
    /// conditions in order, padded with false to a power of two.
    tree: Vec<Bit>,
    leaves: usize,
}

impl Unions {
    /// Builds the tree of conditions in order.
    pub fn new(d: &Diagrams, conditions: Vec<Bit>) -> Unions {
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
    pub fn last_needed(&self, d: &Diagrams, end: usize, covered: &Bit) -> Option<usize> {
        let mut rest = covered.clone();
        self.descend(d, 1, 0..self.leaves, end, &mut rest)
    }

    /// True if one of the first `end` conditions is true for an assignment of all variables.
    pub fn take(&self, d: &Diagrams, end: usize, values: &[bool]) -> bool {
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

    /// Returns the packets of `all` that none of the first `end` conditions takes.
    pub fn left(&self, d: &Diagrams, end: usize, all: &Bit) -> Bit {
        let mut rest = all.clone();
        // Visits the largest subtrees that together have the first `end` conditions.
        let mut node = self.leaves + end;
        while node > 1 && !d.is_never(&rest) {
            if node % 2 == 1 {
                rest = d.and_not(&rest, &self.tree[node - 1]);
            }
            node /= 2;
        }
        rest
    }

    /// Returns the index of the first condition in the range `within` that some packets of `packets` satisfy.
    pub fn next_overlap(&self, d: &Diagrams, within: Range<usize>, packets: &Bit) -> Option<usize> {
        self.first_overlap(d, 1, 0..self.leaves, within, packets)
    }

    /// Returns the condition with an index.
    pub fn condition(&self, index: usize) -> &Bit {
        &self.tree[self.leaves + index]
    }

    /// Returns the indices of those of the first `end` conditions that take any packets of `all`, if each
    /// condition takes the packets that earlier conditions have left.
    pub fn takers(&self, d: &Diagrams, end: usize, all: &Bit) -> impl Iterator<Item = usize> {
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
