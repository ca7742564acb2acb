//! The order of packets from one input packet: where they meet, it has to be equal in both of two chains.
//!
//! A packet and an error about it, or two errors, have different starts, so each is followed separately.
//! The effect of a stateful element on them depends on their order. The order is equal in both chains if
//! they separate at the same element by the same branches, or if all elements upstream are equal. The order
//! also matters where elements use the state of other elements (ICMPRewriter uses the state of rewriters),
//! and where one of the packets has been on a loop.

use std::collections::{BTreeMap, BTreeSet};

use element::effects::Effects;

use super::loops::Loops;
use super::{Group, Origin, Start};
use crate::model::branches::{BranchHistory, Order, Turned};
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::step::remembers;
use crate::model::streams::come_twice;
use program::chain::Chain;

/// The maximum number of derivations of packets that are distinguished.
const MOST_WAYS: usize = 256;

/// The packets of one start that arrive at a stateful element.
pub(super) struct Came {
    /// The number of the start.
    pub(super) start: usize,
    /// The number of the stream.
    pub(super) stream: u32,
    /// The condition and the branch history of the packets of that start.
    pub(super) packets: Vec<Turned>,
}

/// The packets of one start from which packets of another start were made.
pub(super) struct Parent {
    /// The number of that start.
    start: usize,
    /// The conditions and branch histories of the original packets, in each chain.
    packets: [Vec<Turned>; 2],
    /// True if several packets were made of one.
    several: bool,
}

impl Parent {
    /// Adds the packets from which these packets were made in each chain.
    pub(super) fn add(d: &Diagrams, parents: &mut Vec<Parent>, start: usize, made: [&Group<'_>; 2]) {
        let several = made.iter().any(|group| come_twice(d, group.iter().map(|made| &made.arrival)));
        let packets = made.map(|group| {
            let arrivals = group.iter().map(|made| &made.arrival);
            arrivals.map(|arrival| (arrival.condition.clone(), arrival.turns.clone())).collect::<Vec<_>>()
        });
        match parents.iter_mut().find(|parent| parent.start == start) {
            Some(parent) => {
                let meet = |all: &[Turned], more: &[Turned]| {
                    all.iter().any(|(one, _)| more.iter().any(|(other, _)| d.overlap(one, other)))
                };
                parent.several |= several || (0..2).any(|n| meet(&parent.packets[n], &packets[n]));
                parent.packets.iter_mut().zip(packets).for_each(|(all, more)| all.extend(more));
            }
            None => parents.push(Parent { start, packets, several }),
        }
    }
}

/// A derivation of packets: their starts, the last one first, each with the packets of that start.
type Derivation<'w> = Vec<(usize, &'w [Turned])>;

/// A stateful element of one chain, with the packets that arrive there.
struct Place<'p> {
    chain: &'p Chain,
    number: usize,
    node: usize,
    came: &'p [Came],
    ways: Vec<Derivation<'p>>,
    /// True if several packets of one derivation come from one packet, or if there are too many
    /// derivations.
    several: bool,
}

