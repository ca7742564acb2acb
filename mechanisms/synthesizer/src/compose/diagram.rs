//! Decision graphs over questions (directed and acyclic), in which equal nodes are shared. After ordering,
//! each path asks a question at most once; graphs that would become too large are not ordered.

use std::collections::{BTreeSet, HashMap};

use classify::IntervalSet;

use program::question::{LeasedProperty, Question};
use program::{Next, Node};

/// The maximum number of nodes that ordering may add. A graph that needs more stays as it is.
const MOST_NODES: usize = 1 << 18;

/// A store of decision nodes without duplicates (hash-consing). A graph in the store is identified by its
/// start node.
#[derive(Default)]
pub struct Diagram {
    nodes: Vec<Node>,
    numbers: HashMap<Node, u32>,
}

impl Diagram {
    /// Returns a node for a question, in which the answers of each set of `parts` lead to the successor
    /// beside the set. Answers that are in none of the sets must not occur; they may lead anywhere. If all
    /// sets have the same successor, it is returned instead of a node, except for questions about lists and
    /// about the output of a lease.
    pub fn switch(&mut self, question: &Question, parts: Vec<(IntervalSet, Next)>) -> Next {
        let mut ranges: Vec<(u128, u128, Next)> = parts
            .iter()
            .flat_map(|(set, next)| set.intervals().iter().map(move |&(low, high)| (low, high, *next)))
            .collect();
        ranges.sort_unstable();
        let ends: Vec<(u128, Next)> = ranges.into_iter().map(|(_, high, next)| (high, next)).collect();
        self.node(question, ends)
    }

