//! The worklist algorithm of symbolic execution: follows one symbolic packet, which represents all packets,
//! from some inputs through a chain to its ends.
//!
//! Packets wait at elements, and the element that is first in the chain's order is processed next, with all
//! packets that have arrived at it. Its transfer function ([`Unit::step`]) gives the packets that leave.
//! Equal packets that meet at one input are merged. If there are many, different packets of equal layout are
//! merged, too, and each bit becomes a larger function (`MOST_APART`, `MOST_KNOWN`).

use std::collections::BTreeMap;

use element::effects::{Effects, Field, HeaderKind};
use element::{Base, DropReason};

use super::arrival::{Arrival, Waiting};
use super::branches::{Branch, BranchHistory, WithHistory};
use super::diagrams::{Bit, Diagrams, Term};
use super::packet::PacketModel;
use super::step::{To, Unit, remembers};
use super::streams::Streams;
use program::chain::{Chain, Port, TopologicalOrder};
use program::metadata::headers_of;

/// The maximum number of visits to an element on a loop if its outcome depends on all earlier packets. While
/// packets are on the loop, the earlier packets are not known completely, so more visits would give no
/// information.
const MOST_UNKNOWN_ROUNDS: usize = 3;

/// The number of waiting packets at one input from which on packets of equal layout are merged. Each bit of
/// the merged packet depends on the input packet. Up to [`MOST_KNOWN`] waiting packets, a merge is made only
/// if the histories of checksums are kept.
const MOST_APART: usize = 24;

/// The number of waiting packets at one input from which on packets of equal layout are merged even if the
/// history of their checksums is lost. Which history is lost depends on the packets that meet first, so two
/// chains that do the same may then seem to differ.
const MOST_KNOWN: usize = 200;

/// Packets that an element drops for the same reason.
pub struct Dropped {
    /// The number of the element that drops the packets.
    pub node: usize,
    /// The drop reason.
    pub reason: DropReason,
    /// True if the contents of these packets are unknown, for example because they passed an opaque element.
    pub lost: bool,
    /// The condition on the input packets for which the element drops a packet for this reason.
    pub condition: Bit,
}

/// Packets that an element makes from other packets by one declared emission, and that leave by one output.
pub struct Made {
    /// The number of the element that makes the packets.
    pub node: usize,
    /// The output by which the packets leave.
    pub output: usize,
    /// The name of the emission in the element's declaration.
    pub name: &'static str,
    /// The packet from which a new exploration starts: the layout is known, the contents are arbitrary.
    pub start: PacketModel,
    /// The condition on the input packets for which such a packet is made, and the packet: its contents are
    /// the value of the uninterpreted function that makes it. Comparisons of two chains use this packet, not
    /// `start`.
    pub arrival: Arrival,
}

/// The ends of all packets of one exploration: exits, drops, and places where packets are not followed
/// further.
#[derive(Default)]
pub struct Ends {
    /// For each exit of the chain, by number of the element: the packets that arrive there.
    pub out: BTreeMap<usize, Vec<Arrival>>,
    /// The dropped packets, with one entry for each element and reason (and separately for unknown
    /// packets).
    pub dropped: Vec<Dropped>,
    /// The packets that elements make. This exploration does not follow them; the caller may start another
    /// one for them.
    pub made: Vec<Made>,
    /// For each element whose outcome depends on more than the packet: the number of the stream that
    /// arrives there ([`Streams`]), and the conditions and branch histories of its packets.
    pub streams: BTreeMap<usize, (u32, Vec<WithHistory>)>,
    /// For each input on a loop: the packets that arrived there after the permitted number of visits, and
    /// were not followed further.
    pub round: BTreeMap<Port, Vec<Arrival>>,
    /// For each loop on which packets are not followed, by the number of the loop: the packets that entered
    /// it, by the number of the element at which they entered.
    pub loops: BTreeMap<usize, BTreeMap<usize, Waiting>>,
    /// The queues that were assumed never to be full.
    pub queues: Vec<usize>,
    /// For each element and input, as far as packets are followed: the input packets from which a packet
    /// arrives there.
    pub seen: BTreeMap<Port, Bit>,
}

