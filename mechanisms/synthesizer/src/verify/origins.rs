//! Packets that come of one: where they meet, which of them comes first has to be the same in both of two chains.
//!
//! A packet and an error about it, or two errors, start at different places, so that each is followed by itself. What an
//! element with state does with either depends on which comes first. That is the same in both chains if they part at the
//! same element by the same ways, or if all that is in front is the same. It also counts where elements use the state of
//! each other (ICMPRewriter that of rewriters), and where one of them has been on a circle.

use std::collections::{BTreeMap, BTreeSet};

use element::effects::Effects;

use super::circles::Circles;
use super::{Group, Origin, Start};
use crate::model::chain::Chain;
use crate::model::diagrams::{Bit, Diagrams};
use crate::model::step::remembers;
use crate::model::streams::come_twice;
use crate::model::turns::{Order, Turned, Turns};

/// Ways on which packets have come to be that are told apart.
const MOST_WAYS: usize = 256;

/// What has come to an element with state from one start.
pub(super) struct Came {
    /// The number of the start.
    pub(super) start: usize,
    /// All of it, as a number.
    pub(super) stream: u32,
    /// Which packets that started there.
    pub(super) packets: Vec<Turned>,
}

/// Packets of which others were made that start elsewhere.
pub(super) struct Parent {
    /// Where they start.
    start: usize,
    /// Which of them, in each chain.
    packets: [Vec<Turned>; 2],
    /// Whether several were made of one.
    several: bool,
}

impl Parent {
    /// Adds the packets of which these were made in each chain.
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

/// One way on which packets have come to be: where they started, the last start first, and which packets there.
type Way<'w> = Vec<(usize, &'w [Turned])>;

/// An element with state, and what has come to it in one chain.
struct Place<'p> {
    chain: &'p Chain,
    number: usize,
    node: usize,
    came: &'p [Came],
    ways: Vec<Way<'p>>,
    /// Whether several packets on one of these ways come of one, or there are too many ways.
    several: bool,
}

impl<'p> Place<'p> {
    fn new(chain: &'p Chain, number: usize, node: usize, came: &'p [Came], starts: &'p [Start]) -> Place<'p> {
        let mut place = Place { chain, number, node, came, ways: Vec::new(), several: false };
        came.iter().for_each(|came| place.add(starts, Vec::new(), came.start, &came.packets));
        place
    }

    /// Adds the ways by which packets have come to start somewhere.
    fn add(&mut self, starts: &'p [Start], mut way: Way<'p>, start: usize, packets: &'p [Turned]) {
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

    /// Class and arguments, and what has come from where.
    fn key(&self) -> (&'p str, Vec<(usize, u32)>) {
        let came = self.came.iter().map(|came| (came.start, came.stream)).collect();
        (&self.chain.nodes[self.node].key, came)
    }

    /// Whether packets from several places come here, and some have been on a circle.
    fn is_behind_circle(&self, starts: &[Start]) -> bool {
        let first = |way: &Way<'_>| way.last().map(|(start, _)| starts[*start].origin);
        come_from_several(self.came.iter().map(|came| &starts[came.start]))
            && self.ways.iter().any(|way| first(way) == Some(Origin::Circle))
    }

    /// Which of two packets that come of one, on a way to here and on one to another place, is first, for those that do.
    fn orders(
        &self,
        d: &Diagrams,
        starts: &[Start],
        mine: &Way<'p>,
        other: &Place<'p>,
        theirs: &Way<'p>,
    ) -> Vec<(Bit, Order<'p>)> {
        let common = mine.iter().rev().zip(theirs.iter().rev()).take_while(|((a, _), (b, _))| a == b).count();
        if common == 0 {
            return Vec::new();
        }
        // Where they are when they start elsewhere, or come here.
        let at = |place: &Place<'_>, way: &Way<'_>| match (way.len() - common).checked_sub(1) {
            Some(made) => starts[way[made].0].from[self.number],
            None => place.node,
        };
        let (x, y) = (at(self, mine), at(other, theirs));
        let (packets, others) = (mine[mine.len() - common].1, theirs[theirs.len() - common].1);
        let pairs = packets.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
        let orders = pairs.map(|((left, turns), (right, other))| {
            (d.and(left, right), Turns::order(self.chain, [(turns, x), (other, y)]))
        });
        orders.filter(|(both, _)| !d.is_never(both)).collect()
    }
}

/// Whether packets that come of one come in the same order to two places, or one, in both chains.
fn come_in_order(d: &Diagrams, starts: &[Start], places: [[&Place<'_>; 2]; 2]) -> bool {
    let [[mine, others], [theirs, elsewhere]] = places;
    let is_one = mine.node == others.node;
    if [mine, others, theirs, elsewhere].iter().any(|place| place.several) {
        return false;
    }
    // What starts at one place has come there in the same ways in both chains.
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

/// An element with state that packets from several places come to, if they are not the same in both chains, or not in the
/// same order where they come of one. Where elements use the state of others, what comes to one decides what another one
/// does, so that it has to be the same wherever there is state.
pub(super) fn shared_state(
    d: &Diagrams,
    chains: [&Chain; 2],
    streams: &[BTreeMap<usize, Vec<Came>>; 2],
    starts: &[Start],
) -> Option<String> {
    // Whoever is opaque may do so without saying it.
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

/// An element of a circle to which packets come that may have been made of others that come to it, if what is in front of
/// it is not the same in both chains: that decides which come first.
pub(super) fn mixed_circle(
    [a, b]: [&Chain; 2],
    circles: &Circles,
    to_circles: &BTreeMap<usize, Vec<usize>>,
    starts: &[Start],
) -> Option<String> {
    let is_mixed = |from: &[usize]| {
        come_from_several(from.iter().map(|&start| &starts[start]))
            && from.iter().any(|&start| starts[start].origin != Origin::Entry)
    };
    let mixed = to_circles.iter().filter(|(_, from)| is_mixed(from));
    let elements = mixed.flat_map(|(&circle, _)| circles.elements(circle));
    let mut odd = elements.filter(|[x, y]| a.upstream(*x) != b.upstream(*y));
    odd.next().map(|[x, _]| a.nodes[*x].name.clone())
}

/// Whether packets start at several places, rather than being laid out in several ways at one.
fn come_from_several<'s>(starts: impl Iterator<Item = &'s Start>) -> bool {
    starts.map(|start| (start.from, start.output)).collect::<BTreeSet<_>>().len() > 1
}
