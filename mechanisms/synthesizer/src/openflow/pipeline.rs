//! The pipeline of a switch: a table that selects packets, up to two for ranges of ports, one for each
//! question about bytes that the switch answers, two for each list of rules, and a table that sends packets
//! to the software.
//!
//! The metadata of a packet holds its state: the number of the residual program after the answers so far. A
//! table evaluates one question and writes the next state. So the number of flow entries grows with the
//! number of states per question, not with the number of paths. A list of rules is evaluated in one table,
//! whatever the state; a second table finds the next state from the present state and the outcome. The last
//! table sends the packets of each state to the software as a class of its own.
//!
//! Questions that a switch cannot answer, or that need too many flow entries or classes, are left to the
//! software.

use std::collections::{BTreeMap, BTreeSet};

use classify::IntervalSet;
use classify::filter::HeaderLayer;
use wire::{ethernet, ipv4};

use super::cube::{Cube, MatchField, WITH_PORTS, cubes, known_byte, values};
use super::flow::{FlowEntry, MetadataMatch, Part, matches, protocol, with_tag};
use super::ranges::{Ranges, prefixes};
use super::{Options, REST, Refusal};
use crate::compose::diagram::Diagram;
use program::question::{Question, preimage};
use program::{Exit, Next, OrderedRules, Passed, Program, TrafficClass};

/// The maximum number of flow entries for one question; a question that needs more is left to the software.
const MOST_FLOWS: usize = 1 << 18;

/// The maximum number of states: a state has 16 bits of the metadata.
const MOST_STATES: usize = u16::MAX as usize;
/// The offset of the network header in packets of the layout that the switch assumes.
const NETWORK: i32 = ethernet::Header::LEN as i32;
/// The offset of the transport header in packets of the layout that the switch assumes.
const TRANSPORT: i32 = NETWORK + ipv4::Header::LEN as i32;
/// The outcome of a list, in the metadata, for packets for which only the software can evaluate the rules.
const UNKNOWN: u64 = 0xffff;

/// The flow entries of a switch, and the residual programs that the software runs for the switch classes.
pub struct Pipeline {
    /// The flow entries, in the order of their tables and then of descending priority.
    pub flows: Vec<FlowEntry>,
    /// For each switch class with a number higher than [`REST`], in order: the node or class at which its
    /// residual program starts.
    pub classes: Vec<Next>,
    /// Comments about the flow entries, which precede them in the output.
    pub notes: Vec<String>,
    /// The number of tables that the flow entries use.
    pub tables: u8,
    /// The number of the program's questions that the switch answers.
    asked: usize,
}

impl Pipeline {
    /// True if this pipeline answers more questions than the other, or as many with fewer flow entries.
    pub fn is_better(&self, other: &Pipeline) -> bool {
        (self.asked, other.flows.len()) > (other.asked, self.flows.len())
    }

    /// Makes the pipeline for a program. `diagram` contains its decision graph, and `whole` is the start of
    /// this graph. With `by_metadata`, ranges of ports get bits of the metadata; otherwise they become
    /// prefixes. If the switch evaluates a list of rules, classes are added to the program whose packets are
    /// also counted by the element that has the list.
    ///
    /// # Errors
    /// If the switch can answer no question, or if there are too many tables.
    pub fn new(
        diagram: &mut Diagram,
        whole: Next,
        program: &mut Program,
        options: &Options,
        by_metadata: bool,
    ) -> Result<Pipeline, Refusal> {
        let start = usual(diagram, whole);
        let mut build = Build {
            diagram,
            program,
            rest: options.sending(REST),
            most_classes: options.most_classes(),
            table: options.first_table,
            flows: Vec::new(),
            notes: Vec::new(),
            states: BTreeMap::from([(start, 0)]),
            current: BTreeSet::from([start]),
            ranges: Default::default(),
        };
        let questions: Vec<Question> = build.diagram.questions(start).into_iter().collect();
        let rules: BTreeMap<u32, Vec<SwitchRule>> = questions
            .iter()
            .filter_map(|question| match question {
                Question::List(list) => Some((*list, rules_of(build.program.lists.get(*list as usize)?)?)),
                _ => None,
            })
            .collect();
        build.sort(&options.from)?;
        if by_metadata {
            build.port_tables(rules.values().flatten())?;
        }
        let mut asked = 0;
        for question in &questions {
            let is_asked = match question {
                Question::List(list) => match rules.get(list) {
                    Some(rules) => build.ask_list(*list, rules)?,
                    None => false,
                },
                Question::Bytes { offset, length } => build.ask_bytes(question, *offset, *length)?,
                _ => false,
            };
            asked += usize::from(is_asked);
        }
        if asked == 0 {
            return Err(Refusal::Nothing);
        }
        build.send(options, asked)
    }
}