/// Returns an arbitrary packet that starts with the header `starts`, as an element may make it: any
/// contents, any annotations.
pub fn made(d: &Diagrams, starts: Option<HeaderKind>) -> PacketModel {
    PacketModel::incoming(d, headers_of(starts)).with_any_annotations(d)
}

/// The assumptions and limits of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Premises<'p> {
    /// A number that differs between the compared chains. It keeps streams apart that are not proven equal.
    pub salt: i64,
    /// True to assume that queues are never full.
    pub room: bool,
    /// The maximum number of visits to an element on a loop; fewer if its outcome depends on earlier packets
    /// (`MOST_UNKNOWN_ROUNDS`). Packets that arrive later go to [`Ends::round`].
    pub rounds: usize,
    /// For each element: the number of its loop, if packets are not to be followed on that loop. Empty if
    /// all packets are followed.
    pub loops: &'p [Option<usize>],
    /// The order in which elements with waiting packets are processed. Its loops are those on which packets
    /// are followed.
    pub order: &'p TopologicalOrder,
}

/// Follows `packet`, which starts at each of the inputs `starts`, through the chain to its ends. Calls
/// `watch` for each visit to an element, with its number and the packets that wait there. `streams` is
/// shared by the explorations of all compared chains for this packet, so that equal streams get equal
/// numbers in all of them.
pub fn explore(
    d: &Diagrams,
    chain: &Chain,
    starts: &[Port],
    packet: &PacketModel,
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
        let history = match starts.len() {
            1 => BranchHistory::default(),
            _ => BranchHistory::default().taken(usize::MAX, Branch::Connection(number)),
        };
        arrive(&mut waiting, start, Arrival { condition: d.yes(), packet: packet.clone(), history });
    }
    let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
    // The index in `ends.dropped` for each element, reason, and knowledge of the contents (true if
    // unknown).
    let mut dropped: BTreeMap<(usize, DropReason, bool), usize> = BTreeMap::new();
    streams.begin();
    while let Some(((_, node), inputs)) = waiting.pop_first() {
        let element = &chain.nodes[node];
        watch(node, &inputs);
        if let Some(&Some(loop_id)) = premises.loops.get(node) {
            ends.loops.entry(loop_id).or_default().insert(node, inputs);
            continue;
        }
        let round = rounds.entry(node).or_default();
        *round += 1;
        let knows = !remembers(&element.effects) && element.effects.opaque.is_none();
        let most = if knows { premises.rounds } else { premises.rounds.min(MOST_UNKNOWN_ROUNDS) };
        if premises.order.is_on_loop(node) && *round > most {
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
                arrival.history = BranchHistory::default();
                join(d, out, arrival);
            }
            continue;
        }
        let stream = streams.number(d, chain, node, &inputs, [premises.salt, *round as i64]);
        if let Some((stream, _)) = stream {
            let (number, came) = ends.streams.entry(node).or_default();
            *number = stream;
            came.extend(inputs.values().flatten().map(|at| (at.condition.clone(), at.history.clone())));
        }
        let copies = stream.is_some_and(|(_, copies)| copies);
        let arrivals = inputs
            .into_iter()
            .flat_map(|(input, arrivals)| arrivals.into_iter().map(move |arrival| (input, arrival)));
        for (place, (input, Arrival { condition, packet, history })) in arrivals.enumerate() {
            // Copies of one input packet arrive one after the other, so the result of a stateful element may
            // be different for each copy. So each gets a number of its own.
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
            let leaving = unit.with_branches(d, node, &history, outcome.leaving, &outcome.derived);
            for (to, arrival) in gather(d, leaving) {
                match to {
                    To::Output(output) => {
                        let ports = forward.get(output).map_or(&[][..], Vec::as_slice);
                        for (number, &to) in ports.iter().enumerate() {
                            let mut arrival = arrival.clone();
                            if ports.len() > 1 {
                                arrival.history = arrival.history.taken(node, Branch::Connection(number));
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
                    let history = history.taken(node, Branch::Made(derived.number));
                    let arrival = Arrival { condition, packet, history };
                    let (name, start) = (derived.name, made(d, derived.starts));
                    ends.made.push(Made { node, output, name, start, arrival });
                }
            }
        }
    }
    ends
}

/// Returns, for the link, network and transport header, true if the exit reads a field whose offset depends
/// on the mark of that header. Marks of other headers are removed from packets that arrive at the exit.
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

/// Adds packets to those that wait at one input. Equal packets are merged; if many packets wait, packets of
/// equal layout are merged, too. Packets with different branch histories are not merged, nor are two packets
/// that may come from one input packet. A merge of different packets makes the diagrams larger, because each
/// bit then depends on which of the packets it belongs to.
fn join(d: &Diagrams, arrivals: &mut Vec<Arrival>, new: Arrival) {
    join_as(d, arrivals, new, Joined::among(arrivals.len()));
}

/// The criterion by which packets that wait at one input are merged, depending on their number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    /// Only equal packets are merged.
    Equal,
    /// Packets of equal layout are merged if no knowledge of their checksums is lost.
    Alike,
    /// All symbolic packets of equal layout are merged, even if knowledge of their checksums is lost.
    All,
}

