//! Path exploration: follows all packets that enter a region through the chain at once, as one symbolic
//! packet per path (Algorithm 1 of the SNF paper).
//!
//! Each condition of an element that is not decided on the path forks the path, and each change is recorded
//! in the symbolic packet. Where a path cannot continue, its packets are handed over to the element itself.

pub mod leased;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use classify::IntervalSet;
use element::DropReason;
use element::effects::{Case, Counting, Effects, Hold, Sliced, StateAccess, Target};

use crate::compose::diagram::Diagram;
use crate::compose::formula::{AnswerTest, Formula, PathCondition, collect_sets};
use crate::compose::leaf::{ExitState, ExitStates};
use crate::compose::packet::SymbolicPacket;
use crate::compose::rules;
use crate::compose::step::{Stop, carry_out};
use leased::LeasedStep;
use program::chain::{Chain, Port};
use program::question::Question;
use program::{Next, OrderedRules, Rule};

/// The maximum number of undecided rules of an element that always become separate questions. More rules
/// become a list, which is a single question, if that is possible.
const MOST_APART: usize = 16;

/// The limits of path exploration.
#[derive(Clone, Debug)]
pub struct PathLimits {
    /// The maximum number of classes of a program.
    pub classes: usize,
    /// The elements that packets must not bypass, by index in the chain.
    pub alone: BTreeSet<usize>,
    /// The minimum size of a region that becomes a program regardless of cost: the number of elements on its
    /// longest path, plus the number of its rule lists. Such programs process all packets and flows. `None`
    /// if only programs that cost less than their elements are wanted.
    pub least: Option<usize>,
    /// True if flows may be leased from stateful elements, so that paths continue through these elements.
    pub leases: bool,
}

impl Default for PathLimits {
    fn default() -> PathLimits {
        PathLimits { classes: 4096, alone: BTreeSet::new(), least: None, leases: true }
    }
}

/// The error of a walk that reaches more classes than the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// The elements with the number of forks that each caused, the highest number first.
    pub elements: Vec<(usize, usize)>,
}

/// The inputs at which packets are handed over to the element itself. Each has the reason, and true if the
/// reason applies to all packets that arrive there, except packets of leased flows.
pub type Handed = BTreeMap<Port, (String, bool)>;

/// The result of path exploration: a decision graph with exit states as its leaves.
#[derive(Default)]
pub struct Walked {
    /// The start of the decision graph in `diagram`.
    pub start: Next,
    /// The decision graph.
    pub diagram: Diagram,
    /// The exit states; a class of the graph is the number of an exit state.
    pub leaves: ExitStates,
    /// The rule lists: rules of an element that are evaluated together. The decision graph refers to a list
    /// by its index; the `element` of each list is an index in the chain.
    pub lists: Vec<OrderedRules>,
    /// The steps: stateful elements that flows are leased from; the graph refers to them by index.
    pub steps: Vec<LeasedStep>,
    /// The inputs at which packets are handed over, with the reasons.
    pub handed: Handed,
    /// The elements that at least some packets bypass and then continue downstream within the region.
    pub gone_on: BTreeSet<usize>,
}

impl Walked {
    /// Returns the reason why the element at an input processes all packets that arrive there; `None` if some
    /// of them bypass the element and continue downstream. Packets of leased flows, and packets that the
    /// program drops on behalf of the element, do not count.
    pub fn why_alone(&self, (node, input): Port) -> Option<&str> {
        let (why, always) = self.handed.get(&(node, input))?;
        (*always || !self.gone_on.contains(&node)).then_some(why)
    }
}

/// Follows packets from an input of an element until all paths have left the region. `packet` is the
/// symbolic packet that arrives there.
///
/// # Errors
/// If there are more classes than the limit.
pub fn walk(
    chain: &Chain,
    from: Port,
    packet: SymbolicPacket,
    limits: &PathLimits,
) -> Result<Walked, TooMany> {
    let mut walk = Walk::new(chain, limits);
    let way = Path { packet, path: Vec::new(), lists: Vec::new(), step: None };
    match walk.enter(from, &way, &PathCondition::default()) {
        Ok(start) => {
            let Walk { diagram, leaves, lists, steps, handed, gone_on, .. } = walk;
            Ok(Walked { start, diagram, leaves, lists, steps, handed, gone_on })
        }
        Err(Full) => {
            let mut elements: Vec<(usize, usize)> = walk.parted.into_iter().collect();
            elements.sort_by_key(|&(node, parts)| (std::cmp::Reverse(parts), node));
            Err(TooMany { elements })
        }
    }
}

