//! Translation validation: proves that two chains do the same to every packet, or finds a packet for which
//! they differ.
//!
//! Both chains receive the same symbolic packet ([`crate::model`]), and the results at corresponding exits
//! are compared bit by bit. Equal Boolean functions have equal diagrams, so the absence of differences is a
//! proof. From some of the differences, example packets are made and run through both chains. The verdict is
//! "different" only if such a run differs, too, or if an entry has no counterpart; otherwise it is undecided,
//! with a reason.
//!
//! The model assumes that entries may emit any packet, whatever their arguments say, and that queues are
//! never full. It does not compare times, nor the order of packets at an exit.

pub mod compare;
mod loops;
mod origins;
mod regions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use element::effects::Field;

use crate::example::Example;
use crate::model::arrival::{Arrival, Waiting};
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::explore::{Ends, Made, Premises, explore};
use crate::model::order::order_variables;
use crate::model::packet::{PacketModel, incoming};
use crate::model::streams::Streams;
use compare::Candidate;
use loops::Loops;
use origins::{Came, Parent, mixed_circle, shared_state};
use program::chain::{Chain, ChainNode, Port, TopologicalOrder};

/// The maximum number of example packets that are made and run to confirm the differences of one start. If no
/// run shows a difference, the verdict is undecided.
const TRIES: usize = 12;

/// The reason of an undecided verdict when the deadline has passed: more time may lead to a decision.
pub const TOO_LONG: &str = "it takes too long here";
/// The reason of an undecided verdict when the diagrams need more nodes than permitted: more memory may
/// lead to a decision.
pub const NO_ROOM: &str = "there is no room for the decision diagrams";

/// The number of visits of a packet to one element of a loop after which it is no longer followed. A loop
/// on which each round decrements the time to live ends before that, if packets start with the usual 64.
const MOST_ROUNDS: usize = 65;

/// Options of a comparison of two chains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if dropped packets must have equal drop reasons.
    pub reasons: bool,
    /// The time at which the comparison is aborted with an undecided verdict; `None` for no limit.
    pub deadline: Option<Instant>,
}

/// The result of a comparison of two chains.
#[derive(Debug)]
pub enum Conclusion {
    /// The chains are proven to do the same to every packet, under the assumptions of the comparison.
    Equivalent,
    /// The chains differ: an entry has no counterpart, or a run of a packet has shown the difference.
    Different(Difference),
    /// The comparison has found neither a proof nor a confirmed difference.
    Undecided {
        /// The element, or the uninterpreted function of an element, that prevents a proof; the first by name
        /// if there are several functions. If memory or time ran out, the last element that was processed
        /// before that. `None` if no element is known as the cause.
        element: Option<String>,
        /// The reason why the comparison is undecided, as text for people.
        reason: String,
    },
}

/// A proven difference between two chains.
#[derive(Debug)]
pub enum Difference {
    /// An entry without a counterpart in the other chain: the chain that has the entry (0 for the first, 1
    /// for the second), and the name of the entry.
    Entry(usize, String),
    /// A packet for which a run of both chains has different results.
    Packet {
        /// The number of the entry element from which the packet comes, in each chain.
        entry: [usize; 2],
        /// The packet as it enters the chains.
        example: Example,
        /// The part of the result that differs in the symbolic model, for example "byte 22 at 'out'".
        what: String,
    },
}

/// The verdict of a comparison, with the assumptions that it relies on.
#[derive(Debug)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Conclusion,
    /// The assumptions, as sentences for people: queues that are never full, entries and exits with different
    /// arguments that emit the same packets or do the same, checksums whose two zeros are compared as equal.
    pub assumptions: Vec<String>,
    /// The number of decision diagram nodes that exist at the end, as a measure of the proof's size. If
    /// programs are proven one by one, the number of the largest of these proofs.
    pub nodes: usize,
}

/// Callbacks by which a comparison reports its progress and has example packets run.
pub trait Companion {
    /// Called before each element is processed, with the chain (0 or 1) and the name of the element. Does
    /// nothing by default.
    fn progress(&mut self, _chain: usize, _element: &str) {}

    /// Runs `example` through both chains, from the entry with the number `entry[0]` in the first chain and
    /// `entry[1]` in the second. Returns true if the packets at the exits differ, or, if `reasons` is true,
    /// the drop reasons; `None` if the chains cannot be run.
    fn differs(&mut self, entry: [usize; 2], example: &Example, reasons: bool) -> Option<bool>;
}

/// The packets that an element makes by one declared emission and that leave by one output.
type Group<'e> = Vec<&'e Made>;

/// A packet and an output from which it is followed in both chains. Each entry has one start per output.
/// Packets that elements make and packets that leave a loop are starts of their own. The comparison
/// processes them one by one.
struct Start {
    /// The number of the element that emits the packet, in each chain.
    from: [usize; 2],
    output: usize,
    /// The symbolic packet in each chain.
    packets: [PacketModel; 2],
    origin: Origin,
    /// For packets that an element makes: the packets from which the element makes them, grouped by the start
    /// that they come from.
    parents: Vec<Parent>,
}