    /// Returns a node for a question, given by the last answer and the successor of each range in ascending
    /// order. A range begins after the previous one; the last range is extended to the highest answer. A
    /// single successor is returned instead of a node, with the exceptions of [`switch`](Self::switch).
    fn node(&mut self, question: &Question, mut ends: Vec<(u128, Next)>) -> Next {
        // Adjacent ranges with equal successors are merged.
        let mut parts: Vec<(u128, Next)> = Vec::with_capacity(ends.len());
        for (last, next) in ends.drain(..) {
            match parts.last_mut() {
                Some((end, same)) if *same == next => *end = last,
                _ => parts.push((last, next)),
            }
        }
        let all = question.all().intervals().last().map_or(0, |interval| interval.1);
        match parts.last_mut() {
            Some((last, _)) => *last = all,
            None => return Next::default(),
        }
        // A question about a list counts the matching rule, and a question about the output of a lease causes
        // the lease. So these questions are asked even if all answers have the same successor.
        if let [(_, only)] = parts[..]
            && !matches!(question, Question::List(_) | Question::Leased { what: LeasedProperty::Output, .. })
        {
            return only;
        }
        let node = Node { question: question.clone(), parts };
        if let Some(number) = self.numbers.get(&node) {
            return Next::Node(*number);
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(node.clone());
        self.numbers.insert(node, number);
        Next::Node(number)
    }

    fn get(&self, next: Next) -> Option<&Node> {
        match next {
            Next::Node(number) => self.nodes.get(number as usize),
            Next::Class(_) => None,
        }
    }

    /// Returns an equivalent graph in which questions follow the order of [`Question`], so that no path
    /// asks a question twice. Returns the unchanged graph if the result would be too large.
    #[must_use]
    pub fn ordered(&mut self, start: Next) -> Next {
        let limit = self.nodes.len() + MOST_NODES;
        let mut order = Order { diagram: self, limit, questions: HashMap::new(), done: HashMap::new() };
        order.order(start).unwrap_or(start)
    }

    /// Adds a graph given as a list of nodes, each of which leads only to nodes with a higher index.
    /// Returns its start.
    pub fn load(&mut self, nodes: &[Node], start: Next) -> Next {
        let mut loaded = vec![Next::default(); nodes.len()];
        let place = |loaded: &[Next], next| match next {
            Next::Node(number) => loaded[number as usize],
            class => class,
        };
        for (number, node) in nodes.iter().enumerate().rev() {
            let parts = node.parts.iter().map(|&(last, next)| (last, place(&loaded, next))).collect();
            loaded[number] = self.node(&node.question, parts);
        }
        place(&loaded, start)
    }

    /// Returns all questions that a graph asks.
    pub fn questions(&self, start: Next) -> BTreeSet<Question> {
        let (nodes, _) = self.finish(start);
        nodes.into_iter().map(|node| node.question).collect()
    }

    /// Returns the residual graph for packets whose answer to `question` is in `answers`. Where a single
    /// range of answers remains at a node, the node is replaced by its successor, with each class in the
    /// successor's graph replaced by the class that `replace` returns.
    #[must_use]
    pub fn narrowed(
        &mut self,
        next: Next,
        question: &Question,
        answers: &IntervalSet,
        replace: &mut dyn FnMut(u32) -> u32,
    ) -> Next {
        self.narrow(next, &Narrow { question, answers }, replace, &mut HashMap::new())
    }

    fn narrow(
        &mut self,
        next: Next,
        what: &Narrow<'_>,
        replace: &mut dyn FnMut(u32) -> u32,
        done: &mut HashMap<Next, Next>,
    ) -> Next {
        let Some(Node { question, parts }) = self.get(next).cloned() else { return next };
        if let Some(known) = done.get(&next) {
            return *known;
        }
        let left = if question == *what.question {
            let mut first = 0;
            let mut left = Vec::new();
            for (last, there) in parts {
                if !what.answers.intersection(&IntervalSet::one(first, last)).is_empty() {
                    left.push((last, there));
                }
                first = last.saturating_add(1);
            }
            match left[..] {
                [(_, only)] => self.replaced(only, replace, &mut HashMap::new()),
                _ => self.node(&question, left),
            }
        } else {
            let parts = parts
                .into_iter()
                .map(|(last, there)| (last, self.narrow(there, what, replace, done)))
                .collect();
            self.node(&question, parts)
        };
        done.insert(next, left);
        left
    }

    /// Returns the graph with each class replaced by the class that `replace` returns.
    fn replaced(
        &mut self,
        next: Next,
        replace: &mut dyn FnMut(u32) -> u32,
        done: &mut HashMap<Next, Next>,
    ) -> Next {
        if let Some(known) = done.get(&next) {
            return *known;
        }
        let replaced = match next {
            Next::Class(class) => Next::Class(replace(class)),
            Next::Node(number) => {
                let Node { question, parts } = self.nodes[number as usize].clone();
                let parts = parts
                    .into_iter()
                    .map(|(last, there)| (last, self.replaced(there, replace, done)))
                    .collect();
                self.node(&question, parts)
            }
        };
        done.insert(next, replaced);
        replaced
    }

    /// Returns the nodes of a graph as a list, and the start with its index in this list. Each node only
    /// leads to nodes with a higher index.
    pub fn finish(&self, start: Next) -> (Vec<Node>, Next) {
        let mut done: Vec<u32> = Vec::new();
        let mut seen = vec![false; self.nodes.len()];
        // Depth-first search in postorder; the reverse of it is a topological order.
        let mut work = vec![(start, false)];
        while let Some((next, is_left)) = work.pop() {
            let Next::Node(number) = next else { continue };
            if is_left {
                done.push(number);
            } else if !std::mem::replace(&mut seen[number as usize], true) {
                work.push((next, true));
                work.extend(self.nodes[number as usize].parts.iter().rev().map(|(_, next)| (*next, false)));
            }
        }
        done.reverse();
        let mut places = vec![0; self.nodes.len()];
        for (place, &number) in done.iter().enumerate() {
            places[number as usize] = place as u32;
        }
        let place = |next: Next| match next {
            Next::Node(number) => Next::Node(places[number as usize]),
            class => class,
        };
        let node = |&number: &u32| {
            let Node { question, parts } = &self.nodes[number as usize];
            let parts = parts.iter().map(|&(last, next)| (last, place(next))).collect();
            Node { question: question.clone(), parts }
        };
        (done.iter().map(node).collect(), place(start))
    }
}

/// A restriction of a graph: a question, and the answers to it that packets may have.
struct Narrow<'a> {
    question: &'a Question,
    answers: &'a IntervalSet,
}

struct Order<'d> {
    diagram: &'d mut Diagram,
    limit: usize,
    /// By node: the questions that the graph below the node asks, including its own.
    questions: HashMap<Next, std::rc::Rc<BTreeSet<Question>>>,
    done: HashMap<Next, Next>,
}