/// Returns the inputs that packets can come to in the region that begins at an input, whatever its elements
/// decide, and the inputs at which the region ends.
pub(crate) fn inputs(chain: &Chain, from: Port, limits: &PathLimits) -> Vec<Port> {
    let walk = Walk::new(chain, limits);
    let (mut inputs, mut seen, mut work) = (Vec::new(), BTreeSet::new(), vec![from]);
    while let Some(port) = work.pop() {
        if !seen.insert(port) {
            continue;
        }
        inputs.push(port);
        if walk.why_alone(port.0).is_none() {
            work.extend(chain.nodes[port.0].forward.iter().flatten());
        }
    }
    inputs
}

/// The error that ends a walk when the limit of classes is reached.
pub(super) struct Full;

/// The state of a path: the symbolic packet, and the elements that it has passed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Path {
    pub(super) packet: SymbolicPacket,
    pub(super) path: Vec<crate::compose::leaf::PathElement>,
    /// The passed elements whose rules stay together as a list; they are not in `path`.
    pub(super) lists: Vec<usize>,
    /// The last step on the path: the last stateful element that the flow is leased from; `None` if there is
    /// none.
    pub(super) step: Option<u16>,
}

pub(super) struct Walk<'w> {
    pub(super) chain: &'w Chain,
    pub(super) limits: &'w PathLimits,
    pub(super) diagram: Diagram,
    leaves: ExitStates,
    lists: Vec<OrderedRules>,
    pub(super) steps: Vec<LeasedStep>,
    handed: Handed,
    gone_on: BTreeSet<usize>,
    parted: BTreeMap<usize, usize>,
    seen: HashMap<(Port, Path, PathCondition), Next>,
}

/// The cases of an element that may still be the first one to hold, in order, each with what remains of its
/// condition.
type Open = Vec<(usize, Formula)>;