impl<'p> Place<'p> {
    fn new(chain: &'p Chain, number: usize, node: usize, came: &'p [Came], starts: &'p [Start]) -> Place<'p> {
        let mut place = Place { chain, number, node, came, ways: Vec::new(), several: false };
        came.iter().for_each(|came| place.add(starts, Vec::new(), came.start, &came.packets));
        place
    }

    /// Adds the derivations of packets of a start.
    fn add(&mut self, starts: &'p [Start], mut way: Derivation<'p>, start: usize, packets: &'p [Turned]) {
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

    /// Returns class and arguments, and the streams that arrive, by start.
    fn key(&self) -> (&'p str, Vec<(usize, u32)>) {
        let came = self.came.iter().map(|came| (came.start, came.stream)).collect();
        (&self.chain.nodes[self.node].key, came)
    }

    /// True if packets of several starts arrive here, and some have been on a loop.
    fn is_behind_circle(&self, starts: &[Start]) -> bool {
        let first = |way: &Derivation<'_>| way.last().map(|(start, _)| starts[*start].origin);
        come_from_several(self.came.iter().map(|came| &starts[came.start]))
            && self.ways.iter().any(|way| first(way) == Some(Origin::Circle))
    }

    /// Returns the order of two packets that come from one, one with a derivation here and one with a
    /// derivation at another place, with the condition for each order.
    fn orders(
        &self,
        d: &Diagrams,
        starts: &[Start],
        mine: &Derivation<'p>,
        other: &Place<'p>,
        theirs: &Derivation<'p>,
    ) -> Vec<(Bit, Order<'p>)> {
        let common = mine.iter().rev().zip(theirs.iter().rev()).take_while(|((a, _), (b, _))| a == b).count();
        if common == 0 {
            return Vec::new();
        }
        // Returns the element at which the packets of a derivation end: the next start, or this place.
        let at = |place: &Place<'_>, way: &Derivation<'_>| match (way.len() - common).checked_sub(1) {
            Some(made) => starts[way[made].0].from[self.number],
            None => place.node,
        };
        let (x, y) = (at(self, mine), at(other, theirs));
        let (packets, others) = (mine[mine.len() - common].1, theirs[theirs.len() - common].1);
        let pairs = packets.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
        let orders = pairs.map(|((left, turns), (right, other))| {
            (d.and(left, right), BranchHistory::order(self.chain, [(turns, x), (other, y)]))
        });
        orders.filter(|(both, _)| !d.is_never(both)).collect()
    }
}

/// True if packets that come from one packet arrive at two places, or at one, in equal order in both
/// chains.
fn come_in_order(d: &Diagrams, starts: &[Start], places: [[&Place<'_>; 2]; 2]) -> bool {
    let [[mine, others], [theirs, elsewhere]] = places;
    let is_one = mine.node == others.node;
    if [mine, others, theirs, elsewhere].iter().any(|place| place.several) {
        return false;
    }
    // Packets of one start have the same derivations in both chains.
    let pairs = || (0..mine.ways.len()).flat_map(|a| (0..others.ways.len()).map(move |b| (a, b)));
    mine.ways.len() == theirs.ways.len()
        && others.ways.len() == elsewhere.ways.len()
        && pairs().filter(|(a, b)| !is_one || a < b).all(|(a, b)| {
            let left = mine.orders(d, starts, &mine.ways[a], others, &others.ways[b]);
            let right = theirs.orders(d, starts, &theirs.ways[a], elsewhere, &elsewhere.ways[b]);
            let is_known = |(_, order): &(Bit, Order<'_>)| *order != Order::Unknown;
            left.iter().chain(&right).all(is_known)
                && left.iter().all(|(packets, order)| {
                    right.iter().all(|(others, other)| order == other || !d.overlap(packets, others))
                })
        })
}

/// Returns a stateful element that packets of several starts reach, if they are not equal in both chains,
/// or if packets that come from one packet do not arrive in equal order. If elements use the state of
/// others, packets at one element decide the result of another, so the order must be equal at all stateful
/// elements.
pub(super) fn shared_state(
    d: &Diagrams,
    chains: [&Chain; 2],
    streams: &[BTreeMap<usize, Vec<Came>>; 2],
    starts: &[Start],
) -> Option<String> {
    // An opaque element may use other elements' state without declaring it.
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

/// Returns an element of a loop that receives packets together with packets that may have been made of
/// them, if the elements upstream are not equal in both chains: these decide the order.
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
    let elements = mixed.flat_map(|(&circle, _)| loops.elements(circle));
    let mut odd = elements.filter(|[x, y]| a.upstream(*x) != b.upstream(*y));
    odd.next().map(|[x, _]| a.nodes[*x].name.clone())
}

/// True if packets have several starts, not only several layouts at one start.
fn come_from_several<'s>(starts: impl Iterator<Item = &'s Start>) -> bool {
    starts.map(|start| (start.from, start.output)).collect::<BTreeSet<_>>().len() > 1
}
