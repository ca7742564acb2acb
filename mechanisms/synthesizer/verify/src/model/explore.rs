//! The worklist algorithm: all packets at once through a chain.

use std::collections::BTreeMap;

use element::effects::{Effects, Field, Header};
use element::{Base, DropReason};

use super::branches::{Branch, BranchHistory, Turned};
use super::diagrams::{Bit, Diagrams, Term};
use super::packet::Packet;
use super::step::{To, Unit, remembers};
use super::streams::Streams;
use program::chain::{Chain, Order, Port};
use program::metadata::headers_of;

/// The number of visits to an element on a loop whose outcome depends on all earlier packets. Those packets
/// are unknown while packets are on the loop, so further visits give no information.
const MOST_UNKNOWN_ROUNDS: usize = 3;

/// The number of distinct packets at one input from which on packets of equal layout are merged, if the
/// merge loses nothing.
const MOST_APART: usize = 24;

/// The number of distinct packets at one input from which on packets of equal layout are merged although
/// the merge loses the history of their checksums. The loss depends on which packets meet first, so it may
/// differ between chains that do the same.
const MOST_KNOWN: usize = 200;

/// Packets of one layout at some input, with their path condition.
#[derive(Clone)]
pub struct Arrival {
    /// The condition on the input packets.
    pub condition: Bit,
    /// The packet, as a function of the input packet.
    pub packet: Packet,
    /// The branches taken where other packets from the same input packets took different branches.
    pub turns: BranchHistory,
}

/// The end of a path: packets that an element drops.
pub struct Dropped {
    /// The element.
    pub node: usize,
    /// The drop reason.
    pub reason: DropReason,
    /// True if nothing is known of these packets.
    pub lost: bool,
    /// The condition on the input packets.
    pub condition: Bit,
}

/// Packets that an element makes from input packets.
pub struct Made {
    /// The element.
    pub node: usize,
    /// The output by which the packets leave.
    pub output: usize,
    /// The name of the emission in the declaration.
    pub name: &'static str,
    /// The known part of each packet: its layout at the start.
    pub start: Packet,
    /// The condition on the input packets, and the function that makes the packets.
    pub arrival: Arrival,
}

/// The exit states of all packets that start at one input.
#[derive(Default)]
pub struct Ends {
    /// Packets that leave the chain, by element.
    pub out: BTreeMap<usize, Vec<Arrival>>,
    /// Packets that are dropped.
    pub dropped: Vec<Dropped>,
    /// Packets that elements make. They are not followed; the caller starts a new exploration for them.
    pub made: Vec<Made>,
    /// By stateful element: the number of the stream that arrives there, and the packets of the stream.
    pub streams: BTreeMap<usize, (u32, Vec<Turned>)>,
    /// Packets on a loop that exceeded the permitted number of visits, by the input where they stopped.
    pub round: BTreeMap<Port, Vec<Arrival>>,
    /// Packets that entered loops excluded from the exploration, by loop and element.
    pub loops: BTreeMap<usize, BTreeMap<usize, Waiting>>,
    /// Queues that were assumed never to be full.
    pub queues: Vec<usize>,
    /// The condition on the input packets for which an element receives a packet, by element and input.
    pub seen: BTreeMap<Port, Bit>,
}

/// Returns the packet that an element makes, if only its first header is known. Its annotations are
/// arbitrary.
pub fn made(d: &Diagrams, starts: Option<Header>) -> Packet {
    Packet::incoming(d, headers_of(starts)).with_any_annotations(d)
}

/// The assumptions of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Premises<'p> {
    /// A number that differs between chains that are compared.
    pub salt: i64,
    /// True if queues always have room.
    pub room: bool,
    /// The number of visits to one element; on a loop, packets arrive repeatedly.
    pub rounds: usize,
    /// The loop of each element, if packets are not to be followed on that loop.
    pub loops: &'p [Option<usize>],
    /// The order of the elements that are not on such loops.
    pub order: &'p Order,
}

/// Packets that wait at an element, by input.
pub type Waiting = BTreeMap<usize, Vec<Arrival>>;

