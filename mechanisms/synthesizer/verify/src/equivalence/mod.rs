//! Translation validation: proves that two chains do the same to every packet.
//!
//! Both chains receive the same symbolic packet ([`crate::model`]); the results at corresponding exits are
//! compared bit by bit. Equal functions have equal diagrams, so the absence of differences is a proof. A
//! difference is turned into a packet, which is run through both chains: only a difference that the run
//! shows counts. Anything else is undecided, with a reason.
//!
//! Entries may emit any packet, whatever their arguments say. Queues are never full. Time and the order of
//! packets are not compared.

pub mod compare;
mod loops;
mod origins;
mod regions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use element::effects::Field;

use crate::example::Example;
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::explore::{Arrival, Ends, Made, Premises, Waiting, explore};
use crate::model::order::order_variables;
use crate::model::packet::{Packet, incoming};
use crate::model::streams::Streams;
use compare::Candidate;
use loops::Loops;
use origins::{Came, Parent, mixed_circle, shared_state};
use program::chain::{Chain, Node, Order, Port};

/// The number of examples that are run for a difference. If none of them shows the difference, the result
/// is undecided.
const TRIES: usize = 12;

/// A reason for an undecided comparison that more time may change.
pub const TOO_LONG: &str = "it takes too long here";
/// A reason for an undecided comparison that more memory may change.
pub const NO_ROOM: &str = "there is no room for the decision diagrams";

/// The number of rounds on a loop after which packets are no longer followed: a time to live of the usual
/// 64 expires earlier.
const MOST_ROUNDS: usize = 65;

/// Options of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if dropped packets must have equal drop reasons.
    pub reasons: bool,
    /// The time at which the comparison is aborted.
    pub deadline: Option<Instant>,
}

/// The result of a comparison.
#[derive(Debug)]
pub enum Verdict {
    /// The chains do the same to every packet.
    Equivalent,
    /// The chains differ.
    Different(Difference),
    /// The comparison found neither a proof nor a difference.
    Undecided {
        /// The element that prevents a proof, if it is a single element.
        element: Option<String>,
        /// The reason.
        reason: String,
    },
}

/// A difference between two chains.
#[derive(Debug)]
pub enum Difference {
    /// An entry of the first (0) or second (1) chain has no counterpart in the other.
    Entry(usize, String),
    /// A packet for which the chains differ.
    Packet {
        /// The entry, in both chains.
        entry: [usize; 2],
        /// The packet.
        example: Example,
        /// The part that differs, according to the model.
        what: String,
    },
}

/// A verdict, with its assumptions.
#[derive(Debug)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The assumptions: queues, arguments of entries.
    pub assumptions: Vec<String>,
    /// The number of diagram nodes at the end.
    pub nodes: usize,
}

/// Callbacks of the verification.
pub trait Companion {
    /// Reports the element that is being processed.
    fn progress(&mut self, _chain: usize, _element: &str) {}

    /// Runs a packet that enters at an entry (its number in both chains) through both chains. Returns true
    /// if the outputs differ, or with `reasons` the drop reasons; `None` if the chains cannot be run.
    fn differs(&mut self, entry: [usize; 2], example: &Example, reasons: bool) -> Option<bool>;
}

/// Packets that an element emits at an output, all of one emission.
type Group<'e> = Vec<&'e Made>;

/// A start of packets in both chains; the comparison processes starts one by one.
struct Start {
    /// The elements that the packets come from.
    from: [usize; 2],
    output: usize,
    /// The packet in each chain.
    packets: [Packet; 2],
    origin: Origin,
    /// The packets that these packets were made of, by their start.
    parents: Vec<Parent>,
}

/// The origin of the packets of a start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The packets enter from outside.
    Entry,
    /// An element makes the packets.
    Made,
    /// The packets leave a loop.
    Circle,
}