/// The kind of place from which the packets of a start come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// An entry of the chain: the packets come from outside.
    Entry,
    /// An element that makes the packets from other packets, such as an ICMP error.
    Made,
    /// A loop that is not followed; the packets leave it with arbitrary contents.
    Circle,
}

/// Compares two chains. Up to three attempts follow each other until one of them decides: proofs of single
/// programs, a proof of the whole chain that does not follow packets on loops which are equal in both chains,
/// and a proof of the whole chain that does. `nodes` is the maximum number of decision diagram nodes; `None`
/// allows as many as the diagrams can have.
pub fn verify(
    chains: [&Chain; 2],
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
) -> Comparison {
    let [a, b] = chains;
    let mut attempt = |chains: [&Chain; 2], loops: &Loops, run: &dyn Fn(&mut Verifier<'_>) -> Conclusion| {
        attempt(chains, loops, options, nodes, companion, run)
    };
    let (mut first, mut left) = (None, None);
    let mut assumptions = Vec::new();
    // Proofs of single programs are only tried if the chain has loops: without loops, the proof of the
    // whole chain shows everything that they can show.
    let has_loop = a.nodes.iter().any(|node| node.loop_id.is_some());
    if let Some(replaced) =
        regions::replaced(chains, false).filter(|replaced| has_loop && !replaced.is_empty())
    {
        let without = regions::without(b, &replaced);
        let unseen = Loops::none([&without, b]);
        let outcome = regions::verify(&replaced, |one| {
            attempt([&without, b], &unseen, &|verifier| one.verdict(verifier))
        });
        match outcome.verdict {
            Conclusion::Equivalent if without.nodes.iter().all(|node| !leases(node)) => return outcome,
            // The proven programs are removed from the second chain, so that the next attempt is smaller.
            // Programs that lease flows were not among them and stay; they need the proof of the whole chain.
            Conclusion::Equivalent => (left, assumptions) = (Some(without), outcome.assumptions),
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
        if !matches!(outcome.verdict, Conclusion::Undecided { .. }) {
            return outcome;
        }
        first.get_or_insert(outcome);
    }
    let last = attempt(&Loops::none(chains));
    // The last attempt follows packets on every loop. If it is undecided, the usual reason is that packets go
    // round a loop without end. The reason of the first attempt is more helpful, so it is returned.
    match first {
        Some(first) if matches!(last.verdict, Conclusion::Undecided { .. }) => first,
        _ => last,
    }
}

/// Proves for each program in the second chain, separately, that it does what the elements that it replaces
/// do, for all packets that reach it. The second chain must be the first one with programs inserted;
/// otherwise the verdict is undecided. If the verdict is "equivalent", all programs may be inserted
/// together.
pub fn verify_programs(
    chains: [&Chain; 2],
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
) -> Comparison {
    let Some(replaced) = regions::replaced(chains, true).filter(|replaced| !replaced.is_empty()) else {
        let calls = chains.iter().any(|chain| chain.calls);
        let reason = match calls {
            true => "handlers are written after packets have arrived".to_string(),
            // The first chain contains programs itself, an inserted program cannot be parsed, or elements
            // were changed.
            false => "it is not the configuration with programs put in".to_string(),
        };
        let verdict = Conclusion::Undecided { element: None, reason };
        return Comparison { verdict, assumptions: Vec::new(), nodes: 0 };
    };
    let with = chains[1];
    let without = regions::without(with, &replaced);
    let unseen = Loops::none([&without, with]);
    regions::verify(&replaced, |one| {
        attempt([&without, with], &unseen, options, nodes, companion, &|verifier| one.verdict(verifier))
    })
}

/// True if the element runs a program that leases flows, that is, handles packets in place of the elements
/// that own the flows' state.
fn leases(node: &ChainNode) -> bool {
    node.region.as_ref().is_some_and(|region| region.leases)
}

fn attempt(
    chains: [&Chain; 2],
    loops: &Loops,
    options: Options,
    nodes: Option<usize>,
    companion: &mut dyn Companion,
    run: &dyn Fn(&mut Verifier<'_>) -> Conclusion,
) -> Comparison {
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
    // A verdict that is undecided because of one element would be the same in a second attempt with a fork
    // for each header offset, so it is final.
    let is_final = match &verdict.0 {
        Conclusion::Different(_) | Conclusion::Undecided { element: Some(_), .. } => true,
        Conclusion::Equivalent | Conclusion::Undecided { element: None, .. } => false,
    };
    let inexact = d.overlap_found() || matches!(verdict.0, Conclusion::Undecided { .. });
    if !is_final && inexact && d.byte_regions() > 0 && !d.exhausted() {
        // Byte regions, which have variables of their own for each header, are an approximation. The second
        // attempt forks for each offset of a header instead.
        drop(d);
        let d = diagrams().exact();
        verdict = self::verdict(&d, chains, loops, options, companion, run);
        nodes = d.nodes();
    }
    let (verdict, assumptions) = verdict;
    Comparison { verdict, assumptions, nodes }
}

fn verdict(
    d: &Diagrams,
    chains: [&Chain; 2],
    loops: &Loops,
    options: Options,
    companion: &mut dyn Companion,
    run: &dyn Fn(&mut Verifier<'_>) -> Conclusion,
) -> (Conclusion, Vec<String>) {
    order_variables(d, &chains);
    let mut verifier = Verifier { d, chains, loops, options, companion, assumptions: Vec::new(), at: None };
    let mut verdict = run(&mut verifier);
    if d.exhausted() {
        let late = options.deadline.is_some_and(|deadline| Instant::now() > deadline);
        let reason = if late { TOO_LONG } else { NO_ROOM };
        verdict = Conclusion::Undecided { element: verifier.at.take(), reason: reason.to_string() };
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
    /// The loops that are equal in both chains, on which packets are not followed.
    loops: &'v Loops,
    options: Options,
    companion: &'v mut dyn Companion,
    assumptions: Vec<String>,
    /// The name of the last element that was processed before memory or time ran out.
    at: Option<String>,
}

impl Verifier<'_> {
    fn run(&mut self) -> Conclusion {
        let [a, b] = self.chains;
        if !a.same_scripts(b) {
            let reason = "the elements that write handlers differ between the two".to_string();
            return Conclusion::Undecided { element: None, reason };
        }
        let (pairs, only_a, only_b) = a.pair(&a.entries(), b, &b.entries());
        for (chain, left) in [only_a, only_b].into_iter().enumerate() {
            if let Some(&entry) = left.first() {
                return Conclusion::Different(Difference::Entry(
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
                // If the packet represents packets that leave a loop, it is not sent to inputs on that same
                // loop.
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
                Some(Conclusion::Undecided { element, reason }) => {
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
            return Conclusion::Undecided { element, reason };
        }
        if a.calls || b.calls {
            let reason = "handlers are written after packets have arrived".to_string();
            return Conclusion::Undecided { element: None, reason };
        }
        if a.entries().is_empty() && !(a.nodes.is_empty() && b.nodes.is_empty()) {
            return Conclusion::Undecided { element: None, reason: "no element gives packets".to_string() };
        }
        if let Some(element) = mixed_circle(self.chains, self.loops, &to_circles, &starts) {
            let reason =
                "packets that left another circle enter the circle of this element together with other packets"
                    .to_string();
            return Conclusion::Undecided { element: Some(element), reason };
        }
        match shared_state(self.d, self.chains, &streams, &starts) {
            Some(element) => {
                let reason =
                    "other elements, or packets from several entries, depend on all packets that it \
                              receives, which differ between the chains"
                        .to_string();
                Conclusion::Undecided { element: Some(element), reason }
            }
            None => Conclusion::Equivalent,
        }
    }

    /// Follows one symbolic packet through each chain, from the inputs `from` to its ends. Returns, for each
    /// chain, the exits, drops and other ends that the packets reach. `packets`, `unfollowed` and `orders`
    /// have one entry per chain. Packets that reach an element for which `unfollowed` is not `None` stop
    /// there.
    fn explore(
        &mut self,
        from: [&[Port]; 2],
        packets: [&PacketModel; 2],
        unfollowed: [&[Option<usize>]; 2],
        orders: [&TopologicalOrder; 2],
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

    /// Returns the differences between the two chains at exits, in packets that elements make and, if the
    /// options say so, in drop reasons.
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
            let mut observed: Vec<Field> = nodes.clone().flat_map(ChainNode::looks_at).collect();
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

    /// Pairs the groups of packets that elements of the first chain make with groups that elements of the
    /// second chain make. The element's class and arguments, the output and the emission have to be equal. A
    /// group without a counterpart is returned with `None` in the counterpart's place.
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
        // Elements with equal names are paired first. Otherwise, an element of another name could be paired
        // with the counterpart that has the equal name.
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

    /// Makes an example packet of each difference, of at most [`TRIES`] differences, and runs it in both
    /// chains, if the packets come from an entry. Returns `None` if there are no differences, "different" if
    /// a run confirms a difference, else "undecided" with a reason.
    fn try_out(
        &mut self,
        entry: [usize; 2],
        is_entry: bool,
        candidates: Vec<Candidate>,
    ) -> Option<Conclusion> {
        if candidates.is_empty() {
            return None;
        }
        let mut depends: Vec<String> = Vec::new();
        let mut tries = 0;
        let mut what = String::new();
        // Examples that depend on no uninterpreted function are run first, because their result is
        // predictable.
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
                return Some(Conclusion::Different(Difference::Packet { entry, example, what }));
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
        Some(Conclusion::Undecided { element, reason })
    }

    /// Adds a start for each packet that elements make in both chains, with arbitrary contents, unless the
    /// start exists already. Records the start `parent`, with the packets from which the element makes the
    /// new packet, among the parents of the new start.
    fn follow(&self, ends: &[Ends; 2], parent: usize, starts: &mut Vec<Start>) {
        for pair in self.pair_made(ends) {
            // A group without a counterpart has been reported as a difference.
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

    /// Adds a start for each packet that may leave a loop, with arbitrary contents. If different packets
    /// enter a loop in the two chains, or one input packet enters it twice, returns the name of an element of
    /// that loop. In this case, adds no starts for this loop and for loops with a higher number.
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
