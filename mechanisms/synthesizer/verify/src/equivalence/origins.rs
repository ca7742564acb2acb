//! The order in which several packets that come from one input packet reach a stateful element. The order
//! has to be equal in both of two chains.
//!
//! A packet and an ICMP error about it, or two errors, have different starts, so each is followed separately.
//! The result of a stateful element may depend on the order in which they arrive. The order is equal in both
//! chains if the packets separate at the same element by the same branches, or if all elements upstream are
//! equal. The order also matters where elements use the state of another element (ICMPRewriter uses the state
//! of rewriters), and where one of the packets has been on a loop.

use std::collections::{BTreeMap, BTreeSet};

use element::effects::Effects;

use super::loops::Loops;
use super::{Group, Origin, Start};
use crate::model::branches::{BranchHistory, BranchOrder, WithHistory};
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::step::remembers;
use crate::model::streams::come_twice;
use program::chain::Chain;

/// The maximum number of derivations of packets that are distinguished at one stateful element.
const MOST_WAYS: usize = 256;

/// The packets that are followed from one start (an output from which a packet is followed) and arrive at one
/// stateful element.
pub(super) struct Came {
    /// The index, in the comparison's list of starts, of the start from which the packets are followed.
    pub(super) start: usize,
    /// The number of the packet stream that these packets are
    /// ([`Streams`](crate::model::streams::Streams)): equal numbers mean equal packets.
    pub(super) stream: u32,
    /// For each path to the element: the condition on the start's packets, and the branch history.
    pub(super) packets: Vec<WithHistory>,
}

/// The packets of one start, of which an element made the packets of another start. A start is an output from
/// which a packet is followed.
pub(super) struct Parent {
    /// The index, in the comparison's list of starts, of the start of the original packets.
    start: usize,
    /// For each chain, for each path to the element that makes the packets: the condition on the original
    /// packets, and their branch history.
    packets: [Vec<WithHistory>; 2],
    /// True if the element may make several packets of one original packet.
    several: bool,
}

impl Parent {
    /// Records that the packets `made`, in each chain, were made of packets of the start with index
    /// `start`: adds a parent, or extends the parent of that start.
    pub(super) fn add(d: &Diagrams, parents: &mut Vec<Parent>, start: usize, made: [&Group<'_>; 2]) {
        let several = made.iter().any(|group| come_twice(d, group.iter().map(|made| &made.arrival)));
        let packets = made.map(|group| {
            let arrivals = group.iter().map(|made| &made.arrival);
            arrivals.map(|arrival| (arrival.condition.clone(), arrival.history.clone())).collect::<Vec<_>>()
        });
        match parents.iter_mut().find(|parent| parent.start == start) {
            Some(parent) => {
                let meet = |all: &[WithHistory], more: &[WithHistory]| {
                    all.iter().any(|(one, _)| more.iter().any(|(other, _)| d.overlap(one, other)))
                };
                parent.several |= several || (0..2).any(|n| meet(&parent.packets[n], &packets[n]));
                parent.packets.iter_mut().zip(packets).for_each(|(all, more)| all.extend(more));
            }
            None => parents.push(Parent { start, packets, several }),
        }
    }
}

/// A derivation of packets: the starts that lead to an element, from the last start (its packets arrive at
/// the element) back to an entry or a loop. The packets of each start were made of packets of the next one in
/// the list. Each start is given by its index, with the condition and branch history of its packets.
type Derivation<'w> = Vec<(usize, &'w [WithHistory])>;

/// A stateful element of one chain, with the derivations of all packets that arrive there.
struct Place<'p> {
    chain: &'p Chain,
    number: usize,
    node: usize,
    came: &'p [Came],
    ways: Vec<Derivation<'p>>,
    /// True if several packets with one derivation may come from one packet. Also true if a derivation
    /// contains a start twice, or if there are more than [`MOST_WAYS`] derivations. The order of packets is
    /// then unknown.
    several: bool,
}

