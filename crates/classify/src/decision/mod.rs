//! Decision graphs: conditions compiled into steps that each evaluate one test of a packet.
//!
//! A graph is a list of steps. Each step has a test and leads to a later step or to a result, so an
//! evaluation ends after at most as many steps as there are. [`Graph::of`] compiles a list of conditions: a
//! branch skips each test whose outcome follows from the tests that a packet has passed before it.
//!
//! Click's byte patterns ([`pattern`](crate::pattern)) and listings are graphs of [`word`]s; the matchers
//! of filters are graphs of tests of header bytes.

mod word;

use crate::tree::Tree;

pub(crate) use word::{Word, WordTest};

/// The target of a branch: the index of a later step, or a result with its number, or [`FAIL`](Self::FAIL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next(pub(crate) u32);

impl Next {
    /// The result if no condition holds.
    pub(crate) const FAIL: Next = Next(u32::MAX);
    /// The offset that is added to the number of a result; values below this offset are indexes of steps.
    const RESULTS: u32 = 1 << 31;

    pub(crate) fn step(number: usize) -> Next {
        Next(number as u32)
    }

    /// Makes the branch target for the result with this number, such as the number of an output.
    pub(crate) fn result(number: usize) -> Next {
        Next(Next::RESULTS + number as u32)
    }

    pub(crate) fn as_step(self) -> Option<usize> {
        (self.0 < Next::RESULTS).then_some(self.0 as usize)
    }

    #[inline]
    pub(crate) fn as_result(self) -> Option<usize> {
        self.0.checked_sub(Next::RESULTS).filter(|_| self != Next::FAIL).map(|n| n as usize)
    }
}

/// A test of a packet, which holds or fails.
pub(crate) trait Test: Copy + PartialEq {
    /// Returns the outcome of this test for packets for which the outcome of the test `fact` is `held`;
    /// `None` if both outcomes are possible, or may be.
    fn implied_by(self, fact: Self, held: bool) -> Option<bool>;
}

/// A test, and the targets that it leads to if it holds (`yes`) or fails (`no`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<T> {
    pub(crate) test: T,
    pub(crate) yes: Next,
    pub(crate) no: Next,
}

/// The steps of a decision graph, and the target at which an evaluation starts: the first step, or a result
/// if the graph has no steps. A branch leads to a later step or to a result.
#[derive(Clone, Debug)]
pub(crate) struct Graph<T> {
    pub(crate) steps: Vec<Step<T>>,
    pub(crate) start: Next,
}

impl<T> Default for Graph<T> {
    fn default() -> Graph<T> {
        Graph { steps: Vec::new(), start: Next::FAIL }
    }
}

/// The largest number of test outcomes, the most recent ones, that are known at a step while implied tests
/// are skipped. Without a limit, the compilation of long lists of conditions would take quadratic time.
const MOST_FACTS: usize = 64;