impl<'w> Walk<'w> {
    fn new(chain: &'w Chain, limits: &'w PathLimits) -> Walk<'w> {
        Walk {
            chain,
            limits,
            diagram: Diagram::default(),
            leaves: ExitStates::default(),
            lists: Vec::new(),
            steps: Vec::new(),
            handed: Handed::new(),
            gone_on: BTreeSet::new(),
            parted: BTreeMap::new(),
            seen: HashMap::new(),
        }
    }

    fn enter(&mut self, port: Port, way: &Path, known: &PathCondition) -> Result<Next, Full> {
        let chain = self.chain;
        let (node, input) = port;
        if let Some(why) = self.why_alone(node) {
            self.handed.insert(port, (why, true));
            return self.hand_over(port, way, "");
        }
        if way.path.iter().any(|passed| passed.node == node) || way.lists.contains(&node) {
            return self.hand_over(port, way, "packets come back to it");
        }
        let key = (port, way.clone(), known.clone());
        if let Some(next) = self.seen.get(&key) {
            return Ok(*next);
        }
        let leases = self.leases(node).is_some();
        if leases {
            self.handed.insert(port, ("keeps state; flows that it knows are leased".into(), true));
        }
        let cases = chain.nodes[node].effects.cases.iter().enumerate();
        let here = cases.filter(|(_, case)| case.input.is_none_or(|i| i == input));
        let condition = |case: &Case| match leases {
            true => way.packet.condition(&program::unfold::of_known_flows(&case.when)),
            false => way.packet.condition(&case.when),
        };
        let open = here.map(|(number, case)| (number, condition(case))).collect();
        let next = self.decide(port, way, known, open)?;
        self.seen.insert(key, next);
        Ok(next)
    }

    /// Returns the reason why all packets that arrive at an element are handed over to it; `None` if
    /// packets may bypass it.
    fn why_alone(&self, node: usize) -> Option<String> {
        let element = &self.chain.nodes[node];
        if self.chain.is_exit(node) {
            return Some("packets leave there".into());
        }
        if self.limits.alone.contains(&node) {
            return Some("it multiplies classes".into());
        }
        let obstacle = if self.leases(node).is_some() { None } else { obstacle(&element.effects) };
        obstacle.or_else(|| element.effects.calls.then(|| "calls handlers".into()))
    }

    pub(super) fn hand_over(&mut self, port: Port, way: &Path, why: &str) -> Result<Next, Full> {
        self.handed.entry(port).or_insert_with(|| (why.to_string(), false));
        self.leaf(ExitState {
            packet: way.packet.clone(),
            to: crate::compose::leaf::Destination::Port(port),
            path: way.path.clone(),
        })
    }

    fn leaf(&mut self, leaf: ExitState) -> Result<Next, Full> {
        let number = self.leaves.add(leaf);
        if self.leaves.len() > self.limits.classes { Err(Full) } else { Ok(Next::Class(number)) }
    }

    /// Forks the path by the questions that the cases `open` of an element depend on, until the first case
    /// that holds is known, and continues the path with that case.
    fn decide(&mut self, port: Port, way: &Path, known: &PathCondition, open: Open) -> Result<Next, Full> {
        let open = under(open, known);
        let Some((number, first)) = open.first() else {
            return self.hand_over(port, way, "no case of its declaration holds");
        };
        if *first == Formula::Constant(true) {
            return self.take(port, way, known, *number);
        }
        if open.len() > MOST_APART
            && let Some(next) = self.list(port, way, known, &open)?
        {
            return Ok(next);
        }
        let Some(question) = first.leaves().find_map(AnswerTest::question).cloned() else {
            return self.hand_over(port, way, "it decides by itself");
        };
        let parts = parts(&question, known, &open);
        // Sets of answers after which the same cases remain undecided are merged, so that the path forks less
        // often.
        let mut groups: Vec<(IntervalSet, Open)> = Vec::new();
        for part in parts {
            let left = under(open.clone(), &known.with(&question, part.clone()));
            match groups.iter_mut().find(|(_, other)| *other == left) {
                Some((set, _)) => *set = set.union(&part),
                None => groups.push((part, left)),
            }
        }
        *self.parted.entry(port.0).or_default() += groups.len() - 1;
        let mut nexts = Vec::with_capacity(groups.len());
        for (set, left) in groups {
            let known = known.with(&question, set.clone());
            nexts.push((set, self.decide(port, way, &known, left)?));
        }
        Ok(self.diagram.switch(&question, nexts))
    }

    /// Continues a path with the case `number` of an element. Packets to whose path the case cannot be
    /// applied are handed over to the element.
    fn take(&mut self, port: Port, way: &Path, known: &PathCondition, number: usize) -> Result<Next, Full> {
        let chain = self.chain;
        let element = &chain.nodes[port.0];
        let case = &element.effects.cases[number];
        if leased::is_for_known_flows(&case.when) {
            return self.lease(port, way, known, number);
        }
        if !element.effects.may_be_tallied(case, element.forward.len()) {
            return self.hand_over(port, way, "it shows the fate of packets");
        }
        // The element may emit packets of its own in response to a packet. Only the element itself can make
        // these packets.
        let makes =
            element.effects.emits.iter().filter(|emit| emit.input.is_none_or(|input| input == port.1));
        let made = known.remaining(&Formula::any(makes.map(|emit| way.packet.condition(&emit.when))));
        match made {
            Formula::Constant(false) => {}
            Formula::Constant(true) | Formula::Leaf(AnswerTest::Unknown) => {
                return self.hand_over(port, way, "it makes packets");
            }
            other => return self.part(port, way, known, number, other.not()),
        }
        match carry_out(&way.packet, case, known, None) {
            Err(Stop::Alone) => self.hand_over(port, way, "it writes values that only it knows"),
            Err(Stop::Needs(condition)) => self.part(port, way, known, number, condition),
            Ok(packet) => {
                let mut path = way.path.clone();
                let start = way.packet.start;
                let cut = crate::compose::leaf::end(&way.packet).is_some();
                path.push(crate::compose::leaf::PathElement {
                    node: port.0,
                    input: port.1,
                    case: number,
                    start,
                    cut,
                });
                self.leave(port, way, known, (case.to, case.otherwise), Path { packet, path, ..way.clone() })
            }
        }
    }

    /// Applies a case to packets for which a condition holds; other packets are handed over to the element.
    /// Forks the path by the questions of the condition.
    pub(super) fn part(
        &mut self,
        port: Port,
        way: &Path,
        known: &PathCondition,
        number: usize,
        condition: Formula,
    ) -> Result<Next, Full> {
        let condition = known.remaining(&condition);
        match &condition {
            Formula::Constant(true) => return self.take(port, way, known, number),
            Formula::Constant(false) => {
                return self.hand_over(port, way, "only it handles packets of this kind");
            }
            _ => {}
        }
        let Some(question) = condition.leaves().find_map(AnswerTest::question).cloned() else {
            return self.hand_over(port, way, "it decides by itself");
        };
        let open = vec![(0, condition)];
        let mut nexts: Vec<(IntervalSet, Next)> = Vec::new();
        for part in parts(&question, known, &open) {
            let known = known.with(&question, part.clone());
            let next = self.part(port, way, &known, number, open[0].1.clone())?;
            nexts.push((part, next));
        }
        Ok(self.diagram.switch(&question, nexts))
    }

    /// Continues a path downstream of an element. `before` is the path's state on arrival at the element,
    /// `way` the path's state after the element's case. If the output is not connected, packets are dropped
    /// for the reason `otherwise`. If the output leads to several inputs, or if the element decides where
    /// packets go, the packets are handed over to the element in the state `before`.
    pub(super) fn leave(
        &mut self,
        port: Port,
        before: &Path,
        known: &PathCondition,
        (to, otherwise): (Target, DropReason),
        way: Path,
    ) -> Result<Next, Full> {
        let chain = self.chain;
        let node = port.0;
        let reason = match to {
            Target::Output(output) => match chain.nodes[node].forward.get(output).map(Vec::as_slice) {
                Some(&[to]) => {
                    self.gone_on.insert(node);
                    return self.enter(to, &way, known);
                }
                Some(&[]) | None => otherwise,
                Some(_) => return self.hand_over(port, before, "its output leads to several inputs"),
            },
            Target::Drop(reason) => reason,
            Target::AllOutputs | Target::SomeOutput | Target::Hold(_) | Target::Send => {
                return self.hand_over(port, before, "it decides where packets go");
            }
        };
        self.drop(way, reason)
    }

    fn drop(&mut self, way: Path, reason: DropReason) -> Result<Next, Full> {
        // The changes of a dropped packet do not matter, except for its start and end: elements may have
        // counted its bytes, and may have lacked room for a header.
        let mut packet = SymbolicPacket::incoming([None; 3]);
        packet.start = way.packet.start;
        packet.end = way.packet.end;
        self.leaf(ExitState { packet, to: crate::compose::leaf::Destination::Drop(reason), path: way.path })
    }

    /// Makes a list of the undecided rules of an element: a single question, whose answer is the outcome.
    /// Returns `None` if the rules cannot be expressed over the headers of the input packet. Also returns
    /// `None` if the first case is not a rule that the user wrote ([`Case::written`]).
    fn list(
        &mut self,
        port: Port,
        way: &Path,
        known: &PathCondition,
        open: &Open,
    ) -> Result<Option<Next>, Full> {
        let chain = self.chain;
        let cases = &chain.nodes[port.0].effects.cases;
        let Some(headers) = rules::headers(&way.packet) else { return Ok(None) };
        if cases[open[0].0].written.is_none() {
            return Ok(None);
        }
        let mut outcomes: Vec<usize> = Vec::new();
        let mut list = Vec::with_capacity(open.len());
        for &(number, _) in open {
            let case = &cases[number];
            let same = outcomes.iter().position(|&other| does_the_same(&cases[other], case));
            let outcome = same.unwrap_or_else(|| {
                outcomes.push(number);
                outcomes.len() - 1
            });
            let Some(condition) = rules::condition(&case.when, &way.packet, headers) else { return Ok(None) };
            list.push(Rule { condition: condition.simplified(), outcome: outcome as u32, case: number });
        }
        let number = self.lists.len() as u32;
        self.lists.push(OrderedRules {
            element: port.0 as u32,
            input: port.1,
            headers,
            end: crate::compose::leaf::end(&way.packet),
            rules: list,
        });
        *self.parted.entry(port.0).or_default() += outcomes.len() - 1;
        let question = Question::List(number);
        let mut nexts = Vec::with_capacity(outcomes.len());
        for (answer, &number) in (0..).zip(&outcomes) {
            let answer = IntervalSet::one(answer, answer);
            let known = known.with(&question, answer.clone());
            // The list counts packets for the element that has the rules, so the element is not added to the
            // path, which would count them again.
            let next = self.behind_list(port, way, &known, number)?;
            nexts.push((answer, next));
        }
        Ok(Some(self.diagram.switch(&question, nexts)))
    }

    fn behind_list(
        &mut self,
        port: Port,
        way: &Path,
        known: &PathCondition,
        number: usize,
    ) -> Result<Next, Full> {
        let element = &self.chain.nodes[port.0];
        let case = &element.effects.cases[number];
        if !element.effects.may_be_tallied(case, element.forward.len()) {
            return self.hand_over(port, way, "it shows the fate of packets");
        }
        match carry_out(&way.packet, case, known, None) {
            Ok(packet) => {
                let mut lists = way.lists.clone();
                lists.push(port.0);
                let behind = Path { packet, lists, ..way.clone() };
                self.leave(port, way, known, (case.to, case.otherwise), behind)
            }
            _ => self.hand_over(port, way, "it writes values that only it knows"),
        }
    }
}

