//! Finds the first of many conditions that holds.
//!
//! Each condition is compiled to a graph of tests in which every branch leads on, so that it ends after at most as
//! many steps as it has tests. Which conditions are worth trying is found in decision trees over addresses,
//! protocol and ports: a condition is put under every part of the space in which it could hold, as far as that is
//! seen from its shape. Trees are made for conditions of like shape, because one that says nothing of a field
//! stands in all parts of a tree that divides by it. How many entries trees have in all is bounded; where the
//! bound is reached, leaves stay larger and are searched longer.
//!
//! A few conditions need no trees: they are one graph, in which each leads on to the next where it fails.

use super::condition::number;
use super::{Condition, Header, Headers, Test, Tree};

/// Where a test leads: to another test, or to an end.
type Next = u32;
const HOLDS: Next = u32::MAX;
const FAILS: Next = u32::MAX - 1;
/// In the graph of a few conditions, the end where the first of them holds; the others follow.
const FIRST_HOLDS: Next = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Step {
    test: Test,
    yes: Next,
    no: Next,
}

/// Compiled conditions.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    steps: Vec<Step>,
    /// Where each condition starts.
    starts: Vec<Next>,
    /// Where the graph of all conditions starts, if they are few.
    chain: Option<Next>,
    /// The root of each tree.
    roots: Vec<u32>,
    nodes: Vec<Node>,
    /// Conditions in leaves, in order.
    listed: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Below the threshold left, else right.
    Branch {
        field: u8,
        threshold: u32,
        left: u32,
        right: u32,
    },
    Leaf {
        first: u32,
        end: u32,
    },
}

/// The fields that trees divide by.
const FIELDS: [(Header, u16, u8); 5] = [
    (Header::Network, 12, 4),
    (Header::Network, 16, 4),
    (Header::Network, 9, 1),
    (Header::Transport, 0, 2),
    (Header::Transport, 2, 2),
];

/// A part of the space: from and to, for each field.
type Region = [(u32, u32); FIELDS.len()];
const EVERYWHERE: Region = [(0, u32::MAX); FIELDS.len()];

/// Regions of one condition; one with more is put under what covers all of them.
const MOST_REGIONS: usize = 16;
/// A list of this length is searched as it is.
const LEAF: usize = 8;
/// Entries of a tree for each condition in it.
const COPIES: usize = 8;
/// Branches from the root of a tree to a leaf.
const DEEPEST: usize = 48;
/// Fields that are this wide or wider do not tell a condition from others.
const WIDE: u32 = 1 << 28;

/// A condition in a region in which it may hold.
#[derive(Clone, Copy)]
struct Entry {
    rule: u32,
    region: Region,
}

impl Matcher {
    /// Compiles conditions.
    pub fn new(conditions: &[Condition]) -> Matcher {
        let mut matcher = Matcher::default();
        if conditions.len() <= 2 * LEAF {
            let last_first = conditions.iter().enumerate().rev();
            let chain = last_first.fold(FAILS, |next, (number, condition)| {
                matcher.compile(condition, FIRST_HOLDS + number as Next, next)
            });
            matcher.chain = Some(chain);
            return matcher;
        }
        let mut groups: [Vec<Entry>; 4] = Default::default();
        for (rule, condition) in conditions.iter().enumerate() {
            let start = matcher.compile(condition, HOLDS, FAILS);
            matcher.starts.push(start);
            let regions = regions(condition, false);
            for region in regions {
                let narrow = |field: usize| usize::from(region[field].1 - region[field].0 < WIDE);
                groups[2 * narrow(0) + narrow(1)].push(Entry { rule: rule as u32, region });
            }
        }
        for entries in groups.into_iter().filter(|entries| !entries.is_empty()) {
            let mut spare = entries.len() * COPIES;
            let root = matcher.divide(entries, EVERYWHERE, &mut spare, DEEPEST);
            matcher.roots.push(root);
        }
        matcher
    }

