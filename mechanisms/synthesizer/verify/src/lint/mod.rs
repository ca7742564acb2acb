//! The lint: findings about one chain, without running it. It reports where packets end, which elements and
//! rules no packet ever reaches, and which parts can be composed into a program.
//!
//! All findings follow from the model ([`crate::model`]). Symbolic execution covers every packet, so what
//! happens on no path never happens. An entry may emit any packet, whatever its arguments say. The effect
//! of an opaque element is unknown, so anything may happen downstream of it.

pub mod regions;
pub mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use element::{Base, DropReason};

use crate::example::Example;
use crate::model::arrival::Waiting;
use crate::model::diagrams::{Bit, Diagrams, Term};
use crate::model::explore::{Ends, Premises, explore};
use crate::model::offsets::{ETHERNET, in_byte_region};
use crate::model::order::order_variables;
use crate::model::packet::{PacketModel, incoming};
use crate::model::streams::Streams;
use program::chain::{Chain, Port};
use rules::{IdleRule, Usage};

/// The maximum number of visits to an element on a loop. Packets that arrive there more often are followed
/// from the element on with arbitrary contents.
const MOST_ROUNDS: usize = 3;

/// The maximum number of diagram nodes for the second analysis, which forks for each header offset. Most
/// chains need far fewer nodes. For some chains no number suffices, and their analysis should fail soon.
const EXACT_NODES: usize = 1 << 19;

/// The findings about one chain. Elements are given by their numbers in the chain.
#[derive(Debug, Default)]
pub struct Findings {
    /// For each entry that was analyzed completely: the ends of its packets.
    pub entries: Vec<EntryFates>,
    /// Elements with at least one input that no packet ever reaches, in the order in which packets would pass
    /// them.
    pub unreached: Vec<usize>,
    /// Rules that never decide about a packet, because earlier rules take all packets that match them, or
    /// none matches.
    pub idle: Vec<IdleRule>,
    /// Elements on loops at which packets arrived more often than they are followed. Downstream of them,
    /// any packet is assumed to be possible.
    pub round: BTreeSet<usize>,
    /// For each element that packets reach, the possible starts of these packets, as distances in bytes from
    /// their IP header to their first byte; negative if the packet starts before the header (-14 for an
    /// Ethernet header).
    pub starts: BTreeMap<usize, BTreeSet<i32>>,
    /// True if the first analysis ran out of memory or time. Then `entries` has the entries that were
    /// analyzed completely, `unknown` the others, and all other findings are empty.
    pub exhausted: bool,
    /// The entries whose packets were not all analyzed.
    pub unknown: Vec<usize>,
    /// The number of steps of diagram operations: the cost of the analysis, which does not depend on the
    /// machine.
    pub steps: u64,
}

/// The possible ends of the packets from one entry.
#[derive(Debug)]
pub struct EntryFates {
    /// The number of the element that the packets come from.
    pub node: usize,
    /// The possible ends: exits of the chain first, then drops, each in the order in which packets pass the
    /// elements.
    pub fates: Vec<Fate>,
    /// Opaque elements that packets reach. Nothing is known of packets that leave them, so the ends of these
    /// packets are not in `fates`.
    pub opaque: Vec<usize>,
    /// Elements on loops at which packets arrived more often than the analysis follows them (`MOST_ROUNDS`).
    /// The ends of these packets are not in `fates`.
    pub round: Vec<usize>,
}

/// A possible end of packets whose contents are known.
#[derive(Debug)]
pub struct Fate {
    /// The number of the element at which the packets end.
    pub node: usize,
    /// The drop reason; `None` if packets leave the chain at this element.
    pub reason: Option<DropReason>,
    /// A packet that ends in this way; `None` if none could be made. A packet that leaves the chain may have
    /// copies that are dropped. Of a dropped packet, no copy is known to leave.
    pub example: Option<Example>,
}