/// Compares two chains. `nodes` is the maximum number of diagram nodes; without it, the largest possible
/// number.
pub fn verify(
    chains: [&Chain; 2],
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
) -> Outcome {
    let [a, b] = chains;
    let mut attempt = |chains: [&Chain; 2], loops: &Loops, run: &dyn Fn(&mut Verifier<'_>) -> Verdict| {
        attempt(chains, loops, options, nodes, companion, run)
    };
    let (mut first, mut left) = (None, None);
    let mut assumptions = Vec::new();
    // Without loops, the proof of the whole chain includes everything that single proofs of programs can
    // show.
    let is_round = a.nodes.iter().any(|node| node.circle.is_some());
    if let Some(replaced) =
        regions::replaced(chains, false).filter(|replaced| is_round && !replaced.is_empty())
    {
        let without = regions::without(b, &replaced);
        let unseen = Loops::none([&without, b]);
        let outcome = regions::verify(&replaced, |one| {
            attempt([&without, b], &unseen, &|verifier| one.verdict(verifier))
        });
        match outcome.verdict {
            Verdict::Equivalent if without.nodes.iter().all(|node| !leases(node)) => return outcome,
            // The programs that remain lease flows.
            Verdict::Equivalent => (left, assumptions) = (Some(without), outcome.assumptions),
            _ => first = Some(outcome),
        }
    }
    let chains = [a, left.as_ref().unwrap_or(b)];
    let mut attempt = |loops: &Loops| {
        let mut outcome = attempt(chains, loops, &|verifier| verifier.run());
        let more = assumptions.iter().filter(|assumption| !outcome.assumptions.contains(assumption));
        let more: Vec<String> = more.cloned().collect();
        outcome.assumptions.extend(more);
        outcome
    };
    let same = Loops::of_both(chains);
    if !same.is_empty() {
        let outcome = attempt(&same);
        if !matches!(outcome.verdict, Verdict::Undecided { .. }) {
            return outcome;
        }
        first.get_or_insert(outcome);
    }
    let last = attempt(&Loops::none(chains));
    // The reason that packets come round is less useful than another reason.
    match first {
        Some(first) if matches!(last.verdict, Verdict::Undecided { .. }) => first,
        _ => last,
    }
}

/// Proves that each program of the second chain does what its elements do, for all packets that arrive. The
/// second chain must be the first one with programs inserted; otherwise the result is undecided. Proven
/// programs may be inserted together.
pub fn verify_programs(
    chains: [&Chain; 2],
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
) -> Outcome {
    let Some(replaced) = regions::replaced(chains, true).filter(|replaced| !replaced.is_empty()) else {
        let calls = chains.iter().any(|chain| chain.calls);
        let reason = match calls {
            true => "handlers are written after packets have arrived".to_string(),
            // The configuration itself has programs, or an inserted program cannot be read.
            false => "it is not the configuration with programs put in".to_string(),
        };
        let verdict = Verdict::Undecided { element: None, reason };
        return Outcome { verdict, assumptions: Vec::new(), nodes: 0 };
    };
    let with = chains[1];
    let without = regions::without(with, &replaced);
    let unseen = Loops::none([&without, with]);
    regions::verify(&replaced, |one| {
        attempt([&without, with], &unseen, options, nodes, companion, &|verifier| one.verdict(verifier))
    })
}

/// True if the element runs a program that leases flows.
fn leases(node: &Node) -> bool {
    node.region.as_ref().is_some_and(|region| region.leases)
}