    /// Lays out a condition's tests; returns where it starts.
    fn compile(&mut self, condition: &Condition, yes: Next, no: Next) -> Next {
        match condition {
            Tree::Constant(value) => {
                if *value {
                    yes
                } else {
                    no
                }
            }
            Tree::Leaf(test) => {
                self.steps.push(Step { test: *test, yes, no });
                self.steps.len() as Next - 1
            }
            Tree::Not(inner) => self.compile(inner, no, yes),
            Tree::All(parts) => parts.iter().rev().fold(yes, |next, part| self.compile(part, next, no)),
            Tree::Any(parts) => parts.iter().rev().fold(no, |next, part| self.compile(part, yes, next)),
            Tree::Choose(parts) => {
                let [condition, then, otherwise] = &**parts;
                let then = self.compile(then, yes, no);
                let otherwise = self.compile(otherwise, yes, no);
                self.compile(condition, then, otherwise)
            }
        }
    }

    /// Makes a tree of entries; returns its root. `spare` is how many entries may still be added.
    fn divide(&mut self, entries: Vec<Entry>, region: Region, spare: &mut usize, depth: usize) -> u32 {
        let cut = if entries.len() > LEAF && depth > 0 { best_cut(&entries, &region) } else { None };
        let copies = |cut: &Cut| cut.left + cut.right - entries.len();
        let Some(cut) = cut.filter(|cut| copies(cut) <= *spare) else {
            let mut rules: Vec<u32> = entries.iter().map(|entry| entry.rule).collect();
            rules.sort_unstable();
            rules.dedup();
            let first = self.listed.len() as u32;
            self.listed.extend(rules);
            self.nodes.push(Node::Leaf { first, end: self.listed.len() as u32 });
            return self.nodes.len() as u32 - 1;
        };
        *spare -= copies(&cut);
        let Cut { field, threshold, .. } = cut;
        let (mut below, mut above) = (region, region);
        (below[field].1, above[field].0) = (threshold - 1, threshold);
        let part = |keep: fn(&Entry, &Cut) -> bool| -> Vec<Entry> {
            entries.iter().filter(|entry| keep(entry, &cut)).copied().collect()
        };
        let left = part(|entry, cut| entry.region[cut.field].0 < cut.threshold);
        let right = part(|entry, cut| entry.region[cut.field].1 >= cut.threshold);
        drop(entries);
        let left = self.divide(left, below, spare, depth - 1);
        let right = self.divide(right, above, spare, depth - 1);
        self.nodes.push(Node::Branch { field: field as u8, threshold, left, right });
        self.nodes.len() as u32 - 1
    }

    /// Whether the conditions look at a header.
    pub fn looks_at(&self, header: Header) -> bool {
        self.steps.iter().any(|step| step.test.header == header)
    }

    /// The number of the first condition that holds.
    #[inline]
    pub fn first(&self, headers: &Headers<'_>) -> Option<usize> {
        match self.chain {
            Some(chain) => {
                let end = self.end(chain, headers);
                (end != FAILS).then(|| (end - FIRST_HOLDS) as usize)
            }
            None => self.first_in_trees(headers),
        }
    }

    fn first_in_trees(&self, headers: &Headers<'_>) -> Option<usize> {
        let mut best = u32::MAX;
        for &root in &self.roots {
            let mut node = root;
            let rules = loop {
                match self.nodes[node as usize] {
                    Node::Leaf { first, end } => break &self.listed[first as usize..end as usize],
                    Node::Branch { field, threshold, left, right } => {
                        node = if value(field, headers) < threshold { left } else { right };
                    }
                }
            };
            // They are in order: the first that holds is the best of its leaf.
            let better = rules.iter().take_while(|&&rule| rule < best);
            let mut better = better.filter(|&&rule| self.end(self.starts[rule as usize], headers) == HOLDS);
            if let Some(&rule) = better.next() {
                best = rule;
            }
        }
        (best != u32::MAX).then_some(best as usize)
    }

    /// The end that the tests from one on lead to.
    #[inline]
    fn end(&self, mut at: Next, headers: &Headers<'_>) -> Next {
        // Every test leads to one that was laid out before it, or to an end.
        while let Some(step) = self.steps.get(at as usize) {
            at = if step.test.holds(headers) { step.yes } else { step.no };
        }
        at
    }
}

/// What stands in a field. What is missing may be taken for anything: conditions that need it are tried in vain.
#[inline]
fn value(field: u8, headers: &Headers<'_>) -> u32 {
    let (header, offset, length) = FIELDS[usize::from(field)];
    number(headers.of(header), offset, length).unwrap_or(0)
}