/// Starts packets at some inputs and follows them to their ends. `watch` is called with the packets that
/// arrive at each element. `streams` has the streams of all chains that these packets start in.
pub fn explore(
    d: &Diagrams,
    chain: &Chain,
    starts: &[Port],
    packet: &Packet,
    premises: Premises<'_>,
    streams: &mut Streams,
    watch: &mut dyn FnMut(usize, &Waiting),
) -> Ends {
    let mut ends = Ends::default();
    let mut waiting: BTreeMap<(usize, usize), Waiting> = BTreeMap::new();
    let arrive = |waiting: &mut BTreeMap<_, Waiting>, (node, input): Port, arrival| {
        let at: &mut Waiting = waiting.entry((premises.order.rank(node), node)).or_default();
        join(d, at.entry(input).or_default(), arrival);
    };
    for (number, &start) in starts.iter().enumerate() {
        let turns = match starts.len() {
            1 => BranchHistory::default(),
            _ => BranchHistory::default().taken(usize::MAX, Branch::Connection(number)),
        };
        arrive(&mut waiting, start, Arrival { condition: d.yes(), packet: packet.clone(), turns });
    }
    let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
    // The index in `ends.dropped`, by element, reason, and whether the packets are unknown.
    let mut dropped: BTreeMap<(usize, DropReason, bool), usize> = BTreeMap::new();
    streams.begin();
    while let Some(((_, node), inputs)) = waiting.pop_first() {
        let element = &chain.nodes[node];
        watch(node, &inputs);
        if let Some(&Some(circle)) = premises.loops.get(node) {
            ends.loops.entry(circle).or_default().insert(node, inputs);
            continue;
        }
        let round = rounds.entry(node).or_default();
        *round += 1;
        let knows = !remembers(&element.effects) && element.effects.opaque.is_none();
        let most = if knows { premises.rounds } else { premises.rounds.min(MOST_UNKNOWN_ROUNDS) };
        if premises.order.is_round(node) && *round > most {
            for (input, arrivals) in inputs {
                ends.round.entry((node, input)).or_default().extend(arrivals);
            }
            continue;
        }
        for (&input, arrivals) in &inputs {
            let any = arrivals.iter().fold(d.no(), |any, arrival| d.or(&any, &arrival.condition));
            let seen = ends.seen.entry((node, element.through(input).0)).or_insert_with(|| d.no());
            *seen = d.or(seen, &any);
        }
        if chain.is_exit(node) {
            let out = ends.out.entry(node).or_default();
            for mut arrival in inputs.into_values().flatten() {
                for (mark, is_seen) in arrival.packet.headers.iter_mut().zip(seen_marks(&element.effects)) {
                    *mark = mark.filter(|_| is_seen);
                }
                arrival.turns = BranchHistory::default();
                join(d, out, arrival);
            }
            continue;
        }
        let stream = streams.number(d, chain, node, &inputs, [premises.salt, *round as i64]);
        if let Some((stream, _)) = stream {
            let (number, came) = ends.streams.entry(node).or_default();
            *number = stream;
            came.extend(inputs.values().flatten().map(|at| (at.condition.clone(), at.turns.clone())));
        }
        let copies = stream.is_some_and(|(_, copies)| copies);
        let arrivals = inputs
            .into_iter()
            .flat_map(|(input, arrivals)| arrivals.into_iter().map(move |arrival| (input, arrival)));
        for (place, (input, Arrival { condition, packet, turns })) in arrivals.enumerate() {
            // Copies arrive one after the other, and can have different fates.
            let place = if copies { place } else { 0 };
            let number = stream.map_or(0, |(stream, _)| {
                let numbers = vec![stream.into(), place as i64];
                d.term(Term { name: "place in a stream".into(), numbers, bits: Vec::new() })
            });
            let says_all = stream.is_some() && !copies;
            let (input, forward) = element.through(input);
            let unit = Unit::of(element, &streams.functions, number, input);
            let unit = Unit { has_room: premises.room, says_all, ..unit };
            let outcome = unit.step(d, &condition, &packet);
            if outcome.ignores_full_queues && !ends.queues.contains(&node) {
                ends.queues.push(node);
            }
            let leaving = unit.turn(d, node, &turns, outcome.leaving, &outcome.derived);
            for (to, arrival) in gather(d, leaving) {
                match to {
                    To::Output(output) => {
                        let ports = forward.get(output).map_or(&[][..], Vec::as_slice);
                        for (number, &to) in ports.iter().enumerate() {
                            let mut arrival = arrival.clone();
                            if ports.len() > 1 {
                                arrival.turns = arrival.turns.taken(node, Branch::Connection(number));
                            }
                            arrive(&mut waiting, to, arrival);
                        }
                    }
                    To::Out => join(d, ends.out.entry(node).or_default(), arrival),
                    To::Drop(reason) => {
                        let lost = arrival.packet.lost.is_some();
                        let number = *dropped.entry((node, reason, lost)).or_insert_with(|| {
                            ends.dropped.push(Dropped { node, reason, lost, condition: d.no() });
                            ends.dropped.len() - 1
                        });
                        let all = &mut ends.dropped[number].condition;
                        *all = d.or(all, &arrival.condition);
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
                    let turns = turns.taken(node, Branch::Made(derived.number));
                    let arrival = Arrival { condition, packet, turns };
                    let (name, start) = (derived.name, made(d, derived.starts));
                    ends.made.push(Made { node, output, name, start, arrival });
                }
            }
        }
    }
    ends
}

/// True for link, network and transport header if an exit looks at a field that depends on the header's
/// mark.
fn seen_marks(exit: &Effects) -> [bool; 3] {
    let fields = exit.reads().into_iter().chain(exit.observes.iter().cloned());
    let bases: Vec<Base> = fields
        .filter_map(|field| match field {
            Field::Bytes { base, .. } | Field::HeaderOffset(base) => Some(base),
            _ => None,
        })
        .collect();
    [Base::Mac, Base::Network, Base::Transport].map(|base| bases.contains(&base))
}

/// Adds packets to the others at the same input. Equal packets are merged. If there are many, packets of
/// equal layout are merged too, although bits that depend on which of the packets it was enlarge the
/// diagrams of conditions.
fn join(d: &Diagrams, arrivals: &mut Vec<Arrival>, new: Arrival) {
    join_as(d, arrivals, new, Joined::among(arrivals.len()));
}

/// The criterion by which packets at one input are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    /// Only equal packets.
    Equal,
    /// Packets of equal layout, if the merge loses nothing.
    Alike,
    /// All packets of equal layout.
    All,
}

