//! Code generation for questions: elements that send packets to the same places as the questions of a
//! program.
//!
//! The successors of a question are built before the element that asks it, so a question whose answers all
//! have the same successor needs no element. Most elements for questions leave packets unchanged. Some also
//! mark headers, or cut the packet. A [`State`] records these changes for packets that reach a node or class
//! of the program. Packets can be left to the original elements only in the initial state, unchanged.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use classify::IntervalSet;
use lang::{Connection, Graph, Span};

use super::check::{Check, covering, within};
use super::facts::Facts;
use super::layout::Front;
use super::operation::{self, MetadataFacts};
use super::patterns::{Clause, clauses, text};
use super::{State, Why, filter};
use program::declare::by_next;
use program::location::IPV4;
use program::question::Question;
use program::{Exit, Next, Node, OrderedRules, Program};

/// The index of an element in the graph, and one of its inputs.
type Spot = (usize, usize);

/// The maximum number of patterns in one Classifier that combines several questions.
const MOST_TOGETHER: usize = 64;

/// The maximum number of patterns of a Classifier for one question.
const MOST_PATTERNS: usize = 1024;

/// The maximum number of values of an annotation that are compared one by one, each with a CheckPaint
/// element.
const MOST_COLOURS: u128 = 32;

/// A pattern of a Classifier: clauses about bytes, all of which must hold, and the input to which packets
/// that satisfy the pattern go.
type Pattern = (Vec<Clause>, Spot);

/// Patterns of a Classifier in order of precedence. The last pattern has no clauses and matches all remaining
/// packets.
type Patterns = Rc<Vec<Pattern>>;

pub(super) struct Builder<'b> {
    graph: &'b mut Graph,
    program: &'b Program,
    facts: Facts,
    metadata: &'b MetadataFacts,
    /// The entry of the original region, for packets that are left to its elements.
    rest: Spot,
    outputs: &'b [Option<Spot>],
    span: Span,
    /// The prefix of the names of inserted elements, which no other element has.
    prefix: String,
    spots: HashMap<(Next, State), Result<Spot, Why>>,
    regions: HashMap<(u32, State), Result<Patterns, Why>>,
    left: BTreeSet<Next>,
    why: BTreeSet<Why>,
    /// For each inserted element, by index: the number of inserted elements, including itself, on the longest
    /// path that begins there.
    depths: HashMap<usize, usize>,
}