impl Order<'_> {
    fn questions(&mut self, next: Next) -> std::rc::Rc<BTreeSet<Question>> {
        if let Some(known) = self.questions.get(&next) {
            return known.clone();
        }
        let mut all = BTreeSet::new();
        if let Some(node) = self.diagram.get(next).cloned() {
            let mut children: Vec<Next> = node.parts.iter().map(|(_, next)| *next).collect();
            children.sort_unstable();
            children.dedup();
            all.insert(node.question);
            for child in children {
                all.extend(self.questions(child).iter().cloned());
            }
        }
        let all = std::rc::Rc::new(all);
        self.questions.insert(next, all.clone());
        all
    }

    fn order(&mut self, next: Next) -> Option<Next> {
        if let Some(done) = self.done.get(&next) {
            return Some(*done);
        }
        if self.diagram.nodes.len() > self.limit {
            return None;
        }
        let Some(first) = self.questions(next).first().cloned() else { return Some(next) };
        let mut ends = BTreeSet::new();
        self.ends(next, &first, &mut ends, &mut BTreeSet::new());
        let mut parts: Vec<(u128, Next)> = Vec::with_capacity(ends.len());
        let mut memo = HashMap::new();
        for &end in &ends {
            memo.clear();
            let there = self.restrict(next, &first, end, &mut memo)?;
            match parts.last_mut() {
                Some((last, same)) if *same == there => *last = end,
                _ => parts.push((end, there)),
            }
        }
        for (_, there) in &mut parts {
            *there = self.order(*there)?;
        }
        let done = self.diagram.node(&first, parts);
        self.done.insert(next, done);
        Some(done)
    }

    /// Adds to `ends` the last answer of each range of all nodes of a graph that ask the question `question`.
    /// For all answers between two consecutive numbers in `ends`, the residual graph is the same.
    fn ends(&self, next: Next, question: &Question, ends: &mut BTreeSet<u128>, seen: &mut BTreeSet<Next>) {
        let Some(node) = self.diagram.get(next) else { return };
        if !seen.insert(next) {
            return;
        }
        if node.question == *question {
            ends.extend(node.parts.iter().map(|(last, _)| *last));
        }
        let mut children: Vec<Next> = node.parts.iter().map(|(_, next)| *next).collect();
        children.sort_unstable();
        children.dedup();
        children.into_iter().for_each(|child| self.ends(child, question, ends, seen));
    }

    /// Returns the residual graph for packets with a known answer to a question; `None` if there would be
    /// too many nodes.
    fn restrict(
        &mut self,
        next: Next,
        question: &Question,
        answer: u128,
        memo: &mut HashMap<Next, Next>,
    ) -> Option<Next> {
        let Some(node) = self.diagram.get(next) else { return Some(next) };
        if let Some(known) = memo.get(&next) {
            return Some(*known);
        }
        let left = if node.question == *question {
            let there = node.next(answer);
            self.restrict(there, question, answer, memo)?
        } else if !self.questions(next).contains(question) {
            next
        } else {
            let Node { question: other, parts } = self.diagram.get(next)?.clone();
            let mut left = Vec::with_capacity(parts.len());
            for (last, there) in parts {
                left.push((last, self.restrict(there, question, answer, memo)?));
            }
            if self.diagram.nodes.len() > self.limit {
                return None;
            }
            self.diagram.node(&other, left)
        };
        memo.insert(next, left);
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte(offset: i32) -> Question {
        Question::Bytes { offset, length: 1 }
    }

    fn follow(nodes: &[Node], mut next: Next, packet: &[u8; 3]) -> (u32, Vec<Question>) {
        let mut asked = Vec::new();
        loop {
            match next {
                Next::Class(class) => return (class, asked),
                Next::Node(number) => {
                    let node = &nodes[number as usize];
                    let Question::Bytes { offset, .. } = node.question else { panic!("bytes only") };
                    asked.push(node.question.clone());
                    next = node.next(packet[offset as usize].into());
                }
            }
        }
    }

    proptest! {
        /// Builds random graphs over three bytes, with repeated questions. The ordered graph must give each
        /// packet the same class, and ask its questions in ascending order.
        #[test]
        fn order_changes_nothing(choices in prop::collection::vec((0i32..3, any::<u8>(), 0u32..5), 1..14),
                                 packets in prop::collection::vec(any::<[u8; 3]>(), 40)) {
            let mut diagram = Diagram::default();
            let mut all = vec![Next::Class(0), Next::Class(1)];
            for &(offset, border, which) in &choices {
                let n = all.len();
                let (low, high) = (all[(which as usize + n / 2) % n], all[n - 1 - (which as usize % n)]);
                let border = u128::from(border);
                let parts = vec![
                    (IntervalSet::one(0, border), low),
                    (IntervalSet::one(border + 1, 255), if low == high { Next::Class(which) } else { high }),
                ];
                let next = diagram.switch(&byte(offset), parts);
                all.push(next);
            }
            let start = all[all.len() - 1];
            let before = diagram.finish(start);
            let ordered = diagram.ordered(start);
            let after = diagram.finish(ordered);
            for packet in &packets {
                let (class, _) = follow(&before.0, before.1, packet);
                let (same, asked) = follow(&after.0, after.1, packet);
                prop_assert_eq!(class, same);
                prop_assert!(asked.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", asked);
            }
        }
    }
}