/// Analyzes a chain. The analysis stops at `deadline`, and uses at most `nodes` diagram nodes; `None` means
/// no limit of time, or as many nodes as the diagrams can have. Calls `progress` with the name of each
/// element before it is processed.
pub fn check(
    chain: &Chain,
    deadline: Option<Instant>,
    nodes: Option<usize>,
    progress: &mut dyn FnMut(&str),
) -> Findings {
    let d = nodes.map_or_else(Diagrams::default, Diagrams::new).until(deadline);
    let findings = look(&d, chain, progress);
    let steps = d.steps();
    if !d.overlap_found() || d.exhausted() {
        return Findings { steps, ..findings };
    }
    // The approximation by byte regions was not precise enough. The second analysis forks for each header
    // offset.
    drop(d);
    let d = Diagrams::new(EXACT_NODES.min(nodes.unwrap_or(EXACT_NODES))).until(deadline).exact();
    let exact = look(&d, chain, progress);
    let steps = steps + d.steps();
    match exact.exhausted {
        false => Findings { steps, ..exact },
        // The second analysis failed, so claims that something never happens are removed: the first analysis
        // was not precise enough for them, and no run can check them. Findings with example packets are kept,
        // because a run can check them.
        true => Findings { unreached: Vec::new(), idle: Vec::new(), steps, ..findings },
    }
}

/// Notes about single elements, taken each time when packets arrive there: the use of the element's rules,
/// and the starts of packets.
#[derive(Default)]
struct Notes {
    usage: BTreeMap<usize, Usage>,
    starts: BTreeMap<usize, BTreeSet<i32>>,
}

/// Returns the distance in bytes from the IP header to the packet's start. If no IP header is marked, it is
/// assumed at the usual offset in an Ethernet frame. `None` if an offset is not a known number.
fn start_of(packet: &PacketModel) -> Option<i32> {
    let network = packet.place(Base::Network).unwrap_or(ETHERNET);
    (!in_byte_region(packet.start) && !in_byte_region(network)).then_some(packet.start - network)
}

/// A packet and the inputs at which it starts.
struct Start {
    ports: Vec<Port>,
    packet: PacketModel,
}

fn look(d: &Diagrams, chain: &Chain, progress: &mut dyn FnMut(&str)) -> Findings {
    order_variables(d, &[chain]);
    let mut findings = Findings::default();
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut notes = Notes::default();
    let mut made: Vec<Start> = Vec::new();
    let mut entries = chain.entries().into_iter();
    for node in entries.by_ref() {
        let mut fates = Fates::new(d);
        for output in 0..chain.nodes[node].forward.len() {
            let packet = incoming(d, &chain.nodes[node].effects);
            let start = Start { ports: chain.nodes[node].forward[output].clone(), packet };
            let ends = run(d, chain, &start, &mut notes, progress);
            note(d, chain, &mut findings, &mut seen, &mut made, &ends);
            fates.add(&ends);
        }
        let entry = fates.entry(node, chain);
        if d.exhausted() {
            findings.unknown.push(node);
            break;
        }
        findings.entries.push(entry);
    }
    findings.unknown.extend(entries);
    // Packets that elements make are followed from the output by which they leave. Packets that come round on
    // a loop too often are followed from the element at which they arrive. In both cases, the packets are
    // assumed to have arbitrary contents.
    let mut next = 0;
    while next < made.len() {
        let ends = run(d, chain, &made[next], &mut notes, progress);
        note(d, chain, &mut findings, &mut seen, &mut made, &ends);
        next += 1;
    }
    if d.exhausted() {
        let Findings { entries, unknown, .. } = findings;
        return Findings { entries, unknown, exhausted: true, ..Findings::default() };
    }
    let has_inputs = |&node: &usize| chain.nodes[node].inputs > 0;
    findings.unreached =
        (0..chain.nodes.len()).filter(|node| !seen.contains(node)).filter(has_inputs).collect();
    findings.unreached.sort_by_key(|&node| chain.rank(node));
    findings.starts = notes.starts;
    for (node, usage) in notes.usage {
        findings.idle.extend(usage.idle(node, &chain.nodes[node].effects));
    }
    if chain.has_scripts() {
        // A script may write handlers, and so change switches and rules. Then no element is certain to be
        // unreached. A rule is certain to be idle only if other rules cover it and no script writes to its
        // element.
        findings.unreached.clear();
        findings.idle.retain(|rule| !rule.covered_by.is_empty() && !chain.is_written_to(rule.node));
    }
    findings
}

fn run(
    d: &Diagrams,
    chain: &Chain,
    start: &Start,
    notes: &mut Notes,
    progress: &mut dyn FnMut(&str),
) -> Ends {
    let mut watch = |node: usize, waiting: &Waiting| {
        let element = &chain.nodes[node];
        progress(&element.name);
        let known = waiting.values().flatten().map(|arrival| &arrival.packet).filter(|p| p.lost.is_none());
        // A packet that was shorter than the bytes that a Strip removes is empty; its start is not used,
        // because it does not show where usual packets start.
        let whole = known.filter(|packet| packet.length(d).known(d) != Some(0));
        notes.starts.entry(node).or_default().extend(whole.filter_map(start_of));
        if element.effects.cases.iter().any(|case| case.written.is_some()) {
            let usage = notes.usage.entry(node).or_insert_with(|| Usage::new(&element.effects));
            usage.see(d, element, waiting);
        }
    };
    let premises = Premises { salt: 1, room: false, rounds: MOST_ROUNDS, loops: &[], order: chain.order() };
    explore(d, chain, &start.ports, &start.packet, premises, &mut Streams::default(), &mut watch)
}