/// Returns the residual program for packets of the layout that the switch assumes: an Ethernet header, and
/// an IPv4 header without options that is no fragment.
fn usual(diagram: &mut Diagram, whole: Next) -> Next {
    let mut next = whole;
    for question in diagram.questions(whole) {
        let known = match &question {
            Question::Length => Some(IntervalSet::one(TRANSPORT as u128, u128::from(u32::MAX))),
            Question::Bytes { offset, length } => {
                let bytes = (*offset..*offset + i32::from(*length)).map(|place| {
                    match u16::try_from(place - NETWORK) {
                        Ok(place) => known_byte(HeaderLayer::Network, place),
                        Err(_) => known_byte(HeaderLayer::Mac, u16::try_from(place).unwrap_or(0)),
                    }
                });
                let pairs: Vec<(u8, u8)> = bytes.collect();
                let number = |part: fn(&(u8, u8)) -> u8| {
                    pairs.iter().fold(0u128, |number, pair| number << 8 | u128::from(part(pair)))
                };
                let (mask, value) = (number(|pair| pair.0), number(|pair| pair.1));
                preimage(mask, &IntervalSet::one(value, value), question.bits()).filter(|_| mask != 0)
            }
            _ => None,
        };
        if let Some(known) = known {
            next = diagram.narrowed(next, &question, &known, &mut |class| class);
        }
    }
    next
}

/// The size of the pipeline at a point of its construction: before a question was added.
#[derive(Clone, Copy)]
struct Built {
    flows: usize,
    table: u8,
    states: u64,
}

/// A rule of a list as a switch evaluates it.
struct SwitchRule {
    cubes: Vec<Cube>,
    outcome: u32,
}

/// Returns the rules of a list in the form for a switch. Returns `None` if the rules refer to headers at
/// other offsets than the switch assumes, or if the number of an outcome is too high for the metadata.
fn rules_of(list: &OrderedRules) -> Option<Vec<SwitchRule>> {
    if list.headers != [NETWORK, TRANSPORT]
        || list.rules.iter().any(|rule| u64::from(rule.outcome) >= UNKNOWN)
    {
        return None;
    }
    Some(
        list.rules
            .iter()
            .map(|rule| SwitchRule { cubes: cubes(&rule.condition), outcome: rule.outcome })
            .collect(),
    )
}

struct Build<'b> {
    diagram: &'b mut Diagram,
    program: &'b mut Program,
    /// The instructions that send a packet to the software as class [`REST`].
    rest: String,
    /// The maximum number of switch classes, including [`REST`].
    most_classes: usize,
    /// The number of the table to which flow entries are added.
    table: u8,
    flows: Vec<FlowEntry>,
    notes: Vec<String>,
    /// The number of each state that exists, by the start of its residual program.
    states: BTreeMap<Next, u16>,
    /// The states that packets may have when they reach the table under construction, by the start of the
    /// residual program.
    current: BTreeSet<Next>,
    /// The ranges of source and of destination ports that have bits in the metadata.
    ranges: [Ranges; 2],
}