impl<'b> Builder<'b> {
    pub(super) fn new(
        graph: &'b mut Graph,
        program: &'b Program,
        metadata: &'b MetadataFacts,
        rest: Spot,
        outputs: &'b [Option<Spot>],
        span: Span,
    ) -> Builder<'b> {
        let is_used = |prefix: &str| graph.elements.iter().any(|element| element.name.starts_with(prefix));
        let mut prefixes = (0..).map(|number| format!("composed{number}/"));
        let prefix = prefixes.find(|prefix| !is_used(prefix)).unwrap_or_default();
        Builder {
            graph,
            program,
            facts: Facts::new(program),
            metadata,
            rest,
            outputs,
            span,
            prefix,
            spots: HashMap::new(),
            regions: HashMap::new(),
            left: BTreeSet::new(),
            why: BTreeSet::new(),
            depths: HashMap::new(),
        }
    }

    /// Builds the elements for the whole program. The test of packets that `front` requires precedes them.
    /// Returns the input at which packets enter.
    pub(super) fn start(&mut self, front: Front) -> Spot {
        let start = self.spot(self.program.start, State::default()).unwrap_or(self.rest);
        match front {
            Front::Plain(header) if start != self.rest => {
                self.add("Classifier", &format!("{header}/05%0f, -"), &[start, self.rest])
            }
            _ => start,
        }
    }

    /// Returns the maximum number of inserted elements that packets pass from an input on.
    pub(super) fn depth(&self, spot: Spot) -> usize {
        self.depths.get(&spot.0).copied().unwrap_or_default()
    }

    /// Returns the classes of which some packets are left to the original elements, and the reasons.
    pub(super) fn left(self) -> (BTreeSet<u32>, BTreeSet<Why>) {
        let mut seen = BTreeSet::new();
        let mut work: Vec<Next> = self.left.iter().copied().collect();
        let mut classes = BTreeSet::new();
        while let Some(next) = work.pop() {
            match next {
                Next::Class(class) => {
                    classes.insert(class);
                }
                Next::Node(number) if seen.insert(number) => {
                    work.extend(self.program.nodes[number as usize].parts.iter().map(|(_, next)| *next));
                }
                Next::Node(_) => {}
            }
        }
        (classes, self.why)
    }

    /// Returns the input for packets that have reached a node or class of the program in a state; builds the
    /// elements there if they do not exist. If that is not possible, packets in the initial state go to the
    /// original elements. In another state packets have been changed already, so an error is returned; then
    /// packets go to the original elements at an earlier question.
    fn spot(&mut self, next: Next, state: State) -> Result<Spot, Why> {
        let class = match next {
            Next::Class(number) => self.program.classes.get(number as usize),
            Next::Node(_) => None,
        };
        // A class that drops packets has the same elements for all states, because the state of a dropped
        // packet does not matter.
        let ends = class.is_some_and(|class| matches!(class.exit, Exit::Drop(_)));
        let state = if ends { State::default() } else { state };
        if let Some(known) = self.spots.get(&(next, state)) {
            return *known;
        }
        let made = match next {
            Next::Class(number) => self.class(number, state),
            Next::Node(number) => self.question(number, state),
        };
        let spot = match made {
            Err(why) if state == State::default() => {
                self.left.insert(next);
                self.why.insert(why);
                Ok(self.rest)
            }
            other => other,
        };
        self.spots.insert((next, state), spot);
        spot
    }

    /// Inserts an element whose outputs lead to the inputs `to`. Returns its input.
    fn add(&mut self, class: &str, config: &str, to: &[Spot]) -> Spot {
        let number = self.graph.elements.len();
        let name = format!("{}{class}_{number}", self.prefix);
        self.graph.add(&name, class, config, self.span);
        let span = self.span;
        let connect = |(output, to): (usize, &Spot)| Connection { from: (number, output), to: *to, span };
        self.graph.connections.extend(to.iter().enumerate().map(connect));
        let behind = to.iter().map(|spot| self.depth(*spot)).max();
        self.depths.insert(number, 1 + behind.unwrap_or_default());
        (number, 0)
    }

    fn class(&mut self, number: u32, state: State) -> Result<Spot, Why> {
        let class = self.program.classes.get(number as usize).ok_or(Why::Question)?;
        let Exit::Output(output) = class.exit else { return Ok(self.add("Discard", "", &[])) };
        let known = self.facts.at(Next::Class(number));
        let steps = operation::steps(class, self.program, known, state, self.metadata)?;
        let exit = self.outputs.get(output).copied().flatten().ok_or(Why::Question)?;
        Ok(steps.into_iter().rev().fold(exit, |to, (class, config)| self.add(class, &config, &[to])))
    }

    fn question(&mut self, number: u32, state: State) -> Result<Spot, Why> {
        let program = self.program;
        let node = program.nodes.get(number as usize).ok_or(Why::Question)?;
        match &node.question {
            Question::Length => self.lengths(number, state),
            Question::Bytes { .. } => {
                let region = self.region(number, state)?;
                Ok(self.classifier(&region))
            }
            Question::Kind => self.kind(number, state),
            Question::Annotation { offset, length } => self.colours(number, (*offset, *length), state),
            Question::AtLeastZero(_) | Question::RightChecksum { .. } => self.header(number, state),
            Question::List(list) => {
                let list = program.lists.get(*list as usize).ok_or(Why::Question)?;
                self.rules(number, node, list, state)
            }
            Question::Leased { .. } => Err(Why::Leased),
        }
    }

    /// Returns the successors of the question at node `number`, each with the set of answers that lead to it.
    /// Answers that packets at the node cannot have are omitted.
    fn answers(&self, number: u32) -> Vec<(Next, IntervalSet)> {
        let node = &self.program.nodes[number as usize];
        let known = self.facts.at(Next::Node(number)).answers(&node.question);
        let given = by_next(node).into_iter().map(|(next, set)| (next, set.intersection(&known)));
        given.filter(|(_, set)| !set.is_empty()).collect()
    }

    /// Returns the inputs that the answers to the question at a node lead to, each with its set of answers.
    /// Equal inputs are merged.
    fn ways(&mut self, number: u32, state: State) -> Result<Vec<(Spot, IntervalSet)>, Why> {
        let mut ways: Vec<(Spot, IntervalSet)> = Vec::new();
        for (next, set) in self.answers(number) {
            let spot = self.spot(next, state)?;
            match ways.iter_mut().find(|(other, _)| *other == spot) {
                Some((_, more)) => *more = more.union(&set),
                None => ways.push((spot, set)),
            }
        }
        Ok(ways)
    }

    fn lengths(&mut self, number: u32, state: State) -> Result<Spot, Why> {
        if state.cut.is_some() {
            return Err(Why::Question);
        }
        let ways = self.ways(number, state)?;
        let ranges = ways.iter().flat_map(|(spot, set)| set.intervals().iter().map(|range| (range.1, *spot)));
        let mut ranges: Vec<(u128, Spot)> = ranges.collect();
        ranges.sort_unstable();
        let (_, longest) = ranges.pop().ok_or(Why::Question)?;
        let ask = |to: Spot, (last, here): (u128, Spot)| match here == to {
            true => to,
            false => self.add("CheckLength", &last.to_string(), &[here, to]),
        };
        Ok(ranges.into_iter().rev().fold(longest, ask))
    }

    /// Returns the patterns of one Classifier for the question at a node and, where possible, for the
    /// questions about bytes that follow it.
    fn region(&mut self, number: u32, state: State) -> Result<Patterns, Why> {
        if let Some(known) = self.regions.get(&(number, state)) {
            return known.clone();
        }
        let made = self.together(number, state).map(Rc::new);
        self.regions.insert((number, state), made.clone());
        made
    }

    fn together(&mut self, number: u32, state: State) -> Result<Vec<Pattern>, Why> {
        let program = self.program;
        let node = &program.nodes[number as usize];
        let Question::Bytes { offset: offset @ 0.., length } = node.question else {
            return Err(Why::Question);
        };
        let (nexts, sets): (Vec<Next>, Vec<IntervalSet>) = self.answers(number).into_iter().unzip();
        let mut inner: Vec<Option<Patterns>> = Vec::with_capacity(nexts.len());
        for next in &nexts {
            let region = match *next {
                Next::Node(number) if is_about_bytes(&program.nodes[number as usize]) => {
                    self.region(number, state).ok()
                }
                _ => None,
            };
            inner.push(region.filter(|region| region.len() <= MOST_TOGETHER));
        }
        let weights = |inner: &[Option<Patterns>]| -> Vec<usize> {
            inner.iter().map(|region| region.as_ref().map_or(1, |region| region.len())).collect()
        };
        let mut found = clauses(offset, length, &sets, &weights(&inner));
        let weight = weights(&inner);
        if found.iter().filter_map(|(_, way)| weight.get(*way)).sum::<usize>() > MOST_TOGETHER {
            inner.fill(None);
            found = clauses(offset, length, &sets, &weights(&inner));
        }
        if found.len() > MOST_PATTERNS {
            return Err(Why::Patterns);
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for (clause, way) in found {
            let behind = |(more, spot): &Pattern| (clause.iter().chain(more).cloned().collect(), *spot);
            match inner.get(way) {
                Some(Some(region)) => patterns.extend(region.iter().map(behind)),
                _ => {
                    let next = *nexts.get(way).ok_or(Why::Question)?;
                    patterns.push(behind(&(Vec::new(), self.spot(next, state)?)));
                }
            }
        }
        // Patterns at the end that lead to the same input as the last pattern are redundant.
        let last = patterns.last().map(|(_, spot)| *spot);
        let kept = patterns.iter().rposition(|(_, spot)| Some(*spot) != last).map_or(0, |place| place + 1);
        patterns.truncate(kept);
        patterns.extend(last.map(|spot| (Vec::new(), spot)));
        Ok(patterns)
    }

    fn classifier(&mut self, patterns: &[Pattern]) -> Spot {
        match patterns {
            [(_, only)] => *only,
            patterns => {
                let texts: Vec<String> = patterns.iter().map(|(clauses, _)| text(clauses)).collect();
                let to: Vec<Spot> = patterns.iter().map(|(_, spot)| *spot).collect();
                self.add("Classifier", &texts.join(", "), &to)
            }
        }
    }

    /// Builds a question about the packet type. DropBroadcasts separates multicast and broadcast packets from
    /// all others; any other separation gives an error.
    fn kind(&mut self, number: u32, state: State) -> Result<Spot, Why> {
        let ways = self.ways(number, state)?;
        let group = IntervalSet::one(1, 2);
        match &ways[..] {
            [(only, _)] => Ok(*only),
            [(a, set), (b, other)] if *set == group || *other == group => {
                let to = if *set == group { [*b, *a] } else { [*a, *b] };
                Ok(self.add("DropBroadcasts", "", &to))
            }
            _ => Err(Why::Question),
        }
    }

    /// Builds a question about the value of annotation bytes: CheckPaint elements compare each value, one
    /// element per byte.
    fn colours(&mut self, number: u32, (offset, length): (u8, u8), state: State) -> Result<Spot, Why> {
        let mut ways = self.ways(number, state)?;
        let count = |set: &IntervalSet| {
            set.intervals()
                .iter()
                .map(|&(low, high)| (high - low).saturating_add(1))
                .fold(0, u128::saturating_add)
        };
        ways.sort_by_key(|(_, set)| count(set));
        let (others, _) = ways.pop().ok_or(Why::Question)?;
        if ways.iter().map(|(_, set)| count(set)).fold(0, u128::saturating_add) > MOST_COLOURS {
            return Err(Why::Patterns);
        }
        let mut to = others;
        for (spot, set) in ways {
            for value in set.intervals().iter().flat_map(|&(low, high)| low..=high) {
                let bytes = &value.to_be_bytes()[16 - usize::from(length.min(16))..];
                let otherwise = to;
                to = spot;
                for (index, byte) in bytes.iter().enumerate().rev() {
                    let config = format!("{byte}, {}", usize::from(offset) + index);
                    to = self.add("CheckPaint", &config, &[to, otherwise]);
                }
            }
        }
        Ok(to)
    }

    /// Builds the questions about an IPv4 header that one CheckIPHeader answers.
    fn header(&mut self, number: u32, state: State) -> Result<Spot, Why> {
        let check = Check::new(self.program, number).ok_or(Why::Question)?;
        let Check { header, failing, behind, is_right, is_within, is_covering } = check;
        let known = self.facts.at(Next::Node(number));
        // CheckIPHeader makes further tests of the header than the questions do. The facts at this node must
        // show that packets pass these tests.
        let is_there = known.least(&Question::Length) >= (header + IPV4) as u128;
        let is_header = known.is_header(header, |words| words >= 5);
        let within = is_within || known.is_at_least_zero(&within(header));
        let covering = is_covering || known.is_at_least_zero(&covering(header));
        if state.cut.is_some() || !is_there || !is_header || !within || !covering {
            return Err(Why::Question);
        }
        let good = self.spot(behind, State { marked: Some(header), cut: Some(header), is_right })?;
        let bad = self.spot(failing, state)?;
        if good == bad {
            return Ok(good);
        }
        let config = if is_right { header.to_string() } else { format!("{header}, CHECKSUM false") };
        Ok(self.add("CheckIPHeader", &config, &[good, bad]))
    }

    fn rules(&mut self, number: u32, node: &Node, list: &OrderedRules, state: State) -> Result<Spot, Why> {
        let [network, transport] = list.headers;
        let is_plain = self.facts.at(Next::Node(number)).is_plain(network);
        if list.end != state.end() || network < 0 || transport != network + IPV4 || !is_plain {
            return Err(Why::Rules);
        }
        let behind = State { marked: Some(network), ..state };
        let mut to: Vec<Spot> = Vec::new();
        let mut rules = Vec::with_capacity(list.rules.len());
        for rule in &list.rules {
            let spot = self.spot(node.next(rule.outcome.into()), behind)?;
            let output = to.iter().position(|other| *other == spot).unwrap_or_else(|| {
                to.push(spot);
                to.len() - 1
            });
            let pattern = filter::pattern(&rule.condition).ok_or(Why::Rules)?;
            rules.push(format!("{output} {pattern}"));
        }
        if let [only] = to[..] {
            return Ok(only);
        }
        let rules = self.add("IPFilter", &rules.join(",\n    "), &to);
        let is_marked = state.marked.or(self.program.layout[1]) == Some(network);
        Ok(if is_marked { rules } else { self.add("MarkIPHeader", &network.to_string(), &[rules]) })
    }
}

fn is_about_bytes(node: &Node) -> bool {
    matches!(node.question, Question::Bytes { .. })
}