/// Regions outside of which the condition cannot hold, or (negated) cannot fail; at most [`MOST_REGIONS`].
fn regions(condition: &Condition, negated: bool) -> Vec<Region> {
    match (condition, negated) {
        (Tree::Constant(value), _) if *value == negated => Vec::new(),
        // A test fails for packets without the field, so that its failing says nothing.
        (Tree::Constant(_), _) | (Tree::Leaf(_), true) => vec![EVERYWHERE],
        (Tree::Leaf(test), false) => vec![region(test)],
        (Tree::Not(inner), _) => regions(inner, !negated),
        (Tree::All(parts), false) | (Tree::Any(parts), true) => {
            parts.iter().fold(vec![EVERYWHERE], |all, part| meet(&all, &regions(part, negated)))
        }
        (Tree::Any(parts), false) | (Tree::All(parts), true) => {
            bounded(parts.iter().flat_map(|part| regions(part, negated)).collect())
        }
        (Tree::Choose(parts), _) => {
            let [condition, then, otherwise] = &**parts;
            let mut all = meet(&regions(condition, false), &regions(then, negated));
            all.extend(meet(&regions(condition, true), &regions(otherwise, negated)));
            bounded(all)
        }
    }
}

fn region(test: &Test) -> Region {
    let mut region = EVERYWHERE;
    let field = FIELDS.iter().position(|&field| field == (test.header, test.offset, test.length));
    if let Some(field) = field
        && !test.outside
    {
        // Bits that do not count may be anything.
        let free = !test.mask & u32::MAX >> (32 - 8 * u32::from(test.length));
        region[field] = (test.low, test.high.saturating_add(free));
    }
    region
}

/// Where a region of both is.
fn meet(left: &[Region], right: &[Region]) -> Vec<Region> {
    let both = left.iter().flat_map(|l| right.iter().map(move |r| intersection(l, r)));
    bounded(both.filter(|region| region.iter().all(|&(low, high)| low <= high)).collect())
}

fn intersection(left: &Region, right: &Region) -> Region {
    std::array::from_fn(|i| (left[i].0.max(right[i].0), left[i].1.min(right[i].1)))
}

/// Too many become one that covers them all.
fn bounded(regions: Vec<Region>) -> Vec<Region> {
    let Some((&first, rest)) = regions.split_first().filter(|_| regions.len() > MOST_REGIONS) else {
        return regions;
    };
    let cover =
        |all: Region, one: &Region| std::array::from_fn(|i| (all[i].0.min(one[i].0), all[i].1.max(one[i].1)));
    vec![rest.iter().fold(first, cover)]
}

struct Cut {
    field: usize,
    threshold: u32,
    left: usize,
    right: usize,
}

/// The threshold that leaves the smallest parts, if any is worth it.
fn best_cut(entries: &[Entry], region: &Region) -> Option<Cut> {
    let mut best: Option<Cut> = None;
    for (field, &(least, most)) in region.iter().enumerate() {
        let mut lows: Vec<u32> = entries.iter().map(|entry| entry.region[field].0).collect();
        let mut highs: Vec<u32> = entries.iter().map(|entry| entry.region[field].1).collect();
        lows.sort_unstable();
        highs.sort_unstable();
        // Where something starts, and behind where something ends; the middle ones divide well.
        let mut places = lows.clone();
        places.extend(highs.iter().filter_map(|high| high.checked_add(1)));
        places.retain(|&place| least < place && place <= most);
        places.sort_unstable();
        for part in 1..4 {
            let Some(&threshold) = places.get(places.len() * part / 4) else { continue };
            let left = lows.partition_point(|&low| low < threshold);
            let right = entries.len() - highs.partition_point(|&high| high < threshold);
            let cost = |left: usize, right: usize| left.max(right) * 2 + left + right;
            let helps = left.max(right) + entries.len() / 16 < entries.len();
            if helps && best.as_ref().is_none_or(|b| cost(left, right) < cost(b.left, b.right)) {
                best = Some(Cut { field, threshold, left, right });
            }
        }
    }
    best
}
