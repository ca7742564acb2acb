//! All packets at once through a chain.

use std::collections::BTreeMap;

use element::effects::{Effects, Field, Header};
use element::{Base, DropReason};

use super::chain::{Chain, Port};
use super::diagrams::{Bit, Diagrams, Term};
use super::packet::{Packet, headers_of};
use super::step::{To, Unit, remembers};

/// Rounds through an element on a circle whose outcome depends on all that came there: what that was is not known while
/// packets go round, so that more of them tell nothing.
const MOST_UNKNOWN_ROUNDS: usize = 3;

/// Different packets at one place beyond which those that are laid out alike are joined.
const MOST_APART: usize = 24;

/// Packets of one layout at some place, and for which packets that came in they are there.
#[derive(Clone)]
pub struct Arrival {
    /// Which packets that came in.
    pub condition: Bit,
    /// What they have become.
    pub packet: Packet,
}

/// Where packets ended.
pub struct Dropped {
    /// The element.
    pub node: usize,
    /// Its reason.
    pub reason: DropReason,
    /// Whether nothing is known of these packets.
    pub lost: bool,
    /// Which packets that came in.
    pub condition: Bit,
}

/// Packets that an element made from those that came in.
pub struct Made {
    /// The element.
    pub node: usize,
    /// The output by which they leave.
    pub output: usize,
    /// What they are.
    pub name: &'static str,
    /// What is known of each of them: how they start.
    pub start: Packet,
    /// For which packets that came in, and what they are made from.
    pub arrival: Arrival,
}

/// What becomes of all packets that come in at one place.
#[derive(Default)]
pub struct Ends {
    /// By element: packets that leave the chain there.
    pub out: BTreeMap<usize, Vec<Arrival>>,
    /// Packets that end.
    pub dropped: Vec<Dropped>,
    /// Packets that elements make. They are not followed; whoever asks follows them from where they start.
    pub made: Vec<Made>,
    /// By element: what arrives there, as a number, where its state depends on that.
    pub streams: BTreeMap<usize, u32>,
    /// Packets that came round to the same place too often to be followed any further, by where they came to.
    pub round: BTreeMap<Port, Vec<Arrival>>,
    /// Queues that were taken as never full.
    pub queues: Vec<usize>,
    /// For which packets that came in each element sees one, by element and input.
    pub seen: BTreeMap<Port, Bit>,
}

/// The packets that an element makes and of which only the first header is known, as they start. What comes along may be
/// anything.
fn made(d: &Diagrams, starts: Option<Header>) -> Packet {
    Packet::incoming(d, headers_of(starts)).with_any_annotations(d)
}

/// What is taken for granted while packets are followed.
#[derive(Clone, Copy, Debug)]
pub struct Premises {
    /// Different for chains that are compared.
    pub salt: i64,
    /// Whether queues always have room.
    pub room: bool,
    /// How often packets are followed to the same element; on a circle they come again and again.
    pub rounds: usize,
}

/// Packets that wait at an element, by input.
pub type Waiting = BTreeMap<usize, Vec<Arrival>>;