impl<'p> Place<'p> {
    fn new(chain: &'p Chain, number: usize, node: usize, came: &'p [Came], starts: &'p [Start]) -> Place<'p> {
        let mut place = Place { chain, number, node, came, ways: Vec::new(), several: false };
        came.iter().for_each(|came| place.add(starts, Vec::new(), came.start, &came.packets));
        place
    }

    /// Extends the derivation `way` by the start with index `start`, and continues with the start's parents,
    /// back to starts without parents. Sets `several` if a derivation would contain a start twice, or if
    /// there are too many derivations.
    fn add(
        &mut self,
        starts: &'p [Start],
        mut way: Derivation<'p>,
        start: usize,
        packets: &'p [WithHistory],
    ) {
        if way.iter().any(|(other, _)| *other == start) || self.ways.len() >= MOST_WAYS {
            self.several = true;
            return;
        }
        way.push((start, packets));
        let parents = &starts[start].parents;
        for parent in parents {
            self.several |= parent.several;
            self.add(starts, way.clone(), parent.start, &parent.packets[self.number]);
        }
        if parents.is_empty() {
            self.ways.push(way);
        }
    }

    /// Returns the key by which the stateful elements of two chains are paired: class and arguments of the
    /// element, and the start and number of each stream of packets that arrives at it.
    fn key(&self) -> (&'p str, Vec<(usize, u32)>) {
        let came = self.came.iter().map(|came| (came.start, came.stream)).collect();
        (&self.chain.nodes[self.node].key, came)
    }

    /// True if packets of several starts arrive at this element, and some of them have been on a loop.
    fn is_behind_circle(&self, starts: &[Start]) -> bool {
        let first = |way: &Derivation<'_>| way.last().map(|(start, _)| starts[*start].origin);
        come_from_several(self.came.iter().map(|came| &starts[came.start]))
            && self.ways.iter().any(|way| first(way) == Some(Origin::Circle))
    }

    /// Returns the order in which two packets that come from one packet arrive: the first with derivation
    /// `mine` at this element, the second with derivation `theirs` at the element `other`. Each order has the
    /// condition on the packets for which it applies. Empty if the derivations have no start in common.
    fn orders(
        &self,
        d: &Diagrams,
        starts: &[Start],
        mine: &Derivation<'p>,
        other: &Place<'p>,
        theirs: &Derivation<'p>,
    ) -> Vec<(Bit, BranchOrder<'p>)> {
        let common = mine.iter().rev().zip(theirs.iter().rev()).take_while(|((a, _), (b, _))| a == b).count();
        if common == 0 {
            return Vec::new();
        }
        // Returns the element that packets of the last common start reach: the element that makes the packets
        // of the next start in the derivation, or, without a next start, the element of `place` itself.
        let at = |place: &Place<'_>, way: &Derivation<'_>| match (way.len() - common).checked_sub(1) {
            Some(made) => starts[way[made].0].from[self.number],
            None => place.node,
        };
        let (x, y) = (at(self, mine), at(other, theirs));
        let (packets, others) = (mine[mine.len() - common].1, theirs[theirs.len() - common].1);
        let pairs = packets.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
        let orders = pairs.map(|((left, history), (right, other))| {
            (d.and(left, right), BranchHistory::order(self.chain, [(history, x), (other, y)]))
        });
        orders.filter(|(both, _)| !d.is_never(both)).collect()
    }
}

/// True if packets that come from one packet arrive in the same order in both chains: at two stateful
/// elements, or at a single one. `places` has, for each chain, the two elements, which may be the same.
fn come_in_order(d: &Diagrams, starts: &[Start], places: [[&Place<'_>; 2]; 2]) -> bool {
    let [[mine, others], [theirs, elsewhere]] = places;
    let is_one = mine.node == others.node;
    if [mine, others, theirs, elsewhere].iter().any(|place| place.several) {
        return false;
    }
    // Derivations can be compared by index, because packets of one start have the same parents in both
    // chains.
    let pairs = || (0..mine.ways.len()).flat_map(|a| (0..others.ways.len()).map(move |b| (a, b)));
    mine.ways.len() == theirs.ways.len()
        && others.ways.len() == elsewhere.ways.len()
        && pairs().filter(|(a, b)| !is_one || a < b).all(|(a, b)| {
            let left = mine.orders(d, starts, &mine.ways[a], others, &others.ways[b]);
            let right = theirs.orders(d, starts, &theirs.ways[a], elsewhere, &elsewhere.ways[b]);
            let is_known = |(_, order): &(Bit, BranchOrder<'_>)| *order != BranchOrder::Unknown;
            left.iter().chain(&right).all(is_known)
                && left.iter().all(|(packets, order)| {
                    right.iter().all(|(others, other)| order == other || !d.overlap(packets, others))
                })
        })
}

/// Returns the class and arguments of a stateful element for which it is not proven that it receives the same
/// packets in the same order in both chains; `None` if there is no such element. Only elements are checked at
/// which packets of several starts may arrive, or several packets that were made of one packet. All stateful
/// elements are checked if any element is opaque or uses the state of another: then packets at one element
/// may affect the results at another.
pub(super) fn shared_state(
    d: &Diagrams,
    chains: [&Chain; 2],
    streams: &[BTreeMap<usize, Vec<Came>>; 2],
    starts: &[Start],
) -> Option<String> {
    // An opaque element may use the state of other elements without declaring it.
    let uses = |effects: &Effects| !effects.beside.is_empty() || effects.opaque.is_some();
    let is_used = chains.iter().flat_map(|chain| &chain.nodes).any(|node| uses(&node.effects));
    let [mine, theirs] = std::array::from_fn(|number| {
        let chain = chains[number];
        let has_state = |node: usize| {
            let effects = &chain.nodes[node].effects;
            effects.opaque.is_some() || remembers(effects)
        };
        let with_state = streams[number].iter().filter(|(node, _)| has_state(**node));
        let places = with_state.map(|(&node, came)| Place::new(chain, number, node, came, starts));
        let mut places: Vec<Place<'_>> =
            places.filter(|place| is_used || place.came.len() > 1 || place.several).collect();
        places.sort_by_key(Place::key);
        places
    });
    let name = |place: &Place<'_>| Some(place.key().0.to_string());
    let same = |a: &[Place<'_>], b: &[Place<'_>]| -> Option<String> {
        name(a.iter().find(|place| !b.iter().any(|other| other.key() == place.key()))?)
    };
    if !mine.iter().map(Place::key).eq(theirs.iter().map(Place::key)) {
        let odd = same(&mine, &theirs).or_else(|| same(&theirs, &mine));
        return odd.or_else(|| name(mine.first()?)).or_else(|| name(theirs.first()?));
    }
    let both = || mine.iter().zip(&theirs);
    let has_same_front = |n: usize| chains[0].upstream(mine[n].node) == chains[1].upstream(theirs[n].node);
    let mut open = both().enumerate().filter(|(n, (place, other))| {
        let first = if is_used { 0 } else { *n };
        let is_odd = |before: usize| {
            let places = [[&mine[before], *place], [&theirs[before], *other]];
            let has_same_front = has_same_front(before) && has_same_front(*n);
            !(has_same_front || come_in_order(d, starts, places))
        };
        (first..=*n).any(is_odd)
            || [place, other].iter().any(|place| place.is_behind_circle(starts)) && !has_same_front(*n)
    });
    name(open.next()?.1.0)
}

/// Returns the name of an element on a loop whose packets may arrive in a different order in each chain;
/// `None` if there is none. Such a loop is entered by packets of several starts. At least one of these starts
/// is no entry of the chain: an element makes its packets, or they left another loop. The elements upstream,
/// which decide the order, differ between the chains.
pub(super) fn mixed_circle(
    [a, b]: [&Chain; 2],
    loops: &Loops,
    to_circles: &BTreeMap<usize, Vec<usize>>,
    starts: &[Start],
) -> Option<String> {
    let is_mixed = |from: &[usize]| {
        come_from_several(from.iter().map(|&start| &starts[start]))
            && from.iter().any(|&start| starts[start].origin != Origin::Entry)
    };
    let mixed = to_circles.iter().filter(|(_, from)| is_mixed(from));
    let elements = mixed.flat_map(|(&loop_id, _)| loops.elements(loop_id));
    let mut odd = elements.filter(|[x, y]| a.upstream(*x) != b.upstream(*y));
    odd.next().map(|[x, _]| a.nodes[*x].name.clone())
}

/// True if the packets come from more than one element or output. Starts that differ only in the packet's
/// layout count as one.
fn come_from_several<'s>(starts: impl Iterator<Item = &'s Start>) -> bool {
    starts.map(|start| (start.from, start.output)).collect::<BTreeSet<_>>().len() > 1
}