impl Joined {
    /// Returns the criterion for an input at which this number of distinct packets wait.
    fn among(packets: usize) -> Joined {
        match packets {
            0..MOST_APART => Joined::Equal,
            MOST_APART..MOST_KNOWN => Joined::Alike,
            _ => Joined::All,
        }
    }
}

/// Groups the packets that leave an element by destination. If there are many for one destination (a route
/// table has one per gateway), they are merged by recursive halving; dropped packets are not merged. If they
/// were merged one by one, each packet would be compared with all packets that were merged before it.
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
        // Packets with different histories are not merged, nor are two packets that may come from one input
        // packet.
        let stays = joined == Joined::Equal && arrival.packet != new.packet || arrival.history != new.history;
        if stays || d.overlap(&arrival.condition, &new.condition) {
            continue;
        }
        let conditions = [&arrival.condition, &new.condition];
        if let Some(packet) = PacketModel::merge(d, conditions, &arrival.packet, &new.packet, releases) {
            let condition = d.or(&arrival.condition, &new.condition);
            *arrival = Arrival { condition, packet, history: new.history };
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
        // Sixty packets, one for each value of the first byte, with different contents. Two of them go to
        // another destination.
        let leaving = |to: fn(u8) -> To| -> Vec<(To, Arrival)> {
            let one = |value: u8| {
                let condition = bits_in(&d, &place, &classify::IntervalSet::one(value.into(), value.into()));
                let packet = PacketModel::known(&d, &[value ^ 0x5a; 20], [None; 3], &[]);
                (to(value), Arrival { condition, packet, history: BranchHistory::default() })
            };
            (0..60).map(one).collect()
        };
        let gathered = gather(&d, leaving(|value| To::Output(usize::from(value % 30 == 7))));
        let places: Vec<To> = gathered.iter().map(|(to, _)| *to).collect();
        // The two packets for output 1 are too few to be merged.
        assert_eq!(places, [To::Output(0), To::Output(1), To::Output(1)]);
        let (_, all) = &gathered[0];
        for value in (0..60u8).filter(|value| value % 30 != 7) {
            let is = bits_in(&d, &place, &classify::IntervalSet::one(value.into(), value.into()));
            assert!(d.is_never(&d.and_not(&is, &all.condition)), "{value}");
            let byte = Word::from_bits(&d, &all.packet.byte(&d, 5));
            let values = byte.values(&d, &is, 4).unwrap();
            assert_eq!(values.iter().map(|(byte, _)| *byte).collect::<Vec<_>>(), [i64::from(value ^ 0x5a)]);
        }
        // Dropped packets are not merged, because their contents are not compared: all sixty remain.
        assert_eq!(gather(&d, leaving(|_| To::Drop(DropReason::NoRoute))).len(), 60);
    }
}
