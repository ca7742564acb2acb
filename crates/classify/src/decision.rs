//! Decision graphs over aligned 32-bit words of a packet, as in Click's classifiers: the compiled form of
//! [`pattern`](crate::pattern) and of the listings of filters.
//!
//! A graph is a list of steps. Each step tests one word and leads to a later step or to a result, so an
//! evaluation ends after at most as many steps as there are. [`Graph::skip_implied`] redirects branches
//! past tests whose outcome follows from tests on the way to them.

use std::fmt;

/// The target of a branch: the index of a later step, or a result with its number, or [`FAIL`](Self::FAIL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next(pub(crate) u32);

impl Next {
    /// The result if no pattern matches.
    pub(crate) const FAIL: Next = Next(u32::MAX);
    /// The offset that is added to the number of a result; smaller values are indexes of steps.
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

/// A test of one word of a packet: the word under `mask` equals `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// The offset of the word in the packet in bytes, a multiple of four.
    pub(crate) offset: u32,
    pub(crate) mask: u32,
    pub(crate) value: u32,
    /// True if the test holds for a packet too short to have the bytes under the mask; otherwise it fails
    /// for such a packet.
    pub(crate) short: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) test: Test,
    /// The mask and the value of `test` in network byte order, so that they compare with a word as loaded
    /// from memory.
    pub(crate) mask: u32,
    pub(crate) value: u32,
    /// The smallest length of a packet, in bytes, that has all bytes under the mask.
    pub(crate) needs: u32,
    pub(crate) yes: Next,
    pub(crate) no: Next,
}

/// The steps of a decision graph, and the target at which an evaluation starts: the first step, or a result
/// if the graph has no steps. Branches lead from a step to a later step only.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) steps: Vec<Step>,
    pub(crate) start: Next,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph { steps: Vec::new(), start: Next::FAIL }
    }
}

/// The number of most recent test outcomes that are kept on the way to a step while implied tests are
/// skipped. Without a limit, the compilation of long lists would take quadratic time.
const MOST_FACTS: usize = 64;

impl Graph {
    /// Redirects each branch past tests whose outcome follows from the outcomes of tests before them.
    /// Branches lead forward only. So one pass in the order of the steps knows, when it comes to a step,
    /// the outcomes that hold on every way to it.
    pub(crate) fn skip_implied(&mut self) {
        type Facts = Vec<(Test, bool)>;
        let mut known: Vec<Option<Facts>> = vec![None; self.steps.len()];
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
                    let ahead = self.steps[n];
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

    /// Removes steps that no packet reaches, and steps whose two branches have the same target.
    pub(crate) fn prune(&mut self) {
        for i in (0..self.steps.len()).rev() {
            // Later steps have been processed already, so skipping one step is enough.
            let settle = |steps: &[Step], next: Next| match next.as_step() {
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

    /// Returns the numbers below `count` of results to which no branch leads.
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

    /// Returns the length in bytes from which on a packet has the bytes of all tests; 0 without tests.
    pub(crate) fn safe_length(&self) -> usize {
        self.steps.iter().map(|s| s.needs as usize).max().unwrap_or(0)
    }
}

impl Step {
    pub(crate) fn new(test: Test, yes: Next, no: Next) -> Step {
        Step { test, mask: test.mask.to_be(), value: test.value.to_be(), needs: test.needs(), yes, no }
    }

    #[inline]
    pub(crate) fn holds(&self, data: &[u8]) -> bool {
        let offset = self.test.offset as usize;
        if let Some(word) = data.get(offset..offset + 4) {
            // The slice has four bytes, so this compiles to one load.
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            return word & self.mask == self.value;
        }
        self.holds_at_end(data)
    }

    /// Evaluates the test where fewer than four bytes of the word are in the packet. It fails if bytes
    /// under the mask are missing.
    #[cold]
    fn holds_at_end(&self, data: &[u8]) -> bool {
        if data.len() < self.needs as usize {
            return false;
        }
        let mut word = [0; 4];
        let rest = data.get(self.test.offset as usize..).unwrap_or_default();
        word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u32::from_be_bytes(word) & self.test.mask == self.test.value
    }
}

impl Test {
    /// Returns the smallest length of a packet, in bytes, that has all bytes under the mask.
    pub(crate) fn needs(self) -> u32 {
        self.offset + 4 - self.mask.trailing_zeros().min(31) / 8
    }

    /// Returns the outcome of this test for packets for which the outcome of the test `fact` is `held`;
    /// `None` if both outcomes are possible.
    pub(crate) fn implied_by(self, fact: Test, held: bool) -> Option<bool> {
        // If one of the tests holds for missing bytes, the words alone imply nothing. Only an equal test
        // certainly has the same outcome.
        if self.short || fact.short {
            return (self == fact).then_some(held);
        }
        if self.offset != fact.offset {
            return None;
        }
        let common = self.mask & fact.mask;
        let agree = (self.value ^ fact.value) & common == 0;
        match held {
            true if !agree => Some(false),
            true if common == self.mask => Some(true),
            // This test requires everything that `fact` requires, so it fails if `fact` failed.
            false if agree && common == fact.mask => Some(false),
            _ => None,
        }
    }
}

/// Formats the graph as Click lists it: one line per step, then the length that all tests need.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |next: Next| match (next.as_step(), next) {
            (Some(n), _) => format!("step {n}"),
            (None, Next::FAIL) => "[X]".to_string(),
            (None, Next(n)) => format!("[{}]", n - Next::RESULTS),
        };
        match (self.start.as_step(), self.start.as_result()) {
            (None, Some(result)) => writeln!(f, "all->[{result}]")?,
            (None, None) => writeln!(f, "all->[2147483647]")?,
            (Some(_), _) => {
                for (i, step) in self.steps.iter().enumerate() {
                    let Test { offset, mask, value, short } = step.test;
                    let (yes, no) = (show(step.yes), show(step.no));
                    let short = if short { "  short->yes" } else { "" };
                    writeln!(f, "{i:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}{short}")?;
                }
            }
        }
        writeln!(f, "safe length {}\nalignment offset 0", self.safe_length())
    }
}