impl<T: Test> Graph<T> {
    /// Compiles a list of conditions, each with the target of packets for which it holds. The first
    /// condition that holds decides; packets for which no condition holds lead to [`Next::FAIL`].
    pub(crate) fn of<'c>(rules: impl DoubleEndedIterator<Item = (&'c Tree<T>, Next)>) -> Graph<T>
    where
        T: 'c,
    {
        let mut graph = Graph::default();
        for (condition, target) in rules.rev() {
            graph.start = graph.lay_out(condition, target, graph.start);
        }
        // The steps were appended in reverse, from the last test to the first, so that branches lead to lower
        // indexes. Now the order is reversed.
        let count = graph.steps.len();
        graph.steps.reverse();
        let turn = |next: Next| next.as_step().map_or(next, |n| Next::step(count - 1 - n));
        for step in &mut graph.steps {
            (step.yes, step.no) = (turn(step.yes), turn(step.no));
        }
        graph.start = turn(graph.start);
        graph.skip_implied();
        graph.prune();
        graph
    }

    /// Appends the tests of a condition in reverse order of evaluation. Returns the target at which its
    /// evaluation starts. The evaluation ends at `yes` if the condition holds, and otherwise at `no`.
    fn lay_out(&mut self, condition: &Tree<T>, yes: Next, no: Next) -> Next {
        match condition {
            Tree::Constant(true) => yes,
            Tree::Constant(false) => no,
            Tree::Leaf(test) => {
                self.steps.push(Step { test: *test, yes, no });
                Next::step(self.steps.len() - 1)
            }
            Tree::Not(inner) => self.lay_out(inner, no, yes),
            Tree::All(parts) => parts.iter().rev().fold(yes, |next, part| self.lay_out(part, next, no)),
            Tree::Any(parts) => parts.iter().rev().fold(no, |next, part| self.lay_out(part, yes, next)),
            Tree::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                let otherwise = self.lay_out(otherwise, yes, no);
                let then = self.lay_out(then, yes, no);
                self.lay_out(condition, then, otherwise)
            }
        }
    }

    /// Appends another graph. Returns the target at which an evaluation of that graph starts; the start of
    /// this graph does not change.
    pub(crate) fn append(&mut self, other: Graph<T>) -> Next {
        let before = self.steps.len();
        let moved = |next: Next| next.as_step().map_or(next, |n| Next::step(before + n));
        let steps = other.steps.iter();
        self.steps.extend(steps.map(|s| Step { test: s.test, yes: moved(s.yes), no: moved(s.no) }));
        moved(other.start)
    }

    /// Returns the graph in which each test is replaced by the form of it that `form` returns.
    pub(crate) fn map<U>(self, form: impl Fn(T) -> U) -> Graph<U> {
        let steps = self.steps.into_iter().map(|s| Step { test: form(s.test), yes: s.yes, no: s.no });
        Graph { steps: steps.collect(), start: self.start }
    }

    /// Redirects each branch past tests whose outcome follows from the outcomes of tests before them.
    /// Branches lead forward only, so one pass over the steps in their order is enough. When the pass comes
    /// to a step, it knows the outcomes that are the same on all paths to this step, and keeps at most
    /// [`MOST_FACTS`] of them.
    fn skip_implied(&mut self) {
        let mut known: Vec<Option<Vec<(T, bool)>>> = vec![None; self.steps.len()];
        if let Some(first) = self.start.as_step() {
            known[first] = Some(Vec::new());
        }
        for i in 0..self.steps.len() {
            let Some(facts) = known[i].take() else { continue };
            let test = self.steps[i].test;
            for outcome in [true, false] {
                let mut facts = facts.clone();
                facts.push((test, outcome));
                if facts.len() > MOST_FACTS {
                    facts.remove(0);
                }
                let mut next = if outcome { self.steps[i].yes } else { self.steps[i].no };
                while let Some(n) = next.as_step() {
                    let ahead = &self.steps[n];
                    match facts.iter().find_map(|&(fact, held)| ahead.test.implied_by(fact, held)) {
                        Some(true) => next = ahead.yes,
                        Some(false) => next = ahead.no,
                        None => break,
                    }
                }
                if let Some(n) = next.as_step() {
                    match &mut known[n] {
                        Some(there) => there.retain(|fact| facts.contains(fact)),
                        empty => *empty = Some(facts),
                    }
                }
                if outcome {
                    self.steps[i].yes = next;
                } else {
                    self.steps[i].no = next;
                }
            }
        }
    }

    /// Removes steps to which no path leads from the start, and steps whose two branches have the same
    /// target.
    fn prune(&mut self) {
        for i in (0..self.steps.len()).rev() {
            // Steps with higher indexes have already been processed. So a branch has to skip at most one step
            // whose two branches have the same target.
            let settle = |steps: &[Step<T>], next: Next| match next.as_step() {
                Some(n) if steps[n].yes == steps[n].no => steps[n].yes,
                _ => next,
            };
            self.steps[i].yes = settle(&self.steps, self.steps[i].yes);
            self.steps[i].no = settle(&self.steps, self.steps[i].no);
        }
        if let Some(n) = self.start.as_step()
            && self.steps[n].yes == self.steps[n].no
        {
            self.start = self.steps[n].yes;
        }
        let mut reached = vec![false; self.steps.len()];
        if let Some(n) = self.start.as_step() {
            reached[n] = true;
        }
        for i in 0..self.steps.len() {
            if reached[i] {
                for next in [self.steps[i].yes, self.steps[i].no] {
                    if let Some(n) = next.as_step() {
                        reached[n] = true;
                    }
                }
            }
        }
        let mut number = Vec::with_capacity(reached.len());
        let mut count = 0;
        for &r in &reached {
            number.push(count);
            count += usize::from(r);
        }
        let renumber = |next: &mut Next| {
            if let Some(n) = next.as_step() {
                *next = Next::step(number[n]);
            }
        };
        let mut index = 0;
        self.steps.retain(|_| {
            index += 1;
            reached[index - 1]
        });
        for step in &mut self.steps {
            renumber(&mut step.yes);
            renumber(&mut step.no);
        }
        renumber(&mut self.start);
    }
}

impl<T> Graph<T> {
    /// Returns the numbers below `count` of results to which the graph does not lead.
    pub(crate) fn unused(&self, count: usize) -> Vec<usize> {
        let mut used = vec![false; count];
        let all = self.steps.iter().flat_map(|s| [s.yes, s.no]).chain([self.start]);
        for result in all.filter(|next| next.as_step().is_none()).filter_map(Next::as_result) {
            if let Some(used) = used.get_mut(result) {
                *used = true;
            }
        }
        (0..count).filter(|&result| !used[result]).collect()
    }
}