impl Build<'_> {
    fn add(&mut self, priority: u16, matched: String, instructions: String) {
        self.flows.push(FlowEntry { table: self.table, priority, matched, instructions });
    }

    /// Returns the instruction that continues with the next table of the pipeline.
    fn further(&self) -> String {
        format!("goto_table:{}", self.table + 1)
    }

    fn writing(&self, part: Part, value: u64) -> String {
        format!("{},{}", part.write(value), self.further())
    }

    fn next_table(&mut self) -> Result<(), Refusal> {
        self.table = self.table.checked_add(1).filter(|table| *table < 254).ok_or(Refusal::Tables)?;
        Ok(())
    }

    /// Adds the first table. It lets IPv4 packets continue in the first state if they have no tag, are no
    /// fragments, and their addresses and ports are not all zero: a switch sees zeros in truncated packets.
    /// It sends all other packets to the software as [`REST`]. `from` is the port at which packets arrive.
    fn sort(&mut self, from: &str) -> Result<(), Refusal> {
        let rest = self.rest.clone();
        let comes = format!("in_port={from}");
        self.add(5, format!("{comes},{}", with_tag()), rest.clone());
        self.add(4, format!("ip,{comes},ip_frag=yes"), rest.clone());
        self.add(3, format!("ip,{comes},nw_proto=0,nw_src=0.0.0.0,nw_dst=0.0.0.0"), rest.clone());
        for number in WITH_PORTS {
            self.add(3, format!("{},{comes},tp_src=0,tp_dst=0", protocol(number)), rest.clone());
        }
        let further = self.writing(Part::State, 0);
        self.add(2, format!("ip,{comes}"), further);
        self.add(1, comes, rest);
        self.next_table()
    }

    /// Adds the tables that look up the source and the destination port. For each range that has a bit in the
    /// metadata and contains the port, they set this bit.
    fn port_tables<'r>(&mut self, rules: impl Iterator<Item = &'r SwitchRule>) -> Result<(), Refusal> {
        let mut asked: [BTreeMap<IntervalSet, usize>; 2] = Default::default();
        let mut protocols = BTreeSet::new();
        for cube in rules.flat_map(|rule| &rule.cubes) {
            for (asked, field) in asked.iter_mut().zip([MatchField::SourcePort, MatchField::DestinationPort])
            {
                let set = cube.set(field);
                if cube.asks(field) && prefixes(set, 16).len() > 1 {
                    *asked.entry(set.clone()).or_default() += 1;
                    protocols
                        .extend(cube.set(MatchField::Protocol).intervals().iter().map(|range| range.0 as u8));
                }
            }
        }
        self.ranges = asked.each_ref().map(Ranges::choose);
        for (side, (part, name)) in
            [(Part::SourceRanges, "tp_src"), (Part::DestinationRanges, "tp_dst")].into_iter().enumerate()
        {
            if self.ranges[side].is_empty() {
                continue;
            }
            for ((value, mask), bits) in self.ranges[side].parts() {
                for number in &protocols {
                    let matched = format!("{},{name}={value:#x}/{mask:#x}", protocol(*number));
                    self.add(1, matched, self.writing(part, bits));
                }
            }
            self.add(0, String::new(), self.further());
            self.next_table()?;
        }
        Ok(())
    }

    fn number(&mut self, next: Next) -> u64 {
        let new = self.states.len() as u16;
        (*self.states.entry(next).or_insert(new)).into()
    }

    /// Returns the present size of the pipeline, to which `give_up` can return.
    fn built(&self) -> Built {
        Built { flows: self.flows.len(), table: self.table, states: self.states.len() as u64 }
    }

    /// Removes the flow entries, tables and states that were added to the pipeline for a question, so that
    /// the question is left to the software. Returns false, because the switch does not answer the question.
    /// `why` is the reason, for the comments in the output.
    fn give_up(&mut self, question: &Question, before: Built, why: &str) -> bool {
        self.flows.truncate(before.flows);
        self.table = before.table;
        self.states.retain(|_, number| u64::from(*number) < before.states);
        self.notes.push(format!("{question} is left to the software: {why}"));
        false
    }

    /// Completes the tables of a question, after which packets are in the states `reached`. Returns false,
    /// and removes the tables again, if there are too many states or flow entries.
    fn reach(
        &mut self,
        question: &Question,
        before: Built,
        reached: BTreeSet<Next>,
    ) -> Result<bool, Refusal> {
        if reached.len() >= self.most_classes {
            return Ok(self.give_up(question, before, "too many classes"));
        }
        if self.flows.len() - before.flows > MOST_FLOWS {
            return Ok(self.give_up(question, before, "too many flows"));
        }
        self.add(0, String::new(), self.further());
        self.current = reached;
        self.next_table()?;
        Ok(true)
    }

    /// Divides the answers to a question, for packets in a state, into sets of answers with the same residual
    /// program. Returns each set with the residual program for packets with its answers.
    fn parts(&mut self, state: Next, question: &Question) -> Vec<(IntervalSet, Next)> {
        let mut ends = BTreeSet::new();
        for node in self.diagram.finish(state).0.iter().filter(|node| node.question == *question) {
            ends.extend(node.parts.iter().map(|(last, _)| *last));
        }
        let mut parts: Vec<(IntervalSet, Next)> = Vec::new();
        let mut first = 0;
        for last in ends {
            let answers = IntervalSet::one(first, last);
            let left = self.diagram.narrowed(state, question, &answers, &mut |class| class);
            match parts.iter_mut().find(|(_, next)| *next == left) {
                Some((set, _)) => *set = set.union(&answers),
                None => parts.push((answers, left)),
            }
            first = last.saturating_add(1);
        }
        parts
    }

    fn ask_bytes(&mut self, question: &Question, offset: i32, length: u8) -> Result<bool, Refusal> {
        let place = |start: i32| u32::try_from(offset - start).ok();
        let known = place(TRANSPORT).map(|offset| (HeaderLayer::Transport, offset));
        let Some((header, offset)) = known.or(place(NETWORK).map(|offset| (HeaderLayer::Network, offset)))
        else {
            return Ok(false);
        };
        if values(header, offset, length.into(), u128::MAX, &question.all()).is_none() || length > 4 {
            return Ok(false);
        }
        let before = self.built();
        let mut reached = BTreeSet::new();
        for state in self.current.clone() {
            if !self.diagram.questions(state).contains(question) {
                reached.insert(state);
                continue;
            }
            let in_state = MetadataMatch::default().with(Part::State, self.number(state));
            let mut ways = Vec::new();
            for (answers, left) in self.parts(state, question) {
                let Some((field, set)) = values(header, offset, length.into(), u128::MAX, &answers) else {
                    return Ok(self.give_up(question, before, "too many values"));
                };
                ways.push((prefixes(&set, field.bits()).len(), field, set, left));
            }
            // The set of answers that needs the most flow entries gets a flow entry of lower priority
            // instead, which matches all packets that the other sets leave.
            ways.sort_by_key(|way| way.0);
            let most = ways.pop();
            let protocols = match most.as_ref().is_some_and(|way| way.1.is_port()) {
                false => vec![None],
                true => {
                    let rest = self.rest.clone();
                    let matched = matches(&Cube::all(true), in_state, &Default::default());
                    matched.into_iter().flatten().for_each(|matched| self.add(1, matched, rest.clone()));
                    WITH_PORTS.map(Some).to_vec()
                }
            };
            let all = ways.into_iter().map(|(_, field, set, left)| (3, field, set, left));
            let all =
                all.chain(most.map(|(_, field, _, left)| (2, field, IntervalSet::full(field.bits()), left)));
            for (priority, field, set, left) in all {
                reached.insert(left);
                let instructions = format!("{},{}", Part::State.write(self.number(left)), self.further());
                for number in &protocols {
                    let mut cube = Cube::all(true).with(field, set.clone());
                    if let Some(number) = number {
                        cube = cube
                            .with(MatchField::Protocol, IntervalSet::one((*number).into(), (*number).into()));
                    }
                    let Some(matched) = matches(&cube, in_state, &Default::default()) else {
                        return Ok(self.give_up(question, before, "too many values"));
                    };
                    matched.into_iter().for_each(|matched| self.add(priority, matched, instructions.clone()));
                }
            }
            if self.states.len() > MOST_STATES {
                return Ok(self.give_up(question, before, "too many states"));
            }
        }
        self.reach(question, before, reached)
    }

    fn ask_list(&mut self, list: u32, rules: &[SwitchRule]) -> Result<bool, Refusal> {
        let question = Question::List(list);
        let before = self.built();
        let current = self.current.clone();
        let asking: Vec<Next> = current
            .iter()
            .copied()
            .filter(|state| self.diagram.questions(*state).contains(&question))
            .collect();
        // Each rule has two priorities. The higher is for packets for which the rule certainly holds, the
        // lower for packets for which it may hold.
        if asking.is_empty() || rules.len() > usize::from(u16::MAX) / 2 - 1 {
            return Ok(false);
        }
        let (element, table) = (self.element_of(list), self.table);
        let mut priority = 2 * rules.len() as u16;
        let mut outcomes = BTreeSet::new();
        for (number, rule) in rules.iter().enumerate() {
            for cube in &rule.cubes {
                let matched = matches(cube, MetadataMatch::default(), &self.ranges);
                let is_certain = cube.is_certain && matched.is_some();
                // If a cube of the rule needs too many flow entries, it gets one flow entry for all IPv4
                // packets, for which the software has to decide.
                let matched = matched.unwrap_or_else(|| vec!["ip".into()]);
                let outcome = if is_certain { rule.outcome.into() } else { UNKNOWN };
                outcomes.insert(outcome);
                if !is_certain {
                    self.notes
                        .push(format!("rule {number} of {element} is left to the software for some packets"));
                }
                let instructions = self.writing(Part::Outcome, outcome);
                for matched in matched {
                    self.add(priority - u16::from(!is_certain), matched, instructions.clone());
                }
            }
            priority -= 2;
        }
        self.notes.push(format!("table {table}: {} rules of {element}", rules.len()));
        if self.flows.len() - before.flows > MOST_FLOWS {
            return Ok(self.give_up(&question, before, "too many flows"));
        }
        // One of the rules always holds, so this flow entry is only a safeguard.
        let rest = self.rest.clone();
        self.add(0, String::new(), rest);
        self.next_table()?;
        let mut reached: BTreeSet<Next> =
            current.difference(&asking.iter().copied().collect()).copied().collect();
        let mut done: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        for state in asking {
            let here = MetadataMatch::default().with(Part::State, self.number(state));
            for &outcome in &outcomes {
                let matched =
                    matches(&Cube::all(true), here.with(Part::Outcome, outcome), &Default::default());
                let matched = matched.unwrap_or_default();
                let instructions = match outcome {
                    UNKNOWN => self.rest.clone(),
                    _ => {
                        let answer = IntervalSet::one(outcome.into(), outcome.into());
                        let program = &mut *self.program;
                        let mut told = |class| {
                            *done
                                .entry((class, outcome))
                                .or_insert_with(|| tell(program, class, list, outcome as u32))
                        };
                        let left = self.diagram.narrowed(state, &question, &answer, &mut told);
                        reached.insert(left);
                        format!("{},{}", Part::State.write(self.number(left)), self.further())
                    }
                };
                matched.into_iter().for_each(|matched| self.add(1, matched, instructions.clone()));
            }
            if self.states.len() > MOST_STATES {
                return Ok(self.give_up(&question, before, "too many states"));
            }
        }
        self.reach(&question, before, reached)
    }

    fn element_of(&self, list: u32) -> String {
        let element = self.program.lists.get(list as usize).map_or(0, |list| list.element as usize);
        self.program.elements.get(element).cloned().unwrap_or_default()
    }

    /// Adds the last table, which sends packets to the software: each state is a switch class. If all packets
    /// of a state are dropped in the end, and the options permit it, the switch drops them. Returns the
    /// finished pipeline.
    fn send(mut self, options: &Options, asked: usize) -> Result<Pipeline, Refusal> {
        let mut classes = Vec::new();
        for (class, state) in (REST + 1..).zip(self.current.clone()) {
            let here = MetadataMatch::default().with(Part::State, self.number(state));
            let instructions = match options.discards && self.is_dropped(state) {
                true => "drop".into(),
                false => options.sending(class),
            };
            classes.push(state);
            let matched = matches(&Cube::all(true), here, &Default::default()).unwrap_or_default();
            matched.into_iter().for_each(|matched| self.add(1, matched, instructions.clone()));
        }
        let Build { mut flows, mut notes, table, .. } = self;
        flows.sort_by_key(|flow| (flow.table, std::cmp::Reverse(flow.priority)));
        let tables = table - options.first_table + 1;
        notes.insert(0, format!("{} flows in {tables} tables, {} classes", flows.len(), classes.len() + 1));
        notes.dedup();
        Ok(Pipeline { flows, classes, notes, tables, asked })
    }

    /// True if a residual program drops all packets, whatever the remaining answers are.
    fn is_dropped(&self, state: Next) -> bool {
        let (nodes, start) = self.diagram.finish(state);
        let mut ends = nodes.iter().flat_map(|node| node.parts.iter().map(|(_, next)| *next)).chain([start]);
        ends.all(|next| match next {
            Next::Node(_) => true,
            Next::Class(class) => {
                let class = self.program.classes.get(class as usize);
                class.is_some_and(|class| matches!(class.exit, Exit::Drop(_)))
            }
        })
    }
}

/// Returns the index of the class for packets for which the switch has evaluated a list of rules: a copy of
/// `class` whose path also has the element of the list, so that this element counts the packets. The switch
/// does not tell which rule decided, so the first rule with the outcome `outcome` is counted.
fn tell(program: &mut Program, class: u32, list: u32, outcome: u32) -> u32 {
    let (Some(class), Some(list)) = (program.classes.get(class as usize), program.lists.get(list as usize))
    else {
        return class;
    };
    let mut class: TrafficClass = class.clone();
    let case = list.rules.iter().find(|rule| rule.outcome == outcome).map_or(0, |rule| rule.case);
    class.path.push(Passed { element: list.element, input: list.input, case, start: 0, cut: false });
    let known = program.classes.iter().position(|other| *other == class);
    let number = known.unwrap_or_else(|| {
        program.classes.push(class);
        program.classes.len() - 1
    });
    number as u32
}