/// Lets packets start at some inputs and follows them to their ends. `watch` sees what comes to each element.
pub fn explore(
    d: &Diagrams,
    chain: &Chain,
    starts: &[Port],
    packet: &Packet,
    premises: Premises,
    watch: &mut dyn FnMut(usize, &Waiting),
) -> Ends {
    let mut ends = Ends::default();
    let mut waiting: BTreeMap<(usize, usize), Waiting> = BTreeMap::new();
    let arrive = |waiting: &mut BTreeMap<_, Waiting>, (node, input): Port, arrival| {
        let at: &mut Waiting = waiting.entry((chain.rank(node), node)).or_default();
        join(d, at.entry(input).or_default(), arrival);
    };
    for &start in starts {
        arrive(&mut waiting, start, Arrival { condition: d.yes(), packet: packet.clone() });
    }
    let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
    let mut alike = std::collections::HashMap::new();
    while let Some(((_, node), inputs)) = waiting.pop_first() {
        let element = &chain.nodes[node];
        watch(node, &inputs);
        let round = rounds.entry(node).or_default();
        *round += 1;
        let knows = !remembers(&element.effects) && element.effects.opaque.is_none();
        let most = if knows { premises.rounds } else { premises.rounds.min(MOST_UNKNOWN_ROUNDS) };
        if element.is_on_circle && *round > most {
            for (input, arrivals) in inputs {
                ends.round.entry((node, input)).or_default().extend(arrivals);
            }
            continue;
        }
        for (&input, arrivals) in &inputs {
            let any = arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition));
            let seen = ends.seen.entry((node, input)).or_insert_with(|| d.no());
            *seen = d.or(seen, &any);
        }
        if chain.is_exit(node) {
            let out = ends.out.entry(node).or_default();
            for mut arrival in inputs.into_values().flatten() {
                if !sees_marks(&element.effects) {
                    arrival.packet.headers = [None; 3];
                }
                join(d, out, arrival);
            }
            continue;
        }
        let stream = stream(d, chain, node, &inputs, [premises.salt, *round as i64], &mut alike);
        if let Some(stream) = stream {
            ends.streams.insert(node, stream);
        }
        let arrivals = inputs
            .into_iter()
            .flat_map(|(input, arrivals)| arrivals.into_iter().map(move |arrival| (input, arrival)));
        for (place, (input, Arrival { condition, packet })) in arrivals.enumerate() {
            // Packets that come one behind the other do not share their fate, even if they are copies.
            let stream = stream.map_or(0, |stream| {
                let numbers = vec![stream.into(), place as i64];
                d.term(Term { name: "place in a stream".into(), numbers, bits: Vec::new() })
            });
            let unit = Unit { has_room: premises.room, ..Unit::of(element, stream, input) };
            let outcome = unit.step(d, &condition, &packet);
            if outcome.ignores_full_queues && !ends.queues.contains(&node) {
                ends.queues.push(node);
            }
            for leaving in outcome.leaving {
                let arrival = Arrival { condition: leaving.condition, packet: leaving.packet };
                match leaving.to {
                    To::Output(output) => {
                        for &to in &element.forward[output] {
                            arrive(&mut waiting, to, arrival.clone());
                        }
                    }
                    To::Out => join(d, ends.out.entry(node).or_default(), arrival),
                    To::Drop(reason) => {
                        let lost = arrival.packet.lost.is_some();
                        let same = |d: &&mut Dropped| (d.node, d.reason, d.lost) == (node, reason, lost);
                        match ends.dropped.iter_mut().find(same) {
                            Some(dropped) => dropped.condition = d.or(&dropped.condition, &arrival.condition),
                            None => ends.dropped.push(Dropped {
                                node,
                                reason,
                                lost,
                                condition: arrival.condition,
                            }),
                        }
                    }
                }
            }
            for derived in outcome.derived {
                let outputs = match derived.output {
                    Some(output) => output..output + 1,
                    None => 0..element.forward.len(),
                };
                for output in outputs {
                    let (condition, packet) = (derived.condition.clone(), derived.packet.clone());
                    let arrival = Arrival { condition, packet };
                    let (name, start) = (derived.name, made(d, derived.starts));
                    ends.made.push(Made { node, output, name, start, arrival });
                }
            }
        }
    }
    ends
}

/// Whether an exit looks at anything that depends on which headers were marked.
pub fn sees_marks(exit: &Effects) -> bool {
    let fields = exit.reads().into_iter().chain(exit.observes.iter().cloned());
    let marked = |base: Base| base != Base::Data;
    fields.into_iter().any(|field| match field {
        Field::Bytes { base, .. } | Field::HeaderOffset(base) => marked(base),
        _ => false,
    })
}

/// Adds packets to others at the same place. Equal packets become one, and others too where they are laid out alike and
/// there are many: bits that depend on which one it was make large diagrams of the conditions.
fn join(d: &Diagrams, arrivals: &mut Vec<Arrival>, new: Arrival) {
    let many = arrivals.len() >= MOST_APART;
    for arrival in arrivals.iter_mut() {
        // Two packets for one that came in stay two.
        if !many && arrival.packet != new.packet || d.overlap(&arrival.condition, &new.condition) {
            continue;
        }
        if let Some(packet) = Packet::merge(d, &arrival.condition, &arrival.packet, &new.packet) {
            *arrival = Arrival { condition: d.or(&arrival.condition, &new.condition), packet };
            return;
        }
    }
    arrivals.push(new);
}

/// What arrives at an element whose outcome depends on that, as a number.
fn stream(
    d: &Diagrams,
    chain: &Chain,
    node: usize,
    inputs: &Waiting,
    salt: [i64; 2],
    alike: &mut std::collections::HashMap<Term, i64>,
) -> Option<u32> {
    let element = &chain.nodes[node];
    let effects = &element.effects;
    let lost = inputs.values().flatten().any(|arrival| arrival.packet.lost.is_some());
    if effects.opaque.is_none() && !remembers(effects) && !lost {
        return None;
    }
    let mut term = Term { name: format!("stream to {}", element.function), ..Term::default() };
    if element.is_on_circle {
        // Not everything that will arrive is known yet, so it is like no other.
        term.numbers.extend(salt);
        term.numbers.push(node as i64);
    }
    // Which of two copies comes first depends on what is in front.
    let all: Vec<&Arrival> = inputs.values().flatten().collect();
    let copies = (1..all.len()).any(|n| all[..n].iter().any(|a| d.overlap(&a.condition, &all[n].condition)));
    if copies {
        term.numbers.push(chain.upstream(node));
    }
    for (&input, arrivals) in inputs {
        for arrival in arrivals {
            let digest = arrival.packet.digest(d);
            term.numbers.push(input as i64);
            term.numbers.extend(digest.numbers);
            term.bits.push(arrival.condition.clone());
            term.bits.extend(digest.bits);
        }
    }
    // Of several elements with equal streams the first one corresponds to the first one elsewhere.
    let number = alike.entry(term.clone()).or_insert(0);
    *number += 1;
    term.numbers.push(*number);
    Some(d.term(term))
}