fn note(
    d: &Diagrams,
    chain: &Chain,
    findings: &mut Findings,
    seen: &mut BTreeSet<usize>,
    starts: &mut Vec<Start>,
    ends: &Ends,
) {
    findings.round.extend(ends.round.keys().map(|&(node, _)| node));
    seen.extend(ends.seen.keys().map(|&(node, _)| node));
    let mut start = |ports: &[Port], packet: PacketModel| {
        if !starts.iter().any(|start| start.ports == ports && start.packet == packet) {
            starts.push(Start { ports: ports.to_vec(), packet });
        }
    };
    for made in &ends.made {
        start(&chain.nodes[made.node].forward[made.output], made.start.clone());
    }
    for (&port, arrivals) in &ends.round {
        for arrival in arrivals {
            start(&[port], arrival.packet.any_like(d).unwrap_or_else(|| lost(d)));
        }
    }
}

/// Returns a packet of which nothing is known, not even its start.
fn lost(d: &Diagrams) -> PacketModel {
    PacketModel::lost(d, d.term(Term { name: "whatever comes round".into(), ..Term::default() }))
}

fn is_opaque(chain: &Chain, node: usize) -> bool {
    chain.nodes[node].effects.opaque.is_some() && !chain.is_exit(node)
}

/// The ends of one entry's packets, collected over its outputs.
struct Fates<'d> {
    d: &'d Diagrams,
    out: BTreeMap<usize, Bit>,
    dropped: BTreeMap<(usize, DropReason), Bit>,
    seen: BTreeSet<usize>,
    /// The condition on the input packets for which a packet stays on a loop, so that its end is not known.
    round: Bit,
    rounds: BTreeSet<usize>,
}

impl<'d> Fates<'d> {
    fn new(d: &'d Diagrams) -> Fates<'d> {
        Fates {
            d,
            out: BTreeMap::new(),
            dropped: BTreeMap::new(),
            seen: BTreeSet::new(),
            round: d.no(),
            rounds: BTreeSet::new(),
        }
    }

    fn add(&mut self, ends: &Ends) {
        let d = self.d;
        self.seen.extend(ends.seen.keys().map(|&(node, _)| node));
        for (&node, arrivals) in &ends.out {
            let arrivals = arrivals.iter().filter(|a| a.packet.lost.is_none());
            let condition = self.out.entry(node).or_insert_with(|| d.no());
            *condition = arrivals.fold(condition.clone(), |any, a| d.or(&any, &a.condition));
        }
        for dropped in ends.dropped.iter().filter(|dropped| !dropped.lost) {
            let condition = self.dropped.entry((dropped.node, dropped.reason)).or_insert_with(|| d.no());
            *condition = d.or(condition, &dropped.condition);
        }
        self.rounds.extend(ends.round.keys().map(|&(node, _)| node));
        let round = ends.round.values().flatten();
        self.round = round.fold(self.round.clone(), |any, arrival| d.or(&any, &arrival.condition));
    }

    fn entry(self, node: usize, chain: &Chain) -> EntryFates {
        let d = self.d;
        let leaves = self.out.values().fold(self.round, |any, condition| d.or(&any, condition));
        let mut fates = Vec::new();
        for (node, condition) in self.out {
            if !d.is_never(&condition) {
                fates.push(Fate { node, reason: None, example: Example::find(d, &condition) });
            }
        }
        for ((node, reason), condition) in self.dropped {
            let ends = d.and_not(&condition, &leaves);
            if !d.is_never(&ends) {
                fates.push(Fate { node, reason: Some(reason), example: Example::find(d, &ends) });
            }
        }
        fates.sort_by_key(|fate| (fate.reason.is_some(), chain.rank(fate.node)));
        let mut opaque: Vec<usize> = self.seen.into_iter().filter(|&n| is_opaque(chain, n)).collect();
        opaque.sort_by_key(|&node| chain.rank(node));
        EntryFates { node, fates, opaque, round: self.rounds.into_iter().collect() }
    }
}