impl Joined {
    /// Returns the criterion for this number of packets.
    fn among(packets: usize) -> Joined {
        match packets {
            0..MOST_APART => Joined::Equal,
            MOST_APART..MOST_KNOWN => Joined::Alike,
            _ => Joined::All,
        }
    }
}

/// Groups the packets that leave an element by destination. Many packets for one destination (a route table
/// has one for each gateway) are merged by recursive halving: merged one by one, each packet would be
/// compared with all merged before.
fn gather(d: &Diagrams, leaving: Vec<(To, Arrival)>) -> Vec<(To, Arrival)> {
    let mut places: Vec<(To, Vec<Arrival>)> = Vec::new();
    let mut numbers: BTreeMap<To, usize> = BTreeMap::new();
    for (to, arrival) in leaving {
        let number = *numbers.entry(to).or_insert_with(|| {
            places.push((to, Vec::new()));
            places.len() - 1
        });
        places[number].1.push(arrival);
    }
    let merged = places.into_iter().flat_map(|(to, arrivals)| {
        let merges = arrivals.len() > MOST_APART && !matches!(to, To::Drop(_));
        let arrivals = if merges { halves(d, arrivals, Joined::Alike) } else { arrivals };
        let merges = merges && arrivals.len() > MOST_KNOWN;
        let arrivals = if merges { halves(d, arrivals, Joined::All) } else { arrivals };
        arrivals.into_iter().map(move |arrival| (to, arrival))
    });
    merged.collect()
}

fn halves(d: &Diagrams, mut arrivals: Vec<Arrival>, joined: Joined) -> Vec<Arrival> {
    if arrivals.len() < 2 {
        return arrivals;
    }
    let second = arrivals.split_off(arrivals.len() / 2);
    let mut all = halves(d, arrivals, joined);
    halves(d, second, joined).into_iter().for_each(|arrival| join_as(d, &mut all, arrival, joined));
    all
}

fn join_as(d: &Diagrams, arrivals: &mut Vec<Arrival>, new: Arrival, joined: Joined) {
    let releases = joined == Joined::All;
    for arrival in arrivals.iter_mut() {
        // Two packets from one input packet stay two.
        let stays = joined == Joined::Equal && arrival.packet != new.packet || arrival.turns != new.turns;
        if stays || d.overlap(&arrival.condition, &new.condition) {
            continue;
        }
        let conditions = [&arrival.condition, &new.condition];
        if let Some(packet) = Packet::merge(d, conditions, &arrival.packet, &new.packet, releases) {
            let condition = d.or(&arrival.condition, &new.condition);
            *arrival = Arrival { condition, packet, turns: new.turns };
            return;
        }
    }
    arrivals.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::word::{Word, bits_in};

    #[test]
    fn many_packets_for_one_place_become_one() {
        let d = Diagrams::new(1 << 20);
        let place = d.input(0);
        // Each value of the first byte has a packet with contents of its own; two of them go elsewhere.
        let leaving = |to: fn(u8) -> To| -> Vec<(To, Arrival)> {
            let one = |value: u8| {
                let condition = bits_in(&d, &place, &classify::IntervalSet::one(value.into(), value.into()));
                let packet = Packet::known(&d, &[value ^ 0x5a; 20], [None; 3], &[]);
                (to(value), Arrival { condition, packet, turns: BranchHistory::default() })
            };
            (0..60).map(one).collect()
        };
        let gathered = gather(&d, leaving(|value| To::Output(usize::from(value % 30 == 7))));
        let places: Vec<To> = gathered.iter().map(|(to, _)| *to).collect();
        // Two packets are too few to be merged.
        assert_eq!(places, [To::Output(0), To::Output(1), To::Output(1)]);
        let (_, all) = &gathered[0];
        for value in (0..60u8).filter(|value| value % 30 != 7) {
            let is = bits_in(&d, &place, &classify::IntervalSet::one(value.into(), value.into()));
            assert!(d.is_never(&d.and_not(&is, &all.condition)), "{value}");
            let byte = Word::from_bits(&d, &all.packet.byte(&d, 5));
            let values = byte.values(&d, &is, 4).unwrap();
            assert_eq!(values.iter().map(|(byte, _)| *byte).collect::<Vec<_>>(), [i64::from(value ^ 0x5a)]);
        }
        // Dropped packets are not merged: what they hold is not compared.
        assert_eq!(gather(&d, leaving(|_| To::Drop(DropReason::NoRoute))).len(), 60);
    }
}