/// Returns the cases that may still be the first one to hold under a path condition. Cases after one that
/// certainly holds are left out.
fn under(open: Open, known: &PathCondition) -> Open {
    let mut left = Vec::with_capacity(open.len());
    for (number, formula) in open {
        let formula = known.remaining(&formula);
        match formula {
            Formula::Constant(false) => {}
            Formula::Constant(true) => {
                left.push((number, formula));
                break;
            }
            _ => left.push((number, formula)),
        }
    }
    left
}

/// Divides the possible answers to a question into sets, such that no case in `open` distinguishes the
/// answers of one set.
fn parts(question: &Question, known: &PathCondition, open: &Open) -> Vec<IntervalSet> {
    let mut sets = Vec::new();
    open.iter().for_each(|(_, formula)| collect_sets(formula, question, &mut sets));
    let mut parts = vec![(*known.of(question)).clone()];
    for set in sets {
        let outside = set.complement(question.bits());
        parts = parts
            .into_iter()
            .flat_map(|part| [part.intersection(set), part.intersection(&outside)])
            .filter(|part| !part.is_empty())
            .collect();
    }
    parts
}

fn does_the_same(a: &Case, b: &Case) -> bool {
    (a.to, a.otherwise, &a.checksum) == (b.to, b.otherwise, &b.checksum) && a.actions == b.actions
}

/// Returns the reason why no packet can bypass an element, whatever case applies; `None` if there is none.
fn obstacle(effects: &Effects) -> Option<String> {
    if let Some(why) = effects.opaque {
        return Some(format!("opaque ({why})"));
    }
    if effects.support.sliced != Sliced::default() {
        return Some("parks payloads".into());
    }
    if effects.counts == Counting::Own || effects.counts == Counting::None && !effects.observes.is_empty() {
        return Some("shows packets to people".into());
    }
    if effects.hold != Hold::None {
        return Some("holds packets".into());
    }
    let keeps = |access: StateAccess| !matches!(access, StateAccess::Read | StateAccess::Soft);
    effects
        .state
        .iter()
        .find(|state| keeps(state.access))
        .map(|state| format!("keeps state ({})", state.table))
}