fn attempt(
    chains: [&Chain; 2],
    loops: &Loops,
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
    run: &dyn Fn(&mut Verifier<'_>) -> Verdict,
) -> Outcome {
    let diagrams = || {
        let d = nodes.map_or_else(Diagrams::default, Diagrams::new).until(options.deadline);
        match chains.map(Chain::observed_metadata) {
            [Some(one), Some(other)] => d.looking_at(&one | &other),
            _ => d,
        }
    };
    let d = diagrams();
    let mut verdict = verdict(&d, chains, loops, options, companion, run);
    let mut nodes = d.nodes();
    // If a single element prevents the proof, more precision does not help.
    let single_zero = match &verdict.0 {
        Verdict::Different(_) | Verdict::Undecided { element: Some(_), .. } => true,
        Verdict::Equivalent | Verdict::Undecided { element: None, .. } => false,
    };
    let inexact = d.overlap_found() || matches!(verdict.0, Verdict::Undecided { .. });
    if !single_zero && inexact && d.byte_regions() > 0 && !d.exhausted() {
        // Byte regions for headers were not precise enough.
        drop(d);
        let d = diagrams().exact();
        verdict = self::verdict(&d, chains, loops, options, companion, run);
        nodes = d.nodes();
    }
    let (verdict, assumptions) = verdict;
    Outcome { verdict, assumptions, nodes }
}

fn verdict(
    d: &Diagrams,
    chains: [&Chain; 2],
    loops: &Loops,
    options: Options,
    companion: &mut dyn Companion,
    run: &dyn Fn(&mut Verifier<'_>) -> Verdict,
) -> (Verdict, Vec<String>) {
    order_variables(d, &chains);
    let mut verifier = Verifier { d, chains, loops, options, companion, assumptions: Vec::new(), at: None };
    let mut verdict = run(&mut verifier);
    if d.exhausted() {
        let late = options.deadline.is_some_and(|deadline| Instant::now() > deadline);
        let reason = if late { TOO_LONG } else { NO_ROOM };
        verdict = Verdict::Undecided { element: verifier.at.take(), reason: reason.to_string() };
    }
    if d.equates_zeros() {
        verifier
            .assume("checksums of 0000 and ffff, which are equivalent, are compared as equal".to_string());
    }
    (verdict, verifier.assumptions)
}

struct Verifier<'v> {
    d: &'v Diagrams,
    chains: [&'v Chain; 2],
    /// The loops on which packets are not followed.
    loops: &'v Loops,
    options: Options,
    companion: &'v mut dyn Companion,
    assumptions: Vec<String>,
    /// The last element processed while there was time and memory.
    at: Option<String>,
}

impl Verifier<'_> {
    fn run(&mut self) -> Verdict {
        let [a, b] = self.chains;
        if !a.same_scripts(b) {
            let reason = "the elements that write handlers differ between the two".to_string();
            return Verdict::Undecided { element: None, reason };
        }
        let (pairs, only_a, only_b) = a.pair(&a.entries(), b, &b.entries());
        for (chain, left) in [only_a, only_b].into_iter().enumerate() {
            if let Some(&entry) = left.first() {
                return Verdict::Different(Difference::Entry(
                    chain,
                    self.chains[chain].nodes[entry].name.clone(),
                ));
            }
        }
        let mut starts: Vec<Start> = Vec::new();
        for (x, y) in pairs {
            let (left, right) = (&a.nodes[x], &b.nodes[y]);
            if left.key != right.key {
                let (name, x, y) = (&left.name, &left.key, &right.key);
                self.assume(format!("'{name}' gives the same packets in both, as {x} and as {y}"));
            }
            for output in 0..left.forward.len().max(right.forward.len()) {
                let packets = [left, right].map(|node| incoming(self.d, &node.effects));
                let parents = Vec::new();
                starts.push(Start { from: [x, y], output, packets, origin: Origin::Entry, parents });
            }
        }
        let mut streams: [BTreeMap<usize, Vec<Came>>; 2] = Default::default();
        let mut to_circles: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut undecided = None;
        let mut next = 0;
        while let Some(start) = starts.get(next) {
            let from: [Vec<Port>; 2] = std::array::from_fn(|chain| {
                let node = &self.chains[chain].nodes[start.from[chain]];
                let ports = node.forward.get(start.output).cloned().unwrap_or_default();
                // Packets that leave a loop do not include packets that stay on it.
                let circle = self.loops.in_chain(chain);
                let stays = |to: usize| circle[to].is_some() && circle[to] == circle[start.from[chain]];
                ports.into_iter().filter(|&(to, _)| start.origin != Origin::Circle || !stays(to)).collect()
            });
            let (packets, loops) = (start.packets.each_ref(), self.loops);
            let unfollowed = [0, 1].map(|chain| loops.in_chain(chain));
            let orders = self.chains.map(Chain::order);
            let ends = self.explore(from.each_ref().map(Vec::as_slice), packets, unfollowed, orders);
            for (chain, ends) in ends.iter().enumerate() {
                let names = &self.chains[chain].nodes;
                for &queue in &ends.queues {
                    self.assume(format!("the queue '{}' is never full", names[queue].name));
                }
                if let Some(&(node, _)) = ends.round.keys().next() {
                    let reason = "packets return to it without end".to_string();
                    undecided.get_or_insert((Some(names[node].name.clone()), reason));
                }
                for (&node, (stream, packets)) in &ends.streams {
                    let came = Came { start: next, stream: *stream, packets: packets.clone() };
                    streams[chain].entry(node).or_default().push(came);
                }
            }
            if self.d.exhausted() {
                break;
            }
            let (entry, is_entry) = (start.from, start.origin == Origin::Entry);
            let candidates = self.candidates(&ends);
            match self.try_out(entry, is_entry, candidates) {
                Some(Verdict::Undecided { element, reason }) => {
                    undecided.get_or_insert((element, reason));
                }
                Some(verdict) => return verdict,
                None => {}
            }
            self.follow(&ends, next, &mut starts);
            for &circle in ends[0].loops.keys() {
                to_circles.entry(circle).or_default().push(next);
            }
            if let Some(element) = self.leave_circles(&ends, &mut starts) {
                let reason =
                    "the packets that enter the circle of this element differ, or enter it twice".to_string();
                undecided.get_or_insert((Some(element), reason));
            }
            next += 1;
        }
        if let Some((element, reason)) = undecided {
            return Verdict::Undecided { element, reason };
        }
        if a.calls || b.calls {
            let reason = "handlers are written after packets have arrived".to_string();
            return Verdict::Undecided { element: None, reason };
        }
        if a.entries().is_empty() && !(a.nodes.is_empty() && b.nodes.is_empty()) {
            return Verdict::Undecided { element: None, reason: "no element gives packets".to_string() };
        }
        if let Some(element) = mixed_circle(self.chains, self.loops, &to_circles, &starts) {
            let reason =
                "packets that left another circle enter the circle of this element together with other packets"
                    .to_string();
            return Verdict::Undecided { element: Some(element), reason };
        }
        match shared_state(self.d, self.chains, &streams, &starts) {
            Some(element) => {
                let reason =
                    "other elements, or packets from several entries, depend on all packets that it \
                              receives, which differ between the chains"
                        .to_string();
                Verdict::Undecided { element: Some(element), reason }
            }
            None => Verdict::Equivalent,
        }
    }

    /// Follows packets through both chains from the inputs `from` on, but not through the elements in
    /// `unfollowed`.
    fn explore(
        &mut self,
        from: [&[Port]; 2],
        packets: [&Packet; 2],
        unfollowed: [&[Option<usize>]; 2],
        orders: [&Order; 2],
    ) -> [Ends; 2] {
        let mut arriving = Streams::default();
        std::array::from_fn(|chain| {
            let (companion, nodes) = (&mut *self.companion, &self.chains[chain].nodes);
            let at = &mut self.at;
            let mut watch = |node: usize, _: &Waiting| {
                companion.progress(chain, &nodes[node].name);
                if !self.d.exhausted() {
                    *at = Some(nodes[node].name.clone());
                }
            };
            let (loops, order) = (unfollowed[chain], orders[chain]);
            let premises = Premises { salt: 1 + chain as i64, room: true, rounds: MOST_ROUNDS, loops, order };
            let (from, packet) = (from[chain], packets[chain]);
            explore(self.d, self.chains[chain], from, packet, premises, &mut arriving, &mut watch)
        })
    }

    fn assume(&mut self, text: String) {
        if !self.assumptions.contains(&text) {
            self.assumptions.push(text);
        }
    }

    /// Returns the differences between the exits.
    fn candidates(&mut self, ends: &[Ends; 2]) -> Vec<Candidate> {
        let [a, b] = self.chains;
        let exits = |ends: &Ends| ends.out.keys().copied().collect::<Vec<_>>();
        let (pairs, only_a, only_b) = a.pair(&exits(&ends[0]), b, &exits(&ends[1]));
        for &(x, y) in &pairs {
            let (left, right) = (&a.nodes[x], &b.nodes[y]);
            if left.key != right.key {
                let (name, x, y) = (&left.name, &left.key, &right.key);
                self.assume(format!("'{name}' does the same with packets in both, as {x} and as {y}"));
            }
        }
        let mut candidates = Vec::new();
        let nothing = Vec::new();
        let mut compare = |x: Option<usize>, y: Option<usize>| {
            let left = x.and_then(|x| ends[0].out.get(&x)).unwrap_or(&nothing);
            let right = y.and_then(|y| ends[1].out.get(&y)).unwrap_or(&nothing);
            let nodes = x.map(|x| &a.nodes[x]).into_iter().chain(y.map(|y| &b.nodes[y]));
            let mut observed: Vec<Field> = nodes.clone().flat_map(Node::looks_at).collect();
            observed.sort();
            observed.dedup();
            let name = nodes.map(|node| node.name.as_str()).next().unwrap_or_default();
            let found = compare::arrivals(self.d, left, right, &observed);
            candidates.extend(
                found.into_iter().map(|c| Candidate { what: format!("{} at '{name}'", c.what), ..c }),
            );
        };
        pairs.into_iter().for_each(|(x, y)| compare(Some(x), Some(y)));
        only_a.into_iter().for_each(|x| compare(Some(x), None));
        only_b.into_iter().for_each(|y| compare(None, Some(y)));
        self.compare_made(ends, &mut candidates);
        if self.options.reasons {
            self.compare_reasons(ends, &mut candidates);
        }
        candidates
    }

    /// Pairs the packets that elements make, as exits are paired: groups of the first chain with groups of
    /// the second, then the groups without a counterpart.
    fn pair_made<'e>(&self, ends: &'e [Ends; 2]) -> Vec<[Option<Group<'e>>; 2]> {
        let groups = ends.each_ref().map(|ends| {
            let mut groups: BTreeMap<(usize, usize, &str), Group> = BTreeMap::new();
            for made in &ends.made {
                groups.entry((made.node, made.output, made.name)).or_default().push(made);
            }
            groups.into_values().collect::<Vec<_>>()
        });
        let [a, b] = self.chains;
        let [left, mut right] = groups;
        let mut pairs = Vec::new();
        let mut rest = Vec::new();
        // Elements of equal names first, so that no other element takes their counterpart.
        for same_name in [true, false] {
            let open = if same_name { left.clone() } else { std::mem::take(&mut rest) };
            for group in open {
                let place = right.iter().position(|other| {
                    let (mine, theirs) = (group[0], other[0]);
                    let (x, y) = (&a.nodes[mine.node], &b.nodes[theirs.node]);
                    (mine.output, mine.name) == (theirs.output, theirs.name)
                        && x.key == y.key
                        && (!same_name || x.name == y.name)
                });
                match place {
                    Some(place) => pairs.push([Some(group), Some(right.remove(place))]),
                    None if same_name => rest.push(group),
                    None => pairs.push([Some(group), None]),
                }
            }
        }
        pairs.extend(right.into_iter().map(|group| [None, Some(group)]));
        pairs
    }

    fn compare_made(&self, ends: &[Ends; 2], candidates: &mut Vec<Candidate>) {
        for pair in self.pair_made(ends) {
            let name = pair.iter().flatten().next().map(|group| group[0].name).unwrap_or_default();
            let [left, right] = pair.map(|group| {
                group.into_iter().flatten().map(|made| made.arrival.clone()).collect::<Vec<Arrival>>()
            });
            let found = compare::arrivals(self.d, &left, &right, &[]);
            candidates
                .extend(found.into_iter().map(|c| Candidate { what: format!("{name}: {}", c.what), ..c }));
        }
    }

    fn compare_reasons(&self, ends: &[Ends; 2], candidates: &mut Vec<Candidate>) {
        let by_reason = ends.each_ref().map(|ends| {
            let mut reasons: BTreeMap<String, Bit> = BTreeMap::new();
            for dropped in &ends.dropped {
                let all = reasons.entry(dropped.reason.to_string()).or_insert_with(|| self.d.no());
                *all = self.d.or(all, &dropped.condition);
            }
            reasons
        });
        let names: BTreeSet<&String> = by_reason.iter().flat_map(BTreeMap::keys).collect();
        for name in names {
            let [x, y] = by_reason.each_ref().map(|r| r.get(name).cloned().unwrap_or_else(|| self.d.no()));
            let condition = self.d.xor(&x, &y);
            if !self.d.is_never(&condition) {
                candidates.push(Candidate { condition, what: format!("drops for the reason '{name}'") });
            }
        }
    }

    /// Makes packets of differences and runs them.
    fn try_out(&mut self, entry: [usize; 2], is_entry: bool, candidates: Vec<Candidate>) -> Option<Verdict> {
        if candidates.is_empty() {
            return None;
        }
        let mut depends: Vec<String> = Vec::new();
        let mut tries = 0;
        let mut what = String::new();
        // Examples that depend on no uninterpreted function come first.
        let mut examples = Vec::new();
        for candidate in &candidates {
            if examples.len() >= TRIES {
                break;
            }
            if let Some(example) = Example::find(self.d, &candidate.condition) {
                examples.push((example, &candidate.what));
            }
        }
        examples.sort_by_key(|(example, _)| example.depends.len());
        for (example, in_what) in examples {
            if what.is_empty() {
                what.clone_from(in_what);
            }
            depends.extend(example.depends.iter().cloned());
            if !is_entry || tries >= TRIES {
                continue;
            }
            tries += 1;
            if self.companion.differs(entry, &example, self.options.reasons) == Some(true) {
                let what = in_what.clone();
                return Some(Verdict::Different(Difference::Packet { entry, example, what }));
            }
        }
        depends.sort();
        depends.dedup();
        let reason = match depends.first() {
            Some(function) => format!("{what}: depends on what is only known while running ({function})"),
            None => format!("{what}: the model shows a difference that no packet tried has confirmed"),
        };
        let element =
            depends.first().map(|function| function.split('(').next().unwrap_or_default().to_string());
        Some(Verdict::Undecided { element, reason })
    }

    /// Adds starts for packets that elements make, with arbitrary contents.
    fn follow(&self, ends: &[Ends; 2], parent: usize, starts: &mut Vec<Start>) {
        for pair in self.pair_made(ends) {
            // A group without a counterpart is already a difference.
            let [Some(mine), Some(theirs)] = pair else { continue };
            let (made, other) = (mine[0], theirs[0]);
            let packets = [made.start.clone(), other.start.clone()];
            let known = |start: &Start| {
                start.from == [made.node, other.node]
                    && start.output == made.output
                    && start.origin == Origin::Made
                    && start.packets == packets
            };
            let place = starts.iter().position(known).unwrap_or_else(|| {
                starts.push(Start {
                    from: [made.node, other.node],
                    output: made.output,
                    packets: packets.clone(),
                    origin: Origin::Made,
                    parents: Vec::new(),
                });
                starts.len() - 1
            });
            Parent::add(self.d, &mut starts[place].parents, parent, [&mine, &theirs]);
        }
    }

    /// Adds starts for packets that may leave loops, with arbitrary contents. Returns an element of a loop
    /// that different packets enter in the two chains, if there is one.
    fn leave_circles(&mut self, ends: &[Ends; 2], starts: &mut Vec<Start>) -> Option<String> {
        let nothing = BTreeMap::new();
        let reached: BTreeSet<usize> = ends.iter().flat_map(|ends| ends.loops.keys().copied()).collect();
        for circle in reached {
            let entering = ends.each_ref().map(|ends| ends.loops.get(&circle).unwrap_or(&nothing));
            if !self.loops.get_the_same(self.d, circle, entering) {
                let [mine, theirs] = entering.map(|entering| entering.keys().next());
                let mine = mine.map(|&element| &self.chains[0].nodes[element]);
                let element = mine.or(theirs.map(|&element| &self.chains[1].nodes[element]));
                return element.map(|element| element.name.clone());
            }
            let leaving = self.loops.leaving(self.d, self.chains[0], circle, entering[0]);
            for queue in leaving.queues {
                self.assume(format!("the queue '{}' is never full", self.chains[0].nodes[queue].name));
            }
            for ((element, output), packet) in leaving.packets {
                let Some(other) = self.loops.other(element) else { continue };
                let start = Start {
                    from: [element, other],
                    output,
                    packets: [packet.clone(), packet],
                    origin: Origin::Circle,
                    parents: Vec::new(),
                };
                let known = |known: &Start| {
                    let place = |start: &Start| (start.from, start.output, start.origin);
                    place(known) == place(&start) && known.packets == start.packets
                };
                if !starts.iter().any(known) {
                    starts.push(start);
                }
            }
        }
        None
    }
}
